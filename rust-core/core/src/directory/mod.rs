//! The directory: from key fingerprints to record indices (docs/protocol.md, Directory). A minimal perfect hash places the
//! keys that a generation begins with, an overlay those added since, and takes precedence.
//!
//! It is cut into blocks by a hash of the fingerprint. Each block has a perfect hash and an overlay of its own ([`block`])
//! and can be read alone, so that a client without the directory can look a single block up, privately; for this, blocks
//! are padded to one length ([`shape`]) and make a [`Database`] of their own.

mod block;
mod bringing;
mod build;
mod following;
mod shape;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::commitment::Merkle;
use crate::database::flat::Database;
use crate::error::{Error, expect_below, expect_length};
use crate::key::FINGERPRINT_BYTES;

use block::Block;
pub use bringing::Bringing;
pub use build::DirectoryBuilder;
pub(crate) use following::Following;
pub use shape::Shape;
pub(crate) use shape::{expected_blocks, expected_bytes};

const MAGIC: &[u8; 4] = b"PIRD";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 32;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// A directory in memory.
#[derive(Debug)]
pub struct Directory {
    shape: Shape,
    /// in the perfect hashes
    keys: u32,
    /// all blocks, without padding
    bytes: Vec<u8>,
    /// where each ends
    ends: Vec<usize>,
}

/// Why there is no next directory: this block has no room for the keys added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overfull(pub(crate) u32);

impl Directory {
    /// Builds the directory of n distinct fingerprints, 16 bytes each, in any order, for a database of so many slots:
    /// equal sets give equal bytes.
    ///
    /// # Errors
    /// As [`DirectoryBuilder`]'s; [`Error::Directory`] also for a torn last fingerprint.
    pub fn build(fingerprints: &[u8], slots: usize) -> Result<Self, Error> {
        let (fingerprints, rest) = fingerprints.as_chunks::<FINGERPRINT_BYTES>();
        if !rest.is_empty() {
            return Err(Error::Directory("expected fingerprints of 16 bytes".into()));
        }
        let mut builder = DirectoryBuilder::new();
        for fingerprint in fingerprints {
            builder.push(fingerprint)?;
        }
        loop {
            if let Some(directory) = builder.step(slots)? {
                return Ok(directory);
            }
        }
    }

    /// Checks the blocks against each other and against a database of `records`.
    fn from_blocks(shape: Shape, bytes: Vec<u8>, records: u32) -> Result<Self, Error> {
        let refuse = |why: &str| Error::Directory(why.into());
        let mut ends = Vec::with_capacity(shape.blocks());
        let mut keys = 0u32;
        let mut rest = bytes.as_slice();
        for number in 0..shape.blocks() {
            let (block, behind) = Block::split(rest)?;
            if block.bytes() > shape.block_bytes() {
                return Err(refuse("a block is longer than its length"));
            }
            if block.base != keys {
                return Err(refuse("a block does not begin where the one before it ends"));
            }
            keys = keys.checked_add(block.keys.into()).ok_or_else(|| refuse("too many keys for one directory"))?;
            if block.overlay().any(|(print, _)| shape.number(&print) as usize != number) {
                return Err(refuse("a key is in the overlay of another block than its own"));
            }
            if block.overlay().any(|(_, index)| index >= records) {
                return Err(refuse("it leads beyond the database"));
            }
            rest = behind;
            ends.push(bytes.len() - rest.len());
        }
        if !rest.is_empty() {
            return Err(refuse("bytes follow the end"));
        }
        if keys == 0 {
            return Err(refuse("there are no keys"));
        }
        if keys > records {
            return Err(refuse("it leads beyond the database"));
        }
        Ok(Directory { shape, keys, bytes, ends })
    }

