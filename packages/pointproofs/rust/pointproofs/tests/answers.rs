//! Tests proofs of answers: honest ones hold for all shapes, and nothing else holds (docs/threat-model.md, Pointproofs).

mod common;

use std::sync::LazyLock;

use common::{TRANSCRIPT, thorough};
use keyhush_pointproofs::prover::{Edit, Proved, Prover, prove_together};
use keyhush_pointproofs::scalar::of_record;
use keyhush_pointproofs::{
    Error, G1_WHOLE_BYTES, HEADER_BYTES, KEY_BYTES, Key, PROOF_BYTES, ROW_RECORDS, Rows, Shape, Statement,
    Verification, hazmat, receipt, row_list_bytes, verify,
};
use num_bigint::{BigInt, Sign};

static PROVER: LazyLock<Prover> = LazyLock::new(|| Prover::new(&TRANSCRIPT).unwrap());
static KEY: LazyLock<Key> = LazyLock::new(|| {
    let bytes = TRANSCRIPT.key().unwrap();
    Key::decode(&bytes, blake3::hash(&bytes).as_bytes(), false).unwrap()
});

const MANIFEST: [u8; 32] = [0x4d; 32];
const HEADER: [u8; HEADER_BYTES] = [0x48; HEADER_BYTES];

/// A database, and what its server keeps.
struct World {
    shape: Shape,
    records: Vec<u8>,
    proved: Vec<Proved>,
    rows: Rows,
}

/// What a client asked for, and an answer to it.
#[derive(Clone)]
struct Answer {
    manifest: [u8; 32],
    header: [u8; HEADER_BYTES],
    offsets: Vec<u16>,
    records: Vec<u8>,
    proof: Vec<u8>,
}

impl World {
    /// Records that all differ. Every fifth is empty, and so is the whole second row of the last partition.
    fn new(partitions: usize, partition_records: usize, record_bytes: usize) -> Self {
        let shape = Shape::new(partitions, partition_records, record_bytes).unwrap();
        let mut records = vec![0; partitions * partition_records * record_bytes];
        for (index, record) in records.chunks_exact_mut(record_bytes).enumerate() {
            let (q, offset) = (index / partition_records, index % partition_records);
            if index % 5 != 4 && !(q + 1 == partitions && offset >= ROW_RECORDS) {
                blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof().fill(record);
            }
        }
        World::of(shape, records)
    }

    fn of(shape: Shape, records: Vec<u8>) -> Self {
        let partitions = records.chunks_exact(shape.partition_records() * shape.record_bytes()).enumerate();
        let proved: Vec<_> = partitions.map(|(q, bytes)| PROVER.prove(&shape, q, bytes).unwrap()).collect();
        let rows = Rows::decode(shape, &KEY, &lists(&proved)).unwrap();
        World { shape, records, proved, rows }
    }

    fn record(&self, q: usize, offset: usize) -> &[u8] {
        &self.records[(q * self.shape.partition_records() + offset) * self.shape.record_bytes()..]
            [..self.shape.record_bytes()]
    }

    fn opening(&self, q: usize, offset: usize) -> [u8; G1_WHOLE_BYTES] {
        self.proved[q].openings.as_chunks().0[offset]
    }

    fn answer(&self, offsets: &[u16]) -> Answer {
        let places: Vec<_> =
            offsets.iter().enumerate().map(|(n, &m)| (n % self.shape.partitions(), m.into())).collect();
        let records = places.iter().flat_map(|&(q, m)| self.record(q, m)).copied().collect();
        let openings: Vec<_> = places.iter().map(|&(q, m)| self.opening(q, m)).collect();
        let mut answer =
            Answer { manifest: MANIFEST, header: HEADER, offsets: offsets.to_vec(), records, proof: Vec::new() };
        answer.proof = prove_together(&self.statement(&answer), &openings).unwrap().to_vec();
        answer
    }

    fn statement<'a>(&self, answer: &'a Answer) -> Statement<'a> {
        let Answer { manifest, header, offsets, records, .. } = answer;
        Statement::new(self.shape, manifest, header, offsets, records).unwrap()
    }

    fn verify(&self, answer: &Answer) -> bool {
        verify(&KEY, &self.rows, &self.statement(answer), &answer.proof).unwrap()
    }
}

