//! Measures the papers' tables and writes them, with our figures beside the papers', all from one run. Every timed lookup is
//! checked against the data, and every count of bytes against its formula.

mod document;
mod measure;
mod pai;
mod s3pir;
mod singlepass;
mod tapir;
mod treepir;

use std::path::Path;
use std::time::Instant;

use document::Document;
pub use measure::Extent;

/// A function that measures one paper's tables, and prints each as soon as it is measured.
type Section = fn(&mut Document, Extent);

const SECTIONS: [(&str, Section); 5] = [
    ("singlepass", singlepass::table_2),
    ("s3pir", s3pir::tables),
    ("pai", pai::tables),
    ("treepir", treepir::section_5),
    ("tapir", tapir::table_1),
];

/// Measures one paper's tables and prints them. Returns false if there is no such paper.
pub fn print(name: &str, extent: Extent) -> bool {
    let section = SECTIONS.iter().find(|section| section.0 == name);
    section.map(|section| section.1(&mut Document::default(), extent)).is_some()
}

/// Measures everything and writes papers.md and papers.csv into a folder.
pub fn write(extent: Extent, folder: &Path) -> std::io::Result<()> {
    let begin = Instant::now();
    let load_before = load();
    let mut document = Document::default();
    SECTIONS.iter().for_each(|section| section.1(&mut document, extent));
    // Measured once: the figures stay as they are.
    document.say(include_str!("peers.md"));
    let run = match extent {
        Extent::Quick => "`--quick`",
        Extent::Full => "all that fits 16 GB of memory",
    };
    let minutes = begin.elapsed().as_secs().div_ceil(60);
    let head = format!(
        "# The papers, side by side\n\n\
         Our implementations of published schemes ([rust-core/papers](../rust-core/papers/src/lib.rs)) beside the papers' \
         figures. The product does not use them; its own figures are in [benchmarks.md](benchmarks.md).\n\n\
         ```sh\nnpm run papers\n```\n\n\
         This writes the page, its plots and [papers.csv](papers.csv). The page leaves out sizes \
         that were not run: papers.csv has our bytes by formula there, and the papers' figures.\n\n\
         - **Times** are processor time of one thread: **median** (least–most). What is not bold was measured once, or computed. \
         AES instructions are used where the papers use them, unless a row says ChaCha20. Every lookup's record was compared \
         with the data.\n\
         - **Bytes** are those of bodies, counted on the line and equal to the code's formulas.\n\
         - **Papers' figures** are as printed, from their machines. Their MB and KB are powers of two in S3PIR, Pai and TAPIR, of \
         ten in SinglePass. Ours are powers of two, and say so (MiB).\n\n\
         This run: {run}, in {minutes} min, on {}. The load average was {load_before} before and {} after. Other programs' time \
         is not counted, but they share caches and cores. Above 1, figures are larger than on a quiet machine.\n\n\
         ![Offline: time of the client or of the server that does it](plots/papers/offline-time.svg)\n\n\
         ![A lookup: time of the client and all servers](plots/papers/lookup-time.svg)\n\n\
         ![A lookup: bytes, both directions and all servers](plots/papers/lookup-bytes.svg)\n\n\
         ![Pai's family offline: time](plots/papers/pai-offline-time.svg)\n\n",
        machine(),
        load(),
    );
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("papers.md"), head + document.markdown.trim_end() + "\n")?;
    std::fs::write(folder.join("papers.csv"), "table,row,column,kind,value,least,most\n".to_owned() + &document.csv)
}

/// The machine: its processors.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<_> = cpus.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": ")).collect();
    match models.first() {
        Some((_, model)) => format!("{} × {}", models.len(), model.trim()),
        None => format!("{} ({})", std::env::consts::ARCH, std::env::consts::OS),
    }
}

/// The load of the machine: programs that wanted a processor in the last minute.
fn load() -> String {
    let loads = std::fs::read_to_string("/proc/loadavg").ok();
    loads.and_then(|loads| Some(loads.split_whitespace().next()?.to_owned())).unwrap_or_else(|| "unknown".into())
}
