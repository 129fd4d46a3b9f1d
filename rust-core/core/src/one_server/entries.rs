//! The whitened entries of a database: where they lie, and how a query is scanned.
//!
//! An entry is four bits that count from 0; it stands for a number from −8 to 7. A *block* is a row's entries of 32 columns: lane i of eight
//! u16 has those of columns i, 8 + i, 16 + i and 24 + i, lowest bits first. Blocks of four rows lie side by side, so that a scan reads
//! one stream: in four it waits for memory, and takes three times as long. A strip is n columns, with its rows one after the other.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use keyhush_kernels::modular::MODULUS;

use super::{BLOCK, Shape};
use crate::error::Error;

/// Rows that are summed at once.
const ROWS: usize = 4;
/// What entries count from.
pub(super) const MIDDLE: u8 = 8;
/// Low bits of a selector of 18 bits.
const LIMB_BITS: u32 = 9;

type Block = [u16; 8];
/// Of four rows.
type Blocks = [Block; ROWS];
/// Parts of 32 columns' selectors, as signed numbers of 16 bits.
type Limb = [i16; BLOCK];

pub(super) struct Entries {
    shape: Shape,
    blocks: Vec<Blocks>,
}

impl Entries {
    pub(super) fn new(shape: &Shape) -> Result<Self, Error> {
        Ok(Entries { shape: *shape, blocks: super::zeroed(shape.entry_bytes() / size_of::<Blocks>())? })
    }

    /// Where four rows' blocks lie, from this one on: as many as there are in the strip.
    fn place(&self, four: usize, block: usize) -> usize {
        let [strip, all] = [self.shape.degree, self.shape.columns].map(|columns| columns.div_ceil(BLOCK));
        let begin = block - block % strip;
        begin * (self.shape.rows() / ROWS) + four * strip.min(all - begin) + block % strip
    }

    /// Takes the bytes of up to 32 columns, which lie one after the other: byte i of a column has its rows 2·i, the low bits, and 2·i + 1.
    pub(super) fn put(&mut self, block: usize, columns: &[u8]) {
        let bytes = self.shape.column_bytes();
        for at in 0..bytes {
            let mut pair = [[0u16; 8]; 2];
            for (column, byte) in columns.iter().skip(at).step_by(bytes).enumerate() {
                pair[0][column % 8] |= u16::from(byte & 15) << (column / 8 * 4);
                pair[1][column % 8] |= u16::from(byte >> 4) << (column / 8 * 4);
            }
            for (row, lanes) in pair.into_iter().enumerate() {
                let row = 2 * at + row;
                let place = self.place(row / ROWS, block);
                self.blocks[place][row % ROWS] = lanes;
            }
        }
    }

    /// Writes a row's entries from column number `from`, a multiple of n, on: as many as there is room for.
    pub(super) fn row(&self, row: usize, from: usize, out: &mut [u8]) {
        let blocks = &self.blocks[self.place(row / ROWS, from / BLOCK)..];
        for (out, blocks) in out.chunks_mut(BLOCK).zip(blocks) {
            let block = &blocks[row % ROWS];
            for (quarter, out) in out.chunks_mut(8).enumerate() {
                out.iter_mut().zip(block).for_each(|(entry, lane)| *entry = (lane >> (4 * quarter)) as u8 & 15);
            }
        }
    }

    /// For each row, the sum of selectors times entries, modulo 2^σ.
    pub(super) fn scan(&self, selectors: &[u32]) -> Vec<u32> {
        let bits = self.shape.selector_bits();
        let mut sums = vec![0u32; self.shape.rows()];
        if bits == u16::BITS {
            let whole = limb(selectors, |selector| selector as i16);
            self.strips([&whole], |row, [sum]| sums[row] = sums[row].wrapping_add(sum));
        } else {
            let low = limb(selectors, |selector| (selector & ((1 << LIMB_BITS) - 1)) as i16);
            let high = limb(selectors, |selector| (selector >> LIMB_BITS) as i16);
            let both = |[low, high]: [u32; 2]| low.wrapping_add(high << LIMB_BITS);
            self.strips([&low, &high], |row, limbs| sums[row] = sums[row].wrapping_add(both(limbs)));
        }
        let all = selectors.iter().fold(0u32, |sum, selector| sum.wrapping_add(*selector));
        let offset = all.wrapping_mul(u32::from(MIDDLE));
        sums.into_iter().map(|sum| sum.wrapping_sub(offset) & ((1 << bits) - 1)).collect()
    }

