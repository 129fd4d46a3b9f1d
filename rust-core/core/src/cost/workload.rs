//! What costs are computed for: the length of records, and what a client does in a day.

use super::sizes::SERVERS;
use crate::key::FINGERPRINT_BYTES;

/// The client memory that a plan may use by default: 64 MB.
pub const DEFAULT_MEMORY_BYTES: u64 = 64_000_000;

/// Records of a block (g), unless the publisher says otherwise.
pub const DEFAULT_PACK: u64 = 1;

/// What a plan is made for. A lookup is one request to each server, with `queries` queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// N
    pub records: u64,
    /// length of a value; of the longest, if lengths vary
    pub value_bytes: u64,
    /// lookups by key, not by index
    pub keyed: bool,
    /// values vary in length
    pub variable: bool,
    /// Q, unless it is to be planned
    pub partitions: Option<u64>,
    /// g
    pub pack: u64,
    /// queries of a lookup
    pub queries: u64,
    /// lookups of one client
    pub lookups_per_day: u64,
    /// lookups of hints that run out, unless the default is meant
    pub hint_lookups: Option<u64>,
    /// operators that run a server, 1 to 8
    pub servers: u64,
    /// records that change in a day, in one epoch. 0: a database that never changes, without updates and fence
    pub changes_per_day: u64,
    /// memory that a client may use
    pub memory_bytes: u64,
    /// upload, in 1000 bits a second
    pub uplink_kbit: u64,
    /// download, in 1000 bits a second
    pub downlink_kbit: u64,
}

impl Workload {
    /// N keyless records of `value_bytes`. One query in a lookup, 20 lookups a day, no changes. A mobile connection of 5 Mbit/s up
    /// and 20 Mbit/s down.
    #[must_use]
    pub fn new(records: u64, value_bytes: u64) -> Self {
        Workload {
            records,
            value_bytes,
            keyed: false,
            variable: false,
            partitions: None,
            pack: DEFAULT_PACK,
            queries: 1,
            lookups_per_day: 20,
            hint_lookups: None,
            servers: SERVERS,
            changes_per_day: 0,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            uplink_kbit: 5_000,
            downlink_kbit: 20_000,
        }
    }

    /// ℓ = 16·keyed + 2·variable + value bytes.
    pub(super) fn record_bytes(&self) -> u64 {
        FINGERPRINT_BYTES as u64 * u64::from(self.keyed) + 2 * u64::from(self.variable) + self.value_bytes
    }
}

/// The microseconds that `bytes` take at `kbit` · 1000 bits a second.
pub(super) fn micros(bytes: u64, kbit: u64) -> u64 {
    bytes.saturating_mul(8000).div_ceil(kbit)
}
