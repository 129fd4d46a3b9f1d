//! The shape of a directory: how many blocks it has, how long each is, and which block a fingerprint belongs to. The
//! manifest has it, so that a client can look up and read one block without the others.

use crate::error::{Error, expect_length};
use crate::instant;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, MAX_PARTITION_RECORDS, MAX_RECORD_BYTES};

use super::block::{self, Block};

pub(super) const MAGIC: &[u8; 4] = b"PIRD";
pub(super) const FORMAT: u16 = 1;
pub(super) const HEADER_BYTES: usize = 32;

/// log₂ of the most blocks: all blocks are one partition.
const MAX_LOG: u32 = MAX_PARTITION_RECORDS.trailing_zeros();
/// The length of a block is a multiple of this.
const UNIT_BYTES: usize = 32;
/// Keys that may be added in a generation: at least a 16th of its keys, and at least [`LEAST_ADDED`].
const ADDED_FRACTION: u64 = 16;
const LEAST_ADDED: u64 = 1024;
/// A lookup may move half as many bytes again as the cheapest shape. The shape with the fewest blocks within this limit is
/// chosen: a directory downloaded whole is a third as long then, and a server reads half as much.
const SLACK_FRACTION: u64 = 2;

/// 2^b blocks of L bytes, hashed with one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    log: u32,
    block_bytes: usize,
    seed: u128,
}

impl Shape {
    /// Checks the shape in a manifest.
    ///
    /// # Errors
    /// [`Error::Directory`] for more than 2^16 blocks, or blocks that are empty, longer than 65 536 bytes, or not a multiple
    /// of 32 bytes; [`Error::Layout`] if they cannot be addressed on this machine.
    pub fn new(log: u32, block_bytes: usize, seed: &[u8; FINGERPRINT_BYTES]) -> Result<Self, Error> {
        let bytes = 1..=MAX_RECORD_BYTES;
        if log > MAX_LOG || !bytes.contains(&block_bytes) || !block_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(Error::Directory(
                "expected at most 2^16 blocks, each a multiple of 32 bytes, up to 65536 bytes".into(),
            ));
        }
        Layout::of_lookups(1 << log, block_bytes as u64, 1, 1 << log, 1)?;
        Ok(Shape { log, block_bytes, seed: u128::from_le_bytes(*seed) })
    }

    /// b, the log₂ of the number of blocks
    #[must_use]
    pub fn log(&self) -> u32 {
        self.log
    }

    /// L, the bytes of a block
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The seed that is XORed into fingerprints before they are hashed.
    #[must_use]
    pub fn seed(&self) -> [u8; FINGERPRINT_BYTES] {
        self.seed.to_le_bytes()
    }

    /// The header of a stored directory.
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
    /// [`Error::Layout`] if they cannot be addressed on this machine; [`Shape::new`] has ruled that out.
    pub fn layout(&self) -> Result<Layout, Error> {
        Layout::of_lookups(1 << self.log, self.block_bytes as u64, 1, 1 << self.log, 1)
    }

    /// The number of the block that a fingerprint belongs to.
    #[must_use]
    pub fn number(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> u32 {
        block::number(self.seeded(fingerprint), self.log)
    }

    /// The same among the blocks of several directories of this shape, a shard each, numbered through.
    #[must_use]
    pub fn number_among(&self, fingerprint: &[u8; FINGERPRINT_BYTES], shards: usize) -> u32 {
        self.number(fingerprint) | (block::shard(self.seeded(fingerprint), shards) as u32) << self.log
    }

    pub(super) fn seeded(&self, fingerprint: &[u8; FINGERPRINT_BYTES]) -> u128 {
        u128::from_le_bytes(*fingerprint) ^ self.seed
    }

    /// The index of a fingerprint in a database of `records`, from its padded block.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Directory`] if the bytes are no block, or the index is beyond the database.
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

/// How many blocks a generation has, and how many added keys each block has room for. It is decided once, when the
/// directory is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) log: u32,
    /// entries in the overlay of each block
    pub(super) room: usize,
}

impl Plan {
    /// For a generation that begins with `keys` keys in a database of `slots` slots: the least b whose lookup of a block moves
    /// at most half as many bytes again as with the best b.
    pub(super) fn new(keys: u64, slots: u64) -> Self {
        let added = slots.saturating_sub(keys).max(keys / ADDED_FRACTION).max(LEAST_ADDED);
        let plans = (0..=MAX_LOG).map(|log| {
            let (keys, added) = (keys.div_ceil(1 << log), added.div_ceil(1 << log));
            // A block may get more than its share: six standard deviations, and four more for small shares. Half a byte a key.
            let room = added + 6 * ceiled_root(added) + 4;
            let traffic = lookup_bytes(log, planned_bytes(keys, room));
            (traffic, Plan { log, room: room as usize })
        });
        let plans: Vec<_> = plans.collect();
        let least = plans.iter().map(|(traffic, _)| *traffic).min().unwrap_or(u64::MAX);
        let good = plans.iter().find(|(traffic, _)| traffic - least <= least / SLACK_FRACTION);
        good.map_or(Plan { log: 0, room: 0 }, |(_, plan)| *plan)
    }

    /// L, if the longest block has `longest` bytes without added keys.
    pub(super) fn block_bytes(&self, longest: usize) -> usize {
        rounded_up((longest + self.room * block::OVERLAY_ENTRY_BYTES) as u64) as usize
    }
}

/// Bytes of the request and the answer of a block lookup, without headers; `u64::MAX` for impossible blocks.
fn lookup_bytes(log: u32, block_bytes: u64) -> u64 {
    Layout::new(1 << log, block_bytes, 1, 1 << log)
        .map_or(u64::MAX, |layout| (instant::request_bytes(&layout) + instant::answer_bytes(&layout)) as u64)
}

/// The planned length of a block with `keys` keys, and room for `room` entries in its overlay.
fn planned_bytes(keys: u64, room: u64) -> u64 {
    let fullest = keys + 4 * ceiled_root(keys);
    rounded_up(16 + fullest.div_ceil(2) + room * block::OVERLAY_ENTRY_BYTES as u64)
}

pub(super) fn rounded_up(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES as u64) * UNIT_BYTES as u64
}

/// ⌈√n⌉
pub(super) fn ceiled_root(n: u64) -> u64 {
    let root = n.isqrt();
    root + u64::from(root * root < n)
}

/// The padded blocks of a new directory of `keys` keys in a database of `slots` slots, if the longest block is as long as
/// planned.
pub(crate) fn expected_blocks(keys: u64, slots: u64) -> Option<Layout> {
    let Plan { log, room } = Plan::new(keys, slots);
    Layout::new(1 << log, planned_bytes(keys.div_ceil(1 << log), room as u64), 1, 1 << log).ok()
}

/// The expected bytes of a new directory of `keys` keys in a database of `slots` slots. The actual size depends on the
/// keys: they decide how many are left for each level.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 2^32 keys
pub(crate) fn expected_bytes(keys: u64, slots: u64) -> u64 {
    let blocks = 1u64 << Plan::new(keys, slots).log;
    let others = blocks as f64 - 1.0;
    // How many blocks have k keys: the binomial distribution, term by term, from basic operations, so that every machine gets
    // the same. For large means the first term underflows, so beyond a mean of 256 all blocks count as average.
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