fn lists(proved: &[Proved]) -> Vec<u8> {
    proved.iter().flat_map(|proved| proved.row_list.clone()).collect()
}

/// Three partitions of 300 records of 8 bytes.
static WORLD: LazyLock<World> = LazyLock::new(|| World::new(3, 300, 8));

#[test]
fn honest_answers_hold_for_short_rows_whole_rows_and_one_more() {
    for m in [1, 20, 255, 256, 257] {
        let world = World::new(2, m, 3);
        let offsets = [0, m / 2, m.saturating_sub(2), m - 1].map(|offset| offset as u16);
        for pair in [[offsets[0], offsets[3]], [offsets[1], offsets[2]], [offsets[3], offsets[0]]] {
            assert!(world.verify(&world.answer(&pair)), "M = {m}");
        }
        assert!(world.verify(&world.answer(&offsets)), "two queries, M = {m}");
        let list = &world.proved[0].row_list;
        assert_eq!((list.len(), world.shape.rows()), (row_list_bytes(&world.shape), m.div_ceil(256)));
    }
}

#[test]
fn empty_records_are_proved_as_any_others_and_rows_of_nothing_else_too() {
    let world = &*WORLD;
    let [empty, row] = [4, 290]; // of the first and the last partition
    assert!(world.record(0, empty).iter().chain(world.record(2, row)).all(|&byte| byte == 0));
    let answer = world.answer(&[empty as u16, 3, row as u16]);
    assert!(world.verify(&answer));
    let nothing = World::of(world.shape, vec![0; world.records.len()]);
    let mut answer = nothing.answer(&[0, 255, 299]);
    assert_eq!(answer.proof[0], 0xc0, "the identity");
    assert!(nothing.verify(&answer));
    answer.records[9] = 1;
    assert!(!nothing.verify(&answer));
}

#[test]
fn steps_come_to_the_same_verdict_and_their_number_follows_from_how_many_entries_there_are() {
    let world = &*WORLD;
    let vectors: [&[u16]; 4] = [&[7, 255, 4], &[0, 0, 0], &[7, 255, 4, 299, 0, 1], &[1, 2, 3, 1, 2, 3]];
    for offsets in vectors {
        let honest = world.answer(offsets);
        let mut forged = honest.clone();
        forged.records[0] ^= 1;
        let nowhere = Answer { proof: vec![0; 48], ..honest.clone() };
        for (answer, expected) in [(&honest, true), (&forged, false), (&nowhere, false)] {
            let begun = || Verification::begin(&KEY, &world.rows, &world.statement(answer), &answer.proof).unwrap();
            let mut stepped = begun();
            let steps = 1 + std::iter::repeat_with(|| stepped.step()).take_while(|&more| more).count();
            assert_eq!(steps, offsets.len().div_ceil(4) + 1);
            assert!(!stepped.step(), "nothing more comes of it");
            assert_eq!(stepped.finish(), Ok(expected));
            let mut half_way = begun();
            half_way.step();
            assert_eq!(half_way.finish(), Ok(expected), "finishing does the rest");
        }
    }
}

#[test]
fn no_bit_of_an_answer_can_change() {
    let (world, honest) = (&*WORLD, WORLD.answer(&[7, 255, 256, 4, 299, 0]));
    assert!(world.verify(&honest));
    let refused = |change: &dyn Fn(&mut Answer), what: &str| {
        let mut answer = honest.clone();
        change(&mut answer);
        assert!(!world.verify(&answer), "{what}");
    };
    let stride = if thorough() { 3 } else { 29 };
    for bit in (0..8 * honest.records.len()).step_by(stride) {
        refused(&|answer| answer.records[bit / 8] ^= 1 << (bit % 8), "a record");
    }
    for bit in (0..8 * PROOF_BYTES).step_by(stride) {
        refused(&|answer| answer.proof[bit / 8] ^= 1 << (bit % 8), "the proof");
    }
    for bit in (0..8 * HEADER_BYTES).step_by(stride) {
        refused(&|answer| answer.header[bit / 8] ^= 1 << (bit % 8), "the header, and with it the epoch");
    }
    for bit in (0..256).step_by(stride) {
        refused(&|answer| answer.manifest[bit / 8] ^= 1 << (bit % 8), "the manifest");
    }
    refused(&|answer| answer.records.iter_mut().for_each(|byte| *byte = !*byte), "all records");
    refused(&|answer| answer.proof.iter_mut().for_each(|byte| *byte = !*byte), "all of the proof");
    refused(&|answer| answer.records.fill(0), "empty records");
    for (entry, offset) in [(0, 8), (0, 263), (1, 254), (2, 0), (2, 257), (5, 1)] {
        refused(&|answer| answer.offsets[entry] = offset, "another offset");
    }
    let (one, other) = honest.records.split_at(24);
    refused(&|answer| answer.records = [other, one].concat(), "the queries' answers, exchanged");
    refused(&|answer| answer.records[..8].copy_from_slice(world.record(0, 8)), "the record of another column");
    refused(&|answer| answer.records[..8].copy_from_slice(world.record(0, 263)), "the record of another row");
    refused(&|answer| answer.records[..8].copy_from_slice(world.record(1, 7)), "the record of another partition");
}

