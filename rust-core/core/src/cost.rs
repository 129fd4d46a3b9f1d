//! What a database will cost, computed before anything of it exists: pure formulas over a [`Layout`], for each way to look
//! up ([`modes`]) and, of hints, for each way to check answers ([`Costs`]). Whoever plans, chooses or shows costs asks here.
//! docs/costs.md says where each formula comes from and where it is measured.
//!
//! Bytes are bodies and buffers: no HTTP, no TLS, no WebAssembly module. Traffic is that of both servers together.

mod modes;

use crate::commitment::tags::{TAG_BYTES, TAG_KEY_BYTES};
use crate::commitment::{Commit, Merkle, POINTPROOF_BYTES, Proofs};
use crate::database::content::{CONTENT_HASH_BYTES, ContentTree};
use crate::database::lanes::LANES;
use crate::error::Error;
use crate::key::{FINGERPRINT_BYTES, SECRET_BYTES};
use crate::layout::{Layout, MAX_RECORD_BYTES};
use crate::tapir::query::NAME_BYTES;

pub use modes::{DirectorySize, Held, Mode, ModeCosts, Offers, choose_mode, modes};

/// Client memory that a plan may use unless it is told another: 64 MB.
pub const DEFAULT_MEMORY_BYTES: u64 = 64_000_000;

// docs/protocol.md: what the wire puts around records, proofs and offsets.
const SERVERS: u64 = 2;
const OFFSET_BYTES: u64 = 2;
const MESSAGE_HEADER_BYTES: u64 = 40;
const MANIFEST_HEADER_BYTES: u64 = 224;
const MANIFEST_PARTITION_BYTES: u64 = 64;
const MANIFEST_POINTPROOFS_BYTES: u64 = 104;
const POINTPROOFS_KEY_BYTES: u64 = 49_292;
const POINTPROOFS_ROW_RECORDS: usize = 256;
const POINTPROOFS_ROW_LIST_HEADER_BYTES: u64 = 32;
const POINTPROOFS_OPENING_BYTES: u64 = 96;
const UPDATE_LIST_HEADER_BYTES: u64 = 40;
const UPDATE_ENTRY_HEAD_BYTES: u64 = 5;
const FENCE_REQUEST_BYTES: u64 = 80;
const FENCE_REPLY_BYTES: u64 = 8;

// Stored forms (state/): the frame with its checksum, the layout, and the hash of the manifest; a count of queries.
const FRAME_BYTES: u64 = 48;
const LAYOUT_BYTES: u64 = 16;
const BINDING_BYTES: u64 = 32;
const COUNT_BYTES: u64 = 4;
const KIND_BYTES: u64 = 4;

const LEAST_JOURNAL_BYTES: u64 = 256 << 10;
const STATES_A_JOURNAL: u64 = 8;

/// Bytes of journal at which a client that holds so many bytes of hint (parities, permutations, tags) writes a new
/// checkpoint: an eighth of them, and at least 256 KiB.
#[must_use]
pub fn journal_limit(held_bytes: u64) -> u64 {
    LEAST_JOURNAL_BYTES.max(held_bytes / STATES_A_JOURNAL)
}

/// Whether a client that may hold so many bytes keeps tags, where servers offer both kinds of proof: parities, permutations,
/// tags and directory fit.
#[must_use]
pub fn tags_fit(layout: &Layout, directory_bytes: u64, memory_bytes: u64) -> bool {
    let a_slot = OFFSET_BYTES + TAG_BYTES as u64;
    layout.partition_bytes() as u64 + a_slot * layout.slots() as u64 + directory_bytes <= memory_bytes
}

/// What a plan is made for. A lookup is one request to each server, with `batch` queries in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// N
    pub records: u64,
    /// length of a value; the longest, if lengths vary
    pub value_bytes: u64,
    /// looked up by key, not by index
    pub keyed: bool,
    /// values have lengths of their own
    pub variable: bool,
    /// Q, if it is not to be planned
    pub partitions: Option<u64>,
    /// g
    pub pack: u64,
    /// queries a lookup
    pub batch: u64,
    /// lookups of one client
    pub lookups_per_day: u64,
    /// lookups that hints which run out are made for, if it is not what they are made for unless an app says otherwise
    pub hint_lookups: Option<u64>,
    /// records that change, in one epoch a day. 0: a database that never changes, without updates and fence
    pub changes_per_day: u64,
    /// what a client may keep in memory
    pub memory_bytes: u64,
    /// 1000 bits a second, from the client
    pub uplink_kbit: u64,
    /// 1000 bits a second, to the client
    pub downlink_kbit: u64,
}

