//! A ceremony of two contributors, held once in a test program.

#![allow(dead_code)] // not every test crate needs every helper

use std::sync::LazyLock;

use keyhush_pointproofs::transcript::{Contributed, Transcript, Verified};

/// `npm run test:all` tests everything, `npm test` a sample.
pub fn thorough() -> bool {
    std::env::var("KEYHUSH_THOROUGH").is_ok_and(|value| value == "1")
}

pub fn verified(bytes: &[u8]) -> Verified {
    Transcript::decode(bytes).unwrap().verify(&[9; 32]).unwrap()
}

pub fn begun() -> Verified {
    verified(&Transcript::begin(false))
}

/// The transcript with contributions of "Ada" and "Grace".
pub static CEREMONY: LazyLock<[Contributed; 2]> = LazyLock::new(|| {
    let first = begun().contribute("Ada", &[1; 32]).unwrap();
    let second = verified(&first.transcript).contribute("Grace", &[2; 32]).unwrap();
    [first, second]
});

pub static TRANSCRIPT: LazyLock<Verified> = LazyLock::new(|| verified(&CEREMONY[1].transcript));
