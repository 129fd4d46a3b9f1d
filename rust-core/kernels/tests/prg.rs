//! Tests the generator of instant lookups against a published vector.

use keyhush_kernels::prg::{LANES, SEED_BYTES, stretch};

/// ChaCha20 with a 128-bit key of zeros and an IV of zeros: test vector TC1 of draft-strombergson-chacha-test-vectors.
#[test]
fn the_block_is_that_of_the_published_vector_in_every_lane() {
    let expected: [u8; 32] = [
        0x89, 0x67, 0x09, 0x52, 0x60, 0x83, 0x64, 0xfd, 0x00, 0xb2, 0xf9, 0x09, 0x36, 0xf0, 0x31, 0xc8, 0xe7, 0x56,
        0xe1, 0x5d, 0xba, 0x04, 0xb8, 0x49, 0x3d, 0x00, 0x42, 0x92, 0x59, 0xb2, 0x0f, 0x46,
    ];
    let mut seeds = [[7; SEED_BYTES]; LANES];
    for lane in 0..LANES {
        seeds[lane] = [0; SEED_BYTES];
        let children = stretch(&seeds)[lane];
        assert_eq!(
            children.seeds.as_flattened(),
            expected,
            "another generator is another suite: give instant lookups new numbers (docs/protocol.md, Instant lookups), or \
             clients will call honest servers of another release liars",
        );
        assert_eq!(children.controls, [0xcc & 1, 0xcc >> 1 & 1]); // byte 32 of the vector
        seeds[lane] = [7; SEED_BYTES];
    }
}
