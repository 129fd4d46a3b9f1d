//! The database of a server (Fig. 4, `Setup`): flat records, and the data that opens their commitments. For clients that
//! keep tags, records are enough.
//!
//! It answers two epochs, the newest and the one before, so that clients need not follow at once. For that it keeps what
//! the last update overwrote.

use std::marker::PhantomData;
use std::ops::Range;

use keyhush_kernels::scan::{self, Node};

use crate::bytes::reserved;
use crate::commitment::packaged::Packaged;
use crate::commitment::{CELL_BYTES, COMMITMENT_BYTES, Proofs, VectorCommitment};
use crate::database::content::{CONTENT_HASH_BYTES, ContentTree};
use crate::error::{Error, expect_below};
use crate::layout::{Layout, MAX_PARTITION_RECORDS, Stored};

/// An epoch that a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// the newest epoch
    Newest,
    /// the epoch before it
    Previous,
}

/// A server's database. Records are zero at first. Write them, then commit every partition.
pub struct Database<C> {
    pub(super) layout: Layout,
    /// the generation's query limit
    max_queries: usize,
    /// whether it keeps the data that opens commitments; without it answers can only be checked by tags
    pub(super) openings: bool,
    /// the kind of proof that the caller appends to answers
    packaged: Option<&'static Packaged>,
    pub(super) records: Vec<u8>,
    pub(super) auxiliary: Vec<u8>,
    pub(super) content: Vec<Option<ContentTree>>,
    pub(super) previous: Option<Overwritten>,
    pub(super) writing: Writing,
    /// changes whenever the bytes that readers read change or move
    pub(super) edition: u64,
    scheme: PhantomData<C>,
}

/// How much of an update is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// no update is being written
    Nothing,
    /// an update, but no partition at the moment
    Update,
    /// this partition: its content hash is not yet that of its bytes
    Partition(usize),
}

/// The epoch before the newest: what the last update has overwritten.
pub(crate) struct Overwritten {
    pub(super) layout: Layout,
    /// indices of blocks, ascending
    pub(super) indices: Vec<u32>,
    /// those blocks, ℓ′ bytes each
    pub(super) records: Vec<u8>,
    /// overwritten cells of the trees, ascending
    pub(super) cells: Vec<Node>,
}

