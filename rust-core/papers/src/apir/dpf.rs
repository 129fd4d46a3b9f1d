//! APIR-DPF, a baseline of TAPIR's Table 1 (Falzon, Hetz, O'Toole). It uses a two-party distributed point function (Boyle,
//! Gilboa, Ishai 2016) with values (1, α) in a field. α is a secret key of the client, drawn for each lookup. Each server
//! multiplies its shares with all records. The client gets the record m and the code τ, word by word, and accepts if τ = α·m.
//!
//! # Assumption
//!
//! The two servers do not talk to each other. Then privacy rests on the generator, against either server alone, whatever it
//! does. A server changes its answer by a difference δ, which it chooses without knowing the index or α. Whether the client
//! accepts is a function of δ and α alone. A lie passes with probability about 2^−61, however many words it changes: all words
//! have the same α.
//!
//! # Corrections
//!
//! None: the text names the construction and no parameters. Here the field is the integers modulo 2^61 − 1. A word is seven
//! bytes. A key is a seed, 17 bytes for each level, and two field elements. All words are checked before a lie is reported.
//!
//! # What an attacker gains
//!
//! Nothing, except that it was caught. The client cannot tell which server lied.

use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::prg::{Block, Doubling};
use crate::random::Random;
use crate::records::Records;

/// The prime 2^61 − 1.
const P: u64 = (1 << 61) - 1;
/// Bytes of a record in a field element.
const WORD_BYTES: usize = 7;

fn reduce(x: u128) -> u64 {
    let folded = (x as u64 & P) + (x >> 61) as u64; // x < 2^124
    let folded = (folded & P) + (folded >> 61);
    if folded >= P { folded - P } else { folded }
}

fn add(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) + u128::from(b))
}

fn negate(a: u64) -> u64 {
    if a == 0 { 0 } else { P - a }
}

fn multiply(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) * u128::from(b))
}

/// The words of a record. The last one is padded with zeros.
fn words(record: &[u8]) -> impl Iterator<Item = u64> {
    record.chunks(WORD_BYTES).map(|bytes| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    })
}

/// The levels of the tree over N records.
pub fn depth(records: usize) -> u32 {
    records.next_power_of_two().ilog2()
}

/// Bytes of a key: a seed, a seed and two bits for each level, two field elements, and the party.
pub fn query_bytes(records: usize) -> usize {
    16 + 17 * depth(records) as usize + 16 + 1
}

/// Bytes of an answer: record and code.
pub fn answer_bytes(record_bytes: usize) -> usize {
    2 * 8 * record_bytes.div_ceil(WORD_BYTES)
}

/// Two field elements from a leaf. 64 bits modulo 2^61 − 1 are within 2^−61 of uniform.
fn convert(seed: &Block) -> [u64; 2] {
    let wide = u128::from_le_bytes(*seed);
    [wide as u64, (wide >> 64) as u64].map(|half| reduce(half.into()))
}

/// A lookup whose answers have not arrived.
pub struct Pending {
    /// one for each server
    pub queries: [Vec<u8>; 2],
    alpha: u64,
}

/// The two keys for record `index` of `records`.
pub fn query<D: Doubling>(tree: &D, records: usize, index: usize, source: &mut Random) -> Result<Pending, Error> {
    if index >= records {
        return Err(bad("index", format_args!("below {records}"), index));
    }
    let alpha = loop {
        let candidate = convert(&source.block())[0];
        if candidate != 0 {
            break candidate;
        }
    };
    let roots = [source.block(), source.block()];
    let mut seeds = roots;
    let mut controls = [false, true];
    let mut body = Vec::new();
    for level in (0..depth(records)).rev() {
        let right = index >> level & 1 == 1;
        let mut sides = [[[0; 16]; 2]; 2];
        let [left_side, right_side] = &mut sides;
        tree.double(&seeds, left_side, right_side);
        let bits = sides.map(|side| side.map(take_bit)); // [side][party]
        let seeds_of = |side: usize, party: usize| without_bit(sides[side][party]);
        let (keep, lose) = (usize::from(right), usize::from(!right));
        let correction = xor(seeds_of(lose, 0), seeds_of(lose, 1));
        let correct_left = bits[0][0] ^ bits[0][1] ^ right ^ true;
        let correct_right = bits[1][0] ^ bits[1][1] ^ right;
        let correct_keep = if right { correct_right } else { correct_left };
        for party in 0..2 {
            let corrected = if controls[party] { correction } else { [0; 16] };
            seeds[party] = xor(seeds_of(keep, party), corrected);
            controls[party] = bits[keep][party] ^ (controls[party] & correct_keep);
        }
        body.extend_from_slice(&correction);
        body.push(u8::from(correct_left) | u8::from(correct_right) << 1);
    }
    // Party 1 subtracts. So the shares add up to (1, α) at the index and to (0, 0) elsewhere.
    let shares = seeds.map(|seed| convert(&seed));
    for (value, (a, b)) in [1, alpha].into_iter().zip(shares[0].into_iter().zip(shares[1])) {
        let difference = add(add(value, negate(a)), b);
        let last = if controls[1] { negate(difference) } else { difference };
        body.extend_from_slice(&last.to_le_bytes());
    }
    let queries = [0, 1].map(|party: u8| {
        let root = &roots[usize::from(party)];
        [root.as_slice(), &body, &[party]].concat()
    });
    Ok(Pending { queries, alpha })
}

