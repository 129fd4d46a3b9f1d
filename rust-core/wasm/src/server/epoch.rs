//! The next epoch of a database: drafted and written in steps, from a batch or an update list.

use keyhush_core::database::epoch::{self, Draft, FlatBatch, Operation, Reason};
use keyhush_core::database::list::UpdateList;
use keyhush_core::database::write::Write;
use keyhush_core::directory::Directory;
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use super::database::DatabaseHandle;
use crate::directory::DirectoryHandle;
use crate::{LayoutHandle, Outcome, js, thrown};

/// An update list, as a server stores it.
#[wasm_bindgen]
pub struct UpdateListHandle(UpdateList);

#[wasm_bindgen]
impl UpdateListHandle {
    /// Reads a list. The layouts come from its own header.
    ///
    /// # Errors
    /// `update`.
    pub fn decode(bytes: &[u8]) -> Outcome<UpdateListHandle> {
        UpdateList::read(bytes).map(UpdateListHandle).map_err(thrown)
    }

    /// The layout it starts from.
    #[wasm_bindgen(getter)]
    pub fn before(&self) -> LayoutHandle {
        LayoutHandle(*self.0.before())
    }

    /// The layout it leads to.
    #[wasm_bindgen(getter)]
    pub fn after(&self) -> LayoutHandle {
        LayoutHandle(*self.0.after())
    }

    /// The indices of the records that it changes, ascending.
    pub fn indices(&self) -> Vec<u32> {
        self.0.entries().map(|entry| entry.index).collect()
    }

    /// old ⊕ new of each record, ℓ bytes.
    pub fn differences(&self) -> Vec<u8> {
        self.0.differences()
    }
}

/// A new epoch.
#[wasm_bindgen]
pub struct EpochHandle(epoch::Epoch);

impl EpochHandle {
    fn new(applied: Result<epoch::Epoch, epoch::Refused>) -> Outcome<EpochHandle> {
        applied.map(EpochHandle).map_err(|error| refused(&error))
    }
}

fn refused(refused: &epoch::Refused) -> JsValue {
    let reason = match &refused.reason {
        Reason::Exists => "the key exists already",
        Reason::Missing => "there is no such record",
        Reason::Malformed => "the record is malformed",
        Reason::Full => "the generation is full; begin a new one",
        Reason::Failed(error) => return thrown(error.clone()),
    };
    let thrown = js::Error::new(&format!("operation {} of the batch: {reason}", refused.operation));
    thrown.set_code("refused");
    thrown.set_operation(refused.operation as u32);
    thrown.set_reason(reason);
    thrown.into()
}

#[wasm_bindgen]
impl EpochHandle {
    /// The update list's bytes.
    pub fn list(&self) -> Vec<u8> {
        self.0.list.bytes().to_vec()
    }

    /// The number of records that it changed.
    #[wasm_bindgen(getter)]
    pub fn changes(&self) -> usize {
        self.0.list.entries().count()
    }

    /// The indices of the records that it changed, ascending.
    pub fn indices(&self) -> Vec<u32> {
        self.0.list.entries().map(|entry| entry.index).collect()
    }

    /// The new directory of a keyed database. It can be taken once.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Option<DirectoryHandle> {
        self.0.directory.take().map(DirectoryHandle)
    }
}

#[wasm_bindgen]
impl DatabaseHandle {
    /// Applies a batch to a keyed database. Each operation has a kind (1 add, 2 edit, 3 delete), 16 bytes of fingerprint and ℓ
    /// bytes of stored record (ignored for a delete).
    ///
    /// # Errors
    /// `refused`, with the `operation`'s number and a `reason`; `length`. Then nothing has changed.
    #[wasm_bindgen(js_name = applyKeyed)]
    pub fn apply_keyed(
        &mut self,
        directory: &DirectoryHandle,
        kinds: &[u8],
        fingerprints: &[u8],
        records: &[u8],
    ) -> Outcome<EpochHandle> {
        let record_bytes = self.0.layout().stored().record_bytes;
        let prints = fingerprints.as_chunks().0;
        let expected = (kinds.len() * record_bytes) as u64;
        if prints.len() != kinds.len() || fingerprints.len() != kinds.len() * 16 || records.len() as u64 != expected {
            return Err(thrown(Error::Length { what: "records", expected, actual: records.len() as u64 }));
        }
        let batch: Vec<_> = kinds
            .iter()
            .zip(prints)
            .zip(records.chunks_exact(record_bytes))
            .map(|((kind, print), record)| match kind {
                1 => Operation::Add(record),
                2 => Operation::EditKey(record),
                _ => Operation::DeleteKey(print),
            })
            .collect();
        EpochHandle::new(epoch::apply(&mut self.0, Some(&directory.0), &batch))
    }

