//! Plans of databases: from a workload to plain objects, typed in packages/wasm/src/core/costs.ts.

use keyhush_core::cost::{self, Costs, DEFAULT_PACK, Plan, Workload};
use keyhush_core::layout::Layout;
use wasm_bindgen::prelude::*;

use crate::js::Object;
use crate::mode_costs::{advice_object, modes_array, object, read, set};
use crate::{LayoutHandle, Outcome, thrown, whole};

#[wasm_bindgen]
impl LayoutHandle {
    /// Plans Q and M, or only M for a given Q. Without `block_records`, blocks have the planner's default.
    ///
    /// # Errors
    /// `layout`.
    pub fn plan(
        records: f64,
        record_bytes: f64,
        partitions: Option<f64>,
        block_records: Option<f64>,
    ) -> Outcome<LayoutHandle> {
        let block_records = block_records.map_or(DEFAULT_PACK, whole);
        Layout::plan_packed(whole(records), whole(record_bytes), partitions.map(whole), block_records)
            .map(LayoutHandle)
            .map_err(thrown)
    }
}

/// Plans a database for a workload.
///
/// # Errors
/// `layout`, also for a property that is not a whole number.
#[wasm_bindgen]
pub fn plan(workload: &JsValue) -> Outcome<Object> {
    let plan = read(workload).and_then(|workload| Plan::new(&workload)).map_err(thrown)?;
    let out = Object::new();
    set(&out, "workload", workload_object(&plan.workload));
    set(&out, "layout", layout_object(&plan.layout));
    set(&out, "modes", modes_array(&plan.modes));
    set(&out, "merkle", costs_object(&plan.merkle));
    set(&out, "tags", costs_object(&plan.tags));
    set(&out, "recommended", advice_object(&plan.recommended));
    set(&out, "proofs", plan.proofs.name());
    set(&out, "reason", plan.reason);
    Ok(out)
}

/// The bytes of journal after which a client that holds `held_bytes` of hint writes a new checkpoint.
#[wasm_bindgen(js_name = journalLimit)]
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // memory is far below 2^53 bytes
pub fn journal_limit(held_bytes: f64) -> f64 {
    cost::journal_limit(held_bytes as u64) as f64
}

fn workload_object(workload: &Workload) -> Object {
    let out = object([
        ("records", workload.records),
        ("valueBytes", workload.value_bytes),
        ("queries", workload.queries),
        ("servers", workload.servers),
        ("lookupsPerDay", workload.lookups_per_day),
        ("changesPerDay", workload.changes_per_day),
        ("memoryBytes", workload.memory_bytes),
        ("uplinkKbit", workload.uplink_kbit),
        ("downlinkKbit", workload.downlink_kbit),
    ]);
    set(&out, "keyed", workload.keyed);
    set(&out, "variable", workload.variable);
    out
}

fn layout_object(layout: &Layout) -> Object {
    let numbers = [
        ("records", layout.records()),
        ("recordBytes", layout.stored().record_bytes),
        ("partitions", layout.partitions()),
        ("partitionRecords", layout.stored().partition_records),
        ("blockRecords", layout.stored().block_records),
    ];
    object(numbers.map(|(name, number)| (name, number as u64)))
}

fn costs_object(costs: &Costs) -> Object {
    object([
        ("entryBytes", costs.entry_bytes),
        ("hintBytes", costs.hint_bytes),
        ("permutationBytes", costs.permutation_bytes),
        ("tagBytes", costs.tag_bytes),
        ("directoryBytes", costs.directory_bytes),
        ("memoryBytes", costs.memory_bytes),
        ("downloadMemoryBytes", costs.download_memory_bytes),
        ("manifestBytes", costs.manifest_bytes),
        ("databaseBytes", costs.database_bytes),
        ("offlineBytes", costs.offline_bytes),
        ("offlineMicros", costs.offline_micros),
        ("lookupBytesUp", costs.lookup_bytes_up),
        ("lookupBytesDown", costs.lookup_bytes_down),
        ("lookupMicros", costs.lookup_micros),
        ("lookupHashes", costs.lookup_hashes),
        ("fenceBytesUp", costs.fence_bytes_up),
        ("fenceBytesDown", costs.fence_bytes_down),
        ("updateListBytes", costs.update_list_bytes),
        ("updateBytes", costs.update_bytes),
        ("dayBytesUp", costs.day_bytes_up),
        ("dayBytesDown", costs.day_bytes_down),
        ("checkpointBytes", costs.checkpoint_bytes),
        ("pendingBytes", costs.pending_bytes),
        ("effectBytes", costs.effect_bytes),
        ("journalBytes", costs.journal_bytes),
        ("treeBytes", costs.tree_bytes),
        ("contentBytes", costs.content_bytes),
        ("serverBytes", costs.server_bytes),
        ("digestHashes", costs.digest_hashes),
    ])
}
