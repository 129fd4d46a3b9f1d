//! TreePIR (Lazzaretti, Papamanthou: *TreePIR: Sublinear-Time and Polylog-Bandwidth Private Information Retrieval from
//! DDH*, 2023): the weak privately puncturable function of Fig. 5 and the scheme of Fig. 6, without recursion (§4.3).
//!
//! N = 4^d records are √N partitions of √N. A hint is a tree of seeds (GGM) with √N leaves. For each partition v it names record
//! F(k, v), and the client keeps the parity of these records.
//!
//! A lookup of record x_r of partition x_ℓ takes a hint with F(k, x_ℓ) = x_r. It sends the hint's key *punctured* at x_ℓ: the d
//! siblings of the path to that leaf, from left to right, but not where the leaf is. The server tries all √N places of the
//! missing leaf, and returns a parity for each. Neighbouring places share most of their tree, so all of them together cost
//! √N·log √N leaves and not N.
//!
//! # Assumption
//!
//! The two servers do not talk to each other, and answer honestly. Then privacy rests on the generator of the tree, for
//! adaptive sequences. A punctured key is d pseudorandom strings, wherever it is punctured.
//!
//! # Corrections
//!
//! - *Shifts* (§4.2): F(k, v) = leaf + shift mod √N. So a fresh key that contains the record needs no trial: the shift is chosen.
//!   The shift is sent. It reveals x_r − leaf(x_ℓ) only, and puncturing hides that leaf.
//! - *Order*: left siblings by falling height, then right siblings by rising height. The path to a guess g takes the next seed
//!   from the front where g's bit is 1, and from the back where it is 0.
//! - *Hints from one seed* of 16 bytes, which is sent to server 0 instead of λ·√N keys. The fresh key comes from other randomness
//!   (the text says so in a proof only): see [`Deviation::FreshKeyFromHintSeed`].
//! - *No hint contains the record*: the text does not treat it (§4.2 shows that the probability is negligible). Here two fresh
//!   punctured keys are sent, nothing is used up, and the call fails: see [`Deviation::SilentWhenUnlucky`].
//! - *The fresh key* goes into the slot of the spent one: see [`Deviation::AppendsAtEnd`].
//! - Exactly √N parities and d seeds are sent. The public code sends one element more: see [`Deviation::LeftOver`].
//!
//! # What an attacker gains
//!
//! From the published scheme, with honest servers: nothing. From the public code's additional element: in each lookup, a
//! partition that was not asked for. A server that falsifies the parities of half of the guesses learns, from a failure, in
//! which half the wanted partition is: **one bit about the index for each lie**.
//!
//! # A lookup
//!
//! ```
//! use papers::{channel::Channel, prg::AesTree, random::Random, records::Records, s3pir::Search, treepir::*};
//!
//! let mut source = Random::from_system()?;
//! let database = Records::from_seed(1, 1 << 10, 32);
//! let geometry = Geometry::square(1 << 10, 32, LAMBDA)?; // √N = 32
//! let server = Server::<AesTree>::new(&database, geometry)?;
//!
//! // Offline: server 0 makes all parities of a seed.
//! let seed = source.block();
//! let mut client = Client::<AesTree>::new(geometry, &seed, server.hints(&seed)?)?;
//!
//! // Online: five seeds and a shift up, 32 parities down, with each server; here one server is both.
//! let mut channels = [Channel::default(); 2];
//! let record = client.lookup(123, Search::All, &mut source, [&server, &server], &mut channels)?;
//! assert_eq!(record, database.get(123));
//! assert_eq!(channels, [Channel { up: 5 * 16 + 2, down: 32 * 32 }; 2]);
//! # Ok::<(), papers::error::Error>(())
//! ```

use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::prg::{Aes, Block, Doubling};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::s3pir::Search;
use crate::xor::{xor, xor_from};

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// As described.
    #[default]
    None,
    /// Each message has one more partition number, never the wanted one: the additional element of the public code.
    LeftOver,
    /// The fresh key is the next one of the hints' seed: server 0 knows it, compares, and reads the index.
    FreshKeyFromHintSeed,
    /// Nothing is sent when no hint contains the record.
    SilentWhenUnlucky,
    /// The new hint goes after all others.
    AppendsAtEnd,
}

