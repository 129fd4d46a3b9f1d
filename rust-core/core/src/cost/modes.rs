//! What each mode costs.

use super::hint::Costs;
use super::sizes::{
    BINDING_BYTES, COUNT_BYTES, FRAME_BYTES, LAYOUT_BYTES, MESSAGE_HEADER_BYTES, SERVERS, SHARING_BYTES, journal_limit,
};
use super::workload::{Workload, micros};
use crate::commitment::Proofs;
use crate::commitment::tags::TAG_BYTES;
use crate::directory;
use crate::instant;
use crate::key::{ROW_NAME_BYTES, SECRET_BYTES};
use crate::layout::Layout;
use crate::single::geometry::Geometry;
use crate::single::making::{MAX_LOOKUPS, lookups};
use crate::stored::NAME_BYTES;

/// How lookups are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// the client keeps the whole database: [`crate::local`]
    Local,
    /// two servers add up the whole database for each lookup: [`crate::instant`]
    Instant,
    /// two servers answer; the client has a hint, made from a full download: [`crate::tapir`]
    Full,
    /// one server answers; the client has hints, made from a full download, which run out: [`crate::single`]
    Single,
}

/// The sizes of a keyed database's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectorySize {
    /// the whole directory
    pub bytes: u64,
    /// the database of its padded blocks; `None` without a directory
    pub blocks: Option<Layout>,
}

impl DirectorySize {
    /// The expected sizes for a new database with this layout, whose keys are not known yet.
    #[must_use]
    pub fn expected(layout: &Layout) -> Self {
        let (keys, room) = (layout.records() as u64, layout.room() as u64);
        DirectorySize { bytes: directory::expected_bytes(keys, room), blocks: directory::expected_blocks(keys, room) }
    }
}

/// Bytes that a client holds between lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// the whole database: Q·M·ℓ
    pub records: u64,
    /// hints for one server, and their backups
    pub hints: u64,
    /// parities: M·ℓ
    pub parities: u64,
    /// permutations: 2·Q·M′
    pub permutations: u64,
    /// tags: 8·Q·M′; with hints for one server 8·q·s
    pub tags: u64,
    /// what verifies proofs of a package: key and row lists
    pub verifier: u64,
    /// the directory of a keyed database
    pub directory: u64,
}

impl Held {
    /// The sum.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.records + self.hints + self.parities + self.permutations + self.tags + self.verifier + self.directory
    }
}

/// The costs of a mode. Bytes count all servers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeCosts {
    /// the mode
    pub mode: Mode,
    /// the kind of proof; `None` if there are no queries, or tags are part of the mode
    pub proofs: Option<Proofs>,
    /// downloaded to prepare, without manifests and directory
    pub prepare_bytes: u64,
    /// uploaded and downloaded before the first lookup: manifests, directory, preparing
    pub first_bytes: u64,
    /// requests of a lookup, without the fence
    pub lookup_bytes_up: u64,
    /// answers of a lookup, without the fence
    pub lookup_bytes_down: u64,
    /// uploaded and downloaded in a day: lookups, fence, changes
    pub day_bytes: u64,
    /// in memory
    pub held: Held,
    /// the most on disk: the stored state with manifest and directory, a pending lookup, and the journal
    pub disk_bytes: u64,
    /// the servers' processors for a lookup, by the model of [`Speeds`]
    pub server_lookup_micros: u64,
}

impl ModeCosts {
    /// The time of preparing and of `lookups` lookups: transfer and servers' computing.
    #[must_use]
    pub fn micros(&self, workload: &Workload, lookups: u64) -> u128 {
        let time = |up, down, computed| {
            let moved = micros(up, workload.uplink_kbit).saturating_add(micros(down, workload.downlink_kbit));
            u128::from(moved) + u128::from(computed)
        };
        let prepare = time(0, self.prepare_bytes, 0);
        prepare + u128::from(lookups) * time(self.lookup_bytes_up, self.lookup_bytes_down, self.server_lookup_micros)
    }
}

/// How fast a server computes, in WebAssembly with simd128 on one thread. `node tests/run.mjs speeds` measures it; these are
/// from 29 November 2026, on a processor of the AMD EPYC family. On such a machine they are right within a factor of two, for N
/// from 2^16 to 2^22 and ℓ from 32 to 1024.
struct Speeds;

impl Speeds {
    /// bytes of records and trees that a pass for an instant lookup reads in a microsecond
    const SCAN: u64 = 17_000;
    /// nanoseconds for an entry of an answer
    const ENTRY: u64 = 150;
    /// bytes of an entry's proof in a microsecond
    const PROOF: u64 = 540;
    /// nanoseconds for a stripe of a query to one server
    const STRIPE: u64 = 40;

