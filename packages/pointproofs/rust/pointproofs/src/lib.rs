//! Pointproofs (Gorbunov, Reyzin, Wee, Zhang, CCS 2020) over rows of 256 records: TAPIR (§6) calls it TAPIR-PP. Here it has a
//! form that a browser can use. One proof of 48 bytes is for a whole answer. Bytes in, bytes out; callers pass randomness in.
//!
//! Commitments are to rows, not to partitions. So one setup serves databases of every size, and a client's key has 49 KB.
//! The bytes are in docs/protocol.md, Pointproofs. What they prove, and to whom, is in docs/threat-model.md, Pointproofs.
//!
//! - scalar, statement: what is proved
//! - key, verify: the client's half
//! - transcript: the ceremony that makes the key
//! - prover: the server's half; the rest can be built without it
//! - receipt: evidence that this machine has finished its work
//!
//! The server and the client use different crates for the curve. The table has milliseconds of processor time, on a shared
//! machine whose two cores were busy (22 November 2026; natively by `cargo run --release -p keyhush-pointproofs --example
//! figures` in packages/pointproofs/rust, in WebAssembly by `node tests/run.mjs pointproofs`):
//!
//! |                                          | native | WebAssembly |
//! |------------------------------------------|--------|-------------|
//! | ark-bls12-381 0.6.0: a pair of 18        | 0.44   | –           |
//! | ark-bls12-381 0.6.0: multiply in G1      | 0.14   | –           |
//! | bls12_381 0.9.0: a pair of 18            | 0.39   | –           |
//! | bls12_381 0.9.0: multiply in G1          | 0.35   | –           |
//! | ceremony: contribute                     | 303    | 1379        |
//! | ceremony: verify                         | 232    | 1200        |
//! | commit to and open a record              | 0.30   | 1.8         |
//! | hold a record to its row list, of 65 536 | –      | 0.012       |
//! | one proof of 16 entries, at the server   | 0.49   | 3.3         |
//! | … with 128 edits since their openings    | –      | 8.6         |
//! | 32 row commitments after 500 edits       | –      | 87          |
//! | fold edits into a row's 256 openings     | –      | 312         |
//! | verify both answers of a lookup, Q = 16  | 19     | 104         |
//! | read the key                             | 0.2    | 3.0         |
//!
//! Both crates take about the same time for pairings. `bls12_381` takes the same steps whatever the values are: verifying and a
//! ceremony's secrets need that. But it does not show the coordinates of its points. `ark-bls12-381` shows them, so the many
//! additions of openings can share inversions. Clients load a WebAssembly module with `bls12_381` alone: 81 kB in brotli.

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
pub use verify::{PROOF_BYTES, Rows, Verification, hazmat, row_list_bytes, verify};
