//! Measures what this crate's functions cost, in processor time of one core. Run it in packages/pointproofs/rust:
//! `cargo run --release -p keyhush-pointproofs --example figures`
//!
//! First it compares the two crates of the curve, then it measures this crate.

use std::hint::black_box;

use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, CurveGroup};
use bls12_381::{G1Affine, G1Projective, G2Affine, G2Prepared, Scalar, multi_miller_loop};
use cpu_time::ProcessTime;
use keyhush_pointproofs::prover::{Prover, prove_together};
use keyhush_pointproofs::transcript::Transcript;
use keyhush_pointproofs::{Key, Rows, Shape, Statement, verify};

/// Prints the milliseconds of a run, measured for at least half a second.
fn measure<T>(what: &str, each: f64, mut run: impl FnMut() -> T) {
    let start = ProcessTime::now();
    let mut runs = 0;
    while runs == 0 || start.elapsed().as_secs_f64() < 0.5 {
        black_box(run());
        runs += 1;
    }
    println!("{:>10.3} ms  {what}", start.elapsed().as_secs_f64() * 1000.0 / f64::from(runs) / each);
}

fn main() {
    curves();
    let begun = Transcript::decode(&Transcript::begin(true)).unwrap().verify(&[1; 32]).unwrap();
    measure("ceremony: contribute", 1.0, || begun.contribute("Ada", &[1; 32]).unwrap());
    let bytes = begun.contribute("Ada", &[1; 32]).unwrap().transcript;
    measure("ceremony: verify", 1.0, || Transcript::decode(&bytes).unwrap().verify(&[1; 32]).unwrap());
    let transcript = Transcript::decode(&bytes).unwrap().verify(&[1; 32]).unwrap();
    measure("prover: start", 1.0, || Prover::new(&transcript).unwrap());
    let prover = Prover::new(&transcript).unwrap();

    let (q, m, l) = (16, 4 * 256, 32);
    let shape = Shape::new(q, m, l).unwrap();
    let mut records = vec![0; q * m * l];
    blake3::Hasher::new().update(b"records").finalize_xof().fill(&mut records);
    let partition = |q: usize| prover.prove(&shape, q, &records[q * m * l..][..m * l]).unwrap();
    measure("prover: commit and open, a record", 1024.0, || partition(0));
    let made: Vec<_> = (0..q).map(partition).collect();
    let lists: Vec<u8> = made.iter().flat_map(|partition| partition.row_list.clone()).collect();
    let key_bytes = transcript.key().unwrap();
    let key = Key::decode(&key_bytes, blake3::hash(&key_bytes).as_bytes(), true).unwrap();
    let rows = Rows::decode(shape, &key, &lists).unwrap();
    let offsets: Vec<u16> = (0..q).map(|q| (q * 61) as u16).collect();
    let place = |q: usize| q * m + usize::from(offsets[q]);
    let found: Vec<u8> = (0..q).flat_map(|q| &records[place(q) * l..][..l]).copied().collect();
    let openings: Vec<[u8; 96]> = (0..q).map(|q| made[q].openings.as_chunks().0[usize::from(offsets[q])]).collect();
    let (manifest, header) = ([1; 32], [2; 40]);
    let statement = Statement::new(shape, &manifest, &header, &offsets, &found).unwrap();
    measure("server: one proof, Q = 16", 1.0, || prove_together(&statement, &openings).unwrap());
    let proof = prove_together(&statement, &openings).unwrap();
    assert!(verify(&key, &rows, &statement, &proof).unwrap());
    measure("client: verify both answers of a lookup, Q = 16", 0.5, || {
        verify(&key, &rows, &statement, &proof).unwrap()
    });
    measure("client: read the key", 1.0, || {
        Key::decode(&key_bytes, blake3::hash(&key_bytes).as_bytes(), true).unwrap()
    });
}

/// A product of 18 pairings (an answer of 16 entries takes as many), and a multiplication in G1.
fn curves() {
    let ark_1: Vec<_> = (1..19u64).map(|n| (ark_bls12_381::G1Affine::generator() * fr(n)).into_affine()).collect();
    let ark_2: Vec<_> = (1..19u64).map(|n| (ark_bls12_381::G2Affine::generator() * fr(n)).into_affine()).collect();
    measure("ark-bls12-381: a pair of 18", 18.0, || ark_bls12_381::Bls12_381::multi_pairing(&ark_1, &ark_2));
    let large = -fr(1) / fr(3);
    measure("ark-bls12-381: multiply in G1", 1.0, || ark_1[5] * large);
    let zk_1: Vec<_> = (1..19).map(|n| G1Affine::from(G1Affine::generator() * Scalar::from(n))).collect();
    let zk_2: Vec<_> = (1..19).map(|n| G2Affine::from(G2Affine::generator() * Scalar::from(n))).collect();
    measure("bls12_381: a pair of 18", 18.0, || {
        let lines: Vec<_> = zk_2.iter().map(|&point| G2Prepared::from(point)).collect();
        multi_miller_loop(&zk_1.iter().zip(&lines).collect::<Vec<_>>()).final_exponentiation()
    });
    let large = -Scalar::from(3).invert().unwrap();
    measure("bls12_381: multiply in G1", 1.0, || G1Projective::from(zk_1[5]) * large);
}

fn fr(number: u64) -> ark_bls12_381::Fr {
    number.into()
}
