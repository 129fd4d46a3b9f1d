//! Tests Pai and its keyword schemes: lookups, the attacks on the published form, and the full permutation by enumeration.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

mod common;

use std::collections::HashSet;

use common::{EXACT, Law, law, worst};
use papers::channel::Channel;
use papers::error::Error;
use papers::pai::full::{Deviation, Opened, PaiFull};
use papers::pai::keyword::{KeywordClient, KeywordServer, cuckoo, oprf};
use papers::pai::one_query::{PaiOneQuery, grid};
use papers::pai::{PrivateArray, Store, chargeable, full, keyword, lookup_bytes, one_query};
use papers::random::{Random, Uniform, shuffle};
use papers::records::Records;

#[test]
fn ten_thousand_lookups_as_published() {
    let records = Records::from_seed(31, 10_007, 33); // not a square, and not a multiple of a block
    let mut source = Random::from_seed(31);
    let mut line = Channel::default();
    let (mut client, store) = PaiOneQuery::set_up(&records, &mut source, &mut line);
    assert_eq!(line.up + line.down, one_query::offline_bytes(records.len(), 33));
    for index in 0..10_000 {
        let mut line = Channel::default();
        assert_eq!(client.lookup(index, &store, &mut line).unwrap(), records.get(index));
        assert_eq!(line.up + line.down, lookup_bytes(33));
    }
}

#[test]
fn ten_thousand_lookups_with_repeats_under_a_full_permutation() {
    let records = Records::from_seed(32, 10_100, 16);
    let mut source = Random::from_seed(32);
    let mut line = Channel::default();
    let (mut client, store) = PaiFull::set_up(&records, &mut source, &mut line);
    assert_eq!(line.up + line.down, full::offline_bytes(records.len(), 16));
    for n in 0..10_000 {
        let index = if n % 2 == 0 { 5 } else { source.below(10_100) as usize };
        let mut line = Channel::default();
        assert_eq!(client.get(index, &store, &mut source, &mut line).unwrap(), records.get(index));
        assert_eq!(line.up + line.down, lookup_bytes(16), "a repeat moves as much");
    }
}

#[test]
fn the_grid_is_the_papers() {
    assert_eq!(grid(1 << 20), (1024, 1024));
    assert_eq!(grid(3 << 19), (1255, 1254)); // Table 3: 624.359 MiB
}

#[test]
fn two_lookups_of_the_published_form_show_whether_they_share_a_row() {
    let records = Records::from_seed(33, 256, 8);
    let mut source = Random::from_seed(33);
    for _ in 0..100 {
        let (client, store) = PaiOneQuery::set_up(&records, &mut source, &mut Channel::default());
        let row_of = |index| store.cell(&client.tag(index)).unwrap() / 16;
        let column_of = |index| store.cell(&client.tag(index)).unwrap() % 16;
        assert_eq!(row_of(3 * 16 + 1), row_of(3 * 16 + 9));
        assert_ne!(row_of(3 * 16 + 1), row_of(4 * 16 + 9));
        assert_eq!(column_of(16 + 5), column_of(9 * 16 + 5));
    }
}

#[test]
fn the_diagonal_of_the_published_form_reveals_every_later_lookup() {
    let root = 32;
    let records = Records::from_seed(34, root * root, 8);
    let mut source = Random::from_seed(34);
    let (client, store) = PaiOneQuery::set_up(&records, &mut source, &mut Channel::default());
    let seen = |index| store.cell(&client.tag(index)).unwrap();
    // √n chosen lookups …
    let (mut row, mut column) = (vec![0; root], vec![0; root]);
    for j in 0..root {
        let cell = seen(j * root + j);
        (row[cell / root], column[cell % root]) = (j, j);
    }
    // … and every other one is known.
    for index in 0..root * root {
        let cell = seen(index);
        assert_eq!(row[cell / root] * root + column[cell % root], index);
    }
}

/// The distribution of the cells that the server sees opened, over all permutations of four cells.
fn cells(sequence: &[usize], deviation: Deviation) -> Law<Vec<usize>> {
    law(|source| {
        let mut cell_of = [0, 1, 2, 3];
        shuffle(&mut cell_of, source);
        let mut opened = Opened::new(4, deviation);
        let mut seen = Vec::new();
        for &index in sequence {
            if let Some(ask) = opened.next(index, source).unwrap() {
                seen.push(cell_of[ask]);
                opened.remember(ask, Vec::new());
            }
        }
        seen
    })
}

/// Drawing dummies by trial has no bounded number of draws. In these sequences half of the cells are open before a repetition.
const SEQUENCES: [[usize; 4]; 4] = [[0, 1, 0, 0], [0, 1, 2, 3], [3, 2, 3, 1], [2, 0, 0, 2]];

#[test]
fn under_a_full_permutation_every_sequence_opens_uniform_new_cells() {
    assert!(worst(&SEQUENCES.map(|sequence| cells(&sequence, Deviation::None))) < EXACT);
    for deviation in [Deviation::AsksAgain, Deviation::SilentWhenRepeated] {
        assert!(worst(&SEQUENCES.map(|sequence| cells(&sequence, deviation))) > 0.5, "{deviation:?} is not caught");
    }
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("user{n}@example.org").into_bytes()).collect()
}

