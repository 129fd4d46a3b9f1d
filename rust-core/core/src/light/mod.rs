//! Light hints: made by the refresh server, checked with tags from the retrieve server (docs/protocol.md, Light hints).
//!
//! The refresh server is shown the seed of the permutations and makes the parities; the retrieve server is shown the key
//! of a linear hash and tags every slot. Neither has what it would need to lie unnoticed: the parities are checked
//! against the tags, column by column, and the tags against a sum of all slots under challenge words that the retrieve
//! server never sees. Without the latter check the retrieve server could spoil two tags and learn from the outcome whether
//! they share a column.
//!
//! For a hint that is to keep tags, the refresh server tags the slots as well, under a key of its own, and the retrieve
//! server sums them up under challenge words of its own. Neither knows both keys, so the sum of both tags proves an entry
//! of an answer, whichever server it is from.
//!
//! Client: [`attempt`], by [`checks`]. Servers: [`making`].

pub mod attempt;
pub mod checks;
pub mod making;

use keyhush_kernels::light::sum_bytes;
use keyhush_kernels::linear::TAG_BYTES;

use crate::commitment::Proofs;
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;

/// Bytes of what the refresh server is shown: the permutations' seed and the challenge's; for a hint that is to keep tags,
/// the point of its own tags besides.
#[must_use]
pub fn parities_request_bytes(proofs: Proofs) -> usize {
    2 * ENTROPY_BYTES + if proofs == Proofs::Tags { TAG_BYTES } else { 0 }
}

/// Bytes of what the retrieve server is shown: the point of its tags; for a hint that is to keep tags, the seed of a
/// challenge of its own besides.
#[must_use]
pub fn tags_request_bytes(proofs: Proofs) -> usize {
    TAG_BYTES + if proofs == Proofs::Tags { ENTROPY_BYTES } else { 0 }
}

/// Bytes of the refresh server's reply: M parities and a challenge sum; for a hint that is to keep tags, (Q − 1)·M tags
/// besides. (Those of the last partition follow from the parities.) They may be more than a machine can address.
#[must_use]
pub fn parities_reply_bytes(layout: &Layout, proofs: Proofs) -> u64 {
    let crosswise = if proofs == Proofs::Tags { layout.slots() - layout.partition_records() } else { 0 };
    (layout.partition_bytes() + sum_bytes(layout.record_bytes())) as u64 + crosswise as u64 * TAG_BYTES as u64
}

/// Bytes of the retrieve server's reply: for a hint that is to keep tags, a challenge sum; then Q·M tags.
#[must_use]
pub fn tags_reply_bytes(layout: &Layout, proofs: Proofs) -> u64 {
    let sum = if proofs == Proofs::Tags { sum_bytes(layout.record_bytes()) } else { 0 };
    sum as u64 + layout.slots() as u64 * TAG_BYTES as u64
}
