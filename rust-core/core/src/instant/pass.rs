//! Answers instant lookups: one pass over the database for up to sixteen queries, of any clients and of both epochs.
//!
//! A pass consists of steps of bounded work, so that a server can do other things in between. Kernels do its work on flat
//! bytes, so that another thread can do it on the same memory ([`Pass::descriptor`]). If the database changes during a
//! pass, the pass fails, and the server answers the queries in another one.

use keyhush_kernels::dpf::{Key, domain_log, key_bytes};
use keyhush_kernels::scan::{Overwritten, PASS_QUERIES, Scratch};
use keyhush_kernels::shape::Shape;

use super::groups::grouped;
use super::shape;
use super::vectors::{self, Form};
use crate::bytes::zeroed;
use crate::commitment::Merkle;
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_length};
use crate::layout::Layout;

/// The u32 words of a [`Pass::descriptor`].
pub const DESCRIPTOR_WORDS: usize = 20 + 3 * PASS_QUERIES;

/// Up to sixteen queries that are being answered. All have groups of the same size.
pub struct Pass {
    shape: Shape,
    /// whether the queries are vectors, and not keys
    vectors: bool,
    edition: u64,
    queries: Vec<Query>,
    scratch: Vec<u8>,
    done: usize,
}

struct Query {
    /// a key, or a vector
    share: Vec<u8>,
    at: At,
    /// the number of groups at the query's epoch
    groups: usize,
}

impl Pass {
    /// Begins a pass for 1 to 16 queries of lookups with two servers.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database is not committed or keeps no trees, or if there is no epoch as a query names it;
    /// [`Error::Length`] or [`Error::Query`] for a malformed query; [`Error::Index`] for more than 16 queries;
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(database: &Database<Merkle>, queries: &[(&[u8], At)]) -> Result<Self, Error> {
        Self::begin(
            database,
            false,
            queries.iter().map(|&(key, at)| {
                let shape = shape(database.layout_at(at)?);
                decode(key, shape.groups())?;
                Ok((shape, Query { share: key.to_vec(), at, groups: shape.groups() }))
            }),
        )
    }

    /// Begins a pass for 1 to 16 queries of lookups with `servers` servers, 3 to 8.
    ///
    /// # Errors
    /// As [`Pass::new`]; [`Error::Index`] also for another number of servers; [`Error::Query`] also if groups have another size
    /// at one epoch than at the other: the queries of both epochs need a pass each.
    pub fn of_vectors(
        database: &Database<Merkle>,
        servers: usize,
        queries: &[(Form, &[u8], At)],
    ) -> Result<Self, Error> {
        vectors::expect_servers(servers)?;
        Self::begin(
            database,
            true,
            queries.iter().map(|&(form, query, at)| {
                let shape = vectors::shape_of(database.layout_at(at)?, servers, form)?;
                Ok((shape, Query { share: vectors::share(&shape, form, query)?, at, groups: shape.groups() }))
            }),
        )
    }

    fn begin(
        database: &Database<Merkle>,
        vectors: bool,
        queries: impl ExactSizeIterator<Item = Result<(Shape, Query), Error>>,
    ) -> Result<Self, Error> {
        database.expect_openings()?;
        if !(1..=PASS_QUERIES).contains(&queries.len()) {
            return Err(Error::Index { what: "number of queries in a pass", bound: PASS_QUERIES as u64 + 1 });
        }
        let (shapes, queries): (Vec<Shape>, Vec<Query>) =
            queries.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
        let group_log = shapes[0].group_log;
        if shapes.iter().any(|shape| shape.group_log != group_log) {
            return Err(Error::Query("expected queries whose groups have one size"));
        }
        let shape = grouped(database.layout(), group_log);
        let scratch = zeroed(Scratch::bytes(&shape, queries.len()))?;
        Ok(Pass { shape, vectors, edition: database.edition(), queries, scratch, done: 0 })
    }

