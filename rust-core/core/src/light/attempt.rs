//! The client's side of a light hint: its secrets, and the checks that both replies have to pass before anything of
//! them is stored, registered or asked with. An attempt is made once: whatever fails, its root is never used again.

use pirouette_kernels::light::CHALLENGES;
use pirouette_kernels::linear::{Point, TAG_BYTES};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{PARITIES_REQUEST_BYTES, TAGS_REQUEST_BYTES, parities_reply_bytes, tags_reply_bytes};
use crate::commitment::Checks;
use crate::error::{Error, expect_below, expect_length};
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES};
use crate::tapir::hint::{HINT_ID_BYTES, Hint, ID_STREAM, Stamp};
use crate::tapir::permutation::Permutations;

/// Streams of the root: the seed of the permutations, that of the challenges, the point of the tags. (The hint's id is
/// drawn from [`ID_STREAM`].)
const SEED_STREAM: u64 = u64::MAX - 2;
const CHALLENGE_STREAM: u64 = u64::MAX - 3;
const POINT_STREAM: u64 = u64::MAX - 4;
/// The stream of the hint's secret, which hedges its queries' entropy.
const SECRET_STREAM: u64 = u64::MAX - 5;

/// A light hint in the making, in memory alone. Secret: overwritten when dropped; neither `Clone` nor `Debug`.
#[derive(ZeroizeOnDrop)]
pub struct Attempt {
    #[zeroize(skip)]
    layout: Layout,
    #[zeroize(skip)]
    commitments: Vec<u8>,
    hint_id: [u8; HINT_ID_BYTES],
    seed: [u8; ENTROPY_BYTES],
    challenge: [u8; ENTROPY_BYTES],
    point: [u8; TAG_BYTES],
    secret: [u8; SECRET_BYTES],
}

/// What came of an attempt.
#[allow(clippy::large_enum_variant)] // there is one of it, and it is taken apart at once
pub enum Outcome {
    /// both replies passed every check
    Accepted(Hint),
    /// at least one server lied
    Refused(Box<Inquiry>),
}

/// Which checks the replies passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// A: the tags agree with the challenge sums
    pub sums: bool,
    /// B: the parities agree with the tags
    pub columns: bool,
}

impl Verdict {
    /// Whether all checks passed.
    #[must_use]
    pub fn holds(self) -> bool {
        self.sums && self.columns
    }

    /// Whether it was the refresh server that lied, but for 2^-64·⌈ℓ/8⌉; otherwise it may have been either.
    #[must_use]
    pub fn blames_refresh_server(self) -> bool {
        self.sums && !self.columns
    }
}

impl Attempt {
    /// Begins one under 32 bytes of fresh entropy that nothing else is drawn from. `commitments` are the manifest's Q.
    ///
    /// # Errors
    /// [`Error::Length`] if the commitments are not Q.
    pub fn new(layout: Layout, commitments: &[u8], root: &[u8; ENTROPY_BYTES]) -> Result<Self, Error> {
        Checks::commitments(&layout, commitments)?;
        let mut attempt = Attempt {
            layout,
            commitments: commitments.to_vec(),
            hint_id: [0; HINT_ID_BYTES],
            seed: [0; ENTROPY_BYTES],
            challenge: [0; ENTROPY_BYTES],
            point: [0; TAG_BYTES],
            secret: [0; SECRET_BYTES],
        };
        ChaCha::new(root, ID_STREAM).fill(&mut attempt.hint_id);
        ChaCha::new(root, SEED_STREAM).fill(&mut attempt.seed);
        ChaCha::new(root, CHALLENGE_STREAM).fill(&mut attempt.challenge);
        ChaCha::new(root, POINT_STREAM).fill(&mut attempt.point);
        ChaCha::new(root, SECRET_STREAM).fill(&mut attempt.secret);
        Ok(attempt)
    }

    /// For the refresh server alone: who has this and the retrieve vectors reads what is asked.
    #[must_use]
    pub fn parities_request(&self) -> Zeroizing<Vec<u8>> {
        let mut request = Zeroizing::new(Vec::with_capacity(PARITIES_REQUEST_BYTES));
        request.extend_from_slice(&self.seed);
        request.extend_from_slice(&self.challenge);
        request
    }

    /// For the retrieve server alone: who has this can make wrong parities that pass.
    #[must_use]
    pub fn tags_request(&self) -> [u8; TAGS_REQUEST_BYTES] {
        self.point
    }

    /// Checks both replies, all of them whatever is found, and turns them into a hint; the attempt is over either way.
    ///
    /// # Errors
    /// [`Error::Length`] for replies of another length; [`Error::Layout`] if memory does not suffice.
    pub fn finish(self, parities_reply: &[u8], tags_reply: &[u8]) -> Result<Outcome, Error> {
        expect_length("parities and challenge sums", parities_reply, parities_reply_bytes(&self.layout))?;
        expect_length("tags", tags_reply, tags_reply_bytes(&self.layout))?;
        let (parities, sums) = parities_reply.split_at(self.layout.partition_bytes());
        let permutations = Permutations::from_entropy(&self.layout, &self.seed);
        let replies = [parities, sums, tags_reply];
        let verdict = check(&self.layout, &permutations, &self.challenge, self.point, replies);
        if !verdict.holds() {
            let inquiry = Inquiry {
                layout: self.layout,
                verdict,
                seed: self.seed,
                challenge: self.challenge,
                point: self.point,
                parities: parities.to_vec(),
                sums: sums.to_vec(),
                tags: tags_reply.to_vec(),
                taken: vec![false; self.layout.partitions()],
                tags_differ: false,
            };
            return Ok(Outcome::Refused(Box::new(inquiry)));
        }
        Ok(Outcome::Accepted(Hint {
            layout: self.layout,
            stamp: Stamp { hint_id: self.hint_id, version: 0 },
            checks: Checks::commitments(&self.layout, &self.commitments)?,
            secret: Secret::new(self.secret),
            permutations,
            parities: parities.to_vec(),
            condemned: false,
        }))
    }
}

