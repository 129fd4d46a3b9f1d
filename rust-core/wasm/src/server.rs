//! The server half: databases, batches, building directories; and what only tests of the whole need.

use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{self, Draft, FlatBatch, Operation, Reason};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::generation::NextGeneration;
use keyhush_core::database::list::UpdateList;
use keyhush_core::database::write::Write;
use keyhush_core::directory::{Bringing, Directory};
use keyhush_core::error::Error;
use keyhush_core::scheme::{self, answerers};
use keyhush_core::{key, tapir::permutation};
use wasm_bindgen::prelude::*;

use crate::directory::DirectoryHandle;
use crate::proofs::proofs_named;
use crate::{LayoutHandle, Outcome, exactly, js, thrown};

/// 16 bytes for each key; key i ends at `ends[i]` of `keys`.
///
/// # Errors
/// `index`, if the ends are not ascending within `keys`.
#[wasm_bindgen]
pub fn fingerprints(keys: &[u8], ends: &[u32]) -> Outcome<Vec<u8>> {
    key::fingerprints(keys, ends).map_err(thrown)
}

/// 16 bytes.
#[wasm_bindgen(js_name = databaseId)]
pub fn database_id(seed: &[u8]) -> Vec<u8> {
    key::database_id(seed).to_vec()
}

/// BLAKE3 of bytes that come in parts.
#[wasm_bindgen]
#[derive(Default)]
pub struct HasherHandle(key::ContentHasher);

#[wasm_bindgen]
impl HasherHandle {
    /// Of no bytes yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> HasherHandle {
        HasherHandle::default()
    }

    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 32 bytes, of all so far.
    pub fn hash(&self) -> Vec<u8> {
        self.0.hash().to_vec()
    }
}

/// The permutation entries (u16) of all partitions under a seed, for test vectors.
///
/// # Errors
/// `length`, if the entropy is not 32 bytes.
#[wasm_bindgen(js_name = hazmatPermutations)]
pub fn hazmat_permutations(layout: &LayoutHandle, entropy: &[u8]) -> Outcome<Vec<u16>> {
    let entropy = exactly("entropy", entropy).map_err(thrown)?;
    let permutations = permutation::Permutations::from_entropy(&layout.0, &entropy);
    Ok((0..layout.0.partitions()).flat_map(|q| permutations.of(q).to_vec()).collect())
}

#[wasm_bindgen]
impl DirectoryHandle {
    /// Of distinct fingerprints, 16 bytes each, for a database of so many slots.
    ///
    /// # Errors
    /// `directory`.
    pub fn build(fingerprints: &[u8], slots: usize) -> Outcome<DirectoryHandle> {
        Directory::build(fingerprints, slots).map(DirectoryHandle).map_err(thrown)
    }

    /// How many blocks it has: 2 to this.
    #[wasm_bindgen(getter, js_name = blockLog)]
    pub fn block_log(&self) -> u32 {
        self.0.shape().log()
    }

    /// Of each block, padded.
    #[wasm_bindgen(getter, js_name = blockBytes)]
    pub fn block_bytes(&self) -> usize {
        self.0.shape().block_bytes()
    }

    /// 16 bytes.
    #[wasm_bindgen(getter)]
    pub fn seed(&self) -> Vec<u8> {
        self.0.shape().seed().to_vec()
    }

    /// Bytes of the stored form.
    #[wasm_bindgen(getter, js_name = encodedBytes)]
    pub fn encoded_bytes(&self) -> usize {
        self.0.encoded_bytes()
    }

    /// Some of them, from one to before another.
    ///
    /// # Errors
    /// `index`.
    #[wasm_bindgen(js_name = encodePart)]
    pub fn encode_part(&self, start: usize, end: usize) -> Outcome<Vec<u8>> {
        if start > end || end > self.0.encoded_bytes() {
            return Err(thrown(Error::Index { what: "byte", bound: self.0.encoded_bytes() as u64 }));
        }
        let mut part = Vec::with_capacity(end - start);
        self.0.encode_part(start..end, &mut part);
        Ok(part)
    }

    /// The directory of the epoch before, from the list that led to this one.
    ///
    /// # Errors
    /// `update`.
    pub fn undone(&self, list: &[u8], before: &LayoutHandle, after: &LayoutHandle) -> Outcome<DirectoryHandle> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| self.0.undone(&list))
            .map(DirectoryHandle)
            .map_err(thrown)
    }

    /// The padded blocks, committed to.
    ///
    /// # Errors
    /// `layout`.
    pub fn database(&self) -> Outcome<DatabaseHandle> {
        self.0.database().map(DatabaseHandle).map_err(thrown)
    }

    /// Brings the blocks of the epoch before to this directory.
    ///
    /// # Errors
    /// `phase`, `layout`.
    pub fn bring(&self, blocks: &mut DatabaseHandle) -> Outcome<()> {
        self.0.bring(&mut blocks.0).map_err(thrown)
    }
}

