//! Vector commitments: commit to the M records of a partition, prove one, verify the proof (papers: TAPIR, §2.1).
//!
//! Outside this module nothing knows more of the scheme in use than its name and sizes.

pub mod merkle;

pub use merkle::Merkle;

use crate::layout::Layout;

/// Bytes of a commitment, whatever the scheme.
pub const COMMITMENT_BYTES: usize = 32;

/// A deterministic, binding vector commitment over one partition. What a server keeps to open offsets is flat bytes
/// (`auxiliary`), so that a whole database needs one buffer.
pub trait VectorCommitment {
    /// The suite's name in `/v1/info`.
    const NAME: &'static str;

    /// Bytes of every opening proof under this layout.
    fn proof_bytes(layout: &Layout) -> usize;

    /// Bytes a server keeps for one partition.
    fn auxiliary_bytes(layout: &Layout) -> usize;

    /// Fills `auxiliary` for a partition's M·ℓ bytes.
    fn build(layout: &Layout, partition: &[u8], auxiliary: &mut [u8]);

    /// The commitment to what `auxiliary` was built for.
    fn commitment(auxiliary: &[u8]) -> [u8; COMMITMENT_BYTES];

    /// Writes the proof of `offset` into `proof`.
    fn open(layout: &Layout, auxiliary: &[u8], offset: usize, proof: &mut [u8]);

    /// Whether `commitment` has `record` at `offset`. The offset is the verifier's own, the proof's length the
    /// layout's. Takes the same steps whatever the answer.
    fn verify(layout: &Layout, commitment: &[u8; COMMITMENT_BYTES], offset: usize, record: &[u8], proof: &[u8])
    -> bool;

    /// Brings `auxiliary` up to date after the record at `offset` became `record`.
    fn update(layout: &Layout, auxiliary: &mut [u8], offset: usize, record: &[u8]);
}
