//! The server's half: answers a query with two parities. They consist of q records, each in one of the two.

use super::geometry::Geometry;
use super::state::pending::is_query;
use crate::bytes::xor_into;
use crate::commitment::VectorCommitment;
use crate::database::flat::{At, Database};
use crate::error::Error;
use crate::layout::Layout;
use crate::scheme::Answerer;

/// Records of this length get a loop of their own.
const WORTH_BYTES: usize = 32;

/// Suite 3. A query has ⌈q/8⌉ bytes that assign each stripe to one of two subsets, low bit first, and an offset (u16) in each
/// of q stripes. An answer has the XOR of the records whose bit is 0, then the XOR of the records whose bit is 1, ℓ′ bytes
/// each.
pub struct Parities;

/// The number of this suite.
pub const SUITE: u16 = 3;

impl<C: VectorCommitment> Answerer<C> for Parities {
    fn suite(&self) -> u16 {
        SUITE
    }

    fn query_bytes(&self, layout: &Layout) -> usize {
        Geometry::of(layout).map_or(usize::MAX, |geometry| geometry.query_bytes())
    }

    fn max_queries(&self, layout: &Layout, limit: usize) -> usize {
        Geometry::of(layout).map_or(0, |geometry| geometry.max_queries()).min(limit)
    }

    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize {
        queries * 2 * layout.record_bytes()
    }

    fn serves(&self, database: &Database<C>) -> bool {
        Geometry::of(database.layout()).is_ok()
    }

    fn answer(&self, database: &Database<C>, queries: &[u8], at: At) -> Result<Vec<u8>, Error> {
        let layout = database.layout_at(at)?;
        let geometry = Geometry::of(layout)?;
        if !queries.chunks_exact(geometry.query_bytes()).all(|query| is_query(&geometry, query)) {
            return Err(Error::Query("expected half of the stripes in each subset, and offsets within a stripe"));
        }
        let record = database.records_at(at);
        let mut answer = vec![0; queries.len() / geometry.query_bytes() * geometry.answer_bytes()];
        let parities = answer.chunks_exact_mut(geometry.answer_bytes());
        for (query, parities) in queries.chunks_exact(geometry.query_bytes()).zip(parities) {
            let (first, second) = parities.split_at_mut(geometry.record_bytes());
            // Slots beyond the last are zeros.
            let slots = slots_of(&geometry, query).filter(|(slot, _)| *slot < layout.slots());
            if at == At::Newest
                && let Ok(second) = <&mut [u8; WORTH_BYTES]>::try_from(&mut *second)
            {
                sum_rows(database.newest_records().as_chunks().0, slots, first, second);
                continue;
            }
            for (slot, in_second) in slots {
                xor_into(if in_second { &mut *second } else { &mut *first }, record(slot));
            }
        }
        Ok(answer)
    }
}

/// The slots of the database that a query names, and whether each is in the second subset.
fn slots_of(geometry: &Geometry, query: &[u8]) -> impl Iterator<Item = (usize, bool)> {
    let (bits, offsets) = query.split_at(geometry.bits_bytes());
    let stripe_records = geometry.stripe_records();
    offsets.as_chunks().0.iter().enumerate().map(move |(stripe, offset)| {
        let slot = stripe * stripe_records + usize::from(u16::from_le_bytes(*offset));
        (slot, bits[stripe / 8] >> (stripe % 8) & 1 == 1)
    })
}

/// Computes both parities. Rows lie all over memory, so nearly all the time is spent waiting for them. In a loop this short the
/// processor loads many at once. The loop is short because it has no branch on the subset.
fn sum_rows(
    rows: &[[u8; WORTH_BYTES]],
    slots: impl Iterator<Item = (usize, bool)>,
    first: &mut [u8],
    second: &mut [u8; WORTH_BYTES],
) {
    let mut all = [0; WORTH_BYTES];
    for (slot, in_second) in slots {
        let mask = u8::from(in_second).wrapping_neg();
        for ((all, second), byte) in all.iter_mut().zip(&mut *second).zip(&rows[slot]) {
            *all ^= byte;
            *second ^= byte & mask;
        }
    }
    for ((first, all), second) in first.iter_mut().zip(all).zip(second) {
        *first = all ^ *second;
    }
}
