//! The client's side of a light hint: its secrets, and the checks that both replies have to pass before anything of
//! them is stored, registered or asked with. An attempt is made once: whatever fails, its root is never used again.

use pirouette_kernels::light::sum_bytes;
use pirouette_kernels::linear::{Point, times_x};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{parities_reply_bytes, parities_request_bytes, tags_reply_bytes, tags_request_bytes};
use crate::bytes::zeroed;
use crate::commitment::tags::{TAG_BYTES, TAG_KEY_BYTES};
use crate::commitment::{Checks, Proofs, Tags};
use crate::error::{Error, expect_below, expect_length};
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES};
use crate::tapir::hint::{HINT_ID_BYTES, Hint, ID_STREAM, Stamp};
use crate::tapir::permutation::Permutations;

/// Streams of the root: the seed of the permutations; for the refresh server's challenge and the retrieve server's tags,
/// and the other way round, the seed and the point. (The hint's id is drawn from [`ID_STREAM`].)
const SEED_STREAM: u64 = u64::MAX - 2;
const CHALLENGE_STREAMS: [u64; 2] = [u64::MAX - 3, u64::MAX - 7];
const POINT_STREAMS: [u64; 2] = [u64::MAX - 4, u64::MAX - 6];
/// The stream of the hint's secret, which hedges its queries' entropy.
const SECRET_STREAM: u64 = u64::MAX - 5;

/// What one server's tags are made under, and the other's challenge sum, which they are checked against. Nobody is shown
/// both.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Check {
    point: [u8; TAG_BYTES],
    challenge: [u8; ENTROPY_BYTES],
}

impl Check {
    fn new(root: &[u8; ENTROPY_BYTES], number: usize) -> Self {
        let mut check = Check { point: [0; TAG_BYTES], challenge: [0; ENTROPY_BYTES] };
        ChaCha::new(root, POINT_STREAMS[number]).fill(&mut check.point);
        ChaCha::new(root, CHALLENGE_STREAMS[number]).fill(&mut check.challenge);
        check
    }

    fn point(&self) -> Point {
        Point::new(u64::from_le_bytes(self.point))
    }

    /// A: whether the tags of all slots agree with the challenge sum.
    #[inline(never)]
    fn sum_holds(&self, layout: &Layout, sum: &[u8], tags: &[u64]) -> bool {
        let mut challenge = ChaCha::new(&self.challenge, 0);
        hazmat_sum_holds(layout, &self.point(), |words| challenge.fill(words.as_flattened_mut()), sum, tags)
    }
}

/// A light hint in the making, in memory alone. Secret: overwritten when dropped; neither `Clone` nor `Debug`.
#[derive(ZeroizeOnDrop)]
pub struct Attempt {
    #[zeroize(skip)]
    layout: Layout,
    #[zeroize(skip)]
    commitments: Vec<u8>,
    hint_id: [u8; HINT_ID_BYTES],
    seed: [u8; ENTROPY_BYTES],
    /// of the retrieve server's tags
    check: Check,
    /// of the refresh server's, for a hint that is to keep tags
    crosswise: Option<Check>,
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
    /// A: the retrieve server's tags agree with the refresh server's challenge sum
    pub sum: bool,
    /// B: the parities agree with these tags
    pub columns: bool,
    /// A2: the refresh server's tags agree with the retrieve server's challenge sum, if there are any
    pub crosswise: bool,
}

impl Verdict {
    /// Whether all checks passed.
    #[must_use]
    pub fn holds(self) -> bool {
        self.sum & self.columns & self.crosswise
    }

    /// Whether it was the refresh server that lied, but for 2^-64·⌈ℓ/8⌉; otherwise it may have been either.
    #[must_use]
    pub fn blames_refresh_server(self) -> bool {
        self.sum && !self.columns
    }
}

/// What both servers replied, with the tags as words.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Replies {
    /// M·ℓ bytes
    parities: Vec<u8>,
    sum: Vec<u8>,
    /// of all slots
    tags: Vec<u64>,
    /// for a hint that is to keep tags
    crosswise: Option<CrosswiseReplies>,
}

#[derive(Zeroize, ZeroizeOnDrop)]
struct CrosswiseReplies {
    sum: Vec<u8>,
    /// of all slots but those of the last partition, until they are completed
    tags: Vec<u64>,
}

