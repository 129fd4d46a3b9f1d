//! XOR of rows of bytes.

/// Bytes that are added at once. The compiler knows their number, so they need no loop.
const BLOCK_BYTES: usize = 64;
/// The same where rows are often shorter: what is left of a row is added byte by byte.
const SHORT_BLOCK_BYTES: usize = 32;

#[inline]
pub(crate) fn xor<const BYTES: usize>(into: &mut [u8; BYTES], row: &[u8; BYTES]) {
    for (byte, other) in into.iter_mut().zip(row) {
        *byte ^= other;
    }
}

/// `into` ⊕= `row`. Both have the same length.
#[inline]
pub fn xor_into(into: &mut [u8], row: &[u8]) {
    debug_assert_eq!(into.len(), row.len());
    let (blocks, rest) = into.as_chunks_mut::<SHORT_BLOCK_BYTES>();
    let (row_blocks, row_rest) = row.as_chunks();
    for (block, row) in blocks.iter_mut().zip(row_blocks) {
        xor(block, row);
    }
    for (byte, other) in rest.iter_mut().zip(row_rest) {
        *byte ^= other;
    }
}

/// [`xor_into`] two sums, which reads the row once.
#[inline]
pub(crate) fn xor_into_both(low: &mut [u8], high: &mut [u8], row: &[u8]) {
    let (low_blocks, low_rest) = low.as_chunks_mut::<BLOCK_BYTES>();
    let (high_blocks, high_rest) = high.as_chunks_mut::<BLOCK_BYTES>();
    let (blocks, rest) = row.as_chunks::<BLOCK_BYTES>();
    for ((low, high), row) in low_blocks.iter_mut().zip(high_blocks).zip(blocks) {
        for ((low, high), other) in low.iter_mut().zip(high).zip(row) {
            *low ^= other;
            *high ^= other;
        }
    }
    for ((low, high), other) in low_rest.iter_mut().zip(high_rest).zip(rest) {
        *low ^= other;
        *high ^= other;
    }
}

/// `into` ⊕= `row` if `selector` is 1, in the same time as if it is 0. Both have the same length.
#[inline]
pub(crate) fn xor_if(selector: u8, into: &mut [u8], row: &[u8]) {
    let (blocks, rest) = into.as_chunks_mut::<BLOCK_BYTES>();
    let (row_blocks, row_rest) = row.as_chunks();
    for (block, row) in blocks.iter_mut().zip(row_blocks) {
        xor_block_if(selector, block, row);
    }
    for (byte, other) in rest.iter_mut().zip(row_rest) {
        *byte ^= other & selector.wrapping_neg();
    }
}

#[inline]
pub(crate) fn xor_block_if<const BYTES: usize>(selector: u8, into: &mut [u8; BYTES], row: &[u8; BYTES]) {
    let mask = u64::from(selector).wrapping_neg();
    for (word, other) in into.as_chunks_mut().0.iter_mut().zip(row.as_chunks().0) {
        *word = (u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other) & mask).to_le_bytes();
    }
}
