//! XOR of records, of which all hints and answers consist.

/// The bytes XORed at once. With a known length, the compiler uses vector instructions instead of a loop over bytes.
const WIDE: usize = 32;

#[inline]
fn xor_wide(into: &mut [u8; WIDE], from: &[u8; WIDE]) {
    for (x, y) in into.iter_mut().zip(from) {
        *x ^= y;
    }
}

/// `into` ⊕= `from`. Both have the same length.
#[inline]
pub fn xor(into: &mut [u8], from: &[u8]) {
    debug_assert_eq!(into.len(), from.len());
    let (wide, rest) = into.as_chunks_mut();
    let (wide_from, rest_from) = from.as_chunks();
    for (a, b) in wide.iter_mut().zip(wide_from) {
        xor_wide(a, b);
    }
    for (x, y) in rest.iter_mut().zip(rest_from) {
        *x ^= y;
    }
}

/// `into` ⊕= the bytes at each of these places, as many as `into` has.
///
/// The sum stays in a register, so that the processor can load many records at once. They lie anywhere in memory, and waiting
/// for them takes most of the time.
#[inline]
pub fn xor_from(into: &mut [u8], bytes: &[u8], places: &[usize]) {
    let length = into.len();
    let (wide, rest) = into.as_chunks_mut::<WIDE>();
    for (n, piece) in wide.iter_mut().enumerate() {
        let mut sum = *piece;
        for &place in places {
            xor_wide(&mut sum, bytes[place + WIDE * n..].first_chunk().expect("a whole record"));
        }
        *piece = sum;
    }
    if !rest.is_empty() {
        let from = length - rest.len();
        for &place in places {
            xor(rest, &bytes[place + from..][..rest.len()]);
        }
    }
}