impl Workload {
    /// N keyless records of `value_bytes`, a query a lookup, 20 lookups a day and no changes, over a mobile connection
    /// of 5 Mbit/s up and 20 Mbit/s down.
    #[must_use]
    pub fn new(records: u64, value_bytes: u64) -> Self {
        Workload {
            records,
            value_bytes,
            keyed: false,
            variable: false,
            partitions: None,
            pack: 1,
            batch: 1,
            lookups_per_day: 20,
            hint_lookups: None,
            changes_per_day: 0,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            uplink_kbit: 5_000,
            downlink_kbit: 20_000,
        }
    }

    /// ℓ = 16·keyed + 2·variable + value bytes.
    fn record_bytes(&self) -> u64 {
        FINGERPRINT_BYTES as u64 * u64::from(self.keyed) + 2 * u64::from(self.variable) + self.value_bytes
    }
}

/// What one kind of proof costs under a layout. Bytes, where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// of one entry of an answer
    pub entry_bytes: u64,
    /// parities, M·ℓ
    pub hint_bytes: u64,
    /// 2·Q·M′
    pub permutation_bytes: u64,
    /// 8·Q·M′, or none
    pub tag_bytes: u64,
    /// of Pointproofs, what answers are verified with: key and row lists; or none
    pub verifier_bytes: u64,
    /// the key directory: expected, because it depends on the keys; none if keyless
    pub directory_bytes: u64,
    /// all of the above: what a client holds between lookups
    pub memory_bytes: u64,
    /// more during the offline phase: a partition from each server
    pub download_memory_bytes: u64,
    /// of one manifest
    pub manifest_bytes: u64,
    /// Q·M·ℓ
    pub database_bytes: u64,
    /// down, once: both manifests, the directory, the database, and what answers are verified with
    pub offline_bytes: u64,
    /// the offline phase on the workload's downlink, without the server's and the client's own time
    pub offline_micros: u64,
    /// both requests of a lookup
    pub lookup_bytes_up: u64,
    /// both answers
    pub lookup_bytes_down: u64,
    /// both, one after the other on the workload's connection, without latency
    pub lookup_micros: u64,
    /// hashes by which a lookup is checked: BLAKE3 for proofs, linear ones for tags; of Pointproofs, the records that are hashed
    /// to scalars
    pub lookup_hashes: u64,
    /// a lookup's request to the rollback fence
    pub fence_bytes_up: u64,
    /// its reply
    pub fence_bytes_down: u64,
    /// the list of a day's changes
    pub update_list_bytes: u64,
    /// down for a day's changes: the list and both manifests
    pub update_bytes: u64,
    /// lookups and fence
    pub day_bytes_up: u64,
    /// lookups, fence and changes
    pub day_bytes_down: u64,
    /// a stored hint
    pub checkpoint_bytes: u64,
    /// a stored pending batch
    pub pending_bytes: u64,
    /// what a lookup adds to the journal
    pub effect_bytes: u64,
    /// most that lookups make of a journal, if there are pauses between them: a checkpoint waits for one
    pub journal_bytes: u64,
    /// what a server keeps to open commitments
    pub tree_bytes: u64,
    /// what it keeps so that an edit does not rehash a partition
    pub content_bytes: u64,
    /// a server's memory: database, trees, content hashes, directory
    pub server_bytes: u64,
    /// leaves and nodes a server hashes for its commitments, once; none if it offers tags alone
    pub digest_hashes: u64,
}

