//! Builds a directory in steps of bounded work, so that a server can answer in between. It reports it if memory does not
//! suffice.

use super::block;
use super::shape::{Plan, Shape};
use super::table::Directory;
use crate::error::Error;
use crate::key::{DirectorySeed, FINGERPRINT_BYTES};

/// Keys processed in one step.
const STEP_KEYS: usize = 1 << 15;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Builds a directory: first push all keys, then step until it is returned.
pub struct DirectoryBuilder {
    /// keys by their first byte
    buckets: Vec<Vec<Fingerprint>>,
    keys: usize,
    /// the next bucket or block of this phase
    next: usize,
    phase: Phase,
    /// decided before the keys were known
    shaped: Option<(Shape, Plan)>,
}

enum Phase {
    /// sorts the keys, for the seed
    Sort(Box<DirectorySeed>),
    /// counts the keys of each block
    Count(Blocks),
    /// moves the keys to their blocks
    Place(Blocks),
    /// builds the perfect hash of each block
    Hash(Blocks, Vec<u8>),
    /// an error occurred, or the directory was returned
    Over,
}

struct Blocks {
    plan: Plan,
    seed: u128,
    /// in [`Phase::Count`]: keys of each block; in [`Phase::Place`]: where its next key goes; then: where its keys end
    ends: Vec<usize>,
    keys: Vec<Fingerprint>,
}

impl Blocks {
    fn number(&self, key: &Fingerprint) -> usize {
        block::number(u128::from_le_bytes(*key) ^ self.seed, self.plan.log) as usize
    }

    fn keys_of(&self, number: usize) -> &[Fingerprint] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[begin..self.ends[number]]
    }
}

impl Default for DirectoryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl DirectoryBuilder {
    /// A builder without keys.
    #[must_use]
    pub fn new() -> Self {
        DirectoryBuilder {
            buckets: vec![Vec::new(); 256],
            keys: 0,
            next: 0,
            phase: Phase::Sort(Box::new(DirectorySeed::new())),
            shaped: None,
        }
    }

    /// A builder without keys, of a directory with this shape, whose blocks have room for `room` added keys each.
    pub(super) fn shaped(shape: Shape, room: usize) -> Self {
        DirectoryBuilder { shaped: Some((shape, Plan { log: shape.log(), room })), ..Self::new() }
    }

    /// The number of keys so far.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Adds a key. Not after the first [`DirectoryBuilder::step`].
    ///
    /// # Errors
    /// [`Error::Directory`] for an all-zero fingerprint (it marks an empty slot), for too many keys, and if memory does not
    /// suffice.
    pub fn push(&mut self, fingerprint: &Fingerprint) -> Result<(), Error> {
        if fingerprint == &[0; FINGERPRINT_BYTES] {
            return Err(Error::Directory("a fingerprint is all zero, which marks empty slots".into()));
        }
        if self.keys == u32::MAX as usize {
            return Err(Error::Directory("too many keys for one directory".into()));
        }
        let bucket = &mut self.buckets[usize::from(fingerprint[0])];
        bucket.try_reserve(1).map_err(|_| no_memory())?;
        bucket.push(*fingerprint);
        self.keys += 1;
        Ok(())
    }

