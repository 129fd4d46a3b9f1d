//! The authenticated baselines of TAPIR's Table 1, after Colombo and others (*Authenticated private information
//! retrieval*, 2023), as far as TAPIR's text defines them: [`dpf`] (APIR-DPF, a message authentication code in a distributed
//! point function) and [`matrix`] (APIR-Matrix-MT, linear PIR over records with their Merkle proofs). They have two servers and no
//! hint, and read all N records for each lookup. APIR-Matrix-PP, with Pointproofs instead of Merkle proofs, has no row in that
//! table beyond 2^16, and is not built here.
//!
//! Where the text is silent, this code chooses, and counts its own bytes. The tables say so.

pub mod dpf;
pub mod matrix;