    /// [`Pass::new`], or for 3 to 8 servers [`Pass::of_vectors`], for queries that lie one after the other, each of its epoch's
    /// length. With two servers the form of a query says nothing.
    ///
    /// # Errors
    /// As those; [`Error::Length`] unless `queries` ends with the last query.
    pub fn of_joined(
        database: &Database<Merkle>,
        servers: usize,
        queries: &[u8],
        kinds: &[(Form, At)],
    ) -> Result<Self, Error> {
        let mut rest = queries;
        let mut split = Vec::with_capacity(kinds.len());
        for &(form, at) in kinds {
            let layout = database.layout_at(at)?;
            let bytes = match servers {
                2 => shape(layout).request_bytes(),
                _ => vectors::query_bytes(&vectors::shape_of(layout, servers, form)?, form),
            };
            let (query, behind) = rest.split_at(bytes.min(rest.len()));
            split.push((form, query, at));
            rest = behind;
        }
        expect_length("bytes behind the instant queries", rest, 0)?;
        if servers == 2 {
            let keys: Vec<_> = split.into_iter().map(|(_, query, at)| (query, at)).collect();
            return Self::new(database, &keys);
        }
        Self::of_vectors(database, servers, &split)
    }

    /// The number of steps: one for each query, those over records and trees, and, if a query is for the previous epoch, one
    /// for each partition, which takes the last update out again.
    #[must_use]
    pub fn steps(&self) -> usize {
        let undone = if self.previous() == 0 { 0 } else { self.shape.partitions };
        self.queries.len() + self.shape.steps() + undone
    }

    /// A bit for each query: whether it is for the previous epoch.
    fn previous(&self) -> u16 {
        self.queries.iter().rev().fold(0, |bits, query| bits << 1 | u16::from(query.at == At::Previous))
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
            if self.vectors {
                scratch.select_vector(self.done, &query.share);
            } else {
                scratch.select(self.done, &decode(&query.share, query.groups)?, query.groups);
            }
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
    /// 3. a bit for each query: whether it is for the previous epoch; 1 if queries are vectors, 0 if they are keys;
    /// 4. what the last update overwrote: address and number of indices, address and length of records, address and number of
    ///    nodes;
    /// 5. for each of 16 queries: address and length of its key or vector, and the groups of its epoch.
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
        words.extend([usize::from(self.previous()), usize::from(self.vectors)]);
        words.extend([indices.as_ptr() as usize, indices.len()]);
        words.extend(place(records));
        words.extend([nodes.as_ptr() as usize, nodes.len()]);
        for query in &self.queries {
            words.extend(place(&query.share));
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
/// [`Error::Length`] unless these are 1 to [`super::max_queries`] queries; [`Error::Query`] if one is malformed.
pub fn check(layout: &Layout, body: &[u8]) -> Result<(), Error> {
    let groups = shape(layout).groups();
    super::queries(layout, body)?.try_for_each(|query| decode(query, groups).map(drop))
}

/// [`check`] for lookups with 3 to 8 servers.
///
/// # Errors
/// As [`check`]; [`Error::Index`] for another number of servers.
pub fn check_vectors(layout: &Layout, servers: usize, form: Form, body: &[u8]) -> Result<(), Error> {
    let shape = vectors::shape_of(layout, servers, form)?;
    vectors::queries(&shape, form, body)?.try_for_each(|query| vectors::expect_query(&shape, form, query))
}

/// Answers up to sixteen queries at once.
///
/// # Errors
/// As [`Pass::new`].
pub fn answer(database: &Database<Merkle>, queries: &[(&[u8], At)]) -> Result<Vec<Vec<u8>>, Error> {
    finished(Pass::new(database, queries)?, database)
}

/// [`answer`] for lookups with 3 to 8 servers.
///
/// # Errors
/// As [`Pass::of_vectors`].
pub fn answer_vectors(
    database: &Database<Merkle>,
    servers: usize,
    queries: &[(Form, &[u8], At)],
) -> Result<Vec<Vec<u8>>, Error> {
    finished(Pass::of_vectors(database, servers, queries)?, database)
}

fn finished(mut pass: Pass, database: &Database<Merkle>) -> Result<Vec<Vec<u8>>, Error> {
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
