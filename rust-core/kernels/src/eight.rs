//! Up to eight queries of a pass. A row of the database (a group, or a node of a tree) has a *selector*: a byte with a bit for
//! each query, whether the row is in its sum. There is a sum for each combination of four queries, and a row is added to the
//! sum of its combination: once instead of up to four times (the method of four Russians). At the end, the sums of
//! combinations give each query's sum.

use core::iter;

use crate::shape::{NODE_BYTES, Shape};
use crate::xor::{xor, xor_block_if, xor_if, xor_into, xor_into_both};

const COMBINATIONS: usize = 16;
/// Sums for eight queries: those of the first four's combinations, and then those of the others'.
const SUMS: usize = 2 * COMBINATIONS;

/// What a pass keeps for up to eight queries.
pub(crate) struct Eight<'a> {
    group_bytes: usize,
    /// whether there is but one query in the whole pass
    lone: bool,
    /// those of groups, and then those of each sibling
    sums: &'a mut [u8],
    /// of all groups
    pub(crate) selectors: &'a mut [u8],
    /// of one partition, added up level by level
    pub(crate) folded: &'a mut [u8],
}

impl<'a> Eight<'a> {
    /// Takes the first [`Eight::bytes`] bytes, zeros, and returns the others too. `None` if there are fewer.
    pub(crate) fn split(shape: &Shape, lone: bool, bytes: &'a mut [u8]) -> Option<(Self, &'a mut [u8])> {
        let (sums, rest) = bytes.split_at_mut_checked(SUMS * shape.answer_bytes())?;
        let (selectors, rest) = rest.split_at_mut_checked(shape.groups())?;
        let (folded, rest) = rest.split_at_mut_checked(shape.partition_groups())?;
        Some((Eight { group_bytes: shape.group_bytes(), lone, sums, selectors, folded }, rest))
    }

    /// Bytes of memory.
    pub(crate) fn bytes(shape: &Shape) -> usize {
        SUMS * shape.answer_bytes() + shape.groups() + shape.partition_groups()
    }

    /// Adds neighbouring groups, from number `first` on. A short one at the end counts as padded with zeros.
    pub(crate) fn add_groups(&mut self, first: usize, rows: &[u8]) {
        let bytes = self.group_bytes;
        let (low, high) = self.sums.split_at_mut(COMBINATIONS * bytes);
        let whole = rows.chunks_exact(bytes);
        let (short, selectors) = (whole.remainder(), &self.selectors[first..]);
        if self.lone {
            let sum = &mut low[bytes..2 * bytes];
            whole.zip(selectors).for_each(|(group, selector)| xor_if(*selector, sum, group));
        } else {
            whole.zip(selectors).for_each(|(group, selector)| {
                let [low_sum, high_sum] = combinations(*selector);
                xor_into_both(&mut low[low_sum * bytes..][..bytes], &mut high[high_sum * bytes..][..bytes], group);
            });
        }
        if !short.is_empty() {
            self.add_part(0, bytes, 0, self.selectors[first + rows.len() / bytes], short);
        }
    }

    /// Adds the nodes of a level in pairs. A pair's left node is the sibling of the right one, so the right one's selector says to
    /// which sums it is added; and the other way round.
    pub(crate) fn add_pairs(&mut self, sibling: usize, nodes: &[[u8; NODE_BYTES]]) {
        let at = SUMS * (self.group_bytes + sibling * NODE_BYTES);
        let sums = self.sums[at..].as_chunks_mut().0.as_chunks_mut::<COMBINATIONS>().0;
        let [low, high, ..] = sums else { return };
        let pairs = nodes.as_chunks().0.iter().zip(self.folded.as_chunks().0);
        let by_partner = pairs.flat_map(|([left, right], [of_left, of_right])| [(left, *of_right), (right, *of_left)]);
        if self.lone {
            let mut sum = low[1];
            by_partner.for_each(|(node, selector)| xor_block_if(selector, &mut sum, node));
            low[1] = sum;
        } else {
            by_partner.for_each(|(node, selector)| {
                let [low_sum, high_sum] = combinations(selector);
                xor(&mut low[low_sum], node);
                xor(&mut high[high_sum], node);
            });
        }
    }

    /// Adds bytes of rows of `row_bytes` bytes, whose place in answers is `row`; they begin at byte `at` of that row.
    pub(crate) fn add_part(&mut self, row: usize, row_bytes: usize, at: usize, selector: u8, part: &[u8]) {
        let of_row = &mut self.sums[SUMS * row..][..SUMS * row_bytes];
        for (four, sum) in of_row.chunks_exact_mut(COMBINATIONS * row_bytes).zip(combinations(selector)) {
            xor_into(&mut four[sum * row_bytes + at..][..part.len()], part);
        }
    }

    /// Writes a query's sum: a group, and its siblings.
    pub(crate) fn write(&self, query: usize, answer: &mut [u8]) {
        let mut sums = &*self.sums;
        let (group, siblings) = answer.split_at_mut(self.group_bytes);
        for part in iter::once(group).chain(siblings.chunks_exact_mut(NODE_BYTES)) {
            let (of_part, rest) = sums.split_at(SUMS * part.len());
            let four = of_part.chunks_exact(part.len()).skip(query / 4 * COMBINATIONS).take(COMBINATIONS);
            for (_, sum) in four.enumerate().filter(|(combination, _)| combination >> (query % 4) & 1 == 1) {
                xor_into(part, sum);
            }
            sums = rest;
        }
    }
}

/// The combinations of a selector's first four queries, and of the others.
#[inline]
fn combinations(selector: u8) -> [usize; 2] {
    [usize::from(selector) % COMBINATIONS, usize::from(selector) / COMBINATIONS]
}
