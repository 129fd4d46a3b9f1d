//! Tests epochs made in steps (docs/ARCHITECTURE.md). After every step, the database answers exactly the epochs that exist, as
//! databases do that were built from a plain map's records.

use crate::common::{bare, database};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Draft, Drafted, FlatBatch, Operation, Operations, Reason};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::Directory;
use keyhush_core::error::Error;
use keyhush_core::key::fingerprint;
use keyhush_core::layout::Layout;
use proptest::prelude::*;

/// The records of an epoch, by index.
type Plain = Vec<Vec<u8>>;

/// The answers of a database of one epoch, for each offset, to a vector with that offset in every partition.
#[derive(Debug, PartialEq)]
struct Answers(Layout, Vec<Vec<u8>>);

fn vectors(layout: &Layout) -> Vec<Vec<u8>> {
    let of = |offset: usize| (offset as u16).to_le_bytes().repeat(layout.partitions());
    (0..layout.partition_records()).map(of).collect()
}

fn answers(database: &Database<Merkle>, at: At) -> Option<Answers> {
    let layout = *database.layout_at(at).ok()?;
    let proofs = if database.offers(Proofs::Openings) { Proofs::Openings } else { Proofs::Tags };
    let answer = |vector: &Vec<u8>| match at {
        At::Newest => database.answer(vector, proofs).unwrap(),
        At::Previous => database.answer_previous(vector, proofs).unwrap(),
    };
    Some(Answers(layout, vectors(&layout).iter().map(answer).collect()))
}

/// A database built from the records alone.
fn built(layout: Layout, plain: &Plain, openings: bool) -> Database<Merkle> {
    let content = plain.concat();
    if openings { database::<Merkle>(layout, &content) } else { bare(layout, &content) }
}

/// An operation: an index to edit, or none for an add; and a record.
type Changes = Vec<(Option<u32>, Vec<u8>)>;

/// A change to a record that need not exist, and its new content.
type Choice = (bool, prop::sample::Index, u8);

/// The batch for some choices, and the plain map after it.
fn batch(before: &Plain, choices: &[Choice], record_bytes: usize) -> (Changes, Plain) {
    let (mut operations, mut after) = (Vec::new(), before.clone());
    for &(is_edit, at, value) in choices {
        let record = vec![value; record_bytes];
        if is_edit {
            let index = at.index(after.len());
            after[index].clone_from(&record);
            operations.push((Some(index as u32), record));
        } else {
            after.push(record.clone());
            operations.push((None, record));
        }
    }
    (operations, after)
}

fn operations(batch: &[(Option<u32>, Vec<u8>)]) -> Vec<Operation<'_>> {
    let mut operations = Vec::new();
    for (index, record) in batch {
        operations.push(match index {
            Some(index) => Operation::EditIndex(*index, record),
            None => Operation::Add(record),
        });
    }
    operations
}

