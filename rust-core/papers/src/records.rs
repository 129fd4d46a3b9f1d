//! A database: N records of ℓ bytes, flat.

use crate::error::{Error, bad};
use crate::prg::{Aes, Prg};

/// N records of ℓ bytes each, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
    record_bytes: usize,
}

impl Records {
    /// Makes records of `record_bytes` from bytes.
    pub fn new(bytes: Vec<u8>, record_bytes: usize) -> Result<Self, Error> {
        if record_bytes == 0 || bytes.is_empty() || !bytes.len().is_multiple_of(record_bytes) {
            return Err(bad("records", format_args!("some records of {record_bytes} bytes"), bytes.len()));
        }
        Ok(Records { bytes, record_bytes })
    }

    /// Pseudorandom records from a seed. (Zeros would hide errors from tests.)
    pub fn from_seed(seed: u64, records: usize, record_bytes: usize) -> Self {
        assert!(records > 0 && record_bytes > 0, "a database has records");
        let mut bytes = vec![0; records * record_bytes];
        let prg = Aes::new(&u128::from(seed).to_le_bytes());
        let (blocks, rest) = bytes.as_chunks_mut::<16>();
        for (n, part) in blocks.chunks_mut(4096).enumerate() {
            prg.fill(n as u64, 0, part);
        }
        let mut last = [[0; 16]];
        prg.fill(u64::MAX, 0, &mut last);
        rest.copy_from_slice(&last[0][..rest.len()]);
        Records { bytes, record_bytes }
    }

    /// N
    pub fn len(&self) -> usize {
        self.bytes.len() / self.record_bytes
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// ℓ
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Record i.
    pub fn get(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.record_bytes..][..self.record_bytes]
    }

    /// Record i, mutable.
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.bytes[i * self.record_bytes..][..self.record_bytes]
    }

    /// All records, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the records from `from` to before `to`.
    pub fn range(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[from * self.record_bytes..to * self.record_bytes]
    }

    /// Appends a record.
    pub fn push(&mut self, record: &[u8]) {
        assert_eq!(record.len(), self.record_bytes, "a record of another length");
        self.bytes.extend_from_slice(record);
    }
}
