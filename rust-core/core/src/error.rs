//! What can go wrong, as a type. Messages say what was expected and what came, and never hold an index, an offset
//! or a key: those are the user's secrets.

use thiserror::Error as ThisError;

/// Every way in which this crate refuses its input. Nothing is changed when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// (N, ℓ, Q, M) that cannot be, or that do not fit into memory here.
    #[error("layout: {0}")]
    Layout(String),
    /// A buffer of the wrong length.
    #[error("{what}: expected {expected} bytes, got {actual}")]
    Length {
        /// which buffer
        what: &'static str,
        /// bytes it should have
        expected: u64,
        /// bytes it has
        actual: u64,
    },
    /// A record index, partition or offset outside the layout.
    #[error("{what} out of range: must be below {bound}")]
    Index {
        /// which number
        what: &'static str,
        /// its exclusive bound
        bound: u64,
    },
    /// Directory bytes that are malformed, or fingerprints that cannot be placed.
    #[error("directory: {0}")]
    Directory(String),
    /// Update list bytes that are malformed, or do not fit what they are to be applied to.
    #[error("update list: {0}")]
    Update(&'static str),
    /// A query of the right length that no client makes.
    #[error("query: {0}")]
    Query(&'static str),
    /// State bytes that are torn, foreign or of another version.
    #[error("stored state: {0}")]
    State(&'static str),
    /// A call out of order.
    #[error("call out of order: {0}")]
    Phase(&'static str),
    /// The hint must never be used again.
    #[error("the hint is condemned: a server's answer failed verification; start over with a new hint")]
    Condemned,
}

impl Error {
    /// The stable name of the error's class, as the JavaScript bindings show it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Layout(_) => "layout",
            Error::Length { .. } => "length",
            Error::Index { .. } => "index",
            Error::Directory(_) => "directory",
            Error::Update(_) => "update",
            Error::Query(_) => "query",
            Error::State(_) => "state",
            Error::Phase(_) => "phase",
            Error::Condemned => "condemned",
        }
    }
}

/// Refuses a buffer that does not have exactly `expected` bytes.
pub(crate) fn expect_length(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), Error> {
    if bytes.len() == expected {
        Ok(())
    } else {
        Err(Error::Length { what, expected: expected as u64, actual: bytes.len() as u64 })
    }
}

/// Refuses a number that is not below `bound`.
pub(crate) fn expect_below(what: &'static str, number: usize, bound: usize) -> Result<(), Error> {
    if number < bound { Ok(()) } else { Err(Error::Index { what, bound: bound as u64 }) }
}
