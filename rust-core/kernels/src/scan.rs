//! Answers up to sixteen instant lookups in one pass over a database (docs/protocol.md, Instant lookups).
//!
//! A *group* is 2^a consecutive records of a partition; the last one may have fewer. Each group has a bit for each query:
//! whether the group is in the query's sum. Records and tree nodes are read once for all queries ([`eight`](crate::eight)).
//!
//! The selectors are added up in pairs, level by level. The result selects, in each level, the ancestors of the group that
//! was asked for: the sums of a unit vector's shares over subtrees are shares of the ancestors' unit vector. So one key serves
//! the records and the siblings of all levels.

use core::array::from_fn;
use core::ops::Range;

use crate::dpf::{Key, Nodes, scratch_nodes};
use crate::eight::Eight;
use crate::shape::{NODE_BYTES, Shape};

/// Most queries of one pass.
pub const PASS_QUERIES: usize = 8 * EIGHTS;
const EIGHTS: usize = 2;
/// Bytes of records that are read for all queries before the next ones are: they stay in the processor's first cache.
const PAGE_BYTES: usize = 4096;
/// Pairs of selectors that are added up at once.
const SUMS: usize = 16;

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
fn between<T>(all: &[T], bounds: Range<usize>, key: impl Fn(&T) -> usize) -> Range<usize> {
    all.partition_point(|one| key(one) < bounds.start)..all.partition_point(|one| key(one) < bounds.end)
}

/// The memory of a pass, in which its answers are added up.
pub struct Scratch<'a> {
    shape: Shape,
    eights: [Option<Eight<'a>>; EIGHTS],
    nodes: &'a mut [Nodes],
}

impl<'a> Scratch<'a> {
    /// Bytes of memory for a pass of `queries` queries.
    #[must_use]
    pub fn bytes(shape: &Shape, queries: usize) -> usize {
        queries.div_ceil(8) * Eight::bytes(shape) + scratch_nodes(shape.groups()) * size_of::<Nodes>()
    }

    /// Divides [`Scratch::bytes`] bytes, which must be zeros before the first step; `None` if their number is wrong.
    pub fn new(shape: Shape, queries: usize, bytes: &'a mut [u8]) -> Option<Self> {
        let (mut eights, mut rest) = ([const { None }; EIGHTS], bytes);
        for eight in eights.get_mut(..queries.div_ceil(8))? {
            let split = Eight::split(&shape, queries == 1, rest)?;
            (*eight, rest) = (Some(split.0), split.1);
        }
        let right = rest.len() == scratch_nodes(shape.groups()) * size_of::<Nodes>();
        right.then_some(Scratch { shape, eights, nodes: rest.as_chunks_mut().0.as_chunks_mut().0 })
    }

    /// Evaluates a query's key at the first `points` groups: those of the query's epoch.
    pub fn select(&mut self, query: usize, key: &Key<'_>, points: usize) {
        let Some(eight) = &mut self.eights[query / 8] else { return };
        let selectors = &mut eight.selectors[..points];
        key.evaluate(points, self.nodes, |leaf, outputs| {
            select(&mut selectors[leaf * outputs.len() * 8..], query % 8, outputs);
        });
    }

    /// Selects the groups whose bit is set in `vector`, low bits first. It has a bit for each group of the query's epoch.
    pub fn select_vector(&mut self, query: usize, vector: &[u8]) {
        let Some(eight) = &mut self.eights[query / 8] else { return };
        select(eight.selectors, query % 8, vector);
    }

    /// Does step `number` of [`Shape::steps`]. Do each once, in any order, after every query was [selected](Self::select).
    /// `records` are all Q·M·ℓ bytes; `trees` are Q times [`Shape::tree_bytes`].
    pub fn step(&mut self, number: usize, records: &[u8], trees: &[u8]) {
        let shape = self.shape;
        let (q, part) = (number / (shape.record_steps() + 1), number % (shape.record_steps() + 1));
        if part < shape.record_steps() {
            let partition_bytes = shape.partition_records * shape.record_bytes;
            let groups = part * shape.step_groups()..shape.partition_groups().min((part + 1) * shape.step_groups());
            let partition = &records[q * partition_bytes..][..partition_bytes];
            let rows =
                &partition[groups.start * shape.group_bytes()..partition_bytes.min(groups.end * shape.group_bytes())];
            let at_once = (PAGE_BYTES / shape.group_bytes()).max(1);
            for (page, rows) in rows.chunks(at_once * shape.group_bytes()).enumerate() {
                for eight in self.eights.iter_mut().flatten() {
                    eight.add_groups(q * shape.partition_groups() + groups.start + page * at_once, rows);
                }
            }
            return;
        }
        let tree = &trees[q * shape.tree_bytes()..][..shape.tree_bytes()];
        self.each_level(q, |_, eight, sibling, level| eight.add_pairs(sibling, tree[level].as_chunks().0));
    }

