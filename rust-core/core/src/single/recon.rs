//! What comes back: both parities are verified, whatever they are needed for, and only then is the one that is taken apart
//! (papers: S3PIR, Algorithm 2, lines 17 and 18), and the hint that was used replaced (Algorithm 5).
//!
//! A client that checked the record alone would notice a wrong parity exactly if it is the hint's own; the queried stripe
//! lies in the other. Whether a lie was noticed would then be a bit of what was asked. Here it follows from the lie alone.

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
/// [`Error::Condemned`]; [`Error::Length`] if the answer is not as long as one to the batch (nothing has changed then).
pub fn verify<F: Function>(hint: &mut Hint<F>, pending: &mut Pending, answer: &[u8]) -> Result<bool, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    let geometry = hint.geometry;
    expect_length("answer", answer, pending.count() * geometry.answer_bytes())?;
    let mut differences = 0;
    let queries = pending.queries.chunks_exact(geometry.query_bytes());
    for (query, parities) in queries.zip(answer.chunks_exact(geometry.answer_bytes())) {
        let (bits, offsets) = query.split_at(geometry.bits_bytes());
        let mut sums = [0; 2];
        let tags = hint.tags.all().chunks_exact(geometry.stripe_records());
        for (stripe, (tags, offset)) in tags.zip(offsets.as_chunks().0).enumerate() {
            let in_second = u64::from(bits[stripe / 8] >> (stripe % 8) & 1).wrapping_neg();
            let tag = tags[usize::from(u16::from_le_bytes(*offset))];
            sums[0] ^= tag & !in_second;
            sums[1] ^= tag & in_second;
        }
        for (sum, parity) in sums.into_iter().zip(parities.chunks_exact(geometry.record_bytes())) {
            differences |= sum ^ hint.tags.tag(parity);
        }
    }
    if differences == 0 {
        pending.verified = Some(answer.to_vec());
    } else {
        hint.condemn();
    }
    Ok(differences == 0)
}

/// What applying a batch does to a hint: replaying it needs neither answer nor server. Its length depends on the layout and
/// the count alone. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Effect {
    /// the hint before
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// one a query: slot, pair, slot of the record; [`MISSED`] all three where nothing was used
    pub(crate) used: Vec<[u32; 3]>,
    /// ℓ′ bytes a query: the record, zeros where nothing was used
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
/// [`Error::Condemned`]; [`Error::Phase`] if the answer has not been verified; [`Error::State`] if a recovered record is not
/// the one tagged, which verified answers cannot bring about: the hint itself is corrupt. Nothing has changed then, and the
/// batch is given back.
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
        blocks: vec![0; pending.count() * bytes],
    };
    let mut differences = 0;
    for (number, parities) in answer.chunks_exact(geometry.answer_bytes()).enumerate() {
        let (slot, pair) = (pending.slots[number], pending.pairs[number]);
        if slot == MISSED {
            effect.used.push([MISSED; 3]);
            continue;
        }
        let wanted = pending.indices[number] / hint.layout.stored().block_records as u32;
        let (before, rest) = effect.blocks.split_at_mut(number * bytes);
        let block = &mut rest[..bytes];
        // The slot as the last query of the batch that used it has left it, or as it is.
        match effect.used.iter().rposition(|used| used[0] == slot) {
            None => block.copy_from_slice(hint.parity(slot as usize)),
            Some(last) => {
                let [_, pair, index] = effect.used[last];
                let (stripe, _) = geometry.place(index as usize);
                let above = hint.is_below(stripe, hint.backups[pair as usize]);
                block.copy_from_slice(hint.half(pair as usize, above));
                xor_into(block, &before[last * bytes..][..bytes]);
            }
        }
        xor_into(block, &parities[usize::from(pending.sides[number]) * bytes..][..bytes]);
        differences |= hint.tags.tag(block) ^ hint.tags.all()[wanted as usize];
        effect.used.push([slot, pair, wanted]);
    }
    if differences != 0 {
        return Err((Error::State("a recovered record is not the one tagged: the hint is corrupt"), pending));
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
    let used = effect.used.iter().filter(|used| used[0] != MISSED);
    for (next, &[slot, pair, index]) in (hint.next..).zip(used) {
        let is_next = pair as usize == next && next < hint.backups.len();
        if !is_next || slot as usize >= hint.ids.len() || index as usize >= hint.geometry.slots() {
            return Err(Error::State("an effect of what this hint does not have"));
        }
    }
    apply(hint, effect);
    Ok(())
}

/// Parities may lack edits that steps are still to add: what takes a backup's place then gets them.
fn apply<F: Function>(hint: &mut Hint<F>, effect: &Effect) {
    let bytes = hint.geometry.record_bytes();
    for (&[slot, pair, index], block) in effect.used.iter().zip(effect.blocks.chunks_exact(bytes)) {
        if slot == MISSED {
            continue;
        }
        let (slot, pair) = (slot as usize, pair as usize);
        let (before, ..) = hint.replace(slot, pair, index);
        hint.edits_follow(slot, before);
        let above = hint.flips[slot];
        let mut parity = hint.half(pair, above).to_vec();
        xor_into(&mut parity, block);
        hint.parity_mut(slot).copy_from_slice(&parity);
        parity.zeroize();
        for above in [false, true] {
            hint.half_mut(pair, above).zeroize(); // it was one half, and the record is known
        }
        hint.next = pair + 1;
    }
    hint.stamp.version += 1;
}
