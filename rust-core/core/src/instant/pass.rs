//! Answering instant lookups: one pass over the database for up to eight queries, of any clients and of both epochs.
//!
//! A pass is a sequence of steps of bounded work, so that a server can do something else in between, and its work is
//! done by kernels on flat bytes, so that it can be done by another thread on the same memory ([`Pass::descriptor`]).
//! The database must not change while a pass is under way; it is refused then, and the queries can be asked again.

use keyhush_kernels::dpf::{Key, domain_log, key_bytes};
use keyhush_kernels::scan::{MAX_QUERIES, Overwritten, Scratch, Shape};

use super::shape;
use crate::bytes::zeroed;
use crate::commitment::Merkle;
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_length};
use crate::layout::Layout;

/// u32s of a [`Pass::descriptor`].
pub const DESCRIPTOR_WORDS: usize = 19 + 3 * MAX_QUERIES;

/// Queries that are being answered.
pub struct Pass {
    shape: Shape,
    edition: u64,
    queries: Vec<Query>,
    scratch: Vec<u8>,
    done: usize,
}

struct Query {
    key: Vec<u8>,
    at: At,
    /// of the epoch it asks at
    groups: usize,
}

impl Pass {
    /// Begins a pass for 1 to 8 queries.
    ///
    /// # Errors
    /// [`Error::Phase`] for a database that is not committed or keeps no trees, or has no previous epoch where one is
    /// asked for; [`Error::Length`], [`Error::Query`] for what is no query; [`Error::Index`] for more than 8;
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(database: &Database<Merkle>, queries: &[(&[u8], At)]) -> Result<Self, Error> {
        database.expect_openings()?;
        if !(1..=MAX_QUERIES).contains(&queries.len()) {
            return Err(Error::Index { what: "number of queries in a pass", bound: MAX_QUERIES as u64 + 1 });
        }
        let queries = queries.iter().map(|&(key, at)| {
            let groups = shape(database.layout_at(at)?).groups();
            decode(key, groups)?;
            Ok(Query { key: key.to_vec(), at, groups })
        });
        let queries = queries.collect::<Result<Vec<_>, Error>>()?;
        let shape = shape(database.layout());
        let scratch = zeroed(shape.scratch_bytes(queries.len()))?;
        Ok(Pass { shape, edition: database.edition(), queries, scratch, done: 0 })
    }

    /// [`Pass::new`] for queries that lie one after the other, each as long as its epoch has them.
    ///
    /// # Errors
    /// As there; [`Error::Length`] unless `queries` ends with the last of them.
    pub fn of_joined(database: &Database<Merkle>, queries: &[u8], at: &[At]) -> Result<Self, Error> {
        let mut rest = queries;
        let mut split = Vec::with_capacity(at.len());
        for &at in at {
            let bytes = shape(database.layout_at(at)?).request_bytes();
            let (query, behind) = rest.split_at(bytes.min(rest.len()));
            split.push((query, at));
            rest = behind;
        }
        expect_length("bytes behind the instant queries", rest, 0)?;
        Self::new(database, &split)
    }

    /// Steps in all: one a query, then those over records and trees, then one a partition that takes the last update out
    /// again if any of the queries asks at the epoch before.
    #[must_use]
    pub fn steps(&self) -> usize {
        let undone = if self.previous() == 0 { 0 } else { self.shape.partitions };
        self.queries.len() + self.shape.steps() + undone
    }

    /// A bit a query: whether it asks at the epoch before.
    fn previous(&self) -> u8 {
        self.queries.iter().rev().fold(0, |bits, query| bits << 1 | u8::from(query.at == At::Previous))
    }

    /// Goes one step; whether there are more.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed.
    pub fn step(&mut self, database: &Database<Merkle>) -> Result<bool, Error> {
        self.expect_unchanged(database)?;
        let (steps, previous) = (self.steps(), self.previous());
        let scratch = Scratch::new(self.shape, self.queries.len(), &mut self.scratch);
        let mut scratch = scratch.ok_or(Error::Phase("the pass has lost its memory"))?;
        let (records, trees) = (database.records(), database.trees());
        if let Some(query) = self.queries.get(self.done) {
            scratch.select(self.done, &decode(&query.key, query.groups)?, query.groups);
        } else if self.done < self.queries.len() + self.shape.steps() {
            scratch.step(self.done - self.queries.len(), records, trees);
        } else if self.done < steps {
            let q = self.done - self.queries.len() - self.shape.steps();
            scratch.undo(q, previous, &overwritten(database), records, trees);
        } else {
            return Ok(false);
        }
        self.done += 1;
        Ok(self.done < steps)
    }

