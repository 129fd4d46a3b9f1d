//! Compares the native core with `tests/interop/vectors/core.json` and `updates.json`. The WASM build and the independent
//! TypeScript implementation are compared with the same files. Sizes are at boundaries: M = 1 has no proof, 3 and 5 have missing
//! siblings, 16 and 17 are on both sides of a level; ℓ = 1, 32 and 100 are below, half of and above a BLAKE3 block.
//!
//! After a deliberate change of format, write the files anew:
//! `KEYHUSH_WRITE_VECTORS=1 cargo test -p keyhush-core vectors`.

use crate::common::{database, hint_of, keep, stream, tags_of};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::epoch::{Operation, apply, apply_list};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::generation::NextGeneration;
use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::{Directory, Shape};
use keyhush_core::instant;
use keyhush_core::key::{database_id, fingerprint};
use keyhush_core::layout::Layout;
use keyhush_core::scheme::Asked;
use keyhush_core::single::making::Builder;
use keyhush_core::suites::answer;
use keyhush_core::tapir::permutation::Permutations;
use keyhush_core::tapir::query::{Role, query};
use keyhush_core::tapir::recon::{recon, verify};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/vectors");

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn layout_json(layout: &Layout) -> Value {
    let stored = layout.stored();
    let mut out = json!({
        "records": layout.records(),
        "recordBytes": stored.record_bytes,
        "partitions": layout.partitions(),
        "partitionRecords": stored.partition_records,
    });
    if stored.block_records > 1 {
        out["blockRecords"] = stored.block_records.into();
    }
    out
}

fn print_of(key: u32) -> [u8; 16] {
    fingerprint(format!("key {key}").as_bytes())
}

fn keys() -> Value {
    let keys = ["", "a", "evil.example", "\u{1f512} b\u{fc}cher.example"];
    json!({
        "fingerprints": keys.map(|key| json!({ "key": key, "fingerprint": hex(fingerprint(key.as_bytes())) })),
        "databaseIds": keys.map(|name| json!({ "seed": name, "id": hex(database_id(name.as_bytes())) })),
    })
}

fn plans() -> Value {
    let single = [
        ((1, 1), 1),
        ((16, 32), 1),
        ((17, 32), 1),
        ((13_752, 16), 1),
        ((1 << 20, 32), 1),
        (((1 << 20) + 1, 32), 1),
        ((1 << 20, 256), 1),
        ((4096, 65_536), 1),
    ];
    let packed = [((1, 1), 4), ((1000, 32), 2), (((1 << 20) + 1, 32), 8), ((1 << 24, 16), 16), ((4096, 4096), 16)];
    let simple = single.into_iter().chain(packed).map(|(sizes, g)| (sizes, 0, None, g));
    // Room to grow counts for Q and M. For M·ℓ, a given Q does not count.
    let room = [
        ((1, 1), 1000, None, 1),
        ((1_000_000, 32), 100_000, None, 1),
        ((100, 20), 4001, Some(7), 4),
        ((1000, 8), 0, Some(1), 1),
        ((40_000, 300), 0, Some(1), 1),
        ((1_000_000, 9), 0, Some(100), 16),
    ];
    let plan = |((records, record_bytes), headroom, partitions, pack): ((u64, u64), u64, Option<u64>, u64)| {
        let room = records + headroom;
        let plan = Layout::plan_packed(room, record_bytes, partitions, pack).unwrap();
        let mut out = json!({
            "records": records,
            "recordBytes": record_bytes,
            "headroom": headroom,
            "pack": pack,
            "layout": layout_json(&plan.grown(records, plan.partitions() as u64).unwrap()),
        });
        if let Some(partitions) = partitions {
            out["partitions"] = partitions.into();
        }
        out
    };
    simple.chain(room).map(plan).collect()
}

fn permutations() -> Value {
    [(1, 1), (2, 2), (3, 17), (2, 300)]
        .map(|(q, m)| {
            let layout = Layout::new(1, 1, q, m).unwrap();
            let entropy = stream(&format!("permutation {q} {m}"), 32);
            let drawn = Permutations::from_entropy(&layout, entropy.as_slice().try_into().unwrap());
            let drawn: Vec<_> = (0..layout.partitions()).map(|q| drawn.of(q).to_vec()).collect();
            json!({ "layout": layout_json(&layout), "entropy": hex(entropy), "permutations": drawn })
        })
        .into()
}

fn directories() -> Value {
    [1u32, 2, 16, 17, 700]
        .map(|count| {
            let slots = 2 * count as usize;
            let prints: Vec<u8> = (0..count).flat_map(print_of).collect();
            let directory = Directory::build(&prints, slots).unwrap();
            let shape = directory.shape();
            let numbers: Vec<_> = prints.as_chunks().0.iter().map(|print| shape.number(print)).collect();
            let absent: Vec<u8> = (0..8).flat_map(|i| fingerprint(format!("absent {i}").as_bytes())).collect();
            json!({
                "keys": count,
                "slots": slots,
                "blockLog": shape.log(),
                "blockBytes": shape.block_bytes(),
                "seed": hex(shape.seed()),
                "blocks": numbers,
                "commitment": hex(directory.database().unwrap().commitment(0).unwrap()),
                "bytes": hex(directory.encode()),
                "indices": directory.indices(&prints, count).unwrap(),
                "absentIndices": directory.indices(&absent, count).unwrap(),
            })
        })
        .into()
}

