//! Answers queries from a database. A query names its suite by number, and [`answerers`] has the code for each suite.

use crate::commitment::{Proofs, VectorCommitment};
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_below};
use crate::scheme::Answerer;
use crate::single::answer::Parities;

/// All suites: one for each kind of proof, and the suite for one server.
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

/// The length of [`answer`]'s answer to `queries` queries of a suite.
///
/// # Errors
/// [`Error::Phase`] as [`answer`]; [`Error::Index`] for more queries than a request may carry.
pub fn answer_bytes<C: VectorCommitment>(
    suite: u16,
    database: &Database<C>,
    queries: usize,
    at: At,
) -> Result<usize, Error> {
    let answerer = answerer_of(suite, database)?;
    let layout = database.layout_at(at)?;
    expect_below("queries", queries, answerer.max_queries(layout, database.max_queries()) + 1)?;
    Ok(answerer.answer_bytes(layout, queries))
}

/// The bytes of one query of a suite, and the most queries of a request.
///
/// # Errors
/// [`Error::Phase`] as [`answer`].
pub fn query_limits<C: VectorCommitment>(suite: u16, database: &Database<C>, at: At) -> Result<(usize, usize), Error> {
    let answerer = answerer_of(suite, database)?;
    let layout = database.layout_at(at)?;
    Ok((answerer.query_bytes(layout), answerer.max_queries(layout, database.max_queries())))
}

/// Answers a request's body: its queries one after the other, with the answers in the same order.
///
/// # Errors
/// [`Error::Phase`] if this database does not answer the suite, if a partition is not committed, or if there is no such
/// epoch; [`Error::Length`] unless the body is 1 to [`Answerer::max_queries`] queries; as [`Answerer::answer`].
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
    /// Answers a hint's vectors of offsets, with `proofs` for each entry.
    ///
    /// # Errors
    /// As [`answer`]; [`Error::Index`] if an offset is not below M.
    pub fn answer(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(proofs.suite(), self, vectors, At::Newest)
    }

    /// Answers them at the epoch before the last update.
    ///
    /// # Errors
    /// As [`Database::answer`]; [`Error::Phase`] if there is no previous epoch.
    pub fn answer_previous(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(proofs.suite(), self, vectors, At::Previous)
    }
}
