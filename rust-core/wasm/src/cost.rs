//! The planner: a workload in, plain objects out, as packages/wasm/src/core.ts types them.

use js_sys::{Array, Object, Reflect};
use pirouette_core::commitment::Proofs;
use pirouette_core::cost::{self, Costs, DirectorySize, Mode, ModeCosts, Offers, Pack, Plan, Workload};
use pirouette_core::error::Error;
use pirouette_core::layout::Layout;
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, name_of, proofs_named, thrown, whole};

/// Plans a database for a workload.
///
/// # Errors
/// `layout`, also for a property that is no whole number.
#[wasm_bindgen]
pub fn plan(workload: &JsValue) -> Outcome<Object> {
    let plan = read(workload).and_then(|workload| Plan::new(&workload)).map_err(thrown)?;
    let out = Object::new();
    set(&out, "workload", workload_object(&plan.workload));
    set(&out, "layout", layout_object(&plan.layout));
    set(&out, "modes", modes_array(&plan.modes));
    set(&out, "merkle", costs_object(&plan.merkle));
    set(&out, "tags", costs_object(&plan.tags));
    set(&out, "recommended", name_of(plan.recommended));
    set(&out, "reason", plan.reason);
    Ok(out)
}

/// Bytes of journal at which a client that holds so many bytes of hint writes a new checkpoint.
#[wasm_bindgen(js_name = journalLimit)]
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // memory is far below 2^53 bytes
pub fn journal_limit(held_bytes: f64) -> f64 {
    cost::journal_limit(held_bytes as u64) as f64
}

/// g for a database whose clients are to make light hints.
///
/// # Errors
/// `layout`.
#[wasm_bindgen(js_name = planBlockRecords)]
pub fn plan_block_records(records: f64, record_bytes: f64, partitions: Option<f64>) -> Outcome<u32> {
    cost::block_records(whole(records), whole(record_bytes), partitions.map(whole)).map(|g| g as u32).map_err(thrown)
}

/// Which kind of proof suits a client, where servers offer both: tags, if what it would hold fits 64 MB.
#[wasm_bindgen(js_name = suitableProofs, unchecked_return_type = "'merkle' | 'tags'")]
pub fn suitable_proofs(layout: &LayoutHandle, directory_bytes: u32) -> String {
    let fit = cost::tags_fit(&layout.0, u64::from(directory_bytes), cost::DEFAULT_MEMORY_BYTES);
    name_of(if fit { Proofs::Tags } else { Proofs::Openings })
}

/// Which kind of proof suits a light hint: tags, if both replies have at most 16 MiB with them.
#[wasm_bindgen(js_name = lightProofs, unchecked_return_type = "'merkle' | 'tags'")]
pub fn light_proofs(layout: &LayoutHandle) -> String {
    name_of(cost::light_proofs(&layout.0))
}

/// What each way of looking up costs under a manifest's layout, for a workload of which only what is done counts.
///
/// # Errors
/// `layout`, for a property that is no whole number; `index` for a kind of proof there is not.
#[wasm_bindgen(js_name = modeCosts)]
pub fn mode_costs(
    layout: &LayoutHandle,
    directory_bytes: u32,
    block_log: u32,
    block_bytes: u32,
    proofs: Vec<String>,
    workload: &JsValue,
) -> Outcome<Array> {
    let workload = read(workload).map_err(thrown)?;
    let directory = directory_size(layout, directory_bytes, block_log, block_bytes);
    let proofs = proofs.into_iter().map(|name| proofs_named(Some(name))).collect::<Result<Vec<_>, _>>();
    Ok(modes_array(&cost::modes(&layout.0, &directory, &proofs.map_err(thrown)?, &workload)))
}

/// What a manifest says of the directory; where it says nothing of blocks yet, what is expected.
fn directory_size(layout: &LayoutHandle, bytes: u32, block_log: u32, block_bytes: u32) -> DirectorySize {
    if bytes == 0 {
        return DirectorySize::default();
    }
    let blocks = 1_u64.checked_shl(block_log).unwrap_or(0);
    let blocks = Layout::new(blocks, u64::from(block_bytes), 1, blocks).ok();
    DirectorySize { bytes: u64::from(bytes), blocks: blocks.or(DirectorySize::expected(&layout.0).blocks) }
}