/// Directories that are too long for the file. Other readings of *Building* would give another b or L at their sizes: a lookup's
/// bytes with headers, room for fewer keys, roots that are not rounded up. They have levels of several words, and more than two.
fn large_directories() -> Value {
    [(1u32, 6150usize), (1, 1288), (200, 3200), (18_433, 18_433)]
        .map(|(count, slots)| {
            let prints: Vec<u8> = (0..count).flat_map(print_of).collect();
            let directory = Directory::build(&prints, slots).unwrap();
            let indices = directory.indices(&prints, count).unwrap();
            json!({
                "keys": count,
                "slots": slots,
                "blockLog": directory.shape().log(),
                "blockBytes": directory.shape().block_bytes(),
                "seed": hex(directory.shape().seed()),
                "commitment": hex(directory.database().unwrap().commitment(0).unwrap()),
                "bytesHash": hex(blake3::hash(&directory.encode()).as_bytes()),
                "indicesHash": hex(blake3::hash(&indices.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<_>>()).as_bytes()),
            })
        })
        .into()
}

/// A directory block made by hand.
fn directory_block(base: u32, keys: u16, levels: &[u64], overlay: &[([u8; 16], u32)]) -> Vec<u8> {
    let mut bytes = base.to_le_bytes().to_vec();
    bytes.extend_from_slice(&keys.to_le_bytes());
    bytes.extend_from_slice(&(overlay.len() as u16).to_le_bytes());
    bytes.extend(levels.iter().flat_map(|word| word.to_le_bytes()));
    for (print, index) in overlay {
        bytes.extend_from_slice(print);
        bytes.extend_from_slice(&index.to_le_bytes());
    }
    bytes
}

/// 40 keys in three levels: 30 of them in the first, of two words, 9 in the second, one in the third.
const LEVELS: [u64; 4] = [0x1111_1111_1111_1111, 0x0222_2222_2222_2220, 0x8080_8080_8080_8081, 1 << 63];

/// The first `count` fingerprints of "added 0", "added 1", … that belong to the directory block, in ascending order.
fn added(shape: &Shape, number: u32, count: usize) -> Vec<[u8; 16]> {
    let prints = (0u32..).map(|i| fingerprint(format!("added {i}").as_bytes()));
    let mut prints: Vec<_> = prints.filter(|print| shape.number(print) == number).take(count).collect();
    prints.sort_unstable();
    prints
}

/// Directories of two blocks: one that a reader accepts, and others that it must refuse, each with one change.
fn directory_reading() -> Value {
    const L: u32 = 96;
    let seed: [u8; 16] = stream("directory seed", 16).try_into().unwrap();
    let shape = Shape::new(1, L as usize, &seed).unwrap();
    let (zero, one) = (added(&shape, 0, 2), added(&shape, 1, 1));
    let head = |length: u32| [b"PIRD\x01\0\x01\0".as_slice(), &length.to_le_bytes(), &[0; 4], &seed].concat();
    let blocks = |base: u32, levels: &[u64], overlay: &[([u8; 16], u32)], last: &[([u8; 16], u32)]| {
        [head(L), directory_block(0, 40, levels, overlay), directory_block(base, 3, &[7], last)].concat()
    };
    let overlay = [(zero[0], 3), (zero[1], 49)];
    let good = blocks(40, &LEVELS, &overlay, &[(one[0], 0)]);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let lone = |levels: usize, length: u32| {
        let mut words = vec![0; levels];
        words[levels - 1] = 1;
        [head(length), directory_block(0, 1, &words, &[]), directory_block(1, 0, &[], &[])].concat()
    };
    let keys: Vec<u8> = (0..16).flat_map(print_of).chain(zero.concat()).collect();
    let taken = [
        ("three levels, the first of two words, and an overlay", 50u32, good.clone()),
        ("as many keys as records", 43, blocks(40, &LEVELS, &[(zero[0], 3)], &[])),
        ("31 levels", 1, lone(31, 256)),
        ("a block as long as L", 1, lone(11, L)),
    ]
    .map(|(because, records, bytes)| {
        let indices = Directory::decode(&bytes, records).unwrap().indices(&keys, records).unwrap();
        json!({ "because": because, "records": records, "bytes": hex(bytes), "indices": indices })
    });
    let swapped = [(zero[1], 49), (zero[0], 3)];
    let refused = [
        ("another magic", 50, with(0, b"Q")),
        ("another format", 50, with(4, &[2])),
        ("blocks of no bytes", 50, with(8, &0u32.to_le_bytes())),
        ("blocks of no whole 32 bytes", 50, with(8, &100u32.to_le_bytes())),
        ("blocks of more than 65 536 bytes", 50, with(8, &65_568u32.to_le_bytes())),
        ("a reserved byte", 50, with(15, &[1])),
        ("no whole header", 50, good[..31].to_vec()),
        ("a block too few", 50, good[..32 + 80].to_vec()),
        ("a block's head that ends too early", 50, good[..32 + 80 + 7].to_vec()),
        ("levels that end too early", 50, good[..32 + 80 + 8 + 7].to_vec()),
        ("an overlay that ends too early", 50, good[..good.len() - 1].to_vec()),
        ("a byte too many", 50, [good.clone(), vec![0]].concat()),
        ("another block too many", 50, [good.clone(), directory_block(43, 0, &[], &[])].concat()),
        ("a block longer than L", 1, lone(12, L)),
        ("32 levels", 1, lone(32, 288)),
        ("a level with more keys than were left", 50, with(32 + 8 + 24, &3u64.to_le_bytes())),
        ("a first base that is not 0", 50, with(32, &[1])),
        ("a base that is not the sum", 50, blocks(39, &LEVELS, &overlay, &[(one[0], 0)])),
        ("no keys", 50, [head(L), directory_block(0, 0, &[], &[]), directory_block(0, 0, &[], &[])].concat()),
        ("more keys than records", 42, blocks(40, &LEVELS, &[], &[])),
        ("an overlay beyond the records", 49, good.clone()),
        ("an overlay out of order", 50, blocks(40, &LEVELS, &swapped, &[(one[0], 0)])),
        ("a key twice in an overlay", 50, blocks(40, &LEVELS, &[(zero[0], 3), (zero[0], 3)], &[(one[0], 0)])),
        ("a key in another block's overlay", 50, blocks(40, &LEVELS, &overlay, &[(zero[0], 0)])),
    ]
    .map(|(because, records, bytes)| {
        assert!(Directory::decode(&bytes, records).is_err(), "{because}");
        json!({ "because": because, "records": records, "bytes": hex(bytes) })
    });
    let names: Vec<_> = zero.iter().map(hex).collect();
    json!({ "seed": hex(seed), "added": names, "taken": taken, "refused": refused })
}