impl Overwritten {
    /// The same, in the form that kernels take.
    pub(crate) fn flat(&self) -> scan::Overwritten<'_> {
        scan::Overwritten { indices: &self.indices, records: &self.records, nodes: &self.cells }
    }

    fn record(&self, index: usize) -> Option<&[u8]> {
        let bytes = self.layout.record_bytes();
        let at = self.indices.binary_search(&(index as u32)).ok()?;
        Some(&self.records[at * bytes..][..bytes])
    }

    fn cell(&self, partition: usize, cell: usize) -> Option<&[u8; CELL_BYTES]> {
        let place = (partition as u32, cell as u32);
        let at = self.cells.binary_search_by_key(&place, |node| (node.partition, node.place)).ok()?;
        Some(&self.cells[at].content)
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

    /// An all-zero database whose answers have proofs of this kind. With [`Proofs::Tags`] it keeps records only, and its
    /// commitments are zeros.
    ///
    /// # Errors
    /// As [`Database::new`].
    pub fn offering(layout: Layout, proofs: Proofs) -> Result<Self, Error> {
        match proofs {
            Proofs::Openings => Self::new(layout),
            Proofs::Tags => Self::empty(layout, false),
            Proofs::Packaged(kind) => Self::new(layout).map(|database| database.proved_by_caller(kind)),
        }
    }

    /// Sets the query limit of its generation, which may have begun with fewer partitions.
    ///
    /// # Errors
    /// [`Error::Layout`] if a generation with that limit cannot have this layout.
    pub fn with_max_queries(mut self, max_queries: usize) -> Result<Self, Error> {
        self.max_queries = max_queries;
        self.check_carried(&self.layout)?;
        Ok(self)
    }

    /// Says that the caller adds proofs of this kind to answers.
    #[must_use]
    pub fn proved_by_caller(mut self, kind: &'static Packaged) -> Self {
        self.packaged = Some(kind);
        self
    }

    /// The generation's query limit: most queries of a request. Updates do not change it.
    #[must_use]
    pub fn max_queries(&self) -> usize {
        self.max_queries
    }

    /// [`Error::Layout`] unless this generation may have `layout` in a later epoch.
    pub(crate) fn check_carried(&self, layout: &Layout) -> Result<(), Error> {
        let proofs = if self.openings { Proofs::Openings } else { Proofs::Tags };
        // A pending lookup must be answerable under every later layout.
        let proved = self.packaged.is_none_or(|kind| {
            let most = |layout| Proofs::Packaged(kind).max_queries(layout, self.max_queries);
            most(layout) == most(&self.layout)
        });
        if proved && layout.carries(self.max_queries, proofs.entry_bytes::<C>(layout)) {
            return Ok(());
        }
        let (q, most) = (layout.partitions(), self.max_queries);
        Err(Error::Layout(format!(
            "answers to {most} queries over {q} partitions are too long; begin a new generation"
        )))
    }

    /// An all-zero database of another layout, with openings if this one has them.
    pub(crate) fn empty_like(&self, layout: Layout) -> Result<Self, Error> {
        Self::empty(layout, self.openings)
    }

    fn empty(layout: Layout, openings: bool) -> Result<Self, Error> {
        let bytes = layout.slots() as u64 * layout.record_bytes() as u64;
        if layout.partition_records() > MAX_PARTITION_RECORDS || isize::try_from(bytes).is_err() {
            return Err(Error::Layout("expected the layout of one database, got that of a sharded one".into()));
        }
        let (record_bytes, auxiliary_bytes) = (layout.database_bytes(), auxiliary_bytes::<C>(&layout, openings)?);
        let (mut records, mut auxiliary) = (reserved(record_bytes)?, reserved(auxiliary_bytes)?);
        records.resize(record_bytes, 0);
        auxiliary.resize(auxiliary_bytes, 0);
        let proofs = if openings { Proofs::Openings } else { Proofs::Tags };
        Ok(Database {
            layout,
            max_queries: layout.max_queries(proofs.entry_bytes::<C>(&layout)),
            openings,
            packaged: None,
            records,
            auxiliary,
            content: vec![None; layout.partitions()],
            previous: None,
            writing: Writing::Nothing,
            edition: 0,
            scheme: PhantomData,
        })
    }

    /// The layout at the newest epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All Q·M·ℓ bytes of records. Write them before [`Database::commit`].
    pub fn records_mut(&mut self) -> &mut [u8] {
        &mut self.records[..self.layout.database_bytes()]
    }

    /// The stored record at an index. Padding has indices too.
    ///
    /// # Errors
    /// [`Error::Index`] beyond the last partition.
    pub fn record(&self, index: usize) -> Result<&[u8], Error> {
        let Stored { record_bytes, partition_records, .. } = *self.layout.stored();
        expect_below("record index", index, self.layout.partitions() * partition_records)?;
        Ok(&self.records[index * record_bytes..][..record_bytes])
    }

    /// The M·ℓ bytes of a partition, at the newest epoch.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn partition(&self, q: usize) -> Result<&[u8], Error> {
        expect_below("partition", q, self.layout.partitions())?;
        Ok(self.of_partition(&self.layout, q))
    }

    /// Hashes a partition and builds its tree, so that it can be answered from (Fig. 4, Setup 4–8).
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn commit(&mut self, q: usize) -> Result<(), Error> {
        expect_below("partition", q, self.layout.partitions())?;
        let layout = self.layout;
        self.build(&layout, q);
        self.content[q] = Some(ContentTree::new(self.of_partition(&layout, q)));
        Ok(())
    }

    /// The M·ℓ bytes of a partition. There must be memory for `layout`.
    pub(super) fn of_partition(&self, layout: &Layout, q: usize) -> &[u8] {
        &self.records[q * layout.partition_bytes()..][..layout.partition_bytes()]
    }

    /// Builds the tree of a partition, if this database keeps trees.
    pub(super) fn build(&mut self, layout: &Layout, q: usize) {
        if self.openings {
            let (bytes, partition_bytes) = (C::auxiliary_bytes(layout), layout.partition_bytes());
            let partition = &self.records[q * partition_bytes..][..partition_bytes];
            C::build(layout, partition, &mut self.auxiliary[q * bytes..][..bytes]);
        }
    }

    /// All Q·M·ℓ bytes of records.
    pub(crate) fn records(&self) -> &[u8] {
        &self.records
    }

    /// The trees of all partitions, one after the other.
    pub(crate) fn trees(&self) -> &[u8] {
        &self.auxiliary
    }

    /// Changes with every step of an update that changes or moves what readers read.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// What the last update overwrote; [`Error::Phase`] if there was no update.
    pub(crate) fn overwritten(&self) -> Result<&Overwritten, Error> {
        self.previous.as_ref().ok_or(Error::Phase("there is no previous epoch"))
    }

    /// [`Error::Phase`] unless it keeps trees, and every partition is committed.
    pub(crate) fn expect_openings(&self) -> Result<(), Error> {
        if !self.openings {
            return Err(Error::Phase("this database keeps no opening proofs"));
        }
        if !self.is_committed() {
            return Err(Error::Phase("commit every partition first"));
        }
        Ok(())
    }

    fn auxiliary(&self, q: usize) -> &[u8] {
        let bytes = C::auxiliary_bytes(&self.layout);
        &self.auxiliary[q * bytes..][..bytes]
    }

    /// The plain BLAKE3 of a committed partition.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Phase`] before [`Database::commit`], or while an update writes into the partition.
    pub fn content_hash(&self, q: usize) -> Result<[u8; CONTENT_HASH_BYTES], Error> {
        expect_below("partition", q, self.layout.partitions())?;
        if self.writing == Writing::Partition(q) {
            return Err(Error::Phase("an update is being written into the partition; finish it first"));
        }
        self.content[q].as_ref().map(ContentTree::hash).ok_or(Error::Phase("commit the partition first"))
    }

    /// The vector commitment to a committed partition; zeros in a database without openings.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Phase`] before [`Database::commit`].
    pub fn commitment(&self, q: usize) -> Result<[u8; COMMITMENT_BYTES], Error> {
        self.content_hash(q)?;
        Ok(if self.openings { C::commitment(self.auxiliary(q)) } else { [0; COMMITMENT_BYTES] })
    }

    /// The commitments of all partitions, Q times 32 bytes.
    ///
    /// # Errors
    /// [`Error::Phase`] unless every partition is committed.
    pub fn commitments(&self) -> Result<Vec<u8>, Error> {
        self.of_all(Self::commitment)
    }

    /// The content hashes of all partitions, Q times 32 bytes.
    ///
    /// # Errors
    /// As [`Database::commitments`].
    pub fn content_hashes(&self) -> Result<Vec<u8>, Error> {
        self.of_all(Self::content_hash)
    }

    fn of_all(&self, digest: impl Fn(&Self, usize) -> Result<[u8; 32], Error>) -> Result<Vec<u8>, Error> {
        let mut digests = Vec::with_capacity(32 * self.layout.partitions());
        for q in 0..self.layout.partitions() {
            digests.extend_from_slice(&digest(self, q)?);
        }
        Ok(digests)
    }

    /// Whether every partition is committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.content.iter().all(Option::is_some)
    }

    /// The layout at an epoch.
    ///
    /// # Errors
    /// [`Error::Phase`] if a partition is not committed, or if there is no such epoch. There is no newest epoch while an
    /// update is being written.
    pub fn layout_at(&self, at: At) -> Result<&Layout, Error> {
        match (at, &self.previous) {
            _ if !self.is_committed() => Err(Error::Phase("commit every partition first")),
            (At::Newest, _) if self.writing != Writing::Nothing => {
                Err(Error::Phase("the newest epoch is being written"))
            }
            (At::Newest, _) => Ok(&self.layout),
            (At::Previous, Some(previous)) => Ok(&previous.layout),
            (At::Previous, None) => Err(Error::Phase("there is no previous epoch")),
        }
    }

    /// Whether answers can have proofs of this kind.
    #[must_use]
    pub fn offers(&self, proofs: Proofs) -> bool {
        match proofs {
            Proofs::Openings => self.openings,
            Proofs::Tags => true,
            Proofs::Packaged(kind) => self.packaged == Some(kind),
        }
    }

    /// The block at `offset` of partition `q`, at an epoch.
    ///
    /// # Errors
    /// As [`Database::layout_at`]; [`Error::Index`] beyond that epoch's layout.
    pub fn record_at(&self, at: At, q: usize, offset: usize) -> Result<Vec<u8>, Error> {
        let layout = self.layout_at(at)?;
        expect_below("partition", q, layout.partitions())?;
        expect_below("offset", offset, layout.partition_records())?;
        Ok(self.records_at(at)(q * layout.partition_records() + offset).to_vec())
    }

    /// Bytes of the records as they were at the previous epoch, also while the newest is being written.
    ///
    /// # Errors
    /// [`Error::Phase`] if there is no previous epoch; [`Error::Index`] beyond its last partition.
    pub fn previous_bytes(&self, range: Range<usize>) -> Result<Vec<u8>, Error> {
        let previous = self.overwritten()?;
        expect_below("end of the bytes", range.end, previous.layout.database_bytes() + 1)?;
        let mut bytes = self.records[range.clone()].to_vec();
        let block_bytes = previous.layout.record_bytes();
        let first = previous.indices.partition_point(|block| (*block as usize + 1) * block_bytes <= range.start);
        for (i, block) in previous.indices.iter().enumerate().skip(first) {
            let start = *block as usize * block_bytes;
            if start >= range.end {
                break;
            }
            let (from, to) = (start.max(range.start), (start + block_bytes).min(range.end));
            let old = &previous.records[i * block_bytes..][from - start..to - start];
            bytes[from - range.start..to - range.start].copy_from_slice(old);
        }
        Ok(bytes)
    }

    /// A function that returns the block of any slot, at an epoch.
    pub(crate) fn records_at<'a>(&'a self, at: At) -> impl Fn(usize) -> &'a [u8] {
        let (previous, bytes) = (self.at(at), self.layout.record_bytes());
        move |slot| {
            let overwritten = previous.and_then(|previous| previous.record(slot));
            overwritten.unwrap_or(&self.records[slot * bytes..][..bytes])
        }
    }

    /// The blocks of the newest epoch.
    pub(crate) fn newest_records(&self) -> &[u8] {
        &self.records
    }

    /// Writes the opening proofs into an answer that has the records already; `offsets` cycles through the partitions.
    pub(crate) fn open_all(
        &self,
        at: At,
        offsets: impl Iterator<Item = usize>,
        answer: &mut [u8],
    ) -> Result<(), Error> {
        let (layout, previous) = (self.layout_at(at)?, self.at(at));
        let (cells, _) = self.auxiliary.as_chunks();
        let cells_a_partition = C::auxiliary_bytes(layout) / CELL_BYTES;
        let cell = |q, number| {
            let overwritten = previous.and_then(|previous| previous.cell(q, number));
            overwritten.unwrap_or_else(|| &cells[q * cells_a_partition + number])
        };
        C::open_all(layout, offsets, cell, answer);
        Ok(())
    }

    pub(crate) fn at(&self, at: At) -> Option<&Overwritten> {
        self.previous.as_ref().filter(|_| at == At::Previous)
    }
}

pub(super) fn auxiliary_bytes<C: VectorCommitment>(layout: &Layout, openings: bool) -> Result<usize, Error> {
    if !openings {
        return Ok(0);
    }
    (layout.partitions() as u64 * C::auxiliary_bytes(layout) as u64)
        .try_into()
        .map_err(|_| Error::Layout("the proofs cannot be addressed on this machine".into()))
}
