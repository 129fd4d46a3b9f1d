//! Draws hints: which ids are hints, their cutoffs, and the extra record of each. This part of the offline phase needs no
//! records (papers: S3PIR, Algorithm 4, lines 1 to 8).

use zeroize::Zeroize;

use super::geometry::Geometry;
use super::streams::{Function, GROUP, Kind};
use crate::random::Uniform;

/// The cutoff of an id that is no hint: no value is below it.
pub(crate) const NONE: i16 = i16::MIN;

/// How many ids get their cutoffs at once: their counts just fit into registers.
const ABREAST: usize = 32;

/// Draws cutoffs, one group of ids in each step.
pub(crate) struct Drawing<U> {
    /// the number of hints to draw; the first `extras` of them get an extra
    want: usize,
    extras: usize,
    source: U,
    /// q times the selections of a group
    values: Vec<[i16; GROUP]>,
    pub(crate) drawn: Drawn,
}

/// Hints without parities.
#[derive(Default)]
pub(crate) struct Drawn {
    /// by id; [`NONE`] for ids that are no hints
    pub(crate) cutoffs: Vec<i16>,
    /// ids of the hints, ascending
    pub(crate) ids: Vec<u32>,
    /// extras of the first hints
    pub(crate) extras: Vec<u32>,
}

impl<U: Uniform> Drawing<U> {
    pub(crate) fn new(geometry: &Geometry, want: usize, extras: usize, source: U) -> Self {
        Drawing { want, extras, source, values: vec![[0; GROUP]; geometry.stripes()], drawn: Drawn::default() }
    }

    /// Whether all hints are drawn.
    pub(crate) fn is_done(&self) -> bool {
        self.drawn.ids.len() == self.want
    }

    /// Draws a group.
    pub(crate) fn step(&mut self, geometry: &Geometry, function: &impl Function) {
        let Drawn { cutoffs, ids, extras } = &mut self.drawn;
        let mut values = [0; GROUP];
        for (stripe, selections) in self.values.iter_mut().enumerate() {
            function.group(Kind::Selection, stripe, cutoffs.len() / GROUP, &mut values);
            *selections = values.map(u16::cast_signed);
        }
        let first = cutoffs.len();
        for column in (0..GROUP).step_by(ABREAST) {
            cutoffs.extend_from_slice(&cutoffs_of(&self.values, column));
        }
        for (column, id) in (first..cutoffs.len()).enumerate() {
            let cutoff = cutoffs[id];
            if cutoff == NONE || ids.len() == self.want {
                continue;
            }
            if ids.len() < self.extras {
                // A uniform offset in a uniform stripe of those not chosen.
                let stripe = loop {
                    let stripe = self.source.below(geometry.stripes() as u32) as usize;
                    if self.values[stripe][column] >= cutoff {
                        break stripe;
                    }
                };
                let offset = self.source.below(geometry.stripe_records() as u32);
                extras.push((stripe * geometry.stripe_records()) as u32 + offset);
            }
            ids.push(id as u32);
        }
    }
}

impl<U> Drop for Drawing<U> {
    fn drop(&mut self) {
        self.values.as_flattened_mut().zeroize();
        self.drawn.extras.zeroize();
    }
}

/// The cutoffs of ABREAST neighbouring columns: the least number with exactly half of the values below it. [`NONE`] if the
/// two values in the middle are equal. Skipping those ids keeps the chosen half uniform, because it treats all stripes alike.
#[inline(never)]
fn cutoffs_of(values: &[[i16; GROUP]], first: usize) -> [i16; ABREAST] {
    let half = values.len().cast_signed() as i16 / 2; // q ≤ 2^14
    let below = |bounds: &[i16; ABREAST]| {
        let mut counts = [0i16; ABREAST];
        for row in values {
            if let Some(row) = row[first..].first_chunk::<ABREAST>() {
                for (count, (value, bound)) in counts.iter_mut().zip(row.iter().zip(bounds)) {
                    *count += i16::from(value < bound);
                }
            }
        }
        counts
    };
    // From the least i16 on: the largest sum that leaves fewer than half of the values below.
    let signed = |added: u16| (added ^ 0x8000).cast_signed();
    let mut added = [0u16; ABREAST];
    for bit in (0..16).rev() {
        let counts = below(&added.map(|added| signed(added | 1 << bit)));
        for (added, count) in added.iter_mut().zip(counts) {
            *added |= u16::from(count < half) << bit;
        }
    }
    let mut cutoffs = added.map(|added| signed(added.wrapping_add(1)));
    let counts = below(&cutoffs);
    for (cutoff, count) in cutoffs.iter_mut().zip(counts) {
        if count != half {
            *cutoff = NONE;
        }
    }
    cutoffs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutoff(column: &[i16]) -> i16 {
        let mut values = vec![[0; GROUP]; column.len()];
        values.iter_mut().zip(column).for_each(|(row, value)| row[37] = *value);
        let others = cutoffs_of(&values, 32);
        assert!(others.iter().enumerate().all(|(at, cutoff)| at == 5 || *cutoff == NONE), "all equal");
        others[5]
    }

    #[test]
    fn half_of_the_values_are_below_a_cutoff_or_the_middle_two_are_equal() {
        assert_eq!(cutoff(&[i16::MIN, i16::MIN + 1]), i16::MIN + 1);
        assert_eq!(cutoff(&[i16::MAX, i16::MAX - 1]), i16::MAX);
        assert_eq!(cutoff(&[3, -4, 9, 5]), 4);
        for tie in [i16::MIN, -1, 0, i16::MAX] {
            assert_eq!(cutoff(&[tie, tie]), NONE);
            assert_eq!(cutoff(&[i16::MIN, tie, tie, i16::MAX]), NONE);
        }
        let mut values: Vec<i16> = (0..1000).map(|n| (n * 7919 % 4099) as i16 - 2000).collect();
        let found = cutoff(&values);
        values.sort_unstable();
        assert_eq!(found, values[499] + 1);
    }
}
