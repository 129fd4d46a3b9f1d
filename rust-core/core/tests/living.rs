//! Tests a database that changes (papers: TAPIR §5.2, Fig. 6): servers that touch only what changed; hints, directories, pending
//! lookups and half-made hints that are updated. Compares with a plain map, and with building everything anew.

use std::collections::BTreeMap;

use crate::common::{bare, builder_of, database, finish, fold_missing, hint_of, receive, tags_of};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, Reason, apply, apply_list};
use keyhush_core::database::flat::Database;
use keyhush_core::database::generation::NextGeneration;
use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::Directory;
use keyhush_core::error::Error;
use keyhush_core::key::fingerprint;
use keyhush_core::layout::Layout;
use keyhush_core::stored::HintUpdate;
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role, query};
use keyhush_core::tapir::recon::{recon, verify};
use keyhush_core::tapir::state::journal::replay;
use keyhush_core::tapir::update::{update_builder, update_hint};
use proptest::prelude::*;

const RECORD_BYTES: usize = 20;

fn print_of(key: u16) -> [u8; 16] {
    fingerprint(&key.to_le_bytes())
}

/// A stored record: fingerprint, and a value of four bytes.
fn record(key: u16, value: u32) -> Vec<u8> {
    [print_of(key).as_slice(), &value.to_le_bytes()].concat()
}

/// The value of a key in a recovered record.
fn read(key: u16, record: &[u8]) -> Option<u32> {
    record.starts_with(&print_of(key)).then(|| u32::from_le_bytes(record[16..].try_into().unwrap()))
}

/// A server of a keyed database, and the plain map with the same content.
struct World {
    database: Database<Merkle>,
    directory: Directory,
    model: BTreeMap<u16, u32>,
}

fn either() -> impl Strategy<Value = Proofs> {
    prop::sample::select(&[Proofs::Openings, Proofs::Tags][..])
}

impl World {
    fn new(keys: u16, partitions: u64) -> Self {
        Self::packed(keys, partitions, 1)
    }

    fn packed(keys: u16, partitions: u64, block_records: u64) -> Self {
        let prints: Vec<u8> = (0..keys).flat_map(print_of).collect();
        let layout =
            Layout::plan_packed(u64::from(keys), RECORD_BYTES as u64, Some(partitions), block_records).unwrap();
        let directory = Directory::build(&prints, layout.room()).unwrap();
        let mut content = vec![0; layout.records() * RECORD_BYTES];
        for (key, index) in directory.indices(&prints, u32::from(keys)).unwrap().into_iter().enumerate() {
            content[index as usize * RECORD_BYTES..][..RECORD_BYTES].copy_from_slice(&record(key as u16, 7));
        }
        World {
            database: database::<Merkle>(layout, &content),
            directory,
            model: (0..keys).map(|key| (key, 7)).collect(),
        }
    }

    fn index(&self, key: u16) -> u32 {
        self.directory.index(&print_of(key), self.database.layout().records() as u32).unwrap()
    }

    /// A valid batch that touches each key at most once, from arbitrary choices.
    fn step(&mut self, choices: &[(u16, u32)]) -> UpdateList {
        let mut batch: Vec<(u16, Option<Vec<u8>>, bool)> = Vec::new();
        for &(key, value) in choices {
            if batch.iter().any(|(other, ..)| *other == key) {
                continue;
            }
            let exists = self.model.contains_key(&key);
            if exists && value % 3 == 0 {
                self.model.remove(&key);
                batch.push((key, None, true));
            } else {
                self.model.insert(key, value);
                batch.push((key, Some(record(key, value)), exists));
            }
        }
        let prints: Vec<[u8; 16]> = batch.iter().map(|(key, ..)| print_of(*key)).collect();
        let operations: Vec<Operation> = batch
            .iter()
            .zip(&prints)
            .map(|((_, record, exists), print)| match record {
                None => Operation::DeleteKey(print),
                Some(record) if *exists => Operation::EditKey(record),
                Some(record) => Operation::Add(record),
            })
            .collect();
        let epoch = apply(&mut self.database, Some(&self.directory), &operations).unwrap();
        self.directory = epoch.directory.unwrap();
        epoch.list
    }

