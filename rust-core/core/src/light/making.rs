//! What the two servers compute for a light hint, in steps of a partition each.

use pirouette_kernels::light::{Buckets, fold, tags};
use pirouette_kernels::linear::{Point, TAG_BYTES};
use zeroize::Zeroizing;

use super::{PARITIES_REQUEST_BYTES, TAGS_REQUEST_BYTES, parities_reply_bytes, tags_reply_bytes};
use crate::bytes::zeroed;
use crate::commitment::VectorCommitment;
use crate::database::flat::{At, Database};
use crate::error::{Error, expect_length};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES};

/// A reply in the making. What the client has shown is overwritten when this is dropped, and never sent on.
pub struct Making {
    layout: Layout,
    at: At,
    edition: u64,
    /// partitions done
    done: usize,
    work: Work,
    reply: Vec<u8>,
    /// as the client has sent it
    request: Zeroizing<Vec<u8>>,
    /// where another thread finds each partition, and copies of those that an update has changed since
    addresses: Vec<u32>,
    copies: Vec<Vec<u8>>,
}

/// u32s of a [`Making::descriptor`].
pub const DESCRIPTOR_WORDS: usize = 16;

enum Work {
    Parities {
        seed: Zeroizing<[u8; ENTROPY_BYTES]>,
        challenges: Box<ChaCha>,
        /// of one partition
        words: Zeroizing<Vec<[u8; 8]>>,
        permutation: Zeroizing<Vec<u16>>,
        buckets: Vec<u8>,
    },
    Tags(Box<Point>),
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Work::Tags(point) = self {
            point.clear();
        }
    }
}

impl Making {
    /// The refresh server's: parities and challenge sums, from the two seeds.
    ///
    /// # Errors
    /// [`Error::Length`] for a request of another length; [`Error::Phase`] before every partition was committed, or
    /// without a previous epoch; [`Error::Layout`] if memory does not suffice.
    pub fn parities<C: VectorCommitment>(database: &Database<C>, request: &[u8], at: At) -> Result<Self, Error> {
        expect_length("seeds of a light hint", request, PARITIES_REQUEST_BYTES)?;
        let mut seeds = Zeroizing::new([[0; ENTROPY_BYTES]; 2]);
        seeds.as_flattened_mut().copy_from_slice(request);
        let layout = *database.layout_at(at)?;
        let m = layout.partition_records();
        let work = Work::Parities {
            seed: Zeroizing::new(seeds[0]),
            challenges: Box::new(ChaCha::new(&seeds[1], 0)),
            words: Zeroizing::new(vec![[0; 8]; m]),
            permutation: Zeroizing::new(vec![0; m]),
            buckets: zeroed(Buckets::new(layout.record_bytes()).bytes())?,
        };
        Self::new(database, (layout, at), work, request, parities_reply_bytes(&layout))
    }

    /// The retrieve server's: the tags of all slots under a point.
    ///
    /// # Errors
    /// As there.
    pub fn tags<C: VectorCommitment>(database: &Database<C>, request: &[u8], at: At) -> Result<Self, Error> {
        expect_length("key of a light hint", request, TAGS_REQUEST_BYTES)?;
        let layout = *database.layout_at(at)?;
        let point = request.first_chunk().map_or(0, |point| u64::from_le_bytes(*point));
        Self::new(database, (layout, at), Work::Tags(Box::new(Point::new(point))), request, tags_reply_bytes(&layout))
    }

    fn new<C: VectorCommitment>(
        database: &Database<C>,
        (layout, at): (Layout, At),
        work: Work,
        request: &[u8],
        bytes: usize,
    ) -> Result<Self, Error> {
        if !database.is_committed() {
            return Err(Error::Phase("commit every partition first"));
        }
        Ok(Making {
            layout,
            at,
            edition: database.edition(),
            done: 0,
            work,
            reply: zeroed(bytes)?,
            request: Zeroizing::new(request.to_vec()),
            addresses: Vec::new(),
            copies: Vec::new(),
        })
    }

