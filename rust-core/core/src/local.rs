//! Mode `local`: the client keeps the whole database. Each partition, and each update, is checked against the content hash
//! that both servers agreed on. Lookups read a record from memory. Nothing here is secret.
//!
//! | stored form | kind | what it is |
//! |---|---|---|
//! | [`Local::encode`] while partitions are missing | `PIRl` | a flag for each partition, and the partitions that are there |
//! | [`Local::encode`] | `PIRL` | all records |
//!
//! Its journal has updates ([`crate::stored::HintUpdate`]), with entropy of zeros.

use zeroize::Zeroizing;

use crate::bytes::{xor_into, zeroed};
use crate::database::content::CONTENT_HASH_BYTES;
use crate::database::lanes::Lanes;
use crate::database::list::UpdateList;
use crate::error::{Error, expect_below, expect_length};
use crate::key::content_hash;
use crate::layout::{Layout, Stored};
use crate::random::ENTROPY_BYTES;
use crate::stored::frame::{Reader, Writer};
use crate::stored::{BINDING_BYTES, Form, HINT_ID_BYTES, HintUpdate, Stamp, Unsealed};

/// Bytes that [`Local::arrive`] hashes in one go, or a partition: some milliseconds.
const STEP_BYTES: usize = 1 << 20;

const PARTIAL: [u8; 4] = *b"PIRl";
const WHOLE: [u8; 4] = *b"PIRL";

/// The records of a database: all partitions, or those received so far.
pub struct Local {
    layout: Layout,
    stamp: Stamp,
    content_hashes: Vec<u8>,
    /// Q·M·ℓ bytes; in partitions that are not held they mean nothing
    records: Vec<u8>,
    held: Vec<bool>,
    lanes: Lanes,
}

impl Local {
    /// Begins without partitions. `content_hashes` are Q times 32 bytes.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are Q hashes; [`Error::Layout`] if memory does not suffice.
    pub fn new(layout: Layout, content_hashes: &[u8], id: [u8; HINT_ID_BYTES]) -> Result<Self, Error> {
        expect_length("content hashes", content_hashes, layout.partitions() * CONTENT_HASH_BYTES)?;
        Ok(Local {
            layout,
            stamp: Stamp { hint_id: id, version: 0 },
            content_hashes: content_hashes.to_vec(),
            records: zeroed(layout.partitions() * layout.partition_bytes())?,
            held: vec![false; layout.partitions()],
            lanes: Lanes::default(),
        })
    }

