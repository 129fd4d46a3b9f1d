//! Pai, Tables 2, 3 and 4.

use super::Extent;
use super::document::{Cell, Document};
use super::measure::{Spread, batches, once, repeat};
use crate::channel::Channel;
use crate::pai::full::PaiFull;
use crate::pai::keyword::{KeywordClient, KeywordServer, cuckoo, entry_bytes};
use crate::pai::one_query::PaiOneQuery;
use crate::pai::{PrivateArray, chargeable, full, keyword, lookup_bytes, one_query};
use crate::random::{Random, Uniform};
use crate::records::Records;

const HEADER: [&str; 4] = ["offline bytes", "offline", "online bytes", "online"];

pub fn tables(document: &mut Document, extent: Extent) {
    document.say(
        "## 003: Pai\n\n**As published, private for one lookup**: two show whether they share a row or a column, √n chosen ones \
         reveal all later ones ([the tests](../rust-core/schemes/tests/pai.rs) do both). The paper's times are of eight \
         threads and include a network of 10 Gbit/s; ours are one thread's computing. \"Full\" permutes all cells.",
    );
    table_2(document);
    keyword_tables(document, extent);
}

fn paper(name: &str, figures: [&'static str; 4]) -> (String, Vec<Cell>) {
    (name.into(), figures.map(Cell::Paper).into())
}

fn by_formula(offline: usize, online: usize) -> Vec<Cell> {
    vec![Cell::Formula(offline), Cell::None, Cell::Formula(online), Cell::None]
}

fn table_2(document: &mut Document) {
    let published = |log: u32, bytes| by_formula(one_query::offline_bytes(1 << log, bytes), lookup_bytes(bytes));
    document.table(
        "Table 2: Pai",
        &HEADER,
        vec![
            paper("paper, 2^20 × 64 B", ["352.0 MB", "4.504 s", "0.094 KB", "0.357 ms"]),
            ("as published, 2^20 × 64 B".into(), one_lookup(64, 5)),
            ("full, 2^20 × 64 B".into(), permuted(64, 5)),
            paper("paper, 2^20 × 128 B", ["608.0 MB", "5.238 s", "0.156 KB", "0.364 ms"]),
            ("as published, 2^20 × 128 B".into(), one_lookup(128, 1)),
            paper("paper, 2^20 × 256 B", ["1120.0 MB", "6.798 s", "0.297 KB", "0.281 ms"]),
            ("as published, 2^20 × 256 B".into(), one_lookup(256, 1)),
            paper("paper, 2^22 × 64 B", ["1408.0 MB", "14.496 s", "0.094 KB", "0.245 ms"]),
            ("as published, 2^22 × 64 B".into(), published(22, 64)),
            paper("paper, 2^24 × 64 B", ["5632.0 MB", "57.525 s", "0.094 KB", "0.210 ms"]),
            ("as published, 2^24 × 64 B".into(), published(24, 64)),
            paper("paper, 2^24 × 256 B", ["17920.0 MB", "90.584 s", "0.297 KB", "0.281 ms"]),
            ("as published, 2^24 × 256 B".into(), published(24, 256)),
        ],
    );
}

fn one_lookup(bytes: usize, repeats: usize) -> Vec<Cell> {
    let records = Records::from_seed(4, 1 << 20, bytes);
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
    vec![
        Cell::Counted(line.up + line.down),
        Cell::Time(time),
        Cell::Counted(online.up + online.down),
        Cell::Time(lookup),
    ]
}

fn permuted(bytes: usize, repeats: usize) -> Vec<Cell> {
    let records = Records::from_seed(4, 1 << 20, bytes);
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
    vec![
        Cell::Counted(line.up + line.down),
        Cell::Time(time),
        Cell::Counted(online.up + online.down),
        Cell::Time(lookup),
    ]
}

fn keyword_tables(document: &mut Document, extent: Extent) {
    let over_published = |log: u32, bytes| {
        by_formula(one_query::offline_bytes(cuckoo::bins(1 << log), entry_bytes(bytes)), keyword::lookup_bytes(bytes))
    };
    let charged =
        |log: u32, bytes| by_formula(chargeable::offline_bytes(1 << log, bytes), chargeable::lookup_bytes(bytes));
    let measured = |log| format!("as published, 2^{log} × 64 B");
    let mut table_3 = vec![
        paper("paper, 2^20 × 64 B", ["624.359 MB", "16.218 s", "0.391 KB", "1.391 ms"]),
        ("as published, 2^20 × 64 B".into(), over_published(20, 64)),
        paper("paper, 2^20 × 256 B", ["1777.023 MB", "20.157 s", "0.953 KB", "1.444 ms"]),
        ("as published, 2^20 × 256 B".into(), over_published(20, 256)),
        paper("paper, 2^24 × 64 B", ["9985.771 MB", "249.635 s", "0.391 KB", "1.055 ms"]),
        ("as published, 2^24 × 64 B".into(), over_published(24, 64)),
        (measured(16), keywords(16, 64)),
    ];
    let mut table_4 = vec![
        paper("paper, 2^20 × 64 B", ["432.0 MB", "33.311 s", "0.172 KB", "0.883 ms"]),
        ("as published, 2^20 × 64 B".into(), charged(20, 64)),
        paper("paper, 2^20 × 256 B", ["1200.0 MB", "35.030 s", "0.359 KB", "0.878 ms"]),
        ("as published, 2^20 × 256 B".into(), charged(20, 256)),
        paper("paper, 2^24 × 64 B", ["6912.0 MB", "470.224 s", "0.172 KB", "0.634 ms"]),
        ("as published, 2^24 × 64 B".into(), charged(24, 64)),
        (measured(14), chargeables(14, 64)),
    ];
    if extent == Extent::Full {
        table_3[1] = (measured(20), keywords(20, 64));
        table_4[1] = (measured(20), chargeables(20, 64));
    }
    document.table("Table 3: PaiKSPIR", &HEADER, table_3);
    document.table("Table 4: PaiCKSPIR", &HEADER, table_4);
    document.say(
        "Group operations are in ristretto255 (the paper: FourQ), one multiplication a key for PaiKSPIR and four for \
         PaiCKSPIR; they are nearly all of the offline time, which grows with n. `--full` runs n = 2^20.",
    );
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
    vec![
        Cell::Counted(line.up + line.down),
        Cell::Time(Spread::new(vec![time])),
        Cell::Counted(online.up + online.down),
        Cell::Time(lookup),
    ]
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
    vec![
        Cell::Counted(line.up + line.down),
        Cell::Time(Spread::new(vec![time])),
        Cell::Counted(online.up + online.down),
        Cell::Time(lookup),
    ]
}
