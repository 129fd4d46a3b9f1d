//! How much an answer's error tells about the client's secret, at most: the builder's check (docs/protocol/one-server.md, Norms).
//!
//! An answer's error is L·(secret, key errors, selector errors) + roundings, for an integer matrix L that depends on the database. A
//! verdict on a lie depends on this error plus the client's own noise, of deviation 2^36.57. The Hint-MLWE reduction (Kim, Lee, Seo, Song,
//! CRYPTO 2023) says how much of the secret's entropy is left, from the largest singular value of L, scaled by what is drawn. Lanczos'
//! iteration finds it: each step is an answer and its transpose, both exact modulo q, because vectors are rounded to integers of norm 2^10.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, clippy::cast_precision_loss)] // vectors are rounded to integers on purpose

use keyhush_kernels::modular::{MODULUS, reduced};

use super::client::random_part;
use super::digits::{Doubled, LANES, doubled};
use super::ring::{Element, Matrices, Multiplier, add_modulo, modulo};
use super::server::Prepared;
use super::{GADGET_DROP, HintParts};
use crate::error::Error;

/// Deviations of the secret, of the key's errors, and of the selectors'.
const DEVIATIONS: [f64; 3] = [12.8; 3];
/// Singular values up to 2^37.7 are hidden by the own noise. This is the square's bound: 2^75.4.
const LIMIT_SQUARED: f64 = 4.98495e22;
/// Steps of the iteration. The estimate comes from below; after so many steps, less than 1 % is missing.
const STEPS: usize = 20;
/// Norm of the integer vectors.
const SCALE: f64 = 1_024.0;
const MIDDLE: i32 = super::entries::MIDDLE as i32;

/// The check of a prepared database, in the making.
pub struct Norm {
    /// the a_k and their conjugates, the same of the key's public element, and of the hint's elements
    multipliers: Vec<Multiplier>,
    transposed: Vec<Multiplier>,
    key_multipliers: [Multiplier; 2],
    random: Vec<[Multiplier; 2]>,
    /// orthonormal vectors
    basis: Vec<Vec<f64>>,
    /// the symmetric tridiagonal matrix: its diagonal, and the squares beside it
    diagonal: Vec<f64>,
    beside: Vec<f64>,
}

