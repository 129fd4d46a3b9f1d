//! Parities of hints: which records follow from the streams, and partitions stream by (papers: S3PIR, Algorithm 4, lines 9 to
//! 19). XOR does not ask for order: a stripe that lies in two partitions is folded twice, each time as if the other part
//! were zeros.

use std::ops::Range;

use keyhush_kernels::scan::xor_into;

use super::hint::Hint;
use super::streams::{Function, GROUP, Kind};

/// Stripes folded together at most, so that every parity is read and written once for all of them; and bytes of theirs at
/// most, which are read at random and ought to stay in a processor's cache.
const TOGETHER: usize = 16;
const TOGETHER_BYTES: usize = 512 << 10;

/// The length that is worth a loop of its own.
const WORTH_BYTES: usize = 32;

/// A partition, and a record of zeros behind it: what all slots elsewhere are read as; and the tags of both.
pub(crate) struct Rows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) tags: &'a [u64],
    pub(crate) slots: Range<usize>,
}

/// Values of streams that a step looks at: some milliseconds, in a browser that has not compiled this well yet, too.
const STEP_VALUES: usize = 1 << 16;

/// How many stripes are folded together.
pub(crate) fn together(stripe_records: usize, record_bytes: usize) -> usize {
    (TOGETHER_BYTES / (stripe_records * record_bytes)).clamp(1, TOGETHER)
}

/// What has been folded into some of the ids, from the first on, of stripes that are folded together.
#[derive(Default)]
pub(crate) struct Reached {
    /// of ids
    groups: usize,
    /// hints and pairs among them
    hints: usize,
}

/// Where in the rows each id's record of each stripe is, or the zeros.
type Places = [[u32; GROUP]; TOGETHER];

impl<F: Function> Hint<F> {
    /// Adds what rows have of some stripes to the parities of the next ids; whether there are more. For each stripe of a partition
    /// until there are none.
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
                    // Every second time a branch would be guessed wrongly: zeros are read instead.
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

    /// Adds the extras that lie in rows, and takes from sums of tags what lies in their stripes. For each partition once.
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
        // A length that the compiler knows is what makes this fast.
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
