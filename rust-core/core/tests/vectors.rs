//! Holds the native core to `tests/interop/vectors/core.json`, the file that the WASM build and the independent
//! TypeScript implementation are held to as well. Sizes sit at boundaries: M = 1 has no proof, 3 and 5 lack siblings,
//! 16 and 17 straddle a level; ℓ = 1, 32 and 100 are below, at half of and above a BLAKE3 block.
//!
//! After a deliberate change of format, write the file anew:
//! `PIROUETTE_WRITE_VECTORS=1 cargo test -p pirouette-core --test vectors`.

mod common;

use common::tags_of;
use pirouette_core::answer::Database;
use pirouette_core::commitment::{Merkle, Proofs};
use pirouette_core::directory::Directory;
use pirouette_core::generation::NextGeneration;
use pirouette_core::hint::HintBuilder;
use pirouette_core::key::{database_id, fingerprint};
use pirouette_core::layout::Layout;
use pirouette_core::permutation::Permutations;
use pirouette_core::query::{Role, query};
use pirouette_core::random::ChaCha;
use pirouette_core::recon::{recon, verify};
use serde_json::{Value, json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/vectors/core.json");

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// BLAKE3's output stream for a label: bytes anyone can make again.
fn stream(label: &str, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    blake3::Hasher::new().update(label.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn layout_json(layout: &Layout) -> Value {
    json!({
        "records": layout.records(),
        "recordBytes": layout.record_bytes(),
        "partitions": layout.partitions(),
        "partitionRecords": layout.partition_records(),
    })
}

fn keys() -> Value {
    let keys = ["", "a", "evil.example", "\u{1f512} b\u{fc}cher.example"];
    json!({
        "fingerprints": keys.map(|key| json!({ "key": key, "fingerprint": hex(fingerprint(key.as_bytes())) })),
        "databaseIds": keys.map(|name| json!({ "seed": name, "id": hex(database_id(name.as_bytes())) })),
    })
}

fn plans() -> Value {
    [(1, 1), (16, 32), (17, 32), (13_752, 16), (1 << 20, 32), ((1 << 20) + 1, 32), (1 << 20, 256), (4096, 65_536)]
        .map(|(records, record_bytes)| layout_json(&Layout::plan(records, record_bytes, None).unwrap()))
        .into()
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
            let prints: Vec<u8> = (0..count).flat_map(|i| fingerprint(format!("key {i}").as_bytes())).collect();
            let directory = Directory::build(&prints).unwrap();
            let absent: Vec<u8> = (0..8).flat_map(|i| fingerprint(format!("absent {i}").as_bytes())).collect();
            json!({
                "keys": count,
                "bytes": hex(directory.encode()),
                "indices": directory.indices(&prints, count).unwrap(),
                "absentIndices": directory.indices(&absent, count).unwrap(),
            })
        })
        .into()
}

/// Keyed databases with empty slots, and a keyless one, led to their next generation. Record i is the fingerprint of
/// "key i", or of every third i nothing, and four bytes of the label's stream.
fn generations() -> Value {
    [(true, 40, 3, 0), (true, 700, 5, 100), (true, 1, 1, 2000), (false, 60, 4, 7)]
        .map(|(keyed, count, q, headroom)| {
            let record_bytes = if keyed { 20 } else { 4 };
            let layout = Layout::new(count, record_bytes, q, count.div_ceil(q)).unwrap();
            let values = stream(&format!("values {count}"), 4 * layout.records());
            let records: Vec<u8> = values
                .chunks_exact(4)
                .enumerate()
                .flat_map(|(i, value)| match keyed {
                    true if i % 3 == 2 => vec![0; 20],
                    true => [fingerprint(format!("key {i}").as_bytes()).as_slice(), value].concat(),
                    false => value.to_vec(),
                })
                .collect();
            let mut old = Database::<Merkle>::new(layout).unwrap();
            old.records_mut()[..records.len()].copy_from_slice(&records);
            (0..layout.partitions()).for_each(|q| old.commit(q).unwrap());
            let mut next = NextGeneration::new(&old, keyed, headroom).unwrap();
            while next.step(&old).unwrap() {}
            let (database, directory) = next.finish().unwrap();
            let digests = |of: &dyn Fn(usize) -> [u8; 32]| -> Vec<u8> {
                (0..database.layout().partitions()).flat_map(of).collect()
            };
            json!({
                "keyed": keyed,
                "layout": layout_json(&layout),
                "valuesLabel": format!("values {count}"),
                "headroom": headroom,
                "next": layout_json(database.layout()),
                "directory": hex(directory.map(|directory| directory.encode()).unwrap_or_default()),
                "commitments": hex(digests(&|q| database.commitment(q).unwrap())),
                "contentHashes": hex(digests(&|q| database.content_hash(q).unwrap())),
            })
        })
        .into()
}

/// A whole life: digests, a hint, three batches, their vectors, answers (hashed) and records; with tags, the tags' key
/// and the tags as well (hashed).
fn lookups(proofs: Proofs) -> Value {
    [(1, 1, 1, 1), (5, 32, 2, 3), (10, 1, 2, 5), (64, 32, 4, 16), (60, 100, 4, 17), (33, 8, 1, 33)]
        .map(|(n, l, q, m)| {
            let layout = Layout::new(n, l, q, m).unwrap();
            let mut database = Database::<Merkle>::new(layout).unwrap();
            let bytes = layout.records() * layout.record_bytes();
            database.records_mut()[..bytes].copy_from_slice(&stream(&format!("records {n} {l}"), bytes));
            let content = database.records_mut().to_vec();
            (0..layout.partitions()).for_each(|q| database.commit(q).unwrap());
            let commitments: Vec<u8> = (0..layout.partitions()).flat_map(|q| database.commitment(q).unwrap()).collect();
            let hashes: Vec<u8> = (0..layout.partitions()).flat_map(|q| database.content_hash(q).unwrap()).collect();

            let seed = stream(&format!("hint {n} {l}"), 32);
            let entropy = seed.as_slice().try_into().unwrap();
            let mut builder = match proofs {
                Proofs::Openings => HintBuilder::new(layout, &commitments, &hashes, entropy).unwrap(),
                Proofs::Tags => HintBuilder::with_tags(layout, &hashes, entropy).unwrap(),
            };
            for (q, partition) in content.chunks_exact(layout.partition_bytes()).enumerate() {
                builder.begin(0, q).unwrap();
                builder.lane_bytes(0).unwrap().copy_from_slice(partition);
                builder.absorb(0, partition.len()).unwrap();
                assert!(builder.fold(0).unwrap());
            }
            let mut hint = builder.finish().map_err(|(error, _)| error).unwrap();
            let tags = tags_of(&hint);

            let last = n as u32 - 1;
            let batches = [vec![0], vec![last, last, 0], vec![last / 2, 0]].map(|indices| {
                let entropy = stream(&format!("query {n} {l} {indices:?}"), 32);
                let mut source = ChaCha::new(entropy.as_slice().try_into().unwrap(), 0);
                let mut pending = query(&mut hint, &indices, &mut source).unwrap();
                let mut out = json!({ "indices": indices, "entropy": hex(entropy) });
                for (role, name) in [(Role::Retrieve, "retrieve"), (Role::Refresh, "refresh")] {
                    let vectors = pending.vectors(role);
                    let answer = database.answer(&vectors, proofs).unwrap();
                    out[name] = json!({ "vectors": hex(vectors), "answerHash": hex(blake3::hash(&answer).as_bytes()) });
                    assert!(verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap());
                }
                let records = recon(&mut hint, pending).map_err(|(error, _)| error).unwrap().records;
                for (record, index) in records.chunks_exact(layout.record_bytes()).zip(&indices) {
                    let at = *index as usize * layout.record_bytes();
                    assert_eq!(record, &content[at..at + layout.record_bytes()]);
                }
                out["records"] = hex(records).into();
                out
            });
            let mut life = json!({
                "layout": layout_json(&layout),
                "recordsLabel": format!("records {n} {l}"),
                "commitments": hex(commitments),
                "contentHashes": hex(hashes),
                "hintEntropy": hex(seed),
                "batches": batches,
            });
            if let Some((key, tags)) = tags.split_first_chunk::<16>() {
                life["tagKey"] = hex(key).into();
                life["tagsHash"] = hex(blake3::hash(tags).as_bytes()).into();
            }
            life
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
        "generations": generations(),
        "lookups": lookups(Proofs::Openings),
        "tagLookups": lookups(Proofs::Tags),
    });
    if std::env::var_os("PIROUETTE_WRITE_VECTORS").is_some() {
        std::fs::write(PATH, serde_json::to_string_pretty(&computed).unwrap() + "\n").unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(PATH).unwrap()).unwrap();
    for (section, value) in computed.as_object().unwrap() {
        assert_eq!(&stored[section], value, "section {section}");
    }
}
