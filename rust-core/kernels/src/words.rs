//! Four u32 side by side, and ChaCha's rounds on them. Where a compiler does not find the vector instructions by itself, this
//! takes five times as long. So they are named for WebAssembly, where clients run. (On other targets, naming them would take
//! unsafe code.)

use core::array;

pub use lanes::Words;

/// Lanes of a vector register of 128 bits.
pub const LANES: usize = 4;

#[inline]
fn quarter_round(state: &mut [Words; 16], a: usize, b: usize, c: usize, d: usize) {
    state[a] = state[a].add(state[b]);
    state[d] = state[d].xor(state[a]).rotate(16);
    state[c] = state[c].add(state[d]);
    state[b] = state[b].xor(state[c]).rotate(12);
    state[a] = state[a].add(state[b]);
    state[d] = state[d].xor(state[a]).rotate(8);
    state[c] = state[c].add(state[d]);
    state[b] = state[b].xor(state[c]).rotate(7);
}

/// Computes four blocks of ChaCha (RFC 8439, section 2.3). Each entry has one word of the state of all four.
#[inline]
pub fn chacha<const ROUNDS: usize>(before: &[Words; 16]) -> [Words; 16] {
    let mut state = *before;
    for _ in 0..ROUNDS / 2 {
        quarter_round(&mut state, 0, 4, 8, 12);
        quarter_round(&mut state, 1, 5, 9, 13);
        quarter_round(&mut state, 2, 6, 10, 14);
        quarter_round(&mut state, 3, 7, 11, 15);
        quarter_round(&mut state, 0, 5, 10, 15);
        quarter_round(&mut state, 1, 6, 11, 12);
        quarter_round(&mut state, 2, 7, 8, 13);
        quarter_round(&mut state, 3, 4, 9, 14);
    }
    array::from_fn(|word| state[word].add(before[word]))
}

impl Words {
    /// The same u32 in all lanes.
    #[inline]
    pub fn splat(word: u32) -> Self {
        Words::new([word; LANES])
    }

    #[inline]
    pub fn and(self, other: Self) -> Self {
        let (own, other) = (self.lanes(), other.lanes());
        Words::new(array::from_fn(|lane| own[lane] & other[lane]))
    }

    /// Reads four u32, low bytes first.
    #[inline]
    pub fn from_bytes(bytes: &[u8; 4 * LANES]) -> Self {
        Words::new(array::from_fn(|lane| u32::from_le_bytes(array::from_fn(|at| bytes[4 * lane + at]))))
    }

    /// The bytes of four u32, low bytes first.
    #[inline]
    pub fn to_bytes(self) -> [u8; 4 * LANES] {
        let lanes = self.lanes();
        array::from_fn(|at| lanes[at / 4].to_le_bytes()[at % 4])
    }

    /// All bits of a lane become its bit number `bit`.
    #[inline]
    pub fn spread(self, bit: u32) -> Self {
        Words::new(self.lanes().map(|word| (word >> bit & 1).wrapping_neg()))
    }

    /// Both vectors' lanes in turn.
    #[inline]
    pub fn interleave(self, other: Self) -> [Self; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.lanes(), other.lanes());
        [Words::new([a, e, b, f]), Words::new([c, g, d, h])]
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use core::arch::wasm32::{u32x4, u32x4_add, u32x4_extract_lane, u32x4_shl, u32x4_shr, v128, v128_or, v128_xor};

    /// Four u32.
    #[derive(Debug, Clone, Copy)]
    pub struct Words(v128);

    impl Words {
        #[inline]
        pub fn new([a, b, c, d]: [u32; 4]) -> Self {
            Words(u32x4(a, b, c, d))
        }

        #[inline]
        pub fn lanes(self) -> [u32; 4] {
            [
                u32x4_extract_lane::<0>(self.0),
                u32x4_extract_lane::<1>(self.0),
                u32x4_extract_lane::<2>(self.0),
                u32x4_extract_lane::<3>(self.0),
            ]
        }

        #[inline]
        pub fn add(self, other: Self) -> Self {
            Words(u32x4_add(self.0, other.0))
        }

        #[inline]
        pub fn xor(self, other: Self) -> Self {
            Words(v128_xor(self.0, other.0))
        }

        /// Rotates to the left.
        #[inline]
        pub fn rotate(self, by: u32) -> Self {
            Words(v128_or(u32x4_shl(self.0, by), u32x4_shr(self.0, 32 - by)))
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod lanes {
    use core::array::from_fn;

    /// Four u32.
    #[derive(Debug, Clone, Copy)]
    pub struct Words([u32; 4]);

    impl Words {
        #[inline]
        pub fn new(lanes: [u32; 4]) -> Self {
            Words(lanes)
        }

        #[inline]
        pub fn lanes(self) -> [u32; 4] {
            self.0
        }

        #[inline]
        pub fn add(self, other: Self) -> Self {
            Words(from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
        }

        #[inline]
        pub fn xor(self, other: Self) -> Self {
            Words(from_fn(|lane| self.0[lane] ^ other.0[lane]))
        }

        /// Rotates to the left.
        #[inline]
        pub fn rotate(self, by: u32) -> Self {
            Words(self.0.map(|word| word.rotate_left(by)))
        }
    }
}