/// √N = 2^depth partitions of √N records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// log₂ √N
    pub depth: u32,
    /// λ·√N
    pub hints: usize,
    /// ℓ
    pub record_bytes: usize,
}

/// λ of §5: a record is in no hint with probability e^(−λ).
pub const LAMBDA: usize = 128;

impl Geometry {
    /// The geometry of N records, a power of four.
    pub fn square(records: usize, record_bytes: usize, lambda: usize) -> Result<Self, Error> {
        if records < 4 || !records.is_power_of_two() || !records.ilog2().is_multiple_of(2) || records > 1 << 32 {
            return Err(bad("N", "a power of four from 4 to 2^32", records));
        }
        let depth = records.ilog2() / 2;
        Ok(Geometry { depth, hints: lambda << depth, record_bytes })
    }

    /// √N
    pub fn root(&self) -> usize {
        1 << self.depth
    }

    /// Bytes of a query to each server: log₂ √N seeds, and a shift of two bytes.
    pub fn query_bytes(&self) -> usize {
        16 * self.depth as usize + 2
    }

    /// Bytes of an answer from each server: √N parities.
    pub fn answer_bytes(&self) -> usize {
        self.root() * self.record_bytes
    }

    /// Bytes of all parities, from server 0.
    pub fn hint_bytes(&self) -> usize {
        self.hints * self.record_bytes
    }

    /// Bytes of the client: seed, shift and parity for each hint.
    pub fn client_bytes(&self) -> usize {
        self.hints * (18 + self.record_bytes)
    }
}

/// A key of the function: F(k, v) = (leaf v of the tree under the seed + shift) mod √N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// the seed of the tree
    pub seed: Block,
    /// the shift, below √N
    pub shift: u16,
}

/// The number that a leaf stands for.
fn leaf(seed: &Block) -> usize {
    usize::from(u16::from_le_bytes([seed[0], seed[1]]))
}

/// Fig. 5, Eval.
pub fn evaluate<D: Doubling>(tree: &D, depth: u32, key: &Key, at: usize) -> usize {
    let mut seed = [key.seed];
    for height in (0..depth).rev() {
        tree.descend(&mut seed, at >> height & 1 == 1);
    }
    (leaf(&seed[0]) + usize::from(key.shift)) & ((1 << depth) - 1)
}

/// Fig. 5, Puncture: the siblings of the path to leaf `at`, from left to right.
pub fn puncture<D: Doubling>(tree: &D, depth: u32, seed: &Block, at: usize) -> Vec<Block> {
    let (mut left_siblings, mut right_siblings) = (Vec::new(), Vec::new());
    let mut seed = [*seed];
    for height in (0..depth).rev() {
        let (mut left, mut right) = ([[0; 16]], [[0; 16]]);
        tree.double(&seed, &mut left, &mut right);
        if at >> height & 1 == 1 {
            left_siblings.push(left[0]);
            seed = right;
        } else {
            right_siblings.push(right[0]);
            seed = left;
        }
    }
    left_siblings.extend(right_siblings.into_iter().rev());
    left_siblings
}

/// The keys of the hints, from the seed that client and server 0 share.
fn hint_keys(seed: &Block, geometry: &Geometry) -> impl Iterator<Item = Key> + use<> {
    let mut source = Random::<Aes>::new(seed, 0);
    let root = geometry.root() as u32;
    (0..geometry.hints).map(move |_| Key { seed: source.block(), shift: source.below(root) as u16 })
}

/// Either server.
pub struct Server<'a, D: Doubling> {
    records: &'a Records,
    geometry: Geometry,
    tree: D,
}

impl<'a, D: Doubling> Server<'a, D> {
    /// A server of these records.
    pub fn new(records: &'a Records, geometry: Geometry) -> Result<Self, Error> {
        let slots = geometry.root() * geometry.root();
        if records.len() != slots || records.record_bytes() != geometry.record_bytes {
            return Err(bad("database", format_args!("{slots} records of the geometry's length"), records.len()));
        }
        Ok(Server { records, geometry, tree: D::new() })
    }

