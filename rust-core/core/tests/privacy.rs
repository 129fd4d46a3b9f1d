//! Tests Show-and-Shuffle exactly (papers: SinglePass, Fig. 3 and Theorem A.1; TAPIR, Theorem 5.3.3). At tiny (Q, M), every
//! initial permutation and every draw is enumerated. For each sequence of indices, the vectors that a server sees must be
//! **jointly** uniform. The same check must reject each of the known mistakes.

use std::collections::HashMap;

use crate::common::{Enumerate, bare, database, finish, hint_from, hint_of, thorough};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::list::UpdateList;
use keyhush_core::layout::Layout;
use keyhush_core::random::Uniform;
use keyhush_core::tapir::hint::Hint;
use keyhush_core::tapir::query::{Pending, Role, hazmat_query_from, query};
use keyhush_core::tapir::recon::verify;
use keyhush_core::tapir::update::hazmat_update_hint_from;

/// What each server saw in one run: retrieve vectors, refresh vectors.
type Views = [Vec<u8>; 2];

/// Runs `client` for every outcome of its draws. Returns whether both servers' views are jointly uniform over [M]^(Q·queries).
fn jointly_uniform(layout: Layout, queries: usize, mut client: impl FnMut(&mut Enumerate) -> Views) -> bool {
    let mut counts = [HashMap::new(), HashMap::new()];
    Enumerate::all(|source| {
        for (view, counts) in client(source).into_iter().zip(&mut counts) {
            *counts.entry(view).or_insert(0u64) += 1;
        }
    });
    let outcomes = layout.partition_records().pow((layout.partitions() * queries) as u32);
    counts.iter().all(|counts| {
        let mut counts = counts.values();
        let first = counts.next();
        counts.len() + 1 == outcomes && counts.all(|count| Some(count) == first)
    })
}

/// All sequences of `queries` indices below N.
fn sequences(records: usize, queries: usize) -> impl Iterator<Item = Vec<u32>> {
    (0..records.pow(queries as u32))
        .map(move |code| (0..queries).map(|place| (code / records.pow(place as u32) % records) as u32).collect())
}

/// The real client: the sequence divided into lookups of the given sizes.
fn real_client(layout: Layout, sequence: &[u32], sizes: &[usize], source: &mut Enumerate) -> Views {
    let content: Vec<u8> = (0..layout.slots() as u8).collect();
    let mut database = bare::<Merkle>(layout, &content);
    let mut hint = hint_from(&mut database, Proofs::Tags, source);
    let mut views: Views = Default::default();
    let mut rest = sequence;
    for &size in sizes {
        let (indices, later) = rest.split_at(size);
        rest = later;
        let pending = hazmat_query_from(&mut hint, indices, source).unwrap();
        for (view, role) in views.iter_mut().zip([Role::Retrieve, Role::Refresh]) {
            view.extend(pending.vectors(role));
        }
        let records: Vec<u32> = finish(&database, &mut hint, pending).into_iter().map(u32::from).collect();
        assert_eq!(records, indices);
    }
    views
}

fn tiny(partitions: u64, partition_records: u64) -> Layout {
    Layout::new(partitions * partition_records, 1, partitions, partition_records).unwrap()
}

#[test]
fn one_to_three_lookups_are_jointly_uniform_whatever_was_asked() {
    // Lookups of every shape: alone, together, mixed.
    let shapes: [(usize, &[&[usize]]); 3] =
        [(1, &[&[1]]), (2, &[&[1, 1], &[2]]), (3, &[&[1, 1, 1], &[3], &[1, 2], &[2, 1]])];
    for (queries, shapes) in shapes {
        // `npm test` takes every thirteenth sequence of three lookups: five of 64, with equal and different indices.
        let every = if queries < 3 || thorough() { 1 } else { 13 };
        for sequence in sequences(4, queries).step_by(every) {
            for shape in shapes {
                let uniform =
                    jointly_uniform(tiny(2, 2), queries, |source| real_client(tiny(2, 2), &sequence, shape, source));
                assert!(uniform, "Q = M = 2, {sequence:?} in lookups of {shape:?}");
            }
        }
    }
    for (layout, queries) in [(tiny(1, 3), 3), (tiny(3, 2), 2), (tiny(2, 3), 2)] {
        for sequence in sequences(layout.records(), queries).step_by(if thorough() { 1 } else { 5 }) {
            let uniform =
                jointly_uniform(layout, queries, |source| real_client(layout, &sequence, &vec![1; queries], source));
            assert!(uniform, "{layout:?}, {sequence:?}");
        }
    }
}

