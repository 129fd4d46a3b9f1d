//! A client's hints: finds one, makes a query from it, replaces it.

use super::drawing::{Drawn, TOGETHER, Values, place_of, place_of_offset, read, values_of};
use super::{Deviation, Geometry, Search};
use crate::error::{Error, expect_bytes};
use crate::prg::{Block, Prg};
use crate::random::{Uniform, shuffle};
use crate::xor::xor;

/// Slots searched in one step.
const STEP: usize = 128;

/// The H slots of a client, with an array for each property of hints.
pub struct Slots<P: Prg> {
    prg: P,
    geometry: Geometry,
    numbers: Vec<u64>,
    cutoffs: Vec<i16>,
    /// whether the chosen half is the one above the cutoff
    flips: Vec<bool>,
    extras: Vec<u32>,
    parities: Vec<u8>,
    deviation: Deviation,
}

/// A query, and what is needed to read its answer.
pub struct Pending {
    /// the bytes for the server
    pub query: Vec<u8>,
    index: usize,
    /// the hint's slot and the number of the real subset; none if no hint contained the record
    used: Option<(usize, usize)>,
}

/// A backup: its number, and the parities below and above its cutoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// number
    pub number: u64,
    /// cutoff
    pub cutoff: i16,
    /// below and above, 2·ℓ bytes
    pub parities: Vec<u8>,
}

impl<P: Prg> Slots<P> {
    /// Puts the first `geometry.hints` drawn hints into slots.
    pub fn new(prg: P, geometry: Geometry, drawn: &Drawn, parities: Vec<u8>, deviation: Deviation) -> Self {
        let h = geometry.hints;
        Slots {
            prg,
            geometry,
            numbers: drawn.numbers[..h].to_vec(),
            cutoffs: drawn.cutoffs[..h].to_vec(),
            flips: vec![false; h],
            extras: drawn.extras[..h].to_vec(),
            parities,
            deviation,
        }
    }

    /// Bytes of numbers (4 each if all fit), cutoffs, flips, extra indices and parities.
    pub fn bytes(&self) -> usize {
        let number = if self.numbers.iter().all(|&number| number >> 32 == 0) { 4 } else { 8 };
        self.numbers.len() * (number + 2 + 4) + self.flips.len().div_ceil(8) + self.parities.len()
    }

    /// (chosen, offset) of the hint in `slot` for each stripe, without its extra.
    fn values(&self, slot: usize) -> impl Iterator<Item = (bool, usize)> {
        let (cutoff, flip) = (self.cutoffs[slot], self.flips[slot]);
        let values = values_of(&self.prg, &self.geometry, self.numbers[slot]);
        values.into_iter().map(move |(value, offset)| ((value < cutoff) != flip, offset))
    }

    /// Whether the hint in `slot` chooses a stripe, without its extra.
    fn chooses(&self, slot: usize, stripe: usize) -> bool {
        let mut values = Values::default();
        self.prg.fill(self.numbers[slot], place_of(stripe), &mut values);
        (read(&values).0[stripe % TOGETHER] < self.cutoffs[slot]) != self.flips[slot]
    }

    /// The first slot whose hint contains the record.
    pub fn find(&self, index: usize, search: Search) -> Option<usize> {
        let (stripe, wanted) = self.geometry.place(index);
        let (place, nth) = place_of_offset(stripe);
        let mut table = [[Block::default()]; STEP];
        let mut found = None;
        for (step, numbers) in self.numbers.chunks(STEP).enumerate() {
            let table = &mut table[..numbers.len()];
            self.prg.table(numbers, place, table);
            for (slot, [block]) in (step * STEP..).zip(&*table) {
                // The offset is the wanted one once in s times. Only then is the selection computed.
                let offset = u16::from_le_bytes([block[2 * nth], block[2 * nth + 1]]);
                let own = self.geometry.offset(offset) == wanted && self.chooses(slot, stripe);
                let extra = self.extras[slot] as usize == index && self.deviation != Deviation::SearchIgnoresExtra;
                if found.is_none() && (own || extra) {
                    found = Some(slot);
                }
            }
            if found.is_some() && search == Search::UntilFound {
                break;
            }
        }
        found
    }

