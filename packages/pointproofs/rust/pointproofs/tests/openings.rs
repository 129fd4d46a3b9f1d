//! Tests that all openings at once equal those by the definition: every one at m = 4 and 16, from the powers alone; every one at
//! m = 256, with a known α (`npm test`: every 17th).

mod common;

use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, Field, PrimeField, UniformRand};
use common::thorough;
use keyhush_pointproofs::prover::Openings;

const ALPHA: u64 = 0x9e37_79b9_7f4a_7c15;

/// [αᵏ]₁ at k − 1. At k = m + 1, which nobody has, any point.
fn powers(m: usize) -> Vec<G1Affine> {
    let exponents = (1..=2 * m as u64).map(|k| Fr::from(ALPHA).pow([k]));
    let mut powers: Vec<_> = exponents.map(|power| (G1Affine::generator() * power).into_affine()).collect();
    powers[m] = G1Affine::generator();
    powers
}

/// Rows that could make additions exceptional: zeros, one record, equal ones, opposite ones.
fn rows(m: usize) -> Vec<Vec<Fr>> {
    let mut random = ark_std::test_rng();
    let one_at = |at: usize| (0..m).map(|n| Fr::from(u64::from(n == at))).collect::<Vec<_>>();
    let mut rows = vec![vec![Fr::ZERO; m], vec![Fr::ONE; m], vec![-Fr::ONE; m], one_at(0), one_at(m - 1)];
    rows.push((0..m).map(|n| if n % 2 == 0 { Fr::ONE } else { -Fr::ONE }).collect());
    rows.push((0..m as u64).map(Fr::from).collect());
    rows.extend((0..3).map(|_| (0..m).map(|_| Fr::rand(&mut random)).collect()));
    rows.push((0..m).map(|n| if n < m / 2 { Fr::rand(&mut random) } else { Fr::ZERO }).collect());
    rows
}

#[test]
fn all_openings_are_the_naive_ones_from_the_powers() {
    for m in [4, 16] {
        let (powers, rows) = (powers(m), rows(m));
        let openings = Openings::new(m, &powers).of_rows(&rows);
        assert_eq!(openings.len(), rows.len() * m);
        for (row, openings) in rows.iter().zip(openings.chunks_exact(m)) {
            for (i, opening) in openings.iter().enumerate() {
                let others = (0..m).filter(|&j| j != i);
                let naive: G1Projective = others.map(|j| powers[m + j - i] * row[j]).sum();
                assert_eq!(*opening, naive.into_affine(), "m = {m}, opening {i}");
            }
        }
    }
}

#[test]
fn all_openings_of_a_whole_row_are_those_of_a_known_exponent() {
    let m = 256;
    let rows = rows(m);
    let openings = Openings::new(m, &powers(m)).of_rows(&rows);
    let powers: Vec<Fr> = (0..=2 * m as u64).map(|k| Fr::from(ALPHA).pow([k])).collect();
    for (row, openings) in rows.iter().zip(openings.chunks_exact(m)) {
        for (i, opening) in openings.iter().enumerate().step_by(if thorough() { 1 } else { 17 }) {
            let others = (0..m).filter(|&j| j != i);
            let exponent: Fr = others.map(|j| row[j] * powers[m + 1 + j - i]).sum();
            assert_eq!(*opening, (G1Affine::generator() * exponent).into_affine(), "opening {i}");
        }
    }
}

#[test]
fn scalars_are_below_the_order_whatever_is_hashed() {
    let record = keyhush_pointproofs::scalar::record_bytes(7, b"record");
    let (ark, other) = (Fr::from_le_bytes_mod_order(&record), keyhush_pointproofs::scalar::of_record(7, b"record"));
    assert_eq!(ark, Fr::from_le_bytes_mod_order(&other.to_bytes()));
    assert_eq!(ark, keyhush_pointproofs::prover::of_record(7, b"record"));
}
