//! What a hint costs, for each kind of proof.

use super::sizes::{
    BINDING_BYTES, COUNT_BYTES, FENCE_REPLY_BYTES, FENCE_REQUEST_BYTES, FRAME_BYTES, KIND_BYTES, LAYOUT_BYTES,
    MANIFEST_HEADER_BYTES, MANIFEST_PARTITION_BYTES, MESSAGE_HEADER_BYTES, OFFSET_BYTES, SERVERS,
    UPDATE_ENTRY_HEAD_BYTES, UPDATE_LIST_HEADER_BYTES, journal_limit,
};
use super::workload::{Workload, micros};
use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Commit, Merkle, Proofs};
use crate::database::content::{CONTENT_HASH_BYTES, ContentTree};
use crate::database::lanes::LANES;
use crate::key::SECRET_BYTES;
use crate::layout::Layout;
use crate::stored::NAME_BYTES;

/// The kind of proof for a client that may hold `memory_bytes`, if servers offer both: tags, if they fit beside parities,
/// permutations and directory.
#[must_use]
pub fn suitable_proofs(layout: &Layout, directory_bytes: u64, memory_bytes: u64) -> Proofs {
    let a_slot = OFFSET_BYTES + TAG_BYTES as u64;
    let with_tags = layout.partition_bytes() as u64 + a_slot * layout.slots() as u64 + directory_bytes;
    if with_tags <= memory_bytes { Proofs::Tags } else { Proofs::Openings }
}

/// The costs of one kind of proof under a layout. In bytes, unless something else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// one entry of an answer
    pub entry_bytes: u64,
    /// parities: M·ℓ
    pub hint_bytes: u64,
    /// permutations: 2·Q·M′
    pub permutation_bytes: u64,
    /// tags: 8·Q·M′; 0 with other proofs
    pub tag_bytes: u64,
    /// with a package's proofs, the key and the row lists, which verify answers; 0 with other proofs
    pub verifier_bytes: u64,
    /// the expected size of the directory (its actual size depends on the keys); 0 without keys
    pub directory_bytes: u64,
    /// what a client holds between lookups: the sum of the above, without the entry
    pub memory_bytes: u64,
    /// more memory during the offline phase: a partition from each server
    pub download_memory_bytes: u64,
    /// one manifest
    pub manifest_bytes: u64,
    /// Q·M·ℓ
    pub database_bytes: u64,
    /// downloaded once: both manifests, the directory, the database, and what verifies answers
    pub offline_bytes: u64,
    /// the offline phase on the workload's downlink, without computing
    pub offline_micros: u64,
    /// both requests of a lookup
    pub lookup_bytes_up: u64,
    /// both answers of a lookup
    pub lookup_bytes_down: u64,
    /// both, one after the other, on the workload's connection, without latency
    pub lookup_micros: u64,
    /// hashes that verify a lookup: BLAKE3 with openings, linear hashes with tags; with a package's proofs, records hashed to scalars
    pub lookup_hashes: u64,
    /// a lookup's request to the rollback fence
    pub fence_bytes_up: u64,
    /// the fence's reply
    pub fence_bytes_down: u64,
    /// the update list of a day
    pub update_list_bytes: u64,
    /// downloaded for a day's changes: the list and both manifests
    pub update_bytes: u64,
    /// uploaded in a day: lookups and fence
    pub day_bytes_up: u64,
    /// downloaded in a day: lookups, fence and changes
    pub day_bytes_down: u64,
    /// a stored hint
    pub checkpoint_bytes: u64,
    /// a stored pending lookup
    pub pending_bytes: u64,
    /// the journal entry of a lookup
    pub effect_bytes: u64,
    /// the most journal that lookups write if there are pauses between them (a checkpoint waits for a pause)
    pub journal_bytes: u64,
    /// what a server keeps to open commitments
    pub tree_bytes: u64,
    /// what a server keeps so that an edit does not rehash a partition
    pub content_bytes: u64,
    /// a server's memory: database, trees, content hashes, directory
    pub server_bytes: u64,
    /// leaves and nodes that a server hashes once, for its commitments; 0 if it offers tags only
    pub digest_hashes: u64,
}

