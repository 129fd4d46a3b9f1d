//! Σ ω^(−fk)·P_f for all k, of points: the Fourier transform in the exponent that all openings at once are made of.

use ark_bls12_381::{Fr, G1Affine};
use ark_ff::{FftField, Field, One};

use super::affine::{Factor, butterflies, multiply_all};

/// The transform of up to `size` points, a power of two.
pub(super) struct Fourier {
    size: usize,
    pub(super) root: Fr,
    /// ω^(−k) for k < size/2
    twiddles: Vec<Factor>,
}

impl Fourier {
    pub(super) fn new(size: usize) -> Self {
        // The field has a root of every order 2ᵏ up to 2³².
        let root = Fr::get_root_of_unity(size as u64).unwrap_or(Fr::one());
        let inverse = root.inverse().unwrap_or(Fr::one());
        let powers = std::iter::successors(Some(Fr::one()), |power| Some(*power * inverse));
        Fourier { size, root, twiddles: powers.take(size / 2).map(Factor::new).collect() }
    }

    /// ω^(−k), ω being of order `length`.
    pub(super) fn twiddle(&self, length: usize, k: usize) -> &Factor {
        &self.twiddles[self.size / length * k]
    }

    /// Transforms every `length` points, a power of two, by themselves. In time, decimated: of all of them together one level
    /// after the other, so that inversions are shared.
    pub(super) fn transform(&self, points: &mut [G1Affine], length: usize) {
        for block in points.chunks_exact_mut(length) {
            for at in 0..length {
                let other = at.reverse_bits() >> ((usize::BITS - length.trailing_zeros()) % usize::BITS);
                if at < other {
                    block.swap(at, other);
                }
            }
        }
        let mut half = 1;
        while half < length {
            let turned: Vec<usize> = (0..points.len()).filter(|at| at & half != 0 && at % half != 0).collect();
            let mut turning: Vec<G1Affine> = turned.iter().map(|&at| points[at]).collect();
            let factors: Vec<&Factor> = turned.iter().map(|at| self.twiddle(2 * half, at % half)).collect();
            multiply_all(&mut turning, &factors);
            for (&at, point) in turned.iter().zip(turning) {
                points[at] = point;
            }
            let firsts: Vec<usize> = (0..points.len()).filter(|at| at & half == 0).collect();
            let mut pairs: Vec<_> = firsts.iter().map(|&at| (points[at], points[at + half])).collect();
            butterflies(&mut pairs);
            for (at, pair) in firsts.into_iter().zip(pairs) {
                (points[at], points[at + half]) = pair;
            }
            half *= 2;
        }
    }
}

/// Σ ω^(fk)·x_k for all f, of scalars, in place of them.
pub(super) fn transform_scalars(values: &mut [Fr], root: Fr) {
    let length = values.len();
    if length == 1 {
        return;
    }
    let (mut even, mut odd): (Vec<_>, Vec<_>) = values.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    transform_scalars(&mut even, root.square());
    transform_scalars(&mut odd, root.square());
    let mut turn = Fr::one();
    for f in 0..length / 2 {
        (values[f], values[f + length / 2]) = (even[f] + turn * odd[f], even[f] - turn * odd[f]);
        turn *= root;
    }
}
