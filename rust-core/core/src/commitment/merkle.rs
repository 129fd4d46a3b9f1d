//! Merkle trees over BLAKE3 (suite 1; docs/protocol.md, Suite 1).
//!
//! Leaf and node hashes have different keys, so that neither passes as the other. A node is one BLAKE3 block. Levels are
//! stored one after the other, leaves first; level k has ⌈M/2^k⌉ nodes. A sibling beyond the end of its level counts as
//! zeros, so that every proof has d = ⌈log₂ M⌉ siblings and M need not be a power of two.

use std::sync::OnceLock;

use blake3::IncrementCounter;
use blake3::platform::{MAX_SIMD_DEGREE, Platform, words_from_le_bytes_32};

use super::{CELL_BYTES, COMMITMENT_BYTES, Commit, OpenEntry};
use crate::layout::Layout;

const DIGEST_BYTES: usize = CELL_BYTES;
const LEAF_CONTEXT: &str = "keyhush 2026-11 merkle leaf v1";
const NODE_CONTEXT: &str = "keyhush 2026-11 merkle node v1";

type Digest = [u8; DIGEST_BYTES];

/// The keys of leaf and node hashes. They are derived once.
struct Keys {
    leaf: Digest,
    node: Digest,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys {
        leaf: blake3::derive_key(LEAF_CONTEXT, &[]),
        node: blake3::derive_key(NODE_CONTEXT, &[]),
    })
}

fn leaf(record: &[u8]) -> Digest {
    *blake3::keyed_hash(&keys().leaf, record).as_bytes()
}

fn node(children: &[u8; 2 * DIGEST_BYTES]) -> Digest {
    *blake3::keyed_hash(&keys().node, children).as_bytes()
}

/// BLAKE3's flags (section 2.4 of its paper) of a keyed hash whose only chunk is its root.
const KEYED_HASH: u8 = 1 << 4;
const CHUNK_START: u8 = 1;
const CHUNK_END_AND_ROOT: u8 = 1 << 1 | 1 << 3;

/// [`node`] of many pairs, as many side by side as the processor allows.
///
/// The crate calls this interface unstable. Its version is pinned, and a test compares both functions.
fn nodes(children: &[[u8; 2 * DIGEST_BYTES]], parents: &mut [u8]) {
    let platform = Platform::detect();
    let key = words_from_le_bytes_32(&keys().node);
    let groups = children.chunks(MAX_SIMD_DEGREE).zip(parents.chunks_mut(MAX_SIMD_DEGREE * DIGEST_BYTES));
    for (children, parents) in groups {
        let mut inputs = [&[0; 2 * DIGEST_BYTES]; MAX_SIMD_DEGREE];
        for (input, pair) in inputs.iter_mut().zip(children) {
            *input = pair;
        }
        let (inputs, no) = (&inputs[..children.len()], IncrementCounter::No);
        platform.hash_many(inputs, &key, 0, no, KEYED_HASH, CHUNK_START, CHUNK_END_AND_ROOT, parents);
    }
}

fn join(left: &[u8], right: &[u8]) -> [u8; 2 * DIGEST_BYTES] {
    let mut children = [0; 2 * DIGEST_BYTES];
    children[..DIGEST_BYTES].copy_from_slice(left);
    children[DIGEST_BYTES..].copy_from_slice(right);
    children
}

/// The widths of the levels, leaves first; the root's width of 1 is last.
fn widths(layout: &Layout) -> impl Iterator<Item = usize> + use<> {
    let leaves = layout.partition_records();
    (0..=layout.depth()).map(move |level| leaves.div_ceil(1 << level))
}

/// Merkle trees over BLAKE3.
pub struct Merkle;

impl Merkle {
    /// The hashes it takes to verify an entry: the leaf, and a node for each level above.
    #[must_use]
    pub fn hashes_of_entry(layout: &Layout) -> usize {
        widths(layout).count()
    }

