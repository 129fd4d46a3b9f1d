//! Tests what TAPIR's client and servers refuse, and that calls out of turn change nothing. (state.rs has lookups in random
//! layouts, tags.rs forgeries.)

use crate::common::{builder_of, finish, hint_of, random, receive};
use keyhush_core::Error;
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role, query};
use keyhush_core::tapir::recon::{recon, verify};
use proptest::prelude::*;

/// A random database, its hint and its records.
fn small() -> (Database<Merkle>, Hint, Vec<u8>) {
    let (database, content) = random(Layout::new(10, 4, 3, 4).unwrap(), 5);
    let hint = hint_of(&database, Proofs::Openings, [5; 32]);
    (database, hint, content)
}

fn pending_of(hint: &mut Hint, indices: &[u32], entropy: u8) -> Pending {
    query(hint, indices, &[entropy; 32]).unwrap()
}

proptest! {
    #[test]
    fn arbitrary_state_and_query_bytes_are_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let (database, hint, _) = small();
        prop_assert!(Pending::decode(&bytes, &hint).is_err());
        let lawful = !bytes.is_empty() && bytes.len() % 6 == 0
            && bytes.as_chunks().0.iter().all(|offset| u16::from_le_bytes(*offset) < 4);
        prop_assert_eq!(database.answer(&bytes, Proofs::Openings).is_ok(), lawful);
    }
}

/// An answer of the wrong length, with or without proofs, is not judged: nothing changes, and the right answer is still accepted.
#[test]
fn answers_of_the_wrong_length_change_nothing() {
    for (proofs, other) in [(Proofs::Openings, Proofs::Tags), (Proofs::Tags, Proofs::Openings)] {
        let (database, _, content) = small();
        let mut hint = hint_of(&database, proofs, [5; 32]);
        let mut pending = pending_of(&mut hint, &[8], 1);
        let vectors = pending.vectors(Role::Retrieve);
        let [answer, another] = [proofs, other].map(|proofs| database.answer(&vectors, proofs).unwrap());
        let short = &answer[..answer.len() - 1];
        for wrong in [&[][..], &answer[1..], short, &[answer.clone(), vec![0]].concat(), &another] {
            let verified = verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, wrong);
            assert!(matches!(verified, Err(Error::Length { .. })));
        }
        assert!(!hint.is_condemned());
        let (error, pending) = recon(&mut hint, pending).err().unwrap();
        assert!(matches!(error, Error::Phase(_)), "an unverified lookup is not applied");
        assert_eq!(finish(&database, &mut hint, pending), &content[32..36]);
    }
}

/// With an offset ≥ M, the next partition would be read.
#[test]
fn servers_refuse_offsets_beyond_the_partition_and_lists_of_the_wrong_length() {
    let (database, _, _) = small();
    let vectors = |offsets: &[u16]| offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<u8>>();
    assert!(database.answer(&vectors(&[0, 3, 3]), Proofs::Openings).is_ok());
    for wrong in [&[0, 4, 0][..], &[0, 0, u16::MAX], &[], &[0, 0], &[0, 0, 0, 0]] {
        assert!(database.answer(&vectors(wrong), Proofs::Openings).is_err(), "{wrong:?}");
    }
    assert!(
        database.answer(&[0; 5], Proofs::Openings).is_err()
            && database.answer(&vectors(&[0; 3 * 65]), Proofs::Openings).is_err()
    );
    assert!(matches!(
        Database::<Merkle>::new(*database.layout()).unwrap().answer(&[0; 6], Proofs::Openings),
        Err(Error::Phase(_))
    ));
}

#[test]
fn queries_for_no_record_or_no_index_are_refused() {
    let (_, mut hint, _) = small();
    assert!(matches!(query(&mut hint, &[], &[1; 32]), Err(Error::Phase(_))));
    assert!(matches!(query(&mut hint, &[10], &[1; 32]), Err(Error::Index { .. })), "padding is not a record");
    assert!(matches!(query(&mut hint, &[0, u32::MAX], &[1; 32]), Err(Error::Index { .. })));
}

