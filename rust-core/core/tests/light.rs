//! Light hints (docs/protocol.md, Light hints): a hint that one server makes is the one that a full download makes; every
//! lie of either server is refused before anything is done with it; and whether a lie of the retrieve server is refused
//! tells nothing of the permutations.

mod common;
#[path = "light/crosswise.rs"]
mod crosswise;

use common::{builder, database, finish, receive};
use keyhush_core::Error;
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::layout::Layout;
use keyhush_core::light::attempt::{Attempt, Liars, Outcome, Verdict};
use keyhush_core::light::checks::{hazmat_columns_hold, hazmat_sum_holds};
use keyhush_core::light::making::Making;
use keyhush_core::light::{parities_reply_bytes, tags_reply_bytes};
use keyhush_core::random::Uniform;
use keyhush_core::tapir::hint::Hint;
use keyhush_core::tapir::permutation::Permutations;
use keyhush_core::tapir::query::query;
use keyhush_kernels::linear::{Point, multiply};

const KINDS: [Proofs; 2] = [Proofs::Openings, Proofs::Tags];

fn bytes(label: &str, count: usize) -> Vec<u8> {
    let mut out = vec![0; count];
    blake3::Hasher::new().update(label.as_bytes()).finalize_xof().fill(&mut out);
    out
}

/// Two padding slots at the end, if there are as many.
fn filled((q, m, record_bytes): (u64, u64, u64)) -> Database<Merkle> {
    let layout = Layout::new((q * m).saturating_sub(2).max(1), record_bytes, q, m).unwrap();
    database(layout, &bytes("records", layout.records() * layout.record_bytes()))
}

fn commitments(database: &Database<Merkle>) -> Vec<u8> {
    (0..database.layout().partitions()).flat_map(|q| database.commitment(q).unwrap()).collect()
}

fn made(database: &Database<Merkle>, making: Result<Making, Error>) -> Vec<u8> {
    let mut making = making.unwrap();
    while making.step(database).unwrap() {}
    making.finish().unwrap()
}

/// Both servers' replies.
fn replies(database: &Database<Merkle>, attempt: &Attempt, at: At) -> [Vec<u8>; 2] {
    [
        made(database, Making::parities(database, &attempt.parities_request(), at)),
        made(database, Making::tags(database, &attempt.tags_request(), at)),
    ]
}

fn attempt_of(database: &Database<Merkle>, proofs: Proofs, root: u8) -> Attempt {
    Attempt::new(*database.layout(), proofs, &commitments(database), &[root; 32]).unwrap()
}

fn attempt(database: &Database<Merkle>, root: u8) -> Attempt {
    attempt_of(database, Proofs::Openings, root)
}

fn accepted(outcome: Outcome) -> Hint {
    match outcome {
        Outcome::Accepted(hint) => hint,
        Outcome::Refused(inquiry) => panic!("honest servers were refused: {:?}", inquiry.verdict()),
    }
}

#[allow(clippy::needless_pass_by_value)] // an outcome is looked at once
fn refused(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Accepted(_) => panic!("a lie was accepted"),
        Outcome::Refused(inquiry) => inquiry.verdict(),
    }
}

/// Permutations and parities, as they stand in a stored hint.
fn substance(hint: &Hint) -> Vec<u8> {
    let stored = hint.encode(&[0; 32]).unwrap();
    let checks = match hint.proofs() {
        Proofs::Openings => 0,
        Proofs::Tags => 16 + hint.tag_bytes(),
        Proofs::Pointproofs => 4,
    };
    let end = stored.len() - 16 - checks; // checksum
    stored[end - hint.permutation_bytes() - hint.parity_bytes()..end].to_vec()
}

/// The hint that a full download makes under the seed that the refresh server is shown.
fn downloaded(database: &mut Database<Merkle>, attempt: &Attempt) -> Hint {
    let mut builder = builder(database, *attempt.parities_request().first_chunk().unwrap());
    for q in 0..database.layout().partitions() {
        receive(&mut builder, 0, q, database.records_mut());
        assert!(builder.fold(0).unwrap());
    }
    builder.finish().map_err(|(error, _)| error).unwrap()
}

