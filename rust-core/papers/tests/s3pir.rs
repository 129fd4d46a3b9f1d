//! Tests S3PIR, with one server and with two: ten thousand lookups, and the opposites of the corrections by enumeration.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

mod common;

use std::collections::HashMap;

use common::{EXACT, Law, law, variation, worst};
use papers::channel::Channel;
use papers::error::Error;
use papers::prg::{Aes, Block, ChaCha, Prg};
use papers::random::{Random, Uniform};
use papers::records::Records;
use papers::s3pir::drawing::Drawn;
use papers::s3pir::slots::{Backup, Slots};
use papers::s3pir::{Deviation, Geometry, LAMBDA, Search, Server, one_server, two_servers};

#[test]
fn ten_thousand_lookups_with_one_server() {
    let (records, bytes) = (1 << 12, 24);
    let database = Records::from_seed(11, records, bytes);
    let geometry = Geometry::square(records, bytes, LAMBDA).unwrap();
    let server = Server::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(11);
    let mut line = Channel::default();
    let mut client =
        one_server::Client::<Aes>::download(&source.block(), &server, geometry, 10_000, &mut source, &mut line);
    assert_eq!((line.up, line.down), (0, records * bytes));
    assert_eq!(client.bytes(), one_server::client_bytes(&geometry, 10_000));
    for n in 0..10_000 {
        // Runs of one record, as an app might ask for it.
        let index = if n % 3 == 0 { 77 } else { source.below(records as u32) as usize };
        let search = if n % 2 == 0 { Search::All } else { Search::UntilFound };
        let mut line = Channel::default();
        assert_eq!(client.lookup(index, search, &mut source, &server, &mut line).unwrap(), database.get(index));
        assert_eq!((line.up, line.down), (geometry.query_bytes(), geometry.answer_bytes()));
    }
    let mut silent = Channel::default();
    let refused = client.lookup(0, Search::All, &mut source, &server, &mut silent);
    assert_eq!((refused, silent), (Err(Error::Exhausted), Channel::default()));
}

fn two<P: Prg>(seed: u64, lookups: usize) {
    println!("seed {seed}");
    let (records, bytes) = (1 << 10, 9);
    let database = Records::from_seed(seed, records, bytes);
    let geometry = Geometry::square(records, bytes, LAMBDA).unwrap();
    let online = Server::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(seed);
    let key = source.block();
    let mut offline = two_servers::OfflineServer::<P>::new(&database, geometry, &key);
    let hints = offline.hints(&mut source);
    assert_eq!(hints.len(), geometry.hints * two_servers::hint_bytes(bytes));
    let mut client = two_servers::Client::<P>::new(&key, geometry, &hints).unwrap();
    for n in 0..lookups {
        let index = if n % 3 == 0 { 5 } else { source.below(records as u32) as usize };
        let mut lines = [Channel::default(); 2];
        let servers = (&mut offline, &online);
        let found = client.lookup(index, Search::UntilFound, &mut source, servers, &mut lines).unwrap();
        assert_eq!(found, database.get(index), "lookup {n}");
        assert_eq!((lines[0].up, lines[0].down), (0, two_servers::replenish_bytes(bytes)));
        assert_eq!((lines[1].up, lines[1].down), (geometry.query_bytes(), geometry.answer_bytes()));
    }
}

#[test]
fn ten_thousand_lookups_with_two_servers() {
    two::<Aes>(12, 10_000);
    two::<ChaCha>(13, 500);
}

#[test]
fn with_two_servers_a_lookup_that_fails_looks_to_both_like_any_other() {
    let geometry = Geometry { stripes: 4, stripe_records: 4, hints: 2, record_bytes: 1 };
    let database = Records::from_seed(15, 16, 1);
    let online = Server::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(15);
    let mut offline = two_servers::OfflineServer::<Aes>::new(&database, geometry, &[1; 16]);
    let hints = offline.hints(&mut source);
    let mut client = two_servers::Client::<Aes>::new(&[1; 16], geometry, &hints).unwrap();
    let mut missed = 0;
    for n in 0..200 {
        let mut lines = [Channel::default(); 2];
        let servers = (&mut offline, &online);
        match client.lookup(n % 16, Search::All, &mut source, servers, &mut lines) {
            Ok(record) => assert_eq!(record, database.get(n % 16)),
            Err(error) => {
                assert_eq!(error, Error::Unlucky);
                missed += 1;
            }
        }
        assert_eq!(lines[0], Channel { up: 0, down: two_servers::replenish_bytes(1) });
        assert_eq!(lines[1], Channel { up: geometry.query_bytes(), down: geometry.answer_bytes() });
    }
    assert!(missed > 50 && missed < 190, "{missed}: two hints have six records of sixteen");
}

