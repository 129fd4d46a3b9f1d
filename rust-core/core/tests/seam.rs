//! A further scheme is a type and a line in a table: one that exists here alone is asked beside those there are, at both
//! epochs, with lengths of its own. So is a further state, of a scheme with one party whose replies prove nothing alone; and
//! a further commitment, whose proofs are for whole answers, takes TAPIR's lookups through.

mod common;

use common::{database, hint_from};
use keyhush_core::Error;
use keyhush_core::commitment::{CELL_BYTES, COMMITMENT_BYTES, Commit, Merkle, Proofs, VectorCommitment};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::list::UpdateList;
use keyhush_core::layout::Layout;
use keyhush_core::random::{ChaCha, Uniform};
use keyhush_core::scheme::{Answerer, Asked, Recovered, State, Verdict, answer, answer_bytes, answerers, suites};
use keyhush_core::tapir::hint::Hint;
use keyhush_core::tapir::state::Unsealed;
use zeroize::Zeroizing;

/// Whole partitions, and one hash over all that are asked for in a query: three numbers (u16) a query.
struct Partitions;

const SUITE: u16 = 700;
const ASKED: usize = 3;

impl Answerer<Merkle> for Partitions {
    fn suite(&self) -> u16 {
        SUITE
    }

    fn query_bytes(&self, _: &Layout) -> usize {
        2 * ASKED
    }

    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize {
        queries * (ASKED * layout.partition_bytes() + 32)
    }

    fn serves(&self, _: &Database<Merkle>) -> bool {
        true
    }

    fn answer(&self, database: &Database<Merkle>, queries: &[u8], at: At) -> Result<Vec<u8>, Error> {
        let mut answer = Vec::new();
        for query in queries.chunks_exact(2 * ASKED) {
            let start = answer.len();
            for q in query.as_chunks().0.iter().map(|q| usize::from(u16::from_le_bytes(*q))) {
                if q >= database.layout_at(at)?.partitions() {
                    return Err(Error::Index { what: "partition", bound: database.layout_at(at)?.partitions() as u64 });
                }
                for offset in 0..database.layout().partition_records() {
                    answer.extend_from_slice(&database.record_at(at, q, offset)?);
                }
            }
            let proof = *blake3::hash(&answer[start..]).as_bytes();
            answer.extend_from_slice(&proof);
        }
        Ok(answer)
    }
}

