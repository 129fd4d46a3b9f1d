//! One block of a directory. It has a minimal perfect hash of its keys (BBHash: Limasset, Rizk, Chikhi, Peterlongo), the
//! index of the first of them, and an overlay of keys added since.
//!
//! Levels and hash function are those of the boomphf crate, except that each level is whole words, so that its size follows
//! from the number of keys left.

use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;

pub(super) const HEADER_BYTES: usize = 8;
pub(super) const OVERLAY_ENTRY_BYTES: usize = FINGERPRINT_BYTES + 4;
const WORD_BITS: usize = 64;
const WORD_BYTES: usize = 8;
/// Bits of a level for each key that reaches it.
const BITS_A_KEY: usize = 2;
const MAX_LEVELS: usize = 31;
/// The number of the hash function that decides a key's block. No level uses it.
const NUMBER_LEVEL: usize = 31;

type Fingerprint = [u8; FINGERPRINT_BYTES];
type Entry = [u8; OVERLAY_ENTRY_BYTES];

/// The parts of a block, as slices of its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// index of its first key
    pub(super) base: u32,
    /// number of keys in the perfect hash
    pub(super) keys: u16,
    /// the words of all levels
    words: &'a [[u8; WORD_BYTES]],
    /// ascending by fingerprint
    overlay: &'a [Entry],
}

impl<'a> Block<'a> {
    /// Reads the block at the beginning of `bytes`. Returns it and the bytes after it.
    ///
    /// # Errors
    /// [`Error::Directory`] if the bytes are no block.
    pub(super) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let refuse = |why: &str| Error::Directory(why.into());
        let short = || refuse("the bytes end too early");
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
        let base = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let keys = u16::from_le_bytes([header[4], header[5]]);
        let entries = usize::from(u16::from_le_bytes([header[6], header[7]]));

        let (mut words, mut left) = (0, usize::from(keys));
        for level in 0.. {
            if left == 0 {
                break;
            }
            if level == MAX_LEVELS {
                return Err(refuse("a block has more than 31 levels"));
            }
            let count = level_words(left);
            let bits = rest.get(words * WORD_BYTES..(words + count) * WORD_BYTES).ok_or_else(short)?;
            let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
            left =
                left.checked_sub(set as usize).ok_or_else(|| refuse("a level has more keys than were left for it"))?;
            words += count;
        }
        let (bits, rest) = rest.split_at_checked(words * WORD_BYTES).ok_or_else(short)?;
        let (overlay, rest) = rest.split_at_checked(entries * OVERLAY_ENTRY_BYTES).ok_or_else(short)?;
        let overlay: &[Entry] = overlay.as_chunks().0;
        if overlay.windows(2).any(|pair| print_of(&pair[0]) >= print_of(&pair[1])) {
            return Err(refuse("an overlay is not strictly ascending"));
        }
        Ok((Block { base, keys, words: bits.as_chunks().0, overlay }, rest))
    }

    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.words.len() * WORD_BYTES + self.overlay.len() * OVERLAY_ENTRY_BYTES
    }

    /// The overlay's (fingerprint, index), ascending.
    pub(super) fn overlay(&self) -> impl Iterator<Item = (Fingerprint, u32)> + use<'a> {
        self.overlay.iter().map(|entry| (print_of(entry), index_of(entry)))
    }

    /// The index of any fingerprint. It is below `records` if all the block's indices are.
    pub(super) fn index(&self, fingerprint: &Fingerprint, seeded: u128, records: u32) -> u32 {
        match self.overlay_index(fingerprint).or_else(|| self.perfect_index(seeded)) {
            Some(index) => index,
            None => (u128::from_le_bytes(*fingerprint) % u128::from(records.max(1))) as u32,
        }
    }

    fn overlay_index(&self, fingerprint: &Fingerprint) -> Option<u32> {
        let found = self.overlay.binary_search_by(|entry| print_of(entry).cmp(fingerprint)).ok()?;
        Some(index_of(&self.overlay[found]))
    }

    pub(super) fn perfect_index(&self, seeded: u128) -> Option<u32> {
        let (mut words, mut placed) = (self.words, 0);
        for level in 0..MAX_LEVELS {
            let left = usize::from(self.keys) - placed as usize;
            if left == 0 {
                return None;
            }
            let (of_level, rest) = words.split_at(level_words(left));
            let bit = level_bit(seeded, level, of_level.len() * WORD_BITS);
            let word = u64::from_le_bytes(of_level[bit / WORD_BITS]);
            if word >> (bit % WORD_BITS) & 1 == 1 {
                let below = word & ((1 << (bit % WORD_BITS)) - 1);
                return self.base.checked_add(placed + ones(&of_level[..bit / WORD_BITS]) + below.count_ones());
            }
            placed += ones(of_level);
            words = rest;
        }
        None
    }

    /// The number of keys in a level.
    #[cfg(test)]
    pub(super) fn level_ones(&self, level: usize) -> u32 {
        let (mut words, mut left) = (self.words, usize::from(self.keys));
        for _ in 0..level {
            let (of_level, rest) = words.split_at(level_words(left));
            left -= ones(of_level) as usize;
            words = rest;
        }
        ones(&words[..level_words(left)])
    }

    /// Appends this block with another overlay, ascending by fingerprint; `None` if the overlay is too long.
    pub(super) fn with_overlay(&self, overlay: &[(Fingerprint, u32)], into: &mut Vec<u8>) -> Option<()> {
        write_header(into, self.base, self.keys, u16::try_from(overlay.len()).ok()?);
        into.extend_from_slice(self.words.as_flattened());
        for (fingerprint, index) in overlay {
            into.extend_from_slice(fingerprint);
            into.extend_from_slice(&index.to_le_bytes());
        }
        Some(())
    }
}

