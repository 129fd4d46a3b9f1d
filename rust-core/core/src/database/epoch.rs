//! From a publisher's batch to the next epoch (papers: TAPIR §5.2, Fig. 6, `UpdateDB`): an ordered list of add, edit and
//! delete by key (keyed databases) or index (keyless ones), refused whole at its first operation that cannot be, and
//! otherwise turned into one write and one update list. Deterministic: equal databases and batches give equal bytes.
//!
//! An added record goes into the lowest slot that was empty when the batch began, else behind the last. A slot that
//! the batch empties stays empty until the next epoch: a client between the two must not find another key's record
//! where its own was deleted.

use std::collections::{BTreeMap, HashMap};

use crate::bytes::{is_zero, xor_into};
use crate::commitment::VectorCommitment;
use crate::database::flat::Database;
use crate::database::list::{Entry, Kind, UpdateList};
use crate::directory::{Directory, Overfull};
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::Layout;

type Fingerprint = [u8; FINGERPRINT_BYTES];

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
    let before = *database.layout();
    let mut draft =
        Draft { database, directory, writes: BTreeMap::new(), places: HashMap::new(), records: before.records() };
    let adds = batch.iter().any(|operation| matches!(operation, Operation::Add(_)));
    let mut empty = if adds { draft.empty_slots() } else { Vec::new() }.into_iter();
    for (number, operation) in batch.iter().enumerate() {
        draft.perform(operation, &mut empty).map_err(|reason| Refused { operation: number, reason })?;
    }
    let Draft { writes, records, .. } = draft;
    let failed = |error| Refused { operation: batch.len(), reason: Reason::Failed(error) };
    let after = grown(database, records).map_err(failed)?;

    let zero = vec![0; before.stored().record_bytes];
    let old = |index: u32| database.record(index as usize).unwrap_or(&zero);
    let writes: Vec<_> = writes.into_iter().filter(|(index, record)| record != old(*index)).collect();
    let mut list = UpdateList::new(before, after, writes.len());
    for (index, record) in &writes {
        let old = old(*index);
        let kind = kind(directory.is_some(), *index as usize >= before.records(), old, record);
        list.push(*index, kind, old, record);
    }
    let directory = match directory {
        None => None,
        Some(_) if before.record_bytes() < FINGERPRINT_BYTES => {
            return Err(failed(Error::Phase("records without keys")));
        }
        Some(directory) => Some(directory.followed(&list).map_err(|full| crowded(directory, batch, full))?),
    };
    database.write(after, &writes).map_err(failed)?;
    Ok(Epoch { list, directory })
}

/// Applies the list of an epoch that was made before: the same database results, byte for byte.
///
/// # Errors
/// [`Error::Update`] if the list starts from another layout; [`Error::Layout`] if it leads beyond the generation; as [`Database::write`]. Nothing has changed then.
pub fn apply_list<C: VectorCommitment>(database: &mut Database<C>, list: &UpdateList) -> Result<(), Error> {
    if list.before() != database.layout() {
        return Err(Error::Update("it starts from another layout"));
    }
    database.check_carried(list.after())?;
    let zero = vec![0; database.layout().stored().record_bytes];
    let written = |entry: Entry<'_>| {
        let mut record = database.record(entry.index as usize).unwrap_or(&zero).to_vec();
        xor_into(&mut record, entry.difference);
        (entry.index, record)
    };
    let writes: Vec<(u32, Vec<u8>)> = list.entries().map(written).collect();
    database.write(*list.after(), &writes)
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
fn crowded(directory: &Directory, batch: &[Operation<'_>], Overfull(block): Overfull) -> Refused {
    let into_it = |operation: &Operation<'_>| match operation {
        Operation::Add(record) => record.first_chunk().is_some_and(|print| directory.shape().number(print) == block),
        _ => false,
    };
    Refused { operation: batch.iter().rposition(into_it).unwrap_or(0), reason: Reason::Full }
}

