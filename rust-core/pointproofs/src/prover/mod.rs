//! A server's half: commit to rows, open all of their records at once, prove answers, follow edits. With `ark-bls12-381`,
//! whose coordinates can be had, where verifying is left to `bls12_381`, whose steps depend on nothing: what a server proves
//! is public, and has to be fast. The two meet in bytes alone.

mod affine;
mod openings;
mod toeplitz;

use std::sync::OnceLock;

use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::{AdditiveGroup, BigInt, PrimeField};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};

pub use openings::Openings;

use crate::error::{Error, expect_length};
use crate::point::{G1_BYTES, G1_WHOLE_BYTES};
use crate::scalar::record_bytes;
use crate::statement::{COEFFICIENT_BYTES, HASH_BYTES, ROW_RECORDS, Shape, Statement};
use crate::transcript::{G1_POWERS, Verified};
use crate::verify::row_list_bytes;

const WEIGHTS_CONTEXT: &str = "pirouette 2026-11 pointproofs row weights v1";

/// Bytes of what provers are made of.
const SETUP_BYTES: usize = HASH_BYTES + G1_POWERS * G1_WHOLE_BYTES;

/// What provers are made of, for others in the same hands: the hash of a transcript's key, and its powers in G1.
///
/// # Errors
/// [`Error::Transcript`] before anybody has contributed.
pub fn setup_of(transcript: &Verified) -> Result<Vec<u8>, Error> {
    let mut setup = blake3::hash(&transcript.key()?).as_bytes().to_vec();
    setup.extend(transcript.g1_powers().flatten());
    Ok(setup)
}

/// What a server commits and opens with.
pub struct Prover {
    key_hash: [u8; HASH_BYTES],
    /// [αᵏ]₁ at k − 1; the identity at k = 257, which nobody has
    powers: Vec<G1Affine>,
    /// made when the first is wanted: who only holds rows to their records needs no tables
    openings: OnceLock<Openings>,
}

/// What a server keeps of a partition.
pub struct Proved {
    /// the key's hash ‖ R·48, whose hash is the partition's commitment
    pub row_list: Vec<u8>,
    /// 96 bytes a record
    pub openings: Vec<u8>,
}

/// An edit of a record since openings were made: where it is in its row, and by how much its scalar has grown.
#[derive(Clone, Copy)]
pub struct Edit {
    column: usize,
    difference: Fr,
}

impl Edit {
    /// The record at an index, which is at `offset` of its partition, was `old` and is `new`.
    #[must_use]
    pub fn new(index: u64, offset: usize, old: &[u8], new: &[u8]) -> Self {
        Edit { column: offset % ROW_RECORDS, difference: of_record(index, new) - of_record(index, old) }
    }
}

impl Prover {
    /// Of a transcript.
    ///
    /// # Errors
    /// [`Error::Transcript`] before anybody has contributed.
    pub fn new(transcript: &Verified) -> Result<Self, Error> {
        Self::of_setup(&setup_of(transcript)?)
    }

    /// Of what [`setup_of`] made of a transcript: it is not verified again.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Point`] for what is not on the curve.
    pub fn of_setup(setup: &[u8]) -> Result<Self, Error> {
        expect_length("setup", setup, SETUP_BYTES)?;
        let (hash, powers) = setup.split_at(HASH_BYTES);
        let mut key_hash = [0; HASH_BYTES];
        key_hash.copy_from_slice(hash);
        let mut powers = powers.as_chunks().0.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        powers.insert(ROW_RECORDS, G1Affine::zero());
        Ok(Prover { key_hash, powers, openings: OnceLock::new() })
    }

    fn openings(&self) -> &Openings {
        self.openings.get_or_init(|| Openings::new(ROW_RECORDS, &self.powers))
    }

