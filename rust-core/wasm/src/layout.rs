//! The layout of a database.

use keyhush_core::layout::Layout;
use wasm_bindgen::prelude::*;

use crate::{Outcome, thrown, whole};

/// A layout: (N, ℓ, Q, M, g) and the sizes that follow from it.
#[wasm_bindgen]
pub struct LayoutHandle(pub(crate) Layout);

#[wasm_bindgen]
impl LayoutHandle {
    /// Checks the five numbers. Without the last, blocks are single records.
    ///
    /// # Errors
    /// `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        records: f64,
        record_bytes: f64,
        partitions: f64,
        partition_records: f64,
        block_records: Option<f64>,
    ) -> Outcome<LayoutHandle> {
        let [records, record_bytes, partitions, partition_records, block_records] =
            [records, record_bytes, partitions, partition_records, block_records.unwrap_or(1.0)].map(whole);
        Layout::of_lookups(records, record_bytes, partitions, partition_records, block_records)
            .map(LayoutHandle)
            .map_err(thrown)
    }

    /// N
    #[wasm_bindgen(getter)]
    pub fn records(&self) -> usize {
        self.0.records()
    }

    /// ℓ
    #[wasm_bindgen(getter, js_name = recordBytes)]
    pub fn record_bytes(&self) -> usize {
        self.0.stored().record_bytes
    }

    /// Q
    #[wasm_bindgen(getter)]
    pub fn partitions(&self) -> usize {
        self.0.partitions()
    }

    /// M
    #[wasm_bindgen(getter, js_name = partitionRecords)]
    pub fn partition_records(&self) -> usize {
        self.0.stored().partition_records
    }

    /// g
    #[wasm_bindgen(getter, js_name = blockRecords)]
    pub fn block_records(&self) -> usize {
        self.0.stored().block_records
    }

    /// M·ℓ
    #[wasm_bindgen(getter, js_name = partitionBytes)]
    pub fn partition_bytes(&self) -> usize {
        self.0.partition_bytes()
    }
}