    fn hint(&self, proofs: Proofs, entropy: u8) -> Hint {
        hint_of(&self.database, proofs, [entropy; 32])
    }

    /// Compares everything with values computed from the records alone: nothing is stale.
    fn assert_consistent(&mut self) {
        let fresh = database::<Merkle>(*self.database.layout(), self.database.records_mut());
        assert_eq!(fresh.commitments().unwrap(), self.database.commitments().unwrap());
        assert_eq!(fresh.content_hashes().unwrap(), self.database.content_hashes().unwrap());
        for (&key, &value) in &self.model {
            assert_eq!(self.database.record(self.index(key) as usize).unwrap(), record(key, value));
        }
    }
}

/// Decodes a list as a client does, from its bytes and the layouts of two manifests.
fn received(list: &UpdateList, before: Layout) -> UpdateList {
    UpdateList::decode(list.bytes(), before, *list.after()).unwrap()
}

fn follow(hint: &mut Hint, pending: Option<&mut Pending>, world: &World, list: &UpdateList, entropy: u8) {
    // As a journal replays it, in another tab or after a crash.
    let stored = HintUpdate::new(hint, received(list, *hint.layout()), &[entropy; 32]).encode();
    let update = HintUpdate::decode(&stored, hint.layout()).unwrap();
    assert!((0..stored.len()).step_by(7).all(|cut| HintUpdate::decode(&stored[..cut], hint.layout()).is_err()));
    match pending {
        None => replay(hint, &stored).unwrap(),
        some => update_hint(hint, some, &update).unwrap(),
    }
    assert!(replay(hint, &stored).is_err(), "applied once");
    hint.rebind(&world.database.commitments().unwrap()).unwrap();
}

fn lookups(world: &World, hint: &mut Hint, keys: &[u16], entropy: u64) {
    let indices: Vec<u32> = keys.iter().map(|&key| world.index(key)).collect();
    let pending = query(hint, &indices, &[entropy as u8; 32]).unwrap();
    let records = finish(&world.database, hint, pending);
    for (record, key) in records.chunks_exact(RECORD_BYTES).zip(keys) {
        assert_eq!(read(*key, record), world.model.get(key).copied(), "key {key}");
    }
}

/// Looks up every key that there may be.
fn look_up_all(world: &World, hint: &mut Hint, entropy: u64) {
    let every: Vec<u16> = (0..90).collect();
    for (number, keys) in (0..).zip(every.chunks(3)) {
        lookups(world, hint, keys, entropy + number);
    }
}

