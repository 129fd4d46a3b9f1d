//! What the blocks of a directory have in common: how many there are, how long each is, and which one a fingerprint
//! falls into. The manifest says it, so that one block can be asked for and read without the others.

use crate::error::{Error, expect_length};
use crate::instant;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, MAX_PARTITION_RECORDS, MAX_RECORD_BYTES};

use super::block::{self, Block};

pub(super) const MAGIC: &[u8; 4] = b"PIRD";
pub(super) const FORMAT: u16 = 1;
pub(super) const HEADER_BYTES: usize = 32;

/// Most bits that number blocks: they are one partition.
const MAX_LOG: u32 = MAX_PARTITION_RECORDS.trailing_zeros();
/// Blocks are whole multiples of this.
const UNIT_BYTES: usize = 32;
/// Keys that may be added in a generation, at the least: a 16th of those there are, and so many.
const ADDED_FRACTION: u64 = 16;
const LEAST_ADDED: u64 = 1024;
/// Fewer blocks are preferred to the fewest bytes a lookup, as long as those are not exceeded by more than a half: a
/// directory that is downloaded whole is a third as long then, and a server reads half as much.
const SLACK_FRACTION: u64 = 2;

/// 2^b blocks of L bytes, under one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    log: u32,
    block_bytes: usize,
    seed: u128,
}

impl Shape {
    /// Of what a manifest says.
    ///
    /// # Errors
    /// [`Error::Directory`] for more than 2^16 blocks, or blocks that are empty, longer than 65 536 bytes or no multiple
    /// of 32; [`Error::Layout`] if they cannot be addressed here.
    pub fn new(log: u32, block_bytes: usize, seed: &[u8; FINGERPRINT_BYTES]) -> Result<Self, Error> {
        let bytes = 1..=MAX_RECORD_BYTES;
        if log > MAX_LOG || !bytes.contains(&block_bytes) || !block_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(Error::Directory("expected at most 2^16 blocks, of 32 to 65536 bytes".into()));
        }
        Layout::new(1 << log, block_bytes as u64, 1, 1 << log)?;
        Ok(Shape { log, block_bytes, seed: u128::from_le_bytes(*seed) })
    }

    /// b
    #[must_use]
    pub fn log(&self) -> u32 {
        self.log
    }

    /// L
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// What keys are hashed under.
    #[must_use]
    pub fn seed(&self) -> [u8; FINGERPRINT_BYTES] {
        self.seed.to_le_bytes()
    }

    /// What a stored directory begins with.
    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(MAGIC);
        header[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        header[6..8].copy_from_slice(&(self.log as u16).to_le_bytes());
        header[8..12].copy_from_slice(&(self.block_bytes as u32).to_le_bytes());
        header[16..].copy_from_slice(&self.seed());
        header
    }

    pub(super) fn blocks(&self) -> usize {
        1 << self.log
    }

    /// The blocks as a database of 2^b records of L bytes, in one partition.
    ///
    /// # Errors
    /// [`Error::Layout`] if they cannot be addressed on this machine, which [`Shape::new`] has ruled out.
    pub fn layout(&self) -> Result<Layout, Error> {
        Layout::new(1 << self.log, self.block_bytes as u64, 1, 1 << self.log)
    }

    /// The block that a fingerprint falls into.
    #[must_use]
    pub fn number(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> u32 {
        block::number(self.seeded(fingerprint), self.log)
    }

    pub(super) fn seeded(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> u128 {
        u128::from_le_bytes(*fingerprint) ^ self.seed
    }

    /// Where to look for a fingerprint in a database of `records`, by its block with the padding.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Directory`] if it is no block, or leads beyond the database.
    pub fn index(&self, block: &[u8], fingerprint: &[u8; FINGERPRINT_BYTES], records: u32) -> Result<u32, Error> {
        expect_length("block of the directory", block, self.block_bytes)?;
        let refuse = |why: &str| Error::Directory(why.into());
        let (block, padding) = Block::split(block)?;
        if padding.iter().fold(0, |bits, byte| bits | byte) != 0 {
            return Err(refuse("a block's padding is not zero"));
        }
        let index = block.index(fingerprint, self.seeded(fingerprint), records);
        if index < records { Ok(index) } else { Err(refuse("it leads beyond the database")) }
    }
}

/// How many blocks a generation has that begins with so many keys in a database of so many slots, and how many added keys
/// each has room for: decided once, when the directory is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) log: u32,
    /// entries of the overlay, a block
    pub(super) room: usize,
}