#[test]
fn a_light_hint_is_the_one_that_a_download_makes_and_looks_up() {
    // Long records are added up in another way; 33 bytes are a stripe and a byte more.
    let single = [(3, 13, 64), (2, 5, 33), (4, 16, 1), (1, 1, 8), (5, 7, 300), (2, 3, 5000)].map(filled);
    // Blocks of four records, the last with one; and one block a partition.
    let packed = [(45, 20, 3, 20, 4), (7, 3, 2, 4, 4)].map(|(n, l, q, m, g)| {
        let layout = Layout::packed(n, l, q, m, g).unwrap();
        database(layout, &bytes("records", (n * l) as usize))
    });
    for mut database in single.into_iter().chain(packed) {
        let dimensions = *database.layout();
        for proofs in KINDS.into_iter().chain([Proofs::Pointproofs]) {
            let attempt = attempt_of(&database, proofs, 1);
            let expected = substance(&downloaded(&mut database, &attempt));
            let [parities, tags] = replies(&database, &attempt, At::Newest);
            assert_eq!(parities.len() as u64, parities_reply_bytes(database.layout(), proofs));
            assert_eq!(tags.len() as u64, tags_reply_bytes(database.layout(), proofs));
            let mut hint = accepted(attempt.finish(&parities, &tags).unwrap());
            assert_eq!(hint.proofs(), proofs);
            assert!(substance(&hint) == expected, "{dimensions:?}");
            // Of Pointproofs it knows the place, and somebody else the verdict (tapir.rs).
            let lookups = if proofs == Proofs::Pointproofs { 0 } else { database.layout().records().min(20) };
            for index in 0..lookups {
                let pending = query(&mut hint, &[index as u32], &[index as u8; 32]).unwrap();
                assert_eq!(finish(&database, &mut hint, pending), database.record(index).unwrap());
            }
        }
    }
}

#[test]
fn every_changed_bit_of_either_reply_is_refused_and_the_right_checks_see_it() {
    for (dimensions, proofs) in
        [(3, 5, 9), (1, 2, 8), (2, 3, 40)].into_iter().flat_map(|of| KINDS.map(|proofs| (of, proofs)))
    {
        let database = filled(dimensions);
        let layout = database.layout();
        let crosswise = proofs == Proofs::Tags;
        let begin = || attempt_of(&database, proofs, 1);
        let [parities, tags] = replies(&database, &begin(), At::Newest);
        let sum_bits = 8 * layout.record_bytes().next_multiple_of(8);
        let parity_bits = layout.partition_bytes() * 8;
        let flipped = |reply: &[u8], bit: usize| {
            let mut lie = reply.to_vec();
            lie[bit / 8] ^= 1 << (bit % 8);
            lie
        };
        for bit in 0..parities.len() * 8 {
            let verdict = refused(begin().finish(&flipped(&parities, bit), &tags).unwrap());
            let of_parity = bit < parity_bits;
            let of_sum = !of_parity && bit < parity_bits + sum_bits;
            // The last partition's tags follow from the parities.
            let expected = Verdict { sum: !of_sum, columns: !of_parity, crosswise: !crosswise || of_sum };
            assert_eq!(verdict, expected, "{dimensions:?}, {proofs:?}, bit {bit}");
            assert_eq!(verdict.blames_refresh_server(), of_parity);
        }
        for bit in 0..tags.len() * 8 {
            let verdict = refused(begin().finish(&parities, &flipped(&tags, bit)).unwrap());
            let of_sum = crosswise && bit < sum_bits;
            let expected = Verdict { sum: of_sum, columns: of_sum, crosswise: !of_sum };
            assert_eq!(verdict, expected, "{dimensions:?}, {proofs:?}, bit {bit}");
        }
    }
}