impl Costs {
    /// The costs of `proofs` under `layout`, for a `workload`.
    pub(super) fn new(layout: &Layout, directory_bytes: u64, workload: &Workload, proofs: Proofs) -> Self {
        let [record_bytes, block_bytes, partitions, slots] =
            [layout.stored().record_bytes, layout.record_bytes(), layout.partitions(), layout.slots()]
                .map(|number| number as u64);
        let [partition_bytes, database_bytes] =
            [layout.partition_bytes(), layout.database_bytes()].map(|number| number as u64);
        let Workload { queries, changes_per_day: changes, lookups_per_day: lookups, .. } = *workload;
        let [entry_bytes, auxiliary_bytes] =
            [proofs.entry_bytes::<Merkle>(layout), Merkle::auxiliary_bytes(layout)].map(|number| number as u64);

        let entries = SERVERS * partitions;
        let (tag_bytes, tag_key_bytes, tree_bytes, lookup_hashes) = match proofs {
            Proofs::Openings => {
                (0, 0, partitions * auxiliary_bytes, queries * entries * Merkle::hashes_of_entry(layout) as u64)
            }
            // The recovered block of each query is checked too.
            Proofs::Tags => (TAG_BYTES as u64 * slots, TAG_BYTES as u64, 0, queries * (entries + 1)),
            Proofs::Packaged(kind) => {
                (0, KIND_BYTES, partitions * auxiliary_bytes + kind.opening_bytes * slots, queries * entries)
            }
        };
        let (verifier_bytes, manifest_more, touched_bytes) = match proofs {
            Proofs::Openings | Proofs::Tags => (0, 0, 0),
            Proofs::Packaged(kind) => {
                let rows = layout.partition_records().div_ceil(kind.row_records) as u64;
                let row_lists = partitions * (kind.row_list_header_bytes + rows * kind.row_bytes);
                // at worst each change is in a row of its own
                (kind.key_bytes + row_lists, kind.manifest_bytes, changes.min(partitions * rows) * kind.row_bytes)
            }
        };

        let permutation_bytes = OFFSET_BYTES * slots;
        let manifest_bytes = MANIFEST_HEADER_BYTES + MANIFEST_PARTITION_BYTES * partitions + manifest_more;
        let offline_bytes = SERVERS * manifest_bytes + directory_bytes + database_bytes + verifier_bytes;

        let lookup_bytes_up = SERVERS * (MESSAGE_HEADER_BYTES + OFFSET_BYTES * partitions * queries);
        let answer_bytes = proofs.answer_bytes::<Merkle>(layout, 0) as u64 + queries * partitions * entry_bytes;
        let lookup_bytes_down = SERVERS * (MESSAGE_HEADER_BYTES + answer_bytes);
        let changing = u64::from(changes > 0);
        let (fence_bytes_up, fence_bytes_down) = (changing * FENCE_REQUEST_BYTES, changing * FENCE_REPLY_BYTES);
        let update_list_bytes = changes
            .saturating_mul(UPDATE_ENTRY_HEAD_BYTES + record_bytes)
            .saturating_add(changing * UPDATE_LIST_HEADER_BYTES + touched_bytes);
        let update_bytes = update_list_bytes.saturating_add(changing * SERVERS * manifest_bytes);

        let query_bytes = 4 + OFFSET_BYTES; // index or partition, and column
        let lookup_form_bytes = |each: u64| FRAME_BYTES + LAYOUT_BYTES + COUNT_BYTES + queries * (query_bytes + each);
        let effect_bytes = lookup_form_bytes(partitions * (OFFSET_BYTES + block_bytes));
        let journal_bytes = journal_limit(partition_bytes + permutation_bytes + tag_bytes) + effect_bytes;

        let content_bytes =
            partitions * (ContentTree::groups(layout.partition_bytes()) as u64 + 1) * CONTENT_HASH_BYTES as u64;

        Costs {
            entry_bytes,
            hint_bytes: partition_bytes,
            permutation_bytes,
            tag_bytes,
            verifier_bytes,
            directory_bytes,
            memory_bytes: partition_bytes + permutation_bytes + tag_bytes + verifier_bytes + directory_bytes,
            download_memory_bytes: LANES as u64 * partition_bytes,
            manifest_bytes,
            database_bytes,
            offline_bytes,
            offline_micros: micros(offline_bytes, workload.downlink_kbit),
            lookup_bytes_up,
            lookup_bytes_down,
            lookup_micros: micros(lookup_bytes_up, workload.uplink_kbit)
                .saturating_add(micros(lookup_bytes_down, workload.downlink_kbit)),
            lookup_hashes,
            fence_bytes_up,
            fence_bytes_down,
            update_list_bytes,
            update_bytes,
            day_bytes_up: lookups.saturating_mul(lookup_bytes_up + fence_bytes_up),
            day_bytes_down: lookups.saturating_mul(lookup_bytes_down + fence_bytes_down).saturating_add(update_bytes),
            checkpoint_bytes: FRAME_BYTES
                + LAYOUT_BYTES
                + BINDING_BYTES
                + SECRET_BYTES as u64
                + permutation_bytes
                + partition_bytes
                + tag_key_bytes
                + tag_bytes,
            pending_bytes: lookup_form_bytes(3 * OFFSET_BYTES * partitions) + NAME_BYTES as u64,
            effect_bytes,
            journal_bytes,
            tree_bytes,
            content_bytes,
            server_bytes: database_bytes + tree_bytes + content_bytes + directory_bytes,
            digest_hashes: if tree_bytes == 0 { 0 } else { partitions * Merkle::hashes_of_partition(layout) as u64 },
        }
    }

    /// Uploaded and downloaded in a day.
    pub(super) fn day_bytes(&self) -> u64 {
        self.day_bytes_up.saturating_add(self.day_bytes_down)
    }
}
