//! Tests transcripts of ceremonies: one with two contributions holds, and no changed one does (docs/threat-model.md, Pointproofs).

mod common;

use bls12_381::{G1Affine, G2Affine, Scalar};
use common::{CEREMONY, TRANSCRIPT, begun, thorough, verified};
use keyhush_pointproofs::Error;
use keyhush_pointproofs::transcript::{G1_POWERS, MOST_CONTRIBUTORS, Transcript, transcript_bytes};

const G1_AT: usize = 16;
const G2_AT: usize = G1_AT + 48 * G1_POWERS;
const CONTRIBUTIONS_AT: usize = G2_AT + 96 * 256;
const CONTRIBUTION_BYTES: usize = 64 + 2 * 48 + 32;

/// Why a transcript is refused; empty if it is accepted.
fn refusal(bytes: &[u8]) -> String {
    let verdict = Transcript::decode(bytes).and_then(|transcript| transcript.verify(&[3; 32]).map(|_| ()));
    verdict.err().map_or(String::new(), |error| error.to_string())
}

fn honest() -> Vec<u8> {
    CEREMONY[1].transcript.clone()
}

/// Multiplies some powers in G1 by 2.
fn double_g1(bytes: &mut [u8], places: impl IntoIterator<Item = usize>) {
    for place in places {
        let point = &mut bytes[G1_AT + 48 * place..][..48];
        let old = G1Affine::from_compressed((&*point).try_into().unwrap()).unwrap();
        point.copy_from_slice(&G1Affine::from(old * Scalar::from(2)).to_compressed());
    }
}

fn double_g2(bytes: &mut [u8], places: impl IntoIterator<Item = usize>) {
    for place in places {
        let point = &mut bytes[G2_AT + 96 * place..][..96];
        let old = G2Affine::from_compressed((&*point).try_into().unwrap()).unwrap();
        point.copy_from_slice(&G2Affine::from(old * Scalar::from(2)).to_compressed());
    }
}

#[test]
fn two_contribute_and_each_finds_their_own_contribution() {
    let transcript = &*TRANSCRIPT;
    assert_eq!(transcript.transcript().names().collect::<Vec<_>>(), ["Ada", "Grace"]);
    assert!(CEREMONY.iter().all(|contributed| transcript.has(&contributed.receipt)));
    assert_eq!(honest().len(), transcript_bytes(2));
    // Another contribution under the same name; and a ceremony that does not have it.
    let other = begun().contribute("Ada", &[7; 32]).unwrap();
    assert!(!transcript.has(&other.receipt) && !verified(&CEREMONY[0].transcript).has(&CEREMONY[1].receipt));
    assert_ne!(other.transcript[G1_AT..][..48], CEREMONY[0].transcript[G1_AT..][..48]);
    // Deterministic: the same entropy at the same place.
    assert_eq!(begun().contribute("Ada", &[1; 32]).unwrap().receipt, CEREMONY[0].receipt);
    // The first power of a transcript without contributions is the generator: it has no key.
    assert!(matches!(begun().key(), Err(Error::Transcript(_))));
    assert!(!begun().has(&blake3::derive_key("keyhush 2026-11 pointproofs chain v1", &honest()[..12])));
}

#[test]
fn no_power_can_be_scaled() {
    let places: Vec<usize> = if thorough() { (0..G1_POWERS).step_by(5).chain([256]).collect() } else { vec![255, 256] };
    for place in places {
        let mut bytes = honest();
        double_g1(&mut bytes, [place]);
        assert!(!refusal(&bytes).is_empty(), "power at {place} of G1");
    }
    let places: Vec<usize> = if thorough() { (0..256).step_by(5).collect() } else { vec![255] };
    for place in places {
        let mut bytes = honest();
        double_g2(&mut bytes, [place]);
        assert!(!refusal(&bytes).is_empty(), "power at {place} of G2");
    }
}

#[test]
fn each_check_finds_what_only_it_can_find() {
    // All powers above the gap, by one factor: their neighbours still fit.
    let mut bytes = honest();
    double_g1(&mut bytes, 256..G1_POWERS);
    assert!(refusal(&bytes).contains("across the gap"));
    // One power in G1.
    let mut bytes = honest();
    double_g1(&mut bytes, [100]);
    assert!(refusal(&bytes).contains("powers in G1 are not"));
    let mut bytes = honest();
    double_g2(&mut bytes, [100]);
    assert!(refusal(&bytes).contains("powers in G2 are not"));
    let mut bytes = honest();
    double_g2(&mut bytes, 0..256);
    assert!(refusal(&bytes).contains("first powers"));
    let mut bytes = honest();
    double_g1(&mut bytes, [0]);
    assert!(refusal(&bytes).contains("do not lead"));
    // All powers of another ceremony, with these contributions.
    let other = verified(&CEREMONY[0].transcript).contribute("Grace", &[5; 32]).unwrap().transcript;
    let bytes = [&other[..CONTRIBUTIONS_AT], &honest()[CONTRIBUTIONS_AT..]].concat();
    assert!(refusal(&bytes).contains("do not lead"));
}

