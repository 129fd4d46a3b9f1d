//! What a database will cost, computed before any of it exists: pure formulas over a layout. [`modes`] has them for each way
//! to look up, [`Costs`] for a hint with each kind of proof, and [`Plan`] recommends one. docs/costs.md says where each formula
//! comes from and where it is measured.
//!
//! Bytes are of bodies and buffers: no HTTP, no TLS, no WebAssembly module. Traffic is that of both servers together.

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