fn choices() -> impl Strategy<Value = Vec<(u16, u32)>> {
    prop::collection::vec((0u16..90, any::<u32>()), 0..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Compares with a plain map: no leaf is stale, partitions do not overlap, no list is applied in part. A long-lived client's
    /// directory equals the server's, byte for byte.
    #[test]
    fn servers_and_long_lived_clients_follow_every_update(
        keys in 1u16..40, partitions in 1u64..6, pack in 0u32..4, proofs in either(), epochs in prop::collection::vec(choices(), 1..8),
    ) {
        let mut world = World::packed(keys, partitions, 1 << pack);
        let mut hint = world.hint(proofs, 1);
        let mut directory = Directory::decode(&world.directory.encode(), u32::from(keys)).unwrap();
        for (number, choices) in epochs.iter().enumerate() {
            let before = *hint.layout();
            let list = world.step(choices);
            directory = directory.updated(&received(&list, before)).unwrap();
            prop_assert_eq!(directory.encode(), world.directory.encode());
            follow(&mut hint, None, &world, &list, number as u8);
            world.assert_consistent();
            // With the same entropy and key, each tag is that of the current database.
            prop_assert!(tags_of(&hint) == tags_of(&world.hint(proofs, 1)));
            look_up_all(&world, &mut hint, number as u64 * 100);
        }
        let mut fresh = world.hint(proofs, 2);
        lookups(&world, &mut fresh, &(0..60).collect::<Vec<_>>(), 1);
    }

    /// Point 7: a pending lookup survives updates that open partitions. Its old entries stay, its records are those of the new epoch
    /// at the same indices, and the hint after it is whole.
    #[test]
    fn a_pending_lookup_goes_on_through_updates(
        keys in 1u16..30, partitions in 1u64..4, pack in 0u32..4, proofs in either(), asked in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        epochs in prop::collection::vec(choices(), 1..4), answered: bool,
    ) {
        let mut world = World::packed(keys, partitions, 1 << pack);
        let mut hint = world.hint(proofs, 3);
        let indices: Vec<u32> = asked.iter().map(|index| index.index(usize::from(keys)) as u32).collect();
        let mut pending = query(&mut hint, &indices, &[4; 32]).unwrap();
        let sent = [Role::Retrieve, Role::Refresh].map(|role| pending.vectors(role));
        if answered {
            // One answer was verified before the update: it belongs to the old epoch.
            let answer = world.database.answer(&sent[0], proofs).unwrap();
            prop_assert!(verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, &answer).unwrap());
        }
        let name = pending.name();
        let q_before = hint.layout().partitions();
        for (number, choices) in epochs.iter().enumerate() {
            let list = world.step(choices);
            follow(&mut hint, Some(&mut pending), &world, &list, number as u8);
            pending = Pending::decode(&pending.encode(hint.layout()), &hint).unwrap();
        }
        let q_after = hint.layout().partitions();
        for (role, sent) in [Role::Retrieve, Role::Refresh].into_iter().zip(&sent) {
            let extended = pending.vectors(role);
            for (old, new) in sent.chunks_exact(2 * q_before).zip(extended.chunks_exact(2 * q_after)) {
                prop_assert_eq!(old, &new[..2 * q_before]);
            }
        }
        // The name that the rollback fence knows stays the same at every epoch.
        prop_assert_eq!(pending.name(), name);
        let (_, pending) = recon(&mut hint, pending).err().unwrap(); // nothing of the old epoch counts
        let records = finish(&world.database, &mut hint, pending);
        for (recovered, &index) in records.chunks_exact(RECORD_BYTES).zip(&indices) {
            prop_assert_eq!(recovered, world.database.record(index as usize).unwrap());
        }
        look_up_all(&world, &mut hint, 50);
    }

    /// The same while the offline phase is half done.
    #[test]
    fn a_half_made_hint_follows_updates(
        keys in 1u16..40, partitions in 1u64..6, pack in 0u32..4, proofs in either(), folded in any::<prop::sample::Index>(), epochs in prop::collection::vec(choices(), 1..4),
    ) {
        let mut world = World::packed(keys, partitions, 1 << pack);
        let mut half = builder_of(&world.database, proofs, [5; 32]);
        let records = world.database.records_mut().to_vec();
        let folded = folded.index(partitions as usize + 1);
        for q in 0..folded {
            receive(&mut half, 1, q, &records);
            prop_assert!(half.fold(1).unwrap());
        }
        if folded < partitions as usize {
            half.begin(0, folded).unwrap(); // a download under way
        }
        let mut before = *world.database.layout();
        for choices in &epochs {
            let list = world.step(choices);
            update_builder(&mut half, &received(&list, before), &world.database.commitments().unwrap(), &world.database.content_hashes().unwrap()).unwrap();
            before = *world.database.layout();
            // It resumes after an interruption.
            let hashes = world.database.content_hashes().unwrap();
            half = HintBuilder::decode(&half.encode(&[1; 32]), before, &world.database.commitments().unwrap(), &hashes, &[1; 32]).unwrap();
        }
        fold_missing(&mut half, &world.database);
        let mut hint = half.finish().map_err(|(error, _)| error).unwrap();
        prop_assert!(tags_of(&hint) == tags_of(&world.hint(proofs, 5)));
        look_up_all(&world, &mut hint, 0);
    }

    /// A new generation equals a database built from the existing keys. It can be updated as any other.
    #[test]
    fn a_new_generation_is_a_build_of_what_is_there(
        keys in 1u16..40, partitions in 1u64..6, pack in 0u32..4, proofs in either(), epochs in prop::collection::vec(choices(), 0..4), headroom in 0u64..100, after in choices(),
    ) {
        let mut world = World::packed(keys, partitions, 1 << pack);
        for choices in &epochs {
            world.step(choices);
        }
        let somewhere = vec![0; 2 * world.database.layout().partitions()];
        let answers = world.database.answer(&somewhere, proofs).unwrap();
        if world.model.is_empty() {
            prop_assert!(matches!(next_generation(&world.database, true, headroom), Err(Error::Directory(_))));
            return Ok(());
        }
        let (database, directory) = next_generation(&world.database, true, headroom).unwrap();
        prop_assert_eq!(world.database.answer(&somewhere, proofs).unwrap(), answers);
        let directory = directory.unwrap();
        let prints: Vec<u8> = world.model.keys().copied().flat_map(print_of).collect();
        let slots = database.layout().room();
        prop_assert_eq!(directory.encode(), Directory::build(&prints, slots).unwrap().encode());
        let count = world.model.len() as u64;
        let plan = Layout::plan_packed(count + headroom, RECORD_BYTES as u64, None, 1 << pack).unwrap();
        let layout = *database.layout();
        prop_assert_eq!(layout.records() as u64, count);
        prop_assert_eq!((layout.partitions(), layout.stored()), (plan.partitions(), plan.stored()));
        world.database = database;
        world.directory = directory;
        world.assert_consistent();
        let unused = layout.records() * RECORD_BYTES..;
        prop_assert!(world.database.records_mut()[unused].iter().all(|&byte| byte == 0));
        world.step(&after);
        world.assert_consistent();
        let mut hint = world.hint(proofs, 1);
        lookups(&world, &mut hint, &(0..60).collect::<Vec<_>>(), 1);
    }

    /// A database without openings is the same except for its commitments, which are zeros: through every update, replay and
    /// generation.
    #[test]
    fn a_database_for_tags_alone_answers_the_same(keys in 1u16..40, partitions in 1u64..6, pack in 0u32..4, epochs in prop::collection::vec(choices(), 1..4)) {
        let mut world = World::packed(keys, partitions, 1 << pack);
        let directory = Directory::decode(&world.directory.encode(), u32::from(keys)).unwrap();
        let mut twin = World { database: bare(*world.database.layout(), world.database.records_mut()), directory, model: world.model.clone() };
        for (number, choices) in epochs.iter().enumerate() {
            let mut replayed: Database<Merkle> = bare(*world.database.layout(), world.database.records_mut());
            let (list, same) = (world.step(choices), twin.step(choices));
            apply_list(&mut replayed, &list).unwrap();
            prop_assert_eq!(list, same);
            prop_assert_eq!(twin.database.content_hashes().unwrap(), world.database.content_hashes().unwrap());
            prop_assert!(twin.database.commitments().unwrap().iter().all(|&byte| byte == 0));
            let layout = *world.database.layout();
            let vectors: Vec<u8> = (0..layout.partitions()).flat_map(|q| ((q * 7 + number) as u16 % layout.partition_records() as u16).to_le_bytes()).collect();
            prop_assert_eq!(twin.database.answer(&vectors, Proofs::Tags), world.database.answer(&vectors, Proofs::Tags));
            prop_assert!(matches!(twin.database.answer(&vectors, Proofs::Openings), Err(Error::Phase(_))));
            let before = vectors[..2 * lists_before(&twin)].to_vec();
            prop_assert_eq!(twin.database.answer_previous(&before, Proofs::Tags), world.database.answer_previous(&before, Proofs::Tags));
            prop_assert!(matches!(twin.database.answer_previous(&before, Proofs::Openings), Err(Error::Phase(_))));
            prop_assert_eq!(replayed.records_mut(), twin.database.records_mut());
            prop_assert_eq!(replayed.content_hashes().unwrap(), twin.database.content_hashes().unwrap());
            prop_assert_eq!(replayed.answer_previous(&before, Proofs::Tags), twin.database.answer_previous(&before, Proofs::Tags));
        }
        if !world.model.is_empty() {
            for world in [&mut world, &mut twin] {
                let (database, directory) = next_generation(&world.database, true, 10).unwrap();
                (world.database, world.directory) = (database, directory.unwrap());
            }
            prop_assert_eq!(twin.database.layout(), world.database.layout());
            prop_assert_eq!(twin.database.content_hashes().unwrap(), world.database.content_hashes().unwrap());
            prop_assert!(twin.database.commitments().unwrap().iter().all(|&byte| byte == 0));
            let somewhere = vec![0; 2 * twin.database.layout().partitions()];
            prop_assert!(matches!(twin.database.answer(&somewhere, Proofs::Openings), Err(Error::Phase(_))));
            twin.step(&epochs[0]);
        }
        let mut hint = twin.hint(Proofs::Tags, 1);
        lookups(&twin, &mut hint, &(0..60).collect::<Vec<_>>(), 1);
    }

    #[test]
    fn only_the_list_of_this_step_is_read(choices in choices(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut world = World::new(20, 3);
        let before = *world.database.layout();
        let list = world.step(&choices);
        let mut changed = list.bytes().to_vec();
        let position = at.index(changed.len());
        changed[position] ^= flip;
        if let Ok(read) = UpdateList::decode(&changed, before, *list.after()) {
            prop_assert_eq!(read.bytes(), &changed[..]);
            prop_assert!(position >= 40, "the header is fixed by the two layouts");
        }
        prop_assert!(UpdateList::decode(&list.bytes()[..position], before, *list.after()).map_or(true, |short| short.bytes().len() == position));
        prop_assert!(UpdateList::decode(list.bytes(), *list.after(), before).is_err() || before == *list.after());
    }
}

/// The number of partitions at the previous epoch, found by the length of its vectors.
fn lists_before(world: &World) -> usize {
    (1..=world.database.layout().partitions())
        .find(|&q| world.database.answer_previous(&vec![0; 2 * q], Proofs::Tags).is_ok())
        .unwrap()
}

/// Answers are judged by what the list says, exactly where it says so. A list that is not in both servers' manifests must never
/// be applied.
#[test]
fn a_hint_that_followed_another_list_refuses_what_is_right_there_alone() {
    let mut world = World::new(20, 3);
    let mut hint = world.hint(Proofs::Tags, 1);
    let before = *world.database.layout();
    let slot = world.index(3) as usize;
    let (q, m) = (slot / before.partition_records(), slot % before.partition_records());
    let list = world.step(&[(3, 8)]);
    let mut bytes = list.bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let list = UpdateList::decode(&bytes, before, *list.after()).unwrap();
    let update = HintUpdate::new(&hint, list, &[1; 32]);
    update_hint(&mut hint, None, &update).unwrap();
    let stored = hint.encode(&[0; 32]).unwrap();
    let mut shown = 0;
    for entropy in 0..60 {
        for role in [Role::Retrieve, Role::Refresh] {
            let mut hint = Hint::decode(&stored, *world.database.layout(), &[], &[0; 32]).unwrap();
            let mut pending = query(&mut hint, &[4], &[entropy; 32]).unwrap();
            let vectors = pending.vectors(role);
            let there = vectors.as_chunks().0[q] == (m as u16).to_le_bytes();
            let answer = world.database.answer(&vectors, Proofs::Tags).unwrap();
            assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, &answer), Ok(!there));
            shown += usize::from(there);
        }
    }
    assert!((1..60).contains(&shown), "{shown}");
}