impl Replies {
    fn split(layout: &Layout, proofs: Proofs, parities_reply: &[u8], tags_reply: &[u8]) -> Result<Self, Error> {
        expect_length("parities and challenge sum", parities_reply, parities_reply_bytes(layout, proofs) as usize)?;
        expect_length("tags", tags_reply, tags_reply_bytes(layout, proofs) as usize)?;
        let sum_bytes = sum_bytes(layout.record_bytes());
        let (parities, rest) = parities_reply.split_at(layout.partition_bytes());
        let (sum, other_tags) = rest.split_at(sum_bytes);
        let (other_sum, tags) = tags_reply.split_at(if proofs == Proofs::Tags { sum_bytes } else { 0 });
        let words = |tags: &[u8]| tags.as_chunks().0.iter().map(|tag| u64::from_le_bytes(*tag)).collect();
        Ok(Replies {
            parities: parities.to_vec(),
            sum: sum.to_vec(),
            tags: words(tags),
            crosswise: (proofs == Proofs::Tags)
                .then(|| CrosswiseReplies { sum: other_sum.to_vec(), tags: words(other_tags) }),
        })
    }
}

impl Attempt {
    /// Begins one of a hint whose answers are proved so, under 32 bytes of fresh entropy that nothing else is drawn from.
    /// `commitments` are the manifest's Q.
    ///
    /// # Errors
    /// [`Error::Length`] if the commitments are not Q.
    pub fn new(layout: Layout, proofs: Proofs, commitments: &[u8], root: &[u8; ENTROPY_BYTES]) -> Result<Self, Error> {
        Checks::commitments(&layout, commitments)?;
        let mut attempt = Attempt {
            layout,
            commitments: commitments.to_vec(),
            hint_id: [0; HINT_ID_BYTES],
            seed: [0; ENTROPY_BYTES],
            check: Check::new(root, 0),
            crosswise: (proofs == Proofs::Tags).then(|| Check::new(root, 1)),
            secret: [0; SECRET_BYTES],
        };
        ChaCha::new(root, ID_STREAM).fill(&mut attempt.hint_id);
        ChaCha::new(root, SEED_STREAM).fill(&mut attempt.seed);
        ChaCha::new(root, SECRET_STREAM).fill(&mut attempt.secret);
        Ok(attempt)
    }

    fn proofs(&self) -> Proofs {
        if self.crosswise.is_some() { Proofs::Tags } else { Proofs::Openings }
    }

    /// For the refresh server alone: who has this and the retrieve vectors reads what is asked.
    #[must_use]
    pub fn parities_request(&self) -> Zeroizing<Vec<u8>> {
        let mut request = Zeroizing::new(Vec::with_capacity(parities_request_bytes(self.proofs())));
        request.extend_from_slice(&self.seed);
        request.extend_from_slice(&self.check.challenge);
        if let Some(check) = &self.crosswise {
            request.extend_from_slice(&check.point);
        }
        request
    }

    /// For the retrieve server alone: who has this can make wrong parities that pass.
    #[must_use]
    pub fn tags_request(&self) -> Zeroizing<Vec<u8>> {
        let mut request = Zeroizing::new(Vec::with_capacity(tags_request_bytes(self.proofs())));
        request.extend_from_slice(&self.check.point);
        if let Some(check) = &self.crosswise {
            request.extend_from_slice(&check.challenge);
        }
        request
    }

