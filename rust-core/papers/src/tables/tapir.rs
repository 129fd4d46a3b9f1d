//! TAPIR, Table 1: the schemes that TAPIR is compared with. TAPIR itself is in the product's core.

use super::document::{Cell, Document, paper};
use super::measure::{Extent, batches, repeat};
use crate::apir::{dpf, matrix};
use crate::channel::Channel;
use crate::prg::{Aes, AesTree, Doubling};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::singlepass;

const BYTES: usize = 32;

/// The paper's figures: log₂ N; APIR-DPF's bytes and time online; APIR-Matrix-MT's server time offline, bytes and time online;
/// SinglePass's time offline and bytes online.
const PAPER: [(u32, [&str; 7]); 4] = [
    (18, ["1.43 KiB", "0.04 s", "0.58 s", "49.68 KiB", "0.01 s", "0.01 s", "34.50 KiB"]),
    (20, ["1.56 KiB", "0.17 s", "2.74 s", "104.36 KiB", "0.04 s", "0.05 s", "69.50 KiB"]),
    (22, ["1.69 KiB", "0.72 s", "11.54 s", "218.26 KiB", "0.16 s", "0.24 s", "139.51 KiB"]),
    (24, ["1.83 KiB", "2.97 s", "47.73 s", "454.87 KiB", "0.73 s", "0.96 s", "279.51 KiB"]),
];

pub fn table_1(document: &mut Document, extent: Extent) {
    document.say(
        "## TAPIR's baselines\n\nFalzon, Hetz, O'Toole: *TAPIR: A Two-Server Authenticated PIR Scheme with Preprocessing*, Table 1. Records of 32 \
         bytes, both servers together. TAPIR's own rows are in [benchmarks.md](benchmarks.md). APIR-DPF and APIR-Matrix-MT follow the text as \
         far as it defines them. Field, words and bit packing are ours, so bytes differ.",
    );
    let mut rows = Vec::new();
    for (log, [dpf_bytes, dpf_time, matrix_time, matrix_bytes, matrix_online, single_time, single_bytes]) in PAPER {
        let run = log <= 20 || extent == Extent::Full;
        let paper = |name, offline, bytes, time| paper(&format!("paper, {name}, 2^{log}"), [offline, bytes, time]);
        let database = run.then(|| Records::from_seed(8, 1 << log, BYTES));
        rows.push(paper("APIR-DPF", "", dpf_bytes, dpf_time));
        rows.push((format!("APIR-DPF, 2^{log}"), point_function(log, database.as_ref())));
        rows.push(paper("APIR-Matrix-MT", matrix_time, matrix_bytes, matrix_online));
        rows.push((format!("APIR-Matrix-MT, 2^{log}"), in_matrix(log, database.as_ref())));
        rows.push(paper("SinglePass", single_time, single_bytes, ""));
        rows.push((format!("SinglePass, 2^{log}"), single_pass(log, database)));
    }
    document.beside("TAPIR, Table 1", &["offline", "online bytes", "online"], &rows);
}

fn point_function(log: u32, database: Option<&Records>) -> Vec<Cell> {
    let bytes = 2 * (dpf::query_bytes(1 << log) + dpf::answer_bytes(BYTES));
    let Some(database) = database else { return vec![Cell::None, Cell::Formula(bytes), Cell::None] };
    let (tree, mut source) = (AesTree::new(), Random::from_seed(8));
    let mut lines = [Channel::default(); 2];
    let online = batches(5, 1, |_| {
        let index = source.below(1 << log) as usize;
        lines = [Channel::default(); 2];
        let found = dpf::lookup(&tree, database, index, &mut source, &mut lines);
        assert_eq!(found.expect("honest servers"), database.get(index));
    });
    counted(&lines, bytes, Cell::None, Cell::Time(online))
}

fn in_matrix(log: u32, database: Option<&Records>) -> Vec<Cell> {
    let geometry = matrix::Geometry::new(1 << log, BYTES).expect("a power of two");
    let bytes = 2 * (geometry.query_bytes() + geometry.answer_bytes());
    let Some(database) = database else { return vec![Cell::None, Cell::Formula(bytes), Cell::None] };
    let (offline, server) = repeat(1, || matrix::Server::new(database, geometry).expect("fits"));
    let mut source = Random::from_seed(8);
    let mut lines = [Channel::default(); 2];
    let online = batches(5, 1, |_| {
        let index = source.below(1 << log) as usize;
        lines = [Channel::default(); 2];
        let found = matrix::lookup(&geometry, index, &mut source, [&server, &server], &mut lines);
        assert_eq!(found.expect("honest servers"), database.get(index));
    });
    counted(&lines, bytes, Cell::Time(offline), Cell::Time(online))
}

fn single_pass(log: u32, database: Option<Records>) -> Vec<Cell> {
    let root = 1 << (log / 2);
    let bytes = singlepass::lookup_bytes::<u16>(root, BYTES);
    let Some(database) = database else { return vec![Cell::None, Cell::Formula(bytes), Cell::None] };
    let server = singlepass::Server::new(database, root).expect("√N");
    let (offline, hint) = repeat(5, || server.hint::<Aes, u16>(&[9; 16]));
    let kept = singlepass::Inverses::Kept;
    let client = singlepass::Client::<u16>::new::<Aes>(&hint, 1 << log, root, BYTES, kept);
    let (mut client, mut source) = (client.expect("as promised"), Random::from_seed(9));
    let mut lines = [Channel::default(); 2];
    let online = batches(11, 20, |_| {
        let index = source.below(1 << log) as usize;
        lines = [Channel::default(); 2];
        let found = client.lookup(index, &mut source, [&server, &server], &mut lines);
        assert_eq!(found.expect("honest servers"), server.records().get(index));
    });
    counted(&lines, bytes, Cell::Time(offline), Cell::Time(online))
}

fn counted(lines: &[Channel], bytes: usize, offline: Cell, online: Cell) -> Vec<Cell> {
    assert_eq!(lines.iter().map(|line| line.up + line.down).sum::<usize>(), bytes);
    vec![offline, Cell::Counted(bytes), online]
}