    /// Calls `each` for each eight and level of partition `q`, with the eight's number, the number of siblings below, and the
    /// place of the level's nodes in the tree. The eight's selectors are added up to that level.
    fn each_level(&mut self, q: usize, mut each: impl FnMut(usize, &mut Eight<'_>, usize, Range<usize>)) {
        let groups = self.shape.partition_groups();
        for (number, eight) in self.eights.iter_mut().flatten().enumerate() {
            eight.folded.copy_from_slice(&eight.selectors[q * groups..][..groups]);
            let mut width = groups;
            for (sibling, level) in (self.shape.group_log..self.shape.depth).enumerate() {
                each(number, eight, sibling, self.shape.level(level));
                width = fold(&mut eight.folded[..width]);
            }
        }
    }

    /// Takes the last update of partition `q` out of the sums of some queries: adds old ⊕ new of each record and node in them.
    /// `previous` has a bit for each query. Do it once for each partition, before or after its steps.
    pub fn undo(&mut self, q: usize, previous: u16, overwritten: &Overwritten<'_>, records: &[u8], trees: &[u8]) {
        let shape = self.shape;
        let (m, bytes, previous) = (shape.partition_records, shape.record_bytes, previous.to_le_bytes());
        for i in between(overwritten.indices, q * m..(q + 1) * m, |index| *index as usize) {
            let index = overwritten.indices[i] as usize;
            let (group, slot) = ((index % m) >> shape.group_log, (index % m) % (1 << shape.group_log));
            for (eight, previous) in self.eights.iter_mut().flatten().zip(previous) {
                let selector = eight.selectors[q * shape.partition_groups() + group] & previous;
                for row in [&overwritten.records[i * bytes..][..bytes], &records[index * bytes..][..bytes]] {
                    eight.add_part(0, shape.group_bytes(), slot * bytes, selector, row);
                }
            }
        }
        let nodes = &overwritten.nodes[between(overwritten.nodes, q..q + 1, |node| node.partition as usize)];
        if nodes.is_empty() {
            return;
        }
        let tree = trees[q * shape.tree_bytes()..][..shape.tree_bytes()].as_chunks::<NODE_BYTES>().0;
        self.each_level(q, |number, eight, sibling, level| {
            let places = level.start / NODE_BYTES..level.end / NODE_BYTES;
            for node in &nodes[between(nodes, places.clone(), |node| node.place as usize)] {
                let place = node.place as usize;
                // The selector of the node whose sibling this is. A last node without a partner is no node's sibling.
                let partner = (place - places.start) ^ 1;
                let selector = if partner < places.len() { eight.folded[partner] & previous[number] } else { 0 };
                for content in [&node.content, &tree[place]] {
                    eight.add_part(shape.group_bytes() + sibling * NODE_BYTES, NODE_BYTES, 0, selector, content);
                }
            }
        });
    }

    /// Writes the answer to a query, after all steps. `answer` must be zeros, as long as an answer.
    pub fn answer(&self, query: usize, answer: &mut [u8]) {
        if let Some(eight) = &self.eights[query / 8] {
            eight.write(query % 8, answer);
        }
    }
}

/// Adds up pairs of selectors; a last one without a partner stays as it is. Returns how many are left.
fn fold(selectors: &mut [u8]) -> usize {
    let (width, mut done) = (selectors.len().div_ceil(2), 0);
    // A compiler finds no vector instructions for pairs one by one, whose sums take the place of other pairs.
    while let Some(pairs) = selectors[2 * done..].first_chunk::<{ 2 * SUMS }>() {
        let sums: [u8; SUMS] = from_fn(|sum| pairs[2 * sum] ^ pairs[2 * sum + 1]);
        selectors[done..][..SUMS].copy_from_slice(&sums);
        done += SUMS;
    }
    for t in done..width {
        selectors[t] = selectors[2 * t] ^ selectors.get(2 * t + 1).copied().unwrap_or(0);
    }
    width
}

/// Sets a query's bit in the selectors of the groups whose bit is set. Bits beyond the last group are ignored.
fn select(selectors: &mut [u8], query: usize, vector: &[u8]) {
    let (whole, rest) = selectors.as_chunks_mut::<8>();
    for (groups, byte) in whole.iter_mut().zip(vector) {
        *groups = (u64::from_le_bytes(*groups) | spread(*byte) << query).to_le_bytes();
    }
    if let Some(byte) = vector.get(whole.len()) {
        for (group, bit) in rest.iter_mut().zip(spread(*byte).to_le_bytes()) {
            *group |= bit << query;
        }
    }
}

/// The bits of a byte, each in a byte of its own, low first.
#[inline]
fn spread(byte: u8) -> u64 {
    // Each byte of the product is `byte`, and keeps one bit. The addition carries that bit to the top of its byte.
    let own = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    ((own + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101
}
