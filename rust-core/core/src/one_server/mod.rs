//! Lookups with one server and no download before them (docs/protocol/one-server.md): SimplePIR over a ring, packed by InspiRING.
//!
//! A database is a matrix of 4-bit entries. Each *column* holds whole records and their Merkle path to a signed *public hint*. A client
//! sends an encrypted unit vector, with a packing key under the same fresh secret; the server answers with the encrypted column. The
//! random part of an answer depends on the database alone, so it is in the public hint. A verdict covers every row of the column.
//!
//! The ring is Z_q[X]/(X^n + 1) with n = 2048. Tests also use smaller n: all code has it as a number.
//!
//! Client: [`client::Query`]. Server: [`prepare::Preparing`], then [`server::Prepared`]. Who signs a hint: [`norm::Norm`].

mod bits;
pub mod client;
mod column;
mod digits;
mod entries;
pub mod gauss;
pub mod norm;
pub mod prepare;
mod ring;
pub mod server;
mod tables;

use crate::bytes::wipe;
use crate::error::Error;
use crate::random::{ChaCha, ENTROPY_BYTES};

/// n: the ring's degree.
pub const DEGREE: usize = 2048;
/// Most columns: with more, honest answers would fail too often.
pub const MAX_COLUMNS: usize = 88_000;
/// Most outputs: with more, the own noise would not hide what an answer's error tells ([`norm`]).
pub const MAX_OUTPUTS: usize = 16;
/// Merkle nodes in a public hint.
pub const CAP_NODES: usize = 64;
/// Bytes of a digest.
pub const NODE_BYTES: usize = 32;
/// Most queries of a request, and bytes of a request.
const MAX_QUERIES: usize = 64;
const QUERIES_BYTES: usize = 1 << 20;

/// Low bits of the random part that the gadget ignores: what is left is one digit.
const GADGET_DROP: u32 = 23;
/// Low bits that are not sent of a packing key, and not kept of a hint.
const KEY_DROP: u32 = 6;
const HINT_DROP: u32 = 27;
/// Bits of a coefficient, of those that are sent of a packing key, of a hint's, of an answer's, and of an entry.
const MODULUS_BITS: u32 = 46;
const KEY_BITS: u32 = MODULUS_BITS - KEY_DROP;
const HINT_BITS: u32 = MODULUS_BITS - HINT_DROP;
const ANSWER_BITS: u32 = 7;
const ENTRY_BITS: u32 = 4;
/// Columns of a block of entries ([`entries`]), and bytes of a digit modulo a prime ([`digits`]).
const BLOCK: usize = 32;
const DIGIT_BYTES: usize = 3;

/// What is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// the records
    Records,
    /// the blocks of the directory
    Directory,
}

/// Decides the public matrices: no two databases share them, and nobody chooses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// the database's id
    pub database_id: [u8; 16],
    /// its generation
    pub generation: u32,
    /// records or directory
    pub of: Of,
}

impl Context {
    const BYTES: usize = 21;

    fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.database_id);
        bytes[16..20].copy_from_slice(&self.generation.to_le_bytes());
        bytes[20] = self.of as u8;
        bytes
    }

    fn matrix_seed(&self) -> [u8; ENTROPY_BYTES] {
        blake3::derive_key("keyhush 2026-11 one-server matrix v2", &self.bytes())
    }

    /// The seed of the stream that whitens entries. It depends on all contents, by the nodes that commit to them.
    fn whitening_seed(&self, attempt: u32, cap: &[u8]) -> [u8; ENTROPY_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key("keyhush 2026-11 one-server whitening v2");
        hasher.update(&self.bytes()).update(&attempt.to_le_bytes()).update(cap);
        *hasher.finalize().as_bytes()
    }
}

/// The stream that whitens the entries of a column.
fn whitening(seed: &[u8; ENTROPY_BYTES], column: u32, mask: &mut [u8]) {
    ChaCha::new(seed, u64::from(column)).fill(mask);
}

/// How a database's records lie in columns, and the sizes that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    degree: usize,
    records: usize,
    record_bytes: usize,
    /// t: ring elements of an answer
    outputs: usize,
    columns: usize,
    /// records of a column
    column_records: usize,
    /// digests of a column's path
    path: usize,
}

impl Shape {
    /// The shape of N records of ℓ bytes.
    ///
    /// # Errors
    /// [`Error::Layout`] if they need more columns or outputs than there may be.
    pub fn new(records: u64, record_bytes: u64) -> Result<Self, Error> {
        Self::of_degree(DEGREE, records, record_bytes)
    }

