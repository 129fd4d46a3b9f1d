//! Update lists, and what a client does with one (papers: TAPIR §5.2, Fig. 6, `UpdateHint`).
//!
//! A list leads from one epoch to the next: entries in ascending order of record index, each with old ⊕ new, which is
//! all that parities need. Both servers' manifests hold its hash, so it is right before it is read; it is still checked
//! whole before any of it is applied.
//!
//! Partitions never go: Q grows or stays, M and ℓ are fixed within a generation.

use zeroize::Zeroizing;

use crate::commitment::COMMITMENT_BYTES;
use crate::content::CONTENT_HASH_BYTES;
use crate::directory::Directory;
use crate::error::{Error, expect_length};
use crate::hint::{Hint, HintBuilder, Stamp, xor_into};
use crate::layout::Layout;
use crate::permutation::Permutations;
use crate::query::Pending;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};

const MAGIC: &[u8; 4] = b"PIRU";
const FORMAT: u16 = 1;
/// old ⊕ new, for hints whose answers carry proofs
const FORM_DELTA: u16 = 1;
const HEADER_BYTES: usize = 40;

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// an empty slot, or one beyond the old N, was filled
    Add = 1,
    /// a filled slot has other contents
    Edit = 2,
    /// a filled slot was zeroed
    Delete = 3,
}

/// One entry of an update list.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// the record's index
    pub index: u32,
    /// what happened to it
    pub kind: Kind,
    /// old ⊕ new, ℓ bytes
    pub delta: &'a [u8],
}

/// All changes from one epoch to the next, in canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateList {
    before: Layout,
    after: Layout,
    bytes: Vec<u8>,
}

impl UpdateList {
    /// Begins a list from `before` to `after`; entries follow with [`UpdateList::push`], ascending by index.
    pub(crate) fn new(before: Layout, after: Layout, count: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + count * entry_bytes(&after));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&FORM_DELTA.to_le_bytes());
        for number in [
            before.records(),
            before.partitions(),
            after.records(),
            after.partitions(),
            after.partition_records(),
            after.record_bytes(),
            count,
            0,
        ] {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        UpdateList { before, after, bytes }
    }

    pub(crate) fn push(&mut self, index: u32, kind: Kind, delta: impl Iterator<Item = u8>) {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        self.bytes.push(kind as u8);
        self.bytes.extend(delta);
    }

    /// Reads the list that leads from a database of layout `before` to one of layout `after`.
    ///
    /// # Errors
    /// [`Error::Update`] for any other bytes.
    pub fn decode(bytes: &[u8], before: Layout, after: Layout) -> Result<Self, Error> {
        let refuse = |why: &'static str| Err(Error::Update(why));
        let same_shape = before.partition_records() == after.partition_records()
            && before.record_bytes() == after.record_bytes()
            && before.partitions() <= after.partitions()
            && before.records() <= after.records();
        if !same_shape {
            return refuse("partitions go or change size, which takes a new generation");
        }
        let Some((header, entries)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return refuse("the bytes end too early");
        };
        let count = entries.len() / entry_bytes(&after);
        if entries.len() % entry_bytes(&after) != 0
            || *header != *UpdateList::new(before, after, count).bytes.as_slice()
        {
            return refuse("its header is not that of this update");
        }
        let list = UpdateList { before, after, bytes: bytes.to_vec() };
        let mut previous = None;
        for entry in entries.chunks_exact(entry_bytes(&after)) {
            let entry = read_entry(entry).ok_or(Error::Update("an entry is neither add, edit nor delete"))?;
            if entry.index as usize >= after.records() || previous.is_some_and(|previous| previous >= entry.index) {
                return refuse("its entries are not in ascending order within the database");
            }
            if entry.index as usize >= before.records() && entry.kind != Kind::Add {
                return refuse("a record that did not exist is edited or deleted");
            }
            if entry.delta.iter().all(|&byte| byte == 0) {
                return refuse("an entry changes nothing");
            }
            previous = Some(entry.index);
        }
        Ok(list)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The layout it starts from.
    #[must_use]
    pub fn before(&self) -> &Layout {
        &self.before
    }

    /// The layout it leads to.
    #[must_use]
    pub fn after(&self) -> &Layout {
        &self.after
    }

    /// Entries, ascending by index.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.bytes[HEADER_BYTES..].chunks_exact(entry_bytes(&self.after)).filter_map(read_entry)
    }

    /// The entries of each partition that has any, as (q, entries).
    fn by_partition(&self) -> Vec<(usize, Vec<Entry<'_>>)> {
        let mut groups: Vec<(usize, Vec<Entry<'_>>)> = Vec::new();
        for entry in self.entries() {
            let q = entry.index as usize / self.after.partition_records();
            match groups.last_mut() {
                Some((last, entries)) if *last == q => entries.push(entry),
                _ => groups.push((q, vec![entry])),
            }
        }
        groups
    }
}

