//! The edits of an update: differences of blocks, and how many of them parities and pairs have.

use zeroize::Zeroize;

use super::geometry::Geometry;
use crate::bytes::xor_into;
use crate::database::list::UpdateList;

/// Differences of blocks, ascending by slot.
#[derive(Default)]
pub(crate) struct Edits {
    pub(super) slots: Vec<u32>,
    /// ℓ′ bytes each
    differences: Vec<u8>,
}

impl Edits {
    /// The edits of a list, in the partitions that are `wanted`.
    pub(crate) fn of(list: &UpdateList, wanted: impl Fn(usize) -> bool) -> Self {
        let (layout, mut edits) = (list.after(), Edits { slots: Vec::new(), differences: Vec::new() });
        for entry in list.entries() {
            let (q, m) = layout.place(entry.index);
            if !wanted(q) {
                continue;
            }
            let slot = (q * layout.partition_records() + m) as u32;
            if edits.slots.last() != Some(&slot) {
                edits.slots.push(slot);
                edits.differences.resize(edits.slots.len() * layout.record_bytes(), 0);
            }
            let start = edits.differences.len() - layout.record_bytes();
            xor_into(&mut edits.differences[start..][layout.slot(entry.index)], entry.difference);
        }
        edits
    }

    /// These edits, and the others from number `from` on.
    pub(super) fn with(&self, others: &Edits, from: usize, geometry: &Geometry) -> Self {
        let mut all = Edits::default();
        let (mut own, mut other) = (0, from);
        while let Some(&slot) = self.slots.get(own).into_iter().chain(others.slots.get(other)).min() {
            let start = all.differences.len();
            all.slots.push(slot);
            all.differences.resize(start + geometry.record_bytes(), 0);
            for (edits, edit) in [(self, &mut own), (others, &mut other)] {
                if edits.slots.get(*edit) == Some(&slot) {
                    xor_into(&mut all.differences[start..], edits.difference(*edit, geometry));
                    *edit += 1;
                }
            }
        }
        all
    }

    pub(super) fn difference(&self, edit: usize, geometry: &Geometry) -> &[u8] {
        &self.differences[edit * geometry.record_bytes()..][..geometry.record_bytes()]
    }
}

/// Edits that are being added to parities and pairs, some stripes in each step. Tags and extras have them already.
pub(crate) struct Editing {
    pub(super) edits: Edits,
    /// number of the first edit that has not been added
    pub(super) next: usize,
    /// by id: the slot of its hint; or H and the number of its pair; or [`NO_OWNER`]
    pub(super) owners: Vec<u32>,
}

/// The owner of an id that belongs to no hint and no backup.
pub(super) const NO_OWNER: u32 = u32::MAX;

impl Drop for Editing {
    fn drop(&mut self) {
        self.owners.zeroize();
    }
}
