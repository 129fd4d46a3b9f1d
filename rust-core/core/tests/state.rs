//! Tests that stored state is restored whole or not at all: checkpoints, journals of effects, half-made hints, pending lookups.

use crate::common::{builder_of, finish, fold_missing, hint_of, random, receive, resealed, torn};
use keyhush_core::Error;
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role, query};
use keyhush_core::tapir::recon::{Effect, recon, replay, verify};
use proptest::prelude::*;

/// Whether a form's reader accepts these bytes.
type Reader<'a> = &'a dyn Fn(&[u8]) -> bool;

const BINDING: [u8; 32] = [0xb1; 32];

/// A database, and everything that a client learns of it.
struct World {
    proofs: Proofs,
    database: Database<Merkle>,
    content: Vec<u8>,
    commitments: Vec<u8>,
    content_hashes: Vec<u8>,
}

impl World {
    fn new(layout: Layout, proofs: Proofs, seed: u8) -> Self {
        let (database, content) = random(layout, seed);
        let (commitments, content_hashes) = (database.commitments().unwrap(), database.content_hashes().unwrap());
        World { proofs, database, content, commitments, content_hashes }
    }

    fn layout(&self) -> Layout {
        *self.database.layout()
    }

    fn builder(&self, entropy: u8) -> HintBuilder {
        builder_of(&self.database, self.proofs, [entropy; 32])
    }

    fn hint(&self, entropy: u8) -> Hint {
        hint_of(&self.database, self.proofs, [entropy; 32])
    }

    /// Looks up indices, and returns the stored effect.
    fn look_up(&self, hint: &mut Hint, indices: &[u32], entropy: u8) -> Vec<u8> {
        let layout = self.layout();
        let mut pending = query(hint, indices, &[entropy; 32]).unwrap();
        for role in [Role::Retrieve, Role::Refresh] {
            let answer = self.database.answer(&pending.vectors(role), self.proofs).unwrap();
            assert!(verify::<Merkle>(hint, &mut pending, role, &answer).unwrap());
        }
        let recovered = recon(hint, pending).map_err(|(error, _)| error).unwrap();
        let record_bytes = layout.stored().record_bytes;
        for (record, &index) in recovered.records.chunks_exact(record_bytes).zip(indices) {
            assert_eq!(record, &self.content[index as usize * record_bytes..][..record_bytes]);
        }
        recovered.effect.encode(&layout)
    }

    fn reopen(&self, checkpoint: &[u8]) -> Result<Hint, Error> {
        Hint::decode(checkpoint, self.layout(), &self.commitments, &BINDING)
    }

    fn resume(&self, partial: &[u8]) -> Result<HintBuilder, Error> {
        HintBuilder::decode(partial, self.layout(), &self.commitments, &self.content_hashes, &BINDING)
    }
}

fn small(proofs: Proofs) -> World {
    World::new(Layout::new(10, 4, 3, 4).unwrap(), proofs, 1)
}

const BOTH: [Proofs; 2] = [Proofs::Openings, Proofs::Tags];

fn either() -> impl Strategy<Value = Proofs> {
    prop::sample::select(&BOTH[..])
}

