//! Verifies both parities of an answer. Only then does it recover the record from one of them (papers: S3PIR, Algorithm 2,
//! lines 17 and 18) and replace the hint that was used (Algorithm 5).
//!
//! A client that checked the record alone would notice a wrong parity only in the hint's own subset. The queried stripe is in
//! the other subset. So whether a lie was noticed would reveal a bit of what was asked. Here it depends on the lie alone.
//!
//! The tags that the parities must have are known before the answer: they follow from parities and sums that the hint has,
//! and from two tags of the queried stripe. Tags are linear. (`hazmat_agrees_with` says what a hint has.)

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::hint::Hint;
use super::query::{MISSED, Pending};
use super::streams::Function;
use crate::bytes::xor_into;
use crate::error::{Error, expect_length};
use crate::stored::Stamp;

/// Verifies both parities of all queries, without early exit, and keeps them for [`recon`]. Returns `false`, and condemns the
/// hint, if one is forged.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] for an answer of the wrong length; [`Error::Phase`] if rows of tags are missing.
/// Then nothing has changed.
pub fn verify<F: Function>(hint: &mut Hint<F>, pending: &mut Pending, answer: &[u8]) -> Result<bool, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    let geometry = hint.geometry;
    expect_length("answer", answer, pending.count() * geometry.answer_bytes())?;
    hint.settle();
    let mut differences = 0;
    let expected = expected(hint, pending)?.into_iter().zip(&pending.sides);
    for (([own, other], &side), parities) in expected.zip(answer.chunks_exact(geometry.answer_bytes())) {
        let (first, second) = parities.split_at(geometry.record_bytes());
        // The hint's own parity is the one of its side.
        let swapped = u64::from(side).wrapping_neg() & (own ^ other);
        differences |= hint.tags.tag(first) ^ own ^ swapped;
        differences |= hint.tags.tag(second) ^ other ^ swapped;
    }
    if differences == 0 {
        pending.verified = Some(answer.to_vec());
    } else {
        hint.condemn();
    }
    Ok(differences == 0)
}

/// For each query the tag of the hint's own parity, and the tag of the other parity.
fn expected<F: Function>(hint: &Hint<F>, pending: &Pending) -> Result<Vec<[u64; 2]>, Error> {
    let geometry = hint.geometry;
    let mut expected = Vec::with_capacity(pending.count());
    for number in 0..pending.count() {
        let (slot, pair) = (pending.slots[number] as usize, pending.pairs[number] as usize);
        if pending.slots[number] == MISSED {
            expected.push([false, true].map(|above| hint.tags.tag(hint.half(pair, above))));
            continue;
        }
        // The slot after the last query of the lookup that used it, or as it is.
        let [parity, rest] = match pending.slots[..number].iter().rposition(|&used| used as usize == slot) {
            None => [hint.tags.tag(hint.parity(slot)), hint.rests[slot]],
            Some(last) => {
                let (pair, wanted) = (pending.pairs[last] as usize, pending.wanted(hint, last));
                let above = hint.replacing(pair, wanted);
                let half = hint.tags.tag(hint.half(pair, above));
                let other = hint.tags.tag(hint.half(pair, !above));
                let of_record = pending.tag(hint, last, wanted as usize)?;
                [half ^ of_record, other ^ pending.tag(hint, last, hint.slot_left_out(pair, wanted))?]
            }
        };
        let wanted = pending.wanted(hint, number);
        let (stripe, _) = geometry.place(wanted as usize);
        let query = &pending.queries[number * geometry.query_bytes()..][geometry.bits_bytes()..];
        let shown = u16::from_le_bytes([query[2 * stripe], query[2 * stripe + 1]]);
        let shown = stripe * geometry.stripe_records() + usize::from(shown);
        let of_record = pending.tag(hint, number, wanted as usize)?;
        expected.push([parity ^ of_record, rest ^ pending.tag(hint, number, shown)?]);
    }
    Ok(expected)
}

/// How a lookup changes a hint. Replaying it needs neither answer nor server. Its length depends on nothing but the layout
/// and the number of queries. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Effect {
    /// the hint's stamp before the lookup
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// for each query: slot, pair, slot of the record; both slots are [`MISSED`] if no hint contained it
    pub(crate) used: Vec<[u32; 3]>,
    /// for each query: the tag, in the queried stripe, that the pair's other half has and the hint's sum has not; 0 if no hint
    /// contained the record
    pub(crate) tags: Vec<u64>,
    /// for each query ℓ′ bytes: the record, or zeros if no hint contained it
    pub(crate) blocks: Vec<u8>,
}

/// The result of a lookup.
pub struct Recovered {
    /// count·ℓ bytes, in query order; zeros if no hint contained the record
    pub records: Vec<u8>,
    /// number of queries without a hint
    pub missed: usize,
    /// how the lookup changed the hint
    pub effect: Effect,
}

