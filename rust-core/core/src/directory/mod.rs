//! The directory maps key fingerprints to record indices (docs/protocol.md, Directory). A minimal perfect hash has the keys
//! with which a generation began. An overlay has the keys added since, and takes precedence.
//!
//! A hash of the fingerprint gives the key's block. Each block has its own perfect hash and overlay ([`block`]) and can be
//! read alone, so a client without the directory can look up a single block, privately. For that, blocks are padded to one
//! length ([`shape`]) and form a database of their own.

mod block;
mod bringing;
mod build;
mod next;
mod shape;
mod shards;
mod table;

pub use bringing::Bringing;
pub use build::DirectoryBuilder;
pub(crate) use next::NextDirectory;
pub use shape::Shape;
pub(crate) use shape::{expected_blocks, expected_bytes};
pub use shards::{ShardPlan, shards_of};
pub use table::Directory;
pub(crate) use table::Overfull;

#[cfg(test)]
mod tests {
    use super::block::{self, Block};
    use super::*;
    use crate::key::{FINGERPRINT_BYTES, fingerprint};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn fingerprints(count: u32) -> Vec<u8> {
        (0..count).flat_map(|i| fingerprint(&i.to_le_bytes())).collect()
    }

    fn built(count: u32) -> Directory {
        Directory::build(&fingerprints(count), count as usize).unwrap()
    }

    #[test]
    fn keys_are_placed_one_to_one_and_any_order_gives_the_same_bytes() {
        for count in [1, 2, 15, 16, 17, 1000, 60_000] {
            let prints = fingerprints(count);
            let directory = built(count);
            let mut indices = directory.indices(&prints, count).unwrap();
            indices.sort_unstable();
            assert!(indices.iter().enumerate().all(|(i, &index)| i == index as usize));
            let reversed: Vec<u8> = prints.as_chunks::<16>().0.iter().rev().flatten().copied().collect();
            assert_eq!(Directory::build(&reversed, count as usize).unwrap().encode(), directory.encode());
        }
    }

    /// In other levels boomphf's size differs from ours. A level of 64 keys is whole words in both.
    #[test]
    fn a_level_of_whole_words_is_boomphfs() {
        for count in [128, 160, 4096] {
            let keys: Vec<u128> = (0..count).map(|i: u32| u128::from_le_bytes(fingerprint(&i.to_le_bytes()))).collect();
            let prints: Vec<[u8; FINGERPRINT_BYTES]> = keys.iter().map(|key| key.to_le_bytes()).collect();
            let mut bytes = Vec::new();
            block::build(7, &prints, 0, &mut bytes).unwrap();
            let (block, _) = Block::split(&bytes).unwrap();
            let reference = boomphf::Mphf::new(2.0, &keys);
            let level_0 = |index: u64| index < u64::from(block.level_ones(0));
            for key in &keys {
                let theirs = reference.hash(key);
                let ours = u64::from(block.perfect_index(*key).unwrap() - 7);
                assert_eq!(level_0(ours), level_0(theirs), "which keys the first level has");
                assert!(!level_0(ours) || ours == theirs);
            }
        }
    }

    #[test]
    fn a_million_keys_cost_less_than_three_quarters_of_a_byte_each() {
        let directory = built(100_000);
        assert!(directory.encode().len() < 70_000, "{}", directory.encode().len());
    }

    /// Within 4 %. The seeds are fixed, so this test always gives the same result.
    #[test]
    fn sizes_are_as_expected() {
        for count in [1u32, 2, 10, 40, 100, 128, 200, 1000, 20_000, 100_000] {
            let actual = built(count).encode().len() as u64;
            let expected = expected_bytes(count.into(), count.into());
            let off = actual.abs_diff(expected);
            assert!(off <= expected * 4 / 100, "{count} keys: {expected} bytes expected, {actual} found");
        }
    }

