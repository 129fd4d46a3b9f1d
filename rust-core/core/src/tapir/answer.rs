//! The server half (Fig. 5, `Answer`): for each offset a record, and what proves them if the client keeps no tags.

use crate::commitment::{Merkle, Proofs, VectorCommitment};
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

/// u32s of a [`Database::entries_descriptor`].
pub const DESCRIPTOR_WORDS: usize = 14;

impl Database<Merkle> {
    /// What the worker module (rust-core/worker) takes to answer suites 1 and 2 at an epoch: partitions, records a partition,
    /// bytes a record, depth; address and length of records and trees, and of the indices, bytes and nodes that the last
    /// update overwrote, if it is the epoch before that. It stays right until the database changes.
    ///
    /// # Errors
    /// [`Error::Phase`] if that epoch is not answered; [`Error::Layout`] for addresses beyond 32 bits.
    pub fn entries_descriptor(&self, at: At) -> Result<[u32; DESCRIPTOR_WORDS], Error> {
        let layout = self.layout_at(at)?;
        let overwritten = self.at(at).map(|overwritten| overwritten.flat()).unwrap_or_default();
        let place = |bytes: &[u8]| [bytes.as_ptr() as usize, bytes.len()];
        let shape = [layout.partitions(), layout.partition_records(), layout.record_bytes(), layout.depth() as usize];
        let places = [
            place(self.records()),
            place(self.trees()),
            [overwritten.indices.as_ptr() as usize, overwritten.indices.len()],
            place(overwritten.records),
            [overwritten.nodes.as_ptr() as usize, overwritten.nodes.len()],
        ];
        let mut descriptor = [0; DESCRIPTOR_WORDS];
        for (word, number) in descriptor.iter_mut().zip(shape.into_iter().chain(places.into_iter().flatten())) {
            *word = u32::try_from(number).map_err(|_| Error::Layout("addresses do not fit 32 bits here".into()))?;
        }
        Ok(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::epoch::{Operation, apply};
    use keyhush_kernels::entries::Epoch;
    use keyhush_kernels::scan::Shape;

    /// The kernel that worker threads have answers as the core does, at both epochs, from wherever an answer is gone on with.
    #[test]
    fn entries_of_the_kernel_are_those_of_the_core() {
        for (partitions, partition_records) in [(1, 2), (3, 5), (4, 16), (5, 33)] {
            let slots = partitions * partition_records;
            let layout = Layout::new(slots, 24, partitions, partition_records).unwrap();
            let mut database = Database::<Merkle>::new(layout).unwrap();
            blake3::Hasher::new().finalize_xof().fill(database.records_mut());
            (0..layout.partitions()).for_each(|q| database.commit(q).unwrap());
            let edits = (0..slots).step_by(3).map(|index| Operation::EditIndex(index as u32, &[7; 24]));
            let added = std::iter::repeat_n(Operation::Add(&[8; 24]), partition_records as usize);
            apply(&mut database, None, &edits.chain(added).collect::<Vec<_>>()).unwrap_or_else(|_| unreachable!());
            for (at, proofs) in
                [At::Newest, At::Previous].into_iter().flat_map(|at| [(at, Proofs::Openings), (at, Proofs::Tags)])
            {
                let layout = database.layout_at(at).unwrap();
                let (q, m) = (layout.partitions(), layout.partition_records());
                let shape = Shape {
                    partitions: q,
                    partition_records: m,
                    record_bytes: 24,
                    depth: layout.depth(),
                    group_log: 0,
                };
                let overwritten = database.at(at).map(|overwritten| overwritten.flat()).unwrap_or_default();
                let epoch = Epoch { shape, records: database.records(), trees: database.trees(), overwritten };
                let (proved, suite) = (proofs == Proofs::Openings, Entries::suite_of(proofs));
                for start in 0..m {
                    let offsets: Vec<_> = (start..start + q).map(|o| u16::to_le_bytes((o % m) as u16)).collect();
                    let expected = answer(&answerers(), suite, &database, offsets.as_flattened(), at).unwrap();
                    let first = start % q;
                    let (before, asked) = offsets.split_at(first);
                    let bytes = epoch.entry_bytes(proved);
                    let mut entries = vec![1; asked.len() * bytes];
                    assert!(epoch.write(first, asked, proved, &mut entries));
                    assert_eq!(entries, expected[before.len() * bytes..]);
                    let beyond = u16::to_le_bytes(m as u16);
                    assert!(!epoch.write(0, &[offsets[0], beyond], proved, &mut entries));
                    assert_eq!(entries, expected[before.len() * bytes..]);
                }
            }
        }
    }
}
