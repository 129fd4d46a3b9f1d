//! Folds partitions into the parities of hints (papers: S3PIR, Algorithm 4, lines 9 to 19). The streams say which records a
//! parity has. Since the order of XORs does not matter, a stripe that lies in two partitions is folded twice, each time as if
//! the other part were zeros.

use std::ops::Range;

use super::hint::Hint;
use super::streams::{Function, GROUP, Kind};
use crate::bytes::xor_into;

/// The most stripes folded together. All of them are added with one read and one write of each parity. Their records are
/// read at random, so they should stay in the processor's cache: hence at most 512 KiB.
const TOGETHER: usize = 16;
const TOGETHER_BYTES: usize = 512 << 10;

/// Records of this length get a loop of their own.
const WORTH_BYTES: usize = 32;

/// A partition, followed by a record of zeros, and the tags of both. All slots outside the partition are read as the zeros.
pub(crate) struct Rows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) tags: &'a [u64],
    pub(crate) slots: Range<usize>,
}

/// Stream values computed in one step. It takes some milliseconds, even before a browser has optimised the code.
const STEP_VALUES: usize = 1 << 16;

/// The number of stripes that are folded together.
pub(crate) fn together(stripe_records: usize, record_bytes: usize) -> usize {
    (TOGETHER_BYTES / (stripe_records * record_bytes)).clamp(1, TOGETHER)
}

/// How far folding some stripes has come.
#[derive(Default)]
pub(crate) struct Reached {
    /// groups of ids done
    groups: usize,
    /// hints and pairs among them
    hints: usize,
}

/// For each stripe and id: the row to add, or the row of zeros.
type Places = [[u32; GROUP]; TOGETHER];

impl<F: Function> Hint<F> {
    /// Folds some stripes of a partition into the hints of the next ids. Returns whether ids are left. Call it until none are,
    /// then go on with the partition's next stripes.
    pub(crate) fn fold_stripes(&mut self, rows: &Rows<'_>, stripes: Range<usize>, reached: &mut Reached) -> bool {
        let (bytes, count) = (self.geometry.record_bytes(), stripes.len());
        let groups = self.cutoffs.as_chunks::<GROUP>().0;
        let end = groups.len().min(reached.groups + (STEP_VALUES / GROUP / count.max(1)).max(1));
        let (mut below, mut above): (Places, Places) = ([[0; GROUP]; TOGETHER], [[0; GROUP]; TOGETHER]);
        let slot = reached.hints.min(self.rests.len());
        let mut slots = self.parities[slot * bytes..].chunks_exact_mut(bytes).zip(&mut self.rests[slot..]);
        let mut pairs = self.pairs.chunks_exact_mut(2 * bytes).skip(reached.hints - slot);
        let zeros = rows.slots.len() as u32;
        for (number, cutoffs) in (reached.groups..end).zip(&groups[reached.groups..]) {
            let (mut selections, mut offsets) = ([0; GROUP], [0; GROUP]);
            for (stripe, (below, above)) in stripes.clone().zip(below.iter_mut().zip(&mut above)) {
                self.function.group(Kind::Selection, stripe, number, &mut selections);
                self.function.group(Kind::Offset, stripe, number, &mut offsets);
                let first = (stripe * self.geometry.stripe_records()) as u32;
                for c in 0..GROUP {
                    let slot = first + u32::from(self.geometry.offset(offsets[c]));
                    let row = slot.wrapping_sub(rows.slots.start as u32).min(zeros);
                    // A branch would be mispredicted half of the time. So the row of zeros is read instead.
                    let is_below = selections[c].cast_signed() < cutoffs[c];
                    below[c] = if is_below { row } else { zeros };
                    above[c] = if is_below { zeros } else { row };
                }
            }
            for c in (0..GROUP).filter(|&c| cutoffs[c] != super::drawing::NONE) {
                reached.hints += 1;
                if let Some((parity, rest)) = slots.next() {
                    add(parity, rows.bytes, below[..count].iter().map(|of_stripe| of_stripe[c]));
                    *rest ^= above[..count].iter().fold(0, |sum, of_stripe| sum ^ rows.tags[of_stripe[c] as usize]);
                } else if let Some(pair) = pairs.next() {
                    let (parity_below, parity_above) = pair.split_at_mut(bytes);
                    add(parity_below, rows.bytes, below[..count].iter().map(|of_stripe| of_stripe[c]));
                    add(parity_above, rows.bytes, above[..count].iter().map(|of_stripe| of_stripe[c]));
                }
            }
        }
        reached.groups = end;
        end < groups.len()
    }

    /// Adds the partition's extras, and removes the tags of their stripes from sums of tags. Call it once for each partition.
    pub(crate) fn fold_rest(&mut self, rows: &Rows<'_>) {
        let (bytes, stripes) = (self.geometry.record_bytes(), self.geometry.stripes_of(&rows.slots));
        for slot in 0..self.ids.len() {
            let extra = self.extras[slot] as usize;
            let (stripe, _) = self.geometry.place(extra);
            if !stripes.contains(&stripe) {
                continue;
            }
            if rows.slots.contains(&extra) {
                xor_into(self.parity_mut(slot), &rows.bytes[(extra - rows.slots.start) * bytes..][..bytes]);
            }
            let own = self.own_slot(stripe, self.ids[slot]);
            if rows.slots.contains(&own) {
                self.rests[slot] ^= rows.tags[own - rows.slots.start];
            }
        }
        self.tags.put(rows.slots.start, &rows.tags[..rows.slots.len()]);
    }
}

/// `parity` ⊕= the rows at these places.
#[inline]
fn add(parity: &mut [u8], rows: &[u8], places: impl Iterator<Item = u32>) {
    if let Ok(parity) = <&mut [u8; WORTH_BYTES]>::try_from(&mut *parity) {
        // Fast only because the compiler knows the length.
        let rows = rows.as_chunks::<WORTH_BYTES>().0;
        let mut sum = *parity;
        for place in places {
            for (byte, other) in sum.iter_mut().zip(&rows[place as usize]) {
                *byte ^= other;
            }
        }
        *parity = sum;
    } else {
        for place in places {
            xor_into(parity, &rows[place as usize * parity.len()..][..parity.len()]);
        }
    }
}
