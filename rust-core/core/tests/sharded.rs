//! Tests databases that are read as one (docs/protocol/sharded.md): split keys stand for the same groups as the whole's, every record
//! is found, and any change of an answer is refused.

use crate::common::{database, entropy, stream, thorough};
use keyhush_core::Error;
use keyhush_core::commitment::Merkle;
use keyhush_core::database::flat::{At, Database};
use keyhush_core::directory::shards_of;
use keyhush_core::instant::pass::{answer, answer_vectors, check_vectors};
use keyhush_core::instant::query::{Pending, query, query_any_of};
use keyhush_core::instant::recon::recon;
use keyhush_core::instant::sharded::{self, UpperTree};
use keyhush_core::instant::vectors::{self, Form, MAX_SERVERS};
use keyhush_core::instant::{self, max_queries};
use keyhush_core::layout::Layout;
use keyhush_kernels::dpf::{Key, domain_log, scratch_nodes};
use keyhush_kernels::scan::PASS_QUERIES;
use proptest::prelude::*;

/// S, Q, M, ℓ, g. Groups of one block and of several, blocks of several records, one partition a shard and several.
const SHAPES: [(u64, u64, u64, u64, u64); 6] = [
    (2, 1, 128, 256, 1),
    (2, 2, 128, 300, 1),
    (4, 1, 2048, 16, 1),
    (4, 4, 1024, 32, 1),
    (8, 1, 512, 64, 4),
    (2, 1, 32_768, 1, 1),
];

/// The layout of one shard.
fn shard((_, q, m, l, g): (u64, u64, u64, u64, u64)) -> Layout {
    Layout::packed(q * m, l, q, m, g).unwrap()
}

fn joined(s: u64, q: u64, m: u64, l: u64) -> Result<Layout, Error> {
    sharded::joined(&Layout::new(q * m, l, q, m)?, s as usize)
}

/// One operator: shards with random records, and the tree above their partitions.
struct Operator {
    layout: Layout,
    shards: Vec<Database<Merkle>>,
    tree: UpperTree,
}

impl Operator {
    fn new(dimensions: (u64, u64, u64, u64, u64)) -> Self {
        let layout = shard(dimensions);
        let filled = |number| database(layout, &stream(&format!("shard {number}"), layout.database_bytes()));
        let shards: Vec<Database<Merkle>> = (0..dimensions.0).map(filled).collect();
        let commitments: Vec<u8> = shards.iter().flat_map(|shard| shard.commitments().unwrap()).collect();
        let tree = UpperTree::new(&layout, shards.len(), &commitments).unwrap();
        Operator { layout: *tree.layout(), tree, shards }
    }

    fn record(&self, index: usize) -> &[u8] {
        let each = self.layout.records() / self.shards.len();
        self.shards[index / each].record(index % each).unwrap()
    }

    /// A request's answers: the sums of all shards' answers, each with the siblings above behind it.
    fn answers(&self, pending: &Pending, server: usize) -> Vec<u8> {
        let (servers, form) = (pending.servers(), pending.form(server).unwrap_or(Form::Seed));
        let request = pending.request(server).unwrap();
        let split = self.tree.split(servers, form, request).unwrap();
        let bytes = if servers == 2 {
            instant::request_bytes(&self.layout)
        } else {
            vectors::query_bytes(&vectors::shape(&self.layout, servers), form)
        };
        let count = request.len() / bytes;
        let (bodies, siblings) = split.split_at(split.len() - count * self.tree.sibling_bytes());
        let bodies = bodies.chunks(bodies.len() / self.shards.len());
        let parts: Vec<Vec<Vec<u8>>> =
            self.shards.iter().zip(bodies).map(|(shard, body)| self.part(shard, body, count, servers)).collect();
        let each = siblings.chunks(self.tree.sibling_bytes()).enumerate();
        let sum = |number: usize| {
            parts.iter().fold(vec![0; parts[0][0].len()], |sum, part| {
                sum.iter().zip(&part[number]).map(|(a, b)| a ^ b).collect()
            })
        };
        each.flat_map(|(number, above)| [&sum(number), above].concat()).collect()
    }

