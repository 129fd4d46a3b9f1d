//! Verifies an answer: one equation for all entries (papers: Gorbunov, Reyzin, Wee, Zhang, §4 and §5, aggregation across
//! commitments; TAPIR, §6):
//!
//! ∏ e(tₙCₙ, [α^(257−iₙ)]₂) = e(π, g₂) · e([α]₁, [α²⁵⁶]₂)^Σtₙxₙ
//!
//! The work is constant: a pairing for each entry and two more, the same number in each step, and one final exponentiation. It
//! does not depend on offsets, records, rows or proof. `bls12_381` has neither branches nor tables that depend on values. Miller
//! lines are not kept from one call to the next: known ones would take less time, so one server could time what the other
//! was asked for.

use bls12_381::{G1Affine, G1Projective, G2Affine, G2Prepared, Gt, MillerLoopResult, Scalar, multi_miller_loop};
use subtle::{Choice, ConstantTimeEq};

use crate::error::{Error, expect_length};
use crate::key::Key;
use crate::point::{G1_BYTES, multiply};
use crate::statement::{COEFFICIENT_BYTES, HASH_BYTES, ROW_RECORDS, Shape, Statement};

/// Bytes of a proof.
pub const PROOF_BYTES: usize = G1_BYTES;

/// The row commitments of a whole database. A partition's row list is the key's hash, then 48 bytes for each row.
pub struct Rows {
    shape: Shape,
    commitments: Vec<[u8; G1_BYTES]>,
}

impl Rows {
    /// Reads the Q row lists, one after the other. The caller has checked that each has the hash that is its partition's
    /// commitment in the manifest.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Rows`] if one belongs to another key.
    pub fn decode(shape: Shape, key: &Key, lists: &[u8]) -> Result<Self, Error> {
        let list_bytes = row_list_bytes(&shape);
        expect_length("row lists", lists, shape.partitions() * list_bytes)?;
        let mut commitments = Vec::with_capacity(shape.partitions() * shape.rows());
        for list in lists.chunks_exact(list_bytes) {
            let (hash, rows) = list.split_at(HASH_BYTES);
            if hash != key.hash() {
                return Err(Error::Rows("it was made under another key"));
            }
            commitments.extend_from_slice(rows.as_chunks().0);
        }
        Ok(Rows { shape, commitments })
    }
}

/// Bytes of the row list of a partition.
#[must_use]
pub fn row_list_bytes(shape: &Shape) -> usize {
    HASH_BYTES + shape.rows() * G1_BYTES
}

/// Whether the proof holds: whether each entry of the statement is in its row, at its place.
///
/// # Errors
/// [`Error::Length`] unless the proof has 48 bytes; [`Error::Rows`] for rows of another shape, or a commitment that is no
/// point. Neither happens with a manifest that an honest server has too.
pub fn verify(key: &Key, rows: &Rows, statement: &Statement<'_>, proof: &[u8]) -> Result<bool, Error> {
    Verification::begin(key, rows, statement, proof)?.finish()
}

/// Entries verified in one step. With fewer, a step is shorter and the whole takes longer: each step has squarings of its own.
const STEP_ENTRIES: usize = 4;

/// An entry, and everything needed to verify it.
struct Entry {
    commitment: [u8; G1_BYTES],
    /// [α^(257−i)]₂
    power: G2Affine,
    coefficient: [u8; COEFFICIENT_BYTES],
    /// the bytes from which the record's scalar is reduced
    wide: [u8; 64],
}

/// Verifies an answer in steps, so that a thread can do other things in between. The steps depend on nothing but the number
/// of entries.
pub struct Verification {
    entries: Vec<Entry>,
    /// number of entries that steps have processed
    done: usize,
    /// [α]₁ and [α²⁵⁶]₂
    last: (G1Affine, G2Affine),
    proof: G1Affine,
    decoded: Choice,
    rows_decoded: Choice,
    /// Σ tₙxₙ
    sum: Scalar,
    product: MillerLoopResult,
    /// whether the product has all pairs
    over: bool,
}

impl Verification {
    /// Begins to verify as [`verify`] does.
    ///
    /// # Errors
    /// As [`verify`], except for a commitment that is no point.
    pub fn begin(key: &Key, rows: &Rows, statement: &Statement<'_>, proof: &[u8]) -> Result<Self, Error> {
        Self::under(key, rows, statement, &statement.coefficients(), proof)
    }