    /// Room for the bodies of both replies, the retrieve server's first.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn room(&self) -> Result<[Vec<u8>; 2], Error> {
        let proofs = self.proofs();
        let bytes = [tags_reply_bytes(&self.layout, proofs), parities_reply_bytes(&self.layout, proofs)];
        let [tags, parities] = bytes.map(|bytes| zeroed(bytes as usize));
        Ok([tags?, parities?])
    }

    /// Checks both replies, all of them whatever is found, and turns them into a hint; the attempt is over either way.
    ///
    /// # Errors
    /// [`Error::Length`] for replies of another length.
    pub fn finish(self, parities_reply: &[u8], tags_reply: &[u8]) -> Result<Outcome, Error> {
        let mut replies = Replies::split(&self.layout, self.proofs(), parities_reply, tags_reply)?;
        let permutations = Permutations::from_entropy(&self.layout, &self.seed);
        let (sum, columns) = self.checks_hold(&permutations, &replies);
        if let (Some(check), Some(other)) = (&self.crosswise, &mut replies.crosswise) {
            hazmat_complete(&self.layout, &check.point(), &permutations, &replies.parities, &mut other.tags);
        }
        let verdict = Verdict { sum, columns, crosswise: self.crosswise_holds(&replies) };
        if !verdict.holds() {
            let taken = vec![false; self.layout.partitions()];
            let inquiry =
                Inquiry { attempt: self, verdict, replies, taken, tags_differ: false, crosswise_tags_differ: false };
            return Ok(Outcome::Refused(Box::new(inquiry)));
        }
        let checks = match (&self.crosswise, &mut replies.crosswise) {
            (Some(check), Some(other)) => {
                for (tag, other) in replies.tags.iter_mut().zip(&other.tags) {
                    *tag ^= other;
                }
                let mut key = Zeroizing::new([0; TAG_KEY_BYTES]);
                key.copy_from_slice([self.check.point, check.point].as_flattened());
                Checks::Tags(Tags::of_both(*key, std::mem::take(&mut replies.tags)))
            }
            _ => Checks::commitments(&self.layout, &self.commitments)?,
        };
        Ok(Outcome::Accepted(Hint {
            layout: self.layout,
            stamp: Stamp { hint_id: self.hint_id, version: 0 },
            checks,
            secret: Secret::new(self.secret),
            permutations,
            parities: std::mem::take(&mut replies.parities),
            condemned: false,
        }))
    }

    /// A and B: the retrieve server's tags, and by these the parities.
    fn checks_hold(&self, permutations: &Permutations, replies: &Replies) -> (bool, bool) {
        let Replies { parities, sum, tags, .. } = replies;
        let columns = hazmat_columns_hold(&self.layout, &self.check.point(), permutations, parities, tags);
        (self.check.sum_holds(&self.layout, sum, tags), columns)
    }

    /// A2: the refresh server's tags, which are complete.
    fn crosswise_holds(&self, replies: &Replies) -> bool {
        let both = self.crosswise.as_ref().zip(replies.crosswise.as_ref());
        both.is_none_or(|(check, other)| check.sum_holds(&self.layout, &other.sum, &other.tags))
    }
}

/// Replies that were refused, kept in memory until all partitions have shown who lied: they show what the tags ought to
/// have been, and by these the other server's reply is judged. Secret, as the attempt was.
pub struct Inquiry {
    attempt: Attempt,
    verdict: Verdict,
    /// their tags as they were replied; of partitions that were taken, as they ought to have been
    replies: Replies,
    taken: Vec<bool>,
    tags_differ: bool,
    crosswise_tags_differ: bool,
}

/// Who lied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liars {
    /// the refresh server: tags were wrong; or parities or its challenge sum, unless it had 2^-64·⌈ℓ/8⌉ of luck
    pub refresh: bool,
    /// the retrieve server: tags were wrong; or its challenge sum, unless it had as much
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
        let layout = &self.attempt.layout;
        expect_below("partition", q, self.taken.len())?;
        expect_length("partition", partition, layout.partition_bytes())?;
        let (m, record_bytes) = (layout.partition_records(), layout.record_bytes());
        let slots = q * m..(q + 1) * m;
        let correct = |check: &Check, tags: &mut [u64]| correct(&check.point(), partition, record_bytes, tags);
        self.tags_differ |= correct(&self.attempt.check, &mut self.replies.tags[slots.clone()]);
        if let (Some(check), Some(other)) = (&self.attempt.crosswise, &mut self.replies.crosswise) {
            let differ = correct(check, &mut other.tags[slots]);
            // The last partition's were not replied: they differ if others do, or the parities.
            self.crosswise_tags_differ |= differ && q + 1 < self.taken.len();
        }
        self.taken[q] = true;
        Ok(())
    }

    /// Who lied, once all partitions were taken; none before.
    #[must_use]
    pub fn liars(self) -> Option<Liars> {
        let known = self.taken.iter().all(|&taken| taken);
        known.then(|| {
            let permutations = Permutations::from_entropy(&self.attempt.layout, &self.attempt.seed);
            let (sum, columns) = self.attempt.checks_hold(&permutations, &self.replies);
            Liars {
                refresh: self.crosswise_tags_differ || !sum || !columns,
                retrieve: self.tags_differ || !self.attempt.crosswise_holds(&self.replies),
            }
        })
    }
}