    /// The same over a ring of another degree, a power of two from 32 on. For tests: below 2048 it protects nothing.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn of_degree(degree: usize, records: u64, record_bytes: u64) -> Result<Self, Error> {
        let outputs = [1].into_iter().chain((2..=MAX_OUTPUTS).step_by(2));
        outputs
            .filter_map(|outputs| Self::of_outputs(degree, records, record_bytes, outputs))
            .min_by_key(|shape| 2 * (shape.request_bytes() + shape.answer_bytes()) + shape.hint_bytes())
            .ok_or_else(|| {
                Error::Layout(format!(
                    "lookups with one server and no download: expected records that fit {MAX_COLUMNS} columns of {} bytes, \
                     got {records} of {record_bytes} bytes; use another mode",
                    MAX_OUTPUTS * degree / 4
                ))
            })
    }

    fn of_outputs(degree: usize, records: u64, record_bytes: u64, outputs: usize) -> Option<Self> {
        let bytes = outputs * degree / 4;
        let mut path = 0;
        loop {
            let column_records = (bytes.checked_sub(path * NODE_BYTES)? as u64).checked_div(record_bytes)?;
            let columns = records.checked_add(column_records.checked_sub(1)?)? / column_records;
            if !(1..=MAX_COLUMNS as u64).contains(&columns) || records > u64::from(u32::MAX) {
                return None;
            }
            let columns = columns as usize;
            let needed = (depth(columns) as usize).saturating_sub(CAP_NODES.ilog2() as usize);
            if needed <= path {
                let [records, record_bytes, column_records] =
                    [records, record_bytes, column_records].map(|x| x as usize);
                return Some(Shape { degree, records, record_bytes, outputs, columns, column_records, path });
            }
            path = needed;
        }
    }

    /// N
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// ℓ
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// n
    #[must_use]
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// t: ring elements of an answer.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// C
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whole records of a column.
    #[must_use]
    pub fn column_records(&self) -> usize {
        self.column_records
    }

    /// Rows: entries of a column.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.outputs * self.degree / 2
    }

    /// Bytes of a column.
    #[must_use]
    pub fn column_bytes(&self) -> usize {
        self.rows() / 2
    }

    /// Bytes of a column before its path. Its leaf is their hash.
    #[must_use]
    pub fn leaf_bytes(&self) -> usize {
        self.column_bytes() - self.path * NODE_BYTES
    }

    /// Ring elements that hold a bit for each column.
    fn chunks(&self) -> usize {
        self.columns.div_ceil(self.degree)
    }

    /// σ: bits of a selector. Rounding them adds to the error, which the columns add up.
    fn selector_bits(&self) -> u32 {
        if self.columns <= 9_000 { 16 } else { 18 }
    }

    fn key_bytes(&self) -> usize {
        self.degree * KEY_BITS as usize / 8
    }

    /// Bytes of a query.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.key_bytes() + (self.columns * self.selector_bits() as usize).div_ceil(8)
    }

    /// Bytes of an answer to a query.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.rows() * ANSWER_BITS as usize / 8
    }

    /// Bytes of a public hint: the attempt, t ring elements, 64 nodes.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        ATTEMPT_BYTES + self.outputs * self.element_bytes() + CAP_NODES * NODE_BYTES
    }

    /// Bytes of a ring element of a public hint.
    fn element_bytes(&self) -> usize {
        self.degree * HINT_BITS as usize / 8
    }

    /// The most queries of a request.
    #[must_use]
    pub fn max_queries(&self) -> usize {
        (QUERIES_BYTES / self.request_bytes()).clamp(1, MAX_QUERIES)
    }

    /// Memory of a prepared database.
    #[must_use]
    pub fn server_bytes(&self) -> usize {
        self.entry_bytes() + self.digit_bytes()
    }

    /// Bytes of all entries, in whole blocks of columns.
    fn entry_bytes(&self) -> usize {
        self.column_bytes() * self.columns.next_multiple_of(BLOCK)
    }

    /// Bytes of the digits that packing needs: of t·(n/2 − 1) ring elements, modulo two primes.
    fn digit_bytes(&self) -> usize {
        self.outputs * (self.degree / 2 - 1) * 2 * self.degree * DIGIT_BYTES
    }
}

const ATTEMPT_BYTES: usize = 4;

/// ⌈log₂ columns⌉
fn depth(columns: usize) -> u32 {
    columns.next_power_of_two().trailing_zeros()
}

