//! Vector commitments: commit to the M records of a partition, prove one, verify the proof (papers: TAPIR, §2.1).
//!
//! Outside this module nothing knows more of the scheme in use than its name and sizes.

pub mod merkle;

pub use merkle::Merkle;

use crate::layout::Layout;

/// Bytes of a commitment, whatever the scheme.
pub const COMMITMENT_BYTES: usize = 32;

/// Bytes of one cell of what a server keeps to open offsets, and of a proof.
pub const CELL_BYTES: usize = 32;

/// A deterministic, binding vector commitment over one partition. What a server keeps to open offsets is flat bytes
/// (`auxiliary`), so that a whole database needs one buffer; proofs are copied out of it cell by cell, so that a server
/// can patch single cells to answer at an epoch it has left.
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

    /// The numbers of the cells that prove `offset`, in order; `None` stands for zeros.
    fn proof_cells(layout: &Layout, offset: usize) -> impl Iterator<Item = Option<usize>>;

    /// Whether `commitment` has `record` at `offset`. The offset is the verifier's own, the proof's length the
    /// layout's. Takes the same steps whatever the answer.
    fn verify(layout: &Layout, commitment: &[u8; COMMITMENT_BYTES], offset: usize, record: &[u8], proof: &[u8])
    -> bool;

    /// Brings `auxiliary` up to date after records changed: (offset, new record), strictly ascending by offset.
    /// `overwriting` is told each cell's number and old content before it changes, once a cell, in ascending order.
    fn update<'a>(
        layout: &Layout,
        auxiliary: &mut [u8],
        changes: impl Iterator<Item = (usize, &'a [u8])>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    );

    /// Writes the proof of `offset` into `proof`.
    fn open(layout: &Layout, auxiliary: &[u8], offset: usize, proof: &mut [u8]) {
        for (cell, into) in Self::proof_cells(layout, offset).zip(proof.chunks_exact_mut(CELL_BYTES)) {
            match cell {
                Some(cell) => into.copy_from_slice(&auxiliary[cell * CELL_BYTES..][..CELL_BYTES]),
                None => into.fill(0),
            }
        }
    }
}
