//! Tests the authenticated baselines: lookups, and lies.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

use papers::apir::{dpf, matrix};
use papers::channel::Channel;
use papers::error::Error;
use papers::prg::{AesTree, ChaChaTree, Doubling};
use papers::random::{Random, Uniform};
use papers::records::Records;

fn dpf_lookups<D: Doubling>(seed: u64, records: usize, bytes: usize, lookups: usize) {
    println!("seed {seed}");
    let database = Records::from_seed(seed, records, bytes);
    let (tree, mut source) = (D::new(), Random::from_seed(seed));
    for _ in 0..lookups {
        let index = source.below(records as u32) as usize;
        let mut lines = [Channel::default(); 2];
        let found = dpf::lookup(&tree, &database, index, &mut source, &mut lines).unwrap();
        assert_eq!(found, database.get(index));
        assert_eq!(lines, [Channel { up: dpf::query_bytes(records), down: dpf::answer_bytes(bytes) }; 2]);
    }
}

#[test]
fn ten_thousand_lookups_by_point_functions() {
    dpf_lookups::<AesTree>(41, 300, 32, 10_000);
    dpf_lookups::<ChaChaTree>(42, 64, 15, 200);
}

#[test]
fn ten_thousand_lookups_in_a_matrix() {
    let database = Records::from_seed(43, 256, 32);
    let geometry = matrix::Geometry::new(256, 32).unwrap();
    let server = matrix::Server::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(43);
    for _ in 0..10_000 {
        let index = source.below(256) as usize;
        let mut lines = [Channel::default(); 2];
        let found = matrix::lookup(&geometry, index, &mut source, [&server, &server], &mut lines).unwrap();
        assert_eq!(found, database.get(index));
        assert_eq!(lines, [Channel { up: geometry.query_bytes(), down: geometry.answer_bytes() }; 2]);
    }
}

#[test]
fn every_single_bit_lie_of_either_server_is_refused_whichever_record_is_asked() {
    let database = Records::from_seed(44, 16, 9);
    let (tree, mut source) = (AesTree::new(), Random::from_seed(44));
    let geometry = matrix::Geometry::new(16, 9).unwrap();
    let server = matrix::Server::new(&database, geometry).unwrap();
    for index in 0..16 {
        let pending = dpf::query(&tree, 16, index, &mut source).unwrap();
        let answers = pending.queries.each_ref().map(|query| dpf::answer(&tree, &database, query).unwrap());
        every_lie(&answers, |answers| dpf::reconstruct(&pending, 9, answers), database.get(index));
        let queries = matrix::query(&geometry, index, &mut source).unwrap();
        let answers = queries.each_ref().map(|query| server.answer(query).unwrap());
        let digest = server.digest();
        every_lie(
            &answers,
            |answers| matrix::reconstruct(&geometry, &digest, index, answers, matrix::Deviation::None),
            database.get(index),
        );
    }
}

fn every_lie(answers: &[Vec<u8>; 2], read: impl Fn([&[u8]; 2]) -> Result<Vec<u8>, Error>, record: &[u8]) {
    assert_eq!(read([&answers[0], &answers[1]]).unwrap(), record);
    for liar in 0..2 {
        let mut lie = answers.clone();
        for bit in 0..8 * lie[liar].len() {
            lie[liar][bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read([&lie[0], &lie[1]]), Err(Error::Tampered), "server {liar}, bit {bit}");
            lie[liar][bit / 8] ^= 1 << (bit % 8);
        }
        lie[liar].iter_mut().for_each(|byte| *byte = !*byte);
        assert_eq!(read([&lie[0], &lie[1]]), Err(Error::Tampered), "server {liar}, all bits");
        lie[liar].pop();
        assert!(matches!(read([&lie[0], &lie[1]]), Err(Error::Bad { .. })));
    }
}

#[test]
fn a_lie_in_one_column_shows_which_column_was_asked_if_the_wanted_entry_alone_is_checked() {
    let database = Records::from_seed(45, 1 << 14, 1);
    let geometry = matrix::Geometry::new(1 << 14, 1).unwrap();
    let server = matrix::Server::new(&database, geometry).unwrap();
    let columns = geometry.answer_bytes() / (1 + 14 * matrix::HASH_BYTES);
    assert!(columns > 1);
    let mut source = Random::from_seed(45);
    let mut noticed = |index: usize, deviation| {
        let queries = matrix::query(&geometry, index, &mut source).unwrap();
        let mut answers = queries.each_ref().map(|query| server.answer(query).unwrap());
        answers[0][0] ^= 1; // in the record of the first column
        matrix::reconstruct(&geometry, &server.digest(), index, [&answers[0], &answers[1]], deviation).is_err()
    };
    for index in 0..64 {
        assert!(noticed(index, matrix::Deviation::None));
        assert_eq!(noticed(index, matrix::Deviation::ChecksWantedOnly), index % columns == 0);
    }
}

#[test]
fn servers_refuse_what_cannot_be_a_query() {
    let database = Records::from_seed(1, 16, 4);
    assert!(dpf::answer(&AesTree::new(), &database, &[0; 20]).is_err());
    assert!(dpf::answer(&AesTree::new(), &database, &vec![2; dpf::query_bytes(16)]).is_err(), "party 2");
    assert!(matrix::Geometry::new(17, 4).is_err());
    let geometry = matrix::Geometry::new(16, 4).unwrap();
    assert!(matrix::Server::new(&database, geometry).unwrap().answer(&[0; 9]).is_err());
}
