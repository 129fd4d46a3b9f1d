//! Makes queries (papers: S3PIR, Algorithm 2). They do not change the hint: [`super::recon`] does that when the answer is
//! verified. Until then the same bytes may be sent again.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::hint::{Hint, NOWHERE};
use super::streams::{Function, GROUP, Keyed, Kind};
use super::table::RowName;
use crate::error::Error;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::stored::{NAME_BYTES, Stamp};

/// In place of a slot: no hint contains the record.
pub(crate) const MISSED: u32 = u32::MAX;

/// A lookup's queries, in order, that may have been sent, and whose answers have not been applied. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Pending {
    /// the hint's stamp before the lookup is applied
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    pub(crate) name: [u8; NAME_BYTES],
    /// for each query the record's index
    pub(crate) indices: Vec<u32>,
    /// for each query the slot of the hint that it uses, or [`MISSED`]
    pub(crate) slots: Vec<u32>,
    /// for each query the backup that replaces the hint, or whose halves are sent instead of one
    pub(crate) pairs: Vec<u32>,
    /// for each query which of the two subsets is the hint's: 0 or 1
    pub(crate) sides: Vec<u8>,
    /// the bytes for the server
    pub(crate) queries: Vec<u8>,
    /// for each query two verified parities; never stored
    pub(crate) verified: Option<Vec<u8>>,
    /// for each query the row of tags of the queried stripe, as far as they were passed; only with rows; never stored
    pub(crate) rows: Vec<Vec<u64>>,
}

impl Pending {
    /// The number of queries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// The bytes for the server: for each query ⌈q/8⌉ bytes of subsets, low bit first, then q offsets (u16).
    #[must_use]
    pub fn queries(&self) -> &[u8] {
        &self.queries
    }

    /// The slot of the database that a query asks for.
    pub(crate) fn wanted<F: Function>(&self, hint: &Hint<F>, number: usize) -> u32 {
        self.indices[number] / hint.layout.stored().block_records as u32
    }

    /// The tag of a slot in the stripe that a query asks for.
    ///
    /// # Errors
    /// [`Error::Phase`] if it is in a row that was not passed.
    pub(crate) fn tag<F: Function>(&self, hint: &Hint<F>, number: usize, slot: usize) -> Result<u64, Error> {
        hint.tags.of(slot, self.rows.get(number))
    }

    /// The names of the rows that are still needed to judge the answer. There is one for each query, even if no hint was found
    /// for it, or another query needs the same row.
    #[must_use]
    pub fn wants<F: Function>(&self, hint: &Hint<F>) -> Vec<RowName> {
        let stripe = |number| hint.geometry.place(self.wanted(hint, number) as usize).0;
        (self.rows.len()..self.count()).filter_map(|number| hint.tags.name(stripe(number))).collect()
    }

    /// Passes the bytes of the first row that is [wanted](Self::wants).
    ///
    /// # Errors
    /// [`Error::State`] if it is another row, or damaged; [`Error::Phase`] if none is wanted.
    pub fn hold<F: Function>(&mut self, hint: &Hint<F>, row: &[u8]) -> Result<(), Error> {
        if self.wants(hint).is_empty() {
            return Err(Error::Phase("no row of tags is wanted; verify the answer"));
        }
        let (stripe, _) = hint.geometry.place(self.wanted(hint, self.rows.len()) as usize);
        self.rows.push(hint.tags.read(&hint.secret, stripe, row)?);
        Ok(())
    }

    /// For tests: which queries found no hint.
    #[must_use]
    pub fn hazmat_missed(&self) -> Vec<bool> {
        self.slots.iter().map(|&slot| slot == MISSED).collect()
    }

    /// The name under which the rollback fence knows this lookup.
    #[must_use]
    pub fn name(&self) -> [u8; NAME_BYTES] {
        self.name
    }
}

/// Makes the lookup of `indices`, in this order, from 32 bytes of fresh entropy, into which the hint's secret is
/// mixed.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] for an empty lookup, or one with more queries than backups are left;
/// [`Error::Index`] for an index beyond the last record.
pub fn query(hint: &mut Hint<Keyed>, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
    let entropy = hint.secret.query_entropy(entropy, hint.stamp.version, indices);
    hazmat_query_from(hint, indices, &mut ChaCha::new(&entropy, 0))
}

/// [`query`] with the caller's randomness. For tests that enumerate all draws. With anything but secret, uniform randomness,
/// the server can learn the client's queries.
///
/// # Errors
/// As [`query`].
pub fn hazmat_query_from<F: Function>(
    hint: &mut Hint<F>,
    indices: &[u32],
    source: &mut impl Uniform,
) -> Result<Pending, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    if indices.is_empty() {
        return Err(Error::Phase("a lookup needs at least one query"));
    }
    if indices.len() > hint.left() {
        return Err(Error::Phase("the hint is used up; prepare a new one"));
    }
    for &index in indices {
        hint.layout.locate(index)?;
    }
    let mut pending = Pending {
        stamp: hint.stamp,
        name: [0; NAME_BYTES],
        indices: indices.to_vec(),
        slots: Vec::with_capacity(indices.len()),
        pairs: Vec::with_capacity(indices.len()),
        sides: Vec::with_capacity(indices.len()),
        queries: Vec::with_capacity(indices.len() * hint.geometry.query_bytes()),
        verified: None,
        rows: Vec::new(),
    };
    let mut replaced = Vec::new();
    for (pair, &index) in (hint.next..).zip(indices) {
        let wanted = index / hint.layout.stored().block_records as u32;
        let found = hint.find(wanted, pair);
        let side = source.below(2) as u8;
        let of_hint = hint.subsets(found.unwrap_or(0), wanted, source);
        let of_backup = hint.halves(pair);
        write(&mut pending.queries, if found.is_some() { &of_hint } else { &of_backup }, side);
        pending.sides.push(side);
        pending.slots.push(found.map_or(MISSED, |slot| slot as u32));
        pending.pairs.push(pair as u32);
        if let Some(slot) = found {
            replaced.push((slot, hint.replace(slot, pair, wanted))); // for the next query of the lookup
        }
    }
    for (slot, before) in replaced.into_iter().rev() {
        hint.put_back(slot, before);
    }
    pending.name = hint.secret.pending_name(&pending.unnamed(&hint.layout));
    Ok(pending)
}