impl Norm {
    /// Begins the check.
    #[must_use]
    pub fn new(database: &Prepared) -> Self {
        let (shape, ring) = (&database.shape, &database.ring);
        let Matrices { selectors, key } = Matrices::new(ring, &database.context.matrix_seed(), shape.chunks());
        let elements = HintParts::new(shape, &database.hint).map_or(&[][..], |hint| hint.elements);
        let random = elements.chunks_exact(shape.element_bytes()).map(|part| {
            let element = random_part(ring, part);
            [element.multiplier(), element.conjugate().multiplier()]
        });
        // Any start does that no database can be orthogonal to by design.
        let start =
            (0..shape.rows() as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 - 8_388_608.0);
        Norm {
            multipliers: selectors.iter().map(Element::multiplier).collect(),
            transposed: selectors.iter().map(|element| element.conjugate().multiplier()).collect(),
            key_multipliers: [key.multiplier(), key.conjugate().multiplier()],
            random: random.collect(),
            basis: vec![normalised(start.collect()).0],
            diagonal: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// Does the next step. Returns whether there is more to do.
    ///
    /// # Errors
    /// [`Error::Phase`] for another database.
    pub fn step(&mut self, database: &Prepared) -> Result<bool, Error> {
        let Some(vector) = self.basis.last().filter(|vector| vector.len() == database.shape.rows()) else {
            return Err(Error::Phase("the check of norms was begun for another database"));
        };
        if self.diagonal.len() >= STEPS {
            return Ok(false);
        }
        let mut next = self.square(database, vector);
        self.diagonal.push(dot(&next, vector));
        for _ in 0..2 {
            for earlier in &self.basis {
                let part = dot(&next, earlier);
                next.iter_mut().zip(earlier).for_each(|(x, y)| *x -= part * y);
            }
        }
        let (next, norm) = normalised(next);
        self.beside.push(norm * norm);
        self.basis.push(next);
        Ok(self.diagonal.len() < STEPS)
    }

    /// The square of the largest singular value, as far as it is known.
    fn squared(&self) -> f64 {
        // Bisection: an upper bound of all eigenvalues has no negative pivot.
        let is_above = |bound: f64| {
            let mut pivot = 1.0;
            self.diagonal.iter().enumerate().all(|(i, diagonal)| {
                let beside = if i == 0 { 0.0 } else { self.beside[i - 1] };
                pivot = bound - diagonal - beside / pivot;
                pivot > 0.0
            })
        };
        let (mut low, mut high) = (0.0, 1.0);
        while !is_above(high) {
            high *= 2.0;
        }
        for _ in 0..52 {
            let middle = f64::midpoint(low, high);
            if is_above(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// The logarithm, to base 2, of the norm.
    #[must_use]
    pub fn log2(&self) -> f64 {
        self.squared().log2() / 2.0
    }

    /// Whether the own noise hides what an answer's error tells. Only the last step decides.
    #[must_use]
    pub fn hides(&self) -> bool {
        self.diagonal.len() == STEPS && self.squared() <= LIMIT_SQUARED
    }

    /// L·S²·Lᵀ·`vector`, for a vector of norm 1. S scales by the deviations.
    fn square(&self, database: &Prepared, vector: &[f64]) -> Vec<f64> {
        let mut wide = self.transpose(database, &rounded(vector, SCALE));
        for (part, deviation) in wide.iter_mut().zip(DEVIATIONS) {
            for value in part {
                *value *= deviation * deviation;
            }
        }
        let norm = wide.iter().map(|part| dot(part, part)).sum::<f64>().sqrt().max(1.0);
        let parts = wide.map(|part| rounded(&part, SCALE / norm));
        let scale = norm / (SCALE * SCALE);
        self.forward(database, &parts).into_iter().map(|value| value as f64 * scale).collect()
    }

    /// L·(secret, key errors, selector errors).
    fn forward(&self, database: &Prepared, [secret, key, selectors]: &[Vec<i64>; 3]) -> Vec<i64> {
        let (shape, ring) = (&database.shape, &database.ring);
        let secret = element(database, secret);
        let next = secret.rotated(1);
        let mut part = element(database, key);
        part.add(&next.times(1 << GADGET_DROP));
        part.subtract(&self.key_multipliers[0].times(&secret));
        let mut sent = Vec::with_capacity(shape.columns);
        for (public, errors) in self.multipliers.iter().zip(selectors.chunks(shape.degree)) {
            let product = ring.coefficients(&public.times(&secret));
            let sums =
                errors.iter().zip(product.iter()).map(|(&error, product)| add_modulo(modulo(error), MODULUS - product));
            sent.extend(sums);
        }
        let half = shape.degree / 2;
        let random =
            self.random.iter().flat_map(|[random, _]| ring.coefficients(&random.times(&secret))[..half].to_vec());
        let answer = database.pack(&doubled(&part), database.entries.exact(&sent));
        answer.iter().zip(random).map(|(fixed, random)| centred((fixed + random) % MODULUS)).collect()
    }

    /// Lᵀ·`rows`.
    fn transpose(&self, database: &Prepared, rows: &[i64]) -> [Vec<f64>; 3] {
        let (shape, ring) = (&database.shape, &database.ring);
        let half = shape.degree / 2;
        let mut secret = Element::zero(shape.degree);
        let mut sums: Doubled = [0, 1].map(|_| vec![0; 2 * shape.degree]);
        for (output, (rows, [_, random])) in rows.chunks_exact(half).zip(&self.random).enumerate() {
            let rows = element(database, &[rows, &vec![0; half]].concat());
            secret.add(&random.times(&rows));
            spread(database, output, &rows, &mut sums);
        }
        let mut part = Element::zero(shape.degree);
        for (m, sums) in sums.iter().enumerate() {
            for (slots, twice) in part.modulo_mut(m).chunks_exact_mut(half).zip(sums.chunks_exact(shape.degree)) {
                for (k, slot) in slots.iter_mut().enumerate() {
                    *slot = reduced(u64::from(twice[k]) + u64::from(twice[half + k]), m);
                }
            }
        }
        secret.add(&part.rotated(half - 1).times(1 << GADGET_DROP));
        secret.subtract(&self.key_multipliers[1].times(&part));
        let key = ring.coefficients(&part).iter().map(|&value| centred(value) as f64).collect();
        // At most 2^14 products of 3 and 10 bits.
        let mut sums = vec![0i32; shape.columns];
        let mut entries = vec![0; shape.degree];
        for (strip, sums) in sums.chunks_mut(shape.degree).enumerate() {
            let entries = &mut entries[..sums.len()];
            for (row, &factor) in rows.iter().enumerate() {
                database.entries.row(row, strip * shape.degree, entries);
                let factor = factor as i32;
                sums.iter_mut().zip(&*entries).for_each(|(sum, &entry)| *sum += factor * (i32::from(entry) - MIDDLE));
            }
        }
        let selectors: Vec<i64> = sums.into_iter().map(i64::from).collect();
        for (public, sums) in self.transposed.iter().zip(selectors.chunks(shape.degree)) {
            let mut padded = sums.to_vec();
            padded.resize(shape.degree, 0);
            secret.subtract(&public.times(&element(database, &padded)));
        }
        let secret = ring.coefficients(&secret).iter().map(|&value| centred(value) as f64).collect();
        [secret, key, selectors.into_iter().map(|value| value as f64).collect()]
    }
}

/// The transpose of packing: to the key's slot k + j, each sign's beginning at its half, adds a digit at slot k of the other sign times
/// the rows' value at k.
#[allow(clippy::needless_range_loop)] // m numbers the prime
fn spread(database: &Prepared, output: usize, rows: &Element, sums: &mut Doubled) {
    let shape = &database.shape;
    let (degree, half) = (shape.degree, shape.degree / 2);
    let mut totals = vec![0u64; half + LANES];
    for m in 0..2 {
        for block in 0..degree / LANES {
            let sign = block * LANES / half; // of the digits
            let (from, to) = (block * LANES % half, (1 - sign) * degree + block * LANES % half);
            let values = &rows.modulo(m)[(1 - sign) * half + from..][..LANES];
            // At most as many products as lanes meet in a total: it stays below 2^50.
            totals.fill(0);
            for (j, digits) in database.digits.steps(output, m, block).enumerate() {
                for ((total, digit), value) in totals[j..].iter_mut().zip(digits).zip(values) {
                    *total += u64::from(digit) * u64::from(*value);
                }
            }
            for (sum, total) in sums[m][to..].iter_mut().zip(&totals).take(half + LANES) {
                *sum = reduced(u64::from(*sum) + total, m);
            }
        }
    }
}

fn element(database: &Prepared, coefficients: &[i64]) -> Element {
    database.ring.of_unsigned(&coefficients.iter().map(|&value| modulo(value)).collect::<Vec<_>>())
}

fn centred(value: u64) -> i64 {
    if value > MODULUS / 2 { value as i64 - MODULUS as i64 } else { value as i64 }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn normalised(mut vector: Vec<f64>) -> (Vec<f64>, f64) {
    let norm = dot(&vector, &vector).sqrt();
    let factor = if norm > 0.0 { 1.0 / norm } else { 0.0 };
    for value in &mut vector {
        *value *= factor;
    }
    (vector, norm)
}

fn rounded(vector: &[f64], scale: f64) -> Vec<i64> {
    vector.iter().map(|value| (value * scale).round_ties_even() as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_server::prepare::Preparing;
    use crate::one_server::{Context, Of, Shape};
    use crate::random::{ChaCha, Uniform};

    fn database(degree: usize, records: u64) -> Prepared {
        let shape = Shape::of_degree(degree, records, 20).unwrap();
        let context = Context { database_id: [1; 16], generation: 1, of: Of::Records };
        let mut preparing = Preparing::new(shape, context, 0).unwrap();
        preparing.put(&(0..records * 20).map(|i| ((i * i) >> 3) as u8).collect::<Vec<_>>()).unwrap();
        while preparing.step().unwrap() {}
        preparing.finish().unwrap()
    }

    fn lengths(database: &Prepared) -> [usize; 3] {
        [database.shape.degree, database.shape.degree, database.shape.columns]
    }

    #[test]
    fn the_transpose_is_one() {
        let mut source = ChaCha::new(&[4; 32], 0);
        let mut small = |count: usize| (0..count).map(|_| i64::from(source.below(2001)) - 1000).collect::<Vec<_>>();
        for (degree, records) in [(32, 5), (64, 200), (128, 400)] {
            let database = database(degree, records);
            let norm = Norm::new(&database);
            let wide = lengths(&database).map(&mut small);
            let rows = small(database.shape.rows());
            let product =
                |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(x, y)| i128::from(*x) * i128::from(*y)).sum::<i128>();
            let back = norm.transpose(&database, &rows).map(|part| rounded(&part, 1.0));
            let there = product(&norm.forward(&database, &wide), &rows);
            assert_eq!(there, wide.iter().zip(&back).map(|(a, b)| product(a, b)).sum::<i128>(), "degree {degree}");
        }
    }

    #[test]
    fn errors_count_modulo_q_beside_any_product() {
        let database = database(32, 60);
        let norm = Norm::new(&database);
        let [secret, key, selectors] = lengths(&database);
        let with = |error: i64| norm.forward(&database, &[vec![1; secret], vec![0; key], vec![error; selectors]]);
        assert_eq!(with(1 - MODULUS as i64), with(1));
    }

    #[test]
    fn the_norm_is_that_of_the_matrix_written_out() {
        let database = database(32, 60);
        let norm = Norm::new(&database);
        let matrix: Vec<Vec<f64>> = (0..3)
            .flat_map(|part| (0..lengths(&database)[part]).map(move |at| (part, at)))
            .map(|(part, at)| {
                let mut unit = lengths(&database).map(|length| vec![0; length]);
                unit[part][at] = 1;
                norm.forward(&database, &unit).into_iter().map(|value| DEVIATIONS[part] * value as f64).collect()
            })
            .collect();
        let mut vector = vec![1.0; database.shape.rows()];
        let mut value = 0.0;
        for _ in 0..3000 {
            let wide: Vec<f64> = matrix.iter().map(|row| dot(row, &vector)).collect();
            let mut next = vec![0.0; vector.len()];
            for (row, factor) in matrix.iter().zip(wide) {
                next.iter_mut().zip(row).for_each(|(next, value)| *next += factor * value);
            }
            (vector, value) = normalised(next);
        }
        let mut found = norm;
        while found.step(&database).unwrap() {}
        assert!((found.log2() - value.log2() / 2.0).abs() < 0.01, "2^{} and 2^{}", found.log2(), value.log2() / 2.0);
    }

    #[test]
    fn a_database_that_is_not_what_was_prepared_fails() {
        let mut honest = database(64, 200);
        let mut norm = Norm::new(&honest);
        assert!(!norm.hides());
        while norm.step(&honest).unwrap() {}
        assert!(norm.hides());
        assert!(matches!(norm.step(&database(32, 60)), Err(Error::Phase(_))));
        honest.entries.fill();
        let mut norm = Norm::new(&honest);
        while norm.step(&honest).unwrap() {}
        assert!(!norm.hides(), "2^{}", norm.log2());
        assert!((LIMIT_SQUARED.log2() - 75.4).abs() < 1e-4);
    }
}
