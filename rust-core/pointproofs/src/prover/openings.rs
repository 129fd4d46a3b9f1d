//! All openings of a row at once (papers: Feist, Khovratovich, "Fast amortized KZG proofs"). Opening i of a row is
//! πᵢ = Σ_{j≠i} xⱼ·[α^(m+1+j−i)]₁, so all of them are a Toeplitz matrix of powers times the row's scalars: the middle of a
//! circulant of twice the size, and a circulant is diagonal in the Fourier basis. What is left to do for a row, its scalars
//! transformed, is 2m multiplications of points that are always the same, and one transform back of which half is wanted.

use ark_bls12_381::{Fr, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField};

use super::affine::{Factor, add_all, add_at, double_all, multiply_all};
use super::fourier::{Fourier, transform_scalars};

/// Rows that share inversions.
const ROWS_AT_ONCE: usize = 8;
/// Signed digits of a scalar, four bits each.
const WINDOWS: usize = 64;
/// 1 to 8 times a point, and the digit's sign.
const MULTIPLES: usize = 8;

/// The powers of a setup for rows of m, in the form that openings are made with.
pub struct Openings {
    row_records: usize,
    fourier: Fourier,
    /// (multiple − 1, window, frequency): multiple·16^window times the circulant's eigenvalue, over 2m
    tables: Vec<G1Affine>,
}

impl Openings {
    /// For rows of m records, a power of two. `powers` has [αᵏ]₁ at k − 1 for k = 1 … 2m; what stands at k = m + 1 is not
    /// looked at.
    ///
    /// # Panics
    /// Never for m = 256 and 512 powers, which is all that is served.
    #[must_use]
    pub fn new(row_records: usize, powers: &[G1Affine]) -> Self {
        let (m, n) = (row_records, 2 * row_records);
        assert!(m.is_power_of_two() && powers.len() == n);
        let fourier = Fourier::new(n);
        // The circulant's first column at d stands for i − j = d: the power m + 1 − d, and none where i = j.
        let mut spectrum = vec![G1Affine::zero(); n];
        for distance in 1..m {
            spectrum[distance] = powers[m - distance];
            spectrum[n - distance] = powers[m + distance];
        }
        // Of the inverse root, with 1/n for the way back; so frequency f comes at −f.
        let scale = Factor::new(Fr::from(n as u64).inverse().unwrap_or_default());
        multiply_all(&mut spectrum, &vec![&scale; n]);
        fourier.transform(&mut spectrum, n);
        spectrum[1..].reverse();

        let mut tables = Vec::with_capacity(MULTIPLES * WINDOWS * n);
        for _ in 0..WINDOWS {
            tables.extend_from_slice(&spectrum);
            for _ in 0..4 {
                double_all(&mut spectrum);
            }
        }
        let ones = tables.clone();
        for multiple in 1..MULTIPLES {
            let mut next = tables[(multiple - 1) * ones.len()..].to_vec();
            add_all(&mut next, &ones);
            tables.extend_from_slice(&next);
        }
        Openings { row_records, fourier, tables }
    }

    /// The m openings of each row, in order.
    #[must_use]
    pub fn of_rows(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        rows.chunks(ROWS_AT_ONCE).flat_map(|rows| self.of_few(rows)).collect()
    }

    fn of_few(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        let (m, n) = (self.row_records, 2 * self.row_records);
        // Products by frequency; those of even frequencies first, then those of odd ones, each row's by itself.
        let mut points = vec![G1Affine::zero(); n * rows.len()];
        let mut digits = Vec::with_capacity(points.len());
        for row in rows {
            let mut values = row.clone();
            values.resize(n, Fr::ZERO);
            transform_scalars(&mut values, self.fourier.root);
            digits.extend((0..n).map(|at| signed_digits(values[frequency(at, m)])));
        }
        let (mut places, mut addends) = (Vec::new(), Vec::new());
        for window in 0..WINDOWS {
            places.clear();
            addends.clear();
            for (at, digits) in digits.iter().enumerate() {
                let digit = digits[window];
                if digit != 0 {
                    let multiple = usize::from(digit.unsigned_abs()) - 1;
                    let entry = self.tables[(multiple * WINDOWS + window) * n + frequency(at % n, m)];
                    places.push(at);
                    addends.push(if digit < 0 { -entry } else { entry });
                }
            }
            add_at(&mut points, &places, &addends);
        }
        self.fourier.transform(&mut points, m);
        // The last level, of which only the sums are wanted: even[k] + ω^(−k)·odd[k].
        let (mut sums, mut odd) = (Vec::with_capacity(points.len() / 2), Vec::with_capacity(points.len() / 2));
        for row in points.chunks_exact(n) {
            sums.extend_from_slice(&row[..m]);
            odd.extend_from_slice(&row[m..]);
        }
        let factors: Vec<&Factor> = (0..odd.len()).map(|at| self.fourier.twiddle(n, at % m)).collect();
        multiply_all(&mut odd, &factors);
        add_all(&mut sums, &odd);
        sums
    }
}

/// Which frequency stands at a place: even ones in order, then odd ones.
fn frequency(at: usize, half: usize) -> usize {
    if at < half { 2 * at } else { 2 * (at - half) + 1 }
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
