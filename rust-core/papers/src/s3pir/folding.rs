//! Folds a stream of records into the parities of hints. [`super::drawing`] says which records a hint has.

use super::Geometry;
use super::drawing::{Drawn, TOGETHER, Values, place_of, read, values_of};
use crate::prg::Prg;
use crate::records::Records;
use crate::xor::{xor, xor_from};

/// Hints whose values are computed in one step.
const STEP: usize = 64;

/// The parities of hints and backups.
pub struct Parities {
    /// for each hint with an extra ℓ bytes: its chosen half, which is the one below the cutoff, and the extra
    pub hints: Vec<u8>,
    /// for each backup 2·ℓ bytes: the half below the cutoff, and the half above
    pub pairs: Vec<u8>,
}

/// Algorithm 1; Algorithm 4, lines 9 to 19: makes all parities. Asks for each stripe once, in order.
pub fn fold<'s, P: Prg>(
    prg: &P,
    geometry: &Geometry,
    drawn: &Drawn,
    mut stripe: impl FnMut(usize) -> &'s [u8],
) -> Parities {
    let bytes = geometry.record_bytes;
    let hints = drawn.extras.len();
    let mut parities =
        Parities { hints: vec![0; hints * bytes], pairs: vec![0; (drawn.numbers.len() - hints) * 2 * bytes] };
    let mut by_extra: Vec<u32> = (0..hints as u32).collect();
    by_extra.sort_unstable_by_key(|&hint| drawn.extras[hint as usize]);
    let mut by_extra = by_extra.into_iter().map(|hint| hint as usize).peekable();
    // A few stripes at a time, which fit into a processor's second cache, for all hints. Stripes beyond the last are zeros. After
    // them comes one record of zeros.
    let mut records = Vec::new();
    for first in (0..geometry.stripes).step_by(TOGETHER) {
        let to = geometry.stripes.min(first + TOGETHER);
        records.clear();
        (first..to).for_each(|k| records.extend_from_slice(stripe(k)));
        records.resize((TOGETHER * geometry.stripe_records + 1) * bytes, 0);
        fold_together(prg, geometry, drawn, first, &records, &mut parities);
        let before_to = |&hint: &usize| geometry.place(drawn.extras[hint] as usize).0 < to;
        while let Some(hint) = by_extra.next_if(before_to) {
            let at = (drawn.extras[hint] as usize - first * geometry.stripe_records) * bytes;
            xor(&mut parities.hints[hint * bytes..][..bytes], &records[at..][..bytes]);
        }
    }
    parities
}

/// Folds TOGETHER stripes from `first` on. A record of zeros follows them.
fn fold_together<P: Prg>(
    prg: &P,
    geometry: &Geometry,
    drawn: &Drawn,
    first: usize,
    records: &[u8],
    parities: &mut Parities,
) {
    let &Geometry { stripe_records, record_bytes: bytes, .. } = geometry;
    let zeros = records.len() - bytes;
    let mut table = [Values::default(); STEP];
    for (step, numbers) in drawn.numbers.chunks(STEP).enumerate() {
        let table = &mut table[..numbers.len()];
        prg.table(numbers, place_of(first), table);
        for (hint, values) in (step * STEP..).zip(&*table) {
            let (selections, offsets) = read(values);
            // Each record is in one half at random, so a branch would be mispredicted half of the time. Instead, the other half reads the
            // record of zeros.
            let (mut below, mut above) = ([zeros; TOGETHER], [zeros; TOGETHER]);
            for k in 0..TOGETHER {
                let place = (k * stripe_records + geometry.offset(offsets[k])) * bytes;
                let is_below = selections[k] < drawn.cutoffs[hint];
                below[k] = if is_below { place } else { zeros };
                above[k] = if is_below { zeros } else { place };
            }
            if hint < drawn.extras.len() {
                xor_from(&mut parities.hints[hint * bytes..][..bytes], records, &below);
            } else {
                let pair = &mut parities.pairs[(hint - drawn.extras.len()) * 2 * bytes..][..2 * bytes];
                let (parity_below, parity_above) = pair.split_at_mut(bytes);
                xor_from(parity_below, records, &below);
                xor_from(parity_above, records, &above);
            }
        }
    }
}

/// Algorithm 3, lines 1 to 8: both parities of a number, from the whole database.
pub fn pair_of<P: Prg>(prg: &P, geometry: &Geometry, number: u64, cutoff: i16, records: &Records) -> Vec<u8> {
    let bytes = geometry.record_bytes;
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for (k, (value, offset)) in values_of(prg, geometry, number).into_iter().enumerate() {
        let half = if value < cutoff { &mut below } else { &mut above };
        half.push((k * geometry.stripe_records + offset) * bytes);
    }
    let mut pair = vec![0; 2 * bytes];
    let (parity_below, parity_above) = pair.split_at_mut(bytes);
    xor_from(parity_below, records.bytes(), &below);
    xor_from(parity_above, records.bytes(), &above);
    pair
}
