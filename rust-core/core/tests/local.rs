//! Tests the copy of a whole database: what arrives, updates, and stored forms, compared with the database itself.

use crate::common::{database, torn};
use keyhush_core::commitment::Merkle;
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::Database;
use keyhush_core::database::list::UpdateList;
use keyhush_core::error::Error;
use keyhush_core::layout::Layout;
use keyhush_core::local::Local;
use proptest::prelude::*;

const RECORD_BYTES: usize = 6;
const ID: [u8; 16] = [3; 16];
const BINDING: [u8; 32] = [7; 32];

/// In blocks of one, two or four records: a copy does not depend on blocks.
fn server(records: usize, partitions: u64) -> Database<Merkle> {
    let block_records = 1 << (records % 3);
    let layout = Layout::plan_packed(records as u64, RECORD_BYTES as u64, Some(partitions), block_records).unwrap();
    let content: Vec<u8> = (0..records * RECORD_BYTES).map(|at| 1 + (at * 7 % 251) as u8).collect();
    database::<Merkle>(layout, &content)
}

/// Receives a partition through a lane, in pieces.
fn receive(local: &mut Local, lane: usize, q: usize, bytes: &[u8]) -> bool {
    local.begin(lane, q).unwrap();
    let mut at = 0;
    for piece in bytes.chunks(5) {
        local.lane_bytes(lane).unwrap()[at..at + piece.len()].copy_from_slice(piece);
        local.absorb(lane, piece.len()).unwrap();
        at += piece.len();
    }
    local.keep(lane).unwrap()
}

fn partition(server: &mut Database<Merkle>, q: usize) -> Vec<u8> {
    let bytes = server.layout().partition_bytes();
    server.records_mut()[q * bytes..][..bytes].to_vec()
}

fn fill(local: &mut Local, server: &mut Database<Merkle>) {
    for q in 0..server.layout().partitions() {
        if !local.is_held(q).unwrap() {
            let bytes = partition(server, q);
            assert!(receive(local, q % 2, q, &bytes));
        }
    }
}

/// All steps; how many there were.
fn arrive(local: &mut Local, hashes: &[u8]) -> Result<usize, Error> {
    let (mut steps, mut next) = (1, local.arrive(hashes, 0)?);
    while let Some(q) = next {
        next = local.arrive(hashes, q)?;
        steps += 1;
    }
    Ok(steps)
}

fn new(server: &Database<Merkle>) -> Local {
    Local::new(*server.layout(), &server.content_hashes().unwrap(), ID).unwrap()
}

fn assert_same(local: &Local, server: &mut Database<Merkle>) {
    let (records, bytes) = (server.layout().records(), RECORD_BYTES);
    let all: Vec<u32> = (0..records as u32).rev().collect();
    let found = local.records(&all).unwrap();
    for (index, record) in all.iter().zip(found.chunks_exact(bytes)) {
        assert_eq!(record, &server.records_mut()[*index as usize * bytes..][..bytes]);
    }
    assert!(matches!(local.records(&[records as u32]), Err(Error::Index { .. })));
}

/// A batch of edits and adds.
fn step(server: &mut Database<Merkle>, edits: &[(u32, u8)], adds: usize) -> UpdateList {
    let records = server.layout().records() as u32;
    let mut chosen: Vec<(u32, Vec<u8>)> = Vec::new();
    for &(index, value) in edits {
        let index = index % records;
        let record = vec![value; RECORD_BYTES];
        let same = server.record(index as usize).unwrap() == record;
        if !same && chosen.iter().all(|(other, _)| *other != index) {
            chosen.push((index, record));
        }
    }
    let new: Vec<Vec<u8>> = (0..adds).map(|i| vec![1 + (i % 200) as u8; RECORD_BYTES]).collect();
    let operations: Vec<Operation> = chosen
        .iter()
        .map(|(index, record)| Operation::EditIndex(*index, record))
        .chain(new.iter().map(|record| Operation::Add(record)))
        .collect();
    apply(server, None, &operations).unwrap().list
}

