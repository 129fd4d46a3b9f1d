//! S3PIR, Tables 2 and 3.

use super::Extent;
use super::document::{Cell, Document};
use super::measure::{batches, repeat};
use crate::channel::Channel;
use crate::prg::{Aes, ChaCha, Prg};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::s3pir::{Geometry, LAMBDA, Search, Server, one_server, two_servers};

const HEADER: [&str; 7] = [
    "client",
    "offline bytes",
    "offline",
    "online bytes",
    "online, search stops at a hit",
    "online, every slot searched",
    "of it servers",
];

pub fn tables(document: &mut Document, extent: Extent) {
    document.say("## 002: S3PIR\n\nλ = 80, q = s = √N, H = 80·√N hints, with one server B = 40·√N backup pairs.");
    let mut two = vec![
        paper("paper, 2^20 × 32 B", ["3.76 MB", "3.76 MB", "2.3 s", "2.26 KB", "0.12 ms"]),
        ("AES, 2^20 × 32 B".into(), two::<Aes>(20, 32, 5)),
        ("ChaCha20, 2^20 × 32 B".into(), two::<ChaCha>(20, 32, 1)),
        paper("paper, 2^24 × 32 B", ["15.04 MB", "15.04 MB", "41 s", "8.64 KB", "0.54 ms"]),
    ];
    let mut one = vec![
        paper("paper, 2^20 × 32 B", ["6.25 MB", "32 MB", "4 s", "2.18 KB", "0.14 ms"]),
        ("AES, 2^20 × 32 B".into(), one::<Aes>(20, 32, 5)),
        ("ChaCha20, 2^20 × 32 B".into(), one::<ChaCha>(20, 32, 1)),
        paper("paper, 2^24 × 32 B", ["25 MB", "512 MB", "65 s", "8.56 KB", "0.62 ms"]),
    ];
    if extent > Extent::Quick {
        two.push(("AES, 2^24 × 32 B".into(), self::two::<Aes>(24, 32, 1)));
        one.push(("AES, 2^24 × 32 B".into(), self::one::<Aes>(24, 32, 1)));
    } else {
        two.push(("AES, 2^24 × 32 B".into(), two_by_formula(24, 32)));
        one.push(("AES, 2^24 × 32 B".into(), one_by_formula(24, 32)));
    }
    two.extend([
        paper("paper, 2^28 × 8 B", ["30.16 MB", "30.16 MB", "636 s", "34.0 KB", "2.19 ms"]),
        ("AES, 2^28 × 8 B".into(), two_by_formula(28, 8)),
        paper("paper, 2^28 × 32 B", ["60.16 MB", "60.16 MB", "842 s", "34.1 KB", "2.7 ms"]),
        ("AES, 2^28 × 32 B".into(), two_by_formula(28, 32)),
        paper("paper, 2^28 × 256 B", ["340.16 MB", "340.16 MB", "2242 s", "35.0 KB", "5.23 ms"]),
        ("AES, 2^28 × 256 B".into(), two_by_formula(28, 256)),
    ]);
    one.extend([
        paper("paper, 2^28 × 8 B", ["40 MB", "2048 MB", "989 s", "34.02 KB", "2.4 ms"]),
        ("AES, 2^28 × 8 B".into(), one_by_formula(28, 8)),
        paper("paper, 2^28 × 32 B", ["100 MB", "8192 MB", "1146 s", "34.06 KB", "2.7 ms"]),
        ("AES, 2^28 × 32 B".into(), one_by_formula(28, 32)),
        paper("paper, 2^28 × 256 B", ["660 MB", "65536 MB", "2327 s", "34.5 KB", "4.2 ms"]),
        ("AES, 2^28 × 256 B".into(), one_by_formula(28, 256)),
    ]);
    document.table("Table 2: two servers", &HEADER, two);
    document.table("Table 3: one server", &HEADER, one);
    document.say(
        "Values of selection have 16 bits (the paper's 32): a cutoff takes two bytes, a tie makes one to six numbers in a hundred \
         invalid. The client of two servers keeps numbers in four bytes while they fit. The paper's amortised columns \
         are offline over 40·√N lookups, plus online.",
    );
}

fn paper(name: &str, [client, offline, offline_time, online, online_time]: [&'static str; 5]) -> (String, Vec<Cell>) {
    let cells = [client, offline, offline_time, online, online_time].map(Cell::Paper);
    (name.into(), cells.into_iter().chain([Cell::None, Cell::None]).collect())
}

fn geometry(log: u32, bytes: usize) -> Geometry {
    Geometry::square(1 << log, bytes, LAMBDA).expect("a power of four")
}

fn two_by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let geometry = geometry(log, bytes);
    let client = geometry.hints * (10 + bytes) + geometry.hints / 8;
    let offline = geometry.hints * two_servers::hint_bytes(bytes);
    let online = geometry.query_bytes() + geometry.answer_bytes() + two_servers::replenish_bytes(bytes);
    vec![
        Cell::Formula(client),
        Cell::Formula(offline),
        Cell::None,
        Cell::Formula(online),
        Cell::None,
        Cell::None,
        Cell::None,
    ]
}