/// The attack on tags that nobody checks: two of one column, changed alike, pass all columns. The sums catch it; on padding
/// too, which is where no record would ever be missed.
#[test]
fn tags_changed_alike_in_one_column_are_caught_by_the_sums_alone() {
    let database = filled((3, 13, 64));
    let m = database.layout().partition_records();
    let seed = *attempt(&database, 1).parities_request().first_chunk().unwrap();
    let permutations = Permutations::from_entropy(database.layout(), &seed);
    let [parities, tags] = replies(&database, &attempt(&database, 1), At::Newest);
    let column_of = |slot: usize| permutations.of(slot / m).iter().position(|&m_| usize::from(m_) == slot % m).unwrap();
    let mut pairs = [0; 2];
    for one in 0..3 * m {
        for other in one + 1..3 * m {
            let mut lie = tags.clone();
            for slot in [one, other] {
                lie[8 * slot + 3] ^= 0x40;
            }
            let same_column = column_of(one) == column_of(other);
            let verdict = refused(attempt(&database, 1).finish(&parities, &lie).unwrap());
            assert_eq!(
                verdict,
                Verdict { sum: false, columns: same_column, crosswise: true },
                "slots {one} and {other}"
            );
            pairs[usize::from(same_column)] += 1;
        }
    }
    assert_eq!(pairs, [3 * m * (3 * m - 1) / 2 - 3 * m, 3 * m]);
}

/// Whichever lie it was, all partitions, in any order, show whose; and before the last of them nobody is named.
#[test]
fn partitions_show_who_lied_however_the_checks_went() {
    let database = filled((3, 5, 9));
    let parity_bytes = database.layout().partition_bytes();
    let sum_bytes = 16;
    let flipped = |bytes: &[u8], at: usize| {
        let mut lie = bytes.to_vec();
        lie[at] ^= 4;
        lie
    };
    let [refresh, retrieve, both] =
        [(true, false), (false, true), (true, true)].map(|(refresh, retrieve)| Liars { refresh, retrieve });
    for proofs in KINDS {
        let begin = || attempt_of(&database, proofs, 1);
        let [parities, tags] = replies(&database, &begin(), At::Newest);
        let first_tag = if proofs == Proofs::Tags { sum_bytes } else { 0 };
        let same_column = {
            let seed = *begin().parities_request().first_chunk().unwrap();
            let permutations = Permutations::from_entropy(database.layout(), &seed);
            let mut lie = tags.clone();
            for q in 0..2 {
                lie[first_tag + 8 * (5 * q + usize::from(permutations.of(q)[2]))] ^= 1;
            }
            lie
        };
        let mut cases = vec![
            (flipped(&parities, 3), tags.clone(), refresh),
            (flipped(&parities, parity_bytes + 3), tags.clone(), refresh),
            (parities.clone(), flipped(&tags, first_tag + 77), retrieve),
            (parities.clone(), same_column, retrieve),
            (flipped(&parities, 0), flipped(&tags, first_tag), both),
        ];
        if proofs == Proofs::Tags {
            let end = parities.len() - 1;
            cases.extend([
                // the sum, and so the padding of its last word; the first tag and the last
                (parities.clone(), flipped(&tags, 0), retrieve),
                (parities.clone(), flipped(&tags, sum_bytes - 1), retrieve),
                (flipped(&parities, parity_bytes + sum_bytes), tags.clone(), refresh),
                (flipped(&parities, end), tags.clone(), refresh),
                (flipped(&parities, end), flipped(&tags, 0), both),
                // Wrong parities make the last partition's tags wrong: which is nobody else's lie.
                (flipped(&parities, 3), flipped(&tags, 5), both),
                (flipped(&parities, 3), flipped(&tags, first_tag + 77), both),
            ]);
        }
        for (number, (parities, tags, expected)) in cases.into_iter().enumerate() {
            for order in [[0, 1, 2], [2, 0, 1]] {
                let inquire = |taken: &[usize]| {
                    let Outcome::Refused(mut inquiry) = begin().finish(&parities, &tags).unwrap() else {
                        panic!("a lie was accepted")
                    };
                    for &q in taken {
                        inquiry.take(q, database.partition(q).unwrap()).unwrap();
                        inquiry.take(q, database.partition(q).unwrap()).unwrap(); // which changes nothing
                    }
                    assert!(inquiry.take(3, database.partition(0).unwrap()).is_err());
                    assert!(inquiry.take(0, &[0; 44]).is_err());
                    inquiry.liars()
                };
                assert_eq!(inquire(&order[..2]), None);
                assert_eq!(inquire(&order), Some(expected), "{proofs:?}, case {number}");
            }
        }
    }
}

