//! The layout (N, ℓ, Q, M, g) of a database: its checks, its planner, and the sizes that follow from it.
//!
//! Stored records lie in blocks of g. Lookups work on the database of blocks, so what a [`Layout`] calls a record is a
//! block of g·ℓ bytes, and its M and Q·M count blocks (docs/protocol.md, Blocks: ℓ′ and M′). With g = 1 a block is a
//! stored record. [`Layout::stored`] has the numbers of stored records; [`Layout::locate`] finds a stored record's block,
//! and [`Layout::cut`] takes the record out of it.
//!
//! The papers set M = Q = √N. A client stores N permutation entries for any Q, while an answer costs 2·Q·(ℓ + proof).
//! So the planner takes the smallest Q (docs/protocol.md, Planning). Security does not depend on Q or M: Show-and-Shuffle
//! (papers: SinglePass, Fig. 3) has advantage 0 for all of them.

use std::ops::Range;

use crate::error::{Error, expect_below};

/// Longest stored record, in bytes.
pub const MAX_RECORD_BYTES: usize = 65_536;
/// Most blocks in a partition, so that offsets fit into a `u16`.
pub const MAX_PARTITION_RECORDS: usize = 65_536;
/// Most partitions in a database.
pub const MAX_PARTITIONS: usize = 65_536;

const MIN_PLANNED_PARTITIONS: u64 = 16;
const HINT_BYTES_TARGET: u64 = 8 << 20;
/// Most queries of a request, in any generation.
pub const MAX_QUERIES: usize = 64;
const ANSWER_BYTES_TARGET: usize = 8 << 20;
const ANSWER_BYTES_CEILING: usize = 2 * ANSWER_BYTES_TARGET;

/// The sizes of stored records, as in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// ℓ
    pub record_bytes: usize,
    /// M: stored records of a partition
    pub partition_records: usize,
    /// g: stored records of a block
    pub block_records: usize,
}

/// (N, ℓ, Q, M, g), checked: 1 ≤ N ≤ Q·M, each number within its bounds, and Q·M·ℓ bytes addressable on this machine,
/// unless it is the layout of lookups in a sharded database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    records: usize,
    partitions: usize,
    stored: Stored,
}

impl Layout {
    /// Checks the numbers of a manifest whose blocks are single records.
    ///
    /// # Errors
    /// [`Error::Layout`] if a number is out of bounds, or the database too large to be addressed.
    pub fn new(records: u64, record_bytes: u64, partitions: u64, partition_records: u64) -> Result<Self, Error> {
        Self::packed(records, record_bytes, partitions, partition_records, 1)
    }

