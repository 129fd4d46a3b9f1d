//! Discrete Gaussian numbers. Each draw reads one u64 of its stream and compares it with the whole table: no branch, no early end.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use keyhush_kernels::gauss::{LANES, counts};

use super::tables::{NOISE, SMALL};
use crate::random::ChaCha;
use zeroize::Zeroize;

/// Digits of a draw of own noise.
pub const NOISE_DIGITS: usize = 12;
/// What the last of them counts: 6·8^10.
const LAST: i64 = 6 << 30;

/// Fills with draws. Of a u64, little-endian, the top bit is the sign, and the rest decides the magnitude: how many entries of the
/// table are not above it.
fn fill(source: &mut ChaCha, table: &[u64], out: &mut [i32]) {
    let mut bytes = [[0; 8]; LANES];
    for out in out.chunks_mut(LANES) {
        source.fill(bytes[..out.len()].as_flattened_mut());
        let numbers = bytes.map(u64::from_le_bytes);
        let magnitudes = counts(table, &numbers.map(|number| number & (u64::MAX >> 1)));
        for ((out, magnitude), number) in out.iter_mut().zip(magnitudes).zip(numbers) {
            let sign = (number as i64 >> 63) as i32;
            *out = (magnitude ^ sign) - sign;
        }
    }
    bytes.zeroize();
}

/// Draws of deviation 12.8: secrets and errors.
pub fn small(source: &mut ChaCha, out: &mut [i32]) {
    fill(source, &SMALL, out);
}

/// Draws of deviation 2^36.57: Σ 8^i·g_i, i = 0 … 10, and 6·8^10·g_11, with g_i of deviation 15.6. The g_i of a draw follow each other in
/// the stream.
pub fn own_noise(source: &mut ChaCha, out: &mut [i64]) {
    let mut digits = [0; LANES * NOISE_DIGITS];
    for out in out.chunks_mut(LANES) {
        let digits = &mut digits[..out.len() * NOISE_DIGITS];
        fill(source, &NOISE, digits);
        for (out, digits) in out.iter_mut().zip(digits.chunks_exact(NOISE_DIGITS)) {
            let (last, lower) = digits.split_last().unwrap_or((&0, &[]));
            *out = lower.iter().rev().fold(0, |sum, &digit| 8 * sum + i64::from(digit)) + LAST * i64::from(*last);
        }
    }
    digits.zeroize();
}

/// The tables, by their deviations in tenths: for test vectors.
#[must_use]
pub fn tables() -> [(u32, &'static [u64]); 2] {
    [(128, &SMALL), (156, &NOISE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_ascend_to_the_end_of_the_tail() {
        for table in [&SMALL[..], &NOISE] {
            assert!(table.is_sorted_by(|a, b| a < b));
            // below 2^-60 is left after the last entry
            assert!((1 << 63) - table[table.len() - 1] < 8);
        }
    }

    /// A deviation of s with 2^16 draws is known to s/362; six of these are passed by chance once in 10^9.
    #[test]
    #[allow(clippy::cast_precision_loss)] // counts and draws are far below 2^52
    fn deviations_means_and_signs_are_those_of_the_scheme() {
        const DRAWS: usize = 1 << 16;
        let check = |values: &[f64], deviation: f64| {
            let count = DRAWS as f64;
            let mean = values.iter().sum::<f64>() / count;
            let found = (values.iter().map(|x| x * x).sum::<f64>() / count).sqrt();
            assert!((found / deviation - 1.0).abs() < 6.0 / 362.0, "deviation {found}, expected {deviation}");
            assert!(mean.abs() < 6.0 * deviation / 256.0, "mean {mean}");
        };
        let mut drawn = vec![0; DRAWS];
        let mut source = ChaCha::new(&[9; 32], 0);
        small(&mut source, &mut drawn);
        check(&drawn.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), 12.8);
        let mut large = vec![0; DRAWS];
        own_noise(&mut source, &mut large);
        let deviation = 15.6 * ((64f64.powi(11) - 1.0) / 63.0 + 36.0 * 64f64.powi(10)).sqrt();
        assert!((deviation.log2() - 36.57).abs() < 0.01);
        check(&large.iter().map(|&x| x as f64).collect::<Vec<_>>(), deviation);
    }

    #[test]
    fn draws_do_not_depend_on_how_many_are_made_at_once() {
        let mut all = vec![0; 21];
        small(&mut ChaCha::new(&[1; 32], 5), &mut all);
        let mut source = ChaCha::new(&[1; 32], 5);
        let mut parts = vec![0; 21];
        for part in parts.chunks_mut(5) {
            small(&mut source, part);
        }
        assert_eq!(all, parts);
    }
}
