//! Answers up to eight instant lookups in one pass over a database (docs/protocol.md, Instant lookups).
//!
//! A *group* is 2^a consecutive records of a partition; the last one may have fewer. Each group has a byte of selectors, with
//! one bit for each query: whether the group is in the query's sum. Records and tree nodes are read once for all queries (the
//! method of four Russians): there is a sum for each combination of four queries, and a row is added to the sum of its
//! combination. At the end, the sums of combinations give each query's sum.
//!
//! The selectors are added up in pairs, level by level. The result selects, in each level, the ancestors of the group that
//! was asked for: the sums of a unit vector's shares over subtrees are shares of the ancestors' unit vector. So one key serves
//! the records and the siblings of all levels.

use core::ops::Range;

use crate::dpf::{Key, domain_log, key_bytes, scratch_nodes};
use crate::prg::{SEED_BYTES, Seed};

/// Most queries of one pass: the bits of a byte.
pub const PASS_QUERIES: usize = 8;
/// Bytes of a tree's node.
pub const NODE_BYTES: usize = 32;

/// Most bytes of records read in one step, unless a single group has more.
const STEP_BYTES: usize = 1 << 20;
/// Queries whose combinations have sums of their own.
const HALF: usize = PASS_QUERIES / 2;
const COMBINATIONS: usize = 1 << HALF;

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
        (0..=self.depth).map(|level| self.level_nodes(level) * NODE_BYTES).sum()
    }

    fn level_nodes(&self, level: u32) -> usize {
        self.partition_records.div_ceil(1 << level)
    }

    /// The bytes of a level in a partition's tree.
    fn level(&self, level: u32) -> Range<usize> {
        let before: usize = (0..level).map(|below| self.level_nodes(below)).sum();
        before * NODE_BYTES..(before + self.level_nodes(level)) * NODE_BYTES
    }

    fn step_groups(&self) -> usize {
        (STEP_BYTES / self.group_bytes()).max(1)
    }

    /// Steps over the records of a partition.
    fn record_steps(&self) -> usize {
        self.partition_groups().div_ceil(self.step_groups())
    }

    /// Steps of a pass after its queries were evaluated. For each partition: its records, then its tree.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.partitions * (self.record_steps() + 1)
    }

    /// Bytes of scratch memory for a pass of `queries` queries.
    #[must_use]
    pub fn scratch_bytes(&self, queries: usize) -> usize {
        let nodes = scratch_nodes(self.groups());
        self.sums_bytes(queries) + self.groups() + self.partition_groups() + nodes * (1 + SEED_BYTES)
    }

    fn sums_bytes(&self, queries: usize) -> usize {
        queries.div_ceil(HALF) * COMBINATIONS * self.answer_bytes()
    }
}

/// What the last update overwrote, for queries at the previous epoch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overwritten<'a> {
    /// indices of records, ascending
    pub indices: &'a [u32],
    /// those records, ℓ bytes each
    pub records: &'a [u8],
    /// nodes of trees, ascending by partition and place
    pub nodes: &'a [Node],
}

/// The old content of a tree's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    /// the partition that the tree belongs to
    pub partition: u32,
    /// its place in the tree, counted in nodes
    pub place: u32,
    /// the old content
    pub content: [u8; NODE_BYTES],
}

/// The range of items whose key is within `bounds`. Items are sorted by key.
pub(crate) fn between<T>(all: &[T], bounds: Range<usize>, key: impl Fn(&T) -> usize) -> Range<usize> {
    all.partition_point(|one| key(one) < bounds.start)..all.partition_point(|one| key(one) < bounds.end)
}

/// The memory of a pass, in which its answers are added up.
pub struct Scratch<'a> {
    shape: Shape,
    /// for each half of the queries, an answer for each combination of them
    sums: &'a mut [u8],
    /// a byte for each group, with a bit for each query
    selectors: &'a mut [u8],
    /// the selectors of one partition, added up level by level
    folded: &'a mut [u8],
    controls: &'a mut [u8],
    nodes: &'a mut [Seed],
}

