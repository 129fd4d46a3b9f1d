//! What comes back: both parities are verified, whatever they are needed for, and only then is the one that is taken apart
//! (papers: S3PIR, Algorithm 2, lines 17 and 18), and the hint that was used replaced (Algorithm 5).
//!
//! A client that checked the record alone would notice a wrong parity exactly if it is the hint's own; the queried stripe
//! lies in the other. Whether a lie was noticed would then be a bit of what was asked. Here it follows from the lie alone.
//!
//! What the parities' tags must be is known before they come, from parities and sums that are kept with the hint, and from
//! two tags of the queried stripe (`hazmat_agrees_with` of hints says what is kept; tags are linear).

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::hint::Hint;
use super::query::{MISSED, Pending};
use super::streams::Function;
use crate::bytes::xor_into;
use crate::error::{Error, expect_length};
use crate::tapir::hint::Stamp;

/// Verifies both parities of all queries, without early exit, and keeps them for [`recon`]. `false`: at least one is forged,
/// and the hint is condemned.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] if the answer is not as long as one to the batch; [`Error::Phase`] if rows of tags
/// that it takes are not at hand. Nothing has changed then.
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
        // The hint's own is the parity of its side.
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

/// Of each query, the tag of the hint's own parity, and that of the other.
fn expected<F: Function>(hint: &Hint<F>, pending: &Pending) -> Result<Vec<[u64; 2]>, Error> {
    let geometry = hint.geometry;
    let mut expected = Vec::with_capacity(pending.count());
    for number in 0..pending.count() {
        let (slot, pair) = (pending.slots[number] as usize, pending.pairs[number] as usize);
        if pending.slots[number] == MISSED {
            expected.push([false, true].map(|above| hint.tags.tag(hint.half(pair, above))));
            continue;
        }
        // As the last query of the batch that used the slot will have left it, or as it is.
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

/// What applying a batch does to a hint: replaying it needs neither answer nor server. Its length depends on the layout and
/// the count alone. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Effect {
    /// the hint before
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// one a query: slot, pair, slot of the record; [`MISSED`] for both slots where no hint contained it
    pub(crate) used: Vec<[u32; 3]>,
    /// one a query: the tag of the queried stripe that the pair's other half has and the hint's rest has not; 0 where no hint
    /// contained the record
    pub(crate) tags: Vec<u64>,
    /// ℓ′ bytes a query: the record, zeros where no hint contained it
    pub(crate) blocks: Vec<u8>,
}

/// What a batch brought.
pub struct Recovered {
    /// count·ℓ bytes, in query order; zeros where no hint contained the record
    pub records: Vec<u8>,
    /// queries without a hint
    pub missed: usize,
    /// already applied to the hint
    pub effect: Effect,
}

/// Recovers the batch's records and applies the batch to the hint. Consumes what may be used only once.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] if the answer has not been verified. Nothing has changed then, and the batch is given
/// back.
pub fn recon<F: Function>(hint: &mut Hint<F>, pending: Pending) -> Result<Recovered, (Error, Pending)> {
    if hint.condemned {
        return Err((Error::Condemned, pending));
    }
    hint.settle();
    let Some(answer) = &pending.verified else {
        return Err((Error::Phase("the answer is verified before a batch is applied"), pending));
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
        // The slot as the last query of the batch that used it has left it, or as it is.
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

/// Applies an effect from a journal to the hint it belongs to.
///
/// # Errors
/// [`Error::State`] if it is another hint's, or not the next one, or names what the hint does not have.
pub fn replay<F: Function>(hint: &mut Hint<F>, effect: &Effect) -> Result<(), Error> {
    if effect.stamp != hint.stamp {
        return Err(Error::State("an effect of another hint, or out of order"));
    }
    for (next, &[slot, pair, index]) in (hint.next..).zip(&effect.used) {
        let is_next = pair as usize == next && next < hint.backups.len();
        let is_there = (slot as usize) < hint.ids.len() && (index as usize) < hint.geometry.slots();
        if !is_next || !(is_there || slot == MISSED) {
            return Err(Error::State("an effect of what this hint does not have"));
        }
    }
    apply(hint, effect);
    Ok(())
}

impl<F: Function> Hint<F> {
    /// Which half of a backup takes the place of a hint that was used for a slot: above, or below.
    fn replacing(&self, pair: usize, wanted: u32) -> bool {
        self.is_below(self.geometry.place(wanted as usize).0, self.backups[pair])
    }

    /// The slot that the other half has in the queried stripe, which is the extra's then.
    fn slot_left_out(&self, pair: usize, wanted: u32) -> usize {
        let (stripe, _) = self.geometry.place(wanted as usize);
        self.own_slot(stripe, self.backups[pair])
    }
}

/// Parities may lack edits that steps are still to add: what takes a backup's place then gets them.
fn apply<F: Function>(hint: &mut Hint<F>, effect: &Effect) {
    let bytes = hint.geometry.record_bytes();
    let used = effect.used.iter().zip(&effect.tags).zip(effect.blocks.chunks_exact(bytes));
    for ((&[slot, pair, index], tag), block) in used {
        let (slot, pair) = (slot as usize, pair as usize);
        if index == MISSED {
            hint.edits_follow(hint.backups[pair], None);
        } else {
            let (before, ..) = hint.replace(slot, pair, index);
            hint.edits_follow(before, Some(slot));
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
            hint.half_mut(pair, above).zeroize(); // it was one half, and the record is known
        }
        hint.next = pair + 1;
    }
    hint.stamp.version += 1;
}