    /// Microseconds of a pass over all records, and the trees above its groups.
    fn instant(layout: &Layout) -> u64 {
        let record_bytes = layout.slots() as u64 * layout.record_bytes() as u64;
        (record_bytes + instant::tree_bytes_read(layout)) / Self::SCAN
    }

    /// Microseconds for the entries of an answer.
    fn answer(entries: u64, proof_bytes: u64) -> u64 {
        entries * Self::ENTRY / 1000 + entries * proof_bytes / Self::PROOF
    }
}

/// The costs of each mode under a layout: the whole database, instant lookups, a hint with each kind of proof, and hints for one
/// server, if it can answer them. Rows with kinds of proof that are not in `proofs` are left out, and modes that so many servers
/// do not have: one has no instant lookups, and hints for two trust those two. The workload's servers, queries, lookups and
/// changes a day, and lookups of hints for one server count; its connection does not.
#[must_use]
pub fn modes(layout: &Layout, directory: &DirectorySize, proofs: &[Proofs], workload: &Workload) -> Vec<ModeCosts> {
    let costs = |proofs| Costs::new(layout, directory.bytes, workload, proofs);
    let merkle = costs(Proofs::Openings);
    let mut rows = vec![keeping_all(&merkle, workload)];
    if proofs.contains(&Proofs::Openings) && workload.servers >= SERVERS {
        rows.push(instantly(layout, directory, &merkle, workload));
    }
    for &kind in Proofs::ALL {
        let offered = workload.servers == SERVERS
            && match kind {
                Proofs::Openings | Proofs::Packaged(_) => proofs.contains(&kind),
                Proofs::Tags => true, // they need nothing from a server
            };
        if offered {
            rows.push(fully(layout, &costs(kind), kind, workload));
        }
    }
    rows.extend(singly(layout, &merkle, workload));
    rows
}

/// The client downloads the whole database and keeps it. Updates are lists.
fn keeping_all(merkle: &Costs, workload: &Workload) -> ModeCosts {
    let changing = u64::from(workload.changes_per_day > 0);
    let journal_bytes =
        changing.saturating_mul(journal_limit(merkle.database_bytes).saturating_add(merkle.update_list_bytes));
    ModeCosts {
        mode: Mode::Local,
        proofs: None,
        prepare_bytes: merkle.database_bytes,
        first_bytes: merkle.offline_bytes,
        lookup_bytes_up: 0,
        lookup_bytes_down: 0,
        day_bytes: merkle.update_bytes,
        held: Held { records: merkle.database_bytes, directory: merkle.directory_bytes, ..Held::default() },
        disk_bytes: journal_bytes.saturating_add(
            FRAME_BYTES
                + LAYOUT_BYTES
                + BINDING_BYTES
                + merkle.database_bytes
                + merkle.manifest_bytes
                + merkle.directory_bytes,
        ),
        server_lookup_micros: 0,
    }
}

/// The client keeps nothing. For a key it first looks up a block of the directory.
fn instantly(layout: &Layout, directory: &DirectorySize, merkle: &Costs, workload: &Workload) -> ModeCosts {
    let Workload { queries, lookups_per_day, changes_per_day, servers, .. } = *workload;
    let (mut up, mut down, mut micros) = (0, 0, 0);
    for asked in directory.blocks.iter().chain([layout]) {
        let [requests, answer] = instant::lookup_bytes(asked, servers as usize).map(|bytes| bytes as u64);
        let sharing = if servers == SERVERS { 0 } else { SHARING_BYTES };
        up += servers * (MESSAGE_HEADER_BYTES + sharing) + queries * requests;
        down += servers * (MESSAGE_HEADER_BYTES + queries * answer);
        micros += servers * queries * Speeds::instant(asked);
    }
    let manifests = servers * merkle.manifest_bytes;
    let update_bytes = if changes_per_day > 0 { manifests } else { 0 };
    ModeCosts {
        mode: Mode::Instant,
        proofs: Some(Proofs::Openings),
        prepare_bytes: 0,
        first_bytes: manifests,
        lookup_bytes_up: up,
        lookup_bytes_down: down,
        day_bytes: lookups_per_day.saturating_mul(up + down).saturating_add(update_bytes),
        held: Held::default(),
        disk_bytes: 0,
        server_lookup_micros: micros,
    }
}

