//! Client-held tags against a server that lies (docs/threat-model.md, Tags): every entry of both answers is checked,
//! and whether a lie is caught does not depend on what was asked. (tests/privacy.rs counts the latter exactly.)

mod common;

use common::{builder_of, database, finish, receive, tags_of};
use pirouette_core::Error;
use pirouette_core::commitment::{Merkle, Proofs};
use pirouette_core::database::epoch::{Operation, apply};
use pirouette_core::database::flat::Database;
use pirouette_core::layout::Layout;
use pirouette_core::random::ChaCha;
use pirouette_core::tapir::hint::{Hint, HintBuilder};
use pirouette_core::tapir::query::{Pending, Role, query};
use pirouette_core::tapir::recon::{recon, verify};
use pirouette_core::tapir::update::{HintUpdate, update_hint};

const ROLES: [Role; 2] = [Role::Retrieve, Role::Refresh];

/// A database for tags alone, of records that all differ, and a hint in its stored form, to be opened as often as needed.
struct World {
    database: Database<Merkle>,
    records: Vec<u8>,
    checkpoint: Vec<u8>,
}

impl World {
    fn new(layout: Layout) -> Self {
        let mut records = vec![0; layout.database_bytes()];
        ChaCha::new(&[5; 32], 0).fill(&mut records[..layout.records() * layout.record_bytes()]);
        let mut database = Database::without_openings(layout).unwrap();
        database.records_mut().copy_from_slice(&records);
        (0..layout.partitions()).for_each(|q| database.commit(q).unwrap());
        let checkpoint = hint_of(&database, &records, 1).encode(&[0; 32]).unwrap();
        World { database, records, checkpoint }
    }

    fn layout(&self) -> &Layout {
        self.database.layout()
    }

    fn ask(&self, indices: &[u32], entropy: u8) -> (Hint, Pending) {
        let mut hint = Hint::decode(&self.checkpoint, *self.layout(), &[], &[0; 32]).unwrap();
        let pending = query(&mut hint, indices, &[entropy; 32]).unwrap();
        (hint, pending)
    }

    fn answer(&self, pending: &Pending, role: Role) -> Vec<u8> {
        self.database.answer(&pending.vectors(role), Proofs::Tags).unwrap()
    }

    /// Every index there is, alone and in a batch with another.
    fn questions(&self) -> impl Iterator<Item = Vec<u32>> {
        let records = self.layout().records() as u32;
        (0..records).flat_map(move |index| [vec![index], vec![(index + 1) % records, index]])
    }
}

fn hint_of(database: &Database<Merkle>, records: &[u8], entropy: u8) -> Hint {
    let mut builder = builder_of(database, Proofs::Tags, [entropy; 32]);
    for q in 0..database.layout().partitions() {
        receive(&mut builder, 0, q, records);
        assert!(builder.fold(0).unwrap());
    }
    builder.finish().map_err(|(error, _)| error).unwrap()
}

/// A forged answer is noticed, and nothing can be done with the hint afterwards.
fn assert_caught(mut hint: Hint, mut pending: Pending, role: Role, answer: &[u8]) {
    assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, answer), Ok(false));
    assert!(hint.is_condemned() && hint.encode(&[0; 32]).is_err());
    assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, answer), Err(Error::Condemned));
    assert_eq!(query(&mut hint, &[0], &[2; 32]).err(), Some(Error::Condemned));
    assert!(matches!(recon(&mut hint, pending), Err((Error::Condemned, _))));
}

fn worlds() -> impl Iterator<Item = World> {
    [(1, 1, 1, 1), (2, 1, 2, 1), (5, 3, 1, 5), (10, 4, 3, 4)]
        .into_iter()
        .map(|(n, l, q, m)| World::new(Layout::new(n, l, q, m).unwrap()))
}

#[test]
fn a_forged_record_is_caught_at_every_position_of_either_answer_whatever_was_asked() {
    for world in worlds() {
        for indices in world.questions() {
            for role in ROLES {
                let (_, pending) = world.ask(&indices, 1);
                let genuine = world.answer(&pending, role);
                assert_eq!(genuine.len(), indices.len() * world.layout().partitions() * world.layout().record_bytes());
                for bit in 0..genuine.len() * 8 {
                    let (hint, pending) = world.ask(&indices, 1);
                    let mut forged = genuine.clone();
                    forged[bit / 8] ^= 1 << (bit % 8);
                    assert_caught(hint, pending, role, &forged);
                }
            }
        }
    }
}

