//! Tests instant lookups with two servers (docs/protocol.md, Instant lookups): servers' answers equal those of a plain second
//! implementation; any change of an answer is refused, whatever was asked; what a server sees does not depend on what was asked.
//! (any_of_k.rs shows that every record is found, vectors.rs that requests are drawn as docs/protocol.md says.)

use std::collections::HashMap;

use crate::common::{Enumerate, SHAPES, entropy, filled, stream, thorough, verdicts_tell};
use keyhush_core::Error;
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::directory::Directory;
use keyhush_core::instant::dpf::hazmat_generate_with;
use keyhush_core::instant::pass::{Pass, answer};
use keyhush_core::instant::query::{Pending, query};
use keyhush_core::instant::recon::recon;
use keyhush_core::instant::{answer_bytes, queries, request_bytes, shape};
use keyhush_core::layout::Layout;
use keyhush_core::random::Uniform;
use keyhush_kernels::dpf::{LEAF_OUTPUTS, domain_log};
use keyhush_kernels::prg::{Children, LANES, Seed, stretch};
use keyhush_kernels::scan::PASS_QUERIES;
use keyhush_kernels::shape::Shape;
use proptest::prelude::*;

/// The answers of one server to a whole request, up to sixteen queries in each pass.
fn answers(database: &Database<Merkle>, layout: &Layout, body: &[u8], at: At) -> Vec<u8> {
    let keys: Vec<_> = queries(layout, body).unwrap().map(|key| (key, at)).collect();
    keys.chunks(PASS_QUERIES).flat_map(|keys| answer(database, keys).unwrap()).flatten().collect()
}

// ---- a plain second implementation: the vector form -------------------------------------------------------------

/// An output of a key, computed by walking from the root (Boyle, Gilboa, Ishai: CCS 2016, Fig. 1 `Eval`).
fn evaluate_at(key: &[u8], domain_log: u32, point: usize) -> bool {
    let levels = domain_log as usize - 7;
    let block = |bytes: &[u8]| -> Seed { bytes.try_into().unwrap() };
    let xor = |a: &mut Seed, b: &Seed| a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
    let (mut node, mut control) = (block(&key[..16]), key[key.len() - 1] == 1);
    let one = |node| stretch(&[node; LANES])[0];
    for level in 0..levels {
        let side = point >> (domain_log as usize - 1 - level) & 1;
        let children = one(node);
        node = children.seeds[side];
        let mut next = children.controls[side] == 1;
        if control {
            xor(&mut node, &block(&key[16 + 16 * level..][..16]));
            let bit = 2 * level + side;
            next ^= key[16 + 16 * levels + bit / 8] >> (bit % 8) & 1 == 1;
        }
        control = next;
    }
    let mut outputs = one(node).seeds[0];
    if control {
        xor(&mut outputs, &block(&key[key.len() - 17..][..16]));
    }
    outputs[point % LEAF_OUTPUTS / 8] >> (point % 8) & 1 == 1
}

fn share(key: &[u8], shape: &Shape) -> Vec<bool> {
    (0..shape.groups()).map(|group| evaluate_at(key, domain_log(shape.groups()), group)).collect()
}

/// The levels of a partition's tree, from the leaves up, by the definition.
fn tree(partition: &[u8], record_bytes: usize) -> Vec<Vec<[u8; 32]>> {
    let key = |name: &str| blake3::derive_key(&format!("keyhush 2026-11 merkle {name} v1"), &[]);
    let mut levels = vec![
        partition
            .chunks(record_bytes)
            .map(|record| *blake3::keyed_hash(&key("leaf"), record).as_bytes())
            .collect::<Vec<_>>(),
    ];
    while levels.last().unwrap().len() > 1 {
        let pairs = levels.last().unwrap().chunks(2);
        let parent = |pair: &[[u8; 32]]| {
            let children = [pair[0], pair.get(1).copied().unwrap_or_default()];
            *blake3::keyed_hash(&key("node"), children.as_flattened()).as_bytes()
        };
        levels.push(pairs.map(parent).collect());
    }
    levels
}

