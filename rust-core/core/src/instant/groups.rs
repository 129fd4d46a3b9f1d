//! Groups of records, and bodies of queries, as lookups with any number of servers have them.

use keyhush_kernels::shape::Shape;

use crate::error::Error;
use crate::layout::Layout;

pub(super) const MAX_QUERIES: usize = 64;
pub(super) const ANSWER_BYTES_TARGET: usize = 8 << 20;

/// The groups of 2^a records.
pub(super) fn grouped(layout: &Layout, group_log: u32) -> Shape {
    Shape {
        partitions: layout.partitions(),
        partition_records: layout.partition_records(),
        record_bytes: layout.record_bytes(),
        depth: layout.depth(),
        group_log,
    }
}

/// Splits a body into queries of `bytes` bytes, at least 1 and at most `most`.
pub(super) fn split(body: &[u8], bytes: usize, most: usize) -> Result<std::slice::ChunksExact<'_, u8>, Error> {
    if body.is_empty() || !body.len().is_multiple_of(bytes) || body.len() > most * bytes {
        let expected = (body.len().div_ceil(bytes).clamp(1, most) * bytes) as u64;
        return Err(Error::Length { what: "instant queries", expected, actual: body.len() as u64 });
    }
    Ok(body.chunks_exact(bytes))
}
