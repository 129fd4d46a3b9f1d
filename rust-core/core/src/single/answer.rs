//! The server half: q records, each in one of two parities.

use pirouette_kernels::scan::xor_into;

use super::geometry::Geometry;
use super::state::pending::is_query;
use crate::commitment::VectorCommitment;
use crate::database::flat::{At, Database};
use crate::error::Error;
use crate::layout::Layout;
use crate::scheme::Answerer;

/// Suite 3: for each query the parity of the records in either subset.
pub const PARITIES: Parities = Parities;

/// Queries have ⌈q/8⌉ bytes of subsets, low bit first, and an offset (u16) in each of q stripes; an answer has the XOR of
/// the records whose bit is 0, and that of those whose bit is 1, ℓ′ bytes each.
pub struct Parities;

impl<C: VectorCommitment> Answerer<C> for Parities {
    fn suite(&self) -> u16 {
        3
    }

    fn query_bytes(&self, layout: &Layout) -> usize {
        Geometry::of(layout).map_or(usize::MAX, |geometry| geometry.query_bytes())
    }

    fn max_batch(&self, layout: &Layout, limit: usize) -> usize {
        Geometry::of(layout).map_or(0, |geometry| geometry.max_batch()).min(limit)
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
            return Err(Error::Query("subsets are halves, and offsets within a stripe"));
        }
        let (bytes, slots) = (layout.record_bytes(), layout.slots());
        let record = database.records_at(at);
        let mut answer = vec![0; queries.len() / geometry.query_bytes() * geometry.answer_bytes()];
        let parities = answer.chunks_exact_mut(geometry.answer_bytes());
        for (query, parities) in queries.chunks_exact(geometry.query_bytes()).zip(parities) {
            let (bits, offsets) = query.split_at(geometry.bits_bytes());
            for (stripe, offset) in offsets.as_chunks().0.iter().enumerate() {
                let slot = stripe * geometry.stripe_records() + usize::from(u16::from_le_bytes(*offset));
                // Beyond the last slot there are zeros.
                if slot < slots {
                    let side = usize::from(bits[stripe / 8] >> (stripe % 8) & 1);
                    xor_into(&mut parities[side * bytes..][..bytes], record(slot));
                }
            }
        }
        Ok(answer)
    }
}
