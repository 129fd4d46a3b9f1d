//! The directory: a minimal perfect hash from key fingerprints to record indices, and an overlay that takes
//! precedence (docs/protocol.md, Directory). The perfect hash is that of the boomphf crate (BBHash: Limasset, Rizk,
//! Chikhi, Peterlongo) over 128-bit integers, bit for bit; built here, because a server must be able to answer while it
//! builds one, and to be told when memory does not suffice.

use std::collections::BTreeMap;

use crate::error::{Error, expect_below, expect_length};
use crate::key::{DirectorySeed, FINGERPRINT_BYTES};

const MAGIC: &[u8; 4] = b"PIRD";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 32;
const OVERLAY_ENTRY_BYTES: usize = FINGERPRINT_BYTES + 4;
const MAX_LEVELS: usize = 32;
/// Bits for each key that reaches a level; 2 costs 3.3 bits a key in all and builds fast.
const BITS_A_KEY: usize = 2;
const MIN_LEVEL_BITS: usize = 255;
/// Keys looked at in one step of building.
const STEP_KEYS: usize = 1 << 15;
/// Words between two stored ranks.
const RANK_WORDS: usize = 8;

/// A directory in memory.
#[derive(Debug)]
pub struct Directory {
    keys: u32,
    seed: u128,
    levels: Vec<Level>,
    /// 20 bytes each, ascending by fingerprint
    overlay: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Level {
    bits: u32,
    words: Vec<u64>,
    /// set bits before word `i * RANK_WORDS`, lower levels included
    ranks: Vec<u32>,
}

impl Directory {
    /// Builds the directory of n distinct fingerprints, 16 bytes each, in any order: equal sets give equal bytes.
    ///
    /// # Errors
    /// As [`DirectoryBuilder`]'s; [`Error::Directory`] also for a torn last fingerprint.
    pub fn build(fingerprints: &[u8]) -> Result<Self, Error> {
        let (fingerprints, rest) = fingerprints.as_chunks::<FINGERPRINT_BYTES>();
        if !rest.is_empty() {
            return Err(Error::Directory("expected fingerprints of 16 bytes".into()));
        }
        let mut builder = DirectoryBuilder::new();
        for fingerprint in fingerprints {
            builder.push(fingerprint)?;
        }
        loop {
            if let Some(directory) = builder.step()? {
                return Ok(directory);
            }
        }
    }

    /// Checks the parts against each other and computes the ranks.
    fn from_parts(keys: u32, seed: u128, mut levels: Vec<Level>, overlay: Vec<u8>) -> Result<Self, Error> {
        let refuse = |why: &str| Err(Error::Directory(why.into()));
        if levels.is_empty() || levels.len() > MAX_LEVELS {
            return refuse("expected 1 to 32 levels");
        }
        let mut set = 0u64;
        for level in &mut levels {
            let beyond = level.bits % u64::BITS;
            if beyond != 0 && level.words.last().is_some_and(|word| word >> beyond != 0) {
                return refuse("bits are set beyond a level's size");
            }
            for group in level.words.chunks(RANK_WORDS) {
                level.ranks.push(u32::try_from(set).unwrap_or(u32::MAX));
                set += group.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            }
        }
        if set != u64::from(keys) || keys == 0 {
            return refuse("the number of set bits is not the number of keys");
        }
        let fingerprints = || overlay.chunks_exact(OVERLAY_ENTRY_BYTES).map(|entry| &entry[..FINGERPRINT_BYTES]);
        if fingerprints().zip(fingerprints().skip(1)).any(|(one, next)| one >= next) {
            return refuse("the overlay is not strictly ascending");
        }
        Ok(Directory { keys, seed, levels, overlay })
    }

