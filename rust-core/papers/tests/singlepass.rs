//! Tests SinglePass: ten thousand lookups with edits, and Show-and-Shuffle by enumeration.
#![allow(clippy::cast_precision_loss, clippy::needless_for_each)] // small counts; one-line loops

mod common;

use common::{EXACT, Law, law, worst};
use papers::channel::Channel;
use papers::error::Error;
use papers::prg::{Aes, ChaCha, Prg};
use papers::random::{Random, Uniform, shuffle};
use papers::records::Records;
use papers::singlepass::*;
use papers::xor::xor;

/// One client, and a database that grows by several partitions, in 10 000 lookups.
fn life<P: Prg, O: Offset>(seed: u64, records: usize, partitions: usize, bytes: usize, inverses: Inverses) {
    println!("seed {seed}, {records} records of {bytes} bytes in {partitions} partitions");
    let mut source = Random::from_seed(seed);
    let mut server = Server::new(Records::from_seed(seed, records, bytes), partitions).unwrap();
    let hint = server.hint::<P, O>(&source.block());
    assert_eq!(hint.len(), hint_bytes(server.partition_records(), bytes));
    let mut client = Client::<O>::new::<P>(&hint, records, partitions, bytes, inverses).unwrap();
    for n in 0..10_000 {
        let index = source.below(server.records().len() as u32) as usize;
        if n % 7 == 0 {
            let mut record = vec![0; bytes];
            source.fill(&mut record);
            let update = if n % 3 == 0 { server.add(&record) } else { server.edit(index, &record) }.unwrap();
            assert_eq!(update.difference.len() + 4, edit_bytes(bytes));
            client.follow(&update, &mut source).unwrap();
        }
        let mut channels = [Channel::default(); 2];
        let found = client.lookup(index, &mut source, [&server, &server], &mut channels).unwrap();
        assert_eq!(found, server.records().get(index), "lookup {n} of record {index}");
        let moved = channels.iter().map(|channel| channel.up + channel.down).sum::<usize>();
        assert_eq!(moved, lookup_bytes::<O>(server.partitions(), bytes));
    }
}

#[test]
fn ten_thousand_lookups_with_edits_and_growth() {
    life::<Aes, u16>(1, 1000, 10, 32, Inverses::Kept);
    life::<Aes, u16>(2, 1003, 31, 7, Inverses::Scanned); // M does not divide N, ℓ is odd
    life::<ChaCha, u32>(3, 700, 4, 33, Inverses::Kept);
}

#[test]
fn an_offset_of_two_bytes_does_not_hide_a_larger_partition() {
    let records = (1 << 16) + 1;
    let hint = vec![0; hint_bytes(records, 1)];
    let refused = Client::<u16>::new::<Aes>(&hint, records, 1, 1, Inverses::Scanned).err();
    assert!(matches!(refused, Some(Error::Bad { what: "M", .. })));
}

#[test]
fn a_server_refuses_what_cannot_be_a_query() {
    let server = Server::new(Records::from_seed(1, 10, 4), 2).unwrap();
    assert!(server.answer::<u16>(&[0; 3]).is_err());
    assert!(server.answer::<u16>(&[5, 0, 0, 0]).is_err(), "an offset of the next partition");
    assert!(server.answer::<u16>(&[4, 0, 4, 0]).is_ok());
}

/// The distribution of what a server sees of a sequence of lookups (server 0 also made the hint); Q partitions of 6/Q records.
fn seen(sequence: &[usize], partitions: usize, server_0: bool, deviation: Deviation) -> Law<Vec<Vec<u8>>> {
    let records = Records::from_seed(1, 6, 1);
    let m = 6 / partitions;
    let server = Server::new(records.clone(), partitions).unwrap();
    law(|source| {
        let mut entries = (0..m as u16).collect::<Vec<_>>().repeat(partitions);
        let mut parities = vec![0; m];
        for (q, entries) in entries.chunks_exact_mut(m).enumerate() {
            shuffle(entries, source);
            for (parity, entry) in parities.iter_mut().zip(entries) {
                xor(std::slice::from_mut(parity), records.get(q * m + usize::from(*entry)));
            }
        }
        // Server 0 made the permutations: they are part of what it sees.
        let mut view = if server_0 { vec![entries.iter().map(|&entry| entry as u8).collect()] } else { Vec::new() };
        let permutations = Permutations::from_entries(entries, m, Inverses::Kept);
        let mut client = Client::from_parts(permutations, parities, 6, 1, deviation);
        for &index in sequence {
            let pending = client.query(index, source).unwrap();
            let answers = [&pending.refresh, &pending.retrieve].map(|query| server.answer::<u16>(query).unwrap());
            let found = client.reconstruct(&pending, &answers[0], &answers[1]).unwrap();
            if matches!(deviation, Deviation::None | Deviation::NoSwap) {
                assert_eq!(found, records.get(index));
            }
            view.push(if server_0 { pending.refresh } else { pending.retrieve });
        }
        view
    })
}

const SEQUENCES: [[usize; 2]; 5] = [[0, 0], [0, 1], [0, 3], [4, 1], [5, 5]];

fn worst_of(partitions: usize, server_0: bool, deviation: Deviation) -> f64 {
    worst(&SEQUENCES.map(|sequence| seen(&sequence, partitions, server_0, deviation)))
}

#[test]
fn what_either_server_sees_does_not_depend_on_what_is_asked() {
    for partitions in [2, 3] {
        assert!(worst_of(partitions, false, Deviation::None) < EXACT);
        assert!(worst_of(partitions, true, Deviation::None) < EXACT);
    }
}

#[test]
fn every_deviation_tells_server_1_something() {
    for deviation in [Deviation::NoSwap, Deviation::OnePosition, Deviation::CoverAvoidsQueried] {
        let told = worst_of(3, false, deviation);
        println!("{deviation:?}: {told}");
        assert!(told > 0.01, "{deviation:?} is not caught");
    }
}

#[test]
fn swapping_the_queried_partition_spoils_parities() {
    let server = Server::new(Records::from_seed(6, 400, 8), 20).unwrap();
    let mut source = Random::from_seed(6);
    let mut wrong = |deviation| {
        let mut client =
            Client::<u16>::new::<Aes>(&server.hint::<Aes, u16>(&[9; 16]), 400, 20, 8, Inverses::Kept).unwrap();
        client = client.with_deviation(deviation);
        let mut lookup = |index| client.lookup(index, &mut source, [&server, &server], &mut Default::default());
        (0..400).filter(|&index| lookup(index).unwrap() != server.records().get(index)).count()
    };
    assert_eq!(wrong(Deviation::None), 0);
    assert!(wrong(Deviation::SwapsQueried) > 100);
}

#[test]
fn two_clients_of_one_seed_ask_differently() {
    let server = Server::new(Records::from_seed(1, 4096, 4), 16).unwrap();
    let hint = server.hint::<Aes, u16>(&[7; 16]);
    let ask = || {
        let mut client = Client::<u16>::new::<Aes>(&hint, 4096, 16, 4, Inverses::Kept).unwrap();
        client.query(5, &mut Random::from_system().unwrap()).unwrap().refresh
    };
    assert_ne!(ask(), ask());
}
