//! The algorithms of Keyhush: TAPIR (papers: Falzon, Hetz, O'Toole; over SinglePass by Lazzaretti and Papamanthou) and the
//! modes beside it. Pure: bytes in, bytes out. No I/O, no clock, no JavaScript; callers pass randomness in as entropy.
//!
//! | half | module | what it does |
//! |---|---|---|
//! | client | [`tapir::hint::HintBuilder`] | folds streamed partitions into a [`tapir::hint::Hint`] (Fig. 4) |
//! | client | [`tapir::query`] | makes the queries of a lookup from a hint (Fig. 5) |
//! | client | [`tapir::recon`] | turns verified answers into records and the next hint (Fig. 5) |
//! | client | [`tapir::update`] | applies an update list to a hint (Fig. 6) |
//! | client | [`local::Local`] | holds the whole database, for lookups without queries |
//! | server | [`database::flat::Database`] | holds the records and the data that opens their commitments |
//! | server | [`suites`] | answers queries from a database |
//! | server | [`database::epoch`] | turns a publisher's batch into a [`database::list::UpdateList`] (Fig. 6) |
//! | server | [`database::generation`] | plans and fills a new generation with the same records |
//! | both | [`instant`] | lookups without a hint |
//! | both | [`single`] | lookups with one server |
//! | both | [`one_server`] | lookups with one server, without a download before them |
//! | both | [`layout::Layout`] | the partition and offset of each record |
//! | both | [`directory::Directory`] | maps keys to record indices |
//! | both | [`cost::Plan`] | computes what a database costs |
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
pub mod one_server;
pub mod random;
pub mod scheme;
pub mod single;
pub mod stored;
pub mod suites;
pub mod tapir;

pub use error::Error;