    /// Reads a stored directory of a database of `records`. Any bytes that are not what [`Directory::encode`] writes
    /// are refused, and so is a directory that leads beyond the database: found only when a key is looked up, that
    /// would stop some lookups before their query and let the rest through.
    ///
    /// # Errors
    /// [`Error::Directory`].
    pub fn decode(bytes: &[u8], records: u32) -> Result<Self, Error> {
        let refuse = |why: &str| Error::Directory(why.into());
        let mut reader = Reader(bytes);
        let short = || refuse("the bytes end too early");
        let header: &[u8; HEADER_BYTES] = reader.take().ok_or_else(short)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if &header[..4] != MAGIC || u16_at(4) != FORMAT {
            return Err(refuse("this is not a directory of format 1"));
        }
        let (level_count, keys, overlay_entries) = (usize::from(u16_at(6)), u32_at(8), u32_at(12) as usize);
        let seed = u128::from_le_bytes(header[16..].try_into().map_err(|_| short())?);
        if level_count > MAX_LEVELS {
            return Err(refuse("expected 1 to 32 levels"));
        }
        let mut sizes = Vec::with_capacity(level_count);
        for _ in 0..level_count {
            let bits = u32::from_le_bytes(*reader.take().ok_or_else(short)?);
            if bits == 0 {
                return Err(refuse("a level has no bits"));
            }
            sizes.push(bits);
        }
        let mut levels = Vec::with_capacity(level_count);
        for bits in sizes {
            let words = reader.take_slice(bits.div_ceil(u64::BITS) as usize * 8).ok_or_else(short)?;
            let words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            levels.push(Level { bits, words, ranks: Vec::new() });
        }
        let overlay_bytes = overlay_entries.checked_mul(OVERLAY_ENTRY_BYTES).ok_or_else(short)?;
        let overlay = reader.take_slice(overlay_bytes).ok_or_else(short)?.to_vec();
        if !reader.0.is_empty() {
            return Err(refuse("bytes follow the end"));
        }
        let beyond =
            overlay.as_chunks::<OVERLAY_ENTRY_BYTES>().0.iter().map(overlay_entry_index).any(|index| index >= records);
        if keys > records || beyond {
            return Err(refuse("it leads beyond the database"));
        }
        Self::from_parts(keys, seed, levels, overlay)
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&(self.levels.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.keys.to_le_bytes());
        out.extend_from_slice(&((self.overlay.len() / OVERLAY_ENTRY_BYTES) as u32).to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        for level in &self.levels {
            out.extend_from_slice(&level.bits.to_le_bytes());
        }
        for word in self.levels.iter().flat_map(|level| &level.words) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.overlay);
        out
    }

    /// Keys in the perfect hash.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// Where to look for a fingerprint in a database of `records`. Every fingerprint has an index, so that an absent
    /// key makes the same query as a present one.
    ///
    /// # Errors
    /// [`Error::Index`] if the directory points beyond the database.
    pub fn index(&self, fingerprint: &[u8; FINGERPRINT_BYTES], records: u32) -> Result<u32, Error> {
        let index = match self.overlay_index(fingerprint).or_else(|| self.perfect_index(fingerprint)) {
            Some(index) => index,
            None => (u128::from_le_bytes(*fingerprint) % u128::from(records.max(1))) as u32,
        };
        expect_below("index in the directory", index as usize, records as usize)?;
        Ok(index)
    }

    /// [`Directory::index`] of many fingerprints, 16 bytes each.
    ///
    /// # Errors
    /// As there; [`Error::Length`] for a torn last fingerprint.
    pub fn indices(&self, fingerprints: &[u8], records: u32) -> Result<Vec<u32>, Error> {
        let (whole, rest) = fingerprints.as_chunks();
        expect_length("rest of a fingerprint", rest, 0)?;
        whole.iter().map(|fingerprint| self.index(fingerprint, records)).collect()
    }

    /// This directory with overlay entries for these fingerprints set to an index, or removed. An entry that says what
    /// the perfect hash says already is left out, so that equal contents have equal bytes.
    pub(crate) fn with_overlay(&self, changes: &[([u8; FINGERPRINT_BYTES], Option<u32>)]) -> Self {
        let (entries, _) = self.overlay.as_chunks::<OVERLAY_ENTRY_BYTES>();
        let mut overlay: BTreeMap<[u8; FINGERPRINT_BYTES], u32> = entries
            .iter()
            .map(|entry| (entry.first_chunk().copied().unwrap_or_default(), overlay_entry_index(entry)))
            .collect();
        for (fingerprint, index) in changes {
            match index {
                Some(index) if self.perfect_index(fingerprint) != Some(*index) => overlay.insert(*fingerprint, *index),
                _ => overlay.remove(fingerprint),
            };
        }
        let overlay =
            overlay.iter().flat_map(|(print, index)| print.iter().copied().chain(index.to_le_bytes())).collect();
        Directory { keys: self.keys, seed: self.seed, levels: self.levels.clone(), overlay }
    }

