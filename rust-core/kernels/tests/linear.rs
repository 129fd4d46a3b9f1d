//! Tests the field and the polynomial hash of linear tags (docs/protocol.md, Suite 2) against their definition.

use std::array;

use keyhush_kernels::linear::{Point, multiply};

fn power(base: u64, exponent: usize) -> u64 {
    (0..exponent).fold(1, |product, _| multiply(product, base))
}

#[test]
fn the_field_is_one() {
    // x^64 = x^4 + x^3 + x + 1; the group has 2^64 − 1 elements: a^(2^64) = a (Fermat), by squaring 64 times.
    assert_eq!(multiply(1 << 63, 2), 0b1_1011);
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
    let record: [u8; 41] = array::from_fn(|i| (i * 37 + 11) as u8);
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
    let records: [u8; 264] = array::from_fn(|i| (i * i + 3) as u8);
    for record_bytes in [1, 7, 8, 12, 24, 33, 64] {
        for count in [0, 1, 3, 4, 5, 8, 11] {
            let bytes = &records[..records.len().min(count * record_bytes)];
            let mut number = 0;
            point.tag_all(bytes, record_bytes, |i, tag| {
                assert_eq!(i, number);
                assert_eq!(tag, point.tag(&records[i * record_bytes..][..record_bytes]), "{i} of {record_bytes} bytes");
                number += 1;
            });
            assert_eq!(number, bytes.len() / record_bytes);
        }
    }
}

#[test]
fn the_tag_of_a_sum_is_the_sum_of_the_tags() {
    let point = Point::new(0x1234_5678_9abc_def1);
    let a: [u8; 21] = array::from_fn(|i| (i * 7) as u8);
    let b: [u8; 21] = array::from_fn(|i| (i * i) as u8);
    let sum: [u8; 21] = array::from_fn(|i| a[i] ^ b[i]);
    assert_eq!(point.tag(&sum), point.tag(&a) ^ point.tag(&b));
    assert_eq!(point.tag(&[0; 21]), 0);
}
