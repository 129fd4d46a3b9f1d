//! The algorithms of TAPIR (papers: Falzon, Hetz, O'Toole; over SinglePass by Lazzaretti and Papamanthou),
//! pure: bytes in, bytes out. No I/O, no clock, no JavaScript; randomness comes in as entropy.
//!
//! Client: [`hint::HintBuilder`] folds streamed partitions into a [`hint::Hint`] (Fig. 4); [`query`] makes a pending
//! batch of queries from it and [`recon`] turns verified answers into records and the next hint (Fig. 5).
//! Server: [`answer::Database`] holds flat records and their commitments and answers; [`epoch`] applies a publisher's
//! batch to it and yields the [`update::UpdateList`] that clients apply to their hints (Fig. 6); [`generation`] begins
//! anew over the same records.
//! Both: [`layout::Layout`] says who is where, [`directory::Directory`] maps keys to record indices, [`cost::Plan`] tells
//! what a database will cost.
//!
//! Indices, partitions and offsets count from 0 (the paper counts from 1).

pub mod answer;
pub mod commitment;
pub mod content;
pub mod cost;
pub mod directory;
pub mod epoch;
pub mod error;
pub mod generation;
pub mod hint;
pub mod key;
pub mod layout;
pub mod permutation;
pub mod query;
pub mod random;
pub mod recon;
pub mod state;
pub mod update;

pub use error::Error;