    /// For each row, the sum of numbers modulo q times entries, modulo q.
    pub(super) fn exact(&self, numbers: &[u64]) -> Vec<u64> {
        const BITS: usize = 12;
        let limbs = [0, 1, 2, 3].map(|i| limb(numbers, |number| (number >> (BITS * i)) as i16 & ((1 << BITS) - 1)));
        let mut sums = vec![0u64; self.shape.rows()];
        // In a strip of 2^11 columns, limbs' sums stay below 2^27, and the whole's below 2^61.
        self.strips(limbs.each_ref().map(|limb| &limb[..]), |row, limbs| {
            let sum = limbs.iter().rev().fold(0u64, |sum, &limb| (sum << BITS) + u64::from(limb));
            sums[row] = (sums[row] + sum) % MODULUS;
        });
        let offset = u64::from(MIDDLE) * (numbers.iter().sum::<u64>() % MODULUS) % MODULUS;
        sums.into_iter().map(|sum| (sum + MODULUS - offset) % MODULUS).collect()
    }

    /// Calls `add` for each strip and row with the sums of products with each limb, modulo 2^32.
    fn strips<const LIMBS: usize>(&self, limbs: [&[Limb]; LIMBS], mut add: impl FnMut(usize, [u32; LIMBS])) {
        let (strip, all) = (self.shape.degree / BLOCK, limbs[0].len());
        for begin in (0..all).step_by(strip) {
            let width = strip.min(all - begin);
            let limbs = limbs.map(|limb| &limb[begin..][..width]);
            for four in 0..self.shape.rows() / ROWS {
                let rows = &self.blocks[self.place(four, begin)..][..width];
                for (i, sums) in products(rows, limbs).into_iter().enumerate() {
                    add(ROWS * four + i, sums);
                }
            }
        }
    }

    /// Entries are set to the highest one. For tests.
    #[cfg(test)]
    pub(super) fn fill(&mut self) {
        self.blocks.fill([[u16::MAX; 8]; ROWS]);
    }
}

/// A part of each number, in blocks.
fn limb<T: Copy>(numbers: &[T], of: impl Fn(T) -> i16) -> Vec<Limb> {
    let blocks = numbers.chunks(BLOCK);
    blocks.map(|block| std::array::from_fn(|i| block.get(i).map_or(0, |&number| of(number)))).collect()
}