impl<'a> Scratch<'a> {
    /// Divides [`Shape::scratch_bytes`] bytes, which must be zeros before the first step; `None` if their number is wrong.
    pub fn new(shape: Shape, queries: usize, bytes: &'a mut [u8]) -> Option<Self> {
        let nodes = scratch_nodes(shape.groups());
        let (sums, rest) = bytes.split_at_mut_checked(shape.sums_bytes(queries))?;
        let (selectors, rest) = rest.split_at_mut_checked(shape.groups())?;
        let (folded, rest) = rest.split_at_mut_checked(shape.partition_groups())?;
        let (controls, rest) = rest.split_at_mut_checked(nodes)?;
        let (nodes, rest) = rest.split_at_mut_checked(nodes * SEED_BYTES)?;
        rest.is_empty().then_some(Scratch { shape, sums, selectors, folded, controls, nodes: nodes.as_chunks_mut().0 })
    }

    /// Evaluates a query's key at the first `points` groups: those of the query's epoch.
    pub fn select(&mut self, query: usize, key: &Key<'_>, points: usize) {
        let selectors = &mut self.selectors[..points];
        key.evaluate(points, self.nodes, self.controls, |leaf, outputs| {
            select(&mut selectors[leaf * outputs.len() * 8..], query, outputs);
        });
    }

    /// Selects the groups whose bit is set in `vector`, low bits first. It has a bit for each group of the query's epoch.
    pub fn select_vector(&mut self, query: usize, vector: &[u8]) {
        select(self.selectors, query, vector);
    }

    /// Does step `number` of [`Shape::steps`]. Do each once, in any order, after every query was [selected](Self::select).
    /// `records` are all Q·M·ℓ bytes; `trees` are Q times [`Shape::tree_bytes`].
    pub fn step(&mut self, number: usize, records: &[u8], trees: &[u8]) {
        let shape = self.shape;
        let (q, part) = (number / (shape.record_steps() + 1), number % (shape.record_steps() + 1));
        let selectors = &self.selectors[q * shape.partition_groups()..][..shape.partition_groups()];
        if part < shape.record_steps() {
            let partition_bytes = shape.partition_records * shape.record_bytes;
            let groups = part * shape.step_groups()..selectors.len().min((part + 1) * shape.step_groups());
            let rows = &records[q * partition_bytes..][..partition_bytes][groups.start * shape.group_bytes()..];
            add(self.sums, &shape, 0, rows.chunks(shape.group_bytes()), &selectors[groups]);
            return;
        }
        let tree = &trees[q * shape.tree_bytes()..][..shape.tree_bytes()];
        self.folded.copy_from_slice(selectors);
        let mut width = selectors.len();
        for (sibling, level) in (shape.group_log..shape.depth).enumerate() {
            // Node t is the sibling of node t ⊕ 1. A last node without a partner is no node's sibling.
            let (pairs, _) = self.folded[..width].as_chunks_mut::<2>();
            for pair in &mut *pairs {
                pair.swap(0, 1);
            }
            let at = shape.group_bytes() + sibling * NODE_BYTES;
            let nodes = tree[shape.level(level)].as_chunks::<NODE_BYTES>().0;
            add(self.sums, &shape, at, nodes.iter().map(<[u8; NODE_BYTES]>::as_slice), pairs.as_flattened());
            width = fold(&mut self.folded[..width]);
        }
    }

