//! A client's lookup: the request, and the one verdict on its answer. The steps, and the memory that is touched, are the same for all
//! indices, secrets and answers.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use std::sync::Arc;

use keyhush_kernels::modular::MODULUS;
use zeroize::Zeroizing;

use super::entries::MIDDLE;
use super::ring::{DELTA, Element, Matrices, Multiplier, Ring, add_modulo, modulo};
use super::server::middle;
use super::{
    ANSWER_BITS, Context, ENTRY_BITS, GADGET_DROP, HINT_BITS, HINT_DROP, HintParts, KEY_BITS, KEY_DROP, Shape, Wiped,
    bits, column, divided, equal, gauss, whitening,
};
use crate::error::{Error, expect_below, expect_length};
use crate::random::{ChaCha, ENTROPY_BYTES};

/// Streams of a query. Query number i has numbers 4·i + …
const SECRET: u64 = 0;
const KEY: u64 = 1;
const SELECTOR: u64 = 2;
const NOISE: u64 = 3;
/// u32s of a stream that a draw of own noise reads.
const NOISE_WORDS: usize = 2 * gauss::NOISE_DIGITS;

/// Queries whose answers have not arrived. Each has a secret of its own. Secret: wiped when dropped, neither `Clone` nor `Debug`.
pub struct Query {
    shape: Shape,
    context: Context,
    ring: Arc<Ring>,
    seed: Zeroizing<[u8; ENTROPY_BYTES]>,
    columns: Wiped<u32>,
    /// record numbers within the columns
    places: Wiped<u32>,
    secrets: Vec<Multiplier>,
    requests: Vec<u8>,
    /// own noise, drawn for one output of one query after the other
    noise: Vec<Wiped<i64>>,
    decoded: bool,
}

impl Query {
    /// Makes queries for the records at `indices`. The entropy is hashed with all that is asked: two clones of a machine that have the
    /// same entropy share no secret between different lookups.
    ///
    /// # Errors
    /// [`Error::Index`] for an index beyond the last record; [`Error::Length`] unless there are 1 to [`Shape::max_queries`] indices.
    pub fn new(
        shape: Shape,
        context: Context,
        manifest_hash: &[u8; 32],
        indices: &[u32],
        entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Self, Error> {
        let (count, most) = (indices.len(), shape.max_queries());
        if !(1..=most).contains(&count) {
            let expected = count.clamp(1, most) as u64;
            return Err(Error::Length { what: "record indices", expected, actual: count as u64 });
        }
        let mut columns = Wiped::new(count);
        let mut places = Wiped::new(count);
        for (i, &index) in indices.iter().enumerate() {
            expect_below("record index", index as usize, shape.records)?;
            let (column, place) = divided::<32>(u64::from(index), shape.column_records as u64);
            (columns[i], places[i]) = (column as u32, place as u32);
        }
        let ring = Ring::of(shape.degree);
        let seed = hedged(entropy, manifest_hash, &context, indices);
        let matrices = Matrices::new(&ring, &context.matrix_seed(), shape.chunks());
        let mut secrets = Vec::with_capacity(count);
        let mut requests = Vec::with_capacity(count * shape.request_bytes());
        for (i, &column) in columns.iter().enumerate() {
            secrets.push(request(
                &shape,
                &ring,
                &matrices,
                column,
                |use_| ChaCha::new(&seed, 4 * i as u64 + use_),
                &mut requests,
            ));
        }
        Ok(Query { shape, context, ring, seed, columns, places, secrets, requests, noise: Vec::new(), decoded: false })
    }

    /// The queries, in order. A transport may send the same bytes again.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        &self.requests
    }

