//! Comparing uniform numbers with a cumulative table, for draws of a discrete Gaussian distribution. There is no branch and no early end.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

/// Numbers that are compared side by side.
pub const LANES: usize = 8;

/// For each number, how many entries of the table are not above it. All are below 2^63.
#[inline(never)]
#[must_use]
pub fn counts(table: &[u64], numbers: &[u64; LANES]) -> [i32; LANES] {
    let above = above(table, numbers);
    above.map(|above| table.len() as i32 - above as i32)
}

/// How many entries are above each number. Compilers make scalar code of it, which takes three times as long.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn above(table: &[u64], numbers: &[u64; LANES]) -> [i64; LANES] {
    use core::arch::wasm32::{i64x2_extract_lane, i64x2_gt, i64x2_splat, i64x2_sub, u64x2};
    let pairs: [_; LANES / 2] = core::array::from_fn(|k| u64x2(numbers[2 * k], numbers[2 * k + 1]));
    let mut sums = [i64x2_splat(0); LANES / 2];
    for &bound in table {
        let bound = i64x2_splat(bound as i64);
        for (sum, pair) in sums.iter_mut().zip(pairs) {
            *sum = i64x2_sub(*sum, i64x2_gt(bound, pair)); // true is −1
        }
    }
    core::array::from_fn(|i| {
        let sum = sums[i / 2];
        if i % 2 == 0 { i64x2_extract_lane::<0>(sum) } else { i64x2_extract_lane::<1>(sum) }
    })
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn above(table: &[u64], numbers: &[u64; LANES]) -> [i64; LANES] {
    let mut sums = [0; LANES];
    for &bound in table {
        for (sum, &number) in sums.iter_mut().zip(numbers) {
            *sum += i64::from(bound as i64 > number as i64);
        }
    }
    sums
}
