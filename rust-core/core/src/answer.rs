//! The server half (Fig. 4, `Setup`; Fig. 5, `Answer`): flat records, what opens their commitments, and answers copied
//! out of both; for clients that keep tags, records are enough. Answers can be had at the newest epoch and at the one
//! before it, so that clients may move on in their own time: what the last update overwrote is kept, cell by cell.

use std::marker::PhantomData;

use crate::commitment::{CELL_BYTES, COMMITMENT_BYTES, Proofs, VectorCommitment};
use crate::content::{CONTENT_HASH_BYTES, ContentTree};
use crate::error::{Error, expect_below};
use crate::hint::reserved;
use crate::layout::Layout;

/// A database as a server holds it. Records are zero at first; write them, then commit every partition.
pub struct Database<C> {
    layout: Layout,
    /// what opens commitments is kept, and both kinds of proof can be had; or only tags
    openings: bool,
    records: Vec<u8>,
    auxiliary: Vec<u8>,
    content: Vec<Option<ContentTree>>,
    previous: Option<Overwritten>,
    scheme: PhantomData<C>,
}

/// The epoch before the newest, as what the update overwrote.
struct Overwritten {
    layout: Layout,
    /// indices of records, ascending
    indices: Vec<usize>,
    /// those records, ℓ bytes each
    records: Vec<u8>,
    /// (partition, cell) and content, ascending
    cells: Vec<((usize, usize), [u8; CELL_BYTES])>,
}

impl Overwritten {
    fn record(&self, index: usize) -> Option<&[u8]> {
        let at = self.indices.binary_search(&index).ok()?;
        let bytes = self.layout.record_bytes();
        Some(&self.records[at * bytes..][..bytes])
    }

    fn cell(&self, partition: usize, cell: usize) -> Option<&[u8; CELL_BYTES]> {
        let at = self.cells.binary_search_by_key(&(partition, cell), |(place, _)| *place).ok()?;
        Some(&self.cells[at].1)
    }
}

