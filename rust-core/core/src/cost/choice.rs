//! Which mode serves an app's lookups, and when a download pays: the one rule of the map, the SDK's `estimate()`, `keyhush plan`
//! and the demo's page.

use super::hint::suitable_proofs;
use super::modes::{DirectorySize, Mode, ModeCosts, modes};
use super::sizes::SERVERS;
use super::workload::{DEFAULT_MEMORY_BYTES, Workload};
use crate::commitment::Proofs;
use crate::layout::Layout;

/// Up to this size a client keeps the whole database, unless the app says otherwise. It is smaller than a hint with its
/// data, needs no query, and no assumption about servers.
pub(super) const LOCAL_BYTES: u64 = 16 << 20;

/// The days for which an advice counts lookups.
const DAYS: u64 = 30;

/// What servers offer besides downloads and answers to hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// instant lookups
    pub instant: bool,
    /// how many servers there are that do not all collude, from 1; hints for two servers trust two
    pub servers: usize,
}

impl Default for Offers {
    fn default() -> Self {
        Offers { instant: false, servers: SERVERS as usize }
    }
}

/// The mode that a client with a free choice should be in after `lookups` lookups. It depends on nothing but the manifest, the
/// offers and the number of lookups: depending on keys would reveal what is asked, depending on the device would tell devices
/// apart.
///
/// A database of at most 16 MiB is kept whole. For a larger one, the mode is the one that would have taken the least time for
/// all lookups so far, preparing included. Time is transfer over the connection of [`Workload::new`], and the servers'
/// computing. So a client begins with the mode that needs no preparing. It prepares another one when it has spent as much time
/// without. The number of lookups only grows, so a client never goes back.
#[must_use]
pub fn choose_mode(layout: &Layout, directory: &DirectorySize, offers: Offers, lookups: u64) -> Mode {
    if layout.database_bytes() as u64 <= LOCAL_BYTES {
        return Mode::Local;
    }
    let suitable = suitable_proofs(layout, directory.bytes, DEFAULT_MEMORY_BYTES);
    let servers = SERVERS.max(offers.servers as u64);
    let mine = |row: &ModeCosts| match row.mode {
        Mode::Local => false,
        Mode::Instant => offers.instant,
        Mode::Full => row.proofs == Some(suitable),
        Mode::Single => servers > SERVERS,
    };
    let workload = Workload { servers, ..Workload::new(0, 0) };
    let rows = modes(layout, directory, &[Proofs::Openings, Proofs::Tags], &workload);
    match rows.iter().filter(|row| mine(row)).min_by_key(|row| row.micros(&workload, lookups)).map(|row| row.mode) {
        None => Mode::Local,
        // A hint trusts two. What one server costs is about what two cost.
        Some(Mode::Full) if offers.servers == 1 => {
            if rows.iter().any(|row| row.mode == Mode::Single) {
                Mode::Single
            } else {
                Mode::Local
            }
        }
        Some(mode) => mode,
    }
}

/// What serves so many lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// the mode of a map after a month of such lookups
    pub mode: Mode,
    /// the mode that a map would download for
    pub download: Mode,
    /// the number of lookups after which it does, from 1; 0: nothing answers before; `None`: however many, it does not
    pub pays_after: Option<u64>,
}

impl Advice {
    /// For a client that makes `lookups_per_day` in one map, and `may_download`.
    #[must_use]
    pub fn new(
        layout: &Layout,
        directory: &DirectorySize,
        offers: Offers,
        may_download: bool,
        lookups_per_day: u64,
    ) -> Self {
        let download = choose_mode(layout, directory, Offers { instant: false, ..offers }, 0);
        if !offers.instant {
            return Advice { mode: download, download, pays_after: Some(0) };
        }
        let downloads = |lookups| choose_mode(layout, directory, offers, lookups) != Mode::Instant;
        let pays_after = (may_download && downloads(u64::MAX)).then(|| first(downloads));
        let mode = match pays_after {
            Some(least) if least <= lookups_per_day.saturating_mul(DAYS) => download,
            _ => Mode::Instant,
        };
        Advice { mode, download, pays_after }
    }
}

/// The least number from 1 for which `holds`, which then holds for all that are larger.
fn first(holds: impl Fn(u64) -> bool) -> u64 {
    let (mut below, mut at) = (0, u64::MAX);
    while at - below > 1 {
        let middle = u64::midpoint(below, at);
        if holds(middle) { at = middle } else { below = middle }
    }
    at
}
