//! What the checks of a light hint's replies add up (A and B), partition by partition.

use keyhush_kernels::linear::{Point, times_x};
use zeroize::Zeroizing;

use crate::commitment::tags::TAG_BYTES;
use crate::layout::Layout;
use crate::tapir::permutation::Permutations;

/// The sum of tags, each times its challenge word, partition by partition: by bytes of words, as servers add up slots
/// (`Buckets`).
pub(super) struct Sum {
    buckets: Zeroizing<[[u64; 256]; TAG_BYTES]>,
    words: Zeroizing<Vec<[u8; TAG_BYTES]>>,
}

impl Sum {
    pub(super) fn new(layout: &Layout) -> Self {
        Sum {
            buckets: Zeroizing::new([[0; 256]; TAG_BYTES]),
            words: Zeroizing::new(vec![[0; 8]; layout.partition_records()]),
        }
    }

    /// `fill` fills in the challenge words of the next slots, whose tags these are.
    #[inline(never)]
    pub(super) fn add(&mut self, mut fill: impl FnMut(&mut [[u8; 8]]), tags: &[u64]) {
        fill(&mut self.words);
        for (tag, word) in tags.iter().zip(&*self.words) {
            for (bucket, value) in self.buckets.iter_mut().zip(word) {
                bucket[usize::from(*value)] ^= tag;
            }
        }
    }

    /// Whether it is the tag of a server's sum of records.
    pub(super) fn is_of(&self, point: &Point, sum: &[u8]) -> bool {
        let of_bit = |bit: usize| {
            let those = self.buckets[bit / 8].iter().enumerate().filter(|(value, _)| (value >> (bit % 8)) & 1 == 1);
            those.fold(0, |sum, (_, bucket)| sum ^ bucket)
        };
        point.tag(sum) == (0..u64::BITS as usize).rev().fold(0, |sum, bit| times_x(sum) ^ of_bit(bit))
    }
}

/// The XOR of the tags of each column, partition by partition.
pub(super) struct Columns(Zeroizing<Vec<u64>>);

impl Columns {
    pub(super) fn new(layout: &Layout) -> Self {
        Columns(Zeroizing::new(vec![0; layout.partition_records()]))
    }

    /// The tags of a partition, and its permutation.
    #[inline(never)]
    pub(super) fn add(&mut self, permutation: &[u16], tags: &[u64]) {
        for (column, &offset) in self.0.iter_mut().zip(permutation) {
            *column ^= tags[usize::from(offset)];
        }
    }

    /// Of as many partitions as there are tags of.
    fn of(layout: &Layout, permutations: &Permutations, tags: &[u64]) -> Self {
        let mut columns = Columns::new(layout);
        for (q, tags) in tags.chunks_exact(layout.partition_records()).enumerate() {
            columns.add(permutations.of(q), tags);
        }
        columns
    }

    /// Whether they are the tags of the parities.
    #[inline(never)]
    pub(super) fn are_of(&self, layout: &Layout, point: &Point, parities: &[u8]) -> bool {
        let differences = parities.chunks_exact(layout.record_bytes()).zip(&*self.0);
        differences.fold(0, |all, (parity, tags)| all | (point.tag(parity) ^ tags)) == 0
    }

    /// Of all partitions but the last: appends the last one's tags, which make all of them agree with the parities. There is
    /// room for them, so that none stay behind where they were.
    #[inline(never)]
    pub(super) fn complete(
        &self,
        layout: &Layout,
        point: &Point,
        permutation: &[u16],
        parities: &[u8],
        tags: &mut Vec<u64>,
    ) {
        let first = tags.len();
        tags.resize(layout.slots(), 0);
        let parities = parities.chunks_exact(layout.record_bytes());
        for ((parity, column), &offset) in parities.zip(&*self.0).zip(permutation) {
            tags[first + usize::from(offset)] = point.tag(parity) ^ column;
        }
    }
}

/// A: whether the tags of all slots agree with a challenge sum: H(y) = ⊕ of `t_i` times challenge word i over all slots i,
/// padding included. `words` fills in the challenge words of the next slots. Of the caller's: for tests that enumerate them.
#[must_use]
pub fn hazmat_sum_holds(
    layout: &Layout,
    point: &Point,
    mut words: impl FnMut(&mut [[u8; 8]]),
    sum: &[u8],
    tags: &[u64],
) -> bool {
    let mut found = Sum::new(layout);
    for tags in tags.chunks_exact(layout.partition_records()) {
        found.add(&mut words, tags);
    }
    found.is_of(point, sum)
}

/// B: whether the parities agree with the tags of all slots: `H(h_j) = ⊕_q t_(q·M + σ_q(j))` for all columns j. Under
/// permutations of the caller's: for tests that enumerate them.
#[must_use]
pub fn hazmat_columns_hold(
    layout: &Layout,
    point: &Point,
    permutations: &Permutations,
    parities: &[u8],
    tags: &[u64],
) -> bool {
    Columns::of(layout, permutations, tags).are_of(layout, point, parities)
}

/// Appends to the tags of all slots but the last partition's those of the last, which make the columns agree with the
/// parities. Under permutations of the caller's: for tests that enumerate them.
pub fn hazmat_complete(
    layout: &Layout,
    point: &Point,
    permutations: &Permutations,
    parities: &[u8],
    tags: &mut Vec<u64>,
) {
    let last = permutations.of(layout.partitions() - 1);
    Columns::of(layout, permutations, tags).complete(layout, point, last, parities, tags);
}
