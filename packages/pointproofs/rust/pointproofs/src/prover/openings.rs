//! Makes all openings of a row at once. Opening i of a row is πᵢ = Σ_{j≠i} xⱼ·[α^(m+1+j−i)]₁. So all openings are a Toeplitz
//! matrix of powers times the row's scalars. That takes about nine products for each record, of fixed points, and some
//! additions (toeplitz.rs). The transforms of Feist and Khovratovich ("Fast amortized KZG proofs") take seven products for each
//! record, but of varying points: those cost three times as much.

use ark_bls12_381::{Fr, G1Affine};
use ark_ec::AffineRepr;

use super::multiples::Multiples;
use super::toeplitz::{Values, assemble, combine_matrix, products};

/// The number of rows that share inversions.
const ROWS_AT_ONCE: usize = 4;

/// The powers of a setup for rows of m, in the form that openings are made with.
pub struct Openings {
    row_records: usize,
    values: Values,
    /// the matrix's shares of the products
    shares: Multiples,
}

impl Openings {
    /// For rows of m records, a power of four. `powers` has [αᵏ]₁ at k − 1 for k = 1 … 2m. What stands at k = m + 1 is ignored.
    ///
    /// # Panics
    /// Unless m is a power of four and there are 2m powers. The only setup has m = 256 and 512 powers.
    #[must_use]
    pub fn new(row_records: usize, powers: &[G1Affine]) -> Self {
        let m = row_records;
        assert!(m.is_power_of_two() && m.trailing_zeros().is_multiple_of(2) && powers.len() == 2 * m);
        // For i − j = d the entry is the power m + 1 − d; there is none for i = j.
        let mut entries: Vec<G1Affine> = powers[1..].iter().rev().copied().collect();
        entries[m - 1] = G1Affine::zero();
        let shares = Multiples::of(combine_matrix(&entries));
        Openings { row_records, values: Values::new(), shares }
    }

    /// The m openings of each row, in order.
    #[must_use]
    pub fn of_rows(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        rows.chunks(ROWS_AT_ONCE).flat_map(|rows| self.of_few(rows)).collect()
    }

    fn of_few(&self, rows: &[Vec<Fr>]) -> Vec<G1Affine> {
        let products = products(self.row_records);
        let values: Vec<Fr> = rows.iter().flat_map(|row| self.values.of(row.clone())).collect();
        assemble(self.shares.times(&values, |at| at % products), self.row_records)
    }
}
