//! TreePIR, §5 (Fig. 7), and 2^20 × 32 B as 002 measured it.

use super::Extent;
use super::document::{Cell, Document};
use super::measure::{batches, repeat};
use crate::channel::Channel;
use crate::prg::{AesTree, ChaChaTree, Doubling};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::s3pir::Search;
use crate::treepir::{Client, Geometry, LAMBDA, Server};

pub fn section_5(document: &mut Document, extent: Extent) {
    document.say("## 004: TreePIR\n\nλ = 128, no recursion.");
    let mut rows = vec![
        paper("002's measurement (λ = 80), 2^20 × 32 B", ["2.88 MB", "1.0 s", "65.9 KB", "0.45 ms", "", ""]),
        ("AES, 2^20 × 32 B".into(), row::<AesTree>(20, 32, 5)),
        ("ChaCha20, 2^20 × 32 B".into(), row::<ChaChaTree>(20, 32, 1)),
        paper("paper, 2^22 × 256 B", ["67 MB", "", "", "4.7 ms", "", "15 ms"]),
    ];
    let large = if extent > Extent::Quick { row::<AesTree>(22, 256, 1) } else { by_formula(22, 256) };
    rows.push(("AES, 2^22 × 256 B".into(), large));
    rows.push(paper("paper, 2^28 × 32 B", ["67 MB", "", "", "23 ms", "", "256 ms"]));
    rows.push(("AES, 2^28 × 32 B".into(), by_formula(28, 32)));
    document.table(
        "§5: a lookup, and amortised over 2000",
        &[
            "client",
            "offline (server)",
            "online bytes",
            "online, search stops at a hit",
            "of it one server",
            "amortised",
        ],
        rows,
    );
}

fn paper(name: &str, figures: [&'static str; 6]) -> (String, Vec<Cell>) {
    (name.into(), figures.map(|figure| if figure.is_empty() { Cell::None } else { Cell::Paper(figure) }).into())
}

fn by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let geometry = Geometry::square(1 << log, bytes, LAMBDA).expect("a power of four");
    let online = 2 * (geometry.query_bytes() + geometry.answer_bytes());
    vec![Cell::Formula(geometry.client_bytes()), Cell::None, Cell::Formula(online), Cell::None, Cell::None, Cell::None]
}

fn row<D: Doubling>(log: u32, bytes: usize, repeats: usize) -> Vec<Cell> {
    let geometry = Geometry::square(1 << log, bytes, LAMBDA).expect("a power of four");
    let database = Records::from_seed(7, 1 << log, bytes);
    let server = Server::<D>::new(&database, geometry).expect("fits");
    let mut source = Random::from_seed(7);
    let seed = source.block();
    let (time, hints) = repeat(repeats, || server.hints(&seed).expect("16 bytes"));
    let mut client = Client::<D>::new(geometry, &seed, hints).expect("as long as promised");
    let client_bytes = client.bytes();
    let mut lines = [Channel::default(); 2];
    let online = batches(15, 10, |_| {
        let index = source.below(1 << log) as usize;
        lines = [Channel::default(); 2];
        let found = client.lookup(index, Search::UntilFound, &mut source, [&server, &server], &mut lines);
        assert_eq!(found.expect("a hint"), database.get(index));
    });
    assert_eq!(lines, [Channel { up: geometry.query_bytes(), down: geometry.answer_bytes() }; 2]);
    let mut query = vec![0; geometry.query_bytes()];
    let answer = batches(15, 10, |_| {
        source.fill(&mut query);
        std::hint::black_box(server.answer(&query).expect("a punctured key"));
    });
    let amortised = (time.median() / 2000.0 + online.median()) * 1e3;
    vec![
        Cell::Counted(client_bytes),
        Cell::Time(time),
        Cell::Counted(lines.iter().map(|line| line.up + line.down).sum()),
        Cell::Time(online),
        Cell::Time(answer),
        Cell::Text(format!("{amortised:.2} ms")),
    ]
}
