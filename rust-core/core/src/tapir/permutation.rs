//! The client's secret permutations σ_q of [M], one for each partition, in one array: entry q·M + j is σ_q(j). Inverses are
//! not stored; a scan finds the column of an offset.

use crate::bytes::wipe;
use crate::error::Error;
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform, shuffle};

/// Q permutations of [M]. Secret: wiped when dropped, neither `Clone` nor `Debug`.
pub struct Permutations {
    entries: Vec<u16>,
    partition_records: usize,
}

impl Drop for Permutations {
    fn drop(&mut self) {
        wipe(&mut self.entries);
    }
}

impl Permutations {
    /// Q identities. Draw each with [`Permutations::draw`] before use.
    #[must_use]
    pub(crate) fn identities(layout: &Layout) -> Self {
        let mut entries = Vec::with_capacity(layout.slots()); // growing in steps would take up to three times the memory
        for _ in 0..layout.partitions() {
            entries.extend((0..layout.partition_records()).map(|j| j as u16));
        }
        Permutations { entries, partition_records: layout.partition_records() }
    }

    /// Q permutations drawn from one seed, each from a stream of its own.
    #[must_use]
    pub fn from_entropy(layout: &Layout, entropy: &[u8; ENTROPY_BYTES]) -> Self {
        let mut permutations = Self::identities(layout);
        for q in 0..layout.partitions() {
            permutations.draw(q, &mut ChaCha::new(entropy, q as u64));
        }
        permutations
    }

    /// Adds identities for the new partitions of a larger layout with the same M. Draw each before use.
    pub(crate) fn extend_with_identities(&mut self, after: &Layout) -> Result<(), Error> {
        let new = after.slots().saturating_sub(self.entries.len());
        self.entries
            .try_reserve_exact(new)
            .map_err(|_| Error::Layout("memory for new permutations could not be had; close other pages".into()))?;
        self.entries.extend((0..new).map(|i| (i % self.partition_records) as u16));
        Ok(())
    }

    /// Shuffles σ_q, which must be the identity, into a uniform permutation (Fisher–Yates; papers: TAPIR, Lemma 2.2.1).
    pub fn draw(&mut self, q: usize, source: &mut impl Uniform) {
        shuffle(self.of_mut(q), source);
    }

    /// Draws σ_q again, from the identity. For tests that enumerate all permutations.
    pub fn hazmat_redraw(&mut self, q: usize, source: &mut impl Uniform) {
        for (j, entry) in self.of_mut(q).iter_mut().enumerate() {
            *entry = j as u16;
        }
        self.draw(q, source);
    }

    /// σ_q as a slice: entry j is σ_q(j).
    #[must_use]
    pub fn of(&self, q: usize) -> &[u16] {
        &self.entries[q * self.partition_records..][..self.partition_records]
    }

    fn of_mut(&mut self, q: usize) -> &mut [u16] {
        &mut self.entries[q * self.partition_records..][..self.partition_records]
    }

    /// Swaps σ_q(a) and σ_q(b).
    pub(crate) fn swap(&mut self, q: usize, a: usize, b: usize) {
        self.of_mut(q).swap(a, b);
    }

    /// The column j with σ_q(j) = `offset`. Always reads the whole permutation without branching, so that its time does not
    /// reveal the column.
    #[must_use]
    pub(crate) fn column(&self, q: usize, offset: usize) -> usize {
        let mut column = 0;
        for (j, &entry) in self.of(q).iter().enumerate() {
            column |= j & usize::from(usize::from(entry) == offset).wrapping_neg();
        }
        column
    }

    /// All Q·M entries, one partition after the other.
    pub(crate) fn entries(&self) -> &[u16] {
        &self.entries
    }

    /// Makes permutations of stored entries; `None` unless they are Q permutations of [M].
    pub(crate) fn from_entries(layout: &Layout, entries: Vec<u16>) -> Option<Self> {
        let permutations = Permutations { entries, partition_records: layout.partition_records() };
        if permutations.entries.len() != layout.slots() {
            return None;
        }
        let mut seen_in = vec![usize::MAX; layout.partition_records()];
        for q in 0..layout.partitions() {
            for &entry in permutations.of(q) {
                let seen = seen_in.get_mut(usize::from(entry))?;
                if std::mem::replace(seen, q) == q {
                    return None;
                }
            }
        }
        Some(permutations)
    }

    /// Bytes of all entries: 2·Q·M.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_draw_is_a_bijection_and_column_inverts_it(seed: [u8; 32], q in 1u64..5, m in 1u64..300) {
            let layout = Layout::new(1, 1, q, m).unwrap();
            let permutations = Permutations::from_entropy(&layout, &seed);
            for q in 0..layout.partitions() {
                let mut sorted = permutations.of(q).to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.iter().enumerate().all(|(j, &entry)| j == usize::from(entry)));
                for (j, &entry) in permutations.of(q).iter().enumerate() {
                    prop_assert_eq!(permutations.column(q, usize::from(entry)), j);
                }
            }
        }
    }

    /// Pearson's χ² over all 24 permutations of 4, in 240 000 draws. The critical value of χ²(23) at 10⁻⁹ is 93.8.
    #[test]
    fn shuffles_are_uniform() {
        let layout = Layout::new(1, 1, 1, 4).unwrap();
        let mut counts = std::collections::HashMap::new();
        for trial in 0u64..240_000 {
            let mut permutations = Permutations::identities(&layout);
            permutations.draw(0, &mut ChaCha::new(&[7; 32], trial));
            *counts.entry(permutations.of(0).to_vec()).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let statistic: f64 = counts.values().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(statistic < 93.8, "{statistic}");
    }
}
