//! The ring Z_q[X]/(X^n + 1), q the product of two primes, in evaluation form. Nothing here branches on coefficients or divides by
//! them: secrets pass through.
//!
//! *Slots* stand in the order of powers of 5: slot (sign, k) has the value at ψ^(±5^k), ψ a primitive 2n-th root of unity. So the
//! automorphism X → X^(5^j) rotates both halves by j.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use std::sync::{Arc, OnceLock};

use keyhush_kernels::modular::{
    Factor, MODULUS, PRIMES, backward, forward, forward_half, inverse, join, less, multiply, power, reduce, residue,
    scale,
};

use super::Wiped;
use crate::random::{ChaCha, ENTROPY_BYTES};

/// Δ: q = 16·Δ + 1.
pub(super) const DELTA: u64 = MODULUS >> super::ENTRY_BITS;

/// `a` + `b` modulo q, for numbers below q.
#[inline]
pub(super) fn add_modulo(a: u64, b: u64) -> u64 {
    let difference = (a + b).wrapping_sub(MODULUS);
    difference.wrapping_add(MODULUS & ((difference as i64 >> 63) as u64))
}

/// `value` modulo q, for |value| < q.
#[inline]
pub(super) fn modulo(value: i64) -> u64 {
    value.wrapping_add(MODULUS as i64 & (value >> 63)) as u64
}

/// The transform modulo one prime.
struct Transform {
    prime: u32,
    /// powers of ψ and of 1/ψ, in bit-reversed order
    forward: Vec<Factor>,
    backward: Vec<Factor>,
    /// 1/n
    scale: Factor,
}

impl Transform {
    fn new(degree: usize, prime: u32) -> Self {
        let wide = u64::from(prime);
        let order = 2 * degree as u64;
        let is_root = |root: &u64| power(*root, degree as u64, wide) == wide - 1;
        let root = (2..wide).map(|base| power(base, (wide - 1) / order, wide)).find(is_root).unwrap_or_default();
        let table = |root: u64| {
            let mut table = vec![Factor::default(); degree];
            let powers = std::iter::successors(Some(1), |last| Some(last * root % wide));
            for (exponent, power) in powers.take(degree).enumerate() {
                table[reversed(exponent, degree)] = Factor::new(power, prime);
            }
            table
        };
        let scale = Factor::new(inverse(degree as u64, wide), prime);
        Transform { prime, forward: table(root), backward: table(inverse(root, wide)), scale }
    }

    fn forward(&self, values: &mut [u32]) {
        forward(values, &self.forward, self.prime);
    }

    fn backward(&self, values: &mut [u32]) {
        backward(values, &self.backward, self.scale, self.prime);
    }
}

fn reversed(value: usize, degree: usize) -> usize {
    value.reverse_bits() >> (usize::BITS - degree.trailing_zeros())
}

/// An element in evaluation form: n slots modulo the first prime, then n modulo the second. Wiped when dropped.
pub(super) struct Element(pub(super) Wiped<u32>);

impl Element {
    pub(super) fn zero(degree: usize) -> Self {
        Element(Wiped::new(2 * degree))
    }

    /// The slots modulo prime number `m`.
    pub(super) fn modulo(&self, m: usize) -> &[u32] {
        let half = self.0.len() / 2;
        &self.0[m * half..][..half]
    }

    pub(super) fn modulo_mut(&mut self, m: usize) -> &mut [u32] {
        let half = self.0.len() / 2;
        &mut self.0[m * half..][..half]
    }

    /// X → X^(5^j).
    pub(super) fn rotated(&self, j: usize) -> Self {
        let half = self.0.len() / 4;
        let mut out = Element(Wiped::new(self.0.len()));
        for (from, to) in self.0.chunks_exact(half).zip(out.0.chunks_exact_mut(half)) {
            to.copy_from_slice(from);
            to.rotate_left(j % half);
        }
        out
    }

    /// X → 1/X: the transpose of multiplying by the element is multiplying by this one.
    pub(super) fn conjugate(&self) -> Self {
        let half = self.0.len() / 4;
        let mut out = Element(Wiped::new(self.0.len()));
        for m in 0..2 {
            for sign in 0..2 {
                let from = &self.0[(2 * m + 1 - sign) * half..][..half];
                out.0[(2 * m + sign) * half..][..half].copy_from_slice(from);
            }
        }
        out
    }

    /// This element as a [`Multiplier`].
    pub(super) fn multiplier(&self) -> Multiplier {
        Multiplier(self.times(1 << 32))
    }

