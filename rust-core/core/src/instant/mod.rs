//! Instant lookups: without a hint and without state (docs/protocol.md, Instant lookups; the baseline APIR-DPF of papers:
//! TAPIR, with the commitments of suite 1).
//!
//! The client splits a unit vector into two shares and sends one to each server. A server answers with the sum of the
//! groups of records that its share selects, and of their tree nodes. Both answers together give one group, and the path
//! from it to its partition's commitment. The shares are keys of a distributed point function ([`dpf`]); one key alone
//! reveals nothing. Every byte of the sum is verified, so whether a wrong answer is noticed does not depend on what was
//! asked. The client cannot tell which server was wrong.
//!
//! With three servers or more, the shares are seeds and a vector ([`vectors`]); all else is the same.
//!
//! Client: [`query`] makes the requests, [`recon`] verifies the answers. Server: [`pass`] answers up to sixteen queries while
//! it reads the database once. [`sharded`] splits queries of several databases that are read as one.

pub mod dpf;
mod groups;
pub mod pass;
pub mod query;
pub mod recon;
pub mod sharded;
pub mod vectors;

use groups::{ANSWER_BYTES_TARGET, MAX_QUERIES, grouped, split};
use keyhush_kernels::shape::{NODE_BYTES, Shape};

use crate::error::Error;
use crate::layout::Layout;

/// The least bytes of a group. It has fewer only if the whole partition has.
const GROUP_BYTES: usize = 256;

/// The groups of a layout, for two servers. The layout alone decides a: the least a with 2^a·ℓ ≥ 256, but at most d. Longer groups make
/// answers longer. With shorter groups, servers read more bytes of trees than of records.
#[must_use]
pub fn shape(layout: &Layout) -> Shape {
    grouped(
        layout,
        GROUP_BYTES.div_ceil(layout.record_bytes()).next_power_of_two().trailing_zeros().min(layout.depth()),
    )
}

/// Bytes of a query, for either server.
#[must_use]
pub fn request_bytes(layout: &Layout) -> usize {
    shape(layout).request_bytes()
}

/// Bytes of an answer to one query, from either server.
#[must_use]
pub fn answer_bytes(layout: &Layout) -> usize {
    shape(layout).answer_bytes()
}

/// Bytes of a lookup with 2 to 8 servers: of all servers' queries together, and of one server's answer.
#[must_use]
pub fn lookup_bytes(layout: &Layout, servers: usize) -> [usize; 2] {
    if servers == 2 {
        return [2 * request_bytes(layout), answer_bytes(layout)];
    }
    let shape = vectors::shape(layout, servers);
    [(servers - 1) * vectors::SEED_BYTES + shape.vector_bytes(), shape.answer_bytes()]
}

/// Bytes of trees that a server reads for an answer: all levels from the groups' up, without the commitments.
pub(crate) fn tree_bytes_read(layout: &Layout) -> u64 {
    let shape = shape(layout);
    let nodes = |level: u32| shape.partition_records.div_ceil(1 << level) as u64;
    shape.partitions as u64 * (shape.group_log..shape.depth).map(nodes).sum::<u64>() * NODE_BYTES as u64
}

/// The most queries of a request.
#[must_use]
pub fn max_queries(layout: &Layout) -> usize {
    (ANSWER_BYTES_TARGET / answer_bytes(layout)).clamp(1, MAX_QUERIES)
}

/// Splits a request's body into its queries.
///
/// # Errors
/// [`Error::Length`] unless the body is 1 to [`max_queries`] queries.
pub fn queries<'b>(layout: &Layout, body: &'b [u8]) -> Result<std::slice::ChunksExact<'b, u8>, Error> {
    split(body, request_bytes(layout), max_queries(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_sizes_at_the_edges_of_the_rule() {
        for ((record_bytes, partitions, partition_records), (group_log, request, answer)) in [
            ((1, 1, 1), (0, 33, 1)),
            ((1, 1, 300), (8, 33, 256 + 32)),
            ((1, 1, 256), (8, 33, 256)),
            ((1, 1, 5), (3, 33, 8)), // a group is longer than the partition
            ((32, 16, 65_536), (3, 33 + 160 + 3, 256 + 13 * 32)),
            ((33, 16, 65_536), (3, 196, 264 + 13 * 32)),
            ((48, 16, 65_536), (3, 196, 384 + 13 * 32)),
            ((255, 16, 65_536), (1, 33 + 192 + 3, 510 + 15 * 32)),
            ((256, 16, 65_536), (0, 33 + 208 + 4, 256 + 16 * 32)),
            ((65_536, 16, 128), (0, 33 + 64 + 1, 65_536 + 7 * 32)),
        ] {
            let layout = Layout::new(1, record_bytes, partitions, partition_records).unwrap();
            assert_eq!(shape(&layout).group_log, group_log, "{layout:?}");
            assert_eq!((request_bytes(&layout), answer_bytes(&layout)), (request, answer), "{layout:?}");
        }
    }

    #[test]
    fn a_lookup_ends_where_its_answers_would_be_too_long() {
        let of = |record_bytes, partition_records| {
            max_queries(&Layout::new(1, record_bytes, 16, partition_records).unwrap())
        };
        assert_eq!((of(32, 65_536), of(65_536, 128)), (64, 64));
        let layout = Layout::new(1, 32, 16, 65_536).unwrap();
        let bytes = request_bytes(&layout);
        for (length, expected) in [(0, bytes), (bytes - 1, bytes), (bytes + 1, 2 * bytes), (65 * bytes, 64 * bytes)] {
            let refused = queries(&layout, &vec![0; length]).unwrap_err();
            assert_eq!(
                refused,
                Error::Length { what: "instant queries", expected: expected as u64, actual: length as u64 }
            );
        }
        assert_eq!(queries(&layout, &vec![0; 64 * bytes]).unwrap().len(), 64);
    }
}