/// Between an update and the new epoch's commitments, an answer cannot be judged, and is refused. Tags need no commitments.
#[test]
fn nothing_is_verified_before_the_commitments_of_its_epoch_are_there() {
    for (proofs, verdict) in [(Proofs::Openings, None), (Proofs::Tags, Some(true))] {
        let mut world = World::new(20, 3);
        let mut hint = world.hint(proofs, 1);
        let mut pending = query(&mut hint, &[3], &[1; 32]).unwrap();
        let before = *hint.layout();
        let list = world.step(&[(3, 8)]);
        let update = HintUpdate::new(&hint, received(&list, before), &[1; 32]);
        update_hint(&mut hint, Some(&mut pending), &update).unwrap();
        let answer = world.database.answer(&pending.vectors(Role::Refresh), proofs).unwrap();
        let verified = verify::<Merkle>(&mut hint, &mut pending, Role::Refresh, &answer);
        assert_eq!(verified.as_ref().ok().copied(), verdict);
        assert!(verdict.is_some() || matches!(verified, Err(Error::Phase(_))) && !hint.is_condemned());
        assert_eq!(hint.rebind(&world.database.commitments().unwrap()[1..]).is_ok(), proofs == Proofs::Tags);
        hint.rebind(&world.database.commitments().unwrap()).unwrap();
        finish(&world.database, &mut hint, pending);
    }
}

