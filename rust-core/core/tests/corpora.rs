//! Runs the corpora of `npm run fuzz` through their decoders: an input that once failed stays tested. Every corpus has an input
//! that is accepted. A corpus has a line for each input, in hex. Those that are accepted begin with `seed`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const SEED: &str = "seed ";

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(format!("{name}.hex"))
}

fn lines(name: &str) -> Vec<String> {
    fs::read_to_string(corpus(name)).unwrap_or_default().lines().map(String::from).collect()
}

fn bytes_of(line: &str) -> Vec<u8> {
    let hex = line.strip_prefix(SEED).unwrap_or(line);
    assert!(hex.len().is_multiple_of(2), "half a byte: {line}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn line_of(seed: &[u8]) -> String {
    let mut line = String::from(SEED);
    for byte in seed {
        write!(line, "{byte:02x}").unwrap();
    }
    line
}

#[test]
fn every_input_of_every_corpus_is_refused_or_read_as_it_was() {
    for (name, decode) in crate::decoders::DECODERS {
        let inputs = lines(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for data in inputs.iter().map(|line| bytes_of(line)) {
            decode(&data);
            // Also with every byte changed, and with every length.
            for at in 0..data.len().min(300) {
                let mut changed = data.clone();
                changed[at] ^= 1 << (at % 8);
                decode(&changed);
                decode(&data[..at]);
            }
        }
    }
}

#[test]
fn the_seeds_of_every_corpus_are_accepted_and_kept() {
    for (name, seed) in crate::decoders::seeds() {
        assert!(crate::decoders::accepts(name, &seed), "{name} refuses its seed");
        let kept = lines(name).contains(&line_of(&seed));
        assert!(kept, "a seed of {name} is missing: cargo test -p keyhush-core corpora -- --ignored writes it");
    }
}

#[test]
#[ignore = "writes the seeds into the corpora"]
fn write_seeds() {
    let seeds = crate::decoders::seeds();
    for (name, _) in crate::decoders::DECODERS {
        let own = seeds.iter().filter(|(of, _)| *of == name).map(|(_, seed)| line_of(seed));
        let others = lines(name).into_iter().filter(|line| !line.starts_with(SEED));
        let all: String = own.chain(others).map(|line| line + "\n").collect();
        fs::write(corpus(name), all).unwrap();
    }
}
