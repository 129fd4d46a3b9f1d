//! Products of scalars and fixed points, from tables of multiples, with additions that share inversions.

use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInteger, PrimeField};

use super::affine::{add_all, add_at, double_all};

/// Signed digits of a scalar, four bits each.
const WINDOWS: usize = 64;
/// The tables have 1 to 8 times a point; a digit also has a sign.
const MULTIPLES: usize = 8;
/// There is a table for every fourth window. For the windows between, the sum is doubled.
const STRIDE: usize = 4;

/// Digits of eight bits in a scalar, for sums of products.
const BYTES: usize = WINDOWS / 2;
/// There is a table for every second of these digits.
const BYTES_A_TABLE: usize = STRIDE / 2;
/// Digits of one sign.
const BUCKETS: usize = 128;

/// Multiples of fixed points.
pub(super) struct Multiples {
    count: usize,
    /// by multiple − 1, every fourth window, and point: multiple·16^window times the point
    tables: Vec<G1Affine>,
}

impl Multiples {
    pub(super) fn of(mut points: Vec<G1Affine>) -> Self {
        let count = points.len();
        let mut tables = Vec::with_capacity(MULTIPLES * WINDOWS / STRIDE * count);
        for window in 0..WINDOWS {
            if window.is_multiple_of(STRIDE) {
                tables.extend_from_slice(&points);
            }
            if window < WINDOWS - STRIDE {
                (0..4).for_each(|_| double_all(&mut points));
            }
        }
        let ones = tables.clone();
        for multiple in 1..MULTIPLES {
            let mut next = tables[(multiple - 1) * ones.len()..].to_vec();
            add_all(&mut next, &ones);
            tables.extend_from_slice(&next);
        }
        Multiples { count, tables }
    }

    /// The product of each factor with a point; `whose` gives the number of the point.
    pub(super) fn times(&self, factors: &[Fr], whose: impl Fn(usize) -> usize) -> Vec<G1Affine> {
        let digits: Vec<_> = factors.iter().map(|&factor| signed_digits(factor)).collect();
        let mut products = vec![G1Affine::zero(); digits.len()];
        let (mut places, mut addends) = (Vec::new(), Vec::new());
        for pass in (0..STRIDE).rev() {
            for window in (pass..WINDOWS).step_by(STRIDE) {
                places.clear();
                addends.clear();
                for (at, digits) in digits.iter().enumerate() {
                    let digit = digits[window];
                    if digit != 0 {
                        let multiple = usize::from(digit.unsigned_abs()) - 1;
                        let table = multiple * (WINDOWS / STRIDE) + window / STRIDE;
                        let entry = self.tables[table * self.count + whose(at)];
                        places.push(at);
                        addends.push(if digit < 0 { -entry } else { entry });
                    }
                }
                add_at(&mut products, &places, &addends);
            }
            if pass > 0 {
                (0..4).for_each(|_| double_all(&mut products));
            }
        }
        products
    }

    /// The sum of all factors' products with their points. Digits have eight bits here. Terms with equal digits are added first,
    /// wherever in their scalars the digits are.
    pub(super) fn sum(&self, factors: &[Fr], places: &[usize]) -> G1Projective {
        let digits: Vec<[i16; BYTES]> = factors.iter().map(|&factor| signed_bytes(factor)).collect();
        let mut sum = G1Projective::default();
        for pass in (0..BYTES_A_TABLE).rev() {
            let mut terms: [Vec<G1Affine>; BUCKETS] = std::array::from_fn(|_| Vec::new());
            for (digits, &place) in digits.iter().zip(places) {
                for at in (pass..BYTES).step_by(BYTES_A_TABLE) {
                    if digits[at] != 0 {
                        let entry = self.tables[at / BYTES_A_TABLE * self.count + place];
                        let bucket = usize::from(digits[at].unsigned_abs()) - 1;
                        terms[bucket].push(if digits[at] < 0 { -entry } else { entry });
                    }
                }
            }
            let mut buckets = [G1Affine::zero(); BUCKETS];
            for round in 0..terms.iter().map(Vec::len).max().unwrap_or_default() {
                let (at, addends): (Vec<usize>, Vec<G1Affine>) =
                    terms.iter().enumerate().filter_map(|(at, terms)| Some((at, *terms.get(round)?))).unzip();
                add_at(&mut buckets, &at, &addends);
            }
            // Σ d·bucket_d
            let (mut running, mut weighted) = (G1Projective::default(), G1Projective::default());
            for bucket in buckets.iter().rev() {
                running += bucket;
                weighted += running;
            }
            if pass + 1 < BYTES_A_TABLE {
                (0..8).for_each(|_| {
                    sum.double_in_place();
                });
            }
            sum += weighted;
        }
        sum
    }
}

/// Digits of eight bits, from −127 to 128, the lowest first. The last one has no carry.
fn signed_bytes(value: Fr) -> [i16; BYTES] {
    let bytes = value.into_bigint().to_bytes_le();
    let mut digits = [0; BYTES];
    let mut carry = 0;
    for (digit, &byte) in digits.iter_mut().zip(&bytes) {
        let value = i16::from(byte) + carry;
        carry = i16::from(value > 128);
        *digit = value - 256 * carry;
    }
    digits
}

/// Digits of four bits, from −7 to 8, the lowest first. The last one has no carry, because a scalar has 255 bits.
fn signed_digits(value: Fr) -> [i8; WINDOWS] {
    let bytes = value.into_bigint().to_bytes_le();
    let mut digits = [0; WINDOWS];
    let mut carry = 0;
    for (at, digit) in digits.iter_mut().enumerate() {
        let value = (bytes[at / 2] >> (at % 2 * 4) & 15).cast_signed() + carry;
        carry = i8::from(value > 8);
        *digit = value - 16 * carry;
    }
    digits
}
