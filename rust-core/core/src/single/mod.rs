//! Lookups that assume nothing of anybody: one server, and hints that the client makes of the whole database as it streams by
//! (papers: S3PIR, Mughees, Sun and Ren, Algorithms 2, 4, 5, with the corrections that docs/threat-model.md lists).
//!
//! The database is q *stripes* of s records. A hint names half of the stripes and one besides, a record in each, and keeps
//! their XOR. A lookup takes a hint that contains the record, leaves the record out, and sends the q/2 others as one subset
//! and a record of each remaining stripe as another, in an order that a coin decides; so every stripe is in one of the two.
//! The hint is spent; a backup, which contains the record again, takes its place.
//!
//! Given a random function, whatever was asked, what the server sees is uniform and independent of it, and so are the slots
//! after it: for any number of hints and any sequence of lookups, also of a server that lies (core/tests/single.rs).

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
