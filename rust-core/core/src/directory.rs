//! The directory: a minimal perfect hash from key fingerprints to record indices, and an overlay that takes
//! precedence (docs/protocol.md, Directory). Its stored form is our own, so that any implementation can read it;
//! boomphf builds the perfect hash, from 128-bit integers (hashing byte slices differs between native and wasm32).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, expect_below, expect_length};
use crate::key::{FINGERPRINT_BYTES, directory_seed};

const MAGIC: &[u8; 4] = b"PIRD";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 32;
const OVERLAY_ENTRY_BYTES: usize = FINGERPRINT_BYTES + 4;
const MAX_LEVELS: usize = 32;
/// Bits a key on each level; 2 costs 3.3 bits a key in all and builds fast.
const GAMMA: f64 = 2.0;
/// boomphf's least.
const LEAST_LEVEL_BITS: u64 = 255;
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
    /// [`Error::Directory`] if there are none, too many, two are equal or one is all zero (which marks an empty slot).
    pub fn build(fingerprints: &[u8]) -> Result<Self, Error> {
        let (fingerprints, rest) = fingerprints.as_chunks::<FINGERPRINT_BYTES>();
        if fingerprints.is_empty() || !rest.is_empty() || u32::try_from(fingerprints.len()).is_err() {
            return Err(Error::Directory("expected 1 to 2^32 - 1 fingerprints of 16 bytes".into()));
        }
        let mut sorted = fingerprints.to_vec();
        sorted.sort_unstable();
        if sorted[0] == [0; FINGERPRINT_BYTES] {
            return Err(Error::Directory("a fingerprint is all zero".into()));
        }
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::Directory("two keys have one fingerprint".into()));
        }
        let seed = u128::from_le_bytes(directory_seed(sorted.iter().map(<[u8; FINGERPRINT_BYTES]>::as_slice)));
        let seeded: Vec<u128> = sorted.iter().map(|bytes| u128::from_le_bytes(*bytes) ^ seed).collect();

        let levels: Vec<Level> = perfect_hash_levels(&seeded)?
            .into_iter()
            .map(|(bits, words)| Level { bits, words, ranks: Vec::new() })
            .collect();
        Self::from_parts(sorted.len() as u32, seed, levels, Vec::new())
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
        let bits = (2 * left).max(LEAST_LEVEL_BITS);
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

/// boomphf's bit vectors, taken out through its serde form (its fields are private; the version is pinned, and the
/// vectors pin the result).
fn perfect_hash_levels(keys: &[u128]) -> Result<Vec<(u32, Vec<u64>)>, Error> {
    #[derive(Deserialize)]
    struct BitVector {
        bits: u64,
        words: Vec<u64>,
    }
    #[derive(Deserialize)]
    struct Mphf {
        levels: Vec<(BitVector, Vec<u64>)>,
    }
    let unreadable = |_| Error::Directory("the perfect hash could not be taken over".into());
    let stored = postcard::to_allocvec(&boomphf::Mphf::new(GAMMA, keys)).map_err(unreadable)?;
    let mphf: Mphf = postcard::from_bytes(&stored).map_err(unreadable)?;
    mphf.levels
        .into_iter()
        .map(|(level, _ranks)| match u32::try_from(level.bits) {
            Ok(bits) => Ok((bits, level.words)),
            Err(_) => Err(Error::Directory("too many keys for one directory".into())),
        })
        .collect()
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
    fn our_reading_is_boomphfs() {
        let prints = fingerprints(5000);
        let directory = Directory::build(&prints).unwrap();
        let mut seeded: Vec<u128> =
            prints.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes) ^ directory.seed).collect();
        // boomphf's bit vectors do not depend on the order of the keys.
        seeded.reverse();
        let reference = boomphf::Mphf::new(GAMMA, &seeded);
        for i in 0..20_000u32 {
            let print = fingerprint(&i.to_le_bytes());
            let key = u128::from_le_bytes(print) ^ directory.seed;
            assert_eq!(directory.perfect_index(&print).map(u64::from), reference.try_hash(&key));
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
