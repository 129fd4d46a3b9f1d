//! A prepared database, and its answers.

use std::sync::Arc;

use keyhush_kernels::modular::{MODULUS, PRIMES, joined, less, reduced};

use super::ring::{Element, Ring, add_modulo};
use super::{ANSWER_BITS, Context, DIGITS, KEY_DROP, MODULUS_BITS, Shape, bits};
use crate::error::Error;

/// Slots that are summed side by side.
pub(super) const LANES: usize = 16;
/// Steps after which a sum is reduced: more would overflow 64 bits.
const STEPS: usize = 64;
/// Rows that are summed at once.
const ROWS: usize = 4;

/// A database that answers queries. It keeps nothing about clients.
pub struct Prepared {
    pub(super) shape: Shape,
    pub(super) context: Context,
    pub(super) ring: Arc<Ring>,
    /// whitened entries ([`place`])
    pub(super) entries: Vec<u16>,
    /// digits in evaluation form ([`digit_place`])
    pub(super) digits: Vec<u32>,
    pub(super) hint: Vec<u8>,
}

/// Where the entries of a row lie from `column` on. A strip is n columns, with its rows one after the other.
pub(super) fn place(shape: &Shape, row: usize, column: usize) -> usize {
    let strip = column - column % shape.degree;
    strip * shape.rows() + row * shape.degree.min(shape.columns - strip) + column % shape.degree
}

/// Where the digits of an output modulo a prime lie, from a block of slots on: steps one after the other, each with both digits.
pub(super) fn digit_place(shape: &Shape, output: usize, m: usize, block: usize) -> usize {
    ((output * 2 + m) * (shape.degree / LANES) + block) * (shape.degree / 2 - 1) * DIGITS * LANES
}

/// A packing key: for each digit and prime its slots, each sign twice, so that a rotation is a slice.
pub(super) type Doubled = [[Vec<u32>; 2]; DIGITS];

impl Prepared {
    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The public hint: attempt, t ring elements, 64 Merkle nodes.
    #[must_use]
    pub fn hint(&self) -> &[u8] {
        &self.hint
    }

    /// Answers queries that lie one after the other. Every bit pattern of the right length is a query: coefficients count modulo q.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are 1 to [`Shape::max_queries`] queries.
    pub fn answer(&self, requests: &[u8]) -> Result<Vec<u8>, Error> {
        let (each, most) = (self.shape.request_bytes(), self.shape.max_queries());
        if requests.is_empty() || !requests.len().is_multiple_of(each) || requests.len() > most * each {
            let expected = (requests.len().div_ceil(each) * each).clamp(each, most * each) as u64;
            return Err(Error::Length { what: "queries for one server", expected, actual: requests.len() as u64 });
        }
        let mut answers = Vec::with_capacity(requests.len() / each * self.shape.answer_bytes());
        for request in requests.chunks_exact(each) {
            let (key, selectors) = request.split_at(self.shape.key_bytes());
            let sums = self.scan(&self.selectors(selectors));
            let coefficients: Vec<u64> = restored(key, KEY_DROP).collect();
            let key =
                [0, 1].map(|i| self.ring.of_unsigned(&coefficients[i * self.shape.degree..][..self.shape.degree]));
            let packed = self.pack(&doubled(&key), &sums);
            bits::pack(packed.into_iter().map(rounded), ANSWER_BITS, &mut answers);
        }
        Ok(answers)
    }

    /// The selectors modulo both primes.
    fn selectors(&self, bytes: &[u8]) -> [Vec<u32>; 2] {
        let values: Vec<u64> = restored(bytes, self.shape.selector_drop()).take(self.shape.columns).collect();
        [0, 1].map(|m| values.iter().map(|&value| reduced(value, m)).collect())
    }

    /// For each row, the sum of selectors times centred entries, modulo both primes.
    pub(super) fn scan(&self, selectors: &[Vec<u32>; 2]) -> [Vec<u32>; 2] {
        let Shape { degree, columns, .. } = self.shape;
        let mut sums = vec![[0u64; 2]; self.shape.rows()];
        for strip in (0..columns).step_by(degree) {
            let width = degree.min(columns - strip);
            let [first, second] = [0, 1].map(|m| &selectors[m][strip..][..width]);
            for (block, sums) in sums.chunks_exact_mut(ROWS).enumerate() {
                let rows =
                    std::array::from_fn(|i| &self.entries[place(&self.shape, block * ROWS + i, strip)..][..width]);
                for (sum, products) in sums.iter_mut().zip(products(rows, first, second)) {
                    sum[0] += products[0];
                    sum[1] += products[1];
                }
            }
        }
        [0, 1].map(|m| {
            let total = reduced(selectors[m].iter().map(|&value| u64::from(value)).sum(), m);
            let offset = PRIMES[m] - reduced(u64::from(total) << 15, m);
            sums.iter().map(|sum| less(reduced(sum[m], m) + offset, PRIMES[m])).collect()
        })
    }

