//! Tags that the client keeps (docs/protocol.md, Suite 2). While it prepares a hint, a client reads every record and keeps a
//! short secret tag of each. Then answers are records alone, and servers keep no trees.
//!
//! Tags are linear (`linear` in kernels): the tag of an XOR of records is the XOR of their tags. So an update needs the
//! difference only, and sums of records can be checked (docs/protocol.md, One server). The point under which tags are made
//! is drawn with the hint and never leaves the client. docs/threat-model.md derives the probability of forging.
//!
//! Comparing does not branch: it collects the differences of a whole answer and tests them once.

use keyhush_kernels::linear::Point;
use zeroize::Zeroize;

use crate::bytes::wipe;
use crate::error::Error;

pub use keyhush_kernels::linear::TAG_BYTES;

/// The tags of all slots, padding included. Secret: neither `Clone` nor `Debug`.
pub struct Tags {
    key: [u8; TAG_BYTES],
    /// computed from the key; it wipes itself
    point: Box<Point>,
    of_slots: Vec<u64>,
}

impl Drop for Tags {
    fn drop(&mut self) {
        self.key.zeroize();
        wipe(&mut self.of_slots);
    }
}

impl Tags {
    /// Tags of `slots` slots of zeros, under the point `key`.
    pub(crate) fn new(key: [u8; TAG_BYTES], slots: usize) -> Result<Self, Error> {
        let mut tags = Self::of_slots(key, Vec::new());
        tags.reserve(slots)?;
        tags.grow(slots);
        Ok(tags)
    }

    /// Existing tags of all slots, made under the point `key`.
    pub(crate) fn of_slots(key: [u8; TAG_BYTES], of_slots: Vec<u64>) -> Self {
        Tags { key, point: Box::new(Point::new(u64::from_le_bytes(key))), of_slots }
    }

    /// The tag of bytes as long as a slot.
    pub(crate) fn tag(&self, bytes: &[u8]) -> u64 {
        self.point.tag(bytes)
    }

    /// The tag of a slot.
    pub(crate) fn of(&self, slot: usize) -> u64 {
        self.of_slots[slot]
    }

    /// XORs a tag into the tag of a slot.
    pub(crate) fn add(&mut self, slot: usize, tag: u64) {
        self.of_slots[slot] ^= tag;
    }

    /// Zero if the slot's tag is that of these bytes. The steps are the same whatever the bytes are.
    pub(crate) fn difference(&self, slot: usize, bytes: &[u8]) -> u64 {
        self.of_slots[slot] ^ self.tag(bytes)
    }

    /// Updates a slot's tag after a change of old ⊕ new. A tag that was wrong stays wrong.
    pub(crate) fn change(&mut self, slot: usize, difference: &[u8]) {
        self.add(slot, self.tag(difference));
    }

    /// Tags records, which lie in the slots from `first` on.
    pub(crate) fn take(&mut self, first: usize, records: &[u8], record_bytes: usize) {
        let mut room = std::mem::take(&mut self.of_slots);
        self.tag_all(records, record_bytes, &mut room[first..]);
        self.of_slots = room;
    }

    /// Computes the tags of records that lie one after the other.
    pub(crate) fn tag_all(&self, records: &[u8], record_bytes: usize, tags: &mut [u64]) {
        self.point.tag_all(records, record_bytes, |slot, tag| tags[slot] = tag);
    }

    /// Replaces the tags of the slots from `first` on.
    pub(crate) fn put(&mut self, first: usize, tags: &[u64]) {
        self.of_slots[first..][..tags.len()].copy_from_slice(tags);
    }

    /// Reserves the memory that [`Tags::grow`] needs.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        let more = slots.saturating_sub(self.of_slots.len());
        self.of_slots.try_reserve_exact(more).map_err(|_| {
            Error::Layout(format!("memory for {more} more tags could not be had; Merkle proofs need none"))
        })
    }

    /// Adds the tags of new slots: zeros, because new slots are zeros at first.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.of_slots.resize(slots, 0);
    }

    /// Bytes of all tags: 8 a slot.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.of_slots.len() * TAG_BYTES
    }

    /// The point, for stored forms only.
    pub(crate) fn key(&self) -> &[u8; TAG_BYTES] {
        &self.key
    }

    /// All tags, in the order of slots.
    pub(crate) fn all(&self) -> &[u64] {
        &self.of_slots
    }

    /// Replaces the tags of the slots from `first` on by stored ones, 8 bytes each.
    pub(crate) fn restore(&mut self, first: usize, stored: &[u8]) {
        for (tag, bytes) in self.of_slots[first..].iter_mut().zip(stored.as_chunks().0) {
            *tag = u64::from_le_bytes(*bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; TAG_BYTES] = [7; TAG_BYTES];

    fn counting(bytes: std::ops::Range<u8>) -> Vec<u8> {
        bytes.collect()
    }

    fn tags_of(key: [u8; TAG_BYTES], records: &[u8], record_bytes: usize) -> Tags {
        let mut tags = Tags::new(key, records.len() / record_bytes).unwrap();
        tags.take(0, records, record_bytes);
        tags
    }

    /// No change may make a wrong tag right.
    #[test]
    fn a_wrong_tag_stays_wrong_whatever_changes() {
        let mut records = counting(0..24);
        let mut tags = tags_of(KEY, &records, 12);
        tags.of_slots[1] ^= 1 << 40;
        for (slot, byte) in [(1, 1), (1, 2), (0, 3), (1, 4), (1, 5), (0, 6), (1, 7)] {
            let place = &mut records[12 * slot..][..12];
            let difference: Vec<u8> = place.iter().map(|old| old ^ byte).collect();
            tags.change(slot, &difference);
            place.fill(byte);
            let differences = [0, 1].map(|slot| tags.difference(slot, &records[12 * slot..][..12]));
            assert_eq!(differences, [0, 1 << 40]);
        }
    }
}
