//! Hints that keep tags of both servers (docs/protocol.md, Light hints): what one server makes proves the other's answers
//! and never its own; the refresh server cannot learn from a failure which column was asked for; updates are followed by
//! differences.

use super::*;
use keyhush_core::database::list::UpdateList;
use keyhush_core::light::checks::hazmat_complete;
use keyhush_core::tapir::query::{Pending, Role, hazmat_query_from};
use keyhush_core::tapir::recon::verify;
use keyhush_core::tapir::update::{HintUpdate, update_hint};

use crate::common::{hint_from, tags_of};

const ROLES: [Role; 2] = [Role::Retrieve, Role::Refresh];

fn attempt(database: &Database<Merkle>) -> Attempt {
    attempt_of(database, Proofs::Tags, 1)
}

/// The points of the retrieve server's tags and of the refresh server's.
fn points(database: &Database<Merkle>) -> [[u8; 8]; 2] {
    let attempt = attempt(database);
    [*attempt.tags_request().first_chunk().unwrap(), *attempt.parities_request().last_chunk().unwrap()]
}

/// In its stored form, to be opened as often as needed.
fn checkpoint(database: &Database<Merkle>) -> Vec<u8> {
    let attempt = attempt(database);
    let [parities, tags] = replies(database, &attempt, At::Newest);
    accepted(attempt.finish(&parities, &tags).unwrap()).encode(&[0; 32]).unwrap()
}

fn ask(database: &Database<Merkle>, checkpoint: &[u8], index: u32) -> (Hint, Pending) {
    let mut hint = Hint::decode(checkpoint, *database.layout(), &commitments(database), &[0; 32]).unwrap();
    assert_eq!(hint.proofs(), Proofs::Tags);
    let pending = query(&mut hint, &[index], &[1; 32]).unwrap();
    (hint, pending)
}

#[test]
fn every_changed_bit_of_either_answer_is_refused_whatever_was_asked() {
    let packed = Layout::packed(21, 5, 3, 8, 4).unwrap();
    for database in [filled((3, 4, 9)), filled((1, 3, 8)), database(packed, &bytes("records", 21 * 5))] {
        let checkpoint = checkpoint(&database);
        for (index, role) in (0..database.layout().records() as u32).flat_map(|index| ROLES.map(|role| (index, role))) {
            let vectors = ask(&database, &checkpoint, index).1.vectors(role);
            let genuine = database.answer(&vectors, Proofs::Tags).unwrap();
            let (mut hint, mut pending) = ask(&database, &checkpoint, index);
            assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, &genuine), Ok(true));
            for bit in 0..8 * genuine.len() {
                let (mut hint, mut pending) = ask(&database, &checkpoint, index);
                let mut forged = genuine.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(verify::<Merkle>(&mut hint, &mut pending, role, &forged), Ok(false), "{index}, bit {bit}");
                assert!(hint.is_condemned());
            }
        }
    }
}

/// Two words that the sum of the tags at these points does not change with: w·K² + w_2·K is the same at both.
fn collision(points: [u64; 2]) -> [u8; 16] {
    let words = [77, multiply(77, points[0] ^ points[1])];
    *words.map(u64::to_le_bytes).as_flattened().first_chunk().unwrap()
}

/// Each server knows one point, under which it can forge; the answers are checked under both, where it cannot. Who kept
/// one server's tags alone, a planted client, would believe that server anything, and the other nothing more than now.
#[test]
fn neither_server_can_forge_under_the_point_it_knows_and_who_knows_both_can() {
    let database = filled((2, 5, 16));
    let checkpoint = checkpoint(&database);
    let known = points(&database).map(u64::from_le_bytes);
    let forgeries = [collision([known[0], 0]), collision([0, known[1]]), collision(known)];
    for index in 0..database.layout().records() as u32 {
        for role in ROLES {
            for at in 0..2 {
                let refused = forgeries.map(|change| {
                    let (mut hint, mut pending) = ask(&database, &checkpoint, index);
                    let vectors = pending.vectors(role);
                    let genuine = database.answer(&vectors, Proofs::Tags).unwrap();
                    let mut forged = genuine.clone();
                    forged[16 * at..][..16].iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
                    let passes_at = |point: u64| {
                        let point = Point::new(point);
                        point.tag(&forged[16 * at..][..16]) == point.tag(&genuine[16 * at..][..16])
                    };
                    let planted = known.map(passes_at);
                    let refused = !verify::<Merkle>(&mut hint, &mut pending, role, &forged).unwrap();
                    (refused, planted)
                });
                assert_eq!(refused, [(true, [true, false]), (true, [false, true]), (false, [false, false])]);
            }
        }
    }
}

