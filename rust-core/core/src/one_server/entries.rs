//! The whitened entries of a database: where they lie, and how a query is scanned.
//!
//! An entry is four bits that count from 0; it stands for a number from −8 to 7. A *block* is a row's entries of 32 columns: lane i of eight
//! u16 has those of columns i, 8 + i, 16 + i and 24 + i, lowest bits first. A strip is n columns, with its rows one after the other.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use super::Shape;
use crate::error::Error;

/// Columns of a block.
pub(super) const BLOCK: usize = 32;
/// Rows that are summed at once.
const ROWS: usize = 4;
/// What entries count from.
pub(super) const MIDDLE: u8 = 8;
/// Low bits of a selector of 18 bits; sums of products with 9 bits do not overflow.
const LIMB_BITS: u32 = 9;

type Block = [u16; 8];
/// Selectors of 32 columns, as signed numbers of 16 bits.
type Selectors = [i16; BLOCK];

pub(super) struct Entries {
    shape: Shape,
    blocks: Vec<Block>,
}

impl Entries {
    pub(super) fn new(shape: &Shape) -> Result<Self, Error> {
        Ok(Entries { shape: *shape, blocks: super::zeroed(Self::bytes_of(shape) / size_of::<Block>())? })
    }

    pub(super) fn bytes_of(shape: &Shape) -> usize {
        shape.rows() * shape.columns.div_ceil(BLOCK) * size_of::<Block>()
    }

    /// Where a row's block lies.
    fn place(&self, row: usize, block: usize) -> usize {
        let [strip, all] = [self.shape.degree, self.shape.columns].map(|columns| columns.div_ceil(BLOCK));
        let begin = block - block % strip;
        begin * self.shape.rows() + row * strip.min(all - begin) + block % strip
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
                let place = self.place(2 * at + row, block);
                self.blocks[place] = lanes;
            }
        }
    }

    /// Writes a row's entries from column number `from`, a multiple of n, on: as many as there is room for.
    pub(super) fn row(&self, row: usize, from: usize, out: &mut [u8]) {
        let blocks = &self.blocks[self.place(row, from / BLOCK)..];
        for (out, block) in out.chunks_mut(BLOCK).zip(blocks) {
            for (column, out) in out.iter_mut().enumerate() {
                *out = (block[column % 8] >> (column / 8 * 4)) as u8 & 15;
            }
        }
    }

    /// For each row, the sum of selectors times entries, modulo 2^σ.
    pub(super) fn scan(&self, selectors: &[u32]) -> Vec<u32> {
        let bits = self.shape.selector_bits();
        let blocks = |of: &dyn Fn(u32) -> i16| -> Vec<Selectors> {
            let blocks = selectors.chunks(BLOCK);
            blocks.map(|block| std::array::from_fn(|i| block.get(i).map_or(0, |&selector| of(selector)))).collect()
        };
        let sums = if bits == u16::BITS {
            self.sums([&blocks(&|selector| selector as i16)])
        } else {
            let low = blocks(&|selector| (selector & ((1 << LIMB_BITS) - 1)) as i16);
            let high = blocks(&|selector| (selector >> LIMB_BITS) as i16);
            self.sums([&low, &high])
        };
        let all = selectors.iter().fold(0u32, |sum, selector| sum.wrapping_add(*selector));
        let offset = all.wrapping_mul(u32::from(MIDDLE));
        sums.into_iter().map(|sum| sum.wrapping_sub(offset) & ((1 << bits) - 1)).collect()
    }

    /// For each row, the sum of products modulo 2^32: with selectors of one limb, or of several of 9 bits.
    fn sums<const LIMBS: usize>(&self, selectors: [&[Selectors]; LIMBS]) -> Vec<u32> {
        let mut sums = vec![0u32; self.shape.rows()];
        let (strip, all) = (self.shape.degree / BLOCK, selectors[0].len());
        for begin in (0..all).step_by(strip) {
            let width = strip.min(all - begin);
            let selectors = selectors.map(|limb| &limb[begin..][..width]);
            for (four, sums) in sums.chunks_exact_mut(ROWS).enumerate() {
                let rows = std::array::from_fn(|i| &self.blocks[self.place(four * ROWS + i, begin)..][..width]);
                for (sum, limbs) in sums.iter_mut().zip(products(rows, selectors)) {
                    for (i, limb) in limbs.into_iter().enumerate() {
                        *sum = sum.wrapping_add(limb << (LIMB_BITS * i as u32));
                    }
                }
            }
        }
        sums
    }

    /// Entries are set to the highest one. For tests.
    #[cfg(test)]
    pub(super) fn fill(&mut self) {
        self.blocks.fill([u16::MAX; 8]);
    }
}

/// Sums of products of four rows' entries with each limb of the selectors, modulo 2^32. Entries are read once for all.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn products<const LIMBS: usize>(rows: [&[Block]; ROWS], selectors: [&[Selectors]; LIMBS]) -> [[u32; LIMBS]; ROWS] {
    use core::arch::wasm32::*;
    let signed = |from: &[i16; 8]| i16x8(from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]);
    let blocks = rows[0].len();
    let (rows, selectors) = (rows.map(|row| &row[..blocks]), selectors.map(|limb| &limb[..blocks]));
    let mask = u16x8_splat(15);
    let mut sums = [[i32x4_splat(0); LIMBS]; ROWS];
    for block in 0..blocks {
        let selectors: [[v128; 4]; LIMBS] = std::array::from_fn(|limb| {
            let eights = selectors[limb][block].as_chunks::<8>().0;
            [&eights[0], &eights[1], &eights[2], &eights[3]].map(signed)
        });
        for (row, sums) in rows.iter().zip(&mut sums) {
            let lanes = &row[block];
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
fn products<const LIMBS: usize>(rows: [&[Block]; ROWS], selectors: [&[Selectors]; LIMBS]) -> [[u32; LIMBS]; ROWS] {
    rows.map(|row| {
        selectors.map(|limb| {
            let mut sums = [0i32; 8];
            for (lanes, selectors) in row.iter().zip(limb) {
                for (i, (sum, lane)) in sums.iter_mut().zip(lanes).enumerate() {
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
            for (row, sum) in sums.into_iter().enumerate() {
                let nibble = |column: usize| columns[column * shape.column_bytes() + row / 2] >> (4 * (row % 2)) & 15;
                let exact: i64 = selectors.iter().enumerate().map(|(c, s)| i64::from(*s) * (i64::from(nibble(c)) - 8)).sum();
                assert_eq!(i64::from(sum), exact.rem_euclid(i64::from(modulus)), "row {row} of {shape:?}");
                let mut read = vec![0; degree.min(shape.columns)];
                entries.row(row, 0, &mut read);
                assert!(read.iter().enumerate().all(|(column, &entry)| entry == nibble(column)));
            }
        }
    }
}