impl Costs {
    /// What `proofs` cost under `layout`, for what is done in `workload`.
    fn new(layout: &Layout, directory_bytes: u64, workload: &Workload, proofs: Proofs) -> Self {
        let [record_bytes, block_bytes, partitions, slots] =
            [layout.stored().record_bytes, layout.record_bytes(), layout.partitions(), layout.slots()]
                .map(|number| number as u64);
        let [partition_bytes, database_bytes] =
            [layout.partition_bytes(), layout.database_bytes()].map(|number| number as u64);
        let Workload { batch, changes_per_day: changes, lookups_per_day: lookups, .. } = *workload;
        let [entry_bytes, auxiliary_bytes] =
            [proofs.entry_bytes::<Merkle>(layout), Merkle::auxiliary_bytes(layout)].map(|number| number as u64);

        let entries = SERVERS * partitions;
        let (tag_bytes, tag_key_bytes, tree_bytes, lookup_hashes) = match proofs {
            Proofs::Openings => {
                (0, 0, partitions * auxiliary_bytes, batch * entries * Merkle::hashes_of_entry(layout) as u64)
            }
            // The recovered block of each query is checked as well.
            Proofs::Tags => (TAG_BYTES as u64 * slots, TAG_KEY_BYTES as u64, 0, batch * (entries + 1)),
            Proofs::Pointproofs => {
                (0, KIND_BYTES, partitions * auxiliary_bytes + POINTPROOFS_OPENING_BYTES * slots, batch * entries)
            }
        };
        let rows = layout.partition_records().div_ceil(POINTPROOFS_ROW_RECORDS) as u64;
        let (verifier_bytes, manifest_more, touched_bytes) = match proofs {
            Proofs::Openings | Proofs::Tags => (0, 0, 0),
            Proofs::Pointproofs => (
                POINTPROOFS_KEY_BYTES
                    + partitions * (POINTPROOFS_ROW_LIST_HEADER_BYTES + rows * POINTPROOF_BYTES as u64),
                MANIFEST_POINTPROOFS_BYTES,
                // each change in a row of its own, as far as there are as many
                changes.min(partitions * rows) * POINTPROOF_BYTES as u64,
            ),
        };

        let permutation_bytes = OFFSET_BYTES * slots;
        let manifest_bytes = MANIFEST_HEADER_BYTES + MANIFEST_PARTITION_BYTES * partitions + manifest_more;
        let offline_bytes = SERVERS * manifest_bytes + directory_bytes + database_bytes + verifier_bytes;

        let lookup_bytes_up = SERVERS * (MESSAGE_HEADER_BYTES + OFFSET_BYTES * partitions * batch);
        let answer_bytes = proofs.answer_bytes::<Merkle>(layout, 0) as u64 + batch * partitions * entry_bytes;
        let lookup_bytes_down = SERVERS * (MESSAGE_HEADER_BYTES + answer_bytes);
        let changing = u64::from(changes > 0);
        let (fence_bytes_up, fence_bytes_down) = (changing * FENCE_REQUEST_BYTES, changing * FENCE_REPLY_BYTES);
        let update_list_bytes = changes
            .saturating_mul(UPDATE_ENTRY_HEAD_BYTES + record_bytes)
            .saturating_add(changing * UPDATE_LIST_HEADER_BYTES + touched_bytes);
        let update_bytes = update_list_bytes.saturating_add(changing * SERVERS * manifest_bytes);

        let query_bytes = 4 + OFFSET_BYTES; // index or partition, and column
        let batch_form_bytes = |each: u64| FRAME_BYTES + LAYOUT_BYTES + COUNT_BYTES + batch * (query_bytes + each);
        let effect_bytes = batch_form_bytes(partitions * (OFFSET_BYTES + block_bytes));
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
            pending_bytes: batch_form_bytes(3 * OFFSET_BYTES * partitions) + NAME_BYTES as u64,
            effect_bytes,
            journal_bytes,
            tree_bytes,
            content_bytes,
            server_bytes: database_bytes + tree_bytes + content_bytes + directory_bytes,
            digest_hashes: if tree_bytes == 0 { 0 } else { partitions * Merkle::hashes_of_partition(layout) as u64 },
        }
    }

    /// Both ways.
    fn day_bytes(&self) -> u64 {
        self.day_bytes_up.saturating_add(self.day_bytes_down)
    }
}

/// How long `bytes` take at `kbit` · 1000 bits a second.
fn micros(bytes: u64, kbit: u64) -> u64 {
    bytes.saturating_mul(8000).div_ceil(kbit)
}

