//! Hints, as both forms make and use them: drawing cutoffs, folding records into parities, finding, asking, replacing.

use super::{Deviation, Geometry, Search};
use crate::error::Error;
use crate::prg::{Block, Prg};
use crate::random::{Uniform, shuffle};
use crate::records::{xor, xor_if};

/// A block of the function holds four hints: their four values of selection, then their four offsets, 16 bits each.
/// Stream: the stripe. Block: the hint's number over four. So what a stripe gives to all hints is contiguous.
const HINTS_A_BLOCK: usize = 4;
/// Hints whose cutoffs are searched side by side.
const COLUMNS: usize = 32;
/// Hints folded before the next stripe's records are touched.
const FOLDED: usize = 256;
/// Slots looked at in one step of a search.
const SEARCHED: usize = 128;

/// Value of selection and offset of one hint in one stripe.
#[inline]
fn values(block: &Block, number: u64) -> (u16, u16) {
    let at = 2 * (number as usize % HINTS_A_BLOCK);
    (u16::from_le_bytes([block[at], block[at + 1]]), u16::from_le_bytes([block[at + 8], block[at + 9]]))
}

/// Hints without their parities: numbers that are valid, ascending, and their cutoffs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// numbers
    pub numbers: Vec<u64>,
    /// of each, such that exactly q/2 of its values are below
    pub cutoffs: Vec<u16>,
    /// of the first `extras`, an index in a stripe that is not chosen
    pub extras: Vec<u32>,
}

/// The `want` first valid numbers from `first` on, the first `extras` of them with an extra index.
pub fn draw<P: Prg>(
    prg: &P,
    geometry: &Geometry,
    first: u64,
    want: usize,
    extras: usize,
    source: &mut impl Uniform,
) -> Drawn {
    let (q, s) = (geometry.stripes, geometry.stripe_records);
    let mut drawn = Drawn::default();
    let mut selection = vec![[0i16; COLUMNS]; q];
    let mut blocks = [[0; 16]; COLUMNS / HINTS_A_BLOCK];
    // From the group that `first` is in, so that numbers do not depend on where a caller begins.
    let mut group = first / COLUMNS as u64;
    while drawn.numbers.len() < want {
        for (k, row) in selection.iter_mut().enumerate() {
            prg.fill(k as u64, group * blocks.len() as u64, &mut blocks);
            for (four, block) in row.as_chunks_mut::<HINTS_A_BLOCK>().0.iter_mut().zip(&blocks) {
                for (n, value) in four.iter_mut().enumerate() {
                    *value = moved(u16::from_le_bytes([block[2 * n], block[2 * n + 1]]));
                }
            }
        }
        let cutoffs = cutoffs(&selection);
        for (column, cutoff) in cutoffs.into_iter().enumerate() {
            let number = group * COLUMNS as u64 + column as u64;
            let Some(cutoff) = cutoff.filter(|_| number >= first && drawn.numbers.len() < want) else { continue };
            if drawn.extras.len() < extras {
                drawn.extras.push(loop {
                    let stripe = source.below(q as u32); // §3.2: until the stripe is one that is not chosen
                    if back(selection[stripe as usize][column]) >= cutoff {
                        break stripe * s as u32 + source.below(s as u32);
                    }
                });
            }
            drawn.numbers.push(number);
            drawn.cutoffs.push(cutoff);
        }
        group += 1;
    }
    drawn
}

/// For each column the value that exactly half of the column is below; none if the two in the middle are equal.
///
/// Rejecting those leaves the chosen half uniform, since it treats all stripes alike. The search for a median by
/// its bits needs no order of the values, and runs for all columns side by side.
#[inline]
fn cutoffs(selection: &[[i16; COLUMNS]]) -> [Option<u16>; COLUMNS] {
    let half = i16::try_from(selection.len() / 2).expect("q ≤ 2^14: N ≤ 2^28");
    let mut cutoffs = [i16::MIN; COLUMNS];
    for bit in (0..16).rev() {
        let limits = cutoffs.map(|cutoff| moved(back(cutoff) | 1 << bit));
        let counts = below(selection, &limits);
        for column in 0..COLUMNS {
            cutoffs[column] = if counts[column] <= half { limits[column] } else { cutoffs[column] };
        }
    }
    let counts = below(selection, &cutoffs);
    std::array::from_fn(|column| (counts[column] == half).then_some(back(cutoffs[column])))
}

/// How many values of each column are below its limit. Written for the compiler to use vectors, which compare signed
/// numbers: all values are moved by 2^15.
#[inline]
fn below(selection: &[[i16; COLUMNS]], limits: &[i16; COLUMNS]) -> [i16; COLUMNS] {
    let mut counts = [0; COLUMNS];
    for row in selection {
        counts = std::array::from_fn(|column| counts[column] + i16::from(row[column] < limits[column]));
    }
    counts
}

