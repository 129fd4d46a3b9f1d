//! ChaCha20 with random access (docs/protocol.md, One server): the u16 number `column` in the stream of a nonce. Four blocks
//! are computed side by side: neighbouring blocks of one stream, or the same block of four streams.

use core::array;

use crate::words::{LANES, Words, chacha};

/// "expand 32-byte k"
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Words of a key.
pub const KEY_WORDS: usize = 8;

/// Blocks computed at once.
pub(crate) const BLOCKS: usize = LANES;
/// u16s of a block.
const BLOCK_COLUMNS: usize = 32;

/// Columns computed at once, from four neighbouring blocks. Column c of a group is half c mod 2 (low half first) of the u32
/// number ⌊c/8⌋ in the group's block number ⌊c/2⌋ mod 4.
pub const GROUP: usize = BLOCKS * BLOCK_COLUMNS;

/// Four blocks, word by word.
#[inline]
pub(crate) fn blocks(key: &[u32; KEY_WORDS], counters: [u64; BLOCKS], nonces: [u64; BLOCKS]) -> [[u32; LANES]; 16] {
    let mut state = [Words::splat(0); 16];
    for (word, constant) in state.iter_mut().zip(CONSTANTS.iter().chain(key)) {
        *word = Words::splat(*constant);
    }
    state[12] = Words::new(counters.map(|counter| counter as u32));
    state[13] = Words::new(counters.map(|counter| (counter >> 32) as u32));
    state[14] = Words::new(nonces.map(|nonce| nonce as u32));
    state[15] = Words::new(nonces.map(|nonce| (nonce >> 32) as u32));
    chacha::<20>(&state).map(Words::lanes)
}

/// Computes a group of a stream's columns.
pub fn group(key: &[u32; KEY_WORDS], nonce: u64, number: usize, columns: &mut [u16; GROUP]) {
    let first = (number * BLOCKS) as u64;
    let words = blocks(key, array::from_fn(|lane| first + lane as u64), [nonce; BLOCKS]);
    for (halves, word) in columns.as_chunks_mut::<2>().0.iter_mut().zip(words.as_flattened()) {
        *halves = [*word as u16, (*word >> 16) as u16];
    }
}

/// Computes one column of neighbouring streams; the first stream is that of `nonce`.
pub fn column(key: &[u32; KEY_WORDS], nonce: u64, column: usize, of_streams: &mut [u16]) {
    let (number, within) = (column / GROUP, column % GROUP);
    let counter = (number * BLOCKS + within / 2 % BLOCKS) as u64;
    for (first, out) in (nonce..).step_by(BLOCKS).zip(of_streams.chunks_mut(BLOCKS)) {
        let words = blocks(key, [counter; BLOCKS], array::from_fn(|lane| first + lane as u64));
        for (out, word) in out.iter_mut().zip(words[within / 2 / BLOCKS]) {
            *out = (word >> (within % 2 * 16)) as u16;
        }
    }
}
