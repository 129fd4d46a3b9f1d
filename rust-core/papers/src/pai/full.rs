//! Pai (Li and others 2024) with a uniform permutation of all cells. A client that has the whole database once draws and applies
//! it: Step 1 of §4.1, without Step 3's saving of memory, which breaks the scheme.
//!
//! Assumption: AES, and an honest server. Corrections: the permutation, and what is sent for a repeated index. What an attacker
//! gains: n lookups open n distinct uniform cells, whatever is asked for. Each [`Deviation`] reveals which lookups repeat
//! another.

use super::one_query::block_of;
use super::{Cipher, IV_BYTES, PrivateArray, Store, TAG_BYTES};
use std::collections::HashMap;

use crate::channel::Channel;
use crate::error::{Error, bad};
use crate::prg::{Aes, Block, Prg};
use crate::random::{Random, Uniform, shuffle};
use crate::records::Records;

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// As described.
    #[default]
    None,
    /// A repeated index opens its cell again.
    AsksAgain,
    /// A repeated index is answered from memory, and nothing is sent.
    SilentWhenRepeated,
}

/// Bytes of the offline phase: all records down, all cells up.
pub fn offline_bytes(records: usize, record_bytes: usize) -> usize {
    records * (record_bytes + TAG_BYTES + record_bytes + IV_BYTES)
}

/// The client: keys, and the records it has found.
pub struct PaiFull {
    index_key: Aes,
    cipher: Cipher,
    records: usize,
    opened: Opened,
}

impl PaiFull {
    /// The offline phase.
    pub fn set_up(records: &Records, source: &mut Random, channel: &mut Channel) -> (Self, Store) {
        let (index_key, cipher) = (Aes::new(&source.block()), Cipher::new(&source.block()));
        let mut order: Vec<u32> = (0..records.len() as u32).collect();
        shuffle(&mut order, source);
        channel.receive(records.range(0, records.len()));
        let mut tags: Vec<Block> = order.iter().map(|&index| block_of(index as usize)).collect();
        index_key.permute(&mut tags);
        let cipher_bytes = records.record_bytes() + IV_BYTES;
        let mut texts = Vec::with_capacity(records.len() * cipher_bytes);
        for &index in &order {
            cipher.encrypt(records.get(index as usize), source, &mut texts);
        }
        channel.send(tags.as_flattened());
        channel.send(&texts);
        let opened = Opened::new(records.len(), Deviation::None);
        let client = PaiFull { index_key, cipher, records: records.len(), opened };
        (client, Store::new(&tags, texts, cipher_bytes))
    }

    /// The record at any index. A repeated index is answered from memory, and a cell that was never opened is opened instead.
    pub fn get(
        &mut self,
        index: usize,
        store: &Store,
        source: &mut impl Uniform,
        channel: &mut Channel,
    ) -> Result<Vec<u8>, Error> {
        if index >= self.records {
            return Err(bad("index", format_args!("below {}", self.records), index));
        }
        if let Some(ask) = self.opened.next(index, source)? {
            let record = self.open(ask, store, channel)?;
            self.opened.remember(ask, record);
        }
        Ok(self.opened.found(index).expect("opened now or before").to_vec())
    }

    fn open(&self, index: usize, store: &Store, channel: &mut Channel) -> Result<Vec<u8>, Error> {
        let mut tag = [block_of(index)];
        self.index_key.permute(&mut tag);
        let answer = channel.ask(&tag[0], |tag| store.answer(tag))?;
        self.cipher.decrypt(&answer)
    }
}

impl PrivateArray for PaiFull {
    fn len(&self) -> usize {
        self.records
    }

    fn lookup(&mut self, index: usize, store: &Store, channel: &mut Channel) -> Result<Vec<u8>, Error> {
        if index >= self.records {
            return Err(bad("index", format_args!("below {}", self.records), index));
        }
        self.open(index, store, channel)
    }
}

/// The indices that were opened, and their records (§2.4, *Handling Duplicate Queries*).
pub struct Opened {
    found: HashMap<usize, Vec<u8>>,
    records: usize,
    deviation: Deviation,
}

impl Opened {
    /// No index is opened yet.
    pub fn new(records: usize, deviation: Deviation) -> Self {
        Opened { found: HashMap::new(), records, deviation }
    }

    /// The index to open for a lookup of `index`: `index`, or a uniform one of those not opened yet.
    pub fn next(&self, index: usize, source: &mut impl Uniform) -> Result<Option<usize>, Error> {
        if !self.found.contains_key(&index) {
            return Ok(Some(index));
        }
        match self.deviation {
            Deviation::AsksAgain => return Ok(Some(index)),
            Deviation::SilentWhenRepeated => return Ok(None),
            Deviation::None => {}
        }
        self.dummy(source).map(Some)
    }

    /// A uniform index of those not opened yet.
    pub fn dummy(&self, source: &mut impl Uniform) -> Result<usize, Error> {
        let left = self.left();
        if left == 0 {
            return Err(Error::Exhausted);
        }
        // By trial while few are opened, by counting when many are.
        if left > self.records / 2 {
            loop {
                let index = source.below(self.records as u32) as usize;
                if !self.found.contains_key(&index) {
                    return Ok(index);
                }
            }
        }
        let nth = source.below(left as u32) as usize;
        Ok((0..self.records).filter(|index| !self.found.contains_key(index)).nth(nth).expect("as many are left"))
    }

    /// The number of indices not opened yet.
    pub fn left(&self) -> usize {
        self.records - self.found.len()
    }

    /// The record at an opened index.
    pub fn found(&self, index: usize) -> Option<&[u8]> {
        self.found.get(&index).map(Vec::as_slice)
    }

    /// Stores the record of an opened index.
    pub fn remember(&mut self, index: usize, record: Vec<u8>) {
        self.found.insert(index, record);
    }
}