fn one_by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let geometry = geometry(log, bytes);
    let client = one_server::client_bytes(&geometry, one_server::backups(&geometry));
    let online = geometry.query_bytes() + geometry.answer_bytes();
    vec![
        Cell::Formula(client),
        Cell::Formula(bytes << log),
        Cell::None,
        Cell::Formula(online),
        Cell::None,
        Cell::None,
        Cell::None,
    ]
}

fn indices(log: u32) -> impl FnMut() -> usize {
    let mut source = Random::from_seed(3);
    move || source.below(1 << log) as usize
}

fn two<P: Prg>(log: u32, bytes: usize, repeats: usize) -> Vec<Cell> {
    let geometry = geometry(log, bytes);
    let database = Records::from_seed(2, 1 << log, bytes);
    let online = Server::new(&database, geometry).expect("fits");
    let (mut source, key) = (Random::from_seed(2), [8; 16]);
    let mut offline = two_servers::OfflineServer::<P>::new(&database, geometry, &key);
    let (time, hints) = repeat(repeats, || offline.hints(&mut source));
    assert_eq!(hints.len(), geometry.hints * two_servers::hint_bytes(bytes));
    let mut client = two_servers::Client::<P>::new(&key, geometry, &hints).expect("as long as promised");
    let mut index = indices(log);
    let mut lines = [Channel::default(); 2];
    let mut timed = |search| {
        batches(15, 20, |_| {
            let index = index();
            lines = [Channel::default(); 2];
            let servers = (&mut offline, &online);
            let found = client.lookup(index, search, &mut source, servers, &mut lines).expect("a hint");
            assert_eq!(found, database.get(index));
        })
    };
    let (stopping, all) = (timed(Search::UntilFound), timed(Search::All));
    let moved = lines.iter().map(|line| line.up + line.down).sum();
    assert_eq!(moved, geometry.query_bytes() + geometry.answer_bytes() + two_servers::replenish_bytes(bytes));
    let mut query = vec![0; geometry.query_bytes()];
    let servers = batches(15, 20, |n| {
        query[0] = n as u8;
        std::hint::black_box((online.answer(&query).expect("a query"), offline.next(&mut source)));
    });
    vec![
        Cell::Counted(client.bytes()),
        Cell::Counted(hints.len()),
        Cell::Time(time),
        Cell::Counted(moved),
        Cell::Time(stopping),
        Cell::Time(all),
        Cell::Time(servers),
    ]
}

fn one<P: Prg>(log: u32, bytes: usize, repeats: usize) -> Vec<Cell> {
    let geometry = geometry(log, bytes);
    let database = Records::from_seed(2, 1 << log, bytes);
    let server = Server::new(&database, geometry).expect("fits");
    let mut source = Random::from_seed(2);
    let backups = one_server::backups(&geometry);
    let (time, (line, mut client)) = repeat(repeats, || {
        let mut line = Channel::default();
        let client =
            one_server::Client::<P>::download(&source.block(), &server, geometry, backups, &mut source, &mut line);
        (line, client)
    });
    assert_eq!((line.up, line.down), (0, bytes << log));
    assert_eq!(client.bytes(), one_server::client_bytes(&geometry, backups));
    let client_bytes = client.bytes();
    let mut index = indices(log);
    let mut online = Channel::default();
    let mut timed = |search| {
        batches(15, 20, |_| {
            let index = index();
            online = Channel::default();
            assert_eq!(
                client.lookup(index, search, &mut source, &server, &mut online).expect("a hint"),
                database.get(index)
            );
        })
    };
    let (stopping, all) = (timed(Search::UntilFound), timed(Search::All));
    assert_eq!((online.up, online.down), (geometry.query_bytes(), geometry.answer_bytes()));
    let mut query = vec![0; geometry.query_bytes()];
    let servers = batches(15, 100, |n| {
        query[0] = n as u8;
        std::hint::black_box(server.answer(&query).expect("a query"));
    });
    vec![
        Cell::Counted(client_bytes),
        Cell::Counted(line.up + line.down),
        Cell::Time(time),
        Cell::Counted(online.up + online.down),
        Cell::Time(stopping),
        Cell::Time(all),
        Cell::Time(servers),
    ]
}