    /// Fig. 6, Offline 2: the parity of every hint.
    pub fn hints(&self, seed: &[u8]) -> Result<Vec<u8>, Error> {
        /// keys whose trees are computed side by side
        const LANES: usize = 64;
        /// partitions processed together; their offsets lie together
        const TOGETHER: usize = 16;
        /// hints whose offsets are in memory at once
        const BATCH: usize = 4096;
        let seed = seed.try_into().map_err(|_| bad("seed", "16 bytes", seed.len()))?;
        let (root, bytes) = (self.geometry.root(), self.geometry.record_bytes);
        let keys: Vec<Key> = hint_keys(seed, &self.geometry).collect();
        let mut parities = vec![0; self.geometry.hint_bytes()];
        // Trees first, then records: a few partitions at a time, which fit into a processor's second cache.
        let mut offsets = vec![[0u16; TOGETHER]; root.div_ceil(TOGETHER) * BATCH];
        for (keys, parities) in keys.chunks(BATCH).zip(parities.chunks_mut(BATCH * bytes)) {
            for (first, keys) in keys.chunks(LANES).enumerate() {
                let mut seeds = [[0; 16]; LANES];
                seeds.iter_mut().zip(keys).for_each(|(seed, key)| *seed = key.seed);
                grow(&self.tree, self.geometry.depth, 0, &seeds, &mut |v, leaves| {
                    let rows = &mut offsets[v / TOGETHER * BATCH + first * LANES..][..keys.len()];
                    for ((offsets, leaf_seed), key) in rows.iter_mut().zip(leaves).zip(keys) {
                        offsets[v % TOGETHER] = ((leaf(leaf_seed) + usize::from(key.shift)) & (root - 1)) as u16;
                    }
                });
            }
            for (first, offsets) in (0..root).step_by(TOGETHER).zip(offsets.chunks_exact(BATCH)) {
                let partitions = self.records.range(first * root, root.min(first + TOGETHER) * root);
                let here = TOGETHER.min(root - first);
                for (parity, offsets) in parities.chunks_exact_mut(bytes).zip(offsets) {
                    let mut places = [0; TOGETHER];
                    for (d, (place, &offset)) in places.iter_mut().zip(offsets).enumerate() {
                        *place = (d * root + usize::from(offset)) * bytes;
                    }
                    xor_from(parity, partitions, &places[..here]);
                }
            }
        }
        Ok(parities)
    }

    /// Fig. 6, Answer: for each guess of the missing leaf the parity of all other leaves' records.
    pub fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        expect_bytes("punctured key", query, self.geometry.query_bytes())?;
        let (root, bytes, depth) = (self.geometry.root(), self.geometry.record_bytes, self.geometry.depth as usize);
        let (seeds, shift) = query.as_chunks::<16>();
        let shift = usize::from(u16::from_le_bytes([shift[0], shift[1]]));
        // A seed can be at any height below d: the leaves under seed t at height h are offsets[h][t << h ..].
        let mut leaves = seeds.to_vec();
        let mut offsets = Vec::with_capacity(depth);
        for height in 0..depth {
            if height > 0 {
                leaves = children(&self.tree, &leaves);
            }
            offsets.push(leaves.iter().map(|seed| (leaf(seed) + shift) & (root - 1)).collect::<Vec<_>>());
        }
        // From the root down, for each node that may be on the path to the missing leaf: the parity of all leaves off that path so
        // far. The root has none. Each step adds the leaves under the node's sibling.
        let mut answer = vec![0; bytes];
        let mut places = Vec::with_capacity(root);
        for height in (0..depth).rev() {
            let mut below = Vec::with_capacity(bytes * (root >> height));
            for node in 0..root >> height {
                let ones_above = (node >> 1).count_ones() as usize;
                // The seed of a left sibling counts from the front, that of a right one from the back: d − 1 minus the zeros above.
                let seed = if node & 1 == 1 { ones_above } else { height + ones_above };
                let leaves = ((node ^ 1) << height..).zip(&offsets[height][seed << height..][..1 << height]);
                places.clear();
                places.extend(leaves.map(|(v, offset)| (v * root + offset) * bytes));
                below.extend_from_slice(&answer[node / 2 * bytes..][..bytes]);
                xor_from(&mut below[node * bytes..], self.records.bytes(), &places);
            }
            answer = below;
        }
        Ok(answer)
    }
}

