//! A client's randomness: 16 bytes of the operating system's entropy, stretched by a generator. Each client has its own. No
//! seed is a literal in the code, and no draw is biased.

use crate::error::Error;
use crate::prg::{Aes, Block, Prg};

/// A source of uniform numbers. Tests use sources that enumerate all outcomes.
pub trait Uniform {
    /// A uniform number in [0, `bound`). `bound` ≥ 1.
    fn below(&mut self, bound: u32) -> u32;

    /// A uniform bit.
    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }
}

/// Uniform numbers from a key.
pub struct Random<P: Prg = Aes> {
    prg: P,
    stream: u64,
    next_block: u64,
    blocks: [Block; 64],
    used_bytes: usize,
}

impl Random {
    /// Uniform numbers with a key from the operating system.
    pub fn from_system() -> Result<Self, Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| Error::Entropy)?;
        Ok(Random::new(&key, 0))
    }

    /// The same numbers each time, for tests and tables.
    pub fn from_seed(seed: u64) -> Self {
        Random::new(&u128::from(seed).to_le_bytes(), 0)
    }
}

impl<P: Prg> Random<P> {
    /// Uniform numbers from a stream of the generator with this key.
    pub fn new(key: &Block, stream: u64) -> Self {
        let blocks = [[0; 16]; 64];
        Random { prg: P::new(key), stream, next_block: 0, used_bytes: size_of_val(&blocks), blocks }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            [*byte] = self.take();
        }
    }

    /// A fresh key or seed.
    pub fn block(&mut self) -> Block {
        self.take()
    }

    /// The next B bytes; B divides 16.
    #[inline]
    fn take<const B: usize>(&mut self) -> [u8; B] {
        // Aligned, so that no draw goes beyond the end of the blocks.
        let mut at = self.used_bytes.next_multiple_of(B);
        if at + B > size_of_val(&self.blocks) {
            self.prg.fill(self.stream, self.next_block, &mut self.blocks);
            self.next_block += self.blocks.len() as u64;
            at = 0;
        }
        self.used_bytes = at + B;
        self.blocks.as_flattened()[at..at + B].try_into().expect("B bytes")
    }
}

impl<P: Prg> Uniform for Random<P> {
    /// Lemire's multiplication. A draw that would bias the result is repeated.
    #[inline]
    fn below(&mut self, bound: u32) -> u32 {
        loop {
            let product = u64::from(u32::from_le_bytes(self.take())) * u64::from(bound);
            let low = product as u32;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 32) as u32;
            }
        }
    }
}

/// Shuffles into a uniform order (Fisher–Yates; SinglePass, Lemma 2.1).
pub fn shuffle<T>(items: &mut [T], source: &mut impl Uniform) {
    for n in (1..items.len()).rev() {
        items.swap(n, source.below(n as u32 + 1) as usize);
    }
}
