//! A client's hint: everything it keeps between lookups.

use super::drawing::Drawn;
use super::edits::Editing;
use super::geometry::Geometry;
use super::streams::{Function, Keyed, Kind};
use super::table::{RowName, Table};
use crate::bytes::{reserved, wipe, xor_into};
use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::key::Secret;
use crate::layout::Layout;
use crate::stored::Stamp;

/// H hints in their slots (one array for each property of hints), the backups that are left, and the tags of all records.
/// Secret, and never copied: neither `Clone` nor `Debug`.
///
/// - A hint *chooses* half of the stripes. A stripe is chosen if its selection is *below* the hint's cutoff. If the hint is
///   flipped, a stripe is chosen if its selection is not below.
/// - A hint contains a record of each chosen stripe, at its own offset, and its extra, a record of a stripe that is not
///   chosen. Its parity is the XOR of these records.
/// - A backup has two parities: that of the half below, and that of the half above.
/// - A query also shows the hint's own offsets in the other stripes (neither chosen nor the extra's). The hint has the sum
///   of their tags, so that verifying an answer needs no tags but those of the queried stripe.
pub struct Hint<F = Keyed> {
    pub(crate) layout: Layout,
    pub(crate) geometry: Geometry,
    pub(crate) stamp: Stamp,
    pub(crate) secret: Secret,
    pub(crate) function: F,
    pub(crate) tags: Table,
    /// by id, whole groups
    pub(crate) cutoffs: Vec<i16>,
    /// by slot
    pub(crate) ids: Vec<u32>,
    /// by id: twice its slot, plus 1 if the hint is flipped; [`NOWHERE`] if it is in no slot
    pub(crate) slots: Vec<u32>,
    /// by slot: the index of the extra
    pub(crate) extras: Vec<u32>,
    /// by slot: ℓ′ bytes
    pub(crate) parities: Vec<u8>,
    /// by slot: the sum of the tags, at the hint's own offsets, of the stripes that are neither chosen nor the extra's
    pub(crate) rests: Vec<u64>,
    /// by pair: the backup's id
    pub(crate) backups: Vec<u32>,
    /// by pair: 2·ℓ′ bytes, below and above
    pub(crate) pairs: Vec<u8>,
    /// number of used pairs
    pub(crate) next: usize,
    /// the last update's edits that parities and pairs lack
    pub(crate) editing: Option<Editing>,
    pub(crate) condemned: bool,
}

impl<F> Drop for Hint<F> {
    /// The other secrets wipe themselves.
    fn drop(&mut self) {
        wipe(&mut self.cutoffs);
        wipe(&mut self.parities);
        wipe(&mut self.rests);
        wipe(&mut self.pairs);
        for numbers in [&mut self.ids, &mut self.slots, &mut self.extras, &mut self.backups] {
            wipe(numbers);
        }
    }
}

/// In [`Hint::slots`]: the id is in no slot.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The entry of [`Hint::slots`] for a slot. Entries compare as slots do.
pub(crate) fn slot_entry(slot: usize, flip: bool) -> u32 {
    2 * slot as u32 + u32::from(flip)
}

impl<F: Function> Hint<F> {
    /// Hints with parities of zeros.
    pub(crate) fn new(
        sizes: (Layout, Geometry),
        stamp: Stamp,
        secrets: (Secret, F, Table),
        drawn: Drawn,
    ) -> Result<Self, Error> {
        let mut hint = Self::without_parities(sizes, stamp, secrets, drawn)?;
        hint.parities.resize(hint.geometry.hints() * hint.geometry.record_bytes(), 0);
        hint.rests.resize(hint.geometry.hints(), 0);
        hint.pairs.resize(hint.backups.len() * hint.geometry.answer_bytes(), 0);
        Ok(hint)
    }