    /// The hashes it takes to build a partition's tree.
    #[must_use]
    pub fn hashes_of_partition(layout: &Layout) -> usize {
        widths(layout).sum()
    }

    /// The level above an even number of nodes.
    pub(crate) fn joined(level: &[Digest]) -> Vec<Digest> {
        let mut parents = vec![[0; DIGEST_BYTES]; level.len() / 2];
        nodes(level.as_flattened().as_chunks().0, parents.as_flattened_mut());
        parents
    }

    /// Whether the partition with this `commitment` has these 2^g records at offsets t·2^g and on. The lowest g ≤ d levels are
    /// hashed from the records, the others with `siblings`, 32 bytes for each level from g on. Records beyond the partition's
    /// end must be zeros. Every byte counts, and the steps are the same whatever the result.
    pub(crate) fn verify_group(
        layout: &Layout,
        commitment: &[u8; COMMITMENT_BYTES],
        group_log: u32,
        t: usize,
        records: &[u8],
        siblings: &[u8],
    ) -> bool {
        let size = (1 << group_log).min(layout.partition_records() - (t << group_log));
        let (inside, beyond) = records.split_at(size * layout.record_bytes());
        let mut level: Vec<Digest> = inside.chunks_exact(layout.record_bytes()).map(leaf).collect();
        for _ in 0..group_log {
            let pairs = level.chunks(2);
            level = pairs.map(|pair| node(&join(&pair[0], pair.get(1).unwrap_or(&[0; DIGEST_BYTES])))).collect();
        }
        let mut digest = level[0];
        for (above, sibling) in siblings.chunks_exact(DIGEST_BYTES).enumerate() {
            digest = if t >> above & 1 == 0 { node(&join(&digest, sibling)) } else { node(&join(sibling, &digest)) };
        }
        let zeros = beyond.iter().fold(0, |bits, byte| bits | byte) == 0;
        let lengths = records.len() == layout.record_bytes() << group_log
            && siblings.len() == (layout.depth() - group_log) as usize * DIGEST_BYTES;
        (blake3::Hash::from(digest) == blake3::Hash::from(*commitment)) & zeros & lengths
    }
}

impl Commit for Merkle {
    const NAME: &'static str = "merkle";

    fn auxiliary_bytes(layout: &Layout) -> usize {
        widths(layout).sum::<usize>() * DIGEST_BYTES
    }

    fn build(layout: &Layout, partition: &[u8], auxiliary: &mut [u8]) {
        let (mut level, mut above) = auxiliary.split_at_mut(layout.partition_records() * DIGEST_BYTES);
        for (record, digest) in partition.chunks_exact(layout.record_bytes()).zip(level.chunks_exact_mut(DIGEST_BYTES))
        {
            digest.copy_from_slice(&leaf(record));
        }
        for width in widths(layout).skip(1) {
            let (parents, rest) = above.split_at_mut(width * DIGEST_BYTES);
            let (pairs, alone) = level.as_chunks::<{ 2 * DIGEST_BYTES }>();
            nodes(pairs, &mut parents[..pairs.len() * DIGEST_BYTES]);
            if !alone.is_empty() {
                parents[pairs.len() * DIGEST_BYTES..].copy_from_slice(&node(&join(alone, &[0; DIGEST_BYTES])));
            }
            (level, above) = (parents, rest);
        }
    }

    fn commitment(auxiliary: &[u8]) -> [u8; COMMITMENT_BYTES] {
        auxiliary.last_chunk().copied().unwrap_or_default()
    }

    fn update_leaves<'a>(
        _: &Layout,
        auxiliary: &mut [u8],
        changes: impl Iterator<Item = (usize, &'a [u8])>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    ) {
        let (cells, _) = auxiliary.as_chunks_mut::<CELL_BYTES>();
        for (offset, record) in changes {
            overwriting(offset, &cells[offset]);
            cells[offset] = leaf(record);
        }
    }