/// Moved by 2^15, so that order as signed numbers is order as unsigned ones.
fn moved(value: u16) -> i16 {
    (value ^ 1 << 15).cast_signed()
}

/// The inverse of [`moved`].
fn back(value: i16) -> u16 {
    value.cast_unsigned() ^ 1 << 15
}

/// The parities of hints while records stream by: of the first `single` hints the parity of the chosen half, of the
/// others those of both halves.
pub struct Folding<'a, P: Prg> {
    prg: &'a P,
    geometry: Geometry,
    drawn: &'a Drawn,
    single: usize,
    /// ℓ bytes a hint
    pub parities: Vec<u8>,
    /// 2·ℓ bytes a pair: the half below the cutoff, the half above
    pub pairs: Vec<u8>,
}

impl<'a, P: Prg> Folding<'a, P> {
    /// All zeros.
    pub fn new(prg: &'a P, geometry: Geometry, drawn: &'a Drawn, single: usize) -> Self {
        let (parities, pairs) =
            (single * geometry.record_bytes, (drawn.numbers.len() - single) * 2 * geometry.record_bytes);
        Folding { prg, geometry, drawn, single, parities: vec![0; parities], pairs: vec![0; pairs] }
    }

    /// How many stripes to fold at once: as many as stay in a processor's second cache while all hints pass by.
    pub fn stripes_at_once(geometry: &Geometry) -> usize {
        ((256 << 10) / (geometry.stripe_records * geometry.record_bytes)).clamp(1, 16).min(geometry.stripes)
    }

    /// Algorithm 1, lines 5 and 6; Algorithm 4, lines 12 to 16: folds whole stripes, from `first` on.
    pub fn fold(&mut self, first: usize, records: &[u8]) {
        let Geometry { stripe_records, record_bytes, .. } = self.geometry;
        let stripes = records.chunks_exact(stripe_records * record_bytes);
        let mask = stripe_records - 1;
        let numbers = &self.drawn.numbers;
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < numbers.len() {
            let window = numbers[at] / FOLDED as u64; // of numbers, valid or not
            let here = numbers[at..].partition_point(|number| number / FOLDED as u64 == window);
            let first_block = numbers[at] / HINTS_A_BLOCK as u64;
            let width = (numbers[at + here - 1] / HINTS_A_BLOCK as u64 - first_block) as usize + 1;
            blocks.resize(stripes.len() * width, [0; 16]);
            for (d, blocks) in blocks.chunks_exact_mut(width).enumerate() {
                self.prg.fill((first + d) as u64, first_block, blocks);
            }
            for hint in at..at + here {
                let (number, cutoff) = (self.drawn.numbers[hint], self.drawn.cutoffs[hint]);
                let block = (number / HINTS_A_BLOCK as u64 - first_block) as usize;
                let picked = stripes.clone().zip(blocks.chunks_exact(width)).map(|(stripe, blocks)| {
                    let (value, offset) = values(&blocks[block], number);
                    (value < cutoff, &stripe[(usize::from(offset) & mask) * record_bytes..][..record_bytes])
                });
                // Half of all records are chosen, at random: a branch would be guessed wrongly every second time.
                if hint < self.single {
                    let parity = &mut self.parities[hint * record_bytes..][..record_bytes];
                    picked.for_each(|(chosen, record)| xor_if(chosen, parity, record));
                } else {
                    let pair = &mut self.pairs[(hint - self.single) * 2 * record_bytes..][..2 * record_bytes];
                    let (chosen_half, other_half) = pair.split_at_mut(record_bytes);
                    picked.for_each(|(chosen, record)| {
                        xor_if(chosen, chosen_half, record);
                        xor_if(!chosen, other_half, record);
                    });
                }
            }
            at += here;
        }
    }

    /// Algorithm 1, line 8; Algorithm 4, line 19: folds the extras that lie in the stripes from `first` on. `order` is
    /// [`extras_by_stripe`].
    pub fn fold_extras(&mut self, order: &[u32], first: usize, records: &[u8]) {
        let bytes = self.geometry.record_bytes;
        let from = (first * self.geometry.stripe_records) as u32;
        let to = from as usize + records.len() / bytes;
        let begin = order.partition_point(|&hint| self.drawn.extras[hint as usize] < from);
        for &hint in &order[begin..] {
            let extra = self.drawn.extras[hint as usize];
            if extra as usize >= to {
                break;
            }
            xor(
                &mut self.parities[hint as usize * bytes..][..bytes],
                &records[(extra - from) as usize * bytes..][..bytes],
            );
        }
    }
}

