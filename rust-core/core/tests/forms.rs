//! Checks the bytes of every stored form and format with a version: they must be those of that version. If bytes changed and the
//! version did not, readers would take old bytes for damaged ones, where they must say "it has another version".

use std::collections::BTreeMap;

use keyhush_core::commitment::Merkle;
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::local::Local;

/// Kind, version, and the first 8 bytes of the BLAKE3 of all forms of this kind in the fuzzer's small world.
const FORMS: [(&str, u16, &str); 13] = [
    ("PIRD", 1, "0a3e1f3bd628f3ab"),
    ("PIRL", 1, "6a4dbc4d1e45f653"),
    ("PIRU", 1, "4f5c8aa7c589b6f7"),
    ("PIRb", 1, "6603c917abe956b8"),
    ("PIRc", 1, "5daee86bde14af05"),
    ("PIRe", 1, "9c9c342b7f296b82"),
    ("PIRl", 1, "7407b14a8d2bb444"),
    ("PIRp", 1, "1696562634d661f1"),
    ("PIRu", 1, "0f0edcc31b4ffe2f"),
    ("PISb", 1, "da456d7cf6ff032f"),
    ("PISc", 1, "aeb3ae42915e0ff6"),
    ("PISe", 1, "3a8e2ff0bb94bb4e"),
    ("PISp", 1, "adfd682b9264dc2c"),
];

#[test]
fn a_form_that_changes_has_another_version() {
    let database: Database<Merkle> = crate::common::database(Layout::new(10, 4, 3, 4).unwrap(), &[]);
    let mut local = Local::new(*database.layout(), &database.content_hashes().unwrap(), [9; 16]).unwrap();
    let mut forms = vec![local.encode(&[1; 32])];
    for q in 0..3 {
        local.begin(0, q).unwrap();
        local.absorb(0, 16).unwrap(); // zeros, as the lane has them
        assert!(local.keep(0).unwrap());
    }
    forms.push(local.encode(&[1; 32]));
    forms.extend(crate::decoders::seeds().into_iter().map(|(_, seed)| seed));
    let mut written: BTreeMap<String, (u16, blake3::Hasher)> = BTreeMap::new();
    for form in &forms {
        // Some seeds begin with the number of a kind of proof.
        let Some(at) = form.windows(2).take(2).position(|magic| magic == b"PI") else { continue };
        let (kind, rest) = form[at..].split_first_chunk::<4>().unwrap();
        let version = u16::from_le_bytes(*rest.first_chunk().unwrap());
        let (of_kind, hasher) = written.entry(String::from_utf8(kind.to_vec()).unwrap()).or_default();
        *of_kind = version;
        hasher.update(rest);
    }
    let written: Vec<_> = written
        .iter()
        .map(|(kind, (version, hasher))| (kind.as_str(), *version, hasher.finalize().to_hex()[..16].to_owned()))
        .collect();
    let known: Vec<_> = FORMS.iter().map(|&(kind, version, hash)| (kind, version, hash.to_owned())).collect();
    assert_eq!(
        written, known,
        "stored bytes are no longer those of their version. If fields changed, raise the version (VERSION in \
         core/src/tapir/state/frame.rs for states, FORMAT in core/src/directory/shape.rs and core/src/database/list.rs); then \
         write the new rows into FORMS in core/tests/forms.rs, the fixtures and the seeds (KEYHUSH_WRITE_VECTORS=1 cargo test \
         -p keyhush-core state::; cargo test -p keyhush-core corpora -- --ignored).",
    );
}
