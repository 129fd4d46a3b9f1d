//! The stored forms of a client's state, in frames as those of [`crate::tapir::state`] are.
//!
//! | form | kind | what it is |
//! |---|---|---|
//! | [`partial`] | `PISb` | hints in the making, after some of the partitions |
//! | [`checkpoint`] | `PISc` | whole hints, backups and tags |
//! | [`pending`] | `PISp` | a batch whose queries have been, or may have been, sent |
//! | [`effect`] | `PISe` | what applying a batch changed |
//!
//! A journal of effects, and of updates in the form of [`crate::tapir::state::update`] with nothing to draw from, follows a
//! checkpoint.

pub mod checkpoint;
pub mod effect;
pub mod partial;
pub mod pending;