proptest! {
    #[test]
    fn a_checkpoint_and_its_journal_are_the_live_hint(
        (n, l, q, pack) in (1u64..60, 1u64..20, 1u64..10, 0u32..4),
        proofs in either(),
        seed: u8,
        lookups in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..4), 1..10),
        checkpoint_at in any::<prop::sample::Index>(),
    ) {
        let world = World::new(Layout::plan_packed(n, l, Some(q), 1 << pack).unwrap(), proofs, seed);
        let mut live = world.hint(seed);
        let checkpoint_at = checkpoint_at.index(lookups.len());
        let mut checkpoint = Vec::new();
        let mut journal = Vec::new();
        for (number, lookup) in lookups.iter().enumerate() {
            if number == checkpoint_at {
                checkpoint = live.encode(&BINDING).unwrap();
                journal.clear();
            }
            let indices: Vec<u32> = lookup.iter().map(|index| index.index(n as usize) as u32).collect();
            journal.push(world.look_up(&mut live, &indices, seed.wrapping_add(number as u8)));
        }
        let mut reopened = world.reopen(&checkpoint).unwrap();
        for effect in &journal {
            replay(&mut reopened, &Effect::decode(effect, &world.layout()).unwrap()).unwrap();
        }
        prop_assert_eq!(reopened.stamp(), live.stamp());
        prop_assert!(reopened.encode(&BINDING).unwrap() == live.encode(&BINDING).unwrap());
        world.look_up(&mut reopened, &[0], 1);
    }

    /// S6: whatever was folded before the interruption, the hint equals that of an uninterrupted run.
    #[test]
    fn an_interrupted_offline_phase_ends_in_the_same_hint(q in 1u64..8, proofs in either(), cut in any::<prop::sample::Index>(), seed: u8) {
        let world = World::new(Layout::plan(40, 5, Some(q)).unwrap(), proofs, seed);
        let mut first = world.builder(seed);
        for q in (0..cut.index(q as usize + 1)).rev() {
            receive(&mut first, 1, q, &world.content);
            assert!(first.fold(1).unwrap());
        }
        let partial = first.encode(&BINDING);
        drop(first);
        let mut second = world.resume(&partial).unwrap();
        prop_assert_eq!(second.encode(&BINDING), partial);
        fold_missing(&mut second, &world.database);
        let hint = second.finish().map_err(|(error, _)| error).unwrap();
        prop_assert!(hint.encode(&BINDING).unwrap() == world.hint(seed).encode(&BINDING).unwrap());
    }
}

/// S3: every truncation and every flipped bit is noticed, in each form. No form is taken for another.
#[test]
fn torn_and_foreign_state_is_refused() {
    for proofs in BOTH {
        refuses_torn_and_foreign_state(&small(proofs));
    }
}

fn refuses_torn_and_foreign_state(world: &World) {
    let mut hint = world.hint(2);
    let pending = query(&mut hint, &[3], &[1; 32]).unwrap().encode(&world.layout());
    let checkpoint = hint.encode(&BINDING).unwrap();
    let partial = world.builder(2).encode(&BINDING);
    let effect = world.look_up(&mut world.hint(2), &[3], 1);
    let forms = [checkpoint, partial, pending, effect];
    let readers: [Reader; 4] = [
        &|bytes| world.reopen(bytes).is_ok(),
        &|bytes| world.resume(bytes).is_ok(),
        &|bytes| Pending::decode(bytes, &hint).is_ok(),
        &|bytes| Effect::decode(bytes, &world.layout()).is_ok(),
    ];
    for (number, form) in forms.iter().enumerate() {
        for (other, reader) in readers.iter().enumerate() {
            assert_eq!(reader(form), number == other, "form {number} by reader {other}");
        }
        for bytes in torn(form) {
            assert!(!readers[number](&bytes), "form {number}: {bytes:?}");
        }
    }
}

/// A stored form does not change with the state it was made of.
#[test]
fn a_form_that_is_handed_out_in_pieces_is_the_same() {
    for proofs in BOTH {
        let world = small(proofs);
        let (builder, mut hint) = (world.builder(2), world.hint(2));
        let whole = [builder.encode(&BINDING), hint.encode(&BINDING).unwrap()];
        let forms = [builder.written(&BINDING), hint.written(&BINDING).unwrap()];
        hint.condemn();
        let joined = forms.map(|mut form| {
            let mut joined = Vec::new();
            while let Some(piece) = form.piece() {
                joined.extend(piece);
            }
            joined
        });
        assert!(joined == whole);
    }
}

