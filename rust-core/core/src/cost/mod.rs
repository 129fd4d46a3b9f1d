//! Computes what a database will cost, before any of it exists: formulas over a layout. [`modes`] has them for each mode,
//! [`Costs`] for a hint with each kind of proof. [`Advice`] says which mode serves how many lookups. docs/costs.md says where each
//! formula comes from, and where it is measured.
//!
//! Bytes count bodies and buffers, without HTTP, TLS and the WebAssembly module. Traffic counts both servers together.

mod choice;
mod hint;
mod modes;
mod plan;
mod sizes;
mod workload;

pub use choice::{Advice, Offers, choose_mode};
pub use hint::{Costs, suitable_proofs};
pub use modes::{DirectorySize, Held, Mode, ModeCosts, modes};
pub use plan::Plan;
pub use sizes::journal_limit;
pub use workload::{DEFAULT_MEMORY_BYTES, DEFAULT_PACK, Workload};
