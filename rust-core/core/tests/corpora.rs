//! Runs the corpora of `npm run fuzz` through their decoders: an input that once failed stays tested. Every corpus has an input
//! that is accepted.

#[path = "../../fuzz/src/decoders.rs"]
#[allow(dead_code)]
mod decoders;

use std::fs;
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name)
}

#[test]
fn every_file_of_every_corpus_is_refused_or_read_as_it_was() {
    for (name, decode) in decoders::DECODERS {
        let files: Vec<_> = fs::read_dir(corpus(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let data = fs::read(&file).unwrap();
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
    for (name, seed) in decoders::seeds() {
        assert!(decoders::accepts(name, &seed), "{name} refuses its seed");
        let kept = fs::read_dir(corpus(name)).unwrap().any(|entry| fs::read(entry.unwrap().path()).unwrap() == seed);
        assert!(kept, "a seed of {name} is missing: cargo test --test corpora -- --ignored writes it");
    }
}

#[test]
#[ignore = "writes the seeds into the corpora"]
fn write_seeds() {
    for (name, _) in decoders::DECODERS {
        fs::create_dir_all(corpus(name)).unwrap();
        for old in fs::read_dir(corpus(name)).unwrap().map(|entry| entry.unwrap().path()) {
            if old.file_name().unwrap().to_string_lossy().starts_with("seed-") {
                fs::remove_file(old).unwrap();
            }
        }
    }
    for (number, (name, seed)) in decoders::seeds().into_iter().enumerate() {
        fs::write(corpus(name).join(format!("seed-{number}")), seed).unwrap();
    }
}
