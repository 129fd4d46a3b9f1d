//! The proofs that an answer is genuine. There are two ways: a vector commitment commits to the M records of a partition,
//! proves the records of an answer, and verifies the proof (papers: TAPIR, §2.1); or the client keeps a tag of every record.
//!
//! The kinds of proof are [`Proofs`], which has those of packages from the rows of [`packaged`]. Code outside this module uses a commitment's name and sizes only.

pub mod merkle;
pub mod packaged;
pub mod tags;

pub use merkle::Merkle;
use packaged::{PACKAGED, Packaged};
pub use tags::Tags;

use crate::error::{Error, expect_length};
use crate::layout::Layout;

/// Bytes of a commitment, in every scheme.
pub const COMMITMENT_BYTES: usize = 32;

/// Bytes of a cell. Proofs, and the data that a server keeps to make them, consist of cells.
pub const CELL_BYTES: usize = 32;

/// A deterministic, binding commitment to one partition. The data that a server keeps to open offsets (`auxiliary`) is
/// flat bytes, so that a whole database needs one buffer. Proofs consist of its cells, so that a server answers at the
/// previous epoch by replacing single cells.
pub trait Commit: 'static {
    /// The suite's name in `/v1/info`.
    const NAME: &'static str;

    /// Bytes that a server keeps for one partition: whole cells.
    fn auxiliary_bytes(layout: &Layout) -> usize;

    /// Computes `auxiliary` from a partition's M·ℓ bytes.
    fn build(layout: &Layout, partition: &[u8], auxiliary: &mut [u8]);

    /// The commitment to the partition from which `auxiliary` was built.
    fn commitment(auxiliary: &[u8]) -> [u8; COMMITMENT_BYTES];

    /// Updates the cells of single records after records have changed. `changes` are (offset, new record), strictly ascending.
    /// Calls `overwriting` with each cell's number and old content before the cell changes: once for each cell, in ascending
    /// order.
    fn update_leaves<'a>(
        layout: &Layout,
        auxiliary: &mut [u8],
        changes: impl Iterator<Item = (usize, &'a [u8])>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    );

    /// Updates all other cells, which have higher numbers. The leaves at these offsets, strictly ascending, must be up to date.
    /// `overwriting`: as for [`Commit::update_leaves`].
    fn update_above(
        layout: &Layout,
        auxiliary: &mut [u8],
        offsets: Vec<usize>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    );

    /// The most cells that change with `records` records.
    fn changing_cells(layout: &Layout, records: usize) -> usize;
}

/// Commitments whose proofs are for whole answers. Entry k of an answer belongs to `offsets[k]` of partition k mod Q. Each
/// entry is a record and its own proof. After all entries comes a proof of all of them. Either proof may have 0 bytes.
pub trait VectorCommitment: Commit {
    /// Bytes of the proof after each record.
    fn entry_proof_bytes(layout: &Layout) -> usize;

    /// Bytes of the proof after all entries.
    fn answer_proof_bytes(layout: &Layout) -> usize;

    /// Writes the proofs into an answer that has the records already. `cell(q, n)` is the n-th cell of partition q, at the
    /// epoch of the answer.
    fn open_all<'a>(
        layout: &Layout,
        offsets: impl Iterator<Item = usize>,
        cell: impl Fn(usize, usize) -> &'a [u8; CELL_BYTES],
        answer: &mut [u8],
    );

    /// Whether all entries of an answer belong to the Q commitments. The answer's length has been checked. The offsets are the
    /// verifier's own. The steps are the same whatever the result.
    fn verify_all(layout: &Layout, commitments: &[[u8; COMMITMENT_BYTES]], offsets: &[u16], answer: &[u8]) -> bool;
}

/// Commitments that prove each entry by itself. They prove a whole answer too, with nothing after the entries.
pub trait OpenEntry: Commit {
    /// Bytes of every opening proof under this layout: whole cells.
    fn proof_bytes(layout: &Layout) -> usize;

    /// The numbers of the cells that prove `offset`, in order; `None` stands for zeros.
    fn proof_cells(layout: &Layout, offset: usize) -> impl Iterator<Item = Option<usize>>;

