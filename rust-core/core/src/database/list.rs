//! Update lists: the changes from one epoch to the next (papers: TAPIR §5.2). Servers make them. Restarted servers,
//! directories and clients apply them.
//!
//! A list has an entry for each changed record, in ascending order of index, with old ⊕ new: records, parities and tags
//! need no more. Both servers' manifests have the list's hash, so a client verifies a list before it reads it. Even so, the
//! whole list is checked before any of it is applied.
//!
//! Within a generation M and ℓ are fixed, and Q never shrinks.

use std::ops::Range;

use crate::bytes::is_zero;
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, Stored};

const MAGIC: &[u8; 4] = b"PIRU";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 40;
/// Where the header has the number of entries.
const COUNT_AT: usize = 32;

/// How a record changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// an empty slot, or one beyond the old N, was filled
    Add = 1,
    /// the content of a filled slot was replaced
    Edit = 2,
    /// a filled slot was zeroed
    Delete = 3,
}

/// One entry of an update list.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// the record's index
    pub index: u32,
    /// how it changed
    pub kind: Kind,
    /// old ⊕ new, ℓ bytes
    pub difference: &'a [u8],
}

/// All changes from one epoch to the next, in canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateList {
    before: Layout,
    after: Layout,
    bytes: Vec<u8>,
}

impl UpdateList {
    /// Begins a list from `before` to `after`. Add up to `count` entries with [`UpdateList::push`], ascending by index. If they
    /// are fewer in the end, call [`UpdateList::counted`].
    pub(crate) fn new(before: Layout, after: Layout, count: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + count * entry_bytes(&after));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
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
        UpdateList { before, after, bytes }
    }

    /// Writes the number of entries into the header.
    pub(crate) fn counted(mut self) -> Self {
        let count = self.len() as u32;
        self.bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&count.to_le_bytes());
        self
    }

    pub(crate) fn push(&mut self, index: u32, kind: Kind, old: &[u8], new: &[u8]) {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        self.bytes.push(kind as u8);
        self.bytes.extend(old.iter().zip(new).map(|(old, new)| old ^ new));
    }

    /// Reads a list that leads from layout `before` to layout `after`.
    ///
    /// # Errors
    /// [`Error::Update`] for any other bytes.
    pub fn decode(bytes: &[u8], before: Layout, after: Layout) -> Result<Self, Error> {
        let list = Self::unchecked(bytes.to_vec(), before, after)?;
        list.check(0..list.len())?;
        Ok(list)
    }

    /// [`UpdateList::decode`] without checking the entries; call [`UpdateList::check`] for them.
    pub(crate) fn unchecked(bytes: Vec<u8>, before: Layout, after: Layout) -> Result<Self, Error> {
        let refuse = |why: &'static str| Err(Error::Update(why));
        let same_shape = before.stored() == after.stored()
            && before.partitions() <= after.partitions()
            && before.records() <= after.records();
        if !same_shape {
            return refuse(
                "expected partitions of the same size, and no fewer than before; a new generation is needed",
            );
        }
        let Some((header, entries)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return refuse("the bytes end too early");
        };
        let each = entry_bytes(&after);
        let expected = UpdateList::new(before, after, entries.len() / each).bytes;
        if entries.len() % each != 0 || *header != *expected.as_slice() {
            return refuse("its header does not match the layouts before and after");
        }
        Ok(UpdateList { before, after, bytes })
    }

    /// Checks a range of entries. All entries before the range must have been checked.
    pub(crate) fn check(&self, entries: Range<usize>) -> Result<(), Error> {
        let refuse = |why: &'static str| Err(Error::Update(why));
        let mut previous = entries.start.checked_sub(1).map(|last| self.index(last));
        for number in entries {
            let entry = self.entry(number).ok_or(Error::Update("an entry is neither add, edit nor delete"))?;
            if entry.index as usize >= self.after.records() || previous.is_some_and(|previous| previous >= entry.index)
            {
                return refuse("its entries are not in ascending order within the database");
            }
            if entry.index as usize >= self.before.records() && entry.kind != Kind::Add {
                return refuse("a record that did not exist is edited or deleted");
            }
            if is_zero(entry.difference) {
                return refuse("an entry changes nothing");
            }
            previous = Some(entry.index);
        }
        Ok(())
    }

    /// Reads a list from a trusted source: the layouts come from its own header.
    ///
    /// # Errors
    /// [`Error::Update`] if the bytes are not a list.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Error::Update("the bytes end too early"))?;
        let number = |place: usize| u64::from(u32::from_le_bytes(std::array::from_fn(|at| header[8 + 4 * place + at])));
        let layout = |records, partitions| {
            Layout::packed(number(records), number(5), number(partitions), number(4), 1 << number(7).min(63))
                .map_err(|_| Error::Update("the layout in its header is impossible"))
        };
        Self::decode(bytes, layout(0, 1)?, layout(2, 3)?)
    }

    /// old ⊕ new of each entry, ℓ bytes.
    #[must_use]
    pub fn differences(&self) -> Vec<u8> {
        let record_bytes = self.after.stored().record_bytes;
        let mut differences = Vec::with_capacity(self.entries().count() * record_bytes);
        for entry in self.entries() {
            differences.extend_from_slice(entry.difference);
        }
        differences
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

    /// All entries, ascending by index.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.bytes[HEADER_BYTES..].chunks_exact(entry_bytes(&self.after)).filter_map(read_entry)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.bytes.len() - HEADER_BYTES) / entry_bytes(&self.after)
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes_of(&self, number: usize) -> &[u8] {
        let each = entry_bytes(&self.after);
        &self.bytes[HEADER_BYTES + number * each..][..each]
    }

    /// An entry by its number; `None` if it is malformed, which only an unchecked list can have.
    pub(crate) fn entry(&self, number: usize) -> Option<Entry<'_>> {
        read_entry(self.bytes_of(number))
    }

    /// The record index of an entry.
    pub(crate) fn index(&self, number: usize) -> u32 {
        self.bytes_of(number).first_chunk().map_or(0, |index| u32::from_le_bytes(*index))
    }

    /// The number of the first entry whose record index is at least `index`.
    pub(crate) fn first_from(&self, index: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if (self.index(middle) as usize) < index { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The entries by partition, as (q, entries); only partitions that have some.
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

fn entry_bytes(layout: &Layout) -> usize {
    5 + layout.stored().record_bytes
}

fn read_entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let (index, rest) = bytes.split_first_chunk()?;
    let (&kind, difference) = rest.split_first()?;
    let kind = match kind {
        1 => Kind::Add,
        2 => Kind::Edit,
        3 => Kind::Delete,
        _ => return None,
    };
    Some(Entry { index: u32::from_le_bytes(*index), kind, difference })
}

/// The fingerprint of an added or deleted record. Its slot is all zeros on one side, so old ⊕ new begins with it.
pub(crate) fn print_of(entry: &Entry<'_>) -> [u8; FINGERPRINT_BYTES] {
    entry.difference.first_chunk().copied().unwrap_or_default()
}
