//! Tests instant lookups with any number of servers (docs/protocol.md, Any one of k): every record is found, and a server with
//! another database is refused. With three servers or more, any coalition of all servers but one sees the same whatever was asked,
//! and the enumeration notices clients for which that is not so; every changed bit of any answer is refused; both epochs are
//! answered. (instant.rs has more on two servers.)

use std::collections::HashMap;
use std::iter;

use crate::common::{SHAPES, entropy, filled, stream};
use keyhush_core::Error;
use keyhush_core::commitment::Merkle;
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::instant;
use keyhush_core::instant::pass::{Pass, answer, answer_vectors, check_vectors};
use keyhush_core::instant::query::{Pending, query, query_any_of};
use keyhush_core::instant::recon::recon;
use keyhush_core::instant::vectors::{Form, MAX_SERVERS, hazmat_last_share, max_queries, queries, shape, share};
use keyhush_core::layout::Layout;
use keyhush_kernels::scan::PASS_QUERIES;
use keyhush_kernels::shape::Shape;
use proptest::prelude::*;
use zeroize::Zeroizing;

fn ask(layout: &Layout, servers: usize, indices: &[u32], entropy: &[u8; 32]) -> Pending {
    if servers == 2 {
        query(layout, indices, entropy).unwrap()
    } else {
        query_any_of(layout, servers, indices, entropy).unwrap()
    }
}

/// The answers of one server to its whole request, up to sixteen queries in each pass.
fn answers(database: &Database<Merkle>, pending: &Pending, server: usize, at: At) -> Vec<u8> {
    let (layout, request) = (pending.layout(), pending.request(server).unwrap());
    let Some(form) = pending.form(server) else {
        let keys: Vec<_> = instant::queries(layout, request).unwrap().map(|key| (key, at)).collect();
        return keys.chunks(PASS_QUERIES).flat_map(|keys| answer(database, keys).unwrap()).flatten().collect();
    };
    let servers = pending.servers();
    let asked: Vec<_> = queries(&shape(layout, servers), form, request).unwrap().map(|q| (form, q, at)).collect();
    asked.chunks(PASS_QUERIES).flat_map(|asked| answer_vectors(database, servers, asked).unwrap()).flatten().collect()
}

fn all_answers(database: &Database<Merkle>, pending: &Pending, at: At) -> Vec<Vec<u8>> {
    (0..pending.servers()).map(|server| answers(database, pending, server, at)).collect()
}

fn records(pending: &Pending, commitments: &[u8], answers: &[Vec<u8>]) -> Option<Vec<u8>> {
    let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    recon(pending, commitments, &answers).unwrap()
}

#[test]
fn every_record_of_every_shape_is_found_by_any_number_of_servers() {
    let packed = [(13, 3, 2, 4), (100, 40, 3, 8), (9, 200, 1, 2), (300, 7, 5, 32), (5, 4, 2, 8)].map(|(n, l, q, g)| {
        let layout = Layout::plan_packed(n, l, Some(q), g).unwrap();
        crate::common::database::<Merkle>(layout, &stream("records", (n * l) as usize))
    });
    for database in SHAPES.map(filled).iter().chain(&packed) {
        let layout = database.layout();
        for servers in [2, 3, 4, 5, MAX_SERVERS] {
            let indices: Vec<u32> = (0..layout.records() as u32).collect();
            for (number, chunk) in indices.chunks(max_queries(&shape(layout, servers)).min(40)).enumerate() {
                let pending = ask(layout, servers, chunk, &entropy("lookup", number));
                let answers = all_answers(database, &pending, At::Newest);
                let found =
                    records(&pending, &database.commitments().unwrap(), &answers).expect("all servers are honest");
                let expected: Vec<u8> =
                    chunk.iter().flat_map(|&index| database.record(index as usize).unwrap().to_vec()).collect();
                assert_eq!(found, expected, "{layout:?}, {servers} servers, from record {}", chunk[0]);
            }
        }
    }
}

// ---- what servers see ------------------------------------------------------------------------------------------

/// A client at a tiny size, where every vector of a byte stands for a seed: who carries the last share, for the group that is
/// asked for and a number that it draws; and whether these shares may be drawn.
struct Client {
    carrier: fn(usize, usize, usize) -> usize,
    draws: fn(&[u8]) -> bool,
}

const RIGHT: Client = Client { carrier: |_, drawn, _| drawn, draws: |_| true };

/// How often each coalition, as a bit for each server, sees what: form and share of each member.
fn views(shape: &Shape, servers: usize, group: usize, client: &Client) -> HashMap<(u8, Vec<(bool, u8)>), u32> {
    let (mut counts, values) = (HashMap::new(), 1u32 << shape.groups());
    for number in 0..values.pow(servers as u32 - 1) {
        let others: Vec<u8> = (0..servers as u32 - 1).map(|i| (number / values.pow(i) % values) as u8).collect();
        if !(client.draws)(&others) {
            continue;
        }
        let last = hazmat_last_share(shape, group, others.iter().map(|&share| Zeroizing::new(vec![share])));
        for drawn in 0..servers {
            let carrier = (client.carrier)(group, drawn, servers);
            let mut others = others.iter();
            let seen: Vec<(bool, u8)> = (0..servers)
                .map(|server| if server == carrier { (true, last[0]) } else { (false, *others.next().unwrap()) })
                .collect();
            for coalition in 1u8..1 << servers {
                let view = (0..servers).filter(|server| coalition >> server & 1 == 1).map(|server| seen[server]);
                *counts.entry((coalition, view.collect())).or_default() += 1;
            }
        }
    }
    counts
}