/// Single directory blocks, with their padding.
fn directory_blocks() -> Value {
    const L: usize = 128;
    const N: u32 = 50;
    let seed: [u8; 16] = stream("directory seed", 16).try_into().unwrap();
    let shape = Shape::new(1, L, &seed).unwrap();
    let (mine, others) = (added(&shape, 0, 3), added(&shape, 1, 1));
    let padded = |base: u32, keys: u16, levels: &[u64], overlay: &[([u8; 16], u32)]| {
        let mut block = directory_block(base, keys, levels, overlay);
        block.resize(L, 0);
        block
    };
    let overlay = [(mine[0], 3), (mine[1], 49), (mine[2], 50)];
    let good = padded(7, 40, &LEVELS, &overlay[..2]);
    let with = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        changed
    };
    let probes: Vec<_> = (0..8).map(print_of).chain(mine.clone()).collect();
    let beyond = probes.iter().find(|print| shape.index(&padded(40, 40, &LEVELS, &[]), print, N).is_err());
    // One key, in the last possible level.
    let lone = |levels: usize| [vec![0; levels - 1], vec![1]].concat();
    let taken = [
        ("three levels, the first of two words, and an overlay", good.clone()),
        ("no keys", padded(9, 0, &[], &[])),
        ("ten levels and two keys in the overlay, and no padding", padded(7, 1, &lone(10), &overlay[..2])),
        ("a key of another block in the overlay", {
            let mut both = [(mine[0], 3), (others[0], 49)];
            both.sort_unstable();
            padded(7, 40, &LEVELS, &both)
        }),
        ("15 levels, as many as fit", padded(7, 1, &lone(15), &[])),
    ]
    .map(|(because, bytes)| {
        assert_eq!(bytes.len(), L);
        let indices: Vec<_> = probes.iter().map(|print| shape.index(&bytes, print, N).unwrap()).collect();
        json!({ "because": because, "bytes": hex(bytes), "indices": indices })
    });
    let refused = [
        ("a byte behind the overlay", &mine[0], with(8 + 32 + 40, 1)),
        ("a last byte that is not zero", &mine[0], with(L - 1, 0x80)),
        ("levels that do not fit", &mine[0], padded(0, 1, &[0; 15], &[])),
        ("an overlay that does not fit", &mine[0], with(6, 5)),
        ("a level with more keys than were left", &mine[0], with(8 + 24, 3)),
        ("an overlay out of order", &mine[0], padded(7, 40, &LEVELS, &[(mine[1], 49), (mine[0], 3)])),
        ("a key twice in the overlay", &mine[0], padded(7, 40, &LEVELS, &[(mine[0], 3), (mine[0], 3)])),
        ("an index beyond the records, from the overlay", &mine[2], padded(7, 40, &LEVELS, &overlay)),
        ("an index beyond the records, from a level", beyond.unwrap(), padded(40, 40, &LEVELS, &[])),
    ]
    .map(|(because, print, bytes)| {
        assert!(shape.index(&bytes, print, N).is_err(), "{because}");
        json!({ "because": because, "fingerprint": hex(print), "bytes": hex(bytes) })
    });
    json!({
        "blockLog": 1,
        "blockBytes": L,
        "seed": hex(seed),
        "records": N,
        "fingerprints": probes.iter().map(hex).collect::<Vec<_>>(),
        "taken": taken,
        "refused": refused,
    })
}

/// Keyed databases with empty slots, and a keyless one, and the next generation of each. Record i is the fingerprint of "key i"
/// and four bytes of the label's stream; every third record is empty.
fn generations() -> Value {
    [(true, 40, 3, 0, 1), (true, 700, 5, 100, 1), (true, 1, 1, 2000, 1), (false, 60, 4, 7, 1), (true, 50, 2, 30, 4)]
        .map(|(keyed, count, q, headroom, g)| {
            let record_bytes = if keyed { 20 } else { 4 };
            let layout = Layout::plan_packed(count, record_bytes, Some(q), g).unwrap();
            let values = stream(&format!("values {count}"), 4 * layout.records());
            let records: Vec<u8> = values
                .chunks_exact(4)
                .enumerate()
                .flat_map(|(i, value)| match keyed {
                    true if i % 3 == 2 => vec![0; 20],
                    true => [print_of(i as u32).as_slice(), value].concat(),
                    false => value.to_vec(),
                })
                .collect();
            let old = crate::common::database::<Merkle>(layout, &records);
            let mut next = NextGeneration::new(&old, keyed, headroom).unwrap();
            while next.step(&old).unwrap() {}
            let (database, directory) = next.finish().unwrap();
            json!({
                "keyed": keyed,
                "layout": layout_json(&layout),
                "valuesLabel": format!("values {count}"),
                "headroom": headroom,
                "next": layout_json(database.layout()),
                "directory": hex(directory.map(|directory| directory.encode()).unwrap_or_default()),
                "commitments": hex(database.commitments().unwrap()),
                "contentHashes": hex(database.content_hashes().unwrap()),
            })
        })
        .into()
}

