//! The server half (Fig. 5, `Answer`): for each offset a record, and what proves them if the client keeps no tags.

use crate::commitment::{Proofs, VectorCommitment};
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_below};
use crate::layout::Layout;
use crate::scheme::{Answerer, answer, answerers};

/// Suite 1: records, and openings of their commitments.
pub const PROVED: Entries = Entries { suite: 1, proofs: Proofs::Openings };
/// Suite 2: entries are records alone.
pub const BARE: Entries = Entries { suite: 2, proofs: Proofs::Tags };
/// Suite 6: the same, and room behind them for the one proof of all, which somebody else makes.
pub const PROVED_TOGETHER: Entries = Entries { suite: 6, proofs: Proofs::Pointproofs };

/// Queries are vectors of Q offsets (u16, little-endian); answers have an entry for each, in the same order.
pub struct Entries {
    suite: u16,
    proofs: Proofs,
}

impl Entries {
    /// The number of the suite whose entries are proved in this way.
    #[must_use]
    pub fn suite_of(proofs: Proofs) -> u16 {
        match proofs {
            Proofs::Openings => PROVED.suite,
            Proofs::Tags => BARE.suite,
            Proofs::Pointproofs => PROVED_TOGETHER.suite,
        }
    }
}

impl<C: VectorCommitment> Answerer<C> for Entries {
    fn suite(&self) -> u16 {
        self.suite
    }

    fn query_bytes(&self, layout: &Layout) -> usize {
        layout.partitions() * size_of::<u16>()
    }

    fn max_batch(&self, layout: &Layout, limit: usize) -> usize {
        self.proofs.max_batch(layout, limit)
    }

    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize {
        self.proofs.answer_bytes::<C>(layout, queries)
    }

    fn serves(&self, database: &Database<C>) -> bool {
        match self.proofs {
            Proofs::Openings => database.has_openings(),
            Proofs::Tags => true,
            Proofs::Pointproofs => database.has_pointproofs(),
        }
    }

    fn answer(&self, database: &Database<C>, queries: &[u8], at: At) -> Result<Vec<u8>, Error> {
        let layout = database.layout_at(at)?;
        let (partitions, partition_records) = (layout.partitions(), layout.partition_records());
        let (record_bytes, entry_bytes) = (layout.record_bytes(), self.proofs.entry_bytes::<C>(layout));
        let offsets = queries.as_chunks().0.iter().map(|&bytes| usize::from(u16::from_le_bytes(bytes)));
        for offset in offsets.clone() {
            expect_below("offset", offset, partition_records)?;
        }
        let first_slots = (0..partitions).map(|partition| partition * partition_records).cycle();
        let record = database.records_at(at);
        let mut answer = vec![0; self.proofs.answer_bytes::<C>(layout, offsets.len() / partitions)];
        for ((first, offset), entry) in first_slots.zip(offsets.clone()).zip(answer.chunks_exact_mut(entry_bytes)) {
            entry[..record_bytes].copy_from_slice(record(first + offset));
        }
        if self.proofs == Proofs::Openings {
            database.open_all(at, offsets, &mut answer)?;
        }
        Ok(answer)
    }
}

impl<C: VectorCommitment> Database<C> {
    /// Answers a batch's vectors with entries that are proved in this way.
    ///
    /// # Errors
    /// As [`answer`]; [`Error::Index`] if an offset is not below M.
    pub fn answer(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(&answerers(), Entries::suite_of(proofs), self, vectors, At::Newest)
    }

    /// The same at the epoch before the last update.
    ///
    /// # Errors
    /// As there.
    pub fn answer_previous(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        answer(&answerers(), Entries::suite_of(proofs), self, vectors, At::Previous)
    }
}
