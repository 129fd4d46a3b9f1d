//! A new generation, made from the records of a database.

use keyhush_core::commitment::Merkle;
use keyhush_core::database::flat::Database;
use keyhush_core::database::generation::NextGeneration;
use keyhush_core::directory::Directory;
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use super::DatabaseHandle;
use crate::directory::DirectoryHandle;
use crate::{Outcome, thrown};

/// A generation in the making. It does not change the old database.
#[wasm_bindgen]
pub struct NextGenerationHandle(Option<NextGeneration<Merkle>>);

#[wasm_bindgen]
impl NextGenerationHandle {
    /// Begins a generation with room for `headroom` more records than there are.
    ///
    /// # Errors
    /// `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(old: &DatabaseHandle, keyed: bool, headroom: u32) -> Outcome<NextGenerationHandle> {
        let next = NextGeneration::new(&old.0, keyed, u64::from(headroom)).map_err(thrown)?;
        Ok(NextGenerationHandle(Some(next)))
    }

    /// Does the next step. Returns whether there is more to do.
    ///
    /// # Errors
    /// `layout`, `directory`, `phase`.
    pub fn step(&mut self, old: &DatabaseHandle) -> Outcome<bool> {
        let next = self.0.as_mut().ok_or_else(|| thrown(Error::Phase("the generation was taken already")))?;
        next.step(&old.0).map_err(thrown)
    }

    /// The new database and directory, after the last step.
    ///
    /// # Errors
    /// `phase`.
    pub fn finish(&mut self) -> Outcome<GenerationHandle> {
        let next = self.0.take().ok_or_else(|| thrown(Error::Phase("the generation was taken already")))?;
        let (database, directory) = next.finish().map_err(thrown)?;
        Ok(GenerationHandle { database: Some(database), directory })
    }
}

/// A finished generation. Each part can be taken once.
#[wasm_bindgen]
pub struct GenerationHandle {
    database: Option<Database<Merkle>>,
    directory: Option<Directory>,
}

#[wasm_bindgen]
impl GenerationHandle {
    /// The database. All of its partitions are committed.
    #[wasm_bindgen(js_name = takeDatabase)]
    pub fn take_database(&mut self) -> Option<DatabaseHandle> {
        self.database.take().map(DatabaseHandle)
    }

    /// The directory; none without keys.
    #[wasm_bindgen(js_name = takeDirectory)]
    pub fn take_directory(&mut self) -> Option<DirectoryHandle> {
        self.directory.take().map(DirectoryHandle)
    }
}
