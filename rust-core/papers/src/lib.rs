//! The published schemes of private information retrieval with preprocessing, side by side: readable enough to learn
//! them from, fast enough to compare with. Nothing here answers the product's lookups; that is `rust-core/core`.
//!
//! Client, servers and the lines between them are in one process. A line carries bytes and counts them
//! ([`channel::Channel`]), so the tables of docs/papers.md (`npm run papers`) count what would cross a
//! network, headers apart.
//!
//! | module | paper | servers | what a lookup costs, N records of ℓ bytes |
//! |---|---|---|---|
//! | [`singlepass`] | Lazzaretti, Papamanthou 2024 | 2 | Q offsets up, Q records down, at each server |
//! | [`s3pir::two_servers`] | Mughees, Sun, Ren 2023 | 2 | √N offsets and √N bits up to the online server alone, two records down from each |
//! | [`s3pir::one_server`] | the same | 1 | √N offsets up, two records down; λ√N/2 lookups, then a new download |
//! | [`treepir`] | Lazzaretti, Papamanthou 2023 | 2 | ½·log N seeds up, √N records down, at each |
//! | [`pai`] | Li and others 2024 | 1 | 16 bytes up, ℓ + 16 down; a re-encrypted database a client at the server |
//! | [`pai::keyword`], [`pai::chargeable`] | the same | 1 | keys in place of indices |
//! | [`apir::dpf`], [`apir::matrix`] | Colombo and others 2023, as TAPIR's Table 1 | 2 | all N records read by the servers, no hint |
//!
//! Every module opens with the figure it implements, what its privacy rests on, where it departs from the published
//! text, and what an attacker gets from the text taken as it stands. A departure that matters is a variant of the
//! module's `Deviation`: tests plant it and show the attack.
//!
//! All servers are semi-honest but those of [`apir`]: a client of the other schemes believes what it is told, and
//! **a lying server can learn from whether a lookup seems to fail**. Nothing here is hardened against timing.
//!
//! # When an answer does not come
//!
//! The papers do not say, and these clients do not treat it: **a client whose lookup failed after its query was sent must not be
//! used again.** Made anew from the same hint, the query of S3PIR and TreePIR shows what changed between the two; SinglePass
//! has moved its permutations and not its parities; Pai's cell has been asked for. What it takes (the same bytes again, before
//! anything else is asked) is a large part of what the product does.
//!
//! Words: a *record* has ℓ bytes; a *partition* is a run of records; a *hint* is what the client keeps, one *parity*
//! (XOR of records) and what says of which; *offline* is before the first lookup, *online* is a lookup.

// One error type, whose variants say when they are met; what panics is this crate's own mistake, not a caller's; and a reader
// is not helped by `#[must_use]` on every getter.
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]
#![allow(clippy::needless_for_each)] // a loop that is one line

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