#[test]
fn proofs_of_other_things_do_not_hold() {
    let (world, honest) = (&*WORLD, WORLD.answer(&[7, 255, 256]));
    let refused = |proof: &[u8], what: &str| {
        assert!(!world.verify(&Answer { proof: proof.to_vec(), ..honest.clone() }), "{what}");
    };
    refused(&world.answer(&[8, 255, 256]).proof, "another answer's");
    refused(&world.answer(&[7, 255, 256, 7, 255, 256]).proof, "a batch's");
    let old = Answer { header: [1; HEADER_BYTES], ..honest.clone() };
    let openings = [(0, 7), (1, 255), (2, 256)].map(|(q, m)| world.opening(q, m));
    refused(&prove_together(&world.statement(&old), &openings).unwrap(), "another epoch's");
    refused(
        &prove_together(&world.statement(&honest), &[openings[1], openings[0], openings[2]]).unwrap(),
        "in another order",
    );

    let mut identity = [0; PROOF_BYTES];
    identity[0] = 0xc0;
    refused(&identity, "the identity");
    refused(&[0; PROOF_BYTES], "no flags");
    refused(&[0xff; PROOF_BYTES], "x ≥ p");
    let with = |first: u8| [&[first], &honest.proof[1..]].concat();
    refused(&with(honest.proof[0] & 0x7f), "not marked as compressed");
    refused(&with(honest.proof[0] | 0x40), "marked as the identity");
    refused(&with(honest.proof[0] ^ 0x20), "the other y");
    // x = 4: on the curve, and outside the subgroup; x = 1: not on the curve.
    for (x, on_curve) in [(4, true), (1, false)] {
        let mut bytes = [0; PROOF_BYTES];
        (bytes[0], bytes[47]) = (0x80, x);
        assert_eq!(bool::from(bls12_381::G1Affine::from_compressed_unchecked(&bytes).is_some()), on_curve);
        refused(&bytes, "outside the subgroup or the curve");
    }
    for bytes in [0, 47, 49, 96] {
        let verdict = verify(&KEY, &world.rows, &world.statement(&honest), &vec![0; bytes]);
        assert_eq!(verdict, Err(Error::Length { what: "proof", expected: 48, actual: bytes as u64 }));
    }
}

#[test]
fn an_answer_is_held_to_its_own_database_and_key() {
    let (world, honest) = (&*WORLD, WORLD.answer(&[7, 255, 256]));
    let mut other_rows = lists(&world.proved);
    let last = other_rows.len() - 48;
    let moved = other_rows[32..80].to_vec();
    other_rows[last..].copy_from_slice(&moved); // the last row's: the one asked for
    let rows = Rows::decode(world.shape, &KEY, &other_rows).unwrap();
    assert_eq!(verify(&KEY, &rows, &world.statement(&honest), &honest.proof), Ok(false));
    other_rows[last..].fill(0xff);
    let rows = Rows::decode(world.shape, &KEY, &other_rows).unwrap();
    assert!(matches!(verify(&KEY, &rows, &world.statement(&honest), &honest.proof), Err(Error::Rows(_))));
    other_rows[32 + 48 * 2] ^= 1; // in the second list's hash of its key
    assert!(matches!(Rows::decode(world.shape, &KEY, &other_rows), Err(Error::Rows(_))));
    assert!(matches!(Rows::decode(world.shape, &KEY, &other_rows[1..]), Err(Error::Length { .. })));
    let shape = Shape::new(3, 299, 8).unwrap();
    let statement = Statement::new(shape, &MANIFEST, &HEADER, &honest.offsets, &honest.records).unwrap();
    assert!(matches!(verify(&KEY, &world.rows, &statement, &honest.proof), Err(Error::Rows(_))));

    // Another ceremony's key has other rows. With these rows under its hash, nothing would hold.
    let other = common::verified(&common::CEREMONY[0].transcript).key().unwrap();
    let key = Key::decode(&other, blake3::hash(&other).as_bytes(), false).unwrap();
    let mut renamed = lists(&world.proved);
    assert!(matches!(Rows::decode(world.shape, &key, &renamed), Err(Error::Rows(_))));
    renamed.chunks_exact_mut(32 + 96).for_each(|list| list[..32].copy_from_slice(key.hash()));
    let rows = Rows::decode(world.shape, &key, &renamed).unwrap();
    assert_eq!(verify(&key, &rows, &world.statement(&honest), &honest.proof), Ok(false));
}

