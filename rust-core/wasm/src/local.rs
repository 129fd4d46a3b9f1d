//! Mode `local`: the whole database, kept by the client.

use keyhush_core::database::list::UpdateList;
use keyhush_core::local::Local;
use wasm_bindgen::prelude::*;

use crate::stored::{ReceivedFormHandle, StoredFormHandle};
use crate::{LayoutHandle, Outcome, exactly, thrown};

/// The records of a database: all partitions, or those received so far.
#[wasm_bindgen]
pub struct LocalHandle(Local);

receives_partitions!(LocalHandle, keep, is_held);

#[wasm_bindgen]
impl LocalHandle {
    /// Begins without partitions. `id`: 16 random bytes.
    ///
    /// # Errors
    /// `length`, `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(layout: &LayoutHandle, content_hashes: &[u8], id: &[u8]) -> Outcome<LocalHandle> {
        exactly("id", id).and_then(|id| Local::new(layout.0, content_hashes, id)).map(LocalHandle).map_err(thrown)
    }

    /// Reads a stored form, whole or partial, of the manifest with these values.
    ///
    /// # Errors
    /// `state`, `length`, `layout`.
    pub fn resume(
        stored: &ReceivedFormHandle,
        layout: &LayoutHandle,
        content_hashes: &[u8],
        binding: &[u8],
    ) -> Outcome<LocalHandle> {
        exactly("binding", binding)
            .and_then(|binding| Local::decode(&stored.0, layout.0, content_hashes, &binding))
            .map(LocalHandle)
            .map_err(thrown)
    }

    /// Its id: 16 bytes.
    #[wasm_bindgen(getter)]
    pub fn id(&self) -> Vec<u8> {
        self.0.stamp().hint_id.to_vec()
    }

    /// The number of updates applied.
    #[wasm_bindgen(getter)]
    #[allow(clippy::cast_precision_loss)] // counts updates
    pub fn version(&self) -> f64 {
        self.0.stamp().version as f64
    }

    /// The layout at its epoch.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> LayoutHandle {
        LayoutHandle(*self.0.layout())
    }

    /// Sets the version, when all partitions are there.
    ///
    /// # Errors
    /// `phase`.
    pub fn finish(&mut self, version: u32) -> Outcome<()> {
        self.0.finish_at(version.into()).map_err(thrown)
    }

    /// The records at these indices, ℓ bytes each.
    ///
    /// # Errors
    /// `index`, `phase`.
    pub fn records(&self, indices: &[u32]) -> Outcome<Vec<u8>> {
        self.0.records(indices).map_err(thrown)
    }

    /// Brings it to the next epoch, and checks the content. Returns the journal entry if all partitions are there.
    ///
    /// # Errors
    /// `update`, `length`, `layout`; then nothing has changed.
    pub fn update(&mut self, list: &[u8], after: &LayoutHandle, content_hashes: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let list = UpdateList::decode(list, *self.0.layout(), after.0).map_err(thrown)?;
        if self.0.is_whole() {
            return self.0.update_entry(list, content_hashes).map(Some).map_err(thrown);
        }
        self.0.update(&list, content_hashes).map(|()| None).map_err(thrown)
    }

    /// Applies the next entry of its journal.
    ///
    /// # Errors
    /// `state`, `update`, `layout`.
    pub fn replay(&mut self, entry: &[u8]) -> Outcome<()> {
        self.0.replay(entry).map_err(thrown)
    }

    /// Checks about a MiB of partitions, from `first` on, against the manifest of its epoch; returns the next one to check, if any.
    ///
    /// # Errors
    /// `state`, `length`, `index`.
    pub fn arrive(&mut self, content_hashes: &[u8], first: usize) -> Outcome<Option<usize>> {
        self.0.arrive(content_hashes, first).map_err(thrown)
    }

    /// The stored form, bound to the hash of its manifest (32 bytes).
    ///
    /// # Errors
    /// `length`.
    pub fn encode(&self, binding: &[u8]) -> Outcome<StoredFormHandle> {
        exactly("binding", binding).map(|binding| StoredFormHandle::new(self.0.written(&binding))).map_err(thrown)
    }
}