    /// Packs sums of rows: the fixed parts of the answer's elements, n/2 coefficients of each.
    pub(super) fn pack(&self, key: &Doubled, sums: &[Vec<u32>; 2]) -> Vec<u64> {
        let half = self.shape.degree / 2;
        let mut out = Vec::with_capacity(self.shape.rows());
        for output in 0..self.shape.outputs {
            let coefficients = self.ring.coefficients(&self.switched(output, key));
            let rows = sums[0].iter().zip(&sums[1]).skip(output * half);
            out.extend(
                coefficients
                    .iter()
                    .zip(rows)
                    .take(half)
                    .map(|(switched, (first, second))| add_modulo(*switched, joined(*first, *second))),
            );
        }
        out
    }

    /// Σ over steps and digits of a digit times the rotated key.
    #[allow(clippy::needless_range_loop)] // m numbers the prime
    fn switched(&self, output: usize, key: &Doubled) -> Element {
        let (degree, half) = (self.shape.degree, self.shape.degree / 2);
        let mut out = Element::zero(degree);
        for m in 0..2 {
            let [first, second] = [0, 1].map(|i: usize| &key[i][m][..]);
            for (block, slots) in out.modulo_mut(m).chunks_exact_mut(LANES).enumerate() {
                let start = block * LANES;
                let at = start + start / half * half; // each sign is there twice
                let digits = &self.digits[digit_place(&self.shape, output, m, block)..][..(half - 1) * DIGITS * LANES];
                let mut sums = [0; LANES];
                for (number, digits) in digits.chunks(STEPS * DIGITS * LANES).enumerate() {
                    let from = at + number * STEPS;
                    convolve(&mut sums, digits, &first[from..], &second[from..]);
                    sums = sums.map(|sum| u64::from(reduced(sum, m)));
                }
                slots.iter_mut().zip(sums).for_each(|(slot, sum)| *slot = sum as u32);
            }
        }
        out
    }
}

pub(super) fn doubled(key: &[Element; DIGITS]) -> Doubled {
    key.each_ref().map(|part| {
        [0, 1].map(|m| {
            let slots = part.modulo(m);
            slots.chunks_exact(slots.len() / 2).flat_map(|sign| [sign, sign].concat()).collect()
        })
    })
}

/// Numbers whose `drop` low bits were not sent: the middle of what they can be.
fn restored(bytes: &[u8], drop: u32) -> impl Iterator<Item = u64> {
    bits::unpack(bytes, MODULUS_BITS - drop).map(move |value| (value << drop) + (1 << (drop - 1)))
}

/// ⌊value·2^20/q + 1/2⌋ modulo 2^20, for values below q.
fn rounded(value: u64) -> u64 {
    const SHIFT: u32 = 43;
    const FACTOR: u64 = ((1u128 << (24 + ANSWER_BITS + SHIFT)) / MODULUS as u128) as u64;
    let estimate = ((value >> 24) * FACTOR) >> SHIFT; // at most 2 too small
    let mut rest = (value << ANSWER_BITS).wrapping_add(MODULUS / 2).wrapping_sub(estimate.wrapping_mul(MODULUS));
    let mut quotient = estimate;
    for _ in 0..3 {
        let more = u64::from(rest >= MODULUS);
        rest = rest.wrapping_sub(more * MODULUS);
        quotient += more;
    }
    quotient & ((1 << ANSWER_BITS) - 1)
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vectors {
    pub(super) use core::arch::wasm32::*;

    /// Zero, which the compiler does not know. Vectors that are XORed with it stay whole: otherwise, it extends them to 64 bits as it loads
    /// them, and then multiplies 64 bits, which takes three times as long.
    #[inline]
    pub(super) fn unknown_zero() -> v128 {
        u32x4_splat(core::hint::black_box(0))
    }

    #[inline]
    pub(super) fn words(from: &[u32; 4]) -> v128 {
        u32x4(from[0], from[1], from[2], from[3])
    }

    #[inline]
    pub(super) fn entries(from: &[u16; 8]) -> v128 {
        u16x8(from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7])
    }

    #[inline]
    pub(super) fn pair(from: v128) -> [u64; 2] {
        [u64x2_extract_lane::<0>(from), u64x2_extract_lane::<1>(from)]
    }

    /// `sum` + a·b of the low and of the high halves.
    #[inline]
    pub(super) fn add_products(sum: v128, a: v128, b: v128) -> v128 {
        i64x2_add(sum, i64x2_add(u64x2_extmul_low_u32x4(a, b), u64x2_extmul_high_u32x4(a, b)))
    }
}

