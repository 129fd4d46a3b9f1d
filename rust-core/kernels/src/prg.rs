//! The pseudorandom generator of instant lookups (docs/protocol.md, Instant lookups). The generators of the papers' schemes are
//! in `rust-core/papers/src/prg.rs`.
//!
//! It doubles a seed, for the distributed point function: one ChaCha20 block under a 16-byte seed (the 128-bit key form of
//! Bernstein's paper; counter and nonce are zero). Bytes 0–15 are the left seed, 16–31 the right one. Bits 0 and 1 of byte 32
//! are the left and right control bits. The rest is not used.
//!
//! The blocks of several seeds are computed side by side, word by word. Libraries compute many blocks under one key instead,
//! and all but one of those would be unused.

use core::array;

use crate::words::{Words, chacha};

/// Bytes of a seed.
pub const SEED_BYTES: usize = 16;

/// A node's secret.
pub type Seed = [u8; SEED_BYTES];

pub use crate::words::LANES;

/// "expand 16-byte k"
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3120_646e, 0x7962_2d36, 0x6b20_6574];

/// The two children of a seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Children {
    /// left and right
    pub seeds: [Seed; 2],
    /// left and right, 0 or 1
    pub controls: [u8; 2],
}

/// Several seeds, word by word.
pub(crate) type Seeds = [Words; SEED_BYTES / 4];

/// Puts seeds side by side.
pub(crate) fn side_by_side(seeds: &[Seed; LANES]) -> Seeds {
    let word_of = |seed: &Seed, word: usize| u32::from_le_bytes(array::from_fn(|at| seed[4 * word + at]));
    array::from_fn(|word| Words::new(array::from_fn(|lane| word_of(&seeds[lane], word))))
}

/// Takes seeds apart.
pub(crate) fn apart(seeds: &Seeds) -> [Seed; LANES] {
    let words = seeds.map(Words::lanes);
    array::from_fn(|lane| array::from_fn(|at| words[at / 4][lane].to_le_bytes()[at % 4]))
}

/// The left and the right children of several seeds, and the words whose bits 0 and 1 are their control bits.
#[inline]
pub(crate) fn double(seeds: &Seeds) -> ([Seeds; 2], Words) {
    let mut before = [Words::splat(0); 16];
    for (word, constant) in before.iter_mut().zip(CONSTANTS) {
        *word = Words::splat(constant);
    }
    before[4..8].copy_from_slice(seeds);
    before[8..12].copy_from_slice(seeds);
    let state = chacha::<20>(&before);
    (array::from_fn(|side| array::from_fn(|word| state[4 * side + word])), state[8])
}

/// Computes the children of several seeds.
#[must_use]
pub fn stretch(seeds: &[Seed; LANES]) -> [Children; LANES] {
    let (sides, controls) = double(&side_by_side(seeds));
    let ([left, right], controls) = (sides.each_ref().map(apart), controls.lanes());
    array::from_fn(|lane| Children {
        seeds: [left[lane], right[lane]],
        controls: [(controls[lane] & 1) as u8, (controls[lane] >> 1 & 1) as u8],
    })
}
