//! Instant lookups with one server: a client's queries. The server's half is in `server`.

use keyhush_core::error::Error;
use keyhush_core::one_server::client::Query;
use keyhush_core::one_server::{Context, Of, Shape};
use wasm_bindgen::prelude::*;

use crate::{Outcome, WipesStack, exactly, thrown, whole};

pub(crate) fn shape_of(records: f64, record_bytes: f64) -> Result<Shape, Error> {
    Shape::new(whole(records), whole(record_bytes))
}

pub(crate) fn context_of(database_id: &[u8], generation: u32, directory: bool) -> Result<Context, Error> {
    let of = if directory { Of::Directory } else { Of::Records };
    Ok(Context { database_id: exactly("database id", database_id)?, generation, of })
}

/// The sizes for N records of ℓ bytes: bytes of a query, an answer and a hint, columns, outputs, the most queries of a request, and the
/// memory of a prepared database.
///
/// # Errors
/// `layout`.
#[wasm_bindgen(js_name = oneServerSizes)]
#[allow(clippy::cast_precision_loss)] // memory has less than 2^53 bytes
pub fn one_server_sizes(records: f64, record_bytes: f64) -> Outcome<Vec<f64>> {
    let shape = shape_of(records, record_bytes).map_err(thrown)?;
    let lengths = [shape.request_bytes(), shape.answer_bytes(), shape.hint_bytes()];
    let counts = [shape.columns(), shape.outputs(), shape.max_queries(), shape.server_bytes()];
    Ok(lengths.into_iter().chain(counts).map(|size| size as f64).collect())
}

/// Queries for one server whose answers have not arrived.
#[wasm_bindgen]
pub struct OneServerQueryHandle(Query, WipesStack);

#[wasm_bindgen]
impl OneServerQueryHandle {
    /// Makes queries for some record indices of N records of ℓ bytes, from 32 bytes of fresh entropy.
    ///
    /// # Errors
    /// `layout`, `index`, `length`.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::too_many_arguments)] // a call of JavaScript carries numbers and bytes
    pub fn new(
        records: f64,
        record_bytes: f64,
        database_id: &[u8],
        generation: u32,
        directory: bool,
        manifest_hash: &[u8],
        indices: &[u32],
        entropy: &[u8],
    ) -> Outcome<OneServerQueryHandle> {
        let made = || {
            let shape = shape_of(records, record_bytes)?;
            let context = context_of(database_id, generation, directory)?;
            Query::new(
                shape,
                context,
                &exactly("manifest hash", manifest_hash)?,
                indices,
                &exactly("entropy", entropy)?,
            )
        };
        made().map(|query| OneServerQueryHandle(query, WipesStack)).map_err(thrown)
    }

    /// The queries, in order.
    pub fn request(&self) -> Vec<u8> {
        self.0.request().to_vec()
    }

    /// Draws some of the own noise. Returns whether there is more.
    pub fn expand(&mut self) -> bool {
        self.0.expand()
    }

    /// The records, or none if a row of any column was wrong. It can be called once.
    ///
    /// # Errors
    /// `length`, `phase`.
    pub fn decode(&mut self, hint: &[u8], answers: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let records = self.0.decode(hint, answers).map_err(thrown)?;
        Ok(records.map(|records| records.to_vec()))
    }
}