#[test]
fn a_server_refuses_what_cannot_be_a_query() {
    let database = Records::from_seed(1, 64, 4);
    let server = Server::new(&database, Geometry::square(64, 4, 2).unwrap()).unwrap();
    assert!(server.answer(&[0; 16]).is_err());
    let mut query = vec![0; 17];
    assert!(server.answer(&query).is_ok());
    query[3] = 8;
    assert!(server.answer(&query).is_err(), "an offset of the next stripe");
}

#[test]
fn few_hints_miss_as_often_as_computed_and_a_miss_changes_nothing() {
    let geometry = Geometry { stripes: 4, stripe_records: 4, hints: 3, record_bytes: 1 };
    let database = Records::from_seed(2, 16, 1);
    let server = Server::new(&database, geometry).unwrap();
    let mut source = Random::from_seed(14);
    let (mut missed, runs) = (0, 4000);
    for _ in 0..runs {
        let mut client = one_server::Client::<Aes>::download(
            &source.block(),
            &server,
            geometry,
            1,
            &mut source,
            &mut Channel::default(),
        );
        let before = client.slots().contents();
        let mut line = Channel::default();
        match client.lookup(6, Search::All, &mut source, &server, &mut line) {
            Ok(record) => assert_eq!(record, database.get(6)),
            Err(error) => {
                assert_eq!(error, Error::Unlucky);
                assert_eq!((client.slots().contents(), client.lookups_left()), (before, 1));
                missed += 1;
            }
        }
        assert_eq!((line.up, line.down), (geometry.query_bytes(), geometry.answer_bytes()));
    }
    // (1 − (q/2 + 1)/(q·s))³ = (13/16)³; seven standard deviations, false alarm below 1e-11.
    let expected = f64::from(runs) * (13.0f64 / 16.0).powi(3);
    let deviation = (expected * (1.0 - (13.0f64 / 16.0).powi(3))).sqrt();
    assert!((f64::from(missed) - expected).abs() < 7.0 * deviation, "{missed} of {runs}, expected {expected}");
}

// ---- exact privacy: q = 4, s = 2, one record of one byte in each slot --------------------------------------

/// A "random function" that is its key: byte n of the key has the four selections and the four offsets of hint n.
struct Table(Block);

impl Prg for Table {
    const NAME: &'static str = "table";
    fn new(key: &Block) -> Self {
        Table(*key)
    }
    fn fill(&self, stream: u64, first: u64, blocks: &mut [Block]) {
        let byte = self.0[stream as usize];
        for (n, block) in (first..).zip(blocks) {
            *block = [0; 16];
            // Selections are in the first block, offsets in the third, two bytes each.
            let bits = if n == 0 { byte } else { byte >> 4 };
            if n == 0 || n == 2 {
                (0..4).for_each(|stripe| block[2 * stripe] = bits >> stripe & 1);
            }
        }
    }
}

/// All halves and offsets of a hint, as its byte in a [`Table`]; equally likely.
fn bytes() -> Vec<u8> {
    let halves = (0u8..16).filter(|half| half.count_ones() == 2);
    halves.flat_map(|half| (0..16).map(move |offsets| half | offsets << 4)).collect()
}

/// A hint's byte and extra, with every extra that it can have.
fn hints() -> Vec<(u8, u32)> {
    let extras = |byte: u8| (0..8).filter(move |extra| byte >> (extra / 2) & 1 == 1).map(move |extra| (byte, extra));
    bytes().into_iter().flat_map(extras).collect()
}

fn slots(state: &[(u8, u32)], spare: u8, deviation: Deviation) -> Slots<Table> {
    let mut table = [0; 16];
    state.iter().zip(&mut table).for_each(|(hint, byte)| *byte = hint.0);
    table[state.len()] = spare;
    let n = state.len();
    let extras = state.iter().map(|hint| hint.1).collect();
    let drawn = Drawn { numbers: (0..n as u64).collect(), cutoffs: vec![1; n], extras };
    let geometry = Geometry { stripes: 4, stripe_records: 2, hints: n, record_bytes: 1 };
    Slots::new(Table(table), geometry, &drawn, vec![0; n], deviation)
}

/// A query in eight bits: the subsets, then the offsets. No query is 0.
fn code(query: &[u8]) -> usize {
    if query.is_empty() {
        return 0;
    }
    (0..4).fold(usize::from(query[0]), |code, k| code | usize::from(query[1 + 2 * k]) << (4 + k))
}

fn law_of_query(slots: &Slots<Table>, index: usize) -> [f64; 256] {
    let mut codes = [0.0; 256];
    for (query, probability) in law(|source| code(&slots.query(index, Search::All, source).unwrap().query)) {
        codes[query] += probability;
    }
    codes
}