/// Point 7: an update opens a partition while a lookup is pending that was sent, in whole or in part. The extended vectors contain
/// what was sent before, so they are all that a server has seen.
#[test]
fn vectors_extended_by_an_update_are_jointly_uniform_whatever_was_asked() {
    let (before, after) = (tiny(1, 2), Layout::new(3, 1, 2, 2).unwrap());
    for size in [1, 2] {
        for first in sequences(before.records(), size) {
            for next in 0..3 {
                let uniform = jointly_uniform(after, size + 1, |source| {
                    let mut database = bare::<Merkle>(before, &[0, 1]);
                    let mut hint = hint_from(&mut database, Proofs::Tags, source);
                    let mut pending = hazmat_query_from(&mut hint, &first, source).unwrap();
                    let sent = pending.vectors(Role::Retrieve);
                    let list = apply(&mut database, None, &[Operation::Add(&[2])]).unwrap().list;
                    let list = UpdateList::decode(list.bytes(), before, after).unwrap();
                    hazmat_update_hint_from(&mut hint, Some(&mut pending), &list, source).unwrap();
                    hint.rebind(&[]).unwrap();
                    let mut views = [Role::Retrieve, Role::Refresh].map(|role| pending.vectors(role));
                    assert!(sent.chunks(2).zip(views[0].chunks(4)).all(|(sent, extended)| extended.starts_with(sent)));
                    let records: Vec<u32> = finish(&database, &mut hint, pending).into_iter().map(u32::from).collect();
                    assert_eq!(records, first);
                    let pending = hazmat_query_from(&mut hint, &[next], source).unwrap();
                    for (view, role) in views.iter_mut().zip([Role::Retrieve, Role::Refresh]) {
                        view.extend(pending.vectors(role));
                    }
                    assert_eq!(finish(&database, &mut hint, pending), [next as u8]);
                    views
                });
                assert!(uniform, "{first:?} pending, then {next}");
            }
        }
    }
}

/// A lying server sees the vector that it answers and, from what the client does next, whether its lie was noticed. Both together
/// have the same distribution whatever was asked, for each record it may lie about: every entry is checked with what the client
/// knew before it asked. This holds with proofs and with tags.
#[test]
fn whether_a_lie_is_noticed_tells_nothing_of_what_was_asked() {
    for (proofs, layout) in [Proofs::Openings, Proofs::Tags]
        .into_iter()
        .flat_map(|kind| [tiny(2, 2), tiny(1, 3), tiny(3, 2), tiny(2, 3)].map(|layout| (kind, layout)))
    {
        let m = layout.partition_records();
        let entry_bytes = proofs.entry_bytes::<Merkle>(&layout);
        let mut database = database::<Merkle>(layout, &(0..layout.slots() as u8).collect::<Vec<_>>());
        for (role, forged) in [Role::Retrieve, Role::Refresh]
            .into_iter()
            .flat_map(|role| (0..layout.slots()).map(move |slot| (role, slot)))
        {
            let mut views = (0..layout.records() as u32).map(|index| {
                let mut counts = HashMap::new();
                Enumerate::all(|source| {
                    let mut hint = hint_from(&mut database, proofs, source);
                    let mut pending = hazmat_query_from(&mut hint, &[index], source).unwrap();
                    let vectors = pending.vectors(role);
                    let mut answer = database.answer(&vectors, proofs).unwrap();
                    let lied = vectors.as_chunks().0[forged / m] == (forged as u16 % m as u16).to_le_bytes();
                    if lied {
                        answer[forged / m * entry_bytes] ^= 1;
                    }
                    let noticed = !verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap();
                    assert_eq!(noticed, lied);
                    *counts.entry((vectors, noticed)).or_insert(0u64) += 1;
                });
                counts
            });
            let first = views.next().unwrap();
            assert!(first.keys().any(|(_, noticed)| *noticed), "some lies are told");
            assert!(views.all(|view| view == first), "{layout:?}, {role:?}, record {forged}");
        }
    }
}

/// Two copies of one hint whose generators are in the same state. A fence that confirms lookups by name must confirm both only if
/// they ask for the same records. The refresh offsets, which are all that the refresh server sees, would not be enough: they are
/// equal for some indices, and then the retrieve vectors differ in one partition alone.
#[test]
fn copies_with_one_generator_state_and_other_keys_never_have_equal_names() {
    for (layout, size) in [(tiny(2, 2), 1), (tiny(2, 2), 2), (tiny(1, 3), 1), (tiny(3, 2), 1), (tiny(2, 3), 1)] {
        let mut offsets_collide = false;
        Enumerate::all(|source| {
            let mut lookups: Vec<Pending> = Vec::new();
            for indices in sequences(layout.records(), size) {
                source.position = 0;
                let mut database = bare::<Merkle>(layout, &vec![0; layout.slots()]);
                let mut hint = hint_from(&mut database, Proofs::Tags, source);
                lookups.push(hazmat_query_from(&mut hint, &indices, source).unwrap());
            }
            for (number, one) in lookups.iter().enumerate() {
                for other in &lookups[..number] {
                    assert_ne!(one.name(), other.name());
                    offsets_collide |= one.vectors(Role::Refresh) == other.vectors(Role::Refresh);
                }
            }
        });
        assert!(offsets_collide, "{layout:?}: the enumeration would notice a name that is made of too little");
    }
}

