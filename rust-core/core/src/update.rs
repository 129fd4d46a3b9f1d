//! Update lists, and what a client does with one (papers: TAPIR §5.2, Fig. 6, `UpdateHint`).
//!
//! A list leads from one epoch to the next: entries in ascending order of record index. It has two forms. In the delta
//! form each entry has old ⊕ new, which is all that parities need; in the record form it has both records, for hints
//! that keep tags. Both servers' manifests hold the hashes of both, so a list is right before it is read; it is still
//! checked whole before any of it is applied.
//!
//! Partitions never go: Q grows or stays, M and ℓ are fixed within a generation.

use zeroize::Zeroizing;

use crate::commitment::Checks;
use crate::content::CONTENT_HASH_BYTES;
use crate::directory::Directory;
use crate::error::{Error, expect_length};
use crate::hint::{Hint, HintBuilder, Stamp, xor_into};
use crate::key::FINGERPRINT_BYTES;
use crate::layout::Layout;
use crate::permutation::Permutations;
use crate::query::Pending;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};

const MAGIC: &[u8; 4] = b"PIRU";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 40;

/// How a list tells a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// old ⊕ new, for hints whose answers carry proofs
    Delta = 1,
    /// old and new, for hints that keep tags; fit for any hint
    Record = 2,
}

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
    /// old and new contents
    pub change: Change<'a>,
}

/// What was, and what is.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// old ⊕ new, ℓ bytes
    Delta(&'a [u8]),
    /// ℓ bytes each
    Record {
        /// before
        old: &'a [u8],
        /// after
        new: &'a [u8],
    },
}

impl Change<'_> {
    /// Byte `at` of old ⊕ new.
    fn delta(&self, at: usize) -> u8 {
        match self {
            Change::Delta(delta) => delta[at],
            Change::Record { old, new } => old[at] ^ new[at],
        }
    }

    /// XORs old ⊕ new into a record or a parity.
    pub(crate) fn apply(&self, into: &mut [u8]) {
        match self {
            Change::Delta(delta) => xor_into(into, delta),
            Change::Record { old, new } => {
                xor_into(into, old);
                xor_into(into, new);
            }
        }
    }
}

/// All changes from one epoch to the next, in canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateList {
    form: Form,
    before: Layout,
    after: Layout,
    bytes: Vec<u8>,
}