/// A layout, its costs, and which kind of proof suits the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// what it was made for
    pub workload: Workload,
    /// Q and M as [`Layout::plan`] decides them
    pub layout: Layout,
    /// with an opening proof beside every record
    pub merkle: Costs,
    /// with tags that the client keeps
    pub tags: Costs,
    /// every way to look up, as [`modes`] has them
    pub modes: Vec<ModeCosts>,
    /// tags, if the client has the memory
    pub recommended: Proofs,
    /// why, in a sentence
    pub reason: String,
}

impl Plan {
    /// Plans a database for a workload.
    ///
    /// # Errors
    /// [`Error::Layout`] if there is no such database, no request may carry such a batch, or a connection has no speed.
    pub fn new(workload: &Workload) -> Result<Self, Error> {
        if workload.value_bytes > MAX_RECORD_BYTES as u64 {
            return Err(Error::Layout(format!("a value has at most {MAX_RECORD_BYTES} bytes")));
        }
        if workload.uplink_kbit == 0 || workload.downlink_kbit == 0 {
            return Err(Error::Layout("a connection has at least 1 kbit/s each way".into()));
        }
        let Workload { records, partitions, .. } = *workload;
        let record_bytes = workload.record_bytes();
        let layout = Layout::plan_packed(records, record_bytes, partitions, workload.pack)?;
        let most = layout.max_batch(Proofs::Openings.entry_bytes::<Merkle>(&layout)) as u64;
        if !(1..=most).contains(&workload.batch) {
            return Err(Error::Layout(format!("a batch has 1 to {most} queries, got {}", workload.batch)));
        }
        let directory = if workload.keyed { DirectorySize::expected(&layout) } else { DirectorySize::default() };
        let [merkle, tags] =
            [Proofs::Openings, Proofs::Tags].map(|proofs| Costs::new(&layout, directory.bytes, workload, proofs));
        let modes = modes(&layout, &directory, &[Proofs::Openings, Proofs::Tags, Proofs::Pointproofs], workload);
        let (recommended, reason) = {
            let fit = tags_fit(&layout, tags.directory_bytes, workload.memory_bytes);
            recommend(&merkle, &tags, workload.memory_bytes, fit)
        };
        Ok(Plan { workload: *workload, layout, merkle, tags, modes, recommended, reason })
    }
}

fn recommend(merkle: &Costs, tags: &Costs, memory_bytes: u64, fit: bool) -> (Proofs, String) {
    let moved = [merkle, tags].map(|costs| si(costs.day_bytes()));
    let held = [merkle, tags].map(|costs| si(costs.memory_bytes));
    let target = si(memory_bytes);
    let without_tags = format!("A day moves {} with proofs and would move {} with tags", moved[0], moved[1]);
    if merkle.memory_bytes > memory_bytes {
        let too_much = format!("A client holds {} even without tags, more than its {target}.", held[0]);
        (Proofs::Openings, format!("{too_much} {without_tags}."))
    } else if !fit {
        let too_much = format!("With tags a client would hold {}, more than its {target}.", held[1]);
        (Proofs::Openings, format!("{too_much} {without_tags}."))
    } else {
        let fits = format!("With tags a client holds {}, within its {target}.", held[1]);
        (Proofs::Tags, format!("A day moves {} with tags and would move {} with proofs. {fits}", moved[1], moved[0]))
    }
}

/// `1.3 MB`, in powers of 1000.
fn si(bytes: u64) -> String {
    let (unit, scale) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => ("kB", 1_000),
        1_000_000..1_000_000_000 => ("MB", 1_000_000),
        _ => ("GB", 1_000_000_000),
    };
    let rounded = |unit: u64| bytes.saturating_add(unit / 2) / unit;
    match rounded(scale / 10) {
        tenths @ 0..1000 => format!("{}.{} {unit}", tenths / 10, tenths % 10),
        _ => format!("{} {unit}", rounded(scale)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_with_two_or_three_digits() {
        for (bytes, written) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_049, "1.0 kB"),
            (1_050, "1.1 kB"),
            (99_949, "99.9 kB"),
            (99_950, "100 kB"),
            (362_500, "363 kB"),
            (64_000_000, "64.0 MB"),
            (5_766_000_000, "5.8 GB"),
            (u64::MAX, "18446744073 GB"),
        ] {
            assert_eq!(si(bytes), written);
        }
    }
}