fn kind(keyed: bool, new: bool, old: &[u8], record: &[u8]) -> Kind {
    match (keyed, new) {
        (_, true) => Kind::Add,
        (true, false) if is_zero(old) => Kind::Add,
        (true, false) if is_zero(record) => Kind::Delete,
        _ => Kind::Edit,
    }
}

/// The database as the operations so far would leave it.
struct Draft<'a, C> {
    database: &'a Database<C>,
    directory: Option<&'a Directory>,
    /// whole records by index
    writes: BTreeMap<u32, Vec<u8>>,
    /// keys whose place the batch changed; `None`: deleted
    places: HashMap<Fingerprint, Option<u32>>,
    /// N
    records: usize,
}

impl<C: VectorCommitment> Draft<'_, C> {
    /// Slots below N that hold nothing, ascending. Keyless records have no empty slots.
    fn empty_slots(&self) -> Vec<u32> {
        let empty = |index: &usize| self.directory.is_some() && self.database.record(*index).is_ok_and(is_zero);
        (0..self.records).filter(empty).map(|index| index as u32).collect()
    }

    fn place(&self, fingerprint: &Fingerprint) -> Option<u32> {
        if let Some(place) = self.places.get(fingerprint) {
            return *place;
        }
        let index = self.directory?.index(fingerprint, self.database.layout().records() as u32).ok()?;
        self.database.record(index as usize).is_ok_and(|record| record.starts_with(fingerprint)).then_some(index)
    }

    fn perform(&mut self, operation: &Operation<'_>, empty: &mut impl Iterator<Item = u32>) -> Result<(), Reason> {
        let keyed = self.directory.is_some();
        let record_bytes = self.database.layout().stored().record_bytes;
        let whole =
            |record: &[u8]| if record.len() == record_bytes { Ok(record.to_vec()) } else { Err(Reason::Malformed) };
        match *operation {
            Operation::Add(record) => {
                let record = whole(record)?;
                let fingerprint = record.first_chunk().copied().filter(|print| keyed && !is_zero(print));
                if keyed && self.place(&fingerprint.ok_or(Reason::Malformed)?).is_some() {
                    return Err(Reason::Exists);
                }
                let index = match empty.next() {
                    Some(index) => index,
                    None => self.open_slot()?,
                };
                self.writes.insert(index, record);
                if let Some(fingerprint) = fingerprint {
                    self.places.insert(fingerprint, Some(index));
                }
            }
            Operation::EditKey(record) if keyed => {
                let record = whole(record)?;
                let fingerprint = record.first_chunk().ok_or(Reason::Malformed)?;
                let index = self.place(fingerprint).ok_or(Reason::Missing)?;
                self.writes.insert(index, record);
            }
            Operation::DeleteKey(fingerprint) if keyed => {
                let index = self.place(fingerprint).ok_or(Reason::Missing)?;
                self.writes.insert(index, vec![0; record_bytes]);
                self.places.insert(*fingerprint, None);
            }
            Operation::EditIndex(index, record) if !keyed => {
                self.writes.insert(self.existing(index)?, whole(record)?);
            }
            Operation::DeleteIndex(index) if !keyed => {
                self.writes.insert(self.existing(index)?, vec![0; record_bytes]);
            }
            _ => return Err(Reason::Malformed),
        }
        Ok(())
    }

    fn existing(&self, index: u32) -> Result<u32, Reason> {
        if (index as usize) < self.records { Ok(index) } else { Err(Reason::Missing) }
    }

    /// The next index behind the last record.
    fn open_slot(&mut self) -> Result<u32, Reason> {
        let index = u32::try_from(self.records).ok().filter(|&index| index < u32::MAX).ok_or(Reason::Full)?;
        grown(self.database, self.records + 1).map_err(|_| Reason::Full)?;
        self.records += 1;
        Ok(index)
    }
}
