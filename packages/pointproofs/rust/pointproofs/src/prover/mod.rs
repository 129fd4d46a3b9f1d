//! The server's half: commits to rows, opens all of their records at once, proves answers, and applies edits. It uses
//! `ark-bls12-381`, which shows coordinates and is fast. Verifying uses `bls12_381`, whose steps depend on nothing; a server
//! proves public values only. The two crates exchange nothing but bytes.

mod affine;
mod multiples;
mod openings;
mod toeplitz;

use std::sync::OnceLock;

use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, PrimeField};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};

use multiples::Multiples;
pub use openings::Openings;

use crate::error::{Error, expect_length};
use crate::point::{G1_BYTES, G1_WHOLE_BYTES};
use crate::scalar::record_bytes;
use crate::statement::{COEFFICIENT_BYTES, HASH_BYTES, ROW_RECORDS, Shape, Statement};
use crate::transcript::{G1_POWERS, Verified};
use crate::verify::row_list_bytes;

const WEIGHTS_CONTEXT: &str = "keyhush 2026-11 pointproofs row weights v1";

/// From this many sums on, [`Multiples::sum`] is faster: it uses tables, and its additions share inversions.
const MANY_SUMS: usize = 32;

/// Openings of a row are made one by one if that takes at most this many products: the row's nonzero records times the records
/// to open.
const FEW_PRODUCTS: usize = 1024;

/// Bytes of a prover's setup.
pub const SETUP_BYTES: usize = HASH_BYTES + G1_POWERS * G1_WHOLE_BYTES;

/// The setup from which other provers of the same operator are made: the hash of the transcript's key, and its powers in G1.
///
/// # Errors
/// [`Error::Transcript`] if nobody has contributed yet.
pub fn setup_of(transcript: &Verified) -> Result<Vec<u8>, Error> {
    let mut setup = blake3::hash(&transcript.key()?).as_bytes().to_vec();
    setup.extend(transcript.g1_powers().flatten());
    Ok(setup)
}

/// Commits to partitions, and opens records.
pub struct Prover {
    key_hash: [u8; HASH_BYTES],
    /// [αᵏ]₁ is at k − 1; the identity stands at k = 257, a power that nobody has
    powers: Vec<G1Affine>,
    /// tables of the powers; made when first needed
    multiples: OnceLock<Multiples>,
    /// made when first needed: checking rows against records needs no tables
    openings: OnceLock<Openings>,
}

/// What a server keeps of a partition.
#[derive(Clone)]
pub struct Proved {
    /// the key's hash and 48 bytes for each of R rows; its hash is the partition's commitment
    pub row_list: Vec<u8>,
    /// 96 bytes for each record
    pub openings: Vec<u8>,
}

/// The edit of a record after its openings were made: its column in the row, and the difference of its scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    column: usize,
    difference: Fr,
}

/// Bytes of an edit: its column, and the difference, little-endian.
pub const EDIT_BYTES: usize = 1 + SCALAR_BYTES;
const SCALAR_BYTES: usize = 32;

impl Edit {
    /// The edit of the record at an index, which is at `offset` of its partition, from `old` to `new`.
    #[must_use]
    pub fn new(index: u64, offset: usize, old: &[u8], new: &[u8]) -> Self {
        Edit { column: offset % ROW_RECORDS, difference: of_record(index, new) - of_record(index, old) }
    }

    /// The bytes of an edit.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; EDIT_BYTES] {
        let mut bytes = [0; EDIT_BYTES];
        bytes[0] = self.column as u8;
        bytes[1..].copy_from_slice(&self.difference.into_bigint().to_bytes_le());
        bytes
    }

    /// Reads an edit.
    ///
    /// # Errors
    /// [`Error::Index`] if the difference is not below the group's order.
    pub fn from_bytes(bytes: &[u8; EDIT_BYTES]) -> Result<Self, Error> {
        let difference = Fr::deserialize_uncompressed(&bytes[1..]);
        let difference = difference.map_err(|_| Error::Index { what: "difference of an edit", bound: u64::MAX })?;
        Ok(Edit { column: usize::from(bytes[0]), difference })
    }
}

/// An edit, and the number of the row or entry that it belongs to.
pub type Placed = (usize, Edit);

impl Prover {
    /// A prover for a verified transcript.
    ///
    /// # Errors
    /// [`Error::Transcript`] if nobody has contributed yet.
    pub fn new(transcript: &Verified) -> Result<Self, Error> {
        Self::of_setup(&setup_of(transcript)?)
    }

