//! Stored forms, passed to and from JavaScript piece by piece, and memory for them.

use keyhush_core::error::Error;
use keyhush_core::stored::{Received, Unsealed};
use wasm_bindgen::prelude::*;

use crate::{Outcome, WipesStack, thrown};

/// A stored form without its checksum.
#[wasm_bindgen]
pub struct StoredFormHandle(Option<Unsealed>, WipesStack);

impl StoredFormHandle {
    pub(crate) fn new(form: Unsealed) -> Self {
        StoredFormHandle(Some(form), WipesStack)
    }

    fn form(&mut self) -> Outcome<&mut Unsealed> {
        self.0.as_mut().ok_or_else(|| thrown(Error::Phase("the stored form was taken already")))
    }
}

#[wasm_bindgen]
impl StoredFormHandle {
    /// The number of bytes left.
    ///
    /// # Errors
    /// `phase`.
    pub fn left(&mut self) -> Outcome<usize> {
        self.form().map(|form| form.left())
    }

    /// The next piece, about 256 KiB, which is hashed first; empty after the last one.
    ///
    /// # Errors
    /// `phase`.
    pub fn piece(&mut self) -> Outcome<Vec<u8>> {
        self.form().map(|form| form.piece().unwrap_or_default())
    }

    /// All bytes that are left. They can be taken once.
    ///
    /// # Errors
    /// `phase`.
    pub fn take(&mut self) -> Outcome<Vec<u8>> {
        self.form()?;
        Ok(self.0.take().map(Unsealed::seal).unwrap_or_default())
    }
}

/// A stored form that arrives piece by piece. It can be read when it is complete.
#[wasm_bindgen]
pub struct ReceivedFormHandle(pub(crate) Received, WipesStack);

#[wasm_bindgen]
impl ReceivedFormHandle {
    /// An empty form that will have `bytes` bytes.
    ///
    /// # Errors
    /// `layout`, if memory does not suffice.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: usize) -> Outcome<ReceivedFormHandle> {
        Received::new(bytes).map(|received| ReceivedFormHandle(received, WipesStack)).map_err(thrown)
    }

    /// Appends the next bytes, and hashes them.
    ///
    /// # Errors
    /// `length` if they are too many.
    pub fn take(&mut self, piece: &[u8]) -> Outcome<()> {
        self.0.take(piece).map_err(thrown)
    }
}

/// Bytes written in one step: some milliseconds, on systems where pages come slowly.
const STEP_BYTES: usize = 1 << 20;

/// Makes the system provide memory in steps. A system provides unused memory page by page, when each page is first written.
/// Tens of megabytes at once would block a web page for longer than the work with them takes. When this is freed, allocations
/// get its memory.
#[wasm_bindgen]
pub struct RoomHandle(Vec<u8>);

#[wasm_bindgen]
impl RoomHandle {
    /// Reserves `bytes` bytes in one piece; none if memory does not suffice. No page has been written yet.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: usize) -> RoomHandle {
        let mut room = Vec::new();
        let _ = room.try_reserve_exact(bytes);
        RoomHandle(room)
    }

    /// Writes some pages. Returns whether there are more.
    pub fn step(&mut self) -> bool {
        self.0.resize(self.0.capacity().min(self.0.len() + STEP_BYTES), 0);
        self.0.len() < self.0.capacity()
    }
}
