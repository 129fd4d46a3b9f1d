//! Several databases that are read as one (docs/protocol/sharded.md): their layout, the tree above their partitions, and how a query
//! of the whole becomes a query of each.
//!
//! A two-server key over S databases has log₂ S levels more on top than a key of one. Below them stands, for each database, an ordinary
//! key whose party is the node's control bit. At the depth of partitions, control bits are shares of which partition is wanted: under
//! them the nodes above the partitions are added up.

use keyhush_kernels::dpf::{LEAF_LOG, domain_log};
use keyhush_kernels::prg::{LANES, SEED_BYTES, Seed, stretch};
use keyhush_kernels::xor::xor_into;

use super::vectors::{self, Form};
use super::{pass, shape};
use crate::commitment::{COMMITMENT_BYTES, Merkle};
use crate::error::{Error, expect_length};
use crate::layout::{Layout, MAX_PARTITIONS};

/// The most databases that are read as one.
const MAX_SHARDS: usize = 256;

/// The layout that lookups in a sharded database see: one tree over all its partitions.
///
/// # Errors
/// [`Error::Layout`] unless there are 2 to 256 shards of one layout, in which every number is a power of two, and each partition has 128
/// groups or more.
pub fn joined(shard: &Layout, shards: usize) -> Result<Layout, Error> {
    let numbers = [shards, shard.partitions(), shard.partition_records()];
    let records = (shard.records() as u64).checked_mul(shards as u64).filter(|&records| u32::try_from(records).is_ok());
    let fits = (2..=MAX_SHARDS).contains(&shards)
        && numbers.into_iter().all(usize::is_power_of_two)
        && shard.records() == shard.room()
        && shards * shard.partitions() <= MAX_PARTITIONS
        && shape(shard).partition_groups() >= 1 << LEAF_LOG;
    let stored = shard.stored();
    let [bytes, block_records] = [stored.record_bytes, stored.block_records].map(|number| number as u64);
    match records {
        Some(records) if fits => Layout::of_lookups(records, bytes, 1, records, block_records),
        _ => {
            Err(Error::Layout("expected a shard of a sharded database, got another layout; make its shape anew".into()))
        }
    }
}

/// The tree above the partitions of a sharded database at one epoch.
pub struct UpperTree {
    layout: Layout,
    shards: usize,
    /// level by level, the partitions' commitments first
    levels: Vec<Vec<[u8; COMMITMENT_BYTES]>>,
}

impl UpperTree {
    /// `shard` is the layout of each shard. `commitments` are those of all partitions, in order.
    ///
    /// # Errors
    /// [`Error::Length`]; as [`joined`].
    pub fn new(shard: &Layout, shards: usize, commitments: &[u8]) -> Result<Self, Error> {
        let layout = joined(shard, shards)?;
        expect_length("commitments", commitments, shards * shard.partitions() * COMMITMENT_BYTES)?;
        let mut levels = vec![commitments.as_chunks().0.to_vec()];
        while let [.., below] = &*levels
            && below.len() > 1
        {
            levels.push(Merkle::joined(below));
        }
        Ok(UpperTree { layout, shards, levels })
    }

    /// The layout that clients see.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the manifest has.
    #[must_use]
    pub fn root(&self) -> [u8; COMMITMENT_BYTES] {
        self.levels.iter().flatten().last().copied().unwrap_or_default()
    }

    /// Bytes of the siblings above a partition.
    #[must_use]
    pub fn sibling_bytes(&self) -> usize {
        (self.levels.len() - 1) * COMMITMENT_BYTES
    }

    /// Splits the queries of a lookup with `servers` servers: the first shard's, then those of the next, and behind them the sums of
    /// the siblings above the partitions, query by query. With two servers the form says nothing.
    ///
    /// # Errors
    /// As [`pass::check`] and [`pass::check_vectors`], which check the same.
    pub fn split(&self, servers: usize, form: Form, queries: &[u8]) -> Result<Vec<u8>, Error> {
        let (layout, shards, partitions) = (&self.layout, self.shards, self.levels[0].len());
        let mut bodies = vec![Vec::new(); shards + 1];
        if servers == 2 {
            pass::check(layout, queries)?;
            let levels = domain_log(shape(layout).groups()) - LEAF_LOG;
            for key in super::queries(layout, queries)? {
                let mut nodes = Descent::new(key, levels);
                nodes.to(shards);
                nodes.keys().zip(&mut bodies).for_each(|(key, body)| body.extend(key));
                nodes.to(partitions);
                self.add_siblings(nodes.controls.clone(), &mut bodies[shards]);
            }
        } else {
            pass::check_vectors(layout, servers, form, queries)?;
            let shape = vectors::shape(layout, servers);
            for query in vectors::queries(&shape, form, queries)? {
                let whole = vectors::share(&shape, form, query)?;
                let parts = whole.chunks_exact(whole.len() / shards);
                parts.zip(&mut bodies).for_each(|(part, body)| body.extend_from_slice(part));
                let groups = shape.groups() / partitions;
                let parity = |p: usize| parity(&whole, p * groups, groups);
                self.add_siblings((0..partitions).map(parity).collect(), &mut bodies[shards]);
            }
        }
        Ok(bodies.concat())
    }