/// Which is why the point is shown to the retrieve server alone: a parity changed by a polynomial with that root passes.
#[test]
fn who_knows_the_point_can_forge_and_who_guesses_another_cannot() {
    let database = filled((2, 5, 16));
    let [parities, tags] = replies(&database, &attempt(&database, 1), At::Newest);
    let point = u64::from_le_bytes(*attempt(&database, 1).tags_request().first_chunk().unwrap());
    let forged_under = |point: u64| {
        let mut lie = parities.clone();
        // w_1·K² + w_2·K = 0 for w_2 = w_1·K
        for (word, change) in [(0, 77), (8, multiply(77, point))] {
            lie[word..word + 8].iter_mut().zip(change.to_le_bytes()).for_each(|(byte, change)| *byte ^= change);
        }
        lie
    };
    let honest = substance(&accepted(attempt(&database, 1).finish(&parities, &tags).unwrap()));
    assert!(substance(&accepted(attempt(&database, 1).finish(&forged_under(point), &tags).unwrap())) != honest);
    for wrong in [1, 2, point ^ 1, !point] {
        let verdict = refused(attempt(&database, 1).finish(&forged_under(wrong), &tags).unwrap());
        assert!(verdict.blames_refresh_server());
    }
}

/// A lie in one column passes under exactly the points that are roots of its polynomial, at most as many as a record has
/// words; lies in several columns only under roots that they have in common.
#[test]
fn a_lie_passes_under_as_many_points_as_a_record_has_words_and_lies_in_more_columns_under_fewer() {
    let layout = Layout::new(6, 32, 2, 3).unwrap();
    // K·(K − r_1)·(K − r_2)·(K − r_3), by falling powers.
    let with_roots = |roots: [u64; 3]| -> Vec<u8> {
        let mut coefficients = vec![1, 0];
        for root in roots {
            let shifted: Vec<u64> = coefficients.iter().map(|&of| multiply(of, root)).collect();
            coefficients.push(0);
            coefficients.iter_mut().skip(1).zip(shifted).for_each(|(of, shifted)| *of ^= shifted);
        }
        coefficients[..4].iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let passes = |lies: &[(usize, Vec<u8>)], point: u64| {
        // Over a database of zeros every honest tag, parity and sum is zero.
        let mut parities = vec![0; layout.partition_bytes()];
        for (column, lie) in lies {
            parities[32 * column..][..32].copy_from_slice(lie);
        }
        let permutations = Permutations::from_entropy(&layout, &[1; 32]);
        hazmat_columns_hold(&layout, &Point::new(point), &permutations, &parities, &vec![0; layout.slots()])
    };
    let (first, second) = ([3, 1 << 63, 0xdead_beef], [5, 1 << 63, 0xfeed]);
    let lies = [(0, with_roots(first)), (2, with_roots(second))];
    let tried: Vec<u64> = (0..2000).chain([1 << 63, 0xdead_beef, 0xfeed]).collect();
    let roots = |lies: &[(usize, Vec<u8>)]| -> Vec<u64> {
        tried.iter().copied().filter(|&point| passes(lies, point)).collect()
    };
    assert_eq!(roots(&lies[..1]), [0, 3, 1 << 63, 0xdead_beef]);
    assert_eq!(roots(&lies[1..]), [0, 5, 1 << 63, 0xfeed]);
    assert_eq!(roots(&lies), [0, 1 << 63]);
}

// ---- exactly, at tiny sizes -------------------------------------------------------------------------------------

/// Draws that step through all permutations.
struct Odometer(Vec<(u32, u32)>, usize);

impl Uniform for Odometer {
    fn below(&mut self, bound: u32) -> u32 {
        if self.1 == self.0.len() {
            self.0.push((0, bound));
        }
        self.1 += 1;
        self.0[self.1 - 1].0
    }
}

impl Odometer {
    fn step(&mut self) -> bool {
        self.1 = 0;
        for (value, bound) in self.0.iter_mut().rev() {
            *value += 1;
            if value < bound {
                return true;
            }
            *value = 0;
        }
        false
    }
}

/// All Q-tuples of permutations.
fn all_permutations(layout: &Layout) -> Vec<Permutations> {
    let mut odometer = Odometer(Vec::new(), 0);
    let mut all = Vec::new();
    loop {
        let mut permutations = Permutations::from_entropy(layout, &[0; 32]);
        for q in 0..layout.partitions() {
            permutations.hazmat_redraw(q, &mut odometer);
        }
        all.push(permutations);
        if !odometer.step() {
            return all;
        }
    }
}

/// For every lie of the retrieve server that adds one value to a set of slots' tags, all permutations and all challenge
/// words of one bit: the sums pass for exactly half of the words (so 2^-64 with 64 bits), for each permutation alike; the
/// columns alone, which is what a client without the sums has, pass for a share of the permutations that is neither none
/// nor all: 1/M for two slots of different partitions.
#[test]
fn the_sums_pass_a_lie_independently_of_the_permutations_and_the_columns_alone_do_not() {
    for (q, m) in [(2, 2), (3, 2), (2, 3)] {
        let layout = Layout::new(q * m, 8, q, m).unwrap();
        let slots = layout.slots();
        let all = all_permutations(&layout);
        let records = bytes("tiny", 8 * slots);
        let point = 0x0123_4567_89ab_cdef;
        let tables = Point::new(point);
        let tag = |record: &[u8]| multiply(u64::from_le_bytes(record.try_into().unwrap()), point);
        let xor = |a: u64, b: &[u8]| a ^ u64::from_le_bytes(b.try_into().unwrap());
        for lie in 1..1usize << slots {
            let tags: Vec<u64> = records
                .chunks(8)
                .enumerate()
                .map(|(slot, record)| tag(record) ^ if lie >> slot & 1 == 1 { 0xbeef } else { 0 })
                .collect();
            let mut columns_pass = 0;
            for permutations in &all {
                let parities: Vec<u8> = (0..layout.partition_records())
                    .flat_map(|j| {
                        let in_column = (0..layout.partitions()).map(|q| {
                            let slot = q * layout.partition_records() + usize::from(permutations.of(q)[j]);
                            &records[8 * slot..][..8]
                        });
                        in_column.fold(0, xor).to_le_bytes()
                    })
                    .collect();
                let mut sums_pass = 0;
                for challenge in 0..1usize << slots {
                    let in_sum = records.chunks(8).enumerate().filter(|(slot, _)| challenge >> slot & 1 == 1);
                    let sum = in_sum.map(|(_, record)| record).fold(0, xor).to_le_bytes();
                    let mut next = 0;
                    let words = |words: &mut [[u8; 8]]| {
                        for word in words {
                            *word = (challenge as u64 >> next & 1).to_le_bytes();
                            next += 1;
                        }
                    };
                    sums_pass += usize::from(hazmat_sum_holds(&layout, &tables, words, &sum, &tags));
                }
                assert_eq!(2 * sums_pass, 1 << slots, "({q}, {m}), lie {lie:b}");
                columns_pass += usize::from(hazmat_columns_hold(&layout, &tables, permutations, &parities, &tags));
            }
            let of_partition = |q: usize| lie >> (q * m as usize) & ((1 << m) - 1);
            let constant = |part: usize| part == 0 || part == (1 << m) - 1;
            let by_partition: Vec<usize> = (0..layout.partitions()).map(of_partition).collect();
            if by_partition.iter().all(|&part| constant(part)) {
                assert!(columns_pass == 0 || columns_pass == all.len());
            } else {
                assert!(columns_pass * m as usize <= all.len(), "({q}, {m}), lie {lie:b}");
            }
            let one_each = by_partition.iter().filter(|part| part.is_power_of_two()).count();
            if lie.count_ones() == 2 && one_each == 2 {
                assert_eq!(columns_pass * m as usize, all.len(), "({q}, {m}), lie {lie:b}");
            }
        }
    }
}

/// What the retrieve server gains by a lie on two tags, one of each of two partitions, in the first retrieve vector it is
/// shown: with challenge words of κ bits 2^-κ/M, and 1/M by a client that leaves the sum out (κ = 0).
#[test]
fn what_a_lie_tells_the_retrieve_server_shrinks_with_every_bit_of_the_challenge() {
    for m in [2, 3] {
        let layout = Layout::new(2 * m, 8, 2, m).unwrap();
        let (m, slots) = (layout.partition_records(), layout.slots());
        let all = all_permutations(&layout);
        let mut tags = vec![0; slots];
        let (a, b) = (0, m); // over a database of zeros
        tags[a] = 1;
        tags[b] = 1;
        let point = Point::new(0x1234_5678);
        for kappa in 0..=4 - m {
            // Of all permutations and challenges: those that are accepted, and show b's offset when `index` is asked for.
            let shown = |index: usize| {
                let mut shown = 0;
                for permutations in &all {
                    let column = permutations.of(0).iter().position(|&offset| usize::from(offset) == index).unwrap();
                    for challenge in 0..1usize << (kappa * slots) {
                        let mut slot = 0;
                        let words = |words: &mut [[u8; 8]]| {
                            for word in words {
                                *word = ((challenge >> (kappa * slot)) as u64 & ((1 << kappa) - 1)).to_le_bytes();
                                slot += 1;
                            }
                        };
                        let accepted = hazmat_sum_holds(&layout, &point, words, &[0; 8], &tags)
                            & hazmat_columns_hold(&layout, &point, permutations, &vec![0; 8 * m], &tags);
                        shown += usize::from(accepted && permutations.of(1)[column] == 0);
                    }
                }
                shown
            };
            let outcomes = all.len() << (kappa * slots);
            // a's column shows b whenever the lie is accepted; another's never does.
            assert_eq!((shown(0) * m) << kappa, outcomes, "M = {m}, {kappa} bits");
            assert_eq!(shown(1), 0);
        }
    }
}

// ---- wire, epochs, bad input --------------------------------------------------------------------------------------

#[test]
fn nothing_is_shown_to_both_servers_and_roots_share_nothing() {
    let database = filled((2, 5, 16));
    let kinds = KINDS.into_iter().chain([Proofs::Pointproofs]);
    for (proofs, lengths) in kinds.zip([[64, 8], [72, 40], [64, 8]]) {
        let requests = |root| {
            let attempt = attempt_of(&database, proofs, root);
            [attempt.parities_request().to_vec(), attempt.tags_request().to_vec()]
        };
        let all = [requests(1), requests(2)].concat();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [lengths, lengths].concat());
        let windows: Vec<Vec<u8>> = all.iter().flat_map(|request| request.windows(8).map(<[u8]>::to_vec)).collect();
        let distinct: std::collections::HashSet<_> = windows.iter().collect();
        assert_eq!(distinct.len(), windows.len());
    }
}

