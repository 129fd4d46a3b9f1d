//! Columns: the Merkle tree over them, and how a client checks one. The steps are the same whichever column it is.

use std::sync::OnceLock;

use super::{CAP_NODES, NODE_BYTES, Shape, equal};

type Digest = [u8; NODE_BYTES];

/// Keys of the hashes of leaves and of nodes, so that neither passes as the other.
fn keys() -> &'static [Digest; 2] {
    static KEYS: OnceLock<[Digest; 2]> = OnceLock::new();
    KEYS.get_or_init(|| {
        ["keyhush 2026-11 one-server leaf v2", "keyhush 2026-11 one-server node v2"]
            .map(|context| blake3::derive_key(context, &[]))
    })
}

/// The leaf of a column: the hash of all its rows before the path.
pub(super) fn leaf(rows: &[u8]) -> Digest {
    *blake3::keyed_hash(&keys()[0], rows).as_bytes()
}

fn node(left: &Digest, right: &Digest) -> Digest {
    let mut children = [0; 2 * NODE_BYTES];
    children[..NODE_BYTES].copy_from_slice(left);
    children[NODE_BYTES..].copy_from_slice(right);
    *blake3::keyed_hash(&keys()[1], &children).as_bytes()
}

/// The levels of the tree over columns, from the leaves to the one that a hint holds. A node beyond the end of a level counts as zeros.
pub(super) struct Tree(Vec<Vec<Digest>>);

impl Tree {
    pub(super) fn new(shape: &Shape, leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        for level in 0..shape.path {
            let above = levels[level].chunks(2).map(|pair| node(&pair[0], pair.get(1).unwrap_or(&[0; NODE_BYTES])));
            levels.push(above.collect());
        }
        Tree(levels)
    }

    /// The path of a column, lowest level first.
    pub(super) fn path(&self, column: usize) -> impl Iterator<Item = &Digest> {
        let below = self.0.split_last().map_or(&[][..], |(_, below)| below);
        below.iter().enumerate().map(move |(level, nodes)| nodes.get(column >> level ^ 1).unwrap_or(&[0; NODE_BYTES]))
    }

    /// The 64 nodes of a hint.
    pub(super) fn cap(&self) -> Vec<u8> {
        let mut cap = self.0.last().map(|nodes| nodes.concat()).unwrap_or_default();
        cap.resize(CAP_NODES * NODE_BYTES, 0);
        cap
    }
}

/// 1 if these bytes are column number `column` of the database with this cap, else 0.
pub(super) fn verify(shape: &Shape, cap: &[u8], column: u32, bytes: &[u8]) -> u64 {
    let (rows, path) = bytes.split_at(shape.leaf_bytes());
    let mut digest = leaf(rows);
    for (level, sibling) in path.as_chunks::<NODE_BYTES>().0.iter().enumerate() {
        let right = ((column >> level & 1) as u8).wrapping_neg();
        let swapped: Digest = std::array::from_fn(|i| (digest[i] ^ sibling[i]) & right);
        let first = std::array::from_fn(|i| digest[i] ^ swapped[i]);
        let second = std::array::from_fn(|i| sibling[i] ^ swapped[i]);
        digest = node(&first, &second);
    }
    let mut expected = [0; NODE_BYTES];
    for (number, node) in cap.chunks_exact(NODE_BYTES).enumerate() {
        let mask = (equal(number as u32, column >> shape.path) as u8).wrapping_neg();
        for (into, byte) in expected.iter_mut().zip(node) {
            *into |= byte & mask;
        }
    }
    let difference = digest.iter().zip(expected).fold(0, |bits, (a, b)| bits | u32::from(a ^ b));
    equal(difference, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_verified_and_every_changed_byte_refused() {
        for columns in [1u64, 2, 3, 64, 65, 67, 129, 200] {
            let shape = Shape::of_outputs(256, columns, 96, 8).unwrap();
            let per = shape.column_records as u64;
            let shape = Shape::of_outputs(256, columns * per, 96, 8).unwrap();
            let count = shape.columns;
            assert_eq!(shape.path, (depth_of(count)).saturating_sub(6));
            let rows = |c: usize| (0..shape.leaf_bytes()).map(|i| (i * 7 + c * 13) as u8).collect::<Vec<_>>();
            let tree = Tree::new(&shape, (0..count).map(|c| leaf(&rows(c))).collect());
            let cap = tree.cap();
            for c in (0..count).step_by(1 + count / 20) {
                let mut bytes = rows(c);
                tree.path(c).for_each(|node| bytes.extend_from_slice(node));
                assert_eq!(bytes.len(), shape.column_bytes());
                assert_eq!(verify(&shape, &cap, c as u32, &bytes), 1, "column {c} of {count}");
                if count > 1 {
                    assert_eq!(verify(&shape, &cap, ((c + 1) % count) as u32, &bytes), 0);
                }
                for at in 0..bytes.len() {
                    bytes[at] ^= 0x20;
                    assert_eq!(verify(&shape, &cap, c as u32, &bytes), 0, "byte {at} of column {c}");
                    bytes[at] ^= 0x20;
                }
            }
        }
    }

    fn depth_of(columns: usize) -> usize {
        super::super::depth(columns) as usize
    }
}
