//! S3PIR, Tables 2 and 3.

use super::document::{Cell, Document, paper};
use super::measure::{Extent, batches, repeat};
use crate::channel::Channel;
use crate::prg::{Aes, ChaCha, Prg};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::s3pir::{Geometry, LAMBDA, Search, Server, one_server, two_servers};

const HEADER: [&str; 9] = [
    "client",
    "offline bytes",
    "offline",
    "online bytes",
    "online, search stops at a hit",
    "online, every slot searched",
    "of it servers",
    "amortised bytes",
    "amortised",
];

/// The paper's figures with two servers: database, client's memory, bytes and time offline, bytes and time online.
const TABLE_2: [(u32, usize, [&str; 5]); 5] = [
    (20, 32, ["3.76 MB", "3.76 MB", "2.3 s", "2.26 KB", "0.12 ms"]),
    (24, 32, ["15.04 MB", "15.04 MB", "41 s", "8.64 KB", "0.54 ms"]),
    (28, 8, ["30.16 MB", "30.16 MB", "636 s", "34.0 KB", "2.19 ms"]),
    (28, 32, ["60.16 MB", "60.16 MB", "842 s", "34.1 KB", "2.7 ms"]),
    (28, 256, ["340.16 MB", "340.16 MB", "2242 s", "35.0 KB", "5.23 ms"]),
];

/// The paper's figures with one server, and amortised bytes and time.
const TABLE_3: [(u32, usize, [&str; 7]); 5] = [
    (20, 32, ["6.25 MB", "32 MB", "4 s", "2.18 KB", "0.14 ms", "2.99 KB", "0.25 ms"]),
    (24, 32, ["25 MB", "512 MB", "65 s", "8.56 KB", "0.62 ms", "11.76 KB", "1.0 ms"]),
    (28, 8, ["40 MB", "2048 MB", "989 s", "34.02 KB", "2.4 ms", "37.22 KB", "3.9 ms"]),
    (28, 32, ["100 MB", "8192 MB", "1146 s", "34.06 KB", "2.7 ms", "46.86 KB", "4.5 ms"]),
    (28, 256, ["660 MB", "65536 MB", "2327 s", "34.5 KB", "4.2 ms", "136.9 KB", "7.8 ms"]),
];

pub fn tables(document: &mut Document, extent: Extent) {
    document.say(
        "## S3PIR\n\nMughees, Sun, Ren: *Simple and Practical Amortized Sublinear Private Information Retrieval*, Algorithms 1 to 5. \
         λ = 80, q = s = √N, H = 80·√N hints. With one server there are B = 40·√N backup pairs, and as many lookups.",
    );
    let largest = if extent == Extent::Quick { 20 } else { 24 };
    let (mut two_rows, mut one_rows) = (Vec::new(), Vec::new());
    for (log, bytes, [client, offline, offline_time, online, online_time]) in TABLE_2 {
        let size = format!("2^{log} × {bytes} B");
        let figures = [client, offline, offline_time, online, online_time, "", "", "", ""];
        two_rows.push(paper(&format!("paper, {size}"), figures));
        let measure = |repeats| two::<Aes>(log, bytes, repeats);
        let cells = if log <= largest { measure(if log == 20 { 7 } else { 1 }) } else { two_by_formula(log, bytes) };
        two_rows.push((format!("AES, {size}"), cells));
        if log == 20 {
            two_rows.push((format!("ChaCha20, {size}"), two::<ChaCha>(log, bytes, 1)));
        }
    }
    for (log, bytes, [client, offline, offline_time, online, online_time, amortised, amortised_time]) in TABLE_3 {
        let size = format!("2^{log} × {bytes} B");
        let figures = [client, offline, offline_time, online, online_time, "", "", amortised, amortised_time];
        one_rows.push(paper(&format!("paper, {size}"), figures));
        let measure = |repeats| one::<Aes>(log, bytes, repeats);
        let cells = if log <= largest { measure(if log == 20 { 7 } else { 1 }) } else { one_by_formula(log, bytes) };
        one_rows.push((format!("AES, {size}"), cells));
        if log == 20 {
            one_rows.push((format!("ChaCha20, {size}"), one::<ChaCha>(log, bytes, 1)));
        }
    }
    document.table("S3PIR, Table 2: two servers", &HEADER, &two_rows);
    document.table("S3PIR, Table 3: one server", &HEADER, &one_rows);
    document.say(
        "The paper's search stops at a hit. Our selection values have 16 bits (the paper's 32), so a cutoff takes two bytes. \
         Ties make 2 to 6 numbers in a hundred invalid, at 2^28 22. With two servers the client keeps numbers in four bytes \
         while they fit; offline they are sent in eight. Amortised is offline over 40·√N lookups, plus online with a search that stops.",
    );
}

