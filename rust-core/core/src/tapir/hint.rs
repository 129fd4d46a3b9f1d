//! The offline phase (Fig. 4, `RequestHint` and `VerSetup`): partitions stream in, each is checked against the content
//! hash both servers agreed on and then folded under its own fresh permutation into the parities
//! h_j = ⊕_q DB_q[σ_q(j)].

use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::bytes::{xor_into, zeroed};
use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Checks, Proofs, Tags};
use crate::database::content::CONTENT_HASH_BYTES;
use crate::database::lanes::{LANES, Lanes};
use crate::error::{Error, expect_below, expect_length};
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::tapir::permutation::Permutations;

/// Bytes of a hint's id.
pub const HINT_ID_BYTES: usize = 16;
/// The ChaCha stream that a hint's id is drawn from; permutations use the streams 0 … Q − 1.
pub(crate) const ID_STREAM: u64 = u64::MAX;
/// The stream that the point of its tags is drawn from.
const TAG_KEY_STREAM: u64 = u64::MAX - 1;

/// The stream that its secret is drawn from.
const SECRET_STREAM: u64 = u64::MAX - 2;

/// Where a hint stands in its life: its random id, and what was applied to it. Every stored form carries
/// it, so that bytes of another hint or of another moment are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// random; known only to the client and, later, to the refresh server's fence
    pub hint_id: [u8; HINT_ID_BYTES],
    /// batches and updates applied since the hint was first stored
    pub version: u64,
}

/// What the client holds between queries: permutations, parities, and what it checks answers against.
/// Secret and unique: neither `Clone` nor `Debug`.
#[derive(ZeroizeOnDrop)]
pub struct Hint {
    #[zeroize(skip)]
    pub(crate) layout: Layout,
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// zeroizes what is secret in it by itself
    #[zeroize(skip)]
    pub(crate) checks: Checks,
    pub(crate) secret: Secret,
    pub(crate) permutations: Permutations,
    pub(crate) parities: Vec<u8>,
    pub(crate) condemned: bool,
}

impl Hint {
    /// The layout it was made for.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its id and version.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Bytes of parities, M·ℓ.
    #[must_use]
    pub fn parity_bytes(&self) -> usize {
        self.parities.len()
    }

    /// Bytes of permutations, 2·Q·M.
    #[must_use]
    pub fn permutation_bytes(&self) -> usize {
        self.permutations.bytes()
    }

    /// What proves the answers it takes.
    #[must_use]
    pub fn proofs(&self) -> Proofs {
        self.checks.proofs()
    }

    /// Bytes of tags, 8·Q·M; 0 if it keeps none.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        self.tags().map_or(0, Tags::bytes)
    }

    pub(crate) fn tags(&self) -> Option<&Tags> {
        if let Checks::Tags(tags) = &self.checks { Some(tags) } else { None }
    }

    /// The same hint, but that it checks answers against these tags of all blocks, under this point: for tests that
    /// enumerate hints.
    #[must_use]
    pub fn hazmat_keep_tags(mut self, key: [u8; TAG_BYTES], of_blocks: Vec<u64>) -> Self {
        self.checks = Checks::Tags(Tags::of_slots(key, of_blocks));
        self
    }

    /// Never to be used again.
    pub fn condemn(&mut self) {
        self.condemned = true;
    }

    /// Whether it was condemned.
    #[must_use]
    pub fn is_condemned(&self) -> bool {
        self.condemned
    }

    pub(crate) fn parity_mut(&mut self, column: usize) -> &mut [u8] {
        let record_bytes = self.layout.record_bytes();
        &mut self.parities[column * record_bytes..][..record_bytes]
    }
}

/// A hint in the making.
pub struct HintBuilder {
    pub(crate) hint: Hint,
    pub(crate) content_hashes: Vec<u8>,
    pub(crate) entropy: Zeroizing<[u8; ENTROPY_BYTES]>,
    pub(crate) folded: Vec<bool>,
    lanes: Lanes,
    /// M·ℓ bytes a lane
    buffers: [Vec<u8>; LANES],
}

impl HintBuilder {
    /// Begins a hint under 32 bytes of fresh entropy, whose answers are proved in this way. `content_hashes` are Q times 32
    /// bytes; so are `commitments`, which only [`Proofs::Openings`] looks at. A key for tags is drawn from the same entropy.
    /// With [`Proofs::Pointproofs`] the caller verifies answers and brings each verdict ([`crate::tapir::recon::judged`]).
    ///
    /// # Errors
    /// [`Error::Length`] if the digests are not Q; [`Error::Layout`] if memory does not suffice.
    pub fn new(
        layout: Layout,
        proofs: Proofs,
        commitments: &[u8],
        content_hashes: &[u8],
        entropy: [u8; ENTROPY_BYTES],
    ) -> Result<Self, Error> {
        let checks = match proofs {
            Proofs::Openings => Checks::commitments(&layout, commitments)?,
            Proofs::Tags => {
                let mut key = Zeroizing::new([0; TAG_BYTES]);
                ChaCha::new(&entropy, TAG_KEY_STREAM).fill(key.as_mut_slice());
                Checks::Tags(Tags::new(*key, layout.slots())?)
            }
            Proofs::Pointproofs => Checks::Elsewhere,
        };
        expect_length("content hashes", content_hashes, layout.partitions() * CONTENT_HASH_BYTES)?;
        let mut hint_id = [0; HINT_ID_BYTES];
        ChaCha::new(&entropy, ID_STREAM).fill(&mut hint_id);
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        ChaCha::new(&entropy, SECRET_STREAM).fill(secret.as_mut_slice());
        Ok(HintBuilder {
            hint: Hint {
                layout,
                stamp: Stamp { hint_id, version: 0 },
                checks,
                secret: Secret::new(*secret),
                permutations: Permutations::identities(&layout),
                parities: zeroed(layout.partition_bytes())?,
                condemned: false,
            },
            content_hashes: content_hashes.to_vec(),
            entropy: Zeroizing::new(entropy),
            folded: vec![false; layout.partitions()],
            lanes: Lanes::default(),
            buffers: [zeroed(layout.partition_bytes())?, zeroed(layout.partition_bytes())?],
        })
    }

