//! Tests our ChaCha20 against the library's.

use std::array;

use keyhush_kernels::random::{ChaCha, Uniform};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// In parts of all lengths, and from places within and between blocks.
#[test]
fn streams_are_those_of_the_library() {
    let entropy = array::from_fn(|i| (i * 11 + 3) as u8);
    for stream in [0, 5, 1 << 32 | 7, u64::MAX] {
        let mut ours = ChaCha::new(&entropy, stream);
        let mut theirs = ChaCha20Rng::from_seed(entropy);
        theirs.set_stream(stream);
        let [mut found, mut expected] = [[0; 700]; 2];
        for bytes in (0..found.len()).chain([4, 8, 256]) {
            ours.fill(&mut found[..bytes]);
            theirs.fill_bytes(&mut expected[..bytes]);
            assert_eq!(found[..bytes], expected[..bytes], "{bytes} bytes of stream {stream}");
            assert_eq!(ours.below(1 << 16), theirs.next_u32() >> 16); // the highest bits, as 2^16 is a power of 2
        }
        for word in [0, 1, 63, 64, 65, 1000, (1 << 36) - 3] {
            ours.seek(word);
            theirs.set_word_pos(u128::from(word));
            for _ in 0..200 {
                assert_eq!(ours.below(1 << 16), theirs.next_u32() >> 16, "from word {word} of stream {stream}");
            }
        }
    }
}