    /// Hints whose parities, sums and pairs are empty and have room.
    pub(crate) fn without_parities(
        (layout, geometry): (Layout, Geometry),
        stamp: Stamp,
        (secret, function, tags): (Secret, F, Table),
        mut drawn: Drawn,
    ) -> Result<Self, Error> {
        let hints = geometry.hints();
        let backups = drawn.ids.split_off(hints);
        let mut slots = vec![NOWHERE; drawn.cutoffs.len()];
        for (slot, &id) in drawn.ids.iter().enumerate() {
            slots[id as usize] = slot_entry(slot, false);
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
            parities: reserved(hints * geometry.record_bytes())?,
            rests: Vec::with_capacity(hints),
            pairs: reserved(backups.len() * geometry.answer_bytes())?,
            backups,
            next: 0,
            editing: None,
            condemned: false,
        })
    }

    /// Empties parities, sums and pairs, which are then read.
    pub(crate) fn empty(&mut self) {
        self.parities.clear();
        self.rests.clear();
        self.pairs.clear();
    }

    /// The layout at its epoch.
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

    /// The number of queries it was made for.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.backups.len()
    }

    /// The number of queries that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.backups.len() - self.next
    }

    /// Bytes of hints and backups, without tags.
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

    /// The names of its rows of tags, one for each stripe; empty if all tags are in memory.
    #[must_use]
    pub fn rows(&self) -> &[RowName] {
        self.tags.names()
    }

    /// The name of a row to renew before the next checkpoint. There is one if enough tags have changed. Once renewing has
    /// `begun`, any changed tag is enough.
    #[must_use]
    pub fn stale(&self, begun: bool) -> Option<RowName> {
        self.tags.stale(begun)
    }

    /// Marks the hint as unusable, for good.
    pub fn condemn(&mut self) {
        self.condemned = true;
    }

    /// Whether the hint is condemned.
    #[must_use]
    pub fn is_condemned(&self) -> bool {
        self.condemned
    }

    /// Whether a stripe's selection is below an id's cutoff.
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

    /// The parity of one half of a backup: below, or above.
    pub(crate) fn half(&self, pair: usize, above: bool) -> &[u8] {
        let bytes = self.geometry.record_bytes();
        &self.pairs[(2 * pair + usize::from(above)) * bytes..][..bytes]
    }

    pub(crate) fn half_mut(&mut self, pair: usize, above: bool) -> &mut [u8] {
        let bytes = self.geometry.record_bytes();
        &mut self.pairs[(2 * pair + usize::from(above)) * bytes..][..bytes]
    }

    /// Puts a backup into a slot: the half that does not choose the stripe of `index`, with `index` as its extra. Returns what
    /// was in the slot. The slot's parity does not change.
    pub(crate) fn replace(&mut self, slot: usize, pair: usize, index: u32) -> (u32, bool, u32) {
        let id = self.backups[pair];
        let (stripe, _) = self.geometry.place(index as usize);
        let flip = self.is_below(stripe, id);
        self.put_back(slot, (id, flip, index))
    }

    /// The slot of a hint's own record in a stripe, whatever its extra is.
    pub(crate) fn own_slot(&self, stripe: usize, id: u32) -> usize {
        let mut offset = [0];
        self.function.of_id(Kind::Offset, stripe, id, &mut offset);
        stripe * self.geometry.stripe_records() + usize::from(self.geometry.offset(offset[0]))
    }

    pub(crate) fn put_back(&mut self, slot: usize, (id, flip, extra): (u32, bool, u32)) -> (u32, bool, u32) {
        let before = (self.ids[slot], self.is_flipped(slot), self.extras[slot]);
        self.slots[before.0 as usize] = NOWHERE;
        self.slots[id as usize] = slot_entry(slot, flip);
        (self.ids[slot], self.extras[slot]) = (id, extra);
        before
    }

    pub(crate) fn is_flipped(&self, slot: usize) -> bool {
        self.slots[self.ids[slot] as usize] & 1 == 1
    }
}

impl<F: Function> Hint<F> {
    /// For tests: of each stripe, whether the hint in a slot contains a record of it, and the offset it would ask for.
    #[must_use]
    pub fn hazmat_own(&self, slot: usize) -> Vec<(bool, u16)> {
        self.own(slot)
    }

    /// For tests: whether all parities, sums, backups and tags agree with a database, which is read one slot at a time.
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
