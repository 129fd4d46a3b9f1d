//! The server's half (Fig. 5, `Answer`): a record for each offset, and proofs unless the client keeps tags.

use crate::commitment::{Proofs, VectorCommitment};
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_below};
use crate::layout::Layout;
use crate::scheme::Answerer;

/// Each kind of proof is a suite. A query is a vector of Q offsets (u16, little-endian). An answer has an entry for each
/// offset, in the same order.
impl<C: VectorCommitment> Answerer<C> for Proofs {
    fn suite(&self) -> u16 {
        Proofs::suite(*self)
    }

    fn query_bytes(&self, layout: &Layout) -> usize {
        layout.partitions() * size_of::<u16>()
    }

    fn max_queries(&self, layout: &Layout, limit: usize) -> usize {
        Proofs::max_queries(*self, layout, limit)
    }

    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize {
        Proofs::answer_bytes::<C>(*self, layout, queries)
    }

    fn serves(&self, database: &Database<C>) -> bool {
        database.offers(*self)
    }

    fn answer(&self, database: &Database<C>, queries: &[u8], at: At) -> Result<Vec<u8>, Error> {
        let layout = database.layout_at(at)?;
        let (partitions, partition_records) = (layout.partitions(), layout.partition_records());
        let (record_bytes, entry_bytes) = (layout.record_bytes(), self.entry_bytes::<C>(layout));
        let offsets = queries.as_chunks().0.iter().map(|&bytes| usize::from(u16::from_le_bytes(bytes)));
        for offset in offsets.clone() {
            expect_below("offset", offset, partition_records)?;
        }
        let first_slots = (0..partitions).map(|partition| partition * partition_records).cycle();
        let record = database.records_at(at);
        let mut answer = vec![0; Proofs::answer_bytes::<C>(*self, layout, offsets.len() / partitions)];
        for ((first, offset), entry) in first_slots.zip(offsets.clone()).zip(answer.chunks_exact_mut(entry_bytes)) {
            entry[..record_bytes].copy_from_slice(record(first + offset));
        }
        match self {
            Proofs::Openings => database.open_all(at, offsets, &mut answer)?,
            // A packaged proof's bytes, the last ones, stay zero; the caller writes the proof there.
            Proofs::Tags | Proofs::Packaged(_) => {}
        }
        Ok(answer)
    }
}
