//! The server's half of every scheme: which suites there are, and answers to requests of each. A
//! query names its suite by number; one row of [`answerers`] answers it.

use crate::commitment::{Proofs, VectorCommitment};
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_below};
use crate::scheme::Answerer;
use crate::single::answer::Parities;

/// All suites there are: one for each kind of proof, and that of one server.
fn answerers<C: VectorCommitment>() -> impl Iterator<Item = &'static dyn Answerer<C>> {
    Proofs::ALL.iter().map(|proofs| proofs as &dyn Answerer<C>).chain([&Parities as &dyn Answerer<C>])
}

/// The numbers of the suites that a database answers, ascending.
pub fn suites<C: VectorCommitment>(database: &Database<C>) -> Vec<u16> {
    let mut suites: Vec<_> = answerers().filter(|one| one.serves(database)).map(Answerer::suite).collect();
    suites.sort_unstable();
    suites
}

fn answerer_of<C: VectorCommitment>(suite: u16, database: &Database<C>) -> Result<&'static dyn Answerer<C>, Error> {
    answerers()
        .find(|one| one.suite() == suite && one.serves(database))
        .ok_or(Error::Phase("this database has no such suite; ask for one that the manifest has"))
}

/// Bytes of [`answer`]'s answer to so many queries of a suite.
///
/// # Errors
/// [`Error::Phase`] as there; [`Error::Index`] if a request cannot carry so many.
pub fn answer_bytes<C: VectorCommitment>(
    suite: u16,
    database: &Database<C>,
    queries: usize,
    at: At,
) -> Result<usize, Error> {
    let answerer = answerer_of(suite, database)?;
    let layout = database.layout_at(at)?;
    expect_below("queries", queries, answerer.max_batch(layout, database.max_batch()) + 1)?;
    Ok(answerer.answer_bytes(layout, queries))
}

/// Bytes of one query of a suite, and how many a request may carry.
///
/// # Errors
/// [`Error::Phase`] as [`answer`].
pub fn query_limits<C: VectorCommitment>(suite: u16, database: &Database<C>, at: At) -> Result<(usize, usize), Error> {
    let answerer = answerer_of(suite, database)?;
    let layout = database.layout_at(at)?;
    Ok((answerer.query_bytes(layout), answerer.max_batch(layout, database.max_batch())))
}

/// Answers the body of a request of a suite: one query after the other, and the answers in the same order.
///
/// # Errors
/// [`Error::Phase`] if this database does not answer the suite, if a partition is not committed, or if there is no such
/// epoch; [`Error::Length`] if the body is not 1 to [`Answerer::max_batch`] queries; as [`Answerer::answer`].
pub fn answer<C: VectorCommitment>(
    suite: u16,
    database: &Database<C>,
    queries: &[u8],
    at: At,
) -> Result<Vec<u8>, Error> {
    let answerer = answerer_of(suite, database)?;
    let (each, limit) = query_limits(suite, database, at)?;
    let most = limit * each;
    if queries.is_empty() || !queries.len().is_multiple_of(each) || queries.len() > most {
        let expected = (queries.len().div_ceil(each) * each).clamp(each, most) as u64;
        return Err(Error::Length { what: "queries", expected, actual: queries.len() as u64 });
    }
    answerer.answer(database, queries, at)
}

impl<C: VectorCommitment> Database<C> {
    /// Answers a hint's vectors of offsets with entries that are proved in this way.
    ///
    /// # Errors
    /// As [`answer`]; [`Error::Index`] if an offset is not below M.
    pub fn answer(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(proofs.suite(), self, vectors, At::Newest)
    }

    /// The same at the epoch before the last update.
    ///
    /// # Errors
    /// As there.
    pub fn answer_previous(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(proofs.suite(), self, vectors, At::Previous)
    }
}
