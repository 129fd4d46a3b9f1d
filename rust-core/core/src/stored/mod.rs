//! What all stored forms of clients' states have in common: the frame around them, and the update that a journal stores. A store moves
//! these bytes and does not interpret them. Bytes that are torn, foreign or of another version are refused as a whole: nothing is
//! guessed, nothing used in part.
//!
//! Each scheme has its own forms: [`crate::tapir::state`], [`crate::single::state`], [`crate::local`].

pub(crate) mod frame;
mod update;

pub use frame::{Form, Received, Unsealed};
pub(crate) use update::UPDATE;
pub use update::{HintUpdate, update_in};

/// Bytes of a checkpoint's binding: the hash of the manifest it was made under.
pub const BINDING_BYTES: usize = 32;
/// Bytes of a lookup's name.
pub const NAME_BYTES: usize = 32;
/// Bytes of a hint's id.
pub const HINT_ID_BYTES: usize = 16;
/// The ChaCha stream for a hint's id.
pub(crate) const ID_STREAM: u64 = u64::MAX;

/// The kinds of effects, which are the other entries of journals: of [`crate::tapir`] and of [`crate::single`].
pub(crate) const EFFECT: [u8; 4] = *b"PIRe";
pub(crate) const SINGLE_EFFECT: [u8; 4] = *b"PISe";

/// A hint's id and version. Every stored form has them, so that bytes of another hint, or of another version, are
/// recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// random; known only to the client and, later, to the fence of the refresh server
    pub hint_id: [u8; HINT_ID_BYTES],
    /// the number of lookups and updates applied since the hint was first stored
    pub version: u64,
}
