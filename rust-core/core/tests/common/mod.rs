//! What the tests of the scheme share: a database, its hint, and an honest round trip.

#![allow(dead_code)] // not every test crate needs every helper

use keyhush_core::commitment::tags::TAG_BYTES;
use keyhush_core::commitment::{Proofs, VectorCommitment};
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::random::Uniform;
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role};
use keyhush_core::tapir::recon::{recon, verify};

/// `npm run test:all` tests everything, `npm test` a sample.
pub fn thorough() -> bool {
    std::env::var("KEYHUSH_THOROUGH").is_ok_and(|value| value == "1")
}

/// A committed database of `layout`. Its records are `content`, then zeros.
pub fn database<C: VectorCommitment>(layout: Layout, content: &[u8]) -> Database<C> {
    let mut database = Database::new(layout).unwrap();
    database.records_mut()[..content.len()].copy_from_slice(content);
    (0..layout.partitions()).for_each(|q| database.commit(q).unwrap());
    database
}

/// A builder for `database`, of a hint that checks openings. Nothing is folded yet.
pub fn builder<C: VectorCommitment>(database: &Database<C>, entropy: [u8; 32]) -> HintBuilder {
    builder_of(database, Proofs::Openings, entropy)
}

/// A builder for `database`, with this kind of proof. Nothing is folded yet.
pub fn builder_of<C: VectorCommitment>(database: &Database<C>, proofs: Proofs, entropy: [u8; 32]) -> HintBuilder {
    let layout = *database.layout();
    let partitions = 0..layout.partitions();
    let commitments: Vec<u8> = partitions.clone().flat_map(|q| database.commitment(q).unwrap()).collect();
    let hashes: Vec<u8> = partitions.flat_map(|q| database.content_hash(q).unwrap()).collect();
    HintBuilder::new(layout, proofs, &commitments, &hashes, entropy).unwrap()
}

/// Receives partition `q` of `content` (all Q·M·ℓ bytes) in `lane`, in two pieces.
pub fn receive(builder: &mut HintBuilder, lane: usize, q: usize, content: &[u8]) {
    let bytes = builder.lane_bytes(lane).unwrap().len();
    builder.begin(lane, q).unwrap();
    builder.lane_bytes(lane).unwrap().copy_from_slice(&content[q * bytes..][..bytes]);
    builder.absorb(lane, bytes / 3).unwrap();
    builder.absorb(lane, bytes - bytes / 3).unwrap();
}

/// The hint of a database, with permutations drawn from `source`.
pub fn hint_from<C: VectorCommitment>(database: &mut Database<C>, proofs: Proofs, source: &mut impl Uniform) -> Hint {
    let mut builder = builder_of(database, proofs, [0; 32]);
    for q in 0..database.layout().partitions() {
        receive(&mut builder, 0, q, database.records_mut());
        assert!(builder.hazmat_fold_from(0, source).unwrap());
    }
    builder.finish().map_err(|(error, _)| error).unwrap()
}

/// Verifies both honest answers and applies the batch. Returns its records.
#[allow(dead_code)] // not every test crate wants the records alone
pub fn finish<C: VectorCommitment>(database: &Database<C>, hint: &mut Hint, mut pending: Pending) -> Vec<u8> {
    for role in [Role::Retrieve, Role::Refresh] {
        let answer = database.answer(&pending.vectors(role), hint.proofs()).unwrap();
        assert!(verify::<C>(hint, &mut pending, role, &answer).unwrap());
    }
    recon(hint, pending).map_err(|(error, _)| error).unwrap().records
}

/// The key and the tags at the end of a stored hint with tags; empty for a hint without.
pub fn tags_of(hint: &Hint) -> Vec<u8> {
    if hint.proofs() == Proofs::Openings {
        return Vec::new();
    }
    let stored = hint.encode(&[0; 32]).unwrap();
    let end = stored.len() - 16; // checksum
    stored[end - TAG_BYTES - hint.tag_bytes()..end].to_vec()
}

/// Replays a sequence of draws. It steps through all sequences as an odometer does.
#[derive(Default)]
pub struct Enumerate {
    /// (value, bound)
    pub digits: Vec<(u32, u32)>,
    /// number of draws since the sequence began
    pub position: usize,
}

impl Uniform for Enumerate {
    fn below(&mut self, bound: u32) -> u32 {
        if self.position == self.digits.len() {
            self.digits.push((0, bound));
        }
        let (value, known) = self.digits[self.position];
        assert_eq!(known, bound, "the number of draws must not depend on what was drawn");
        self.position += 1;
        value
    }
}

impl Enumerate {
    /// Goes to the next sequence. Returns false after the last.
    pub fn step(&mut self) -> bool {
        self.position = 0;
        for (value, bound) in self.digits.iter_mut().rev() {
            *value += 1;
            if value < bound {
                return true;
            }
            *value = 0;
        }
        false
    }
}