#[test]
fn replies_are_of_one_epoch_the_newest_or_the_one_before() {
    for proofs in KINDS {
        replies_are_of_one_epoch(proofs);
    }
}

fn replies_are_of_one_epoch(proofs: Proofs) {
    let mut database = filled((3, 13, 64));
    let attempt = |database: &Database<Merkle>, root| attempt_of(database, proofs, root);
    let old = attempt(&database, 1);
    let before = replies(&database, &old, At::Newest);
    let mut under_way = Making::parities(&database, &old.parities_request(), At::Newest).unwrap();
    assert!(under_way.step(&database).unwrap());
    let record = bytes("edit", 64);
    let mut batch =
        vec![Operation::EditIndex(0, &record), Operation::EditIndex(14, &record), Operation::DeleteIndex(9)];
    batch.extend((0..9).map(|_| Operation::Add(&record)));
    apply(&mut database, None, &batch).map_err(|refused| refused.reason).unwrap();
    assert!(database.layout().partitions() == 4);
    assert!(matches!(under_way.step(&database), Err(Error::Phase(_))));
    assert!(matches!(under_way.finish(), Err(Error::Phase(_))));
    assert_eq!(replies(&database, &old, At::Previous), before);
    let [parities, tags] = before;
    accepted(old.finish(&parities, &tags).unwrap());

    // One server at each epoch: no hint comes of it, whichever is which.
    let new = attempt(&database, 2);
    let [parities, tags] = replies(&database, &new, At::Newest);
    accepted(new.finish(&parities, &tags).unwrap());
    let mixed = attempt(&database, 3);
    let tags = made(&database, Making::tags(&database, &mixed.tags_request(), At::Previous));
    let parities = made(&database, Making::parities(&database, &mixed.parities_request(), At::Newest));
    assert!(matches!(mixed.finish(&parities, &tags), Err(Error::Length { .. })));
}

