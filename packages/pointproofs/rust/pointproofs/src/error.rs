//! The errors of this crate. Messages never hold an offset or a record: those are the user's secrets.

use thiserror::Error as ThisError;

/// Every reason for which this crate refuses its input. A call that returns one has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
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
    /// A number outside its range.
    #[error("{what} out of range: must be below {bound}")]
    Index {
        /// the number
        what: &'static str,
        /// its exclusive bound
        bound: u64,
    },
    /// Bytes that are no canonical point of the curve in the subgroup, or that are the identity where it is not allowed.
    #[error("{0}: expected a canonical point of BLS12-381's subgroup, and not the identity")]
    Point(&'static str),
    /// A verifier's key that must not be used.
    #[error("verifier's key: {0}")]
    Key(&'static str),
    /// Row commitments that do not belong to this key.
    #[error("row list: {0}")]
    Rows(&'static str),
    /// A transcript of a ceremony that must not be relied on.
    #[error("transcript: {0}")]
    Transcript(&'static str),
    /// A contributor's name that a transcript cannot have.
    #[error("name of a contributor: {0}")]
    Name(&'static str),
}

impl Error {
    /// The stable name of this error's class. JavaScript sees it as the error's code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Length { .. } => "length",
            Error::Index { .. } => "index",
            Error::Point(_) => "point",
            Error::Key(_) => "key",
            Error::Rows(_) => "rows",
            Error::Transcript(_) => "transcript",
            Error::Name(_) => "name",
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
