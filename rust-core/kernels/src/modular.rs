//! Arithmetic of the ring Z_q[X]/(X^n + 1) (docs/protocol/one-server.md), modulo the two primes of q. Nothing branches on a number, or
//! divides by it: secrets pass through.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

/// The primes. Both are 1 modulo 4096, and their product is 1 modulo 65 536.
pub const PRIMES: [u32; 2] = [268_369_921, 249_561_089];
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

/// A number of less than 28 bits modulo a prime.
#[inline]
#[must_use]
pub fn residue(value: i32, prime: u32) -> u32 {
    (value as u32).wrapping_add(prime & ((value >> 31) as u32))
}

/// Coefficients to values, all below the prime (Longa, Naehrig: CANS 2016, Algorithm 1). Value i is that at ψ^(2·r + 1), r the
/// reversed bits of i. `powers` are those of ψ, a primitive 2n-th root of unity, with exponents in bit-reversed order.
#[inline(never)]
pub fn forward(values: &mut [u32], powers: &[Factor], prime: u32) {
    let (mut width, mut blocks) = (values.len(), 1);
    while width > 1 {
        width /= 2;
        for (block, pair) in values.chunks_exact_mut(2 * width).enumerate() {
            let factor = powers[blocks + block];
            let (left, right) = pair.split_at_mut(width);
            for (x, y) in left.iter_mut().zip(right) {
                let sum = less(*x, 2 * prime);
                let product = factor.times(*y, prime);
                *x = sum + product;
                *y = sum + 2 * prime - product;
            }
        }
        blocks *= 2;
    }
    for value in values {
        *value = less(less(*value, 2 * prime), prime);
    }
}

/// The inverse of [`forward`] (Algorithm 2 there), with powers of 1/ψ; `scale`: 1/n.
#[inline(never)]
pub fn backward(values: &mut [u32], powers: &[Factor], scale: Factor, prime: u32) {
    let (mut width, mut blocks) = (1, values.len() / 2);
    while blocks > 0 {
        for (block, pair) in values.chunks_exact_mut(2 * width).enumerate() {
            let factor = powers[blocks + block];
            let (left, right) = pair.split_at_mut(width);
            for (x, y) in left.iter_mut().zip(right) {
                let (a, b) = (*x, *y);
                *x = less(a + b, 2 * prime);
                *y = factor.times(a + 2 * prime - b, prime);
            }
        }
        width *= 2;
        blocks /= 2;
    }
    for value in values {
        *value = less(scale.times(*value, prime), prime);
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