fn bytes(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn a_scheme_of_its_own_is_one_more_line_in_the_table() {
    let layout = Layout::new(12, 4, 3, 4).unwrap();
    let content: Vec<u8> = (0..48).collect();
    let mut database = database::<Merkle>(layout, &content);
    let [proved, bare, parities, _] = answerers();
    let table: [&dyn Answerer<Merkle>; 4] = [proved, bare, parities, &Partitions];
    let ask = |database: &Database<Merkle>, suite, queries: &[u8], at| answer(&table, suite, database, queries, at);

    let query = bytes(&[2, 0, 1, 1, 1, 1]);
    let expect = |content: &[u8]| {
        let partition = |q: usize| &content[16 * q..16 * (q + 1)];
        let mut expected = Vec::new();
        for asked in [[2, 0, 1], [1, 1, 1]] {
            let whole = asked.map(partition).concat();
            expected.extend_from_slice(&whole);
            expected.extend_from_slice(blake3::hash(&whole).as_bytes());
        }
        expected
    };
    let genuine = ask(&database, SUITE, &query, At::Newest).unwrap();
    assert_eq!(genuine, expect(&content));
    assert_eq!(genuine.len(), answer_bytes(&table, SUITE, &database, 2, At::Newest).unwrap());
    assert!(matches!(answer_bytes(&table, SUITE, &database, 65, At::Newest), Err(Error::Index { .. })));

    // The others answer as before, each by its number, and no number stands for two.
    for (answerer, proofs) in [(proved, Proofs::Openings), (bare, Proofs::Tags)] {
        let vectors = bytes(&[0, 1, 2]);
        let entries = ask(&database, answerer.suite(), &vectors, At::Newest).unwrap();
        assert_eq!(entries, database.answer(&vectors, proofs).unwrap());
        assert_eq!((vectors.len(), entries.len()), (answerer.query_bytes(&layout), answerer.answer_bytes(&layout, 1)));
    }
    assert_eq!(suites(&table, &database), [1, 2, 3, SUITE]);
    assert_eq!(suites(&table, &Database::without_openings(layout).unwrap()), [2, 3, SUITE]);

    // What is no request of it is refused, whatever its suite makes of the rest.
    let refused = |suite, queries: &[u8]| ask(&database, suite, queries, At::Newest).err();
    assert!(matches!(refused(9, &query), Some(Error::Phase(_))));
    assert!(matches!(ask(&database, SUITE, &query, At::Previous), Err(Error::Phase(_))));
    for length in [0, 1, 5, 7, 6 * 65] {
        assert!(matches!(refused(SUITE, &vec![0; length]), Some(Error::Length { .. })), "{length}");
    }
    assert!(matches!(refused(SUITE, &bytes(&[0, 3, 0])), Some(Error::Index { .. })));

    // And it has both epochs.
    apply(&mut database, None, &[Operation::EditIndex(5, &[0xee; 4])]).unwrap_or_else(|_| unreachable!());
    let mut after = content.clone();
    after[20..24].fill(0xee);
    assert_eq!(ask(&database, SUITE, &query, At::Newest).unwrap(), expect(&after));
    assert_eq!(ask(&database, SUITE, &query, At::Previous).unwrap(), expect(&content));
}

// ---- a state ------------------------------------------------------------------------------------------

/// Asks one party for three partitions in a random order, and has the hash of each. Good for so many queries.
struct Known {
    layout: Layout,
    hashes: Vec<[u8; 32]>,
    left: usize,
    condemned: bool,
}

struct Batch {
    indices: Vec<u32>,
    order: [u16; ASKED],
    reply: Option<Vec<u8>>,
}

impl State<Merkle> for Known {
    type Pending = Batch;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.left)
    }

    fn carries(&self, queries: usize) -> bool {
        queries <= 4
    }

    fn query(&mut self, indices: &[u32], entropy: &[u8; 32]) -> Result<Batch, Error> {
        if self.condemned {
            return Err(Error::Condemned);
        }
        let mut order = [0, 1, 2];
        order.swap(0, ChaCha::new(entropy, 0).below(3) as usize);
        indices.iter().try_for_each(|&index| self.layout.locate(index).map(|_| ()))?;
        Ok(Batch { indices: indices.to_vec(), order, reply: None })
    }

    fn count(pending: &Batch) -> usize {
        pending.indices.len()
    }

    fn batch_name(pending: &Batch) -> [u8; 32] {
        *blake3::hash(&bytes(&pending.order)).as_bytes()
    }

    fn pending_bytes(&self, pending: &Batch) -> Vec<u8> {
        let indices = pending.indices.iter().flat_map(|index| index.to_le_bytes());
        bytes(&pending.order).into_iter().chain(indices).collect()
    }

    fn resume(&self, pending: &[u8]) -> Result<Batch, Error> {
        let (order, indices) = pending.split_at_checked(2 * ASKED).ok_or(Error::State("torn"))?;
        let order = std::array::from_fn(|at| u16::from_le_bytes([order[2 * at], order[2 * at + 1]]));
        let indices = indices.as_chunks().0.iter().map(|index| u32::from_le_bytes(*index)).collect();
        Ok(Batch { indices, order, reply: None })
    }

    fn request(pending: &Batch, party: usize) -> Result<Vec<u8>, Error> {
        if party == 0 { Ok(bytes(&pending.order)) } else { Err(Error::Index { what: "party", bound: 1 }) }
    }

    fn verify(&mut self, pending: &mut Batch, party: usize, reply: &[u8]) -> Result<Verdict, Error> {
        Self::request(pending, party)?;
        let (whole, hash) = reply.split_at(reply.len() - 32);
        if blake3::hash(whole).as_bytes() != hash {
            self.condemned = true;
            return Ok(Verdict::Forged);
        }
        pending.reply = Some(whole.to_vec());
        Ok(Verdict::Open)
    }

    fn recon(&mut self, pending: Batch) -> Result<Recovered, (Error, Batch)> {
        let Some(reply) = &pending.reply else { return Err((Error::Phase("no reply"), pending)) };
        let partitions: Vec<&[u8]> = reply.chunks_exact(self.layout.partition_bytes()).collect();
        let genuine = partitions.iter().zip(pending.order).fold(true, |genuine, (partition, q)| {
            genuine & (*blake3::hash(partition).as_bytes() == self.hashes[usize::from(q)])
        });
        if !genuine {
            self.condemned = true;
            return Err((Error::Condemned, pending));
        }
        let mut records = Vec::new();
        for &index in &pending.indices {
            let (q, offset) = self.layout.locate(index).unwrap();
            let at = pending.order.iter().position(|&asked| usize::from(asked) == q).unwrap();
            records.extend_from_slice(
                &partitions[at][offset * self.layout.record_bytes()..][..self.layout.record_bytes()],
            );
        }
        self.left -= pending.indices.len();
        Ok(Recovered { records, missed: 0, effect: Zeroizing::new(vec![pending.indices.len() as u8]) })
    }

    fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        match entry {
            [used] if usize::from(*used) <= self.left => self.left -= usize::from(*used),
            _ if entry.len() == self.hashes.len() * 32 => self.hashes = entry.as_chunks().0.to_vec(),
            _ => return Err(Error::State("no entry")),
        }
        Ok(())
    }

    fn update(
        &mut self,
        pending: Option<&mut Batch>,
        _: UpdateList,
        digests: &[u8],
        _: &[u8; 32],
    ) -> Result<Vec<u8>, Error> {
        self.replay(digests)?;
        if let Some(pending) = pending {
            pending.reply = None;
        }
        Ok(digests.to_vec())
    }

    fn written(&mut self, binding: &[u8; 32]) -> Result<Unsealed, Error> {
        if self.condemned {
            Err(Error::Condemned)
        } else {
            Ok(Unsealed::new([&binding[..], &self.hashes.concat(), &[self.left as u8]].concat()))
        }
    }
}