#[test]
fn a_batch_is_refused_whole_at_its_first_impossible_operation() {
    let mut world = World::new(10, 2);
    let untouched = world.database.records_mut().to_vec();
    let (first, again, missing) = (record(50, 1), record(3, 2), record(60, 3));
    let cases: [(Operation, Reason); 6] = [
        (Operation::Add(&again), Reason::Exists),
        (Operation::Add(&first), Reason::Exists),
        (Operation::EditKey(&missing), Reason::Missing),
        (Operation::DeleteKey(&print_of(60)), Reason::Missing),
        (Operation::Add(&[0; RECORD_BYTES]), Reason::Malformed),
        (Operation::EditIndex(0, &again), Reason::Malformed),
    ];
    for (operation, reason) in cases {
        let refused =
            apply(&mut world.database, Some(&world.directory), &[Operation::Add(&first), operation]).err().unwrap();
        assert_eq!((refused.operation, refused.reason), (1, reason));
        assert_eq!(world.database.records_mut(), untouched);
    }
    world.assert_consistent();

    let mut keyless = database::<Merkle>(Layout::new(7, 4, 3, 3).unwrap(), &[1; 28]);
    for (operation, reason) in [
        (Operation::EditIndex(7, &[1; 4]), Reason::Missing),
        (Operation::DeleteIndex(7), Reason::Missing),
        (Operation::DeleteKey(&[1; 16]), Reason::Malformed),
        (Operation::EditIndex(0, &[1; 3]), Reason::Malformed),
    ] {
        assert_eq!(apply(&mut keyless, None, &[operation]).err().map(|refused| refused.reason), Some(reason));
    }
}