/// Visits all leaves of LANES trees, from left to right.
fn grow<D: Doubling, const LANES: usize>(
    tree: &D,
    depth: u32,
    at: usize,
    seeds: &[Block; LANES],
    visit: &mut impl FnMut(usize, &[Block; LANES]),
) {
    if depth == 0 {
        return visit(at, seeds);
    }
    let (mut left, mut right) = ([[0; 16]; LANES], [[0; 16]; LANES]);
    tree.double(seeds, &mut left, &mut right);
    grow(tree, depth - 1, 2 * at, &left, visit);
    grow(tree, depth - 1, 2 * at + 1, &right, visit);
}

/// The next level of trees, side by side.
fn children<D: Doubling>(tree: &D, seeds: &[Block]) -> Vec<Block> {
    let mut children = Vec::with_capacity(2 * seeds.len());
    let (mut left, mut right) = ([[0; 16]; 64], [[0; 16]; 64]);
    for seeds in seeds.chunks(64) {
        let (left, right) = (&mut left[..seeds.len()], &mut right[..seeds.len()]);
        tree.double(seeds, left, right);
        children.extend(left.iter().zip(right).flat_map(|(left, right)| [*left, *right]));
    }
    children
}

/// The client: keys and parities.
pub struct Client<D: Doubling> {
    geometry: Geometry,
    tree: D,
    keys: Vec<Key>,
    parities: Vec<u8>,
    deviation: Deviation,
    hint_seed: Block,
    used: usize,
}

/// A lookup between Query and Reconstruct.
pub struct Pending {
    /// for server 0, which made the hints
    pub refresh: Vec<u8>,
    /// for server 1
    pub retrieve: Vec<u8>,
    partition: usize,
    /// the hint's slot and its next key; none if no hint contained the record
    used: Option<(usize, Key)>,
}

impl<D: Doubling> Client<D> {
    /// A client from the seed that was sent to server 0, and server 0's parities.
    pub fn new(geometry: Geometry, seed: &Block, parities: Vec<u8>) -> Result<Self, Error> {
        expect_bytes("hints", &parities, geometry.hint_bytes())?;
        let keys = hint_keys(seed, &geometry).collect();
        Ok(Self::from_parts(geometry, D::new(), keys, parities, Deviation::None, *seed))
    }

    /// A client from keys, for tests that enumerate them.
    pub fn from_parts(
        geometry: Geometry,
        tree: D,
        keys: Vec<Key>,
        parities: Vec<u8>,
        deviation: Deviation,
        hint_seed: Block,
    ) -> Self {
        Client { geometry, tree, keys, parities, deviation, hint_seed, used: 0 }
    }

    /// This client with a mistake, for tests.
    #[must_use]
    pub fn with_deviation(self, deviation: Deviation) -> Self {
        Client { deviation, ..self }
    }

    /// Bytes of the client's state.
    pub fn bytes(&self) -> usize {
        self.keys.len() * 18 + self.parities.len()
    }

    /// The first slot whose hint contains the record (Fig. 6, Query 2).
    pub fn find(&self, index: usize, search: Search) -> Option<usize> {
        let root = self.geometry.root();
        let mut seeds = [[0; 16]; 64];
        let mut found = None;
        for (chunk, keys) in self.keys.chunks(seeds.len()).enumerate() {
            let seeds = &mut seeds[..keys.len()];
            seeds.iter_mut().zip(keys).for_each(|(seed, key)| *seed = key.seed);
            for height in (0..self.geometry.depth).rev() {
                self.tree.descend(seeds, (index / root) >> height & 1 == 1);
            }
            let contains = |(seed, key): (&Block, &Key)| (leaf(seed) + usize::from(key.shift)) % root == index % root;
            let first = seeds.iter().zip(keys).position(contains);
            found = found.or(first.map(|n| chunk * 64 + n));
            if found.is_some() && search == Search::UntilFound {
                break;
            }
        }
        found
    }

