//! The stored forms of a client's state ([`crate::stored`]).
//!
//! | form | kind | what it is |
//! |---|---|---|
//! | [`partial`] | `PISb` | hints in the making, with some partitions folded |
//! | [`checkpoint`] | `PISc` | whole hints, backups and tags |
//! | [`pending`] | `PISp` | a lookup whose queries may have been sent |
//! | [`effect`] | `PISe` | how a lookup changed the hint |
//!
//! A journal follows each checkpoint. It has effects, and updates ([`crate::stored::HintUpdate`]), with
//! entropy of zeros.

pub mod checkpoint;
pub mod effect;
pub mod partial;
pub mod pending;