    /// Draws some of the own noise. Call it while the answer is under way. Returns whether there is more.
    pub fn expand(&mut self) -> bool {
        let outputs = self.shape.outputs;
        let all = outputs * self.columns.len();
        if self.noise.len() < all {
            let (query, output) = (self.noise.len() / outputs, self.noise.len() % outputs);
            let mut noise = Wiped::new(self.shape.degree / 2);
            let mut source = ChaCha::new(&self.seed, 4 * query as u64 + NOISE);
            source.seek((output * noise.len() * NOISE_WORDS) as u64);
            gauss::own_noise(&mut source, &mut noise);
            self.noise.push(noise);
        }
        self.noise.len() < all
    }

    /// The records, ℓ bytes each in query order; none if a row of any column was wrong. Only the first answer is decoded. The caller has
    /// compared the hint's hash with that in the manifest that the queries were made for.
    ///
    /// # Errors
    /// [`Error::Phase`] after an answer was decoded; [`Error::Length`] if hint or answers do not have their length: then they are not
    /// decoded.
    pub fn decode(&mut self, hint: &[u8], answers: &[u8]) -> Result<Option<Wiper>, Error> {
        if self.decoded {
            return Err(Error::Phase("an answer to these queries was decoded already; make new queries"));
        }
        let hint = HintParts::new(&self.shape, hint)?;
        expect_length("answers", answers, self.columns.len() * self.shape.answer_bytes())?;
        self.decoded = true;
        while self.expand() {}
        let seed = self.context.whitening_seed(hint.attempt, hint.cap);
        let random: Vec<_> =
            hint.elements.chunks_exact(self.shape.element_bytes()).map(|part| random_part(&self.ring, part)).collect();
        let mut records = Wiper(Wiped::new(self.columns.len() * self.shape.record_bytes));
        let mut good = 1;
        let each =
            answers.chunks_exact(self.shape.answer_bytes()).zip(records.0.chunks_exact_mut(self.shape.record_bytes));
        for (i, (answer, record)) in each.enumerate() {
            let mut bytes = Wiped::new(self.shape.column_bytes());
            for (output, random) in random.iter().enumerate() {
                let part = self.ring.coefficients(&self.secrets[i].times(random));
                let noise = &self.noise[i * self.shape.outputs + output];
                let half = self.shape.degree / 2;
                let rounded = bits::unpack(&answer[output * half * ANSWER_BITS as usize / 8..], ANSWER_BITS);
                let bytes = &mut bytes[output * half / 2..][..half / 2];
                for (row, ((rounded, part), noise)) in rounded.zip(part.iter()).zip(noise.iter()).enumerate() {
                    let fixed = (rounded * MODULUS + (1 << (ANSWER_BITS - 1))) >> ANSWER_BITS;
                    let (value, near) = entry(add_modulo(add_modulo(fixed, *part), modulo(*noise)));
                    bytes[row / 2] |= value << (row % 2 * ENTRY_BITS as usize);
                    good &= near;
                }
            }
            let mut mask = Wiped::new(bytes.len());
            whitening(&seed, self.columns[i], &mut mask);
            bytes.iter_mut().zip(mask.iter()).for_each(|(byte, mask)| *byte ^= mask);
            good &= column::verify(&self.shape, hint.cap, self.columns[i], &bytes);
            cut(&bytes, self.places[i], record, self.shape.column_records);
        }
        Ok(if good == 1 { Some(records) } else { None })
    }
}

/// Decoded records. Wiped when dropped.
pub struct Wiper(Wiped<u8>);

