//! All openings of a row at once. Opening i of a row is πᵢ = Σ_{j≠i} xⱼ·[α^(m+1+j−i)]₁, so all of them are a Toeplitz matrix of
//! powers times the row's scalars. What is left of it to do for a row are products of points that are always the same, about
//! nine a record, and some additions (toeplitz.rs). The transforms of Feist and Khovratovich ("Fast amortized KZG proofs")
//! have seven a record, of points that are always others: those cost three times as much.

use ark_bls12_381::{Fr, G1Affine};
use ark_ec::AffineRepr;

use super::multiples::Multiples;
use super::toeplitz::{Values, assemble, combine_matrix, products};

/// Rows that share inversions.
const ROWS_AT_ONCE: usize = 4;

/// The powers of a setup for rows of m, in the form that openings are made with.
pub struct Openings {
    row_records: usize,
    values: Values,
    /// of the matrix' shares of the products
    shares: Multiples,
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