    /// Whether the partition with this `commitment` has `record` at `offset`. The offset is the verifier's own, and the
    /// layout decides the proof's length. The steps are the same whatever the result.
    fn verify(layout: &Layout, commitment: &[u8; COMMITMENT_BYTES], offset: usize, record: &[u8], proof: &[u8])
    -> bool;
}

impl<C: OpenEntry> VectorCommitment for C {
    fn entry_proof_bytes(layout: &Layout) -> usize {
        C::proof_bytes(layout)
    }

    fn answer_proof_bytes(_: &Layout) -> usize {
        0
    }

    fn open_all<'a>(
        layout: &Layout,
        offsets: impl Iterator<Item = usize>,
        cell: impl Fn(usize, usize) -> &'a [u8; CELL_BYTES],
        answer: &mut [u8],
    ) {
        let entry_bytes = layout.record_bytes() + C::proof_bytes(layout);
        for (number, (entry, offset)) in answer.chunks_exact_mut(entry_bytes).zip(offsets).enumerate() {
            let (_, proof) = entry.split_at_mut(layout.record_bytes());
            for (number_of_cell, into) in C::proof_cells(layout, offset).zip(proof.chunks_exact_mut(CELL_BYTES)) {
                match number_of_cell {
                    Some(n) => into.copy_from_slice(cell(number % layout.partitions(), n)),
                    None => into.fill(0),
                }
            }
        }
    }

    fn verify_all(layout: &Layout, commitments: &[[u8; COMMITMENT_BYTES]], offsets: &[u16], answer: &[u8]) -> bool {
        let entries = answer.chunks_exact(layout.record_bytes() + C::proof_bytes(layout));
        entries.zip(offsets).zip(commitments.iter().cycle()).fold(true, |genuine, ((entry, &offset), commitment)| {
            let (record, proof) = entry.split_at(layout.record_bytes());
            genuine & C::verify(layout, commitment, usize::from(offset), record, proof)
        })
    }
}

/// How an answer is proved. A server may offer several kinds; the client chooses one for the life of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proofs {
    /// openings of the partitions' commitments: one after each record, or one for all
    Openings,
    /// no proof: the client has a tag of every record, and entries are records alone
    Tags,
    /// one proof after all entries, which a package makes and verifies
    Packaged(&'static Packaged),
}

impl Proofs {
    /// All kinds.
    pub const ALL: &[Proofs] = &{
        let mut all = [Proofs::Openings; 2 + PACKAGED.len()];
        all[1] = Proofs::Tags;
        let mut number = 0;
        while number < PACKAGED.len() {
            all[2 + number] = Proofs::Packaged(&PACKAGED[number]);
            number += 1;
        }
        all
    };

