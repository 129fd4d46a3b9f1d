//! What the tests of the scheme share: a database, its hint, and an honest round trip.

#![allow(dead_code)] // not every test crate needs every helper

use keyhush_core::commitment::tags::TAG_BYTES;
use keyhush_core::commitment::{Merkle, Proofs, VectorCommitment};
use keyhush_core::database::flat::Database;
use keyhush_core::layout::Layout;
use keyhush_core::random::{ChaCha, Uniform};
use keyhush_core::single::making::Builder;
use keyhush_core::single::streams::Function;
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role};
use keyhush_core::tapir::recon::{recon, verify};

/// `npm run test:all` tests everything, `npm test` a sample.
pub fn thorough() -> bool {
    std::env::var("KEYHUSH_THOROUGH").is_ok_and(|value| value == "1")
}

/// A committed database of `layout`. Its records are `content`, then zeros.
pub fn database<C: VectorCommitment>(layout: Layout, content: &[u8]) -> Database<C> {
    committed(Database::new(layout).unwrap(), content)
}

/// The same without openings.
pub fn bare<C: VectorCommitment>(layout: Layout, content: &[u8]) -> Database<C> {
    committed(Database::offering(layout, Proofs::Tags).unwrap(), content)
}

fn committed<C: VectorCommitment>(mut database: Database<C>, content: &[u8]) -> Database<C> {
    database.records_mut()[..content.len()].copy_from_slice(content);
    (0..database.layout().partitions()).for_each(|q| database.commit(q).unwrap());
    database
}

/// BLAKE3's output stream for a label: everybody can compute these bytes.
pub fn stream(label: &str, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    blake3::Hasher::new().update(label.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// 32 bytes of a label.
pub fn entropy(label: &str, number: usize) -> [u8; 32] {
    *blake3::hash(format!("{label} {number}").as_bytes()).as_bytes()
}

/// Shapes for instant lookups: (Q, M, ℓ). Among them: odd M, one partition, one record, groups as long as a partition or longer,
/// groups of one record, short last groups, more than one leaf of the point function, a number of groups that fills its last byte.
pub const SHAPES: [(u64, u64, u64); 14] = [
    (3, 21, 100),
    (2, 21, 32),
    (4, 16, 32),
    (1, 1, 8),
    (1, 5, 64),
    (5, 37, 64),
    (3, 13, 257),
    (2, 5, 1),
    (16, 3, 300),
    (7, 200, 128),
    (1, 1000, 33),
    (2, 65, 48),
    (130, 2, 256),
    (8, 2, 900),
];

/// A database of Q partitions of M records whose last slots, at most two, are padding.
pub fn filled((q, m, record_bytes): (u64, u64, u64)) -> Database<Merkle> {
    let layout = Layout::new((q * m).saturating_sub(2).max(1), record_bytes, q, m).unwrap();
    database(layout, &stream("records", layout.records() * layout.record_bytes()))
}

/// A committed database of records drawn from `seed`, and all its Q·M·ℓ bytes.
pub fn random<C: VectorCommitment>(layout: Layout, seed: u8) -> (Database<C>, Vec<u8>) {
    let mut content = vec![0; layout.database_bytes()];
    ChaCha::new(&[seed; 32], 7).fill(&mut content[..layout.records() * layout.stored().record_bytes]);
    (database(layout, &content), content)
}

/// A builder for `database`, with this kind of proof. Nothing is folded yet.
pub fn builder_of<C: VectorCommitment>(database: &Database<C>, proofs: Proofs, entropy: [u8; 32]) -> HintBuilder {
    let (commitments, hashes) = (database.commitments().unwrap(), database.content_hashes().unwrap());
    HintBuilder::new(*database.layout(), proofs, &commitments, &hashes, entropy).unwrap()
}

/// Receives partition `q` of `content` (all Q·M·ℓ bytes) in `lane`, in two pieces.
pub fn receive(builder: &mut HintBuilder, lane: usize, q: usize, content: &[u8]) {
    let bytes = builder.lane_bytes(lane).unwrap().len();
    builder.begin(lane, q).unwrap();
    builder.lane_bytes(lane).unwrap().copy_from_slice(&content[q * bytes..][..bytes]);
    builder.absorb(lane, bytes / 3).unwrap();
    builder.absorb(lane, bytes - bytes / 3).unwrap();
}

/// Folds what is missing.
pub fn fold_missing<C: VectorCommitment>(builder: &mut HintBuilder, database: &Database<C>) {
    let content: Vec<u8> =
        (0..database.layout().partitions()).flat_map(|q| database.partition(q).unwrap().to_vec()).collect();
    for q in 0..database.layout().partitions() {
        if !builder.is_folded(q).unwrap() {
            receive(builder, 0, q, &content);
            assert!(builder.fold(0).unwrap());
        }
    }
}

/// The hint of a database.
pub fn hint_of<C: VectorCommitment>(database: &Database<C>, proofs: Proofs, entropy: [u8; 32]) -> Hint {
    let mut builder = builder_of(database, proofs, entropy);
    fold_missing(&mut builder, database);
    builder.finish().map_err(|(error, _)| error).unwrap()
}

/// Receives a partition for hints of one server through a lane, in pieces. Whether its hash is the one expected.
pub fn keep<F: Function>(builder: &mut Builder<F>, lane: usize, q: usize, partition: &[u8]) -> bool {
    builder.begin(lane, q).unwrap();
    let mut at = 0;
    for piece in partition.chunks(777) {
        builder.lane_bytes(lane).unwrap()[at..at + piece.len()].copy_from_slice(piece);
        builder.absorb(lane, piece.len()).unwrap();
        at += piece.len();
    }
    builder.keep(lane).unwrap()
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

/// Verifies both honest answers and applies the lookup. Returns its records.
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

/// A stored form of these bytes, with the right checksum.
pub fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &blake3::hash(body).as_bytes()[..16]].concat()
}

/// A stored form with other bytes at `at`, and the right checksum.
pub fn resealed(form: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut body = form[..form.len() - 16].to_vec();
    body[at..at + bytes.len()].copy_from_slice(bytes);
    sealed(&body)
}

/// A stored form cut at each length, and with each bit flipped.
pub fn torn(form: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..form.len() * 8).map(|bit| {
        let mut flipped = form.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    (0..form.len()).map(|cut| form[..cut].to_vec()).chain(flipped)
}

/// Whether a lie of one bit is accepted for some records and refused for others: it reveals what was asked. `accepts`: whether a
/// client that asks for a record takes a reply that is off by a difference.
pub fn verdicts_tell(records: usize, reply_bytes: usize, accepts: impl Fn(u32, &[u8]) -> bool) -> bool {
    (0..reply_bytes * 8).any(|bit| {
        let mut difference = vec![0; reply_bytes];
        difference[bit / 8] ^= 1 << (bit % 8);
        let mut verdicts = (0..records as u32).map(|index| accepts(index, &difference));
        let first = verdicts.next();
        verdicts.any(|verdict| Some(verdict) != first)
    })
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
    /// Runs it once for every sequence of draws.
    pub fn all(mut run: impl FnMut(&mut Self)) {
        let mut source = Self::default();
        run(&mut source);
        while source.step() {
            run(&mut source);
        }
    }

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
