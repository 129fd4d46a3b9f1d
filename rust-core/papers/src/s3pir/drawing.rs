//! Draws hints: half of the stripes and an offset in each, all from the hint's number.

use std::cmp::Ordering;

use super::Geometry;
use crate::prg::{Block, Prg};
use crate::random::Uniform;

/// Neighbouring stripes whose values lie together.
pub const TOGETHER: usize = 16;

/// The function's values for a hint and TOGETHER stripes: two blocks of selections, then two of offsets, 16 bits each. The
/// hint's number is the stream. The next stripes follow in it.
pub type Values = [Block; 4];

/// The block at which the [`Values`] of a stripe begin.
pub fn place_of(stripe: usize) -> u64 {
    (stripe / TOGETHER * size_of::<Values>() / size_of::<Block>()) as u64
}

/// The block that has a stripe's offset, and the number of the value in it.
pub fn place_of_offset(stripe: usize) -> (u64, usize) {
    (place_of(stripe) + 2 + (stripe % TOGETHER / 8) as u64, stripe % 8)
}

/// The selection of each stripe, compared as a signed number, and its offset.
#[inline]
pub fn read(values: &Values) -> ([i16; TOGETHER], [u16; TOGETHER]) {
    let pairs: &[[u8; 2]; 2 * TOGETHER] = values.as_flattened().as_chunks().0.try_into().expect("four blocks");
    let (selections, offsets) = pairs.split_at(TOGETHER);
    (
        std::array::from_fn(|k| i16::from_le_bytes(selections[k])),
        std::array::from_fn(|k| u16::from_le_bytes(offsets[k])),
    )
}

/// All values of a hint: the selection and the offset of each stripe.
pub fn values_of<P: Prg>(prg: &P, geometry: &Geometry, number: u64) -> Vec<(i16, usize)> {
    let mut all = vec![Values::default(); geometry.stripes.div_ceil(TOGETHER)];
    prg.fill(number, 0, all.as_flattened_mut());
    let each = all.iter().flat_map(|values| {
        let (selections, offsets) = read(values);
        selections.into_iter().zip(offsets)
    });
    each.take(geometry.stripes).map(|(value, offset)| (value, geometry.offset(offset))).collect()
}

/// Hints without their parities.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// valid numbers, ascending
    pub numbers: Vec<u64>,
    /// by hint: exactly q/2 of its selections are below
    pub cutoffs: Vec<i16>,
    /// for the first hints: an index in a stripe that is not chosen; the other hints are backups
    pub extras: Vec<u32>,
}

/// The first `want` valid numbers from `first` on. The first `extras` of them get an extra.
pub fn draw<P: Prg>(
    prg: &P,
    geometry: &Geometry,
    first: u64,
    want: usize,
    extras: usize,
    source: &mut impl Uniform,
) -> Drawn {
    let (q, s) = (geometry.stripes, geometry.stripe_records);
    let mut drawn = Drawn::default();
    let mut all = vec![Values::default(); q.div_ceil(TOGETHER)];
    let mut selections = vec![[0; TOGETHER]; all.len()];
    for number in first.. {
        if drawn.numbers.len() == want {
            break;
        }
        prg.fill(number, 0, all.as_flattened_mut());
        selections.iter_mut().zip(&all).for_each(|(selections, values)| *selections = read(values).0);
        let selections = &selections.as_flattened()[..q];
        let Some(cutoff) = cutoff(selections) else { continue };
        if drawn.extras.len() < extras {
            drawn.extras.push(loop {
                let stripe = source.below(q as u32); // §3.2: until the stripe is one that is not chosen
                if selections[stripe as usize] >= cutoff {
                    break stripe * s as u32 + source.below(s as u32);
                }
            });
        }
        drawn.numbers.push(number);
        drawn.cutoffs.push(cutoff);
    }
    drawn
}

/// A number with exactly half of the values below it; none if the two values in the middle are equal.
///
/// Skipping those hints keeps the chosen half uniform, because it treats all stripes alike. Bisecting and counting is faster
/// than sorting: a processor compares many short numbers at once.
fn cutoff(selections: &[i16]) -> Option<i16> {
    let half = selections.len() as u16 / 2; // q ≤ 2^14
    let (mut least, mut most) = (i16::MIN, i16::MAX);
    while least <= most {
        let middle = least.midpoint(most);
        let below = selections.iter().map(|&value| u16::from(value < middle)).sum::<u16>();
        match below.cmp(&half) {
            Ordering::Equal => return Some(middle),
            Ordering::Less => least = middle.checked_add(1)?,
            Ordering::Greater => most = middle - 1, // some are below it
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::cutoff;

    #[test]
    fn half_of_the_values_are_below_a_cutoff_or_the_middle_two_are_equal() {
        assert_eq!(cutoff(&[i16::MIN, i16::MIN + 1]), Some(i16::MIN + 1));
        assert_eq!(cutoff(&[i16::MAX, i16::MAX - 1]), Some(i16::MAX));
        for tie in [i16::MIN, -1, 0, i16::MAX] {
            assert_eq!(cutoff(&[tie, tie]), None);
            assert_eq!(cutoff(&[i16::MIN, tie, tie, i16::MAX]), None);
        }
        let mut values: Vec<i16> = (0..1000).map(|n| (n * 7919 % 4099) as i16 - 2000).collect();
        let found = cutoff(&values).expect("they are distinct");
        values.sort_unstable();
        assert!(values[499] < found && found <= values[500]);
    }
}