/// A partition is checked before any of it touches the hint or its tags, and folded once.
#[test]
fn a_wrong_partition_leaves_the_hint_unchanged_and_none_is_folded_twice() {
    let (database, _, records) = small();
    for proofs in [Proofs::Openings, Proofs::Tags] {
        let mut builder = builder_of(&database, proofs, [3; 32]);
        let untouched = builder.encode(&[0; 32]);
        receive(&mut builder, 0, 0, &records);
        builder.lane_bytes(0).unwrap()[3] ^= 1; // after hashing: what is folded is what was hashed, in JavaScript's view
        builder.begin(0, 0).unwrap();
        builder.absorb(0, 16).unwrap();
        assert_eq!(builder.fold(0), Ok(false));
        assert_eq!((builder.folded(), builder.is_folded(0)), (0, Ok(false)));
        assert!(builder.encode(&[0; 32]) == untouched);

        receive(&mut builder, 0, 0, &records);
        assert!(matches!(builder.begin(1, 0), Err(Error::Phase(_))), "under way in the other lane");
        assert_eq!(builder.fold(0), Ok(true));
        assert!(matches!(builder.begin(0, 0), Err(Error::Phase(_))), "folded already");
        assert!(matches!(builder.fold(0), Err(Error::Phase(_))), "nothing received");

        builder.begin(1, 1).unwrap();
        assert!(matches!(builder.absorb(1, 17), Err(Error::Length { .. })));
        builder.absorb(1, 8).unwrap();
        assert!(matches!(builder.fold(1), Err(Error::Length { .. })), "half a partition");
        builder.abandon(1).unwrap();
        let Err((Error::Phase(_), mut builder)) = builder.finish() else { panic!("partitions are missing") };
        for q in [1, 2] {
            receive(&mut builder, 0, q, &records);
            assert_eq!(builder.fold(0), Ok(true));
        }
        let hint = builder.finish().map_err(|(error, _)| error).unwrap();
        assert!(hint.encode(&[0; 32]) == hint_of(&database, proofs, [3; 32]).encode(&[0; 32]));

        let lengths = [(95, 96), (96, 97)].map(|(commitments, hashes)| (vec![0; commitments], vec![0; hashes]));
        for (commitments, hashes) in &lengths[usize::from(proofs == Proofs::Tags)..] {
            assert!(HintBuilder::new(*database.layout(), proofs, commitments, hashes, [0; 32]).is_err());
        }
    }
}

/// One lookup at a time, each step in its turn. The stored form of a lookup is that lookup.
#[test]
fn calls_out_of_turn_change_nothing() {
    let (database, hint, content) = small();
    let mut asked: Asked<Merkle, Hint> = Asked::new(hint);
    assert!(matches!(asked.pending_bytes(), Err(Error::Phase(_))));
    assert!(matches!(asked.take_effect(), Err(Error::Phase(_))));
    asked.query(&[8], &[1; 32]).unwrap();
    let (stored, name) = (asked.pending_bytes().unwrap(), asked.pending_name().unwrap());
    assert!(asked.request(2).is_err(), "no further party");
    assert!(matches!(asked.query(&[8], &[1; 32]), Err(Error::Phase(_))));
    assert!(matches!(asked.encode(&[1; 32]), Err(Error::Phase(_))));
    assert!(matches!(asked.replay(&[]), Err(Error::Phase(_))));
    assert!(matches!(asked.recon(), Err(Error::Phase(_))), "replies are missing");
    assert_eq!(asked.pending(), 1);

    asked.withdraw();
    asked.resume(&stored).unwrap();
    assert!(matches!(asked.resume(&stored), Err(Error::Phase(_))));
    assert_eq!((asked.pending_bytes().unwrap(), asked.pending_name().unwrap()), (stored, name));
    for party in 0..2 {
        let reply = database.answer(&asked.request(party).unwrap(), Proofs::Openings).unwrap();
        assert_eq!(asked.verify(party, &reply), Ok(Verdict::Genuine));
    }
    assert_eq!(asked.recon().unwrap(), &content[32..36]);
    asked.take_effect().unwrap();
    assert!(matches!(asked.take_effect(), Err(Error::Phase(_))), "taken once");
    assert_eq!(asked.pending(), 0);
}