#[test]
fn statements_have_the_lengths_of_their_shape() {
    let shape = WORLD.shape;
    let new = |offsets: &[u16], records: &[u8]| Statement::new(shape, &MANIFEST, &HEADER, offsets, records).map(|_| ());
    assert_eq!(new(&[0; 3], &[0; 24]), Ok(()));
    for (offsets, records) in [(0, 0), (2, 16), (4, 32), (3, 23), (3, 25), (6, 24)] {
        let refused = new(&vec![0; offsets], &vec![0; records]);
        assert!(matches!(refused, Err(Error::Length { .. })), "{offsets} offsets, {records} bytes");
    }
    assert_eq!(new(&[0, 300, 0], &[0; 24]), Err(Error::Index { what: "offset", bound: 300 }));
    for (q, m, l) in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (65_537, 1, 1), (1, 65_537, 1), (1, 1, 65_537)] {
        assert!(matches!(Shape::new(q, m, l), Err(Error::Index { .. })));
    }
}

/// Factors t₁, t₂ below 2¹²⁸ with t₁·d₁ + t₂·d₂ = 0, by half of Euclid's algorithm. About every second pair has some.
fn relation(differences: [bls12_381::Scalar; 2]) -> Option<[[u8; 16]; 2]> {
    let order = BigInt::from_bytes_le(Sign::Plus, &(-bls12_381::Scalar::one()).to_bytes()) + 1;
    let ratio = -differences[0] * differences[1].invert().unwrap();
    let bound = BigInt::from(1) << 128;
    // remainder = coefficient·ratio modulo the order.
    let mut before = (order, BigInt::from(0));
    let mut now = (BigInt::from_bytes_le(Sign::Plus, &ratio.to_bytes()), BigInt::from(1));
    while now.0 > BigInt::from(0) {
        if now.0 < bound && now.1 < bound && now.1.sign() == Sign::Plus {
            return Some([&now.1, &now.0].map(|factor| {
                let (_, mut bytes) = factor.to_bytes_le();
                bytes.resize(16, 0);
                bytes.try_into().unwrap()
            }));
        }
        let quotient = &before.0 / &now.0;
        let next = (&before.0 - &quotient * &now.0, &before.1 - &quotient * &now.1);
        before = std::mem::replace(&mut now, next);
    }
    None
}

