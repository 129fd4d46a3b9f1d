//! The errors of this crate. A failed lookup has sent what a lookup sends, unless the variant says otherwise.

use std::fmt::Display;

use thiserror::Error;

/// Why a call was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// A malformed message, parameter or index. If it is an answer, the query has been sent: see *When an answer does not come*
    /// in the crate's documentation.
    #[error("{what}: expected {expected}, got {got}")]
    Bad {
        /// the message, parameter or index
        what: &'static str,
        /// what was expected
        expected: String,
        /// what came
        got: String,
    },
    /// No hint contains the record (at the papers' parameters the probability is negligible). A query that reveals nothing was
    /// sent, and nothing was used up, so the same lookup fails again. A client that retries reveals the failure.
    #[error("no hint contains this record; a query that reveals nothing was sent: run the offline phase again")]
    Unlucky,
    /// The hints, or the cells of a shuffled database, are used up. Nothing was sent.
    #[error("used up: run the offline phase again")]
    Exhausted,
    /// This client has asked for the record before. Asking again would reveal that, so nothing was sent.
    #[error("this client has asked for the record before, and asking again would reveal it: keep the first answer")]
    Repeated,
    /// An answer that does not match its proof.
    #[error("a server's answer does not match its proof: do not use it")]
    Tampered,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: check its random number generator")]
    Entropy,
}

/// Makes an [`Error::Bad`].
#[allow(clippy::needless_pass_by_value)] // literals and `format_args!`
pub(crate) fn bad(what: &'static str, expected: impl Display, got: impl Display) -> Error {
    Error::Bad { what, expected: expected.to_string(), got: got.to_string() }
}

/// Refuses a message that does not have exactly `bytes` bytes.
pub(crate) fn expect_bytes(what: &'static str, message: &[u8], bytes: usize) -> Result<(), Error> {
    if message.len() == bytes {
        return Ok(());
    }
    Err(bad(what, format_args!("{bytes} bytes"), format_args!("{} bytes", message.len())))
}