    /// Goes one step, over a partition; whether there are more.
    ///
    /// # Errors
    /// [`Error::Phase`] if the database has changed: a reply is of one epoch.
    pub fn step<C: VectorCommitment>(&mut self, database: &Database<C>) -> Result<bool, Error> {
        self.expect_unchanged(database)?;
        if self.done == self.layout.partitions() {
            return Ok(false);
        }
        let (q, record_bytes, m) = (self.done, self.layout.record_bytes(), self.layout.partition_records());
        let old = if self.at == At::Previous { previous(database, q)? } else { None };
        let partition = match &old {
            Some(old) => old,
            None => database.partition(q)?,
        };
        match &mut self.work {
            Work::Parities { seed, challenges, words, permutation, buckets } => {
                let (parities, _) = self.reply.split_at_mut(self.layout.partition_bytes());
                fold(partition, record_bytes, permutation, &mut ChaCha::new(seed, q as u64), parities);
                challenges.fill(words.as_flattened_mut());
                Buckets::new(record_bytes).add(partition, words, buckets);
            }
            Work::Tags(point) => {
                tags(partition, record_bytes, point, self.reply[q * m * TAG_BYTES..].as_chunks_mut().0);
            }
        }
        self.done += 1;
        if self.done < self.layout.partitions() {
            return Ok(true);
        }
        if let Work::Parities { buckets, .. } = &self.work {
            Buckets::new(record_bytes).sums(buckets, &mut self.reply[self.layout.partition_bytes()..]);
        }
        Ok(false)
    }

    /// What the worker module takes to go all steps (rust-core/worker), before the first: Q, M, ℓ, 1 for tags and 0 for
    /// parities; address and length of the request, the challenge words, the permutation, the buckets, the reply and the
    /// partitions' addresses. It stays right until this is dropped or the database changes.
    ///
    /// # Errors
    /// [`Error::Phase`] after a step, or if the database has changed; [`Error::Layout`] for addresses beyond 32 bits, or
    /// if memory does not suffice.
    pub fn descriptor<C: VectorCommitment>(
        &mut self,
        database: &Database<C>,
    ) -> Result<[u32; DESCRIPTOR_WORDS], Error> {
        self.expect_unchanged(database)?;
        if self.done > 0 || !self.addresses.is_empty() {
            return Err(Error::Phase("the reply is in the making already"));
        }
        let narrow = |number: usize| {
            u32::try_from(number).map_err(|_| Error::Layout("addresses do not fit 32 bits here".into()))
        };
        for q in 0..self.layout.partitions() {
            let old = if self.at == At::Previous { previous(database, q)? } else { None };
            let address = old.as_deref().map_or_else(|| database.partition(q), Ok)?.as_ptr() as usize;
            self.addresses.push(narrow(address)?);
            self.copies.extend(old);
        }
        let (words, permutation, buckets): (&[[u8; 8]], &[u16], &[u8]) = match &self.work {
            Work::Parities { words, permutation, buckets, .. } => (words, permutation, buckets),
            Work::Tags(_) => (&[], &[], &[]),
        };
        let numbers = [
            [self.layout.partitions(), self.layout.partition_records()],
            [self.layout.record_bytes(), usize::from(matches!(self.work, Work::Tags(_)))],
            [self.request.as_ptr() as usize, self.request.len()],
            [words.as_ptr() as usize, words.len()],
            [permutation.as_ptr() as usize, permutation.len()],
            [buckets.as_ptr() as usize, buckets.len()],
            [self.reply.as_ptr() as usize, self.reply.len()],
            [self.addresses.as_ptr() as usize, self.addresses.len()],
        ];
        let mut descriptor = [0; DESCRIPTOR_WORDS];
        for (word, number) in descriptor.iter_mut().zip(numbers.as_flattened()) {
            *word = narrow(*number)?;
        }
        Ok(descriptor)
    }

    /// Says that all steps were made elsewhere, by whoever got the descriptor.
    pub fn stepped(&mut self) {
        self.done = self.layout.partitions();
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

/// A partition as it was before the last update, if that changed it.
fn previous<C: VectorCommitment>(database: &Database<C>, q: usize) -> Result<Option<Vec<u8>>, Error> {
    let (layout, mut bytes) = (database.layout(), None);
    let (m, record_bytes) = (layout.partition_records(), layout.record_bytes());
    for (index, old) in database.overwritten()?.records().filter(|(index, _)| index / m == q) {
        if bytes.is_none() {
            let mut copy = zeroed(layout.partition_bytes())?;
            copy.copy_from_slice(database.partition(q)?);
            bytes = Some(copy);
        }
        if let Some(bytes) = &mut bytes {
            bytes[index % m * record_bytes..][..record_bytes].copy_from_slice(old);
        }
    }
    Ok(bytes)
}
