//! All openings of a row at once. Opening i of a row is πᵢ = Σ_{j≠i} xⱼ·[α^(m+1+j−i)]₁, so all of them are a Toeplitz matrix of
//! powers times the row's scalars. What is left of it to do for a row are products of points that are always the same, about
//! nine a record, and some additions (toeplitz.rs). The transforms of Feist and Khovratovich ("Fast amortized KZG proofs")
//! have seven a record, of points that are always others: those cost three times as much.

use ark_bls12_381::{Fr, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{BigInteger, PrimeField};

use super::affine::{add_all, add_at, double_all};
use super::toeplitz::{Values, assemble, combine_matrix, products};

/// Rows that share inversions.
const ROWS_AT_ONCE: usize = 4;
/// Signed digits of a scalar, four bits each.
const WINDOWS: usize = 64;
/// 1 to 8 times a point, and the digit's sign.
const MULTIPLES: usize = 8;
/// There are tables for every so many windows: for the others the sum is doubled.
const STRIDE: usize = 4;

/// The powers of a setup for rows of m, in the form that openings are made with.
pub struct Openings {
    row_records: usize,
    values: Values,
    /// (multiple − 1, each fourth window, product): multiple·16^window times the matrix' share of the product
    tables: Vec<G1Affine>,
}

impl Openings {
    /// For rows of m records, a power of four. `powers` has [αᵏ]₁ at k − 1 for k = 1 … 2m; what stands at k = m + 1 is not
    /// looked at.
    ///
    /// # Panics
    /// Never for m = 256 and 512 powers, which is all that is served.
    #[must_use]
    pub fn new(row_records: usize, powers: &[G1Affine]) -> Self {
        let m = row_records;
        assert!(m.is_power_of_two() && m.trailing_zeros().is_multiple_of(2) && powers.len() == 2 * m);
        // At i − j = d stands the power m + 1 − d, and none where i = j.
        let mut entries: Vec<G1Affine> = powers[1..].iter().rev().copied().collect();
        entries[m - 1] = G1Affine::zero();
        let mut shares = combine_matrix(&entries);

        let mut tables = Vec::with_capacity(MULTIPLES * WINDOWS / STRIDE * shares.len());
        for window in 0..WINDOWS {
            if window.is_multiple_of(STRIDE) {
                tables.extend_from_slice(&shares);
            }
            if window < WINDOWS - STRIDE {
                (0..4).for_each(|_| double_all(&mut shares));
            }
        }
        let ones = tables.clone();
        for multiple in 1..MULTIPLES {
            let mut next = tables[(multiple - 1) * ones.len()..].to_vec();
            add_all(&mut next, &ones);
            tables.extend_from_slice(&next);
        }
        Openings { row_records, values: Values::new(), tables }
    }

    /// The m openings of each row, in order.
    #[must_use]
    pub fn of_rows(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        rows.chunks(ROWS_AT_ONCE).flat_map(|rows| self.of_few(rows)).collect()
    }

    fn of_few(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        let products = products(self.row_records);
        let shares = rows.iter().flat_map(|row| self.values.of(row.clone()));
        let digits: Vec<_> = shares.map(signed_digits).collect();
        let mut points = vec![G1Affine::zero(); digits.len()];
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
                        let entry = self.tables[table * products + at % products];
                        places.push(at);
                        addends.push(if digit < 0 { -entry } else { entry });
                    }
                }
                add_at(&mut points, &places, &addends);
            }
            if pass > 0 {
                (0..4).for_each(|_| double_all(&mut points));
            }
        }
        assemble(points, self.row_records)
    }
}

/// Digits from −7 to 8, the lowest first. The last takes no carry on: a scalar has 255 bits.
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