    fn overlay_index(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> Option<u32> {
        let (entries, _) = self.overlay.as_chunks::<OVERLAY_ENTRY_BYTES>();
        let found = entries.binary_search_by(|entry| entry[..FINGERPRINT_BYTES].cmp(fingerprint)).ok()?;
        Some(overlay_entry_index(&entries[found]))
    }

    fn perfect_index(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> Option<u32> {
        let key = u128::from_le_bytes(*fingerprint) ^ self.seed;
        self.levels.iter().enumerate().find_map(|(number, level)| {
            let bit = level_bit(key, number, level.bits);
            level.contains(bit).then(|| level.rank(bit))
        })
    }
}

/// Bytes of a new directory of `keys` keys, as expected: how many keys are left for each level depends on the keys. Keys
/// are left where another has the same bit: of k keys on m bits, k·(1 − (1 − 1/m)^(k−1)).
pub(crate) fn expected_bytes(keys: u64) -> u64 {
    let mut bytes = HEADER_BYTES as u64;
    let mut left = keys;
    while left > 0 {
        let bits = (BITS_A_KEY as u64 * left).max(MIN_LEVEL_BITS as u64);
        bytes += 4 + bits.div_ceil(64) * 8;
        let alone = power(ONE - ONE / bits, left - 1);
        left = times(left, ONE - alone);
    }
    bytes
}

/// 1 in fixed point.
const ONE: u64 = 1 << 63;

/// `count` times a fraction of at most 1, to the nearest.
fn times(count: u64, fraction: u64) -> u64 {
    ((u128::from(count) * u128::from(fraction) + u128::from(ONE / 2)) >> 63) as u64
}

/// A fraction to the power of `exponent`.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut product = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = times(product, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    product
}

fn overlay_entry_index(entry: &[u8; OVERLAY_ENTRY_BYTES]) -> u32 {
    entry.last_chunk().map_or(0, |index| u32::from_le_bytes(*index))
}

impl Level {
    fn contains(&self, bit: u32) -> bool {
        self.words[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    fn rank(&self, bit: u32) -> u32 {
        let word = bit as usize / 64;
        let group = word / RANK_WORDS;
        let whole: u32 = self.words[group * RANK_WORDS..word].iter().map(|word| word.count_ones()).sum();
        let below = self.words[word] & ((1 << (bit % 64)) - 1);
        self.ranks[group] + whole + below.count_ones()
    }
}

/// The bit of a level that `key` may have: wyhash of its 16 bytes with seed `4^level`, folded to 32 bits and scaled.
fn level_bit(key: u128, level: usize, bits: u32) -> u32 {
    let halves = |product: u128| (product as u64) ^ ((product >> 64) as u64);
    let mum = |a: u64, b: u64| halves(u128::from(a) * u128::from(b));
    let (lo, hi) = (key as u64, (key >> 64) as u64);
    let first = lo.rotate_left(32) ^ (1 << (2 * level)) ^ 0xa076_1d64_78bd_642f;
    let second = hi.rotate_left(32) ^ 0x8ebc_6af0_9c88_c6e3;
    let hash = mum(mum(first, second), FINGERPRINT_BYTES as u64 ^ 0xeb44_acca_b455_d165);
    let folded = (hash as u32) ^ ((hash >> 32) as u32);
    ((u64::from(folded) * u64::from(bits)) >> 32) as u32
}

/// Builds a directory in steps of bounded work, so that a server can answer in between.
pub struct DirectoryBuilder {
    /// the keys no level has yet, by their first byte
    buckets: Vec<Vec<[u8; FINGERPRINT_BYTES]>>,
    keys: usize,
    /// the next bucket to look at
    bucket: usize,
    phase: Phase,
    levels: Vec<Level>,
}

enum Phase {
    /// sorting, for the seed
    Sort(Box<DirectorySeed>),
    /// bits that keys want, and those that several do
    Mark { seed: u128, wanted: Level, collided: Vec<u64> },
    /// whoever has a bit alone stays in the level
    Keep { seed: u128 },
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
            bucket: 0,
            phase: Phase::Sort(Box::new(DirectorySeed::new())),
            levels: Vec::new(),
        }
    }