    /// Does the next step, for a database of `slots` slots (Q·M). Returns the directory when it is done. Do not call it after
    /// that, or after an error.
    ///
    /// # Errors
    /// [`Error::Directory`] if there are no keys, two are equal, no perfect hash was found, or memory does not suffice;
    /// [`Error::Phase`] after the directory was returned, or after an error.
    pub fn step(&mut self, slots: usize) -> Result<Option<Directory>, Error> {
        if self.keys == 0 {
            return Err(Error::Directory("there are no keys; add one first".into()));
        }
        let mut looked_at = 0;
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Sort(mut seed) => {
                while let Some(bucket) = self.buckets.get_mut(self.next).filter(|_| looked_at < STEP_KEYS) {
                    bucket.sort_unstable();
                    if bucket.windows(2).any(|pair| pair[0] == pair[1]) {
                        return Err(Error::Directory("two keys have one fingerprint; keys must be different".into()));
                    }
                    seed.absorb(bucket);
                    looked_at += bucket.len();
                    self.next += 1;
                }
                if self.next < self.buckets.len() {
                    Phase::Sort(seed)
                } else {
                    Phase::Count(self.blocks(&seed, slots)?)
                }
            }
            Phase::Count(mut blocks) => {
                while let Some(bucket) = self.buckets.get(self.next).filter(|_| looked_at < STEP_KEYS) {
                    for key in bucket {
                        let number = blocks.number(key);
                        blocks.ends[number] += 1;
                    }
                    looked_at += bucket.len();
                    self.next += 1;
                }
                if self.next < self.buckets.len() {
                    Phase::Count(blocks)
                } else {
                    let mut before = 0;
                    for end in &mut blocks.ends {
                        before += std::mem::replace(end, before);
                    }
                    self.next = 0;
                    Phase::Place(blocks)
                }
            }
            Phase::Place(mut blocks) => {
                while let Some(bucket) = self.buckets.get_mut(self.next).filter(|_| looked_at < STEP_KEYS) {
                    for key in std::mem::take(bucket) {
                        let number = blocks.number(&key);
                        blocks.keys[blocks.ends[number]] = key;
                        blocks.ends[number] += 1;
                        looked_at += 1;
                    }
                    self.next += 1;
                }
                if self.next < self.buckets.len() {
                    Phase::Place(blocks)
                } else {
                    self.next = 0;
                    Phase::Hash(blocks, Vec::new())
                }
            }
            Phase::Hash(blocks, mut bytes) => {
                while self.next < blocks.ends.len() && looked_at < STEP_KEYS {
                    let keys = blocks.keys_of(self.next);
                    bytes.try_reserve(block::most_bytes(keys.len())).map_err(|_| no_memory())?;
                    let base = blocks.ends[self.next] - keys.len();
                    block::build(base as u32, keys, blocks.seed, &mut bytes)?;
                    looked_at += keys.len() + 1;
                    self.next += 1;
                }
                if self.next == blocks.ends.len() {
                    return self.finish(&blocks, bytes).map(Some);
                }
                Phase::Hash(blocks, bytes)
            }
            Phase::Over => return Err(Error::Phase("the directory was made, or making it has failed; begin another")),
        };
        Ok(None)
    }

    /// Plans the blocks. Their number and the seed say which block each key belongs to.
    fn blocks(&mut self, seed: &DirectorySeed, slots: usize) -> Result<Blocks, Error> {
        self.next = 0;
        let (seed, plan) = match &self.shaped {
            Some((shape, plan)) => (shape.seed(), *plan),
            None => (seed.finish(), Plan::new(self.keys as u64, slots as u64)),
        };
        let mut keys = Vec::new();
        keys.try_reserve_exact(self.keys).map_err(|_| no_memory())?;
        keys.resize(self.keys, [0; FINGERPRINT_BYTES]);
        Ok(Blocks { plan, seed: u128::from_le_bytes(seed), ends: vec![0; 1 << plan.log], keys })
    }

    /// Pushes all fingerprints, 16 bytes each, and makes all steps.
    pub(super) fn build(mut self, fingerprints: &[u8], slots: usize) -> Result<Directory, Error> {
        let (fingerprints, rest) = fingerprints.as_chunks::<FINGERPRINT_BYTES>();
        if !rest.is_empty() {
            return Err(Error::Directory("expected fingerprints of 16 bytes".into()));
        }
        let leaves_out = self.shaped.map(|_| [0; FINGERPRINT_BYTES]);
        for fingerprint in fingerprints.iter().filter(|print| Some(**print) != leaves_out) {
            self.push(fingerprint)?;
        }
        loop {
            if let Some(directory) = self.step(slots)? {
                return Ok(directory);
            }
        }
    }

    fn finish(&self, blocks: &Blocks, bytes: Vec<u8>) -> Result<Directory, Error> {
        let mut longest = 0;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (block, behind) = block::Block::split(rest)?;
            longest = longest.max(block.bytes());
            rest = behind;
        }
        let needed = blocks.plan.block_bytes(longest);
        let shape = match self.shaped {
            Some((shape, _)) if needed > shape.block_bytes() => {
                return Err(Error::Directory(format!(
                    "expected blocks of {} bytes with room for {} added keys, but one needs {needed}; plan another shape",
                    shape.block_bytes(),
                    blocks.plan.room
                )));
            }
            Some((shape, _)) => shape,
            None => Shape::new(blocks.plan.log, needed, &blocks.seed.to_le_bytes())
                .map_err(|_| Error::Directory("too many keys for one directory".into()))?,
        };
        Directory::from_blocks(shape, bytes, self.keys as u32)
    }
}

fn no_memory() -> Error {
    Error::Directory("memory does not suffice".into())
}

impl Directory {
    /// Builds the directory of distinct fingerprints, 16 bytes each, in any order, for a database of `slots` slots. Equal sets
    /// give equal bytes.
    ///
    /// # Errors
    /// As [`DirectoryBuilder::step`]; [`Error::Directory`] also if the bytes are no multiple of 16.
    pub fn build(fingerprints: &[u8], slots: usize) -> Result<Self, Error> {
        DirectoryBuilder::new().build(fingerprints, slots)
    }
}
