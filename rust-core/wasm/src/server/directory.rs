//! A server's directory: building, storing and updating it.

use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::{Bringing, Directory, Shape, ShardPlan, shards_of};
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use super::database::DatabaseHandle;
use super::epoch::WriteHandle;
use crate::directory::DirectoryHandle;
use crate::{LayoutHandle, Outcome, exactly, thrown, whole};

#[wasm_bindgen]
impl DirectoryHandle {
    /// Builds the directory of distinct fingerprints, 16 bytes each, for a database of `slots` slots.
    ///
    /// # Errors
    /// `directory`.
    pub fn build(fingerprints: &[u8], slots: usize) -> Outcome<DirectoryHandle> {
        Directory::build(fingerprints, slots).map(DirectoryHandle).map_err(thrown)
    }

    /// Builds the directory of distinct fingerprints, without those of empty slots, with a shape that was decided before. Each block has room
    /// for `room` added keys.
    ///
    /// # Errors
    /// `directory`.
    #[wasm_bindgen(js_name = buildShaped)]
    pub fn build_shaped(
        fingerprints: &[u8],
        log: u32,
        block_bytes: usize,
        seed: &[u8],
        room: usize,
    ) -> Outcome<DirectoryHandle> {
        exactly("seed", seed)
            .and_then(|seed| Shape::new(log, block_bytes, &seed))
            .and_then(|shape| Directory::build_shaped(fingerprints, shape, room))
            .map(DirectoryHandle)
            .map_err(thrown)
    }

    /// The log₂ of its number of blocks.
    #[wasm_bindgen(getter, js_name = blockLog)]
    pub fn block_log(&self) -> u32 {
        self.0.shape().log()
    }

    /// The bytes of each padded block.
    #[wasm_bindgen(getter, js_name = blockBytes)]
    pub fn block_bytes(&self) -> usize {
        self.0.shape().block_bytes()
    }

    /// The seed: 16 bytes.
    #[wasm_bindgen(getter)]
    pub fn seed(&self) -> Vec<u8> {
        self.0.shape().seed().to_vec()
    }

    /// The length of the stored form.
    #[wasm_bindgen(getter, js_name = encodedBytes)]
    pub fn encoded_bytes(&self) -> usize {
        self.0.encoded_bytes()
    }

    /// A part of the stored form, from byte `start` to before byte `end`.
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

    /// The previous epoch's directory, from the list that led to this one.
    ///
    /// # Errors
    /// `update`.
    pub fn undone(&self, list: &[u8], before: &LayoutHandle, after: &LayoutHandle) -> Outcome<DirectoryHandle> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| self.0.undone(&list))
            .map(DirectoryHandle)
            .map_err(thrown)
    }

    /// The padded blocks, as a committed database.
    ///
    /// # Errors
    /// `layout`.
    pub fn database(&self) -> Outcome<DatabaseHandle> {
        self.0.database().map(DatabaseHandle).map_err(thrown)
    }

    /// Updates the previous epoch's blocks to this directory.
    ///
    /// # Errors
    /// `phase`, `layout`.
    pub fn bring(&self, blocks: &mut DatabaseHandle) -> Outcome<()> {
        self.0.bring(&mut blocks.0).map_err(thrown)
    }
}

/// An update of blocks to the next epoch's directory, in the making.
#[wasm_bindgen]
pub struct BringingHandle(Bringing);

#[wasm_bindgen]
impl BringingHandle {
    /// Begins to update `blocks` to `directory`.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(constructor)]
    pub fn new(directory: &DirectoryHandle, blocks: &DatabaseHandle) -> Outcome<BringingHandle> {
        Bringing::new(&directory.0, &blocks.0).map(BringingHandle).map_err(thrown)
    }

    /// Does the next step. Returns whether there is more to do.
    ///
    /// # Errors
    /// `index`.
    pub fn step(&mut self, directory: &DirectoryHandle, blocks: &DatabaseHandle) -> Outcome<bool> {
        self.0.step(&directory.0, &blocks.0).map_err(thrown)
    }

    /// The write into the blocks. Uses up this handle.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = intoWrite)]
    pub fn into_write(self) -> Outcome<WriteHandle> {
        self.0.finish().map(WriteHandle).map_err(thrown)
    }
}

/// The shard of each fingerprint, 16 bytes each, among `shards`.
///
/// # Errors
/// `length`.
#[wasm_bindgen(js_name = shardsOf)]
pub fn shards(fingerprints: &[u8], seed: &[u8], shards: usize) -> Outcome<Vec<u8>> {
    exactly("seed", seed).and_then(|seed| shards_of(fingerprints, &seed, shards)).map_err(thrown)
}

/// What each shard of so many records in all has: Q, M, g, b, L, and the added keys that a block of the directory has room for.
///
/// # Errors
/// `layout`.
#[wasm_bindgen(js_name = planShards)]
pub fn plan_shards(records: f64, record_bytes: f64, shards: f64) -> Outcome<Vec<u32>> {
    let [records, record_bytes, shards] = [records, record_bytes, shards].map(whole);
    let ShardPlan { layout, block_log, block_bytes, room } =
        ShardPlan::new(records, record_bytes, shards).map_err(thrown)?;
    let stored = layout.stored();
    let numbers =
        [layout.partitions(), stored.partition_records, stored.block_records, block_log as usize, block_bytes, room];
    Ok(numbers.map(|number| number as u32).to_vec())
}