    /// A shard's answers to its part of the queries: it is an ordinary server.
    fn part(&self, shard: &Database<Merkle>, body: &[u8], count: usize, servers: usize) -> Vec<Vec<u8>> {
        let queries: Vec<_> = body.chunks(body.len() / count).collect();
        if servers == 2 {
            let asked: Vec<_> = instant::queries(shard.layout(), body).unwrap().map(|key| (key, At::Newest)).collect();
            return asked.chunks(PASS_QUERIES).flat_map(|keys| answer(shard, keys).unwrap()).collect();
        }
        let form = Form::Part(vectors::shape(&self.layout, servers).group_log);
        check_vectors(shard.layout(), servers, form, body).unwrap();
        let asked: Vec<_> = queries.iter().map(|query| (form, *query, At::Newest)).collect();
        asked.chunks(PASS_QUERIES).flat_map(|asked| answer_vectors(shard, servers, asked).unwrap()).collect()
    }

    fn found(&self, pending: &Pending, answers: &[Vec<u8>]) -> Option<Vec<u8>> {
        let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
        recon(pending, &self.tree.root(), &answers).unwrap()
    }

    fn all_answers(&self, pending: &Pending) -> Vec<Vec<u8>> {
        (0..pending.servers()).map(|server| self.answers(pending, server)).collect()
    }
}

fn ask(layout: &Layout, servers: usize, indices: &[u32], entropy: &[u8; 32]) -> Pending {
    match servers {
        2 => query(layout, indices, entropy).unwrap(),
        _ => query_any_of(layout, servers, indices, entropy).unwrap(),
    }
}

/// The outputs of a key, for every group.
fn outputs(key: &[u8], groups: usize) -> Vec<u8> {
    let mut outputs = Vec::new();
    let key = Key::decode(key, domain_log(groups)).unwrap();
    key.evaluate(groups, &mut vec![Default::default(); scratch_nodes(groups)], |_, leaf| outputs.extend(leaf));
    outputs
}

#[test]
fn the_keys_of_shards_stand_for_the_groups_of_the_whole_one_at_every_point() {
    for (log, q) in (1..=8).flat_map(|log| [(log, 1), (log, 4)]) {
        let s = 1 << log;
        let tree = UpperTree::new(&shard((s, q, 128, 256, 1)), s as usize, &vec![7; (s * q) as usize * 32]).unwrap();
        let layout = *tree.layout();
        let groups = layout.records();
        for index in [0, 1, groups / 2 - 1, groups / 3, groups - 1] {
            let pending = query(&layout, &[index as u32], &entropy("points", index)).unwrap();
            let keys = [0, 1].map(|server| pending.request(server).unwrap());
            for key in keys {
                let split = tree.split(2, Form::Seed, key).unwrap();
                let keys = &split[..split.len() - tree.sibling_bytes()];
                let each = keys.chunks(keys.len() / s as usize).map(|key| outputs(key, groups / s as usize));
                assert_eq!(
                    each.collect::<Vec<_>>().concat(),
                    outputs(key, groups),
                    "{s} shards, {q} partitions, {index}"
                );
            }
        }
    }
}

#[test]
fn the_root_is_made_of_neighbours_by_the_rule_of_nodes() {
    let commitments: Vec<[u8; 32]> = (0..8).map(|i| entropy("commitment", i)).collect();
    let key = blake3::derive_key("keyhush 2026-11 merkle node v1", &[]);
    let mut level = commitments.clone();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| *blake3::keyed_hash(&key, pair.as_flattened()).as_bytes()).collect();
    }
    let tree = UpperTree::new(&shard((4, 2, 128, 256, 1)), 4, commitments.as_flattened()).unwrap();
    assert_eq!((tree.root(), tree.sibling_bytes()), (level[0], 96));
}