/// A server's answer to a share of a unit vector, computed bit by bit.
fn answer_to_vector(database: &Database<Merkle>, shape: &Shape, bits: &[bool]) -> Vec<u8> {
    let mut group = vec![0; shape.group_bytes()];
    let mut siblings = vec![[0; 32]; shape.siblings()];
    for q in 0..shape.partitions {
        let partition = database.partition(q).unwrap();
        let levels = tree(partition, shape.record_bytes);
        let mut bits = bits[q * shape.partition_groups()..][..shape.partition_groups()].to_vec();
        for (t, rows) in partition.chunks(shape.group_bytes()).enumerate() {
            if bits[t] {
                rows.iter().zip(&mut group).for_each(|(byte, sum)| *sum ^= byte);
            }
        }
        for (level, sum) in siblings.iter_mut().enumerate() {
            for (t, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
                let sibling = levels[shape.group_log as usize + level].get(t ^ 1).copied().unwrap_or_default();
                sibling.iter().zip(sum.iter_mut()).for_each(|(byte, sum)| *sum ^= byte);
            }
            bits = bits.chunks(2).map(|pair| pair.iter().fold(false, |sum, bit| sum ^ bit)).collect();
        }
    }
    [group, siblings.concat()].concat()
}

#[test]
fn answers_are_those_of_the_vectors_that_the_keys_stand_for() {
    for dimensions in SHAPES {
        let database = filled(dimensions);
        let (layout, shape) = (database.layout(), shape(database.layout()));
        let last = layout.records() as u32 - 1;
        // One query alone, which has a loop of its own; four and one more, eight and one more, sixteen.
        for count in [1u32, 5, 9, 16] {
            let indices: Vec<u32> = (0..count).map(|i| (u64::from(last) * u64::from(i) / 15) as u32).collect();
            let pending = query(layout, &indices, &entropy("vectors", count as usize)).unwrap();
            for server in 0..2 {
                let keys: Vec<_> = queries(layout, pending.request(server).unwrap()).unwrap().collect();
                let asked: Vec<_> = keys.iter().map(|key| (*key, At::Newest)).collect();
                let expected: Vec<_> =
                    keys.iter().map(|key| answer_to_vector(&database, &shape, &share(key, &shape))).collect();
                assert_eq!(answer(&database, &asked).unwrap(), expected, "{dimensions:?}, {count} queries");
            }
        }
    }
}

// ---- what a lying server learns --------------------------------------------------------------------------------

/// Databases so small that every bit of every answer can be changed: (3, 13, 64) has short last groups of one record, (2, 5, 64)
/// has those too, and missing siblings; (2, 3, 300) has groups of one record.
const LIED_IN: [(u64, u64, u64); 4] = [(3, 13, 64), (2, 5, 64), (2, 3, 300), (1, 6, 100)];

/// Changes a bit in `every` of either answer, for every record.
fn refuses_changes(database: &Database<Merkle>, every: usize) {
    let (layout, commitments) = (database.layout(), database.commitments().unwrap());
    for index in 0..layout.records() as u32 {
        let pending = query(layout, &[index], &entropy("lies", index as usize)).unwrap();
        let mut answers = [0, 1].map(|server| answers(database, layout, pending.request(server).unwrap(), At::Newest));
        for server in 0..2 {
            for bit in (0..answers[server].len() * 8).step_by(every) {
                answers[server][bit / 8] ^= 1 << (bit % 8);
                let found = recon(&pending, &commitments, &[&answers[0], &answers[1]]).unwrap();
                assert!(found.is_none(), "{layout:?}, record {index}, server {server}, bit {bit}");
                answers[server][bit / 8] ^= 1 << (bit % 8);
            }
        }
        let found = recon(&pending, &commitments, &[&answers[0], &answers[1]]).unwrap();
        assert_eq!(found.unwrap(), database.record(index as usize).unwrap());
    }
}

#[test]
fn every_changed_bit_of_either_answer_is_refused_for_every_index() {
    for dimensions in LIED_IN {
        refuses_changes(&filled(dimensions), 1);
    }
}

/// A client: whether it accepts a sum that is off by `difference`, when it asks for `index`.
type Client = fn(&Database<Merkle>, u32, &[u8]) -> bool;

/// The real `recon`, with honest answers, one of which is off by the difference.
fn careful(database: &Database<Merkle>, index: u32, difference: &[u8]) -> bool {
    let layout = database.layout();
    let pending = query(layout, &[index], &entropy("client", index as usize)).unwrap();
    let [mut a, b] = [0, 1].map(|server| answers(database, layout, pending.request(server).unwrap(), At::Newest));
    a.iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
    recon(&pending, &database.commitments().unwrap(), &[&a, &b]).unwrap().is_some()
}

