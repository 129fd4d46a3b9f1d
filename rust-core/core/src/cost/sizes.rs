//! Sizes of everything around records, proofs and offsets: on the wire (docs/protocol.md) and in stored forms.

// On the wire (docs/protocol.md).
pub(super) const SERVERS: u64 = 2;
pub(super) const OFFSET_BYTES: u64 = 2;
pub(super) const MESSAGE_HEADER_BYTES: u64 = 40;
/// In an instant request for three servers or more: their number, and the queries' form.
pub(super) const SHARING_BYTES: u64 = 2;
pub(super) const MANIFEST_HEADER_BYTES: u64 = 224;
pub(super) const MANIFEST_PARTITION_BYTES: u64 = 64;
pub(super) const UPDATE_LIST_HEADER_BYTES: u64 = 40;
pub(super) const UPDATE_ENTRY_HEAD_BYTES: u64 = 5;
pub(super) const FENCE_REQUEST_BYTES: u64 = 80;
pub(super) const FENCE_REPLY_BYTES: u64 = 8;

// Stored forms (state/): the frame with its checksum, the layout, the manifest's hash, a number of queries.
pub(super) const FRAME_BYTES: u64 = 48;
pub(super) const LAYOUT_BYTES: u64 = 16;
pub(super) const BINDING_BYTES: u64 = 32;
pub(super) const COUNT_BYTES: u64 = 4;
pub(super) const KIND_BYTES: u64 = 4;

const LEAST_JOURNAL_BYTES: u64 = 256 << 10;
const STATES_A_JOURNAL: u64 = 8;

/// The bytes of journal after which a client writes a new checkpoint: an eighth of the `held_bytes` of its hint (parities,
/// permutations, tags), and at least 256 KiB.
#[must_use]
pub fn journal_limit(held_bytes: u64) -> u64 {
    LEAST_JOURNAL_BYTES.max(held_bytes / STATES_A_JOURNAL)
}
