//! Plans a database: its layout, its costs, and the mode and the kind of proof that suit the workload.

use super::choice::{Advice, LOCAL_BYTES, Offers};
use super::hint::{Costs, suitable_proofs};
use super::modes::{DirectorySize, Mode, ModeCosts, modes};
use super::sizes::SERVERS;
use super::workload::Workload;
use crate::commitment::{Merkle, Proofs};
use crate::error::Error;
use crate::layout::{Layout, MAX_RECORD_BYTES};

/// A layout, its costs, and the mode and the kind of proof that suit the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// the workload it was made for
    pub workload: Workload,
    /// Q and M as [`Layout::plan`] decides them
    pub layout: Layout,
    /// costs with an opening proof after every record
    pub merkle: Costs,
    /// costs with tags that the client keeps
    pub tags: Costs,
    /// costs of every mode ([`modes`])
    pub modes: Vec<ModeCosts>,
    /// the mode for the workload's lookups a day, if the servers offer every mode that so many can
    pub recommended: Advice,
    /// of a hint: tags, if the client has the memory for them
    pub proofs: Proofs,
    /// the reasons, in sentences
    pub reason: String,
}

impl Plan {
    /// Plans a database for a workload.
    ///
    /// # Errors
    /// [`Error::Layout`] if there is no such database, a request cannot have so many queries, or a connection has no speed.
    pub fn new(workload: &Workload) -> Result<Self, Error> {
        if workload.value_bytes > MAX_RECORD_BYTES as u64 {
            return Err(Error::Layout(format!(
                "a value has at most {MAX_RECORD_BYTES} bytes, got {}",
                workload.value_bytes
            )));
        }
        if workload.uplink_kbit == 0 || workload.downlink_kbit == 0 {
            return Err(Error::Layout("a connection has at least 1 kbit/s each way, got 0".into()));
        }
        let Workload { records, partitions, .. } = *workload;
        let record_bytes = workload.record_bytes();
        let layout = Layout::plan_packed(records, record_bytes, partitions, workload.pack)?;
        let most = layout.max_queries(Proofs::Openings.entry_bytes::<Merkle>(&layout)) as u64;
        if !(1..=most).contains(&workload.queries) {
            return Err(Error::Layout(format!("a lookup has 1 to {most} queries, got {}", workload.queries)));
        }
        let directory = if workload.keyed { DirectorySize::expected(&layout) } else { DirectorySize::default() };
        let [merkle, tags] =
            [Proofs::Openings, Proofs::Tags].map(|proofs| Costs::new(&layout, directory.bytes, workload, proofs));
        let modes = modes(&layout, &directory, Proofs::ALL, workload);
        let proofs = suitable_proofs(&layout, tags.directory_bytes, workload.memory_bytes);
        let offers = Offers { instant: workload.servers >= SERVERS, servers: workload.servers as usize };
        let recommended = Advice::new(&layout, &directory, offers, true, workload.lookups_per_day);
        let mut reason = reason_for(&recommended, &merkle, workload.lookups_per_day);
        if recommended.mode == Mode::Full {
            reason.push(' ');
            reason.push_str(&reason_of_proofs(&merkle, &tags, workload.memory_bytes, proofs));
        }
        Ok(Plan { workload: *workload, layout, merkle, tags, modes, recommended, proofs, reason })
    }
}

/// Why this mode serves.
fn reason_for(advice: &Advice, costs: &Costs, lookups_per_day: u64) -> String {
    let size = si(costs.database_bytes);
    let Some(least) = advice.pays_after else {
        return format!("A download of {size} never pays.");
    };
    if costs.database_bytes <= LOCAL_BYTES && advice.mode == Mode::Local {
        let when = if least == 0 { "before" } else { "after" };
        format!("The list has {size}. Up to {} a map downloads it, {when} the first lookup.", si(LOCAL_BYTES))
    } else if least == 0 {
        format!("One server answers nothing before a download of {size}.")
    } else if lookups_per_day == 0 {
        format!("A map that looks nothing up downloads nothing. A download of {size} pays after {least} lookups.")
    } else {
        let days = least.div_ceil(lookups_per_day);
        format!("A download of {size} pays after {least} lookups: {days} days of {lookups_per_day} in one map.")
    }
}

/// Why these proofs suit a hint.
fn reason_of_proofs(merkle: &Costs, tags: &Costs, memory_bytes: u64, suitable: Proofs) -> String {
    let moved = [merkle, tags].map(|costs| si(costs.day_bytes()));
    let held = [merkle, tags].map(|costs| si(costs.memory_bytes));
    let target = si(memory_bytes);
    let without_tags = format!("A day moves {} with proofs and would move {} with tags", moved[0], moved[1]);
    if merkle.memory_bytes > memory_bytes {
        format!("A client holds {} even without tags, more than its {target}. {without_tags}.", held[0])
    } else if suitable != Proofs::Tags {
        format!("With tags a client would hold {}, more than its {target}. {without_tags}.", held[1])
    } else {
        let fits = format!("With tags a client holds {}, within its {target}.", held[1]);
        format!("A day moves {} with tags and would move {} with proofs. {fits}", moved[1], moved[0])
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