/// Appends the block of these keys. The first key, in the order of the perfect hash, has index `base`.
///
/// # Errors
/// [`Error::Directory`] if there are too many keys, or no perfect hash was found.
pub(super) fn build(base: u32, keys: &[Fingerprint], seed: u128, into: &mut Vec<u8>) -> Result<(), Error> {
    let count = u16::try_from(keys.len()).map_err(|_| Error::Directory("too many keys for one directory".into()))?;
    write_header(into, base, count, 0);
    let mut left: Vec<u128> = keys.iter().map(|key| u128::from_le_bytes(*key) ^ seed).collect();
    for level in 0.. {
        if left.is_empty() {
            break;
        }
        if level == MAX_LEVELS {
            return Err(Error::Directory(
                "no perfect hash of the keys was found; add or remove a key, and build again".into(),
            ));
        }
        let words = level_words(left.len());
        let (mut wanted, mut collided) = (vec![0u64; words], vec![0u64; words]);
        let bits: Vec<usize> = left.iter().map(|key| level_bit(*key, level, words * WORD_BITS)).collect();
        for bit in &bits {
            let (word, mask) = (bit / WORD_BITS, 1 << (bit % WORD_BITS));
            collided[word] |= wanted[word] & mask;
            wanted[word] |= mask;
        }
        let is_shared = |bit: usize| collided[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1;
        let mut bits = bits.iter();
        left.retain(|_| bits.next().is_some_and(|bit| is_shared(*bit)));
        for (wanted, collided) in wanted.iter().zip(&collided) {
            into.extend_from_slice(&(wanted & !collided).to_le_bytes());
        }
    }
    Ok(())
}

/// An upper bound of the bytes of a block, for memory; it holds almost always.
pub(super) fn most_bytes(keys: usize) -> usize {
    HEADER_BYTES + 2 * WORD_BYTES * (1 + keys / 8)
}

/// The expected bytes of a block. Of k keys on m bits, k·(1 − (1 − 1/m)^(k−1)) are left for the next level. If only few are
/// left, they came in pairs, and there may be no further level. Basic operations only: the same result on every machine.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 2^32 keys
pub(super) fn expected_bytes(keys: u64) -> f64 {
    let mut bytes = HEADER_BYTES as f64 + (level_words(keys as usize) * WORD_BYTES) as f64;
    let mut bits = (level_words(keys as usize) * WORD_BITS) as f64;
    let mut left = keys as f64;
    while left > 0.01 {
        left *= 1.0 - power(1.0 - 1.0 / bits, (left as u64).max(2) - 1);
        let words = if left < 8.0 {
            let pairs = left / 2.0;
            1.0 - 1.0 / (1.0 + pairs + pairs * pairs / 2.0 + pairs * pairs * pairs / 6.0)
        } else {
            (BITS_A_KEY as f64 * left / WORD_BITS as f64 + 0.5).max(1.0)
        };
        bytes += words * WORD_BYTES as f64;
        bits = words.max(1.0) * WORD_BITS as f64;
    }
    bytes
}

/// base^exponent, by repeated squaring.
pub(super) fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

/// The number of the hash function that decides a key's shard.
const SHARD_LEVEL: usize = 32;

/// The number of a key's shard among `shards`.
pub(super) fn shard(seeded: u128, shards: usize) -> usize {
    level_bit(seeded, SHARD_LEVEL, shards)
}

/// The number of a key's block among 2^log blocks.
pub(super) fn number(seeded: u128, log: u32) -> u32 {
    level_bit(seeded, NUMBER_LEVEL, 1 << log) as u32
}

/// The bit of a key in a level: wyhash of its 16 bytes with seed `4^level` (0 if that has more than 64 bits), folded to 32 bits and scaled.
fn level_bit(key: u128, level: usize, bits: usize) -> usize {
    let halves = |product: u128| (product as u64) ^ ((product >> 64) as u64);
    let mum = |a: u64, b: u64| halves(u128::from(a) * u128::from(b));
    let (lo, hi) = (key as u64, (key >> 64) as u64);
    let first = lo.rotate_left(32) ^ 1u64.checked_shl(2 * level as u32).unwrap_or(0) ^ 0xa076_1d64_78bd_642f;
    let second = hi.rotate_left(32) ^ 0x8ebc_6af0_9c88_c6e3;
    let hash = mum(mum(first, second), FINGERPRINT_BYTES as u64 ^ 0xeb44_acca_b455_d165);
    let folded = (hash as u32) ^ ((hash >> 32) as u32);
    ((u64::from(folded) * bits as u64) >> 32) as usize
}

fn level_words(keys: usize) -> usize {
    (BITS_A_KEY * keys).div_ceil(WORD_BITS)
}

fn ones(words: &[[u8; WORD_BYTES]]) -> u32 {
    words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum()
}

fn write_header(into: &mut Vec<u8>, base: u32, keys: u16, entries: u16) {
    into.extend_from_slice(&base.to_le_bytes());
    into.extend_from_slice(&keys.to_le_bytes());
    into.extend_from_slice(&entries.to_le_bytes());
}

fn print_of(entry: &Entry) -> Fingerprint {
    entry.first_chunk().copied().unwrap_or_default()
}

fn index_of(entry: &Entry) -> u32 {
    entry.last_chunk().map_or(0, |index| u32::from_le_bytes(*index))
}
