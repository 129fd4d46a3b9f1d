//! Tests that arbitrary bytes are refused, and that nothing panics.

mod common;

use std::sync::LazyLock;

use common::{CEREMONY, TRANSCRIPT};
use keyhush_pointproofs::transcript::Transcript;
use keyhush_pointproofs::{Key, Rows, Shape, row_list_bytes};
use proptest::prelude::*;

static KEY: LazyLock<Vec<u8>> = LazyLock::new(|| TRANSCRIPT.key().unwrap());

fn key(bytes: &[u8]) -> Option<Key> {
    Key::decode(bytes, blake3::hash(bytes).as_bytes(), true).ok()
}

/// Valid bytes, with other bytes at one place, cut off or not.
fn mangled(honest: &[u8], at: prop::sample::Index, bytes: &[u8], end: Option<prop::sample::Index>) -> Vec<u8> {
    let mut mangled = honest.to_vec();
    let at = at.index(mangled.len());
    let length = bytes.len().min(mangled.len() - at);
    mangled[at..at + length].copy_from_slice(&bytes[..length]);
    mangled.truncate(end.map_or(honest.len(), |end| end.index(honest.len())));
    mangled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if common::thorough() { 256 } else { 8 }))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(key(&bytes).is_none());
        prop_assert!(Transcript::decode(&bytes).is_err());
        let shape = Shape::new(3, 300, 8).unwrap();
        let rows = Rows::decode(shape, &key(&KEY).unwrap(), &bytes);
        prop_assert!(rows.is_err() || bytes.len() == 3 * row_list_bytes(&shape));
    }

    #[test]
    fn almost_a_key(at: prop::sample::Index, bytes: [u8; 7], end: Option<prop::sample::Index>) {
        let mangled = mangled(&KEY, at, &bytes, end);
        // The transcript's hash may be any 32 bytes. Any other change is noticed.
        let same = mangled.get(..12) == KEY.get(..12) && mangled.get(44..) == KEY.get(44..);
        prop_assert_eq!(key(&mangled).is_some(), same);
    }

    #[test]
    fn almost_a_transcript(at: prop::sample::Index, bytes: [u8; 7], end: Option<prop::sample::Index>) {
        let honest = &CEREMONY[1].transcript;
        let mangled = mangled(honest, at, &bytes, end);
        let refused = Transcript::decode(&mangled).and_then(|transcript| transcript.verify(&[3; 32]).map(|_| ())).is_err();
        prop_assert_eq!(refused, mangled != *honest);
    }
}
