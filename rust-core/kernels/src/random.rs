//! Uniform random numbers. The caller passes 32 fresh bytes of the operating system's entropy for every hint and every query.
//! ChaCha20 stretches them. Test vectors fix the exact numbers (docs/protocol.md, Uniform numbers).

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// Bytes of entropy that seed one stream.
pub const ENTROPY_BYTES: usize = 32;

/// A source of uniform numbers. [`ChaCha`] is the real one; tests use sources that enumerate all outcomes.
pub trait Uniform {
    /// A number uniform over 0 … `bound` − 1. `bound` is 1 to 65 536.
    fn below(&mut self, bound: u32) -> u32;
}

/// ChaCha20, with an independent stream for each purpose.
pub struct ChaCha(ChaCha20Rng);

impl ChaCha {
    /// The stream of this number, seeded with `entropy`.
    #[must_use]
    pub fn new(entropy: &[u8; ENTROPY_BYTES], stream: u64) -> Self {
        let mut generator = ChaCha20Rng::from_seed(*entropy);
        generator.set_stream(stream);
        ChaCha(generator)
    }

    /// Moves to the u32 of this number in the stream.
    pub fn seek(&mut self, word: u64) {
        self.0.set_word_pos(u128::from(word));
    }

    /// Fills `bytes` from the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// Shuffles the identity into a uniform permutation (Fisher–Yates; papers: TAPIR, Lemma 2.2.1).
pub fn shuffle(entries: &mut [u16], source: &mut impl Uniform) {
    for i in (1..entries.len()).rev() {
        let j = source.below(i as u32 + 1) as usize;
        entries.swap(i, j);
    }
}

impl Uniform for ChaCha {
    // Lemire's multiplication with rejection. It is exactly uniform; a remainder would not be.
    fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.0.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u32) < threshold {
                product = u64::from(self.0.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }
}