/// An update of a packed database changes whole blocks.
#[test]
fn a_packed_database_is_answered_at_the_epoch_before() {
    let layout = Layout::packed(45, 20, 3, 20, 4).unwrap();
    let mut database = database(layout, &bytes("records", 45 * 20));
    let old = attempt(&database, 1);
    let before = replies(&database, &old, At::Newest);
    let record = bytes("edit", 20);
    let mut batch = vec![Operation::EditIndex(1, &record), Operation::EditIndex(2, &record)];
    batch.extend((0..20).map(|_| Operation::Add(&record)));
    apply(&mut database, None, &batch).map_err(|refused| refused.reason).unwrap();
    assert_eq!(database.layout().partitions(), 4);
    assert!(replies(&database, &old, At::Previous) == before);
    let [parities, tags] = before;
    accepted(old.finish(&parities, &tags).unwrap());
    let new = attempt(&database, 2);
    let [parities, tags] = replies(&database, &new, At::Newest);
    let mut hint = accepted(new.finish(&parities, &tags).unwrap());
    for index in [1, 2, 3, 44, 45, 64] {
        let pending = query(&mut hint, &[index], &[index as u8; 32]).unwrap();
        assert_eq!(finish(&database, &mut hint, pending), database.record(index as usize).unwrap());
    }
}

