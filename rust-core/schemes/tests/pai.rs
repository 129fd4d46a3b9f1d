//! Pai and what is built on it: lookups, the attacks on the published form, and the full permutation by enumeration.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

mod common;

use std::collections::HashSet;

use common::{EXACT, Law, law, worst};
use schemes::channel::Channel;
use schemes::error::Error;
use schemes::pai::full::{Deviation, Opened, PaiFull};
use schemes::pai::keyword::{KeywordClient, KeywordServer, cuckoo, oprf};
use schemes::pai::one_query::{PaiOneQuery, grid};
use schemes::pai::{PrivateArray, chargeable, full, keyword, lookup_bytes, one_query};
use schemes::random::{Random, Uniform, shuffle};
use schemes::records::Records;

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
    // … and any other is read.
    for index in 0..root * root {
        let cell = seen(index);
        assert_eq!(row[cell / root] * root + column[cell % root], index);
    }
}

/// The law of the cells that the server sees opened, over all permutations of four cells.
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

/// Dummies by trial have no bounded number of draws; these sequences repeat when half of the cells are open.
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

#[test]
fn keyword_lookups_open_three_new_cells_known_or_not_repeated_or_not() {
    let (n, bytes) = (3000, 21);
    let keys = keys(n);
    let values = Records::from_seed(35, n, bytes);
    let mut source = Random::from_seed(35);
    let (server, table) = KeywordServer::encode(keys.iter().map(Vec::as_slice), &values, &mut source).unwrap();
    let mut tried = HashSet::new();
    let set_up = |source: &mut Random| {
        let (array, store) = PaiFull::set_up(&table.entries, source, &mut Channel::default());
        (KeywordClient::new(array, table.seed, table.entries.len()), store)
    };
    let (mut client, mut store) = set_up(&mut source);
    for lookup in 0..10_000usize {
        let mut line = Channel::default();
        let key = match lookup % 5 {
            0 => b"nobody@example.org".to_vec(),
            1 => keys[7].clone(),
            _ => keys[source.below(n as u32) as usize].clone(),
        };
        let expected = keys.iter().position(|known| *known == key).map(|n| values.get(n).to_vec());
        match client.lookup(&key, (&server, &store), &mut source, &mut line) {
            Ok(found) => {
                assert_eq!(found, expected);
                assert_eq!(line.up + line.down, keyword::lookup_bytes(bytes));
            }
            Err(error) => {
                assert_eq!((error, line), (Error::Exhausted, Channel::default()));
                tried.insert(lookup);
                (client, store) = set_up(&mut source); // the cells are used up: the offline phase again
            }
        }
    }
    assert_eq!(tried.len(), 6, "4500 bins are 1500 lookups, and the one after fails");
}

#[test]
fn keyword_lookups_over_the_published_form_are_right() {
    let keys = keys(500);
    let values = Records::from_seed(36, 500, 8);
    let mut source = Random::from_seed(36);
    let (server, table) = KeywordServer::encode(keys.iter().map(Vec::as_slice), &values, &mut source).unwrap();
    let (array, store) = PaiOneQuery::set_up(&table.entries, &mut source, &mut Channel::default());
    let mut client = KeywordClient::new(array, table.seed, table.entries.len());
    for (n, key) in keys.iter().enumerate().take(200) {
        let found = client.lookup(key, (&server, &store), &mut source, &mut Channel::default()).unwrap();
        assert_eq!(found.as_deref(), Some(values.get(n)));
    }
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
fn chargeable_lookups_charge_for_what_was_found() {
    let (n, bytes) = (300, 19);
    let keys = keys(n);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = Records::from_seed(39, n, bytes);
    let mut source = Random::from_seed(39);
    let mut line = Channel::default();
    let (mut server, mut client) =
        chargeable::set_up(&keys, &values, chargeable::Deviation::None, &mut source, &mut line, |_, _| ()).unwrap();
    assert_eq!(line.up + line.down, chargeable::offline_bytes(n, bytes));
    for (at, key) in keys.iter().enumerate() {
        let mut line = Channel::default();
        let found = client.lookup(key, &mut server, &mut source, &mut line).unwrap();
        assert_eq!(found.as_deref(), Some(values.get(at)));
        assert_eq!(line.up + line.down, chargeable::lookup_bytes(bytes));
        let unknown = format!("nobody{at}");
        assert_eq!(client.lookup(unknown.as_bytes(), &mut server, &mut source, &mut line).unwrap(), None);
    }
    assert_eq!(server.charged, n);
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