    /// Adds a key, before the first [`DirectoryBuilder::step`].
    ///
    /// # Errors
    /// [`Error::Directory`] for an all-zero fingerprint (which marks an empty slot), for too many, and if memory does
    /// not suffice.
    pub fn push(&mut self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> Result<(), Error> {
        if fingerprint == &[0; FINGERPRINT_BYTES] {
            return Err(Error::Directory("a fingerprint is all zero".into()));
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

    /// Goes on building; the directory, once it is done. Not to be called after that, or after an error.
    ///
    /// # Errors
    /// [`Error::Directory`] if there are no keys, two are equal, they cannot be placed, or memory does not suffice.
    pub fn step(&mut self) -> Result<Option<Directory>, Error> {
        if self.keys == 0 {
            return Err(Error::Directory("there are no keys".into()));
        }
        let mut looked_at = 0;
        while self.bucket < self.buckets.len() && looked_at < STEP_KEYS {
            let bucket = &mut self.buckets[self.bucket];
            looked_at += bucket.len();
            match &mut self.phase {
                Phase::Sort(seed) => {
                    bucket.sort_unstable();
                    if bucket.windows(2).any(|pair| pair[0] == pair[1]) {
                        return Err(Error::Directory("two keys have one fingerprint".into()));
                    }
                    seed.absorb(bucket);
                }
                Phase::Mark { seed, wanted, collided } => {
                    for key in bucket {
                        let bit = level_bit(u128::from_le_bytes(*key) ^ *seed, self.levels.len(), wanted.bits);
                        let (word, mask) = (bit as usize / 64, 1 << (bit % 64));
                        collided[word] |= wanted.words[word] & mask;
                        wanted.words[word] |= mask;
                    }
                }
                Phase::Keep { seed } => {
                    let number = self.levels.len() - 1;
                    let level = &self.levels[number];
                    bucket.retain(|key| {
                        !level.contains(level_bit(u128::from_le_bytes(*key) ^ *seed, number, level.bits))
                    });
                }
            }
            self.bucket += 1;
        }
        if self.bucket < self.buckets.len() { Ok(None) } else { self.turn() }
    }

    /// All buckets were looked at: what comes next.
    fn turn(&mut self) -> Result<Option<Directory>, Error> {
        self.bucket = 0;
        let seed = match &mut self.phase {
            Phase::Sort(seed) => u128::from_le_bytes(seed.finish()),
            Phase::Mark { seed, wanted, collided } => {
                let mut level =
                    Level { bits: wanted.bits, words: std::mem::take(&mut wanted.words), ranks: Vec::new() };
                for (word, collided) in level.words.iter_mut().zip(collided) {
                    *word &= !*collided;
                }
                self.levels.push(level);
                self.phase = Phase::Keep { seed: *seed };
                return Ok(None);
            }
            Phase::Keep { seed } => *seed,
        };
        let left: usize = self.buckets.iter().map(Vec::len).sum();
        if left == 0 {
            let levels = std::mem::take(&mut self.levels);
            return Directory::from_parts(self.keys as u32, seed, levels, Vec::new()).map(Some);
        }
        let bits = u32::try_from(MIN_LEVEL_BITS.max(BITS_A_KEY * left))
            .map_err(|_| Error::Directory("too many keys for one directory".into()))?;
        if self.levels.len() == MAX_LEVELS {
            return Err(Error::Directory("the keys cannot be placed".into()));
        }
        let words = zero_words(bits)?;
        self.phase =
            Phase::Mark { seed, wanted: Level { bits, words, ranks: Vec::new() }, collided: zero_words(bits)? };
        Ok(None)
    }
}

fn zero_words(bits: u32) -> Result<Vec<u64>, Error> {
    let count = bits.div_ceil(u64::BITS) as usize;
    let mut words = Vec::new();
    words.try_reserve_exact(count).map_err(|_| no_memory())?;
    words.resize(count, 0);
    Ok(words)
}

fn no_memory() -> Error {
    Error::Directory("memory does not suffice".into())
}

/// Takes parts off the front of a buffer; `None` once it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const COUNT: usize>(&mut self) -> Option<&'a [u8; COUNT]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(part)
    }

    fn take_slice(&mut self, count: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::fingerprint;
    use proptest::prelude::*;

    fn fingerprints(count: u32) -> Vec<u8> {
        (0..count).flat_map(|i| fingerprint(&i.to_le_bytes())).collect()
    }

    #[test]
    fn keys_are_placed_one_to_one_and_any_order_gives_the_same_bytes() {
        for count in [1, 2, 15, 16, 17, 1000, 60_000] {
            let prints = fingerprints(count);
            let directory = Directory::build(&prints).unwrap();
            let mut indices = directory.indices(&prints, count).unwrap();
            indices.sort_unstable();
            assert!(indices.iter().enumerate().all(|(i, &index)| i == index as usize));
            let reversed: Vec<u8> = prints.as_chunks::<16>().0.iter().rev().flatten().copied().collect();
            assert_eq!(Directory::build(&reversed).unwrap().encode(), directory.encode());
        }
    }

    #[test]
    fn the_perfect_hash_is_boomphfs() {
        for count in [1, 5, 127, 128, 5000, 100_000] {
            let prints = fingerprints(count);
            let directory = Directory::build(&prints).unwrap();
            let seeded: Vec<u128> =
                prints.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes) ^ directory.seed).collect();
            let reference = boomphf::Mphf::new(2.0, &seeded);
            for i in 0..20_000u32 {
                let print = fingerprint(&i.to_le_bytes());
                let key = u128::from_le_bytes(print) ^ directory.seed;
                assert_eq!(directory.perfect_index(&print).map(u64::from), reference.try_hash(&key));
            }
        }
    }