/// The server half.
#[wasm_bindgen]
pub struct DatabaseHandle(pub(crate) Database<Merkle>);

#[wasm_bindgen]
impl DatabaseHandle {
    /// An all-zero database. For tags alone it keeps no trees, and its commitments are zero; with Pointproofs it also answers
    /// with room for a proof, which is the caller's to make. `max_batch`: the batch limit
    /// its generation began with, if this layout is not its first.
    ///
    /// # Errors
    /// `layout`, `index` for a kind of proof there is not.
    #[wasm_bindgen(constructor)]
    pub fn new(layout: &LayoutHandle, proofs: Option<String>, max_batch: Option<u32>) -> Outcome<DatabaseHandle> {
        proofs_named(proofs)
            .and_then(|proofs| match proofs {
                Proofs::Openings => Database::new(layout.0),
                Proofs::Tags => Database::without_openings(layout.0),
                Proofs::Pointproofs => Database::new(layout.0).map(Database::proved_elsewhere),
            })
            .and_then(|database| match max_batch {
                Some(limit) => database.with_max_batch(limit as usize),
                None => Ok(database),
            })
            .map(DatabaseHandle)
            .map_err(thrown)
    }

    /// Address of the Q·M·ℓ bytes of records.
    #[wasm_bindgen(js_name = recordsPointer)]
    pub fn records_pointer(&mut self) -> usize {
        self.0.records_mut().as_ptr() as usize
    }

    /// Hashes a partition as it stands.
    ///
    /// # Errors
    /// `index`.
    pub fn commit(&mut self, partition: usize) -> Outcome<()> {
        self.0.commit(partition).map_err(thrown)
    }

    /// 32 bytes.
    ///
    /// # Errors
    /// `index`, `phase`.
    pub fn commitment(&self, partition: usize) -> Outcome<Vec<u8>> {
        self.0.commitment(partition).map(|digest| digest.to_vec()).map_err(thrown)
    }

    /// 32 bytes.
    ///
    /// # Errors
    /// `index`, `phase`.
    #[wasm_bindgen(js_name = contentHash)]
    pub fn content_hash(&self, partition: usize) -> Outcome<Vec<u8>> {
        self.0.content_hash(partition).map(|digest| digest.to_vec()).map_err(thrown)
    }

    /// 32·Q bytes.
    ///
    /// # Errors
    /// `phase`.
    pub fn commitments(&self) -> Outcome<Vec<u8>> {
        self.0.commitments().map_err(thrown)
    }

    /// 32·Q bytes.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = contentHashes)]
    pub fn content_hashes(&self) -> Outcome<Vec<u8>> {
        self.0.content_hashes().map_err(thrown)
    }

    /// Answers the queries of a suite, by its number; of suite 1 if none is named.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    pub fn answer(&self, queries: &[u8], suite: Option<u16>) -> Outcome<Vec<u8>> {
        scheme::answer(&answerers(), suite.unwrap_or(1), &self.0, queries, At::Newest).map_err(thrown)
    }

    /// Answers at the epoch before the last batch.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    #[wasm_bindgen(js_name = answerPrevious)]
    pub fn answer_previous(&self, queries: &[u8], suite: Option<u16>) -> Outcome<Vec<u8>> {
        scheme::answer(&answerers(), suite.unwrap_or(1), &self.0, queries, At::Previous).map_err(thrown)
    }

    /// The suites it answers, by number.
    #[wasm_bindgen(getter)]
    pub fn suites(&self) -> Vec<u16> {
        scheme::suites(&answerers(), &self.0)
    }

    /// Bytes of one query of a suite, at the newest epoch or at the one before, and how many a request may carry.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = queryLimits)]
    pub fn query_limits(&self, suite: u16, previous: bool) -> Outcome<Vec<u32>> {
        let at = if previous { At::Previous } else { At::Newest };
        let (bytes, most) = scheme::query_limits(&answerers(), suite, &self.0, at).map_err(thrown)?;
        Ok(vec![bytes as u32, most as u32])
    }

    /// Bytes of what answers so many queries of a suite, at the newest epoch or at the one before.
    ///
    /// # Errors
    /// `index`, `phase`.
    #[wasm_bindgen(js_name = answerBytes)]
    pub fn answer_bytes(&self, queries: usize, suite: u16, previous: bool) -> Outcome<usize> {
        let at = if previous { At::Previous } else { At::Newest };
        scheme::answer_bytes(&answerers(), suite, &self.0, queries, at).map_err(thrown)
    }

    /// Its layout, at the newest epoch.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> LayoutHandle {
        LayoutHandle(*self.0.layout())
    }

    /// Most queries a request may carry, for the life of its generation.
    #[wasm_bindgen(getter, js_name = maxBatch)]
    pub fn max_batch(&self) -> usize {
        self.0.max_batch()
    }

    /// Applies a batch to a keyed database: kinds (1 add, 2 edit, 3 delete), 16 bytes of fingerprint and ℓ bytes of
    /// stored record for each operation (the record of a delete is not looked at).
    ///
    /// # Errors
    /// `refused`, with the `operation`'s number and a `reason`; `length`. Nothing has changed then.
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

    /// Applies a batch to a keyless database: kinds, an index and ℓ bytes for each operation (an add's index and a
    /// delete's record are not looked at).
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

    /// Applies the list of an epoch that was made before.
    ///
    /// # Errors
    /// `update`, `layout`, `phase`. Nothing has changed then.
    #[wasm_bindgen(js_name = applyList)]
    pub fn apply_list(&mut self, list: &[u8], after: &LayoutHandle) -> Outcome<()> {
        UpdateList::decode(list, *self.0.layout(), after.0)
            .and_then(|list| epoch::apply_list(&mut self.0, &list))
            .map_err(thrown)
    }
}