    /// Commits to partition `q` and opens all its records. The same bytes whenever and wherever it is done.
    ///
    /// # Errors
    /// [`Error::Length`] unless these are M·ℓ bytes; [`Error::Index`] for a partition there is not.
    pub fn prove(&self, shape: &Shape, q: usize, partition: &[u8]) -> Result<Proved, Error> {
        let rows = rows_of(shape, q, partition)?;
        let mut row_list = self.key_hash.to_vec();
        for row in &rows {
            let commitment = G1Projective::msm_unchecked(&self.powers[..ROW_RECORDS], row);
            row_list.extend_from_slice(&compressed(commitment.into_affine()));
        }
        let openings = self.openings().of_rows(&rows);
        let openings = openings[..shape.partition_records()].iter().flat_map(uncompressed).collect();
        Ok(Proved { row_list, openings })
    }

    /// Whether a partition's row list is one under this key and commits to these records, in a fraction of the time that
    /// making it takes: of all rows at once, under weights of 128 bits that follow from 32 bytes of fresh entropy. A list that
    /// does not hold passes with probability 2⁻¹²⁸.
    ///
    /// # Errors
    /// As [`Prover::prove`]; [`Error::Length`] also for the list.
    pub fn commits(
        &self,
        shape: &Shape,
        q: usize,
        partition: &[u8],
        row_list: &[u8],
        entropy: &[u8; HASH_BYTES],
    ) -> Result<bool, Error> {
        let rows = rows_of(shape, q, partition)?;
        expect_length("row list", row_list, row_list_bytes(shape))?;
        let (key_hash, commitments) = row_list.split_at(HASH_BYTES);
        let points = commitments.as_chunks::<G1_BYTES>().0.iter();
        let points: Option<Vec<_>> = points.map(|bytes| G1Affine::deserialize_compressed(&bytes[..]).ok()).collect();
        let (true, Some(points)) = (key_hash == self.key_hash, points) else { return Ok(false) };
        let mut weights = vec![[0; COEFFICIENT_BYTES]; rows.len()];
        let mut drawn = blake3::Hasher::new_derive_key(WEIGHTS_CONTEXT).update(entropy).finalize_xof();
        drawn.fill(weights.as_flattened_mut());
        let weights: Vec<_> = weights.iter().map(factor).collect();
        let mut sums = vec![Fr::ZERO; ROW_RECORDS]; // of each column
        for (row, &weight) in rows.iter().zip(&weights) {
            let weight = Fr::new(weight);
            for (sum, scalar) in sums.iter_mut().zip(row) {
                *sum += weight * scalar;
            }
        }
        let claimed = G1Projective::msm_bigint(&points, &weights);
        Ok(claimed == G1Projective::msm_unchecked(&self.powers[..ROW_RECORDS], &sums))
    }

    /// A row's commitment after edits of its records.
    ///
    /// # Errors
    /// [`Error::Point`].
    pub fn follow(&self, commitment: &[u8; G1_BYTES], edits: &[Edit]) -> Result<[u8; G1_BYTES], Error> {
        let old = G1Affine::deserialize_compressed_unchecked(&commitment[..]);
        let old = old.map_err(|_| Error::Point("row commitment"))?;
        let changes = edits.iter().map(|edit| self.powers[edit.column] * edit.difference);
        Ok(compressed((changes.sum::<G1Projective>() + old).into_affine()))
    }

    /// The opening of the record at `offset` after edits of its row that it was not made for.
    ///
    /// # Errors
    /// [`Error::Point`].
    pub fn correct(
        &self,
        offset: usize,
        opening: &[u8; G1_WHOLE_BYTES],
        edits: &[Edit],
    ) -> Result<[u8; G1_WHOLE_BYTES], Error> {
        let column = offset % ROW_RECORDS;
        let old = whole(opening)?;
        // [α^(257 + j − i)]₁; for j = i the identity stands where nobody has anything
        let change = edits.iter().map(|edit| self.powers[ROW_RECORDS + edit.column - column] * edit.difference);
        Ok(uncompressed(&(change.sum::<G1Projective>() + old).into_affine()))
    }

