//! Answers to hints (docs/protocol.md, Suite 1): for each offset a record, and behind it the siblings that prove it; with tags
//! the record alone.

use crate::scan::{NODE_BYTES, Overwritten, Shape};

/// Where the siblings of the record at `offset` lie in its partition's tree, in nodes, lowest first; `None`: beyond the end of
/// its level, where there are zeros.
pub fn siblings(partition_records: usize, depth: u32, offset: usize) -> impl Iterator<Item = Option<usize>> {
    let mut start = 0;
    (0..depth).map(move |level| {
        let width = partition_records.div_ceil(1 << level);
        let sibling = (offset >> level) ^ 1;
        let place = (sibling < width).then_some(start + sibling);
        start += width;
        place
    })
}

impl<'a> Overwritten<'a> {
    /// What was in a slot, `bytes` long; `None`: what is there still.
    #[must_use]
    pub fn record(&self, slot: usize, bytes: usize) -> Option<&'a [u8]> {
        let at = self.indices.binary_search(&(slot as u32)).ok()?;
        Some(&self.records[at * bytes..][..bytes])
    }

    /// The same of a place in a partition's tree.
    #[must_use]
    pub fn node(&self, partition: usize, place: usize) -> Option<&'a [u8; NODE_BYTES]> {
        let at = (partition as u32, place as u32);
        let at = self.nodes.binary_search_by_key(&at, |node| (node.partition, node.place)).ok()?;
        Some(&self.nodes[at].content)
    }
}

/// An epoch that is answered.
pub struct Epoch<'a> {
    /// its own; groups do not matter
    pub shape: Shape,
    /// all Q·M·ℓ bytes, and perhaps more
    pub records: &'a [u8],
    /// Q trees; nothing is read here unless entries are proved
    pub trees: &'a [u8],
    /// nothing, if it is the newest
    pub overwritten: Overwritten<'a>,
}

impl Epoch<'_> {
    /// Bytes of an entry.
    #[must_use]
    pub fn entry_bytes(&self, proved: bool) -> usize {
        self.shape.record_bytes + if proved { self.shape.depth as usize * NODE_BYTES } else { 0 }
    }

    /// Writes an answer's entries from number `first` on, one for each offset (u16, little-endian). `false`, and nothing is
    /// written: an offset is not below M.
    #[must_use]
    pub fn write(&self, first: usize, offsets: &[[u8; 2]], proved: bool, into: &mut [u8]) -> bool {
        let Shape { partitions, partition_records, record_bytes, depth, .. } = self.shape;
        let offset = |bytes: &[u8; 2]| usize::from(u16::from_le_bytes(*bytes));
        if offsets.iter().any(|bytes| offset(bytes) >= partition_records) {
            return false;
        }
        let tree_nodes = self.shape.tree_bytes() / NODE_BYTES;
        let nodes = self.trees.as_chunks::<NODE_BYTES>().0;
        let entries = into.chunks_exact_mut(self.entry_bytes(proved));
        for ((number, bytes), entry) in (first..).zip(offsets).zip(entries) {
            let (q, offset) = (number % partitions, offset(bytes));
            let slot = q * partition_records + offset;
            let (record, proof) = entry.split_at_mut(record_bytes);
            let newest = || &self.records[slot * record_bytes..][..record_bytes];
            record.copy_from_slice(self.overwritten.record(slot, record_bytes).unwrap_or_else(newest));
            let proof = proof.as_chunks_mut::<NODE_BYTES>().0;
            for (place, into) in siblings(partition_records, depth, offset).zip(proof) {
                *into = place.map_or([0; NODE_BYTES], |place| {
                    *self.overwritten.node(q, place).unwrap_or_else(|| &nodes[q * tree_nodes + place])
                });
            }
        }
        true
    }
}
