//! TreePIR, §5 (Fig. 7 and 8), and the sizes at which S3PIR's authors measured it.

use super::document::{Cell, Document, paper};
use super::measure::{Extent, batches, repeat};
use crate::channel::Channel;
use crate::prg::{AesTree, ChaChaTree, Doubling};
use crate::random::{Random, Uniform};
use crate::records::Records;
use crate::s3pir::Search;
use crate::treepir::{Client, Geometry, LAMBDA, Server};

pub fn section_5(document: &mut Document, extent: Extent) {
    document.say(
        "## TreePIR\n\nLazzaretti, Papamanthou: *TreePIR: Sublinear-Time and Polylog-Bandwidth Private Information Retrieval from DDH*, \
         Fig. 5 and 6, without recursion, λ = 128. Two servers. S3PIR's authors measured it with a smaller λ (their Table 2).",
    );
    let large = |log, bytes| match extent {
        Extent::Quick => by_formula(log, bytes),
        Extent::Full => row::<AesTree>(log, bytes, 1),
    };
    let rows = vec![
        paper("S3PIR's authors, 2^20 × 32 B", ["2.88 MB", "1.0 s", "65.9 KB", "0.45 ms", "", "", ""]),
        ("AES, 2^20 × 32 B".into(), row::<AesTree>(20, 32, 5)),
        ("ChaCha20, 2^20 × 32 B".into(), row::<ChaChaTree>(20, 32, 1)),
        paper("paper, 2^22 × 256 B", ["67 MB", "", "", "4.7 ms", "", "", "15 ms"]),
        ("AES, 2^22 × 256 B".into(), large(22, 256)),
        paper("S3PIR's authors, 2^24 × 32 B", ["11.53 MB", "23 s", "262.6 KB", "4.9 ms", "", "", ""]),
        ("AES, 2^24 × 32 B".into(), large(24, 32)),
        paper("S3PIR's authors, 2^28 × 32 B", ["46.14 MB", "430 s", "1049.6 KB", "14 ms", "", "", ""]),
        paper("paper, 2^28 × 32 B", ["67 MB", "", "", "23 ms", "", "", "256 ms"]),
        ("AES, 2^28 × 32 B".into(), by_formula(28, 32)),
    ];
    document.table(
        "TreePIR, §5: a lookup, and amortised over 2000",
        &[
            "client",
            "offline",
            "online bytes",
            "online, search stops at a hit",
            "online, every slot searched",
            "of it one server",
            "amortised",
        ],
        &rows,
    );
    document.say(
        "Offline is server 0's work. The client keeps seed, shift and parity of each hint. The paper's online time is what its amortised \
         time approaches over more lookups. Amortised is offline over 2000, plus online with a search that stops. \
        The recursion with SPIRAL (61 ms in the paper) has no row. In a trial on a loaded machine, crates.io's `spiral-rs` took 0.2 s or more on 512 KiB, without AVX2.",
    );
}

fn by_formula(log: u32, bytes: usize) -> Vec<Cell> {
    let geometry = Geometry::square(1 << log, bytes, LAMBDA).expect("a power of four");
    let online = 2 * (geometry.query_bytes() + geometry.answer_bytes());
    vec![
        Cell::Formula(geometry.client_bytes()),
        Cell::None,
        Cell::Formula(online),
        Cell::None,
        Cell::None,
        Cell::None,
        Cell::None,
    ]
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
    let mut timed = |search| {
        batches(15, 10, |_| {
            let index = source.below(1 << log) as usize;
            lines = [Channel::default(); 2];
            let found = client.lookup(index, search, &mut source, [&server, &server], &mut lines);
            assert_eq!(found.expect("a hint"), database.get(index));
        })
    };
    let (stopping, all) = (timed(Search::UntilFound), timed(Search::All));
    assert_eq!(lines, [Channel { up: geometry.query_bytes(), down: geometry.answer_bytes() }; 2]);
    let mut query = vec![0; geometry.query_bytes()];
    let answer = batches(15, 10, |_| {
        source.fill(&mut query);
        std::hint::black_box(server.answer(&query).expect("a punctured key"));
    });
    let amortised = time.median() / 2000.0 + stopping.median();
    vec![
        Cell::Counted(client_bytes),
        Cell::Time(time),
        Cell::Counted(lines.iter().map(|line| line.up + line.down).sum()),
        Cell::Time(stopping),
        Cell::Time(all),
        Cell::Time(answer),
        Cell::Computed(amortised),
    ]
}