/// An update list, as a server keeps it.
#[wasm_bindgen]
pub struct UpdateListHandle(UpdateList);

#[wasm_bindgen]
impl UpdateListHandle {
    /// Reads a list, with the layouts that its header names.
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

    /// The records it changes, ascending.
    pub fn indices(&self) -> Vec<u32> {
        self.0.entries().map(|entry| entry.index).collect()
    }

    /// old ⊕ new of each of them, ℓ bytes.
    pub fn differences(&self) -> Vec<u8> {
        self.0.differences()
    }
}

/// What a batch brought.
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

    /// Records it changed.
    #[wasm_bindgen(getter)]
    pub fn changes(&self) -> usize {
        self.0.list.entries().count()
    }

    /// Records whose slots it touched, ascending: what a server stores.
    pub fn indices(&self) -> Vec<u32> {
        self.0.list.entries().map(|entry| entry.index).collect()
    }

    /// The new directory of a keyed database; once.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Option<DirectoryHandle> {
        self.0.directory.take().map(DirectoryHandle)
    }
}

/// The next epoch in the making, of a batch or of a list, beside the database.
#[wasm_bindgen]
pub struct DraftHandle {
    batch: FlatBatch,
    draft: Option<Draft>,
    drafted: Option<epoch::Drafted>,
}

#[wasm_bindgen]
impl DraftHandle {
    /// Of a batch of so many operations, which are pushed before the first step.
    #[wasm_bindgen(constructor)]
    pub fn new(database: &DatabaseHandle, keyed: bool, count: usize) -> DraftHandle {
        let batch = FlatBatch::new(keyed, database.0.layout().stored().record_bytes, count);
        DraftHandle { batch, draft: None, drafted: None }
    }

    /// Of the list of an epoch that was made before.
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

    /// Some of the operations: kinds (1 add, 2 edit, 3 delete), for each 16 bytes of fingerprint or, without keys, an index,
    /// and ℓ bytes of stored record (an add's index and a delete's record are not looked at).
    ///
    /// # Errors
    /// `length`.
    pub fn push(&mut self, kinds: &[u8], fingerprints: &[u8], indices: &[u32], records: &[u8]) -> Outcome<()> {
        self.batch.push(kinds, fingerprints, indices, records).map_err(thrown)
    }

    /// Goes on, of a database without keys; whether there is more to do.
    ///
    /// # Errors
    /// `refused`, as `applyKeyed`; `update`, `layout`, `phase`.
    #[wasm_bindgen(js_name = stepKeyless)]
    pub fn step_keyless(&mut self, database: &DatabaseHandle) -> Outcome<bool> {
        self.step(database, None)
    }

    /// Goes on, of a keyed database.
    ///
    /// # Errors
    /// As there.
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
        let drafted = self.draft.take().ok_or(Error::Phase("the draft was taken")).and_then(Draft::finish);
        self.drafted = Some(drafted.map_err(thrown)?);
        Ok(false)
    }

    fn drafted(&mut self) -> Outcome<&mut epoch::Drafted> {
        self.drafted.as_mut().ok_or_else(|| thrown(Error::Phase("there are steps to be made")))
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

    /// The new directory of a keyed database; once.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Outcome<Option<DirectoryHandle>> {
        Ok(self.drafted()?.directory.take().map(|(directory, _)| DirectoryHandle(directory)))
    }

    /// What is to be written; ends this.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = intoWrite)]
    pub fn into_write(self) -> Outcome<WriteHandle> {
        let drafted = self.drafted.ok_or_else(|| thrown(Error::Phase("there are steps to be made")))?;
        Ok(WriteHandle(drafted.write))
    }
}

