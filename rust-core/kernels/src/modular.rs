//! Arithmetic of the ring Z_q[X]/(X^n + 1) (docs/protocol/one-server.md), modulo the two primes of q. Nothing branches on a number, or
//! divides by it: secrets pass through.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

/// The primes. Both are 1 modulo 4096, and their product is 1 modulo 16.
pub const PRIMES: [u32; 2] = [8_380_417, 8_318_977];
/// q
pub const MODULUS: u64 = PRIMES[0] as u64 * PRIMES[1] as u64;

/// `base`^`exponent` modulo a prime below 2^32.
#[must_use]
pub const fn power(base: u64, exponent: u64, prime: u64) -> u64 {
    let (mut result, mut square, mut rest) = (1, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result * square % prime;
        }
        square = square * square % prime;
        rest >>= 1;
    }
    result
}

/// The inverse modulo a prime.
#[must_use]
pub const fn inverse(value: u64, prime: u64) -> u64 {
    power(value % prime, prime - 2, prime)
}

/// A constant factor modulo a prime, with ⌊factor·2^32/prime⌋ (Shoup).
#[derive(Debug, Clone, Copy, Default)]
pub struct Factor {
    value: u32,
    quotient: u32,
}

impl Factor {
    /// `value` modulo the prime.
    #[must_use]
    pub const fn new(value: u64, prime: u32) -> Self {
        let value = value % prime as u64;
        Factor { value: value as u32, quotient: ((value << 32) / prime as u64) as u32 }
    }

    /// The product with any u32: congruent, below 2·prime.
    #[inline]
    #[must_use]
    pub fn times(self, other: u32, prime: u32) -> u32 {
        let multiple = ((u64::from(other) * u64::from(self.quotient)) >> 32) as u32;
        other.wrapping_mul(self.value).wrapping_sub(multiple.wrapping_mul(prime))
    }
}

/// `value` − `bound` if that is not negative. For values below 2^31.
#[inline]
#[must_use]
pub fn less(value: u32, bound: u32) -> u32 {
    let difference = value.wrapping_sub(bound);
    difference.wrapping_add(bound & ((difference as i32 >> 31) as u32))
}

/// A u64 modulo prime number `m`.
#[inline]
#[must_use]
pub fn reduced(value: u64, m: usize) -> u32 {
    const WORD: [Factor; 2] = [Factor::new(1 << 32, PRIMES[0]), Factor::new(1 << 32, PRIMES[1])];
    const ONE: [Factor; 2] = [Factor::new(1, PRIMES[0]), Factor::new(1, PRIMES[1])];
    let prime = PRIMES[m];
    let sum = WORD[m].times((value >> 32) as u32, prime) + ONE[m].times(value as u32, prime);
    less(less(sum, 2 * prime), prime)
}

/// A number between −prime and prime, modulo it.
#[inline]
#[must_use]
pub fn residue(value: i32, prime: u32) -> u32 {
    (value as u32).wrapping_add(prime & ((value >> 31) as u32))
}

/// Coefficients to values, all below the prime (Longa, Naehrig: CANS 2016, Algorithm 1). Value i is that at ψ^(2·r + 1), r the
/// reversed bits of i. `powers` are those of ψ, a primitive 2n-th root of unity, with exponents in bit-reversed order.
#[inline(never)]
pub fn forward(values: &mut [u32], powers: &[Factor], prime: u32) {
    layers(values, powers, prime, 1, 0);
}

/// Half of [`forward`] for a polynomial whose upper n/2 coefficients are zero: the first n/2 values, or (`second`) the others. The first
/// layer would copy the lower coefficients.
#[inline(never)]
pub fn forward_half(values: &mut [u32], powers: &[Factor], prime: u32, second: bool) {
    layers(values, powers, prime, 2, usize::from(second));
}

/// Layers from the one with `blocks` blocks on: of all its blocks, or of one half of two.
#[inline]
fn layers(values: &mut [u32], powers: &[Factor], prime: u32, mut blocks: usize, half: usize) {
    let mut width = values.len();
    while width > 4 {
        width /= 2;
        let powers = &powers[blocks + half * blocks / 2..];
        for (pair, factor) in values.chunks_exact_mut(2 * width).zip(powers) {
            let (left, right) = pair.split_at_mut(width);
            for (x, y) in left.iter_mut().zip(right) {
                (*x, *y) = crossed(*x, *y, *factor, prime);
            }
        }
        blocks *= 2;
    }
    let outer = powers[blocks + half * blocks / 2..].as_chunks().0;
    let inner = powers[2 * blocks + half * blocks..].as_chunks().0;
    for ((eight, outer), inner) in values.as_chunks_mut().0.iter_mut().zip(outer).zip(inner) {
        last_layers(eight, outer, inner, prime);
    }
}

