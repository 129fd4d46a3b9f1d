//! What stands before several databases that are read as one: the tree above their partitions, and splitting queries.

use keyhush_core::instant::sharded::UpperTree;
use wasm_bindgen::prelude::*;

use crate::instant::form;
use crate::{LayoutHandle, Outcome, thrown};

/// The tree above the partitions of a sharded database at one epoch.
#[wasm_bindgen]
pub struct UpperTreeHandle(UpperTree);

#[wasm_bindgen]
impl UpperTreeHandle {
    /// `shard` is the layout of each shard; `commitments` are those of all partitions, 32 bytes each.
    ///
    /// # Errors
    /// `length`, `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(shard: &LayoutHandle, shards: usize, commitments: &[u8]) -> Outcome<UpperTreeHandle> {
        UpperTree::new(&shard.0, shards, commitments).map(UpperTreeHandle).map_err(thrown)
    }

    /// The layout that clients see.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> LayoutHandle {
        LayoutHandle(*self.0.layout())
    }

    /// The root: 32 bytes.
    #[wasm_bindgen(getter)]
    pub fn root(&self) -> Vec<u8> {
        self.0.root().to_vec()
    }

    /// Bytes of the siblings behind each query's sum.
    #[wasm_bindgen(getter, js_name = siblingBytes)]
    pub fn sibling_bytes(&self) -> usize {
        self.0.sibling_bytes()
    }

    /// The queries for the shards, the first shard's first, and behind them the sums of upper siblings.
    ///
    /// # Errors
    /// `length`, `query`, `index`.
    pub fn split(&self, queries: &[u8], servers: usize, vectors: bool) -> Outcome<Vec<u8>> {
        self.0.split(servers, form(vectors, None), queries).map_err(thrown)
    }
}
