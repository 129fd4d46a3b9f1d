//! The directory in memory, and its stored form (docs/protocol.md, Directory).

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::{self, Block};
use super::shape::{FORMAT, HEADER_BYTES, MAGIC, Shape};
use crate::commitment::Merkle;
use crate::database::flat::Database;
use crate::error::{Error, expect_below, expect_length};
use crate::key::FINGERPRINT_BYTES;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// A directory in memory.
#[derive(Debug)]
pub struct Directory {
    pub(super) shape: Shape,
    /// number of keys in the perfect hashes
    pub(super) keys: u32,
    /// all blocks, without padding
    pub(super) bytes: Vec<u8>,
    /// where each block ends in `bytes`
    pub(super) ends: Vec<usize>,
}

/// There is no next directory, because the block of this number has no room for the keys added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overfull(pub(crate) u32);

impl Directory {
    /// Checks blocks, one after the other, for a database of `records`.
    pub(super) fn from_blocks(shape: Shape, bytes: Vec<u8>, records: u32) -> Result<Self, Error> {
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

    /// Reads a stored directory of a database of `records`. It refuses any bytes that [`Directory::encode`] does not write. It
    /// also refuses a directory that leads beyond the database: if only a lookup found that out, some lookups would stop
    /// before their query and others would not, and servers could see which.
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
            .map_err(|_| refuse("expected at most 2^16 blocks, each a multiple of 32 bytes, up to 65536 bytes"))?;
        Self::from_blocks(shape, blocks.to_vec(), records)
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        self.encode_part(0..self.encoded_bytes(), &mut out);
        out
    }

    /// The length of the stored form.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes.len()
    }

    /// Appends a part of the stored form, which may be long.
    ///
    /// # Panics
    /// If the part is beyond the end.
    pub fn encode_part(&self, part: Range<usize>, out: &mut Vec<u8>) {
        let header = self.shape.header();
        let in_header = part.start.min(HEADER_BYTES)..part.end.min(HEADER_BYTES);
        out.extend_from_slice(&header[in_header]);
        let behind = |at: usize| at.saturating_sub(HEADER_BYTES);
        out.extend_from_slice(&self.bytes[behind(part.start)..behind(part.end)]);
    }

    /// The number of keys in the perfect hashes.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The shape of its blocks.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The index of a fingerprint in a database of `records`. Every fingerprint has one, so that a missing key makes the same
    /// query as an existing one.
    ///
    /// # Errors
    /// [`Error::Index`] if the index is beyond the database.
    pub fn index(&self, fingerprint: &Fingerprint, records: u32) -> Result<u32, Error> {
        let block = self.block(self.shape.number(fingerprint) as usize)?;
        let index = block.index(fingerprint, self.shape.seeded(fingerprint), records);
        expect_below("index in the directory", index as usize, records as usize)?;
        Ok(index)
    }

    /// [`Directory::index`] of many fingerprints, 16 bytes each.
    ///
    /// # Errors
    /// As [`Directory::index`]; [`Error::Length`] if the bytes are no multiple of 16.
    pub fn indices(&self, fingerprints: &[u8], records: u32) -> Result<Vec<u32>, Error> {
        let (whole, rest) = fingerprints.as_chunks();
        expect_length("rest of a fingerprint", rest, 0)?;
        whole.iter().map(|fingerprint| self.index(fingerprint, records)).collect()
    }

    /// The bytes of a block, without padding.
    pub(super) fn block_bytes(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[number]]
    }

    fn block(&self, number: usize) -> Result<Block<'_>, Error> {
        Ok(Block::split(self.block_bytes(number))?.0)
    }

    /// This directory with changed overlay entries: each fingerprint gets an index, or loses its entry. An entry that agrees
    /// with the perfect hash is left out, so that equal contents have equal bytes.
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

    /// Appends a block, without padding, with changes to its overlay.
    pub(super) fn write_block(
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

    // ---- for servers ----------------------------------------------------------------------------------

    /// The padded blocks as a committed database, from which instant lookups of blocks are answered.
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
}
