//! Update lists: what changes from one epoch to the next (papers: TAPIR §5.2). A server makes them; servers that come
//! back, directories and hints follow them.
//!
//! A list has its entries in ascending order of record index, and two forms. In the delta form each entry has old ⊕ new,
//! which is all that parities need; in the record form it has both records, for hints that keep tags. Both servers'
//! manifests hold the hashes of both, so a list is right before it is read; it is still checked whole before any of it is
//! applied.
//!
//! Partitions never go: Q grows or stays, M and ℓ are fixed within a generation.

use crate::bytes::{is_zero, xor_into};
use crate::directory::{Directory, Overfull};
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, Stored};

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
        let Stored { record_bytes, partition_records, block_records } = *after.stored();
        for number in [
            before.records(),
            before.partitions(),
            after.records(),
            after.partitions(),
            partition_records,
            record_bytes,
            count,
            block_records.trailing_zeros() as usize,
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
        let same_shape = before.stored() == after.stored()
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
            if (0..after.stored().record_bytes).all(|at| entry.change.delta(at) == 0) {
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

    /// Reads a list with the layouts that its header names, for whoever trusts where it comes from.
    ///
    /// # Errors
    /// [`Error::Update`] if the bytes are no such list.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Error::Update("the bytes end too early"))?;
        let number = |place: usize| u64::from(u32::from_le_bytes(std::array::from_fn(|at| header[8 + 4 * place + at])));
        let layout = |records, partitions| {
            Layout::packed(number(records), number(5), number(partitions), number(4), 1 << number(7).min(63))
                .map_err(|_| Error::Update("its header names no layout"))
        };
        Self::decode(bytes, layout(0, 1)?, layout(2, 3)?)
    }

    /// old ⊕ new of each entry, ℓ bytes.
    #[must_use]
    pub fn differences(&self) -> Vec<u8> {
        let record_bytes = self.after.stored().record_bytes;
        let mut differences = Vec::with_capacity(self.entries().count() * record_bytes);
        for entry in self.entries() {
            differences.extend((0..record_bytes).map(|at| entry.change.delta(at)));
        }
        differences
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
    pub(crate) fn by_partition(&self) -> Vec<(usize, Vec<Entry<'_>>)> {
        let mut groups: Vec<(usize, Vec<Entry<'_>>)> = Vec::new();
        for entry in self.entries() {
            let (q, _) = self.after.place(entry.index);
            match groups.last_mut() {
                Some((last, entries)) if *last == q => entries.push(entry),
                _ => groups.push((q, vec![entry])),
            }
        }
        groups
    }
}

fn entry_bytes(form: Form, layout: &Layout) -> usize {
    5 + form as usize * layout.stored().record_bytes
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

impl Directory {
    /// The directory of the next epoch: keys that were added are placed by the overlay unless the perfect hash already
    /// leads to them, keys that were deleted leave it. Equal updates give equal bytes everywhere.
    ///
    /// # Errors
    /// [`Error::Update`] if records have no room for a fingerprint, or a block for those added to it.
    pub fn updated(&self, list: &UpdateList) -> Result<Self, Error> {
        if list.after.stored().record_bytes < FINGERPRINT_BYTES {
            return Err(Error::Update("a record has no room for a fingerprint"));
        }
        self.followed(list).map_err(|Overfull(_)| Error::Update("a block of the directory has no room for its keys"))
    }

    /// The directory of the epoch before, from that of the epoch that the list leads to.
    ///
    /// # Errors
    /// As [`Directory::updated`].
    pub fn undone(&self, list: &UpdateList) -> Result<Self, Error> {
        if list.after.record_bytes() < FINGERPRINT_BYTES {
            return Err(Error::Update("a record has no room for a fingerprint"));
        }
        let changes = changes(list, [Kind::Add, Kind::Delete], Kind::Delete);
        self.with_overlay(&changes).map_err(|Overfull(_)| Error::Update("it does not lead to this directory"))
    }

    /// The same, of records that have room for a fingerprint.
    pub(crate) fn followed(&self, list: &UpdateList) -> Result<Self, Overfull> {
        // Deletes before adds: one batch may delete a key and add it again, in a slot below the old one.
        self.with_overlay(&changes(list, [Kind::Delete, Kind::Add], Kind::Add))
    }
}

/// What entries of these kinds, in this order, say of fingerprints: where those of `placed` are, and that the others are
/// nowhere. An added slot was empty and a deleted one is: old ⊕ new is the record, fingerprint first.
fn changes(list: &UpdateList, kinds: [Kind; 2], placed: Kind) -> Vec<([u8; FINGERPRINT_BYTES], Option<u32>)> {
    let print = |entry: &Entry<'_>| std::array::from_fn(|at| entry.change.delta(at));
    let of_kind = |wanted: Kind| {
        let entries = list.entries().filter(move |entry| entry.kind == wanted);
        entries.map(move |entry| (print(&entry), (wanted == placed).then_some(entry.index)))
    };
    kinds.into_iter().flat_map(of_kind).collect()
}