/// Each lookup uses up a backup. When all are used, the client downloads the database again.
fn singly(layout: &Layout, merkle: &Costs, workload: &Workload) -> Option<ModeCosts> {
    let geometry = Geometry::of(layout).ok()?;
    let Workload { queries, lookups_per_day, changes_per_day, .. } = *workload;
    let hint_lookups = workload.hint_lookups.unwrap_or(lookups(layout) as u64).clamp(1, MAX_LOOKUPS as u64);
    let [record_bytes, hints, stripes, query_bytes, answer_bytes] = [
        geometry.record_bytes(),
        geometry.hints(),
        geometry.stripes(),
        geometry.query_bytes(),
        geometry.answer_bytes(),
    ]
    .map(|number| number as u64);
    // Ids whose two selections in the middle differ: of 2^16 values, q are about 2^16/q apart.
    let ids = (hints + hint_lookups) * (1 << 16) / ((1 << 16) - stripes);
    let cutoff_bytes = 2 * ids;
    let pair_bytes = hint_lookups * 2 * record_bytes;
    let parity_bytes = hints * record_bytes;
    let held = Held {
        hints: parity_bytes + pair_bytes + ids * 6 + hints * 16 + hint_lookups * 4,
        tags: if geometry.keeps_rows() { 0 } else { (TAG_BYTES * geometry.room()) as u64 },
        directory: merkle.directory_bytes,
        ..Held::default()
    };
    let checkpoint_bytes = FRAME_BYTES
        + LAYOUT_BYTES
        + BINDING_BYTES
        + 2 * SECRET_BYTES as u64
        + TAG_BYTES as u64
        + 4 * COUNT_BYTES
        + cutoff_bytes
        + hints * 12
        + hint_lookups.min(hints) * 8
        + parity_bytes
        + pair_bytes
        + COUNT_BYTES
        + if geometry.keeps_rows() {
            stripes * ROW_NAME_BYTES as u64 + 2 * COUNT_BYTES
        } else {
            (TAG_BYTES * layout.slots()) as u64
        };
    let row_bytes = if geometry.keeps_rows() { stripes * geometry.row_bytes() as u64 } else { 0 };
    let lookup_form_bytes = |each: u64| FRAME_BYTES + LAYOUT_BYTES + COUNT_BYTES + queries * each;
    let pending_bytes = lookup_form_bytes(13 + query_bytes) + NAME_BYTES as u64;
    let effect_bytes = lookup_form_bytes(20 + record_bytes);
    let (up, down) = (MESSAGE_HEADER_BYTES + queries * query_bytes, MESSAGE_HEADER_BYTES + queries * answer_bytes);
    let fence_bytes = merkle.fence_bytes_up + merkle.fence_bytes_down;
    let manifests = if changes_per_day > 0 { merkle.manifest_bytes } else { 0 };
    // A day's part of the next download.
    let queries_per_day = lookups_per_day.saturating_mul(queries);
    let again_bytes = u128::from(merkle.database_bytes) * u128::from(queries_per_day) / u128::from(hint_lookups);
    Some(ModeCosts {
        mode: Mode::Single,
        proofs: None,
        prepare_bytes: merkle.database_bytes,
        first_bytes: merkle.manifest_bytes + merkle.directory_bytes + merkle.database_bytes,
        lookup_bytes_up: up,
        lookup_bytes_down: down,
        day_bytes: lookups_per_day
            .saturating_mul(up + down + fence_bytes)
            .saturating_add(merkle.update_list_bytes)
            .saturating_add(manifests)
            .saturating_add(u64::try_from(again_bytes).unwrap_or(u64::MAX)),
        held,
        disk_bytes: checkpoint_bytes
            + row_bytes
            + merkle.manifest_bytes
            + merkle.directory_bytes
            + pending_bytes
            + journal_limit(held.hints + held.tags)
            + effect_bytes,
        server_lookup_micros: queries * stripes * Speeds::STRIPE / 1000,
    })
}

fn fully(layout: &Layout, hint: &Costs, proofs: Proofs, workload: &Workload) -> ModeCosts {
    let entries = workload.queries * layout.partitions() as u64;
    let together = match proofs {
        Proofs::Openings | Proofs::Tags => 0,
        Proofs::Packaged(kind) => entries * kind.entry_nanos / 1000,
    };
    ModeCosts {
        mode: Mode::Full,
        proofs: Some(proofs),
        prepare_bytes: hint.database_bytes + hint.verifier_bytes,
        first_bytes: hint.offline_bytes,
        lookup_bytes_up: hint.lookup_bytes_up,
        lookup_bytes_down: hint.lookup_bytes_down,
        day_bytes: hint.day_bytes(),
        held: Held {
            parities: hint.hint_bytes,
            permutations: hint.permutation_bytes,
            tags: hint.tag_bytes,
            verifier: hint.verifier_bytes,
            directory: hint.directory_bytes,
            ..Held::default()
        },
        disk_bytes: hint.checkpoint_bytes
            + hint.manifest_bytes
            + hint.directory_bytes
            + hint.verifier_bytes
            + hint.pending_bytes
            + hint.journal_bytes,
        server_lookup_micros: SERVERS
            * (Speeds::answer(entries, hint.entry_bytes - layout.record_bytes() as u64) + together),
    }
}