/// What a session does, whatever answers: stores, asks each party, verifies, applies. Gives the records and the effect.
fn look_up<S: State<Merkle>>(
    asked: &mut Asked<Merkle, S>,
    parties: usize,
    indices: &[u32],
    mut ask: impl FnMut(Vec<u8>) -> Vec<u8>,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    asked.query(indices, &[7; 32])?;
    let stored = asked.pending_bytes()?;
    let sent: Vec<_> = (0..parties).map(|party| asked.request(party)).collect::<Result<_, _>>()?;
    let name = asked.batch_name()?;
    assert!(asked.request(parties).is_err(), "no further party");
    assert!(matches!(asked.query(indices, &[7; 32]), Err(Error::Phase(_))), "one at a time");
    assert!(matches!(asked.encode(&[1; 32]), Err(Error::Phase(_))));
    assert!(matches!(asked.replay(&[]), Err(Error::Phase(_))));
    assert!(matches!(asked.recon(), Err(Error::Phase(_))), "replies are missing");
    assert_eq!(asked.pending(), indices.len());

    // A stored batch is the same batch.
    asked.withdraw();
    assert!(matches!(asked.pending_bytes(), Err(Error::Phase(_))));
    asked.resume(&stored)?;
    assert!(matches!(asked.resume(&stored), Err(Error::Phase(_))));
    assert_eq!((asked.pending_bytes()?, asked.batch_name()?), (stored, name));
    for (party, request) in sent.into_iter().enumerate() {
        assert_eq!(asked.request(party)?, request);
        if asked.verify(party, &ask(request))? == Verdict::Forged {
            return Err(Error::Condemned);
        }
    }
    let records = asked.recon()?;
    let effect = asked.take_effect()?;
    assert!(matches!(asked.take_effect(), Err(Error::Phase(_))), "taken once");
    assert_eq!(asked.pending(), 0);
    Ok((records, effect))
}

fn hashes_of(database: &Database<Merkle>, left: usize) -> Asked<Merkle, Known> {
    let hashes = (0..3).map(|q| database.content_hash(q).unwrap()).collect();
    Asked::new(Known { layout: *database.layout(), hashes, left, condemned: false })
}

fn records_at(content: &[u8], indices: &[u32]) -> Vec<u8> {
    indices.iter().flat_map(|&index| content[4 * index as usize..][..4].to_vec()).collect()
}