    /// Takes the last update of partition `q` out of the sums of some queries: adds old ⊕ new of each record and node in them.
    /// `previous` has a bit for each query. Do it once for each partition, before or after its steps.
    pub fn undo(&mut self, q: usize, previous: u8, overwritten: &Overwritten<'_>, records: &[u8], trees: &[u8]) {
        let shape = self.shape;
        let (m, bytes) = (shape.partition_records, shape.record_bytes);
        let selectors = &self.selectors[q * shape.partition_groups()..][..shape.partition_groups()];
        for i in between(overwritten.indices, q * m..(q + 1) * m, |index| *index as usize) {
            let index = overwritten.indices[i] as usize;
            let (group, slot) = ((index % m) >> shape.group_log, (index % m) % (1 << shape.group_log));
            let rows = [&overwritten.records[i * bytes..][..bytes], &records[index * bytes..][..bytes]];
            add(self.sums, &shape, slot * bytes, rows.into_iter(), &[selectors[group] & previous; 2]);
        }
        let nodes = &overwritten.nodes[between(overwritten.nodes, q..q + 1, |node| node.partition as usize)];
        if nodes.is_empty() {
            return;
        }
        let tree = trees[q * shape.tree_bytes()..][..shape.tree_bytes()].as_chunks::<NODE_BYTES>().0;
        self.folded.copy_from_slice(selectors);
        let mut width = selectors.len();
        for (sibling, level) in (shape.group_log..shape.depth).enumerate() {
            let bounds = shape.level(level);
            let places = bounds.start / NODE_BYTES..bounds.end / NODE_BYTES;
            let at = shape.group_bytes() + sibling * NODE_BYTES;
            for node in &nodes[between(nodes, places.clone(), |node| node.place as usize)] {
                let place = node.place as usize;
                // The selector of the node whose sibling this is. A last node without a partner is no node's sibling.
                let selector = self.folded[..width].get((place - places.start) ^ 1).copied().unwrap_or(0);
                let rows = [node.content.as_slice(), tree[place].as_slice()];
                add(self.sums, &shape, at, rows.into_iter(), &[selector & previous; 2]);
            }
            width = fold(&mut self.folded[..width]);
        }
    }

    /// Writes the answer to a query, after all steps. `answer` must be zeros, as long as an answer.
    pub fn answer(&self, query: usize, answer: &mut [u8]) {
        let bytes = self.shape.answer_bytes();
        let half = &self.sums[query / HALF * COMBINATIONS * bytes..][..COMBINATIONS * bytes];
        for (combination, sum) in half.chunks_exact(bytes).enumerate() {
            if (combination >> (query % HALF)) & 1 == 1 {
                xor_into(answer, sum);
            }
        }
    }
}

/// Sets a query's bit in the selectors of the groups whose bit is set. Bits beyond the last group are ignored.
fn select(selectors: &mut [u8], query: usize, vector: &[u8]) {
    for (groups, byte) in selectors.chunks_mut(8).zip(vector) {
        for (selector, bit) in groups.iter_mut().zip(bits(*byte)) {
            *selector |= bit << query;
        }
    }
}

/// Adds each row to the sums of its selector's combinations, at byte `at`. A short row counts as padded with zeros.
fn add<'r>(sums: &mut [u8], shape: &Shape, at: usize, rows: impl Iterator<Item = &'r [u8]>, selectors: &[u8]) {
    let bytes = shape.answer_bytes();
    let (low, high) = sums.split_at_mut(COMBINATIONS * bytes);
    for (row, selector) in rows.zip(selectors) {
        let selector = usize::from(*selector);
        xor_into(&mut low[selector % COMBINATIONS * bytes + at..][..row.len()], row);
        if !high.is_empty() {
            xor_into(&mut high[selector / COMBINATIONS * bytes + at..][..row.len()], row);
        }
    }
}

/// Adds up pairs of selectors; a last one without a partner stays as it is. Returns how many are left.
fn fold(selectors: &mut [u8]) -> usize {
    let width = selectors.len().div_ceil(2);
    for t in 0..width {
        selectors[t] = selectors[2 * t] ^ selectors.get(2 * t + 1).copied().unwrap_or(0);
    }
    width
}

/// The bits of a byte, low first.
#[inline]
fn bits(byte: u8) -> [u8; 8] {
    // Each byte of the product is `byte`, and keeps one bit. The addition carries that bit to the top of its byte.
    let own = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (((own + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101).to_le_bytes()
}

/// `into` ⊕= `row`. Both have the same length.
#[inline]
pub fn xor_into(into: &mut [u8], row: &[u8]) {
    let (blocks, rest) = into.as_chunks_mut::<NODE_BYTES>();
    let (row_blocks, row_rest) = row.as_chunks::<NODE_BYTES>();
    for (block, row) in blocks.iter_mut().zip(row_blocks) {
        for (byte, other) in block.iter_mut().zip(row) {
            *byte ^= other;
        }
    }
    for (byte, other) in rest.iter_mut().zip(row_rest) {
        *byte ^= other;
    }
}
