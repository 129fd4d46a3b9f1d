//! Comparing uniform numbers with a cumulative table, for draws of a discrete Gaussian distribution. There is no branch and no early end.

#![allow(clippy::cast_possible_wrap)] // two's complement is meant

/// Numbers that are compared side by side.
pub const LANES: usize = 8;

/// For each number, how many entries of the table are not above it. All are below 2^63.
#[inline(never)]
#[must_use]
pub fn counts(table: &[u64], numbers: &[u64; LANES]) -> [i32; LANES] {
    not_above(table, numbers)
}

/// Compilers make scalar code of the other one, which takes three times as long.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn not_above(table: &[u64], numbers: &[u64; LANES]) -> [i32; LANES] {
    use core::arch::wasm32::{i32x4_extract_lane, i64x2_add, i64x2_gt, i64x2_splat, u64x2};
    let pairs: [_; LANES / 2] = core::array::from_fn(|k| u64x2(numbers[2 * k], numbers[2 * k + 1]));
    let mut counts = [i64x2_splat(table.len() as i64); LANES / 2];
    for &bound in table {
        let bound = i64x2_splat(bound as i64);
        for (count, pair) in counts.iter_mut().zip(pairs) {
            *count = i64x2_add(*count, i64x2_gt(bound, pair)); // true is −1
        }
    }
    core::array::from_fn(|i| {
        let pair = counts[i / 2];
        if i % 2 == 0 { i32x4_extract_lane::<0>(pair) } else { i32x4_extract_lane::<2>(pair) }
    })
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn not_above(table: &[u64], numbers: &[u64; LANES]) -> [i32; LANES] {
    numbers.map(|number| table.iter().map(|bound| i32::from(*bound <= number)).sum())
}
