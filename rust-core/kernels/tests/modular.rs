//! Tests the primes of the ring (docs/protocol/one-server.md), and reductions modulo them.

use keyhush_kernels::modular::{MODULUS, PRIMES, joined, reduced};

#[test]
fn constants_are_what_they_are_said_to_be() {
    assert_eq!(MODULUS % 16, 1);
    for (m, prime) in PRIMES.into_iter().enumerate() {
        assert_eq!(prime % 4096, 1);
        assert!((2..prime).take_while(|d| d * d <= prime).all(|d| prime % d != 0));
        for value in [0, 1, u64::from(prime), u64::MAX, u64::MAX - 1, 1 << 32, 0x0123_4567_89ab_cdef] {
            assert_eq!(u64::from(reduced(value, m)), value % u64::from(prime));
        }
    }
    for number in [0, 1, MODULUS - 1, MODULUS / 2, 0x0000_2345_6789_abcd] {
        assert_eq!(joined(reduced(number, 0), reduced(number, 1)), number);
    }
}
