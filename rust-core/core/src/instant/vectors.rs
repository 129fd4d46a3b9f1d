//! Instant lookups with three servers or more, private while one of them is honest (docs/protocol.md, Any one of k; Chor,
//! Goldreich, Kushilevitz, Sudan: Private Information Retrieval, FOCS 1995).
//!
//! The client splits a unit vector over the groups into one share for each server. All shares but one are seeds, which a
//! stream cipher stretches; the last one is a vector. Servers add up groups and siblings as for two servers, so the XOR of all
//! answers is one group and its path. Each server alone, and all but one together, see uniform bits.

use keyhush_kernels::shape::Shape;
use keyhush_kernels::xor::xor_into;
use zeroize::Zeroizing;

use super::groups::{ANSWER_BYTES_TARGET, MAX_QUERIES, grouped, split};
use crate::error::{Error, expect_length};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};

/// The fewest servers.
pub const MIN_SERVERS: usize = 3;
/// The most servers.
pub const MAX_SERVERS: usize = 8;
/// Bytes of a seed.
pub const SEED_BYTES: usize = ENTROPY_BYTES;
/// Longer groups are never best, and might not be addressable.
const LONGEST_LOG: u32 = 15;
/// Most bytes of a request's queries.
const REQUEST_BYTES: usize = 1 << 20;

/// [`Error::Index`] unless there are 3 to 8 servers.
pub(super) fn expect_servers(servers: usize) -> Result<(), Error> {
    if (MIN_SERVERS..=MAX_SERVERS).contains(&servers) {
        return Ok(());
    }
    Err(Error::Index { what: "number of servers", bound: MAX_SERVERS as u64 + 1 })
}

/// How a query carries its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// 32 bytes, the key of a stream
    Seed,
    /// the share itself, a bit for each group, low bits first; bits beyond the last group are zero
    Vector,
    /// a shard's part of a share, as a vector for groups of 2^a blocks: a follows from all shards together
    Part(u32),
}

/// The groups for this number of servers: the least a for which requests and answers of all servers together are shortest.
#[must_use]
pub fn shape(layout: &Layout, servers: usize) -> Shape {
    // In 64 bits: eight answers with a group of a whole partition each may have more than 4 GiB.
    let bodies = |shape: &Shape| {
        let seeds_and_vector = (servers - 1) * SEED_BYTES + shape.vector_bytes();
        seeds_and_vector as u64 + servers as u64 * shape.answer_bytes() as u64
    };
    let mut best = grouped(layout, 0);
    for group_log in 1..=layout.depth().min(LONGEST_LOG) {
        let shape = grouped(layout, group_log);
        if bodies(&shape) < bodies(&best) {
            best = shape;
        }
    }
    best
}

/// [`shape`], for a number of servers that is still to be checked.
///
/// # Errors
/// [`Error::Index`] unless there are 3 to 8 servers.
pub fn checked_shape(layout: &Layout, servers: usize) -> Result<Shape, Error> {
    expect_servers(servers).map(|()| shape(layout, servers))
}

/// The groups of a query in a form.
///
/// # Errors
/// [`Error::Index`] unless there are 3 to 8 servers; [`Error::Query`] for a part whose groups are longer than a partition, or than 8 MiB
/// with their siblings.
pub fn shape_of(layout: &Layout, servers: usize, form: Form) -> Result<Shape, Error> {
    let Form::Part(group_log) = form else { return checked_shape(layout, servers) };
    expect_servers(servers)?;
    let fits = group_log <= layout.depth() && layout.record_bytes() <= ANSWER_BYTES_TARGET >> group_log;
    let shape = fits.then(|| grouped(layout, group_log)).filter(|shape| shape.answer_bytes() <= ANSWER_BYTES_TARGET);
    shape.ok_or(Error::Query("expected groups within a partition, and answers of at most 8 MiB"))
}

/// Bytes of a query.
#[must_use]
pub fn query_bytes(shape: &Shape, form: Form) -> usize {
    match form {
        Form::Seed => SEED_BYTES,
        Form::Vector | Form::Part(_) => shape.vector_bytes(),
    }
}

/// The most queries of a request.
#[must_use]
pub fn max_queries(shape: &Shape) -> usize {
    (ANSWER_BYTES_TARGET / shape.answer_bytes()).min(REQUEST_BYTES / shape.vector_bytes()).clamp(1, MAX_QUERIES)
}

/// Splits a request's body into its queries.
///
/// # Errors
/// [`Error::Length`] unless the body is 1 to [`max_queries`] queries.
pub fn queries<'b>(shape: &Shape, form: Form, body: &'b [u8]) -> Result<std::slice::ChunksExact<'b, u8>, Error> {
    split(body, query_bytes(shape, form), max_queries(shape))
}