    /// The layout of its epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The state's id, and the number of updates applied.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether all partitions are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.held.iter().all(|&held| held)
    }

    /// Whether a partition is there.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn is_held(&self, partition: usize) -> Result<bool, Error> {
        expect_below("partition", partition, self.held.len())?;
        Ok(self.held[partition])
    }

    /// The M·ℓ bytes into which a lane receives its partition.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane; [`Error::Phase`] if the lane was not begun.
    pub fn lane_bytes(&mut self, lane: usize) -> Result<&mut [u8], Error> {
        let q = self.lanes.under_way(lane)?;
        let bytes = self.layout.partition_bytes();
        Ok(&mut self.records[q * bytes..][..bytes])
    }

    /// Begins to receive a partition, from its first byte.
    ///
    /// # Errors
    /// [`Error::Index`] if lane or partition do not exist; [`Error::Phase`] if the partition is held already, or the other
    /// lane receives it.
    pub fn begin(&mut self, lane: usize, partition: usize) -> Result<(), Error> {
        let held = self.is_held(partition)?;
        self.lanes.begin(lane, partition, held)
    }

    /// Hashes the lane's next `count` bytes, which the caller has written.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if the bytes go beyond the partition.
    pub fn absorb(&mut self, lane: usize, count: usize) -> Result<(), Error> {
        let q = self.lanes.under_way(lane)?;
        let bytes = self.layout.partition_bytes();
        self.lanes.absorb(lane, count, &self.records[q * bytes..][..bytes])
    }

    /// Keeps the lane's partition if it has its content hash. Returns `false` otherwise. The lane is free again either way.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if bytes are missing.
    pub fn keep(&mut self, lane: usize) -> Result<bool, Error> {
        let q = self.lanes.under_way(lane)?;
        let bytes = self.layout.partition_bytes();
        let (_, genuine) = self.lanes.end(lane, &self.records[q * bytes..][..bytes], &self.content_hashes)?;
        self.held[q] = genuine;
        Ok(genuine)
    }

    /// Drops what a lane has received so far.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        self.lanes.abandon(lane)
    }

    /// Sets the version, to the number of updates that led to this epoch.
    ///
    /// # Errors
    /// [`Error::Phase`] if partitions are missing.
    pub fn finish_at(&mut self, version: u64) -> Result<(), Error> {
        if !self.is_whole() {
            return Err(Error::Phase("partitions are missing; receive them first"));
        }
        self.stamp.version = version;
        Ok(())
    }

    /// The records at these indices, one after the other. Only the addresses read depend on the indices.
    ///
    /// # Errors
    /// [`Error::Index`] for an index beyond the last record; [`Error::Phase`] if partitions are missing.
    pub fn records(&self, indices: &[u32]) -> Result<Vec<u8>, Error> {
        if !self.is_whole() {
            return Err(Error::Phase("partitions are missing; receive them first"));
        }
        let record_bytes = self.layout.stored().record_bytes;
        let mut out = Vec::with_capacity(indices.len() * record_bytes);
        for &index in indices {
            expect_below("record", index as usize, self.layout.records())?;
            out.extend_from_slice(&self.records[index as usize * record_bytes..][..record_bytes]);
        }
        Ok(out)
    }

    /// Applies an update list, and checks every changed partition against the next epoch's hashes. All of it is applied, or
    /// nothing. Downloads of changed partitions are dropped in either case.
    ///
    /// # Errors
    /// [`Error::Update`] for a list from another layout, or one that does not lead to these hashes; [`Error::Length`] unless
    /// there is a hash for each partition; [`Error::Layout`] if memory does not suffice.
    pub fn update(&mut self, list: &UpdateList, content_hashes: &[u8]) -> Result<(), Error> {
        let after = *list.after();
        expect_length("content hashes", content_hashes, after.partitions() * CONTENT_HASH_BYTES)?;
        self.change(list)?;
        let bytes = after.partition_bytes();
        let mut right = true;
        for q in 0..after.partitions() {
            let changed = hash_of(content_hashes, q) != hash_of(&self.content_hashes, q) || touches(list, q);
            if self.held[q] && changed {
                right &= content_hash(&self.records[q * bytes..][..bytes]) == *hash_of(content_hashes, q);
            }
        }
        if !right {
            self.revert(list);
            return Err(Error::Update("it does not lead to the contents of the next epoch"));
        }
        self.content_hashes = content_hashes.to_vec();
        Ok(())
    }

    /// [`Local::update`], and its journal entry.
    ///
    /// # Errors
    /// As [`Local::update`].
    pub fn update_entry(&mut self, list: UpdateList, content_hashes: &[u8]) -> Result<Vec<u8>, Error> {
        let stamp = self.stamp;
        self.update(&list, content_hashes)?;
        self.stamp.version += 1;
        Ok(HintUpdate { stamp, list, entropy: Zeroizing::new([0; ENTROPY_BYTES]) }.encode())
    }

    /// Applies the next entry of a journal. [`Local::arrive`] checks the result.
    ///
    /// # Errors
    /// [`Error::State`] if it is not the next one; [`Error::Update`].
    pub fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        let update = HintUpdate::decode(entry, &self.layout)?;
        if update.stamp != self.stamp {
            return Err(Error::State("foreign: not the next entry of this journal"));
        }
        self.change(&update.list)?;
        self.stamp.version += 1;
        Ok(())
    }

    /// Checks about a MiB of partitions, from `first` on, against its manifest's content hashes, after a replay. Returns the next
    /// partition to check; `None`: that was the last one. A caller that begins with 0 has then checked all.
    ///
    /// # Errors
    /// [`Error::State`] if one differs; [`Error::Length`] unless there are Q hashes; [`Error::Index`] if there is no such partition.
    pub fn arrive(&mut self, content_hashes: &[u8], first: usize) -> Result<Option<usize>, Error> {
        let (partitions, bytes) = (self.layout.partitions(), self.layout.partition_bytes());
        expect_length("content hashes", content_hashes, partitions * CONTENT_HASH_BYTES)?;
        expect_below("partition", first, partitions)?;
        let end = partitions.min(first + (STEP_BYTES / bytes).max(1));
        let some = self.records[first * bytes..end * bytes].chunks_exact(bytes);
        if !(first..).zip(some).all(|(q, partition)| content_hash(partition) == *hash_of(content_hashes, q)) {
            return Err(Error::State("the records are not those of its manifest"));
        }
        if end < partitions {
            return Ok(Some(end));
        }
        self.content_hashes = content_hashes.to_vec();
        Ok(None)
    }

    fn change(&mut self, list: &UpdateList) -> Result<(), Error> {
        if *list.before() != self.layout {
            return Err(Error::Update("it starts from another layout"));
        }
        let after = *list.after();
        let bytes = after.partitions() * after.partition_bytes();
        self.records.try_reserve_exact(bytes - self.records.len()).map_err(|_| {
            Error::Layout(format!("{bytes} bytes of memory could not be had; close other pages, or use another mode"))
        })?;
        self.records.resize(bytes, 0);
        // The list has all records of new partitions. If other partitions are missing, the new ones are downloaded too.
        let new_are_held = self.is_whole();
        self.held.resize(after.partitions(), new_are_held);
        self.lanes.abandon_partitions(|q| touches(list, q));
        self.layout = after;
        self.xor(list);
        Ok(())
    }

    fn revert(&mut self, list: &UpdateList) {
        self.xor(list);
        self.layout = *list.before();
        self.records.truncate(self.layout.partitions() * self.layout.partition_bytes());
        self.held.truncate(self.layout.partitions());
    }

    /// XORs old ⊕ new into every record of the list whose partition is held.
    fn xor(&mut self, list: &UpdateList) {
        let Stored { record_bytes, partition_records, .. } = *self.layout.stored();
        for entry in list.entries() {
            let index = entry.index as usize;
            if self.held[index / partition_records] {
                xor_into(&mut self.records[index * record_bytes..][..record_bytes], entry.difference);
            }
        }
    }

    /// The stored form, bound to its epoch's manifest, whose hash is `binding`.
    #[must_use]
    pub fn encode(&self, binding: &[u8; BINDING_BYTES]) -> Vec<u8> {
        self.written(binding).seal()
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    #[must_use]
    pub fn written(&self, binding: &[u8; BINDING_BYTES]) -> Unsealed {
        let bytes = self.layout.partition_bytes();
        let there = self.held.iter().filter(|&&held| held).count();
        let kind = if self.is_whole() { WHOLE } else { PARTIAL };
        let mut out = Writer::new(kind, self.stamp, BINDING_BYTES + self.held.len() + there * bytes);
        out.layout(&self.layout);
        out.bytes(binding);
        if !self.is_whole() {
            out.bytes(&self.held.iter().map(|&held| u8::from(held)).collect::<Vec<_>>());
        }
        for (partition, _) in self.records.chunks_exact(bytes).zip(&self.held).filter(|(_, held)| **held) {
            out.bytes(partition);
        }
        out.written()
    }

    /// Reads a stored form, whole or partial.
    ///
    /// # Errors
    /// [`Error::State`] for other bytes, or a form of another manifest; [`Error::Length`] unless there are Q hashes;
    /// [`Error::Layout`] if memory does not suffice.
    pub fn decode<'a>(
        form: impl Into<Form<'a>>,
        layout: Layout,
        content_hashes: &[u8],
        binding: &[u8; BINDING_BYTES],
    ) -> Result<Self, Error> {
        let form = form.into();
        let whole = form.is_of(WHOLE);
        let (stamp, mut reader) = Reader::open(form, if whole { WHOLE } else { PARTIAL })?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("it belongs to another manifest"));
        }
        let mut local = Local::new(layout, content_hashes, stamp.hint_id)?;
        local.stamp = stamp;
        local.held.fill(true);
        if !whole {
            for (held, &byte) in local.held.iter_mut().zip(reader.bytes(layout.partitions())?) {
                *held = match byte {
                    0 => false,
                    1 => true,
                    _ => return Err(Error::State("a flag is neither 0 nor 1")),
                };
            }
        }
        for (partition, _) in
            local.records.chunks_exact_mut(layout.partition_bytes()).zip(&local.held).filter(|(_, held)| **held)
        {
            partition.copy_from_slice(reader.bytes(layout.partition_bytes())?);
        }
        reader.end()?;
        Ok(local)
    }
}

/// The hash of partition `q`; zeros if there is no such partition yet.
fn hash_of(content_hashes: &[u8], q: usize) -> &[u8; CONTENT_HASH_BYTES] {
    content_hashes.get(q * CONTENT_HASH_BYTES..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; CONTENT_HASH_BYTES])
}

/// Whether a list changes this partition.
fn touches(list: &UpdateList, q: usize) -> bool {
    list.entries().any(|entry| entry.index as usize / list.after().stored().partition_records == q)
}