/// The retrieve server's sum is wrong by a record: that passes under its roots alone, at most as many as it has words.
#[test]
fn a_wrong_sum_of_the_retrieve_server_passes_under_its_roots_alone() {
    let layout = Layout::new(6, 16, 2, 3).unwrap();
    let lie: Vec<u8> = [1, 0xfeed_u64].iter().flat_map(|word| word.to_le_bytes()).collect(); // K·(K + 0xfeed)
    let passes = |point: u64| {
        let words = |words: &mut [[u8; 8]]| words.fill([0x5a; 8]);
        hazmat_sum_holds(&layout, &Point::new(point), words, &lie, &vec![0; layout.slots()])
    };
    let tried = (0..2000).chain([0xfeec, 0xfeed, 0xfeee, 1 << 63]);
    assert_eq!(tried.filter(|&point| passes(point)).collect::<Vec<_>>(), [0, 0xfeed]);
}

// ---- exactly, at tiny sizes -------------------------------------------------------------------------------------

const POINTS: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfeed_beef_dead_cafe];

/// The parities that permutations make of 8-byte records.
fn parities_of(layout: &Layout, permutations: &Permutations, records: &[u8]) -> Vec<u8> {
    let (m, record_bytes) = (layout.partition_records(), layout.record_bytes());
    let mut parities = vec![0; layout.partition_bytes()];
    for (j, parity) in parities.chunks_exact_mut(record_bytes).enumerate() {
        for q in 0..layout.partitions() {
            let slot = q * m + usize::from(permutations.of(q)[j]);
            parity.iter_mut().zip(&records[slot * record_bytes..]).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
    parities
}

/// The refresh server's tags, lied about, completed and checked as the client does.
struct Lied {
    layout: Layout,
    records: Vec<u8>,
}

impl Lied {
    fn new(q: u64, m: u64) -> Self {
        Lied { layout: Layout::new(q * m, 8, q, m).unwrap(), records: bytes("tiny", (8 * q * m) as usize) }
    }

    /// Slots that the refresh server tags.
    fn tagged(&self) -> usize {
        self.layout.slots() - self.layout.partition_records()
    }

    fn tags(&self, point: u64) -> Vec<u64> {
        let point = Point::new(point);
        self.records.chunks_exact(8).map(|record| point.tag(record)).collect()
    }

    /// With a value added to the tags of these slots (bits).
    fn completed(&self, permutations: &Permutations, lie: usize) -> Vec<u64> {
        let mut tags = self.tags(POINTS[1]);
        tags.truncate(self.tagged());
        for (slot, tag) in tags.iter_mut().enumerate() {
            *tag ^= if lie >> slot & 1 == 1 { 0xbeef } else { 0 };
        }
        let parities = parities_of(&self.layout, permutations, &self.records);
        hazmat_complete(&self.layout, &Point::new(POINTS[1]), permutations, &parities, &mut tags);
        tags
    }

    /// Under challenge words of κ bits, all together so many bits; the retrieve server's sum is right.
    fn passes(&self, tags: &[u64], kappa: usize, challenge: usize) -> bool {
        let word = |slot: usize| (challenge >> (kappa * slot)) as u64 & ((1 << kappa) - 1);
        let sum = self.records.chunks_exact(8).enumerate().fold(0, |sum, (slot, record)| {
            sum ^ multiply(word(slot), u64::from_le_bytes(*record.first_chunk().unwrap()))
        });
        let mut slot = 0;
        let words = |words: &mut [[u8; 8]]| {
            for of_slot in words {
                *of_slot = word(slot).to_le_bytes();
                slot += 1;
            }
        };
        hazmat_sum_holds(&self.layout, &Point::new(POINTS[1]), words, &sum.to_le_bytes(), tags)
    }
}

/// For every lie of the refresh server that adds one value to a set of the tags it sends, and every permutation: the tags as
/// completed pass for exactly 2^-κ of all challenge words of κ bits, and honest ones for all.
#[test]
fn the_other_servers_sum_passes_a_lie_for_as_many_challenges_whatever_the_permutations_are() {
    for ((q, m), kappa) in [((2, 2), 1), ((3, 2), 1), ((2, 3), 1), ((2, 2), 2), ((2, 2), 3)] {
        let lied = Lied::new(q, m);
        let challenges = 1usize << (kappa * lied.layout.slots());
        for permutations in &all_permutations(&lied.layout) {
            for lie in 0..1usize << lied.tagged() {
                let tags = lied.completed(permutations, lie);
                let passed = (0..challenges).filter(|&challenge| lied.passes(&tags, kappa, challenge)).count();
                let expected = if lie == 0 { challenges } else { challenges >> kappa };
                assert_eq!(passed, expected, "({q}, {m}), {kappa} bits, lie {lie:b}");
            }
        }
    }
}

/// What the refresh server gains by spoiling the tag of one slot, whose column it knows: the retrieve server's honest answer
/// is then refused, if it is that column that is asked for. By a client that leaves the other server's sum out (κ = 0) it
/// gains 1 − 1/M in one lookup; with challenge words of κ bits 2^-κ of that.
#[test]
fn what_a_failure_tells_the_refresh_server_shrinks_with_every_bit_of_the_other_servers_challenge() {
    for m in [2, 3] {
        let lied = Lied::new(2, m);
        let (layout, m) = (lied.layout, lied.layout.partition_records());
        let mut database = database::<Merkle>(layout, &lied.records);
        for kappa in 0..=4 - m {
            let challenges = 1usize << (kappa * layout.slots());
            let mut source = Odometer(Vec::new(), 0);
            // Of all permutations, draws and challenges: those that are accepted and then refuse an honest answer, when the
            // spoiled slot's column is asked for, and when another is; for each permutation, which the server knows.
            let mut refused = [0, 0];
            let mut outcomes = [0, 0];
            loop {
                let mut permutations = Permutations::from_entropy(&layout, &[0; 32]);
                (0..2).for_each(|q| permutations.hazmat_redraw(q, &mut source));
                source.1 = 0; // the same draws again
                let hint = hint_from(&mut database, Proofs::Openings, &mut source);
                let tags = lied.completed(&permutations, 1);
                let accepted = (0..challenges).filter(|&challenge| lied.passes(&tags, kappa, challenge)).count();
                let both = tags.iter().zip(lied.tags(POINTS[0])).map(|(tag, other)| tag ^ other).collect();
                let mut hint =
                    hint.hazmat_keep_tags(*POINTS.map(u64::to_le_bytes).as_flattened().first_chunk().unwrap(), both);
                // A record of the second partition: the first's slot 0 is spoiled.
                let index = m as u32 + source.below(m as u32);
                let mut pending = hazmat_query_from(&mut hint, &[index], &mut source).unwrap();
                let column_of = |q: usize, m: usize| permutations.of(q).iter().position(|&at| usize::from(at) == m);
                let same_column = column_of(1, index as usize - m) == column_of(0, 0);
                let answer = database.answer(&pending.vectors(Role::Retrieve), Proofs::Tags).unwrap();
                let genuine = verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, &answer).unwrap();
                outcomes[usize::from(same_column)] += challenges;
                refused[usize::from(same_column)] += if genuine { 0 } else { accepted };
                if !source.step() {
                    break;
                }
            }
            // 1 and 1/M of those accepted, in the same column and in another.
            assert_eq!(refused[1] << kappa, outcomes[1], "M = {m}, {kappa} bits");
            assert_eq!((refused[0] * m) << kappa, outcomes[0], "M = {m}, {kappa} bits");
        }
    }
}

// ---- the rest of its life -----------------------------------------------------------------------------------------

/// Tags that have followed differences are those of a hint made anew under the same points.
#[test]
fn differences_are_followed_through_edits_deletions_and_growth() {
    let packed = Layout::packed(21, 20, 3, 8, 4).unwrap();
    for mut database in [filled((3, 13, 20)), database(packed, &bytes("records", 21 * 20))] {
        let checkpoint = checkpoint(&database);
        let record = bytes("edit", 20);
        let mut hint = Hint::decode(&checkpoint, *database.layout(), &commitments(&database), &[0; 32]).unwrap();
        let mut world = copy(&mut database);
        for round in 0..3 {
            let mut batch = vec![Operation::EditIndex(1, &record), Operation::EditIndex(round, &record[..])];
            batch.push(Operation::DeleteIndex(2 + round));
            batch.extend((0..9 * round).map(|_| Operation::Add(&record)));
            let before = *world.layout();
            let epoch = apply(&mut world, None, &batch).map_err(|refused| refused.reason).unwrap();
            let list = UpdateList::decode(epoch.list.bytes(), before, *world.layout()).unwrap();
            let update = HintUpdate::new(&hint, list, &[round as u8; 32]);
            update_hint(&mut hint, None, &update).unwrap();
            let expected: Vec<u8> = {
                let [one, other] = points(&database).map(|point| Point::new(u64::from_le_bytes(point)));
                let block_bytes = world.layout().record_bytes();
                let blocks = world.records_mut().chunks_exact(block_bytes);
                blocks.flat_map(|block| (one.tag(block) ^ other.tag(block)).to_le_bytes()).collect()
            };
            assert!(tags_of(&hint)[16..] == expected, "round {round}");
            for index in 0..world.layout().records() as u32 {
                let pending = query(&mut hint, &[index], &[index as u8; 32]).unwrap();
                assert_eq!(finish(&world, &mut hint, pending), world.record(index as usize).unwrap());
            }
        }
        assert!(world.layout().partitions() > 3);
    }
}

fn copy(database: &mut Database<Merkle>) -> Database<Merkle> {
    let layout = *database.layout();
    super::database(layout, database.records_mut())
}

/// A stored hint of another kind of tags is none.
#[test]
fn stored_it_is_opened_again_and_changed_it_is_not() {
    let database = filled((2, 5, 16));
    let stored = checkpoint(&database);
    let mut hint = Hint::decode(&stored, *database.layout(), &[], &[0; 32]).unwrap();
    assert!(hint.encode(&[0; 32]).unwrap() == stored);
    assert_eq!(tags_of(&hint)[..16], points(&database).concat());
    let pending = query(&mut hint, &[3], &[3; 32]).unwrap();
    assert_eq!(finish(&database, &mut hint, pending), database.record(3).unwrap());
    for at in 0..stored.len() {
        let mut other = stored.clone();
        other[at] ^= 1;
        assert!(Hint::decode(&other, *database.layout(), &[], &[0; 32]).is_err(), "byte {at}");
    }
}
