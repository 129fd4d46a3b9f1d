//! The server half: databases, epochs, generations, and directories as a server has them.

mod database;
mod directory;
mod epoch;
mod generation;

use keyhush_core::{key, tapir::permutation};
use wasm_bindgen::prelude::*;

pub(crate) use database::DatabaseHandle;

use crate::{LayoutHandle, Outcome, exactly, thrown};

/// 16 bytes for each key; key i ends at `ends[i]` of `keys`.
///
/// # Errors
/// `index`, if the ends are not ascending within `keys`.
#[wasm_bindgen]
pub fn fingerprints(keys: &[u8], ends: &[u32]) -> Outcome<Vec<u8>> {
    key::fingerprints(keys, ends).map_err(thrown)
}

/// 16 bytes.
#[wasm_bindgen(js_name = databaseId)]
pub fn database_id(seed: &[u8]) -> Vec<u8> {
    key::database_id(seed).to_vec()
}

/// BLAKE3 of bytes that come in parts.
#[wasm_bindgen]
#[derive(Default)]
pub struct HasherHandle(key::ContentHasher);

#[wasm_bindgen]
impl HasherHandle {
    /// Of no bytes yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> HasherHandle {
        HasherHandle::default()
    }

    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 32 bytes, of all so far.
    pub fn hash(&self) -> Vec<u8> {
        self.0.hash().to_vec()
    }
}

/// The permutation entries (u16) of all partitions under a seed, for test vectors.
///
/// # Errors
/// `length`, if the entropy is not 32 bytes.
#[wasm_bindgen(js_name = hazmatPermutations)]
pub fn hazmat_permutations(layout: &LayoutHandle, entropy: &[u8]) -> Outcome<Vec<u16>> {
    let entropy = exactly("entropy", entropy).map_err(thrown)?;
    let permutations = permutation::Permutations::from_entropy(&layout.0, &entropy);
    Ok((0..layout.0.partitions()).flat_map(|q| permutations.of(q).to_vec()).collect())
}
