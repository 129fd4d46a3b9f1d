//! The server half: databases, batches, building directories; and what only tests of the whole need.

use js_sys::{Error as JsError, Reflect};
use pirouette_core::answer::Database;
use pirouette_core::commitment::{Merkle, Proofs};
use pirouette_core::directory::Directory;
use pirouette_core::epoch::{self, Operation, Reason};
use pirouette_core::error::Error;
use pirouette_core::generation::NextGeneration;
use pirouette_core::update::UpdateList;
use pirouette_core::{key, permutation};
use wasm_bindgen::prelude::*;

use crate::{DirectoryHandle, LayoutHandle, Outcome, exactly, proofs_named, thrown};

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
    /// Of distinct fingerprints, 16 bytes each.
    ///
    /// # Errors
    /// `directory`.
    pub fn build(fingerprints: &[u8]) -> Outcome<DirectoryHandle> {
        Directory::build(fingerprints).map(DirectoryHandle).map_err(thrown)
    }
}

/// The server half.
#[wasm_bindgen]
pub struct DatabaseHandle(Database<Merkle>);

#[wasm_bindgen]
impl DatabaseHandle {
    /// An all-zero database. For tags alone it keeps no trees, and its commitments are zero.
    ///
    /// # Errors
    /// `layout`, `index` for a kind of proof there is not.
    #[wasm_bindgen(constructor)]
    pub fn new(layout: &LayoutHandle, proofs: Option<String>) -> Outcome<DatabaseHandle> {
        proofs_named(proofs)
            .and_then(|proofs| match proofs {
                Proofs::Openings => Database::new(layout.0),
                Proofs::Tags => Database::without_openings(layout.0),
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

    /// Answers count·Q offsets with the kind of proof named.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    pub fn answer(&self, vectors: &[u8], proofs: Option<String>) -> Outcome<Vec<u8>> {
        proofs_named(proofs).and_then(|proofs| self.0.answer(vectors, proofs)).map_err(thrown)
    }

    /// Answers at the epoch before the last batch.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    #[wasm_bindgen(js_name = answerPrevious)]
    pub fn answer_previous(&self, vectors: &[u8], proofs: Option<String>) -> Outcome<Vec<u8>> {
        proofs_named(proofs).and_then(|proofs| self.0.answer_previous(vectors, proofs)).map_err(thrown)
    }

    /// Its layout, at the newest epoch.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> LayoutHandle {
        LayoutHandle(*self.0.layout())
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
        let record_bytes = self.0.layout().record_bytes();
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
        let record_bytes = self.0.layout().record_bytes();
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

/// What a batch brought.
#[wasm_bindgen]
pub struct EpochHandle(epoch::Epoch);

impl EpochHandle {
    fn new(applied: Result<epoch::Epoch, epoch::Refused>) -> Outcome<EpochHandle> {
        applied.map(EpochHandle).map_err(|refused| {
            let reason = match &refused.reason {
                Reason::Exists => "the key exists already",
                Reason::Missing => "there is no such record",
                Reason::Malformed => "the record is malformed",
                Reason::Full => "the database is full",
                Reason::Failed(error) => return thrown(error.clone()),
            };
            let thrown = JsError::new(&format!("operation {} of the batch: {reason}", refused.operation));
            let _ = Reflect::set(&thrown, &"code".into(), &"refused".into());
            let _ = Reflect::set(&thrown, &"operation".into(), &(refused.operation as u32).into());
            let _ = Reflect::set(&thrown, &"reason".into(), &reason.into());
            thrown.into()
        })
    }
}

#[wasm_bindgen]
impl EpochHandle {
    /// The update list's bytes, in the form named: `delta` (if none is) or `record`.
    ///
    /// # Errors
    /// `index` for a form there is not.
    #[allow(clippy::needless_pass_by_value)] // as wasm-bindgen hands it over
    pub fn list(&self, form: Option<String>) -> Outcome<Vec<u8>> {
        match form.as_deref() {
            None | Some("delta") => Ok(self.0.list.bytes().to_vec()),
            Some("record") => Ok(self.0.records.bytes().to_vec()),
            Some(_) => Err(thrown(Error::Index { what: "form of the update list", bound: 2 })),
        }
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