    fn under(
        key: &Key,
        rows: &Rows,
        statement: &Statement<'_>,
        coefficients: &[[u8; COEFFICIENT_BYTES]],
        proof: &[u8],
    ) -> Result<Self, Error> {
        expect_length("proof", proof, PROOF_BYTES)?;
        expect_length("coefficients", coefficients.as_flattened(), statement.count() * COEFFICIENT_BYTES)?;
        if rows.shape != *statement.shape() {
            return Err(Error::Rows("expected those of a database of this shape, got another"));
        }
        // A proof or commitment that does not decode counts as the identity until the end.
        let mut compressed = [0; G1_BYTES];
        compressed.copy_from_slice(proof);
        let proof = G1Affine::from_compressed(&compressed);
        let entries = statement.entries().zip(coefficients).map(|((row, column, wide), &coefficient)| Entry {
            commitment: rows.commitments[row],
            power: key.powers[ROW_RECORDS - 1 - column], // i is column + 1
            coefficient,
            wide,
        });
        Ok(Verification {
            entries: entries.collect(),
            done: 0,
            last: (key.first, key.powers[ROW_RECORDS - 1]),
            decoded: proof.is_some(),
            proof: proof.unwrap_or(G1Affine::identity()),
            rows_decoded: Choice::from(1),
            sum: Scalar::zero(),
            product: MillerLoopResult::default(),
            over: false,
        })
    }

    /// Does a step. Returns whether more are needed. [`Self::finish`] does those that are left.
    pub fn step(&mut self) -> bool {
        if self.over {
            return false;
        }
        let entries = &self.entries[self.done..];
        let entries = &entries[..entries.len().min(STEP_ENTRIES)];
        let mut weighted = Vec::with_capacity(STEP_ENTRIES); // tₙCₙ
        let mut lines = Vec::with_capacity(STEP_ENTRIES); // of the point that each is paired with
        for Entry { commitment, power, coefficient, wide } in entries {
            // On the curve. That it is in the subgroup follows from the hash of the row list.
            let commitment = G1Affine::from_compressed_unchecked(commitment);
            self.rows_decoded &= commitment.is_some();
            let commitment = G1Projective::from(commitment.unwrap_or(G1Affine::identity()));
            weighted.push(multiply(&commitment, coefficient));
            lines.push(G2Prepared::from(*power));
            let limbs = u128::from_le_bytes(*coefficient);
            self.sum += Scalar::from_raw([limbs as u64, (limbs >> 64) as u64, 0, 0]) * Scalar::from_bytes_wide(wide);
        }
        self.done += entries.len();
        self.over = entries.is_empty();
        if self.over {
            weighted.push(multiply(&G1Projective::from(self.last.0), &(-self.sum).to_bytes()));
            weighted.push(G1Projective::from(-self.proof));
            lines.extend([self.last.1, G2Affine::generator()].map(G2Prepared::from));
        }
        let mut points = vec![G1Affine::identity(); weighted.len()];
        G1Projective::batch_normalize(&weighted, &mut points);
        let pairs: Vec<_> = points.iter().zip(&lines).collect();
        self.product += multi_miller_loop(&pairs);
        !self.over
    }

    /// Does the steps that are left. Returns whether the proof holds.
    ///
    /// # Errors
    /// [`Error::Rows`] for a commitment that is no point.
    pub fn finish(mut self) -> Result<bool, Error> {
        while self.step() {}
        let product = self.product.final_exponentiation();
        if !bool::from(self.rows_decoded) {
            return Err(Error::Rows("a commitment is no point of the curve"));
        }
        Ok(bool::from(self.decoded & product.ct_eq(&Gt::identity())))
    }
}

/// For tests that show why something must not be done.
pub mod hazmat {
    use super::{COEFFICIENT_BYTES, Error, Key, Rows, Statement, Verification};

    /// [`super::verify`] with the caller's coefficients. If the server knew them when it made the records, the result means
    /// nothing.
    ///
    /// # Errors
    /// As [`super::verify`].
    pub fn verify_under(
        key: &Key,
        rows: &Rows,
        statement: &Statement<'_>,
        coefficients: &[[u8; COEFFICIENT_BYTES]],
        proof: &[u8],
    ) -> Result<bool, Error> {
        Verification::under(key, rows, statement, coefficients, proof)?.finish()
    }
}