#[test]
fn a_contribution_is_worth_nothing_elsewhere() {
    let holds = "does not hold";
    let start = CONTRIBUTIONS_AT;
    for contribution in 0..2 {
        let own = start + contribution * CONTRIBUTION_BYTES;
        let mut renamed = honest();
        renamed[own] ^= 1;
        assert!(refusal(&renamed).contains(holds), "another name");
        let mut response = honest();
        response[own + 160] ^= 1;
        assert!(refusal(&response).contains(holds), "another response");
    }
    let [first, second] = [0, 1].map(|n| honest()[start + n * CONTRIBUTION_BYTES..][..CONTRIBUTION_BYTES].to_vec());
    let with = |contributions: &[&[u8]]| {
        let mut bytes = [&honest()[..start], &contributions.concat()].concat();
        bytes[12] = contributions.len() as u8;
        bytes
    };
    assert_eq!(refusal(&with(&[&first, &second])), "");
    assert!(refusal(&with(&[&second, &first])).contains(holds), "the other order");
    assert!(refusal(&with(&[&second])).contains(holds), "the first left out");
    assert!(refusal(&with(&[&first])).contains("do not lead"), "the last left out");
    assert!(refusal(&with(&[&first, &second, &second])).contains(holds), "one twice");
    assert!(refusal(&with(&[])).contains("do not lead"), "all left out");
    let mut development = honest();
    development[8] = 1;
    assert!(refusal(&development).contains(holds), "made into one for development");
    // Another's factor with an unknown logarithm: a chosen "after", with any proof.
    let mut stolen = first.clone();
    stolen[64..112].copy_from_slice(&G1Affine::generator().to_compressed());
    assert!(refusal(&with(&[&stolen, &second])).contains(holds));
}

#[test]
fn bytes_are_read_strictly() {
    let bytes = honest();
    let read = |bytes: &[u8]| Transcript::decode(bytes).err();
    let with = |at: usize, new: &[u8]| [&bytes[..at], new, &bytes[at + new.len()..]].concat();
    for length in [0, 15, 16, transcript_bytes(1), bytes.len() - 1] {
        assert!(matches!(read(&bytes[..length]), Some(Error::Length { .. })), "{length} bytes");
    }
    assert!(matches!(read(&[&bytes[..], &[0]].concat()), Some(Error::Length { .. })));
    for at in (0..8).chain([9, 10, 11, 14, 15]) {
        assert!(matches!(read(&with(at, &[!bytes[at]])), Some(Error::Transcript(_))), "byte {at}");
    }
    assert!(matches!(read(&with(8, &[2])), Some(Error::Transcript(_))), "an unknown flag");
    assert!(matches!(read(&with(12, &[MOST_CONTRIBUTORS as u8 + 1])), Some(Error::Transcript(_))));
    assert!(matches!(read(&with(12, &[3])), Some(Error::Length { .. })));

    let identity = |bytes: usize| [&[0xc0][..], &vec![0; bytes - 1]].concat();
    let outside = |x: u8| [&[0x80][..], &[0; 46], &[x]].concat(); // 4: not in the subgroup; 1: not on the curve
    let bad = [identity(48), outside(4), outside(1), vec![0; 48], vec![0xff; 48], vec![0x9f; 48]];
    for (number, point) in bad.iter().enumerate() {
        let elsewhere = [G1_AT + 48 * 510, CONTRIBUTIONS_AT + 64, CONTRIBUTIONS_AT + 112];
        for &at in [G1_AT].iter().chain(&elsewhere[..if thorough() { 3 } else { number % 3 }]) {
            assert!(matches!(read(&with(at, point)), Some(Error::Point(_))), "point {number} at {at}");
        }
    }
    for point in [identity(96), vec![0; 96], vec![0xff; 96], [&[0x80][..], &[0; 94], &[2]].concat()] {
        assert!(matches!(read(&with(G2_AT + 96 * 255, &point)), Some(Error::Point(_))));
    }
    let name = CONTRIBUTIONS_AT;
    for bad in [&[0][..], b"\n", b"A\0B", &[0xff], &[0xc2]] {
        assert!(matches!(read(&with(name, bad)), Some(Error::Name(_))), "{bad:?}");
    }
    let response = name + 160;
    assert!(matches!(read(&with(response, &[0xff; 32])), Some(Error::Transcript(_))), "not below the order");
}

#[test]
fn names_are_short_text() {
    let transcript = begun();
    let long = "é".repeat(32); // 64 bytes
    let named = transcript.contribute(&long, &[1; 32]).unwrap();
    assert_eq!(Transcript::decode(&named.transcript).unwrap().names().collect::<Vec<_>>(), std::slice::from_ref(&long));
    for name in ["", "a\tb", "\0", &format!("{long}a")] {
        assert!(matches!(transcript.contribute(name, &[1; 32]), Err(Error::Name(_))), "{name:?}");
    }
}

#[test]
fn a_development_ceremony_stays_one() {
    let begun = verified(&Transcript::begin(true));
    let contributed = begun.contribute("nobody", &[1; 32]).unwrap();
    let transcript = verified(&contributed.transcript);
    assert!(transcript.transcript().is_development() && !TRANSCRIPT.transcript().is_development());
    let key = transcript.key().unwrap();
    let read = |allowed| keyhush_pointproofs::Key::decode(&key, blake3::hash(&key).as_bytes(), allowed);
    assert!(read(true).unwrap().is_development() && read(false).is_err());
}
