//! Makes the next epoch from a publisher's batch (papers: TAPIR §5.2, Fig. 6, `UpdateDB`).
//!
//! A batch is an ordered list of adds, edits and deletes, by key or, in keyless databases, by index. If one of them is
//! impossible, the whole batch is refused. Otherwise it becomes one write and one update list. Equal databases and batches
//! give equal bytes.
//!
//! An added record goes into the lowest slot that was empty when the batch began, or after the last record. A slot that the
//! batch empties stays empty until the next epoch: a client that still uses the old epoch must not find another key's
//! record where its own was deleted.
//!
//! A [`Draft`] makes the epoch in steps of bounded work, without changing the database. A [`Write`] then applies it, also in
//! steps. Between steps the server can answer.

use std::collections::{BTreeMap, HashMap};

use blake3::Hasher;

use crate::bytes::is_zero;
use crate::commitment::VectorCommitment;
use crate::database::flat::Database;
use crate::database::list::{Kind, UpdateList};
use crate::database::write::{STEP_BYTES, Write};
use crate::directory::{Directory, NextDirectory, Overfull};
use crate::error::{Error, expect_length};
use crate::key::FINGERPRINT_BYTES;
use crate::layout::Layout;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Operations performed, or entries listed, in one step.
const STEP_OPERATIONS: usize = 1 << 12;
/// Records searched for empty slots in one step.
const STEP_RECORDS: usize = 1 << 15;

/// An operation of a batch. Records are whole stored records of ℓ bytes; in keyed databases they begin with the fingerprint.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// the key must not exist; keyless: appends a record
    Add(&'a [u8]),
    /// the key must exist
    EditKey(&'a [u8]),
    /// the key must exist
    DeleteKey(&'a Fingerprint),
    /// keyless: the index must exist
    EditIndex(u32, &'a [u8]),
    /// keyless: the index must exist; its record becomes zeros
    DeleteIndex(u32),
}

/// Why a batch was refused: its first impossible operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// its place in the batch, from 0
    pub operation: usize,
    /// why it cannot be
    pub reason: Reason,
}

/// Why an operation is impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// the key of an add exists
    Exists,
    /// the key or index of an edit or delete does not exist
    Missing,
    /// the record is not ℓ bytes or has no fingerprint, or the operation is for the other kind of database
    Malformed,
    /// this generation has no index left for the record, or the directory no room for its key
    Full,
    /// the database could not be written
    Failed(Error),
}

/// A batch of operations.
pub trait Operations {
    /// The number of operations.
    fn count(&self) -> usize;
    /// An operation, by its place from 0.
    fn get(&self, number: usize) -> Operation<'_>;
}

impl Operations for [Operation<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, number: usize) -> Operation<'_> {
        self[number]
    }
}

/// The kind of a delete in a [`FlatBatch`].
const DELETE: u8 = 3;

/// A batch in flat buffers, as a server collects it.
pub struct FlatBatch {
    keyed: bool,
    record_bytes: usize,
    kinds: Vec<u8>,
    prints: Vec<Fingerprint>,
    indices: Vec<u32>,
    /// of all operations but deletes, so many in each piece but the last: what is reserved is wiped in the end, and counts
    records: Vec<Vec<u8>>,
    piece_records: usize,
    /// how many there are
    kept: usize,
    /// for each operation: the number of its record among these, or of the next one's
    numbers: Vec<u32>,
}

/// About as many bytes of records are reserved at once.
const PIECE_BYTES: usize = 1 << 20;

impl FlatBatch {
    /// An empty batch with room for `count` operations.
    #[must_use]
    pub fn new(keyed: bool, record_bytes: usize, count: usize) -> Self {
        let (prints, indices) = if keyed { (count, 0) } else { (0, count) };
        FlatBatch {
            keyed,
            record_bytes,
            kinds: Vec::with_capacity(count),
            prints: Vec::with_capacity(prints),
            indices: Vec::with_capacity(indices),
            records: Vec::new(),
            piece_records: (PIECE_BYTES / record_bytes).max(1),
            kept: 0,
            numbers: Vec::with_capacity(count),
        }
    }