/// Ignores the bytes beyond the partition's end.
fn ignores_padding(database: &Database<Merkle>, index: u32, difference: &[u8]) -> bool {
    let (shape, m) = (shape(database.layout()), index as usize % database.layout().partition_records());
    let size = (shape.partition_records - (m >> shape.group_log << shape.group_log)).min(1 << shape.group_log);
    let mut looked_at = difference.to_vec();
    looked_at[size * shape.record_bytes..shape.group_bytes()].fill(0);
    careful(database, index, &looked_at)
}

/// Verifies the wanted record, and takes the rest of its group from elsewhere.
fn verifies_the_leaf_alone(database: &Database<Merkle>, index: u32, difference: &[u8]) -> bool {
    let (shape, m) = (shape(database.layout()), index as usize % database.layout().partition_records());
    let slot = m % (1 << shape.group_log) * shape.record_bytes;
    let mut looked_at = difference.to_vec();
    looked_at[..slot].fill(0);
    looked_at[slot + shape.record_bytes..shape.group_bytes()].fill(0);
    careful(database, index, &looked_at)
}

#[test]
fn verdicts_tell_nothing_but_those_of_faulty_clients_do() {
    let database = filled(LIED_IN[0]);
    let (records, bytes) = (database.layout().records(), answer_bytes(database.layout()));
    let tells =
        |client: Client| verdicts_tell(records, bytes, |index, difference| client(&database, index, difference));
    assert!(!tells(careful));
    assert!(tells(ignores_padding), "the enumeration must see a client that ignores padding");
    assert!(tells(verifies_the_leaf_alone), "and one that verifies no more than its record");
}

// ---- what a server sees ----------------------------------------------------------------------------------------

/// For each party, how often it sees what, over all outcomes: its key, and everything that the generator gives on its path.
fn views(point: usize, ideal: bool) -> [HashMap<Vec<u8>, u32>; 2] {
    let mut counts = [HashMap::new(), HashMap::new()];
    Enumerate::all(|odometer| {
        let draw_seed = |odometer: &mut Enumerate, bound| -> Seed {
            std::array::from_fn(|i| if i == 0 { odometer.below(bound) as u8 } else { 0 })
        };
        let seeds = [draw_seed(odometer, 2), draw_seed(odometer, 2)];
        let (mut outputs, mut levels) = ([Vec::new(), Vec::new()], 0);
        let keys = hazmat_generate_with(8, point, &seeds, |_| {
            levels += 1;
            let mut draw_children = || match levels {
                1 => Children {
                    seeds: [draw_seed(odometer, 2), draw_seed(odometer, 2)],
                    controls: [odometer.below(2) as u8, odometer.below(2) as u8],
                },
                // Only the left seed of a leaf is used.
                _ => Children { seeds: [draw_seed(odometer, 4), Seed::default()], controls: [0, 0] },
            };
            let zero = draw_children();
            let both = [zero, if ideal { draw_children() } else { zero }];
            for (outputs, children) in outputs.iter_mut().zip(&both) {
                outputs.extend_from_slice(children.seeds.as_flattened());
                outputs.extend_from_slice(&children.controls);
            }
            both
        });
        for ((counts, key), outputs) in counts.iter_mut().zip(keys).zip(outputs) {
            *counts.entry([key, outputs].concat()).or_insert(0) += 1;
        }
    });
    counts
}

/// Exact privacy, with an ideal generator instead of ChaCha20: its outputs are uniform, and independent of those for any other
/// seed. The domain has two leaves. Inner seeds have one bit and leaves two outputs, so there are four points. (Bits that no
/// outcome sets could hide nothing.) All outcomes of both seeds and of all calls are enumerated.
#[test]
fn under_an_ideal_generator_neither_key_depends_on_the_point() {
    let [first, others @ ..] = [0, 1, 128, 129].map(|point| views(point, true));
    assert_eq!(first[0].values().sum::<u32>(), 2 * 2 * 16 * 16 * 4 * 4);
    assert!(others.iter().all(|views| *views == first), "the view of party 0 or 1 differs");
    for other in [1, 128] {
        let [one, another] = [0, other].map(|point| views(point, false));
        assert!(one[0] != another[0], "the enumeration must see a generator whose outputs repeat");
    }
}

