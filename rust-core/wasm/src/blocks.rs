//! The shape of directories, for clients that look up single blocks.

use keyhush_core::directory::Shape;
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, exactly, thrown};

/// The shape of a directory, from its manifest.
#[wasm_bindgen]
pub struct DirectoryShapeHandle(pub(crate) Shape);

#[wasm_bindgen]
impl DirectoryShapeHandle {
    /// The shape of 2^log blocks of `block_bytes`, with a seed of 16 bytes.
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

    /// The layout of the blocks: a database of 2^log records in one partition.
    ///
    /// # Errors
    /// `layout`.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> Outcome<LayoutHandle> {
        self.0.layout().map(LayoutHandle).map_err(thrown)
    }

    /// The number of the block that a fingerprint belongs to, among those of as many directories as there are shards; 0 is 1.
    ///
    /// # Errors
    /// `length`.
    pub fn number(&self, fingerprint: &[u8], shards: usize) -> Outcome<u32> {
        exactly("fingerprint", fingerprint).map(|fingerprint| self.0.number_among(&fingerprint, shards)).map_err(thrown)
    }

    /// The index of a fingerprint, from its block.
    ///
    /// # Errors
    /// `length`; `directory` if the bytes are no block, or the index is beyond the database.
    pub fn index(&self, block: &[u8], fingerprint: &[u8], records: u32) -> Outcome<u32> {
        exactly("fingerprint", fingerprint)
            .and_then(|fingerprint| self.0.index(block, &fingerprint, records))
            .map_err(thrown)
    }
}
