//! Compares the native core with `tests/interop/vectors/one-server.json`. WebAssembly and the independent TypeScript implementation are
//! compared with the same file. Small rings, which the slow one can prepare, have several outputs and chunks, paths and padding.
//!
//! After a deliberate change of format, write the file anew:
//! `KEYHUSH_WRITE_VECTORS=1 cargo test -p keyhush-core one_server_vectors`.

use crate::common::stream;
use keyhush_core::one_server::client::Query;
use keyhush_core::one_server::gauss::tables;
use keyhush_core::one_server::prepare::Preparing;
use keyhush_core::one_server::{Context, DEGREE, Of, Shape};
use serde_json::{Map, Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/vectors/one-server.json");

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The first query's answer with half a step added to one row after the other: 1 where it is accepted all the same, which own noise
/// decides.
fn verdicts(shape: &Shape, answers: &[u8], hint: &[u8], query: impl Fn() -> Query) -> String {
    let rows = shape.rows().min(16);
    (0..rows)
        .map(|row| {
            let mut lie = answers.to_vec();
            let (at, shift) = (row * 7 / 8, row * 7 % 8);
            let sum = u16::from_le_bytes([lie[at], *lie.get(at + 1).unwrap_or(&0)]);
            let mask = 0x7f << shift;
            let changed = (sum & !mask) | (sum + (4 << shift)) & mask;
            lie.iter_mut().skip(at).zip(changed.to_le_bytes()).for_each(|(to, from)| *to = from);
            if query().decode(hint, &lie).unwrap().is_some() { '1' } else { '0' }
        })
        .collect()
}

fn lookup(degree: usize, records: u64, record_bytes: u64, of: Of, attempt: u32, indices: &[u32]) -> Value {
    let shape = Shape::of_degree(degree, records, record_bytes).unwrap();
    let label = format!("one server, {records} of {record_bytes}");
    let bytes = stream(&label, (records * record_bytes) as usize);
    let context = Context { database_id: *stream("id", 16).first_chunk().unwrap(), generation: 0x0102_0304, of };
    let mut preparing = Preparing::new(shape, context, attempt).unwrap();
    preparing.put(&bytes).unwrap();
    while preparing.step().unwrap() {}
    let database = preparing.finish().unwrap();
    let (manifest, entropy) = (stream("manifest", 32), stream(&format!("entropy of {label}"), 32));
    let ask = || {
        Query::new(shape, context, manifest.first_chunk().unwrap(), indices, entropy.first_chunk().unwrap()).unwrap()
    };
    let mut query = ask();
    let answers = database.answer(query.request()).unwrap();
    let wanted: Vec<u8> = indices
        .iter()
        .flat_map(|&index| bytes[index as usize * shape.record_bytes()..][..shape.record_bytes()].to_vec())
        .collect();
    assert_eq!(*query.decode(database.hint(), &answers).unwrap().unwrap(), *wanted);
    json!({
        "degree": degree,
        "records": records,
        "recordBytes": record_bytes,
        "recordsLabel": label,
        "databaseId": hex(context.database_id),
        "generation": context.generation,
        "of": if of == Of::Records { "records" } else { "directory" },
        "attempt": attempt,
        "manifestHash": hex(&manifest),
        "entropy": hex(&entropy),
        "indices": indices,
        "requestHash": hex(blake3::hash(query.request()).as_bytes()),
        "hint": hex(database.hint()),
        "verdicts": verdicts(&shape, &answers, database.hint(), ask),
        "answers": hex(answers),
    })
}

#[test]
fn the_native_core_agrees_with_the_shared_vectors() {
    let tables: Map<String, Value> = tables()
        .into_iter()
        .map(|(tenths, table)| {
            (tenths.to_string(), table.iter().map(|entry| format!("{entry:016x}")).collect::<Vec<_>>().into())
        })
        .collect();
    let computed = json!({
        "comment": "Made by rust-core/core/tests/one_server_vectors.rs. Bytes are hex. Records are BLAKE3's output stream of recordsLabel.",
        "tables": tables,
        "lookups": [
            lookup(32, 1, 1, Of::Records, 0, &[0]),
            lookup(64, 262, 30, Of::Directory, 1, &[0, 261, 130]),
            lookup(64, 77, 100, Of::Records, 2, &[76]),
            lookup(128, 262, 90, Of::Records, 0, &[261]),
            lookup(DEGREE, 2000, 32, Of::Records, 0, &[1234]),
            lookup(DEGREE, 150, 1800, Of::Directory, 3, &[149, 3]),
        ],
    });
    let text = serde_json::to_string_pretty(&computed).unwrap() + "\n";
    if std::env::var_os("KEYHUSH_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let shared: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    assert!(computed == shared, "expected {FILE}, computed other vectors");
}
