//! Directories of a sharded database: all shards' have one shape, which is decided before there are keys.

use super::block;
use super::build::DirectoryBuilder;
use super::shape::{Plan, Shape, ceiled_root, rounded_up};
use super::table::Directory;
use crate::error::{Error, expect_length};
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, MAX_PARTITION_RECORDS};

/// Blocks of records, and blocks of the directory, have at least so many bytes: then each is a group by itself.
const LEAST_BLOCK_BYTES: u64 = 256;
/// A partition, and the directory, have at least so many blocks, so that keys for two servers divide at them.
const LEAST_BLOCKS: u64 = 128;

/// The shard of each fingerprint, 16 bytes each, among `shards`.
///
/// # Errors
/// [`Error::Length`] if the bytes are no multiple of 16.
pub fn shards_of(fingerprints: &[u8], seed: &[u8; FINGERPRINT_BYTES], shards: usize) -> Result<Vec<u8>, Error> {
    let (whole, rest) = fingerprints.as_chunks::<FINGERPRINT_BYTES>();
    expect_length("rest of a fingerprint", rest, 0)?;
    let seed = u128::from_le_bytes(*seed);
    let of = |print: &[u8; FINGERPRINT_BYTES]| block::shard(u128::from_le_bytes(*print) ^ seed, shards);
    Ok(whole.iter().map(|print| of(print) as u8).collect())
}

/// What each shard of a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlan {
    /// its layout, all slots of which are records from the start
    pub layout: Layout,
    /// b
    pub block_log: u32,
    /// L
    pub block_bytes: usize,
    /// entries for added keys that each block has room for
    pub room: usize,
}

impl ShardPlan {
    /// Plans shards for `records` keys in all, and a sixteenth more. A power of two of slots often has room for more than that.
    ///
    /// # Errors
    /// [`Error::Layout`] if there are no such shards.
    pub fn new(records: u64, record_bytes: u64, shards: u64) -> Result<Self, Error> {
        let keys = records.div_ceil(shards.max(1));
        let pack = LEAST_BLOCK_BYTES.div_ceil(record_bytes.max(1)).next_power_of_two();
        // Chance gives a shard more than its share.
        let slots = keys + (keys / 16).max(8 * ceiled_root(keys) + 16);
        let blocks = slots.div_ceil(pack).next_power_of_two().max(LEAST_BLOCKS);
        let of_partition = blocks.min(MAX_PARTITION_RECORDS as u64);
        let slots = blocks * pack;
        if slots.saturating_mul(shards) > u64::from(u32::MAX) {
            return Err(Error::Layout(format!(
                "all shards together have less than 2^32 slots, got {shards} of {slots}; use several databases"
            )));
        }
        let layout = Layout::packed(slots, record_bytes, blocks / of_partition, of_partition * pack, pack)?;
        let Plan { log, room } = Plan::new(keys, slots);
        let block_log = log.max(LEAST_BLOCKS.trailing_zeros());
        // Of millions of blocks none has more keys than these, nor more than ten levels of a word beyond half a byte a key.
        let mean = records.div_ceil(shards << block_log);
        let fullest = mean + 8 * ceiled_root(mean) + 16;
        let perfect = block::HEADER_BYTES as u64 + 80 + fullest.div_ceil(2);
        let block_bytes = rounded_up(perfect + (room * block::OVERLAY_ENTRY_BYTES) as u64) as usize;
        Shape::new(block_log, block_bytes, &[0; FINGERPRINT_BYTES]).map_err(|_| {
            Error::Layout(format!("{records} keys in {shards} shards have too long blocks of the directory"))
        })?;
        Ok(ShardPlan { layout, block_log, block_bytes, room })
    }
}