    /// Says that all steps were made elsewhere, by whoever got the descriptor.
    pub fn stepped(&mut self) {
        self.done = self.steps();
    }

    /// The pass as the worker module takes it (rust-core/worker): partitions, records a partition, bytes a record, depth,
    /// g, number of queries; address and length of records, trees and scratch; a bit a query, whether it asks at the
    /// epoch before; address and number of the indices, bytes and nodes that the last update overwrote; for each of 8
    /// queries address and length of its key and groups of its epoch. It stays right until the pass is dropped or the database changes.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed; [`Error::Layout`] for addresses beyond 32 bits.
    pub fn descriptor(&mut self, database: &Database<Merkle>) -> Result<[u32; DESCRIPTOR_WORDS], Error> {
        self.expect_unchanged(database)?;
        let place = |bytes: &[u8]| [bytes.as_ptr() as usize, bytes.len()];
        let Shape { partitions, partition_records, record_bytes, depth, group_log } = self.shape;
        let mut words = vec![partitions, partition_records, record_bytes, depth as usize, group_log as usize];
        words.push(self.queries.len());
        words.extend(place(database.records()));
        words.extend(place(database.trees()));
        words.extend(place(&self.scratch));
        let Overwritten { indices, records, nodes } = overwritten(database);
        words.push(self.previous().into());
        words.extend([indices.as_ptr() as usize, indices.len()]);
        words.extend(place(records));
        words.extend([nodes.as_ptr() as usize, nodes.len()]);
        for query in &self.queries {
            words.extend(place(&query.key));
            words.push(query.groups);
        }
        let mut descriptor = [0; DESCRIPTOR_WORDS];
        for (word, number) in descriptor.iter_mut().zip(words) {
            *word = u32::try_from(number).map_err(|_| Error::Layout("addresses do not fit 32 bits here".into()))?;
        }
        Ok(descriptor)
    }

    /// The answers, in the order of the queries, once all steps were made.
    ///
    /// # Errors
    /// [`Error::Phase`] before that, or if the database has changed.
    pub fn finish(mut self, database: &Database<Merkle>) -> Result<Vec<Vec<u8>>, Error> {
        self.expect_unchanged(database)?;
        if self.done < self.steps() {
            return Err(Error::Phase("there are steps to be made"));
        }
        let scratch = Scratch::new(self.shape, self.queries.len(), &mut self.scratch);
        let scratch = scratch.ok_or(Error::Phase("the pass has lost its memory"))?;
        let answers = (0..self.queries.len()).map(|number| {
            let mut answer = vec![0; self.shape.answer_bytes()];
            scratch.answer(number, &mut answer);
            answer
        });
        Ok(answers.collect())
    }

    fn expect_unchanged(&self, database: &Database<Merkle>) -> Result<(), Error> {
        if self.edition == database.edition() {
            Ok(())
        } else {
            Err(Error::Phase("the database has changed during the pass; begin another"))
        }
    }
}

/// Whether these are queries that a pass takes at that layout: what a server asks before it lets them wait with others'.
///
/// # Errors
/// [`Error::Length`] if these are not 1 to [`super::max_batch`] queries; [`Error::Query`] for what is none.
pub fn check(layout: &Layout, body: &[u8]) -> Result<(), Error> {
    let groups = shape(layout).groups();
    super::queries(layout, body)?.try_for_each(|query| decode(query, groups).map(drop))
}

/// Answers up to eight queries in one go.
///
/// # Errors
/// As [`Pass::new`].
pub fn answer(database: &Database<Merkle>, queries: &[(&[u8], At)]) -> Result<Vec<Vec<u8>>, Error> {
    let mut pass = Pass::new(database, queries)?;
    while pass.step(database)? {}
    pass.finish(database)
}

fn decode(key: &[u8], groups: usize) -> Result<Key<'_>, Error> {
    let domain_log = domain_log(groups);
    expect_length("instant query", key, key_bytes(domain_log))?;
    Key::decode(key, domain_log).ok_or(Error::Query("expected a party of 0 or 1, and unused bits that are zero"))
}

/// Nothing, if there was no update.
fn overwritten(database: &Database<Merkle>) -> Overwritten<'_> {
    database.overwritten().map(|overwritten| overwritten.flat()).unwrap_or_default()
}
