//! Kinds of proof, by name, and the sizes that follow from them.

use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, thrown};

/// The kind of proof JavaScript names; Merkle if it names none.
#[allow(clippy::needless_pass_by_value)] // as wasm-bindgen hands it over
pub(crate) fn proofs_named(name: Option<String>) -> Result<Proofs, Error> {
    let Some(name) = name else { return Ok(Proofs::Openings) };
    Proofs::named(&name).ok_or(Error::Index { what: "kind of proof", bound: Proofs::ALL.len() as u64 })
}

#[wasm_bindgen]
impl LayoutHandle {
    /// Bytes of an entry: ℓ′, and the opening proof if the kind named has one.
    ///
    /// # Errors
    /// `index` for a kind there is not.
    #[wasm_bindgen(js_name = entryBytes)]
    pub fn entry_bytes(&self, proofs: Option<String>) -> Outcome<usize> {
        proofs_named(proofs).map(|proofs| proofs.entry_bytes::<Merkle>(&self.0)).map_err(thrown)
    }

    /// Most queries of a request with proofs of this kind, of a generation's limit.
    ///
    /// # Errors
    /// As `entryBytes`.
    #[wasm_bindgen(js_name = batchLimit)]
    pub fn batch_limit(&self, limit: u32, proofs: Option<String>) -> Outcome<usize> {
        proofs_named(proofs).map(|proofs| proofs.max_batch(&self.0, limit as usize)).map_err(thrown)
    }

    /// The batch limit of a generation that begins with this layout.
    ///
    /// # Errors
    /// As `entryBytes`.
    #[wasm_bindgen(js_name = maxBatch)]
    pub fn max_batch(&self, proofs: Option<String>) -> Outcome<usize> {
        let proofs = proofs_named(proofs).map_err(thrown)?;
        Ok(self.0.max_batch(proofs.entry_bytes::<Merkle>(&self.0)))
    }
}
