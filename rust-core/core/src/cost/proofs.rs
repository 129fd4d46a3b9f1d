//! What each kind of proof costs beside the records: one function a kind, in bytes unless something else is said.

use super::sizes::{
    KIND_BYTES, MANIFEST_POINTPROOFS_BYTES, POINTPROOFS_KEY_BYTES, POINTPROOFS_OPENING_BYTES,
    POINTPROOFS_ROW_LIST_HEADER_BYTES, POINTPROOFS_ROW_RECORDS,
};
use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Commit, Merkle, POINTPROOF_BYTES, Proofs};
use crate::layout::Layout;

/// For one kind of proof under a layout.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProofCosts {
    /// tags that a hint holds
    pub tag_bytes: u64,
    /// what a hint's stored form has beside them
    pub kind_bytes: u64,
    /// what a server keeps to make proofs
    pub tree_bytes: u64,
    /// hashes to verify an entry
    pub entry_hashes: u64,
    /// hashes to check the block that a query recovers
    pub recovered_hashes: u64,
    /// what a client downloads once to verify with
    pub verifier_bytes: u64,
    /// in the manifest
    pub manifest_bytes: u64,
    /// in an update list, for each row that changes
    pub row_bytes: u64,
    /// rows of the database
    pub rows: u64,
    /// more nanoseconds of the server for an entry
    pub entry_nanos: u64,
}

impl ProofCosts {
    pub(super) fn of(proofs: Proofs, layout: &Layout) -> Self {
        match proofs {
            Proofs::Openings => openings(layout),
            Proofs::Tags => tags(layout),
            Proofs::Pointproofs => pointproofs(layout),
        }
    }
}

fn openings(layout: &Layout) -> ProofCosts {
    ProofCosts {
        tree_bytes: (layout.partitions() * Merkle::auxiliary_bytes(layout)) as u64,
        entry_hashes: Merkle::hashes_of_entry(layout) as u64,
        ..ProofCosts::default()
    }
}

fn tags(layout: &Layout) -> ProofCosts {
    ProofCosts {
        tag_bytes: (TAG_BYTES * layout.slots()) as u64,
        kind_bytes: TAG_BYTES as u64, // their point
        entry_hashes: 1,
        recovered_hashes: 1,
        ..ProofCosts::default()
    }
}

/// Its trees are for instant lookups.
fn pointproofs(layout: &Layout) -> ProofCosts {
    let partitions = layout.partitions() as u64;
    let rows = layout.partition_records().div_ceil(POINTPROOFS_ROW_RECORDS) as u64;
    let row_list_bytes = POINTPROOFS_ROW_LIST_HEADER_BYTES + rows * POINTPROOF_BYTES as u64;
    ProofCosts {
        kind_bytes: KIND_BYTES,
        tree_bytes: openings(layout).tree_bytes + POINTPROOFS_OPENING_BYTES * layout.slots() as u64,
        entry_hashes: 1,
        verifier_bytes: POINTPROOFS_KEY_BYTES + partitions * row_list_bytes,
        manifest_bytes: MANIFEST_POINTPROOFS_BYTES,
        row_bytes: POINTPROOF_BYTES as u64,
        rows: partitions * rows,
        entry_nanos: 300_000,
        ..ProofCosts::default()
    }
}
