//! The client's side of a light hint: its secrets, and the checks that both replies have to pass before anything of
//! them is stored, registered or asked with. An attempt is made once: whatever fails, its root is never used again.

use keyhush_kernels::light::sum_bytes;
use keyhush_kernels::linear::Point;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::checks::{Columns, Sum, hazmat_columns_hold, hazmat_sum_holds};
use super::{parities_reply_bytes, parities_request_bytes, tags_reply_bytes, tags_request_bytes};
use crate::bytes::reserved;
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
    /// what is to prove the hint's answers
    #[zeroize(skip)]
    proofs: Proofs,
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
    /// All but the tags, which follow partition by partition.
    fn begun(layout: &Layout, proofs: Proofs, [tags_reply, parities_reply]: [&[u8]; 2]) -> Result<Self, Error> {
        expect_length("parities and challenge sum", parities_reply, parities_reply_bytes(layout, proofs) as usize)?;
        expect_length("tags", tags_reply, tags_reply_bytes(layout, proofs) as usize)?;
        let (parities, rest) = parities_reply.split_at(layout.partition_bytes());
        let sum_bytes = sum_bytes(layout.record_bytes());
        // Room for all of them, so that none stay behind where they were.
        let tags = || Vec::with_capacity(layout.slots());
        Ok(Replies {
            parities: parities.to_vec(),
            sum: rest[..sum_bytes].to_vec(),
            tags: tags(),
            crosswise: (proofs == Proofs::Tags)
                .then(|| CrosswiseReplies { sum: tags_reply[..sum_bytes].to_vec(), tags: tags() }),
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
            proofs,
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

    /// For the refresh server alone: who has this and the retrieve vectors reads what is asked.
    #[must_use]
    pub fn parities_request(&self) -> Zeroizing<Vec<u8>> {
        let mut request = Zeroizing::new(Vec::with_capacity(parities_request_bytes(self.proofs)));
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
        let mut request = Zeroizing::new(Vec::with_capacity(tags_request_bytes(self.proofs)));
        request.extend_from_slice(&self.check.point);
        if let Some(check) = &self.crosswise {
            request.extend_from_slice(&check.challenge);
        }
        request
    }

    /// Memory for the bodies of both replies, the retrieve server's first, which nobody has touched yet: to be made longer as they
    /// arrive, within their capacities.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn room(&self) -> Result<[Vec<u8>; 2], Error> {
        let proofs = self.proofs;
        let bytes = [tags_reply_bytes(&self.layout, proofs), parities_reply_bytes(&self.layout, proofs)];
        let [tags, parities] = bytes.map(|bytes| reserved(bytes as usize));
        Ok([tags?, parities?])
    }

    /// Checks both replies, all of them whatever is found, and turns them into a hint; the attempt is over either way.
    ///
    /// # Errors
    /// [`Error::Length`] for replies of another length.
    pub fn finish(self, parities_reply: &[u8], tags_reply: &[u8]) -> Result<Outcome, Error> {
        let replies = [tags_reply, parities_reply];
        self.check(replies).map(|checking| checking.finish(replies))
    }

    /// The same, to be done partition by partition. `replies`: the retrieve server's first.
    ///
    /// # Errors
    /// As [`Attempt::finish`].
    pub fn check(self, replies: [&[u8]; 2]) -> Result<Checking, Error> {
        let Attempt { layout, check, crosswise, .. } = &self;
        Ok(Checking {
            replies: Replies::begun(layout, self.proofs, replies)?,
            permutations: Permutations::identities(layout),
            retrieve: Found::new(layout, check),
            refresh: crosswise.as_ref().map(|check| Found::new(layout, check)),
            next: 0,
            attempt: self,
        })
    }

    fn accepted(&self, permutations: Permutations, replies: &mut Replies) -> Hint {
        let checks = match (&self.crosswise, &mut replies.crosswise) {
            (Some(check), Some(other)) => {
                for (tag, other) in replies.tags.iter_mut().zip(&other.tags) {
                    *tag ^= other;
                }
                let mut key = Zeroizing::new([0; TAG_KEY_BYTES]);
                key.copy_from_slice([self.check.point, check.point].as_flattened());
                Checks::Tags(Tags::of_both(*key, std::mem::take(&mut replies.tags)))
            }
            _ if self.proofs == Proofs::Pointproofs => Checks::Elsewhere,
            _ => Checks::Commitments(self.commitments.clone()),
        };
        Hint {
            layout: self.layout,
            stamp: Stamp { hint_id: self.hint_id, version: 0 },
            checks,
            secret: Secret::new(self.secret),
            permutations,
            parities: std::mem::take(&mut replies.parities),
            condemned: false,
        }
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

/// What one server's tags add up to.
struct Found {
    challenge: ChaCha,
    sum: Sum,
    columns: Columns,
}

impl Found {
    fn new(layout: &Layout, check: &Check) -> Self {
        Found { challenge: ChaCha::new(&check.challenge, 0), sum: Sum::new(layout), columns: Columns::new(layout) }
    }

    fn add_to_sum(&mut self, tags: &[u64]) {
        let challenge = &mut self.challenge;
        self.sum.add(|words| challenge.fill(words.as_flattened_mut()), tags);
    }
}

/// The checks of both replies under way, partition by partition, so that nobody has to wait for all of it. Secret.
pub struct Checking {
    attempt: Attempt,
    /// with the tags of as many partitions as have been checked
    replies: Replies,
    permutations: Permutations,
    retrieve: Found,
    /// for a hint that is to keep tags
    refresh: Option<Found>,
    next: usize,
}

impl Checking {
    /// Checks one partition more of the same replies; whether there are more.
    ///
    /// # Panics
    /// If they are shorter than those that this was begun with.
    pub fn step(&mut self, [tags_reply, parities_reply]: [&[u8]; 2]) -> bool {
        let layout = &self.attempt.layout;
        let (m, q, last) = (layout.partition_records(), self.next, layout.partitions() - 1);
        if q > last {
            return false;
        }
        self.permutations.draw(q, &mut ChaCha::new(&self.attempt.seed, q as u64));
        let permutation = self.permutations.of(q);
        let words = |tags: &[u8], into: &mut Vec<u64>| {
            let of_partition = &tags[q * m * TAG_BYTES..][..m * TAG_BYTES];
            into.extend(of_partition.as_chunks().0.iter().map(|tag| u64::from_le_bytes(*tag)));
        };
        let Replies { parities, sum, tags, crosswise } = &mut self.replies;
        let own_sum_bytes = crosswise.as_ref().map_or(0, |other| other.sum.len());
        words(&tags_reply[own_sum_bytes..], tags);
        self.retrieve.add_to_sum(&tags[q * m..]);
        self.retrieve.columns.add(permutation, &tags[q * m..]);
        if let (Some(check), Some(found), Some(other)) = (&self.attempt.crosswise, &mut self.refresh, crosswise) {
            if q < last {
                words(&parities_reply[parities.len() + sum.len()..], &mut other.tags);
                found.columns.add(permutation, &other.tags[q * m..]);
            } else {
                found.columns.complete(layout, &check.point(), permutation, parities, &mut other.tags);
            }
            found.add_to_sum(&other.tags[q * m..]);
        }
        self.next += 1;
        q < last
    }

    /// Checks what has not been checked yet, and says what came of it.
    #[must_use]
    pub fn finish(mut self, replies: [&[u8]; 2]) -> Outcome {
        while self.step(replies) {}
        let Checking { attempt, mut replies, permutations, retrieve, refresh, .. } = self;
        let (layout, point) = (attempt.layout, attempt.check.point());
        let crosswise = attempt.crosswise.as_ref().zip(replies.crosswise.as_ref()).zip(refresh.as_ref());
        let verdict = Verdict {
            sum: retrieve.sum.is_of(&point, &replies.sum),
            columns: retrieve.columns.are_of(&layout, &point, &replies.parities),
            crosswise: crosswise.is_none_or(|((check, other), found)| found.sum.is_of(&check.point(), &other.sum)),
        };
        if !verdict.holds() {
            let taken = vec![false; layout.partitions()];
            let inquiry =
                Inquiry { attempt, verdict, replies, taken, tags_differ: false, crosswise_tags_differ: false };
            return Outcome::Refused(Box::new(inquiry));
        }
        Outcome::Accepted(attempt.accepted(permutations, &mut replies))
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
