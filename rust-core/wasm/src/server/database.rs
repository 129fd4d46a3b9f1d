//! A database: its records, its commitments, and its answers at two epochs.

use keyhush_core::commitment::Merkle;
use keyhush_core::database::flat::{At, Database};
use keyhush_core::suites;
use wasm_bindgen::prelude::*;

use crate::proofs::proofs_named;
use crate::{LayoutHandle, Outcome, thrown};

/// A server's database.
#[wasm_bindgen]
pub struct DatabaseHandle(pub(crate) Database<Merkle>);

#[wasm_bindgen]
impl DatabaseHandle {
    /// An all-zero database. For tags only, it keeps no trees, and its commitments are zeros. With Pointproofs, answers have room
    /// for a proof, which the caller makes. `max_queries` is the query limit with which its generation began; it is needed if this
    /// layout is not the generation's first.
    ///
    /// # Errors
    /// `layout`, `index` for an unknown kind of proof.
    #[wasm_bindgen(constructor)]
    pub fn new(layout: &LayoutHandle, proofs: Option<String>, max_queries: Option<u32>) -> Outcome<DatabaseHandle> {
        proofs_named(proofs)
            .and_then(|proofs| Database::offering(layout.0, proofs))
            .and_then(|database| match max_queries {
                Some(limit) => database.with_max_queries(limit as usize),
                None => Ok(database),
            })
            .map(DatabaseHandle)
            .map_err(thrown)
    }

    /// The address of the Q·M·ℓ bytes of records.
    #[wasm_bindgen(js_name = recordsPointer)]
    pub fn records_pointer(&mut self) -> usize {
        self.0.records_mut().as_ptr() as usize
    }

    /// `length` bytes of the records from byte `start` on, as they were at the previous epoch.
    ///
    /// # Errors
    /// `phase`, `index`.
    #[wasm_bindgen(js_name = previousBytes)]
    pub fn previous_bytes(&self, start: usize, length: usize) -> Outcome<Vec<u8>> {
        self.0.previous_bytes(start..start + length).map_err(thrown)
    }

    /// Hashes a partition and builds its tree.
    ///
    /// # Errors
    /// `index`.
    pub fn commit(&mut self, partition: usize) -> Outcome<()> {
        self.0.commit(partition).map_err(thrown)
    }

    /// The commitment to a partition: 32 bytes.
    ///
    /// # Errors
    /// `index`, `phase`.
    pub fn commitment(&self, partition: usize) -> Outcome<Vec<u8>> {
        self.0.commitment(partition).map(|digest| digest.to_vec()).map_err(thrown)
    }

    /// The content hash of a partition: 32 bytes.
    ///
    /// # Errors
    /// `index`, `phase`.
    #[wasm_bindgen(js_name = contentHash)]
    pub fn content_hash(&self, partition: usize) -> Outcome<Vec<u8>> {
        self.0.content_hash(partition).map(|digest| digest.to_vec()).map_err(thrown)
    }

    /// The commitments of all partitions: 32·Q bytes.
    ///
    /// # Errors
    /// `phase`.
    pub fn commitments(&self) -> Outcome<Vec<u8>> {
        self.0.commitments().map_err(thrown)
    }

    /// The content hashes of all partitions: 32·Q bytes.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = contentHashes)]
    pub fn content_hashes(&self) -> Outcome<Vec<u8>> {
        self.0.content_hashes().map_err(thrown)
    }

    /// Answers the queries of a suite; of suite 1 if no number is given.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    pub fn answer(&self, queries: &[u8], suite: Option<u16>) -> Outcome<Vec<u8>> {
        suites::answer(suite.unwrap_or(1), &self.0, queries, At::Newest).map_err(thrown)
    }

    /// Answers at the epoch before the last batch.
    ///
    /// # Errors
    /// `length`, `index`, `phase`.
    #[wasm_bindgen(js_name = answerPrevious)]
    pub fn answer_previous(&self, queries: &[u8], suite: Option<u16>) -> Outcome<Vec<u8>> {
        suites::answer(suite.unwrap_or(1), &self.0, queries, At::Previous).map_err(thrown)
    }

    /// The numbers of the suites that it answers.
    #[wasm_bindgen(getter)]
    pub fn suites(&self) -> Vec<u16> {
        suites::suites(&self.0)
    }

    /// The bytes of a query of a suite and the most queries of a request, at the newest or the previous epoch.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = queryLimits)]
    pub fn query_limits(&self, suite: u16, previous: bool) -> Outcome<Vec<u32>> {
        let at = if previous { At::Previous } else { At::Newest };
        let (bytes, most) = suites::query_limits(suite, &self.0, at).map_err(thrown)?;
        Ok(vec![bytes as u32, most as u32])
    }

    /// The bytes of an answer to `queries` queries of a suite, at the newest or the previous epoch.
    ///
    /// # Errors
    /// `index`, `phase`.
    #[wasm_bindgen(js_name = answerBytes)]
    pub fn answer_bytes(&self, queries: usize, suite: u16, previous: bool) -> Outcome<usize> {
        let at = if previous { At::Previous } else { At::Newest };
        suites::answer_bytes(suite, &self.0, queries, at).map_err(thrown)
    }

    /// The layout at the newest epoch.
    #[wasm_bindgen(getter)]
    pub fn layout(&self) -> LayoutHandle {
        LayoutHandle(*self.0.layout())
    }

    /// The most queries of a request, for the life of its generation.
    #[wasm_bindgen(getter, js_name = maxQueries)]
    pub fn max_queries(&self) -> usize {
        self.0.max_queries()
    }
}