    /// Fig. 6, Query.
    pub fn query(&mut self, index: usize, search: Search, source: &mut Random) -> Result<Pending, Error> {
        let seed = if self.deviation == Deviation::FreshKeyFromHintSeed {
            self.used += 1;
            let beyond = Geometry { hints: self.geometry.hints + self.used, ..self.geometry };
            hint_keys(&self.hint_seed, &beyond).last().expect("one more").seed
        } else {
            source.block()
        };
        let seeds = [seed, source.block()];
        self.query_with(index, search, seeds, source)
    }

    /// [`Client::query`] with given seeds, for tests that enumerate them: of the fresh key, and of the key sent if no hint is found.
    pub fn query_with(
        &self,
        index: usize,
        search: Search,
        [seed, stand_in]: [Block; 2],
        source: &mut impl Uniform,
    ) -> Result<Pending, Error> {
        let (root, depth) = (self.geometry.root(), self.geometry.depth);
        if index >= root * root {
            return Err(bad("index", format_args!("below {}", root * root), index));
        }
        let (partition, offset) = (index / root, index % root);
        let slot = self.find(index, search);
        if slot.is_none() && self.deviation == Deviation::SilentWhenUnlucky {
            return Ok(Pending { refresh: Vec::new(), retrieve: Vec::new(), partition, used: None });
        }
        // Query 1, by choosing the shift.
        let unshifted = evaluate(&self.tree, depth, &Key { seed, shift: 0 }, partition);
        let fresh = Key { seed, shift: ((offset + root - unshifted) % root) as u16 };
        // If no hint contains the record, a key with the same distribution is sent instead.
        let shown = match slot {
            Some(slot) => self.keys[slot],
            None => Key { seed: stand_in, shift: source.below(root as u32) as u16 },
        };
        let mut messages = [fresh, shown].map(|key| {
            let mut message = puncture(&self.tree, depth, &key.seed, partition).as_flattened().to_vec(); // Query 3, 4
            message.extend_from_slice(&key.shift.to_le_bytes());
            message
        });
        if self.deviation == Deviation::LeftOver {
            for message in &mut messages {
                let other = (partition + 1 + source.below(root as u32 - 1) as usize) % root;
                message.extend_from_slice(&(other as u16).to_le_bytes());
            }
        }
        let [refresh, retrieve] = messages;
        Ok(Pending { refresh, retrieve, partition, used: slot.map(|slot| (slot, fresh)) })
    }

    /// Fig. 6, Reconstruct.
    pub fn reconstruct(&mut self, pending: &Pending, refresh: &[u8], retrieve: &[u8]) -> Result<Vec<u8>, Error> {
        let bytes = self.geometry.record_bytes;
        expect_bytes("server 0's answer", refresh, self.geometry.answer_bytes())?;
        expect_bytes("server 1's answer", retrieve, self.geometry.answer_bytes())?;
        let (slot, fresh) = pending.used.ok_or(Error::Unlucky)?;
        let guess = pending.partition * bytes;
        let mut record = self.parities[slot * bytes..][..bytes].to_vec();
        xor(&mut record, &retrieve[guess..][..bytes]); // Reconstruct 1
        self.keys[slot] = fresh; // Reconstruct 2, in place
        let parity = &mut self.parities[slot * bytes..][..bytes];
        parity.copy_from_slice(&refresh[guess..][..bytes]);
        xor(parity, &record);
        if self.deviation == Deviation::AppendsAtEnd {
            self.keys[slot..].rotate_left(1);
            self.parities[slot * bytes..].rotate_left(bytes);
        }
        Ok(record)
    }

    /// A whole lookup. Servers and channels: first server 0, which made the hints, then server 1.
    pub fn lookup(
        &mut self,
        index: usize,
        search: Search,
        source: &mut Random,
        servers: [&Server<'_, D>; 2],
        channels: &mut [Channel; 2],
    ) -> Result<Vec<u8>, Error> {
        let pending = self.query(index, search, source)?;
        let refresh = channels[0].ask(&pending.refresh, |query| servers[0].answer(query))?;
        let retrieve = channels[1].ask(&pending.retrieve, |query| servers[1].answer(query))?;
        self.reconstruct(&pending, &refresh, &retrieve)
    }
}
