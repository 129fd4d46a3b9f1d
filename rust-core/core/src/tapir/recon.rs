//! `Recon` (Fig. 5): verifies every entry of both answers. Only then does it recover the records and update permutations and
//! parities together.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::bytes::xor_into;
use crate::commitment::{Checks, VectorCommitment};
use crate::error::{Error, expect_length};
use crate::stored::Stamp;
use crate::tapir::hint::Hint;
use crate::tapir::query::{Pending, Role, swap};

/// Verifies all count·Q entries of one server's answer, without early exit (Fig. 5, Recon 9–15). The dummy at q* and the
/// refresh entries are verified too. Keeps the records for [`recon`]. Returns `false`, and condemns the hint, if an entry is
/// forged. `C` verifies the answers to hints without tags.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] for an answer of the wrong length; [`Error::Phase`] between an update and
/// [`Hint::rebind`]. Then the answer was not judged, and nothing has changed.
pub fn verify<C: VectorCommitment>(
    hint: &mut Hint,
    pending: &mut Pending,
    role: Role,
    answer: &[u8],
) -> Result<bool, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    let layout = hint.layout;
    expect_length("answer", answer, hint.proofs().answer_bytes::<C>(&layout, pending.count()))?;
    let genuine = hint.checks.verify::<C>(&layout, pending.offsets(role), answer)?;
    take::<C>(hint, pending, role, answer, genuine);
    Ok(genuine)
}

/// [`verify`] for a hint whose answers the caller verifies ([`crate::commitment::Proofs::Packaged`]). `genuine` is the
/// caller's verdict on all entries together. `false` condemns the hint.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] for an answer of the wrong length; [`Error::Phase`] for a hint that verifies
/// answers itself. Then nothing has changed.
pub fn judged<C: VectorCommitment>(
    hint: &mut Hint,
    pending: &mut Pending,
    role: Role,
    answer: &[u8],
    genuine: bool,
) -> Result<bool, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    if !matches!(hint.checks, Checks::ByCaller(_)) {
        return Err(Error::Phase("this hint verifies answers itself; call verify"));
    }
    expect_length("answer", answer, hint.proofs().answer_bytes::<C>(&hint.layout, pending.count()))?;
    take::<C>(hint, pending, role, answer, genuine);
    Ok(genuine)
}

/// Keeps the records of a genuine answer, or condemns the hint.
fn take<C: VectorCommitment>(hint: &mut Hint, pending: &mut Pending, role: Role, answer: &[u8], genuine: bool) {
    if !genuine {
        hint.condemn();
        return;
    }
    let layout = hint.layout;
    let entries = pending.offsets(role).len();
    let mut records = Vec::with_capacity(entries * layout.record_bytes());
    for entry in answer.chunks_exact(hint.proofs().entry_bytes::<C>(&layout)).take(entries) {
        records.extend_from_slice(&entry[..layout.record_bytes()]);
    }
    pending.verified[role as usize] = Some(records);
}

/// How a lookup changes a hint: swaps in the permutations, and XORs into the parities. Journals store it; replaying it
/// needs neither answers nor servers. Its length depends on nothing but the layout and the number of queries. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Effect {
    /// the hint's stamp before the lookup
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// for each query q*
    pub(crate) partitions: Vec<u32>,
    /// for each query ind
    pub(crate) columns: Vec<u16>,
    /// for each query Q values r_q
    pub(crate) refresh_columns: Vec<u16>,
    /// for each query Q·ℓ bytes: retrieve entry ⊕ refresh entry, and zeros at q*
    pub(crate) changes: Vec<u8>,
}

/// The result of a lookup.
pub struct Recovered {
    /// count·ℓ bytes, in query order
    pub records: Vec<u8>,
    /// how the lookup changed the hint
    pub effect: Effect,
}