#[test]
fn what_has_another_length_is_refused() {
    let database = filled((2, 5, 16));
    let [parities, tags] = replies(&database, &attempt(&database, 1), At::Newest);
    for (parities, tags) in [(&parities[1..], &tags[..]), (&parities[..], &tags[8..]), (&[], &tags[..])] {
        assert!(matches!(attempt(&database, 1).finish(parities, tags), Err(Error::Length { .. })));
    }
    // Replies for the other kind of hint are none.
    let other = replies(&database, &attempt_of(&database, Proofs::Tags, 1), At::Newest);
    assert!(matches!(attempt(&database, 1).finish(&other[0], &other[1]), Err(Error::Length { .. })));
    let crosswise = attempt_of(&database, Proofs::Tags, 1);
    assert!(matches!(crosswise.finish(&parities, &tags), Err(Error::Length { .. })));
    for request in [0, 8, 63, 65, 71, 73] {
        assert!(matches!(Making::parities(&database, &vec![0; request], At::Newest), Err(Error::Length { .. })));
    }
    for request in [0, 7, 9, 39, 41, 64] {
        assert!(matches!(Making::tags(&database, &vec![0; request], At::Newest), Err(Error::Length { .. })));
    }
    assert!(matches!(Making::tags(&database, &[0; 8], At::Previous), Err(Error::Phase(_))));
    assert!(matches!(
        Attempt::new(*database.layout(), Proofs::Openings, &[0; 33], &[0; 32]),
        Err(Error::Length { .. })
    ));
    let empty = Database::<Merkle>::new(*database.layout()).unwrap();
    assert!(matches!(Making::tags(&empty, &[0; 8], At::Newest), Err(Error::Phase(_))));
}