/// The largest coalition to which all groups look alike: each of its members, and all together, see the same distribution.
fn blind(shape: &Shape, servers: usize, client: &Client) -> u32 {
    let views: Vec<_> = (0..shape.groups()).map(|group| views(shape, servers, group, client)).collect();
    let tells = |coalition: u8| {
        let seen =
            |group: usize| -> HashMap<_, _> { views[group].iter().filter(|((of, _), _)| *of == coalition).collect() };
        (1..shape.groups()).any(|group| seen(group) != seen(0))
    };
    (1..=servers as u32)
        .take_while(|&size| (1u8..1 << servers).filter(|of| of.count_ones() == size).all(|of| !tells(of)))
        .last()
        .unwrap_or(0)
}

#[test]
fn all_servers_but_one_learn_nothing_and_the_enumeration_sees_clients_of_which_they_do() {
    for (groups, servers) in [(2, 3), (3, 3), (2, 4), (2, 5)] {
        let shape = Shape { partitions: 1, partition_records: groups, record_bytes: 1, depth: 2, group_log: 0 };
        assert_eq!(blind(&shape, servers, &RIGHT), servers as u32 - 1, "{groups} groups, {servers} servers");

        let follows = Client { carrier: |group, drawn, servers| (group + drawn / 2) % servers, ..RIGHT };
        assert_eq!(blind(&shape, servers, &follows), 0, "the carrier follows what is asked");
        let repeats = Client { draws: |shares| shares.iter().all(|share| *share == shares[0]), ..RIGHT };
        assert!(blind(&shape, servers, &repeats) < servers as u32 - 1, "one seed for all");
        let zeros = Client { draws: |shares| shares[1..].iter().all(|share| *share == 0), ..RIGHT };
        assert!(blind(&shape, servers, &zeros) < servers as u32 - 1, "only one share is random");
    }
}

// ---- what lying servers learn -----------------------------------------------------------------------------------

#[test]
fn every_changed_bit_of_any_answer_is_refused_for_every_index() {
    for dimensions in [(3, 13, 64), (2, 5, 64), (1, 6, 100)] {
        let database = filled(dimensions);
        let commitments = database.commitments().unwrap();
        for index in 0..database.layout().records() as u32 {
            let pending = query_any_of(database.layout(), 3, &[index], &entropy("lies", index as usize)).unwrap();
            let mut answers = all_answers(&database, &pending, At::Newest);
            let liar = index as usize % 3;
            for bit in 0..answers[liar].len() * 8 {
                answers[liar][bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    records(&pending, &commitments, &answers),
                    None,
                    "{dimensions:?}, record {index}, bit {bit}"
                );
                answers[liar][bit / 8] ^= 1 << (bit % 8);
            }
            assert!(records(&pending, &commitments, &answers).is_some());
        }
    }
}

#[test]
fn lies_that_cancel_each_other_change_nothing() {
    let database = filled((3, 13, 64));
    let pending = query_any_of(database.layout(), 4, &[17], &[1; 32]).unwrap();
    let mut answers = all_answers(&database, &pending, At::Newest);
    answers[0][3] ^= 0x55;
    answers[2][3] ^= 0x55;
    assert_eq!(records(&pending, &database.commitments().unwrap(), &answers).unwrap(), database.record(17).unwrap());
}

#[test]
fn servers_with_another_database_are_refused_whoever_they_are() {
    let database = filled((3, 13, 64));
    let other = crate::common::database::<Merkle>(*database.layout(), &stream("other records", 37 * 64));
    for (servers, index) in [2, 3].into_iter().flat_map(|servers| (0..37).map(move |index| (servers, index))) {
        let pending = ask(database.layout(), servers, &[index], &entropy("other", index as usize));
        for liars in 1u8..1 << servers {
            let answers: Vec<_> = (0..servers)
                .map(|server| {
                    let from = if liars >> server & 1 == 1 { &other } else { &database };
                    answers(from, &pending, server, At::Newest)
                })
                .collect();
            // A group whose sum comes out right in spite of it would be another database's only by chance.
            let found = records(&pending, &database.commitments().unwrap(), &answers);
            assert_eq!(found, None, "{servers} servers, record {index}, liars {liars:b}");
        }
    }
}

// ---- epochs -----------------------------------------------------------------------------------------------------

