//! From a publisher's batch to the next epoch (papers: TAPIR §5.2, Fig. 6, `UpdateDB`). A batch is an ordered list of adds,
//! edits and deletes, by key or, in keyless databases, by index. If one of them is impossible, the whole batch is refused;
//! otherwise it becomes one write and one update list. Deterministic: equal databases and batches give equal bytes.
//!
//! An added record goes into the lowest slot that was empty when the batch began, else behind the last. A slot that
//! the batch empties stays empty until the next epoch: a client between the two must not find another key's record
//! where its own was deleted.
//!
//! A batch is drafted in steps of bounded work ([`Draft`]) that change nothing, and then [written](Write) in steps, so that a
//! server can answer between them.

use std::collections::{BTreeMap, HashMap};

use blake3::Hasher;

use crate::bytes::is_zero;
use crate::commitment::VectorCommitment;
use crate::database::flat::Database;
use crate::database::list::{Kind, UpdateList};
use crate::database::write::{STEP_BYTES, Write};
use crate::directory::{Directory, Following, Overfull};
use crate::error::{Error, expect_length};
use crate::key::FINGERPRINT_BYTES;
use crate::layout::Layout;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Operations performed and entries listed in one step, …
const STEP_OPERATIONS: usize = 1 << 12;
/// … and records looked at.
const STEP_RECORDS: usize = 1 << 15;

/// One operation. Records are whole stored records of ℓ bytes; in keyed databases they begin with the fingerprint.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// the key must not exist; keyless: goes behind the last record
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

/// Why a batch was refused: the first operation that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// its place in the batch, from 0
    pub operation: usize,
    /// why it cannot be
    pub reason: Reason,
}

/// Why an operation cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// an add of a key that exists
    Exists,
    /// an edit or a delete of what does not exist
    Missing,
    /// a record that is not ℓ bytes, has no fingerprint, or an operation of the other kind of database
    Malformed,
    /// no index is left for another record in this generation, or no room for its key in the directory
    Full,
    /// the database could not be written
    Failed(Error),
}

/// A batch.
pub trait Operations {
    /// How many there are.
    fn count(&self) -> usize;
    /// One of them, by its place from 0.
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

/// A batch in flat buffers, as a server collects it.
pub struct FlatBatch {
    keyed: bool,
    record_bytes: usize,
    kinds: Vec<u8>,
    prints: Vec<Fingerprint>,
    indices: Vec<u32>,
    records: Vec<u8>,
}

impl FlatBatch {
    /// Of no operations, and room for so many.
    #[must_use]
    pub fn new(keyed: bool, record_bytes: usize, count: usize) -> Self {
        let (prints, indices) = if keyed { (count, 0) } else { (0, count) };
        FlatBatch {
            keyed,
            record_bytes,
            kinds: Vec::with_capacity(count),
            prints: Vec::with_capacity(prints),
            indices: Vec::with_capacity(indices),
            records: Vec::with_capacity(count * record_bytes),
        }
    }

    /// Appends operations: kinds (1 add, 2 edit, 3 delete), for each 16 bytes of fingerprint in a keyed database and an index
    /// in another, and ℓ bytes of stored record. An add's index and a delete's record are not looked at.
    ///
    /// # Errors
    /// [`Error::Length`] unless all are of as many.
    pub fn push(&mut self, kinds: &[u8], fingerprints: &[u8], indices: &[u32], records: &[u8]) -> Result<(), Error> {
        let (prints, places) = if self.keyed { (kinds.len(), 0) } else { (0, kinds.len()) };
        expect_length("fingerprints", fingerprints, prints * FINGERPRINT_BYTES)?;
        expect_length("indices", bytemuck::cast_slice(indices), places * size_of::<u32>())?;
        expect_length("records", records, kinds.len() * self.record_bytes)?;
        self.kinds.extend_from_slice(kinds);
        self.prints.extend_from_slice(fingerprints.as_chunks().0);
        self.indices.extend_from_slice(indices);
        self.records.extend_from_slice(records);
        Ok(())
    }
}

impl Operations for FlatBatch {
    fn count(&self) -> usize {
        self.kinds.len()
    }

    fn get(&self, number: usize) -> Operation<'_> {
        let record = &self.records[number * self.record_bytes..][..self.record_bytes];
        match (self.kinds[number], self.keyed) {
            (1, _) => Operation::Add(record),
            (2, true) => Operation::EditKey(record),
            (2, false) => Operation::EditIndex(self.indices[number], record),
            (_, true) => Operation::DeleteKey(&self.prints[number]),
            (_, false) => Operation::DeleteIndex(self.indices[number]),
        }
    }
}

/// What an epoch brought.
pub struct Epoch {
    /// what changed, for the manifest and for clients
    pub list: UpdateList,
    /// keyed databases: the new directory
    pub directory: Option<Directory>,
}

/// Applies a batch. On refusal nothing has changed.
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

/// Applies the list of an epoch that was made before: the same database results, byte for byte.
///
/// # Errors
/// As [`Write::step`]. Nothing has changed then.
pub fn apply_list<C: VectorCommitment>(database: &mut Database<C>, list: &UpdateList) -> Result<(), Error> {
    Write::new(list.clone()).run(database).map(drop)
}

