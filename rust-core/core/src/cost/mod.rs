//! Computes what a database will cost, before any of it exists: formulas over a layout. [`modes`] has them for each mode,
//! [`Costs`] for a hint with each kind of proof. [`Plan`] recommends a kind of proof. docs/costs.md says where each formula
//! comes from, and where it is measured.
//!
//! Bytes count bodies and buffers, without HTTP, TLS and the WebAssembly module. Traffic counts both servers together.

mod hint;
mod modes;
mod plan;
mod sizes;
mod workload;

pub use hint::{Costs, suitable_proofs};
pub use modes::{DirectorySize, Held, Mode, ModeCosts, Offers, choose_mode, modes};
pub use plan::Plan;
pub use sizes::journal_limit;
pub use workload::{DEFAULT_MEMORY_BYTES, DEFAULT_PACK, Workload};
