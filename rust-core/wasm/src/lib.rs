//! wasm-bindgen bindings for `keyhush-core`: handles and functions, typed in packages/wasm/src/core.ts. No logic.
//!
//! Instant lookups are always included. Hints, lookups with one server and the server's half are features, each on top of the
//! one before, so that browsers download no more than they use.
//!
//! Errors become JavaScript `Error`s with the core's stable `code`. Buffers that JavaScript fills or reads in place are passed
//! as addresses in WASM memory.

#![allow(clippy::must_use_candidate)] // nobody calls these from Rust

#[cfg(feature = "hints")]
#[macro_use]
mod asked;
#[cfg(feature = "hints")]
#[macro_use]
mod partitions;

mod blocks;
mod cost;
#[cfg(feature = "hints")]
mod directory;
mod instant;
mod js;
#[cfg(feature = "hints")]
mod local;
#[cfg(feature = "hints")]
mod mode_costs;
#[cfg(feature = "hints")]
mod plan;
#[cfg(feature = "hints")]
mod proofs;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "single")]
mod single;
#[cfg(feature = "hints")]
mod stored;
#[cfg(feature = "hints")]
mod tapir;

use std::alloc::System;

use keyhush_core::error::Error;
use keyhush_core::key;
use keyhush_core::layout::Layout;
use wasm_bindgen::handler::schedule_reinit;
use wasm_bindgen::prelude::*;
use zeroize::Zeroize;
use zeroizing_alloc::ZeroAlloc;

type Outcome<T> = Result<T, JsValue>;

/// Wipes all memory that is freed, whoever allocated it: also what bindings copy in and out, and what a growing buffer leaves
/// behind. So a closed map leaves no secrets on the heap.
#[global_allocator]
static WIPING: ZeroAlloc<System> = ZeroAlloc(System);

/// The last field of handles with secrets. Dropping it wipes what earlier calls have left on the stack.
struct WipesStack;

impl Drop for WipesStack {
    #[inline(never)]
    fn drop(&mut self) {
        /// More than the frames of any call into the core take together.
        const FRAMES_BYTES: usize = 32 << 10;
        #[allow(clippy::large_stack_arrays)] // the stack has 1 MiB
        let mut frames = [0u8; FRAMES_BYTES];
        frames.zeroize();
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn thrown(error: Error) -> JsValue {
    let thrown = js::Error::new(&error.to_string());
    thrown.set_code(error.code());
    thrown.into()
}

fn exactly<const COUNT: usize>(what: &'static str, bytes: &[u8]) -> Result<[u8; COUNT], Error> {
    bytes.try_into().map_err(|_| Error::Length { what, expected: COUNT as u64, actual: bytes.len() as u64 })
}

/// A number from JavaScript as a count. A number that is not whole, or outside u32's range, becomes 0, which every bound
/// refuses.
#[allow(clippy::cast_sign_loss)]
fn whole(number: f64) -> u64 {
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) { number as u64 } else { 0 }
}

/// Call it after a trap: the next call to any other function goes to a fresh instance of the same module.
#[wasm_bindgen]
pub fn restart() {
    schedule_reinit();
}

/// The BLAKE3 of bytes: 32 bytes.
#[wasm_bindgen]
pub fn blake3(bytes: &[u8]) -> Vec<u8> {
    key::content_hash(bytes).to_vec()
}

/// The fingerprint of a key: 16 bytes (docs/protocol.md, Hashes).
#[wasm_bindgen]
pub fn fingerprint(key: &[u8]) -> Vec<u8> {
    key::fingerprint(key).to_vec()
}

/// A layout: (N, ℓ, Q, M, g) and the sizes that follow from it.
#[wasm_bindgen]
pub struct LayoutHandle(Layout);

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
        Layout::packed(records, record_bytes, partitions, partition_records, block_records)
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
