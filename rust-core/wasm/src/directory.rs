//! Whole directories, in clients and servers.

use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::Directory;
use keyhush_core::stored::update_in;
use wasm_bindgen::prelude::*;

use crate::blocks::DirectoryShapeHandle;
use crate::{LayoutHandle, Outcome, exactly, thrown};

/// The public map from fingerprints to record indices.
#[wasm_bindgen]
pub struct DirectoryHandle(pub(crate) Directory);

#[wasm_bindgen]
impl DirectoryHandle {
    /// Reads a stored form, for a database of `records`.
    ///
    /// # Errors
    /// `directory`.
    pub fn decode(bytes: &[u8], records: u32) -> Outcome<DirectoryHandle> {
        Directory::decode(bytes, records).map(DirectoryHandle).map_err(thrown)
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// The next epoch's directory, from an update list.
    ///
    /// # Errors
    /// `update`.
    pub fn updated(&self, list: &[u8], before: &LayoutHandle, after: &LayoutHandle) -> Outcome<DirectoryHandle> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| self.0.updated(&list))
            .map(DirectoryHandle)
            .map_err(thrown)
    }

    /// The directory after the next entry of a journal on a hint of layout `before`; none for an effect, which changes no
    /// directory.
    ///
    /// # Errors
    /// `state`, `update`.
    pub fn replayed(&self, entry: &[u8], before: &LayoutHandle) -> Outcome<Option<DirectoryHandle>> {
        let updated = |list: Option<_>| list.map(|list| self.0.updated(&list)).transpose();
        update_in(entry, &before.0).and_then(updated).map(|directory| directory.map(DirectoryHandle)).map_err(thrown)
    }

    /// The number of keys in the perfect hashes.
    #[wasm_bindgen(getter)]
    pub fn keys(&self) -> u32 {
        self.0.keys()
    }

    /// The index of a fingerprint.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn index(&self, fingerprint: &[u8], records: u32) -> Outcome<u32> {
        let fingerprint = exactly("fingerprint", fingerprint).map_err(thrown)?;
        self.0.index(&fingerprint, records).map_err(thrown)
    }

    /// The indices of many fingerprints.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn indices(&self, fingerprints: &[u8], records: u32) -> Outcome<Vec<u32>> {
        self.0.indices(fingerprints, records).map_err(thrown)
    }

    /// Whether it has this shape.
    #[wasm_bindgen(js_name = isOf)]
    pub fn is_of(&self, shape: &DirectoryShapeHandle) -> bool {
        shape.0 == *self.0.shape()
    }
}
