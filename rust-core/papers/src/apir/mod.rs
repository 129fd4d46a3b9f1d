//! The authenticated baselines of TAPIR's Table 1, after Colombo and others (*Authenticated private information
//! retrieval*, 2023), as far as TAPIR's text defines them: [`dpf`] (APIR-DPF: a message authentication code in a distributed
//! point function) and [`matrix`] (APIR-Matrix-MT: linear PIR over records with their Merkle proofs). Two servers, no
//! hint, and all N records are read for each lookup. APIR-Matrix-PP, with Pointproofs in place of Merkle proofs, has no
//! row in that table beyond 2^16 and is not built here.
//!
//! Where the text is silent, the choice is here and so are its bytes; the tables say so.

pub mod dpf;
pub mod matrix;
