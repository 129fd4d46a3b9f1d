//! Tests TreePIR: ten thousand lookups, privacy by enumeration at √N = 2, and the mistakes.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

mod common;

use common::{EXACT, Law, law, worst};
use papers::channel::Channel;
use papers::prg::{Aes, AesTree, Block, ChaChaTree, Doubling, Prg};
use papers::random::{Random, Uniform};
use papers::records::Records;
use papers::s3pir::Search;
use papers::treepir::*;
use papers::xor::xor;

fn lookups<D: Doubling>(seed: u64, depth: u32, bytes: usize, lookups: usize) {
    println!("seed {seed}");
    let records = 1 << (2 * depth);
    let database = Records::from_seed(seed, records, bytes);
    let geometry = Geometry::square(records, bytes, LAMBDA).unwrap();
    let server = Server::<D>::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(seed);
    let key = source.block();
    let hints = server.hints(&key).unwrap();
    assert_eq!(hints.len(), geometry.hint_bytes());
    let mut client = Client::<D>::new(geometry, &key, hints).unwrap();
    assert_eq!(client.bytes(), geometry.client_bytes());
    for n in 0..lookups {
        let index = if n % 3 == 0 { 7 } else { source.below(records as u32) as usize };
        let search = if n % 16 == 0 { Search::All } else { Search::UntilFound };
        let mut lines = [Channel::default(); 2];
        let found = client.lookup(index, search, &mut source, [&server, &server], &mut lines).unwrap();
        assert_eq!(found, database.get(index), "lookup {n}");
        assert_eq!(lines, [Channel { up: geometry.query_bytes(), down: geometry.answer_bytes() }; 2]);
    }
}

#[test]
fn ten_thousand_lookups() {
    lookups::<AesTree>(21, 5, 20, 10_000);
    lookups::<ChaChaTree>(22, 3, 33, 500);
}

/// The published algorithm without sharing: for each guess, all other leaves are computed anew.
#[test]
fn parities_of_all_guesses_are_those_of_trees_rebuilt_for_each_guess() {
    let (depth, bytes) = (4u32, 8);
    let root = 1usize << depth;
    let database = Records::from_seed(3, root * root, bytes);
    let geometry = Geometry::square(root * root, bytes, 2).unwrap();
    let server = Server::<AesTree>::new(&database, geometry).unwrap();
    let tree = AesTree::new();
    let mut source = Random::from_seed(23);
    for punctured in 0..root {
        let key = puncture(&tree, depth, &source.block(), punctured);
        let shift = source.below(root as u32) as u16;
        let answer = server.answer(&[key.as_flattened(), &shift.to_le_bytes()].concat()).unwrap();
        for guess in 0..root {
            let mut parity = vec![0; bytes];
            // Left siblings by falling height, then right siblings by rising height.
            let left = (0..depth).rev().filter(|height| guess >> height & 1 == 1);
            let right = (0..depth).filter(|height| guess >> height & 1 == 0);
            for (seed, height) in key.iter().zip(left.chain(right)) {
                let begin = ((guess >> height) ^ 1) << height;
                for n in 0..1 << height {
                    let offset = evaluate(&tree, height, &Key { seed: *seed, shift: 0 }, n);
                    let wide = {
                        // `evaluate` reduces by the subtree's size; the leaf is needed modulo √N.
                        let mut leaf = [*seed];
                        (0..height).rev().for_each(|h| tree.descend(&mut leaf, n >> h & 1 == 1));
                        usize::from(u16::from_le_bytes([leaf[0][0], leaf[0][1]]))
                    };
                    assert_eq!(wide % (1 << height), offset);
                    let offset = (wide + usize::from(shift)) % root;
                    xor(&mut parity, database.get((begin + n) * root + offset));
                }
            }
            assert_eq!(answer[guess * bytes..][..bytes], parity, "punctured at {punctured}, guess {guess}");
        }
    }
}

#[test]
fn a_server_refuses_what_cannot_be_a_query() {
    let database = Records::from_seed(1, 64, 4);
    let server = Server::<AesTree>::new(&database, Geometry::square(64, 4, 2).unwrap()).unwrap();
    assert!(server.answer(&[0; 49]).is_err());
    assert!(server.answer(&[255; 50]).is_ok(), "a shift is taken modulo √N");
    assert!(server.hints(&[0; 15]).is_err());
}

/// An ideal generator: its seeds say what their children are. For trees of two leaves.
struct Spelled;

