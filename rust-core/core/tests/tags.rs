//! Tests openings and tags against a server that lies (papers: TAPIR, Def. 5; docs/threat-model.md, Tags). Every entry of both
//! answers is checked. Whether a lie is caught does not depend on what was asked (tests/privacy.rs counts that exactly). The
//! probability that one passes tags is the one in that document.

use crate::common::{bare, hint_of, random, tags_of};
use keyhush_core::Error;
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::stored::HintUpdate;
use keyhush_core::tapir::hint::Hint;
use keyhush_core::tapir::query::{Pending, Role, query};
use keyhush_core::tapir::recon::{recon, verify};
use keyhush_core::tapir::update::update_hint;
use keyhush_kernels::linear::{Point, multiply};

const ROLES: [Role; 2] = [Role::Retrieve, Role::Refresh];

/// A database whose records all differ, and a stored hint, to be opened as often as needed.
struct World {
    proofs: Proofs,
    database: Database<Merkle>,
    records: Vec<u8>,
    commitments: Vec<u8>,
    checkpoint: Vec<u8>,
}

impl World {
    /// For tags only.
    fn new(layout: Layout) -> Self {
        Self::with(layout, Proofs::Tags)
    }

    fn with(layout: Layout, proofs: Proofs) -> Self {
        let (whole, records) = random::<Merkle>(layout, 5);
        let database = if proofs == Proofs::Tags { bare(layout, &records) } else { whole };
        let commitments = database.commitments().unwrap();
        let checkpoint = hint_of(&database, proofs, [1; 32]).encode(&[0; 32]).unwrap();
        World { proofs, database, records, commitments, checkpoint }
    }

    fn layout(&self) -> &Layout {
        self.database.layout()
    }

    fn ask(&self, indices: &[u32], entropy: u8) -> (Hint, Pending) {
        let mut hint = Hint::decode(&self.checkpoint, *self.layout(), &self.commitments, &[0; 32]).unwrap();
        let pending = query(&mut hint, indices, &[entropy; 32]).unwrap();
        (hint, pending)
    }

    fn answer(&self, pending: &Pending, role: Role) -> Vec<u8> {
        self.database.answer(&pending.vectors(role), self.proofs).unwrap()
    }

    /// Every index, alone and in a lookup with another.
    fn questions(&self) -> impl Iterator<Item = Vec<u32>> {
        let records = self.layout().records() as u32;
        (0..records).flat_map(move |index| [vec![index], vec![(index + 1) % records, index]])
    }
}

/// A forged answer is noticed. The hint cannot be used after it.
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
fn a_forged_entry_is_caught_at_every_position_of_either_answer_whatever_was_asked() {
    let with_openings = World::with(Layout::new(10, 4, 3, 4).unwrap(), Proofs::Openings);
    for world in worlds().chain([with_openings]) {
        for indices in world.questions() {
            for role in ROLES {
                let (_, pending) = world.ask(&indices, 1);
                let genuine = world.answer(&pending, role);
                assert_eq!(genuine.len(), world.proofs.answer_bytes::<Merkle>(world.layout(), indices.len()));
                for bit in (0..genuine.len() * 8).step_by(if world.proofs == Proofs::Tags { 1 } else { 7 }) {
                    let (hint, pending) = world.ask(&indices, 1);
                    let mut forged = genuine.clone();
                    forged[bit / 8] ^= 1 << (bit % 8);
                    assert_caught(hint, pending, role, &forged);
                }
            }
        }
    }
}

/// Whole records of the database instead of others: at another position, or from another one.
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

