//! What can go wrong, as a type. Messages never hold an offset or a record: those are the user's secrets.

use thiserror::Error as ThisError;

/// Every way in which this crate refuses its input. Nothing is changed when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
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
    /// A number outside its range.
    #[error("{what} out of range: must be below {bound}")]
    Index {
        /// which number
        what: &'static str,
        /// its exclusive bound
        bound: u64,
    },
    /// Bytes that are no canonical point of the curve in the subgroup, or the identity where there may be none.
    #[error("{0}: no canonical point of BLS12-381's subgroup, or the identity")]
    Point(&'static str),
    /// A verifier's key that must not be used.
    #[error("verifier's key: {0}")]
    Key(&'static str),
    /// Row commitments that are not those of this key.
    #[error("row list: {0}")]
    Rows(&'static str),
    /// A transcript of a ceremony that nobody may rely on.
    #[error("transcript: {0}")]
    Transcript(&'static str),
    /// A contributor's name that cannot stand in a transcript.
    #[error("name of a contributor: {0}")]
    Name(&'static str),
}

impl Error {
    /// The stable name of the error's class, as the JavaScript bindings show it.
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

/// Refuses a buffer that does not have exactly `expected` bytes.
pub(crate) fn expect_length(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), Error> {
    if bytes.len() == expected {
        Ok(())
    } else {
        Err(Error::Length { what, expected: expected as u64, actual: bytes.len() as u64 })
    }
}
