//! The pseudorandom generators of the papers' schemes. Only this crate uses them; the product's generator is
//! `rust-core/kernels/src/prg.rs`. All have the same traits, so that tables compare schemes and not ciphers.
//!
//! [`Aes`] uses the processor's AES instructions if there are any (the crate `aes` detects them), as the papers' code does.
//! [`ChaCha`] is the cipher of the product, because JavaScript and WebAssembly have no AES instructions.

use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use chacha20::ChaCha20Legacy;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

use crate::xor::xor;

/// 128 bits: a key, a seed or a block.
pub type Block = [u8; 16];

/// A generator with a key: 2^64 streams of 2^64 blocks, with random access to each block. So it is also a pseudorandom
/// function.
pub trait Prg {
    /// its name in tables
    const NAME: &'static str;
    /// The generator with this key.
    fn new(key: &Block) -> Self;
    /// Writes the blocks `first`, `first` + 1, … of a stream.
    fn fill(&self, stream: u64, first: u64, blocks: &mut [Block]);
    /// Writes the blocks `first`, `first` + 1, … of each of these streams, as many of each as a line of the table has.
    fn table<const BLOCKS: usize>(&self, streams: &[u64], first: u64, table: &mut [[Block; BLOCKS]]) {
        for (&stream, line) in streams.iter().zip(table) {
            self.fill(stream, first, line);
        }
    }
}

/// A length-doubling generator G(s) = G₀(s) ‖ G₁(s), for trees of seeds. It has no secret.
pub trait Doubling {
    /// its name in tables
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

/// ChaCha20, with the stream as nonce.
pub struct ChaCha(Block);

/// G_b(s) = AES_b(s) ⊕ s under two fixed public keys, as in all fast code for distributed point functions. It needs one key
/// schedule for all seeds. It is secure in the ideal-cipher model.
pub struct AesTree([Aes; 2]);

/// The seed is ChaCha20's key, and half of one block is the output. It assumes nothing but the cipher, and computes twice the
/// bits that are used.
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

/// Writes the counters of a stream, from `first` on.
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

    /// An AES instruction has a latency of many cycles, but many can run at once. So all lines are encrypted together.
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
