//! The server half (Fig. 4, `Setup`; Fig. 5, `Answer`): flat records, what opens their commitments, and answers copied
//! out of both.

use crate::commitment::{COMMITMENT_BYTES, VectorCommitment};
use crate::error::{Error, expect_below};
use crate::hint::{CONTENT_HASH_BYTES, zeroed};
use crate::layout::Layout;

/// A database as a server holds it. Records are zero at first; write them, then commit every partition.
pub struct Database<C> {
    layout: Layout,
    records: Vec<u8>,
    auxiliary: Vec<u8>,
    content_hashes: Vec<Option<[u8; CONTENT_HASH_BYTES]>>,
    scheme: std::marker::PhantomData<C>,
}

impl<C: VectorCommitment> Database<C> {
    /// An all-zero database.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(layout: Layout) -> Result<Self, Error> {
        let auxiliary_bytes = (layout.partitions() as u64 * C::auxiliary_bytes(&layout) as u64)
            .try_into()
            .map_err(|_| Error::Layout("the proofs cannot be addressed on this machine".into()))?;
        Ok(Database {
            layout,
            records: zeroed(layout.database_bytes())?,
            auxiliary: zeroed(auxiliary_bytes)?,
            content_hashes: vec![None; layout.partitions()],
            scheme: std::marker::PhantomData,
        })
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All Q·M·ℓ bytes of records, to be written before [`Database::commit`].
    pub fn records_mut(&mut self) -> &mut [u8] {
        &mut self.records
    }

    /// Hashes a partition as it stands and makes it answerable (Fig. 4, Setup 4–8).
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn commit(&mut self, q: usize) -> Result<(), Error> {
        expect_below("partition", q, self.layout.partitions())?;
        let partition = &self.records[q * self.layout.partition_bytes()..][..self.layout.partition_bytes()];
        let auxiliary_bytes = C::auxiliary_bytes(&self.layout);
        C::build(&self.layout, partition, &mut self.auxiliary[q * auxiliary_bytes..][..auxiliary_bytes]);
        self.content_hashes[q] = Some(*blake3::hash(partition).as_bytes());
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
        self.content_hashes[q].ok_or(Error::Phase("commit the partition first"))
    }

    /// The vector commitment to a committed partition.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Phase`] before [`Database::commit`].
    pub fn commitment(&self, q: usize) -> Result<[u8; COMMITMENT_BYTES], Error> {
        self.content_hash(q)?;
        Ok(C::commitment(self.auxiliary(q)))
    }

    /// Answers count·Q offsets (u16, little-endian, the batch's vectors one after the other) with count·Q entries in
    /// the same order, each a record and its proof (Fig. 5, Answer). Checked whole before a byte is copied.
    ///
    /// # Errors
    /// [`Error::Length`] if these are not 1 to `max_batch` vectors of Q; [`Error::Index`] if an offset is not below
    /// M; [`Error::Phase`] if a partition was never committed.
    pub fn answer(&self, vectors: &[u8]) -> Result<Vec<u8>, Error> {
        let layout = &self.layout;
        let (record_bytes, proof_bytes) = (layout.record_bytes(), C::proof_bytes(layout));
        let vector_bytes = layout.partitions() * size_of::<u16>();
        let most = layout.max_batch(record_bytes + proof_bytes) * vector_bytes;
        if vectors.is_empty() || !vectors.len().is_multiple_of(vector_bytes) || vectors.len() > most {
            let actual = vectors.len() as u64;
            let expected = (vectors.len().div_ceil(vector_bytes) * vector_bytes).clamp(vector_bytes, most) as u64;
            return Err(Error::Length { what: "query vectors", expected, actual });
        }
        if self.content_hashes.iter().any(Option::is_none) {
            return Err(Error::Phase("commit every partition first"));
        }
        let offsets = vectors.as_chunks().0.iter().map(|&bytes| usize::from(u16::from_le_bytes(bytes)));
        for offset in offsets.clone() {
            expect_below("offset", offset, layout.partition_records())?;
        }

        let mut answer = vec![0; offsets.len() * (record_bytes + proof_bytes)];
        for (number, (offset, entry)) in offsets.zip(answer.chunks_exact_mut(record_bytes + proof_bytes)).enumerate() {
            let q = number % layout.partitions();
            let (record, proof) = entry.split_at_mut(record_bytes);
            record.copy_from_slice(
                &self.records[(q * layout.partition_records() + offset) * record_bytes..][..record_bytes],
            );
            C::open(layout, self.auxiliary(q), offset, proof);
        }
        Ok(answer)
    }
}
