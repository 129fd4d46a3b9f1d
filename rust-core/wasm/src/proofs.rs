//! Kinds of proof, by their names, and the sizes that follow from them.

use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::error::Error;
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, thrown};

/// The kind of proof with this name; Merkle without a name.
#[allow(clippy::needless_pass_by_value)] // wasm-bindgen passes it so
pub(crate) fn proofs_named(name: Option<String>) -> Result<Proofs, Error> {
    let Some(name) = name else { return Ok(Proofs::Openings) };
    Proofs::named(&name).ok_or(Error::Index { what: "kind of proof", bound: Proofs::ALL.len() as u64 })
}

#[wasm_bindgen]
impl LayoutHandle {
    /// Bytes of an entry: ℓ′, and the opening proof if this kind has one.
    ///
    /// # Errors
    /// `index` for an unknown kind.
    #[wasm_bindgen(js_name = entryBytes)]
    pub fn entry_bytes(&self, proofs: Option<String>) -> Outcome<usize> {
        proofs_named(proofs).map(|proofs| proofs.entry_bytes::<Merkle>(&self.0)).map_err(thrown)
    }

    /// The most queries of a request with this kind of proof. `limit` is the generation's query limit.
    ///
    /// # Errors
    /// As `entryBytes`.
    #[wasm_bindgen(js_name = queryLimit)]
    pub fn query_limit(&self, limit: u32, proofs: Option<String>) -> Outcome<usize> {
        proofs_named(proofs).map(|proofs| proofs.max_queries(&self.0, limit as usize)).map_err(thrown)
    }

    /// The query limit of a generation that begins with this layout.
    ///
    /// # Errors
    /// As `entryBytes`.
    #[wasm_bindgen(js_name = maxQueries)]
    pub fn max_queries(&self, proofs: Option<String>) -> Outcome<usize> {
        let proofs = proofs_named(proofs).map_err(thrown)?;
        Ok(self.0.max_queries(proofs.entry_bytes::<Merkle>(&self.0)))
    }
}
