//! Evaluates a two-party distributed point function with one-bit outputs (Boyle, Gilboa, Ishai: Function Secret Sharing,
//! CCS 2016, Fig. 1, with the early termination of section 3.2.3). One key alone reveals nothing of the point. The outputs of
//! both keys differ at the point, and nowhere else. The tree ends 7 levels early: a leaf has 128 outputs.
//!
//! This module evaluates keys over the whole domain. The core makes keys.

use crate::prg::{Children, LANES, SEED_BYTES, Seed, stretch};

/// log₂ of the number of outputs of a leaf.
pub const LEAF_LOG: u32 = 7;
/// Outputs of a leaf.
pub const LEAF_OUTPUTS: usize = 1 << LEAF_LOG;

/// n: the smallest domain 2^n that has `points` points, and at least one leaf.
#[must_use]
pub fn domain_log(points: usize) -> u32 {
    points.next_power_of_two().trailing_zeros().max(LEAF_LOG)
}

/// Bytes of a key for a domain of 2^n.
#[must_use]
pub fn key_bytes(domain_log: u32) -> usize {
    let levels = (domain_log - LEAF_LOG) as usize;
    SEED_BYTES + levels * SEED_BYTES + (2 * levels).div_ceil(8) + SEED_BYTES + 1
}

/// A key: the seed; a correction word for each level; two correction bits for each level (low bit first, left before right;
/// unused bits of the last byte are zero); the last correction; the party (0 or 1).
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    seed: &'a Seed,
    words: &'a [Seed],
    bits: &'a [u8],
    last: &'a Seed,
    party: u8,
}

impl<'a> Key<'a> {
    /// Reads a key for a domain of 2^n; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &'a [u8], domain_log: u32) -> Option<Self> {
        if bytes.len() != key_bytes(domain_log) {
            return None;
        }
        let levels = (domain_log - LEAF_LOG) as usize;
        let (seed, rest) = bytes.split_first_chunk()?;
        let (words, rest) = rest.split_at_checked(levels * SEED_BYTES)?;
        let (party, rest) = rest.split_last()?;
        let (bits, last) = rest.split_last_chunk()?;
        let spare = bits.len() * 8 - 2 * levels;
        let spare_is_zero = bits.last().is_none_or(|byte| u32::from(*byte) << spare >> 8 == 0);
        let key = Key { seed, words: words.as_chunks().0, bits, last, party: *party };
        (*party <= 1 && spare_is_zero).then_some(key)
    }

    /// The correction of a level: a word, and a bit for each side.
    fn correction(&self, level: usize) -> (Seed, [u8; 2]) {
        let at = |bit: usize| self.bits.get(bit / 8).map_or(0, |byte| byte >> (bit % 8) & 1);
        (self.words[level], [at(2 * level), at(2 * level + 1)])
    }

    /// Calls `each` with the number and the 128 outputs (byte by byte, low bit first) of every leaf that has some of the first
    /// `points` points. `nodes` and `controls` are scratch memory, with [`scratch_nodes`] entries each.
    pub fn evaluate(&self, points: usize, nodes: &mut [Seed], controls: &mut [u8], mut each: impl FnMut(usize, &Seed)) {
        let leaves = points.div_ceil(LEAF_OUTPUTS);
        let levels = self.words.len();
        (nodes[0], controls[0]) = (*self.seed, self.party);
        let mut count = 1;
        for level in 0..levels {
            // Only ancestors of the leaves that are needed.
            let wanted = leaves.div_ceil(1 << (levels - level - 1));
            let correction = self.correction(level);
            // From the end: then children never overwrite a parent that is still to be read.
            for first in (0..count).step_by(LANES).rev() {
                let parents = side_by_side(&nodes[..count], first);
                let of: [u8; LANES] =
                    core::array::from_fn(|lane| controls[..count].get(first + lane).copied().unwrap_or(0));
                for (lane, mut children) in stretch(&parents).into_iter().enumerate() {
                    correct(&mut children, of[lane], &correction);
                    for side in 0..2 {
                        let child = 2 * (first + lane) + side;
                        if child < wanted {
                            (nodes[child], controls[child]) = (children.seeds[side], children.controls[side]);
                        }
                    }
                }
            }
            count = wanted;
        }
        for first in (0..count).step_by(LANES) {
            let parents = side_by_side(&nodes[..count], first);
            for (lane, mut children) in stretch(&parents).into_iter().enumerate() {
                if let Some(control) = controls[..count].get(first + lane) {
                    xor_if(*control, &mut children.seeds[0], self.last);
                    each(first + lane, &children.seeds[0]);
                }
            }
        }
    }
}

/// The entries of scratch memory for evaluating `points` points.
#[must_use]
pub fn scratch_nodes(points: usize) -> usize {
    points.div_ceil(LEAF_OUTPUTS)
}

/// Applies a level's correction to the children of a node with this control bit.
pub fn correct(children: &mut Children, control: u8, (word, bits): &(Seed, [u8; 2])) {
    let sides = children.seeds.iter_mut().zip(&mut children.controls).zip(bits);
    for ((seed, below), bit) in sides {
        xor_if(control, seed, word);
        *below ^= control & bit;
    }
}

/// `into` ⊕= `word` if `control` is 1, without a branch.
pub fn xor_if(control: u8, into: &mut Seed, word: &Seed) {
    let mask = control.wrapping_neg();
    for (byte, other) in into.iter_mut().zip(word) {
        *byte ^= mask & other;
    }
}

fn side_by_side(nodes: &[Seed], first: usize) -> [Seed; LANES] {
    core::array::from_fn(|lane| nodes.get(first + lane).copied().unwrap_or_default())
}
