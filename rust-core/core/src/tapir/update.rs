//! Applies an update list to a client's hint and its pending lookup, or to a hint in the making (papers: TAPIR §5.2, Fig. 6,
//! `UpdateHint`).

use zeroize::Zeroizing;

use crate::bytes::xor_into;
use crate::commitment::Checks;
use crate::database::content::CONTENT_HASH_BYTES;
use crate::database::list::{Entry, UpdateList};
use crate::error::{Error, expect_length};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::stored::HintUpdate;
use crate::tapir::hint::{Hint, HintBuilder};
use crate::tapir::permutation::Permutations;
use crate::tapir::query::Pending;

/// Updates the tags in the `wanted` partitions. New partitions must have tags already.
fn apply_to_tags(checks: &mut Checks, list: &UpdateList, wanted: impl Fn(usize) -> bool) {
    let Checks::Tags(tags) = checks else { return };
    let layout = list.after();
    let mut difference = vec![0; layout.record_bytes()];
    for entry in list.entries() {
        let (q, m) = layout.place(entry.index);
        if wanted(q) {
            difference.fill(0);
            difference[layout.slot(entry.index)].copy_from_slice(entry.difference);
            tags.change(q * layout.partition_records() + m, &difference);
        }
    }
}

/// Updates the parities in the `wanted` partitions (Fig. 6, UpdateHint 9–13). A scan finds a column. For many changes in a
/// partition, its inverse permutation is computed once instead.
fn apply_to_parities(
    layout: &Layout,
    permutations: &Permutations,
    parities: &mut [u8],
    groups: &[(usize, Vec<Entry<'_>>)],
    mut wanted: impl FnMut(usize) -> bool,
) {
    const SCANS_AN_INVERSE_COSTS: usize = 4;
    let (m, block_bytes) = (layout.partition_records(), layout.record_bytes());
    let mut inverse = Zeroizing::new(Vec::<u16>::new());
    for (q, entries) in groups {
        if !wanted(*q) {
            continue;
        }
        let invert = entries.len() > SCANS_AN_INVERSE_COSTS;
        if invert {
            inverse.resize(m, 0);
            for (column, &offset) in permutations.of(*q).iter().enumerate() {
                inverse[usize::from(offset)] = column as u16;
            }
        }
        for entry in entries {
            let (_, offset) = layout.place(entry.index);
            let column = if invert { usize::from(inverse[offset]) } else { permutations.column(*q, offset) };
            xor_into(&mut parities[column * block_bytes..][layout.slot(entry.index)], entry.difference);
        }
    }
}

impl HintUpdate {
    /// An update of `hint`, from 32 bytes of fresh entropy, into which the hint's secret is mixed.
    #[must_use]
    pub fn new(hint: &Hint, list: UpdateList, entropy: &[u8; ENTROPY_BYTES]) -> Self {
        let entropy = hint.secret.update_entropy(entropy, hint.stamp.version);
        HintUpdate { stamp: hint.stamp, list, entropy }
    }
}

/// Brings a hint and its pending lookup to the next epoch (Fig. 6, UpdateHint 6–14). The lookup asks for the same records as
/// before. Its old entries stay, and each new partition adds an entry to each vector. Records verified for it belong to the
/// old epoch and are dropped: the same vectors must be answered at the new epoch.
///
/// Without tags, the hint cannot verify answers until [`Hint::rebind`] has given it the new epoch's commitments.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::State`] if the update is another hint's, or not the next one; [`Error::Update`] if it
/// starts from another layout; [`Error::Layout`] if memory does not suffice. Then nothing has changed.
pub fn update_hint(hint: &mut Hint, pending: Option<&mut Pending>, update: &HintUpdate) -> Result<(), Error> {
    if update.stamp != hint.stamp {
        return Err(Error::State("an update of another hint, or out of order"));
    }
    hazmat_update_hint_from(hint, pending, &update.list, &mut ChaCha::new(&update.entropy, 0))
}

/// [`update_hint`] with the caller's randomness. For tests that enumerate all draws. With anything but secret, uniform
/// randomness, servers can learn the client's queries.
///
/// # Errors
/// As [`update_hint`].
pub fn hazmat_update_hint_from(
    hint: &mut Hint,
    pending: Option<&mut Pending>,
    list: &UpdateList,
    source: &mut impl Uniform,
) -> Result<(), Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    if pending.as_ref().is_some_and(|pending| pending.stamp != hint.stamp) {
        return Err(Error::State("the pending lookup belongs to another hint, or to another version of it"));
    }
    if *list.before() != hint.layout {
        return Err(Error::Update("it starts from another layout"));
    }
    hint.checks.reserve(list.after())?;
    hint.permutations.extend_with_identities(list.after())?;
    for q in list.before().partitions()..list.after().partitions() {
        hint.permutations.draw(q, source);
    }
    apply_to_parities(list.after(), &hint.permutations, &mut hint.parities, &list.by_partition(), |_| true);
    hint.checks.leave_epoch(list.after());
    apply_to_tags(&mut hint.checks, list, |_| true);
    hint.layout = *list.after();
    hint.stamp.version += 1;
    if let Some(pending) = pending {
        pending.stamp = hint.stamp;
        pending.verified = [None, None];
        extend_pending(hint, pending, list.before().partitions(), source);
    }
    Ok(())
}

/// Adds an entry for each new partition to both vectors of each query. The new permutations go through the lookup's swaps,
/// as the old ones did when the lookup was made.
fn extend_pending(hint: &mut Hint, pending: &mut Pending, partitions_before: usize, source: &mut impl Uniform) {
    let (partitions, bound) = (hint.layout.partitions(), hint.layout.partition_records() as u32);
    let count = pending.count();
    let widened = |rows: &[u16]| {
        let mut wide = Vec::with_capacity(count * partitions);
        for row in rows.chunks_exact(partitions_before) {
            wide.extend_from_slice(row);
            wide.resize(wide.len() + partitions - partitions_before, 0);
        }
        wide
    };
    pending.refresh_columns = widened(&pending.refresh_columns);
    pending.retrieve = widened(&pending.retrieve);
    pending.refresh = widened(&pending.refresh);
    let new_entries = |number: usize| (partitions_before..partitions).map(move |q| (q, number * partitions + q));
    for number in 0..count {
        let column = usize::from(pending.columns[number]);
        for (q, at) in new_entries(number) {
            let refresh_column = source.below(bound) as u16;
            pending.refresh_columns[at] = refresh_column;
            pending.retrieve[at] = hint.permutations.of(q)[column];
            pending.refresh[at] = hint.permutations.of(q)[usize::from(refresh_column)];
            hint.permutations.swap(q, column, usize::from(refresh_column));
        }
    }
    for number in (0..count).rev() {
        let column = usize::from(pending.columns[number]);
        for (q, at) in new_entries(number) {
            // Undo all swaps: each is its own inverse.
            hint.permutations.swap(q, column, usize::from(pending.refresh_columns[at]));
        }
    }
}

/// Brings a hint in the making to the next epoch. Folded partitions are updated; the others will be downloaded as they are
/// now. Downloads of changed partitions are dropped.
///
/// # Errors
/// [`Error::Update`] if the list starts from another layout; [`Error::Length`] unless there are Q digests; [`Error::Layout`]
/// if memory does not suffice. Then nothing has changed.
pub fn update_builder(
    builder: &mut HintBuilder,
    list: &UpdateList,
    commitments: &[u8],
    content_hashes: &[u8],
) -> Result<(), Error> {
    if *list.before() != builder.hint.layout {
        return Err(Error::Update("it starts from another layout"));
    }
    let after = *list.after();
    builder.hint.checks.check_commitments(&after, commitments)?;
    expect_length("content hashes", content_hashes, after.partitions() * CONTENT_HASH_BYTES)?;
    builder.hint.checks.reserve(&after)?;
    builder.hint.permutations.extend_with_identities(&after)?;
    builder.folded.resize(after.partitions(), false);
    let groups = list.by_partition();
    let Hint { checks, permutations, parities, .. } = &mut builder.hint;
    let folded = &builder.folded;
    apply_to_parities(&after, permutations, parities, &groups, |q| folded[q]);
    checks.leave_epoch(&after);
    apply_to_tags(checks, list, |q| folded[q]);
    checks.take_commitments(commitments);
    builder.abandon_partitions(|q| groups.iter().any(|(changed, _)| *changed == q));
    builder.hint.layout = after;
    builder.content_hashes = content_hashes.to_vec();
    Ok(())
}

impl Hint {
    /// Sets the commitments of the hint's new epoch. A hint with tags ignores them.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are Q.
    pub fn rebind(&mut self, commitments: &[u8]) -> Result<(), Error> {
        self.check_commitments(&self.layout, commitments)?;
        self.checks.take_commitments(commitments);
        Ok(())
    }

    /// Checks the number of commitments that the hint would need under a layout.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one for each partition. A hint with tags accepts anything.
    pub fn check_commitments(&self, layout: &Layout, commitments: &[u8]) -> Result<(), Error> {
        self.checks.check_commitments(layout, commitments)
    }
}