/// A restored hint has the same kind of proof as before, whatever commitments are passed.
#[test]
fn the_kind_of_proof_comes_from_the_stored_form() {
    for proofs in BOTH {
        let world = small(proofs);
        let (layout, hashes) = (world.layout(), &world.content_hashes);
        let checkpoint = world.hint(2).encode(&BINDING).unwrap();
        let partial = world.builder(2).encode(&BINDING);
        assert_eq!(world.reopen(&checkpoint).unwrap().proofs(), proofs);
        assert_eq!(world.resume(&partial).unwrap().proofs(), proofs);
        let without = Hint::decode(&checkpoint, layout, &[], &BINDING);
        assert_eq!(without.is_ok(), proofs == Proofs::Tags, "tags look at no commitments");
        assert_eq!(HintBuilder::decode(&partial, layout, &[], hashes, &BINDING).is_ok(), proofs == Proofs::Tags);
    }
    let world = small(Proofs::Tags);
    let partial = world.builder(2).encode(&BINDING);
    let key = partial.len() - 16 - 8;
    assert!(world.resume(&resealed(&partial, key, &[0; 8])).is_err(), "another key");
}

/// Right answers with a corrupt hint: it is noticed before anything is applied, and the hint is not condemned.
#[test]
fn a_hint_that_recovers_another_record_is_found_corrupt_and_unchanged() {
    let world = small(Proofs::Tags);
    let layout = world.layout();
    let permutations_at = 4 + 4 + 24 + 16 + 32 + 32;
    let parities_at = permutations_at + 2 * layout.slots();
    let whole = world.hint(2).encode(&BINDING).unwrap();
    let swapped =
        [&whole[permutations_at + 2..permutations_at + 4], &whole[permutations_at..permutations_at + 2]].concat();
    let key_at = whole.len() - 16 - 8 * layout.slots() - 8;
    for corrupt in [resealed(&whole, parities_at, &[!whole[parities_at]]), resealed(&whole, permutations_at, &swapped)]
    {
        let mut outcomes = [0; 2];
        for index in 0..10 {
            let mut hint = world.reopen(&corrupt).unwrap();
            let mut pending = query(&mut hint, &[(index + 1) % 10, index, index], &[1; 32]).unwrap();
            let sent = [Role::Retrieve, Role::Refresh].map(|role| pending.vectors(role));
            for (role, vectors) in [Role::Retrieve, Role::Refresh].into_iter().zip(&sent) {
                let answer = world.database.answer(vectors, Proofs::Tags).unwrap();
                assert!(verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap());
            }
            match recon(&mut hint, pending) {
                Ok(recovered) => {
                    outcomes[0] += 1;
                    let genuine = |index: u32| &world.content[index as usize * 4..][..4];
                    assert_eq!(recovered.records, [genuine((index + 1) % 10), genuine(index), genuine(index)].concat());
                }
                Err((error, pending)) => {
                    outcomes[1] += 1;
                    assert!(matches!(error, Error::State(_)) && !hint.is_condemned());
                    assert_eq!([Role::Retrieve, Role::Refresh].map(|role| pending.vectors(role)), sent);
                    assert!(hint.encode(&BINDING).unwrap() == corrupt, "nothing is applied");
                }
            }
        }
        assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
    }
    // A corrupt tag or key would make honest servers look like liars. That is as bad as a wrong checksum, not worse.
    let mut hint = world.reopen(&resealed(&whole, key_at, &[!whole[key_at]])).unwrap();
    let mut pending = query(&mut hint, &[0], &[1; 32]).unwrap();
    let answer = world.database.answer(&pending.vectors(Role::Retrieve), Proofs::Tags).unwrap();
    assert!(!verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, &answer).unwrap());
}

