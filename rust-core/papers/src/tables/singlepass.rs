//! SinglePass, Table 2.

use super::document::{Cell, Document, paper};
use super::measure::{Extent, Spread, batches, once, repeat};
use crate::channel::Channel;
use crate::prg::{Aes, ChaCha, Prg};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::singlepass::{Client, Inverses, Server, lookup_bytes};

const RECORDS: usize = 3_000_000;
const BYTES: usize = 32;
const PARTITIONS: usize = 10;

pub fn table_2(document: &mut Document, _: Extent) {
    document.say(
        "## SinglePass\n\nLazzaretti, Papamanthou: *Single Pass Client-Preprocessing Private Information Retrieval*, Fig. 4 and 7. Two servers.",
    );
    let mut server = Server::new(Records::from_seed(1, RECORDS, BYTES), PARTITIONS).expect("parameters");
    let rows = vec![
        paper("paper", ["0.122 s", "", "", "0.02 ms", "0.68 KB", "23.3 MB", "0.19 ms"]),
        paper("paper, Checklist", ["13.22 s", "", "", "0.95 ms", "1.48 KB", "23.6 MB", "3.78 ms"]),
        ("AES, inverses kept".into(), row::<Aes>(&mut server, Inverses::Kept)),
        ("AES, inverses scanned for".into(), row::<Aes>(&mut server, Inverses::Scanned)),
        ("ChaCha20, inverses kept".into(), row::<ChaCha>(&mut server, Inverses::Kept)),
    ];
    document.table(
        "SinglePass, Table 2: 3 000 000 records of 32 bytes, Q = 10",
        &["preprocessing", "of it server", "of it client", "query", "query bytes", "client", "500 updates"],
        &rows,
    );
    document.say(
        "Offsets take four bytes, because M = 300 000; the paper's 0.68 KB has two bytes each. A query's time counts the \
         client and both servers. Kept inverses find a column at once and double the permutations' memory.",
    );
}

fn row<P: Prg>(server: &mut Server, inverses: Inverses) -> Vec<Cell> {
    let mut source = Random::from_seed(1);
    let (of_server, hint) = repeat(7, || server.hint::<P, u32>(&[7; 16]));
    let make = || Client::<u32>::new::<P>(&hint, RECORDS, PARTITIONS, BYTES, inverses).expect("parameters");
    let (of_client, mut client) = repeat(7, make);
    let (whole, _) = repeat(7, || {
        let hint = server.hint::<P, u32>(&[7; 16]);
        Client::<u32>::new::<P>(&hint, RECORDS, PARTITIONS, BYTES, inverses).expect("parameters")
    });
    let mut lines = [Channel::default(); 2];
    let indices: Vec<usize> = (0..5000).map(|_| source.below(RECORDS as u32) as usize).collect();
    let (rounds, each) = if inverses == Inverses::Kept { (20, 200) } else { (10, 50) };
    let query = batches(rounds, each, |n| {
        lines = [Channel::default(); 2];
        let found = client.lookup(indices[n], &mut source, [server, server], &mut lines).expect("honest servers");
        assert_eq!(found, server.records().get(indices[n]));
    });
    let moved = lines.iter().map(|line| line.up + line.down).sum();
    assert_eq!(moved, lookup_bytes::<u32>(PARTITIONS, BYTES));
    let updates = Spread::new(
        (0..7)
            .map(|round| {
                let updates: Vec<_> = (0..500)
                    .map(|n| server.edit(indices[round * 500 + n], &[n as u8; BYTES]).expect("an index"))
                    .collect();
                once(|| updates.iter().for_each(|update| client.follow(update, &mut source).expect("a public update")))
                    .0
            })
            .collect(),
    );
    vec![
        Cell::Time(whole),
        Cell::Time(of_server),
        Cell::Time(of_client),
        Cell::Time(query),
        Cell::Counted(moved),
        Cell::Counted(client.bytes()),
        Cell::Time(updates),
    ]
}
