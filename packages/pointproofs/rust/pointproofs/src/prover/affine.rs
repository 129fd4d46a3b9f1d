//! Adds many points at once, in affine coordinates. All additions share one inversion in the field, so each costs six
//! multiplications instead of eleven. For public values only: the time depends on the points.

use ark_bls12_381::{Fq, G1Affine};
use ark_ec::AffineRepr;
use ark_ff::{Field, Zero, batch_inversion};

/// The slope of the line through two points, or of the tangent. If there is no such line, the sum itself.
enum Line {
    Slope(Fq),
    Sum(G1Affine),
}

/// The numerator of the line's slope, and its denominator; the denominator is zero if there is no line.
fn line(a: &G1Affine, b: &G1Affine) -> (Line, Fq) {
    if a.is_zero() || b.is_zero() {
        return (Line::Sum(if a.is_zero() { *b } else { *a }), Fq::zero());
    }
    if a.x != b.x {
        return (Line::Slope(b.y - a.y), b.x - a.x);
    }
    if a.y != b.y {
        return (Line::Sum(G1Affine::zero()), Fq::zero());
    }
    let square = a.x.square();
    (Line::Slope(square + square + square), a.y + a.y) // no point of odd order has y = 0
}

/// The third point in which a line through `a` and a point with x-coordinate `other_x` meets the curve, mirrored.
fn third(a: &G1Affine, other_x: Fq, slope: Fq) -> G1Affine {
    let x = slope.square() - a.x - other_x;
    G1Affine::new_unchecked(x, slope * (a.x - x) - a.y)
}

/// `into[at]` += point, for each (at, point). All places are different.
pub(super) fn add_at(into: &mut [G1Affine], places: &[usize], points: &[G1Affine]) {
    let (lines, mut inverses): (Vec<_>, Vec<_>) = places.iter().zip(points).map(|(&at, b)| line(&into[at], b)).unzip();
    batch_inversion(&mut inverses);
    for (((line, inverse), &at), b) in lines.into_iter().zip(inverses).zip(places).zip(points) {
        into[at] = match line {
            Line::Slope(numerator) => third(&into[at], b.x, numerator * inverse),
            Line::Sum(sum) => sum,
        };
    }
}

/// `into[n]` += `points[n]`
pub(super) fn add_all(into: &mut [G1Affine], points: &[G1Affine]) {
    let places: Vec<usize> = (0..into.len()).collect();
    add_at(into, &places, points);
}

/// Doubles every point.
pub(super) fn double_all(points: &mut [G1Affine]) {
    let same = points.to_vec();
    add_all(points, &same);
}

/// Replaces each a and b by a + b and a − b. Both lines have the same denominator.
pub(super) fn butterflies(firsts: &mut [G1Affine], seconds: &mut [G1Affine]) {
    let pairs = firsts.iter().zip(seconds.iter());
    let mut inverses: Vec<Fq> =
        pairs.map(|(a, b)| if a.is_zero() || b.is_zero() { Fq::zero() } else { b.x - a.x }).collect();
    batch_inversion(&mut inverses);
    for ((a, b), inverse) in firsts.iter_mut().zip(seconds).zip(inverses) {
        (*a, *b) = if inverse.is_zero() {
            ((*a + *b).into(), (*a - *b).into())
        } else {
            (third(a, b.x, (b.y - a.y) * inverse), third(a, b.x, -(b.y + a.y) * inverse))
        };
    }
}
