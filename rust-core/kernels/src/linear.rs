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
        let several = records.chunks_exact(LANES * record_bytes);
        let alone = several.remainder().chunks_exact(record_bytes);
        let mut number = 0;
        for records in several {
            let mut sums = [0; LANES];
            for at in words(record_bytes) {
                for (record, sum) in records.chunks_exact(record_bytes).zip(&mut sums) {
                    *sum = self.times(*sum ^ word(record, at));
                }
            }
            for sum in sums {
                put(number, sum);
                number += 1;
            }
        }
        for record in alone {
            put(number, self.tag(record));
            number += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn power(base: u64, exponent: usize) -> u64 {
        (0..exponent).fold(1, |product, _| multiply(product, base))
    }

    #[test]
    fn the_field_is_one() {
        // x^64 = x^4 + x^3 + x + 1; the group has 2^64 − 1 elements: a^(2^64) = a (Fermat), by squaring 64 times.
        assert_eq!(multiply(1 << 63, 2), REDUCED);
        for a in [1, 2, 3, 0x1b, 1 << 63, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!((0..64).fold(a, |square, _| multiply(square, square)), a);
            assert_eq!(multiply(a, 1), a);
            assert_eq!(multiply(a, 5), multiply(5, a));
            assert_eq!(multiply(a, 5 ^ 0xf0), multiply(a, 5) ^ multiply(a, 0xf0));
        }
        // The polynomial is irreducible: 32 squarings change every element that is in no subfield (Rabin's test).
        assert_ne!((0..32).fold(2, |square, _| multiply(square, square)), 2);
    }

    #[test]
    fn tags_are_the_polynomial_of_the_definition_at_every_length() {
        let record: [u8; 41] = core::array::from_fn(|i| (i * 37 + 11) as u8);
        for point in [0, 1, 2, 0x8000_0000_0000_001b, 0xfeed_beef_dead_cafe] {
            let tables = Point::new(point);
            for length in 0..=record.len() {
                let words = length.div_ceil(8);
                let word = |i: usize| {
                    let mut bytes = [0; 8];
                    let part = &record[8 * i..length.min(8 * i + 8)];
                    bytes[..part.len()].copy_from_slice(part);
                    u64::from_le_bytes(bytes)
                };
                let expected = (0..words).fold(0, |sum, i| sum ^ multiply(word(i), power(point, words - i)));
                assert_eq!(tables.tag(&record[..length]), expected, "{length} bytes under {point:#x}");
            }
        }
    }

    #[test]
    fn many_are_tagged_as_one_is() {
        let point = Point::new(0x1234_5678_9abc_def1);
        let records: [u8; 264] = core::array::from_fn(|i| (i * i + 3) as u8);
        for record_bytes in [1, 7, 8, 12, 24, 33, 64] {
            for count in [0, 1, 3, 4, 5, 8, 11] {
                let bytes = &records[..records.len().min(count * record_bytes)];
                let mut number = 0;
                point.tag_all(bytes, record_bytes, |i, tag| {
                    assert_eq!(i, number);
                    assert_eq!(
                        tag,
                        point.tag(&records[i * record_bytes..][..record_bytes]),
                        "{i} of {record_bytes} bytes"
                    );
                    number += 1;
                });
                assert_eq!(number, bytes.len() / record_bytes);
            }
        }
    }

    #[test]
    fn the_tag_of_a_sum_is_the_sum_of_the_tags() {
        let point = Point::new(0x1234_5678_9abc_def1);
        let a: [u8; 21] = core::array::from_fn(|i| (i * 7) as u8);
        let b: [u8; 21] = core::array::from_fn(|i| (i * i) as u8);
        let sum: [u8; 21] = core::array::from_fn(|i| a[i] ^ b[i]);
        assert_eq!(point.tag(&sum), point.tag(&a) ^ point.tag(&b));
        assert_eq!(point.tag(&[0; 21]), 0);
    }
}