impl std::ops::Deref for Wiper {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

fn hedged(
    entropy: &[u8; ENTROPY_BYTES],
    manifest_hash: &[u8; 32],
    context: &Context,
    indices: &[u32],
) -> Zeroizing<[u8; ENTROPY_BYTES]> {
    let mut hasher = blake3::Hasher::new_derive_key("keyhush 2026-11 one-server entropy v2");
    hasher.update(entropy).update(manifest_hash).update(&[context.of as u8]);
    for index in indices {
        hasher.update(&index.to_le_bytes());
    }
    Zeroizing::new(*hasher.finalize().as_bytes())
}

/// Appends a query for a column: the packing key, then the encrypted unit vector. Returns the secret.
fn request(
    shape: &Shape,
    ring: &Ring,
    matrices: &Matrices,
    column: u32,
    stream: impl Fn(u64) -> ChaCha,
    into: &mut Vec<u8>,
) -> Multiplier {
    let mut small = Wiped::new(shape.degree);
    gauss::small(&mut stream(SECRET), &mut small);
    let secret = ring.of_small(&small);
    let next = secret.rotated(1);
    let multiplier = secret.multiplier();

    gauss::small(&mut stream(KEY), &mut small);
    let mut key = ring.of_small(&small);
    key.add(&next.times(1 << GADGET_DROP));
    key.subtract(&multiplier.times(&matrices.key));
    bits::pack(ring.coefficients(&key).iter().map(|value| value >> KEY_DROP), KEY_BITS, into);

    let mut source = stream(SELECTOR);
    let bits = shape.selector_bits();
    let mut selectors = Wiped::new(shape.columns);
    for ((k, public), out) in matrices.selectors.iter().enumerate().zip(selectors.chunks_mut(shape.degree)) {
        let errors = &mut small[..out.len()];
        gauss::small(&mut source, errors);
        let product = ring.coefficients(&multiplier.times(public));
        for (i, (out, (error, product))) in out.iter_mut().zip(errors.iter().zip(product.iter())).enumerate() {
            let hit = equal((k * shape.degree + i) as u32, column) * DELTA;
            let exact = add_modulo(modulo(i64::from(*error) + hit as i64), MODULUS - product);
            *out = shortened(exact, bits);
        }
    }
    bits::pack(selectors.iter().copied(), bits, into);
    multiplier
}

/// About `exact`·2^bits/q, modulo 2^bits. No branch, no division.
fn shortened(exact: u64, bits: u32) -> u64 {
    const FACTOR: u64 = ((1u128 << 77) / MODULUS as u128) as u64;
    (((exact >> 14) * FACTOR + (1 << (62 - bits))) >> (63 - bits)) & ((1 << bits) - 1)
}

/// The random part of an output, from a hint's coefficients without their low bits.
pub(super) fn random_part(ring: &Ring, coefficients: &[u8]) -> Element {
    let kept = bits::unpack(coefficients, HINT_BITS);
    ring.of_unsigned(&kept.map(|value| middle(value, HINT_DROP)).collect::<Vec<_>>())
}

/// The entry that a value stands for, and 1 if it is nearer than half a step, by 2 at least, else 0. This holds alike for all entries:
/// they are centred, and 16·Δ is q − 1, so negative ones lie one above their multiple of Δ.
fn entry(value: u64) -> (u8, u64) {
    let half = DELTA / 2;
    let (quotient, rest) = divided::<{ ENTRY_BITS + 1 }>(value + half, DELTA);
    let negative = (quotient + (1 << (ENTRY_BITS - 1))) >> ENTRY_BITS;
    let distance = rest as i64 - half as i64 - negative as i64;
    let beyond = (half as i64 - 2 - distance) | (half as i64 - 2 + distance);
    ((quotient as u8 ^ MIDDLE) & 15, (beyond as u64 >> 63) ^ 1)
}

/// Copies record number `place` of a column, by reading all.
fn cut(column: &[u8], place: u32, record: &mut [u8], records: usize) {
    for (number, bytes) in column.chunks_exact(record.len()).take(records).enumerate() {
        let mask = (equal(number as u32, place) as u8).wrapping_neg();
        record.iter_mut().zip(bytes).for_each(|(into, byte)| *into |= byte & mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16·Δ is q − 1, not q. Without the rule, negative entries would be accepted one unit nearer on one side, and farther off on the
    /// other: the verdict would depend on the entry.
    #[test]
    fn a_row_is_judged_alike_whatever_its_entry() {
        let limit = DELTA as i64 / 2 - 2;
        for entry_ in 0..16u8 {
            let at = |offset: i64| {
                // Servers multiply centred entries.
                let value = i128::from(i64::from(entry_) - 8) * i128::from(DELTA) + i128::from(offset);
                entry(value.rem_euclid(i128::from(MODULUS)) as u64)
            };
            for offset in [0, 1, -1, limit, -limit] {
                assert_eq!(at(offset), (entry_, 1), "{entry_} {offset}");
            }
            for offset in [limit + 1, -limit - 1, limit + 2, -limit - 2, limit + 3, -limit - 3] {
                assert_eq!(at(offset).1, 0, "{entry_} {offset}");
            }
        }
    }

    /// The rule decides even where the entry, and so every hash, is right.
    #[test]
    fn a_row_that_is_too_far_from_its_entry_is_refused() {
        let shape = Shape::of_degree(32, 6, 16).unwrap();
        let context = Context { database_id: [1; 16], generation: 2, of: super::super::Of::Records };
        let mut preparing = super::super::prepare::Preparing::new(shape, context, 0).unwrap();
        preparing.put(&[0x5a; 96]).unwrap();
        while preparing.step().unwrap() {}
        let database = preparing.finish().unwrap();
        let accepted_at = |row: usize, distance: i64| {
            let mut query = Query::new(shape, context, &[3; 32], &[4], &[5; 32]).unwrap();
            let answer = database.answer(query.request()).unwrap();
            while query.expand() {}
            let random = HintParts::new(&shape, database.hint()).unwrap().elements;
            let (output, at) = (row / 16, row % 16);
            let random = random.chunks_exact(shape.element_bytes()).nth(output).unwrap();
            let part = query.secrets[0].times(&random_part(&query.ring, random));
            let rounded = bits::unpack(&answer, ANSWER_BITS).nth(row).unwrap();
            let fixed = (rounded * MODULUS + (1 << (ANSWER_BITS - 1))) >> ANSWER_BITS;
            let value = add_modulo(fixed, query.ring.coefficients(&part)[at]);
            let mut entries = vec![0; shape.columns];
            database.entries.row(row, 0, &mut entries);
            let stored = entries[query.columns[0] as usize];
            let exact = (i64::from(stored) - i64::from(MIDDLE)) * DELTA as i64;
            let error = (value as i64 - exact).rem_euclid(MODULUS as i64);
            let error = if error > MODULUS as i64 / 2 { error - MODULUS as i64 } else { error };
            query.noise[output][at] = distance - error;
            (stored >= MIDDLE, query.decode(database.hint(), &answer).unwrap().is_some())
        };
        let limit = (DELTA / 2) as i64 - 2;
        let mut signs = [0; 2];
        for row in 0..shape.rows() {
            for (distance, accepted) in
                [(0, true), (limit, true), (-limit, true), (limit + 1, false), (-limit - 1, false)]
            {
                let (positive, found) = accepted_at(row, distance);
                assert_eq!(found, accepted, "row {row}, {distance}");
                signs[usize::from(positive)] += 1;
            }
        }
        assert!(signs.iter().all(|&count| count > 0), "{signs:?}");
    }

    #[test]
    fn one_secret_serves_one_question() {
        let context = Context { database_id: [1; 16], generation: 2, of: super::super::Of::Records };
        let other = Context { of: super::super::Of::Directory, ..context };
        let seed = |hash: u8, context: &Context, indices: &[u32]| *hedged(&[7; 32], &[hash; 32], context, indices);
        let first = seed(1, &context, &[3, 4]);
        assert_eq!(first, seed(1, &context, &[3, 4]));
        for changed in [
            seed(2, &context, &[3, 4]),
            seed(1, &other, &[3, 4]),
            seed(1, &context, &[3, 5]),
            seed(1, &context, &[2, 4]),
            seed(1, &context, &[3]),
        ] {
            assert_ne!(first, changed);
        }
    }
}