/// A batch of a database without keys, drafted in all its steps.
fn drafted(database: &Database<Merkle>, batch: &[Operation<'_>]) -> Drafted {
    let mut draft = Draft::of_batch(database, false, batch);
    while draft.step(database, None, batch).unwrap() {}
    draft.finish().unwrap()
}

/// Makes an epoch, and checks the existing epochs after every step. Returns the number of steps after which the records in
/// memory were those of neither epoch.
fn make(database: &mut Database<Merkle>, batch: &[Operation<'_>], before: &Plain, after: &Plain) -> usize {
    let openings = database.offers(Proofs::Openings);
    let (newest, previous) = (answers(database, At::Newest), answers(database, At::Previous));
    assert_eq!(newest, answers(&built(*database.layout(), before, openings), At::Newest));
    let mut write = drafted(database, batch).write;
    let unchanged = |database: &Database<Merkle>| {
        assert_eq!(answers(database, At::Newest), newest, "the newest, before its successor begins");
        assert_eq!(answers(database, At::Previous), previous, "the one before it");
    };
    unchanged(database);
    while write.step(database).unwrap() {
        unchanged(database);
    }
    unchanged(database);
    assert!(write.step(database).is_ok_and(|more| !more), "ready is ready");

    write.begin(database).unwrap();
    assert!(matches!(write.begin(database), Err(Error::Phase(_))), "it begins once");
    let (old, new) = (before.concat(), after.concat());
    let mut between = 0;
    loop {
        assert_eq!(answers(database, At::Previous), newest, "the one before, while its successor is written");
        assert_previous_bytes(database, &old);
        assert!(answers(database, At::Newest).is_none(), "the newest is not there yet");
        assert!(matches!(database.answer(&[0, 0], Proofs::Tags), Err(Error::Phase(_))));
        let common = &database.records_mut()[..old.len()];
        between += usize::from(*common != old && *common != new[..old.len()]);
        if !write.step(database).unwrap() {
            break;
        }
    }
    assert_eq!(answers(database, At::Previous), newest);
    assert_eq!(answers(database, At::Newest), answers(&built(*database.layout(), after, openings), At::Newest));
    let fresh = built(*database.layout(), after, openings);
    assert_eq!(database.content_hashes(), fresh.content_hashes());
    assert_eq!(database.commitments(), fresh.commitments());
    between
}

/// The records of the previous epoch, whole and in parts that begin and end within records and blocks.
fn assert_previous_bytes(database: &Database<Merkle>, old: &[u8]) {
    let most = if old.len() > 10_000 { old.len() / 3 } else { 1 };
    let whole = database.previous_bytes(0..old.len()).unwrap();
    assert!(whole == old, "the records of the epoch before");
    for start in (0..old.len()).step_by(most) {
        let end = old.len().min(start + most + most / 2 + 1);
        assert!(database.previous_bytes(start..end).unwrap() == old[start..end], "{start}..{end}");
    }
    assert!(matches!(database.previous_bytes(0..usize::MAX), Err(Error::Index { .. })));
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec((prop::bool::weighted(0.7), any::<prop::sample::Index>(), any::<u8>()), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_step_answers_the_epochs_there_are(
        records in 1u64..30, partitions in 1u64..5, pack in 0u32..3, openings: bool, epochs in prop::collection::vec(choices(), 1..4),
    ) {
        let layout = Layout::plan_packed(records, 3, Some(partitions), 1 << pack).unwrap();
        let mut plain: Plain = (0..records).map(|i| vec![i as u8 + 1; 3]).collect();
        let mut database = built(layout, &plain, openings);
        for choices in &epochs {
            let (changes, after) = batch(&plain, choices, 3);
            make(&mut database, &operations(&changes), &plain, &after);
            plain = after;
        }
    }
}

const LONG: usize = 1 << 16;

/// A database whose partitions take several steps: two of 40 records of 64 KiB.
fn long() -> (Database<Merkle>, Plain) {
    let plain: Plain = (1..=80).map(|i| vec![i; LONG]).collect();
    (built(Layout::new(80, LONG as u64, 2, 40).unwrap(), &plain, true), plain)
}

/// In the middle of a partition the older epoch is still answered, whatever the memory has.
#[test]
fn a_partition_is_written_in_several_steps_and_answered_between_them() {
    let (mut database, plain) = long();
    let edits: Changes =
        (0..70).map(|i| (Some(i), vec![0xa0; LONG])).chain((0..3).map(|i| (None, vec![i + 1; LONG]))).collect();
    let mut after = plain.clone();
    for (index, record) in &edits {
        match index {
            Some(index) => after[*index as usize].clone_from(record),
            None => after.push(record.clone()),
        }
    }
    let between = make(&mut database, &operations(&edits), &plain, &after);
    assert!(between >= 6, "{between} steps between the epochs");
}

/// Before it begins, a write can be abandoned. It leaves nothing for the next one, not even in added memory.
#[test]
fn a_write_that_is_given_up_leaves_nothing_behind() {
    let (mut database, plain) = long();
    let added = |value: u8| -> Changes { vec![(None, vec![value; LONG]); 5] };
    let given_up = added(0xee);
    let mut write = drafted(&database, &operations(&given_up)).write;
    while write.step(&mut database).unwrap() {}
    drop(write);
    assert_eq!((database.layout().partitions(), database.records_mut().len()), (2, 80 * LONG));
    let fewer = &added(7)[..2];
    let after = [plain.clone(), vec![vec![7; LONG]; 2]].concat();
    make(&mut database, &operations(fewer), &plain, &after);
}

/// A draft is refused at its first impossible operation, and cannot be used after that. A write for another epoch never begins.
#[test]
fn what_cannot_be_changes_nothing() {
    let (mut database, plain) = long();
    let record = vec![1; LONG];
    let batch = [Operation::EditIndex(0, &record), Operation::EditIndex(80, &record)];
    let mut draft = Draft::of_batch(&database, false, &batch[..]);
    let refused = loop {
        match draft.step(&database, None, &batch[..]) {
            Ok(more) => assert!(more),
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused.operation, refused.reason), (1, Reason::Missing));
    let again = draft.step(&database, None, &batch[..]).err().unwrap();
    assert!(matches!(again.reason, Reason::Failed(Error::Phase(_))));
    assert!(draft.finish().is_err());

    let add = [Operation::Add(&record)];
    let mut write = drafted(&database, &add).write;
    assert!(matches!(write.begin(&mut database), Err(Error::Phase(_))), "it is not ready");
    let after = [plain.clone(), vec![record.clone()]].concat();
    make(&mut database, &add, &plain, &after);
    assert!(matches!(write.step(&mut database), Err(Error::Update(_))), "the database has gone on without it");
    assert_eq!(answers(&database, At::Newest), answers(&built(*database.layout(), &after, true), At::Newest));
}

/// Thousands of operations take many steps of every kind. They give the same directory and database as the whole list, also in a
/// server that applies the list.
#[test]
fn many_operations_make_what_they_say_step_by_step() {
    let print = |key: u32| fingerprint(&key.to_le_bytes());
    let record = |key: u32, value: u8| [print(key).as_slice(), &[value; 4]].concat();
    let layout = Layout::new(3000, 20, 16, 1000).unwrap();
    let prints: Vec<u8> = (0..3000).flat_map(print).collect();
    let directory = Directory::build(&prints, layout.room()).unwrap();
    let mut content = vec![0; 3000 * 20];
    for key in 0..3000 {
        let index = directory.index(&print(key), 3000).unwrap() as usize;
        content[index * 20..][..20].copy_from_slice(&record(key, 1));
    }
    let (mut world, mut follower) = (database::<Merkle>(layout, &content), database::<Merkle>(layout, &content));
    let deleted: Vec<_> = (0..500).map(print).collect();
    let edited: Vec<_> = (500..3000).map(|key| record(key, 2)).collect();
    let added: Vec<_> = (3000..13_000).map(|key| record(key, 3)).collect();
    let mut batch: Vec<Operation<'_>> = deleted.iter().map(Operation::DeleteKey).collect();
    batch.extend(edited.iter().map(|record| Operation::EditKey(record)));
    batch.extend(added.iter().map(|record| Operation::Add(record)));

    let mut draft = Draft::of_batch(&world, true, &batch[..]);
    let mut steps = 1;
    while draft.step(&world, Some(&directory), &batch[..]).unwrap() {
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
    let Drafted { mut write, list_hash, directory: next } = draft.finish().unwrap();
    let (next, directory_hash) = next.unwrap();
    let list = write.list().clone();
    assert_eq!((list.len(), &list_hash), (13_000, blake3::hash(list.bytes()).as_bytes()));
    let decoded = UpdateList::decode(list.bytes(), layout, *list.after()).unwrap();
    assert_eq!(next.encode(), directory.updated(&decoded).unwrap().encode());
    assert_eq!(&directory_hash, blake3::hash(&next.encode()).as_bytes());
    let mut parts = Vec::new();
    (0..next.encoded_bytes())
        .step_by(7)
        .for_each(|at| next.encode_part(at..next.encoded_bytes().min(at + 7), &mut parts));
    assert_eq!(parts, next.encode());

    for _ in 0..2 {
        while write.step(&mut world).unwrap() {}
        let _ = write.begin(&mut world);
    }
    let records = world.layout().records() as u32;
    for key in 500..13_000 {
        let index = next.index(&print(key), records).unwrap() as usize;
        assert_eq!(world.record(index).unwrap(), record(key, if key < 3000 { 2 } else { 3 }), "key {key}");
    }

    let none: &[Operation<'_>] = &[];
    let after = *world.layout();
    let following = |list: &[u8]| Draft::of_list(list.to_vec(), layout, after);
    let mut draft = following(list.bytes()).unwrap();
    while draft.step(&follower, Some(&directory), none).unwrap() {}
    let drafted = draft.finish().unwrap();
    assert_eq!((drafted.list_hash, drafted.directory.unwrap().0.encode()), (list_hash, next.encode()));
    let mut write = drafted.write;
    while write.step(&mut follower).unwrap() {}
    write.begin(&mut follower).unwrap();
    while write.step(&mut follower).unwrap() {}
    assert_eq!(follower.records_mut(), world.records_mut());
    assert_eq!((follower.commitments(), follower.content_hashes()), (world.commitments(), world.content_hashes()));

    assert!(matches!(following(&list.bytes()[..39]), Err(Error::Update(_))));
    for entry in [0, 5000, 12_999] {
        let mut torn = list.bytes().to_vec();
        torn[40 + entry * 25 + 4] = 9; // a kind there is not
        let mut draft = following(&torn).unwrap();
        let refused = loop {
            match draft.step(&follower, Some(&directory), none) {
                Ok(more) => assert!(more, "entry {entry} was taken"),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused.reason, Reason::Failed(Error::Update(_))), "entry {entry}");
    }
}

proptest! {
    #[test]
    fn a_batch_in_flat_buffers_has_the_operations_that_were_pushed(
        keyed: bool,
        pushes in prop::collection::vec(prop::collection::vec((1u8..4, any::<u32>(), any::<[u8; 20]>()), 0..6), 0..4),
    ) {
        let mut batch = FlatBatch::new(keyed, 20, pushes.iter().map(Vec::len).sum());
        for push in &pushes {
            let kinds: Vec<u8> = push.iter().map(|(kind, ..)| *kind).collect();
            let prints: Vec<u8> = push.iter().flat_map(|(.., record)| record[..16].to_vec()).collect();
            let indices: Vec<u32> = push.iter().map(|(_, index, _)| *index).collect();
            let records: Vec<u8> = push.iter().flat_map(|(.., record)| *record).collect();
            let (prints, indices) = if keyed { (&prints[..], &[][..]) } else { (&[][..], &indices[..]) };
            batch.push(&kinds, prints, indices, &records).unwrap();
        }
        prop_assert_eq!(batch.count(), pushes.iter().flatten().count());
        for (number, (kind, index, record)) in pushes.iter().flatten().enumerate() {
            let print = record.first_chunk().unwrap();
            let expected = match (kind, keyed) {
                (1, _) => Operation::Add(record),
                (2, true) => Operation::EditKey(record),
                (2, false) => Operation::EditIndex(*index, record),
                (_, true) => Operation::DeleteKey(print),
                (_, false) => Operation::DeleteIndex(*index),
            };
            prop_assert_eq!(format!("{:?}", batch.get(number)), format!("{expected:?}"));
        }
    }
}