/// A lookup's draws depend on everything that distinguishes it. So using the same entropy twice does no harm.
#[test]
fn entropy_that_comes_twice_gives_other_draws_for_other_indices_versions_and_hints() {
    let layout = Layout::new(4096, 1, 16, 256).unwrap();
    let database = database::<Merkle>(layout, &vec![7; layout.slots()]);
    let mut seen = HashMap::new();
    for hint_entropy in [1, 2] {
        let mut hint = hint_of(&database, Proofs::Openings, [hint_entropy; 32]);
        for version in 0..3 {
            for indices in [vec![5], vec![6], vec![5, 6], vec![6, 5], vec![5, 5]] {
                let drawn = |hint: &mut Hint| query(hint, &indices, &[9; 32]).unwrap();
                let (one, again) = (drawn(&mut hint), drawn(&mut hint));
                assert_eq!((one.name(), one.vectors(Role::Refresh)), (again.name(), again.vectors(Role::Refresh)));
                let first: Vec<u8> = one.vectors(Role::Refresh)[..32].to_vec();
                let place = (hint_entropy, version, indices.clone());
                assert_eq!(seen.insert(first, place.clone()), None, "{place:?} draws as another did");
                assert_eq!(seen.insert(one.name().to_vec(), place.clone()), None, "{place:?}");
            }
            let pending = query(&mut hint, &[0], &[3; 32]).unwrap();
            finish(&database, &mut hint, pending);
        }
    }
}

/// Mistakes that clients of this kind have made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Defect {
    None,
    ConstantSeed,
    NoSwap,
    DummyNeverTheRecord,
    RefreshNeverTheColumn,
    RetryWithFreshRandomness,
}

/// A second, readable client that only makes vectors, with a planted mistake.
fn planted_client(layout: Layout, sequence: &[u32], defect: Defect, source: &mut Enumerate) -> Views {
    let (partitions, m) = (layout.partitions(), layout.partition_records());
    let mut sigma: Vec<Vec<u8>> = vec![(0..m as u8).collect(); partitions];
    for permutation in &mut sigma {
        for i in (1..m).rev() {
            let j = if defect == Defect::ConstantSeed { 0 } else { source.below(i as u32 + 1) as usize };
            permutation.swap(i, j);
        }
    }
    // Uniform over all values but one.
    let except = |source: &mut Enumerate, avoided: usize| (avoided + 1 + source.below(m as u32 - 1) as usize) % m;

    let mut views: Views = Default::default();
    for (number, &index) in sequence.iter().enumerate() {
        let (q_star, m_star) = (index as usize / m, index as usize % m);
        let column = sigma[q_star].iter().position(|&offset| usize::from(offset) == m_star).unwrap();
        let dummy = match defect {
            Defect::DummyNeverTheRecord => except(source, m_star),
            _ => source.below(m as u32) as usize,
        };
        for (q, permutation) in sigma.iter_mut().enumerate() {
            let refresh_column = match defect {
                Defect::RefreshNeverTheColumn => except(source, column),
                _ => source.below(m as u32) as usize,
            };
            views[0].push(if q == q_star { dummy as u8 } else { permutation[column] });
            views[1].push(permutation[refresh_column]);
            // A failed attempt applies nothing. The mistake is to draw anew for the retry.
            let applied = match defect {
                Defect::NoSwap => false,
                Defect::RetryWithFreshRandomness => number > 0,
                _ => true,
            };
            if q != q_star && applied {
                permutation.swap(column, refresh_column);
            }
        }
    }
    views
}

#[test]
fn the_check_rejects_every_planted_defect() {
    let rejected = |layout: Layout, defect| {
        !sequences(layout.records(), 2)
            .all(|sequence| jointly_uniform(layout, 2, |source| planted_client(layout, &sequence, defect, source)))
    };
    for layout in [tiny(2, 2), tiny(2, 3)] {
        assert!(!rejected(layout, Defect::None), "the model without a defect passes");
        for defect in [
            Defect::ConstantSeed,
            Defect::NoSwap,
            Defect::DummyNeverTheRecord,
            Defect::RefreshNeverTheColumn,
            Defect::RetryWithFreshRandomness,
        ] {
            assert!(rejected(layout, defect), "{defect:?}");
        }
    }
}
