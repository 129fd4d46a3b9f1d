//! A Toeplitz matrix times a vector, with few products: the multiplication of polynomials by Toom and Cook in four pieces,
//! transposed (papers: Winograd, "Arithmetic Complexity of Computations"; Hasan, Nègre, IEEE Trans. Comput. 62, 2013).
//!
//! Row i of the product is Σⱼ T[i−j]·xⱼ. In blocks of a quarter, it takes seven products of blocks, where the definition takes
//! sixteen. So for a size of 4^k it takes 7^k products of numbers.
//!
//! Let c(z) = a(z)·b(z), with a and b of degree 3. Each coefficient cₛ is a combination of c's values at seven points. For a
//! fixed b, a ↦ c is linear. So is its transpose t ↦ y with yᵢ = Σⱼ bⱼ·t(i+j), which is the wanted product if the pieces of x
//! come in reverse. It is computed in three parts: combinations of t, times the values of b, then the transpose of taking a's
//! values. The matrix is combined with whole numbers only; the vector takes over their divisors.

use ark_bls12_381::{Fr, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, Field};

use super::affine::{add_all, butterflies, double_all};

/// Pieces of the matrix's side, and of the vector.
const PIECES: usize = 4;
/// The seven points, as numerator and denominator; the last is infinity.
const VALUES_AT: [(i64, i64); 7] = [(0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (1, 0)];
const VALUES: usize = VALUES_AT.len();

/// The number of products for a size of 4^k.
pub(super) fn products(size: usize) -> usize {
    VALUES.pow(size.trailing_zeros() / 2)
}

/// The matrix's share of the products. `entries` has T[d] at d + size − 1.
pub(super) fn combine_matrix(entries: &[G1Affine]) -> Vec<G1Affine> {
    let size = entries.len().div_ceil(2);
    if size == 1 {
        return entries.to_vec();
    }
    let part = size / PIECES;
    let blocks: Vec<&[G1Affine]> = (0..VALUES).map(|block| &entries[block * part..][..2 * part - 1]).collect();
    (0..VALUES).flat_map(|value| combine_matrix(&combined(&blocks, &basis(value).0))).collect()
}

/// Σ factor·block. The factors are small whole numbers.
fn combined(blocks: &[&[G1Affine]], factors: &[i64; VALUES]) -> Vec<G1Affine> {
    let mut sum = vec![G1Affine::zero(); blocks[0].len()];
    for bit in (0..8).rev() {
        double_all(&mut sum);
        for (block, factor) in blocks.iter().zip(factors) {
            if factor.unsigned_abs() >> bit & 1 == 1 {
                let signed: Vec<_> = block.iter().map(|&point| if *factor < 0 { -point } else { point }).collect();
                add_all(&mut sum, &signed);
            }
        }
    }
    sum
}

/// The coefficients of a point's Lagrange polynomial, from the lowest, and the divisor.
fn basis(value: usize) -> ([i64; VALUES], i64) {
    let mut coefficients = [0; VALUES];
    coefficients[0] = 1;
    let mut divisor = 1;
    let (over, under) = VALUES_AT[value];
    for (at, (a, b)) in VALUES_AT.into_iter().enumerate() {
        if at != value {
            for s in (0..VALUES).rev() {
                coefficients[s] = if s == 0 { 0 } else { b * coefficients[s - 1] } - a * coefficients[s];
            }
            divisor *= b * over - a * under;
        }
    }
    (coefficients, divisor)
}

/// Takes the values of vectors, with the divisors of the matrix.
pub(super) struct Values([[Fr; PIECES]; VALUES]);

impl Values {
    pub(super) fn new() -> Self {
        Values(std::array::from_fn(|value| {
            let (over, under) = VALUES_AT[value];
            let divisor = Fr::from(basis(value).1).inverse().unwrap_or_default();
            // In reverse: the first piece is the highest coefficient.
            std::array::from_fn(|piece| {
                let [up, down] = [3 - piece, piece].map(|power| u32::try_from(power).unwrap_or_default());
                Fr::from(over.pow(up) * under.pow(down)) * divisor
            })
        }))
    }

    /// The vector's share of the products.
    pub(super) fn of(&self, vector: Vec<Fr>) -> Vec<Fr> {
        let part = vector.len() / PIECES;
        if part == 0 {
            return vector;
        }
        let value_of = |weights: &[Fr; PIECES]| {
            let mut sum = vec![Fr::ZERO; part];
            for (piece, &weight) in vector.chunks_exact(part).zip(weights) {
                for (sum, &term) in sum.iter_mut().zip(piece) {
                    *sum += weight * term;
                }
            }
            sum
        };
        self.0.iter().flat_map(|weights| self.of(value_of(weights))).collect()
    }
}

/// Combines the products to vectors of `size`, one after the other.
pub(super) fn assemble(mut points: Vec<G1Affine>, size: usize) -> Vec<G1Affine> {
    let mut part = 1;
    while part < size {
        points = assemble_once(&points, part);
        part *= PIECES;
    }
    points
}

/// Combines every seven vectors of `part` points to one of four times as many: yᵢ = Σ aⁱ·b³⁻ⁱ·pᵥ over the points a/b.
fn assemble_once(points: &[G1Affine], part: usize) -> Vec<G1Affine> {
    let of_value = |value: usize| -> Vec<G1Affine> {
        points.chunks_exact(VALUES * part).flat_map(|each| &each[value * part..][..part]).copied().collect()
    };
    let [mut first, mut ones, mut minus_ones, mut twos, mut minus_twos, mut half, mut last] =
        std::array::from_fn(of_value);
    butterflies(&mut ones, &mut minus_ones); // sums and differences from here on
    butterflies(&mut twos, &mut minus_twos);
    let (ones_differ, twos_differ) = (&mut minus_ones, &mut minus_twos);

    add_all(&mut first, &ones);
    add_all(&mut first, &twos);
    add_all(&mut last, ones_differ);
    add_all(&mut last, &half);
    double_all(&mut half);
    add_all(&mut ones, &half);
    double_all(&mut half);
    add_all(ones_differ, &half);
    double_all(&mut half);
    add_all(&mut first, &half);
    double_all(&mut twos);
    double_all(&mut twos);
    add_all(&mut ones, &twos);
    double_all(twos_differ);
    add_all(ones_differ, twos_differ);
    double_all(twos_differ);
    double_all(twos_differ);
    add_all(&mut last, twos_differ);

    let pieces = [&first, ones_differ, &ones, &last].map(|piece| piece.chunks_exact(part));
    let [first, second, third, last] = pieces;
    first
        .zip(second)
        .zip(third)
        .zip(last)
        .flat_map(|(((a, b), c), d)| [a, b, c, d].into_iter().flatten().copied())
        .collect()
}