/// Sums of products of four rows' entries with each limb of the selectors, modulo 2^32. Entries are read once for all.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn products<const LIMBS: usize>(rows: &[Blocks], selectors: [&[Limb]; LIMBS]) -> [[u32; LIMBS]; ROWS] {
    use core::arch::wasm32::*;
    let signed = |from: &[i16; 8]| i16x8(from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]);
    let selectors = selectors.map(|limb| &limb[..rows.len()]);
    let mask = u16x8_splat(15);
    let mut sums = [[i32x4_splat(0); LIMBS]; ROWS];
    for (block, rows) in rows.iter().enumerate() {
        let selectors: [[v128; 4]; LIMBS] = std::array::from_fn(|limb| {
            let eights = selectors[limb][block].as_chunks::<8>().0;
            [&eights[0], &eights[1], &eights[2], &eights[3]].map(signed)
        });
        for (lanes, sums) in rows.iter().zip(&mut sums) {
            let lanes = u16x8(lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]);
            let entries = [
                v128_and(lanes, mask),
                v128_and(u16x8_shr(lanes, 4), mask),
                v128_and(u16x8_shr(lanes, 8), mask),
                u16x8_shr(lanes, 12),
            ];
            for (sum, selectors) in sums.iter_mut().zip(&selectors) {
                let [a, b, c, d] = std::array::from_fn(|i| i32x4_dot_i16x8(entries[i], selectors[i]));
                *sum = i32x4_add(*sum, i32x4_add(i32x4_add(a, b), i32x4_add(c, d)));
            }
        }
    }
    let total = |sum: v128| {
        let lanes = [
            i32x4_extract_lane::<0>(sum),
            i32x4_extract_lane::<1>(sum),
            i32x4_extract_lane::<2>(sum),
            i32x4_extract_lane::<3>(sum),
        ];
        lanes.iter().fold(0u32, |total, &lane| total.wrapping_add(lane as u32))
    };
    sums.map(|sums| sums.map(total))
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn products<const LIMBS: usize>(rows: &[Blocks], selectors: [&[Limb]; LIMBS]) -> [[u32; LIMBS]; ROWS] {
    std::array::from_fn(|row| {
        selectors.map(|limb| {
            let mut sums = [0i32; 8];
            for (rows, selectors) in rows.iter().zip(limb) {
                for (i, (sum, lane)) in sums.iter_mut().zip(&rows[row]).enumerate() {
                    let product = |k: usize| i32::from(lane >> (4 * k) & 15) * i32::from(selectors[8 * k + i]);
                    *sum = (0..4).fold(*sum, |sum, k| sum.wrapping_add(product(k)));
                }
            }
            sums.iter().fold(0u32, |total, &sum| total.wrapping_add(sum as u32))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::ChaCha;

    #[test]
    fn a_scan_is_the_sum_that_entries_and_selectors_make() {
        for (degree, records, record_bytes) in [(32, 3, 4), (64, 400, 7), (64, 33, 16), (256, 9_200, 100)] {
            let shape = Shape::of_degree(degree, records, record_bytes).unwrap();
            let mut source = ChaCha::new(&[5; 32], records);
            let mut columns = vec![0; shape.columns * shape.column_bytes()];
            source.fill(&mut columns);
            let mut entries = Entries::new(&shape).unwrap();
            for (block, bytes) in columns.chunks(BLOCK * shape.column_bytes()).enumerate() {
                entries.put(block, bytes);
            }
            let modulus = 1u32 << shape.selector_bits();
            let mut drawn = vec![0; 4 * shape.columns];
            source.fill(&mut drawn);
            let selectors: Vec<u32> =
                drawn.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes) % modulus).collect();
            let sums = entries.scan(&selectors);
            let numbers: Vec<u64> = selectors.iter().map(|&s| MODULUS - 1 - (u64::from(s) << 27)).collect();
            let wides = entries.exact(&numbers);
            for (row, sum) in sums.into_iter().enumerate() {
                let nibble = |column: usize| columns[column * shape.column_bytes() + row / 2] >> (4 * (row % 2)) & 15;
                let exact: i64 =
                    selectors.iter().enumerate().map(|(c, s)| i64::from(*s) * (i64::from(nibble(c)) - 8)).sum();
                assert_eq!(i64::from(sum), exact.rem_euclid(i64::from(modulus)), "row {row} of {shape:?}");
                let wide =
                    numbers.iter().enumerate().map(|(c, n)| i128::from(*n) * (i128::from(nibble(c)) - 8)).sum::<i128>();
                assert_eq!(i128::from(wides[row]), wide.rem_euclid(i128::from(MODULUS)), "row {row} of {shape:?}");
                let mut read = vec![0; degree.min(shape.columns)];
                entries.row(row, 0, &mut read);
                assert!(read.iter().enumerate().all(|(column, &entry)| entry == nibble(column)));
            }
        }
    }
}