#[test]
fn a_repetition_shares_nothing_with_what_was_sent_before() {
    let layout = Layout::new(4096, 32, 4, 1024).unwrap();
    let windows = |pending: &Pending| -> Vec<Vec<u8>> {
        (0..2).flat_map(|server| pending.request(server).unwrap()[..32].windows(8).map(<[u8]>::to_vec)).collect()
    };
    let [first, second] = [1, 2].map(|i| windows(&query(&layout, &[9], &entropy("again", i)).unwrap()));
    assert!(first.iter().all(|bytes| !second.contains(bytes)));
}

// ---- epochs ----------------------------------------------------------------------------------------------------

#[test]
fn both_epochs_are_answered_in_one_pass() {
    // 3 partitions of 13 records, and of 4 blocks of 4 records; two slots and more are free.
    answers_both_epochs(filled((3, 13, 64)));
    let layout = Layout::packed(37, 64, 3, 16, 4).unwrap();
    answers_both_epochs(crate::common::database(layout, &stream("records", 37 * 64)));
}

/// After edits, deletes, and adds that open partitions.
fn answers_both_epochs(mut database: Database<Merkle>) {
    for round in 0..3 {
        let (before, old_commitments) = (*database.layout(), database.commitments().unwrap());
        let old: Vec<u8> = (0..before.records()).flat_map(|i| database.record(i).unwrap().to_vec()).collect();
        let fresh = stream(&format!("round {round}"), 40 * 64);
        let mut records = fresh.chunks_exact(64);
        let mut batch: Vec<Operation<'_>> = [0, 7, 12, 13, 25, 36]
            .map(|index| Operation::EditIndex(index, records.next().unwrap()))
            .into_iter()
            .chain([3, 4].map(|i| Operation::DeleteIndex(i + round)))
            .collect();
        if round == 1 {
            batch.extend(records.by_ref().take(25).map(Operation::Add));
        }
        apply(&mut database, None, &batch).map_err(|refused| refused.reason).unwrap();
        let after = *database.layout();
        assert_eq!(after.partitions() > before.partitions(), round == 1);

        let commitments = database.commitments().unwrap();
        for index in 0..before.records() as u32 {
            let number = index as usize;
            let [previous, newest] = [(&before, 0), (&after, 1)]
                .map(|(layout, i)| query(layout, &[index], &entropy("epochs", 2 * number + i)).unwrap());
            let [a, b] = [0, 1].map(|server| {
                let asked =
                    [(previous.request(server).unwrap(), At::Previous), (newest.request(server).unwrap(), At::Newest)];
                let answers = answer(&database, &asked).unwrap();
                // The same at any place in a pass.
                let all =
                    answer(&database, &[asked, [asked[1], asked[0]], asked, [asked[1], asked[0]]].concat()).unwrap();
                let of = |places: [usize; 4]| places.map(|place| all[place].clone());
                assert_eq!(of([0, 3, 4, 7]), std::array::from_fn(|_| answers[0].clone()));
                assert_eq!(of([1, 2, 5, 6]), std::array::from_fn(|_| answers[1].clone()));
                answers
            });
            let then = recon(&previous, &old_commitments, &[&a[0], &b[0]]).unwrap().expect("genuine");
            let now = recon(&newest, &commitments, &[&a[1], &b[1]]).unwrap().expect("genuine");
            assert_eq!(then, old[number * 64..][..64], "record {index} before round {round}");
            assert_eq!(now, database.record(number).unwrap(), "record {index} after round {round}");
            // The epochs have different commitments, and an answer of one does not pass at the other.
            if index < 13 {
                assert!(recon(&previous, &commitments[..old_commitments.len()], &[&a[0], &b[0]]).unwrap().is_none());
            }
        }
    }
}

#[test]
fn a_pass_over_a_database_that_changes_is_refused() {
    let mut database = filled((3, 13, 64));
    let pending = query(database.layout(), &[5], &[1; 32]).unwrap();
    let asked = [(pending.request(0).unwrap(), At::Newest)];
    assert_eq!(
        Pass::new(&database, &[(pending.request(0).unwrap(), At::Previous)]).err(),
        Some(Error::Phase("there is no previous epoch"))
    );
    let mut pass = Pass::new(&database, &asked).unwrap();
    assert!(pass.step(&database).unwrap());
    assert!(matches!(Pass::new(&database, &asked).unwrap().finish(&database), Err(Error::Phase(_))));
    apply(&mut database, None, &[Operation::DeleteIndex(0)]).map_err(|refused| refused.reason).unwrap();
    assert!(matches!(pass.step(&database), Err(Error::Phase(_))));
    assert!(matches!(pass.descriptor(&database), Err(Error::Phase(_))));
    assert!(matches!(pass.finish(&database), Err(Error::Phase(_))));
}

