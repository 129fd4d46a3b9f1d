//! Tests the columns of streams (docs/protocol.md, One server).

use std::array;

use keyhush_kernels::random::ChaCha;
use keyhush_kernels::streams::{GROUP, column, group};

/// Compares with the library's ChaCha20, which also tells streams apart by the nonce.
#[test]
fn columns_are_those_of_the_stream_in_the_order_of_the_definition() {
    let bytes: [u8; 32] = array::from_fn(|i| (i * 11 + 3) as u8);
    let key = array::from_fn(|word| u32::from_le_bytes(array::from_fn(|at| bytes[4 * word + at])));
    for nonce in [0, 5, 1 << 32 | 7, u64::MAX >> 9] {
        for number in [0, 1, 9] {
            let mut stream = [0; GROUP * 2];
            let mut source = ChaCha::new(&bytes, nonce);
            source.seek((number * GROUP / 2) as u64);
            source.fill(&mut stream);
            let mut columns = [0; GROUP];
            group(&key, nonce, number, &mut columns);
            for (c, value) in columns.into_iter().enumerate() {
                let at = (c / 2 % 4) * 64 + c / 8 * 4 + c % 2 * 2;
                assert_eq!(value, u16::from_le_bytes([stream[at], stream[at + 1]]), "{nonce} {number} {c}");
                let mut alone = [0; 6];
                column(&key, nonce.saturating_sub(3), number * GROUP + c, &mut alone);
                if nonce >= 3 {
                    assert_eq!(alone[3], value, "{nonce} {number} {c}");
                }
            }
        }
    }
}
