//! Four words side by side, in one vector register. In WebAssembly by its own instructions: it has none that rotates, so
//! that the compiler takes loops over lanes with a rotation apart into single words, which takes twice as long.

/// Words side by side.
pub const LANES: usize = 4;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vector {
    use core::arch::wasm32::{
        i8x16_shuffle, u32x4, u32x4_add, u32x4_extract_lane, u32x4_shl, u32x4_shr, u32x4_splat, v128, v128_or, v128_xor,
    };

    /// A word in each lane.
    #[derive(Clone, Copy)]
    pub struct Words(v128);

    impl Words {
        /// These words, the first in lane 0.
        #[inline]
        #[must_use]
        pub fn new([a, b, c, d]: [u32; 4]) -> Self {
            Words(u32x4(a, b, c, d))
        }

        /// The same word in every lane.
        #[inline]
        #[must_use]
        pub fn splat(word: u32) -> Self {
            Words(u32x4_splat(word))
        }

        /// The words, that of lane 0 first.
        #[inline]
        #[must_use]
        pub fn to_array(self) -> [u32; 4] {
            let Words(w) = self;
            [
                u32x4_extract_lane::<0>(w),
                u32x4_extract_lane::<1>(w),
                u32x4_extract_lane::<2>(w),
                u32x4_extract_lane::<3>(w),
            ]
        }

        /// Sums modulo 2^32.
        #[inline]
        #[must_use]
        pub fn wrapping_add(self, other: Self) -> Self {
            Words(u32x4_add(self.0, other.0))
        }

        /// (self ⊕ other) ⋘ BY
        #[inline]
        #[must_use]
        pub fn xor_rotate<const BY: u32>(self, other: Self) -> Self {
            let w = v128_xor(self.0, other.0);
            Words(match BY {
                16 => i8x16_shuffle::<2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13>(w, w),
                8 => i8x16_shuffle::<3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14>(w, w),
                _ => v128_or(u32x4_shl(w, BY), u32x4_shr(w, 32 - BY)),
            })
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod vector {
    use super::LANES;
    use core::array;

    /// A word in each lane.
    #[derive(Clone, Copy)]
    pub struct Words([u32; LANES]);

    impl Words {
        /// These words, the first in lane 0.
        #[inline]
        #[must_use]
        pub fn new(words: [u32; LANES]) -> Self {
            Words(words)
        }

        /// The same word in every lane.
        #[inline]
        #[must_use]
        pub fn splat(word: u32) -> Self {
            Words([word; LANES])
        }

        /// The words, that of lane 0 first.
        #[inline]
        #[must_use]
        pub fn to_array(self) -> [u32; LANES] {
            self.0
        }

        /// Sums modulo 2^32.
        #[inline]
        #[must_use]
        pub fn wrapping_add(self, other: Self) -> Self {
            Words(array::from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
        }

        /// (self ⊕ other) ⋘ BY
        #[inline]
        #[must_use]
        pub fn xor_rotate<const BY: u32>(self, other: Self) -> Self {
            Words(array::from_fn(|lane| (self.0[lane] ^ other.0[lane]).rotate_left(BY)))
        }
    }
}

pub use vector::Words;
