//! The sizes of a database, as a pass over it sees them.

use core::ops::Range;

use crate::dpf::{domain_log, key_bytes};

/// Bytes of a tree's node.
pub const NODE_BYTES: usize = 32;

/// Most bytes of records read in one step, unless a single group has more.
const STEP_BYTES: usize = 1 << 20;

/// The sizes of a database, seen in groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Q
    pub partitions: usize,
    /// M
    pub partition_records: usize,
    /// ℓ
    pub record_bytes: usize,
    /// d = ⌈log₂ M⌉
    pub depth: u32,
    /// a
    pub group_log: u32,
}

impl Shape {
    /// Groups of a partition: ⌈M/2^a⌉.
    #[must_use]
    pub fn partition_groups(&self) -> usize {
        self.partition_records.div_ceil(1 << self.group_log)
    }

    /// Groups of the database. They are the first points of a query's domain; the other points are not used.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.partitions * self.partition_groups()
    }

    /// Bytes of a whole group: 2^a·ℓ.
    #[must_use]
    pub fn group_bytes(&self) -> usize {
        self.record_bytes << self.group_log
    }

    /// Siblings on the path from a group to its partition's commitment: d − a.
    #[must_use]
    pub fn siblings(&self) -> usize {
        (self.depth - self.group_log) as usize
    }

    /// Bytes of a query.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        key_bytes(domain_log(self.groups()))
    }

    /// Bytes of a vector with a bit for each group.
    #[must_use]
    pub fn vector_bytes(&self) -> usize {
        self.groups().div_ceil(8)
    }

    /// Bytes of an answer: a group and its siblings.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.group_bytes() + self.siblings() * NODE_BYTES
    }

    /// Bytes of a partition's tree.
    #[must_use]
    pub fn tree_bytes(&self) -> usize {
        self.level(self.depth).end
    }

    fn level_nodes(&self, level: u32) -> usize {
        self.partition_records.div_ceil(1 << level)
    }

    /// The bytes of a level in a partition's tree.
    pub(crate) fn level(&self, level: u32) -> Range<usize> {
        let before: usize = (0..level).map(|below| self.level_nodes(below)).sum();
        before * NODE_BYTES..(before + self.level_nodes(level)) * NODE_BYTES
    }

    pub(crate) fn step_groups(&self) -> usize {
        (STEP_BYTES / self.group_bytes()).max(1)
    }

    /// Steps over the records of a partition.
    pub(crate) fn record_steps(&self) -> usize {
        self.partition_groups().div_ceil(self.step_groups())
    }

    /// Steps of a pass after its queries were evaluated. For each partition: its records, then its tree.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.partitions * (self.record_steps() + 1)
    }
}