    /// Applies a batch to a keyless database. Each operation has a kind, an index (ignored for an add) and ℓ bytes of record
    /// (ignored for a delete).
    ///
    /// # Errors
    /// As `applyKeyed`.
    #[wasm_bindgen(js_name = applyKeyless)]
    pub fn apply_keyless(&mut self, kinds: &[u8], indices: &[u32], records: &[u8]) -> Outcome<EpochHandle> {
        let record_bytes = self.0.layout().stored().record_bytes;
        let expected = (kinds.len() * record_bytes) as u64;
        if indices.len() != kinds.len() || records.len() as u64 != expected {
            return Err(thrown(Error::Length { what: "records", expected, actual: records.len() as u64 }));
        }
        let batch: Vec<_> = kinds
            .iter()
            .zip(indices)
            .zip(records.chunks_exact(record_bytes))
            .map(|((kind, index), record)| match kind {
                1 => Operation::Add(record),
                2 => Operation::EditIndex(*index, record),
                _ => Operation::DeleteIndex(*index),
            })
            .collect();
        EpochHandle::new(epoch::apply(&mut self.0, None, &batch))
    }

    /// Applies an update list that was made before.
    ///
    /// # Errors
    /// `update`, `layout`, `phase`. Then nothing has changed.
    #[wasm_bindgen(js_name = applyList)]
    pub fn apply_list(&mut self, list: &[u8], after: &LayoutHandle) -> Outcome<()> {
        UpdateList::decode(list, *self.0.layout(), after.0)
            .and_then(|list| epoch::apply_list(&mut self.0, &list))
            .map_err(thrown)
    }
}

/// The next epoch in the making, from a batch or an update list. It does not change the database.
#[wasm_bindgen]
pub struct DraftHandle {
    batch: FlatBatch,
    draft: Option<Draft>,
    drafted: Option<epoch::Drafted>,
}

const NOT_DONE: Error = Error::Phase("making the epoch is not done; make its other steps first");

#[wasm_bindgen]
impl DraftHandle {
    /// Begins with a batch of `count` operations. Push them before the first step.
    #[wasm_bindgen(constructor)]
    pub fn new(database: &DatabaseHandle, keyed: bool, count: usize) -> DraftHandle {
        let batch = FlatBatch::new(keyed, database.0.layout().stored().record_bytes, count);
        DraftHandle { batch, draft: None, drafted: None }
    }

    /// Begins with an update list that was made before.
    ///
    /// # Errors
    /// `update`.
    #[wasm_bindgen(js_name = ofList)]
    pub fn of_list(database: &DatabaseHandle, list: Vec<u8>, after: &LayoutHandle) -> Outcome<DraftHandle> {
        let before = *database.0.layout();
        let draft = Draft::of_list(list, before, after.0).map_err(thrown)?;
        let batch = FlatBatch::new(false, before.stored().record_bytes, 0);
        Ok(DraftHandle { batch, draft: Some(draft), drafted: None })
    }

    /// Appends operations. Each has a kind (1 add, 2 edit, 3 delete), 16 bytes of fingerprint or, without keys, an index, and ℓ
    /// bytes of stored record. An add's index and a delete's record are ignored.
    ///
    /// # Errors
    /// `length`.
    pub fn push(&mut self, kinds: &[u8], fingerprints: &[u8], indices: &[u32], records: &[u8]) -> Outcome<()> {
        self.batch.push(kinds, fingerprints, indices, records).map_err(thrown)
    }

    /// Does the next step, for a keyless database. Returns whether there is more to do.
    ///
    /// # Errors
    /// `refused`, as `applyKeyed`; `update`, `layout`, `phase`.
    #[wasm_bindgen(js_name = stepKeyless)]
    pub fn step_keyless(&mut self, database: &DatabaseHandle) -> Outcome<bool> {
        self.step(database, None)
    }