/// A right checksum is not enough: the form's version, the layout, the manifest and the hint must match too.
#[test]
fn state_of_another_version_layout_manifest_hint_or_moment_is_refused() {
    let world = small(Proofs::Openings);
    let mut hint = world.hint(2);
    let checkpoint = hint.encode(&BINDING).unwrap();
    let partial = world.builder(2).encode(&BINDING);

    let newer = resealed(&checkpoint, 4, &[2]);
    assert_eq!(world.reopen(&newer).err(), Some(Error::State("it has another version")));

    let other = World::new(Layout::new(9, 4, 3, 4).unwrap(), Proofs::Openings, 1);
    assert_eq!(other.reopen(&checkpoint).err(), Some(Error::State("it has another layout")));
    let elsewhere = |form: &[u8]| Hint::decode(form, world.layout(), &world.commitments, &[0; 32]).err();
    assert_eq!(elsewhere(&checkpoint), Some(Error::State("it belongs to another manifest")));
    let resumed =
        HintBuilder::decode(&partial, world.layout(), &world.commitments, &world.content_hashes, &[0; 32]).err();
    assert_eq!(resumed, Some(Error::State("it belongs to another manifest")));

    let pending = query(&mut hint, &[3], &[1; 32]).unwrap().encode(&world.layout());
    assert!(Pending::decode(&pending, &world.hint(3)).is_err(), "another hint");
    let effect = world.look_up(&mut hint, &[3], 1);
    assert!(Pending::decode(&pending, &hint).is_err(), "the next moment");
    let effect = Effect::decode(&effect, &world.layout()).unwrap();
    assert!(replay(&mut hint, &effect).is_err(), "applied already");
    assert!(replay(&mut world.hint(3), &effect).is_err(), "another hint");
    replay(&mut world.hint(2), &effect).unwrap();
}

/// A form's length reveals nothing: it depends on the layout and the number of queries alone.
#[test]
fn stored_lengths_do_not_depend_on_what_was_asked() {
    for world in BOTH.map(small) {
        let length = |index| world.look_up(&mut world.hint(2), &[index], 1).len();
        assert!((1..10).all(|index| length(index) == length(0)));
    }
}

/// Reads state that every released version of the forms has written.
#[test]
fn fixtures_of_every_version_are_read() {
    for (proofs, suffix) in [(Proofs::Openings, ""), (Proofs::Tags, "-tags")] {
        reads_fixtures(&small(proofs), suffix);
    }
}

fn reads_fixtures(world: &World, suffix: &str) {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/state-v1/");
    let mut hint = world.hint(2);
    let written = [
        (format!("checkpoint{suffix}"), hint.encode(&BINDING).unwrap()),
        (format!("partial{suffix}"), {
            let mut partial = world.builder(2);
            receive(&mut partial, 0, 1, &world.content);
            assert!(partial.fold(0).unwrap());
            partial.encode(&BINDING)
        }),
        ("pending".into(), query(&mut hint, &[3, 9], &[1; 32]).unwrap().encode(&world.layout())),
        ("effect".into(), world.look_up(&mut hint, &[3, 9], 1)),
    ];
    if std::env::var_os("KEYHUSH_WRITE_VECTORS").is_some() {
        std::fs::create_dir_all(directory).unwrap();
        for (name, bytes) in &written {
            std::fs::write(format!("{directory}{name}"), bytes).unwrap();
        }
    }
    let stored = |name: &str| std::fs::read(format!("{directory}{name}")).unwrap();
    for (name, bytes) in &written {
        assert_eq!(&stored(name), bytes, "{name}");
    }

    let mut reopened = world.reopen(&stored(&format!("checkpoint{suffix}"))).unwrap();
    let pending = Pending::decode(&stored("pending"), &reopened).unwrap();
    finish(&world.database, &mut reopened, pending);
    let mut replayed = world.reopen(&stored(&format!("checkpoint{suffix}"))).unwrap();
    replay(&mut replayed, &Effect::decode(&stored("effect"), &world.layout()).unwrap()).unwrap();
    assert!(replayed.encode(&BINDING).unwrap() == reopened.encode(&BINDING).unwrap());
    assert_eq!(world.resume(&stored(&format!("partial{suffix}"))).unwrap().folded(), 1);
}
