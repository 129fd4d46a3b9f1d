//! Pai, Tables 2, 3 and 4.

use super::document::{Cell, Document, Row, paper};
use super::measure::{Extent, Spread, batches, once, repeat};
use crate::channel::Channel;
use crate::pai::full::PaiFull;
use crate::pai::keyword::{KeywordClient, KeywordServer, cuckoo, entry_bytes};
use crate::pai::one_query::PaiOneQuery;
use crate::pai::{PrivateArray, chargeable, full, keyword, lookup_bytes, one_query};
use crate::random::{Random, Uniform};
use crate::records::Records;

const HEADER: [&str; 4] = ["offline bytes", "offline", "online bytes", "online"];

/// Sizes of the three tables: log₂ n and bytes of an entry.
const SIZES: [(u32, usize); 9] =
    [(20, 64), (20, 128), (20, 256), (22, 64), (22, 128), (22, 256), (24, 64), (24, 128), (24, 256)];

/// The paper's figures at those sizes: offline MB and seconds, online KB and milliseconds.
type Table = [[&'static str; 4]; 9];

const TABLE_2: Table = [
    ["352.0 MB", "4.504 s", "0.094 KB", "0.357 ms"],
    ["608.0 MB", "5.238 s", "0.156 KB", "0.364 ms"],
    ["1120.0 MB", "6.798 s", "0.297 KB", "0.281 ms"],
    ["1408.0 MB", "14.496 s", "0.094 KB", "0.245 ms"],
    ["2432.0 MB", "16.988 s", "0.156 KB", "0.253 ms"],
    ["4480.0 MB", "22.777 s", "0.297 KB", "0.281 ms"],
    ["5632.0 MB", "57.525 s", "0.094 KB", "0.210 ms"],
    ["9728.0 MB", "66.840 s", "0.156 KB", "0.221 ms"],
    ["17920.0 MB", "90.584 s", "0.297 KB", "0.281 ms"],
];

const TABLE_3: Table = [
    ["624.359 MB", "16.218 s", "0.391 KB", "1.391 ms"],
    ["1008.581 MB", "17.331 s", "0.578 KB", "1.436 ms"],
    ["1777.023 MB", "20.157 s", "0.953 KB", "1.444 ms"],
    ["2496.443 MB", "60.437 s", "0.391 KB", "1.045 ms"],
    ["4032.715 MB", "67.729 s", "0.578 KB", "1.031 ms"],
    ["7105.260 MB", "78.297 s", "0.953 KB", "1.071 ms"],
    ["9985.771 MB", "249.635 s", "0.391 KB", "1.055 ms"],
    ["16130.862 MB", "275.815 s", "0.578 KB", "0.989 ms"],
    ["28421.042 MB", "308.757 s", "0.953 KB", "1.008 ms"],
];

const TABLE_4: Table = [
    ["432.0 MB", "33.311 s", "0.172 KB", "0.883 ms"],
    ["688.0 MB", "33.525 s", "0.234 KB", "0.906 ms"],
    ["1200.0 MB", "35.030 s", "0.359 KB", "0.878 ms"],
    ["1728.0 MB", "119.743 s", "0.172 KB", "0.671 ms"],
    ["2752.0 MB", "123.880 s", "0.234 KB", "0.673 ms"],
    ["4800.0 MB", "128.781 s", "0.359 KB", "0.670 ms"],
    ["6912.0 MB", "470.224 s", "0.172 KB", "0.634 ms"],
    ["11008.0 MB", "487.166 s", "0.234 KB", "0.649 ms"],
    ["19200.0 MB", "516.738 s", "0.359 KB", "0.617 ms"],
];

pub fn tables(document: &mut Document, extent: Extent) {
    document.say(
        "## Pai\n\nLi and others: *Encode and Permute that Database!*, Fig. 2, §5 and Fig. 5. One server. **As published, it is \
         private for one lookup.** Two show whether they share a row or a column, and √n chosen ones reveal all later ones. \
         [Tests](../rust-core/papers/tests/pai.rs) do both. The \"full\" rows permute all cells, which is private for n \
         lookups. The paper's times are of eight threads and include a network of 10 Gbit/s. Ours are one thread's computing.",
    );
    // With 2^24 × 64 B, a server keeps 1.6 GB for a client, in two passes, and the database. Larger sizes are not run.
    let fits = |log: u32, bytes: usize| log == 20 || (extent == Extent::Full && (bytes << log) <= 1 << 30);
    let mut rows = Vec::new();
    for ((log, bytes), figures) in SIZES.into_iter().zip(TABLE_2) {
        rows.push(paper(&format!("paper, 2^{log} × {bytes} B"), figures));
        let repeats = if (log, bytes) == (20, 64) { 5 } else { 1 };
        let published = if fits(log, bytes) {
            one_lookup(log, bytes, repeats)
        } else {
            by_formula(one_query::offline_bytes(1 << log, bytes), lookup_bytes(bytes))
        };
        rows.push((format!("as published, 2^{log} × {bytes} B"), published));
        if bytes == 64 {
            let full = if fits(log, bytes) {
                permuted(log, bytes, repeats)
            } else {
                by_formula(full::offline_bytes(1 << log, bytes), lookup_bytes(bytes))
            };
            rows.push((format!("full, 2^{log} × {bytes} B"), full));
        }
    }
    document.beside("Pai, Table 2", &HEADER, &rows);
    let (small_3, small_4) = (keywords(16, 64), chargeables(14, 64));
    document.beside(
        "Pai, Table 3: PaiKSPIR",
        &HEADER,
        &keyword_table(&TABLE_3, (16, small_3), |log, bytes| match (log, bytes, extent) {
            (20, 64, Extent::Full) => keywords(log, bytes),
            _ => by_formula(
                one_query::offline_bytes(cuckoo::bins(1 << log), entry_bytes(bytes)),
                keyword::lookup_bytes(bytes),
            ),
        }),
    );
    document.beside(
        "Pai, Table 4: PaiCKSPIR",
        &HEADER,
        &keyword_table(&TABLE_4, (14, small_4), |log, bytes| match (log, bytes, extent) {
            (20, 64, Extent::Full) => chargeables(log, bytes),
            _ => by_formula(chargeable::offline_bytes(1 << log, bytes), chargeable::lookup_bytes(bytes)),
        }),
    );
    document.say(
        "Group operations are in ristretto255 (the paper: FourQ): one multiplication a key for PaiKSPIR, four for PaiCKSPIR. \
         They are nearly all of the offline time, which grows with n.",
    );
}

/// A small size that is always run, then the paper's sizes.
fn keyword_table(table: &Table, (log, small): (u32, Vec<Cell>), ours: impl Fn(u32, usize) -> Vec<Cell>) -> Vec<Row> {
    let mut rows = vec![(format!("as published, 2^{log} × 64 B"), small)];
    for ((log, bytes), &figures) in SIZES.into_iter().zip(table) {
        rows.push(paper(&format!("paper, 2^{log} × {bytes} B"), figures));
        rows.push((format!("as published, 2^{log} × {bytes} B"), ours(log, bytes)));
    }
    rows
}

fn measured(offline: &Channel, offline_time: Spread, online: &Channel, online_time: Spread) -> Vec<Cell> {
    vec![
        Cell::Counted(offline.up + offline.down),
        Cell::Time(offline_time),
        Cell::Counted(online.up + online.down),
        Cell::Time(online_time),
    ]
}

fn by_formula(offline: usize, online: usize) -> Vec<Cell> {
    vec![Cell::Formula(offline), Cell::None, Cell::Formula(online), Cell::None]
}

fn one_lookup(log: u32, bytes: usize, repeats: usize) -> Vec<Cell> {
    let records = Records::from_seed(4, 1 << log, bytes);
    let mut source = Random::from_seed(4);
    let (time, (line, mut client, store)) = repeat(repeats, || {
        let mut line = Channel::default();
        let (client, store) = PaiOneQuery::set_up(&records, &mut source, &mut line);
        (line, client, store)
    });
    assert_eq!(line.up + line.down, one_query::offline_bytes(records.len(), bytes));
    let mut online = Channel::default();
    let lookup = batches(15, 200, |n| {
        let index = n * 337 % records.len();
        online = Channel::default();
        assert_eq!(client.lookup(index, &store, &mut online).expect("a cell"), records.get(index));
    });
    assert_eq!(online.up + online.down, lookup_bytes(bytes));
    measured(&line, time, &online, lookup)
}

fn permuted(log: u32, bytes: usize, repeats: usize) -> Vec<Cell> {
    let records = Records::from_seed(4, 1 << log, bytes);
    let mut source = Random::from_seed(4);
    let (time, (line, mut client, store)) = repeat(repeats, || {
        let mut line = Channel::default();
        let (client, store) = PaiFull::set_up(&records, &mut source, &mut line);
        (line, client, store)
    });
    assert_eq!(line.up + line.down, full::offline_bytes(records.len(), bytes));
    let mut online = Channel::default();
    let lookup = batches(15, 200, |n| {
        let index = n * 337 % records.len();
        online = Channel::default();
        let found = client.get(index, &store, &mut source, &mut online).expect("a cell");
        assert_eq!(found, records.get(index));
    });
    assert_eq!(online.up + online.down, lookup_bytes(bytes));
    measured(&line, time, &online, lookup)
}

fn names(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("key {n}").into_bytes()).collect()
}

fn keywords(log: u32, bytes: usize) -> Vec<Cell> {
    let count = 1 << log;
    let (keys, values) = (names(count), Records::from_seed(5, count, bytes));
    let mut source = Random::from_seed(5);
    let mut line = Channel::default();
    let (time, (server, table, array, store)) = once(|| {
        let encoded = KeywordServer::encode(keys.iter().map(Vec::as_slice), &values, &mut source);
        let (server, table) = encoded.expect("distinct keys");
        let (array, store) = PaiOneQuery::set_up(&table.entries, &mut source, &mut line);
        (server, table, array, store)
    });
    assert_eq!(line.up + line.down, one_query::offline_bytes(cuckoo::bins(count), entry_bytes(bytes)));
    let mut client = KeywordClient::new(array, table.seed, table.entries.len());
    let mut online = Channel::default();
    let lookup = batches(10, 40, |_| {
        let n = source.below(count as u32) as usize;
        online = Channel::default();
        let found = client.lookup(&keys[n], (&server, &store), &mut source, &mut online).expect("cells are left");
        assert_eq!(found.as_deref(), Some(values.get(n)));
    });
    assert_eq!(online.up + online.down, keyword::lookup_bytes(bytes));
    measured(&line, Spread::new(vec![time]), &online, lookup)
}

fn chargeables(log: u32, bytes: usize) -> Vec<Cell> {
    let count = 1 << log;
    let (keys, values) = (names(count), Records::from_seed(6, count, bytes));
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut source = Random::from_seed(6);
    let mut line = Channel::default();
    let (time, (mut server, mut client)) = once(|| {
        let none = chargeable::Deviation::None;
        chargeable::set_up(&keys, &values, none, &mut source, &mut line, |_, _| ()).expect("sound elements")
    });
    assert_eq!(line.up + line.down, chargeable::offline_bytes(count, bytes));
    let mut online = Channel::default();
    let lookup = batches(10, 40, |n| {
        online = Channel::default();
        let found = client.lookup(keys[n], &mut server, &mut source, &mut online).expect("asked once");
        assert_eq!(found.as_deref(), Some(values.get(n)));
    });
    assert_eq!(online.up + online.down, chargeable::lookup_bytes(bytes));
    measured(&line, Spread::new(vec![time]), &online, lookup)
}
