//! The content hash of a partition: its plain BLAKE3, kept so that an edit does not rehash the whole partition.
//!
//! BLAKE3 is a tree over chunks of 1 KiB. A server keeps the chaining value of every group of 4 chunks (SIMD hashes four
//! side by side). After an edit it hashes the changed groups again, and merges the chaining values, one for 4 KiB, to the
//! root.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes of a content hash.
pub const CONTENT_HASH_BYTES: usize = 32;

/// Bytes of a group: a power of two chunks, so that every group but the last is a whole subtree.
pub(crate) const GROUP_BYTES: usize = 4 << 10;

/// The content hash of one partition, and its groups' chaining values. A partition of one group has none: it is hashed whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentTree {
    groups: Vec<ChainingValue>,
    hash: [u8; CONTENT_HASH_BYTES],
}

impl ContentTree {
    /// Hashes a partition.
    #[must_use]
    pub fn new(partition: &[u8]) -> Self {
        let groups = (0..Self::groups(partition.len())).map(|group| chaining_value(partition, group)).collect();
        let mut tree = ContentTree { groups, hash: [0; CONTENT_HASH_BYTES] };
        tree.merge(partition);
        tree
    }

    /// The number of chaining values for a partition of that many bytes.
    pub(crate) fn groups(partition_bytes: usize) -> usize {
        if partition_bytes > GROUP_BYTES { partition_bytes.div_ceil(GROUP_BYTES) } else { 0 }
    }

    /// The partition's BLAKE3.
    #[must_use]
    pub fn hash(&self) -> [u8; CONTENT_HASH_BYTES] {
        self.hash
    }

    /// Hashes the groups that these ranges, in ascending order, have changed. [`ContentTree::merge`] computes the partition's
    /// hash afterwards.
    pub(crate) fn rehash(&mut self, partition: &[u8], changed: impl Iterator<Item = std::ops::Range<usize>>) {
        let mut done = None;
        for range in changed {
            for group in range.start / GROUP_BYTES..range.end.div_ceil(GROUP_BYTES) {
                // Neighbouring changes may share a group.
                if done != Some(group) && group < self.groups.len() {
                    self.groups[group] = chaining_value(partition, group);
                    done = Some(group);
                }
            }
        }
    }

    /// Computes the partition's hash. Its groups must be up to date.
    pub(crate) fn merge(&mut self, partition: &[u8]) {
        self.hash = match root_children(&self.groups, partition.len()) {
            Some((left, right)) => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
            None => *blake3::hash(partition).as_bytes(),
        };
    }
}

fn chaining_value(partition: &[u8], group: usize) -> ChainingValue {
    let start = group * GROUP_BYTES;
    let end = partition.len().min(start + GROUP_BYTES);
    blake3::Hasher::new().set_input_offset(start as u64).update(&partition[start..end]).finalize_non_root()
}

/// The chaining values of the root's two subtrees over `bytes` of input; `None` for a single group.
fn root_children(groups: &[ChainingValue], bytes: usize) -> Option<(ChainingValue, ChainingValue)> {
    if groups.len() < 2 {
        return None;
    }
    let left_bytes = left_subtree_len(bytes as u64) as usize;
    let (left, right) = groups.split_at(left_bytes / GROUP_BYTES);
    Some((subtree(left, left_bytes), subtree(right, bytes - left_bytes)))
}

fn subtree(groups: &[ChainingValue], bytes: usize) -> ChainingValue {
    match root_children(groups, bytes) {
        Some((left, right)) => merge_subtrees_non_root(&left, &right, Mode::Hash),
        None => groups.first().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_is_plain_blake3_at_every_boundary() {
        for bytes in
            [1, 1024, GROUP_BYTES - 1, GROUP_BYTES, GROUP_BYTES + 1, 2 * GROUP_BYTES, 5 * GROUP_BYTES + 77, 300_000]
        {
            let partition: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            assert_eq!(ContentTree::new(&partition).hash(), *blake3::hash(&partition).as_bytes(), "{bytes} bytes");
        }
    }

    proptest! {
        #[test]
        fn updates_equal_rehashing(
            bytes in 1usize..200_000,
            edits in prop::collection::vec((any::<prop::sample::Index>(), 1usize..3000, any::<u8>()), 0..6),
        ) {
            let mut partition = vec![7; bytes];
            let mut tree = ContentTree::new(&partition);
            let mut ranges = Vec::new();
            for (at, length, value) in edits {
                let start = at.index(bytes);
                let end = bytes.min(start + length);
                partition[start..end].fill(value);
                ranges.push(start..end);
            }
            tree.rehash(&partition, ranges.into_iter());
            tree.merge(&partition);
            prop_assert_eq!(tree, ContentTree::new(&partition));
        }
    }
}