    #[test]
    fn a_million_keys_cost_less_than_half_a_megabyte() {
        let prints = fingerprints(100_000);
        assert!(Directory::build(&prints).unwrap().encode().len() < 45_000);
    }

    /// The seeds are fixed, so the bounds hold or fail for good: 1 %, or two levels of the least size.
    #[test]
    fn sizes_are_as_expected() {
        for count in [1u32, 2, 10, 40, 100, 128, 200, 1000, 20_000, 100_000] {
            let actual = Directory::build(&fingerprints(count)).unwrap().encode().len() as u64;
            let expected = expected_bytes(count.into());
            let off = actual.abs_diff(expected);
            assert!(off <= (expected / 100).max(72), "{count} keys: {expected} bytes expected, {actual} found");
        }
    }

    #[test]
    fn absent_keys_have_an_index_too_and_the_overlay_takes_precedence() {
        let prints = fingerprints(50);
        let mut bytes = Directory::build(&prints).unwrap().encode();
        bytes[12] = 1;
        bytes.extend_from_slice(&prints[..16]);
        bytes.extend_from_slice(&49u32.to_le_bytes());
        let directory = Directory::decode(&bytes, 50).unwrap();
        assert_eq!(directory.index(prints[..16].try_into().unwrap(), 50).unwrap(), 49);
        for i in 1000..2000u32 {
            assert!(directory.index(&fingerprint(&i.to_le_bytes()), 50).unwrap() < 50);
        }
        assert!(directory.index(prints[..16].try_into().unwrap(), 49).is_err(), "beyond the database");
        assert!(Directory::decode(&bytes, 49).is_err(), "fifty keys and an overlay beyond the database");
        let last = bytes.len() - 4;
        bytes[last] = 50;
        assert!(Directory::decode(&bytes, 50).is_err(), "an overlay beyond the database");
    }

    #[test]
    fn fingerprints_that_cannot_be_placed_are_refused() {
        let mut prints = fingerprints(3);
        assert!(Directory::build(&[]).is_err() && Directory::build(&prints[..17]).is_err());
        prints.extend_from_within(..16);
        assert!(Directory::build(&prints).is_err());
        assert!(Directory::build(&[0; 16]).is_err());
    }

    proptest! {
        #[test]
        fn stored_forms_read_back_and_nothing_else_does(count in 1u32..400, at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<prop::sample::Index>()) {
            let bytes = Directory::build(&fingerprints(count)).unwrap().encode();
            prop_assert_eq!(&Directory::decode(&bytes, count).unwrap().encode(), &bytes);
            prop_assert!(Directory::decode(&bytes[..cut.index(bytes.len())], count).is_err());
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= flip;
            if let Ok(directory) = Directory::decode(&changed, count) {
                prop_assert_eq!(directory.encode(), changed);
                for i in 0..50u32 {
                    let _ = directory.index(&fingerprint(&i.to_le_bytes()), count);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut headed = b"PIRD\x01\x00".to_vec();
            headed.extend_from_slice(&bytes);
            for bytes in [bytes, headed] {
                if let Ok(directory) = Directory::decode(&bytes, u32::MAX) {
                    prop_assert_eq!(directory.encode(), bytes);
                }
            }
        }
    }
}