#[test]
fn two_values_shifted_so_that_the_weighted_sum_stays_pass_under_planted_coefficients_and_fail_under_ours() {
    let world = &*WORLD;
    let honest = world.answer(&[7, 255, 256]);
    let openings = [(0, 7), (1, 255), (2, 256)].map(|(q, m)| world.opening(q, m));
    let (forged, planted) = (1u64..)
        .find_map(|attempt| {
            let mut forged = honest.clone();
            forged.records[..8].copy_from_slice(&attempt.to_le_bytes());
            forged.records[8..16].copy_from_slice(&attempt.to_be_bytes());
            let of =
                |answer: &Answer| [of_record(7, &answer.records[..8]), of_record(300 + 255, &answer.records[8..16])];
            let [old, new] = [of(&honest), of(&forged)];
            let [first, second] = relation([new[0] - old[0], new[1] - old[1]])?;
            Some((forged, [first, second, [3; 16]]))
        })
        .unwrap();
    // The sum of the openings under the planted coefficients, as the honest server would have made it.
    let factors = planted.map(|bytes| {
        bls12_381::Scalar::from_raw({
            let value = u128::from_le_bytes(bytes);
            [value as u64, (value >> 64) as u64, 0, 0]
        })
    });
    let points = openings.map(|bytes| bls12_381::G1Affine::from_uncompressed(&bytes).unwrap());
    let sum: bls12_381::G1Projective = points.iter().zip(factors).map(|(point, factor)| point * factor).sum();
    let proof = bls12_381::G1Affine::from(sum).to_compressed();
    let under = |answer: &Answer| hazmat::verify_under(&KEY, &world.rows, &world.statement(answer), &planted, &proof);
    assert_eq!(under(&honest), Ok(true));
    assert_ne!(forged.records, honest.records);
    assert_eq!(under(&forged), Ok(true), "coefficients that are known beforehand prove nothing");
    for proof in
        [proof.to_vec(), honest.proof.clone(), prove_together(&world.statement(&forged), &openings).unwrap().to_vec()]
    {
        assert!(!world.verify(&Answer { proof, ..forged.clone() }));
    }
    let missing = hazmat::verify_under(&KEY, &world.rows, &world.statement(&honest), &planted[..2], &proof);
    assert!(matches!(missing, Err(Error::Length { .. })), "an entry without a coefficient would be skipped");
}

#[test]
fn every_coefficient_follows_from_every_offset_and_every_byte_of_a_record() {
    let world = &*WORLD;
    let honest = world.answer(&[7, 255, 256]);
    let coefficients = world.statement(&honest).coefficients();
    let mut others = vec![];
    for at in 0..honest.records.len() {
        others.push(honest.clone());
        others.last_mut().unwrap().records[at] ^= 1;
    }
    for at in 0..honest.offsets.len() {
        others.push(honest.clone());
        others.last_mut().unwrap().offsets[at] ^= 1;
    }
    for other in &others {
        let changed = world.statement(other).coefficients();
        assert!(coefficients.iter().zip(&changed).all(|(one, other)| one != other));
    }
}

#[test]
fn every_entry_of_a_long_answer_has_a_coefficient_of_its_own() {
    let world = World::new(1, 3, 4);
    let offsets: Vec<u16> = (0..260).map(|n| n % 3).collect();
    let answer = world.answer(&offsets);
    let mut coefficients = world.statement(&answer).coefficients();
    assert!(coefficients.iter().all(|coefficient| coefficient[15] != 0 || coefficient[14] != 0), "full width");
    coefficients.sort_unstable();
    coefficients.dedup();
    assert_eq!(coefficients.len(), offsets.len());
    assert!(world.verify(&answer));
    // Entries n and n + 256 belong to other columns: 256 mod 3 = 1.
    let mut exchanged = answer.clone();
    let (one, other) = exchanged.records.split_at_mut(256 * 4);
    one[..4].swap_with_slice(&mut other[..4]);
    assert_ne!(exchanged.records, answer.records);
    assert!(!world.verify(&exchanged));
}

#[test]
fn edits_are_followed_by_rows_and_openings_and_folding_them_makes_what_proving_anew_does() {
    followed(&[(3, [0; 8]), (4, [7; 8]), (255, [9; 8])]);
    // So many that their products come from tables.
    let many: Vec<_> = (100..140).chain([3, 4, 255]).map(|offset| (offset, [offset as u8; 8])).collect();
    followed(&many);
}

