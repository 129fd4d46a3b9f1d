//! Costs of modes, as plain objects, typed in packages/wasm/src/core/costs.ts.

use keyhush_core::cost::{self, Advice, Mode, ModeCosts, Offers, Workload};
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use crate::cost::{directory_size, mode_name};
use crate::js::{self, Array, Object};
use crate::proofs::proofs_named;
use crate::{LayoutHandle, Outcome, thrown};

/// The kind of proof for a client, if servers offer both: tags, if what it holds then fits into 64 MB.
#[wasm_bindgen(js_name = suitableProofs, unchecked_return_type = "'merkle' | 'tags'")]
pub fn suitable_proofs(layout: &LayoutHandle, directory_bytes: u32) -> String {
    cost::suitable_proofs(&layout.0, u64::from(directory_bytes), cost::DEFAULT_MEMORY_BYTES).name().into()
}

/// The costs of each mode under a manifest's layout. Only the workload's lookups, queries and changes count.
///
/// # Errors
/// `layout` for a property that is not a whole number; `index` for an unknown kind of proof.
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

/// The mode that serves so many lookups a day, and when a download pays.
#[wasm_bindgen]
#[allow(clippy::cast_sign_loss, clippy::too_many_arguments)] // saturates; flat, as all functions here
pub fn advise(
    layout: &LayoutHandle,
    directory_bytes: u32,
    block_log: u32,
    block_bytes: u32,
    instant: bool,
    servers: usize,
    may_download: bool,
    lookups_per_day: f64,
) -> Object {
    let directory = directory_size(layout, directory_bytes, block_log, block_bytes);
    let offers = Offers { instant, servers: servers.clamp(1, 8) };
    advice_object(&Advice::new(&layout.0, &directory, offers, may_download, lookups_per_day as u64))
}

pub(crate) fn advice_object(advice: &Advice) -> Object {
    let out = object(advice.pays_after.map(|lookups| ("paysAfter", lookups)));
    set(&out, "mode", mode_name(advice.mode));
    set(&out, "download", mode_name(advice.download));
    out
}

pub(crate) fn modes_array(modes: &[ModeCosts]) -> Array {
    let out = Array::new();
    for costs in modes {
        out.push(&mode_object(costs));
    }
    out
}

fn mode_object(costs: &ModeCosts) -> Object {
    let out = object([
        ("prepareBytes", costs.prepare_bytes),
        ("firstBytes", costs.first_bytes),
        ("lookupBytesUp", costs.lookup_bytes_up),
        ("lookupBytesDown", costs.lookup_bytes_down),
        ("dayBytes", costs.day_bytes),
        ("memoryBytes", costs.held.bytes()),
        ("diskBytes", costs.disk_bytes),
        ("serverLookupMicros", costs.server_lookup_micros),
    ]);
    set(&out, "mode", mode_name(costs.mode));
    if let Some(proofs) = costs.proofs {
        set(&out, "proofs", proofs.name());
    }
    let held = &costs.held;
    let parts = match costs.mode {
        Mode::Local => vec![("records", held.records)],
        Mode::Instant => vec![],
        Mode::Single => vec![("hints", held.hints), ("tags", held.tags)],
        Mode::Full => vec![("parities", held.parities), ("permutations", held.permutations), ("tags", held.tags)],
    };
    let verifier = (held.verifier > 0).then_some(("verifier", held.verifier));
    set(&out, "held", object(parts.into_iter().chain(verifier)));
    out
}

/// Reads a workload. A missing property has the default of [`Workload::new`].
#[allow(clippy::cast_sign_loss)] // checked
pub(crate) fn read(workload: &JsValue) -> Result<Workload, Error> {
    let property = |name: &str| js::get(workload, name).unwrap_or(JsValue::UNDEFINED);
    let number = |name: &str| match property(name) {
        value if value.is_undefined() => Ok(None),
        value => value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(number))
            .map(|number| Some(number as u64))
            .ok_or_else(|| Error::Layout(format!("{name} must be a whole number from 0 to 2^53 - 1"))),
    };
    let base = Workload::new(number("records")?.unwrap_or(0), number("valueBytes")?.unwrap_or(0));
    Ok(Workload {
        keyed: property("keyed").is_truthy(),
        variable: property("variable").is_truthy(),
        partitions: number("partitions")?,
        pack: number("pack")?.unwrap_or(base.pack),
        queries: number("queries")?.unwrap_or(base.queries),
        lookups_per_day: number("lookupsPerDay")?.unwrap_or(base.lookups_per_day),
        hint_lookups: number("hintLookups")?,
        servers: match number("servers")? {
            None => base.servers,
            Some(servers) if (1..=8).contains(&servers) => servers,
            Some(_) => return Err(Error::Layout("servers must be from 1 to 8".into())),
        },
        changes_per_day: number("changesPerDay")?.unwrap_or(base.changes_per_day),
        memory_bytes: number("memoryBytes")?.unwrap_or(base.memory_bytes),
        uplink_kbit: number("uplinkKbit")?.unwrap_or(base.uplink_kbit),
        downlink_kbit: number("downlinkKbit")?.unwrap_or(base.downlink_kbit),
        ..base
    })
}

const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

#[allow(clippy::cast_precision_loss)] // JavaScript's numbers are exact to 2^53; only days of 2^32 lookups are beyond
pub(crate) fn object(numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Object {
    let out = Object::new();
    for (name, number) in numbers {
        set(&out, name, number as f64);
    }
    out
}

pub(crate) fn set(object: &Object, name: &str, value: impl Into<JsValue>) {
    js::set(object, name, &value.into());
}