    /// `self` += `other`.
    pub(super) fn add(&mut self, other: &Element) {
        for (m, prime) in PRIMES.into_iter().enumerate() {
            for (to, from) in self.modulo_mut(m).iter_mut().zip(other.modulo(m)) {
                *to = less(*to + from, prime);
            }
        }
    }

    /// `self` −= `other`.
    pub(super) fn subtract(&mut self, other: &Element) {
        for (m, prime) in PRIMES.into_iter().enumerate() {
            for (to, from) in self.modulo_mut(m).iter_mut().zip(other.modulo(m)) {
                *to = less(*to + prime - from, prime);
            }
        }
    }

    /// The product with a public number.
    pub(super) fn times(&self, factor: u64) -> Self {
        let mut out = Element(Wiped::new(self.0.len()));
        for m in 0..2 {
            scale(out.modulo_mut(m), self.modulo(m), factor, m);
        }
        out
    }
}

/// An element that others are multiplied by: its slots times 2^32.
pub(super) struct Multiplier(Element);

impl Multiplier {
    pub(super) fn times(&self, other: &Element) -> Element {
        let mut out = Element(Wiped::new(other.0.len()));
        for m in 0..2 {
            multiply(out.modulo_mut(m), other.modulo(m), self.0.modulo(m), m);
        }
        out
    }
}

/// The transforms of a degree, and the order of slots.
pub(super) struct Ring {
    transforms: [Transform; 2],
    /// by slot: the transform's place of its value
    places: Vec<u32>,
}

impl Ring {
    /// The ring of a degree. The real one is made once.
    pub(super) fn of(degree: usize) -> Arc<Self> {
        static REAL: OnceLock<Arc<Ring>> = OnceLock::new();
        if degree == super::DEGREE {
            return REAL.get_or_init(|| Arc::new(Ring::new(degree))).clone();
        }
        Arc::new(Ring::new(degree))
    }

    fn new(degree: usize) -> Self {
        let mut places = vec![0; degree];
        let half = degree / 2;
        let mut exponent = 1;
        for k in 0..half {
            places[k] = reversed((exponent - 1) / 2, degree) as u32;
            places[half + k] = reversed((2 * degree - exponent - 1) / 2, degree) as u32;
            exponent = exponent * 5 % (2 * degree);
        }
        Ring { transforms: PRIMES.map(|prime| Transform::new(degree, prime)), places }
    }

    pub(super) fn degree(&self) -> usize {
        self.places.len()
    }

    /// By slot: the transform's place of its value.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    /// Slots in the transform's order.
    pub(super) fn in_order(&self, slots: &[u32]) -> Vec<u32> {
        let mut values = vec![0; slots.len()];
        for (slot, &place) in slots.iter().zip(&self.places) {
            values[place as usize] = *slot;
        }
        values
    }

    /// D(1/X) for the centred entries D of a row, in the transform's order.
    pub(super) fn reversed_row(&self, m: usize, entries: &[u8], values: &mut [u32]) {
        const MIDDLE: i32 = super::entries::MIDDLE as i32;
        values.fill(0);
        if let Some((first, rest)) = entries.split_first() {
            values[0] = residue(i32::from(*first) - MIDDLE, PRIMES[m]);
            for (value, &entry) in values.iter_mut().rev().zip(rest) {
                *value = residue(MIDDLE - i32::from(entry), PRIMES[m]); // X^-c = -X^(n-c)
            }
        }
        self.transforms[m].forward(values);
    }

    /// The values, times 2/n, at the slots of one sign, of a polynomial of n/2 coefficients. Uses up the coefficients.
    pub(super) fn across(&self, m: usize, sign: usize, coefficients: &mut [u32], out: &mut [u32]) {
        let scale = Factor::new(inverse(out.len() as u64, u64::from(PRIMES[m])), PRIMES[m]);
        let half = out.len();
        forward_half(coefficients, &self.transforms[m].forward, PRIMES[m], sign == 1);
        for (out, &place) in out.iter_mut().zip(&self.places[sign * half..]) {
            *out = less(scale.times(coefficients[place as usize - sign * half], PRIMES[m]), PRIMES[m]);
        }
    }

    /// Slots modulo prime number `m` from coefficients below it. Uses up the coefficients.
    #[inline(never)]
    pub(super) fn slots(&self, m: usize, coefficients: &mut [u32], slots: &mut [u32]) {
        self.transforms[m].forward(coefficients);
        for (slot, &place) in slots.iter_mut().zip(&self.places) {
            *slot = coefficients[place as usize];
        }
    }

