//! Many additions of points at a time, in affine coordinates: one inversion in the field is shared by all of them, and an
//! addition then costs six multiplications instead of eleven. For what is public: how long it takes depends on the points.

use ark_bls12_381::{Fq, Fr, G1Affine, g1};
use ark_ec::AffineRepr;
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ff::{BigInteger, Field, PrimeField, Zero, batch_inversion};

/// The slope of the line through two points, or the tangent's; or the sum itself, where there is no such line.
enum Line {
    Slope(Fq),
    Sum(G1Affine),
}

/// Numerator of the line's slope, and its denominator; zero where there is none.
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

/// Where a line through `a` and a point with x-coordinate `other_x` meets the curve again, mirrored.
fn third(a: &G1Affine, other_x: Fq, slope: Fq) -> G1Affine {
    let x = slope.square() - a.x - other_x;
    G1Affine::new_unchecked(x, slope * (a.x - x) - a.y)
}

/// `into[at]` += point, for each (at, point); no place comes twice.
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

/// (a + b, a − b) of each pair. The two lines have one denominator.
pub(super) fn butterflies(pairs: &mut [(G1Affine, G1Affine)]) {
    let mut inverses: Vec<Fq> =
        pairs.iter().map(|(a, b)| if a.is_zero() || b.is_zero() { Fq::zero() } else { b.x - a.x }).collect();
    batch_inversion(&mut inverses);
    for ((a, b), inverse) in pairs.iter_mut().zip(inverses) {
        (*a, *b) = if inverse.is_zero() {
            ((*a + *b).into(), (*a - *b).into())
        } else {
            (third(a, b.x, (b.y - a.y) * inverse), third(a, b.x, -(b.y + a.y) * inverse))
        };
    }
}

/// Bits of a half of a scalar, and one more.
const DIGITS: usize = 130;

/// A factor that many points are multiplied by: halves k₁ + λk₂ of 128 bits, λ being what the curve's endomorphism
/// multiplies by (papers: Gallant, Lambert, Vanstone, CRYPTO 2001), each in signed digits 0, ±1, ±3, ±5, ±7 of which no two
/// within four are not zero.
pub(super) struct Factor([[i8; DIGITS]; 2]);

impl Factor {
    pub(super) fn new(factor: Fr) -> Self {
        let (first, second) = g1::Config::scalar_decomposition(factor);
        Factor([first, second].map(|(positive, half)| digits(positive, half)))
    }
}

fn digits(positive: bool, half: Fr) -> [i8; DIGITS] {
    let mut rest = half.into_bigint();
    let mut digits = [0; DIGITS];
    for digit in &mut digits {
        if rest.is_odd() {
            let low = (rest.0[0] & 15) as i8;
            let value = if low > 8 { low - 16 } else { low };
            let change = ark_ff::BigInt::from(u64::from(value.unsigned_abs()));
            if value < 0 {
                rest.add_with_carry(&change)
            } else {
                rest.sub_with_borrow(&change)
            };
            *digit = if positive { value } else { -value };
        }
        rest.div2();
    }
    digits
}

/// Multiplies every point by its factor.
pub(super) fn multiply_all(points: &mut [G1Affine], factors: &[&Factor]) {
    // 1, 3, 5 and 7 times each
    let mut twice = points.to_vec();
    double_all(&mut twice);
    let mut multiples = vec![points.to_vec()];
    for _ in 0..3 {
        let mut next = multiples[multiples.len() - 1].clone();
        add_all(&mut next, &twice);
        multiples.push(next);
    }
    points.fill(G1Affine::zero());
    let (mut places, mut addends) = (Vec::with_capacity(points.len()), Vec::with_capacity(points.len()));
    for place in (0..DIGITS).rev() {
        double_all(points);
        for half in 0..2 {
            places.clear();
            addends.clear();
            for (at, factor) in factors.iter().enumerate() {
                let digit = factor.0[half][place];
                if digit != 0 {
                    let multiple = multiples[usize::from(digit.unsigned_abs() / 2)][at];
                    let multiple = if half == 1 { g1::Config::endomorphism_affine(&multiple) } else { multiple };
                    places.push(at);
                    addends.push(if digit < 0 { -multiple } else { multiple });
                }
            }
            add_at(points, &places, &addends);
        }
    }
}
