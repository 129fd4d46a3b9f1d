//! Mode `full`: TAPIR (Figs. 4–6), over SinglePass. The client's hint and queries, the server's answers, and updates.

pub mod answer;
mod client;
pub mod hint;
pub mod permutation;
pub mod query;
pub mod recon;
pub mod state;
pub mod update;