/// A butterfly of [`forward`].
#[inline]
fn crossed(x: u32, y: u32, factor: Factor, prime: u32) -> (u32, u32) {
    let sum = less(x, 2 * prime);
    let product = factor.times(y, prime);
    (sum + product, sum + 2 * prime - product)
}

/// The last two layers of [`forward`] on eight values, which compilers make scalar code of.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline]
fn last_layers(values: &mut [u32; 8], outer: &[Factor; 2], inner: &[Factor; 4], prime: u32) {
    for (four, factor) in values.as_chunks_mut::<4>().0.iter_mut().zip(outer) {
        for i in 0..2 {
            (four[i], four[i + 2]) = crossed(four[i], four[i + 2], *factor, prime);
        }
    }
    for (two, factor) in values.as_chunks_mut::<2>().0.iter_mut().zip(inner) {
        (two[0], two[1]) = crossed(two[0], two[1], *factor, prime);
    }
    *values = values.map(|value| less(less(value, 2 * prime), prime));
}

/// The inverse of [`forward`] (Algorithm 2 there), with powers of 1/ψ; `scale`: 1/n.
#[inline(never)]
pub fn backward(values: &mut [u32], powers: &[Factor], scale: Factor, prime: u32) {
    let (mut width, mut blocks) = (4, values.len() / 8);
    let inner = powers[4 * blocks..].as_chunks().0;
    let outer = powers[2 * blocks..].as_chunks().0;
    for ((eight, inner), outer) in values.as_chunks_mut().0.iter_mut().zip(inner).zip(outer) {
        first_layers(eight, inner, outer, prime);
    }
    while blocks > 0 {
        for (pair, factor) in values.chunks_exact_mut(2 * width).zip(&powers[blocks..]) {
            let (left, right) = pair.split_at_mut(width);
            for (x, y) in left.iter_mut().zip(right) {
                (*x, *y) = uncrossed(*x, *y, *factor, prime);
            }
        }
        width *= 2;
        blocks /= 2;
    }
    for value in values {
        *value = less(scale.times(*value, prime), prime);
    }
}

/// A butterfly of [`backward`].
#[inline]
fn uncrossed(x: u32, y: u32, factor: Factor, prime: u32) -> (u32, u32) {
    (less(x + y, 2 * prime), factor.times(x + 2 * prime - y, prime))
}

/// The first two layers of [`backward`] on eight values.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline]
fn first_layers(values: &mut [u32; 8], inner: &[Factor; 4], outer: &[Factor; 2], prime: u32) {
    for (two, factor) in values.as_chunks_mut::<2>().0.iter_mut().zip(inner) {
        (two[0], two[1]) = uncrossed(two[0], two[1], *factor, prime);
    }
    for (four, factor) in values.as_chunks_mut::<4>().0.iter_mut().zip(outer) {
        for i in 0..2 {
            (four[i], four[i + 2]) = uncrossed(four[i], four[i + 2], *factor, prime);
        }
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use shuffled::{first_layers, last_layers};

/// The layers whose butterflies are narrower than a vector.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod shuffled {
    use super::Factor;
    use core::arch::wasm32::*;

    /// Four factors, and their quotients.
    #[derive(Clone, Copy)]
    struct Factors {
        values: v128,
        quotients: v128,
    }

    #[inline]
    fn four(f: [&Factor; 4]) -> Factors {
        Factors {
            values: u32x4(f[0].value, f[1].value, f[2].value, f[3].value),
            quotients: u32x4(f[0].quotient, f[1].quotient, f[2].quotient, f[3].quotient),
        }
    }

    /// [`Factor::times`]. A vector that is XORed with a zero that the compiler does not know is not extended to 64 bits.
    #[inline]
    fn times(value: v128, factors: Factors, prime: v128, zero: v128) -> v128 {
        let (value, quotients) = (v128_xor(value, zero), v128_xor(factors.quotients, zero));
        let (low, high) = (u64x2_extmul_low_u32x4(value, quotients), u64x2_extmul_high_u32x4(value, quotients));
        let multiple = i32x4_shuffle::<1, 3, 5, 7>(low, high);
        i32x4_sub(i32x4_mul(value, factors.values), i32x4_mul(multiple, prime))
    }

    /// [`super::less`].
    #[inline]
    fn less(value: v128, bound: v128) -> v128 {
        u32x4_min(value, i32x4_sub(value, bound))
    }

    #[inline]
    fn load(values: &[u32; 8]) -> (v128, v128) {
        let [a, b, c, d, e, f, g, h] = *values;
        (u32x4(a, b, c, d), u32x4(e, f, g, h))
    }

    #[inline]
    fn store(values: &mut [u32; 8], low: v128, high: v128) {
        *values = [
            u32x4_extract_lane::<0>(low),
            u32x4_extract_lane::<1>(low),
            u32x4_extract_lane::<2>(low),
            u32x4_extract_lane::<3>(low),
            u32x4_extract_lane::<0>(high),
            u32x4_extract_lane::<1>(high),
            u32x4_extract_lane::<2>(high),
            u32x4_extract_lane::<3>(high),
        ];
    }

    #[inline]
    pub(super) fn last_layers(values: &mut [u32; 8], outer: &[Factor; 2], inner: &[Factor; 4], prime: u32) {
        let zero = u32x4_splat(core::hint::black_box(0));
        let (once, twice) = (u32x4_splat(prime), u32x4_splat(2 * prime));
        let crossed = |x: v128, y: v128, factors: Factors| {
            let (sum, product) = (less(x, twice), times(y, factors, once, zero));
            (i32x4_add(sum, product), i32x4_sub(i32x4_add(sum, twice), product))
        };
        let (low, high) = load(values);
        let (x, y) = (i32x4_shuffle::<0, 1, 4, 5>(low, high), i32x4_shuffle::<2, 3, 6, 7>(low, high));
        let (x, y) = crossed(x, y, four([&outer[0], &outer[0], &outer[1], &outer[1]]));
        let (x, y) = (i32x4_shuffle::<0, 4, 2, 6>(x, y), i32x4_shuffle::<1, 5, 3, 7>(x, y));
        let (x, y) = crossed(x, y, four(inner.each_ref()));
        let (x, y) = (less(less(x, twice), once), less(less(y, twice), once));
        store(values, i32x4_shuffle::<0, 4, 1, 5>(x, y), i32x4_shuffle::<2, 6, 3, 7>(x, y));
    }

    #[inline]
    pub(super) fn first_layers(values: &mut [u32; 8], inner: &[Factor; 4], outer: &[Factor; 2], prime: u32) {
        let zero = u32x4_splat(core::hint::black_box(0));
        let (once, twice) = (u32x4_splat(prime), u32x4_splat(2 * prime));
        let uncrossed = |x: v128, y: v128, factors: Factors| {
            (less(i32x4_add(x, y), twice), times(i32x4_sub(i32x4_add(x, twice), y), factors, once, zero))
        };
        let (low, high) = load(values);
        let (x, y) = (i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high));
        let (x, y) = uncrossed(x, y, four(inner.each_ref()));
        // 0 2 4 6 and 1 3 5 7 to 0 1 4 5 and 2 3 6 7
        let (x, y) = (i32x4_shuffle::<0, 4, 2, 6>(x, y), i32x4_shuffle::<1, 5, 3, 7>(x, y));
        let (x, y) = uncrossed(x, y, four([&outer[0], &outer[0], &outer[1], &outer[1]]));
        store(values, i32x4_shuffle::<0, 1, 4, 5>(x, y), i32x4_shuffle::<2, 3, 6, 7>(x, y));
    }
}

