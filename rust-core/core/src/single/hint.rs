//! What a client holds between lookups.

use zeroize::ZeroizeOnDrop;

use super::drawing::Drawn;
use super::edits::Editing;
use super::geometry::Geometry;
use super::streams::{Function, Keyed, Kind};
use super::table::{RowName, Table};
use crate::bytes::{xor_into, zeroed};
use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::key::Secret;
use crate::layout::Layout;
use crate::tapir::hint::Stamp;

/// H hints in their slots, a column for each of what a hint is made of, the backups that are left, and the tags of all
/// records. Secret and unique: neither `Clone` nor `Debug`.
///
/// A hint contains the records of its *chosen* stripes, at its own offsets, and its extra, in a stripe that is not chosen;
/// its parity is their XOR. A stripe is chosen if its selection is *below* the cutoff; or, if the hint is flipped, if it
/// is not. A backup has the parity of the half below, and that of the half above. Of the stripes that are neither chosen nor
/// the extra's a query shows the hint's own offsets as well; the sum of their tags is kept, so that verifying an answer takes
/// tags of the queried stripe alone.
#[derive(ZeroizeOnDrop)]
pub struct Hint<F = Keyed> {
    #[zeroize(skip)]
    pub(crate) layout: Layout,
    #[zeroize(skip)]
    pub(crate) geometry: Geometry,
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// zeroizes itself, as do function and tags
    #[zeroize(skip)]
    pub(crate) secret: Secret,
    #[zeroize(skip)]
    pub(crate) function: F,
    #[zeroize(skip)]
    pub(crate) tags: Table,
    /// by id, whole groups
    pub(crate) cutoffs: Vec<i16>,
    /// by slot
    pub(crate) ids: Vec<u32>,
    /// by id: twice its slot, and 1 more if the hint is flipped; [`NOWHERE`] of those that are in none
    pub(crate) slots: Vec<u32>,
    /// by slot: the index of the extra
    pub(crate) extras: Vec<u32>,
    /// ℓ′ bytes a slot
    pub(crate) parities: Vec<u8>,
    /// by slot: the sum of the tags, at its own offsets, of the stripes that are neither chosen nor the extra's
    pub(crate) rests: Vec<u64>,
    /// ids, by pair
    pub(crate) backups: Vec<u32>,
    /// 2·ℓ′ bytes a pair: below, above
    pub(crate) pairs: Vec<u8>,
    /// pairs used
    pub(crate) next: usize,
    /// of the last update, what parities and pairs lack; zeroizes itself
    #[zeroize(skip)]
    pub(crate) editing: Option<Editing>,
    pub(crate) condemned: bool,
}

/// More than any slot.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Slots compare as what says them does.
pub(crate) fn of_slot(slot: usize, flip: bool) -> u32 {
    2 * slot as u32 + u32::from(flip)
}

impl<F: Function> Hint<F> {
    /// Without parities.
    pub(crate) fn new(
        (layout, geometry): (Layout, Geometry),
        stamp: Stamp,
        (secret, function, tags): (Secret, F, Table),
        mut drawn: Drawn,
    ) -> Result<Self, Error> {
        let hints = geometry.hints();
        let backups = drawn.ids.split_off(hints);
        let mut slots = vec![NOWHERE; drawn.cutoffs.len()];
        for (slot, &id) in drawn.ids.iter().enumerate() {
            slots[id as usize] = of_slot(slot, false);
        }
        Ok(Hint {
            layout,
            geometry,
            stamp,
            secret,
            function,
            tags,
            cutoffs: drawn.cutoffs,
            ids: drawn.ids,
            slots,
            extras: drawn.extras,
            parities: zeroed(hints * geometry.record_bytes())?,
            rests: vec![0; hints],
            pairs: zeroed(backups.len() * geometry.answer_bytes())?,
            backups,
            next: 0,
            editing: None,
            condemned: false,
        })
    }

