//! Linear tags (docs/protocol.md, Suite 2): a polynomial hash over GF(2^64). The hash of an XOR of records is the XOR of their
//! hashes.
//!
//! - The field is GF(2)[x] modulo x^64 + x^4 + x^3 + x + 1. A word is an element; bit i is the coefficient of x^i.
//! - A record has words w_1 … w_n: u64, little-endian, the last one padded with zeros.
//! - At a point K, its tag is w_1·K^n + w_2·K^(n−1) + … + w_n·K (Horner).
//! - The tags of two different records differ by a nonzero polynomial in K, of degree at most n = ⌈ℓ/8⌉ and without a constant
//!   term. So for a uniform K they are equal with probability at most n/2^64.

/// Bytes of a tag, and of a point.
pub const TAG_BYTES: usize = 8;

/// x^64 mod the field's polynomial.
const REDUCED: u64 = 0b1_1011;

/// The product of an element and x. The steps are the same for all elements.
#[inline]
#[must_use]
pub fn times_x(element: u64) -> u64 {
    (element << 1) ^ (REDUCED & (element >> 63).wrapping_neg())
}

/// The product of two elements. The steps are the same for all elements.
#[must_use]
pub fn multiply(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted) = (0, a);
    for bit in 0..u64::BITS {
        product ^= shifted & ((b >> bit) & 1).wrapping_neg();
        shifted = times_x(shifted);
    }
    product
}

/// Records that are tagged at once. The products for one record depend on each other; those of several records do not.
const LANES: usize = 4;

/// A point, as tables of its product with every byte at every place: 16 KiB. Wiped when dropped.
pub struct Point {
    products: [[u64; 256]; 8],
}

impl Point {
    /// Computes the tables of a point.
    #[inline(never)]
    #[must_use]
    pub fn new(point: u64) -> Self {
        let mut products = [[0; 256]; 8];
        for (place, table) in products.iter_mut().enumerate() {
            for bit in 0..8 {
                let of_bit = multiply(point, 1 << (8 * place + bit));
                // Products are linear: the product of a byte is the sum of the products of smaller bytes.
                for byte in 0..1 << bit {
                    table[byte + (1 << bit)] = table[byte] ^ of_bit;
                }
            }
        }
        Point { products }
    }

    #[inline]
    fn times(&self, element: u64) -> u64 {
        let bytes = element.to_le_bytes();
        self.products.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }

    /// The tag of a record.
    #[inline(never)] // keeps the client's module small
    #[must_use]
    pub fn tag(&self, record: &[u8]) -> u64 {
        words(record.len()).fold(0, |sum, at| self.times(sum ^ word(record, at)))
    }

    /// The tags of records that lie one after the other. Calls `put` with each record's number and tag.
    pub fn tag_all(&self, records: &[u8], record_bytes: usize, mut put: impl FnMut(usize, u64)) {
        let mut number = 0;
        for records in records.chunks(LANES * record_bytes) {
            let mut sums = [0; LANES];
            for at in words(record_bytes) {
                for (record, sum) in records.chunks_exact(record_bytes).zip(&mut sums) {
                    *sum = self.times(*sum ^ word(record, at));
                }
            }
            for sum in &sums[..records.len() / record_bytes] {
                put(number, *sum);
                number += 1;
            }
        }
    }
}

/// Where the words of a record begin.
fn words(record_bytes: usize) -> impl Iterator<Item = usize> {
    (0..record_bytes).step_by(TAG_BYTES)
}

/// The word of a record that begins at byte `at`, padded with zeros.
#[inline]
fn word(record: &[u8], at: usize) -> u64 {
    let rest = &record[at..];
    u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| {
        let mut last = [0; TAG_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        last
    }))
}

impl Drop for Point {
    #[inline(never)]
    fn drop(&mut self) {
        self.products.as_flattened_mut().fill(0);
        core::hint::black_box(&self.products);
    }
}
