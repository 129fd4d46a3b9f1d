//! Evaluates a two-party distributed point function with one-bit outputs (Boyle, Gilboa, Ishai: Function Secret Sharing,
//! CCS 2016, Fig. 1, with the early termination of section 3.2.3). One key alone reveals nothing of the point. The outputs of
//! both keys differ at the point, and nowhere else. The tree ends 7 levels early: a leaf has 128 outputs.
//!
//! This module evaluates keys over the whole domain. The core makes keys.

use core::array::from_fn;

use crate::prg::{LANES, SEED_BYTES, Seed, Seeds, apart, double, side_by_side};
use crate::words::Words;

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
    /// `points` points. `nodes` is scratch memory, with [`scratch_nodes`] entries.
    pub fn evaluate(&self, points: usize, nodes: &mut [Nodes], mut each: impl FnMut(usize, &Seed)) {
        let leaves = points.div_ceil(LEAF_OUTPUTS);
        let levels = self.words.len();
        store(&mut nodes[0], in_all_lanes(self.seed), Words::splat(u32::from(self.party).wrapping_neg()));
        let mut count = 1usize;
        for level in 0..levels {
            let (word, bits) = self.correction(level);
            let word = in_all_lanes(&word);
            let bits = bits.map(|bit| Words::splat(u32::from(bit).wrapping_neg()));
            // From the end: then children never overwrite a parent that is still to be read.
            for first in (0..count.div_ceil(LANES)).rev() {
                let (seeds, control) = load(&nodes[first]);
                let (mut sides, below) = double(&seeds);
                for side in &mut sides {
                    xor_where(control, side, &word);
                }
                let controls: [Words; 2] = from_fn(|side| below.spread(side as u32).xor(bits[side].and(control)));
                let of_pairs: [[Words; 2]; 4] = from_fn(|word| sides[0][word].interleave(sides[1][word]));
                let controls = controls[0].interleave(controls[1]);
                for (half, to) in nodes[2 * first..2 * first + 2].iter_mut().enumerate() {
                    store(to, of_pairs.map(|halves| halves[half]), controls[half]);
                }
            }
            // Only ancestors of the leaves that are needed.
            count = leaves.div_ceil(1 << (levels - level - 1));
        }
        let last = in_all_lanes(self.last);
        for (first, four) in nodes[..count.div_ceil(LANES)].iter().enumerate() {
            let (seeds, control) = load(four);
            let ([mut outputs, _], _) = double(&seeds);
            xor_where(control, &mut outputs, &last);
            for (lane, outputs) in apart(&outputs).iter().enumerate() {
                if first * LANES + lane < count {
                    each(first * LANES + lane, outputs);
                }
            }
        }
    }
}

/// Four nodes side by side: the four words of their seeds, and their control bits in all bits of a word.
pub type Nodes = [[u8; SEED_BYTES]; 5];

/// The entries of scratch memory for evaluating `points` points. (One more, because children come in two entries.)
#[must_use]
pub fn scratch_nodes(points: usize) -> usize {
    points.div_ceil(LEAF_OUTPUTS).div_ceil(LANES) + 1
}

fn load(nodes: &Nodes) -> (Seeds, Words) {
    let [a, b, c, d, control] = nodes.each_ref().map(Words::from_bytes);
    ([a, b, c, d], control)
}

fn store(nodes: &mut Nodes, seeds: Seeds, control: Words) {
    let [a, b, c, d] = seeds;
    *nodes = [a, b, c, d, control].map(Words::to_bytes);
}

/// `into` ⊕= `word` in the lanes whose control is all ones.
fn xor_where(control: Words, into: &mut Seeds, word: &Seeds) {
    for (own, other) in into.iter_mut().zip(word) {
        *own = own.xor(control.and(*other));
    }
}

fn in_all_lanes(seed: &Seed) -> Seeds {
    side_by_side(&[*seed; LANES])
}