    /// The layout it was made for.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its id and version.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Queries it was made for.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.backups.len()
    }

    /// Queries it is good for still.
    #[must_use]
    pub fn left(&self) -> usize {
        self.backups.len() - self.next
    }

    /// Bytes of hints and backups, tags apart.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        let (of_hints, of_ids) = (size_of::<u32>() * 2 + TAG_BYTES, size_of::<i16>() + size_of::<u32>());
        let numbers = self.ids.len() * of_hints + self.cutoffs.len() * of_ids + self.backups.len() * 4;
        self.parities.len() + numbers + self.pairs.len()
    }

    /// Bytes of tags in memory.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        self.tags.bytes()
    }

    /// The names of the rows of tags that it consists of besides, a stripe each; none: all is in memory.
    #[must_use]
    pub fn rows(&self) -> &[RowName] {
        self.tags.names()
    }

    /// The name of a row that is to be made anew, with what updates have changed, before a checkpoint is written: if that is
    /// worth while, or, once it was `begun`, if any has changed.
    #[must_use]
    pub fn stale(&self, begun: bool) -> Option<RowName> {
        self.tags.stale(begun)
    }

    /// Never to be used again.
    pub fn condemn(&mut self) {
        self.condemned = true;
    }

    /// Whether it was condemned.
    #[must_use]
    pub fn is_condemned(&self) -> bool {
        self.condemned
    }

    /// Whether a stripe is below an id's cutoff.
    pub(crate) fn is_below(&self, stripe: usize, id: u32) -> bool {
        self.function.selection(stripe, id) < self.cutoffs[id as usize]
    }

    pub(crate) fn parity(&self, slot: usize) -> &[u8] {
        let bytes = self.geometry.record_bytes();
        &self.parities[slot * bytes..][..bytes]
    }

    pub(crate) fn parity_mut(&mut self, slot: usize) -> &mut [u8] {
        let bytes = self.geometry.record_bytes();
        &mut self.parities[slot * bytes..][..bytes]
    }

    /// The parity of a backup's half: below, or above.
    pub(crate) fn half(&self, pair: usize, above: bool) -> &[u8] {
        let bytes = self.geometry.record_bytes();
        &self.pairs[(2 * pair + usize::from(above)) * bytes..][..bytes]
    }

    pub(crate) fn half_mut(&mut self, pair: usize, above: bool) -> &mut [u8] {
        let bytes = self.geometry.record_bytes();
        &mut self.pairs[(2 * pair + usize::from(above)) * bytes..][..bytes]
    }

    /// Puts the half of a backup that does not choose the stripe of `index` in a slot, with `index` for its extra. Gives
    /// what was there; the parity stays.
    pub(crate) fn replace(&mut self, slot: usize, pair: usize, index: u32) -> (u32, bool, u32) {
        let id = self.backups[pair];
        let (stripe, _) = self.geometry.place(index as usize);
        let flip = self.is_below(stripe, id);
        self.put_back(slot, (id, flip, index))
    }

    /// The slot of the record that a hint would read of a stripe, were it not for its extra.
    pub(crate) fn own_slot(&self, stripe: usize, id: u32) -> usize {
        let mut offset = [0];
        self.function.of_id(Kind::Offset, stripe, id, &mut offset);
        stripe * self.geometry.stripe_records() + usize::from(self.geometry.offset(offset[0]))
    }

    pub(crate) fn put_back(&mut self, slot: usize, (id, flip, extra): (u32, bool, u32)) -> (u32, bool, u32) {
        let before = (self.ids[slot], self.is_flipped(slot), self.extras[slot]);
        self.slots[before.0 as usize] = NOWHERE;
        self.slots[id as usize] = of_slot(slot, flip);
        (self.ids[slot], self.extras[slot]) = (id, extra);
        before
    }

    pub(crate) fn is_flipped(&self, slot: usize) -> bool {
        self.slots[self.ids[slot] as usize] & 1 == 1
    }
}

impl<F: Function> Hint<F> {
    /// Of each stripe, whether the hint in a slot contains a record of it, and the offset it would ask for: for tests.
    #[must_use]
    pub fn hazmat_own(&self, slot: usize) -> Vec<(bool, u16)> {
        self.own(slot)
    }

    /// Whether all parities, sums, backups and tags are those of a database, read a slot at a time: for tests.
    #[must_use]
    pub fn hazmat_agrees_with(&mut self, record: &mut impl FnMut(usize) -> Vec<u8>) -> bool {
        self.settle();
        let (q, bytes) = (self.geometry.stripes(), self.geometry.record_bytes());
        let zeros = vec![0; bytes];
        let records: Vec<Vec<u8>> = (0..self.geometry.room())
            .map(|slot| if slot < self.geometry.slots() { record(slot) } else { zeros.clone() })
            .collect();
        // Both halves' sums, and how many stripes are below.
        let halves = |id: u32| {
            let mut sums = [zeros.clone(), zeros.clone()];
            let mut below = 0;
            let mut offsets = vec![0; q];
            self.function.of_id(Kind::Offset, 0, id, &mut offsets);
            for (stripe, offset) in offsets.into_iter().enumerate() {
                let side = usize::from(!self.is_below(stripe, id));
                below += 1 - side;
                let slot = stripe * self.geometry.stripe_records() + usize::from(self.geometry.offset(offset));
                xor_into(&mut sums[side], &records[slot]);
            }
            (sums, below)
        };
        let slots = (0..self.ids.len()).all(|slot| {
            let (mut sums, below) = halves(self.ids[slot]);
            let (stripe, _) = self.geometry.place(self.extras[slot] as usize);
            let chosen = &mut sums[usize::from(self.is_flipped(slot))];
            xor_into(chosen, &records[self.extras[slot] as usize]);
            let is_chosen = self.is_below(stripe, self.ids[slot]) != self.is_flipped(slot);
            let rest = (0..q).filter(|&k| k != stripe && self.is_below(k, self.ids[slot]) == self.is_flipped(slot));
            let rest = rest.fold(0, |sum, k| sum ^ self.tags.tag(&records[self.own_slot(k, self.ids[slot])]));
            below == q / 2 && !is_chosen && *chosen == self.parity(slot) && rest == self.rests[slot]
        });
        let pairs = (self.next..self.backups.len()).all(|pair| {
            let (sums, below) = halves(self.backups[pair]);
            below == q / 2 && sums[0] == self.half(pair, false) && sums[1] == self.half(pair, true)
        });
        slots && pairs && self.tags.hazmat_agrees_with(&self.secret, &records)
    }
}