/// For each stripe whether it is in the hint's subset, and the offset.
pub(crate) type Subsets = Vec<(bool, u16)>;

fn write(queries: &mut Vec<u8>, subsets: &Subsets, side: u8) {
    for stripes in subsets.chunks(8) {
        // The stripes whose bit is `side` are the hint's subset.
        let bits =
            stripes.iter().enumerate().fold(0, |bits, (at, (real, _))| bits | (u8::from(*real) ^ side ^ 1) << at);
        queries.push(bits);
    }
    queries.extend(subsets.iter().flat_map(|(_, offset)| offset.to_le_bytes()));
}

impl<F: Function> Hint<F> {
    /// The first slot whose hint contains a record, if the backups from `pair` on are in no slot. Checks all ids before that
    /// backup's, and all extras, in the same steps whatever it finds.
    pub(crate) fn find(&self, wanted: u32, pair: usize) -> Option<usize> {
        let (stripe, offset) = self.geometry.place(wanted as usize);
        let groups = (self.backups[pair] as usize).div_ceil(GROUP);
        let by_group = self.cutoffs.as_chunks::<GROUP>().0.iter().zip(self.slots.as_chunks::<GROUP>().0).take(groups);
        let (mut selections, mut offsets) = ([0; GROUP], [0; GROUP]);
        let mut first = NOWHERE;
        for (number, (cutoffs, slots)) in by_group.enumerate() {
            self.function.group(Kind::Selection, stripe, number, &mut selections);
            self.function.group(Kind::Offset, stripe, number, &mut offsets);
            for c in 0..GROUP {
                let is_above = u32::from(selections[c].cast_signed() >= cutoffs[c]);
                let is_here = u32::from(self.geometry.offset(offsets[c]) == offset);
                // Chosen: below the cutoff, or above if the hint is flipped.
                let contains = is_here & !(is_above ^ slots[c]);
                first = first.min(if contains == 1 { slots[c] } else { NOWHERE });
            }
        }
        for (entry, &extra) in (0..).step_by(2).zip(&self.extras) {
            first = first.min(if extra == wanted { entry } else { NOWHERE });
        }
        selections.zeroize();
        offsets.zeroize();
        (first != NOWHERE).then_some(first as usize / 2)
    }

    /// For each stripe whether the hint in a slot contains a record of it, and the offset: the hint's own, or the extra's.
    pub(crate) fn own(&self, slot: usize) -> Subsets {
        let (id, flip) = (self.ids[slot], self.is_flipped(slot));
        let (of_extra, extra) = self.geometry.place(self.extras[slot] as usize);
        let (selections, offsets) = self.values(id);
        let cutoff = self.cutoffs[id as usize];
        let values = selections.iter().zip(&offsets).enumerate();
        values
            .map(|(stripe, (selection, offset))| {
                let chosen = (selection.cast_signed() < cutoff) != flip;
                let own = if stripe == of_extra { extra } else { self.geometry.offset(*offset) };
                (chosen || stripe == of_extra, own)
            })
            .collect()
    }

    /// The query for a record by the hint in a slot. Its stripes are one subset, without the record's. The other stripes show
    /// the hint's own offsets, which have never been shown, and a uniform offset in the record's stripe. That one is drawn from
    /// the whole stripe, the record included: excluding any would reveal it.
    fn subsets(&self, slot: usize, wanted: u32, source: &mut impl Uniform) -> Subsets {
        let (queried, _) = self.geometry.place(wanted as usize);
        let mut subsets = self.own(slot);
        subsets[queried] = (false, source.below(self.geometry.stripe_records() as u32) as u16);
        subsets
    }

    /// A query for nothing, which uses up a backup: its two halves, at its own offsets. They are uniform and have never been
    /// shown, and their parities are known.
    fn halves(&self, pair: usize) -> Subsets {
        let id = self.backups[pair];
        let (selections, offsets) = self.values(id);
        let cutoff = self.cutoffs[id as usize];
        let values = selections.iter().zip(&offsets);
        values.map(|(selection, offset)| (selection.cast_signed() < cutoff, self.geometry.offset(*offset))).collect()
    }

    /// All selections and all offsets of an id.
    fn values(&self, id: u32) -> (Vec<u16>, Vec<u16>) {
        let values = |kind| {
            let mut values = vec![0; self.geometry.stripes()];
            self.function.of_id(kind, 0, id, &mut values);
            values
        };
        (values(Kind::Selection), values(Kind::Offset))
    }
}
