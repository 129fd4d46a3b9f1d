//! TAPIR (Figs. 4–6), over SinglePass: the client's permutations, parities and queries, and what updates do to them.

pub mod answer;
mod client;
pub mod hint;
pub mod permutation;
pub mod query;
pub mod recon;
pub mod state;
pub mod update;
