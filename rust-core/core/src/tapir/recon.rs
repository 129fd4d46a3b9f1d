//! `Recon` (Fig. 5): verify every entry of both answers, and only then recover the records and bring permutations and
//! parities to the state after the batch, together.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::bytes::xor_into;
use crate::commitment::{Checks, VectorCommitment};
use crate::error::{Error, expect_length};
use crate::tapir::hint::{Hint, Stamp};
use crate::tapir::query::{Pending, Role, swap};

/// Verifies all count·Q entries of one server's answer, the dummy at q* and the refresh entries included, without
/// early exit (Fig. 5, Recon 9–15), and keeps its records for [`recon`]. `false`: at least one entry is forged, and
/// the hint is condemned. `C` is the commitment scheme of hints that keep no tags.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] if the answer is not as long as one to the batch, [`Error::Phase`] between an update and
/// [`Hint::rebind`] (it was then not evaluated, and nothing changed).
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

/// The same for a hint whose answers the caller verifies ([`crate::commitment::Proofs::Pointproofs`]), who has found
/// this one `genuine` or not, all of its entries together. `false` condemns the hint.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] as there; [`Error::Phase`] for a hint that verifies by itself. Nothing has
/// changed then.
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
    if !matches!(hint.checks, Checks::Elsewhere) {
        return Err(Error::Phase("this hint verifies answers by itself"));
    }
    expect_length("answer", answer, hint.proofs().answer_bytes::<C>(&hint.layout, pending.count()))?;
    take::<C>(hint, pending, role, answer, genuine);
    Ok(genuine)
}

/// Keeps the records of a genuine answer; any other condemns the hint.
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

/// What applying a batch does to a hint: exchanges in the permutations and XORs into the parities. Journals keep it;
/// replaying it needs neither answers nor servers. Its length depends on the layout and the count alone. Secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Effect {
    /// the hint before
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// one a query: q*
    pub(crate) partitions: Vec<u32>,
    /// one a query: ind
    pub(crate) columns: Vec<u16>,
    /// Q a query: r_q
    pub(crate) refresh_columns: Vec<u16>,
    /// Q·ℓ bytes a query: retrieve entry ⊕ refresh entry, zeros at q*
    pub(crate) changes: Vec<u8>,
}

/// What a batch brought.
pub struct Recovered {
    /// count·ℓ bytes, in query order
    pub records: Vec<u8>,
    /// already applied to the hint
    pub effect: Effect,
}

/// Recovers the batch's records and applies the batch to the hint (Fig. 5, Recon 16–21). Consumes what may be used
/// only once. A hint that keeps tags checks the recovered records as well.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] if an answer has not been verified; [`Error::State`] if a recovered record is
/// not the one tagged, which verified answers cannot bring about: the hint itself is corrupt. Nothing has changed then,
/// and the batch is given back.
pub fn recon(hint: &mut Hint, mut pending: Pending) -> Result<Recovered, (Error, Pending)> {
    if hint.condemned {
        return Err((Error::Condemned, pending));
    }
    let [Some(retrieve), Some(refresh)] = &pending.verified else {
        return Err((Error::Phase("both answers are verified before a batch is applied"), pending));
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
            // And back: XORs and exchanges undo themselves.
            let (q_star, column) = (q_stars[number] as usize, usize::from(pending.columns[number]));
            apply_query(hint, q_star, column, pending.refresh_columns_of(number, layout.partitions()), changes);
        }
        return Err((Error::State("a recovered record is not the one tagged: the hint is corrupt"), pending));
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

/// Whether the recovered blocks are the tagged ones; true if the hint keeps no tags. Looks at all of them.
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

/// Applies an effect from a journal to the hint it belongs to.
///
/// # Errors
/// [`Error::State`] if it is another hint's, or not the next one.
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
    swap(hint, q_star, column, refresh_columns); // Query 12, put off until here
}