/// A whole life: digests, a hint, and three lookups with their vectors, answers (hashed) and records. With tags also the tags'
/// point, and the tags (hashed).
fn lookups(proofs: Proofs) -> Value {
    let single = [
        (1, 1, 1, 1, 1),
        (5, 32, 2, 3, 1),
        (10, 1, 2, 5, 1),
        (64, 32, 4, 16, 1),
        (60, 100, 4, 17, 1),
        (33, 8, 1, 33, 1),
    ];
    // A block that is the whole partition, blocks with one record, and an odd number of blocks.
    let packed = [(7, 3, 2, 4, 4), (45, 20, 3, 20, 4), (101, 9, 2, 56, 8)];
    single
        .into_iter()
        .chain(packed)
        .map(|(n, l, q, m, g)| {
            let layout = Layout::packed(n, l, q, m, g).unwrap();
            let (label, database, commitments) = labelled(layout);
            let seed = stream(&format!("hint {n} {l}"), 32);
            let mut hint = hint_of(&database, proofs, seed.as_slice().try_into().unwrap());
            let tags = tags_of(&hint);

            let last = n as u32 - 1;
            let asked = [vec![0], vec![last, last, 0], vec![last / 2, 0]].map(|indices| {
                let entropy = stream(&format!("query {n} {l} {indices:?}"), 32);
                let mut pending = query(&mut hint, &indices, entropy.as_slice().try_into().unwrap()).unwrap();
                let mut out = json!({ "indices": indices, "entropy": hex(entropy), "name": hex(pending.name()) });
                for (role, name) in [(Role::Retrieve, "retrieve"), (Role::Refresh, "refresh")] {
                    let vectors = pending.vectors(role);
                    let answer = database.answer(&vectors, proofs).unwrap();
                    out[name] = json!({ "vectors": hex(vectors), "answerHash": hex(blake3::hash(&answer).as_bytes()) });
                    assert!(verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap());
                }
                let records = recon(&mut hint, pending).map_err(|(error, _)| error).unwrap().records;
                let asked = indices.iter().flat_map(|&index| database.record(index as usize).unwrap().to_vec());
                assert_eq!(records, asked.collect::<Vec<_>>());
                out["records"] = hex(records).into();
                out
            });
            let mut life = json!({
                "layout": layout_json(&layout),
                "recordsLabel": label,
                "commitments": hex(commitments),
                "contentHashes": hex(database.content_hashes().unwrap()),
                "hintEntropy": hex(seed),
                "asked": asked,
            });
            if let Some((key, tags)) = tags.split_first_chunk::<8>() {
                life["tagPoint"] = hex(key).into();
                life["tagsHash"] = hex(blake3::hash(tags).as_bytes()).into();
            }
            life
        })
        .collect()
}

/// The committed database of a label's records, and its commitments.
fn labelled(layout: Layout) -> (String, Database<Merkle>, Vec<u8>) {
    let label = format!("records {} {}", layout.records(), layout.stored().record_bytes);
    let records = stream(&label, layout.records() * layout.stored().record_bytes);
    let database = crate::common::database::<Merkle>(layout, &records);
    let commitments = database.commitments().unwrap();
    (label, database, commitments)
}

/// Instant lookups: one leaf, several levels, groups of one record, short last groups, and a group as long as the partition.
fn instant() -> Value {
    let single = [
        (1, 1, 1, 1, 1),
        (40, 64, 3, 14, 1),
        (2000, 32, 4, 501, 1),
        (33, 300, 3, 11, 1),
        (5, 8, 1, 5, 1),
        (2100, 256, 2, 1050, 1), // five levels of correction, and two bytes of their bits
    ];
    // Groups of one block and of several.
    let packed = [(77, 32, 3, 32, 8), (1999, 8, 4, 504, 4)];
    single
        .into_iter()
        .chain(packed)
        .map(|(n, l, q, m, g)| {
            let layout = Layout::packed(n, l, q, m, g).unwrap();
            let (label, database, commitments) = labelled(layout);
            let indices = [0, n as u32 - 1, n as u32 / 2];
            let entropy = stream(&format!("instant {n} {l}"), 32);
            let pending = instant::query::query(&layout, &indices, entropy.as_slice().try_into().unwrap()).unwrap();
            let answers = [0, 1].map(|server| answered(&database, pending.request(server).unwrap()));
            let requests = [0, 1].map(|server| hex(pending.request(server).unwrap()));
            let records = instant::recon::recon(&pending, &commitments, &[&answers[0], &answers[1]]).unwrap().unwrap();
            json!({
                "layout": layout_json(&layout),
                "recordsLabel": label,
                "commitments": hex(commitments),
                "indices": indices,
                "entropy": hex(entropy),
                "requests": requests,
                "answers": answers.map(hex),
                "records": hex(records),
            })
        })
        .collect()
}