/// The blocks of the next epoch's directory in the making, beside those of this one's.
#[wasm_bindgen]
pub struct BringingHandle(Bringing);

#[wasm_bindgen]
impl BringingHandle {
    /// Brings `blocks` to `directory`.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(constructor)]
    pub fn new(directory: &DirectoryHandle, blocks: &DatabaseHandle) -> Outcome<BringingHandle> {
        Bringing::new(&directory.0, &blocks.0).map(BringingHandle).map_err(thrown)
    }

    /// Goes on; whether there is more to do.
    ///
    /// # Errors
    /// `index`.
    pub fn step(&mut self, directory: &DirectoryHandle, blocks: &DatabaseHandle) -> Outcome<bool> {
        self.0.step(&directory.0, &blocks.0).map_err(thrown)
    }

    /// What is to be written; ends this.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = intoWrite)]
    pub fn into_write(self) -> Outcome<WriteHandle> {
        self.0.finish().map(WriteHandle).map_err(thrown)
    }
}

/// What is being written into a database.
#[wasm_bindgen]
pub struct WriteHandle(Write);

#[wasm_bindgen]
impl WriteHandle {
    /// Bytes of the update list.
    #[wasm_bindgen(getter, js_name = listBytes)]
    pub fn list_bytes(&self) -> usize {
        self.0.list().bytes().len()
    }

    /// Some of them, from one to before another.
    ///
    /// # Errors
    /// `index`.
    #[wasm_bindgen(js_name = listPart)]
    pub fn list_part(&self, start: usize, end: usize) -> Outcome<Vec<u8>> {
        let bytes = self.0.list().bytes();
        let part = bytes.get(start..end).ok_or(Error::Index { what: "byte", bound: bytes.len() as u64 });
        part.map(<[u8]>::to_vec).map_err(thrown)
    }

    /// Records whose slots it touches, ascending.
    pub fn indices(&self) -> Vec<u32> {
        self.0.list().entries().map(|entry| entry.index).collect()
    }

    /// Whether nobody else may read the database's memory during the next step.
    #[wasm_bindgen(getter)]
    pub fn alone(&self) -> bool {
        self.0.alone()
    }

    /// Goes on, before `begin` or after it; whether there is more to do.
    ///
    /// # Errors
    /// `phase`, `update`, `layout`. Nothing has changed then.
    pub fn step(&mut self, database: &mut DatabaseHandle) -> Outcome<bool> {
        self.0.step(&mut database.0).map_err(thrown)
    }

    /// The newest epoch is the previous one from here on.
    ///
    /// # Errors
    /// `phase`. Nothing has changed then.
    pub fn begin(&mut self, database: &mut DatabaseHandle) -> Outcome<()> {
        self.0.begin(&mut database.0).map_err(thrown)
    }
}

/// A generation in the making, beside the database it is made of.
#[wasm_bindgen]
pub struct NextGenerationHandle(Option<NextGeneration<Merkle>>);

#[wasm_bindgen]
impl NextGenerationHandle {
    /// With room for `headroom` records more than there are.
    ///
    /// # Errors
    /// `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(old: &DatabaseHandle, keyed: bool, headroom: u32) -> Outcome<NextGenerationHandle> {
        let next = NextGeneration::new(&old.0, keyed, u64::from(headroom)).map_err(thrown)?;
        Ok(NextGenerationHandle(Some(next)))
    }

    /// Goes on; whether there is more to do.
    ///
    /// # Errors
    /// `layout`, `directory`, `phase`.
    pub fn step(&mut self, old: &DatabaseHandle) -> Outcome<bool> {
        let next = self.0.as_mut().ok_or_else(|| thrown(Error::Phase("the generation was taken")))?;
        next.step(&old.0).map_err(thrown)
    }

    /// The database and the directory, once all steps were made.
    ///
    /// # Errors
    /// `phase`.
    pub fn finish(&mut self) -> Outcome<GenerationHandle> {
        let next = self.0.take().ok_or_else(|| thrown(Error::Phase("the generation was taken")))?;
        let (database, directory) = next.finish().map_err(thrown)?;
        Ok(GenerationHandle { database: Some(database), directory })
    }
}

/// A generation that was made. Each of its parts can be taken once.
#[wasm_bindgen]
pub struct GenerationHandle {
    database: Option<Database<Merkle>>,
    directory: Option<Directory>,
}

#[wasm_bindgen]
impl GenerationHandle {
    /// Every partition of it is committed.
    #[wasm_bindgen(js_name = takeDatabase)]
    pub fn take_database(&mut self) -> Option<DatabaseHandle> {
        self.database.take().map(DatabaseHandle)
    }

    /// None in keyless databases.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Option<DirectoryHandle> {
        self.directory.take().map(DirectoryHandle)
    }
}
