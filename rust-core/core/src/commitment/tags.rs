//! Client-held tags (docs/protocol.md, Suite 2): the client reads every record once anyway, in the offline phase, and keeps
//! a short keyed tag of each. Answers are then records alone, and servers keep no trees.
//!
//! tag(i, record) = SipHash-2-4(key; i as u64 ‖ record), 8 bytes, under a key of the hint's own that never leaves the
//! client; that of a block is the XOR of its records'. The index is inside, so that a record moved elsewhere fails.
//! docs/threat-model.md derives what forging costs.
//!
//! The tags of a light hint come from two servers instead, each of which tags every block at a point of its own: their sum
//! is one that neither could have made (Light hints).
//!
//! Comparing does not branch: differences are collected over a whole answer and looked at once.

use std::hash::Hasher;

use pirouette_kernels::linear::{Point, TAG_BYTES as LINEAR_TAG_BYTES};
use siphasher::sip::SipHasher24;
use zeroize::ZeroizeOnDrop;

use crate::error::Error;
use crate::layout::Layout;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 8;
/// Bytes of the key that a hint's tags are made under: SipHash's, or two points.
pub const TAG_KEY_BYTES: usize = 16;

/// How records are tagged.
enum Hash {
    /// SipHash-2-4, of each record with its index; what changes has to be known whole
    Keyed,
    /// the sum of the linear hashes at two points, of blocks; of a change the difference suffices
    Linear(Vec<Point>),
}

/// The tag of every block, padding included. Secret: neither `Clone` nor `Debug`.
#[derive(ZeroizeOnDrop)]
pub struct Tags {
    /// of either hash
    key: [u8; TAG_KEY_BYTES],
    #[zeroize(skip)] // points overwrite themselves
    hash: Hash,
    /// g
    block_records: usize,
    /// in order
    of_blocks: Vec<u64>,
}

impl Tags {
    /// Room for a tag of each of the layout's Q·M′ blocks, to be filled with [`Tags::tag_partition`] before use.
    pub(crate) fn new(layout: &Layout, key: [u8; TAG_KEY_BYTES]) -> Result<Self, Error> {
        Self::empty(layout, key, Hash::Keyed)
    }

    /// Those that two servers have made of all blocks, each at its own point, added up.
    pub(crate) fn linear(layout: &Layout, points: [[u8; LINEAR_TAG_BYTES]; 2], of_blocks: Vec<u64>) -> Self {
        let key = *points.as_flattened().first_chunk().unwrap_or(&[0; TAG_KEY_BYTES]);
        Tags { key, hash: linear(&key), block_records: layout.stored().block_records, of_blocks }
    }

    /// Room for stored ones.
    pub(crate) fn stored(layout: &Layout, is_linear: bool, key: [u8; TAG_KEY_BYTES]) -> Result<Self, Error> {
        Self::empty(layout, key, if is_linear { linear(&key) } else { Hash::Keyed })
    }

    fn empty(layout: &Layout, key: [u8; TAG_KEY_BYTES], hash: Hash) -> Result<Self, Error> {
        let mut tags = Tags { key, hash, block_records: layout.stored().block_records, of_blocks: Vec::new() };
        tags.reserve(layout)?;
        tags.of_blocks.resize(layout.slots(), 0);
        Ok(tags)
    }

    /// Whether of a change the difference suffices.
    pub(crate) fn is_linear(&self) -> bool {
        matches!(self.hash, Hash::Linear(_))
    }

    /// Of the record at an index.
    fn record_tag(&self, index: usize, record: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&(index as u64).to_le_bytes());
        hasher.hash(record)
    }

    /// Of a block, of the records from block·g on.
    fn tag(&self, block: usize, bytes: &[u8]) -> u64 {
        if let Hash::Linear(points) = &self.hash {
            return points.iter().fold(0, |tag, point| tag ^ point.tag(bytes));
        }
        let records = bytes.chunks_exact(bytes.len() / self.block_records).enumerate();
        records.fold(0, |tag, (slot, record)| tag ^ self.record_tag(block * self.block_records + slot, record))
    }

    /// Zero if these are the bytes of the block that was tagged. Takes the same steps whatever they are.
    pub(crate) fn difference(&self, block: usize, bytes: &[u8]) -> u64 {
        self.of_blocks[block] ^ self.tag(block, bytes)
    }

    /// Puts a record in the place of the one that was tagged at an index. Not of linear ones.
    pub(crate) fn change(&mut self, index: usize, old: &[u8], new: &[u8]) {
        self.of_blocks[index / self.block_records] ^= self.record_tag(index, old) ^ self.record_tag(index, new);
    }

    /// Adds what has changed in a block, as a block. Of linear ones alone.
    pub(crate) fn add(&mut self, block: usize, difference: &[u8]) {
        self.of_blocks[block] ^= self.tag(block, difference);
    }

    /// Tags the M′ blocks of partition `q`.
    pub(crate) fn tag_partition(&mut self, layout: &Layout, q: usize, partition: &[u8]) {
        let first = q * layout.partition_records();
        for (m, bytes) in partition.chunks_exact(layout.record_bytes()).enumerate() {
            self.of_blocks[first + m] = self.tag(first + m, bytes);
        }
    }

    /// Makes sure that [`Tags::grow`] finds the memory it needs.
    pub(crate) fn reserve(&mut self, after: &Layout) -> Result<(), Error> {
        let more = after.slots().saturating_sub(self.of_blocks.len());
        self.of_blocks.try_reserve_exact(more).map_err(|_| {
            Error::Layout(format!("memory for {more} more tags could not be had; Merkle proofs need none"))
        })
    }

    /// Tags the blocks of the new partitions of a larger layout: they are zero before anything is added.
    pub(crate) fn grow(&mut self, after: &Layout) {
        let empty = vec![0; after.record_bytes()];
        for block in self.of_blocks.len()..after.slots() {
            self.of_blocks.push(self.tag(block, &empty));
        }
    }

    /// Bytes held, 8·Q·M′.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.of_blocks.len() * TAG_BYTES
    }

    /// The key, for stored forms alone.
    pub(crate) fn key(&self) -> &[u8; TAG_KEY_BYTES] {
        &self.key
    }

    /// Tags by block, for stored forms alone.
    pub(crate) fn by_index(&self) -> &[u64] {
        &self.of_blocks
    }

    /// Puts stored tags, 8 bytes each, in the place of those from block `first` on.
    pub(crate) fn restore(&mut self, first: usize, stored: &[u8]) {
        for (tag, bytes) in self.of_blocks[first..].iter_mut().zip(stored.as_chunks().0) {
            *tag = u64::from_le_bytes(*bytes);
        }
    }
}

