//! The ring Z_q[X]/(X^n + 1), q the product of two primes, in evaluation form. Nothing here branches on coefficients or divides by
//! them: secrets pass through.
//!
//! *Slots* stand in the order of powers of 5: slot (sign, k) has the value at ψ^(±5^k), ψ a primitive 2n-th root of unity. So the
//! automorphism X → X^(5^j) rotates both halves by j.

use super::Wiped;
use crate::random::{ChaCha, ENTROPY_BYTES};

/// The primes. Both are 1 modulo 4096, and their product is 1 modulo 65 536.
pub(super) const PRIMES: [u32; 2] = [268_369_921, 249_561_089];
pub(super) const MODULUS: u64 = PRIMES[0] as u64 * PRIMES[1] as u64;
/// Δ: q = 65 536·Δ + 1.
pub(super) const DELTA: u64 = MODULUS >> super::ENTRY_BITS;

const fn power(base: u64, exponent: u64, prime: u64) -> u64 {
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

const fn inverse(value: u64, prime: u64) -> u64 {
    power(value % prime, prime - 2, prime)
}

/// A constant factor modulo a prime, with ⌊factor·2^32/prime⌋ (Shoup).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Factor {
    value: u32,
    quotient: u32,
}

impl Factor {
    pub(super) const fn new(value: u64, prime: u32) -> Self {
        let value = value % prime as u64;
        Factor { value: value as u32, quotient: ((value << 32) / prime as u64) as u32 }
    }

    /// The product with any u32: congruent, below 2·prime.
    #[inline(always)]
    pub(super) fn times(self, other: u32, prime: u32) -> u32 {
        times_lazy(other, self.value, self.quotient, prime)
    }
}

#[inline(always)]
fn times_lazy(other: u32, value: u32, quotient: u32, prime: u32) -> u32 {
    let multiple = ((u64::from(other) * u64::from(quotient)) >> 32) as u32;
    other.wrapping_mul(value).wrapping_sub(multiple.wrapping_mul(prime))
}

/// `value` − `bound` if that is not negative. For values below 2^31.
#[inline(always)]
pub(super) fn less(value: u32, bound: u32) -> u32 {
    let difference = value.wrapping_sub(bound);
    difference.wrapping_add(bound & ((difference as i32 >> 31) as u32))
}

/// What reductions modulo a prime need.
struct Constants {
    prime: u32,
    /// −1/prime modulo 2^32
    negative: u32,
    /// 2^64 mod prime
    square: u32,
    /// 2^32 and 1 as factors
    word: Factor,
    one: Factor,
}

const fn constants(prime: u32) -> Constants {
    let mut inverse = 1u32; // Newton's iteration doubles the right bits
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(prime.wrapping_mul(inverse)));
        round += 1;
    }
    let word = (1u64 << 32) % prime as u64;
    Constants {
        prime,
        negative: inverse.wrapping_neg(),
        square: (word * word % prime as u64) as u32,
        word: Factor::new(word, prime),
        one: Factor::new(1, prime),
    }
}

const CONSTANTS: [Constants; 2] = [constants(PRIMES[0]), constants(PRIMES[1])];

/// a·b/2^32 modulo a prime, below 2·prime (Montgomery).
#[inline(always)]
fn montgomery(a: u32, b: u32, Constants { prime, negative, .. }: &Constants) -> u32 {
    let product = u64::from(a) * u64::from(b);
    let multiple = (product as u32).wrapping_mul(*negative);
    ((product + u64::from(multiple) * u64::from(*prime)) >> 32) as u32
}

/// A u64 modulo a prime.
#[inline(always)]
pub(super) fn reduced(value: u64, m: usize) -> u32 {
    let Constants { prime, word, one, .. } = &CONSTANTS[m];
    let sum = word.times((value >> 32) as u32, *prime) + one.times(value as u32, *prime);
    less(less(sum, 2 * prime), *prime)
}

/// −1, 0 or 1 … as a residue: for numbers of less than 28 bits.
#[inline(always)]
fn residue(value: i32, prime: u32) -> u32 {
    (value as u32).wrapping_add(prime & ((value >> 31) as u32))
}

/// `a` + `b` modulo q, for numbers below q.
#[inline(always)]
pub(super) fn add_modulo(a: u64, b: u64) -> u64 {
    let difference = (a + b).wrapping_sub(MODULUS);
    difference.wrapping_add(MODULUS & ((difference as i64 >> 63) as u64))
}

/// `value` modulo q, for |value| < q.
#[inline(always)]
pub(super) fn modulo(value: i64) -> u64 {
    value.wrapping_add(MODULUS as i64 & (value >> 63)) as u64
}

/// The transform modulo one prime.
struct Transform {
    prime: u32,
    /// powers of ψ and of 1/ψ, in bit-reversed order: values, then quotients
    forward: [Vec<u32>; 2],
    backward: [Vec<u32>; 2],
    /// 1/n
    scale: Factor,
}