fn followed(edited: &[(usize, [u8; 8])]) {
    let before = &*WORLD;
    let q = 1;
    let mut records = before.records.clone();
    let mut edits = Vec::new();
    for &(offset, new) in edited {
        let index = q * 300 + offset;
        edits.push(Edit::new(index as u64, offset, before.record(q, offset), &new));
        records[index * 8..][..8].copy_from_slice(&new);
    }
    let anew = PROVER.prove(&before.shape, q, &records[q * 300 * 8..][..300 * 8]).unwrap();
    let old = &before.proved[q];
    let placed: Vec<_> = edits.iter().map(|&edit| (0, edit)).collect();
    let mut commitments = old.row_list[32..].as_chunks::<48>().0.to_vec();
    PROVER.follow(&mut commitments, &placed).unwrap();
    assert_eq!(commitments.as_flattened(), &anew.row_list[32..]);
    assert_eq!(old.row_list[80..], anew.row_list[80..], "the other row");

    // From old openings: the proof for the old records, and, corrected, the proof for the new ones.
    let mut proved = before.proved.clone();
    proved[q].row_list.clone_from(&anew.row_list);
    let after = World {
        shape: before.shape,
        rows: Rows::decode(before.shape, &KEY, &lists(&proved)).unwrap(),
        records,
        proved,
    };
    for offset in [0, 3, 4, 5, 254, 255, 299] {
        let offsets = [0, offset, 1, 2, offset, 3];
        let is_edited = offset < 256;
        let openings: Vec<_> = (0..6).map(|n| before.opening(n % 3, offsets[n].into())).collect();
        let of_entries: Vec<_> =
            [1, 4].into_iter().flat_map(|entry| edits.iter().map(move |&edit| (entry, edit))).collect();
        let mut answer = after.answer(&offsets);
        let proof = |edits| PROVER.prove_edited(&after.statement(&answer), &openings, edits).unwrap();
        let (corrected, stale) = (proof(if is_edited { &of_entries[..] } else { &[] }), proof(&[]));
        answer.proof = corrected.to_vec();
        assert!(after.verify(&answer), "at {offset}");
        answer.proof = stale.to_vec();
        assert_eq!(after.verify(&answer), !is_edited, "at {offset}");
        assert!(before.verify(&before.answer(&offsets)), "and the epoch before is answered as ever");
    }
    let mut folded = old.openings[..256 * 96].to_vec();
    PROVER.fold(&mut folded, &edits).unwrap();
    assert_eq!(folded, anew.openings[..256 * 96]);
    let mut short = old.openings[256 * 96..].to_vec(); // the last row has 44 records
    PROVER.fold(&mut short, &[]).unwrap();
    assert_eq!(short, old.openings[256 * 96..]);
    let [there, back] = [([7; 8], before.record(q, 260)), (before.record(q, 260).try_into().unwrap(), &[7; 8])]
        .map(|(new, old): ([u8; 8], &[u8])| Edit::new((q * 300 + 260) as u64, 260, old, &new));
    PROVER.fold(&mut short, &[there]).unwrap();
    assert_ne!(short, old.openings[256 * 96..]);
    PROVER.fold(&mut short, &[back]).unwrap();
    assert_eq!(short, old.openings[256 * 96..]);
    assert!(matches!(PROVER.fold(&mut short[1..], &[]), Err(Error::Length { .. })));
    let answer = before.answer(&[0, 1, 2]);
    let prove = |openings: &[_], edits: &[_]| PROVER.prove_edited(&before.statement(&answer), openings, edits);
    assert_eq!(prove(&[[1; 96]; 3], &[]), Err(Error::Point("opening")));
    assert!(matches!(prove(&[before.opening(0, 0); 2], &[]), Err(Error::Length { .. })));
    assert!(matches!(prove(&[before.opening(0, 0); 3], &[(3, edits[0])]), Err(Error::Index { .. })));
    assert_eq!(PROVER.follow(&mut [[0; 48]], &[]), Err(Error::Point("row commitment")));
    assert!(matches!(PROVER.follow(&mut commitments, &[(2, edits[0])]), Err(Error::Index { .. })));
    for edit in edits {
        assert_eq!(Edit::from_bytes(&edit.to_bytes()), Ok(edit));
    }
    assert!(matches!(Edit::from_bytes(&[0xff; 33]), Err(Error::Index { .. })), "not below the order");
}

#[test]
fn proving_refuses_partitions_that_are_not_the_databases() {
    let shape = WORLD.shape;
    assert!(matches!(PROVER.prove(&shape, 3, &[0; 2400]), Err(Error::Index { .. })));
    assert!(matches!(PROVER.prove(&shape, 0, &[0; 2399]), Err(Error::Length { .. })));
    let answer = WORLD.answer(&[0, 0, 0]);
    assert!(matches!(prove_together(&WORLD.statement(&answer), &[[0; 96]; 2]), Err(Error::Length { .. })));
}