#[test]
fn records_of_every_shard_are_found_by_any_number_of_servers() {
    for dimensions in SHAPES {
        let operator = Operator::new(dimensions);
        let layout = &operator.layout;
        for servers in [2, 3, 4, MAX_SERVERS] {
            let most =
                if servers == 2 { max_queries(layout) } else { vectors::max_queries(&vectors::shape(layout, servers)) };
            let count = most.min(20);
            let step = (layout.records() - 1) / (count - 1);
            let indices: Vec<u32> = (0..count).map(|i| (i * step) as u32).collect();
            let pending = ask(layout, servers, &indices, &entropy("found", servers));
            let found = operator.found(&pending, &operator.all_answers(&pending)).expect("all are honest");
            let expected: Vec<u8> =
                indices.iter().flat_map(|&index| operator.record(index as usize).to_vec()).collect();
            assert!(found == expected, "{dimensions:?}, {servers} servers");
        }
    }
}

#[test]
fn every_changed_bit_of_an_answer_is_refused_those_of_upper_siblings_too() {
    for (dimensions, servers) in SHAPES[..2].iter().flat_map(|&dimensions| [(dimensions, 2), (dimensions, 3)]) {
        let operator = Operator::new(dimensions);
        for index in (0..operator.layout.records() as u32).step_by(if thorough() { 7 } else { 61 }) {
            let pending = ask(&operator.layout, servers, &[index], &entropy("lies", index as usize));
            let mut answers = operator.all_answers(&pending);
            let liar = index as usize % servers;
            for bit in 0..answers[liar].len() * 8 {
                answers[liar][bit / 8] ^= 1 << (bit % 8);
                assert_eq!(operator.found(&pending, &answers), None, "{dimensions:?}, record {index}, bit {bit}");
                answers[liar][bit / 8] ^= 1 << (bit % 8);
            }
            assert!(operator.found(&pending, &answers).is_some());
        }
    }
}

#[test]
fn shards_in_another_order_are_refused() {
    let mut operator = Operator::new(SHAPES[0]);
    let pending = query(&operator.layout, &[5], &[3; 32]).unwrap();
    let answers = operator.all_answers(&pending);
    assert!(operator.found(&pending, &answers).is_some());
    operator.shards.swap(0, 1);
    let exchanged = operator.all_answers(&pending);
    assert_eq!(operator.found(&pending, &exchanged), None);
    assert_eq!(operator.found(&pending, &[answers[0].clone(), exchanged[1].clone()]), None);
}

/// So shards can answer parts, which are whole bytes, with groups that lie within partitions.
#[test]
fn groups_for_several_servers_leave_each_shard_eight_and_lie_within_partitions() {
    let mut seen = 0;
    for (shards, partitions, depth) in (1..=8).flat_map(|shards| {
        (shards..=16).flat_map(move |partitions| (7..=16).map(move |depth| (shards, partitions, depth)))
    }) {
        for bytes in [1, 3, 16, 32, 100, 255, 256, 4096, 65_536] {
            let (s, q, m): (u64, u64, u64) = (1 << shards, 1 << (partitions - shards), 1 << depth);
            if q * m * bytes >= 1 << 31 {
                continue; // no shard of this size
            }
            let Ok(layout) = joined(s, q, m, bytes) else { continue };
            for servers in 3..=MAX_SERVERS {
                let shape = vectors::shape(&layout, servers);
                assert!(shape.group_log <= depth && shape.groups() >= 8 << shards, "{s} {q} {m} {bytes} {servers}");
                assert_eq!(shape.siblings(), (depth + partitions - shape.group_log) as usize);
                assert!(shape.answer_bytes() < 1 << 20);
                seen += 1;
            }
        }
    }
    assert!(seen > 5_000, "{seen}");
}