#[test]
fn a_state_of_its_own_is_looked_up_as_a_hint_is() {
    let layout = Layout::new(12, 4, 3, 4).unwrap();
    let mut content: Vec<u8> = (0..48).collect();
    let mut database = database::<Merkle>(layout, &content);
    let [proved, bare, parities, _] = answerers();
    let table: [&dyn Answerer<Merkle>; 4] = [proved, bare, parities, &Partitions];
    let (mut own, mut behind) = (hashes_of(&database, 5), hashes_of(&database, 5));
    let mut hint: Asked<Merkle, Hint> =
        Asked::new(hint_from(&mut database, Proofs::Openings, &mut ChaCha::new(&[3; 32], 0)));
    for round in 0..2u8 {
        let indices = [11, 4];
        let (found, effect) =
            look_up(&mut own, 1, &indices, |query| answer(&table, SUITE, &database, &query, At::Newest).unwrap())
                .unwrap();
        let (by_hint, _) =
            look_up(&mut hint, 2, &indices, |query| answer(&table, 1, &database, &query, At::Newest).unwrap()).unwrap();
        assert_eq!(found, records_at(&content, &indices));
        assert_eq!(by_hint, found);
        behind.replay(&effect).unwrap();

        // Both follow the database, and so does what replays the journal.
        let record = [0xe0 + round; 4];
        let epoch = apply(&mut database, None, &[Operation::EditIndex(4, &record)]).unwrap_or_else(|_| unreachable!());
        content[16..20].copy_from_slice(&record);
        let (list, hashes) = (epoch.list.bytes(), database.content_hashes().unwrap());
        assert!(matches!(own.update(&list[1..], layout, &hashes, &[0; 32]), Err(Error::Update(_))));
        assert!(matches!(own.update(list, layout, &hashes[1..], &[0; 32]), Err(Error::State(_))));
        behind.replay(&own.update(list, layout, &hashes, &[0; 32]).unwrap()).unwrap();
        hint.update(list, layout, &database.commitments().unwrap(), &[0; 32]).unwrap();
        assert_eq!(own.encode(&[1; 32]).unwrap(), behind.encode(&[1; 32]).unwrap());
    }

    // It runs out; a hint does not.
    assert!(matches!(own.query(&[1, 2], &[7; 32]), Err(Error::Phase(_))));
    assert!(matches!(own.query(&[1; 5], &[7; 32]), Err(Error::Index { .. })));
    assert_eq!((own.state.remaining(), State::<Merkle>::remaining(&hint.state)), (Some(1), None));

    // A reply that passes alone and is not genuine with what the state has, and one that does not pass.
    for (forge_hash, at) in [(true, 3), (false, 3)] {
        let mut own = hashes_of(&database, 5);
        let forged = look_up(&mut own, 1, &[0], |query| {
            let mut reply = answer(&table, SUITE, &database, &query, At::Newest).unwrap();
            reply[at] ^= 1;
            let end = reply.len() - 32;
            if forge_hash {
                let hash = *blake3::hash(&reply[..end]).as_bytes();
                reply[end..].copy_from_slice(&hash);
            }
            reply
        });
        assert!(matches!(forged, Err(Error::Condemned)));
        assert_eq!(own.pending(), 1, "the batch is given back");
        own.withdraw();
        assert!(matches!(own.query(&[0], &[7; 32]), Err(Error::Condemned)));
        assert!(matches!(own.encode(&[1; 32]), Err(Error::Condemned)));
    }
}

// ---- a commitment ---------------------------------------------------------------------------------------

/// One proof an answer: commitments are sums (xor) of hashes, an answer's proof is the sum of all that it does not show.
/// Binds nothing; the shape is that of an aggregate.
struct Sums;

fn cell_of(offset: usize, record: &[u8]) -> [u8; CELL_BYTES] {
    *blake3::Hasher::new().update(&offset.to_le_bytes()).update(record).finalize().as_bytes()
}

fn add(sum: &mut [u8], cell: &[u8]) {
    sum.iter_mut().zip(cell).for_each(|(sum, byte)| *sum ^= byte);
}

impl Commit for Sums {
    const NAME: &'static str = "sums";

    fn auxiliary_bytes(layout: &Layout) -> usize {
        (layout.partition_records() + 1) * CELL_BYTES
    }

    fn build(layout: &Layout, partition: &[u8], auxiliary: &mut [u8]) {
        let (cells, sum) = auxiliary.split_at_mut(layout.partition_records() * CELL_BYTES);
        sum.fill(0);
        let records = partition.chunks_exact(layout.record_bytes()).enumerate();
        for ((offset, record), cell) in records.zip(cells.chunks_exact_mut(CELL_BYTES)) {
            cell.copy_from_slice(&cell_of(offset, record));
            add(sum, cell);
        }
    }

    fn commitment(auxiliary: &[u8]) -> [u8; COMMITMENT_BYTES] {
        *auxiliary.last_chunk().unwrap()
    }

    fn update_leaves<'a>(
        _: &Layout,
        auxiliary: &mut [u8],
        changes: impl Iterator<Item = (usize, &'a [u8])>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    ) {
        let (cells, _) = auxiliary.as_chunks_mut::<CELL_BYTES>();
        for (offset, record) in changes {
            overwriting(offset, &cells[offset]);
            cells[offset] = cell_of(offset, record);
        }
    }