impl Plan {
    /// The least b for which looking a block up moves at most half as much again as at the best b.
    pub(super) fn new(keys: u64, slots: u64) -> Self {
        let added = slots.saturating_sub(keys).max(keys / ADDED_FRACTION).max(LEAST_ADDED);
        let plans = (0..=MAX_LOG).map(|log| {
            let (keys, added) = (keys.div_ceil(1 << log), added.div_ceil(1 << log));
            // A block's share is not even: six standard deviations, and some more where there are few. Half a byte a key.
            let room = added + 6 * ceiled_root(added) + 4;
            let traffic = lookup_bytes(log, planned_bytes(keys, room));
            (traffic, Plan { log, room: room as usize })
        });
        let plans: Vec<_> = plans.collect();
        let least = plans.iter().map(|(traffic, _)| *traffic).min().unwrap_or(u64::MAX);
        let good = plans.iter().find(|(traffic, _)| traffic - least <= least / SLACK_FRACTION);
        good.map_or(Plan { log: 0, room: 0 }, |(_, plan)| *plan)
    }

    /// L for blocks of which the longest has so many bytes.
    pub(super) fn block_bytes(&self, longest: usize) -> usize {
        rounded_up((longest + self.room * block::OVERLAY_ENTRY_BYTES) as u64) as usize
    }
}

/// One request and one answer of a block lookup, without headers; never for blocks that there cannot be.
fn lookup_bytes(log: u32, block_bytes: u64) -> u64 {
    Layout::new(1 << log, block_bytes, 1, 1 << log)
        .map_or(u64::MAX, |layout| (instant::request_bytes(&layout) + instant::answer_bytes(&layout)) as u64)
}

/// Of a block with a share of so many keys, and room for so many entries of the overlay.
fn planned_bytes(keys: u64, room: u64) -> u64 {
    let fullest = keys + 4 * ceiled_root(keys);
    rounded_up(16 + fullest.div_ceil(2) + room * block::OVERLAY_ENTRY_BYTES as u64)
}

fn rounded_up(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES as u64) * UNIT_BYTES as u64
}

/// ⌈√n⌉
fn ceiled_root(n: u64) -> u64 {
    let root = n.isqrt();
    root + u64::from(root * root < n)
}

/// The blocks of a new directory of `keys` keys in a database of so many slots, with their padding, if the longest is as
/// long as planned.
pub(crate) fn expected_blocks(keys: u64, slots: u64) -> Option<Layout> {
    let Plan { log, room } = Plan::new(keys, slots);
    Layout::new(1 << log, planned_bytes(keys.div_ceil(1 << log), room as u64), 1, 1 << log).ok()
}

/// Bytes of a new directory of `keys` keys in a database of so many slots, as expected: how many keys are left for each
/// level depends on the keys.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 2^32 keys
pub(crate) fn expected_bytes(keys: u64, slots: u64) -> u64 {
    let blocks = 1u64 << Plan::new(keys, slots).log;
    let others = blocks as f64 - 1.0;
    // How many blocks have k keys: the binomial distribution, term by term. From basic operations alone, so that it is the
    // same on every machine; up to a mean at which the first term is not yet too small to be told from none.
    if blocks == 1 || keys / blocks > 256 {
        return HEADER_BYTES as u64 + (blocks as f64 * block::expected_bytes(keys / blocks)) as u64;
    }
    let mut share = block::power(others / blocks as f64, keys);
    let mut bytes = 0.0;
    for k in 0..=(keys / blocks * 2 + 64).min(keys) {
        bytes += share * block::expected_bytes(k);
        share *= (keys - k) as f64 / (k + 1) as f64 / others;
    }
    HEADER_BYTES as u64 + (bytes * blocks as f64) as u64
}