    fn update_above(
        layout: &Layout,
        auxiliary: &mut [u8],
        mut indices: Vec<usize>,
        overwriting: &mut impl FnMut(usize, &[u8; CELL_BYTES]),
    ) {
        let (cells, _) = auxiliary.as_chunks_mut::<CELL_BYTES>();
        // Level by level: paths that meet are hashed once, and the nodes of a level side by side.
        let (mut below, mut start) = (0, layout.partition_records());
        let (mut pairs, mut parents) = (Vec::with_capacity(indices.len()), vec![0; indices.len() * DIGEST_BYTES]);
        for width in widths(layout).skip(1) {
            for index in &mut indices {
                *index >>= 1;
            }
            indices.dedup();
            let children = &cells[below..start];
            pairs.clear();
            pairs.extend(indices.iter().map(|&index| {
                let right = children.get(2 * index + 1).unwrap_or(&[0; CELL_BYTES]);
                join(&children[2 * index], right)
            }));
            nodes(&pairs, &mut parents[..pairs.len() * DIGEST_BYTES]);
            let (parents, _) = parents.as_chunks();
            for (&index, parent) in indices.iter().zip(parents) {
                overwriting(start + index, &cells[start + index]);
                cells[start + index] = *parent;
            }
            (below, start) = (start, start + width);
        }
    }

    fn changing_cells(layout: &Layout, records: usize) -> usize {
        widths(layout).map(|width| width.min(records)).sum()
    }
}

impl OpenEntry for Merkle {
    fn proof_bytes(layout: &Layout) -> usize {
        layout.depth() as usize * DIGEST_BYTES
    }

    fn proof_cells(layout: &Layout, offset: usize) -> impl Iterator<Item = Option<usize>> {
        siblings(layout.partition_records(), layout.depth(), offset)
    }

    fn verify(
        layout: &Layout,
        commitment: &[u8; COMMITMENT_BYTES],
        offset: usize,
        record: &[u8],
        proof: &[u8],
    ) -> bool {
        let mut digest = leaf(record);
        for (level, sibling) in proof.chunks_exact(DIGEST_BYTES).enumerate() {
            digest =
                if offset >> level & 1 == 0 { node(&join(&digest, sibling)) } else { node(&join(sibling, &digest)) };
        }
        // The layout decides all lengths: a server chooses neither the depth nor the index.
        let lengths = record.len() == layout.record_bytes() && proof.len() == Self::proof_bytes(layout);
        blake3::Hash::from(digest) == blake3::Hash::from(*commitment) && lengths
    }
}