impl UpdateList {
    /// Begins a list from `before` to `after`; entries follow with [`UpdateList::push`], ascending by index.
    pub(crate) fn new(form: Form, before: Layout, after: Layout, count: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + count * entry_bytes(form, &after));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(form as u16).to_le_bytes());
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
        UpdateList { form, before, after, bytes }
    }

    pub(crate) fn push(&mut self, index: u32, kind: Kind, old: &[u8], new: &[u8]) {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        self.bytes.push(kind as u8);
        match self.form {
            Form::Delta => self.bytes.extend(old.iter().zip(new).map(|(old, new)| old ^ new)),
            Form::Record => {
                self.bytes.extend_from_slice(old);
                self.bytes.extend_from_slice(new);
            }
        }
    }

    /// Reads the list, in either form, that leads from a database of layout `before` to one of layout `after`.
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
        let form = if header[6] == Form::Record as u8 { Form::Record } else { Form::Delta };
        let each = entry_bytes(form, &after);
        let expected = UpdateList::new(form, before, after, entries.len() / each).bytes;
        if entries.len() % each != 0 || *header != *expected.as_slice() {
            return refuse("its header is not that of this update");
        }
        let list = UpdateList { form, before, after, bytes: bytes.to_vec() };
        let mut previous = None;
        for entry in entries.chunks_exact(each) {
            let entry = read_entry(form, entry).ok_or(Error::Update("an entry is neither add, edit nor delete"))?;
            if entry.index as usize >= after.records() || previous.is_some_and(|previous| previous >= entry.index) {
                return refuse("its entries are not in ascending order within the database");
            }
            if entry.index as usize >= before.records() && entry.kind != Kind::Add {
                return refuse("a record that did not exist is edited or deleted");
            }
            if (0..after.record_bytes()).all(|at| entry.change.delta(at) == 0) {
                return refuse("an entry changes nothing");
            }
            if let Change::Record { old, new } = entry.change
                && (entry.kind == Kind::Add && !is_zero(old) || entry.kind == Kind::Delete && !is_zero(new))
            {
                return refuse("an add has a record before it, or a delete after it");
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

    /// Its form.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
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
        let entries = self.bytes[HEADER_BYTES..].chunks_exact(entry_bytes(self.form, &self.after));
        entries.filter_map(|entry| read_entry(self.form, entry))
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

fn entry_bytes(form: Form, layout: &Layout) -> usize {
    5 + form as usize * layout.record_bytes()
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn read_entry(form: Form, bytes: &[u8]) -> Option<Entry<'_>> {
    let (index, rest) = bytes.split_first_chunk()?;
    let (&kind, contents) = rest.split_first()?;
    let kind = match kind {
        1 => Kind::Add,
        2 => Kind::Edit,
        3 => Kind::Delete,
        _ => return None,
    };
    let change = match form {
        Form::Delta => Change::Delta(contents),
        Form::Record => {
            let (old, new) = contents.split_at(contents.len() / 2);
            Change::Record { old, new }
        }
    };
    Some(Entry { index: u32::from_le_bytes(*index), kind, change })
}

/// Whether a hint that keeps tags can follow a list: it must have whole records, and the old ones be those that were
/// tagged, in the partitions that are `wanted`. Both servers vouch for the list, so any other are this hint's fault.
fn check_replaced(checks: &Checks, list: &UpdateList, wanted: impl Fn(usize) -> bool) -> Result<(), Error> {
    let Checks::Tags(tags) = checks else { return Ok(()) };
    let mut differences = 0;
    for entry in list.entries() {
        let Change::Record { old, .. } = entry.change else {
            return Err(Error::Update("a hint that keeps tags takes it in record form"));
        };
        let index = entry.index as usize;
        if index < list.before.slots() && wanted(index / list.before.partition_records()) {
            differences |= tags.difference(index, old);
        }
    }
    if differences == 0 { Ok(()) } else { Err(Error::State("an updated record is not the one tagged")) }
}

/// Applies the changes in the partitions that are `wanted` to the tags, which have grown already.
fn apply_to_tags(checks: &mut Checks, list: &UpdateList, wanted: impl Fn(usize) -> bool) {
    let Checks::Tags(tags) = checks else { return };
    for entry in list.entries() {
        let index = entry.index as usize;
        if let Change::Record { new, .. } = entry.change
            && wanted(index / list.after.partition_records())
        {
            tags.set(index, new);
        }
    }
}

/// Applies changes to the parities under the permutations as they stand (Fig. 6, UpdateHint 9–13). Finding a column is
/// a scan; for many changes to a partition its inverse is made once instead.
fn apply_to_parities(
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
            entry.change.apply(&mut parities[column * record_bytes..][..record_bytes]);
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
/// The hint cannot verify answers again before [`Hint::rebind`] gave it the new epoch's commitments, unless it keeps
/// tags.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::State`] if the update is another hint's or not the next one, or an old record in it is
/// not the one tagged; [`Error::Update`] if it starts from another layout or is not in the form the hint needs;
/// [`Error::Layout`] if memory does not suffice. Nothing has changed then.
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
    check_replaced(&hint.checks, list, |_| true)?;
    hint.checks.reserve(&list.after)?;
    hint.permutations.extend_with_identities(&list.after)?;
    for q in list.before.partitions()..list.after.partitions() {
        hint.permutations.draw(q, source);
    }
    apply_to_parities(&list.after, &hint.permutations, &mut hint.parities, &list.by_partition(), |_| true);
    hint.checks.leave_epoch(&list.after);
    apply_to_tags(&mut hint.checks, list, |_| true);
    hint.layout = list.after;
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

/// Brings a half-made hint to the next epoch: partitions that are folded get their changes, the others will be
/// downloaded as they are now. Downloads under way of partitions that changed are given up.
///
/// # Errors
/// [`Error::Update`] if the list starts from another layout or is not in the form the hint needs; [`Error::State`] if an
/// old record is not the one tagged; [`Error::Length`] if the digests are not Q; [`Error::Layout`] if memory does not
/// suffice. Nothing has changed then.
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
    builder.hint.checks.check_commitments(&after, commitments)?;
    expect_length("content hashes", content_hashes, after.partitions() * CONTENT_HASH_BYTES)?;
    check_replaced(&builder.hint.checks, list, |q| builder.folded[q])?;
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
    /// Takes the commitments of the epoch the hint was brought to. Hints that keep tags need none.
    ///
    /// # Errors
    /// [`Error::Length`] if they are not Q.
    pub fn rebind(&mut self, commitments: &[u8]) -> Result<(), Error> {
        self.check_commitments(&self.layout, commitments)?;
        self.checks.take_commitments(commitments);
        Ok(())
    }

    /// Whether these are as many commitments as the hint would need under a layout.
    ///
    /// # Errors
    /// [`Error::Length`] if not.
    pub fn check_commitments(&self, layout: &Layout, commitments: &[u8]) -> Result<(), Error> {
        self.checks.check_commitments(layout, commitments)
    }
}

impl Directory {
    /// The directory of the next epoch: keys that were added are placed by the overlay unless the perfect hash already
    /// leads to them, keys that were deleted leave it. Equal updates give equal bytes everywhere.
    ///
    /// # Errors
    /// [`Error::Update`] if records have no room for a fingerprint.
    pub fn updated(&self, list: &UpdateList) -> Result<Self, Error> {
        if list.after.record_bytes() < FINGERPRINT_BYTES {
            return Err(Error::Update("a record has no room for a fingerprint"));
        }
        let mut changes = Vec::new();
        // Deletes before adds: one batch may delete a key and add it again, in a slot below the old one.
        for wanted in [Kind::Delete, Kind::Add] {
            for entry in list.entries().filter(|entry| entry.kind == wanted) {
                // An added slot was empty and a deleted one is: old ⊕ new is the record, fingerprint first.
                let print = std::array::from_fn(|at| entry.change.delta(at));
                changes.push((print, (wanted == Kind::Add).then_some(entry.index)));
            }
        }
        Ok(self.with_overlay(&changes))
    }
}