/// The share that a query stands for: a bit for each group of `shape`.
///
/// # Errors
/// [`Error::Length`]; [`Error::Query`] if a bit beyond the last group is set.
pub fn share(shape: &Shape, form: Form, query: &[u8]) -> Result<Vec<u8>, Error> {
    expect_query(shape, form, query)?;
    Ok(match (form, query.first_chunk()) {
        (Form::Seed, Some(seed)) => stretched(shape, seed),
        _ => query.to_vec(),
    })
}

/// [`share`], without the share.
pub(super) fn expect_query(shape: &Shape, form: Form, query: &[u8]) -> Result<(), Error> {
    expect_length("instant query", query, query_bytes(shape, form))?;
    match form {
        Form::Vector | Form::Part(_) if query.last().is_some_and(|last| last & !used(shape) != 0) => Err(UNUSED),
        _ => Ok(()),
    }
}

const UNUSED: Error = Error::Query("expected zeros in a vector's bits beyond the last group");

/// The bits of a vector's last byte that stand for groups.
fn used(shape: &Shape) -> u8 {
    0xff >> (shape.vector_bytes() * 8 - shape.groups())
}

fn stretched(shape: &Shape, seed: &[u8; SEED_BYTES]) -> Vec<u8> {
    let mut vector = vec![0; shape.vector_bytes()];
    ChaCha::new(seed, 0).fill(&mut vector);
    if let Some(last) = vector.last_mut() {
        *last &= used(shape);
    }
    vector
}

/// The requests for the groups of `indices`, one for each server, and the server that gets vectors. Stream 0 of `random` gives
/// that server first, then for each query the other servers' seeds, in the order of the servers.
pub(super) fn requests(
    layout: &Layout,
    servers: usize,
    indices: &[u32],
    random: &mut ChaCha,
) -> Result<(Vec<Vec<u8>>, usize), Error> {
    let shape = shape(layout, servers);
    let carrier = random.below(servers as u32) as usize;
    let mut requests = vec![Vec::new(); servers];
    for &index in indices {
        let (q, m) = layout.locate(index)?;
        let group = q * shape.partition_groups() + (m >> shape.group_log);
        let mut seeds = Zeroizing::new([[0; SEED_BYTES]; MAX_SERVERS - 1]);
        let seeds = &mut seeds[..servers - 1];
        random.fill(seeds.as_flattened_mut());
        let others = (0..servers).filter(|&server| server != carrier);
        others.zip(&*seeds).for_each(|(server, seed)| requests[server].extend_from_slice(seed));
        let shares = seeds.iter().map(|seed| Zeroizing::new(stretched(&shape, seed)));
        requests[carrier].extend_from_slice(&hazmat_last_share(&shape, group, shares));
    }
    Ok((requests, carrier))
}

/// The share which, with `others`, adds up to the unit vector of `group`. For tests that enumerate all shares: if the others are
/// not uniform and independent, it reveals the group.
pub fn hazmat_last_share(
    shape: &Shape,
    group: usize,
    others: impl Iterator<Item = Zeroizing<Vec<u8>>>,
) -> Zeroizing<Vec<u8>> {
    let mut last = Zeroizing::new(unit(shape, group));
    others.for_each(|other| xor_into(&mut last, &other));
    last
}

/// A vector with one bit. Every byte is written alike, so the work does not depend on which bit it is.
fn unit(shape: &Shape, group: usize) -> Vec<u8> {
    let byte = |at: usize| u8::from(at == group / 8) << (group % 8);
    (0..shape.vector_bytes()).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_table_of_the_protocol() {
        // records, ℓ, Q, M; servers; a; bytes of a vector, of an answer
        for ((records, bytes, q, m), servers, group_log, vector, answer) in [
            ((1 << 16, 32, 4, 16_384), 3, 3, 1024, 256 + 11 * 32),
            ((1 << 20, 32, 16, 65_536), 3, 5, 4096, 1024 + 11 * 32),
            ((1 << 20, 32, 16, 65_536), 8, 5, 4096, 1024 + 11 * 32),
            ((1, 8, 1, 1), 3, 0, 1, 8),
            ((1, 1, 1, 300), 5, 6, 1, 64 + 3 * 32),
        ] {
            let shape = shape(&Layout::new(records, bytes, q, m).unwrap(), servers);
            assert_eq!((shape.group_log, shape.vector_bytes(), shape.answer_bytes()), (group_log, vector, answer));
        }
    }

    #[test]
    fn a_request_has_a_mebibyte_at_most() {
        let layout = Layout::new(1 << 24, 32, 256, 65_536).unwrap();
        let shape = shape(&layout, 3);
        let most = max_queries(&shape);
        assert!(most >= 1 && most * shape.vector_bytes() <= REQUEST_BYTES);
        assert!(queries(&shape, Form::Vector, &vec![0; most * shape.vector_bytes()]).is_ok());
        assert!(queries(&shape, Form::Vector, &vec![0; (most + 1) * shape.vector_bytes()]).is_err());
        assert!(queries(&shape, Form::Seed, &[]).is_err());
    }
}