/// The mode for a client that is free to choose.
#[wasm_bindgen(js_name = chooseMode)]
#[allow(clippy::cast_sign_loss)] // saturates
pub fn choose_mode(
    layout: &LayoutHandle,
    directory_bytes: u32,
    block_log: u32,
    block_bytes: u32,
    instant: bool,
    light: bool,
    lookups: f64,
) -> String {
    let directory = directory_size(layout, directory_bytes, block_log, block_bytes);
    let mode = cost::choose_mode(&layout.0, &directory, Offers { instant, light }, lookups as u64);
    mode_name(mode).into()
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Local => "local",
        Mode::Instant => "instant",
        Mode::Light => "light",
        Mode::Full => "full",
        Mode::Single => "single",
    }
}

fn modes_array(modes: &[ModeCosts]) -> Array {
    modes.iter().map(mode_object).collect()
}

fn mode_object(costs: &ModeCosts) -> Object {
    let out = object([
        ("prepareBytesUp", costs.prepare_bytes_up),
        ("prepareBytes", costs.prepare_bytes_down),
        ("firstBytes", costs.first_bytes),
        ("lookupBytesUp", costs.lookup_bytes_up),
        ("lookupBytesDown", costs.lookup_bytes_down),
        ("dayBytes", costs.day_bytes),
        ("memoryBytes", costs.held.bytes()),
        ("diskBytes", costs.disk_bytes),
        ("serverPrepareMicros", costs.server_prepare_micros),
        ("serverLookupMicros", costs.server_lookup_micros),
    ]);
    set(&out, "mode", mode_name(costs.mode));
    if let Some(proofs) = costs.proofs {
        set(&out, "proofs", name_of(proofs));
    }
    let held = &costs.held;
    let hint = [("parities", held.parities), ("permutations", held.permutations), ("tags", held.tags)];
    let parts = match costs.mode {
        Mode::Local => vec![("records", held.records)],
        Mode::Instant => vec![],
        Mode::Single => vec![("hints", held.hints), ("tags", held.tags)],
        Mode::Light | Mode::Full if costs.proofs == Some(Proofs::Pointproofs) => {
            [&hint[..], &[("verifier", held.verifier)]].concat()
        }
        Mode::Light | Mode::Full => hint.to_vec(),
    };
    set(&out, "held", object(parts));
    out
}

/// A missing property has the default of [`Workload::new`].
#[allow(clippy::cast_sign_loss)] // checked
fn read(workload: &JsValue) -> Result<Workload, Error> {
    let property = |name: &str| Reflect::get(workload, &name.into()).unwrap_or(JsValue::UNDEFINED);
    let number = |name: &str| match property(name) {
        value if value.is_undefined() => Ok(None),
        value => value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(number))
            .map(|number| Some(number as u64))
            .ok_or_else(|| Error::Layout(format!("{name} must be a whole number"))),
    };
    let base = Workload::new(number("records")?.unwrap_or(0), number("valueBytes")?.unwrap_or(0));
    Ok(Workload {
        keyed: property("keyed").is_truthy(),
        variable: property("variable").is_truthy(),
        partitions: number("partitions")?,
        pack: match property("pack").as_string().as_deref() {
            Some("auto") => Pack::Auto,
            _ => number("pack")?.map_or(base.pack, Pack::Records),
        },
        batch: number("batch")?.unwrap_or(base.batch),
        lookups_per_day: number("lookupsPerDay")?.unwrap_or(base.lookups_per_day),
        hint_lookups: number("hintLookups")?,
        changes_per_day: number("changesPerDay")?.unwrap_or(base.changes_per_day),
        memory_bytes: number("memoryBytes")?.unwrap_or(base.memory_bytes),
        uplink_kbit: number("uplinkKbit")?.unwrap_or(base.uplink_kbit),
        downlink_kbit: number("downlinkKbit")?.unwrap_or(base.downlink_kbit),
        ..base
    })
}

const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

fn workload_object(workload: &Workload) -> Object {
    let out = object([
        ("records", workload.records),
        ("valueBytes", workload.value_bytes),
        ("batch", workload.batch),
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

#[allow(clippy::cast_precision_loss)] // JavaScript's numbers are exact to 2^53; only days of 2^32 lookups are beyond
fn object(numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Object {
    let out = Object::new();
    for (name, number) in numbers {
        set(&out, name, number as f64);
    }
    out
}

fn set(object: &Object, name: &str, value: impl Into<JsValue>) {
    let _ = Reflect::set(object, &name.into(), &value.into());
}
