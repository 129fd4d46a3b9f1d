//! The published schemes of private information retrieval with preprocessing, side by side. They are readable enough to learn
//! from, and fast enough to compare with. The product does not use them; its algorithms are in `rust-core/core`.
//!
//! Client and servers run in one process. Channels between them count bytes ([`channel::Channel`]), so the tables of
//! docs/papers.md (`npm run papers`) count what would cross a network, without headers.
//!
//! | module | paper | servers | what a lookup costs, N records of ℓ bytes |
//! |---|---|---|---|
//! | [`singlepass`] | Lazzaretti, Papamanthou 2024 | 2 | Q offsets up, Q records down, at each server |
//! | [`s3pir::two_servers`] | Mughees, Sun, Ren 2023 | 2 | √N offsets and √N bits up to the online server alone, two records down from each |
//! | [`s3pir::one_server`] | the same | 1 | √N offsets up, two records down; λ√N/2 lookups, then a new download |
//! | [`treepir`] | Lazzaretti, Papamanthou 2023 | 2 | ½·log N seeds up, √N records down, at each |
//! | [`pai`] | Li and others 2024 | 1 | 16 bytes up, ℓ + 16 down; the server keeps a re-encrypted database for each client |
//! | [`pai::keyword`], [`pai::chargeable`] | the same | 1 | keys in place of indices |
//! | [`apir::dpf`], [`apir::matrix`] | Colombo and others 2023, as TAPIR's Table 1 | 2 | all N records read by the servers, no hint |
//!
//! Each module begins with the figure that it implements, the assumptions of its privacy, its departures from the published
//! text, and what an attacker gains from the text as published. An important departure is a variant of the module's
//! `Deviation`: tests undo it and show the attack.
//!
//! All servers are semi-honest, except those of [`apir`]. Clients of the other schemes do not verify answers, so **a lying
//! server can learn from whether a lookup seems to fail**. Nothing here is hardened against timing.
//!
//! # When an answer does not come
//!
//! The papers do not say, and these clients do not handle it: **do not use a client again if a lookup failed after its query was
//! sent.** In S3PIR and TreePIR, a second query made from the same hint shows what changed between the two. In SinglePass, the
//! permutations have moved and the parities have not. In Pai, the cell has been opened. The remedy is to send the same bytes
//! again before anything else is asked; a large part of the product does that.
//!
//! Words: a *record* has ℓ bytes. A *partition* is a run of records. A *hint* is what the client keeps: a *parity* (an XOR of
//! records), and which records it has. *Offline* is before the first lookup; *online* is a lookup.

// There is one error type, whose variants say when they occur. A panic is a bug of this crate, not of a caller. `#[must_use]`
// on every getter would not help a reader.
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]
#![allow(clippy::needless_for_each)] // for loops of one line

pub mod apir;
pub mod channel;
pub mod error;
pub mod pai;
pub mod prg;
pub mod random;
pub mod records;
pub mod s3pir;
pub mod singlepass;
pub mod tables;
pub mod treepir;
pub mod xor;
