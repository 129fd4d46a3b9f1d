//! `cargo run --release -p schemes -- tables [--quick] [--to FOLDER]`: measures the schemes and writes
//! papers.md, with the papers' figures beside ours, and papers.csv, the same figures for programs.

use std::path::PathBuf;
use std::process::ExitCode;

use schemes::tables::{Extent, write};

const USAGE: &str = "usage: schemes tables [--quick] [--to FOLDER]
  --quick  N up to 2^20; larger sizes by formula
  --to     where papers.md and papers.csv go; default: docs of this repository";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut extent = Extent::Full;
    let mut folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    let mut asked = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "tables" => asked = true,
            "--quick" => extent = Extent::Quick,
            "--to" => match args.next() {
                Some(path) => folder = path.into(),
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    if !asked {
        return usage();
    }
    match write(extent, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("could not write into {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
