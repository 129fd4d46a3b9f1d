//! Lookups with one server and no download before them: right records from honest servers, one verdict on liars, nothing that shows the
//! index. Small rings have the same code and the same noise as the real one.

#![allow(clippy::cast_precision_loss)] // counts are small

use crate::common::thorough;
use keyhush_core::Error;
use keyhush_core::one_server::client::Query;
use keyhush_core::one_server::norm::Norm;
use keyhush_core::one_server::prepare::Preparing;
use keyhush_core::one_server::server::Prepared;
use keyhush_core::one_server::{Context, DEGREE, Of, Shape};
use proptest::prelude::*;

const CONTEXT: Context = Context { database_id: [5; 16], generation: 3, of: Of::Records };
const MANIFEST: [u8; 32] = [8; 32];

fn bytes(label: u64, count: usize) -> Vec<u8> {
    let mut out = vec![0; count];
    blake3::Hasher::new().update(&label.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

fn prepared_as(shape: Shape, context: Context, attempt: u32, records: &[u8]) -> Prepared {
    let mut preparing = Preparing::new(shape, context, attempt).unwrap();
    preparing.put(records).unwrap();
    while preparing.step().unwrap() {}
    preparing.finish().unwrap()
}

fn prepared(shape: Shape, records: &[u8]) -> Prepared {
    prepared_as(shape, CONTEXT, 0, records)
}

fn query(shape: Shape, indices: &[u32], seed: u64) -> Query {
    Query::new(shape, CONTEXT, &MANIFEST, indices, bytes(seed, 32).first_chunk().unwrap()).unwrap()
}

fn expected(shape: &Shape, records: &[u8], indices: &[u32]) -> Vec<u8> {
    indices
        .iter()
        .flat_map(|&i| records[i as usize * shape.record_bytes()..][..shape.record_bytes()].to_vec())
        .collect()
}

fn looked_up(database: &Prepared, indices: &[u32], seed: u64) -> Option<Vec<u8>> {
    let mut query = query(*database.shape(), indices, seed);
    let answers = database.answer(query.request()).unwrap();
    query.decode(database.hint(), &answers).unwrap().map(|records| records.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn honest_answers_give_the_records(
        degree_log in 5u32..9,
        records in 1u64..3000,
        record_bytes in 1u64..200,
        picks in prop::collection::vec(any::<u32>(), 1..4),
        seed: u64,
    ) {
        let Ok(shape) = Shape::of_degree(1 << degree_log, records, record_bytes) else { return Ok(()) };
        let content = bytes(seed, (records * record_bytes) as usize);
        let database = prepared(shape, &content);
        prop_assert_eq!(database.hint().len(), shape.hint_bytes());
        let indices: Vec<u32> = picks.iter().map(|pick| pick % records as u32).take(shape.max_queries()).collect();
        prop_assert_eq!(looked_up(&database, &indices, seed).unwrap(), expected(&shape, &content, &indices));
    }
}

#[test]
fn the_real_ring_gives_first_last_and_middle_records() {
    let shape = Shape::new(70_000, 32).unwrap();
    assert_eq!((shape.degree(), shape.outputs()), (DEGREE, 2));
    let content = bytes(1, 70_000 * 32);
    let database = prepared(shape, &content);
    for indices in [&[0, 69_999][..], &[35_001], &[25, 26, 27, 26]] {
        assert_eq!(looked_up(&database, indices, 2).unwrap(), expected(&shape, &content, indices));
    }
}

/// Whitening makes them databases like all others: the norms are those of random entries.
#[test]
fn databases_of_extremes_are_answered_and_hidden() {
    let shape = Shape::new(20_000, 32).unwrap();
    let one_column = bytes(3, shape.column_records() * 32);
    let repeated: Vec<u8> = one_column.iter().copied().cycle().take(20_000 * 32).collect();
    for content in [vec![0; 20_000 * 32], vec![0xff; 20_000 * 32], bytes(4, 32).repeat(20_000), repeated] {
        let database = prepared(shape, &content);
        for index in [0, 9_999, 19_999] {
            assert_eq!(looked_up(&database, &[index], 5).unwrap(), expected(&shape, &content, &[index]));
        }
        let mut norm = Norm::new(&database);
        while norm.step(&database).unwrap() {}
        assert!(norm.hides() && (36.4..36.7).contains(&norm.log2()), "norm 2^{}", norm.log2());
    }
}

#[test]
fn a_hint_depends_on_contents_context_and_attempt_alone() {
    let shape = Shape::of_degree(64, 500, 9).unwrap();
    let content = bytes(1, 500 * 9);
    let hint = prepared(shape, &content).hint().to_vec();
    let mut preparing = Preparing::new(shape, CONTEXT, 0).unwrap();
    for part in content.chunks(71) {
        assert!(matches!(preparing.step(), Err(Error::Phase(_))));
        preparing.put(part).unwrap();
    }
    assert!(matches!(preparing.put(&[0]), Err(Error::Length { .. })));
    while preparing.step().unwrap() {}
    assert_eq!(preparing.finish().unwrap().hint(), hint);

    let elements = |hint: &[u8]| hint[4..4 + 64 * 19 / 8 * shape.outputs()].to_vec();
    let cap = |hint: &[u8]| hint[hint.len() - 2048..].to_vec();
    let mut edited = content.clone();
    edited[499 * 9] ^= 1;
    let edited = prepared(shape, &edited);
    assert_ne!(elements(edited.hint()), elements(&hint));
    assert_ne!(cap(edited.hint()), cap(&hint));
    for (context, attempt) in [
        (Context { database_id: [6; 16], ..CONTEXT }, 0),
        (Context { generation: 4, ..CONTEXT }, 0),
        (Context { of: Of::Directory, ..CONTEXT }, 0),
        (CONTEXT, 1),
    ] {
        let other = prepared_as(shape, context, attempt, &content);
        assert_ne!(elements(other.hint()), elements(&hint));
        assert_eq!(cap(other.hint()), cap(&hint));
        assert_eq!(other.hint()[..4], attempt.to_le_bytes());
    }
    assert!(matches!(Preparing::new(shape, CONTEXT, 0).unwrap().finish(), Err(Error::Phase(_))));
}

// One request, one verdict.
#[test]
fn one_answer_is_decoded_and_a_wrong_length_is_none() {
    let shape = Shape::of_degree(64, 300, 5).unwrap();
    let content = bytes(1, 1500);
    let database = prepared(shape, &content);
    let mut query = query(shape, &[7, 200], 1);
    assert_eq!(query.request(), query.request().to_vec());
    let answers = database.answer(query.request()).unwrap();
    for (hint, answers) in [
        (&database.hint()[1..], &answers[..]),
        (database.hint(), &answers[..answers.len() - 1]),
        (database.hint(), &[&answers[..], &[0]].concat()),
    ] {
        assert!(matches!(query.decode(hint, answers), Err(Error::Length { .. })));
    }
    assert_eq!(*query.decode(database.hint(), &answers).unwrap().unwrap(), *expected(&shape, &content, &[7, 200]));
    assert!(matches!(query.decode(database.hint(), &answers), Err(Error::Phase(_))));
}

/// A forged answer uses the request up too: decoded again with the same own noise, or with fresh, it would tell more.
#[test]
fn a_refused_answer_is_the_last() {
    let shape = Shape::of_degree(64, 300, 5).unwrap();
    let database = prepared(shape, &bytes(1, 1500));
    let mut query = query(shape, &[7], 1);
    let mut answer = database.answer(query.request()).unwrap();
    answer[0] ^= 0x40;
    assert!(query.decode(database.hint(), &answer).unwrap().is_none());
    assert!(matches!(query.decode(database.hint(), &answer), Err(Error::Phase(_))));
}

/// Adds to one coefficient of an answer, modulo 2^7.
fn shifted(answer: &[u8], row: usize, by: u16) -> Vec<u8> {
    let mut out = answer.to_vec();
    let (at, bit) = (row * 7 / 8, row * 7 % 8);
    let old = u16::from_le_bytes(std::array::from_fn(|i| *answer.get(at + i).unwrap_or(&0)));
    let mask = 0x7f << bit;
    let new = (old & !mask) | ((((old & mask) >> bit) + by) & 0x7f) << bit;
    for (i, byte) in new.to_le_bytes().into_iter().enumerate() {
        if let Some(at) = out.get_mut(at + i) {
            *at = byte;
        }
    }
    out
}

// Every row enters the verdict: records, padding, path, nodes beyond the tree, which the last of 131 columns has.
#[test]
fn every_row_of_the_column_is_judged() {
    let shape = Shape::of_degree(128, 131, 180).unwrap();
    let database = prepared(shape, &bytes(1, 131 * 180));
    let padding = shape.leaf_bytes() - shape.column_records() * 180;
    assert!(padding > 1 && depth_below_cap(&shape) == 2 && shape.columns() == 131, "{shape:?}");
    for index in [0, shape.records() as u32 - 1] {
        let honest = database.answer(query(shape, &[index], 9).request()).unwrap();
        for row in 0..shape.rows() {
            for by in [8, 1 << 6] {
                // one unit of the entry; the entry's top bit
                let mut query = query(shape, &[index], 9);
                let verdict = query.decode(database.hint(), &shifted(&honest, row, by)).unwrap();
                assert!(verdict.is_none(), "row {row} + {by}");
            }
        }
    }
}

#[test]
fn every_query_of_a_lookup_is_judged() {
    let shape = Shape::of_degree(64, 300, 5).unwrap();
    let database = prepared(shape, &bytes(1, 1500));
    for wrong in 0..3 {
        let mut query = query(shape, &[1, 2, 3], 1);
        let answers = database.answer(query.request()).unwrap();
        let answers = shifted(&answers, wrong * shape.rows() + 5, 8);
        assert!(query.decode(database.hint(), &answers).unwrap().is_none());
    }
}

#[test]
fn a_hint_with_any_part_changed_is_refused() {
    let shape = Shape::of_degree(64, 300, 5).unwrap();
    let database = prepared(shape, &bytes(1, 1500));
    let wanted = 150 / shape.column_records();
    let node = shape.hint_bytes() - 2048 + (wanted >> depth_below_cap(&shape)) * 32;
    // bit 18 of the elements is the first coefficient's highest
    for (at, bit) in [(0, 7), (4 + 2, 2), (shape.hint_bytes() - 2049, 7), (node, 7), (node + 31, 7)] {
        let mut query = query(shape, &[150], 1);
        let answer = database.answer(query.request()).unwrap();
        let mut hint = database.hint().to_vec();
        hint[at] ^= 1 << bit;
        assert!(query.decode(&hint, &answer).unwrap().is_none(), "byte {at}");
    }
}

fn depth_below_cap(shape: &Shape) -> u32 {
    shape.columns().next_power_of_two().trailing_zeros().saturating_sub(6)
}

// Hedge. With one secret for two lookups, the selectors' difference would stand out at the two columns.
#[test]
fn the_same_entropy_gives_unrelated_requests_to_different_lookups() {
    let shape = Shape::of_degree(64, 600, 5).unwrap();
    let of = |context: Context, manifest: u8, indices: &[u32]| {
        Query::new(shape, context, &[manifest; 32], indices, &[1; 32]).unwrap().request().to_vec()
    };
    let first = of(CONTEXT, 1, &[5]);
    assert_eq!(first, of(CONTEXT, 1, &[5]));
    let directory = Context { of: Of::Directory, ..CONTEXT };
    for other in [of(CONTEXT, 1, &[6]), of(CONTEXT, 2, &[5]), of(directory, 1, &[5]), of(CONTEXT, 1, &[5, 5])] {
        // Of unrelated bytes one in 256 is equal: of 768, thirty are passed by chance less than once in 10^9.
        for alone in other.chunks_exact(first.len()) {
            let equal = alone.iter().zip(&first).take(768).filter(|(a, b)| a == b).count();
            assert!(equal < 30, "{equal} of 768 bytes are equal");
        }
    }
    let twice = of(CONTEXT, 1, &[5, 5]);
    let (one, other) = twice.split_at(first.len());
    assert!(one.iter().zip(other).take(768).filter(|(a, b)| a == b).count() < 30);
}

/// At tiny parameters, over all indices: lengths are the same, and every sent coefficient is uniform whatever the index is. χ² with 15
/// degrees of freedom is above 90 less than once in 10^12.
#[test]
fn nothing_in_a_request_shows_the_index() {
    const SEEDS: u64 = 1600;
    let shape = Shape::of_degree(32, 6, 16).unwrap();
    assert!(shape.columns() >= 3, "{shape:?}");
    for index in 0..6 {
        let mut counts = vec![[0u32; 16]; 32 + shape.columns()];
        for seed in 0..SEEDS {
            let query = query(shape, &[index], seed << 8 | u64::from(index));
            assert_eq!(query.request().len(), shape.request_bytes());
            for (i, count) in counts.iter_mut().enumerate() {
                let last = if i < 32 { 5 * i + 4 } else { 5 * 32 + 2 * (i - 32) + 1 };
                count[usize::from(query.request()[last] >> 4)] += 1;
            }
        }
        for (i, count) in counts.iter().enumerate() {
            // q is 0.994·2^46, so the last sixteenth of a key's coefficient is not whole. Selectors are modulo a power of two.
            let all = if i < 32 { 8_380_417.0 * 8_318_977.0 / 2f64.powi(42) } else { 16.0 };
            let expected = |k: usize| SEEDS as f64 * (all - k as f64).min(1.0) / all;
            let chi: f64 = count
                .iter()
                .enumerate()
                .map(|(k, &found)| (f64::from(found) - expected(k)).powi(2) / expected(k))
                .sum();
            assert!(chi < 90.0, "χ² {chi} at coefficient {i} for index {index}: {count:?}");
        }
    }
}

#[test]
fn the_server_checks_lengths_and_takes_every_pattern_of_bits() {
    let shape = Shape::of_degree(64, 4000, 5).unwrap();
    let database = prepared(shape, &bytes(1, 20_000));
    let each = shape.request_bytes();
    for length in [0, 1, each - 1, each + 1, each * (shape.max_queries() + 1)] {
        assert!(matches!(database.answer(&vec![0; length]), Err(Error::Length { .. })), "{length}");
    }
    for request in [vec![0; each], vec![0xff; each], bytes(3, each), bytes(4, 2 * each)] {
        assert_eq!(database.answer(&request).unwrap().len(), request.len() / each * shape.answer_bytes());
    }
}

#[test]
fn impossible_lookups_are_refused() {
    let shape = Shape::of_degree(64, 300, 5).unwrap();
    let refused = |indices: &[u32]| Query::new(shape, CONTEXT, &MANIFEST, indices, &[0; 32]).err();
    assert!(matches!(refused(&[]), Some(Error::Length { .. })));
    assert!(matches!(refused(&vec![0; shape.max_queries() + 1]), Some(Error::Length { .. })));
    assert!(matches!(refused(&[3, 300]), Some(Error::Index { bound: 300, .. })));
}

struct Lies {
    shape: Shape,
    content: Vec<u8>,
    honest: Prepared,
    half: Prepared,
    one: Prepared,
}

/// A column for each record. `half` has the first half of all columns changed, `one` a bit of one column.
fn lies(shape: Shape) -> Lies {
    let each = shape.column_records() * shape.record_bytes();
    let content = bytes(1, shape.records() * shape.record_bytes());
    let mut half = content.clone();
    half[..shape.columns() / 2 * each].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let mut one = content.clone();
    one[5 * each + 6] ^= 1;
    let (half, one) = (prepared(shape, &half), prepared(shape, &one));
    Lies { shape, honest: prepared(shape, &content), content, half, one }
}

/// How many of `seeds` lookups of each column are accepted, and are right then.
fn accepted(lies: &Lies, columns: &[usize], seeds: u64, hint: &[u8], answer: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u64> {
    let verdict = |column: usize, seed: u64| {
        let index = (column * lies.shape.column_records()) as u32;
        let mut query = query(lies.shape, &[index], seed);
        let answer = answer(query.request());
        query
            .decode(hint, &answer)
            .unwrap()
            .is_some_and(|found| *found == expected(&lies.shape, &lies.content, &[index]))
    };
    columns.iter().map(|&column| (0..seeds).filter(|&seed| verdict(column, seed)).count() as u64).collect()
}

/// With the signed hint, a lie is refused, or accepted as often, whatever was asked. With a hint of the liar's own it is not: so this
/// test could fail.
#[test]
fn verdicts_on_lies_do_not_depend_on_what_was_asked() {
    const SEEDS: u64 = 12;
    let lies = lies(Shape::of_degree(256, 300, 150).unwrap());
    let all = lies.shape.columns();
    assert!(all >= 300, "{:?}", lies.shape);
    let columns = [5, 100, all / 2 - 1, all / 2, all / 2 + 50, all - 1];
    let honest = lies.honest.hint();
    let of = |hint: &[u8], answer: &dyn Fn(&[u8]) -> Vec<u8>| accepted(&lies, &columns, SEEDS, hint, answer);
    assert_eq!(of(honest, &|q| lies.honest.answer(q).unwrap()), [SEEDS; 6]);

    assert_eq!(of(honest, &|q| lies.half.answer(q).unwrap()), [0; 6]);
    assert_eq!(of(honest, &|q| lies.one.answer(q).unwrap()), [0; 6]);
    assert_eq!(of(lies.half.hint(), &|q| lies.half.answer(q).unwrap()), [0, 0, 0, SEEDS, SEEDS, SEEDS]);
    assert_eq!(of(lies.one.hint(), &|q| lies.one.answer(q).unwrap()), [0, SEEDS, SEEDS, SEEDS, SEEDS, SEEDS]);

    let key = 256 * 5;
    let silenced = |request: &[u8]| {
        let mut request = request.to_vec();
        request[key..key + all / 2 * 2].fill(0);
        lies.honest.answer(&request).unwrap()
    };
    assert_eq!(of(honest, &silenced), [0; 6]);
    let doubled = |request: &[u8]| {
        let mut request = request.to_vec();
        let selector = &mut request[key + 5 * 2..][..2];
        let double = 2 * u32::from(u16::from_le_bytes([selector[0], selector[1]]));
        selector.copy_from_slice(&double.to_le_bytes()[..2]);
        lies.honest.answer(&request).unwrap()
    };
    // Whichever column is wanted, a random selector counts twice. One in 128 is so small that this is less than half a step.
    let twice = of(honest, &doubled);
    assert!(twice.iter().all(|&accepted| accepted <= 2), "{twice:?}");
}

/// Shifts near the margin are accepted sometimes, and alike for all columns: χ² with five degrees of freedom is above 55 less than once in
/// 10^9.
#[test]
fn shifts_near_the_margin_are_judged_alike() {
    let (seeds, degree) = if thorough() { (200, DEGREE) } else { (100, 256) };
    let lies = lies(Shape::of_degree(degree, 300, if degree == DEGREE { 400 } else { 150 }).unwrap());
    let all = lies.shape.columns();
    let columns = [5, 100, all / 2 - 1, all / 2, all / 2 + 50, all - 1];
    // half a step is 4 units of an answer
    for (by, rows) in [(2, 64), (3, 64), (3, 256), (4, 1), (4, 2), (5, 1)] {
        let columns: Vec<u64> = columns
            .iter()
            .map(|&column| {
                let shift =
                    |q: &[u8]| (0..rows).fold(lies.honest.answer(q).unwrap(), |answer, row| shifted(&answer, row, by));
                // unpaired: each column has seeds of its own
                let lookup = |seed: u64| {
                    let index = (column * lies.shape.column_records()) as u32;
                    let mut query = query(lies.shape, &[index], seed << 20 | column as u64);
                    let answer = shift(query.request());
                    query.decode(lies.honest.hint(), &answer).unwrap().is_some()
                };
                (0..seeds).filter(|&seed| lookup(seed)).count() as u64
            })
            .collect();
        let mean = columns.iter().sum::<u64>() as f64 / 6.0;
        let spread = mean * (1.0 - mean / seeds as f64);
        let chi: f64 = columns.iter().map(|&found| (found as f64 - mean).powi(2) / spread.max(1e-9)).sum();
        assert!(chi < 55.0, "{by} units in {rows} rows: {columns:?} of {seeds}, χ² {chi}");
        match by {
            2 => assert!(mean > 0.9 * seeds as f64, "{columns:?}"),
            5 => assert!(mean < 0.1 * seeds as f64, "{columns:?}"),
            _ => {}
        }
    }
}