impl<C: VectorCommitment> Database<C> {
    /// An all-zero database.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(layout: Layout) -> Result<Self, Error> {
        Self::empty(layout, true)
    }

    /// An all-zero database for clients that keep tags: nothing is kept beside the records, and its commitments are zero.
    ///
    /// # Errors
    /// As [`Database::new`].
    pub fn without_openings(layout: Layout) -> Result<Self, Error> {
        Self::empty(layout, false)
    }

    /// All zero, of another layout, and like this one with or without openings.
    pub(crate) fn empty_like(&self, layout: Layout) -> Result<Self, Error> {
        Self::empty(layout, self.openings)
    }

    fn empty(layout: Layout, openings: bool) -> Result<Self, Error> {
        let (record_bytes, auxiliary_bytes) = (layout.database_bytes(), auxiliary_bytes::<C>(&layout, openings)?);
        let (mut records, mut auxiliary) = (reserved(record_bytes)?, reserved(auxiliary_bytes)?);
        records.resize(record_bytes, 0);
        auxiliary.resize(auxiliary_bytes, 0);
        Ok(Database {
            layout,
            openings,
            records,
            auxiliary,
            content: vec![None; layout.partitions()],
            previous: None,
            scheme: PhantomData,
        })
    }

    /// Its layout, at the newest epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All Q·M·ℓ bytes of records, to be written before [`Database::commit`].
    pub fn records_mut(&mut self) -> &mut [u8] {
        &mut self.records
    }

    /// The stored record at an index, padding included.
    ///
    /// # Errors
    /// [`Error::Index`] beyond the last slot.
    pub fn record(&self, index: usize) -> Result<&[u8], Error> {
        expect_below("record index", index, self.layout.slots())?;
        Ok(&self.records[index * self.layout.record_bytes()..][..self.layout.record_bytes()])
    }

    /// The M·ℓ bytes of a partition, at the newest epoch.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn partition(&self, q: usize) -> Result<&[u8], Error> {
        expect_below("partition", q, self.layout.partitions())?;
        Ok(&self.records[q * self.layout.partition_bytes()..][..self.layout.partition_bytes()])
    }

    /// Hashes a partition as it stands and makes it answerable (Fig. 4, Setup 4–8).
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn commit(&mut self, q: usize) -> Result<(), Error> {
        expect_below("partition", q, self.layout.partitions())?;
        let partition = &self.records[q * self.layout.partition_bytes()..][..self.layout.partition_bytes()];
        if self.openings {
            let bytes = C::auxiliary_bytes(&self.layout);
            C::build(&self.layout, partition, &mut self.auxiliary[q * bytes..][..bytes]);
        }
        self.content[q] = Some(ContentTree::new(partition));
        Ok(())
    }

    fn auxiliary(&self, q: usize) -> &[u8] {
        let bytes = C::auxiliary_bytes(&self.layout);
        &self.auxiliary[q * bytes..][..bytes]
    }

    /// The plain BLAKE3 of a committed partition.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Phase`] before [`Database::commit`].
    pub fn content_hash(&self, q: usize) -> Result<[u8; CONTENT_HASH_BYTES], Error> {
        expect_below("partition", q, self.layout.partitions())?;
        self.content[q].as_ref().map(ContentTree::hash).ok_or(Error::Phase("commit the partition first"))
    }

    /// The vector commitment to a committed partition; zero without openings.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Phase`] before [`Database::commit`].
    pub fn commitment(&self, q: usize) -> Result<[u8; COMMITMENT_BYTES], Error> {
        self.content_hash(q)?;
        Ok(if self.openings { C::commitment(self.auxiliary(q)) } else { [0; COMMITMENT_BYTES] })
    }

    /// Whether every partition was committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.content.iter().all(Option::is_some)
    }

    /// Writes records (ascending by index) and grows to `after`, touching only what changed: tree paths, content
    /// groups. What is overwritten becomes the previous epoch. (Fig. 6, UpdateDB 9–24.)
    ///
    /// # Errors
    /// [`Error::Phase`] before every partition was committed; [`Error::Layout`] if memory does not suffice. Nothing
    /// has changed then.
    pub(crate) fn write(&mut self, after: Layout, writes: &[(u32, Vec<u8>)]) -> Result<(), Error> {
        if !self.is_committed() {
            return Err(Error::Phase("commit every partition first"));
        }
        let before = self.layout;
        grow(&mut self.records, after.database_bytes())?;
        grow(&mut self.auxiliary, auxiliary_bytes::<C>(&after, self.openings)?)?;
        let mut overwritten =
            Overwritten { layout: before, indices: Vec::new(), records: Vec::new(), cells: Vec::new() };

        let (m, record_bytes, bytes) = (after.partition_records(), after.record_bytes(), C::auxiliary_bytes(&after));
        for group in writes.chunk_by(|(a, _), (b, _)| *a as usize / m == *b as usize / m) {
            let q = group[0].0 as usize / m;
            if self.openings && q < before.partitions() {
                let changes = group.iter().map(|(index, record)| (*index as usize % m, record.as_slice()));
                C::update(&after, &mut self.auxiliary[q * bytes..][..bytes], changes, &mut |cell, old| {
                    overwritten.cells.push(((q, cell), *old));
                });
            }
            for (index, record) in group {
                let stored = &mut self.records[*index as usize * record_bytes..][..record_bytes];
                if q < before.partitions() {
                    overwritten.indices.push(*index as usize);
                    overwritten.records.extend_from_slice(stored);
                }
                stored.copy_from_slice(record);
            }
            if let Some(Some(content)) = self.content.get_mut(q) {
                let partition = &self.records[q * after.partition_bytes()..][..after.partition_bytes()];
                let offsets = group.iter().map(|(index, _)| *index as usize % m * record_bytes);
                content.update(partition, offsets.map(|start| start..start + record_bytes));
            }
        }
        self.layout = after;
        self.content.resize(after.partitions(), None);
        for q in before.partitions()..after.partitions() {
            self.commit(q)?;
        }
        self.previous = Some(overwritten);
        Ok(())
    }

    /// Answers count·Q offsets (u16, little-endian, the batch's vectors one after the other) with count·Q entries in
    /// the same order, each a record and what proves it (Fig. 5, Answer). Checked whole before a byte is copied.
    ///
    /// # Errors
    /// [`Error::Length`] if these are not 1 to `max_batch` vectors of Q; [`Error::Index`] if an offset is not below
    /// M; [`Error::Phase`] if a partition was never committed, or for openings in a database without.
    pub fn answer(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        if !self.is_committed() {
            return Err(Error::Phase("commit every partition first"));
        }
        self.answer_with(vectors, proofs, &self.layout, |_, _| {})
    }

    /// [`Database::answer`] at the epoch before the last update.
    ///
    /// # Errors
    /// As there; [`Error::Phase`] if there was none.
    pub fn answer_previous(&self, vectors: &[u8], proofs: Proofs) -> Result<Vec<u8>, Error> {
        let previous = self.previous.as_ref().ok_or(Error::Phase("there is no previous epoch"))?;
        let layout = &previous.layout;
        self.answer_with(vectors, proofs, layout, |(q, offset), entry| {
            let (record, proof) = entry.split_at_mut(layout.record_bytes());
            if let Some(old) = previous.record(q * layout.partition_records() + offset) {
                record.copy_from_slice(old);
            }
            for (cell, into) in C::proof_cells(layout, offset).zip(proof.chunks_exact_mut(CELL_BYTES)) {
                if let Some(old) = cell.and_then(|cell| previous.cell(q, cell)) {
                    into.copy_from_slice(old);
                }
            }
        })
    }

    fn answer_with(
        &self,
        vectors: &[u8],
        proofs: Proofs,
        layout: &Layout,
        mut patch: impl FnMut((usize, usize), &mut [u8]),
    ) -> Result<Vec<u8>, Error> {
        if proofs == Proofs::Openings && !self.openings {
            return Err(Error::Phase("this database keeps no opening proofs"));
        }
        let (record_bytes, entry_bytes) = (layout.record_bytes(), proofs.entry_bytes::<C>(layout));
        let vector_bytes = layout.partitions() * size_of::<u16>();
        let most = layout.max_batch(entry_bytes) * vector_bytes;
        if vectors.is_empty() || !vectors.len().is_multiple_of(vector_bytes) || vectors.len() > most {
            let actual = vectors.len() as u64;
            let expected = (vectors.len().div_ceil(vector_bytes) * vector_bytes).clamp(vector_bytes, most) as u64;
            return Err(Error::Length { what: "query vectors", expected, actual });
        }
        let offsets = vectors.as_chunks().0.iter().map(|&bytes| usize::from(u16::from_le_bytes(bytes)));
        for offset in offsets.clone() {
            expect_below("offset", offset, layout.partition_records())?;
        }

        let mut answer = vec![0; offsets.len() * entry_bytes];
        for (number, (offset, entry)) in offsets.zip(answer.chunks_exact_mut(entry_bytes)).enumerate() {
            let q = number % layout.partitions();
            let (record, proof) = entry.split_at_mut(record_bytes);
            let at = (q * layout.partition_records() + offset) * record_bytes;
            record.copy_from_slice(&self.records[at..at + record_bytes]);
            if proofs == Proofs::Openings {
                C::open(layout, self.auxiliary(q), offset, proof);
            }
            patch((q, offset), entry);
        }
        Ok(answer)
    }
}

fn auxiliary_bytes<C: VectorCommitment>(layout: &Layout, openings: bool) -> Result<usize, Error> {
    if !openings {
        return Ok(0);
    }
    (layout.partitions() as u64 * C::auxiliary_bytes(layout) as u64)
        .try_into()
        .map_err(|_| Error::Layout("the proofs cannot be addressed on this machine".into()))
}

/// Appends zeros up to `bytes`, or a typed error where they cannot be had.
fn grow(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), Error> {
    let more = bytes.saturating_sub(buffer.len());
    buffer
        .try_reserve_exact(more)
        .map_err(|_| Error::Layout(format!("{more} more bytes of memory could not be had; plan a smaller database")))?;
    buffer.resize(bytes.max(buffer.len()), 0);
    Ok(())
}