/// A batch may delete a key and add it again. Its new slot may be lower than the old one.
#[test]
fn a_key_deleted_and_added_again_in_one_batch_is_found() {
    for key in 0..10 {
        for freed in (0..10).filter(|&freed| freed != key) {
            let mut world = World::new(10, 2);
            world.step(&[(freed, 3)]); // 3: deleted
            let (print, again) = (print_of(key), record(key, 5));
            let batch = [Operation::DeleteKey(&print), Operation::Add(&again)];
            let epoch = apply(&mut world.database, Some(&world.directory), &batch).unwrap();
            let directory = epoch.directory.unwrap();
            let index = directory.index(&print, world.database.layout().records() as u32).unwrap();
            assert_eq!(world.database.record(index as usize).unwrap(), again, "{key} into the slot of {freed}");
        }
    }
}

fn next_generation(
    old: &Database<Merkle>,
    keyed: bool,
    headroom: u64,
) -> Result<(Database<Merkle>, Option<Directory>), Error> {
    let mut next = NextGeneration::new(old, keyed, headroom)?;
    while next.step(old)? {}
    next.finish()
}

#[test]
fn a_new_generation_of_a_keyless_database_keeps_its_indices() {
    // More records than in one step, some of them empty.
    let layout = Layout::new(70_001, 2, 3, 30_000).unwrap();
    let records: Vec<u8> = (0..70_001u32).flat_map(|i| (i as u16 % 1000).to_le_bytes()).collect();
    let old = database::<Merkle>(layout, &records);
    let (mut new, directory) = next_generation(&old, false, 1_000_000).unwrap();
    assert!(directory.is_none());
    let after = *new.layout();
    assert_eq!((after.records(), after.partitions(), after.partition_records()), (70_001, 17, 62_942));
    assert_eq!(&new.records_mut()[..records.len()], &records);
    assert!(new.records_mut()[records.len()..].iter().all(|&byte| byte == 0));
    let fresh = database::<Merkle>(after, &records);
    assert_eq!(
        (new.commitments().unwrap(), new.content_hashes().unwrap()),
        (fresh.commitments().unwrap(), fresh.content_hashes().unwrap())
    );
}