fn linear(key: &[u8; TAG_KEY_BYTES]) -> Hash {
    let points: &[[u8; LINEAR_TAG_BYTES]] = key.as_chunks().0;
    Hash::Linear(points.iter().map(|point| Point::new(u64::from_le_bytes(*point))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counting(bytes: std::ops::Range<u8>) -> Vec<u8> {
        bytes.collect()
    }

    /// The vectors of the SipHash paper's reference implementation: key 00 … 0f, message 00 … of every length that
    /// holds an index. (Aumasson, Bernstein: SipHash, appendix A, is the one of 15 bytes.)
    #[test]
    fn tags_are_siphash_2_4_of_index_and_record() {
        let key: [u8; 16] = counting(0..16).try_into().unwrap();
        let tags = Tags { key, hash: Hash::Keyed, block_records: 1, of_blocks: Vec::new() };
        let index = u64::from_le_bytes(counting(0..8).try_into().unwrap());
        for (end, expected) in [
            (8, 0x93f5_f579_9a93_2462),
            (9, 0x9e00_82df_0ba9_e4b0),
            (15, 0xa129_ca61_49be_45e5),
            (16, 0x3f2a_cc7f_57c2_9bdb),
            (17, 0x699a_e9f5_2cbe_4794),
            (63, 0x958a_324c_eb06_4572),
        ] {
            assert_eq!(tags.record_tag(index as usize, &counting(8..end)), expected, "{end} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_every_other_index_and_every_other_key_changes_the_tag() {
        let layout = Layout::new(10, 5, 2, 5).unwrap();
        let partition = counting(0..25);
        let mut tags = Tags::new(&layout, [7; 16]).unwrap();
        let mut other = Tags::new(&layout, [8; 16]).unwrap();
        for q in 0..2 {
            tags.tag_partition(&layout, q, &partition);
            other.tag_partition(&layout, q, &partition);
        }
        for index in 0..10 {
            let record = &partition[index % 5 * 5..][..5];
            assert_eq!(tags.difference(index, record), 0);
            assert_ne!(other.of_blocks[index], tags.of_blocks[index]);
            for bit in 0..40 {
                let mut flipped = record.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(tags.difference(index, &flipped), 0);
            }
            // Equal records at different places have different tags.
            assert!((0..10).all(|at| (tags.of_blocks[at] == tags.of_blocks[index]) == (at == index)));
            assert!((0..10).all(|at| (tags.difference(at, record) == 0) == (at % 5 == index % 5)));
        }
    }

    /// A tag of several records is not compared before one of them changes: so nothing may make a wrong one right.
    #[test]
    fn a_wrong_tag_stays_wrong_whatever_changes() {
        let layout = Layout::packed(8, 3, 1, 8, 4).unwrap();
        let mut records = counting(0..24);
        let mut tags = Tags::new(&layout, [7; 16]).unwrap();
        tags.tag_partition(&layout, 0, &records);
        tags.of_blocks[1] ^= 1 << 40;
        for (index, byte) in [(4, 1), (5, 2), (0, 3), (4, 4), (7, 5), (6, 6), (5, 7)] {
            let place = &mut records[3 * index..][..3];
            tags.change(index, place, &[byte; 3]);
            place.fill(byte);
            let differences: Vec<u64> =
                (0..2).map(|block| tags.difference(block, &records[12 * block..][..12])).collect();
            assert_eq!(differences, [0, 1 << 40]);
        }
    }

    proptest! {
        #[test]
        fn edits_and_growth_equal_tagging_anew(
            edits in prop::collection::vec((0usize..16, any::<[u8; 3]>()), 0..20), key: [u8; 16], g in 0u32..3,
        ) {
            let before = Layout::packed(5, 3, 2, 4, 1 << g).unwrap();
            let after = before.grown(11, 4).unwrap();
            let mut records = vec![0; after.database_bytes()];
            let mut edited = Tags::new(&before, key).unwrap();
            (0..2).for_each(|q| edited.tag_partition(&before, q, &records[q * 12..][..12]));
            edited.reserve(&after).unwrap();
            edited.grow(&after);
            for (index, record) in edits {
                let place = &mut records[index * 3..][..3];
                edited.change(index, place, &record);
                place.copy_from_slice(&record);
            }
            let mut anew = Tags::new(&after, key).unwrap();
            (0..4).for_each(|q| anew.tag_partition(&after, q, &records[q * 12..][..12]));
            prop_assert_eq!(&edited.of_blocks, &anew.of_blocks);
        }
    }
}
