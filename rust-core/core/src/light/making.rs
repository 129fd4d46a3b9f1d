//! What the two servers compute for a light hint, in steps of a partition each.

use keyhush_kernels::light::{Buckets, Work, sum_bytes};
use keyhush_kernels::linear::TAG_BYTES;
use keyhush_kernels::scan::Overwritten;
use zeroize::Zeroizing;

use super::{parities_request_bytes, tags_request_bytes};
use crate::bytes::zeroed;
use crate::commitment::{Proofs, VectorCommitment};
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_length};
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;

/// A reply in the making: what is asked for of parities, challenge sum and tags, in this order. What the client has
/// shown is overwritten when this is dropped, and never sent on.
pub struct Making {
    layout: Layout,
    at: At,
    edition: u64,
    /// partitions done
    done: usize,
    seed: Option<Zeroizing<[u8; ENTROPY_BYTES]>>,
    challenge: Option<Zeroizing<[u8; ENTROPY_BYTES]>>,
    point: Option<Zeroizing<[u8; TAG_BYTES]>>,
    /// of one partition, as it was at the epoch before
    restored: Vec<u8>,
    /// of one partition
    words: Zeroizing<Vec<[u8; 8]>>,
    permutation: Zeroizing<Vec<u16>>,
    buckets: Vec<u8>,
    reply: Vec<u8>,
    /// where the steps that were handed to another thread end
    handed: usize,
}

/// u32s of a [`Making::descriptor`].
pub const DESCRIPTOR_WORDS: usize = 31;

impl Making {
    /// The refresh server's: parities and challenge sum, from two seeds; and tags, if it is shown a point.
    ///
    /// # Errors
    /// [`Error::Length`] for a request of any other length; [`Error::Phase`] before every partition was committed, or
    /// without a previous epoch; [`Error::Layout`] if memory does not suffice.
    pub fn parities<C: VectorCommitment>(database: &Database<C>, request: &[u8], at: At) -> Result<Self, Error> {
        expect_request("seeds of a light hint", request, parities_request_bytes)?;
        let (seeds, point) = request.split_at(2 * ENTROPY_BYTES);
        let (seed, challenge) = seeds.split_at(ENTROPY_BYTES);
        Self::new(database, at, seed.first_chunk(), challenge.first_chunk(), point.first_chunk())
    }

    /// The retrieve server's: the tags of all slots under a point; and a challenge sum, if it is shown a seed.
    ///
    /// # Errors
    /// As there.
    pub fn tags<C: VectorCommitment>(database: &Database<C>, request: &[u8], at: At) -> Result<Self, Error> {
        expect_request("key of a light hint", request, tags_request_bytes)?;
        let (point, challenge) = request.split_at(TAG_BYTES);
        Self::new(database, at, None, challenge.first_chunk(), point.first_chunk())
    }

    fn new<C: VectorCommitment>(
        database: &Database<C>,
        at: At,
        seed: Option<&[u8; ENTROPY_BYTES]>,
        challenge: Option<&[u8; ENTROPY_BYTES]>,
        point: Option<&[u8; TAG_BYTES]>,
    ) -> Result<Self, Error> {
        if !database.is_committed() {
            return Err(Error::Phase("commit every partition first"));
        }
        let layout = *database.layout_at(at)?;
        let m = layout.partition_records();
        let [parities, sum, tags] = parts(&layout, seed.is_some(), challenge.is_some(), point.is_some());
        let restored = if at == At::Previous { layout.partition_bytes() } else { 0 };
        let buckets = if challenge.is_some() { Buckets::new(layout.record_bytes()).bytes() } else { 0 };
        Ok(Making {
            layout,
            at,
            edition: database.edition(),
            done: 0,
            restored: zeroed(restored)?,
            words: Zeroizing::new(vec![[0; 8]; if challenge.is_some() { m } else { 0 }]),
            permutation: Zeroizing::new(vec![0; if seed.is_some() { m } else { 0 }]),
            buckets: zeroed(buckets)?,
            reply: zeroed(parities + sum + tags)?,
            seed: seed.copied().map(Zeroizing::new),
            challenge: challenge.copied().map(Zeroizing::new),
            point: point.copied().map(Zeroizing::new),
            handed: 0,
        })
    }

    /// Goes one step, over a partition; whether there are more.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed: a reply is of one epoch; or if another thread is at it.
    pub fn step<C: VectorCommitment>(&mut self, database: &Database<C>) -> Result<bool, Error> {
        self.expect_unchanged(database)?;
        if self.done == self.layout.partitions() {
            return Ok(false);
        }
        let [parities, sum, _] = self.parts();
        let (parities, rest) = self.reply.split_at_mut(parities);
        let (sum, tags) = rest.split_at_mut(sum);
        Work {
            partition_records: self.layout.partition_records(),
            record_bytes: self.layout.record_bytes(),
            records: database.records(),
            overwritten: overwritten(database, self.at)?,
            restored: &mut self.restored,
            seed: self.seed.as_deref(),
            challenge: self.challenge.as_deref(),
            point: self.point.as_deref(),
            words: &mut self.words,
            permutation: &mut self.permutation,
            buckets: &mut self.buckets,
            parities,
            tags,
        }
        .run(self.done..self.done + 1);
        self.done += 1;
        if self.done < self.layout.partitions() {
            return Ok(true);
        }
        if self.challenge.is_some() {
            Buckets::new(self.layout.record_bytes()).sum(&self.buckets, sum);
        }
        Ok(false)
    }