#[test]
fn keys_are_read_strictly_and_development_ones_only_if_allowed() {
    let bytes = TRANSCRIPT.key().unwrap();
    let read = |bytes: &[u8], allowed| Key::decode(bytes, blake3::hash(bytes).as_bytes(), allowed).err();
    assert_eq!((bytes.len(), read(&bytes, false)), (KEY_BYTES, None));
    assert!(matches!(Key::decode(&bytes, &[0; 32], false), Err(Error::Key(_))), "another hash");
    assert!(matches!(read(&bytes[1..], false), Some(Error::Length { .. })));
    let with = |at: usize, byte: u8| [&bytes[..at], &[byte], &bytes[at + 1..]].concat();
    for (at, byte) in bytes[..8].iter().enumerate() {
        assert!(matches!(read(&with(at, !byte), true), Some(Error::Key(_))), "byte {at}");
    }
    for flags in [2, 3, 128] {
        assert!(matches!(read(&with(8, flags), true), Some(Error::Key(_))), "flags {flags}");
    }
    let development = with(8, 1);
    assert!(matches!(read(&development, false), Some(Error::Key(_))));
    assert_eq!(read(&development, true), None);
    for at in [44, 100, 140, 200, KEY_BYTES - 1] {
        assert_eq!(read(&with(at, !bytes[at]), false), Some(Error::Point("verifier's key")), "byte {at}");
    }
    let mut identity = bytes.clone();
    identity[44..140].fill(0);
    identity[44] = 0x40;
    assert_eq!(read(&identity, false), Some(Error::Point("verifier's key")));
}

#[test]
fn a_receipt_is_for_one_machine_one_manifest_and_these_openings() {
    let [key, manifest, openings] = [[1; 32], [2; 32], [3; 32]];
    let given = receipt::receipt(&key, &manifest, &openings);
    assert!(receipt::holds(&key, &manifest, &openings, &given));
    for (key, manifest, openings) in [([0; 32], manifest, openings), (key, [0; 32], openings), (key, manifest, [0; 32])]
    {
        assert!(!receipt::holds(&key, &manifest, &openings, &given));
    }
    assert!(!receipt::holds(&key, &openings, &manifest, &given));
}

#[test]
fn row_lists_are_held_to_their_records_without_proving_anew() {
    let world = &*WORLD;
    let bytes = |q: usize| &world.records[q * 300 * 8..][..300 * 8];
    let commits = |q: usize, partition: &[u8], list: &[u8]| {
        (0..3u8).map(|n| PROVER.commits(&world.shape, q, partition, list, &[n; 32]).unwrap()).collect::<Vec<_>>()
    };
    for q in 0..3 {
        assert_eq!(commits(q, bytes(q), &world.proved[q].row_list), [true; 3]);
    }
    let list = &world.proved[0].row_list;
    let none = [false; 3];
    assert_eq!(commits(1, bytes(1), list), none, "another partition's");
    assert_eq!(commits(1, bytes(0), list), none, "the same records at other indices");
    for at in [0, 255 * 8, 256 * 8, 299 * 8] {
        let mut changed = bytes(0).to_vec();
        changed[at] ^= 1;
        assert_eq!(commits(0, &changed, list), none, "a record changed");
    }
    let mut other = list.clone();
    other[32..].rotate_left(48);
    assert_eq!(commits(0, bytes(0), &other), none, "rows in another order");
    other = list.clone();
    other[0] ^= 1;
    assert_eq!(commits(0, bytes(0), &other), none, "another key's");
    other = list.clone();
    other[40] ^= 1;
    assert_eq!(commits(0, bytes(0), &other), none, "a byte changed");
    // In the plain sum of all rows two changes could cancel. With weights they do not.
    other = list.clone();
    let (first, second) = other[32..].split_at_mut(48);
    let negated = |row: &mut [u8]| row[0] ^= 0x20;
    negated(first);
    negated(second);
    assert_eq!(commits(0, bytes(0), &other), none, "both rows negated");
    // A point of the curve that is not in the subgroup: x = 4 is on the curve.
    other = list.clone();
    other[32..80].fill(0);
    other[32] = 0x80;
    other[79] = 4;
    assert_eq!(commits(0, bytes(0), &other), none, "outside the subgroup");
    let short = PROVER.commits(&world.shape, 0, bytes(0), &list[1..], &[0; 32]);
    assert!(matches!(short, Err(Error::Length { what: "row list", .. })));
    assert!(matches!(PROVER.commits(&world.shape, 3, bytes(0), list, &[0; 32]), Err(Error::Index { .. })));
}