/// Puts the right tags of records in the place of others; whether they were others.
fn correct(point: &Point, records: &[u8], record_bytes: usize, tags: &mut [u64]) -> bool {
    let slots = tags.iter_mut().zip(records.chunks_exact(record_bytes));
    slots.fold(false, |differ, (tag, record)| {
        let right = point.tag(record);
        differ | (std::mem::replace(tag, right) != right)
    })
}

/// A: whether the tags of all slots agree with a challenge sum: H(y) = ⊕ of `t_i` times challenge word i over all slots i,
/// padding included. `words` fills in the challenge words of the next slots. Of the caller's: for tests that enumerate them.
#[inline(never)]
#[must_use]
pub fn hazmat_sum_holds(
    layout: &Layout,
    point: &Point,
    mut words: impl FnMut(&mut [[u8; 8]]),
    sum: &[u8],
    tags: &[u64],
) -> bool {
    // As servers add up slots (`Buckets`), by bytes of words.
    let mut buckets = Zeroizing::new([[0u64; 256]; TAG_BYTES]);
    let mut of_partition = Zeroizing::new(vec![[0; 8]; layout.partition_records()]);
    for tags in tags.chunks_exact(layout.partition_records()) {
        words(&mut of_partition);
        for (tag, word) in tags.iter().zip(&*of_partition) {
            for (bucket, value) in buckets.iter_mut().zip(word) {
                bucket[usize::from(*value)] ^= tag;
            }
        }
    }
    let of_bit = |bit: usize| {
        let those = buckets[bit / 8].iter().enumerate().filter(|(value, _)| (value >> (bit % 8)) & 1 == 1);
        those.fold(0, |sum, (_, bucket)| sum ^ bucket)
    };
    point.tag(sum) == (0..u64::BITS as usize).rev().fold(0, |sum, bit| times_x(sum) ^ of_bit(bit))
}

/// B: whether the parities agree with the tags of all slots: `H(h_j) = ⊕_q t_(q·M + σ_q(j))` for all columns j. Under
/// permutations of the caller's: for tests that enumerate them.
#[inline(never)]
#[must_use]
pub fn hazmat_columns_hold(
    layout: &Layout,
    point: &Point,
    permutations: &Permutations,
    parities: &[u8],
    tags: &[u64],
) -> bool {
    let columns = columns(layout, permutations, tags);
    let differences = parities.chunks_exact(layout.record_bytes()).zip(&*columns);
    differences.fold(0, |all, (parity, tags)| all | (point.tag(parity) ^ tags)) == 0
}

/// The XOR of the tags of each column, of as many partitions as there are tags of.
#[inline(never)]
fn columns(layout: &Layout, permutations: &Permutations, tags: &[u64]) -> Zeroizing<Vec<u64>> {
    let m = layout.partition_records();
    let mut columns = Zeroizing::new(vec![0; m]);
    for (q, tags) in tags.chunks_exact(m).enumerate() {
        for (column, &offset) in columns.iter_mut().zip(permutations.of(q)) {
            *column ^= tags[usize::from(offset)];
        }
    }
    columns
}

/// Appends to the tags of all slots but the last partition's those of the last, which make the columns agree with the
/// parities. Under permutations of the caller's: for tests that enumerate them.
#[inline(never)]
pub fn hazmat_complete(
    layout: &Layout,
    point: &Point,
    permutations: &Permutations,
    parities: &[u8],
    tags: &mut Vec<u64>,
) {
    let (m, last) = (layout.partition_records(), layout.partitions() - 1);
    let columns = columns(layout, permutations, tags);
    // Room for all of them, so that none stay behind where they were.
    let mut complete = Vec::with_capacity(layout.slots());
    complete.extend_from_slice(tags);
    complete.resize(layout.slots(), 0);
    let parities = parities.chunks_exact(layout.record_bytes());
    for ((parity, column), &offset) in parities.zip(&*columns).zip(permutations.of(last)) {
        complete[last * m + usize::from(offset)] = point.tag(parity) ^ column;
    }
    std::mem::replace(tags, complete).zeroize();
}