#[test]
fn both_epochs_are_answered_also_where_their_groups_differ() {
    let mut database = filled((1, 64, 8));
    let (before, old_commitments) = (*database.layout(), database.commitments().unwrap());
    let old: Vec<u8> = (0..before.slots()).flat_map(|i| database.record(i).unwrap().to_vec()).collect();
    let fresh = stream("fresh", 13_000 * 8);
    let mut rows = fresh.chunks_exact(8);
    let mut batch: Vec<_> = [0, 7, 12].map(|index| Operation::EditIndex(index, rows.next().unwrap())).into();
    batch.extend(rows.map(Operation::Add));
    apply(&mut database, None, &batch).map_err(|refused| refused.reason).unwrap();
    let after = *database.layout();
    assert_ne!(shape(&before, 3).group_log, shape(&after, 3).group_log);
    for index in 0..before.records() as u32 {
        let number = index as usize;
        let previous = query_any_of(&before, 3, &[index], &entropy("previous", number)).unwrap();
        let then = all_answers(&database, &previous, At::Previous);
        assert_eq!(records(&previous, &old_commitments, &then).unwrap(), old[number * 8..][..8]);
        let newest = query_any_of(&after, 3, &[index], &entropy("newest", number)).unwrap();
        let now = all_answers(&database, &newest, At::Newest);
        assert_eq!(records(&newest, &database.commitments().unwrap(), &now).unwrap(), database.record(number).unwrap());
        let form = |pending: &Pending| pending.form(0).unwrap();
        let mixed = [
            (form(&previous), previous.request(0).unwrap(), At::Previous),
            (form(&newest), newest.request(0).unwrap(), At::Newest),
        ];
        assert!(matches!(answer_vectors(&database, 3, &mixed), Err(Error::Query(_))));
    }
}

// ---- bad input --------------------------------------------------------------------------------------------------

#[test]
fn what_is_no_query_is_refused_and_says_why() {
    let database = filled((7, 200, 32));
    let layout = database.layout();
    let shape = shape(layout, 3);
    assert_ne!(shape.groups() % 8, 0);
    let mut vector = vec![0xff; shape.vector_bytes()];
    assert!(
        matches!(check_vectors(layout, 3, Form::Vector, &vector), Err(Error::Query(_))),
        "bits beyond the last group"
    );
    *vector.last_mut().unwrap() = 0;
    check_vectors(layout, 3, Form::Vector, &vector).unwrap();
    assert!(matches!(check_vectors(layout, 3, Form::Vector, &vector[1..]), Err(Error::Length { .. })));
    assert!(matches!(check_vectors(layout, 3, Form::Seed, &[0; 33]), Err(Error::Length { .. })));
    for servers in [0, 1, 2, MAX_SERVERS + 1] {
        assert!(matches!(check_vectors(layout, servers, Form::Seed, &[0; 32]), Err(Error::Index { .. })));
        assert!(matches!(query_any_of(layout, servers, &[0], &[0; 32]), Err(Error::Index { .. })));
        assert!(matches!(
            Pass::of_vectors(&database, servers, &[(Form::Seed, &[0; 32], At::Newest)]),
            Err(Error::Index { .. })
        ));
    }
    assert!(matches!(query_any_of(layout, 3, &[], &[0; 32]), Err(Error::Length { .. })));
    assert!(matches!(query_any_of(layout, 3, &[1400], &[0; 32]), Err(Error::Index { .. })));
    let pending = query_any_of(layout, 3, &[0], &[0; 32]).unwrap();
    let two = vec![0; shape.answer_bytes()];
    assert!(matches!(recon(&pending, &database.commitments().unwrap(), &[&two, &two]), Err(Error::Index { .. })));
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(body in prop::collection::vec(any::<u8>(), 0..300), vector: bool, servers in 0usize..10) {
        let database = filled((7, 200, 32));
        let form = if vector { Form::Vector } else { Form::Seed };
        if check_vectors(database.layout(), servers, form, &body).is_ok() {
            let shape = shape(database.layout(), servers);
            for query in queries(&shape, form, &body).unwrap() {
                let answer = answer_vectors(&database, servers, &[(form, query, At::Newest)]).unwrap().remove(0);
                prop_assert_eq!(answer.len(), shape.answer_bytes());
                prop_assert_eq!(share(&shape, form, query).unwrap().len(), shape.vector_bytes());
            }
        }
    }

    #[test]
    fn queries_for_several_servers_lie_one_after_the_other(forms in prop::collection::vec(any::<bool>(), 1..8)) {
        let database = filled((7, 200, 32));
        let shape = shape(database.layout(), 3);
        let kinds: Vec<_> = forms.iter().map(|&vector| (if vector { Form::Vector } else { Form::Seed }, At::Newest)).collect();
        let lengths = forms.iter().map(|&vector| if vector { shape.vector_bytes() } else { 32 });
        let body: Vec<u8> = iter::repeat_n(0, lengths.sum()).collect();
        let mut pass = Pass::of_joined(&database, 3, &body, &kinds).unwrap();
        while pass.step(&database).unwrap() {}
        prop_assert_eq!(pass.finish(&database).unwrap().len(), forms.len());
        prop_assert!(Pass::of_joined(&database, 3, &body[1..], &kinds).is_err());
    }
}