/// A public hint, split into its parts.
struct HintParts<'a> {
    attempt: u32,
    elements: &'a [u8],
    cap: &'a [u8],
}

impl<'a> HintParts<'a> {
    fn new(shape: &Shape, hint: &'a [u8]) -> Result<Self, Error> {
        crate::error::expect_length("hint", hint, shape.hint_bytes())?;
        let (attempt, rest) = hint.split_at(ATTEMPT_BYTES);
        let (elements, cap) = rest.split_at(rest.len() - CAP_NODES * NODE_BYTES);
        let attempt = u32::from_le_bytes(attempt.try_into().unwrap_or_default());
        Ok(HintParts { attempt, elements, cap })
    }
}

/// So many zeros, if memory suffices.
fn zeroed<T: Copy + Default>(count: usize) -> Result<Vec<T>, Error> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| {
        let bytes = count * size_of::<T>();
        Error::Layout(format!(
            "{bytes} bytes of memory could not be had; give the server more, or plan a smaller database"
        ))
    })?;
    numbers.resize(count, T::default());
    Ok(numbers)
}

/// A secret buffer that is wiped when dropped.
struct Wiped<T: Copy + Default>(Vec<T>);

impl<T: Copy + Default> Wiped<T> {
    fn new(count: usize) -> Self {
        Wiped(vec![T::default(); count])
    }
}

impl<T: Copy + Default> std::ops::Deref for Wiped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy + Default> std::ops::DerefMut for Wiped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Copy + Default> Drop for Wiped<T> {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// 1 if two numbers are equal, else 0. No branch.
fn equal(a: u32, b: u32) -> u64 {
    u64::from(a ^ b).wrapping_sub(1) >> 63
}

/// Quotient, below 2^`BITS`, and remainder. The same steps for every dividend below 2^62.
fn divided<const BITS: u32>(dividend: u64, divisor: u64) -> (u64, u64) {
    let (mut quotient, mut rest) = (0, dividend);
    for bit in (0..BITS).rev() {
        let less = rest.wrapping_sub(divisor << bit);
        let fits = (less >> 63) ^ 1;
        rest = rest.wrapping_sub((divisor << bit) & fits.wrapping_neg());
        quotient |= fits << bit;
    }
    (quotient, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_those_of_the_table() {
        for (records, record_bytes, outputs, columns, request, answer, hint) in [
            (1 << 16, 32, 2, 2_521, 15_282, 1_792, 11_780),
            (1 << 20, 32, 8, 8_739, 27_718, 7_168, 40_964),
            (1 << 22, 32, 14, 19_509, 54_136, 12_544, 70_148),
            (1 << 20, 256, 16, 34_953, 88_885, 14_336, 79_876),
            (850, 640, 2, 850, 11_940, 1_792, 11_780),
            (1, 1, 1, 1, 10_242, 896, 6_916),
        ] {
            let shape = Shape::new(records, record_bytes).unwrap();
            assert_eq!((shape.outputs, shape.columns), (outputs, columns), "{records} × {record_bytes}");
            let sizes = (shape.request_bytes(), shape.answer_bytes(), shape.hint_bytes());
            assert_eq!(sizes, (request, answer, hint), "{records} × {record_bytes}");
        }
    }

    #[test]
    fn what_the_error_budget_does_not_allow_is_refused() {
        for (records, record_bytes) in [(0, 32), (1, 0), (1, 8_193), (3_000_000, 1024), (u64::MAX, 1), (1 << 33, 1)] {
            assert!(matches!(Shape::new(records, record_bytes), Err(Error::Layout(_))), "{records} × {record_bytes}");
        }
        assert_eq!(Shape::new(1, 8_192).unwrap().outputs, 16);
    }

    #[test]
    fn division_and_comparison_are_right_at_the_edges() {
        for divisor in [1, 2, 3, 113, 32_768, ring::DELTA] {
            for quotient in [0, 1, 2, 65_534, 65_535, 65_536] {
                for rest in [0, 1, divisor / 2, divisor - 1] {
                    if rest < divisor {
                        assert_eq!(divided::<17>(quotient * divisor + rest, divisor), (quotient, rest));
                    }
                }
            }
        }
        for (a, b) in [(0, 0), (0, 1), (1, 0), (u32::MAX, u32::MAX), (u32::MAX, 0), (1 << 31, 0)] {
            assert_eq!(equal(a, b) == 1, a == b);
        }
    }
}