    /// Appends, for each level, the sum of the siblings of the nodes whose bit is 1. `bits`: one for each partition.
    fn add_siblings(&self, mut bits: Vec<u8>, into: &mut Vec<u8>) {
        for level in &self.levels[..self.levels.len() - 1] {
            let mut sum = [0; COMMITMENT_BYTES];
            for (node, bit) in bits.iter().enumerate() {
                if *bit == 1 {
                    xor_into(&mut sum, &level[node ^ 1]);
                }
            }
            into.extend_from_slice(&sum);
            bits = bits.as_chunks::<2>().0.iter().map(|[left, right]| left ^ right).collect();
        }
    }
}

/// The parity of some bits of a vector, which are whole bytes or within one.
fn parity(vector: &[u8], start: usize, bits: usize) -> u8 {
    let bytes = &vector[start / 8..(start + bits).div_ceil(8)];
    let sum = bytes.iter().fold(0, |sum, byte| sum ^ byte);
    let used = 0xff >> 8usize.saturating_sub(bits);
    (sum >> (start % 8) & used).count_ones() as u8 & 1
}

/// A key, expanded level by level.
struct Descent<'k> {
    words: &'k [Seed],
    bits: &'k [u8],
    last: &'k [u8],
    level: usize,
    seeds: Vec<Seed>,
    controls: Vec<u8>,
}

impl<'k> Descent<'k> {
    /// The root of a key that has been checked.
    fn new(key: &'k [u8], levels: u32) -> Self {
        let (seed, rest) = key.split_at(SEED_BYTES);
        let (words, rest) = rest.split_at(levels as usize * SEED_BYTES);
        let (bits, last) = rest.split_at(rest.len() - SEED_BYTES - 1);
        let (last, party) = last.split_at(SEED_BYTES);
        Descent {
            words: words.as_chunks().0,
            bits,
            last,
            level: 0,
            seeds: seed.as_chunks().0.to_vec(),
            controls: party.to_vec(),
        }
    }

    /// The correction of a level: a word, and a bit for each side.
    fn correction(&self, level: usize) -> (Seed, u8) {
        (self.words[level], self.bits[level / 4] >> (2 * (level % 4)) & 3)
    }

    /// Goes down until there are so many nodes.
    fn to(&mut self, count: usize) {
        while self.seeds.len() < count {
            let (word, bits) = self.correction(self.level);
            let mut seeds = Vec::with_capacity(2 * self.seeds.len());
            let mut controls = Vec::with_capacity(2 * self.seeds.len());
            for (parents, own) in self.seeds.chunks(LANES).zip(self.controls.chunks(LANES)) {
                let mut lanes = [Seed::default(); LANES];
                lanes[..parents.len()].copy_from_slice(parents);
                for (children, control) in stretch(&lanes).iter().zip(own) {
                    for side in 0..2 {
                        let mut seed = children.seeds[side];
                        seed.iter_mut().zip(word).for_each(|(byte, other)| *byte ^= control.wrapping_neg() & other);
                        seeds.push(seed);
                        controls.push(children.controls[side] ^ (control & bits >> side & 1));
                    }
                }
            }
            (self.seeds, self.controls, self.level) = (seeds, controls, self.level + 1);
        }
    }

    /// The key below each node.
    fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let left = self.level..self.words.len();
        let mut bits = vec![0; (2 * left.len()).div_ceil(8)];
        for (level, from) in left.clone().enumerate() {
            bits[level / 4] |= self.correction(from).1 << (2 * (level % 4));
        }
        let words = self.words[left].as_flattened();
        let key = move |(seed, control): (&Seed, &u8)| [seed, words, &bits, self.last, &[*control]].concat();
        self.seeds.iter().zip(&self.controls).map(key)
    }
}
