//! The stored forms of a client's state. A store moves these bytes and does not interpret them. Bytes that are torn, foreign
//! or of another version are refused as a whole: nothing is guessed, nothing used in part.
//!
//! | form | kind | what it is |
//! |---|---|---|
//! | [`partial`] | `PIRb` | a hint in the making, with some partitions folded |
//! | [`checkpoint`] | `PIRc` | a whole hint: permutations and parities |
//! | [`pending`] | `PIRp` | a batch whose vectors may have been sent |
//! | [`effect`] | `PIRe` | how a batch changed the hint |
//! | [`update`] | `PIRu` | how an epoch changed the hint |
//!
//! A journal of effects and updates follows each checkpoint.

pub mod checkpoint;
pub mod effect;
pub(crate) mod frame;
pub mod journal;
pub mod partial;
pub mod pending;
pub mod update;

pub use frame::{Form, Received, Unsealed};

/// Bytes of a checkpoint's binding: the hash of the manifest it was made under.
pub const BINDING_BYTES: usize = 32;
