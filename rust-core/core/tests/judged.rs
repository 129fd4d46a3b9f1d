//! Tests hints whose answers the caller verifies (Pointproofs): the caller's verdict decides, and nothing else does.

use std::collections::BTreeSet;

use crate::common::{builder_of, finish, hint_of, random, receive};
use keyhush_core::Error;
use keyhush_core::commitment::packaged::{PACKAGED, Packaged};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::layout::Layout;
use keyhush_core::scheme::State;
use keyhush_core::suites::{answer, answer_bytes, query_limits, suites};
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Role, query};
use keyhush_core::tapir::recon::{judged, recon, verify};

const SUITE: u16 = 6;
const PROOF_BYTES: usize = 48;
const POINTPROOFS: &Packaged = &PACKAGED[0];

fn world() -> (Database<Merkle>, Vec<u8>, HintBuilder) {
    let layout = Layout::new(23, 3, 4, 6).unwrap();
    let (database, records) = random(layout, 5);
    let database = database.proved_by_caller(POINTPROOFS);
    let mut builder = builder_of(&database, Proofs::Packaged(POINTPROOFS), [1; 32]);
    for q in 0..3 {
        receive(&mut builder, 0, q, &records);
        assert!(builder.fold(0).unwrap());
    }
    (database, records, builder)
}

/// The rest of a lookup, through the stored forms.
fn hint(builder: &HintBuilder, database: &Database<Merkle>, records: &[u8]) -> Hint {
    let (layout, hashes) = (*database.layout(), database.content_hashes().unwrap());
    let stored = builder.encode(&[7; 32]);
    let mut builder = HintBuilder::decode(&stored, layout, &[], &hashes, &[7; 32]).unwrap();
    assert_eq!((builder.proofs(), builder.folded()), (Proofs::Packaged(POINTPROOFS), 3));
    receive(&mut builder, 0, 3, records);
    assert!(builder.fold(0).unwrap());
    let stored = builder.finish().map_err(|(error, _)| error).unwrap().encode(&[7; 32]).unwrap();
    Hint::decode(&stored, layout, &[], &[7; 32]).unwrap()
}

#[test]
fn answers_are_records_with_room_for_one_proof_and_their_verdict_decides() {
    let (database, records, builder) = world();
    let mut hint = hint(&builder, &database, &records);
    assert_eq!(hint.proofs(), Proofs::Packaged(POINTPROOFS));
    let mut pending = query(&mut hint, &[22, 0], &[3; 32]).unwrap();
    for role in [Role::Retrieve, Role::Refresh] {
        let answer = database.answer(&pending.vectors(role), Proofs::Packaged(POINTPROOFS)).unwrap();
        let bare = database.answer(&pending.vectors(role), Proofs::Tags).unwrap();
        assert_eq!(answer, [bare, vec![0; PROOF_BYTES]].concat());
        // It cannot verify by itself. It refuses a verdict on an answer of the wrong length.
        assert!(matches!(verify::<Merkle>(&mut hint, &mut pending, role, &answer), Err(Error::Phase(_))));
        for short in [&answer[1..], &answer[..answer.len() - PROOF_BYTES], &[]] {
            let refused = judged::<Merkle>(&mut hint, &mut pending, role, short, true);
            assert!(matches!(refused, Err(Error::Length { .. })));
        }
        assert_eq!(judged::<Merkle>(&mut hint, &mut pending, role, &answer, true), Ok(true));
    }
    let recovered = recon(&mut hint, pending).map_err(|(error, _)| error).unwrap().records;
    assert_eq!(recovered, [&records[22 * 3..][..3], &records[..3]].concat());

    let mut pending = query(&mut hint, &[22], &[4; 32]).unwrap();
    let answer = database.answer(&pending.vectors(Role::Refresh), Proofs::Packaged(POINTPROOFS)).unwrap();
    assert_eq!(judged::<Merkle>(&mut hint, &mut pending, Role::Refresh, &answer, false), Ok(false));
    assert!(hint.is_condemned() && hint.encode(&[7; 32]).is_err());
    assert_eq!(judged::<Merkle>(&mut hint, &mut pending, Role::Refresh, &answer, true), Err(Error::Condemned));
    assert!(matches!(recon(&mut hint, pending), Err((Error::Condemned, _))));
}