/// Sums of products of four rows' entries with selectors modulo both primes. Entries are read once for both.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn products(rows: [&[u16]; ROWS], first: &[u32], second: &[u32]) -> [[u64; 2]; ROWS] {
    use vectors::*;
    let whole = first.len() / 8;
    let mut sums = [[u64x2_splat(0); 2]; ROWS];
    let zero = unknown_zero();
    let (x, y) = (first.as_chunks::<8>().0, second.as_chunks::<8>().0);
    let lines = rows.map(|row| row.as_chunks::<8>().0);
    let (y, lines) = (&y[..x.len()], lines.map(|line| &line[..x.len()]));
    for c in 0..x.len() {
        let halves = |from: &[u32; 8]| {
            let [low, high] = [0, 4].map(|at| words(&[from[at], from[at + 1], from[at + 2], from[at + 3]]));
            [v128_xor(low, zero), v128_xor(high, zero)]
        };
        let ([x0, x1], [y0, y1]) = (halves(&x[c]), halves(&y[c]));
        for r in 0..ROWS {
            let line = entries(&lines[r][c]);
            let low = v128_xor(u32x4_extend_low_u16x8(line), zero);
            let high = v128_xor(u32x4_extend_high_u16x8(line), zero);
            sums[r][0] = add_products(add_products(sums[r][0], low, x0), high, x1);
            sums[r][1] = add_products(add_products(sums[r][1], low, y0), high, y1);
        }
    }
    let rest = plain(rows.map(|row| &row[8 * whole..]), &first[8 * whole..], &second[8 * whole..]);
    std::array::from_fn(|r| std::array::from_fn(|m| pair(sums[r][m]).iter().sum::<u64>() + rest[r][m]))
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn products(rows: [&[u16]; ROWS], first: &[u32], second: &[u32]) -> [[u64; 2]; ROWS] {
    plain(rows, first, second)
}

#[inline]
fn plain(rows: [&[u16]; ROWS], first: &[u32], second: &[u32]) -> [[u64; 2]; ROWS] {
    let second = &second[..first.len()];
    let rows = rows.map(|row| &row[..first.len()]);
    let mut sums = [[0; 2]; ROWS];
    for c in 0..first.len() {
        let (x, y) = (u64::from(first[c]), u64::from(second[c]));
        for r in 0..ROWS {
            let entry = u64::from(rows[r][c]);
            sums[r][0] += entry * x;
            sums[r][1] += entry * y;
        }
    }
    sums
}

/// Adds to a block of slots, over some steps, the digits times the key, which moves on by one slot a step.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn convolve(sums: &mut [u64; LANES], digits: &[u32], first: &[u32], second: &[u32]) {
    use vectors::*;
    let steps = digits.as_chunks::<{ DIGITS * LANES }>().0;
    let (first, second) = (&first[..steps.len() + LANES], &second[..steps.len() + LANES]);
    let zero = unknown_zero();
    let mut totals: [v128; LANES / 2] = std::array::from_fn(|k| u64x2(sums[2 * k], sums[2 * k + 1]));
    for (j, digits) in steps.iter().enumerate() {
        let lanes = digits.as_chunks::<4>().0;
        let (u, v) = (first[j..][..LANES].as_chunks::<4>().0, second[j..][..LANES].as_chunks::<4>().0);
        for k in 0..LANES / 4 {
            let [a, b, c, d] = [&lanes[k], &u[k], &lanes[LANES / 4 + k], &v[k]].map(|from| v128_xor(words(from), zero));
            totals[2 * k] =
                i64x2_add(totals[2 * k], i64x2_add(u64x2_extmul_low_u32x4(a, b), u64x2_extmul_low_u32x4(c, d)));
            totals[2 * k + 1] =
                i64x2_add(totals[2 * k + 1], i64x2_add(u64x2_extmul_high_u32x4(a, b), u64x2_extmul_high_u32x4(c, d)));
        }
    }
    for (sums, total) in sums.as_chunks_mut().0.iter_mut().zip(totals) {
        *sums = pair(total);
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn convolve(sums: &mut [u64; LANES], digits: &[u32], first: &[u32], second: &[u32]) {
    let mut totals = *sums;
    for (j, digits) in digits.as_chunks::<{ DIGITS * LANES }>().0.iter().enumerate() {
        let (low, high) = digits.split_at(LANES);
        let (first, second) = (&first[j..][..LANES], &second[j..][..LANES]);
        for k in 0..LANES {
            totals[k] += u64::from(low[k]) * u64::from(first[k]) + u64::from(high[k]) * u64::from(second[k]);
        }
    }
    *sums = totals;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest() {
        let exact = |value: u64| {
            let (value, q) = (u128::from(value), u128::from(MODULUS));
            (((value << ANSWER_BITS) + q / 2) / q) as u64 & ((1 << ANSWER_BITS) - 1)
        };
        let step = MODULUS >> ANSWER_BITS;
        for k in (0..1 << 20).step_by(9_973).chain([0, 1, (1 << 20) - 2, (1 << 20) - 1]) {
            for near in [0, 1, step / 2 - 1, step / 2, step / 2 + 1, step - 1] {
                let value = (k * step + k + near).min(MODULUS - 1);
                assert_eq!(rounded(value), exact(value), "{value}");
            }
        }
    }
}