    /// Algorithm 2, lines 2 to 16: the query for a record. If no hint contains it, a query with the same distribution.
    pub fn query(&self, index: usize, search: Search, source: &mut impl Uniform) -> Result<Pending, Error> {
        self.geometry.check(index)?;
        let Geometry { stripes: q, stripe_records: s, .. } = self.geometry;
        let (queried, wanted) = self.geometry.place(index);
        let slot = self.find(index, search);
        if slot.is_none() && self.deviation == Deviation::SilentWhenUnlucky {
            return Ok(Pending { query: Vec::new(), index, used: None });
        }
        let mut subsets = vec![false; q];
        let mut offsets = vec![0; q];
        let swap = self.deviation != Deviation::NoCoin && source.coin();
        if let Some(slot) = slot {
            let extra = self.geometry.place(self.extras[slot] as usize);
            for (k, (chosen, own)) in self.values(slot).enumerate() {
                let (real, offset) = match k {
                    _ if k == queried => (false, self.dummy(k == queried, wanted, source)), // lines 14, 15
                    _ if k == extra.0 => (true, extra.1),                                   // line 9
                    _ if chosen => (true, own),                                             // line 7
                    _ => (false, self.dummy(false, wanted, source)),                        // line 11
                };
                subsets[k] = real != swap;
                offsets[k] = offset;
            }
        } else {
            let mut order: Vec<usize> = (0..q).collect();
            shuffle(&mut order, source);
            order[..q / 2].iter().for_each(|&k| subsets[k] = true);
            offsets.iter_mut().for_each(|offset| *offset = source.below(s as u32) as usize);
        }
        let mut query = vec![0; q.div_ceil(8)];
        for (k, &subset) in subsets.iter().enumerate() {
            query[k / 8] |= u8::from(subset) << (k % 8);
        }
        for offset in offsets {
            query.extend_from_slice(&(offset as u16).to_le_bytes());
        }
        Ok(Pending { query, index, used: slot.map(|slot| (slot, usize::from(!swap))) })
    }

    fn dummy(&self, queried: bool, wanted: usize, source: &mut impl Uniform) -> usize {
        let s = self.geometry.stripe_records;
        match self.deviation {
            Deviation::DummyIsQueried if queried => wanted,
            Deviation::DummyAvoidsQueried if queried => (wanted + 1 + source.below(s as u32 - 1) as usize) % s,
            _ => source.below(s as u32) as usize,
        }
    }

    /// Algorithm 2, line 18: the record, from the answer to its query.
    pub fn read(&self, pending: &Pending, answer: &[u8]) -> Result<Vec<u8>, Error> {
        let bytes = self.geometry.record_bytes;
        expect_bytes("answer", answer, self.geometry.answer_bytes())?;
        let (slot, real) = pending.used.ok_or(Error::Unlucky)?;
        let mut record = self.parities[slot * bytes..][..bytes].to_vec();
        xor(&mut record, &answer[real * bytes..][..bytes]);
        Ok(record)
    }

    /// Algorithm 3, lines 9 to 13; Algorithm 5: puts a backup into the spent hint's slot. It uses the half that does not choose the
    /// queried stripe, and the record is its extra.
    pub fn replenish(&mut self, pending: &Pending, record: &[u8], backup: &Backup) {
        let Some((slot, _)) = pending.used else { return };
        if self.deviation == Deviation::NoReplenishing {
            return;
        }
        let bytes = self.geometry.record_bytes;
        self.numbers[slot] = backup.number;
        self.cutoffs[slot] = backup.cutoff;
        self.flips[slot] = false;
        let (stripe, _) = self.geometry.place(pending.index);
        // If the half below chooses the stripe, the half above does not.
        let flip = self.chooses(slot, stripe) && self.deviation != Deviation::BackupMayChoose;
        self.flips[slot] = flip;
        self.extras[slot] = pending.index as u32;
        let parity = &mut self.parities[slot * bytes..][..bytes];
        parity.copy_from_slice(&backup.parities[usize::from(flip) * bytes..][..bytes]);
        xor(parity, record);
        if self.deviation == Deviation::AppendsAtEnd {
            self.numbers[slot..].rotate_left(1);
            self.cutoffs[slot..].rotate_left(1);
            self.flips[slot..].rotate_left(1);
            self.extras[slot..].rotate_left(1);
            self.parities[slot * bytes..].rotate_left(bytes);
        }
    }

    /// For tests: the (stripe, offset) of all records of each slot's hint, ascending.
    pub fn contents(&self) -> Vec<Vec<(usize, usize)>> {
        let contents = |slot| {
            let extra = self.geometry.place(self.extras[slot] as usize);
            let own = self.values(slot).enumerate();
            own.filter_map(|(k, (chosen, own))| match k {
                _ if k == extra.0 => Some(extra),
                _ => chosen.then_some((k, own)),
            })
            .collect()
        };
        (0..self.numbers.len()).map(contents).collect()
    }
}