    /// The id of the hint to be.
    #[must_use]
    pub fn hint_id(&self) -> [u8; HINT_ID_BYTES] {
        self.hint.stamp.hint_id
    }

    /// The M·ℓ bytes a lane receives into.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn lane_bytes(&mut self, lane: usize) -> Result<&mut [u8], Error> {
        expect_below("lane", lane, LANES)?;
        Ok(&mut self.buffers[lane])
    }

    /// Starts receiving a partition, from its first byte.
    ///
    /// # Errors
    /// [`Error::Index`] if lane or partition do not exist; [`Error::Phase`] if the partition is folded already or
    /// under way in the other lane.
    pub fn begin(&mut self, lane: usize, partition: usize) -> Result<(), Error> {
        // A partition folded twice would cancel itself out of the parities.
        let folded = self.is_folded(partition)?;
        self.lanes.begin(lane, partition, folded)
    }

    /// Takes note that the lane's next `count` bytes have been written, and hashes them.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if the partition is not that long.
    pub fn absorb(&mut self, lane: usize, count: usize) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        self.lanes.absorb(lane, count, &self.buffers[lane])
    }

    /// Checks the lane's partition against its content hash and only then folds it (Fig. 4, `VerSetup` 7–12) under a
    /// permutation drawn from the hint's entropy, and tags its records if the hint keeps tags. `false`: the hash differs;
    /// nothing but the lane has changed, which is free again.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if bytes are missing.
    pub fn fold(&mut self, lane: usize) -> Result<bool, Error> {
        let mut source = ChaCha::new(&self.entropy, self.lanes.under_way(lane)? as u64);
        self.hazmat_fold_from(lane, &mut source)
    }

    /// [`HintBuilder::fold`] with a source of the caller's: for tests that enumerate all permutations. Anything but a
    /// secret uniform source gives the client's queries away.
    ///
    /// # Errors
    /// As there.
    pub fn hazmat_fold_from(&mut self, lane: usize, source: &mut impl Uniform) -> Result<bool, Error> {
        expect_below("lane", lane, LANES)?;
        let bytes = &self.buffers[lane];
        let (q, genuine) = self.lanes.end(lane, bytes, &self.content_hashes)?;
        if !genuine {
            return Ok(false);
        }
        let Hint { layout, checks, permutations, parities, .. } = &mut self.hint;
        permutations.draw(q, source);
        let record_bytes = layout.record_bytes();
        for (parity, &offset) in parities.chunks_exact_mut(record_bytes).zip(permutations.of(q)) {
            xor_into(parity, &bytes[usize::from(offset) * record_bytes..][..record_bytes]);
        }
        if let Checks::Tags(tags) = checks {
            tags.take(q * layout.partition_records(), bytes, record_bytes);
        }
        self.folded[q] = true;
        Ok(true)
    }

    /// Gives a lane up; what it received is forgotten.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        self.lanes.abandon(lane)
    }

    /// Gives up the lanes that receive one of these partitions.
    pub(crate) fn abandon_partitions(&mut self, which: impl FnMut(usize) -> bool) {
        self.lanes.abandon_partitions(which);
    }

    /// What will prove the answers that the hint takes.
    #[must_use]
    pub fn proofs(&self) -> Proofs {
        self.hint.proofs()
    }

    /// Whether a partition is part of the parities already.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn is_folded(&self, partition: usize) -> Result<bool, Error> {
        expect_below("partition", partition, self.folded.len())?;
        Ok(self.folded[partition])
    }

    /// Partitions folded so far.
    #[must_use]
    pub fn folded(&self) -> usize {
        self.folded.iter().filter(|&&folded| folded).count()
    }

    /// The hint, once all Q partitions are folded.
    ///
    /// # Errors
    /// [`Error::Phase`] with the builder unchanged, if partitions are missing.
    pub fn finish(self) -> Result<Hint, (Error, Self)> {
        if self.folded() == self.folded.len() {
            Ok(self.hint)
        } else {
            Err((Error::Phase("partitions are missing from the hint"), self))
        }
    }

    /// The same, for a hint that `version` updates have been applied to on its way.
    ///
    /// # Errors
    /// As [`HintBuilder::finish`].
    pub fn finish_at(self, version: u64) -> Result<Hint, (Error, Self)> {
        let mut hint = self.finish()?;
        hint.stamp.version = version;
        Ok(hint)
    }
}
