//! Comparing uniform numbers with a cumulative table, for draws of a discrete Gaussian distribution. There is no branch and no early end.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

/// Numbers that are compared side by side.
pub const LANES: usize = 8;

/// For each number, how many entries of the table are not above it. All are below 2^63.
#[inline(never)]
#[must_use]
pub fn counts(table: &[u64], numbers: &[u64; LANES]) -> [i32; LANES] {
    let numbers = numbers.map(|number| number as i64);
    let mut counts = [0i64; LANES];
    for &bound in table {
        for (count, number) in counts.iter_mut().zip(numbers) {
            *count += i64::from(number >= bound as i64);
        }
    }
    counts.map(|count| count as i32)
}