    /// Appends operations. Each has a kind (1 add, 2 edit, 3 delete), ℓ bytes of stored record, and 16 bytes of fingerprint in
    /// a keyed database or an index in another. An add's index and a delete's record are ignored.
    ///
    /// # Errors
    /// [`Error::Length`] unless each buffer has as many as there are kinds.
    pub fn push(&mut self, kinds: &[u8], fingerprints: &[u8], indices: &[u32], records: &[u8]) -> Result<(), Error> {
        let (prints, places) = if self.keyed { (kinds.len(), 0) } else { (0, kinds.len()) };
        expect_length("fingerprints", fingerprints, prints * FINGERPRINT_BYTES)?;
        expect_length("indices", bytemuck::cast_slice(indices), places * size_of::<u32>())?;
        expect_length("records", records, kinds.len() * self.record_bytes)?;
        self.kinds.extend_from_slice(kinds);
        self.prints.extend_from_slice(fingerprints.as_chunks().0);
        self.indices.extend_from_slice(indices);
        for (kind, record) in kinds.iter().zip(records.chunks_exact(self.record_bytes)) {
            self.numbers.push(self.kept as u32);
            if *kind == DELETE {
                continue;
            }
            if self.kept.is_multiple_of(self.piece_records) {
                self.records.push(Vec::with_capacity(self.piece_records * self.record_bytes));
            }
            self.records[self.kept / self.piece_records].extend_from_slice(record);
            self.kept += 1;
        }
        Ok(())
    }
}

impl Operations for FlatBatch {
    fn count(&self) -> usize {
        self.kinds.len()
    }

    fn get(&self, number: usize) -> Operation<'_> {
        let record = || {
            let at = self.numbers[number] as usize;
            let (piece, place) = (at / self.piece_records, at % self.piece_records);
            &self.records[piece][place * self.record_bytes..][..self.record_bytes]
        };
        match (self.kinds[number], self.keyed) {
            (DELETE, true) => Operation::DeleteKey(&self.prints[number]),
            (DELETE, false) => Operation::DeleteIndex(self.indices[number]),
            (1, _) => Operation::Add(record()),
            (_, true) => Operation::EditKey(record()),
            (_, false) => Operation::EditIndex(self.indices[number], record()),
        }
    }
}

/// A new epoch.
pub struct Epoch {
    /// what changed, for the manifest and for clients
    pub list: UpdateList,
    /// keyed databases: the new directory
    pub directory: Option<Directory>,
}

/// Applies a batch. If it is refused, nothing has changed.
///
/// # Errors
/// [`Refused`].
pub fn apply<C: VectorCommitment>(
    database: &mut Database<C>,
    directory: Option<&Directory>,
    batch: &[Operation<'_>],
) -> Result<Epoch, Refused> {
    let mut draft = Draft::of_batch(database, directory.is_some(), batch);
    while draft.step(database, directory, batch)? {}
    let failed = |error| failed(batch, error);
    let Drafted { write, directory, .. } = draft.finish().map_err(failed)?;
    Ok(Epoch { list: write.run(database).map_err(failed)?, directory: directory.map(|(directory, _)| directory) })
}

/// Applies an update list that was made before. It gives the same database, byte for byte.
///
/// # Errors
/// As [`Write::step`]. Then nothing has changed.
pub fn apply_list<C: VectorCommitment>(database: &mut Database<C>, list: &UpdateList) -> Result<(), Error> {
    Write::new(list.clone()).run(database).map(drop)
}

fn failed(batch: &(impl Operations + ?Sized), error: Error) -> Refused {
    Refused { operation: batch.count(), reason: Reason::Failed(error) }
}

/// The layout with room for `records`. M stays. Q grows if it must; the generation's query limit bounds it.
fn grown<C: VectorCommitment>(database: &Database<C>, records: usize) -> Result<Layout, Error> {
    let before = database.layout();
    let partitions = before.partitions().max(records.div_ceil(before.stored().partition_records));
    let after = before.grown(records as u64, partitions as u64)?;
    database.check_carried(&after)?;
    Ok(after)
}

/// A block of the directory is full: refuses the batch at the last add whose key belongs to the block.
fn crowded(directory: &Directory, batch: &(impl Operations + ?Sized), Overfull(block): Overfull) -> Refused {
    let into_it = |operation: Operation<'_>| match operation {
        Operation::Add(record) => record.first_chunk().is_some_and(|print| directory.shape().number(print) == block),
        _ => false,
    };
    let operation = (0..batch.count()).rev().find(|&number| into_it(batch.get(number))).unwrap_or(0);
    Refused { operation, reason: Reason::Full }
}