/// Whole records of the database in the place of others: at another position, or from another one.
#[test]
fn a_record_of_another_place_is_caught_whatever_was_asked() {
    for world in worlds().skip(1) {
        let record_bytes = world.layout().record_bytes();
        for indices in world.questions() {
            for role in ROLES {
                let (_, pending) = world.ask(&indices, 1);
                let genuine = world.answer(&pending, role);
                let entries: Vec<&[u8]> = genuine.chunks_exact(record_bytes).collect();
                for at in 0..entries.len() {
                    for other in world.records.chunks_exact(record_bytes).filter(|other| *other != entries[at]) {
                        let (hint, pending) = world.ask(&indices, 1);
                        let mut forged = entries.clone();
                        forged[at] = other;
                        assert_caught(hint, pending, role, &forged.concat());
                    }
                    for with in (0..at).filter(|&with| entries[with] != entries[at]) {
                        let (hint, pending) = world.ask(&indices, 1);
                        let mut forged = entries.clone();
                        forged.swap(at, with);
                        assert_caught(hint, pending, role, &forged.concat());
                    }
                }
            }
        }
    }
}

#[test]
fn the_answer_to_another_question_is_caught() {
    let world = World::new(Layout::new(10, 4, 3, 4).unwrap());
    for entropy in 2..30 {
        for role in ROLES {
            let (_, other) = world.ask(&[3], entropy);
            let (mut hint, mut pending) = world.ask(&[3], 1);
            let genuine = other.vectors(role) == pending.vectors(role);
            let answer = world.answer(&other, role);
            assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, &answer), Ok(genuine));
        }
    }
}

/// Entries with proofs, or one entry more or less, are not evaluated: nothing changes.
#[test]
fn answers_of_another_length_change_nothing() {
    let layout = Layout::new(10, 4, 3, 4).unwrap();
    let world = World::new(layout);
    let with_trees = database::<Merkle>(layout, &world.records);
    let (mut hint, mut pending) = world.ask(&[8], 1);
    let answer = world.answer(&pending, Role::Retrieve);
    let proved = with_trees.answer(&pending.vectors(Role::Retrieve), Proofs::Openings).unwrap();
    for wrong in [&proved[..], &answer[4..], &answer[..11], &[answer.clone(), vec![0; 4]].concat(), &[]] {
        assert!(matches!(verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, wrong), Err(Error::Length { .. })));
    }
    assert!(!hint.is_condemned());
    assert_eq!(finish(&with_trees, &mut hint, pending), &world.records[32..36]);
}

/// What was right an epoch ago is a lie now, and only where something changed.
#[test]
fn a_record_of_the_epoch_before_is_caught() {
    for entropy in 0..20 {
        let mut world = World::new(Layout::new(10, 4, 3, 4).unwrap());
        let (mut hint, mut pending) = world.ask(&[6], entropy);
        let records = apply(&mut world.database, None, &[Operation::EditIndex(2, &[1; 4])]).unwrap().records;
        let update = HintUpdate::new(&hint, records, &[1; 32]);
        update_hint(&mut hint, Some(&mut pending), &update).unwrap();
        for role in ROLES {
            let old = world.database.answer_previous(&pending.vectors(role), Proofs::Tags).unwrap();
            if old == world.answer(&pending, role) {
                assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, &old), Ok(true));
            } else {
                assert_caught(hint, pending, role, &old);
                break;
            }
        }
    }
}

#[test]
fn every_hint_has_a_key_of_its_own() {
    let world = World::new(Layout::new(10, 4, 3, 4).unwrap());
    let [one, again, other] = [1, 1, 2].map(|entropy| tags_of(&hint_of(&world.database, &world.records, entropy)));
    assert_eq!(one.len(), 16 + 8 * 12);
    assert_eq!(one, again);
    let pairs = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    assert!(pairs.clone().count() == 14 && pairs.clone().all(|(one, other)| one != other));
    let hint = hint_of(&world.database, &world.records, 1);
    assert_eq!((hint.proofs(), hint.tag_bytes()), (Proofs::Tags, 8 * 12));
}

/// Not a tag is made of a partition before its content hash was right.
#[test]
fn a_wrong_partition_leaves_no_tags() {
    let layout = Layout::new(10, 4, 3, 4).unwrap();
    let world = World::new(layout);
    let hashes: Vec<u8> = (0..3).flat_map(|q| world.database.content_hash(q).unwrap()).collect();
    let mut builder = HintBuilder::with_tags(layout, &hashes, [1; 32]).unwrap();
    let untouched = builder.encode(&[0; 32]);
    let mut wrong = world.records.clone();
    wrong[17] ^= 1;
    receive(&mut builder, 0, 1, &wrong);
    assert_eq!(builder.fold(0), Ok(false));
    assert!(builder.encode(&[0; 32]) == untouched);
    for q in 0..3 {
        receive(&mut builder, 0, q, &world.records);
        assert_eq!(builder.fold(0), Ok(true));
    }
    let hint = builder.finish().map_err(|(error, _)| error).unwrap();
    assert!(hint.encode(&[0; 32]).unwrap() == world.checkpoint);
    assert!(HintBuilder::with_tags(layout, &hashes[1..], [1; 32]).is_err());
}