    /// Blocks as the planner plans them. The last row stands in the documents.
    #[test]
    fn blocks_are_short_and_full_of_room() {
        for (count, slots, log, bytes) in
            [(1, 16, 7, 640), (1000, 1008, 7, 640), (65_536, 65_536, 9, 704), (65_536, 1 << 20, 15, 1440)]
        {
            let shape = *Directory::build(&fingerprints(count), slots).unwrap().shape();
            assert_eq!((shape.log(), shape.block_bytes()), (log, bytes), "{count} keys in {slots} slots");
        }
    }

    /// However the added keys are spread, a generation has room for as many as it was planned for. A full block is refused,
    /// not made longer.
    #[test]
    fn blocks_have_room_for_the_keys_that_a_generation_was_planned_for() {
        for (count, slots, added) in [(20, 32, 1000), (20_000, 20_000, 1250), (1000, 6000, 5000)] {
            let added: Vec<_> = (0..added).map(|i: u32| (fingerprint(format!("{i}").as_bytes()), Some(i))).collect();
            let directory = Directory::build(&fingerprints(count), slots).unwrap();
            assert!(directory.with_overlay(&added).is_ok(), "{count} keys, {slots} slots");
        }
        let directory = built(100);
        let mut into_one = (0..).map(|i: u32| fingerprint(format!("{i}").as_bytes()));
        let mut overlay: Vec<([u8; FINGERPRINT_BYTES], Option<u32>)> = Vec::new();
        let overfull = loop {
            let print = into_one.by_ref().find(|print| directory.shape().number(print) == 3).unwrap();
            overlay.push((print, Some(0)));
            if let Err(Overfull(number)) = directory.with_overlay(&overlay) {
                break number;
            }
        };
        assert_eq!(overfull, 3);
        assert!(overlay.len() > 16, "room for {}", overlay.len() - 1);
    }

    #[test]
    fn fingerprints_that_cannot_be_placed_are_refused() {
        let mut prints = fingerprints(3);
        assert!(Directory::build(&[], 3).is_err() && Directory::build(&prints[..17], 3).is_err());
        prints.extend_from_within(..16);
        assert!(Directory::build(&prints, 4).is_err());
        assert!(Directory::build(&[0; 16], 1).is_err());
    }

    proptest! {
        #[test]
        fn stored_forms_read_back_and_nothing_else_does(count in 1u32..400, at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<prop::sample::Index>()) {
            let bytes = built(count).encode();
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

        /// Compares inserts and deletes with a plain map: in the whole directory, in single blocks, and in updated blocks.
        #[test]
        fn blocks_follow_the_directory(
            count in 1u32..60,
            epochs in prop::collection::vec(prop::collection::btree_map(0u32..120, any::<bool>(), 0..20), 1..4),
        ) {
            let records = 200;
            let mut directory = built(count);
            let mut blocks = directory.database().unwrap();
            let mut model: BTreeMap<u32, u32> = (0..count)
                .map(|key| (key, directory.index(&fingerprint(&key.to_le_bytes()), count).unwrap()))
                .collect();
            for epoch in epochs {
                let mut changes = Vec::new();
                for (key, there) in epoch {
                    if there { model.insert(key, 199 - key) } else { model.remove(&key) };
                    changes.push((fingerprint(&key.to_le_bytes()), there.then_some(199 - key)));
                }
                let before = blocks.records_mut().to_vec();
                let previous = blocks.commitment(0).unwrap();
                directory = directory.with_overlay(&changes).unwrap();
                directory.bring(&mut blocks).unwrap();
                let mut anew = directory.database().unwrap();
                prop_assert_eq!(anew.records_mut(), blocks.records_mut());
                prop_assert_eq!(anew.commitment(0), blocks.commitment(0));
                prop_assert_eq!(before == blocks.records_mut(), previous == blocks.commitment(0).unwrap());
                for (key, index) in &model {
                    let print = fingerprint(&key.to_le_bytes());
                    let number = directory.shape().number(&print) as usize;
                    prop_assert_eq!(directory.index(&print, records).unwrap(), *index);
                    let block = blocks.record(number).unwrap();
                    prop_assert_eq!(directory.shape().index(block, &print, records).unwrap(), *index);
                }
            }
        }
    }
}
