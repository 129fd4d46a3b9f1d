//! Mode `single`: private lookups with one server, which nobody has to trust. The client makes hints from the whole database
//! as it streams by (papers: S3PIR, Mughees, Sun and Ren, Algorithms 2, 4, 5, with the corrections in docs/threat-model.md).
//!
//! - The database is q *stripes* of s records.
//! - A hint names a record in each stripe of one half, and one record of another stripe, its extra. It has their XOR.
//! - A lookup takes a hint that contains the wanted record, and leaves that record out. The other q/2 records are one subset.
//!   A record of each remaining stripe is the other subset. A coin decides their order. So each stripe is in one of the two.
//! - The hint is spent. A backup that contains the record takes its place.
//!
//! With a random function, what the server sees is uniform and independent of what was asked; so are the slots after it.
//! This holds for any number of hints and any sequence of lookups, and for a server that lies (core/tests/single.rs).

pub mod answer;
mod client;
pub(crate) mod drawing;
mod edits;
mod folding;
pub mod geometry;
pub mod hint;
pub mod making;
pub mod query;
pub mod recon;
pub mod state;
pub mod streams;
mod table;
pub mod update;

pub use table::{NamedRow, RowName};
