//! The server's half: databases, epochs, generations, and servers' directories.

mod database;
mod directory;
mod epoch;
mod generation;
mod one_server;
mod sharded;

use keyhush_core::{key, tapir::permutation};
use wasm_bindgen::prelude::*;

pub(crate) use database::DatabaseHandle;

use crate::{LayoutHandle, Outcome, exactly, thrown};

/// The fingerprints of keys, 16 bytes each. Key i ends at `ends[i]` of `keys`.
///
/// # Errors
/// `index` if the ends are not ascending within `keys`.
#[wasm_bindgen]
pub fn fingerprints(keys: &[u8], ends: &[u32]) -> Outcome<Vec<u8>> {
    key::fingerprints(keys, ends).map_err(thrown)
}

/// The id of a database: 16 bytes.
#[wasm_bindgen(js_name = databaseId)]
pub fn database_id(seed: &[u8]) -> Vec<u8> {
    key::database_id(seed).to_vec()
}

/// Computes the BLAKE3 of bytes that come in parts.
#[wasm_bindgen]
#[derive(Default)]
pub struct HasherHandle(key::ContentHasher);

#[wasm_bindgen]
impl HasherHandle {
    /// A hasher without bytes.
    #[wasm_bindgen(constructor)]
    pub fn new() -> HasherHandle {
        HasherHandle::default()
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far: 32 bytes.
    pub fn hash(&self) -> Vec<u8> {
        self.0.hash().to_vec()
    }
}

/// For test vectors: the permutation entries (u16) of all partitions, drawn from a seed.
///
/// # Errors
/// `length` unless the entropy is 32 bytes.
#[wasm_bindgen(js_name = hazmatPermutations)]
pub fn hazmat_permutations(layout: &LayoutHandle, entropy: &[u8]) -> Outcome<Vec<u16>> {
    let entropy = exactly("entropy", entropy).map_err(thrown)?;
    let permutations = permutation::Permutations::from_entropy(&layout.0, &entropy);
    Ok((0..layout.0.partitions()).flat_map(|q| permutations.of(q).to_vec()).collect())
}
