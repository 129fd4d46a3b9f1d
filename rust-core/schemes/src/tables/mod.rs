//! The papers' tables with our figures beside theirs, from one run. Every lookup that is timed is checked against the data, and
//! every count of bytes against its formula.

mod document;
mod measure;
mod paper_000;
mod paper_001;
mod paper_002;
mod paper_003;
mod paper_004;

use std::path::Path;

use document::Document;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// N up to 2^20
    Quick,
    /// what a machine with 8 GB does in minutes
    Usual,
    /// the keyword schemes at 2^20 too
    Full,
}

/// Measures everything and writes papers.md and papers.csv into a folder.
pub fn write(extent: Extent, folder: &Path) -> std::io::Result<()> {
    let mut document = Document::default();
    document.say(
        "# The papers, side by side\n\n\
         Written by `cargo run --release -p schemes -- tables` in `rust-core` (or `npm run bench -- papers`), from one run of \
         [rust-core/schemes](../rust-core/schemes/src/lib.rs). Nothing of it answers the product's lookups; the \
         product's own figures are in [benchmarks.md](benchmarks.md).",
    );
    document.say(
        "Times are processor time of one thread, **median** (least–most), with AES instructions where the papers have them, unless \
         a row says ChaCha20. Bytes are counted on the line, requests' and answers' bodies, and were compared with the formulas of the \
         code in the run; *slanted* ones are by the formula alone, for sizes that were not run. A paper's rows \
         are as printed, on its own machine, MB and KB in its own meaning (2^20 and 2^10 in 002 and 003). Every \
         lookup's record was compared with the data. The same figures as data: [papers.csv](papers.csv).",
    );
    document.say(match extent {
        Extent::Quick => "This run: `--quick`, sizes above 2^20 by formula.",
        Extent::Usual => "This run: all but the keyword schemes at 2^20, which `--full` adds.",
        Extent::Full => "This run: `--full`.",
    });
    document.say(
        "Other programs' time is not counted, but they share caches and cores: a busy machine gives larger figures.",
    );
    document.csv.push_str("table,row,column,kind,value,least,most\n");
    paper_001::table_2(&mut document);
    paper_002::tables(&mut document, extent);
    paper_003::tables(&mut document, extent);
    paper_004::section_5(&mut document, extent);
    paper_000::table_1(&mut document, extent);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("papers.md"), document.markdown.trim_end().to_owned() + "\n")?;
    std::fs::write(folder.join("papers.csv"), document.csv)
}
