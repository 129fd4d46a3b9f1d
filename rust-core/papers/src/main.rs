//! The command `npm run papers`: measures the schemes and writes papers.md, with the papers' figures beside ours, and papers.csv
//! with the same figures for programs.

use std::path::PathBuf;
use std::process::ExitCode;

use papers::tables::{Extent, print, write};

const USAGE: &str = "usage: papers [--quick] [--only PAPER | --to FOLDER]
  --quick  N up to 2^20; larger sizes by formula
  --only   singlepass, s3pir, pai, treepir or tapir: prints its tables and writes nothing
  --to     where papers.md and papers.csv go; default: docs of this repository";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut extent = Extent::Full;
    let mut folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    let mut only = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => extent = Extent::Quick,
            "--only" => match args.next() {
                Some(paper) => only = Some(paper),
                None => return usage(),
            },
            "--to" => match args.next() {
                Some(path) => folder = path.into(),
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    if let Some(paper) = only {
        return if print(&paper, extent) { ExitCode::SUCCESS } else { usage() };
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