    fn update_above(
        layout: &Layout,
        auxiliary: &mut [u8],
        _: Vec<usize>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    ) {
        let (cells, _) = auxiliary.as_chunks_mut::<CELL_BYTES>();
        let (cells, sum) = cells.split_at_mut(layout.partition_records());
        overwriting(layout.partition_records(), &sum[0]);
        sum[0].fill(0);
        for cell in cells {
            add(&mut sum[0], cell);
        }
    }

    fn changing_cells(_: &Layout, records: usize) -> usize {
        records + 1
    }
}

impl VectorCommitment for Sums {
    fn entry_proof_bytes(_: &Layout) -> usize {
        0
    }

    fn answer_proof_bytes(_: &Layout) -> usize {
        CELL_BYTES
    }

    fn open_all<'a>(
        layout: &Layout,
        offsets: impl Iterator<Item = usize>,
        cell: impl Fn(usize, usize) -> &'a [u8; CELL_BYTES],
        answer: &mut [u8],
    ) {
        let proof = answer.last_chunk_mut::<CELL_BYTES>().unwrap();
        for (number, offset) in offsets.enumerate() {
            let q = number % layout.partitions();
            add(proof, cell(q, offset));
            add(proof, cell(q, layout.partition_records()));
        }
    }

    fn verify_all(layout: &Layout, commitments: &[[u8; COMMITMENT_BYTES]], offsets: &[u16], answer: &[u8]) -> bool {
        let (entries, proof) =
            answer.split_last_chunk::<CELL_BYTES>().map(|(entries, proof)| (entries, *proof)).unwrap();
        let mut sum = proof;
        let shown = entries.chunks_exact(layout.record_bytes()).zip(offsets).zip(commitments.iter().cycle());
        for ((record, &offset), commitment) in shown {
            add(&mut sum, &cell_of(usize::from(offset), record));
            add(&mut sum, commitment);
        }
        sum == [0; CELL_BYTES]
    }
}

#[test]
fn one_proof_for_a_whole_answer_takes_lookups_through() {
    let layout = Layout::new(11, 4, 3, 4).unwrap();
    let mut content: Vec<u8> = (0..44).collect();
    let mut database = database::<Sums>(layout, &content);
    let hint = |database: &mut Database<Sums>| -> Asked<Sums, Hint> {
        Asked::new(hint_from(database, Proofs::Openings, &mut ChaCha::new(&[3; 32], 0)))
    };
    let mut asked = hint(&mut database);
    for (round, batch) in [&[3, 9, 3][..], &[0], &[10, 3]].into_iter().enumerate() {
        asked.query(batch, &[round as u8; 32]).unwrap();
        if round == 1 {
            // While it is pending, the database grows by a partition; the epoch before is still answered.
            let before = [0, 1].map(|party| database.answer(&asked.request(party).unwrap(), Proofs::Openings).unwrap());
            let adds: Vec<_> =
                (0..2).map(|_| Operation::Add(&[9; 4])).chain([Operation::EditIndex(0, &[8; 4])]).collect();
            let epoch = apply(&mut database, None, &adds).unwrap_or_else(|_| unreachable!());
            for (party, before) in before.iter().enumerate() {
                let vectors = asked.request(party).unwrap();
                assert_eq!(&database.answer_previous(&vectors, Proofs::Openings).unwrap(), before);
            }
            let commitments = database.commitments().unwrap();
            asked.update(epoch.list.bytes(), *database.layout(), &commitments, &[5; 32]).unwrap();
            content[..4].fill(8);
            content.extend([9; 8]);
        }
        let expected = batch.len() * database.layout().partitions() * 4 + CELL_BYTES;
        for party in 0..2 {
            let reply = database.answer(&asked.request(party).unwrap(), Proofs::Openings).unwrap();
            assert_eq!(reply.len(), expected);
            assert!(matches!(asked.verify(party, &reply[..expected - 1]), Err(Error::Length { .. })));
            assert_eq!(asked.verify(party, &reply), Ok(Verdict::Genuine));
        }
        assert_eq!(asked.recon().unwrap(), records_at(&content, batch));
    }

    let answer_bytes = 4 * database.layout().partitions() + CELL_BYTES;
    for at in 0..answer_bytes {
        let mut asked = hint(&mut database);
        asked.query(&[3], &[1; 32]).unwrap();
        let mut reply = database.answer(&asked.request(1).unwrap(), Proofs::Openings).unwrap();
        reply[at] ^= 1;
        assert_eq!(asked.verify(1, &reply), Ok(Verdict::Forged), "byte {at}");
        assert!(matches!(asked.verify(1, &reply), Err(Error::Condemned)));
    }
}
