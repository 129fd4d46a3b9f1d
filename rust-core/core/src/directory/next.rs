//! Makes the next epoch's directory ([`Directory::updated`]), in steps of bounded work, so that a server can answer between.

use blake3::Hasher;

use super::block::OVERLAY_ENTRY_BYTES;
use super::table::{Directory, Overfull};
use crate::database::list::{Kind, UpdateList, print_of};
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;

/// Entries read in one step.
const STEP_ENTRIES: usize = 1 << 13;
/// Bytes of blocks written in one step; the last block may exceed it.
const STEP_BYTES: usize = 1 << 18;

/// The next directory, in the making from an update list.
pub(crate) struct NextDirectory {
    /// for each block the numbers of its entries: deletes before adds, because a batch may delete a key and add it again in a
    /// lower slot
    changes: Vec<Vec<u32>>,
    stage: Stage,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// hashes the stored form
    hasher: Hasher,
}

/// What the next step does. Numbers say where it continues.
enum Stage {
    /// assigns entries of this kind to their blocks
    Spread(Kind, usize),
    /// writes blocks
    Write(usize),
}

impl NextDirectory {
    pub(crate) fn new(before: &Directory) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&before.shape.header());
        NextDirectory {
            changes: vec![Vec::new(); before.shape.blocks()],
            stage: Stage::Spread(Kind::Delete, 0),
            bytes: Vec::new(),
            ends: Vec::new(),
            hasher,
        }
    }

    /// Does the next step. Pass the same directory and list each time; the records must have room for fingerprints. Returns the
    /// next directory and the BLAKE3 of its stored form when they are done.
    pub(crate) fn step(
        &mut self,
        before: &Directory,
        list: &UpdateList,
    ) -> Result<Option<(Directory, [u8; 32])>, Overfull> {
        match self.stage {
            Stage::Spread(kind, from) => {
                let to = list.len().min(from + STEP_ENTRIES);
                for number in from..to {
                    let Some(entry) = list.entry(number).filter(|entry| entry.kind == kind) else { continue };
                    self.changes[before.shape.number(&print_of(&entry)) as usize].push(number as u32);
                }
                self.stage = match kind {
                    _ if to < list.len() => Stage::Spread(kind, to),
                    Kind::Delete => Stage::Spread(Kind::Add, 0),
                    _ => {
                        self.bytes.reserve_exact(before.bytes.len() + list.len() * OVERLAY_ENTRY_BYTES);
                        Stage::Write(0)
                    }
                };
                Ok(None)
            }
            Stage::Write(from) => {
                let (begin, mut number) = (self.bytes.len(), from);
                while number < before.shape.blocks() && self.bytes.len() - begin < STEP_BYTES {
                    let entries = self.changes[number].iter().filter_map(|&entry| list.entry(entry as usize));
                    let placed =
                        entries.map(|entry| (print_of(&entry), (entry.kind == Kind::Add).then_some(entry.index)));
                    before.write_block(number, placed, &mut self.bytes)?;
                    self.ends.push(self.bytes.len());
                    number += 1;
                }
                self.hasher.update(&self.bytes[begin..]);
                self.stage = Stage::Write(number);
                if number < before.shape.blocks() {
                    return Ok(None);
                }
                let (bytes, ends) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
                let directory = Directory { shape: before.shape, keys: before.keys, bytes, ends };
                Ok(Some((directory, *self.hasher.finalize().as_bytes())))
            }
        }
    }
}

impl Directory {
    /// The next epoch's directory. The overlay gets added keys, unless the perfect hash gives their index anyway. It loses
    /// deleted keys. Equal updates give equal bytes.
    ///
    /// # Errors
    /// [`Error::Update`] if records have no room for a fingerprint, or a block has no room for the keys added to it.
    pub fn updated(&self, list: &UpdateList) -> Result<Self, Error> {
        if list.after().stored().record_bytes < FINGERPRINT_BYTES {
            return Err(Error::Update("a record has no room for a fingerprint of 16 bytes"));
        }
        self.updated_unless_full(list).map_err(|Overfull(_)| {
            Error::Update("a block of the directory has no room for its keys; begin a new generation")
        })
    }

    /// The previous epoch's directory, from the directory of the epoch that the list leads to.
    ///
    /// # Errors
    /// As [`Directory::updated`].
    pub fn undone(&self, list: &UpdateList) -> Result<Self, Error> {
        if list.after().stored().record_bytes < FINGERPRINT_BYTES {
            return Err(Error::Update("a record has no room for a fingerprint of 16 bytes"));
        }
        let changes = changes(list, [Kind::Add, Kind::Delete], Kind::Delete);
        self.with_overlay(&changes).map_err(|Overfull(_)| Error::Update("it does not lead to this directory"))
    }

    /// [`Directory::updated`], for records that have room for a fingerprint.
    pub(crate) fn updated_unless_full(&self, list: &UpdateList) -> Result<Self, Overfull> {
        // Deletes before adds: a batch may delete a key and add it again in a lower slot.
        self.with_overlay(&changes(list, [Kind::Delete, Kind::Add], Kind::Add))
    }
}

/// The changes of an overlay, from the entries of these kinds, in this order. Entries of kind `placed` set an index, the
/// others remove one.
fn changes(list: &UpdateList, kinds: [Kind; 2], placed: Kind) -> Vec<([u8; FINGERPRINT_BYTES], Option<u32>)> {
    let of_kind = |wanted: Kind| {
        let entries = list.entries().filter(move |entry| entry.kind == wanted);
        entries.map(move |entry| (print_of(&entry), (wanted == placed).then_some(entry.index)))
    };
    kinds.into_iter().flat_map(of_kind).collect()
}