fn kind(keyed: bool, new: bool, old: &[u8], record: &[u8]) -> Kind {
    match (keyed, new) {
        (_, true) => Kind::Add,
        (true, false) if is_zero(old) => Kind::Add,
        (true, false) if is_zero(record) => Kind::Delete,
        _ => Kind::Edit,
    }
}

/// An epoch in the making, from a batch or from another server's update list. It does not change the database.
pub struct Draft {
    before: Layout,
    stage: Stage,
    /// empty slots below N, ascending
    empty: Vec<u32>,
    /// how many of them the batch has filled
    taken: usize,
    /// by index: the operation with the record's new content; `None`: zeros
    writes: BTreeMap<u32, Option<u32>>,
    /// where the batch has put keys; `None`: deleted
    places: HashMap<Fingerprint, Option<u32>>,
    /// N after the operations so far
    records: usize,
    /// the indices of the largest layout that was checked
    room: usize,
    hasher: Hasher,
}

/// What the next step does. Numbers say where it continues.
enum Stage {
    /// searches for empty slots
    Empty(usize),
    /// performs operations
    Perform(usize),
    /// lists the changes
    List(UpdateList),
    /// checks the entries of another server's list
    Check(usize, UpdateList),
    /// hashes the list's bytes
    Hash(usize, UpdateList),
    /// applies the list to the directory
    Directory(Option<Box<NextDirectory>>, UpdateList),
    Done(UpdateList, Option<(Directory, [u8; 32])>),
    /// a step has failed
    Failed,
}

/// A finished draft.
pub struct Drafted {
    /// applies the epoch to the database
    pub write: Write,
    /// BLAKE3 of the update list
    pub list_hash: [u8; 32],
    /// keyed databases: the directory of the next epoch, and the BLAKE3 of its stored form
    pub directory: Option<(Directory, [u8; 32])>,
}

impl Draft {
    /// Begins the epoch after the newest one of `database`.
    #[must_use]
    pub fn of_batch<C: VectorCommitment>(
        database: &Database<C>,
        keyed: bool,
        batch: &(impl Operations + ?Sized),
    ) -> Self {
        let mut draft = Self::new(*database.layout(), Stage::Empty(0));
        if keyed {
            // Growing it later would be a long step. It has no more keys than the database, and those that are added.
            draft.places.reserve(batch.count().min(2 * draft.room));
        }
        draft
    }

    /// Begins the epoch of an update list that leads from layout `before` to layout `after`.
    ///
    /// # Errors
    /// [`Error::Update`] if its header has other layouts. The steps check its entries.
    pub fn of_list(list: Vec<u8>, before: Layout, after: Layout) -> Result<Self, Error> {
        Ok(Self::new(before, Stage::Check(0, UpdateList::unchecked(list, before, after)?)))
    }

    fn new(before: Layout, stage: Stage) -> Self {
        Draft {
            before,
            stage,
            empty: Vec::new(),
            taken: 0,
            writes: BTreeMap::new(),
            places: HashMap::new(),
            records: before.records(),
            room: before.room(),
            hasher: Hasher::new(),
        }
    }

