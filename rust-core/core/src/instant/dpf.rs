//! Makes keys of the distributed point function (Boyle, Gilboa, Ishai: Function Secret Sharing, CCS 2016, Fig. 1 `Gen`, with
//! early termination, section 3.2.3). The format of keys, and their evaluation, are in [`keyhush_kernels::dpf`].

use keyhush_kernels::dpf::{LEAF_LOG, LEAF_OUTPUTS, key_bytes};
use keyhush_kernels::prg::{Children, LANES, SEED_BYTES, Seed, stretch};
use zeroize::Zeroizing;

/// The keys of party 0 and party 1 for a point of a domain of 2^n. The seeds must be uniform and used only once. The steps
/// are the same whatever the point is.
#[must_use]
pub fn generate(domain_log: u32, point: usize, seeds: &[Seed; 2]) -> [Vec<u8>; 2] {
    hazmat_generate_with(domain_log, point, seeds, |nodes| {
        let mut side_by_side = [[0; SEED_BYTES]; LANES];
        side_by_side[..2].copy_from_slice(nodes);
        let [zero, one, ..] = stretch(&side_by_side);
        [zero, one]
    })
}

/// [`generate`] with the caller's generator, which stretches both parties' seeds. For tests that use an ideal generator
/// and enumerate its outputs. If the generator is not pseudorandom, a key reveals its point.
#[must_use]
pub fn hazmat_generate_with(
    domain_log: u32,
    point: usize,
    seeds: &[Seed; 2],
    mut stretch_both: impl FnMut(&[Seed; 2]) -> [Children; 2],
) -> [Vec<u8>; 2] {
    let levels = (domain_log - LEAF_LOG) as usize;
    let mut words = Vec::with_capacity(levels * SEED_BYTES);
    let mut bits = vec![0; (2 * levels).div_ceil(8)];
    let mut nodes = Zeroizing::new(*seeds);
    let mut controls = [0, 1];
    for level in 0..levels {
        // Gen 3–14
        let right = (point >> (domain_log as usize - 1 - level) & 1) as u8;
        let mut children = stretch_both(&nodes);
        // On the side without the point, both parties' seeds become equal.
        let word = xor(&select(right ^ 1, &children[0].seeds), &select(right ^ 1, &children[1].seeds));
        let correction = [
            children[0].controls[0] ^ children[1].controls[0] ^ right ^ 1,
            children[0].controls[1] ^ children[1].controls[1] ^ right,
        ];
        words.extend_from_slice(&word);
        for (side, bit) in correction.iter().enumerate() {
            bits[(2 * level + side) / 8] |= bit << ((2 * level + side) % 8);
        }
        let correction = (word, correction);
        for party in 0..2 {
            correct(&mut children[party], controls[party], &correction);
            nodes[party] = select(right, &children[party].seeds);
            let [left, of_right] = children[party].controls;
            controls[party] = left ^ (right.wrapping_neg() & (left ^ of_right));
        }
    }
    let children = stretch_both(&nodes);
    let mut last = xor(&children[0].seeds[0], &children[1].seeds[0]);
    let output = point % LEAF_OUTPUTS;
    for (number, byte) in last.iter_mut().enumerate() {
        *byte ^= u8::from(number == output / 8) << (output % 8);
    }
    [0, 1].map(|party| {
        let mut key = Vec::with_capacity(key_bytes(domain_log));
        key.extend_from_slice(&seeds[usize::from(party)]);
        key.extend_from_slice(&words);
        key.extend_from_slice(&bits);
        key.extend_from_slice(&last);
        key.push(party);
        key
    })
}

/// Applies a level's correction to the children of a node with this control bit, without a branch.
fn correct(children: &mut Children, control: u8, (word, bits): &(Seed, [u8; 2])) {
    for (seed, (below, bit)) in children.seeds.iter_mut().zip(children.controls.iter_mut().zip(bits)) {
        seed.iter_mut().zip(word).for_each(|(byte, other)| *byte ^= control.wrapping_neg() & other);
        *below ^= control & bit;
    }
}

/// The left seed for 0, the right one for 1, without a branch.
fn select(side: u8, seeds: &[Seed; 2]) -> Seed {
    let mask = side.wrapping_neg();
    std::array::from_fn(|i| seeds[0][i] ^ (mask & (seeds[0][i] ^ seeds[1][i])))
}

fn xor(a: &Seed, b: &Seed) -> Seed {
    std::array::from_fn(|i| a[i] ^ b[i])
}