/// Recovers the lookup's records and applies the lookup to the hint. Consumes the lookup: it may be applied only once.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] if the answer is not verified. Then nothing has changed, and the lookup is returned.
pub fn recon<F: Function>(hint: &mut Hint<F>, pending: Pending) -> Result<Recovered, (Error, Pending)> {
    if hint.condemned {
        return Err((Error::Condemned, pending));
    }
    hint.settle();
    let Some(answer) = &pending.verified else {
        return Err((Error::Phase("verify the answer before applying the lookup"), pending));
    };
    let geometry = hint.geometry;
    let bytes = geometry.record_bytes();
    let mut effect = Effect {
        stamp: hint.stamp,
        used: Vec::with_capacity(pending.count()),
        tags: Vec::with_capacity(pending.count()),
        blocks: vec![0; pending.count() * bytes],
    };
    for (number, parities) in answer.chunks_exact(geometry.answer_bytes()).enumerate() {
        let (slot, pair) = (pending.slots[number], pending.pairs[number]);
        if slot == MISSED {
            effect.used.push([MISSED, pair, MISSED]);
            effect.tags.push(0);
            continue;
        }
        let wanted = pending.wanted(hint, number);
        let (before, rest) = effect.blocks.split_at_mut(number * bytes);
        let block = &mut rest[..bytes];
        // The slot after the last query of the lookup that used it, or as it is.
        match effect.used.iter().rposition(|used| used[0] == slot) {
            None => block.copy_from_slice(hint.parity(slot as usize)),
            Some(last) => {
                let [_, pair, index] = effect.used[last];
                let above = hint.replacing(pair as usize, index);
                block.copy_from_slice(hint.half(pair as usize, above));
                xor_into(block, &before[last * bytes..][..bytes]);
            }
        }
        xor_into(block, &parities[usize::from(pending.sides[number]) * bytes..][..bytes]);
        effect.used.push([slot, pair, wanted]);
        match pending.tag(hint, number, hint.slot_left_out(pair as usize, wanted)) {
            Ok(tag) => effect.tags.push(tag),
            Err(error) => return Err((error, pending)),
        }
    }
    apply(hint, &effect);
    let missed = effect.used.iter().filter(|used| used[0] == MISSED).count();
    Ok(Recovered { records: hint.layout.cut(&pending.indices, &effect.blocks), missed, effect })
}

/// Applies a journal's effect to its hint.
///
/// # Errors
/// [`Error::State`] for an effect of another hint, one that is not the next, or one with slots that the hint does not have.
pub fn replay<F: Function>(hint: &mut Hint<F>, effect: &Effect) -> Result<(), Error> {
    if effect.stamp != hint.stamp {
        return Err(Error::State("an effect of another hint, or out of order"));
    }
    for (next, &[slot, pair, index]) in (hint.next..).zip(&effect.used) {
        let is_next = pair as usize == next && next < hint.backups.len();
        let is_there = (slot as usize) < hint.ids.len() && (index as usize) < hint.geometry.slots();
        if !is_next || !(is_there || slot == MISSED) {
            return Err(Error::State("an effect with a slot or backup that this hint does not have"));
        }
    }
    apply(hint, effect);
    Ok(())
}

impl<F: Function> Hint<F> {
    /// Which half of a backup replaces a used hint: above (`true`), or below.
    fn replacing(&self, pair: usize, wanted: u32) -> bool {
        self.is_below(self.geometry.place(wanted as usize).0, self.backups[pair])
    }

    /// The slot in the queried stripe that the backup's other half has. The stripe becomes the extra's.
    fn slot_left_out(&self, pair: usize, wanted: u32) -> usize {
        let (stripe, _) = self.geometry.place(wanted as usize);
        self.own_slot(stripe, self.backups[pair])
    }
}

/// Applies an effect. Parities may lack edits that later steps add; the backup in a slot will get the edits of that slot.
fn apply<F: Function>(hint: &mut Hint<F>, effect: &Effect) {
    let bytes = hint.geometry.record_bytes();
    let used = effect.used.iter().zip(&effect.tags).zip(effect.blocks.chunks_exact(bytes));
    for ((&[slot, pair, index], tag), block) in used {
        let (slot, pair) = (slot as usize, pair as usize);
        if index == MISSED {
            hint.reassign_edits(hint.backups[pair], None);
        } else {
            let (before, ..) = hint.replace(slot, pair, index);
            hint.reassign_edits(before, Some(slot));
            let above = hint.is_flipped(slot);
            let (stripe, _) = hint.geometry.place(index as usize);
            let left = hint.tag_of_edits_left(hint.own_slot(stripe, hint.ids[slot]));
            hint.rests[slot] = hint.tags.tag(hint.half(pair, !above)) ^ tag ^ left;
            let mut parity = hint.half(pair, above).to_vec();
            xor_into(&mut parity, block);
            hint.parity_mut(slot).copy_from_slice(&parity);
            parity.zeroize();
        }
        for above in [false, true] {
            hint.half_mut(pair, above).zeroize(); // with the slot's parity it would give the record
        }
        hint.next = pair + 1;
    }
    hint.stamp.version += 1;
}