/// Replies that were refused, kept in memory until all partitions have shown who lied: they show what the tags ought to
/// have been, and by these the refresh server's reply is judged. Secret, as the attempt was.
#[derive(ZeroizeOnDrop)]
pub struct Inquiry {
    #[zeroize(skip)]
    layout: Layout,
    #[zeroize(skip)]
    verdict: Verdict,
    seed: [u8; ENTROPY_BYTES],
    challenge: [u8; ENTROPY_BYTES],
    point: [u8; TAG_BYTES],
    parities: Vec<u8>,
    sums: Vec<u8>,
    /// as they were replied; of partitions that were taken, as they ought to have been
    tags: Vec<u8>,
    #[zeroize(skip)]
    taken: Vec<bool>,
    #[zeroize(skip)]
    tags_differ: bool,
}

/// Who lied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liars {
    /// the refresh server: parities or challenge sums were wrong, unless it had 2^-64·⌈ℓ/8⌉ of luck
    pub refresh: bool,
    /// the retrieve server: tags were wrong
    pub retrieve: bool,
}

impl Inquiry {
    /// Which checks the replies passed.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Compares what was replied with a partition, whose content hash has been found right, of the replies' epoch.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition; [`Error::Length`] if it is not as long as one.
    pub fn take(&mut self, q: usize, partition: &[u8]) -> Result<(), Error> {
        expect_below("partition", q, self.taken.len())?;
        expect_length("partition", partition, self.layout.partition_bytes())?;
        let (m, record_bytes) = (self.layout.partition_records(), self.layout.record_bytes());
        let mut point = Point::new(u64::from_le_bytes(self.point));
        let of_partition = &mut self.tags.as_chunks_mut::<TAG_BYTES>().0[q * m..(q + 1) * m];
        for (record, tag) in partition.chunks_exact(record_bytes).zip(of_partition) {
            let right = point.tag(record).to_le_bytes();
            self.tags_differ |= right != *tag;
            *tag = right;
        }
        point.clear();
        self.taken[q] = true;
        Ok(())
    }

    /// Who lied, once all partitions were taken; none before.
    #[must_use]
    pub fn liars(self) -> Option<Liars> {
        let known = self.taken.iter().all(|&taken| taken);
        known.then(|| {
            let permutations = Permutations::from_entropy(&self.layout, &self.seed);
            let replies = [&self.parities[..], &self.sums, &self.tags];
            let verdict = check(&self.layout, &permutations, &self.challenge, self.point, replies);
            Liars { refresh: !verdict.holds(), retrieve: self.tags_differ }
        })
    }
}

/// The checks of parities, sums and tags.
fn check(
    layout: &Layout,
    permutations: &Permutations,
    challenge: &[u8; ENTROPY_BYTES],
    point: [u8; TAG_BYTES],
    [parities, sums, tags]: [&[u8]; 3],
) -> Verdict {
    let mut challenges = ChaCha::new(challenge, 0);
    let words = |words: &mut [[u8; 8]]| challenges.fill(words.as_flattened_mut());
    hazmat_check(layout, u64::from_le_bytes(point), permutations, words, parities, sums, tags)
}

/// The checks, on replies of the right lengths, under secrets of the caller's: for tests that enumerate them. `words`
/// fills in the challenge words of the next slots.
#[must_use]
pub fn hazmat_check(
    layout: &Layout,
    point: u64,
    permutations: &Permutations,
    mut words: impl FnMut(&mut [[u8; 8]]),
    parities: &[u8],
    sums: &[u8],
    tags: &[u8],
) -> Verdict {
    let mut point = Point::new(point);
    let tags: &[[u8; TAG_BYTES]] = tags.as_chunks().0;
    let m = layout.partition_records();
    // A: H(y_b) = ⊕ of t_i over all slots i whose word has bit b, padding included; by bytes of words.
    let mut buckets = Zeroizing::new([[0u64; 256]; TAG_BYTES]);
    let mut of_partition = Zeroizing::new(vec![[0; 8]; m]);
    // B: H(h_j) = ⊕_q t_(q·M + σ_q(j)).
    let mut columns = Zeroizing::new(vec![0u64; m]);
    for (q, tags) in tags.chunks_exact(m).enumerate() {
        words(&mut of_partition);
        for (tag, word) in tags.iter().zip(&*of_partition) {
            for (sums, value) in buckets.iter_mut().zip(word) {
                sums[usize::from(*value)] ^= u64::from_le_bytes(*tag);
            }
        }
        for (column, &offset) in columns.iter_mut().zip(permutations.of(q)) {
            *column ^= u64::from_le_bytes(tags[usize::from(offset)]);
        }
    }
    let differences = sums.chunks_exact(layout.record_bytes()).enumerate().map(|(bit, sum)| {
        let of_bit = buckets[bit / 8].iter().enumerate().filter(|(value, _)| (value >> (bit % 8)) & 1 == 1);
        of_bit.fold(point.tag(sum), |difference, (_, tags)| difference ^ tags)
    });
    debug_assert_eq!(differences.len(), CHALLENGES);
    let sums = differences.fold(0, |all, difference| all | difference) == 0;
    let differences = parities.chunks_exact(layout.record_bytes()).zip(&*columns);
    let columns = differences.fold(0, |all, (parity, tags)| all | (point.tag(parity) ^ tags)) == 0;
    point.clear();
    of_partition.zeroize();
    Verdict { sums, columns }
}
