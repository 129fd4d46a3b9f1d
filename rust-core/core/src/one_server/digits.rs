//! The digits that packing needs, in evaluation form, and their sum with a packing key.
//!
//! A number has 23 bits and takes three bytes: memory is what packing waits for. Of 16 slots, a step has the low 16 bits of all, and their
//! high 8 bits.

use keyhush_kernels::modular::{PRIMES, reduced};

use super::ring::Element;
use super::{DIGIT_BYTES, Shape};
use crate::error::Error;

/// Slots that are summed side by side.
pub(super) const LANES: usize = 16;

type Low = [u16; LANES];
type High = [u8; LANES];

/// A packing key: modulo each prime its slots, each sign twice, so that a rotation is a slice.
pub(super) type Doubled = [Vec<u32>; 2];

pub(super) fn doubled(key: &Element) -> Doubled {
    [0, 1].map(|m| {
        let slots = key.modulo(m);
        slots.chunks_exact(slots.len() / 2).flat_map(|sign| [sign, sign].concat()).collect()
    })
}

/// Digits of n/2 − 1 steps for each output, modulo both primes.
pub(super) struct Digits {
    degree: usize,
    low: Vec<Low>,
    high: Vec<High>,
}

impl Digits {
    pub(super) fn new(shape: &Shape) -> Result<Self, Error> {
        let count = shape.digit_bytes() / (LANES * DIGIT_BYTES);
        Ok(Digits { degree: shape.degree, low: super::zeroed(count)?, high: super::zeroed(count)? })
    }

    /// Where the steps of an output modulo prime number `m` lie, for a block of slots.
    fn place(&self, output: usize, m: usize, block: usize) -> usize {
        ((output * 2 + m) * (self.degree / LANES) + block) * (self.degree / 2 - 1)
    }

    /// Takes the slots of a step, 1 to n/2 − 1.
    pub(super) fn put(&mut self, output: usize, m: usize, step: usize, slots: &[u32]) {
        for (block, slots) in slots.as_chunks::<LANES>().0.iter().enumerate() {
            let at = self.place(output, m, block) + step - 1;
            self.low[at] = slots.map(|slot| slot as u16);
            self.high[at] = slots.map(|slot| (slot >> 16) as u8);
        }
    }

    /// The digits of a block of slots, step after step.
    pub(super) fn steps(&self, output: usize, m: usize, block: usize) -> impl Iterator<Item = [u32; LANES]> {
        let (low, high) = self.of(output, m, block);
        low.iter().zip(high).map(|(low, high)| std::array::from_fn(|i| joined(low[i], high[i])))
    }

    fn of(&self, output: usize, m: usize, block: usize) -> (&[Low], &[High]) {
        let (at, steps) = (self.place(output, m, block), self.degree / 2 - 1);
        (&self.low[at..][..steps], &self.high[at..][..steps])
    }

    /// Σ over steps of an output's digit times the rotated key.
    #[allow(clippy::needless_range_loop)] // m numbers the prime
    pub(super) fn switched(&self, output: usize, key: &Doubled) -> Element {
        let half = self.degree / 2;
        let mut out = Element::zero(self.degree);
        for m in 0..2 {
            for (block, slots) in out.modulo_mut(m).chunks_exact_mut(LANES).enumerate() {
                let start = block * LANES;
                let at = start + start / half * half; // each sign is there twice
                let (low, high) = self.of(output, m, block);
                // At most 2^10 products below 2^46: no sum is reduced before the end.
                let sums = convolved(low, high, &key[m][at..]);
                slots.iter_mut().zip(sums).for_each(|(slot, sum)| *slot = reduced(sum, m));
            }
        }
        out
    }
}

const _: () = assert!(PRIMES[0] < 1 << 23 && PRIMES[1] < 1 << 23);

fn joined(low: u16, high: u8) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Over all steps, the digits times the key, which moves on by one slot a step.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn convolved(low: &[Low], high: &[High], key: &[u32]) -> [u64; LANES] {
    use core::arch::wasm32::*;
    let words = |from: &[u32; 4]| u32x4(from[0], from[1], from[2], from[3]);
    let (high, key) = (&high[..low.len()], &key[..low.len() + LANES]);
    // Vectors that are XORed with a zero that the compiler does not know stay whole: otherwise, it extends them to 64 bits as it loads them,
    // and then multiplies 64 bits, which takes three times as long.
    let zero = u32x4_splat(core::hint::black_box(0));
    let mut totals = [u64x2_splat(0); LANES / 2];
    for step in 0..low.len() {
        let key = key[step..][..LANES].as_chunks::<4>().0;
        let (low, h) = (low[step].as_chunks::<8>().0, &high[step]);
        let high =
            u8x16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h[14], h[15]);
        let high = [u16x8_extend_low_u8x16(high), u16x8_extend_high_u8x16(high)];
        for half in 0..2 {
            let l = &low[half];
            let low = u16x8(l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]);
            let digits = [
                i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(low, high[half]),
                i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(low, high[half]),
            ];
            for (quarter, digits) in digits.into_iter().enumerate() {
                let k = 2 * half + quarter;
                let (a, b) = (v128_xor(digits, zero), v128_xor(words(&key[k]), zero));
                totals[2 * k] = i64x2_add(totals[2 * k], u64x2_extmul_low_u32x4(a, b));
                totals[2 * k + 1] = i64x2_add(totals[2 * k + 1], u64x2_extmul_high_u32x4(a, b));
            }
        }
    }
    let mut sums = [0; LANES];
    for (sums, total) in sums.as_chunks_mut().0.iter_mut().zip(totals) {
        *sums = [u64x2_extract_lane::<0>(total), u64x2_extract_lane::<1>(total)];
    }
    sums
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn convolved(low: &[Low], high: &[High], key: &[u32]) -> [u64; LANES] {
    let mut sums = [0; LANES];
    for (step, (low, high)) in low.iter().zip(high).enumerate() {
        let key = &key[step..][..LANES];
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += u64::from(joined(low[lane], high[lane])) * u64::from(key[lane]);
        }
    }
    sums
}