    /// Reads a stored directory of a database of `records`. Any bytes that are not what [`Directory::encode`] writes
    /// are refused, and so is a directory that leads beyond the database: found only when a key is looked up, that
    /// would stop some lookups before their query and let the rest through.
    ///
    /// # Errors
    /// [`Error::Directory`].
    pub fn decode(bytes: &[u8], records: u32) -> Result<Self, Error> {
        let refuse = |why: &str| Error::Directory(why.into());
        let (header, blocks) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| refuse("the bytes end too early"))?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if &header[..4] != MAGIC || u16_at(4) != FORMAT {
            return Err(refuse("this is not a directory of format 1"));
        }
        if u32_at(12) != 0 {
            return Err(refuse("reserved bytes are not zero"));
        }
        let seed = header.last_chunk().ok_or_else(|| refuse("the bytes end too early"))?;
        let shape = Shape::new(u16_at(6).into(), u32_at(8) as usize, seed)
            .map_err(|_| refuse("expected at most 2^16 blocks, of 32 to 65536 bytes"))?;
        Self::from_blocks(shape, blocks.to_vec(), records)
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        self.encode_part(0..self.encoded_bytes(), &mut out);
        out
    }

    /// Bytes of the stored form.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes.len()
    }

    /// Appends some of the bytes of the stored form, for it may be long.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn encode_part(&self, part: Range<usize>, out: &mut Vec<u8>) {
        let header = self.shape.header();
        let in_header = part.start.min(HEADER_BYTES)..part.end.min(HEADER_BYTES);
        out.extend_from_slice(&header[in_header]);
        let behind = |at: usize| at.saturating_sub(HEADER_BYTES);
        out.extend_from_slice(&self.bytes[behind(part.start)..behind(part.end)]);
    }

    /// Keys in the perfect hashes.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// What its blocks have in common.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where to look for a fingerprint in a database of `records`. Every fingerprint has an index, so that an absent
    /// key makes the same query as a present one.
    ///
    /// # Errors
    /// [`Error::Index`] if the directory points beyond the database.
    pub fn index(&self, fingerprint: &Fingerprint, records: u32) -> Result<u32, Error> {
        let block = self.block(self.shape.number(fingerprint) as usize)?;
        let index = block.index(fingerprint, self.shape.seeded(fingerprint), records);
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

    /// The bytes of a block, without padding.
    fn block_bytes(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[number]]
    }

    fn block(&self, number: usize) -> Result<Block<'_>, Error> {
        Ok(Block::split(self.block_bytes(number))?.0)
    }

    /// This directory with overlay entries for these fingerprints set to an index, or removed. An entry that says what
    /// the perfect hash says already is left out, so that equal contents have equal bytes.
    pub(crate) fn with_overlay(&self, changes: &[(Fingerprint, Option<u32>)]) -> Result<Self, Overfull> {
        let mut of_block: BTreeMap<usize, Vec<&(Fingerprint, Option<u32>)>> = BTreeMap::new();
        for change in changes {
            of_block.entry(self.shape.number(&change.0) as usize).or_default().push(change);
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + changes.len() * block::OVERLAY_ENTRY_BYTES);
        let mut ends = Vec::with_capacity(self.ends.len());
        for number in 0..self.shape.blocks() {
            let changes = of_block.get(&number).into_iter().flatten().map(|change| **change);
            self.write_block(number, changes, &mut bytes)?;
            ends.push(bytes.len());
        }
        Ok(Directory { shape: self.shape, keys: self.keys, bytes, ends })
    }

    /// Appends a block, without padding, after changes to its overlay.
    fn write_block(
        &self,
        number: usize,
        changes: impl Iterator<Item = (Fingerprint, Option<u32>)>,
        into: &mut Vec<u8>,
    ) -> Result<(), Overfull> {
        let mut changes = changes.peekable();
        if changes.peek().is_none() {
            into.extend_from_slice(self.block_bytes(number));
            return Ok(());
        }
        let begin = into.len();
        let overfull = Overfull(number as u32);
        let block = self.block(number).map_err(|_| overfull)?;
        let mut overlay: BTreeMap<Fingerprint, u32> = block.overlay().collect();
        for (print, index) in changes {
            match index {
                Some(index) if block.perfect_index(self.shape.seeded(&print)) != Some(index) => {
                    overlay.insert(print, index)
                }
                _ => overlay.remove(&print),
            };
        }
        let overlay: Vec<_> = overlay.into_iter().collect();
        block.with_overlay(&overlay, into).ok_or(overfull)?;
        if into.len() - begin > self.shape.block_bytes() { Err(overfull) } else { Ok(()) }
    }

    // ---- at a server ----------------------------------------------------------------------------------

    /// The padded blocks, committed to: what instant lookups of blocks are answered from.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn database(&self) -> Result<Database<Merkle>, Error> {
        let mut database = Database::new(self.shape.layout()?)?;
        let padded = database.records_mut().chunks_exact_mut(self.shape.block_bytes());
        for (number, into) in padded.enumerate() {
            let block = self.block_bytes(number);
            into[..block.len()].copy_from_slice(block);
        }
        database.commit(0)?;
        Ok(database)
    }

    /// Brings the blocks of the epoch before to this directory: what has not changed is not touched.
    ///
    /// # Errors
    /// [`Error::Phase`] if these are the blocks of another generation; [`Error::Layout`] if memory does not suffice.
    pub fn bring(&self, database: &mut Database<Merkle>) -> Result<(), Error> {
        let mut bringing = Bringing::new(self, database)?;
        while bringing.step(self, database)? {}
        bringing.finish()?.run(database).map(drop)
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

    /// Where no key of ours has the bit, boomphf's levels are another size: one level of 64 keys is of whole words in both.
    #[test]
    fn a_level_of_whole_words_is_boomphfs() {
        for count in [128, 160, 4096] {
            let keys: Vec<u128> = (0..count).map(|i: u32| u128::from_le_bytes(fingerprint(&i.to_le_bytes()))).collect();
            let prints: Vec<Fingerprint> = keys.iter().map(|key| key.to_le_bytes()).collect();
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

    /// The seeds are fixed, so the bounds hold or fail for good: 4 %.
    #[test]
    fn sizes_are_as_expected() {
        for count in [1u32, 2, 10, 40, 100, 128, 200, 1000, 20_000, 100_000] {
            let actual = built(count).encode().len() as u64;
            let expected = expected_bytes(count.into(), count.into());
            let off = actual.abs_diff(expected);
            assert!(off <= expected * 4 / 100, "{count} keys: {expected} bytes expected, {actual} found");
        }
    }

    /// Blocks of what the planner takes, one at 2^20 keys included, which stands in the documents.
    #[test]
    fn blocks_are_short_and_full_of_room() {
        for (count, slots, log, bytes) in
            [(1, 16, 7, 640), (1000, 1008, 7, 640), (65_536, 65_536, 9, 704), (65_536, 1 << 20, 15, 1440)]
        {
            let shape = *Directory::build(&fingerprints(count), slots).unwrap().shape();
            assert_eq!((shape.log(), shape.block_bytes()), (log, bytes), "{count} keys in {slots} slots");
        }
    }

    #[test]
    fn a_block_alone_leads_where_the_directory_does() {
        let (count, records) = (3000, 3500u32);
        let directory = built(count);
        let added: Vec<_> = (count..records).map(|i| (fingerprint(&i.to_le_bytes()), Some(i))).collect();
        let directory = directory.with_overlay(&added).unwrap();
        let blocks = directory.database().unwrap();
        for i in 0..2 * records {
            let print = fingerprint(&i.to_le_bytes());
            let number = directory.shape().number(&print) as usize;
            let block = blocks.record(number).unwrap();
            let alone = directory.shape().index(block, &print, records).unwrap();
            assert_eq!(alone, directory.index(&print, records).unwrap());
            assert!(i >= records || i < count || alone == i);
        }
        let print = fingerprint(&0u32.to_le_bytes());
        let mut block = blocks.record(directory.shape().number(&print) as usize).unwrap().to_vec();
        assert!(matches!(directory.shape().index(&block[1..], &print, records), Err(Error::Length { .. })));
        block[..4].copy_from_slice(&records.to_le_bytes());
        assert!(matches!(directory.shape().index(&block, &print, records), Err(Error::Directory(_))), "too far");
        let last = block.len() - 1;
        block[last] = 1;
        assert!(matches!(directory.shape().index(&block, &print, records), Err(Error::Directory(_))), "padding");
    }

    #[test]
    fn absent_keys_have_an_index_too_and_the_overlay_takes_precedence() {
        let prints = fingerprints(50);
        let directory = built(50).with_overlay(&[(prints[..16].try_into().unwrap(), Some(49))]).unwrap();
        let bytes = directory.encode();
        let directory = Directory::decode(&bytes, 50).unwrap();
        assert_eq!(directory.index(prints[..16].try_into().unwrap(), 50).unwrap(), 49);
        for i in 1000..2000u32 {
            assert!(directory.index(&fingerprint(&i.to_le_bytes()), 50).unwrap() < 50);
        }
        assert!(directory.index(prints[..16].try_into().unwrap(), 49).is_err(), "beyond the database");
        assert!(Directory::decode(&bytes, 49).is_err(), "fifty keys and an overlay beyond the database");
        let far = built(50).with_overlay(&[(prints[..16].try_into().unwrap(), Some(50))]).unwrap().encode();
        assert!(Directory::decode(&far, 50).is_err(), "an overlay beyond the database");
    }

    /// However the added keys are spread, a generation has room for as many as it was planned for; and a block that has
    /// none left is refused rather than made longer.
    #[test]
    fn blocks_have_room_for_the_keys_that_a_generation_was_planned_for() {
        for (count, slots, added) in [(20, 32, 1000), (20_000, 20_000, 1250), (1000, 6000, 5000)] {
            let added: Vec<_> = (0..added).map(|i: u32| (fingerprint(format!("{i}").as_bytes()), Some(i))).collect();
            let directory = Directory::build(&fingerprints(count), slots).unwrap();
            assert!(directory.with_overlay(&added).is_ok(), "{count} keys, {slots} slots");
        }
        let directory = built(100);
        let mut into_one = (0..).map(|i: u32| fingerprint(format!("{i}").as_bytes()));
        let mut overlay: Vec<(Fingerprint, Option<u32>)> = Vec::new();
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

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut headed = b"PIRD\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
            headed.extend_from_slice(&bytes);
            for bytes in [bytes, headed] {
                if let Ok(directory) = Directory::decode(&bytes, u32::MAX) {
                    prop_assert_eq!(directory.encode(), bytes);
                }
            }
        }

        /// Inserts and deletes against a plain map: whole, by its blocks alone, and by blocks that were brought there.
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