    /// A prover from a setup that [`setup_of`] made. The setup is not verified again.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Point`] for a point that is not on the curve.
    pub fn of_setup(setup: &[u8]) -> Result<Self, Error> {
        expect_length("setup", setup, SETUP_BYTES)?;
        let (hash, powers) = setup.split_at(HASH_BYTES);
        let mut key_hash = [0; HASH_BYTES];
        key_hash.copy_from_slice(hash);
        let mut powers = powers.as_chunks().0.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        powers.insert(ROW_RECORDS, G1Affine::zero());
        Ok(Prover { key_hash, powers, multiples: OnceLock::new(), openings: OnceLock::new() })
    }

    fn openings(&self) -> &Openings {
        self.openings.get_or_init(|| Openings::new(ROW_RECORDS, &self.powers))
    }

    /// Commits to partition `q` and opens all its records. Equal records give equal bytes.
    ///
    /// # Errors
    /// [`Error::Length`] unless `partition` has M·ℓ bytes; [`Error::Index`] if there is no such partition.
    pub fn prove(&self, shape: &Shape, q: usize, partition: &[u8]) -> Result<Proved, Error> {
        let rows = rows_of(shape, q, partition)?;
        let mut row_list = self.key_hash.to_vec();
        for row in &rows {
            let commitment = G1Projective::msm_unchecked(&self.powers[..ROW_RECORDS], row);
            row_list.extend_from_slice(&compressed(commitment.into_affine()));
        }
        let openings = self.opened(&rows, shape.partition_records()).iter().flat_map(uncompressed).collect();
        Ok(Proved { row_list, openings })
    }

    /// The openings of the first `records` records of a partition, from all its rows.
    fn opened(&self, rows: &[Vec<Fr>], records: usize) -> Vec<G1Affine> {
        let records_of = |row: usize| ROW_RECORDS.min(records - row * ROW_RECORDS);
        let is_few = |row: usize| {
            let terms = rows[row].iter().filter(|&&scalar| scalar != Fr::ZERO).count();
            terms * records_of(row) <= FEW_PRODUCTS
        };
        let (few, many): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(|&row| is_few(row));
        let mut opened = vec![Vec::new(); rows.len()];
        for row in few {
            opened[row] = self.opened_one_by_one(&rows[row], records_of(row));
        }
        if !many.is_empty() {
            let together: Vec<_> = many.iter().map(|&row| rows[row].clone()).collect();
            let openings = self.openings().of_rows(&together);
            for (row, openings) in many.into_iter().zip(openings.chunks_exact(ROW_RECORDS)) {
                opened[row] = openings[..records_of(row)].to_vec();
            }
        }
        opened.concat()
    }

    /// The openings of the first `records` records of a row, by the definition, for a row with few nonzero records.
    fn opened_one_by_one(&self, row: &[Fr], records: usize) -> Vec<G1Affine> {
        let terms: Vec<(usize, Fr)> = row.iter().copied().enumerate().filter(|&(_, x)| x != Fr::ZERO).collect();
        if terms.is_empty() {
            return vec![G1Affine::zero(); records];
        }
        let factors = vec![&terms; records].into_iter().flatten().map(|&(_, x)| x).collect::<Vec<_>>();
        let each = terms.len();
        // For j = i, the power that nobody has counts as the identity.
        let products = self.times(&factors, |n| ROW_RECORDS + terms[n % each].0 - n / each);
        let sums = products.chunks_exact(each).map(|products| products.iter().sum::<G1Projective>());
        G1Projective::normalize_batch(&sums.collect::<Vec<_>>())
    }

    /// Whether a partition's row list belongs to this key and commits to these records. It takes a fraction of the time of making
    /// the list: all rows are checked at once, with weights of 128 bits derived from 32 bytes of fresh entropy. A wrong list passes
    /// with probability 2⁻¹²⁸.
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

    /// Applies edits of records to row commitments, all at once. Each edit has the number of its row.
    ///
    /// # Errors
    /// [`Error::Point`]; [`Error::Index`] if an edit's row does not exist.
    pub fn follow(&self, commitments: &mut [[u8; G1_BYTES]], edits: &[Placed]) -> Result<(), Error> {
        let old = commitments.iter().map(|bytes| G1Affine::deserialize_compressed_unchecked(&bytes[..]));
        let old = old.collect::<Result<Vec<_>, _>>().map_err(|_| Error::Point("row commitment"))?;
        let mut rows: Vec<G1Projective> = old.into_iter().map(Into::into).collect();
        let factors: Vec<Fr> = edits.iter().map(|(_, edit)| edit.difference).collect();
        let changes = self.times(&factors, |n| edits[n].1.column);
        let bound = rows.len() as u64;
        for (change, &(row, _)) in changes.into_iter().zip(edits) {
            *rows.get_mut(row).ok_or(Error::Index { what: "row of an edit", bound })? += change;
        }
        for (into, row) in commitments.iter_mut().zip(G1Projective::normalize_batch(&rows)) {
            *into = compressed(row);
        }
        Ok(())
    }

