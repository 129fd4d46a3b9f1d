//! What servers compute for a light hint (docs/protocol.md, Light hints): parities under a seed, a challenge sum, tags.

use core::ops::Range;

use crate::linear::{Point, TAG_BYTES, times_x};
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform, shuffle};
use crate::scan::{Overwritten, between, xor_into};

/// Bits of a challenge word, an element of the field of tags.
const CHALLENGE_BITS: usize = 64;

/// Bytes of records that are added to buckets at a time, so that the buckets stay in the cache.
const STRIPE_BYTES: usize = 32;

/// Bytes of a challenge sum: ℓ as whole words.
#[must_use]
pub fn sum_bytes(record_bytes: usize) -> usize {
    record_bytes.next_multiple_of(TAG_BYTES)
}

/// How slots are added up, each times its challenge word: every word is cut into parts, and a sum is kept for each part and
/// each value of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    record_bytes: usize,
    part_bits: usize,
}

impl Buckets {
    /// Parts of 8 bits cost least time, and of 4 bits least memory, which decides where records are long.
    #[must_use]
    pub fn new(record_bytes: usize) -> Self {
        Buckets { record_bytes, part_bits: if record_bytes <= 4096 { 8 } else { 4 } }
    }

    fn count(self) -> usize {
        (CHALLENGE_BITS / self.part_bits) << self.part_bits
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.count() * self.record_bytes
    }

    /// Stripes of records, as (first byte, bytes).
    fn stripes(self) -> impl Iterator<Item = (usize, usize)> {
        let starts = (0..self.record_bytes).step_by(STRIPE_BYTES);
        starts.map(move |start| (start, STRIPE_BYTES.min(self.record_bytes - start)))
    }

    /// Adds slots to `buckets`: all buckets' first 32 bytes, then all their next.
    pub fn add(self, records: &[u8], words: &[[u8; 8]], mut buckets: &mut [u8]) {
        for (start, width) in self.stripes() {
            let (stripe, behind) = buckets.split_at_mut(self.count() * width);
            let slots = records.chunks_exact(self.record_bytes).zip(words);
            match (stripe.as_chunks_mut::<STRIPE_BYTES>(), width) {
                // Lengths that the compiler knows are what makes this fast.
                ((whole, _), STRIPE_BYTES) if self.part_bits == 8 => {
                    for (record, word) in slots {
                        let Some(bytes) = record[start..].first_chunk::<STRIPE_BYTES>() else { continue };
                        for (of_part, value) in whole.as_chunks_mut::<256>().0.iter_mut().zip(word) {
                            for (sum, byte) in of_part[usize::from(*value)].iter_mut().zip(bytes) {
                                *sum ^= byte;
                            }
                        }
                    }
                }
                _ => {
                    for (record, word) in slots {
                        let bytes = &record[start..start + width];
                        let mut word = u64::from_le_bytes(*word);
                        for of_part in stripe.chunks_exact_mut(width << self.part_bits) {
                            let value = word as usize % (1 << self.part_bits);
                            xor_into(&mut of_part[value * width..][..width], bytes);
                            word >>= self.part_bits;
                        }
                    }
                }
            }
            buckets = behind;
        }
    }

    /// The challenge sum: ⊕ of all slots, each word of theirs times their challenge word. Of the sums of those slots that
    /// have a bit of it, which the buckets make, it is the polynomial at x.
    pub fn sum(self, mut buckets: &[u8], sum: &mut [u8]) {
        for (start, width) in self.stripes() {
            let (stripe, behind) = buckets.split_at(self.count() * width);
            let mut of_bits = [[0; STRIPE_BYTES]; CHALLENGE_BITS];
            for (number, bucket) in stripe.chunks_exact(width).enumerate() {
                let (part, value) = (number >> self.part_bits, number % (1 << self.part_bits));
                for bit in (0..self.part_bits).filter(|bit| (value >> bit) & 1 == 1) {
                    xor_into(&mut of_bits[self.part_bits * part + bit][..width], bucket);
                }
            }
            let words = sum[start..].as_chunks_mut::<TAG_BYTES>().0.iter_mut();
            for (word, at) in words.zip((0..STRIPE_BYTES).step_by(TAG_BYTES)) {
                let of_bit = |bytes: &[u8; STRIPE_BYTES]| {
                    u64::from_le_bytes(bytes[at..].first_chunk().copied().unwrap_or_default())
                };
                *word = of_bits.iter().rev().fold(0, |sum, bytes| times_x(sum) ^ of_bit(bytes)).to_le_bytes();
            }
            buckets = behind;
        }
    }
}