    /// Checks the five numbers of a manifest. All count stored records.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn packed(
        records: u64,
        record_bytes: u64,
        partitions: u64,
        partition_records: u64,
        block_records: u64,
    ) -> Result<Self, Error> {
        Self::checked(records, record_bytes, partitions, partition_records, block_records, false)
    }

    /// The layout of lookups: that of a manifest, or all partitions of a sharded database as one, which nobody holds.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn of_lookups(
        records: u64,
        record_bytes: u64,
        partitions: u64,
        partition_records: u64,
        block_records: u64,
    ) -> Result<Self, Error> {
        let is_joined = partitions == 1 && partition_records == records && records.is_power_of_two();
        Self::checked(records, record_bytes, partitions, partition_records, block_records, is_joined)
    }

    fn checked(
        records: u64,
        record_bytes: u64,
        partitions: u64,
        partition_records: u64,
        block_records: u64,
        is_joined: bool,
    ) -> Result<Self, Error> {
        let within = |name: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::Layout(format!("{name} must be 1 to {most}, got {value}")))
            }
        };
        within("bytes a record (ℓ)", record_bytes, MAX_RECORD_BYTES as u64)?;
        within("partitions (Q)", partitions, MAX_PARTITIONS as u64)?;
        within("records a block (g)", block_records, MAX_RECORD_BYTES as u64 / record_bytes)?;
        let most = MAX_PARTITION_RECORDS as u64 * block_records;
        let most = if is_joined { u32::MAX.into() } else { most };
        within("records a partition (M)", partition_records, most.min(u64::from(u32::MAX)))?;
        within("records (N)", records, (partitions * partition_records).min(u64::from(u32::MAX)))?;
        if !block_records.is_power_of_two() || !partition_records.is_multiple_of(block_records) {
            return Err(Error::Layout(format!(
                "records a block (g) must be a power of two that divides {partition_records}, got {block_records}"
            )));
        }
        let bytes = partitions * partition_records * record_bytes;
        if !is_joined && isize::try_from(bytes).is_err() {
            return Err(Error::Layout(format!("a database of {bytes} bytes cannot be addressed on this machine")));
        }
        let stored = Stored {
            record_bytes: record_bytes as usize,
            partition_records: partition_records as usize,
            block_records: block_records as usize,
        };
        Ok(Layout { records: records as usize, partitions: partitions as usize, stored })
    }

    /// Plans a new database of single records: the smallest Q ≥ 16 with M ≤ 65 536 and a hint of at most 8 MiB, or the given
    /// Q.
    ///
    /// # Errors
    /// [`Error::Layout`] if no layout within bounds exists.
    pub fn plan(records: u64, record_bytes: u64, partitions: Option<u64>) -> Result<Self, Error> {
        Self::plan_packed(records, record_bytes, partitions, 1)
    }

    /// Plans a new database in blocks of `block_records`: the bounds hold for the database of blocks.
    ///
    /// # Errors
    /// As [`Layout::plan`].
    pub fn plan_packed(
        records: u64,
        record_bytes: u64,
        partitions: Option<u64>,
        block_records: u64,
    ) -> Result<Self, Error> {
        if records == 0 || record_bytes == 0 || block_records == 0 {
            return Err(Error::Layout(format!(
                "a database needs records of at least a byte, got {records} records of {record_bytes} bytes, \
                 {block_records} a block"
            )));
        }
        let blocks = records.div_ceil(block_records);
        let most =
            (HINT_BYTES_TARGET / record_bytes.saturating_mul(block_records)).clamp(1, MAX_PARTITION_RECORDS as u64);
        let partitions = partitions.unwrap_or_else(|| blocks.div_ceil(most).max(MIN_PLANNED_PARTITIONS));
        let partition_records = blocks.div_ceil(partitions.max(1)).saturating_mul(block_records);
        Self::packed(records, record_bytes, partitions, partition_records, block_records)
    }

    /// This layout in a later epoch, with another N and Q.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn grown(&self, records: u64, partitions: u64) -> Result<Self, Error> {
        let Stored { record_bytes, partition_records, block_records } = self.stored;
        let [bytes, m, g] = [record_bytes, partition_records, block_records].map(|number| number as u64);
        Self::packed(records, bytes, partitions, m, g)
    }

    /// N, the number of stored records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// The sizes of stored records.
    #[must_use]
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// ℓ′ = g·ℓ, the bytes of a block.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.stored.record_bytes * self.stored.block_records
    }

    /// Q, the number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// M′ = M/g, the blocks of a partition.
    #[must_use]
    pub fn partition_records(&self) -> usize {
        self.stored.partition_records / self.stored.block_records
    }

    /// M·ℓ: the bytes of a partition, at most `usize::MAX`. A hint's parities have as many.
    #[must_use]
    pub fn partition_bytes(&self) -> usize {
        self.stored.partition_records.saturating_mul(self.stored.record_bytes)
    }

    /// Q·M·ℓ: the bytes of the whole database.
    #[must_use]
    pub fn database_bytes(&self) -> usize {
        self.partitions * self.partition_bytes()
    }

    /// Q·M′: all blocks, with padding. A hint's permutations have as many entries.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.partitions * self.partition_records()
    }

    /// Q·M: all stored records, with padding.
    #[must_use]
    pub fn room(&self) -> usize {
        self.partitions * self.stored.partition_records
    }

    /// d = ⌈log₂ M′⌉: the levels above the leaves of a binary tree over one partition.
    #[must_use]
    pub fn depth(&self) -> u32 {
        usize::BITS - (self.partition_records() - 1).leading_zeros()
    }

    /// The query limit of a generation that begins with this layout: as many queries as 8 MiB of entries serve, from 1 to 64.
    /// `entry_bytes` is ℓ′, or ℓ′ + proof. The limit stays while Q grows, so that a pending lookup can always be sent.
    #[must_use]
    pub fn max_queries(&self, entry_bytes: usize) -> usize {
        (ANSWER_BYTES_TARGET / (self.partitions * entry_bytes)).clamp(1, MAX_QUERIES)
    }

    /// Whether a generation with query limit `max_queries` may have this layout: its longest answer has at most 16 MiB of
    /// entries, or answers a single query. So Q may at least double before the next generation must begin.
    #[must_use]
    pub fn carries(&self, max_queries: usize, entry_bytes: usize) -> bool {
        let bytes = self.partitions as u64 * max_queries as u64 * entry_bytes as u64;
        max_queries == 1 || (1..=MAX_QUERIES).contains(&max_queries) && bytes <= ANSWER_BYTES_CEILING as u64
    }

    /// (q, m): the partition of the stored record `index`, and its block's offset in the partition.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such record.
    pub fn locate(&self, index: u32) -> Result<(usize, usize), Error> {
        expect_below("record index", index as usize, self.records)?;
        Ok(self.place(index))
    }

    /// [`Layout::locate`] of an index that has been checked.
    pub(crate) fn place(&self, index: u32) -> (usize, usize) {
        let block = index as usize / self.stored.block_records;
        (block / self.partition_records(), block % self.partition_records())
    }

    /// The bytes of the stored record `index` within its block: slot i mod g.
    #[must_use]
    pub fn slot(&self, index: u32) -> Range<usize> {
        let start = index as usize % self.stored.block_records * self.stored.record_bytes;
        start..start + self.stored.record_bytes
    }

    /// Cuts the stored records `indices` out of their blocks, which come in the same order, ℓ′ bytes each. Pass only whole
    /// blocks that have been verified: a record cut out earlier would be checked alone, and then the servers could learn the
    /// slot from whether a wrong block was noticed.
    pub(crate) fn cut(&self, indices: &[u32], blocks: &[u8]) -> Vec<u8> {
        let mut records = Vec::with_capacity(indices.len() * self.stored.record_bytes);
        for (block, &index) in blocks.chunks_exact(self.record_bytes()).zip(indices) {
            records.extend_from_slice(&block[self.slot(index)]);
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit a generation begins with holds until Q has doubled. After that the generation ends; the limit never falls.
    #[test]
    fn a_generation_grows_until_its_longest_answer_would_be_too_long() {
        for (m, l, entry) in [(1, 65_536, 65_536), (65_536, 32, 544), (65_536, 32, 32), (4, 65_535, 65_599)] {
            for q in [1, 2, 15, 16, 17, 255, 256, 1024] {
                let layout = |q| Layout::new(1, l, q, m);
                let Ok(first) = layout(q) else { continue };
                let limit = first.max_queries(entry);
                assert!(first.carries(limit, entry));
                let Ok(double) = layout(2 * q) else { continue };
                assert!(double.carries(limit, entry), "{q} {entry}");
                if let Ok(large) = layout(65_536) {
                    assert_eq!(large.carries(limit, entry), limit == 1);
                }
                assert!(!first.carries(65, 1) && !first.carries(0, entry));
            }
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        for (n, l, q, m) in [
            (0, 1, 1, 1),
            (1, 0, 1, 1),
            (1, 1, 0, 1),
            (1, 1, 1, 0),
            (2, 1, 1, 1),
            (1, 65_537, 1, 1),
            (1, 1, 65_537, 1),
            (1, 1, 1, 65_537),
        ] {
            assert!(matches!(Layout::new(n, l, q, m), Err(Error::Layout(_))), "{n} {l} {q} {m}");
        }
        for (n, q) in [(0, None), (1 << 20, Some(1)), (1, Some(0)), (1, Some(65_537))] {
            assert!(Layout::plan(n, 1, q).is_err(), "{n} {q:?}");
        }
        assert_eq!(Layout::new(1, 1, 1, 1).unwrap().depth(), 0);
        assert!(Layout::plan(10, 1, None).unwrap().locate(10).is_err());
    }
}