/// Thousands of lookups of known, unknown and repeated keys: as many as one offline phase allows.
fn keyword_lookups<A: PrivateArray>(seed: u64, offline: impl Fn(&Records, &mut Random) -> (A, Store)) -> usize {
    let (n, bytes) = (3000, 21);
    let keys = keys(n);
    let values = Records::from_seed(seed, n, bytes);
    let mut source = Random::from_seed(seed);
    let (server, table) = KeywordServer::encode(keys.iter().map(Vec::as_slice), &values, &mut source).unwrap();
    let set_up = |source: &mut Random| {
        let (array, store) = offline(&table.entries, source);
        (KeywordClient::new(array, table.seed, table.entries.len()), store)
    };
    let (mut client, mut store) = set_up(&mut source);
    let (mut done, mut of_one) = (0, None);
    while done < 10_000 {
        let mut line = Channel::default();
        let (key, expected) = match done % 5 {
            0 => (b"nobody@example.org".to_vec(), None),
            1 => (keys[7].clone(), Some(values.get(7))),
            _ => {
                let n = source.below(n as u32) as usize;
                (keys[n].clone(), Some(values.get(n)))
            }
        };
        match client.lookup(&key, (&server, &store), &mut source, &mut line) {
            Ok(found) => {
                assert_eq!(found.as_deref(), expected);
                assert_eq!(line.up + line.down, keyword::lookup_bytes(bytes));
                done += 1;
            }
            Err(error) => {
                assert_eq!((error, line), (Error::Exhausted, Channel::default()));
                of_one.get_or_insert(done);
                (client, store) = set_up(&mut source); // the cells are used up: the offline phase again
            }
        }
    }
    of_one.expect("cells are used up")
}

#[test]
fn thousands_of_keyword_lookups_open_three_new_cells_known_or_not_repeated_or_not() {
    let offline = |entries: &Records, source: &mut Random| PaiFull::set_up(entries, source, &mut Channel::default());
    assert_eq!(keyword_lookups(35, offline), 1500, "4500 bins, three new ones a lookup");
}

#[test]
fn thousands_of_keyword_lookups_over_the_published_form() {
    let offline =
        |entries: &Records, source: &mut Random| PaiOneQuery::set_up(entries, source, &mut Channel::default());
    assert_eq!(keyword_lookups(36, offline), 1518, "a grid of 68 × 67 cells, three new ones a lookup");
}

#[test]
fn a_cuckoo_table_has_every_entry_in_one_of_its_places() {
    let mut source = Random::from_seed(37);
    let tags: Vec<_> = (0..20_000).map(|_| source.block()).collect();
    let (seed, table) = cuckoo::place(&tags, &mut source).unwrap();
    assert_eq!(table.len(), 30_000);
    for (n, tag) in tags.iter().enumerate() {
        let places = cuckoo::places(&seed, tag, table.len());
        assert_eq!(places.iter().filter(|&&place| table[place] == Some(n as u32)).count().min(1), 1);
    }
    assert_eq!(table.iter().flatten().collect::<HashSet<_>>().len(), tags.len());
    assert!(cuckoo::place(&[[1; 16]; 4], &mut source).is_err(), "one key four times has three places");
}

#[test]
fn elements_are_refused_unless_canonical_and_not_the_identity() {
    let mut source = Random::from_seed(38);
    let key: &[u8] = b"k";
    let (server, _) = KeywordServer::encode([key], &Records::from_seed(1, 1, 4), &mut source).unwrap();
    for message in [&[0u8; 32][..], &[255; 32], &[1; 31], &[]] {
        assert!(matches!(server.evaluate(message), Err(Error::Bad { what: "element", .. })), "{message:?}");
    }
    assert!(server.evaluate(&oprf::hash(b"k").compress().0).is_ok());
}

#[test]
fn thousands_of_chargeable_lookups_charge_for_what_was_found() {
    let (n, unknown) = (2000, 8000);
    let bytes = 19;
    let keys = keys(n + unknown);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = Records::from_seed(39, n, bytes);
    let mut source = Random::from_seed(39);
    let mut line = Channel::default();
    let none = chargeable::Deviation::None;
    let (mut server, mut client) =
        chargeable::set_up(&keys[..n], &values, none, &mut source, &mut line, |_, _| ()).unwrap();
    assert_eq!(line.up + line.down, chargeable::offline_bytes(n, bytes));
    let mut order: Vec<usize> = (0..n + unknown).collect();
    shuffle(&mut order, &mut source);
    for at in order {
        let (mut line, charged) = (Channel::default(), server.charged);
        let found = client.lookup(keys[at], &mut server, &mut source, &mut line).unwrap();
        assert_eq!(found.as_deref(), (at < n).then(|| values.get(at)));
        assert_eq!(server.charged - charged, usize::from(at < n));
        let text = if at < n { 0 } else { bytes + 16 }; // an unknown key has no ciphertext
        assert_eq!(line.up + line.down, chargeable::lookup_bytes(bytes) - text);
    }
    let mut silent = Channel::default();
    assert_eq!(client.lookup(keys[0], &mut server, &mut source, &mut silent), Err(Error::Repeated));
    assert_eq!(silent, Channel::default());
    assert!(server.answer(&[0; 32]).is_err());
}

#[test]
fn one_key_for_alpha_and_for_f_opens_the_whole_database_without_a_lookup() {
    let keys = keys(50);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = Records::from_seed(40, 50, 16);
    let open = |deviation| {
        let mut opened = HashSet::new();
        let mut watch = |element: &[u8; 32], masked: &[u8]| {
            opened.insert(chargeable::open_without_lookup(element, masked).unwrap());
        };
        let mut source = Random::from_seed(40);
        chargeable::set_up(&keys, &values, deviation, &mut source, &mut Channel::default(), &mut watch).unwrap();
        (0..50).filter(|&n| opened.contains(values.get(n))).count()
    };
    assert_eq!(open(chargeable::Deviation::OneKey), 50);
    assert_eq!(open(chargeable::Deviation::None), 0);
}
