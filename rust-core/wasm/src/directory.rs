//! Directories: whole, and of clients that look single blocks up.

use pirouette_core::database::list::UpdateList;
use pirouette_core::directory::{Directory, Shape};
use pirouette_core::tapir::state::journal::update_in;
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, exactly, thrown};

/// The public map from fingerprint to record index.
#[wasm_bindgen]
pub struct DirectoryHandle(pub(crate) Directory);

#[wasm_bindgen]
impl DirectoryHandle {
    /// From its stored form, for a database of `records`.
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

    /// The directory of the next epoch, from the list.
    ///
    /// # Errors
    /// `update`.
    pub fn updated(&self, list: &[u8], before: &LayoutHandle, after: &LayoutHandle) -> Outcome<DirectoryHandle> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| self.0.updated(&list))
            .map(DirectoryHandle)
            .map_err(thrown)
    }

    /// The directory after the next entry of a journal, which was made on a hint of layout `before`; none if the entry
    /// is an effect, which changes no directory.
    ///
    /// # Errors
    /// `state`, `update`.
    pub fn replayed(&self, entry: &[u8], before: &LayoutHandle) -> Outcome<Option<DirectoryHandle>> {
        let updated = |list: Option<_>| list.map(|list| self.0.updated(&list)).transpose();
        update_in(entry, &before.0).and_then(updated).map(|directory| directory.map(DirectoryHandle)).map_err(thrown)
    }

    /// Keys in the perfect hash.
    #[wasm_bindgen(getter)]
    pub fn keys(&self) -> u32 {
        self.0.keys()
    }

    /// Where to look for a fingerprint.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn index(&self, fingerprint: &[u8], records: u32) -> Outcome<u32> {
        let fingerprint = exactly("fingerprint", fingerprint).map_err(thrown)?;
        self.0.index(&fingerprint, records).map_err(thrown)
    }

    /// Where to look for many.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn indices(&self, fingerprints: &[u8], records: u32) -> Outcome<Vec<u32>> {
        self.0.indices(fingerprints, records).map_err(thrown)
    }
}

/// What the blocks of a directory have in common, as a manifest says it.
#[wasm_bindgen]
pub struct DirectoryShapeHandle(Shape);

#[wasm_bindgen]
impl DirectoryShapeHandle {
    /// Of 2^log blocks of so many bytes, under a seed of 16 bytes.
    ///
    /// # Errors
    /// `directory`, `layout`, `length`.
    #[wasm_bindgen(constructor)]
    pub fn new(log: u32, block_bytes: u32, seed: &[u8]) -> Outcome<DirectoryShapeHandle> {
        exactly("seed", seed)
            .and_then(|seed| Shape::new(log, block_bytes as usize, &seed))
            .map(DirectoryShapeHandle)
            .map_err(thrown)
    }

    /// Whether a directory says the same of itself.
    #[wasm_bindgen(js_name = isOf)]
    pub fn is_of(&self, directory: &DirectoryHandle) -> bool {
        self.0 == *directory.0.shape()
    }

    /// The blocks as a database of 2^log records in one partition.
    ///
    /// # Errors
    /// `layout`.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> Outcome<LayoutHandle> {
        self.0.layout().map(LayoutHandle).map_err(thrown)
    }

    /// The block that a fingerprint falls into.
    ///
    /// # Errors
    /// `length`.
    pub fn number(&self, fingerprint: &[u8]) -> Outcome<u32> {
        exactly("fingerprint", fingerprint).map(|fingerprint| self.0.number(&fingerprint)).map_err(thrown)
    }

    /// Where to look for a fingerprint, by its block.
    ///
    /// # Errors
    /// `length`; `directory` if it is no block, or leads beyond the database.
    pub fn index(&self, block: &[u8], fingerprint: &[u8], records: u32) -> Outcome<u32> {
        exactly("fingerprint", fingerprint)
            .and_then(|fingerprint| self.0.index(block, &fingerprint, records))
            .map_err(thrown)
    }
}
