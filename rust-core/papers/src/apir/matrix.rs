//! APIR-Matrix-MT, a baseline of TAPIR's Table 1 (Falzon, Hetz, O'Toole): two-server linear PIR over the rows of a matrix. Its
//! entries are records with their Merkle proofs. The client splits the unit vector of a row into two random bit vectors. Each
//! server XORs the rows that its vector names. The XOR of both answers is the row. The client checks its entries against a
//! digest that both servers agree on.
//!
//! # Assumption
//!
//! The two servers do not talk to each other. Privacy is perfect against either server alone if it answers honestly. Otherwise
//! it rests on BLAKE3 having no known collisions: a vector is uniform, and a wrong answer is refused for every index.
//!
//! # Corrections
//!
//! - *Which entries are checked*: all of the row, not only the wanted one. Otherwise a lie in another column would pass and one in
//!   the wanted column would not: a bit about the index.
//! - *The number of rows* balances both directions. The text's bytes, 104.36 KiB at 2^20, fit 4·√(N·b), b = 32·log₂ N + 41, within
//!   0.06 % at all four sizes: a byte for each row and direction. Here bits are packed, so there are fewer bytes.
//! - *Proofs*: a server does not store N of them (the authors' memory: 2.5 GB for 32 MiB). Nodes that a row's entries share are
//!   XORed once.
//!
//! # What an attacker gains
//!
//! Nothing, except that it was caught. The client cannot tell which server lied.

use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::random::Random;
use crate::records::Records;
use crate::xor::xor;

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// As described.
    #[default]
    None,
    /// Only the wanted entry is checked: whether a lie in one column is noticed reveals the wanted column.
    ChecksWantedOnly,
}

/// Bytes of a digest.
pub const HASH_BYTES: usize = 32;

/// Leaves and nodes are hashed differently. Otherwise a node could pass as a record.
fn leaf_hash(record: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(&[0]).update(record).finalize().as_bytes()
}

fn node_hash(left: &[u8], right: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(&[1]).update(left).update(right).finalize().as_bytes()
}

/// N = 2^d entries in rows of 2^c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    depth: u32,
    columns_log: u32,
    record_bytes: usize,
}

impl Geometry {
    /// For a number of records that is a power of two: the rows and columns that move the fewest bytes.
    pub fn new(records: usize, record_bytes: usize) -> Result<Self, Error> {
        if !records.is_power_of_two() || records < 2 {
            return Err(bad("N", "a power of two", records));
        }
        let depth = records.ilog2();
        let candidates = (0..depth).map(|columns_log| Geometry { depth, columns_log, record_bytes });
        let best = candidates.min_by_key(|geometry| geometry.query_bytes() + geometry.answer_bytes());
        Ok(best.expect("depth ≥ 1"))
    }

    fn rows(&self) -> usize {
        1 << (self.depth - self.columns_log)
    }

    /// Bytes of a query to each server: a bit for each row.
    pub fn query_bytes(&self) -> usize {
        self.rows().div_ceil(8)
    }

    /// Bytes of a record and its proof.
    fn entry_bytes(&self) -> usize {
        self.record_bytes + HASH_BYTES * self.depth as usize
    }

    /// Bytes of an answer from each server: a row of entries.
    pub fn answer_bytes(&self) -> usize {
        self.entry_bytes() << self.columns_log
    }
}

/// A server: records and their tree.
pub struct Server<'a> {
    records: &'a Records,
    geometry: Geometry,
    /// levels[k]: the 2^(d−k) nodes at height k
    levels: Vec<Vec<u8>>,
}

impl<'a> Server<'a> {
    /// Builds the tree.
    pub fn new(records: &'a Records, geometry: Geometry) -> Result<Self, Error> {
        if records.len() != 1 << geometry.depth || records.record_bytes() != geometry.record_bytes {
            return Err(bad("database", "records of the geometry", records.len()));
        }
        let mut levels = vec![(0..records.len()).flat_map(|n| leaf_hash(records.get(n))).collect::<Vec<u8>>()];
        for height in 1..=geometry.depth as usize {
            let pairs = levels[height - 1].chunks_exact(2 * HASH_BYTES);
            levels.push(pairs.flat_map(|pair| node_hash(&pair[..HASH_BYTES], &pair[HASH_BYTES..])).collect());
        }
        Ok(Server { records, geometry, levels })
    }

