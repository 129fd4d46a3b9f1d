//! Linear tags of all records (kernels, `linear`): whoever knows the tags of records can check any XOR of them.

use pirouette_kernels::linear::{Point, TAG_BYTES};
use zeroize::Zeroize;

/// The tag of every slot, and of the zeros beyond. Secret: overwritten when dropped, as the point is.
pub(crate) struct Tags {
    key: [u8; TAG_BYTES],
    point: Box<Point>,
    of_slots: Vec<u64>,
}

impl Tags {
    /// Of zeros.
    pub(crate) fn new(key: [u8; TAG_BYTES], room: usize) -> Self {
        Tags { key, point: Box::new(Point::new(u64::from_le_bytes(key))), of_slots: vec![0; room] }
    }

    pub(crate) fn key(&self) -> &[u8; TAG_BYTES] {
        &self.key
    }

    pub(crate) fn all(&self) -> &[u64] {
        &self.of_slots
    }

    /// Takes stored tags of the slots from `first` on, 8 bytes each.
    pub(crate) fn restore(&mut self, first: usize, stored: &[u8]) {
        for (tag, bytes) in self.of_slots[first..].iter_mut().zip(stored.as_chunks().0) {
            *tag = u64::from_le_bytes(*bytes);
        }
    }

    /// The tag of these bytes.
    pub(crate) fn tag(&self, record: &[u8]) -> u64 {
        self.point.tag(record)
    }

    /// Adds old ⊕ new of the record in a slot.
    pub(crate) fn change(&mut self, slot: usize, difference: &[u8]) {
        self.of_slots[slot] ^= self.point.tag(difference);
    }

    /// Tags records that lie in slots from `first` on.
    pub(crate) fn take(&mut self, first: usize, records: &[u8], record_bytes: usize) {
        for (tag, record) in self.of_slots[first..].iter_mut().zip(records.chunks_exact(record_bytes)) {
            *tag = self.point.tag(record);
        }
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        self.key.zeroize();
        self.of_slots.zeroize();
    }
}