/// Instant lookups with three servers or more.
fn any_of_k() -> Value {
    let packed = [((40, 64, 3, 14, 1), 3), ((2000, 32, 4, 501, 1), 3), ((77, 32, 3, 32, 8), 5), ((5, 8, 1, 5, 1), 8)];
    packed
        .into_iter()
        .map(|((n, l, q, m, g), servers)| {
            let layout = Layout::packed(n, l, q, m, g).unwrap();
            let (label, database, commitments) = labelled(layout);
            let indices = [n as u32 - 1, 0];
            let entropy = stream(&format!("any of {servers} {n}"), 32);
            let pending =
                instant::query::query_any_of(&layout, servers, &indices, entropy.as_slice().try_into().unwrap()).unwrap();
            let shape = instant::vectors::shape(&layout, servers);
            let answers: Vec<Vec<u8>> = (0..servers)
                .map(|server| {
                    let form = pending.form(server).unwrap();
                    let queries = instant::vectors::queries(&shape, form, pending.request(server).unwrap()).unwrap();
                    let asked: Vec<_> = queries.map(|query| (form, query, At::Newest)).collect();
                    instant::pass::answer_vectors(&database, servers, &asked).unwrap().concat()
                })
                .collect();
            let all: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
            let records = instant::recon::recon(&pending, &commitments, &all).unwrap().unwrap();
            json!({
                "layout": layout_json(&layout),
                "recordsLabel": label,
                "commitments": hex(commitments),
                "servers": servers,
                "indices": indices,
                "entropy": hex(entropy),
                "vectorsFrom": (0..servers).find(|&server| pending.form(server) == Some(instant::vectors::Form::Vector)),
                "requests": (0..servers).map(|server| hex(pending.request(server).unwrap())).collect::<Vec<_>>(),
                "answers": answers.iter().map(hex).collect::<Vec<_>>(),
                "records": hex(records),
            })
        })
        .collect()
}

/// Instant lookups of directory blocks, of existing keys and a missing one.
fn instant_directory() -> Value {
    let (count, slots) = (17u32, 34);
    let prints: Vec<[u8; 16]> = (0..count).map(print_of).collect();
    let directory = Directory::build(prints.as_flattened(), slots).unwrap();
    let (shape, database) = (directory.shape(), directory.database().unwrap());
    let commitment = database.commitment(0).unwrap();
    let keys = ["key 16", "absent 0"];
    let numbers = keys.map(|key| shape.number(&fingerprint(key.as_bytes())));
    let entropy = stream("instant directory", 32);
    let pending = instant::query::query(database.layout(), &numbers, entropy.as_slice().try_into().unwrap()).unwrap();
    let requests = [0, 1].map(|server| pending.request(server).unwrap().to_vec());
    let answers = [0, 1].map(|server| answered(&database, &requests[server]));
    let blocks = instant::recon::recon(&pending, &commitment, &[&answers[0], &answers[1]]).unwrap().unwrap();
    let indices: Vec<_> = blocks
        .chunks_exact(shape.block_bytes())
        .zip(keys)
        .map(|(block, key)| shape.index(block, &fingerprint(key.as_bytes()), count).unwrap())
        .collect();
    json!({
        "directoryKeys": count,
        "slots": slots,
        "keys": keys,
        "blocks": numbers,
        "entropy": hex(entropy),
        "requests": requests.map(hex),
        "answers": answers.map(hex),
        "indices": indices,
    })
}

/// A server's answers to a request's queries.
fn answered(database: &Database<Merkle>, body: &[u8]) -> Vec<u8> {
    let keys: Vec<_> = instant::queries(database.layout(), body).unwrap().map(|key| (key, At::Newest)).collect();
    instant::pass::answer(database, &keys).unwrap().concat()
}

/// Answers that a client must refuse, with one bit changed, and requests that a server must refuse.
fn instant_refused() -> Value {
    // A short last group; and an offset whose siblings are missing, except for the uppermost.
    let cases = [
        (
            (40, 64, 3, 14),
            13,
            vec![
                ("the record asked for", 64),
                ("another record of its group", 0),
                ("what is beyond the partition, at its beginning", 128),
                ("what is beyond the partition, at its end", 255),
                ("the first sibling", 256),
                ("the last sibling", 319),
            ],
        ),
        (
            (10, 256, 2, 5),
            4,
            vec![
                ("a sibling that is not there", 256),
                ("the next, which is not there either", 319),
                ("the sibling that is there", 351),
            ],
        ),
    ];
    let answers = cases.map(|((n, l, q, m), index, bits)| {
        let layout = Layout::new(n, l, q, m).unwrap();
        let (label, database, commitments) = labelled(layout);
        let entropy = stream(&format!("instant refused {n}"), 32);
        let pending = instant::query::query(&layout, &[index], entropy.as_slice().try_into().unwrap()).unwrap();
        let answers = [0, 1].map(|server| answered(&database, pending.request(server).unwrap()));
        let reads = |one: &[u8]| instant::recon::recon(&pending, &commitments, &[one, &answers[1]]).unwrap();
        assert!(reads(&answers[0]).is_some());
        let refused = bits.into_iter().map(|(because, at)| {
            let mut changed = answers[0].clone();
            changed[at] ^= 1;
            assert_eq!(reads(&changed), None, "{because}");
            json!({ "because": because, "at": at })
        });
        let refused: Vec<_> = refused.collect();
        json!({
            "layout": layout_json(&layout),
            "recordsLabel": label,
            "index": index,
            "entropy": hex(entropy),
            "answerBytes": answers[0].len(),
            "refused": refused,
        })
    });
    let layout = Layout::new(2000, 32, 4, 501).unwrap();
    let entropy = stream("instant refused", 32).try_into().unwrap();
    let query = instant::query::query(&layout, &[7], &entropy).unwrap().request(0).unwrap().to_vec();
    let with = |at: usize, byte: u8| {
        let mut changed = query.clone();
        changed[at] = byte;
        changed
    };
    let party = query.len() - 1;
    instant::pass::check(&layout, &query).unwrap();
    let requests = [
        ("no bytes", Vec::new()),
        ("a byte too few", query[..party].to_vec()),
        ("a byte too many", [query.clone(), vec![0]].concat()),
        ("a query and a half", [query.clone(), query[..25].to_vec()].concat()),
        ("party 2", with(party, 2)),
        ("party 255", with(party, 255)),
        ("the first unused bit", with(32, query[32] | 4)),
        ("the last unused bit", with(32, query[32] | 0x80)),
        ("party 2 in the second", [query.clone(), with(party, 2)].concat()),
    ]
    .map(|(because, bytes)| {
        assert!(instant::pass::check(&layout, &bytes).is_err(), "{because}");
        json!({ "because": because, "bytes": hex(bytes) })
    });
    json!({ "answers": answers, "requests": { "layout": layout_json(&layout), "taken": hex(&query), "refused": requests } })
}

