//! wasm-bindgen bindings for `keyhush-core`: handles and functions, typed in packages/wasm/src/core.ts. No logic.
//!
//! Instant lookups, hints, lookups with one server and the server's half are features, each on top of the one before, so that browsers
//! download no more than they use. Instant lookups with one server (`one-server`) are a feature by themselves, which the server has too.
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

#[cfg(feature = "instant")]
mod blocks;
#[cfg(feature = "instant")]
mod cost;
#[cfg(feature = "hints")]
mod directory;
#[cfg(feature = "instant")]
mod instant;
mod js;
#[cfg(feature = "instant")]
mod layout;
#[cfg(feature = "hints")]
mod local;
#[cfg(feature = "hints")]
mod mode_costs;
#[cfg(feature = "one-server")]
mod one_server;
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
use wasm_bindgen::handler::schedule_reinit;
use wasm_bindgen::prelude::*;
use zeroize::Zeroize;
use zeroizing_alloc::ZeroAlloc;

#[cfg(feature = "instant")]
pub(crate) use layout::LayoutHandle;

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
#[cfg(feature = "instant")]
#[wasm_bindgen]
pub fn fingerprint(key: &[u8]) -> Vec<u8> {
    key::fingerprint(key).to_vec()
}