    /// The element whose coefficients modulo prime number m `fill` writes.
    fn element(&self, fill: impl Fn(&mut [u32], usize)) -> Element {
        let mut element = Element::zero(self.degree());
        let mut buffer = Wiped::new(self.degree());
        for m in 0..2 {
            fill(&mut buffer, m);
            self.slots(m, &mut buffer, element.modulo_mut(m));
        }
        element
    }

    /// The element of n coefficients below 2^64.
    pub(super) fn of_unsigned(&self, coefficients: &[u64]) -> Element {
        self.element(|out, m| reduce(out, coefficients, m))
    }

    /// The element of n coefficients between −2^22 and 2^22.
    pub(super) fn of_small(&self, coefficients: &[i32]) -> Element {
        self.element(|out, m| {
            for (out, value) in out.iter_mut().zip(coefficients) {
                *out = residue(*value, PRIMES[m]);
            }
        })
    }

    /// The n coefficients of an element, from 0 to q − 1.
    pub(super) fn coefficients(&self, element: &Element) -> Wiped<u64> {
        let mut parts: [Wiped<u32>; 2] = [Wiped::new(self.degree()), Wiped::new(self.degree())];
        for (m, part) in parts.iter_mut().enumerate() {
            for (slot, &place) in element.modulo(m).iter().zip(&self.places) {
                part[place as usize] = *slot;
            }
            self.transforms[m].backward(part);
        }
        let mut out = Wiped::new(self.degree());
        join(&mut out, &parts[0], &parts[1]);
        out
    }

    /// A public element: its coefficients are uniform. They are the u64s of a stream, little-endian, modulo 2^46; those not below q
    /// are left out.
    pub(super) fn public(&self, seed: &[u8; ENTROPY_BYTES], stream: u64) -> Element {
        let mut source = ChaCha::new(seed, stream);
        let mut coefficients = Vec::with_capacity(self.degree());
        let mut block = [0; 1024];
        while coefficients.len() < self.degree() {
            source.fill(&mut block);
            let drawn =
                block.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) & ((1 << super::MODULUS_BITS) - 1));
            coefficients.extend(drawn.filter(|&value| value < MODULUS));
        }
        self.of_unsigned(&coefficients[..self.degree()])
    }
}

/// The public elements of a database: a_k by chunk of columns, and that of the packing key.
pub(super) struct Matrices {
    pub(super) selectors: Vec<Element>,
    pub(super) key: Element,
}

impl Matrices {
    pub(super) fn new(ring: &Ring, seed: &[u8; ENTROPY_BYTES], chunks: usize) -> Self {
        const KEY_STREAM: u64 = 1 << 32;
        Matrices {
            selectors: (0..chunks as u64).map(|k| ring.public(seed, k)).collect(),
            key: ring.public(seed, KEY_STREAM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(ring: &Ring, stream: u64) -> Vec<u64> {
        ring.coefficients(&ring.public(&[3; 32], stream)).to_vec()
    }

    /// By the definition.
    fn product(a: &[u64], b: &[u64]) -> Vec<u64> {
        let (n, q) = (a.len(), u128::from(MODULUS));
        let mut out = vec![0u128; n];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let term = u128::from(x) * u128::from(y) % q;
                let term = if i + j < n { term } else { q - term };
                out[(i + j) % n] = (out[(i + j) % n] + term) % q;
            }
        }
        out.into_iter().map(|value| value as u64).collect()
    }

    #[test]
    fn multiplication_is_that_of_the_ring_and_coefficients_come_back() {
        for degree in [32, 64, 256] {
            let ring = Ring::of(degree);
            let (a, b) = (some(&ring, 1), some(&ring, 2));
            assert_eq!(*ring.coefficients(&ring.of_unsigned(&a)), *a);
            let fast = ring.of_unsigned(&a).multiplier().times(&ring.of_unsigned(&b));
            assert_eq!(*ring.coefficients(&fast), *product(&a, &b), "degree {degree}");
        }
    }

    #[test]
    fn rotations_are_automorphisms_and_conjugates_are_transposes() {
        let degree = 64;
        let ring = Ring::of(degree);
        let a = some(&ring, 1);
        let image = |exponent: usize| {
            let mut out = vec![0; degree];
            for (i, &x) in a.iter().enumerate() {
                let at = i * exponent % (2 * degree);
                out[at % degree] = if at < degree { x } else { (MODULUS - x) % MODULUS };
            }
            out
        };
        let element = ring.of_unsigned(&a);
        for (j, exponent) in [(0, 1), (1, 5), (2, 25), (7, 5usize.pow(7) % 128)] {
            assert_eq!(*ring.coefficients(&element.rotated(j)), image(exponent));
        }
        assert_eq!(*ring.coefficients(&element.conjugate()), image(2 * degree - 1));
    }
}