/// Recovers the lookup's records and applies the lookup to the hint (Fig. 5, Recon 16–21). Consumes the lookup: it may be applied
/// only once. If the hint keeps tags, the recovered records are checked with them too.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] unless both answers are verified; [`Error::State`] if a recovered record does not
/// match its tag. Since the answers are verified, the hint itself is corrupt then. After an error nothing has changed, and
/// the lookup is returned.
pub fn recon(hint: &mut Hint, mut pending: Pending) -> Result<Recovered, (Error, Pending)> {
    if hint.condemned {
        return Err((Error::Condemned, pending));
    }
    let [Some(retrieve), Some(refresh)] = &pending.verified else {
        return Err((Error::Phase("verify both answers before applying the lookup"), pending));
    };
    let layout = hint.layout;
    let record_bytes = layout.record_bytes();
    let query_bytes = layout.partitions() * record_bytes;

    let mut changes = retrieve.clone();
    xor_into(&mut changes, refresh);
    let mut blocks = Vec::with_capacity(pending.count() * record_bytes);
    let mut q_stars = Vec::with_capacity(pending.count());
    for (number, &index) in pending.indices.iter().enumerate() {
        let (q_star, _) = layout.place(index);
        let column = usize::from(pending.columns[number]);
        let of_query = number * query_bytes..(number + 1) * query_bytes;

        let start = blocks.len();
        blocks.extend_from_slice(hint.parity_mut(column));
        for (q, retrieved) in retrieve[of_query.clone()].chunks_exact(record_bytes).enumerate() {
            if q != q_star {
                xor_into(&mut blocks[start..], retrieved); // Recon 17
            }
        }
        let changes = &mut changes[of_query];
        changes[q_star * record_bytes..][..record_bytes].fill(0);
        apply_query(hint, q_star, column, pending.refresh_columns_of(number, layout.partitions()), changes);
        q_stars.push(q_star as u32);
    }
    if !are_tagged(hint, &pending.indices, &blocks) {
        for (number, changes) in changes.chunks_exact(query_bytes).enumerate().rev() {
            // Undo all queries: XORs and swaps are their own inverses.
            let (q_star, column) = (q_stars[number] as usize, usize::from(pending.columns[number]));
            apply_query(hint, q_star, column, pending.refresh_columns_of(number, layout.partitions()), changes);
        }
        return Err((Error::State("a recovered record does not match its tag: the hint is corrupt"), pending));
    }
    let effect = Effect {
        stamp: hint.stamp,
        partitions: q_stars,
        columns: std::mem::take(&mut pending.columns),
        refresh_columns: std::mem::take(&mut pending.refresh_columns),
        changes,
    };
    hint.stamp.version += 1;
    Ok(Recovered { records: layout.cut(&pending.indices, &blocks), effect })
}

/// Whether all recovered blocks match their tags; true without tags. Checks all of them, without early exit.
fn are_tagged(hint: &Hint, indices: &[u32], blocks: &[u8]) -> bool {
    let Some(tags) = hint.tags() else { return true };
    let layout = &hint.layout;
    let slots = indices.iter().map(|&index| {
        let (q, m) = layout.place(index);
        q * layout.partition_records() + m
    });
    let blocks = blocks.chunks_exact(layout.record_bytes());
    slots.zip(blocks).fold(0, |all, (slot, block)| all | tags.difference(slot, block)) == 0
}

/// Applies a journal's effect to its hint.
///
/// # Errors
/// [`Error::State`] for an effect of another hint, or one that is not the next.
pub fn replay(hint: &mut Hint, effect: &Effect) -> Result<(), Error> {
    if effect.stamp != hint.stamp {
        return Err(Error::State("an effect of another hint, or out of order"));
    }
    let query_bytes = hint.layout.partitions() * hint.layout.record_bytes();
    let queries = effect.partitions.iter().zip(&effect.columns);
    let rows = effect.refresh_columns.chunks_exact(hint.layout.partitions());
    for (((&q_star, &column), refresh_columns), changes) in
        queries.zip(rows).zip(effect.changes.chunks_exact(query_bytes))
    {
        apply_query(hint, q_star as usize, usize::from(column), refresh_columns, changes);
    }
    hint.stamp.version += 1;
    Ok(())
}

fn apply_query(hint: &mut Hint, q_star: usize, column: usize, refresh_columns: &[u16], changes: &[u8]) {
    let record_bytes = hint.layout.record_bytes();
    for (change, &refresh_column) in changes.chunks_exact(record_bytes).zip(refresh_columns) {
        xor_into(hint.parity_mut(column), change); // Recon 19
        xor_into(hint.parity_mut(usize::from(refresh_column)), change); // Recon 20
    }
    swap(hint, q_star, column, refresh_columns); // Query 12, which `query` left out
}