fn failed(batch: &(impl Operations + ?Sized), error: Error) -> Refused {
    Refused { operation: batch.count(), reason: Reason::Failed(error) }
}

/// The same M with room for `records`. Q never shrinks, and grows as far as the batch limit is carried.
fn grown<C: VectorCommitment>(database: &Database<C>, records: usize) -> Result<Layout, Error> {
    let before = database.layout();
    let partitions = before.partitions().max(records.div_ceil(before.stored().partition_records));
    let after = before.grown(records as u64, partitions as u64)?;
    database.check_carried(&after)?;
    Ok(after)
}

/// A block of the directory has no room for all that is added to it: the last add that falls into it cannot be.
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

/// An epoch that is being made, of a batch or of the list that another server made of one. Nothing changes by it.
pub struct Draft {
    before: Layout,
    stage: Stage,
    /// slots below N that hold nothing, ascending …
    empty: Vec<u32>,
    /// … and how many of them the batch has taken
    taken: usize,
    /// by index, the operation whose record it will hold; `None`: zeros
    writes: BTreeMap<u32, Option<u32>>,
    /// keys whose place the batch changed; `None`: deleted
    places: HashMap<Fingerprint, Option<u32>>,
    /// N
    records: usize,
    /// for how many of them a layout was found to be carried
    room: usize,
    hasher: Hasher,
}

/// What the next step goes on with, from a place on.
enum Stage {
    /// looks for empty slots, …
    Empty(usize),
    /// … performs operations, …
    Perform(usize),
    /// … and lists what has changed
    List(UpdateList),
    /// looks through a list that was made elsewhere
    Check(usize, UpdateList),
    /// hashes its bytes
    Hash(usize, UpdateList),
    /// leads the directory on
    Follow(Option<Box<Following>>, UpdateList),
    Done(UpdateList, Option<(Directory, [u8; 32])>),
    /// an error came before
    Failed,
}

/// What came of it.
pub struct Drafted {
    /// what is to be written
    pub write: Write,
    /// BLAKE3 of the update list
    pub list_hash: [u8; 32],
    /// keyed databases: the directory of the next epoch, and the BLAKE3 of its stored form
    pub directory: Option<(Directory, [u8; 32])>,
}

impl Draft {
    /// Begins the epoch after `database`'s newest.
    #[must_use]
    pub fn of_batch<C: VectorCommitment>(
        database: &Database<C>,
        keyed: bool,
        batch: &(impl Operations + ?Sized),
    ) -> Self {
        let mut draft = Self::new(*database.layout(), Stage::Empty(0));
        if keyed {
            draft.places.reserve(batch.count()); // to grow it later would be a long step
        }
        draft
    }

    /// Begins the epoch that a list leads to, from one of layout `before` to one of layout `after`.
    ///
    /// # Errors
    /// [`Error::Update`] if its header says otherwise; what else is wrong with it the steps find.
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

    /// Goes on; whether there is more to do. Database, directory (none: keyless) and batch must be as they were; of a list there
    /// is an empty batch.
    ///
    /// # Errors
    /// [`Refused`]: of a list, [`Reason::Failed`].
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
                    return Err(failed(Error::Phase("records without keys")));
                } else {
                    Stage::Follow(None, list)
                }
            }
            Stage::Follow(following, list) => {
                let before = directory.ok_or_else(|| failed(Error::Phase("the directory has gone")))?;
                let mut following = following.unwrap_or_else(|| Box::new(Following::new(before)));
                match following.step(before, &list).map_err(|full| crowded(before, batch, full))? {
                    Some(next) => Stage::Done(list, Some(next)),
                    None => Stage::Follow(Some(following), list),
                }
            }
            done @ Stage::Done(..) => done,
            Stage::Failed => return Err(failed(Error::Phase("making the epoch has failed"))),
        };
        Ok(!matches!(self.stage, Stage::Done(..)))
    }

    /// What there is to write, once all steps were made.
    ///
    /// # Errors
    /// [`Error::Phase`] before that.
    pub fn finish(self) -> Result<Drafted, Error> {
        match self.stage {
            Stage::Done(list, directory) => {
                Ok(Drafted { write: Write::new(list), list_hash: *self.hasher.finalize().as_bytes(), directory })
            }
            _ => Err(Error::Phase("there are steps to be made")),
        }
    }

    /// Lists changes, and forgets what led to them.
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

    /// The next index behind the last record.
    fn open_slot<C: VectorCommitment>(&mut self, database: &Database<C>) -> Result<u32, Reason> {
        let index = u32::try_from(self.records).ok().filter(|&index| index < u32::MAX).ok_or(Reason::Full)?;
        if self.records == self.room {
            self.room = grown(database, self.records + 1).map_err(|_| Reason::Full)?.room();
        }
        self.records += 1;
        Ok(index)
    }
}

/// What an operation writes; `None`: zeros.
fn record_of(operation: Operation<'_>) -> Option<&[u8]> {
    match operation {
        Operation::Add(record) | Operation::EditKey(record) | Operation::EditIndex(_, record) => Some(record),
        Operation::DeleteKey(_) | Operation::DeleteIndex(_) => None,
    }
}
