//! What proves that an answer is genuine: vector commitments, which commit to the M records of a partition, prove those of
//! an answer, and verify the proof (papers: TAPIR, §2.1); or tags that the client keeps of every record.
//!
//! Kinds of proof are rows below ([`Proofs`]). Outside this module code knows only a commitment's name and sizes.

pub mod merkle;
pub mod tags;

pub use merkle::Merkle;
pub use tags::Tags;

use crate::error::{Error, expect_length};
use crate::layout::Layout;

/// Bytes of a commitment, whatever the scheme.
pub const COMMITMENT_BYTES: usize = 32;

/// Bytes of one cell of what a server keeps to open offsets, and of a proof.
pub const CELL_BYTES: usize = 32;

/// A deterministic, binding commitment to one partition. What a server keeps to open offsets is flat bytes (`auxiliary`),
/// so that a whole database needs one buffer; proofs are made of its cells, so that a server can patch single cells to
/// answer at an epoch it has left.
pub trait Commit: 'static {
    /// The suite's name in `/v1/info`.
    const NAME: &'static str;

    /// Bytes a server keeps for one partition, whole cells.
    fn auxiliary_bytes(layout: &Layout) -> usize;

    /// Fills `auxiliary` for a partition's M·ℓ bytes.
    fn build(layout: &Layout, partition: &[u8], auxiliary: &mut [u8]);

    /// The commitment to what `auxiliary` was built for.
    fn commitment(auxiliary: &[u8]) -> [u8; COMMITMENT_BYTES];

    /// Brings the cells that stand for one record each up to date after records changed: (offset, new record), strictly
    /// ascending by offset. `overwriting` is told each cell's number and old content before it changes, once a cell, in
    /// ascending order.
    fn update_leaves<'a>(
        layout: &Layout,
        auxiliary: &mut [u8],
        changes: impl Iterator<Item = (usize, &'a [u8])>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    );

    /// Brings all other cells up to date, which have higher numbers, once the leaves at all of these offsets, strictly
    /// ascending, are. `overwriting`: as there.
    fn update_above(
        layout: &Layout,
        auxiliary: &mut [u8],
        offsets: Vec<usize>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    );

    /// Most cells that change with so many records.
    fn changing_cells(layout: &Layout, records: usize) -> usize;
}

/// Commitments whose proofs are for whole answers. Entry k of an answer is for `offsets[k]` of partition k mod Q; behind
/// its record stands what proves it alone, and behind all entries what proves them together.
pub trait VectorCommitment: Commit {
    /// Bytes behind each record.
    fn entry_proof_bytes(layout: &Layout) -> usize;

    /// Bytes behind all entries.
    fn answer_proof_bytes(layout: &Layout) -> usize;

    /// Writes the proofs into an answer whose records are there already. `cell(q, n)` is the n-th cell of what is kept
    /// for partition q, at the epoch that is answered.
    fn open_all<'a>(
        layout: &Layout,
        offsets: impl Iterator<Item = usize>,
        cell: impl Fn(usize, usize) -> &'a [u8; CELL_BYTES],
        answer: &mut [u8],
    );

    /// Whether all entries of an answer, whose length has been checked, are what the Q commitments have. The offsets are
    /// the verifier's own. Takes the same steps whatever the answer.
    fn verify_all(layout: &Layout, commitments: &[[u8; COMMITMENT_BYTES]], offsets: &[u16], answer: &[u8]) -> bool;
}

/// Commitments that prove each entry by itself: so they prove a whole answer, with nothing behind all entries.
pub trait OpenEntry: Commit {
    /// Bytes of every opening proof under this layout, whole cells.
    fn proof_bytes(layout: &Layout) -> usize;

    /// The numbers of the cells that prove `offset`, in order; `None` stands for zeros.
    fn proof_cells(layout: &Layout, offset: usize) -> impl Iterator<Item = Option<usize>>;

    /// Whether `commitment` has `record` at `offset`. The offset is the verifier's own, the proof's length the
    /// layout's. Takes the same steps whatever the answer.
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

/// Bytes of the one proof behind an answer of [`Proofs::Pointproofs`] (docs/protocol.md, Pointproofs).
pub const POINTPROOF_BYTES: usize = 48;

/// Most entries that one of them is for, unless a single query has more: verifying takes a pairing each.
const POINTPROOF_ENTRIES: usize = 256;

/// Declares the kinds of proof from one row each, so that what is said of all of them leaves none out.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, suite $suite:literal;)+) => {
        /// What proves an answer. Servers may offer several; the client chooses for the life of a hint.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Proofs {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl Proofs {
            /// All kinds.
            pub const ALL: &[Proofs] = &[$(Proofs::$kind),+];

