//! Pointproofs (Gorbunov, Reyzin, Wee, Zhang, CCS 2020) over rows of 256 records: what TAPIR (§6) calls TAPIR-PP, in a form a
//! browser can use. One 48-byte proof is for a whole answer. Bytes in, bytes out; randomness is handed in.
//!
//! Rows, not partitions, are committed to: one setup serves databases of every size, and a client's key has 49 KB.
//! docs/protocol.md, Pointproofs, has the bytes; docs/threat-model.md, Pointproofs, what they prove and to whom.
//!
//! - scalar, statement: what is proved
//! - key, verify: a client's half
//! - transcript: the ceremony that makes the key
//! - prover: a server's half, without which the rest can be built
//! - receipt: that a machine has done its work

mod error;
mod key;
mod point;
#[cfg(feature = "prover")]
pub mod prover;
pub mod receipt;
pub mod scalar;
mod statement;
pub mod transcript;
mod verify;

pub use error::Error;
pub use key::{KEY_BYTES, Key};
pub use point::{G1_BYTES, G1_WHOLE_BYTES};
pub use statement::{COEFFICIENT_BYTES, HASH_BYTES, HEADER_BYTES, ROW_RECORDS, Shape, Statement};
pub use verify::{PROOF_BYTES, Rows, hazmat, row_list_bytes, verify};