/// Where a tree stores the siblings of the record at `offset`, as numbers of nodes, lowest level first. `None`: the
/// sibling is beyond the end of its level, and counts as zeros.
fn siblings(partition_records: usize, depth: u32, offset: usize) -> impl Iterator<Item = Option<usize>> {
    let mut start = 0;
    (0..depth).map(move |level| {
        let width = partition_records.div_ceil(1 << level);
        let sibling = (offset >> level) ^ 1;
        let place = (sibling < width).then_some(start + sibling);
        start += width;
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(partition_records: usize, record_bytes: usize) -> Layout {
        Layout::new(1, record_bytes as u64, 1, partition_records as u64).unwrap()
    }

    fn tree(layout: &Layout, partition: &[u8]) -> Vec<u8> {
        let mut auxiliary = vec![0; Merkle::auxiliary_bytes(layout)];
        Merkle::build(layout, partition, &mut auxiliary);
        auxiliary
    }

    fn bytes(count: usize) -> Vec<u8> {
        let mut out = vec![0; count];
        blake3::Hasher::new().update(b"test records").finalize_xof().fill(&mut out);
        out
    }

    #[test]
    fn nodes_hashed_side_by_side_are_the_same() {
        for count in 0..=2 * MAX_SIMD_DEGREE + 3 {
            let children = bytes(count * 2 * DIGEST_BYTES);
            let (children, _) = children.as_chunks();
            let mut parents = vec![0; count * DIGEST_BYTES];
            nodes(children, &mut parents);
            let alone: Vec<u8> = children.iter().flat_map(node).collect();
            assert_eq!(parents, alone, "{count} nodes");
        }
    }

    #[test]
    fn every_offset_opens_and_every_flipped_bit_is_refused() {
        for records in [1, 2, 3, 4, 5, 7, 8, 9, 17] {
            let layout = layout(records, 3);
            let partition = bytes(records * 3);
            let tree = tree(&layout, &partition);
            let commitment = Merkle::commitment(&tree);
            let mut proof = vec![0; Merkle::proof_bytes(&layout)];
            for (offset, record) in partition.chunks_exact(3).enumerate() {
                open(&layout, &tree, offset, &mut proof);
                assert!(Merkle::verify(&layout, &commitment, offset, record, &proof));
                for bit in 0..(record.len() + proof.len()) * 8 {
                    let (mut record, mut proof) = (record.to_vec(), proof.clone());
                    let position = bit / 8;
                    let byte = if position < 3 { &mut record[position] } else { &mut proof[position - 3] };
                    *byte ^= 1 << (bit % 8);
                    assert!(!Merkle::verify(&layout, &commitment, offset, &record, &proof), "bit {bit}");
                }
                for other in (0..records).filter(|&other| other != offset) {
                    assert!(!Merkle::verify(&layout, &commitment, other, record, &proof), "index taken from the proof");
                }
            }
        }
    }

    fn open(layout: &Layout, tree: &[u8], offset: usize, proof: &mut [u8]) {
        for (cell, into) in Merkle::proof_cells(layout, offset).zip(proof.chunks_exact_mut(CELL_BYTES)) {
            into.copy_from_slice(cell.map_or(&[0; CELL_BYTES], |cell| &tree[cell * CELL_BYTES..][..CELL_BYTES]));
        }
    }

    // Leaves of 64 bytes that look like two digests must not pass as an inner node. A longer or shorter path must not pass as
    // the layout's.
    #[test]
    fn neither_a_node_as_leaf_nor_another_depth_is_accepted() {
        let inner = layout(2, 64);
        let partition = bytes(128);
        let tree = tree(&inner, &partition);
        let as_leaf = layout(1, 64);
        let commitment = Merkle::commitment(&tree);
        assert!(!Merkle::verify(&as_leaf, &commitment, 0, &tree[..64], &[]));
        assert!(!Merkle::verify(&inner, &commitment, 0, &partition[..64], &[]));
        assert!(!Merkle::verify(&inner, &commitment, 0, &partition[..64], &tree[..64]));
    }

    proptest! {
        // The update of another implementation left stale nodes.
        #[test]
        fn updates_equal_rebuilding(records in 1usize..40, updates in prop::collection::vec(prop::collection::btree_map(0usize..40, any::<[u8; 4]>(), 0..20), 0..3)) {
            let layout = layout(records, 4);
            let mut partition = bytes(records * 4);
            let mut updated = tree(&layout, &partition);
            for update in updates {
                let changes = || update.iter().map(|(offset, record)| (*offset, record.as_slice())).take_while(|(offset, _)| *offset < records);
                for (offset, record) in changes() {
                    partition[offset * 4..][..4].copy_from_slice(record);
                }
                let before = updated.clone();
                let mut previous = None;
                let mut told = 0;
                let mut overwriting = |cell: usize, old: &[u8; CELL_BYTES]| {
                    assert_eq!(&before[cell * CELL_BYTES..][..CELL_BYTES], old);
                    assert!(previous < Some(cell));
                    previous = Some(cell);
                    told += 1;
                };
                Merkle::update_leaves(&layout, &mut updated, changes(), &mut overwriting);
                let offsets: Vec<usize> = changes().map(|(offset, _)| offset).collect();
                let most = Merkle::changing_cells(&layout, offsets.len());
                Merkle::update_above(&layout, &mut updated, offsets, &mut overwriting);
                prop_assert!(told <= most);
                prop_assert_eq!(&updated, &tree(&layout, &partition));
            }
        }
    }
}