    /// Does the next step. Returns whether there is more to do. Pass the same database, directory (`None`: keyless) and batch
    /// each time, all unchanged; pass an empty batch for a list.
    ///
    /// # Errors
    /// [`Refused`]; for a list its reason is always [`Reason::Failed`].
    pub fn step<C: VectorCommitment>(
        &mut self,
        database: &Database<C>,
        directory: Option<&Directory>,
        batch: &(impl Operations + ?Sized),
    ) -> Result<bool, Refused> {
        let failed = |error| failed(batch, error);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Empty(from) => {
                let adds = |number| matches!(batch.get(number), Operation::Add(_));
                // Keyless records have no empty slots.
                if directory.is_none() || from == 0 && !(0..batch.count()).any(adds) {
                    Stage::Perform(0)
                } else {
                    let to = self.before.records().min(from + STEP_RECORDS);
                    let empty = |index: &usize| database.record(*index).is_ok_and(is_zero);
                    self.empty.extend((from..to).filter(empty).map(|index| index as u32));
                    if to < self.before.records() { Stage::Empty(to) } else { Stage::Perform(0) }
                }
            }
            Stage::Perform(from) => {
                let to = batch.count().min(from + STEP_OPERATIONS);
                for number in from..to {
                    let performed = self.perform(database, directory, batch.get(number), number);
                    performed.map_err(|reason| Refused { operation: number, reason })?;
                }
                if to < batch.count() {
                    Stage::Perform(to)
                } else {
                    (self.places, self.empty) = (HashMap::new(), Vec::new());
                    let after = grown(database, self.records).map_err(failed)?;
                    Stage::List(UpdateList::new(self.before, after, self.writes.len()))
                }
            }
            Stage::List(list) => self.list(database, directory.is_some(), batch, list),
            Stage::Check(from, list) => {
                let to = list.len().min(from + STEP_OPERATIONS);
                list.check(from..to).map_err(failed)?;
                if to < list.len() { Stage::Check(to, list) } else { Stage::Hash(0, list) }
            }
            Stage::Hash(from, list) => {
                let to = list.bytes().len().min(from + STEP_BYTES);
                self.hasher.update(&list.bytes()[from..to]);
                if to < list.bytes().len() {
                    Stage::Hash(to, list)
                } else if directory.is_none() {
                    Stage::Done(list, None)
                } else if self.before.stored().record_bytes < FINGERPRINT_BYTES {
                    return Err(failed(Error::Phase("the records are too short to hold keys")));
                } else {
                    Stage::Directory(None, list)
                }
            }
            Stage::Directory(next_directory, list) => {
                let before = directory.ok_or_else(|| failed(Error::Phase("pass the directory in every step")))?;
                let mut next_directory = next_directory.unwrap_or_else(|| Box::new(NextDirectory::new(before)));
                match next_directory.step(before, &list).map_err(|full| crowded(before, batch, full))? {
                    Some(next) => Stage::Done(list, Some(next)),
                    None => Stage::Directory(Some(next_directory), list),
                }
            }
            done @ Stage::Done(..) => done,
            Stage::Failed => return Err(failed(Error::Phase("making the epoch has failed; begin another"))),
        };
        Ok(!matches!(self.stage, Stage::Done(..)))
    }

    /// The result, after the last step.
    ///
    /// # Errors
    /// [`Error::Phase`] if steps are left.
    pub fn finish(self) -> Result<Drafted, Error> {
        match self.stage {
            Stage::Done(list, directory) => {
                Ok(Drafted { write: Write::new(list), list_hash: *self.hasher.finalize().as_bytes(), directory })
            }
            _ => Err(Error::Phase("making the epoch is not done; make its other steps first")),
        }
    }

    /// Moves changes from `writes` into the list.
    fn list<C: VectorCommitment>(
        &mut self,
        database: &Database<C>,
        keyed: bool,
        batch: &(impl Operations + ?Sized),
        mut list: UpdateList,
    ) -> Stage {
        let zero = vec![0; self.before.stored().record_bytes];
        for _ in 0..STEP_OPERATIONS {
            let Some((index, operation)) = self.writes.pop_first() else { return Stage::Hash(0, list.counted()) };
            let record = operation.and_then(|number| record_of(batch.get(number as usize))).unwrap_or(&zero);
            let old = database.record(index as usize).unwrap_or(&zero);
            if record != old {
                list.push(index, kind(keyed, index as usize >= self.before.records(), old, record), old, record);
            }
        }
        Stage::List(list)
    }

    fn place<C: VectorCommitment>(
        &self,
        database: &Database<C>,
        directory: Option<&Directory>,
        fingerprint: &Fingerprint,
    ) -> Option<u32> {
        if let Some(place) = self.places.get(fingerprint) {
            return *place;
        }
        let index = directory?.index(fingerprint, self.before.records() as u32).ok()?;
        database.record(index as usize).is_ok_and(|record| record.starts_with(fingerprint)).then_some(index)
    }

    fn perform<C: VectorCommitment>(
        &mut self,
        database: &Database<C>,
        directory: Option<&Directory>,
        operation: Operation<'_>,
        number: usize,
    ) -> Result<(), Reason> {
        let keyed = directory.is_some();
        let record_bytes = self.before.stored().record_bytes;
        if record_of(operation).is_some_and(|record| record.len() != record_bytes) {
            return Err(Reason::Malformed);
        }
        let number = Some(number as u32);
        match operation {
            Operation::Add(record) => {
                let fingerprint = record.first_chunk().copied().filter(|print| keyed && !is_zero(print));
                if keyed && self.place(database, directory, &fingerprint.ok_or(Reason::Malformed)?).is_some() {
                    return Err(Reason::Exists);
                }
                let index = match self.empty.get(self.taken) {
                    Some(&index) => {
                        self.taken += 1;
                        index
                    }
                    None => self.open_slot(database)?,
                };
                self.writes.insert(index, number);
                if let Some(fingerprint) = fingerprint {
                    self.places.insert(fingerprint, Some(index));
                }
            }
            Operation::EditKey(record) if keyed => {
                let fingerprint = record.first_chunk().ok_or(Reason::Malformed)?;
                let index = self.place(database, directory, fingerprint).ok_or(Reason::Missing)?;
                self.writes.insert(index, number);
            }
            Operation::DeleteKey(fingerprint) if keyed => {
                let index = self.place(database, directory, fingerprint).ok_or(Reason::Missing)?;
                self.writes.insert(index, None);
                self.places.insert(*fingerprint, None);
            }
            Operation::EditIndex(index, _) if !keyed => {
                self.writes.insert(self.existing(index)?, number);
            }
            Operation::DeleteIndex(index) if !keyed => {
                self.writes.insert(self.existing(index)?, None);
            }
            _ => return Err(Reason::Malformed),
        }
        Ok(())
    }

    fn existing(&self, index: u32) -> Result<u32, Reason> {
        if (index as usize) < self.records { Ok(index) } else { Err(Reason::Missing) }
    }

    /// The next index after the last record.
    fn open_slot<C: VectorCommitment>(&mut self, database: &Database<C>) -> Result<u32, Reason> {
        let index = u32::try_from(self.records).ok().filter(|&index| index < u32::MAX).ok_or(Reason::Full)?;
        if self.records == self.room {
            self.room = grown(database, self.records + 1).map_err(|_| Reason::Full)?.room();
        }
        self.records += 1;
        Ok(index)
    }
}

/// The record that an operation writes; `None`: zeros.
fn record_of(operation: Operation<'_>) -> Option<&[u8]> {
    match operation {
        Operation::Add(record) | Operation::EditKey(record) | Operation::EditIndex(_, record) => Some(record),
        Operation::DeleteKey(_) | Operation::DeleteIndex(_) => None,
    }
}