    /// What the worker module takes to go the steps of the next so many partitions (rust-core/worker): Q, M, ℓ, the first
    /// partition and the one behind the last; then address and length of the seeds, the point, the challenge words, the
    /// permutation, the buckets, parities, challenge sum and tags of the reply, all records, what is to be put back (indices
    /// and records) and where. It stays right until this is dropped or the database changes.
    ///
    /// # Errors
    /// [`Error::Phase`] if all steps were made, or the database has changed; [`Error::Layout`] for addresses beyond 32
    /// bits.
    pub fn descriptor<C: VectorCommitment>(
        &mut self,
        database: &Database<C>,
        partitions: usize,
    ) -> Result<[u32; DESCRIPTOR_WORDS], Error> {
        self.expect_unchanged(database)?;
        if self.done == self.layout.partitions() {
            return Err(Error::Phase("all steps were made"));
        }
        let narrow = |number: usize| {
            u32::try_from(number).map_err(|_| Error::Layout("addresses do not fit 32 bits here".into()))
        };
        self.handed = self.layout.partitions().min(self.done + partitions.max(1));
        let Overwritten { indices, records, .. } = overwritten(database, self.at)?;
        let place = |bytes: &[u8]| [bytes.as_ptr() as usize, bytes.len()];
        let [parities, sum, _] = self.parts();
        let (parities, rest) = self.reply.split_at(parities);
        let (sum, tags) = rest.split_at(sum);
        let numbers = [
            &[self.layout.partitions(), self.layout.partition_records(), self.layout.record_bytes()][..],
            &[self.done, self.handed],
            &place(self.seed.as_deref().map_or(&[], |seed| seed)),
            &place(self.challenge.as_deref().map_or(&[], |challenge| challenge)),
            &place(self.point.as_deref().map_or(&[], |point| point)),
            &[self.words.as_ptr() as usize, self.words.len()],
            &[self.permutation.as_ptr() as usize, self.permutation.len()],
            &place(&self.buckets),
            &place(parities),
            &place(sum),
            &place(tags),
            &place(database.records()),
            &[indices.as_ptr() as usize, indices.len()],
            &place(records),
            &place(&self.restored),
        ];
        let mut descriptor = [0; DESCRIPTOR_WORDS];
        for (word, number) in descriptor.iter_mut().zip(numbers.concat()) {
            *word = narrow(number)?;
        }
        Ok(descriptor)
    }

    /// Says that the steps of the last descriptor were made, by whoever got it; whether there are more.
    pub fn stepped(&mut self) -> bool {
        self.done = self.done.max(self.handed);
        self.done < self.layout.partitions()
    }

    fn parts(&self) -> [usize; 3] {
        parts(&self.layout, self.seed.is_some(), self.challenge.is_some(), self.point.is_some())
    }

    fn expect_unchanged<C: VectorCommitment>(&self, database: &Database<C>) -> Result<(), Error> {
        if self.edition == database.edition() {
            Ok(())
        } else {
            Err(Error::Phase("the database has changed meanwhile; begin another reply"))
        }
    }

    /// The reply's body, once all steps were made.
    ///
    /// # Errors
    /// [`Error::Phase`] before that.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        if self.done < self.layout.partitions() {
            return Err(Error::Phase("there are steps to be made"));
        }
        Ok(self.reply)
    }
}

/// [`Error::Length`] unless it is as long as one for either kind of proof.
fn expect_request(what: &'static str, request: &[u8], bytes: impl Fn(Proofs) -> usize) -> Result<(), Error> {
    if request.len() == bytes(Proofs::Tags) { Ok(()) } else { expect_length(what, request, bytes(Proofs::Openings)) }
}

/// Bytes of a reply's parities, challenge sum and tags. Tags of the last partition follow from the others and the parities.
fn parts(layout: &Layout, parities: bool, sum: bool, tags: bool) -> [usize; 3] {
    let tagged = layout.slots() - if parities { layout.partition_records() } else { 0 };
    [
        if parities { layout.partition_bytes() } else { 0 },
        if sum { sum_bytes(layout.record_bytes()) } else { 0 },
        if tags { tagged * TAG_BYTES } else { 0 },
    ]
}

/// What has to be put back for an epoch.
fn overwritten<C: VectorCommitment>(database: &Database<C>, at: At) -> Result<Overwritten<'_>, Error> {
    match at {
        At::Newest => Ok(Overwritten::default()),
        At::Previous => Ok(database.overwritten()?.flat()),
    }
}
