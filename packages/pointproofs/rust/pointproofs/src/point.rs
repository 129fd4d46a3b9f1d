//! Points: their bytes, and arithmetic on them. Reading is strict: canonical coordinates and flags, on the curve, in the
//! subgroup. `bls12_381` refuses everything else.

use bls12_381::{G1Affine, G2Affine};
use group::Group;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::error::Error;
use crate::statement::COEFFICIENT_BYTES;

/// Bytes of a point of G1, compressed.
pub const G1_BYTES: usize = 48;
/// Bytes of a point of G1, both coordinates.
pub const G1_WHOLE_BYTES: usize = 96;
/// Bytes of a point of G2, compressed.
pub const G2_BYTES: usize = 96;
/// Bytes of a point of G2, both coordinates.
pub const G2_WHOLE_BYTES: usize = 192;

/// Reads a point of G1 that is not the identity.
pub(crate) fn g1(what: &'static str, bytes: &[u8; G1_BYTES]) -> Result<G1Affine, Error> {
    let point: Option<G1Affine> = G1Affine::from_compressed(bytes).into();
    point.filter(|point| !bool::from(point.is_identity())).ok_or(Error::Point(what))
}

/// Reads a point of G2 that is not the identity.
pub(crate) fn g2(what: &'static str, bytes: &[u8; G2_BYTES]) -> Result<G2Affine, Error> {
    let point: Option<G2Affine> = G2Affine::from_compressed(bytes).into();
    point.filter(|point| !bool::from(point.is_identity())).ok_or(Error::Point(what))
}

/// factor·point; the factor is little-endian. The steps are the same whatever both are: windows of four bits, and every
/// window reads all sixteen multiples.
pub(crate) fn multiply<G: Group + ConditionallySelectable>(point: &G, factor: &[u8]) -> G {
    let mut multiples = [G::identity(); 16];
    for n in 1..16 {
        multiples[n] = multiples[n - 1] + point;
    }
    let mut product = G::identity();
    for window in factor.iter().rev().flat_map(|byte| [byte >> 4, byte & 15]) {
        for _ in 0..4 {
            product = product.double();
        }
        let mut chosen = G::identity();
        for (number, multiple) in (0u8..).zip(&multiples) {
            chosen.conditional_assign(multiple, number.ct_eq(&window));
        }
        product += chosen;
    }
    product
}

/// Σ weight·point. For public values only: its time depends on the weights.
pub(crate) fn weighted_sum<G: Group>(points: &[G], weights: &[[u8; COEFFICIENT_BYTES]]) -> G {
    let mut sum = G::identity();
    for window in (0..2 * COEFFICIENT_BYTES).rev() {
        for _ in 0..4 {
            sum = sum.double();
        }
        let mut buckets = [G::identity(); 16];
        for (point, weight) in points.iter().zip(weights) {
            let digit = weight[window / 2] >> (window % 2 * 4) & 15;
            if digit != 0 {
                buckets[usize::from(digit)] += point;
            }
        }
        // Σ d·bucket_d, as the sum of all sums from the last bucket down.
        let mut from_here = G::identity();
        for bucket in buckets[1..].iter().rev() {
            from_here += bucket;
            sum += from_here;
        }
    }
    sum
}