/// out = a·b/2^32 modulo prime number `m`, slot by slot (Montgomery).
#[inline(never)]
pub fn multiply(out: &mut [u32], a: &[u32], b: &[u32], m: usize) {
    const NEGATIVE: [u32; 2] = [negative_inverse(PRIMES[0]), negative_inverse(PRIMES[1])];
    let (prime, negative) = (PRIMES[m], NEGATIVE[m]);
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        let product = u64::from(*a) * u64::from(*b);
        let multiple = (product as u32).wrapping_mul(negative);
        *out = less(((product + u64::from(multiple) * u64::from(prime)) >> 32) as u32, prime);
    }
}

/// −1/prime modulo 2^32. Each round of Newton's iteration doubles the right bits.
const fn negative_inverse(prime: u32) -> u32 {
    let (mut inverse, mut bits) = (1u32, 1);
    while bits < u32::BITS {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(prime.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse.wrapping_neg()
}

/// The values times a public number, modulo prime number `m`.
#[inline(never)]
pub fn scale(out: &mut [u32], values: &[u32], factor: u64, m: usize) {
    let prime = PRIMES[m];
    let factor = Factor::new(factor, prime);
    for (out, value) in out.iter_mut().zip(values) {
        *out = less(factor.times(*value, prime), prime);
    }
}

/// Numbers modulo prime number `m`.
#[inline(never)]
pub fn reduce(out: &mut [u32], numbers: &[u64], m: usize) {
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = reduced(*number, m);
    }
}

/// 1/(first prime) modulo the second.
const JOIN: Factor = Factor::new(inverse(PRIMES[0] as u64, PRIMES[1] as u64), PRIMES[1]);

/// The number below q with these residues.
#[inline]
#[must_use]
pub fn joined(first: u32, second: u32) -> u64 {
    let [p, r] = PRIMES;
    let multiple = less(JOIN.times(second + 2 * r - first, r), r);
    u64::from(first) + u64::from(p) * u64::from(multiple)
}

/// [`joined`] of many.
#[inline(never)]
pub fn join(out: &mut [u64], first: &[u32], second: &[u32]) {
    for ((out, first), second) in out.iter_mut().zip(first).zip(second) {
        *out = joined(*first, *second);
    }
}