impl Directory {
    /// Builds the directory of distinct fingerprints, 16 bytes each, in any order, with this shape. Those of empty slots are left out.
    ///
    /// # Errors
    /// As [`Directory::build`]; [`Error::Directory`] also if a block has no room for `room` added keys.
    pub fn build_shaped(fingerprints: &[u8], shape: Shape, room: usize) -> Result<Self, Error> {
        DirectoryBuilder::shaped(shape, room).build(fingerprints, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::fingerprint;

    const SEED: [u8; FINGERPRINT_BYTES] = [7; FINGERPRINT_BYTES];

    fn planned(plan: &ShardPlan) -> Shape {
        Shape::new(plan.block_log, plan.block_bytes, &SEED).unwrap()
    }

    fn fingerprints(count: u32) -> Vec<u8> {
        (0..count).flat_map(|i| fingerprint(&i.to_le_bytes())).collect()
    }

    /// Lists whose blocks have few keys or many, of one level or several.
    #[test]
    fn every_shard_has_room_as_planned_and_leads_to_its_keys_alone() {
        for (records, shards) in [(1000, 2), (40_000, 256), (100_000, 4), (300_000, 2)] {
            let plan = ShardPlan::new(records.into(), 36, shards as u64).unwrap();
            let prints = fingerprints(records);
            let of = shards_of(&prints, &SEED, shards).unwrap();
            let mut seen = 0;
            for shard in 0..shards {
                let (own, foreign): (Vec<_>, Vec<_>) =
                    prints.as_chunks::<16>().0.iter().zip(&of).partition(|(_, of)| usize::from(**of) == shard);
                let [own, foreign] =
                    [own, foreign].map(|keys| keys.iter().flat_map(|(key, _)| **key).collect::<Vec<_>>());
                let directory = Directory::build_shaped(&own, planned(&plan), plan.room).unwrap();
                let with_empty = [&[0; 16][..], &own, &[0; 160]].concat();
                let again = Directory::build_shaped(&with_empty, planned(&plan), plan.room).unwrap();
                assert_eq!(again.encode(), directory.encode());
                let (keys, slots) = (own.len() / 16, plan.layout.room() as u32);
                let mut indices = directory.indices(&own, slots).unwrap();
                indices.sort_unstable();
                assert!(indices.iter().enumerate().all(|(i, &index)| i == index as usize));
                assert!(foreign.len() / 16 + keys == records as usize && keys as u32 <= slots);
                seen += keys;
            }
            assert_eq!(seen, records as usize);
        }
    }

    #[test]
    fn a_shape_with_too_little_room_is_refused() {
        let prints = fingerprints(10_000);
        let plan = ShardPlan::new(10_000, 36, 2).unwrap();
        assert!(Directory::build_shaped(&prints[..5_000 * 16], planned(&plan), plan.room).is_ok());
        let beyond = plan.block_bytes / block::OVERLAY_ENTRY_BYTES;
        for (prints, room) in [(&prints[..5_000 * 16], beyond), (&fingerprints(200_000)[..], plan.room)] {
            let refused = Directory::build_shaped(prints, planned(&plan), room).err();
            assert!(matches!(refused, Some(Error::Directory(why)) if why.contains("plan another shape")));
        }
    }

    /// The first row stands in the documents.
    #[test]
    fn plans_are_powers_of_two_and_have_room() {
        for (records, bytes, shards, expected) in [
            (1_000_000_000, 36, 64, (32, 65_536, 8, 15, 1952, 76)),
            (1000, 36, 2, (1, 128, 8, 7, 736, 30)),
            (100_000, 300, 4, (1, 32_768, 1, 10, 736, 30)),
        ] {
            let plan = ShardPlan::new(records, bytes, shards).unwrap();
            let found = (plan.layout.partitions(), plan.layout.partition_records(), plan.layout.stored().block_records);
            assert_eq!((found.0, found.1, found.2, plan.block_log, plan.block_bytes, plan.room), expected);
        }
        for (records, bytes, shards) in [(4_000_000_000, 36, 256), (1 << 40, 36, 64), (1000, 65_537, 2), (1000, 0, 2)] {
            assert!(ShardPlan::new(records, bytes, shards).is_err(), "{records} {bytes} {shards}");
        }
    }
}
