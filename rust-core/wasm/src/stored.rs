//! Stored forms on their way out and in, piece by piece, and the memory that they take.

use keyhush_core::error::Error;
use keyhush_core::tapir::state::{Received, Unsealed};
use wasm_bindgen::prelude::*;

use crate::{Outcome, WipesStack, thrown};

/// A stored form, written but for its checksum.
#[wasm_bindgen]
pub struct StoredFormHandle(Option<Unsealed>, WipesStack);

impl StoredFormHandle {
    pub(crate) fn new(form: Unsealed) -> Self {
        StoredFormHandle(Some(form), WipesStack)
    }

    fn form(&mut self) -> Outcome<&mut Unsealed> {
        self.0.as_mut().ok_or_else(|| thrown(Error::Phase("the stored form was taken")))
    }
}

#[wasm_bindgen]
impl StoredFormHandle {
    /// Bytes that are left of it.
    ///
    /// # Errors
    /// `phase`.
    pub fn left(&mut self) -> Outcome<usize> {
        self.form().map(|form| form.left())
    }

    /// Its next piece, some hundred kilobytes, which is hashed first; empty: that was all of it.
    ///
    /// # Errors
    /// `phase`.
    pub fn piece(&mut self) -> Outcome<Vec<u8>> {
        self.form().map(|form| form.piece().unwrap_or_default())
    }

    /// All that is left of it, once.
    ///
    /// # Errors
    /// `phase`.
    pub fn take(&mut self) -> Outcome<Vec<u8>> {
        self.form()?;
        Ok(self.0.take().map(Unsealed::seal).unwrap_or_default())
    }
}

/// A stored form that is handed over piece by piece, to be read when all of it is there.
#[wasm_bindgen]
pub struct ReceivedFormHandle(pub(crate) Received, WipesStack);

#[wasm_bindgen]
impl ReceivedFormHandle {
    /// Of so many bytes.
    ///
    /// # Errors
    /// `layout`, if memory does not suffice.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: usize) -> Outcome<ReceivedFormHandle> {
        Received::new(bytes).map(|received| ReceivedFormHandle(received, WipesStack)).map_err(thrown)
    }

    /// Takes the next bytes, and hashes them.
    ///
    /// # Errors
    /// `length`, if they are too many.
    pub fn take(&mut self, piece: &[u8]) -> Outcome<()> {
        self.0.take(piece).map_err(thrown)
    }
}

/// What a step touches: a few milliseconds, where pages come slowly.
const STEP_BYTES: usize = 1 << 20;

/// Memory that nobody has used yet comes from the system page by page, each when it is first written, and tens of megabytes of
/// it in one go hold a page up for longer than what is done with them. This has it come in steps, for what is allocated once
/// this is freed.
#[wasm_bindgen]
pub struct RoomHandle(Vec<u8>);

#[wasm_bindgen]
impl RoomHandle {
    /// So many bytes in one piece, none of which have come yet; none at all if they cannot be had.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: usize) -> RoomHandle {
        let mut room = Vec::new();
        let _ = room.try_reserve_exact(bytes);
        RoomHandle(room)
    }

    /// Has some of them come; whether there are more.
    pub fn step(&mut self) -> bool {
        self.0.resize(self.0.capacity().min(self.0.len() + STEP_BYTES), 0);
        self.0.len() < self.0.capacity()
    }
}
