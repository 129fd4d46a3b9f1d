//! Pai (Li and others: *Encode and Permute that Database! Single-Server Private Information Retrieval with Constant Online
//! Time, Communication, and Client-Side Storage*, 2024). There is one server. For each client it keeps the database, encrypted
//! and permuted by that client. A lookup sends an encrypted index and gets one ciphertext.
//!
//! Fig. 2 has two forms here: [`one_query::PaiOneQuery`], as published, and [`full::PaiFull`], with a permutation of all cells.
//! On top of them are keywords: [`keyword`] (PaiKSPIR, §5) and [`chargeable`] (PaiCKSPIR, Fig. 5). This file has what both forms
//! share: the cipher, the server's store, and the online phase.
//!
//! # Assumption
//!
//! AES as a permutation and as a stream cipher, and an honest server. **Privacy is proved for one lookup.**
//!
//! # Corrections
//!
//! - *Which permutation*: the published form permutes all rows by one permutation and all columns by another. It does not help
//!   enough to permute every column and then every row by its own: cells of one column never meet in a final row, which about
//!   n^¼ lookups reveal. A uniform permutation of all cells is secure. It needs a client that has the whole database once:
//!   [`full::PaiFull`].
//! - *Repeats*: a repeated index opens the same cell. §2.4 answers it from memory and opens a dummy instead. [`full::PaiFull`] does
//!   so: each lookup opens a cell that was not opened before, and there are n of them. The mistakes are [`full::Deviation`].
//!
//! # What an attacker gains
//!
//! From the published form: the cell that a lookup opens, and so whether two lookups share a row or a column. Two lookups are
//! enough, always. √n chosen ones (the diagonal) reveal both permutations, and then **every later lookup is known**.
//! `tests/pai.rs` carries out both. From either form: an update would reveal its record, so there are no updates. A server that
//! lies can exchange ciphertexts, and sees from the app's behaviour which record it has spoiled.
//!
//! # A lookup
//!
//! ```
//! use papers::{channel::Channel, pai::full::PaiFull, random::Random, records::Records};
//!
//! let mut source = Random::from_system()?;
//! let database = Records::from_seed(1, 1000, 32);
//!
//! // Offline: all records come, and go back encrypted, in the client's order.
//! let mut line = Channel::default();
//! let (mut client, store) = PaiFull::set_up(&database, &mut source, &mut line);
//! assert_eq!(line, Channel { up: 1000 * (16 + 16 + 32), down: 1000 * 32 });
//!
//! // Online: an encrypted index up, a ciphertext down. A record asked for before looks the same.
//! for _ in 0..2 {
//!     let mut line = Channel::default();
//!     assert_eq!(client.get(123, &store, &mut source, &mut line)?, database.get(123));
//!     assert_eq!(line, Channel { up: 16, down: 16 + 32 });
//! }
//! # Ok::<(), papers::error::Error>(())
//! ```

pub mod chargeable;
pub mod full;
pub mod keyword;
pub mod one_query;

use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::prg::{Aes, Block, Prg};
use crate::random::Random;
use crate::xor::xor;

/// Bytes of an encrypted index: one block.
pub const TAG_BYTES: usize = 16;
/// Bytes that encryption adds: the position in the key stream.
pub const IV_BYTES: usize = 16;

/// Bytes of a lookup, in both directions: a tag and a ciphertext.
pub fn lookup_bytes(record_bytes: usize) -> usize {
    TAG_BYTES + record_bytes + IV_BYTES
}

/// AES in counter mode from a random position: secure encryption against chosen plaintexts.
pub struct Cipher(Aes);

impl Cipher {
    /// A cipher with this key.
    pub fn new(key: &Block) -> Self {
        Cipher(Aes::new(key))
    }

    /// XORs the key stream of `iv` into `text`.
    fn apply(&self, iv: &Block, text: &mut [u8]) {
        let (stream, first) = (u64::from_le_bytes(half(iv, 0)), u64::from_le_bytes(half(iv, 8)));
        let mut blocks = [[0; 16]; 16];
        for (n, text) in text.chunks_mut(size_of_val(&blocks)).enumerate() {
            let used = text.len().div_ceil(16);
            self.0.fill(stream, first.wrapping_add(16 * n as u64), &mut blocks[..used]);
            xor(text, &blocks.as_flattened()[..text.len()]);
        }
    }

    /// Appends the ciphertext of `text` to `to`.
    pub fn encrypt(&self, text: &[u8], source: &mut Random, to: &mut Vec<u8>) {
        let iv = source.block();
        to.extend_from_slice(&iv);
        let begin = to.len();
        to.extend_from_slice(text);
        self.apply(&iv, &mut to[begin..]);
    }

    /// The text of a ciphertext.
    pub fn decrypt(&self, ciphertext: &[u8]) -> Result<Vec<u8>, Error> {
        let Some((iv, text)) = ciphertext.split_first_chunk() else {
            return Err(bad("ciphertext", format_args!("at least {IV_BYTES} bytes"), ciphertext.len()));
        };
        let mut text = text.to_vec();
        self.apply(iv, &mut text);
        Ok(text)
    }
}

fn half(block: &Block, at: usize) -> [u8; 8] {
    block[at..at + 8].try_into().expect("8 bytes")
}

/// The server's store for a client: from tags to ciphertexts. It is a sorted, flat array.
pub struct Store<const TAG: usize = TAG_BYTES> {
    tags: Vec<([u8; TAG], u32)>,
    ciphertexts: Vec<u8>,
    ciphertext_bytes: usize,
}

impl<const TAG: usize> Store<TAG> {
    /// A store of tags and ciphertexts, in the order of the cells.
    pub fn new(tags: &[[u8; TAG]], ciphertexts: Vec<u8>, ciphertext_bytes: usize) -> Self {
        let mut tags: Vec<_> = tags.iter().copied().zip(0..).collect();
        tags.sort_unstable();
        Store { tags, ciphertexts, ciphertext_bytes }
    }

    /// Bytes of the store.
    pub fn bytes(&self) -> usize {
        size_of_val(self.tags.as_slice()) + self.ciphertexts.len()
    }

    /// The cell of a tag. The server sees it in a lookup.
    pub fn cell(&self, tag: &[u8; TAG]) -> Option<usize> {
        let found = self.tags.binary_search_by_key(tag, |known| known.0).ok()?;
        Some(self.tags[found].1 as usize)
    }

    /// The ciphertext in a cell.
    pub fn ciphertext(&self, cell: usize) -> &[u8] {
        &self.ciphertexts[cell * self.ciphertext_bytes..][..self.ciphertext_bytes]
    }

    /// Fig. 2, Response.
    pub fn answer(&self, tag: &[u8]) -> Result<Vec<u8>, Error> {
        expect_bytes("tag", tag, TAG)?;
        let cell = tag.try_into().ok().and_then(|tag| self.cell(tag));
        Ok(self.ciphertext(cell.ok_or_else(|| bad("tag", "one of the store", "another"))?).to_vec())
    }
}

/// An array with private lookups by index. Each index may be looked up once.
pub trait PrivateArray {
    /// The number of records.
    fn len(&self) -> usize;
    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The record at an index that was not looked up before.
    fn lookup(&mut self, index: usize, store: &Store, channel: &mut Channel) -> Result<Vec<u8>, Error>;
}