/// Hints for one server: stripes that end within partitions, records that are no whole number of words, blocks of several records;
/// a record asked for again, alone and in one lookup.
fn single() -> Value {
    [(256, 5, 4, 64, 1), (330, 9, 3, 112, 4), (7, 40, 1, 7, 1)]
        .map(|(n, l, q, m, g)| {
            let layout = Layout::packed(n, l, q, m, g).unwrap();
            let (label, database, _) = labelled(layout);
            let entropy = stream(&format!("single {n} {l}"), 32);
            let hashes = database.content_hashes().unwrap();
            let mut builder = Builder::new(layout, &hashes, 12, entropy.as_slice().try_into().unwrap()).unwrap();
            for partition in 0..layout.partitions() {
                assert!(keep(&mut builder, 0, partition, database.partition(partition).unwrap()));
            }
            let hint = builder.finish_at(0).map_err(|(error, _)| error).unwrap();
            let mut asked: Asked<Merkle, _> = Asked::new(hint);
            let last = n as u32 - 1;
            let asked = [vec![0], vec![last, 3, last], vec![3, 0, 0, last / 2]].map(|indices| {
                let entropy = stream(&format!("single {n} {l} {indices:?}"), 32);
                asked.query(&indices, entropy.as_slice().try_into().unwrap()).unwrap();
                let queries = asked.request(0).unwrap();
                let reply = answer(3, &database, &queries, At::Newest).unwrap();
                asked.verify(0, &reply).unwrap();
                let records = asked.recon().unwrap();
                assert_eq!(asked.missed(), 0);
                json!({
                    "indices": indices,
                    "entropy": hex(entropy),
                    "queries": hex(queries),
                    "answer": hex(reply),
                    "records": hex(records),
                })
            });
            json!({
                "layout": layout_json(&layout),
                "recordsLabel": label,
                "hintEntropy": hex(entropy),
                "lookups": 12,
                "asked": asked,
            })
        })
        .into()
}

#[test]
fn the_native_core_agrees_with_the_shared_vectors() {
    let computed = json!({
        "comment": "Made by rust-core/core/tests/vectors.rs. Bytes are hex. Record bytes are BLAKE3's output stream of recordsLabel.",
        "keys": keys(),
        "plans": plans(),
        "permutations": permutations(),
        "directories": directories(),
        "largeDirectories": large_directories(),
        "directoryReading": directory_reading(),
        "directoryBlocks": directory_blocks(),
        "generations": generations(),
        "lookups": lookups(Proofs::Openings),
        "tagLookups": lookups(Proofs::Tags),
        "instant": instant(),
        "anyOfK": any_of_k(),
        "instantDirectory": instant_directory(),
        "instantRefused": instant_refused(),
        "single": single(),
    });
    hold_to("core", &computed);
}

/// Writes a file anew if that is asked for. Otherwise compares the computed values with it.
fn hold_to(file: &str, computed: &Value) {
    let path = format!("{FOLDER}/{file}.json");
    if std::env::var_os("KEYHUSH_WRITE_VECTORS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(computed).unwrap() + "\n").unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (section, value) in computed.as_object().unwrap() {
        assert_eq!(
            &stored[section], value,
            "{file}, section {section}: other bytes are another suite or format, so that no release calls another a liar. \
             Give it a new number, then write the vectors anew (KEYHUSH_WRITE_VECTORS=1)",
        );
    }
}

/// An operation as in the file. With keys the record is fingerprint and value; without, the value.
struct Step {
    op: &'static str,
    key: Option<u32>,
    index: Option<u32>,
    value: Vec<u8>,
}

impl Step {
    fn key(op: &'static str, key: u32, value: &str) -> Self {
        Step { op, key: Some(key), index: None, value: stream(value, if op == "delete" { 0 } else { 4 }) }
    }

    fn index(op: &'static str, index: Option<u32>, value: &str) -> Self {
        Step { op, key: None, index, value: stream(value, if op == "delete" { 0 } else { 4 }) }
    }

    fn record(&self) -> Vec<u8> {
        [self.key.map(print_of).map(Vec::from).unwrap_or_default(), self.value.clone()].concat()
    }

    fn json(&self) -> Value {
        let mut json = json!({ "op": self.op });
        if let Some(key) = self.key {
            json["key"] = format!("key {key}").into();
        }
        if let Some(index) = self.index {
            json["index"] = index.into();
        }
        if self.op != "delete" {
            json["value"] = hex(&self.value).into();
        }
        json
    }
}

/// Steps, with what their operations borrow.
struct Batch<'a> {
    steps: &'a [Step],
    records: Vec<Vec<u8>>,
    prints: Vec<[u8; 16]>,
}

impl<'a> Batch<'a> {
    fn of(steps: &'a [Step]) -> Self {
        let print = |step: &Step| step.key.map(print_of).unwrap_or_default();
        let (records, prints) = (steps.iter().map(Step::record).collect(), steps.iter().map(print).collect());
        Batch { steps, records, prints }
    }

    fn operations(&self) -> Vec<Operation<'_>> {
        let operation = |(i, step): (usize, &Step)| match (step.op, step.key, step.index) {
            ("add", ..) => Operation::Add(&self.records[i]),
            ("edit", Some(_), _) => Operation::EditKey(&self.records[i]),
            ("delete", Some(_), _) => Operation::DeleteKey(&self.prints[i]),
            ("edit", None, Some(index)) => Operation::EditIndex(index, &self.records[i]),
            ("delete", None, Some(index)) => Operation::DeleteIndex(index),
            other => panic!("no operation: {other:?}"),
        };
        self.steps.iter().enumerate().map(operation).collect()
    }
}

