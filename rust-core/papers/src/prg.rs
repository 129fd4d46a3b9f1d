//! The generators of the papers' schemes, which nothing ships: the product's is `rust-core/kernels/src/prg.rs`. They are behind
//! one pair of traits, so that tables compare schemes and not ciphers.
//!
//! [`Aes`] runs on the processor's AES instructions where it has them (crate `aes` finds out), as the papers' code does;
//! [`ChaCha`] is the cipher that the product uses, because JavaScript and WebAssembly have no AES instructions to offer.

use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use chacha20::ChaCha20Legacy;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

use crate::xor::xor;

/// 128 bits: a key, a seed, a block.
pub type Block = [u8; 16];

/// A generator under a key: 2^64 streams of 2^64 blocks, any of which can be had by itself. So it is a pseudorandom
/// function too.
pub trait Prg {
    /// what tables call it
    const NAME: &'static str;
    /// Under this key.
    fn new(key: &Block) -> Self;
    /// Writes the blocks `first`, `first` + 1, … of a stream.
    fn fill(&self, stream: u64, first: u64, blocks: &mut [Block]);
    /// Writes the blocks `first`, … of every one of these streams, as many of each as a line of the table has.
    fn table<const BLOCKS: usize>(&self, streams: &[u64], first: u64, table: &mut [[Block; BLOCKS]]) {
        for (&stream, line) in streams.iter().zip(table) {
            self.fill(stream, first, line);
        }
    }
}

/// A length-doubling generator G(s) = G₀(s) ‖ G₁(s), for trees of seeds. It has no secret.
pub trait Doubling {
    /// what tables call it
    const NAME: &'static str;
    /// The generator.
    fn new() -> Self;
    /// left[n] ‖ right[n] = G(seeds[n])
    fn double(&self, seeds: &[Block], left: &mut [Block], right: &mut [Block]);
    /// seeds[n] = G₁(seeds[n]) if `right`, else G₀(seeds[n])
    fn descend(&self, seeds: &mut [Block], right: bool);
}

/// AES-128 in counter mode.
pub struct Aes(Aes128);

/// ChaCha20, the stream as its nonce.
pub struct ChaCha(Block);

/// G_b(s) = AES_b(s) ⊕ s under two fixed public keys, as in all fast code for distributed point functions: one key schedule
/// for all seeds; sound in the ideal-cipher model.
pub struct AesTree([Aes; 2]);

/// The seed is ChaCha20's key, and the first half of one block is taken: no assumption beyond the cipher's, at twice as
/// many bits as are used.
pub struct ChaChaTree;

impl Aes {
    /// AES_key(block), in place: the pseudorandom permutation of Pai.
    pub fn permute(&self, blocks: &mut [Block]) {
        self.0.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }

    /// The inverse of [`Aes::permute`].
    pub fn invert(&self, blocks: &mut [Block]) {
        self.0.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

/// The counters of a stream, from `first` on.
fn count(stream: u64, first: u64, blocks: &mut [Block]) {
    for (n, block) in blocks.iter_mut().enumerate() {
        *block = (u128::from(stream) << 64 | u128::from(first.wrapping_add(n as u64))).to_be_bytes();
    }
}

impl Prg for Aes {
    const NAME: &'static str = "AES-128";

    fn new(key: &Block) -> Self {
        Aes(Aes128::new(&Array(*key)))
    }

    fn fill(&self, stream: u64, first: u64, blocks: &mut [Block]) {
        count(stream, first, blocks);
        self.permute(blocks);
    }

    /// The instructions take ten rounds to answer, and many blocks at a time: so all lines at once.
    fn table<const BLOCKS: usize>(&self, streams: &[u64], first: u64, table: &mut [[Block; BLOCKS]]) {
        for (&stream, line) in streams.iter().zip(table.iter_mut()) {
            count(stream, first, line);
        }
        self.permute(table.as_flattened_mut());
    }
}

impl Doubling for AesTree {
    const NAME: &'static str = Aes::NAME;

    fn new() -> Self {
        AesTree([Aes::new(b"left, not secret"), Aes::new(b"right, no secret")])
    }

    fn double(&self, seeds: &[Block], left: &mut [Block], right: &mut [Block]) {
        for (cipher, children) in self.0.iter().zip([left, right]) {
            children.copy_from_slice(seeds);
            cipher.permute(children);
            xor(children.as_flattened_mut(), seeds.as_flattened());
        }
    }

    fn descend(&self, seeds: &mut [Block], right: bool) {
        let mut children = [[0; 16]; 64];
        for seeds in seeds.chunks_mut(64) {
            let children = &mut children[..seeds.len()];
            children.copy_from_slice(seeds);
            self.0[usize::from(right)].permute(children);
            xor(seeds.as_flattened_mut(), children.as_flattened());
        }
    }
}

impl ChaCha {
    fn cipher(key: &Block, stream: u64) -> ChaCha20Legacy {
        let mut both = [0; 32]; // a key of 128 bits is used twice, as in the cipher's first description
        both[..16].copy_from_slice(key);
        both[16..].copy_from_slice(key);
        ChaCha20Legacy::new(&both.into(), &stream.to_le_bytes().into())
    }
}

impl Prg for ChaCha {
    const NAME: &'static str = "ChaCha20";

    fn new(key: &Block) -> Self {
        ChaCha(*key)
    }

    fn fill(&self, stream: u64, first: u64, blocks: &mut [Block]) {
        let bytes = blocks.as_flattened_mut();
        bytes.fill(0);
        let mut cipher = Self::cipher(&self.0, stream);
        cipher.seek(u128::from(first) * 16);
        cipher.apply_keystream(bytes);
    }
}

impl Doubling for ChaChaTree {
    const NAME: &'static str = ChaCha::NAME;

    fn new() -> Self {
        ChaChaTree
    }

    fn double(&self, seeds: &[Block], left: &mut [Block], right: &mut [Block]) {
        for ((seed, left), right) in seeds.iter().zip(left).zip(right) {
            let mut both = [[0; 16]; 2];
            ChaCha::cipher(seed, 0).apply_keystream(both.as_flattened_mut());
            [*left, *right] = both;
        }
    }

    fn descend(&self, seeds: &mut [Block], right: bool) {
        for seed in seeds {
            let mut both = [[0; 16]; 2];
            ChaCha::cipher(seed, 0).apply_keystream(both.as_flattened_mut());
            *seed = both[usize::from(right)];
        }
    }
}
