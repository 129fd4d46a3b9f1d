//! Light hints: made by the refresh server, checked with tags from the retrieve server (docs/protocol.md, Light hints).
//!
//! The refresh server is shown the seed of the permutations and makes the parities; the retrieve server is shown the key
//! of a linear hash and tags every slot. Neither has what it would need to lie unnoticed: the parities are checked
//! against the tags, column by column, and the tags against sums of slots under challenge words that the retrieve server
//! never sees. Without the latter check the retrieve server could spoil two tags and learn from the outcome whether they
//! share a column.
//!
//! Client: [`attempt`]. Servers: [`making`].

pub mod attempt;
pub mod making;

use pirouette_kernels::light::CHALLENGES;
use pirouette_kernels::linear::TAG_BYTES;

use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;

/// Bytes of what the refresh server is shown: the permutations' seed and the challenges'.
pub const PARITIES_REQUEST_BYTES: usize = 2 * ENTROPY_BYTES;
/// Bytes of what the retrieve server is shown: the point that tags are made under.
pub const TAGS_REQUEST_BYTES: usize = TAG_BYTES;

/// Bytes of the refresh server's reply: M parities and 64 challenge sums.
#[must_use]
pub fn parities_reply_bytes(layout: &Layout) -> usize {
    layout.partition_bytes() + CHALLENGES * layout.record_bytes()
}

/// Bytes of the retrieve server's reply: Q·M tags.
#[must_use]
pub fn tags_reply_bytes(layout: &Layout) -> usize {
    layout.slots() * TAG_BYTES
}
