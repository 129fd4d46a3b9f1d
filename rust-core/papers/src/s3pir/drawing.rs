//! Which records a hint names: its half of the stripes, and an offset in each. All of it follows from the hint's number.

use std::cmp::Ordering;

use super::Geometry;
use crate::prg::{Block, Prg};
use crate::random::Uniform;

/// Neighbouring stripes whose values lie together.
pub const TOGETHER: usize = 16;

/// What the function has for a hint and TOGETHER stripes: two blocks of selections, then two of offsets, 16 bits each. The
/// hint's number is the stream; it goes on with the next stripes.
pub type Values = [Block; 4];

/// The block at which a stripe's [`Values`] begin.
pub fn place_of(stripe: usize) -> u64 {
    (stripe / TOGETHER * size_of::<Values>() / size_of::<Block>()) as u64
}

/// Where a stripe's offset is: which block, and which of its values.
pub fn place_of_offset(stripe: usize) -> (u64, usize) {
    (place_of(stripe) + 2 + (stripe % TOGETHER / 8) as u64, stripe % 8)
}

/// Value of selection in each of the stripes, compared as signed numbers, and offset.
#[inline]
pub fn read(values: &Values) -> ([i16; TOGETHER], [u16; TOGETHER]) {
    let pairs: &[[u8; 2]; 2 * TOGETHER] = values.as_flattened().as_chunks().0.try_into().expect("four blocks");
    let (selections, offsets) = pairs.split_at(TOGETHER);
    (
        std::array::from_fn(|k| i16::from_le_bytes(selections[k])),
        std::array::from_fn(|k| u16::from_le_bytes(offsets[k])),
    )
}

/// All values of a hint: of each stripe its selection and its offset.
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
    /// numbers that are valid, ascending
    pub numbers: Vec<u64>,
    /// of each, such that exactly q/2 of its values of selection are below
    pub cutoffs: Vec<i16>,
    /// of the first ones, an index in a stripe that is not chosen; the others are backups
    pub extras: Vec<u32>,
}

/// The `want` first valid numbers from `first` on, the first `extras` of them with an extra index.
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

/// A number that exactly half of the values are below; none if the two in the middle are equal.
///
/// Rejecting those leaves the chosen half uniform, since it treats all stripes alike. Halving the interval and counting is
/// faster than an order: a processor compares many short numbers at a time.
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