    /// Does the next step, for a keyed database. Returns whether there is more to do.
    ///
    /// # Errors
    /// As `stepKeyless`.
    #[wasm_bindgen(js_name = stepKeyed)]
    pub fn step_keyed(&mut self, database: &DatabaseHandle, directory: &DirectoryHandle) -> Outcome<bool> {
        self.step(database, Some(&directory.0))
    }

    fn step(&mut self, database: &DatabaseHandle, directory: Option<&Directory>) -> Outcome<bool> {
        let (database, batch) = (&database.0, &self.batch);
        let draft = self.draft.get_or_insert_with(|| Draft::of_batch(database, directory.is_some(), batch));
        if draft.step(database, directory, batch).map_err(|error| refused(&error))? {
            return Ok(true);
        }
        let drafted = self.draft.take().ok_or(Error::Phase("the draft was taken already")).and_then(Draft::finish);
        self.drafted = Some(drafted.map_err(thrown)?);
        Ok(false)
    }

    fn drafted(&mut self) -> Outcome<&mut epoch::Drafted> {
        self.drafted.as_mut().ok_or_else(|| thrown(NOT_DONE))
    }

    /// BLAKE3 of the update list.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = listHash)]
    pub fn list_hash(&mut self) -> Outcome<Vec<u8>> {
        Ok(self.drafted()?.list_hash.to_vec())
    }

    /// BLAKE3 of the new directory's stored form; none without keys.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = directoryHash)]
    pub fn directory_hash(&mut self) -> Outcome<Option<Vec<u8>>> {
        Ok(self.drafted()?.directory.as_ref().map(|(_, hash)| hash.to_vec()))
    }

    /// The new directory of a keyed database. It can be taken once.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Outcome<Option<DirectoryHandle>> {
        Ok(self.drafted()?.directory.take().map(|(directory, _)| DirectoryHandle(directory)))
    }

    /// The write that applies the epoch. Uses up this handle.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = intoWrite)]
    pub fn into_write(self) -> Outcome<WriteHandle> {
        let drafted = self.drafted.ok_or_else(|| thrown(NOT_DONE))?;
        Ok(WriteHandle(drafted.write))
    }
}

/// An update list that is being written into a database.
#[wasm_bindgen]
pub struct WriteHandle(pub(super) Write);

#[wasm_bindgen]
impl WriteHandle {
    /// The length of the update list.
    #[wasm_bindgen(getter, js_name = listBytes)]
    pub fn list_bytes(&self) -> usize {
        self.0.list().bytes().len()
    }

    /// A part of the update list, from byte `start` to before byte `end`.
    ///
    /// # Errors
    /// `index`.
    #[wasm_bindgen(js_name = listPart)]
    pub fn list_part(&self, start: usize, end: usize) -> Outcome<Vec<u8>> {
        let bytes = self.0.list().bytes();
        let part = bytes.get(start..end).ok_or(Error::Index { what: "byte", bound: bytes.len() as u64 });
        part.map(<[u8]>::to_vec).map_err(thrown)
    }

    /// The indices of the records that it changes, ascending.
    pub fn indices(&self) -> Vec<u32> {
        self.0.list().entries().map(|entry| entry.index).collect()
    }

    /// Whether no other thread may read the database's memory during the next step.
    #[wasm_bindgen(getter)]
    pub fn alone(&self) -> bool {
        self.0.alone()
    }

    /// Does the next step. Returns whether there is more to do before `begin`, or, after `begin`, at all.
    ///
    /// # Errors
    /// `phase`, `update`, `layout`. Then nothing has changed.
    pub fn step(&mut self, database: &mut DatabaseHandle) -> Outcome<bool> {
        self.0.step(&mut database.0).map_err(thrown)
    }

    /// Makes the newest epoch the previous one.
    ///
    /// # Errors
    /// `phase`. Then nothing has changed.
    pub fn begin(&mut self, database: &mut DatabaseHandle) -> Outcome<()> {
        self.0.begin(&mut database.0).map_err(thrown)
    }
}
