//! Uniform random numbers. The caller passes 32 fresh bytes of the operating system's entropy for every hint and every query.
//! ChaCha20 stretches them, four blocks side by side. Test vectors fix the exact numbers (docs/protocol.md, Uniform numbers).

use core::array;

use crate::streams::{BLOCKS, KEY_WORDS, blocks};

/// Bytes of entropy that seed one stream.
pub const ENTROPY_BYTES: usize = 32;

/// A source of uniform numbers. [`ChaCha`] is the real one; tests use sources that enumerate all outcomes.
pub trait Uniform {
    /// A number uniform over 0 … `bound` − 1. `bound` is 1 to 65 536.
    fn below(&mut self, bound: u32) -> u32;
}

/// Words of a block, and bytes of the blocks that are computed at once.
const BLOCK_WORDS: usize = 16;
const GROUP_BYTES: usize = 4 * BLOCK_WORDS * BLOCKS;

/// ChaCha20, with an independent stream for each purpose. Bytes are those of the stream's u32s, little-endian; the rest of a u32
/// that was taken in part is left out.
pub struct ChaCha {
    key: [u32; KEY_WORDS],
    stream: u64,
    /// the next blocks, by four
    group: u64,
    bytes: [u8; GROUP_BYTES],
    /// how many of `bytes` were taken
    taken: usize,
}

impl ChaCha {
    /// The stream of this number, seeded with `entropy`.
    #[must_use]
    pub fn new(entropy: &[u8; ENTROPY_BYTES], stream: u64) -> Self {
        let key = array::from_fn(|word| u32::from_le_bytes(array::from_fn(|at| entropy[4 * word + at])));
        ChaCha { key, stream, group: 0, bytes: [0; GROUP_BYTES], taken: GROUP_BYTES }
    }

    /// Moves to the u32 of this number in the stream, which is below 2^62.
    pub fn seek(&mut self, word: u64) {
        self.group = word * 4 / GROUP_BYTES as u64;
        self.compute();
        self.taken = (word * 4 % GROUP_BYTES as u64) as usize;
    }

    /// Fills `bytes` from the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let left = self.left();
            let (now, later) = rest.split_at_mut(rest.len().min(left.len()));
            now.copy_from_slice(&left[..now.len()]);
            self.taken += now.len().next_multiple_of(4);
            rest = later;
        }
    }

    fn next(&mut self) -> u32 {
        let left = self.left();
        let word = u32::from_le_bytes(array::from_fn(|at| left[at]));
        self.taken += 4;
        word
    }

    /// The bytes that are computed and not taken, four at least.
    fn left(&mut self) -> &[u8] {
        if self.taken == GROUP_BYTES {
            self.compute();
        }
        &self.bytes[self.taken..]
    }

    #[inline(never)]
    fn compute(&mut self) {
        let first = self.group * BLOCKS as u64;
        let found = blocks(&self.key, array::from_fn(|lane| first + lane as u64), [self.stream; BLOCKS]);
        for (lane, block) in self.bytes.chunks_exact_mut(4 * BLOCK_WORDS).enumerate() {
            block.as_chunks_mut().0.iter_mut().zip(&found).for_each(|(word, lanes)| *word = lanes[lane].to_le_bytes());
        }
        self.group += 1;
        self.taken = 0;
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
        let mut product = u64::from(self.next()) * u64::from(bound);
        if (product as u32) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u32) < threshold {
                product = u64::from(self.next()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }
}