impl Doubling for Spelled {
    const NAME: &'static str = "spelled";
    fn new() -> Self {
        Spelled
    }
    fn double(&self, seeds: &[Block], left: &mut [Block], right: &mut [Block]) {
        for ((seed, left), right) in seeds.iter().zip(left).zip(right) {
            (*left, *right) = ([0; 16], [0; 16]);
            (left[0], right[0]) = (seed[2], seed[3]);
        }
    }
    fn descend(&self, seeds: &mut [Block], right: bool) {
        for seed in seeds {
            let child = seed[2 + usize::from(right)];
            *seed = [0; 16];
            seed[0] = child;
        }
    }
}

fn tree(source: &mut impl Uniform) -> Block {
    let mut seed = [0; 16];
    seed[2] = source.below(2) as u8;
    seed[3] = source.below(2) as u8;
    seed
}

/// The distribution of what a server sees of a sequence; N = 4.
fn seen(sequence: &[usize], hints: usize, server_0: bool, deviation: Deviation) -> Law<Vec<Vec<u8>>> {
    let geometry = Geometry { depth: 1, hints, record_bytes: 1 };
    let database = Records::from_seed(5, 4, 1);
    let server = Server::<Spelled>::new(&database, geometry).unwrap();
    law(|source| {
        let keys: Vec<Key> = (0..hints).map(|_| Key { seed: tree(source), shift: source.below(2) as u16 }).collect();
        let mut view = Vec::new();
        let parities = keys.iter().map(|key| {
            let at = |v| database.get(v * 2 + evaluate(&Spelled, 1, key, v))[0];
            at(0) ^ at(1)
        });
        let parities = parities.collect();
        if server_0 {
            view.extend(keys.iter().map(|key| vec![key.seed[2], key.seed[3], key.shift as u8]));
        }
        let mut client = Client::from_parts(geometry, Spelled, keys, parities, deviation, [0; 16]);
        for &index in sequence {
            let seeds = [tree(source), tree(source)];
            let pending = client.query_with(index, Search::All, seeds, source).unwrap();
            view.push(if server_0 { pending.refresh.clone() } else { pending.retrieve.clone() });
            // A server of the mistaken scheme would read the part that it knows. A silent client asks nothing.
            let known = [&pending.refresh, &pending.retrieve].map(|query| query.get(..18).map(<[u8]>::to_vec));
            if let [Some(refresh), Some(retrieve)] = known {
                let answers = [refresh, retrieve].map(|query| server.answer(&query).unwrap());
                if let Ok(record) = client.reconstruct(&pending, &answers[0], &answers[1]) {
                    assert_eq!(record, database.get(index));
                }
            }
        }
        view
    })
}

const PAIRS: [[usize; 2]; 5] = [[0, 0], [0, 1], [0, 2], [3, 0], [3, 3]];

#[test]
fn what_either_server_sees_does_not_depend_on_what_is_asked() {
    for (hints, server_0) in [(1, false), (1, true), (2, false)] {
        assert!(worst(&PAIRS.map(|pair| seen(&pair, hints, server_0, Deviation::None))) < EXACT);
    }
}

#[test]
fn deviations_tell_a_server_something() {
    // The first query alone is silent equally often for all records. The second is not.
    for deviation in [Deviation::LeftOver, Deviation::SilentWhenUnlucky] {
        let told = worst(&PAIRS.map(|pair| seen(&pair, 1, false, deviation)));
        println!("{deviation:?}: {told}");
        assert!(told > 0.01, "{deviation:?} is not caught");
    }
    let told = worst(&PAIRS.map(|pair| seen(&pair, 2, false, Deviation::AppendsAtEnd)));
    println!("appended: {told}");
    assert!(told > 0.01, "appending is not caught");
}

#[test]
fn a_fresh_key_from_the_hints_seed_tells_server_0_every_partition() {
    let (depth, geometry) = (4, Geometry::square(256, 1, 8).unwrap());
    let tree = AesTree::new();
    let mut source = Random::from_seed(24);
    let shared = source.block();
    // What server 0 can draw from the seed that it got: the key after those of the hints.
    let mut own = Random::<Aes>::new(&shared, 0);
    for _ in 0..geometry.hints {
        own.block();
        own.below(16);
    }
    let next = own.block();
    let read = |deviation, partition: usize, source: &mut Random| {
        let parities = vec![0; geometry.hint_bytes()];
        let mut client = Client::<AesTree>::new(geometry, &shared, parities).unwrap();
        client = client.with_deviation(deviation);
        let pending = client.query(partition * 16 + 3, Search::All, source).unwrap();
        (0..16).find(|&at| puncture(&tree, depth, &next, at).as_flattened() == &pending.refresh[..64])
    };
    for partition in 0..16 {
        assert_eq!(read(Deviation::FreshKeyFromHintSeed, partition, &mut source), Some(partition));
        assert_eq!(read(Deviation::None, partition, &mut source), None);
    }
    assert_eq!(Aes::NAME, AesTree::NAME);
}