/// The joint distribution of two queries, over all states of the hints, all backups and all coins.
fn joint(states: &[Vec<(u8, u32)>], [first, second]: [usize; 2], deviation: Deviation) -> Law<usize> {
    let mut known: HashMap<_, [f64; 256]> = HashMap::new();
    let mut joint = vec![0.0; 1 << 16];
    for state in states {
        let before = slots(state, 0, deviation);
        let law_of_first = law_of_query(&before, first);
        let pending = before.query(first, Search::All, &mut Random::from_seed(0)).unwrap();
        let hit = before.find(first, Search::All).is_some();
        let mut law_of_second = [0.0; 256];
        let spares = if hit { bytes() } else { vec![0] };
        for &spare in &spares {
            let mut after = slots(state, spare, deviation);
            let backup = Backup { number: state.len() as u64, cutoff: 1, parities: vec![0; 2] };
            after.replenish(&pending, &[0], &backup);
            // With one hint, the key says which representation. With two, the content is enough: a test below shows it.
            let replaced = hit && deviation != Deviation::NoReplenishing;
            let representation = (state.len() == 1).then(|| if replaced { (spare, 8) } else { state[0] });
            let law = known.entry((after.contents(), representation)).or_insert_with(|| law_of_query(&after, second));
            law_of_second.iter_mut().zip(law).for_each(|(sum, p)| *sum += *p / spares.len() as f64);
        }
        for (a, p) in law_of_first.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            for (b, q) in law_of_second.iter().enumerate().filter(|(_, q)| **q > 0.0) {
                joint[a << 8 | b] += p * q / states.len() as f64;
            }
        }
    }
    joint.into_iter().enumerate().filter(|(_, p)| *p > 0.0).collect()
}

fn one_hint() -> Vec<Vec<(u8, u32)>> {
    hints().into_iter().map(|hint| vec![hint]).collect()
}

/// One representation of each of the 32 hints, in all pairs.
fn two_hints() -> Vec<Vec<(u8, u32)>> {
    let mut by_contents = HashMap::new();
    for hint in hints() {
        by_contents.entry(slots(&[hint], 0, Deviation::None).contents()).or_insert(hint);
    }
    assert_eq!(by_contents.len(), 32);
    let each: Vec<_> = by_contents.into_values().collect();
    each.iter().flat_map(|&a| each.iter().map(move |&b| vec![a, b])).collect()
}

const SEQUENCES: [[usize; 2]; 6] = [[0, 0], [0, 1], [0, 2], [0, 5], [3, 0], [7, 7]];

fn worst_of(states: &[Vec<(u8, u32)>], deviation: Deviation) -> f64 {
    worst(&SEQUENCES.map(|sequence| joint(states, sequence, deviation)))
}

#[test]
fn what_the_server_sees_does_not_depend_on_what_is_asked() {
    for states in [one_hint(), two_hints()] {
        let laws = SEQUENCES.map(|sequence| joint(&states, sequence, Deviation::None));
        assert!((laws[0].values().sum::<f64>() - 1.0).abs() < EXACT);
        assert!(worst(&laws) < EXACT);
    }
}

#[test]
fn a_query_depends_on_what_a_hint_contains_and_not_on_which_record_is_its_extra() {
    for index in 0..8 {
        let mut known: HashMap<_, Law<usize>> = HashMap::new();
        for hint in hints() {
            let slots = slots(&[hint], 0, Deviation::None);
            let law: Law<usize> = law_of_query(&slots, index).into_iter().enumerate().collect();
            let known = known.entry(slots.contents()).or_insert_with(|| law.clone());
            assert!(variation(known, &law) < EXACT);
        }
    }
}

#[test]
fn every_deviation_tells_the_server_something() {
    let (one, two) = (one_hint(), two_hints());
    let deviations = [
        (Deviation::SearchIgnoresExtra, &one, Some(1.0 / 36.0)),
        (Deviation::AppendsAtEnd, &two, Some(1.0 / 32.0)),
        (Deviation::SilentWhenUnlucky, &one, None),
        (Deviation::DummyAvoidsQueried, &one, None),
        (Deviation::DummyIsQueried, &one, None),
        (Deviation::NoCoin, &one, None),
        (Deviation::BackupMayChoose, &one, None),
        (Deviation::NoReplenishing, &one, None),
    ];
    for (deviation, states, published) in deviations {
        let told = worst_of(states, deviation);
        println!("{deviation:?}: {told}");
        assert!(told > 0.01, "{deviation:?} is not caught");
        if let Some(published) = published {
            assert!((told - published).abs() < EXACT, "{deviation:?}: {told}, expected {published}");
        }
    }
}