#[test]
fn a_partition_is_kept_only_with_its_hash() {
    let mut server = server(50, 4);
    let mut local = new(&server);
    let good = partition(&mut server, 1);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(!receive(&mut local, 0, 1, &bad));
        assert!(!local.is_held(1).unwrap());
    }
    assert!(receive(&mut local, 0, 1, &good));
    assert!(matches!(local.begin(1, 1), Err(Error::Phase(_))), "there already");
    local.begin(0, 2).unwrap();
    assert!(matches!(local.begin(1, 2), Err(Error::Phase(_))), "under way in the other lane");
    assert!(matches!(local.keep(0), Err(Error::Length { .. })), "not all has come");
    assert!(matches!(local.absorb(0, good.len() + 1), Err(Error::Length { .. })));
    local.abandon(0).unwrap();
    assert!(matches!(local.absorb(0, 1), Err(Error::Phase(_))));
    assert!(matches!(local.records(&[0]), Err(Error::Phase(_))));
    assert!(matches!(local.finish_at(0), Err(Error::Phase(_))));
    fill(&mut local, &mut server);
    local.finish_at(0).unwrap();
    assert_same(&local, &mut server);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn follows_the_database(
        records in 1usize..60,
        partitions in 1u64..6,
        steps in prop::collection::vec((prop::collection::vec((any::<u32>(), any::<u8>()), 0..8), 0usize..20), 1..5),
        there in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mut server = server(records, partitions);
        let mut whole = new(&server);
        fill(&mut whole, &mut server);
        whole.finish_at(4).unwrap();
        let mut behind = Local::decode(&whole.encode(&BINDING), *server.layout(), &server.content_hashes().unwrap(), &BINDING).unwrap();
        let mut partial = new(&server);
        for q in 0..server.layout().partitions() {
            if there[q % there.len()] {
                let bytes = partition(&mut server, q);
                prop_assert!(receive(&mut partial, 0, q, &bytes));
            }
        }
        let mut journal = Vec::new();
        for (edits, adds) in &steps {
            let before = *server.layout();
            let made = step(&mut server, edits, *adds);
            let list = UpdateList::decode(made.bytes(), before, *server.layout()).unwrap();
            let next = server.content_hashes().unwrap();
            let mut wrong = next.clone();
            if list.entries().next().is_some() {
                let q = list.entries().next().unwrap().index as usize / server.layout().stored().partition_records;
                wrong[q * 32] ^= 1;
                let stored = whole.encode(&BINDING);
                prop_assert!(matches!(whole.update(&list, &wrong), Err(Error::Update(_))));
                prop_assert!(whole.encode(&BINDING) == stored, "nothing has changed");
            }
            partial.update(&list, &next).unwrap();
            let stored = partial.encode(&BINDING);
            partial = Local::decode(&stored, *server.layout(), &next, &BINDING).unwrap();
            journal.push(whole.update_entry(list, &next).unwrap());
            assert_same(&whole, &mut server);
        }
        for entry in &journal {
            behind.replay(entry).unwrap();
            prop_assert!(behind.replay(entry).is_err(), "applied once");
        }
        arrive(&mut behind, &server.content_hashes().unwrap()).unwrap();
        prop_assert_eq!(behind.stamp(), whole.stamp());
        assert_same(&behind, &mut server);
        fill(&mut partial, &mut server);
        partial.finish_at(0).unwrap();
        assert_same(&partial, &mut server);
    }
}

#[test]
fn stored_bytes_are_used_whole_or_not_at_all() {
    let mut server = server(20, 3);
    let mut local = new(&server);
    let hashes = server.content_hashes().unwrap();
    let bytes = partition(&mut server, 0);
    assert!(receive(&mut local, 0, 0, &bytes));
    let partial = local.encode(&BINDING);
    fill(&mut local, &mut server);
    let layout = *server.layout();
    for stored in [partial, local.encode(&BINDING)] {
        assert!(Local::decode(&stored, layout, &hashes, &BINDING).is_ok());
        for bytes in torn(&stored) {
            assert!(matches!(Local::decode(&bytes, layout, &hashes, &BINDING), Err(Error::State(_))));
        }
        assert!(matches!(Local::decode(&stored, layout, &hashes, &[8; 32]), Err(Error::State(_))));
    }
    let mut other = hashes.clone();
    other[0] ^= 1;
    assert!(matches!(arrive(&mut local, &other), Err(Error::State(_))), "another manifest's");
    arrive(&mut local, &hashes).unwrap();
}

#[test]
fn large_partitions_are_checked_one_at_a_time_and_a_wrong_one_is_found_wherever_it_is() {
    let layout = Layout::new(3 << 15, 32, 3, 1 << 15).unwrap(); // of a MiB
    let mut server = database::<Merkle>(layout, &vec![7; 3 << 20]);
    let mut local = new(&server);
    fill(&mut local, &mut server);
    let hashes = server.content_hashes().unwrap();
    assert_eq!(arrive(&mut local, &hashes), Ok(3), "steps");
    for q in 0..3 {
        let mut other = hashes.clone();
        other[32 * q] ^= 1;
        assert!(matches!(arrive(&mut local, &other), Err(Error::State(_))));
    }
    assert!(matches!(local.arrive(&hashes, 3), Err(Error::Index { .. })));
}
