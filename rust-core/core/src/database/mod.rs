//! The server's side: flat records and their digests, the batches that change them, and the lists that tell of it.

pub mod content;
pub mod epoch;
pub mod flat;
pub mod generation;
pub mod lanes;
pub mod list;
pub mod write;