fn entry_bytes(layout: &Layout) -> usize {
    5 + layout.record_bytes()
}

fn read_entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let (index, rest) = bytes.split_first_chunk()?;
    let (&kind, delta) = rest.split_first()?;
    let kind = match kind {
        1 => Kind::Add,
        2 => Kind::Edit,
        3 => Kind::Delete,
        _ => return None,
    };
    Some(Entry { index: u32::from_le_bytes(*index), kind, delta })
}

/// Applies deltas to the parities under the permutations as they stand (Fig. 6, UpdateHint 9–13). Finding a column is
/// a scan; for many changes to a partition its inverse is made once instead.
fn apply_deltas(
    layout: &Layout,
    permutations: &Permutations,
    parities: &mut [u8],
    groups: &[(usize, Vec<Entry<'_>>)],
    mut wanted: impl FnMut(usize) -> bool,
) {
    const SCANS_AN_INVERSE_COSTS: usize = 4;
    let (m, record_bytes) = (layout.partition_records(), layout.record_bytes());
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
            let offset = entry.index as usize % m;
            let column = if invert { usize::from(inverse[offset]) } else { permutations.column(*q, offset) };
            xor_into(&mut parities[column * record_bytes..][..record_bytes], entry.delta);
        }
    }
}

/// An update as a journal keeps it: replaying it needs the list and the entropy, and no server.
pub struct HintUpdate {
    /// the hint before
    pub(crate) stamp: Stamp,
    /// what changed
    pub list: UpdateList,
    /// what new permutations and a pending batch's new entries were drawn from
    pub(crate) entropy: Zeroizing<[u8; ENTROPY_BYTES]>,
}

impl HintUpdate {
    /// An update of `hint`, under 32 bytes of fresh entropy.
    #[must_use]
    pub fn new(hint: &Hint, list: UpdateList, entropy: [u8; ENTROPY_BYTES]) -> Self {
        HintUpdate { stamp: hint.stamp, list, entropy: Zeroizing::new(entropy) }
    }
}

/// Brings a hint, and the batch pending on it, to the next epoch (Fig. 6, UpdateHint 6–14). The batch asks for the same
/// records as before: its old entries stay as they are, and each new partition adds one to each vector. Records already
/// verified for it belong to the old epoch and are forgotten; the same vectors are to be answered at the new one.
///
/// The hint cannot verify answers again before [`Hint::rebind`] gave it the new epoch's commitments.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::State`] if the update is another hint's or not the next one; [`Error::Update`] if it
/// starts from another layout; [`Error::Layout`] if memory does not suffice. Nothing has changed then.
pub fn update_hint(hint: &mut Hint, pending: Option<&mut Pending>, update: &HintUpdate) -> Result<(), Error> {
    if update.stamp != hint.stamp {
        return Err(Error::State("an update of another hint, or out of order"));
    }
    hazmat_update_hint_from(hint, pending, &update.list, &mut ChaCha::new(&update.entropy, 0))
}

