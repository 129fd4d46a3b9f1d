//! Applies an update: changes exactly the hints that contain an edited record, and its tag. The client does all of it alone; a
//! server sees nothing.

use super::edits::{Editing, Edits, NO_OWNER};
use super::geometry::Geometry;
use super::hint::Hint;
use super::query::Pending;
use super::streams::{Function, GROUP, Kind};
use crate::bytes::xor_into;
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::stored::HintUpdate;

/// Up to this many edits of a stripe are searched for one by one.
const FEW: usize = 4;

/// Stream values computed in one step, or those of one stripe: some milliseconds.
const STEP_VALUES: usize = 1 << 18;

/// The geometry after a list: the hint's own, except for the number of slots.
pub(crate) fn followed(layout: &Layout, geometry: &Geometry, list: &UpdateList) -> Result<Geometry, Error> {
    if list.before() != layout {
        return Err(Error::Update("it starts from another layout"));
    }
    geometry.followed(list.after()).ok_or(Error::Update("the database outgrew these hints; prepare a new one"))
}

impl<F: Function> Hint<F> {
    /// Adds edits to tags and extras. [Steps](Self::step) add them to parities and pairs, together with earlier edits that are
    /// left. Calls that need finished parities do all steps.
    pub(crate) fn begin_edits(&mut self, edits: Edits) {
        let geometry = self.geometry;
        let mut edited = vec![0u64; geometry.room().div_ceil(64)];
        for (edit, &slot) in edits.slots.iter().enumerate() {
            edited[slot as usize / 64] |= 1 << (slot % 64);
            self.tags.change(slot as usize, edits.difference(edit, &geometry));
        }
        for slot in 0..self.extras.len() {
            let extra = self.extras[slot];
            if edited[extra as usize / 64] >> (extra % 64) & 1 == 1
                && let Ok(edit) = edits.slots.binary_search(&extra)
            {
                xor_into(self.parity_mut(slot), edits.difference(edit, &geometry));
            }
        }
        self.editing = Some(match self.editing.take() {
            None => Editing { edits, next: 0, owners: self.owners() },
            Some(mut editing) => {
                editing.edits = edits.with(&editing.edits, editing.next, &geometry);
                editing.next = 0;
                editing
            }
        });
    }

    fn owners(&self) -> Vec<u32> {
        let mut owners = vec![NO_OWNER; self.cutoffs.len()];
        for (owner, &id) in self.ids.iter().enumerate() {
            owners[id as usize] = owner as u32;
        }
        for (pair, &id) in self.backups.iter().enumerate().skip(self.next) {
            owners[id as usize] = (self.ids.len() + pair) as u32;
        }
        owners
    }

    /// Records that an id belongs to no hint any more. If its backup was put into a slot, that slot gets the edits that are left.
    pub(crate) fn reassign_edits(&mut self, before: u32, slot: Option<usize>) {
        if let Some(editing) = &mut self.editing {
            editing.owners[before as usize] = NO_OWNER;
            if let Some(slot) = slot {
                editing.owners[self.ids[slot] as usize] = slot as u32;
            }
        }
    }

    /// The tag of a slot's edits that parities lack. Tags of records have them already.
    pub(crate) fn tag_of_edits_left(&self, slot: usize) -> u64 {
        let Some(Editing { edits, next, .. }) = &self.editing else { return 0 };
        match edits.slots[*next..].binary_search(&(slot as u32)) {
            Ok(edit) => self.tags.tag(edits.difference(next + edit, &self.geometry)),
            Err(_) => 0,
        }
    }

    /// Does a part of the work that an update has left. Returns whether there is more to do.
    pub fn step(&mut self) -> bool {
        let Some(mut editing) = self.editing.take() else { return false };
        for _ in 0..(STEP_VALUES / self.cutoffs.len()).max(1) {
            if editing.next == editing.edits.slots.len() {
                return false;
            }
            self.edit_stripe(&mut editing);
        }
        self.editing = Some(editing);
        true
    }

    /// Does all steps that are left.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Adds the edits of the next stripe that has any.
    fn edit_stripe(&mut self, Editing { edits, next, owners }: &mut Editing) {
        let geometry = self.geometry;
        let (stripe, _) = geometry.place(edits.slots[*next] as usize);
        let (first, rest) = (*next, &edits.slots[*next..]);
        let edited: Vec<u16> = rest
            .iter()
            .map(|&slot| geometry.place(slot as usize))
            .take_while(|(of, _)| *of == stripe)
            .map(|(_, offset)| offset)
            .collect();
        *next += edited.len();
        // The edit of each offset, counted from 1; 0: none.
        let mut by_offset = vec![0u32; geometry.stripe_records()];
        for (edit, &offset) in (first + 1..).zip(&edited) {
            by_offset[usize::from(offset)] = edit as u32;
        }
        let mut offsets = [0; GROUP];
        for number in 0..self.cutoffs.len() / GROUP {
            self.function.group(Kind::Offset, stripe, number, &mut offsets);
            let offsets = offsets.map(|value| geometry.offset(value));
            // If there are few edits, most groups have none. That is tested for many ids at once.
            let equal = |wanted: &u16| offsets.iter().fold(0, |found, offset| found | u8::from(offset == wanted));
            if edited.len() <= FEW && edited.iter().all(|wanted| equal(wanted) == 0) {
                continue;
            }
            for (c, offset) in offsets.iter().enumerate() {
                let edit = by_offset[usize::from(*offset)];
                if edit != 0 {
                    let id = number * GROUP + c;
                    self.edit_hint(owners[id], stripe, id as u32, edits.difference(edit as usize - 1, &geometry));
                }
            }
        }
    }

    /// Adds an edit to the hint or backup of an id whose own offset in the stripe is the edited record's.
    fn edit_hint(&mut self, owner: u32, stripe: usize, id: u32, difference: &[u8]) {
        let owner = owner as usize;
        if owner < self.ids.len() {
            if self.is_below(stripe, id) != self.is_flipped(owner) {
                xor_into(self.parity_mut(owner), difference);
            } else if self.geometry.place(self.extras[owner] as usize).0 != stripe {
                self.rests[owner] ^= self.tags.tag(difference);
            }
        } else if owner != NO_OWNER as usize {
            let above = !self.is_below(stripe, id);
            xor_into(self.half_mut(owner - self.ids.len(), above), difference);
        }
    }

    /// Brings the hint and its pending lookup to the next epoch. The lookup keeps its bytes, which must be answered at the new
    /// epoch. Verified parities are dropped. [Steps](Self::step) do most of the work; calls that need it done do the steps left.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::State`] if the update is another hint's, or not the next one; [`Error::Update`] if it
    /// starts from another layout, or leads to another geometry. Then nothing has changed.
    pub fn update(&mut self, pending: Option<&mut Pending>, update: &HintUpdate) -> Result<(), Error> {
        if self.condemned {
            return Err(Error::Condemned);
        }
        if update.stamp != self.stamp || pending.as_ref().is_some_and(|pending| pending.stamp != self.stamp) {
            return Err(Error::State("an update of another hint, or out of order"));
        }
        self.geometry = followed(&self.layout, &self.geometry, &update.list)?;
        self.begin_edits(Edits::of(&update.list, |_| true));
        self.layout = *update.list.after();
        self.stamp.version += 1;
        if let Some(pending) = pending {
            pending.stamp = self.stamp;
            pending.verified = None;
        }
        Ok(())
    }
}
