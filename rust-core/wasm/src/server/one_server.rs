//! A server's half of instant lookups with one server: preparing a database, its hint, its answers, the builder's check of norms.

use keyhush_core::error::Error;
use keyhush_core::one_server::norm::Norm;
use keyhush_core::one_server::prepare::Preparing;
use keyhush_core::one_server::server::Prepared;
use wasm_bindgen::prelude::*;

use crate::one_server::{context_of, shape_of};
use crate::{Outcome, thrown};

enum State {
    Preparing(Box<Preparing>),
    Prepared(Box<Prepared>),
    /// memory ran out, or a step failed
    Failed,
}

/// A database for instant lookups with one server.
#[wasm_bindgen]
pub struct OneServerHandle(State);

impl OneServerHandle {
    fn preparing(&mut self) -> Result<&mut Preparing, Error> {
        match &mut self.0 {
            State::Preparing(preparing) => Ok(preparing),
            _ => Err(Error::Phase("the database is prepared already")),
        }
    }

    fn prepared(&self) -> Result<&Prepared, Error> {
        match &self.0 {
            State::Prepared(prepared) => Ok(prepared),
            _ => Err(Error::Phase("the database is not prepared yet; call step until it returns false")),
        }
    }
}

#[wasm_bindgen]
impl OneServerHandle {
    /// Begins to prepare N records of ℓ bytes.
    ///
    /// # Errors
    /// `layout`, `length`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        records: f64,
        record_bytes: f64,
        database_id: &[u8],
        generation: u32,
        directory: bool,
        attempt: u32,
    ) -> Outcome<OneServerHandle> {
        let begun = || {
            let shape = shape_of(records, record_bytes)?;
            Preparing::new(shape, context_of(database_id, generation, directory)?, attempt)
        };
        begun().map(|preparing| OneServerHandle(State::Preparing(Box::new(preparing)))).map_err(thrown)
    }

    /// Takes the next bytes of the N·ℓ bytes of records.
    ///
    /// # Errors
    /// `length`, `phase`.
    pub fn put(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.preparing().and_then(|preparing| preparing.put(bytes)).map_err(thrown)
    }

    /// Does some milliseconds of preparing. Returns whether there is more.
    ///
    /// # Errors
    /// `phase`.
    pub fn step(&mut self) -> Outcome<bool> {
        if matches!(self.0, State::Prepared(_)) {
            return Ok(false);
        }
        if self.preparing().and_then(Preparing::step).map_err(thrown)? {
            return Ok(true);
        }
        if let State::Preparing(preparing) = std::mem::replace(&mut self.0, State::Failed) {
            self.0 = State::Prepared(Box::new(preparing.finish().map_err(thrown)?));
        }
        Ok(false)
    }

    /// The public hint.
    ///
    /// # Errors
    /// `phase`.
    pub fn hint(&self) -> Outcome<Vec<u8>> {
        self.prepared().map(|prepared| prepared.hint().to_vec()).map_err(thrown)
    }

    /// Answers queries that lie one after the other.
    ///
    /// # Errors
    /// `length`, `phase`.
    pub fn answer(&self, requests: &[u8]) -> Outcome<Vec<u8>> {
        self.prepared().and_then(|prepared| prepared.answer(requests)).map_err(thrown)
    }
}

/// The builder's check of norms, in the making.
#[wasm_bindgen]
pub struct OneServerNormHandle(Norm);

#[wasm_bindgen]
impl OneServerNormHandle {
    /// Begins the check of a prepared database.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(constructor)]
    pub fn new(database: &OneServerHandle) -> Outcome<OneServerNormHandle> {
        database.prepared().map(|prepared| OneServerNormHandle(Norm::new(prepared))).map_err(thrown)
    }

    /// Does the next step, which takes as long as two answers. Returns whether there is more.
    ///
    /// # Errors
    /// `phase`.
    pub fn step(&mut self, database: &OneServerHandle) -> Outcome<bool> {
        database.prepared().and_then(|prepared| self.0.step(prepared)).map_err(thrown)
    }

    /// The logarithm, to base 2, of the norm.
    #[wasm_bindgen(getter)]
    pub fn log2(&self) -> f64 {
        self.0.log2()
    }

    /// Whether the clients' own noise hides what an answer's error tells; false before the last step.
    #[wasm_bindgen(getter)]
    pub fn hides(&self) -> bool {
        self.0.hides()
    }
}