            /// Its name in the manifest's JSON, in options and in the bindings.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Proofs::$kind => $name,)+
                }
            }

            /// The number of the suite whose entries it proves (docs/protocol.md, What proves an entry).
            #[must_use]
            pub const fn suite(self) -> u16 {
                match self {
                    $(Proofs::$kind => $suite,)+
                }
            }
        }
    };
}

kinds! {
    /// openings of the partitions' commitments, beside each record or of all together
    Openings = "merkle", suite 1;
    /// nothing: the client has a tag of every record, and entries are records alone
    Tags = "tags", suite 2;
    /// one proof behind all entries, which are records alone. `packages/pointproofs` makes and verifies it; this crate knows
    /// only its place.
    Pointproofs = "pointproofs", suite 6;
}

impl Proofs {
    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Bytes of an entry: ℓ′, and the proof of it alone.
    #[must_use]
    pub fn entry_bytes<C: VectorCommitment>(self, layout: &Layout) -> usize {
        layout.record_bytes()
            + match self {
                Proofs::Openings => C::entry_proof_bytes(layout),
                Proofs::Tags | Proofs::Pointproofs => 0,
            }
    }

    /// Most queries of a request, of the generation's limit.
    #[must_use]
    pub fn max_batch(self, layout: &Layout, limit: usize) -> usize {
        match self {
            Proofs::Openings | Proofs::Tags => limit,
            Proofs::Pointproofs => limit.min((POINTPROOF_ENTRIES / layout.partitions()).max(1)),
        }
    }

    /// Bytes of an answer to so many queries of Q offsets each: its entries, and what proves them together.
    #[must_use]
    pub fn answer_bytes<C: VectorCommitment>(self, layout: &Layout, queries: usize) -> usize {
        queries * layout.partitions() * self.entry_bytes::<C>(layout)
            + match self {
                Proofs::Openings => C::answer_proof_bytes(layout),
                Proofs::Tags => 0,
                Proofs::Pointproofs => POINTPROOF_BYTES,
            }
    }
}

/// What a hint checks answers against.
pub(crate) enum Checks {
    /// The commitments of its epoch, Q times 32 bytes; none from an update until the new ones are taken.
    Commitments(Vec<u8>),
    /// Tags of all records.
    Tags(Tags),
    /// Nothing of its own: the caller judges answers ([`Proofs::Pointproofs`]).
    Elsewhere,
}

impl Checks {
    /// Of a manifest's commitments.
    pub(crate) fn commitments(layout: &Layout, commitments: &[u8]) -> Result<Self, Error> {
        let checks = Checks::Commitments(commitments.to_vec());
        checks.check_commitments(layout, commitments)?;
        Ok(checks)
    }

    pub(crate) fn proofs(&self) -> Proofs {
        match self {
            Checks::Commitments(_) => Proofs::Openings,
            Checks::Tags(_) => Proofs::Tags,
            Checks::Elsewhere => Proofs::Pointproofs,
        }
    }

    /// [`Error::Length`] unless these are as many commitments as a layout has partitions; other kinds do not look.
    pub(crate) fn check_commitments(&self, layout: &Layout, commitments: &[u8]) -> Result<(), Error> {
        match self {
            Checks::Commitments(_) => expect_length("commitments", commitments, layout.partitions() * COMMITMENT_BYTES),
            Checks::Tags(_) | Checks::Elsewhere => Ok(()),
        }
    }

    /// Takes the commitments of another epoch, which have been checked; other kinds take none.
    pub(crate) fn take_commitments(&mut self, commitments: &[u8]) {
        if let Checks::Commitments(old) = self {
            *old = commitments.to_vec();
        }
    }

    /// Makes sure that [`Checks::leave_epoch`] finds the memory it needs.
    pub(crate) fn reserve(&mut self, after: &Layout) -> Result<(), Error> {
        match self {
            Checks::Commitments(_) | Checks::Elsewhere => Ok(()),
            Checks::Tags(tags) => tags.reserve(after.slots()),
        }
    }

    /// Forgets the commitments of an epoch that is over, or tags the zero records of new partitions.
    pub(crate) fn leave_epoch(&mut self, after: &Layout) {
        match self {
            Checks::Commitments(commitments) => commitments.clear(),
            Checks::Tags(tags) => tags.grow(after.slots()),
            Checks::Elsewhere => {}
        }
    }

    /// Whether all of an answer, whose length has been checked, is genuine: entry k is for `offsets[k]` of partition
    /// k mod Q. Every entry is looked at, whatever the others were. [`Error::Phase`] if the commitments of an update have
    /// not been taken yet, or if the caller is to judge.
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
            Checks::Elsewhere => Err(Error::Phase("proofs of this kind are verified elsewhere; bring the verdict")),
        }
    }
}