impl Transform {
    fn new(degree: usize, prime: u32) -> Self {
        let wide = u64::from(prime);
        let order = 2 * degree as u64;
        let is_root = |root: &u64| power(*root, degree as u64, wide) == wide - 1;
        let root = (2..).map(|base| power(base, (wide - 1) / order, wide)).find(is_root).unwrap_or_default();
        let table = |root: u64| {
            let at = |i: usize| Factor::new(power(root, reversed(i, degree) as u64, wide), prime);
            let factors: Vec<Factor> = (0..degree).map(at).collect();
            [factors.iter().map(|f| f.value).collect(), factors.iter().map(|f| f.quotient).collect()]
        };
        let scale = Factor::new(inverse(degree as u64, wide), prime);
        Transform { prime, forward: table(root), backward: table(inverse(root, wide)), scale }
    }

    /// Coefficients to values, all below the prime. Value i is that at ψ^(2·reversed(i) + 1).
    fn forward(&self, values: &mut [u32]) {
        let prime = self.prime;
        let (mut width, mut blocks) = (values.len(), 1);
        while width > 1 {
            width /= 2;
            for (block, pair) in values.chunks_exact_mut(2 * width).enumerate() {
                let (factor, quotient) = (self.forward[0][blocks + block], self.forward[1][blocks + block]);
                let (left, right) = pair.split_at_mut(width);
                for (x, y) in left.iter_mut().zip(right) {
                    let sum = less(*x, 2 * prime);
                    let product = times_lazy(*y, factor, quotient, prime);
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

    /// The inverse of [`Transform::forward`].
    fn backward(&self, values: &mut [u32]) {
        let prime = self.prime;
        let (mut width, mut blocks) = (1, values.len() / 2);
        while blocks > 0 {
            for (block, pair) in values.chunks_exact_mut(2 * width).enumerate() {
                let (factor, quotient) = (self.backward[0][blocks + block], self.backward[1][blocks + block]);
                let (left, right) = pair.split_at_mut(width);
                for (x, y) in left.iter_mut().zip(right) {
                    let (a, b) = (*x, *y);
                    *x = less(a + b, 2 * prime);
                    *y = times_lazy(a + 2 * prime - b, factor, quotient, prime);
                }
            }
            width *= 2;
            blocks /= 2;
        }
        for value in values {
            *value = less(self.scale.times(*value, prime), prime);
        }
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
        let mut out = Element(Wiped::new(self.0.len()));
        for (m, constants) in CONSTANTS.iter().enumerate() {
            for (to, from) in out.modulo_mut(m).iter_mut().zip(self.modulo(m)) {
                *to = less(montgomery(*from, constants.square, constants), constants.prime);
            }
        }
        Multiplier(out)
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
        for (m, prime) in PRIMES.into_iter().enumerate() {
            let factor = Factor::new(factor, prime);
            for (to, from) in out.modulo_mut(m).iter_mut().zip(self.modulo(m)) {
                *to = less(factor.times(*from, prime), prime);
            }
        }
        out
    }
}

/// An element that others are multiplied by: its slots times 2^32.
pub(super) struct Multiplier(Element);

impl Multiplier {
    pub(super) fn times(&self, other: &Element) -> Element {
        let mut out = Element(Wiped::new(other.0.len()));
        for (m, constants) in CONSTANTS.iter().enumerate() {
            let slots = out.modulo_mut(m).iter_mut().zip(other.modulo(m)).zip(self.0.modulo(m));
            for ((to, a), b) in slots {
                *to = less(montgomery(*a, *b, constants), constants.prime);
            }
        }
        out
    }
}

/// The transforms of a degree, and the order of slots.
pub(super) struct Ring {
    transforms: [Transform; 2],
    /// by slot: the transform's place of its value
    places: Vec<u32>,
    /// 1/(first prime) modulo the second
    join: Factor,
}

impl Ring {
    pub(super) fn new(degree: usize) -> Self {
        let mut places = vec![0; degree];
        let half = degree / 2;
        let mut exponent = 1;
        for k in 0..half {
            places[k] = reversed((exponent - 1) / 2, degree) as u32;
            places[half + k] = reversed((2 * degree - exponent - 1) / 2, degree) as u32;
            exponent = exponent * 5 % (2 * degree);
        }
        let join = Factor::new(inverse(u64::from(PRIMES[0]), u64::from(PRIMES[1])), PRIMES[1]);
        Ring { transforms: PRIMES.map(|prime| Transform::new(degree, prime)), places, join }
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
    pub(super) fn reversed_row(&self, m: usize, entries: &[u16], values: &mut [u32]) {
        const MIDDLE: i32 = 1 << (super::ENTRY_BITS - 1);
        values.fill(0);
        if let Some((first, rest)) = entries.split_first() {
            values[0] = residue(i32::from(*first) - MIDDLE, PRIMES[m]);
            for (value, &entry) in values.iter_mut().rev().zip(rest) {
                *value = residue(MIDDLE - i32::from(entry), PRIMES[m]); // X^-c = -X^(n-c)
            }
        }
        self.transforms[m].forward(values);
    }

    /// The values, times 2/n, of a polynomial at the slots of one sign.
    pub(super) fn across(&self, m: usize, sign: usize, coefficients: &mut [u32], out: &mut [u32]) {
        let scale = Factor::new(inverse(out.len() as u64, u64::from(PRIMES[m])), PRIMES[m]);
        self.transforms[m].forward(coefficients);
        let half = out.len();
        for (out, &place) in out.iter_mut().zip(&self.places[sign * half..]) {
            *out = less(scale.times(coefficients[place as usize], PRIMES[m]), PRIMES[m]);
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

    /// The element whose coefficients modulo prime number m are `coefficient(i, m)`, below it.
    pub(super) fn element(&self, coefficient: impl Fn(usize, usize) -> u32) -> Element {
        let mut element = Element::zero(self.degree());
        let mut buffer = Wiped::new(self.degree());
        for m in 0..2 {
            for (i, to) in buffer.iter_mut().enumerate() {
                *to = coefficient(i, m);
            }
            self.slots(m, &mut buffer, element.modulo_mut(m));
        }
        element
    }

    /// The element of coefficients below 2^64.
    pub(super) fn of_unsigned(&self, coefficients: &[u64]) -> Element {
        self.element(|i, m| reduced(coefficients[i], m))
    }

    /// The element of coefficients of less than 28 bits.
    pub(super) fn of_small(&self, coefficients: &[i32]) -> Element {
        self.element(|i, m| residue(coefficients[i], PRIMES[m]))
    }

    /// The coefficients of an element, from 0 to q − 1.
    pub(super) fn coefficients(&self, element: &Element) -> Wiped<u64> {
        let mut parts: [Wiped<u32>; 2] = [Wiped::new(self.degree()), Wiped::new(self.degree())];
        for (m, part) in parts.iter_mut().enumerate() {
            for (slot, &place) in element.modulo(m).iter().zip(&self.places) {
                part[place as usize] = *slot;
            }
            self.transforms[m].backward(part);
        }
        let mut out = Wiped::new(self.degree());
        for ((to, first), second) in out.iter_mut().zip(parts[0].iter()).zip(parts[1].iter()) {
            *to = self.joined(*first, *second);
        }
        out
    }

    /// The number below q with these residues.
    #[inline(always)]
    pub(super) fn joined(&self, first: u32, second: u32) -> u64 {
        let [p, r] = PRIMES;
        let multiple = less(self.join.times(second + 2 * r - first, r), r);
        u64::from(first) + u64::from(p) * u64::from(multiple)
    }

    /// A public element: its coefficients are uniform. They are the u64s of a stream, little-endian, modulo 2^56; those not below q
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

/// The public elements of a database: a_k by chunk of columns, and the two of the packing key.
pub(super) struct Matrices {
    pub(super) selectors: Vec<Element>,
    pub(super) key: [Element; super::DIGITS],
}

impl Matrices {
    pub(super) fn new(ring: &Ring, seed: &[u8; ENTROPY_BYTES], chunks: usize) -> Self {
        const KEY_STREAM: u64 = 1 << 32;
        Matrices {
            selectors: (0..chunks as u64).map(|k| ring.public(seed, k)).collect(),
            key: [KEY_STREAM, KEY_STREAM + 1].map(|stream| ring.public(seed, stream)),
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
    fn constants_are_what_they_are_said_to_be() {
        assert_eq!(MODULUS, 65_536 * DELTA + 1);
        for prime in PRIMES {
            assert_eq!(prime % 4096, 1);
            assert!((2..).take_while(|d| d * d <= prime).all(|d| prime % d != 0));
        }
        for m in 0..2 {
            for value in [0, 1, u64::from(PRIMES[m]), u64::MAX, u64::MAX - 1, 1 << 32, 0x0123_4567_89ab_cdef] {
                assert_eq!(u64::from(reduced(value, m)), value % u64::from(PRIMES[m]));
            }
        }
    }

    #[test]
    fn multiplication_is_that_of_the_ring_and_coefficients_come_back() {
        for degree in [32, 64, 256] {
            let ring = Ring::new(degree);
            let (a, b) = (some(&ring, 1), some(&ring, 2));
            assert_eq!(*ring.coefficients(&ring.of_unsigned(&a)), *a);
            let fast = ring.of_unsigned(&a).multiplier().times(&ring.of_unsigned(&b));
            assert_eq!(*ring.coefficients(&fast), *product(&a, &b), "degree {degree}");
        }
    }

    #[test]
    fn rotations_are_automorphisms_and_conjugates_are_transposes() {
        let degree = 64;
        let ring = Ring::new(degree);
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