/// A right answer of the previous epoch is a lie now, where something changed, and only there.
#[test]
fn a_record_of_the_epoch_before_is_caught() {
    for entropy in 0..20 {
        let mut world = World::new(Layout::new(10, 4, 3, 4).unwrap());
        let (mut hint, mut pending) = world.ask(&[6], entropy);
        let list = apply(&mut world.database, None, &[Operation::EditIndex(2, &[1; 4])]).unwrap().list;
        let update = HintUpdate::new(&hint, list, &[1; 32]);
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
    let [one, again, other] = [1, 1, 2].map(|entropy| tags_of(&hint_of(&world.database, Proofs::Tags, [entropy; 32])));
    assert_eq!(one.len(), 8 + 8 * 12);
    assert_eq!(one, again);
    // A point, ten tags of records, and two of zeros.
    let [one, other] = [&one, &other].map(|tags| tags.as_chunks::<8>().0);
    let equal: Vec<usize> = (0..13).filter(|&at| one[at] == other[at]).collect();
    assert_eq!(equal, [11, 12]);
    assert!([11, 12].iter().all(|&at| one[at] == [0; 8]));
    let hint = hint_of(&world.database, Proofs::Tags, [1; 32]);
    assert_eq!((hint.proofs(), hint.tag_bytes()), (Proofs::Tags, 8 * 12));
}

// ---- how often a lie passes ---------------------------------------------------------------------------------------

/// The sixteen elements x of the field with x^16 = x. They form a field of their own, so small that every point in it, and every
/// lie made of its elements, can be tried on the real client.
fn small_field() -> Vec<u64> {
    let power = |base: u64, exponent: u64| {
        let bits = (0..u64::BITS).rev().map(|bit| (exponent >> bit) & 1);
        bits.fold(1, |product, bit| multiply(multiply(product, product), if bit == 1 { base } else { 1 }))
    };
    let generator =
        (2..100).map(|base| power(base, u64::MAX / 15)).find(|&g| power(g, 5) != 1 && power(g, 3) != 1).unwrap();
    let elements: Vec<u64> = [0].into_iter().chain((0..15).map(|exponent| power(generator, exponent))).collect();
    assert!(elements.iter().all(|&x| power(x, 16) == x) && elements.len() == 16);
    elements
}

/// Every lie about a record of `words` words of the small field.
fn lies(field: &[u64], words: u32) -> Vec<Vec<u8>> {
    let count = field.len().pow(words);
    let word = |number: usize, at: u32| field[number / field.len().pow(at) % field.len()].to_le_bytes();
    (1..count).map(|number| (0..words).flat_map(|at| word(number, at)).collect()).collect()
}

/// The results of a server's lies under a key: the real client's verdicts on an answer of two entries, each XORed with a lie.
struct Trial {
    database: Database<Merkle>,
    records: Vec<u8>,
}

impl Trial {
    fn new(words: usize) -> Self {
        let layout = Layout::new(2, 8 * words as u64, 2, 1).unwrap();
        let (database, records) = random(layout, 6);
        Trial { database, records }
    }

    /// Whether answers pass, under a point.
    fn passes(&self, point: u64, answers: &[Vec<u8>]) -> Vec<bool> {
        let table = Point::new(point);
        let tags = self.records.chunks_exact(self.records.len() / 2).map(|record| table.tag(record)).collect();
        let hint = hint_of(&self.database, Proofs::Tags, [1; 32]).hazmat_keep_tags(point.to_le_bytes(), tags);
        let checkpoint = hint.encode(&[0; 32]).unwrap();
        let verdict = |lie: &Vec<u8>| {
            let mut hint = Hint::decode(&checkpoint, *self.database.layout(), &[], &[0; 32]).unwrap();
            let mut pending = query(&mut hint, &[0], &[1; 32]).unwrap();
            let genuine = self.database.answer(&pending.vectors(Role::Refresh), Proofs::Tags).unwrap();
            let answer: Vec<u8> = genuine.iter().zip(lie).map(|(byte, error)| byte ^ error).collect();
            verify::<Merkle>(&mut hint, &mut pending, Role::Refresh, &answer).unwrap()
        };
        answers.iter().map(verdict).collect()
    }
}

/// For each lie about one entry, the set of points under which it passes, as bits. The truth passes under all.
fn passing(field: &[u64], words: u32) -> Vec<u16> {
    let trial = Trial::new(words as usize);
    let honest = vec![0; 16 * words as usize];
    let answers: Vec<Vec<u8>> =
        lies(field, words).into_iter().map(|lie| [lie.as_slice(), &honest[..8 * words as usize]].concat()).collect();
    let mut under = vec![0; answers.len()];
    for (number, &point) in field.iter().enumerate() {
        assert_eq!(trial.passes(point, std::slice::from_ref(&honest)), [true]);
        for (points, passes) in under.iter_mut().zip(trial.passes(point, &answers)) {
            *points |= u16::from(passes) << number;
        }
    }
    under
}

/// docs/threat-model.md, Tags: a lie passes under at most n points of the field, where n is the number of words of a record. Some
/// lie passes under exactly n.
#[test]
fn one_lie_passes_with_the_probability_that_is_claimed() {
    let field = small_field();
    for words in 1..=2 {
        let under = passing(&field, words);
        assert_eq!(under.iter().map(|points| points.count_ones()).max(), Some(words));
        // Zero aside, all points are equal to the server: it knows nothing of them.
        assert!(
            (1..16).all(|point| under.iter().filter(|points| (*points >> point) & 1 == 1).count() == under.len() / 16)
        );
    }
}

/// A refused server that may try again under the same key has excluded the points under which it would have passed. Whatever it
/// does, both tries together pass under at most 2n points, and under 2n − 1, since both have the point zero. Under another key,
/// which it meets after a stored condemnation, it knows nothing.
#[test]
fn a_second_lie_gains_nothing_from_the_verdict_on_the_first() {
    let field = small_field();
    for words in 1..=2 {
        let under = passing(&field, words);
        let mut distinct = under.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let pairs = distinct.iter().flat_map(|first| distinct.iter().map(move |second| first | second));
        assert_eq!(pairs.map(u16::count_ones).max(), Some(2 * words - 1));
        // An adaptive server: it chooses its second lie with the knowledge that the first was refused.
        let best = distinct.iter().map(|first| {
            let then = distinct.iter().map(|second| (second & !first).count_ones()).max().unwrap();
            first.count_ones() + then
        });
        assert_eq!(best.max(), Some(2 * words - 1));
    }
}

/// Lies about both entries of an answer pass only where each would.
#[test]
fn more_lies_in_one_answer_pass_less_often() {
    let field = small_field();
    let (trial, one) = (Trial::new(1), lies(&field, 1));
    let pairs: Vec<Vec<u8>> =
        one.iter().flat_map(|first| one.iter().map(move |second| [&first[..], second].concat())).collect();
    for (number, &point) in field.iter().enumerate() {
        assert!(trial.passes(point, &pairs).iter().all(|&passes| passes == (number == 0)));
    }
}