    /// The name in the manifest's JSON, in options and in the bindings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Proofs::Openings => "merkle",
            Proofs::Tags => "tags",
            Proofs::Packaged(kind) => kind.name,
        }
    }

    /// The number of the suite with these proofs (docs/protocol.md, What proves an entry).
    #[must_use]
    pub const fn suite(self) -> u16 {
        match self {
            Proofs::Openings => 1,
            Proofs::Tags => 2,
            Proofs::Packaged(kind) => kind.suite,
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Bytes of an entry: ℓ′, and its own proof.
    #[must_use]
    pub fn entry_bytes<C: VectorCommitment>(self, layout: &Layout) -> usize {
        layout.record_bytes()
            + match self {
                Proofs::Openings => C::entry_proof_bytes(layout),
                Proofs::Tags | Proofs::Packaged(_) => 0,
            }
    }

    /// The most queries of a request. `limit` is the generation's query limit.
    #[must_use]
    pub fn max_queries(self, layout: &Layout, limit: usize) -> usize {
        match self {
            Proofs::Openings | Proofs::Tags => limit,
            Proofs::Packaged(kind) => limit.min((kind.max_entries / layout.partitions()).max(1)),
        }
    }

    /// Bytes of an answer to `queries` queries of Q offsets each: its entries, and the proof of all of them.
    #[must_use]
    pub fn answer_bytes<C: VectorCommitment>(self, layout: &Layout, queries: usize) -> usize {
        queries * layout.partitions() * self.entry_bytes::<C>(layout)
            + match self {
                Proofs::Openings => C::answer_proof_bytes(layout),
                Proofs::Tags => 0,
                Proofs::Packaged(kind) => kind.answer_bytes,
            }
    }
}

/// What a hint checks answers with.
pub(crate) enum Checks {
    /// The commitments of its epoch, Q times 32 bytes; none between an update and [`Checks::take_commitments`].
    Commitments(Vec<u8>),
    /// A tag of every record.
    Tags(Tags),
    /// Nothing: the caller verifies answers.
    ByCaller(&'static Packaged),
}

impl Checks {
    /// Checks answers with a manifest's commitments.
    pub(crate) fn commitments(layout: &Layout, commitments: &[u8]) -> Result<Self, Error> {
        let checks = Checks::Commitments(commitments.to_vec());
        checks.check_commitments(layout, commitments)?;
        Ok(checks)
    }

    pub(crate) fn proofs(&self) -> Proofs {
        match self {
            Checks::Commitments(_) => Proofs::Openings,
            Checks::Tags(_) => Proofs::Tags,
            Checks::ByCaller(kind) => Proofs::Packaged(kind),
        }
    }

    /// [`Error::Length`] unless there is a commitment for each partition. Other kinds accept anything.
    pub(crate) fn check_commitments(&self, layout: &Layout, commitments: &[u8]) -> Result<(), Error> {
        match self {
            Checks::Commitments(_) => expect_length("commitments", commitments, layout.partitions() * COMMITMENT_BYTES),
            Checks::Tags(_) | Checks::ByCaller(_) => Ok(()),
        }
    }

    /// Stores the next epoch's commitments, which have been checked. Other kinds ignore them.
    pub(crate) fn take_commitments(&mut self, commitments: &[u8]) {
        if let Checks::Commitments(old) = self {
            *old = commitments.to_vec();
        }
    }

    /// Reserves the memory that [`Checks::leave_epoch`] needs.
    pub(crate) fn reserve(&mut self, after: &Layout) -> Result<(), Error> {
        match self {
            Checks::Commitments(_) | Checks::ByCaller(_) => Ok(()),
            Checks::Tags(tags) => tags.reserve(after.slots()),
        }
    }

    /// Drops the commitments of the old epoch, or tags the zero records of new partitions.
    pub(crate) fn leave_epoch(&mut self, after: &Layout) {
        match self {
            Checks::Commitments(commitments) => commitments.clear(),
            Checks::Tags(tags) => tags.grow(after.slots()),
            Checks::ByCaller(_) => {}
        }
    }

    /// Whether the whole answer is genuine: entry k belongs to `offsets[k]` of partition k mod Q. Its length has been checked.
    /// Every entry is verified, whatever the others are. [`Error::Phase`] if the new epoch's commitments are missing, or if
    /// the caller verifies answers.
    pub(crate) fn verify<C: VectorCommitment>(
        &self,
        layout: &Layout,
        offsets: &[u16],
        answer: &[u8],
    ) -> Result<bool, Error> {
        match self {
            Checks::Commitments(commitments) => {
                let commitments: &[[u8; COMMITMENT_BYTES]] = commitments.as_chunks().0;
                if commitments.len() != layout.partitions() {
                    return Err(Error::Phase("take the new epoch's commitments first"));
                }
                Ok(C::verify_all(layout, commitments, offsets, answer))
            }
            Checks::Tags(tags) => {
                let records = answer.chunks_exact(layout.record_bytes()).zip(offsets).enumerate();
                let differences = records.fold(0, |differences, (number, (record, &offset))| {
                    let q = number % layout.partitions();
                    differences | tags.difference(q * layout.partition_records() + usize::from(offset), record)
                });
                Ok(differences == 0)
            }
            Checks::ByCaller(_) => Err(Error::Phase("the caller verifies proofs of this kind; pass the verdict")),
        }
    }
}
