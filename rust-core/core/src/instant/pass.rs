//! Answers instant lookups: one pass over the database for up to eight queries, of any clients and of both epochs.
//!
//! A pass consists of steps of bounded work, so that a server can do other things in between. Kernels do its work on flat
//! bytes, so that another thread can do it on the same memory ([`Pass::descriptor`]). If the database changes during a
//! pass, the pass fails, and the server answers the queries in another one.

use keyhush_kernels::dpf::{Key, domain_log, key_bytes};
use keyhush_kernels::scan::{MAX_QUERIES, Overwritten, Scratch, Shape};

use super::shape;
use crate::bytes::zeroed;
use crate::commitment::Merkle;
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_length};
use crate::layout::Layout;

/// The u32 words of a [`Pass::descriptor`].
pub const DESCRIPTOR_WORDS: usize = 19 + 3 * MAX_QUERIES;

/// Up to eight queries that are being answered.
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
    /// the number of groups at the query's epoch
    groups: usize,
}

impl Pass {
    /// Begins a pass for 1 to 8 queries.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database is not committed or keeps no trees, or if there is no epoch as a query names it;
    /// [`Error::Length`] or [`Error::Query`] for a malformed query; [`Error::Index`] for more than 8 queries;
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

    /// [`Pass::new`] for queries that lie one after the other, each of its epoch's length.
    ///
    /// # Errors
    /// As [`Pass::new`]; [`Error::Length`] unless `queries` ends with the last query.
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

    /// The number of steps: one for each query, those over records and trees, and, if a query is for the previous epoch, one
    /// for each partition, which takes the last update out again.
    #[must_use]
    pub fn steps(&self) -> usize {
        let undone = if self.previous() == 0 { 0 } else { self.shape.partitions };
        self.queries.len() + self.shape.steps() + undone
    }

    /// A bit for each query: whether it is for the previous epoch.
    fn previous(&self) -> u8 {
        self.queries.iter().rev().fold(0, |bits, query| bits << 1 | u8::from(query.at == At::Previous))
    }

    /// Does the next step. Returns whether there are more.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed.
    pub fn step(&mut self, database: &Database<Merkle>) -> Result<bool, Error> {
        self.expect_unchanged(database)?;
        let (steps, previous) = (self.steps(), self.previous());
        let scratch = Scratch::new(self.shape, self.queries.len(), &mut self.scratch);
        let mut scratch = scratch.ok_or(LOST)?;
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

    /// Tells the pass that a worker, to whom the descriptor was passed, has done all steps.
    pub fn stepped(&mut self) {
        self.done = self.steps();
    }

    /// The pass as a worker module takes it (rust-core/worker). It is valid until the pass is dropped or the database changes.
    /// It has these words:
    ///
    /// 1. partitions, records a partition, bytes a record, depth, a ([`shape`]), number of queries;
    /// 2. address and length of records, of trees and of scratch memory;
    /// 3. a bit for each query: whether it is for the previous epoch;
    /// 4. what the last update overwrote: address and number of indices, address and length of records, address and number of
    ///    nodes;
    /// 5. for each of 8 queries: address and length of its key, and the groups of its epoch.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed; [`Error::Layout`] if addresses have more than 32 bits.
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
            *word = u32::try_from(number)
                .map_err(|_| Error::Layout("addresses have more than 32 bits here; answer in this thread".into()))?;
        }
        Ok(descriptor)
    }

    /// The answers, in the order of the queries, after the last step.
    ///
    /// # Errors
    /// [`Error::Phase`] if steps are left, or if the database has changed.
    pub fn finish(mut self, database: &Database<Merkle>) -> Result<Vec<Vec<u8>>, Error> {
        self.expect_unchanged(database)?;
        if self.done < self.steps() {
            return Err(Error::Phase("the pass is not done; make its other steps first"));
        }
        let scratch = Scratch::new(self.shape, self.queries.len(), &mut self.scratch);
        let scratch = scratch.ok_or(LOST)?;
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

/// Checks the queries of a body. A server does so before it lets them wait for a pass with others.
///
/// # Errors
/// [`Error::Length`] unless these are 1 to [`super::max_batch`] queries; [`Error::Query`] if one is malformed.
pub fn check(layout: &Layout, body: &[u8]) -> Result<(), Error> {
    let groups = shape(layout).groups();
    super::queries(layout, body)?.try_for_each(|query| decode(query, groups).map(drop))
}

/// Answers up to eight queries at once.
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

const LOST: Error = Error::Phase("the pass has lost its memory; begin another");

/// What the last update overwrote; empty without an update.
fn overwritten(database: &Database<Merkle>) -> Overwritten<'_> {
    database.overwritten().map(|overwritten| overwritten.flat()).unwrap_or_default()
}
