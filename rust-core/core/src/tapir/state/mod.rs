//! The stored forms of client state. A store moves these bytes and never looks into them; what is torn, foreign or of
//! another version is refused, never guessed, never partly used.
//!
//! | form | kind | what it is |
//! |---|---|---|
//! | [`partial`] | `PIRb` | a hint in the making, after some of its partitions |
//! | [`checkpoint`] | `PIRc` | a whole hint: permutations and parities |
//! | [`pending`] | `PIRp` | a batch whose vectors have been, or may have been, sent |
//! | [`effect`] | `PIRe` | what applying a batch changed |
//! | [`update`] | `PIRu` | what an epoch changed |
//!
//! A journal of effects and updates follows a checkpoint.

pub mod checkpoint;
pub mod effect;
pub(crate) mod frame;
pub mod journal;
pub mod partial;
pub mod pending;
pub mod update;

pub use frame::{Form, Received, Unsealed};

/// Bytes of what a checkpoint is bound to: the hash of the manifest it was made under.
pub const BINDING_BYTES: usize = 32;
