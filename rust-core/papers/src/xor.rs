//! XOR of records: what all hints and answers are made of.

/// What is XORed at once: an array of known length becomes vector instructions, without a loop around single bytes.
const WIDE: usize = 32;

#[inline]
fn xor_wide(into: &mut [u8; WIDE], from: &[u8; WIDE]) {
    for (x, y) in into.iter_mut().zip(from) {
        *x ^= y;
    }
}

/// `into` ⊕= `from`, of equal length.
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

/// `into` ⊕= as many bytes from each of these places on: what hints and answers are made of.
///
/// The sum stays in a register while the records come, so that the processor has many of them under way at a time: they lie
/// anywhere, and it is waiting for them that takes long.
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