// ---- bad input -------------------------------------------------------------------------------------------------

#[test]
fn what_is_no_query_is_refused_and_says_why() {
    let database = filled((7, 200, 128)); // 700 groups: three levels, two bits of the correction byte unused
    let layout = database.layout();
    let pending = query(layout, &[1], &[1; 32]).unwrap();
    let key = pending.request(0).unwrap().to_vec();
    let refused = |key: &[u8]| Pass::new(&database, &[(key, At::Newest)]).err();
    assert_eq!(refused(&key), None);
    let bits = key.len() - 18;
    for (at, flip) in [(key.len() - 1, 2), (key.len() - 1, 0x80), (bits, 0x40), (bits, 0x80)] {
        let mut changed = key.clone();
        changed[at] ^= flip;
        assert!(matches!(refused(&changed), Some(Error::Query(_))), "byte {at} ^ {flip:#x}");
    }
    assert!(matches!(refused(&key[1..]), Some(Error::Length { .. })));
    let too_many = [(key.as_slice(), At::Newest); PASS_QUERIES + 1];
    assert!(matches!(Pass::new(&database, &too_many), Err(Error::Index { .. })));
    assert!(matches!(Pass::new(&database, &[]), Err(Error::Index { .. })));
    assert!(matches!(query(layout, &[1400], &[1; 32]), Err(Error::Index { .. })));
    assert!(matches!(query(layout, &[], &[1; 32]), Err(Error::Length { .. })));
    let tags = Database::<Merkle>::offering(*layout, Proofs::Tags).unwrap();
    assert!(matches!(Pass::new(&tags, &[(&key, At::Newest)]), Err(Error::Phase(_))));
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(key in prop::collection::vec(any::<u8>(), 0..120), party in 0u8..3) {
        let database = filled((7, 200, 128));
        let length = request_bytes(database.layout());
        let _ = Pass::new(&database, &[(&key, At::Newest)]);
        let mut key: Vec<u8> = key.into_iter().chain(std::iter::repeat(0)).take(length).collect();
        key[length - 1] = party;
        match answer(&database, &[(&key, At::Newest)]) {
            Ok(answers) => prop_assert_eq!(answers[0].len(), answer_bytes(database.layout())),
            Err(error) => prop_assert!(matches!(error, Error::Query(_))),
        }
    }

    /// Short last groups, groups of odd lengths, partitions whose groups are no power of two: each has its own way through the kernels.
    #[test]
    fn any_database_is_answered_as_by_the_definition(
        (partitions, records) in (1u64..4, 1u64..150),
        record_bytes in prop_oneof![1u64..80, 120u64..140, 250u64..262],
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..=PASS_QUERIES),
        label in any::<u64>(),
    ) {
        let database = filled((partitions, records, record_bytes));
        let (layout, shape) = (database.layout(), shape(database.layout()));
        let indices: Vec<u32> = asked.iter().map(|index| index.index(layout.records()) as u32).collect();
        let pending = query(layout, &indices, &entropy("any database", label as usize)).unwrap();
        let keys: Vec<_> = queries(layout, pending.request((label % 2) as usize).unwrap()).unwrap().collect();
        let asked: Vec<_> = keys.iter().map(|key| (*key, At::Newest)).collect();
        let expected: Vec<_> = keys.iter().map(|key| answer_to_vector(&database, &shape, &share(key, &shape))).collect();
        prop_assert_eq!(answer(&database, &asked).unwrap(), expected);
    }

    #[test]
    fn any_answers_are_refused_without_a_panic(a in prop::collection::vec(any::<u8>(), 0..900), b in prop::collection::vec(any::<u8>(), 0..900)) {
        let database = filled((3, 13, 64));
        let bytes = answer_bytes(database.layout());
        let pending = query(database.layout(), &[20], &[1; 32]).unwrap();
        let commitments = database.commitments().unwrap();
        if a.len() != bytes || b.len() != bytes {
            prop_assert!(recon(&pending, &commitments, &[&a, &b]).is_err());
        }
        let whole = |bytes_of: &[u8]| -> Vec<u8> { bytes_of.iter().copied().chain(std::iter::repeat(7)).take(bytes).collect() };
        prop_assert_eq!(recon(&pending, &commitments, &[&whole(&a), &whole(&b)]).unwrap(), None);
        prop_assert!(recon(&pending, &commitments[1..], &[&whole(&a), &whole(&b)]).is_err());
    }
}