    /// All openings of a row, brought up to date with many edits at once: openings of sums are sums of openings.
    ///
    /// # Errors
    /// [`Error::Point`]; [`Error::Length`] for more than a row.
    pub fn fold(&self, openings: &mut [u8], edits: &[Edit]) -> Result<(), Error> {
        if openings.len() > ROW_RECORDS * G1_WHOLE_BYTES || !openings.len().is_multiple_of(G1_WHOLE_BYTES) {
            return expect_length("openings of a row", openings, ROW_RECORDS * G1_WHOLE_BYTES);
        }
        let mut differences = vec![Fr::ZERO; ROW_RECORDS];
        for edit in edits {
            differences[edit.column] += edit.difference;
        }
        let mut folded = self.openings().of_rows(&[differences]);
        let old = openings.as_chunks().0.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        folded.truncate(old.len());
        affine::add_all(&mut folded, &old);
        for (into, point) in openings.as_chunks_mut().0.iter_mut().zip(&folded) {
            *into = uncompressed(point);
        }
        Ok(())
    }
}

/// One proof for a statement, from the opening of each of its entries in order, corrected where their rows were edited.
///
/// # Errors
/// [`Error::Length`] unless there is one for each; [`Error::Point`].
pub fn prove_together(statement: &Statement<'_>, openings: &[[u8; G1_WHOLE_BYTES]]) -> Result<[u8; G1_BYTES], Error> {
    let coefficients = statement.coefficients();
    expect_length("openings", openings.as_flattened(), coefficients.len() * G1_WHOLE_BYTES)?;
    let openings = openings.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
    let factors: Vec<_> = coefficients.iter().map(factor).collect();
    Ok(compressed(G1Projective::msm_bigint(&openings, &factors).into_affine()))
}

/// The scalars of a partition's records, in rows, the last one filled up.
fn rows_of(shape: &Shape, q: usize, partition: &[u8]) -> Result<Vec<Vec<Fr>>, Error> {
    if q >= shape.partitions() {
        return Err(Error::Index { what: "partition", bound: shape.partitions() as u64 });
    }
    expect_length("partition", partition, shape.partition_records() * shape.record_bytes())?;
    let first = (q * shape.partition_records()) as u64;
    let records = (first..).zip(partition.chunks_exact(shape.record_bytes()));
    let mut scalars: Vec<Fr> = records.map(|(index, record)| of_record(index, record)).collect();
    scalars.resize(shape.rows() * ROW_RECORDS, Fr::ZERO);
    Ok(scalars.chunks_exact(ROW_RECORDS).map(<[Fr]>::to_vec).collect())
}

fn factor(coefficient: &[u8; COEFFICIENT_BYTES]) -> BigInt<4> {
    let value = u128::from_le_bytes(*coefficient);
    BigInt([value as u64, (value >> 64) as u64, 0, 0])
}

/// The scalar of a record.
#[must_use]
pub fn of_record(index: u64, record: &[u8]) -> Fr {
    Fr::from_le_bytes_mod_order(&record_bytes(index, record))
}

/// Both coordinates: canonical and on the curve. Of what is one's own, so the subgroup is not asked for.
fn whole(bytes: &[u8; G1_WHOLE_BYTES]) -> Result<G1Affine, Error> {
    let point = G1Affine::deserialize_uncompressed_unchecked(&bytes[..]).ok();
    point.filter(|point| point.is_zero() || point.is_on_curve()).ok_or(Error::Point("opening"))
}

fn uncompressed(point: &G1Affine) -> [u8; G1_WHOLE_BYTES] {
    let mut bytes = [0; G1_WHOLE_BYTES];
    let written = point.serialize_uncompressed(&mut bytes[..]);
    debug_assert!(written.is_ok());
    bytes
}

fn compressed(point: G1Affine) -> [u8; G1_BYTES] {
    let mut bytes = [0; G1_BYTES];
    let written = point.serialize_compressed(&mut bytes[..]);
    debug_assert!(written.is_ok());
    bytes
}