#[test]
fn a_generation_that_cannot_be_is_refused() {
    let old = database::<Merkle>(Layout::new(4, 20, 2, 2).unwrap(), &[1; 80]);
    for headroom in [u64::MAX, 1 << 40, (1 << 32) - 1] {
        assert!(matches!(next_generation(&old, false, headroom), Err(Error::Layout(_))), "{headroom}");
    }
    let mut early = NextGeneration::new(&old, false, 0).unwrap();
    early.step(&old).unwrap();
    assert!(matches!(early.finish(), Err(Error::Phase(_))));
    // Two equal fingerprints: no honest history leads there. After the error, the generation stays failed.
    let mut failing = NextGeneration::new(&old, true, 0).unwrap();
    let error = loop {
        if let Err(error) = failing.step(&old) {
            break error;
        }
    };
    assert!(matches!(error, Error::Directory(_)));
    assert!(matches!(failing.step(&old), Err(Error::Phase(_))));
}

/// A lookup loses no query when a partition opens: it can be sent, and is answered, at every Q of its generation, and at the
/// previous epoch. The planner would allow seven queries for the seventeen partitions.
#[test]
fn a_full_lookup_that_is_pending_is_answered_after_partitions_opened() {
    const LONG: usize = 65_536;
    let layout = Layout::plan(16, LONG as u64, Some(16)).unwrap();
    let content: Vec<u8> = (0..16 * LONG).map(|i| (i / LONG) as u8 + 1).collect();
    for proofs in [Proofs::Openings, Proofs::Tags] {
        let mut database = database::<Merkle>(layout, &content);
        assert_eq!(database.max_queries(), 8);
        let mut hint = hint_of(&database, proofs, [1; 32]);
        let indices: Vec<u32> = (4..12).collect();
        let mut pending = query(&mut hint, &indices, &[2; 32]).unwrap();
        let before = pending.vectors(Role::Retrieve);

        let added = vec![0xaa; LONG];
        let epoch = apply(&mut database, None, &[Operation::Add(&added)]).unwrap_or_else(|_| unreachable!());
        assert_eq!((database.layout().partitions(), database.max_queries()), (17, 8));
        assert_eq!(database.layout().max_queries(proofs.entry_bytes::<Merkle>(database.layout())), 7);
        assert_eq!(database.answer_previous(&before, proofs).unwrap().len(), 8 * 16 * LONG);

        let update = HintUpdate::new(&hint, received(&epoch.list, layout), &[3; 32]);
        update_hint(&mut hint, Some(&mut pending), &update).unwrap();
        hint.rebind(&database.commitments().unwrap()).unwrap();
        let records = finish(&database, &mut hint, pending);
        assert!(records == content[4 * LONG..12 * LONG]);
        assert!(database.answer(&[0; 9 * 17 * 2], proofs).is_err(), "nine are refused at every Q");
        assert!(database.answer_previous(&[0; 9 * 16 * 2], proofs).is_err());
    }
}

/// A generation ends where answers to a full lookup would have more than 16 MiB. A server that restarts there knows its limit.
#[test]
fn a_generation_is_full_before_its_answers_are_too_long() {
    const LONG: usize = 65_536;
    let layout = Layout::plan(16, LONG as u64, Some(16)).unwrap();
    let mut database = database::<Merkle>(layout, &vec![1; 16 * LONG]);
    let record = vec![2; LONG];
    let batch: Vec<_> = (0..17).map(|_| Operation::Add(&record)).collect();
    let refused = apply(&mut database, None, &batch).err().unwrap();
    assert_eq!((refused.operation, refused.reason), (16, Reason::Full));
    assert_eq!(database.layout(), &layout, "refused whole");
    apply(&mut database, None, &batch[..16]).unwrap_or_else(|_| unreachable!());
    let grown = *database.layout();
    assert_eq!(grown.partitions(), 32);
    assert_eq!(Database::<Merkle>::new(grown).unwrap().max_queries(), 4);
    let restarted = Database::<Merkle>::new(grown).unwrap().with_max_queries(8).unwrap();
    assert_eq!(restarted.max_queries(), 8);
    for impossible in [0, 9, 65] {
        let restarted = Database::<Merkle>::new(grown).unwrap().with_max_queries(impossible);
        assert!(matches!(restarted.err(), Some(Error::Layout(_))), "{impossible}");
    }
}