// ---- the blocks of a directory ---------------------------------------------------------------------------------

fn print_of(key: u32) -> [u8; 16] {
    keyhush_core::key::fingerprint(&key.to_le_bytes())
}

fn directory_of(keys: u32) -> Directory {
    Directory::build(&(0..keys).flat_map(print_of).collect::<Vec<_>>(), keys as usize).unwrap()
}

#[test]
fn changed_bits_of_either_answer_are_refused_for_every_block_of_a_directory() {
    let every = if thorough() { 3 } else { 5 }; // which is prime to a byte's bits
    refuses_changes(&directory_of(40).database().unwrap(), every);
}

#[test]
fn blocks_are_answered_at_both_epochs_and_lead_where_the_directory_of_each_does() {
    let (records, keys) = (100, 60u32);
    let layout = Layout::new(u64::from(keys), 16, 4, 25).unwrap();
    let first = directory_of(keys);
    let mut content = vec![0; layout.records() * 16];
    for key in 0..keys {
        let index = first.index(&print_of(key), keys).unwrap() as usize;
        content[16 * index..][..16].copy_from_slice(&print_of(key));
    }
    let mut database = crate::common::database::<Merkle>(layout, &content);
    let (added, deleted): (Vec<_>, Vec<_>) = ((70..90).map(print_of).collect(), (10..30).map(print_of).collect());
    let batch: Vec<_> =
        deleted.iter().map(Operation::DeleteKey).chain(added.iter().map(|p| Operation::Add(p))).collect();
    let epoch = apply(&mut database, Some(&first), &batch).unwrap();
    let second = epoch.directory.unwrap();
    // A restarted server has the newest directory and the list.
    assert_eq!(second.undone(&epoch.list).unwrap().encode(), first.encode());
    let mut blocks = first.database().unwrap();
    let before = blocks.commitments().unwrap();
    second.bring(&mut blocks).unwrap();
    assert_eq!(blocks.commitments().unwrap(), second.database().unwrap().commitments().unwrap());

    for (at, directory, commitment) in
        [(At::Previous, &first, before), (At::Newest, &second, blocks.commitments().unwrap())]
    {
        let shape = *directory.shape();
        for key in 0..100 {
            let print = print_of(key);
            let pending = query(blocks.layout(), &[shape.number(&print)], &entropy("blocks", key as usize)).unwrap();
            let [a, b] = [0, 1].map(|server| answers(&blocks, blocks.layout(), pending.request(server).unwrap(), at));
            let block = recon(&pending, &commitment, &[&a, &b]).unwrap().expect("both servers are honest");
            let alone = shape.index(&block, &print, records).unwrap();
            assert_eq!(alone, directory.index(&print, records).unwrap());
            assert!(matches!(shape.index(&block[1..], &print, records), Err(Error::Length { .. })));
        }
    }
    let other = Directory::build(&(0..5000).flat_map(print_of).collect::<Vec<_>>(), 100_000).unwrap();
    assert!(matches!(other.bring(&mut blocks), Err(Error::Phase(_))), "of another generation");
}

/// The bytes of a lookup of a key by a client without a directory: both bodies of both servers, with their headers of 40 bytes.
/// The table is in docs/costs.md. The length of blocks depends on the keys, which are fixed.
#[test]
fn a_key_is_looked_up_in_some_kilobytes_whatever_the_size_of_the_database() {
    for (log, expected) in [(16, 4042), (20, 4814), (22, 5678)] {
        let keys = 1u32 << log;
        let layout = Layout::plan(u64::from(keys), 48, None).unwrap();
        let prints: Vec<u8> =
            (0..keys).flat_map(|i| keyhush_core::key::fingerprint(format!("key {i}").as_bytes())).collect();
        let blocks = Directory::build(&prints, layout.room()).unwrap().shape().layout().unwrap();
        let lookup: usize = [&blocks, &layout].map(|of| 2 * (80 + request_bytes(of) + answer_bytes(of))).iter().sum();
        assert_eq!(lookup, expected, "2^{log} keys");
        let first = 2 * (224 + 64 * layout.partitions()) + lookup;
        assert!(lookup <= 8000 && first <= 30_000);
    }
}