/// [`update_hint`] with a source of the caller's: for tests that enumerate all draws. Anything but a secret uniform
/// source gives the client's queries away.
///
/// # Errors
/// As there.
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
        return Err(Error::State("a pending batch of another hint, or of another moment"));
    }
    if list.before != hint.layout {
        return Err(Error::Update("it starts from another layout"));
    }
    hint.permutations.extend_with_identities(&list.after)?;
    for q in list.before.partitions()..list.after.partitions() {
        hint.permutations.draw(q, source);
    }
    apply_deltas(&list.after, &hint.permutations, &mut hint.parities, &list.by_partition(), |_| true);
    hint.layout = list.after;
    hint.commitments.clear();
    hint.stamp.version += 1;
    if let Some(pending) = pending {
        pending.stamp = hint.stamp;
        pending.verified = [None, None];
        extend_pending(hint, pending, list.before.partitions(), source);
    }
    Ok(())
}

/// Adds one entry for each new partition to both vectors of each query. In a batch the new permutations evolve through
/// the batch's swaps, as the old ones did when it was made.
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
            // And back: each exchange undoes itself.
            hint.permutations.swap(q, column, usize::from(pending.refresh_columns[at]));
        }
    }
}

/// Brings a half-made hint to the next epoch: partitions that are folded get their deltas, the others will be
/// downloaded as they are now. Downloads under way of partitions that changed are given up.
///
/// # Errors
/// [`Error::Update`] if the list starts from another layout; [`Error::Length`] if the digests are not Q;
/// [`Error::Layout`] if memory does not suffice. Nothing has changed then.
pub fn update_builder(
    builder: &mut HintBuilder,
    list: &UpdateList,
    commitments: &[u8],
    content_hashes: &[u8],
) -> Result<(), Error> {
    if list.before != builder.hint.layout {
        return Err(Error::Update("it starts from another layout"));
    }
    let after = list.after;
    Hint::check_commitments(&after, commitments)?;
    expect_length("content hashes", content_hashes, after.partitions() * CONTENT_HASH_BYTES)?;
    builder.hint.permutations.extend_with_identities(&after)?;
    builder.folded.resize(after.partitions(), false);
    let groups = list.by_partition();
    let Hint { permutations, parities, .. } = &mut builder.hint;
    let folded = &builder.folded;
    apply_deltas(&after, permutations, parities, &groups, |q| folded[q]);
    builder.abandon_partitions(|q| groups.iter().any(|(changed, _)| *changed == q));
    builder.hint.layout = after;
    builder.hint.commitments = commitments.to_vec();
    builder.content_hashes = content_hashes.to_vec();
    Ok(())
}

impl Hint {
    /// Takes the commitments of the epoch the hint was brought to.
    ///
    /// # Errors
    /// [`Error::Length`] if they are not Q.
    pub fn rebind(&mut self, commitments: &[u8]) -> Result<(), Error> {
        Self::check_commitments(&self.layout, commitments)?;
        self.commitments = commitments.to_vec();
        Ok(())
    }

    /// Whether these are as many commitments as a layout has partitions.
    ///
    /// # Errors
    /// [`Error::Length`] if not.
    pub fn check_commitments(layout: &Layout, commitments: &[u8]) -> Result<(), Error> {
        expect_length("commitments", commitments, layout.partitions() * COMMITMENT_BYTES)
    }
}

impl Directory {
    /// The directory of the next epoch: keys that were added are placed by the overlay unless the perfect hash already
    /// leads to them, keys that were deleted leave it. Equal updates give equal bytes everywhere.
    ///
    /// # Errors
    /// [`Error::Update`] if records have no room for a fingerprint.
    pub fn updated(&self, list: &UpdateList) -> Result<Self, Error> {
        let mut changes = Vec::new();
        // Deletes before adds: one batch may delete a key and add it again, in a slot below the old one.
        for wanted in [Kind::Delete, Kind::Add] {
            for entry in list.entries().filter(|entry| entry.kind == wanted) {
                // An added slot was empty and a deleted one is: the delta is the record, fingerprint first.
                let print = entry.delta.first_chunk().ok_or(Error::Update("a record has no room for a fingerprint"))?;
                changes.push((*print, (wanted == Kind::Add).then_some(entry.index)));
            }
        }
        Ok(self.with_overlay(&changes))
    }
}