/// The hints by ascending extra index.
pub fn extras_by_stripe(drawn: &Drawn) -> Vec<u32> {
    let mut order: Vec<u32> = (0..drawn.extras.len() as u32).collect();
    order.sort_unstable_by_key(|&hint| drawn.extras[hint as usize]);
    order
}

/// The H slots of a client, a column for each of what a hint is made of.
pub struct Slots<P: Prg> {
    prg: P,
    geometry: Geometry,
    numbers: Vec<u64>,
    cutoffs: Vec<u16>,
    /// whether the half above the cutoff is the chosen one
    flips: Vec<bool>,
    extras: Vec<u32>,
    parities: Vec<u8>,
    deviation: Deviation,
}

/// A query that was made, and what is needed to read its answer.
pub struct Pending {
    /// the bytes for the server
    pub query: Vec<u8>,
    index: usize,
    /// the hint's slot and the real subset; none if no hint contained the record
    used: Option<(usize, usize)>,
}

/// A backup hint as it comes to be used: which number, and the parities below and above its cutoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// number
    pub number: u64,
    /// cutoff
    pub cutoff: u16,
    /// 2·ℓ bytes
    pub parities: Vec<u8>,
}

impl<P: Prg> Slots<P> {
    /// The first `geometry.hints` of what was drawn, each in a slot.
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

    /// (chosen, offset) of the hint in `slot` in stripe k, its extra apart.
    fn values(&self, slot: usize, k: usize) -> (bool, usize) {
        let mut block = [[0; 16]];
        let number = self.numbers[slot];
        self.prg.fill(k as u64, number / HINTS_A_BLOCK as u64, &mut block);
        let (value, offset) = values(&block[0], number);
        ((value < self.cutoffs[slot]) != self.flips[slot], usize::from(offset) & (self.geometry.stripe_records - 1))
    }

    /// The first slot whose hint contains the record.
    pub fn find(&self, index: usize, search: Search) -> Option<usize> {
        let (stripe, offset) = self.geometry.place(index);
        let mask = self.geometry.stripe_records - 1;
        let (mut places, mut blocks) = ([0; SEARCHED], [[0; 16]; SEARCHED]);
        let mut found = None;
        for from in (0..self.numbers.len()).step_by(SEARCHED) {
            let numbers = &self.numbers[from..self.numbers.len().min(from + SEARCHED)];
            for (place, number) in places.iter_mut().zip(numbers) {
                *place = number / HINTS_A_BLOCK as u64;
            }
            self.prg.gather(stripe as u64, &places[..numbers.len()], &mut blocks);
            for (n, &number) in numbers.iter().enumerate().rev() {
                let slot = from + n;
                let (value, own) = values(&blocks[n], number);
                let chosen = (value < self.cutoffs[slot]) != self.flips[slot];
                let extra = self.extras[slot] as usize == index && self.deviation != Deviation::SearchIgnoresExtra;
                if (chosen & (usize::from(own) & mask == offset)) | extra && found.is_none_or(|first| first >= from) {
                    found = Some(slot);
                }
            }
            if found.is_some() && search == Search::UntilFound {
                break;
            }
        }
        found
    }

    /// Algorithm 2, lines 2 to 16: the query for a record. If no hint contains it, one that has the same law.
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
            for k in 0..q {
                let (chosen, own) = self.values(slot, k);
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
        crate::error::expect_bytes("answer", answer, self.geometry.answer_bytes())?;
        let (slot, real) = pending.used.ok_or(Error::Unlucky)?;
        let mut record = self.parities[slot * bytes..][..bytes].to_vec();
        xor(&mut record, &answer[real * bytes..][..bytes]);
        Ok(record)
    }

    /// Algorithm 3, lines 9 to 13; Algorithm 5: the spent hint's slot gets the half of the backup that does not choose the
    /// queried stripe, with the record as its extra.
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
        // The half below chooses the stripe: then the half above is the one that does not.
        let flip = self.values(slot, stripe).0 && self.deviation != Deviation::BackupMayChoose;
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

    /// What each slot's hint contains: (stripe, offset) of all its records, ascending. For tests.
    pub fn contents(&self) -> Vec<Vec<(usize, usize)>> {
        let contents = |slot| {
            let extra = self.geometry.place(self.extras[slot] as usize);
            let own = |k| Some(self.values(slot, k)).filter(|value| value.0).map(|value| (k, value.1));
            (0..self.geometry.stripes).filter_map(|k| if k == extra.0 { Some(extra) } else { own(k) }).collect()
        };
        (0..self.numbers.len()).map(contents).collect()
    }
}
