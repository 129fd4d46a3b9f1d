//! Compares the native crate with `packages/pointproofs/test/vectors.json`. The WASM build and the independent TypeScript
//! implementation are compared with the same file. Sizes are at the boundaries of rows: M = 1, 255, 256 and 257.
//!
//! After a deliberate change of format, write the file anew:
//! `KEYHUSH_WRITE_VECTORS=1 cargo test -p keyhush-pointproofs --test vectors`.

use keyhush_pointproofs::prover::{Edit, Prover, prove_together};
use keyhush_pointproofs::transcript::Transcript;
use keyhush_pointproofs::{Key, Rows, Shape, Statement, verify};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test/vectors.json");

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// BLAKE3's output stream for a label: everybody can compute these bytes.
fn stream<const COUNT: usize>(label: &str) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    blake3::Hasher::new().update(label.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Records; every record i with i mod 5 = 4 is empty.
fn records(label: &str, shape: &Shape) -> Vec<u8> {
    let mut bytes = vec![0; shape.partitions() * shape.partition_records() * shape.record_bytes()];
    blake3::Hasher::new().update(label.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes.chunks_exact_mut(shape.record_bytes()).skip(4).step_by(5).for_each(|record| record.fill(0));
    bytes
}

fn database(prover: &Prover, key: &Key, shape: [usize; 3], asked: &[&[u16]]) -> Value {
    let [partitions, partition_records, record_bytes] = shape;
    let shape = Shape::new(partitions, partition_records, record_bytes).unwrap();
    let label = format!("records of {partitions} times {partition_records}");
    let records = records(&label, &shape);
    let partition_bytes = partition_records * record_bytes;
    let made: Vec<_> = (0..partitions)
        .map(|q| prover.prove(&shape, q, &records[q * partition_bytes..][..partition_bytes]).unwrap())
        .collect();
    let lists: Vec<u8> = made.iter().flat_map(|partition| partition.row_list.clone()).collect();
    let rows = Rows::decode(shape, key, &lists).unwrap();
    let answers = asked.iter().map(|offsets| {
        let (manifest, header) = (stream("manifest"), stream("header"));
        let places: Vec<_> = offsets.iter().enumerate().map(|(n, &m)| (n % partitions, usize::from(m))).collect();
        let found: Vec<u8> = places
            .iter()
            .flat_map(|&(q, m)| &records[(q * partition_records + m) * record_bytes..][..record_bytes])
            .copied()
            .collect();
        let statement = Statement::new(shape, &manifest, &header, offsets, &found).unwrap();
        let openings: Vec<_> = places.iter().map(|&(q, m)| made[q].openings.as_chunks().0[m]).collect();
        let proof = prove_together(&statement, &openings).unwrap();
        assert!(verify(key, &rows, &statement, &proof).unwrap());
        json!({ "offsets": offsets, "proof": hex(proof) })
    });
    let answers: Vec<_> = answers.collect();
    json!({
        "partitions": partitions, "partitionRecords": partition_records, "recordBytes": record_bytes,
        "recordsLabel": label, "rowLists": hex(&lists),
        "openingsHashes": made.iter().map(|partition| blake3::hash(&partition.openings).to_hex().to_string()).collect::<Vec<_>>(),
        "answers": answers,
    })
}

/// Edits of the last database, two of one record and one of an empty one: the rows that they touch, and proofs at the epoch after
/// them, from openings made before them.
fn update(prover: &Prover, key: &Key) -> Value {
    let (partitions, partition_records, record_bytes) = (3, 257, 7);
    let shape = Shape::new(partitions, partition_records, record_bytes).unwrap();
    let mut records = records("records of 3 times 257", &shape);
    let partition_bytes = partition_records * record_bytes;
    let made_of = |records: &[u8]| -> Vec<_> {
        (0..partitions)
            .map(|q| prover.prove(&shape, q, &records[q * partition_bytes..][..partition_bytes]).unwrap())
            .collect()
    };
    let before = made_of(&records);
    let at = |index: usize| index * record_bytes..(index + 1) * record_bytes;
    let edited: [(usize, [u8; 7]); 5] =
        [(0, stream("edit 0")), (4, stream("edit 1")), (256, [0; 7]), (0, stream("edit 3")), (512, stream("edit 4"))];
    let mut edits = Vec::new();
    for (index, new) in edited {
        let row = index / partition_records * 2 + index % partition_records / 256;
        edits.push((row, Edit::new(index as u64, index % partition_records, &records[at(index)], &new)));
        records[at(index)].copy_from_slice(&new);
    }
    let touched = [0, 1, 2]; // record 512 is the last of the second partition's first row
    let mut rows: Vec<[u8; 48]> =
        touched.iter().map(|row| before[row / 2].row_list[32 + row % 2 * 48..][..48].try_into().unwrap()).collect();
    prover.follow(&mut rows, &edits).unwrap();
    let after = made_of(&records);
    for (row, commitment) in touched.iter().zip(&rows) {
        assert_eq!(after[row / 2].row_list[32 + row % 2 * 48..][..48], commitment[..], "row {row}");
    }
    let lists: Vec<u8> = after.iter().flat_map(|partition| partition.row_list.clone()).collect();
    let rows_after = Rows::decode(shape, key, &lists).unwrap();
    let (manifest, header) = (stream("manifest"), stream("header"));
    let answers = [[0_u16, 255, 9], [4, 0, 4], [256, 256, 256]].map(|offsets| {
        let places: Vec<_> = offsets.iter().enumerate().map(|(q, &m)| (q, usize::from(m))).collect();
        let found: Vec<u8> =
            places.iter().flat_map(|&(q, m)| &records[at(q * partition_records + m)]).copied().collect();
        let statement = Statement::new(shape, &manifest, &header, &offsets, &found).unwrap();
        let old: Vec<_> = places.iter().map(|&(q, m)| before[q].openings.as_chunks().0[m]).collect();
        let of_entries: Vec<_> = edits
            .iter()
            .filter(|&&(row, _)| usize::from(offsets[row / 2]) / 256 == row % 2)
            .map(|&(row, edit)| (row / 2, edit))
            .collect();
        let proof = prover.prove_edited(&statement, &old, &of_entries).unwrap();
        assert!(verify(key, &rows_after, &statement, &proof).unwrap());
        json!({ "offsets": offsets, "proof": hex(proof) })
    });
    json!({
        "edits": edited.map(|(index, new)| json!({ "index": index, "value": hex(new) })),
        "touched": touched.iter().zip(&rows).map(|(row, bytes)| json!({ "row": row, "commitment": hex(bytes) })).collect::<Vec<_>>(),
        "answers": answers,
    })
}

fn vectors() -> Value {
    let mut contributions = Vec::new();
    let mut bytes = Transcript::begin(true);
    let begun = hex(blake3::hash(&bytes).as_bytes());
    for name in ["Ada", "Grace ♥"] {
        let verified = Transcript::decode(&bytes).unwrap().verify(&[1; 32]).unwrap();
        let contributed = verified.contribute(name, &stream(name)).unwrap();
        bytes = contributed.transcript;
        contributions.push(json!({
            "name": name, "entropy": hex(stream::<32>(name)), "receipt": hex(contributed.receipt),
            "transcriptHash": hex(blake3::hash(&bytes).as_bytes()),
        }));
    }
    let verified = Transcript::decode(&bytes).unwrap().verify(&[1; 32]).unwrap();
    let key_bytes = verified.key().unwrap();
    let hash = *blake3::hash(&key_bytes).as_bytes();
    let (prover, key) = (Prover::new(&verified).unwrap(), Key::decode(&key_bytes, &hash, true).unwrap());
    json!({
        "ceremony": { "development": true, "begunHash": begun, "contributions": contributions, "keyHash": hex(hash) },
        "databases": [
            database(&prover, &key, [1, 1, 1], &[&[0], &[0, 0]]),
            database(&prover, &key, [2, 255, 32], &[&[0, 254], &[4, 253]]),
            database(&prover, &key, [1, 256, 100], &[&[255], &[0, 255, 128]]),
            database(&prover, &key, [3, 257, 7], &[&[256, 255, 0], &[1, 256, 4, 250, 2, 256]]),
        ],
        "update": update(&prover, &key),
    })
}

#[test]
fn the_shared_vectors_are_what_this_crate_makes() {
    let made = serde_json::to_string_pretty(&vectors()).unwrap() + "\n";
    if std::env::var_os("KEYHUSH_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &made).unwrap();
    }
    assert!(made == std::fs::read_to_string(FILE).unwrap(), "vectors.json is of another format; see this file's head");
}