/// The seed 4^32 has no 64 bits: it counts as 0. wyhash by the definition, with numbers of 128 bits.
#[test]
fn a_keys_shard_is_that_of_the_definition() {
    for i in 0..1000 {
        let print: [u8; 16] = *entropy("place", i).first_chunk().unwrap();
        let seeded = print.map(|byte| byte ^ 1);
        let half = |at: usize| u64::from_le_bytes(*seeded[at..].first_chunk().unwrap()).rotate_left(32);
        let mum = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let hash =
            mum(mum(half(0) ^ 0xa076_1d64_78bd_642f, half(8) ^ 0x8ebc_6af0_9c88_c6e3), 16 ^ 0xeb44_acca_b455_d165);
        let folded = (hash & 0xffff_ffff) ^ (hash >> 32);
        assert_eq!(shards_of(&print, &[1; 16], 256).unwrap(), [((folded * 256) >> 32) as u8]);
    }
}

#[test]
fn impossible_layouts_are_refused_and_those_beyond_one_machine_are_not() {
    for (s, q, m, l) in [
        (1, 1, 128, 256),
        (3, 1, 128, 256),
        (512, 1, 128, 256),
        (2, 3, 128, 256),
        (2, 1, 64, 256),
        (2, 1, 192, 256),
        (2, 1, 128, 128),
        (256, 512, 128, 256),
        (256, 256, 65_536, 1),
    ] {
        assert!(matches!(joined(s, q, m, l), Err(Error::Layout(_))), "{s} {q} {m} {l}");
    }
    let not_full = Layout::new(255, 256, 2, 128).unwrap();
    assert!(matches!(sharded::joined(&not_full, 2), Err(Error::Layout(_))));
    let large = joined(256, 64, 65_536, 256).unwrap();
    assert_eq!((large.records(), large.partitions(), large.depth()), (1 << 30, 1, 30));
    assert_eq!((instant::request_bytes(&large), instant::answer_bytes(&large)), (33 + 23 * 16 + 6, 256 + 30 * 32));
    assert!(matches!(Database::<Merkle>::new(joined(2, 1, 65_536, 256).unwrap()), Err(Error::Layout(_))));
    assert!(UpperTree::new(&shard(SHAPES[0]), 2, &[0; 32]).is_err());
    for (n, q, m) in
        [(1 << 17, 1, (1 << 17) + 1), ((1 << 17) - 1, 1, 1 << 17), (3 << 16, 1, 3 << 16), (1 << 18, 2, 1 << 17)]
    {
        assert!(Layout::of_lookups(n, 1, q, m, 1).is_err(), "{n} {q} {m}: one partition that no sharded database has");
    }
}

#[test]
fn parts_with_groups_that_no_partition_has_are_refused() {
    let operator = Operator::new(SHAPES[0]);
    let shard = &operator.shards[0];
    assert!(check_vectors(shard.layout(), 3, Form::Part(7), &[1]).is_ok());
    assert!(matches!(check_vectors(shard.layout(), 3, Form::Part(7), &[2]), Err(Error::Query(_))));
    for group_log in [8, 64, u32::MAX] {
        let refused = check_vectors(shard.layout(), 3, Form::Part(group_log), &[0]);
        assert!(matches!(refused, Err(Error::Query(_))), "{group_log}");
        assert!(answer_vectors(shard, 3, &[(Form::Part(group_log), &[0], At::Newest)]).is_err());
    }
    let long = Layout::new(65_536, 4096, 1, 65_536).unwrap();
    assert!(check_vectors(&long, 3, Form::Part(10), &[0; 8]).is_ok());
    assert!(matches!(check_vectors(&long, 3, Form::Part(11), &[0; 4]), Err(Error::Query(_))), "answers beyond 8 MiB");
}

proptest! {
    #[test]
    fn any_bytes_are_split_or_refused(body in prop::collection::vec(any::<u8>(), 0..300), servers in 0usize..10, vector: bool) {
        let tree = UpperTree::new(&shard((4, 2, 128, 256, 1)), 4, &[5; 256]).unwrap();
        let form = if vector { Form::Vector } else { Form::Seed };
        if let Ok(split) = tree.split(servers, form, &body) {
            prop_assert_eq!(split.len() % 4, 0);
        }
    }
}