    /// The root.
    pub fn digest(&self) -> [u8; HASH_BYTES] {
        self.levels[self.geometry.depth as usize][..].try_into().expect("one node")
    }

    /// The XOR of the entries of the rows in the query.
    pub fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        let Geometry { depth, columns_log, record_bytes } = self.geometry;
        expect_bytes("query", query, self.geometry.query_bytes())?;
        let columns = 1usize << columns_log;
        // Of each level, a row needs 2^(c−k) nodes below its own root, and one sibling at each height from there on.
        let mut records = vec![0; columns * record_bytes];
        let mut nodes: Vec<Vec<u8>> =
            (0..depth).map(|k| vec![0; HASH_BYTES << columns_log.saturating_sub(k)]).collect();
        for row in (0..self.geometry.rows()).filter(|row| query[row / 8] >> (row % 8) & 1 == 1) {
            xor(&mut records, self.records.range(row * columns, (row + 1) * columns));
            for (k, sum) in nodes.iter_mut().enumerate() {
                let at = if k < columns_log as usize { (row * columns) >> k } else { ((row * columns) >> k) ^ 1 };
                let bytes = sum.len();
                xor(sum, &self.levels[k][at * HASH_BYTES..][..bytes]);
            }
        }
        let mut answer = Vec::with_capacity(self.geometry.answer_bytes());
        for column in 0..columns {
            answer.extend_from_slice(&records[column * record_bytes..][..record_bytes]);
            for (k, sum) in nodes.iter().enumerate() {
                let at = if k < columns_log as usize { (column >> k) ^ 1 } else { 0 };
                answer.extend_from_slice(&sum[at * HASH_BYTES..][..HASH_BYTES]);
            }
        }
        Ok(answer)
    }
}

/// The two bit vectors for the row of a record.
pub fn query(geometry: &Geometry, index: usize, source: &mut Random) -> Result<[Vec<u8>; 2], Error> {
    if index >> geometry.depth != 0 {
        return Err(bad("index", format_args!("below 2^{}", geometry.depth), index));
    }
    let mut first = vec![0; geometry.query_bytes()];
    source.fill(&mut first);
    let mut second = first.clone();
    let row = index >> geometry.columns_log;
    second[row / 8] ^= 1 << (row % 8);
    Ok([first, second])
}

/// The record, if every entry of its row matches the digest.
pub fn reconstruct(
    geometry: &Geometry,
    digest: &[u8; HASH_BYTES],
    index: usize,
    answers: [&[u8]; 2],
    deviation: Deviation,
) -> Result<Vec<u8>, Error> {
    answers.iter().try_for_each(|answer| expect_bytes("answer", answer, geometry.answer_bytes()))?;
    let mut row = answers[0].to_vec();
    xor(&mut row, answers[1]);
    let columns = 1 << geometry.columns_log;
    let mut sound = true;
    for (column, entry) in row.chunks_exact(geometry.entry_bytes()).enumerate() {
        let at = index / columns * columns + column;
        let (record, proof) = entry.split_at(geometry.record_bytes);
        let mut hash = leaf_hash(record);
        for (k, sibling) in proof.chunks_exact(HASH_BYTES).enumerate() {
            hash = if at >> k & 1 == 1 { node_hash(sibling, &hash) } else { node_hash(&hash, sibling) };
        }
        let unchecked = deviation == Deviation::ChecksWantedOnly && at != index;
        sound &= unchecked || hash == *digest;
    }
    let record = &row[index % columns * geometry.entry_bytes()..][..geometry.record_bytes];
    if sound { Ok(record.to_vec()) } else { Err(Error::Tampered) }
}

/// A whole lookup. The caller has found both servers' digests equal.
pub fn lookup(
    geometry: &Geometry,
    index: usize,
    source: &mut Random,
    servers: [&Server<'_>; 2],
    channels: &mut [Channel; 2],
) -> Result<Vec<u8>, Error> {
    let [first, second] = query(geometry, index, source)?;
    let first = channels[0].ask(&first, |query| servers[0].answer(query))?;
    let second = channels[1].ask(&second, |query| servers[1].answer(query))?;
    reconstruct(geometry, &servers[0].digest(), index, [&first, &second], Deviation::None)
}