fn geometry(log: u32, bytes: usize) -> Geometry {
    Geometry::square(1 << log, bytes, LAMBDA).expect("a power of four")
}

/// Our bytes with two servers: the client's, offline, online.
fn bytes_of_two(geometry: &Geometry) -> [usize; 3] {
    let bytes = geometry.record_bytes;
    let client = geometry.hints * (10 + bytes) + geometry.hints / 8;
    let offline = geometry.hints * two_servers::hint_bytes(bytes);
    [client, offline, geometry.query_bytes() + geometry.answer_bytes() + two_servers::replenish_bytes(bytes)]
}

/// Our bytes with one server.
fn bytes_of_one(geometry: &Geometry) -> [usize; 3] {
    let client = one_server::client_bytes(geometry, one_server::backups(geometry));
    let offline = geometry.stripes * geometry.stripe_records * geometry.record_bytes;
    [client, offline, geometry.query_bytes() + geometry.answer_bytes()]
}

fn formulas([client, offline, online]: [usize; 3]) -> Vec<Cell> {
    let mut cells =
        vec![Cell::Formula(client), Cell::Formula(offline), Cell::None, Cell::Formula(online), Cell::None, Cell::None];
    cells.push(Cell::None);
    cells
}

fn two_by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let mut cells = formulas(bytes_of_two(&geometry(log, bytes)));
    cells.extend([Cell::None, Cell::None]);
    cells
}

fn one_by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let geometry = geometry(log, bytes);
    let sizes = bytes_of_one(&geometry);
    let mut cells = formulas(sizes);
    cells.extend([Cell::Formula(sizes[1] / one_server::backups(&geometry) + sizes[2]), Cell::None]);
    cells
}

/// Queries as the server receives them.
fn queries(geometry: &Geometry) -> Vec<Vec<u8>> {
    let mut source = Random::from_seed(4);
    let query = |_| {
        let mut query = vec![0; geometry.stripes.div_ceil(8)];
        source.fill(&mut query);
        for _ in 0..geometry.stripes {
            let offset = source.below(geometry.stripe_records as u32) as u16;
            query.extend_from_slice(&offset.to_le_bytes());
        }
        query
    };
    (0..500).map(query).collect()
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
    assert_eq!([client.bytes(), hints.len(), moved], bytes_of_two(&geometry));
    let queries = queries(&geometry);
    let servers = batches(15, 20, |n| {
        std::hint::black_box((online.answer(&queries[n]).expect("a query"), offline.next(&mut source)));
    });
    vec![
        Cell::Counted(client.bytes()),
        Cell::Counted(hints.len()),
        Cell::Time(time),
        Cell::Counted(moved),
        Cell::Time(stopping),
        Cell::Time(all),
        Cell::Time(servers),
        Cell::None,
        Cell::None,
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
    assert_eq!((line.up, online.up, online.down), (0, geometry.query_bytes(), geometry.answer_bytes()));
    let moved = online.up + online.down;
    assert_eq!([client_bytes, line.down, moved], bytes_of_one(&geometry));
    let queries = queries(&geometry);
    let servers = batches(15, 30, |n| {
        std::hint::black_box(server.answer(&queries[n]).expect("a query"));
    });
    let amortised = time.median() / f64::from(backups as u32) + stopping.median();
    vec![
        Cell::Counted(client_bytes),
        Cell::Counted(line.down),
        Cell::Time(time),
        Cell::Counted(moved),
        Cell::Time(stopping),
        Cell::Time(all),
        Cell::Time(servers),
        Cell::Counted(line.down / backups + moved),
        Cell::Computed(amortised),
    ]
}
