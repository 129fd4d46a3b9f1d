//! A hint, and how it is made in the offline phase (Fig. 4, `RequestHint` and `VerSetup`). Partitions stream in. Each is
//! checked against the content hash that both servers agreed on. Then it is folded, under its own fresh permutation, into
//! the parities h_j = ⊕_q DB_q[σ_q(j)].

use zeroize::Zeroizing;

use crate::bytes::{wipe, xor_into, zeroed};
use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Checks, Proofs, Tags};
use crate::database::content::CONTENT_HASH_BYTES;
use crate::database::lanes::{LANES, Lanes};
use crate::error::{Error, expect_below, expect_length};
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::stored::{HINT_ID_BYTES, ID_STREAM, Stamp};
use crate::tapir::permutation::Permutations;

/// The ChaCha stream for the point of its tags. Permutations use the streams 0 to Q − 1.
const TAG_KEY_STREAM: u64 = u64::MAX - 1;

/// The ChaCha stream for its secret.
const SECRET_STREAM: u64 = u64::MAX - 2;

/// What the client keeps between queries: permutations, parities, and the data that it checks answers with. Secret, and
/// never copied: neither `Clone` nor `Debug`.
pub struct Hint {
    pub(crate) layout: Layout,
    pub(crate) stamp: Stamp,
    pub(crate) checks: Checks,
    pub(crate) secret: Secret,
    pub(crate) permutations: Permutations,
    pub(crate) parities: Vec<u8>,
    pub(crate) condemned: bool,
}

impl Drop for Hint {
    /// The other secrets wipe themselves.
    fn drop(&mut self) {
        wipe(&mut self.parities);
    }
}

impl Hint {
    /// The layout at its epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its id and version.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Bytes of the parities: M·ℓ.
    #[must_use]
    pub fn parity_bytes(&self) -> usize {
        self.parities.len()
    }

    /// Bytes of the permutations: 2·Q·M.
    #[must_use]
    pub fn permutation_bytes(&self) -> usize {
        self.permutations.bytes()
    }

    /// The kind of proof that its answers must have.
    #[must_use]
    pub fn proofs(&self) -> Proofs {
        self.checks.proofs()
    }

    /// Bytes of the tags: 8·Q·M; 0 without tags.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        self.tags().map_or(0, Tags::bytes)
    }

    pub(crate) fn tags(&self) -> Option<&Tags> {
        if let Checks::Tags(tags) = &self.checks { Some(tags) } else { None }
    }

    /// This hint with the given tags of all blocks, made under the point `key`. For tests that enumerate hints.
    #[must_use]
    pub fn hazmat_keep_tags(mut self, key: [u8; TAG_BYTES], of_blocks: Vec<u64>) -> Self {
        self.checks = Checks::Tags(Tags::of_slots(key, of_blocks));
        self
    }

    /// Marks the hint as unusable, for good.
    pub fn condemn(&mut self) {
        self.condemned = true;
    }

    /// Whether the hint is condemned.
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
    /// M·ℓ bytes for each lane
    buffers: [Vec<u8>; LANES],
}

impl HintBuilder {
    /// Begins a hint from 32 bytes of fresh entropy, whose answers have `proofs`. `content_hashes` are Q times 32 bytes. So are
    /// `commitments`, which only [`Proofs::Openings`] reads. With [`Proofs::Tags`] the tags' point comes from the same entropy.
    /// With [`Proofs::Packaged`] the caller verifies answers and passes each verdict ([`crate::tapir::recon::judged`]).
    ///
    /// # Errors
    /// [`Error::Length`] unless there are Q digests; [`Error::Layout`] if memory does not suffice.
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
            Proofs::Packaged(kind) => Checks::ByCaller(kind),
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

    /// The id of the hint in the making.
    #[must_use]
    pub fn hint_id(&self) -> [u8; HINT_ID_BYTES] {
        self.hint.stamp.hint_id
    }

    /// The M·ℓ bytes into which a lane receives its partition.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn lane_bytes(&mut self, lane: usize) -> Result<&mut [u8], Error> {
        expect_below("lane", lane, LANES)?;
        Ok(&mut self.buffers[lane])
    }

    /// Begins to receive a partition, from its first byte.
    ///
    /// # Errors
    /// [`Error::Index`] if lane or partition do not exist; [`Error::Phase`] if the partition is folded already, or the
    /// other lane receives it.
    pub fn begin(&mut self, lane: usize, partition: usize) -> Result<(), Error> {
        // A partition folded twice would cancel itself out of the parities.
        let folded = self.is_folded(partition)?;
        self.lanes.begin(lane, partition, folded)
    }

    /// Hashes the lane's next `count` bytes, which the caller has written.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if the bytes go beyond the partition.
    pub fn absorb(&mut self, lane: usize, count: usize) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        self.lanes.absorb(lane, count, &self.buffers[lane])
    }

    /// Checks the lane's partition against its content hash, and only then folds it (Fig. 4, `VerSetup` 7–12) under a
    /// permutation from the hint's entropy. Tags its records if the hint keeps tags. Returns `false` if the hash differs; then
    /// the partition is not folded. The lane is free again either way.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if bytes are missing.
    pub fn fold(&mut self, lane: usize) -> Result<bool, Error> {
        let mut source = ChaCha::new(&self.entropy, self.lanes.under_way(lane)? as u64);
        self.hazmat_fold_from(lane, &mut source)
    }

    /// [`HintBuilder::fold`] with the caller's randomness. For tests that enumerate all permutations. With anything but secret,
    /// uniform randomness, servers can learn the client's queries.
    ///
    /// # Errors
    /// As [`HintBuilder::fold`].
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

    /// Drops what a lane has received so far.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        self.lanes.abandon(lane)
    }

    /// Drops the downloads of these partitions.
    pub(crate) fn abandon_partitions(&mut self, which: impl FnMut(usize) -> bool) {
        self.lanes.abandon_partitions(which);
    }

    /// The kind of proof that the hint's answers must have.
    #[must_use]
    pub fn proofs(&self) -> Proofs {
        self.hint.proofs()
    }

    /// Whether a partition is folded.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn is_folded(&self, partition: usize) -> Result<bool, Error> {
        expect_below("partition", partition, self.folded.len())?;
        Ok(self.folded[partition])
    }

    /// The number of folded partitions.
    #[must_use]
    pub fn folded(&self) -> usize {
        self.folded.iter().filter(|&&folded| folded).count()
    }

    /// The hint, when all Q partitions are folded.
    ///
    /// # Errors
    /// [`Error::Phase`] if partitions are missing, with the builder unchanged.
    pub fn finish(self) -> Result<Hint, (Error, Self)> {
        if self.folded() == self.folded.len() {
            Ok(self.hint)
        } else {
            Err((Error::Phase("partitions are missing from the hint; fold them first"), self))
        }
    }

    /// [`HintBuilder::finish`], for a builder to which `version` updates have been applied.
    ///
    /// # Errors
    /// As [`HintBuilder::finish`].
    pub fn finish_at(self, version: u64) -> Result<Hint, (Error, Self)> {
        let mut hint = self.finish()?;
        hint.stamp.version = version;
        Ok(hint)
    }
}