/// The first key from `key` on that is not in the first directory of a life, but is still mapped to `index` of `records`, because no
/// level has it.
fn key_by_fallback(key: u32, index: u32, records: u32) -> u32 {
    let directory = Directory::build(&(0..5).flat_map(print_of).collect::<Vec<u8>>(), 5).unwrap();
    let falls_back = |key: u32, records: u32| {
        let rest = u128::from_le_bytes(print_of(key)) % u128::from(records);
        directory.index(&print_of(key), records).unwrap() == rest as u32
    };
    let led_to = |key: u32| directory.index(&print_of(key), records).unwrap() == index;
    (key..key + 10_000)
        .find(|key| led_to(*key) && (records..records + 20).all(|records| falls_back(*key, records)))
        .unwrap()
}

/// Two databases of a few records through some epochs. They have: adds that fill empty slots and open partitions, edits, deletes,
/// a key deleted and added again, an added key deleted again, an edit that changes nothing, and adds of keys whose index the
/// directory gives anyway: by a level, so that the overlay has no entry; by the fallback, at N before and after, so that it has.
fn lives() -> Value {
    let keyed = vec![
        vec![
            Step::key("delete", 1, ""),
            Step::key("add", 5, "a"),
            Step::key("edit", 2, "b"),
            Step::key("delete", 3, ""),
            Step::key("add", 3, "c"),
            Step::key("add", 6, "d"),
            Step::key("delete", 6, ""),
        ],
        vec![Step::key("add", 7, "e"), Step::key("add", 1, "f"), Step::key("edit", 5, "g"), Step::key("add", 8, "h")],
        vec![
            Step::key("edit", 8, "h"),
            Step::key("delete", 5, ""),
            Step::key("edit", 0, "i"),
            Step::key("edit", 0, "j"),
        ],
        vec![
            Step::key("add", key_by_fallback(100, 5, 8), "q"),
            Step::key("add", key_by_fallback(200, 8, 9), "r"),
            Step::key("delete", 0, ""),
        ],
        vec![Step::key("add", 0, "s")],
    ];
    let keyless = vec![
        vec![
            Step::index("edit", Some(1), "k"),
            Step::index("delete", Some(0), ""),
            Step::index("add", None, "l"),
            Step::index("add", None, "m"),
            Step::index("edit", Some(5), "n"),
        ],
        vec![Step::index("add", None, "o"), Step::index("delete", Some(7), ""), Step::index("edit", Some(0), "p")],
    ];
    [("keyed", true, 1, &keyed), ("keyless", false, 1, &keyless), ("keyed, two a block", true, 2, &keyed)]
        .map(|(name, keyed, g, epochs)| life(name, keyed, g, epochs))
        .into()
}

/// The database with which a life begins, of five records with `values` of four bytes each.
fn first_of(keyed: bool, g: u64, values: impl Fn(usize) -> Vec<u8>) -> (Database<Merkle>, Option<Directory>) {
    let layout = Layout::plan_packed(5, if keyed { 20 } else { 4 }, Some(2), g).unwrap();
    let prints: Vec<u8> = (0..5).flat_map(print_of).collect();
    let directory = keyed.then(|| Directory::build(&prints, layout.room()).unwrap());
    let mut content = vec![0; layout.records() * layout.stored().record_bytes];
    for (i, value) in values(4 * layout.records()).chunks_exact(4).enumerate() {
        let place = match &directory {
            Some(directory) => directory.index(&print_of(i as u32), 5).unwrap() as usize,
            None => i,
        };
        let record = if keyed { [print_of(i as u32).as_slice(), value].concat() } else { value.to_vec() };
        content[place * record.len()..][..record.len()].copy_from_slice(&record);
    }
    (database::<Merkle>(layout, &content), directory)
}

fn life(name: &str, keyed: bool, g: u64, epochs: &[Vec<Step>]) -> Value {
    let label = format!("values of {name}");
    let (mut newest, mut directory) = first_of(keyed, g, |count| stream(&label, count));
    let first = json!({
        "name": name,
        "layout": layout_json(newest.layout()),
        "valuesLabel": label,
        "directory": hex(directory.as_ref().map(Directory::encode).unwrap_or_default()),
    });
    let epochs: Vec<Value> = epochs
        .iter()
        .map(|steps| {
            let batch = Batch::of(steps);
            let operations = batch.operations();
            let before = *newest.layout();
            let old = directory.take();
            let mut elsewhere = database::<Merkle>(before, newest.records_mut());
            let epoch = apply(&mut newest, old.as_ref(), &operations).map_err(|refused| refused.reason).unwrap();
            directory = epoch.directory;
            // A reader of the list gets the same.
            let list = UpdateList::decode(epoch.list.bytes(), before, *newest.layout()).unwrap();
            apply_list(&mut elsewhere, &list).unwrap();
            assert_eq!(elsewhere.records_mut(), newest.records_mut());
            let followed = old.as_ref().map(|old| old.updated(&list).unwrap().encode());
            assert_eq!(followed, directory.as_ref().map(Directory::encode));
            json!({
                "operations": steps.iter().map(Step::json).collect::<Vec<_>>(),
                "layout": layout_json(newest.layout()),
                "list": hex(epoch.list.bytes()),
                "directory": hex(directory.as_ref().map(Directory::encode).unwrap_or_default()),
                "commitments": hex(newest.commitments().unwrap()),
                "contentHashes": hex(newest.content_hashes().unwrap()),
            })
        })
        .collect();
    let mut life = first;
    life["epochs"] = epochs.into();
    life
}