/// A node's control bit is the lowest bit of its seed. The seed is used without it.
fn take_bit(node: Block) -> bool {
    node[0] & 1 == 1
}

fn without_bit(mut node: Block) -> Block {
    node[0] &= !1;
    node
}

fn xor(a: Block, b: Block) -> Block {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// A server's answer: for each word of a record the sums of (share of 1)·word and of (share of α)·word.
pub fn answer<D: Doubling>(tree: &D, records: &Records, query: &[u8]) -> Result<Vec<u8>, Error> {
    expect_bytes("key", query, query_bytes(records.len()))?;
    let party = query[query.len() - 1];
    if party > 1 {
        return Err(bad("party", "0 or 1", party));
    }
    let (root, body) = query[..query.len() - 1].split_at(16);
    let (levels, last) = body.split_at(body.len() - 16);
    let last: [u64; 2] = [0, 8].map(|at| u64::from_le_bytes(last[at..at + 8].try_into().expect("8 bytes")) % P);
    let mut seeds = vec![root.try_into().map_err(|_| bad("seed", "16 bytes", root.len()))?];
    let mut controls = vec![party == 1];
    for level in levels.chunks_exact(17) {
        let correction: Block = level[..16].try_into().expect("16 bytes");
        let (mut left, mut right) = (vec![[0; 16]; seeds.len()], vec![[0; 16]; seeds.len()]);
        tree.double(&seeds, &mut left, &mut right);
        let children = left.into_iter().zip(right).flat_map(|(left, right)| [left, right]);
        let parents =
            controls.iter().flat_map(|&control| [(control, level[16] & 1 == 1), (control, level[16] & 2 == 2)]);
        (seeds, controls) = children
            .zip(parents)
            .map(|(child, (control, correct))| {
                let corrected = if control { correction } else { [0; 16] };
                (xor(without_bit(child), corrected), take_bit(child) ^ (control & correct))
            })
            .unzip();
    }
    let mut sums = vec![[0; 2]; records.record_bytes().div_ceil(WORD_BYTES)];
    for ((n, seed), control) in seeds.iter().enumerate().zip(controls).take(records.len()) {
        let own = convert(seed);
        let shares = [0, 1].map(|v| if control { add(own[v], last[v]) } else { own[v] });
        for (word, sums) in words(records.get(n)).zip(&mut sums) {
            sums[0] = add(sums[0], multiply(shares[0], word));
            sums[1] = add(sums[1], multiply(shares[1], word));
        }
    }
    let sign = |sum: u64| if party == 1 { negate(sum) } else { sum };
    Ok(sums.into_iter().flatten().flat_map(|sum| sign(sum).to_le_bytes()).collect())
}

/// The record, if its code is right; otherwise [`Error::Tampered`], after all words were checked.
pub fn reconstruct(pending: &Pending, record_bytes: usize, answers: [&[u8]; 2]) -> Result<Vec<u8>, Error> {
    for answer in answers {
        expect_bytes("answer", answer, answer_bytes(record_bytes))?;
    }
    let elements =
        |answer: &[u8]| answer.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<_>>();
    let (a, b) = (elements(answers[0]), elements(answers[1]));
    let mut sound = a.iter().chain(&b).all(|&element| element < P);
    let mut record = Vec::with_capacity(record_bytes + WORD_BYTES);
    for (a, b) in a.chunks_exact(2).zip(b.chunks_exact(2)) {
        let (word, code) = (reduce(u128::from(a[0]) + u128::from(b[0])), reduce(u128::from(a[1]) + u128::from(b[1])));
        sound &= code == multiply(pending.alpha, word) && word >> (8 * WORD_BYTES) == 0;
        record.extend_from_slice(&word.to_le_bytes()[..WORD_BYTES]);
    }
    sound &= record[record_bytes..].iter().all(|&byte| byte == 0);
    record.truncate(record_bytes);
    if sound { Ok(record) } else { Err(Error::Tampered) }
}

/// A whole lookup.
pub fn lookup<D: Doubling>(
    tree: &D,
    records: &Records,
    index: usize,
    source: &mut Random,
    channels: &mut [Channel; 2],
) -> Result<Vec<u8>, Error> {
    let pending = query(tree, records.len(), index, source)?;
    let [first, second] = channels;
    let first = first.ask(&pending.queries[0], |query| answer(tree, records, query))?;
    let second = second.ask(&pending.queries[1], |query| answer(tree, records, query))?;
    reconstruct(&pending, records.record_bytes(), [&first, &second])
}