/// Draws the permutation of a partition into `permutation` and adds the partition to the parities: h_j ⊕= DB_q[σ_q(j)].
pub fn fold(
    partition: &[u8],
    record_bytes: usize,
    permutation: &mut [u16],
    source: &mut impl Uniform,
    parities: &mut [u8],
) {
    for (j, entry) in permutation.iter_mut().enumerate() {
        *entry = j as u16;
    }
    shuffle(permutation, source);
    for (parity, &offset) in parities.chunks_exact_mut(record_bytes).zip(&*permutation) {
        xor_into(parity, &partition[usize::from(offset) * record_bytes..][..record_bytes]);
    }
}

/// A server's work for a light hint, over some of the partitions at a time. What is not asked for is none, or empty.
pub struct Work<'a> {
    /// M
    pub partition_records: usize,
    /// ℓ
    pub record_bytes: usize,
    /// all Q·M·ℓ bytes, at the newest epoch
    pub records: &'a [u8],
    /// what is put back for the epoch before; of nodes none
    pub overwritten: Overwritten<'a>,
    /// M·ℓ bytes, to put back in
    pub restored: &'a mut [u8],
    /// of the permutations
    pub seed: Option<&'a [u8; ENTROPY_BYTES]>,
    /// of the challenge words
    pub challenge: Option<&'a [u8; ENTROPY_BYTES]>,
    /// of the tags
    pub point: Option<&'a [u8; TAG_BYTES]>,
    /// M challenge words, to work with
    pub words: &'a mut [[u8; 8]],
    /// M offsets, to work with
    pub permutation: &'a mut [u16],
    /// what the challenge sum is made of in the end ([`Buckets`])
    pub buckets: &'a mut [u8],
    /// M·ℓ bytes, added to
    pub parities: &'a mut [u8],
    /// of the slots from the first on, 8 bytes each; those of these partitions are written, if there is room for them
    pub tags: &'a mut [u8],
}

impl Work<'_> {
    /// Goes over some partitions.
    pub fn run(&mut self, partitions: Range<usize>) {
        let (m, record_bytes) = (self.partition_records, self.record_bytes);
        let mut challenges = self.challenge.map(|seed| {
            let mut challenges = ChaCha::new(seed, 0);
            challenges.seek(2 * partitions.start as u64 * m as u64);
            challenges
        });
        let point = self.point.map(|point| Point::new(u64::from_le_bytes(*point)));
        for q in partitions {
            let newest = &self.records[q * m * record_bytes..][..m * record_bytes];
            let changed = between(self.overwritten.indices, q * m..(q + 1) * m, |index| *index as usize);
            let partition = if changed.is_empty() {
                newest
            } else {
                self.restored.copy_from_slice(newest);
                for i in changed {
                    let offset = self.overwritten.indices[i] as usize % m;
                    let old = &self.overwritten.records[i * record_bytes..][..record_bytes];
                    self.restored[offset * record_bytes..][..record_bytes].copy_from_slice(old);
                }
                &*self.restored
            };
            if let Some(seed) = self.seed {
                fold(partition, record_bytes, self.permutation, &mut ChaCha::new(seed, q as u64), self.parities);
            }
            if let Some(challenges) = &mut challenges {
                challenges.fill(self.words.as_flattened_mut());
                Buckets::new(record_bytes).add(partition, self.words, self.buckets);
            }
            let room = self.tags.get_mut(q * m * TAG_BYTES..(q + 1) * m * TAG_BYTES);
            if let (Some(point), Some(of_partition)) = (&point, room) {
                let tags: &mut [[u8; TAG_BYTES]] = of_partition.as_chunks_mut().0;
                point.tag_all(partition, record_bytes, |offset, tag| tags[offset] = tag.to_le_bytes());
            }
        }
    }
}
