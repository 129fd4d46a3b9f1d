//! The server's half: the handles of packages/pointproofs/src/server/module.ts.

use std::rc::Rc;

use keyhush_pointproofs::prover::{EDIT_BYTES, Edit, Placed, Prover, prove_together, setup_of};
use keyhush_pointproofs::{Error, G1_BYTES, G1_WHOLE_BYTES, Shape, Statement};
use wasm_bindgen::prelude::*;

use crate::{CeremonyHandle, Outcome, exactly, shape_of, thrown};

/// Commits to the partitions of a database under a ceremony's key, and opens all their records.
#[wasm_bindgen]
pub struct ProverHandle {
    prover: Rc<Prover>,
    shape: Shape,
}

#[wasm_bindgen]
impl ProverHandle {
    /// A prover from a ceremony's `setup`, for Q partitions of M records of ℓ bytes.
    ///
    /// # Errors
    /// `length`, `index`, `point`.
    #[wasm_bindgen(constructor)]
    pub fn new(setup: &[u8], partitions: f64, partition_records: f64, record_bytes: f64) -> Outcome<ProverHandle> {
        let shape = shape_of([partitions, partition_records, record_bytes])?;
        let prover = Prover::of_setup(setup).map_err(thrown)?;
        Ok(ProverHandle { prover: Rc::new(prover), shape })
    }

    /// The same prover, with its tables, for a database of another shape.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn shaped(&self, partitions: f64, partition_records: f64, record_bytes: f64) -> Outcome<ProverHandle> {
        let shape = shape_of([partitions, partition_records, record_bytes])?;
        Ok(ProverHandle { prover: Rc::clone(&self.prover), shape })
    }

    /// Makes the tables for applying edits, before they are needed.
    pub fn warm(&self) {
        self.prover.warm();
    }

    /// A partition's row list, then the openings of its records, 96 bytes each.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn prove(&self, q: u32, partition: &[u8]) -> Outcome<Vec<u8>> {
        let mut proved = self.prover.prove(&self.shape, q as usize, partition).map_err(thrown)?;
        proved.row_list.append(&mut proved.openings);
        Ok(proved.row_list)
    }

    /// Whether a partition's row list commits to its records. `entropy`: 32 fresh bytes.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn commits(&self, q: u32, partition: &[u8], row_list: &[u8], entropy: &[u8]) -> Outcome<bool> {
        let entropy = exactly("entropy", entropy)?;
        self.prover.commits(&self.shape, q as usize, partition, row_list, &entropy).map_err(thrown)
    }

    /// Edits of records: for n indices the old and the new records, n·ℓ bytes each. Returns 33 bytes for each edit.
    ///
    /// # Errors
    /// `length`.
    pub fn edits(&self, indices: &[u32], old: &[u8], new: &[u8]) -> Outcome<Vec<u8>> {
        let bytes = self.shape.record_bytes();
        for (what, records) in [("records before", old), ("records after", new)] {
            expect_each(what, records, bytes, indices.len())?;
        }
        let records = old.chunks_exact(bytes).zip(new.chunks_exact(bytes));
        let edits = indices.iter().zip(records).map(|(&index, (old, new))| {
            Edit::new(index.into(), index as usize % self.shape.partition_records(), old, new)
        });
        Ok(edits.flat_map(|edit| edit.to_bytes()).collect())
    }

    /// Applies edits to row commitments, 48 bytes each. `rows` has the number of the row of each edit.
    ///
    /// # Errors
    /// `length`, `index`, `point`.
    pub fn follow(&self, mut commitments: Vec<u8>, rows: &[u32], edits: &[u8]) -> Outcome<Vec<u8>> {
        let count = commitments.len() / G1_BYTES;
        expect_each("row commitments", &commitments, G1_BYTES, count)?;
        self.prover.follow(commitments.as_chunks_mut().0, &placed(rows, edits)?).map_err(thrown)?;
        Ok(commitments)
    }

    /// `proveTogether` for `partitions` partitions, from openings that were made before edits. `entries` has, for each edit, the
    /// number of an entry in whose row it is.
    ///
    /// # Errors
    /// `length`, `index`, `point`.
    #[wasm_bindgen(js_name = proveEdited)]
    #[allow(clippy::too_many_arguments)]
    pub fn prove_edited(
        &self,
        partitions: f64,
        manifest_hash: &[u8],
        header: &[u8],
        offsets: &[u16],
        records: &[u8],
        openings: &[u8],
        entries: &[u32],
        edits: &[u8],
    ) -> Outcome<Vec<u8>> {
        let shape = shape_of([partitions, self.shape.partition_records() as f64, self.shape.record_bytes() as f64])?;
        let manifest = exactly("hash of the manifest", manifest_hash)?;
        let header = exactly("header", header)?;
        let statement = Statement::new(shape, &manifest, &header, offsets, records).map_err(thrown)?;
        expect_each("openings", openings, G1_WHOLE_BYTES, offsets.len())?;
        let proof = self.prover.prove_edited(&statement, openings.as_chunks().0, &placed(entries, edits)?);
        proof.map(|proof| proof.to_vec()).map_err(thrown)
    }

    /// Applies edits to the openings of a row, 96 bytes each.
    ///
    /// # Errors
    /// `length`, `index`, `point`.
    pub fn fold(&self, mut openings: Vec<u8>, edits: &[u8]) -> Outcome<Vec<u8>> {
        self.prover.fold(&mut openings, &edits_of(edits)?).map_err(thrown)?;
        Ok(openings)
    }
}

fn expect_each(what: &'static str, bytes: &[u8], each: usize, count: usize) -> Outcome<()> {
    if bytes.len() == each * count {
        return Ok(());
    }
    Err(thrown(Error::Length { what, expected: (each * count) as u64, actual: bytes.len() as u64 }))
}

fn edits_of(bytes: &[u8]) -> Outcome<Vec<Edit>> {
    let (edits, rest) = bytes.as_chunks::<EDIT_BYTES>();
    expect_each("edits", rest, 0, 0)?;
    edits.iter().map(Edit::from_bytes).collect::<Result<_, _>>().map_err(thrown)
}

fn placed(places: &[u32], edits: &[u8]) -> Outcome<Vec<Placed>> {
    expect_each("edits", edits, EDIT_BYTES, places.len())?;
    Ok(places.iter().map(|&place| place as usize).zip(edits_of(edits)?).collect())
}

#[wasm_bindgen]
impl CeremonyHandle {
    /// The setup from which provers are made.
    ///
    /// # Errors
    /// `transcript` if nobody has contributed yet.
    pub fn setup(&self) -> Outcome<Vec<u8>> {
        setup_of(&self.0).map_err(thrown)
    }
}

/// The proof of an answer, from the openings of its entries, 96 bytes each.
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
