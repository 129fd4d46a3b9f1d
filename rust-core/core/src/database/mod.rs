//! The server's database: its records and digests, the batches that change them, and the update lists for clients.

pub mod content;
pub mod epoch;
pub mod flat;
pub mod generation;
pub mod lanes;
pub mod list;
pub mod write;
