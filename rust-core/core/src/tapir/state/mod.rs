//! The stored forms of a client's state ([`crate::stored`]).
//!
//! | form | kind | what it is |
//! |---|---|---|
//! | [`partial`] | `PIRb` | a hint in the making, with some partitions folded |
//! | [`checkpoint`] | `PIRc` | a whole hint: permutations and parities |
//! | [`pending`] | `PIRp` | a lookup whose vectors may have been sent |
//! | [`effect`] | `PIRe` | how a lookup changed the hint |
//! | [`crate::stored::HintUpdate`] | `PIRu` | how an epoch changed the hint |
//!
//! A journal of effects and updates follows each checkpoint.

pub mod checkpoint;
pub mod effect;
pub mod journal;
pub mod partial;
pub mod pending;