/// Batches on the database with which the keyed life begins. They add more keys to one directory block, or to two, than it has room
/// for. Each has the number of the impossible operation, from 0, or none. A key's value is four zero bytes.
fn overfull() -> Value {
    let (mut first, directory) = first_of(true, 1, |count| vec![0; count]);
    let (layout, content, directory) = (*first.layout(), first.records_mut().to_vec(), directory.unwrap());
    let shape = directory.shape();
    let taken: Vec<u32> = (0..5).map(|key| shape.number(&print_of(key))).collect();
    let free: Vec<u32> = (0..1 << shape.log()).filter(|number| !taken.contains(number)).collect();
    let (low, high) = (free[20], free[60]);
    let room = (shape.block_bytes() - 8) / 20;
    let keys_of = |number: u32| -> Vec<u32> {
        (5..).filter(|key| shape.number(&print_of(*key)) == number).take(room + 2).collect()
    };
    let (low, high, other) = (keys_of(low), keys_of(high), keys_of(free[0])[0]);
    let adds = |keys: &[u32]| keys.iter().map(|key| ("add", *key)).collect::<Vec<_>>();
    let last = room as u64; // of room + 1 adds, if they come first
    let cases = [
        ("as many as there is room for", adds(&low[..room]), None),
        ("one more, and another key behind", [adds(&low[..=room]), adds(&[other])].concat(), Some(last)),
        (
            "two directory blocks: the lower counts",
            [adds(&high[..=room]), adds(&low[..=room]), adds(&high[room + 1..])].concat(),
            Some(2 * last + 1),
        ),
        (
            "what cannot be by itself comes first, though it stands behind",
            [adds(&low[..=room]), vec![("delete", other)]].concat(),
            Some(last + 1),
        ),
        ("one more, one of them deleted again", [adds(&low[..=room]), vec![("delete", low[3])]].concat(), None),
        (
            "two more, the last deleted again",
            [adds(&low[..room + 2]), vec![("delete", low[room + 1])]].concat(),
            Some(last + 1),
        ),
    ];
    cases
        .map(|(because, steps, operation)| {
            let step = |&(op, key)| Step { op, key: Some(key), index: None, value: vec![0; 4] };
            let made: Vec<Step> = steps.iter().map(step).collect();
            let batch = Batch::of(&made);
            let refused = apply(&mut database::<Merkle>(layout, &content), Some(&directory), &batch.operations()).err();
            assert_eq!(refused.map(|refused| refused.operation as u64), operation, "{because}");
            let steps: Vec<_> = steps.iter().map(|(op, key)| format!("{op} key {key}")).collect();
            json!({ "because": because, "operations": steps, "refusedAt": operation })
        })
        .into()
}

/// Lists that a reader must refuse, each with one change to a list that it accepts. That list leads from 3 records of a byte to 4:
/// the first is edited, the third deleted and the fourth added.
fn refused_lists() -> Value {
    let [before, after] = [3, 4].map(|records| Layout::new(records, 1, 2, 2).unwrap());
    let list = |entries: &[u8]| -> Vec<u8> {
        let mut bytes = [b"PIRU".as_slice(), &1u16.to_le_bytes(), &[0; 2]].concat();
        let count = entries.len() as u32 / 6;
        for number in [3, 2, 4, 2, 2, 1, count, 0u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        [bytes, entries.to_vec()].concat()
    };
    let delta = [0, 0, 0, 0, 2, 9, 2, 0, 0, 0, 3, 8, 3, 0, 0, 0, 1, 7];
    let with = |at: usize, byte: u8| {
        let mut bytes = list(&delta);
        bytes[at] = byte;
        bytes
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another magic", with(0, b'Q')),
        ("another format", with(4, 2)),
        ("a reserved byte", with(6, 1)),
        ("the other reserved byte", with(7, 1)),
        ("another N before", with(8, 2)),
        ("another Q before", with(12, 1)),
        ("another N after", with(16, 3)),
        ("another Q after", with(20, 3)),
        ("another M", with(24, 3)),
        ("another record length", with(28, 2)),
        ("another count", with(32, 2)),
        ("another g", with(36, 1)),
        ("more of g", with(37, 1)),
        ("no header", list(&[])[..39].to_vec()),
        ("a broken entry", list(&delta)[..57].to_vec()),
        ("a byte too many", [list(&delta), vec![0]].concat()),
        ("kind 0", with(44, 0)),
        ("kind 4", with(44, 4)),
        ("an index twice", with(46, 0)),
        ("entries out of order", list(&[2, 0, 0, 0, 3, 8, 0, 0, 0, 0, 2, 9, 3, 0, 0, 0, 1, 7])),
        ("an index beyond N", with(52, 4)),
        ("an edit beyond the old N", with(56, 2)),
        ("a delete beyond the old N", with(56, 3)),
        ("an entry that changes nothing", with(45, 0)),
    ];
    UpdateList::decode(&list(&delta), before, after).unwrap();
    let refused: Vec<Value> = cases
        .iter()
        .map(|(because, bytes)| {
            assert!(UpdateList::decode(bytes, before, after).is_err(), "{because}");
            json!({ "because": because, "bytes": hex(bytes) })
        })
        .collect();
    json!({
        "before": layout_json(&before),
        "after": layout_json(&after),
        "list": hex(list(&delta)),
        "refused": refused,
    })
}

#[test]
fn the_native_core_agrees_with_the_shared_vectors_of_updates() {
    let computed = json!({
        "comment": "Made by rust-core/core/tests/vectors.rs. Bytes are hex. Four bytes a record are BLAKE3's output stream of valuesLabel.",
        "lives": lives(),
        "overfull": overfull(),
        "lists": refused_lists(),
    });
    hold_to("updates", &computed);
}
