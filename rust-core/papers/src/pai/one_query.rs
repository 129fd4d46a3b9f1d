//! Pai as published (Li and others 2024), Fig. 2. **Private for one lookup**: [`super`] says what more lookups reveal.
//!
//! The n records are a grid of ⌈√n⌉ rows. The server streams column after column. The client sends each back encrypted, with its
//! cells in the order of π₀. Then it does the same row after row, with cells in the order of π₁, encrypted anew. Tags are
//! encrypted indices, P(pk₁, P(pk₀, i)). Nothing is corrected here, so that it can be attacked. Cells beyond the last record are
//! zeros.

use super::{Cipher, IV_BYTES, PrivateArray, Store, TAG_BYTES};
use crate::channel::Channel;
use crate::error::{Error, bad};
use crate::prg::{Aes, Block, Prg};
use crate::random::{Random, shuffle};
use crate::records::Records;

/// Rows and columns of the grid of n records.
pub fn grid(records: usize) -> (usize, usize) {
    let rows = records.isqrt() + usize::from(records.isqrt().pow(2) < records);
    (rows, records.div_ceil(rows))
}

/// Bytes of the offline phase: each cell once in plain, three times encrypted, and three times as a tag (§4.2).
pub fn offline_bytes(records: usize, record_bytes: usize) -> usize {
    let (rows, columns) = grid(records);
    rows * columns * (record_bytes + 3 * (record_bytes + IV_BYTES) + 3 * TAG_BYTES)
}

/// A client of Pai as published. Use it for **one lookup**: from two, the server begins to learn which they are; from √n
/// chosen ones it learns all.
pub struct PaiOneQuery {
    index_keys: [Aes; 2],
    cipher: Cipher,
    records: usize,
}

impl PaiOneQuery {
    /// The offline phase. Cells beyond the last record are zeros.
    pub fn set_up(records: &Records, source: &mut Random, channel: &mut Channel) -> (Self, Store) {
        let (rows, columns) = grid(records.len());
        let (bytes, cipher_bytes) = (records.record_bytes(), records.record_bytes() + IV_BYTES);
        let index_keys = [Aes::new(&source.block()), Aes::new(&source.block())];
        let cipher = Cipher::new(&source.block());
        let (mut of_rows, mut of_columns): (Vec<_>, Vec<_>) = ((0..rows).collect(), (0..columns).collect());
        shuffle(&mut of_rows, source); // π₀
        shuffle(&mut of_columns, source); // π₁

        // Row-permuting: the server stores what comes back, column by column.
        let (mut tags, mut texts) = (Vec::new(), Vec::new());
        let zeros = vec![0; bytes];
        let cell = |row: usize, column: usize| {
            let index = row * columns + column;
            if index < records.len() { records.get(index) } else { &zeros }
        };
        let mut column_texts = Vec::with_capacity(rows * cipher_bytes);
        let mut column_tags = Vec::with_capacity(rows);
        for column in 0..columns {
            for row in 0..rows {
                channel.receive(cell(row, column)); // 1(a)
            }
            column_texts.clear();
            column_tags.clear();
            for &row in &of_rows {
                column_tags.push(block_of(row * columns + column)); // 1(b)
                cipher.encrypt(cell(row, column), source, &mut column_texts);
            }
            index_keys[0].permute(&mut column_tags);
            tags.extend_from_slice(channel.send(column_tags.as_flattened()));
            texts.extend_from_slice(channel.send(&column_texts));
        }

        // Column-permuting.
        let (mut final_tags, mut final_texts) = (Vec::with_capacity(tags.len()), Vec::with_capacity(texts.len()));
        let mut row_tags: Vec<Block> = Vec::with_capacity(columns);
        for row in 0..rows {
            row_tags.clear();
            let begin = final_texts.len();
            for &column in &of_columns {
                let at = column * rows + row;
                let tag = channel.receive(&tags[at * TAG_BYTES..][..TAG_BYTES]); // 2(a)
                let text = channel.receive(&texts[at * cipher_bytes..][..cipher_bytes]);
                row_tags.push(tag.try_into().expect("a tag is a block"));
                let plain = cipher.decrypt(text).expect("the client's own ciphertext");
                cipher.encrypt(&plain, source, &mut final_texts); // 2(b)
            }
            index_keys[1].permute(&mut row_tags);
            final_tags.extend_from_slice(channel.send(row_tags.as_flattened()));
            channel.send(&final_texts[begin..]);
        }
        let client = PaiOneQuery { index_keys, cipher, records: rows * columns };
        (client, Store::new(final_tags.as_chunks().0, final_texts, cipher_bytes))
    }

    /// Fig. 2, Query: P(pk₁, P(pk₀, i)).
    pub fn tag(&self, index: usize) -> Block {
        let mut tag = [block_of(index)];
        self.index_keys.iter().for_each(|key| key.permute(&mut tag));
        tag[0]
    }
}

pub(super) fn block_of(index: usize) -> Block {
    (index as u128).to_le_bytes()
}

impl PrivateArray for PaiOneQuery {
    fn len(&self) -> usize {
        self.records
    }

    fn lookup(&mut self, index: usize, store: &Store, channel: &mut Channel) -> Result<Vec<u8>, Error> {
        if index >= self.records {
            return Err(bad("index", format_args!("below {}", self.records), index));
        }
        let answer = channel.ask(&self.tag(index), |tag| store.answer(tag))?;
        self.cipher.decrypt(&answer) // Extract
    }
}
