//! What can go wrong. A lookup that fails has still sent what a lookup sends, unless a variant says otherwise.

use std::fmt::Display;

use thiserror::Error;

/// Why a call was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// A message, parameter or index that cannot be right. If it is an answer, the query has been sent: see the crate's
    /// *When an answer does not come*.
    #[error("{what}: expected {expected}, got {got}")]
    Bad {
        /// what was looked at
        what: &'static str,
        /// what would have been right
        expected: String,
        /// what came
        got: String,
    },
    /// No hint contains the record (negligible at the papers' parameters). A query that tells nothing was sent, and nothing is
    /// consumed, so that asking again fails as well; whoever retries shows that it failed.
    #[error("no hint contains this record; a query that tells nothing was sent: run the offline phase again")]
    Unlucky,
    /// The hints, or the cells of a shuffled database, are used up. Nothing was sent; run the offline phase again.
    #[error("used up: run the offline phase again")]
    Exhausted,
    /// This client has asked for it before, and asking again would show that. Nothing was sent.
    #[error("asked before by this client, and asking again would show it: keep what was found")]
    Repeated,
    /// An answer that does not fit its proof.
    #[error("a server's answer was tampered with")]
    Tampered,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    Entropy,
}

/// [`Error::Bad`], in one line.
#[allow(clippy::needless_pass_by_value)] // literals and `format_args!`
pub(crate) fn bad(what: &'static str, expected: impl Display, got: impl Display) -> Error {
    Error::Bad { what, expected: expected.to_string(), got: got.to_string() }
}

/// Refuses a message of another length.
pub(crate) fn expect_bytes(what: &'static str, message: &[u8], bytes: usize) -> Result<(), Error> {
    if message.len() == bytes {
        return Ok(());
    }
    Err(bad(what, format_args!("{bytes} bytes"), format_args!("{} bytes", message.len())))
}
