//! The kinds of proof that packages of their own make and verify, a row each. This crate leaves room for one proof after all
//! entries of an answer, which are records alone. The caller passes the verdict of the package.

/// What this crate has to know of such a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packaged {
    /// in the manifest's JSON, in options and in the bindings
    pub name: &'static str,
    /// of queries and answers with these proofs
    pub suite: u16,
    /// what stands in stored forms for a hint with these proofs, in place of tags
    pub mark: u32,
    /// the proof after the entries of an answer
    pub answer_bytes: usize,
    /// the most entries of an answer, unless a single query has more
    pub max_entries: usize,
    /// what manifests have more
    pub manifest_bytes: u64,
    /// the key that verifies, which a client fetches and holds
    pub key_bytes: u64,
    /// records that one row commitment covers
    pub row_records: usize,
    /// a row commitment; a client holds all, and an update list brings those that have changed
    pub row_bytes: u64,
    /// the head of a partition's row commitments
    pub row_list_header_bytes: u64,
    /// what a server keeps for each record
    pub opening_bytes: u64,
    /// nanoseconds that a server takes to prove an entry (`node tests/run.mjs speeds`)
    pub entry_nanos: u64,
}

/// All of them.
pub const PACKAGED: &[Packaged] = &[
    // packages/pointproofs (docs/protocol.md, Pointproofs)
    Packaged {
        name: "pointproofs",
        suite: 6,
        mark: 3,
        answer_bytes: 48,
        max_entries: 256, // verifying takes a pairing for each
        manifest_bytes: 104,
        key_bytes: 49_292,
        row_records: 256,
        row_bytes: 48,
        row_list_header_bytes: 32,
        opening_bytes: 96,
        entry_nanos: 300_000,
    },
];
