//! The errors of this crate. Messages say what was expected and what came. They never hold an index, an offset or a key:
//! those are the user's secrets.

use thiserror::Error as ThisError;

/// Every reason for which this crate refuses its input. A call that returns one has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// Numbers (N, ℓ, Q, M) out of bounds, or a database too large for this machine's memory.
    #[error("layout: {0}")]
    Layout(String),
    /// A buffer of the wrong length.
    #[error("{what}: expected {expected} bytes, got {actual}")]
    Length {
        /// the buffer
        what: &'static str,
        /// the bytes it should have
        expected: u64,
        /// the bytes it has
        actual: u64,
    },
    /// A record index, partition or offset outside the layout.
    #[error("{what} out of range: must be below {bound}")]
    Index {
        /// the number
        what: &'static str,
        /// its exclusive bound
        bound: u64,
    },
    /// Directory bytes that are malformed, or fingerprints for which no directory was found.
    #[error("directory: {0}")]
    Directory(String),
    /// Update list bytes that are malformed, or that do not belong to the state or database they are applied to.
    #[error("update list: {0}")]
    Update(&'static str),
    /// A query of the right length that no honest client makes.
    #[error("query: {0}")]
    Query(&'static str),
    /// Stored bytes that are damaged, of another state, or of another version.
    #[error("stored state: {0}")]
    State(&'static str),
    /// A call out of order.
    #[error("call out of order: {0}")]
    Phase(&'static str),
    /// A server's answer failed verification, so the hint must never be used again.
    #[error("the hint is condemned: a server's answer failed verification; start over with a new hint")]
    Condemned,
}

impl Error {
    /// The stable name of this error's class. JavaScript sees it as the error's code.
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

/// [`Error::Length`] unless the buffer has exactly `expected` bytes.
pub(crate) fn expect_length(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), Error> {
    if bytes.len() == expected {
        Ok(())
    } else {
        Err(Error::Length { what, expected: expected as u64, actual: bytes.len() as u64 })
    }
}

/// [`Error::Index`] unless `number` is below `bound`.
pub(crate) fn expect_below(what: &'static str, number: usize, bound: usize) -> Result<(), Error> {
    if number < bound { Ok(()) } else { Err(Error::Index { what, bound: bound as u64 }) }
}
