//! What an update changes: exactly the hints that contain an edited record, and its tag. All of it happens at the client, and
//! shows nothing.

use super::geometry::Geometry;
use super::hint::Hint;
use super::query::Pending;
use super::streams::{Function, GROUP, Kind};
use crate::bytes::xor_into;
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::tapir::update::HintUpdate;

/// So many edits of a stripe are looked for one by one.
const FEW: usize = 4;

/// Differences of blocks, ascending by slot.
pub(crate) struct Edits {
    slots: Vec<u32>,
    /// ℓ′ bytes each
    differences: Vec<u8>,
}

impl Edits {
    /// Of a list, those in the partitions that are wanted.
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
}

/// Whose an id is.
#[derive(Clone, Copy)]
enum Owner {
    Nobody,
    Slot(u32),
    Pair(u32),
}

/// The geometry that a list leads to, which is hints' own but for the slots.
pub(crate) fn followed(layout: &Layout, geometry: &Geometry, list: &UpdateList) -> Result<Geometry, Error> {
    if list.before() != layout {
        return Err(Error::Update("it starts from another layout"));
    }
    geometry.followed(list.after()).ok_or(Error::Update("the database outgrew what these hints were made for"))
}

impl<F: Function> Hint<F> {
    /// Adds edits to parities, pairs and tags.
    pub(crate) fn apply_edits(&mut self, edits: &Edits) {
        let geometry = self.geometry;
        let bytes = geometry.record_bytes();
        let difference = |edit: usize| &edits.differences[edit * bytes..][..bytes];
        let mut owners = vec![Owner::Nobody; self.cutoffs.len()];
        for (slot, &id) in self.ids.iter().enumerate() {
            owners[id as usize] = Owner::Slot(slot as u32);
        }
        for (pair, &id) in self.backups.iter().enumerate().skip(self.next) {
            owners[id as usize] = Owner::Pair(pair as u32);
        }
        let mut edited = vec![0u64; geometry.room().div_ceil(64)];
        for (edit, &slot) in edits.slots.iter().enumerate() {
            edited[slot as usize / 64] |= 1 << (slot % 64);
            self.tags.change(slot as usize, difference(edit));
        }
        for slot in 0..self.extras.len() {
            let extra = self.extras[slot];
            if edited[extra as usize / 64] >> (extra % 64) & 1 == 1
                && let Ok(edit) = edits.slots.binary_search(&extra)
            {
                xor_into(self.parity_mut(slot), difference(edit));
            }
        }

        // A stripe at a time: which edit an offset has, from 1 on.
        let mut by_offset = vec![0u32; geometry.stripe_records()];
        let mut hits: Vec<(u32, u32)> = Vec::new();
        let stripe_of = |slot: u32| geometry.place(slot as usize).0;
        let mut first = 0;
        for edits_of_stripe in edits.slots.chunk_by(|a, b| stripe_of(*a) == stripe_of(*b)) {
            let stripe = stripe_of(edits_of_stripe[0]);
            let edited: Vec<u16> = edits_of_stripe.iter().map(|&slot| geometry.place(slot as usize).1).collect();
            for (edit, &offset) in (first + 1..).zip(&edited) {
                by_offset[usize::from(offset)] = edit as u32;
            }
            let mut offsets = [0; GROUP];
            for number in 0..self.cutoffs.len() / GROUP {
                self.function.group(Kind::Offset, stripe, number, &mut offsets);
                let offsets = offsets.map(|value| geometry.offset(value));
                // Of few edits most groups have none, which is found out for many ids at once.
                let equal = |wanted: &u16| offsets.iter().fold(0, |found, offset| found | u8::from(offset == wanted));
                if edited.len() <= FEW && edited.iter().all(|wanted| equal(wanted) == 0) {
                    continue;
                }
                for (c, offset) in offsets.iter().enumerate() {
                    let edit = by_offset[usize::from(*offset)];
                    if edit != 0 {
                        hits.push(((number * GROUP + c) as u32, edit - 1));
                    }
                }
            }
            for &offset in &edited {
                by_offset[usize::from(offset)] = 0;
            }
            first += edits_of_stripe.len();
            for (id, edit) in hits.drain(..) {
                let difference = difference(edit as usize);
                match owners[id as usize] {
                    Owner::Nobody => {}
                    Owner::Slot(slot) => {
                        if self.is_below(stripe, id) != self.flips[slot as usize] {
                            xor_into(self.parity_mut(slot as usize), difference);
                        }
                    }
                    Owner::Pair(pair) => {
                        let above = !self.is_below(stripe, id);
                        xor_into(self.half_mut(pair as usize, above), difference);
                    }
                }
            }
        }
    }

    /// Brings the hint, and the batch pending on it, to the next epoch. The batch keeps its bytes, which are to be answered at
    /// the new one; what was verified for it is forgotten.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::State`] if the update is another hint's or not the next one; [`Error::Update`] if it
    /// starts from another layout, or leads to one of another geometry. Nothing has changed then.
    pub fn update(&mut self, pending: Option<&mut Pending>, update: &HintUpdate) -> Result<(), Error> {
        if self.condemned {
            return Err(Error::Condemned);
        }
        if update.stamp != self.stamp || pending.as_ref().is_some_and(|pending| pending.stamp != self.stamp) {
            return Err(Error::State("an update of another hint, or out of order"));
        }
        self.geometry = followed(&self.layout, &self.geometry, &update.list)?;
        self.apply_edits(&Edits::of(&update.list, |_| true));
        self.layout = *update.list.after();
        self.stamp.version += 1;
        if let Some(pending) = pending {
            pending.stamp = self.stamp;
            pending.verified = None;
        }
        Ok(())
    }
}
