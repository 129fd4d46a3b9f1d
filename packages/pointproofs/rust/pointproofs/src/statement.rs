//! A statement: the entries of an answer that one proof is for, and the coefficients that combine them.

use crate::error::{Error, expect_length};
use crate::scalar::record_bytes;

/// m: records of a row. Each commitment is to one row.
pub const ROW_RECORDS: usize = 256;
/// Bytes of the hash of a manifest or key, and of a link of a chain.
pub const HASH_BYTES: usize = 32;
/// Bytes of an answer's header (docs/protocol.md, HTTP).
pub const HEADER_BYTES: usize = 40;
/// Bytes of a coefficient: all its 128 bits are random.
pub const COEFFICIENT_BYTES: usize = 16;

const COEFFICIENTS_CONTEXT: &str = "keyhush 2026-11 pointproofs coefficients v1";
const MOST_PARTITIONS: usize = 1 << 16;
const MOST_PARTITION_RECORDS: usize = 1 << 16;
const MOST_RECORD_BYTES: usize = 1 << 16;

/// The sizes of a database on which its proofs depend: Q partitions of M records of ℓ bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    partitions: usize,
    partition_records: usize,
    record_bytes: usize,
}

impl Shape {
    /// Checks the three numbers.
    ///
    /// # Errors
    /// [`Error::Index`] unless each is from 1 to 65 536.
    pub fn new(partitions: usize, partition_records: usize, record_bytes: usize) -> Result<Self, Error> {
        for (what, number, most) in [
            ("number of partitions", partitions, MOST_PARTITIONS),
            ("records of a partition", partition_records, MOST_PARTITION_RECORDS),
            ("bytes of a record", record_bytes, MOST_RECORD_BYTES),
        ] {
            if number == 0 || number > most {
                return Err(Error::Index { what, bound: most as u64 + 1 });
            }
        }
        Ok(Shape { partitions, partition_records, record_bytes })
    }

    /// Q
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// M
    #[must_use]
    pub fn partition_records(&self) -> usize {
        self.partition_records
    }

    /// ℓ
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Rows of a partition: ⌈M/256⌉. A short last row counts as if zero records followed.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.partition_records.div_ceil(ROW_RECORDS)
    }
}

/// An answer without its proof, and the offsets that were asked for.
#[derive(Clone, Copy)]
pub struct Statement<'a> {
    shape: Shape,
    manifest: &'a [u8; HASH_BYTES],
    header: &'a [u8; HEADER_BYTES],
    offsets: &'a [u16],
    records: &'a [u8],
}

impl<'a> Statement<'a> {
    /// Entry n belongs to `offsets[n]` of partition n mod Q. `manifest` is the hash of the manifest that commits to the rows.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many records as offsets, and their number is a positive multiple of Q;
    /// [`Error::Index`] for an offset that is not below M.
    pub fn new(
        shape: Shape,
        manifest: &'a [u8; HASH_BYTES],
        header: &'a [u8; HEADER_BYTES],
        offsets: &'a [u16],
        records: &'a [u8],
    ) -> Result<Self, Error> {
        let count = offsets.len().div_ceil(shape.partitions).max(1) * shape.partitions;
        if offsets.len() != count {
            let [expected, actual] = [2 * count as u64, 2 * offsets.len() as u64];
            return Err(Error::Length { what: "offsets", expected, actual });
        }
        expect_length("records", records, count * shape.record_bytes)?;
        if offsets.iter().any(|&offset| usize::from(offset) >= shape.partition_records) {
            return Err(Error::Index { what: "offset", bound: shape.partition_records as u64 });
        }
        Ok(Statement { shape, manifest, header, offsets, records })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn count(&self) -> usize {
        self.offsets.len()
    }

    /// For each entry: the number of its row among all Q·R, its column from 0, and the bytes its scalar is reduced from.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, usize, [u8; 64])> {
        let Shape { partitions, partition_records, record_bytes: bytes } = self.shape;
        self.offsets.iter().zip(self.records.chunks_exact(bytes)).enumerate().map(move |(n, (&offset, record))| {
            let (q, offset) = (n % partitions, usize::from(offset));
            let index = (q * partition_records + offset) as u64;
            (q * self.shape.rows() + offset / ROW_RECORDS, offset % ROW_RECORDS, record_bytes(index, record))
        })
    }

    /// The coefficients tₙ, 16 bytes each, little-endian. They are a hash of everything that the proof is about, offsets and
    /// records included. If they did not depend on the records, a server could change two records so that the weighted sum
    /// stays the same (docs/threat-model.md, Pointproofs).
    #[must_use]
    pub fn coefficients(&self) -> Vec<[u8; COEFFICIENT_BYTES]> {
        let mut hasher = blake3::Hasher::new_derive_key(COEFFICIENTS_CONTEXT);
        hasher.update(self.manifest).update(self.header);
        for offset in self.offsets {
            hasher.update(&offset.to_le_bytes());
        }
        hasher.update(self.records);
        let mut coefficients = vec![[0; COEFFICIENT_BYTES]; self.offsets.len()];
        hasher.finalize_xof().fill(coefficients.as_flattened_mut());
        coefficients
    }
}
