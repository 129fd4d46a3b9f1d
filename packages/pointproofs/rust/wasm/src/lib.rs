//! wasm-bindgen bindings for `keyhush-pointproofs`: the handles of packages/pointproofs/src/api.ts. No logic.
//!
//! It is a module of its own, loaded only where it is needed. Errors become JavaScript `Error`s with a stable `code`.

#![allow(clippy::must_use_candidate)] // nobody calls these from Rust

use std::alloc::System;

#[cfg(feature = "prover")]
mod prover;

use js_sys::{Error as JsError, Reflect};
use keyhush_pointproofs::transcript::{Transcript, Verified};
use keyhush_pointproofs::{Error, Key, Rows, Shape, Statement, Verification};
use wasm_bindgen::prelude::*;
use zeroize::{Zeroize, Zeroizing};
use zeroizing_alloc::ZeroAlloc;

type Outcome<T> = Result<T, JsValue>;

/// Wipes all memory that is freed, so that a ceremony's factor leaves nothing on the heap.
#[global_allocator]
static WIPING: ZeroAlloc<System> = ZeroAlloc(System);

/// Call it after a call that handled a factor: it wipes 32 KiB of the stack's 1 MiB, more than the call's frames had.
#[inline(never)]
fn wipe_stack() {
    #[allow(clippy::large_stack_arrays)]
    let mut frames = [0u8; 32 << 10];
    frames.zeroize();
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn thrown(error: Error) -> JsValue {
    let thrown = JsError::new(&error.to_string());
    let _ = Reflect::set(&thrown, &"code".into(), &error.code().into());
    thrown.into()
}

fn exactly<const COUNT: usize>(what: &'static str, bytes: &[u8]) -> Outcome<[u8; COUNT]> {
    let length = || Error::Length { what, expected: COUNT as u64, actual: bytes.len() as u64 };
    bytes.try_into().map_err(|_| thrown(length()))
}

/// Q, M and ℓ of a database.
fn shape_of(numbers: [f64; 3]) -> Outcome<Shape> {
    let [partitions, partition_records, record_bytes] = numbers.map(whole);
    Shape::new(partitions, partition_records, record_bytes).map_err(thrown)
}

/// A number from JavaScript as a count. A number that is not whole, or outside u32's range, becomes 0, which every bound
/// refuses.
#[allow(clippy::cast_sign_loss)]
fn whole(number: f64) -> usize {
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) { number as usize } else { 0 }
}

/// A verifier's key, and the rows of one epoch.
#[wasm_bindgen]
pub struct VerifierHandle {
    key: Key,
    rows: Rows,
    shape: Shape,
}

#[wasm_bindgen]
impl VerifierHandle {
    /// Reads the key, and the row lists one after the other. The caller checks the hashes of row lists; `key_hash` must be trusted.
    ///
    /// # Errors
    /// `length`, `index`, `key`, `point`, `rows`.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        key: &[u8],
        key_hash: &[u8],
        allow_development: bool,
        partitions: f64,
        partition_records: f64,
        record_bytes: f64,
        row_lists: &[u8],
    ) -> Outcome<VerifierHandle> {
        let shape = shape_of([partitions, partition_records, record_bytes])?;
        let key = Key::decode(key, &exactly("hash of the key", key_hash)?, allow_development).map_err(thrown)?;
        let rows = Rows::decode(shape, &key, row_lists).map_err(thrown)?;
        Ok(VerifierHandle { key, rows, shape })
    }

    /// Begins to verify that an answer's proof holds for its records and for the offsets that were asked for.
    ///
    /// # Errors
    /// `length`, `index`, `rows`.
    pub fn begin(
        &self,
        manifest_hash: &[u8],
        header: &[u8],
        offsets: &[u16],
        records: &[u8],
        proof: &[u8],
    ) -> Outcome<VerificationHandle> {
        let manifest = exactly("hash of the manifest", manifest_hash)?;
        let header = exactly("header", header)?;
        let statement = Statement::new(self.shape, &manifest, &header, offsets, records).map_err(thrown)?;
        let begun = Verification::begin(&self.key, &self.rows, &statement, proof).map_err(thrown)?;
        Ok(VerificationHandle(begun))
    }
}

/// An answer that is being verified.
#[wasm_bindgen]
pub struct VerificationHandle(Verification);

#[wasm_bindgen]
impl VerificationHandle {
    /// Does a step of some milliseconds. Returns whether more are needed.
    pub fn step(&mut self) -> bool {
        self.0.step()
    }

    /// Does the steps that are left, and a last one. Returns whether the proof holds. Uses up this handle.
    ///
    /// # Errors
    /// `rows`.
    pub fn finish(self) -> Outcome<bool> {
        self.0.finish().map_err(thrown)
    }
}

/// The transcript of a ceremony without contributions.
#[wasm_bindgen(js_name = beginCeremony)]
pub fn begin_ceremony(development: bool) -> Vec<u8> {
    Transcript::begin(development)
}

/// A verified transcript.
#[wasm_bindgen]
pub struct CeremonyHandle(pub(crate) Verified);

#[wasm_bindgen]
impl CeremonyHandle {
    /// Reads and verifies a transcript, with 32 bytes of fresh entropy.
    ///
    /// # Errors
    /// `length`, `transcript`, `point`, `name`.
    #[wasm_bindgen(constructor)]
    pub fn new(transcript: &[u8], entropy: &[u8]) -> Outcome<CeremonyHandle> {
        let entropy = exactly("entropy", entropy)?;
        let verified = Transcript::decode(transcript).and_then(|transcript| transcript.verify(&entropy));
        Ok(CeremonyHandle(verified.map_err(thrown)?))
    }

    /// The contributors' names, in order.
    #[wasm_bindgen(getter)]
    pub fn names(&self) -> Vec<String> {
        self.0.transcript().names().collect()
    }

    /// Whether it is for development.
    #[wasm_bindgen(getter)]
    pub fn development(&self) -> bool {
        self.0.transcript().is_development()
    }

    /// The BLAKE3 of its bytes.
    #[wasm_bindgen(getter)]
    pub fn hash(&self) -> Vec<u8> {
        self.0.transcript().hash().to_vec()
    }

    /// Whether it has the contribution with this receipt.
    ///
    /// # Errors
    /// `length`.
    pub fn has(&self, receipt: &[u8]) -> Outcome<bool> {
        Ok(self.0.has(&exactly("receipt", receipt)?))
    }

    /// The verifier's key.
    ///
    /// # Errors
    /// `transcript` if nobody has contributed yet.
    pub fn key(&self) -> Outcome<Vec<u8>> {
        self.0.key().map_err(thrown)
    }

    /// The transcript with one more contribution, whose factor is drawn from 32 bytes of fresh entropy. Its last 32 bytes are the
    /// receipt.
    ///
    /// # Errors
    /// `length`, `name`, `transcript`.
    pub fn contribute(&self, name: &str, entropy: Vec<u8>) -> Outcome<Vec<u8>> {
        let entropy = Zeroizing::new(entropy);
        let entropy = Zeroizing::new(exactly("entropy", &entropy)?);
        let contributed = self.0.contribute(name, &entropy);
        wipe_stack();
        let mut contributed = contributed.map_err(thrown)?;
        contributed.transcript.extend_from_slice(&contributed.receipt);
        Ok(contributed.transcript)
    }
}