    /// One proof for a statement, from openings that were made before these edits. Each edit has the number of an entry in whose
    /// row it is. The sum that is the proof corrects the openings too.
    ///
    /// # Errors
    /// As [`prove_together`]; [`Error::Index`] if an edit's entry does not exist.
    pub fn prove_edited(
        &self,
        statement: &Statement<'_>,
        openings: &[[u8; G1_WHOLE_BYTES]],
        edits: &[Placed],
    ) -> Result<[u8; G1_BYTES], Error> {
        let coefficients = statement.coefficients();
        let (mut points, mut factors) = weighted(&coefficients, openings)?;
        // For each power [α^(257 + j − i)]₁ the sum of its factors.
        let mut sums = vec![Fr::ZERO; self.powers.len()];
        let columns: Vec<usize> = statement.entries().map(|(_, column, _)| column).collect();
        for &(entry, edit) in edits {
            let bound = columns.len() as u64;
            let column = *columns.get(entry).ok_or(Error::Index { what: "entry of an edit", bound })?;
            sums[ROW_RECORDS + edit.column - column] += Fr::new(factor(&coefficients[entry])) * edit.difference;
        }
        // For j = i, the power that nobody has counts as the identity.
        let (places, sums): (Vec<usize>, Vec<Fr>) =
            sums.into_iter().enumerate().filter(|(_, sum)| *sum != Fr::ZERO).unzip();
        if sums.len() < MANY_SUMS {
            points.extend(places.iter().map(|&power| self.powers[power]));
            factors.extend(sums.iter().map(|sum| sum.into_bigint()));
            return Ok(compressed(G1Projective::msm_bigint(&points, &factors).into_affine()));
        }
        let old = G1Projective::msm_bigint(&points, &factors);
        Ok(compressed((old + self.multiples().sum(&sums, &places)).into_affine()))
    }

    /// Makes the tables for applying edits and for proving edited entries, before they are needed.
    pub fn warm(&self) {
        self.multiples();
    }

    fn multiples(&self) -> &Multiples {
        self.multiples.get_or_init(|| Multiples::of(self.powers.clone()))
    }

    /// Products of powers with factors; `whose` gives the number of the power for each factor.
    fn times(&self, factors: &[Fr], whose: impl Fn(usize) -> usize) -> Vec<G1Affine> {
        self.multiples().times(factors, whose)
    }

    /// Applies many edits to all openings of a row at once: openings of sums are sums of openings.
    ///
    /// # Errors
    /// [`Error::Point`]; [`Error::Length`] for more than one row.
    pub fn fold(&self, openings: &mut [u8], edits: &[Edit]) -> Result<(), Error> {
        if openings.len() > ROW_RECORDS * G1_WHOLE_BYTES || !openings.len().is_multiple_of(G1_WHOLE_BYTES) {
            return expect_length("openings of a row", openings, ROW_RECORDS * G1_WHOLE_BYTES);
        }
        let mut differences = vec![Fr::ZERO; ROW_RECORDS];
        for edit in edits {
            differences[edit.column] += edit.difference;
        }
        let old = openings.as_chunks().0.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let mut folded = self.opened(&[differences], old.len());
        affine::add_all(&mut folded, &old);
        for (into, point) in openings.as_chunks_mut().0.iter_mut().zip(&folded) {
            *into = uncompressed(point);
        }
        Ok(())
    }
}

/// One proof for a statement, from the openings of its entries, in order.
///
/// # Errors
/// [`Error::Length`] unless there is an opening for each entry; [`Error::Point`].
pub fn prove_together(statement: &Statement<'_>, openings: &[[u8; G1_WHOLE_BYTES]]) -> Result<[u8; G1_BYTES], Error> {
    let (points, factors) = weighted(&statement.coefficients(), openings)?;
    Ok(compressed(G1Projective::msm_bigint(&points, &factors).into_affine()))
}

/// The openings as points, and their factors.
fn weighted(
    coefficients: &[[u8; COEFFICIENT_BYTES]],
    openings: &[[u8; G1_WHOLE_BYTES]],
) -> Result<(Vec<G1Affine>, Vec<BigInt<4>>), Error> {
    expect_length("openings", openings.as_flattened(), coefficients.len() * G1_WHOLE_BYTES)?;
    let points = openings.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
    Ok((points, coefficients.iter().map(factor).collect()))
}

/// The scalars of a partition's records, in rows. The last row is padded with zeros.
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

/// Reads both coordinates of a point: canonical and on the curve. The bytes are the operator's own, so the subgroup is not
/// checked.
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
