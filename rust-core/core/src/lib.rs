//! The algorithms of TAPIR (papers: Falzon, Hetz, O'Toole; over SinglePass by Lazzaretti and Papamanthou),
//! pure: bytes in, bytes out. No I/O, no clock, no JavaScript; randomness comes in as entropy.
//!
//! Client: [`tapir::hint::HintBuilder`] folds streamed partitions into a [`tapir::hint::Hint`] (Fig. 4); [`tapir::query`] makes a pending
//! batch of queries from it and [`tapir::recon`] turns verified answers into records and the next hint (Fig. 5).
//! A client that keeps the whole database instead has a [`local::Local`].
//! Server: [`database::flat::Database`] holds flat records and what opens their commitments; [`suites`] answers from it; [`database::epoch`] applies a publisher's batch and yields the
//! [`database::list::UpdateList`] that clients apply to their hints (Fig. 6, [`tapir::update`]);
//! [`database::generation`] begins anew over the same records.
//! Lookups without a hint: [`instant`]; with one server: [`single`].
//! Both: [`layout::Layout`] says who is where, [`directory::Directory`] maps keys to record indices, [`cost::Plan`] tells
//! what a database will cost.
//!
//! Indices, partitions and offsets count from 0 (the paper counts from 1).

pub(crate) mod bytes;
pub mod commitment;
pub mod cost;
pub mod database;
pub mod directory;
pub mod error;
pub mod instant;
pub mod key;
pub mod layout;
pub mod local;
pub mod random;
pub mod scheme;
pub mod single;
pub mod suites;
pub mod tapir;

pub use error::Error;
