//! A server's half: the handles of packages/wasm/src/prover.ts.

use pirouette_pointproofs::prover::{Prover, prove_together, setup_of};
use pirouette_pointproofs::{Error, G1_WHOLE_BYTES, Shape, Statement};
use wasm_bindgen::prelude::*;

use crate::{CeremonyHandle, Outcome, exactly, shape_of, thrown};

/// What commits to the partitions of one database under a ceremony's key, and opens all their records.
#[wasm_bindgen]
pub struct ProverHandle {
    prover: Prover,
    shape: Shape,
}

#[wasm_bindgen]
impl ProverHandle {
    /// Of what a ceremony's `setup` gave, for Q partitions of M records of ℓ bytes.
    ///
    /// # Errors
    /// `length`, `index`, `point`.
    #[wasm_bindgen(constructor)]
    pub fn new(setup: &[u8], partitions: f64, partition_records: f64, record_bytes: f64) -> Outcome<ProverHandle> {
        let shape = shape_of([partitions, partition_records, record_bytes])?;
        let prover = Prover::of_setup(setup).map_err(thrown)?;
        Ok(ProverHandle { prover, shape })
    }

    /// A partition's row list, and behind it the openings of its records, 96 bytes each.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn prove(&self, q: u32, partition: &[u8]) -> Outcome<Vec<u8>> {
        let mut proved = self.prover.prove(&self.shape, q as usize, partition).map_err(thrown)?;
        proved.row_list.append(&mut proved.openings);
        Ok(proved.row_list)
    }

    /// Whether a partition's row list commits to its records, under 32 bytes of fresh entropy.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn commits(&self, q: u32, partition: &[u8], row_list: &[u8], entropy: &[u8]) -> Outcome<bool> {
        let entropy = exactly("entropy", entropy)?;
        self.prover.commits(&self.shape, q as usize, partition, row_list, &entropy).map_err(thrown)
    }
}

#[wasm_bindgen]
impl CeremonyHandle {
    /// What provers are made of.
    ///
    /// # Errors
    /// `transcript` before anybody has contributed.
    pub fn setup(&self) -> Outcome<Vec<u8>> {
        setup_of(&self.0).map_err(thrown)
    }
}

/// The proof of an answer, from the opening of each of its entries, 96 bytes each.
///
/// # Errors
/// `length`, `index`, `point`.
#[wasm_bindgen(js_name = proveTogether)]
#[allow(clippy::too_many_arguments)]
pub fn prove_answer(
    partitions: f64,
    partition_records: f64,
    record_bytes: f64,
    manifest_hash: &[u8],
    header: &[u8],
    offsets: &[u16],
    records: &[u8],
    openings: &[u8],
) -> Outcome<Vec<u8>> {
    let shape = shape_of([partitions, partition_records, record_bytes])?;
    let manifest = exactly("hash of the manifest", manifest_hash)?;
    let header = exactly("header", header)?;
    let statement = Statement::new(shape, &manifest, &header, offsets, records).map_err(thrown)?;
    let (each, rest) = openings.as_chunks::<G1_WHOLE_BYTES>();
    if !rest.is_empty() {
        let expected = (offsets.len() * G1_WHOLE_BYTES) as u64;
        return Err(thrown(Error::Length { what: "openings", expected, actual: openings.len() as u64 }));
    }
    prove_together(&statement, each).map(|proof| proof.to_vec()).map_err(thrown)
}