#[test]
fn no_other_hint_takes_a_verdict() {
    let (database, records, _) = world();
    for proofs in [Proofs::Openings, Proofs::Tags] {
        let mut hint = hint_of(&database, proofs, [1; 32]);
        let mut pending = query(&mut hint, &[3], &[3; 32]).unwrap();
        let mut answer = database.answer(&pending.vectors(Role::Retrieve), proofs).unwrap();
        answer[0] ^= 1;
        let refused = judged::<Merkle>(&mut hint, &mut pending, Role::Retrieve, &answer, true);
        assert!(matches!(refused, Err(Error::Phase(_))));
        answer[0] ^= 1;
        assert_eq!(finish(&database, &mut hint, pending), &records[9..12], "nothing has changed");
    }
}

#[test]
fn a_database_that_the_caller_proves_has_the_suite_at_both_epochs() {
    let (mut database, ..) = world();
    assert!(suites(&database).contains(&SUITE));
    assert_eq!(answer_bytes(SUITE, &database, 2, At::Newest).unwrap(), 2 * 4 * 3 + PROOF_BYTES);
    apply(&mut database, None, &[Operation::EditIndex(0, &[1, 2, 3])]).unwrap();
    let offsets: Vec<u8> = [0u16; 4].iter().flat_map(|offset| offset.to_le_bytes()).collect();
    let [newest, previous] = [At::Newest, At::Previous].map(|at| answer(SUITE, &database, &offsets, at).unwrap());
    assert_eq!(newest[..3], [1, 2, 3]);
    assert_ne!(previous[..3], newest[..3]);
    assert_eq!(previous[3..], newest[3..]);
    let plain: Database<Merkle> = crate::common::database(*database.layout(), &[]);
    assert!(!suites(&plain).contains(&SUITE));
}

#[test]
fn no_update_takes_from_a_request_what_it_was_made_with() {
    // With four partitions, 64 queries have 256 entries, which are allowed. With 17 partitions 15 queries would be allowed, not 16.
    for (partitions, refused) in [(3, false), (4, true), (16, true), (129, false)] {
        let layout = Layout::new(2 * partitions, 1, partitions, 2).unwrap();
        let mut database: Database<Merkle> =
            crate::common::database::<Merkle>(layout, &[]).proved_by_caller(POINTPROOFS);
        let applied = apply(&mut database, None, &[Operation::Add(&[1])]);
        assert_eq!(applied.is_err(), refused, "Q = {partitions}");
        assert_eq!(database.layout().partitions(), partitions as usize + usize::from(!refused));
    }
}

#[test]
fn a_request_has_entries_for_256_pairings_or_a_single_query() {
    for (partitions, most) in [(1, 64), (4, 64), (5, 51), (16, 16), (129, 1), (300, 1)] {
        let layout = Layout::new(2 * partitions, 1, partitions, 2).unwrap();
        let database: Database<Merkle> = crate::common::database::<Merkle>(layout, &[]).proved_by_caller(POINTPROOFS);
        let limits = query_limits(SUITE, &database, At::Newest).unwrap();
        assert_eq!((limits, database.max_queries()), ((2 * partitions as usize, most), 64));
        let hint = hint_of(&database, Proofs::Packaged(POINTPROOFS), [1; 32]);
        let carries = |queries| State::<Merkle>::carries(&hint, queries);
        assert_eq!((carries(most), carries(most + 1)), (true, false), "Q = {partitions}");
    }
}

#[test]
fn each_packaged_kind_has_a_mark_of_its_own_in_stored_forms() {
    let marks: BTreeSet<u32> = PACKAGED.iter().map(|kind| kind.mark).collect();
    assert_eq!(marks.len(), PACKAGED.len());
}
