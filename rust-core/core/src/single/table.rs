//! The tags of all records of a database. They are in memory, or, if they would take too much of it
//! ([`Geometry::keeps_rows`]), in *rows*, one for each stripe. The caller stores rows and passes single ones back by name.
//!
//! A row never changes. Its name is a keyed hash of its content, so a damaged or outdated row is not mistaken for it. Changes
//! by updates stay in memory, until there are enough of them to make new rows.

use std::collections::BTreeMap;

use zeroize::Zeroize;

use super::geometry::Geometry;
use crate::commitment::Tags;
use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::key::{ROW_NAME_BYTES, Secret};
use crate::stored::frame::{Reader, Writer};

/// The name of a row.
pub type RowName = [u8; ROW_NAME_BYTES];

/// In place of a name: the row is not stored yet.
const NOT_YET: RowName = [0; ROW_NAME_BYTES];

/// New rows are made when at least one of this many tags has changed.
const CHANGED_OF: usize = 256;

/// A row's name and content.
pub struct NamedRow {
    /// a keyed hash, which reveals nothing of the content
    pub name: RowName,
    /// s·8 bytes. Secret.
    pub bytes: Vec<u8>,
}

impl NamedRow {
    fn of(secret: &Secret, stripe: usize, tags: &[u64]) -> Self {
        let bytes: Vec<u8> = tags.iter().flat_map(|tag| tag.to_le_bytes()).collect();
        NamedRow { name: secret.row_name(stripe, &bytes), bytes }
    }
}

/// A row in the making.
struct Open {
    tags: Vec<u64>,
    /// number of its slots that are filled
    filled: usize,
    /// the name under which it was returned, if it has not changed since
    name: Option<RowName>,
}

impl Open {
    fn new(stripe_records: usize) -> Self {
        Open { tags: vec![0; stripe_records], filled: 0, name: None }
    }

    fn named(&mut self, secret: &Secret, stripe: usize) -> NamedRow {
        let row = NamedRow::of(secret, stripe, &self.tags);
        self.name = Some(row.name);
        row
    }
}

struct Rows {
    stripe_records: usize,
    /// by stripe
    names: Vec<RowName>,
    /// by stripe: rows that are not stored yet
    open: BTreeMap<usize, Open>,
    /// by slot: what to XOR into the tag in its row
    changes: BTreeMap<u32, u64>,
    renewing: Option<Renewing>,
}

/// A row that replaces a stored one.
struct Renewing {
    stripe: usize,
    name: RowName,
    /// the changes that it has
    changes: Vec<(u32, u64)>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.open.values_mut().for_each(|open| open.tags.zeroize());
        self.changes.values_mut().for_each(Zeroize::zeroize);
    }
}

/// Tags under a point, in memory or in rows. Secret; wipes itself.
pub(crate) struct Table {
    tags: Tags,
    rows: Option<Rows>,
}

impl Table {
    /// Tags of zeros, in memory.
    pub(crate) fn in_memory(key: [u8; TAG_BYTES], geometry: &Geometry) -> Result<Self, Error> {
        Ok(Table { tags: Tags::new(key, geometry.room())?, rows: None })
    }

    /// Tags in rows, none of which is stored yet.
    pub(crate) fn in_rows(key: [u8; TAG_BYTES], geometry: &Geometry) -> Self {
        let rows = Rows {
            stripe_records: geometry.stripe_records(),
            names: vec![NOT_YET; geometry.stripes()],
            open: BTreeMap::new(),
            changes: BTreeMap::new(),
            renewing: None,
        };
        Table { tags: Tags::of_slots(key, Vec::new()), rows: Some(rows) }
    }

    /// Moves to memory: `slots` tags of zeros.
    pub(crate) fn hold(&mut self, slots: usize) -> Result<(), Error> {
        self.tags.reserve(slots)?;
        self.tags.grow(slots);
        self.rows = None;
        Ok(())
    }

    /// The tag of bytes as long as a record.
    pub(crate) fn tag(&self, bytes: &[u8]) -> u64 {
        self.tags.tag(bytes)
    }

    /// Computes the tags of records that lie one after the other.
    pub(crate) fn tag_all(&self, records: &[u8], record_bytes: usize, tags: &mut [u64]) {
        self.tags.tag_all(records, record_bytes, tags);
    }

    /// The point.
    pub(crate) fn key(&self) -> &[u8; TAG_BYTES] {
        self.tags.key()
    }

    /// Bytes of tags in memory.
    pub(crate) fn bytes(&self) -> usize {
        let changed = self.rows.as_ref().map_or(0, |rows| rows.changes.len() * (TAG_BYTES + size_of::<u32>()));
        let open = self.rows.as_ref().map_or(0, |rows| rows.open.len() * rows.stripe_records * TAG_BYTES);
        self.tags.bytes() + changed + open
    }

    /// Whether tags are in rows.
    pub(crate) fn is_in_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// The tag of a slot. With rows, `row` must be the row of its stripe.
    pub(crate) fn of(&self, slot: usize, row: Option<&Vec<u64>>) -> Result<u64, Error> {
        match (&self.rows, row) {
            (None, _) => Ok(self.tags.of(slot)),
            (Some(rows), Some(row)) => {
                Ok(row[slot % rows.stripe_records] ^ rows.changes.get(&(slot as u32)).copied().unwrap_or(0))
            }
            (Some(_), None) => Err(Error::Phase("a row of tags is missing; pass the rows that the lookup wants")),
        }
    }

    /// The tags in the row of a stripe.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are not that row.
    pub(crate) fn read(&self, secret: &Secret, stripe: usize, row: &[u8]) -> Result<Vec<u64>, Error> {
        let is_its = row.len().is_multiple_of(TAG_BYTES) && self.name(stripe) == Some(secret.row_name(stripe, row));
        if !is_its {
            return Err(Error::State("a row of tags is missing, damaged or outdated"));
        }
        Ok(row.as_chunks().0.iter().map(|tag| u64::from_le_bytes(*tag)).collect())
    }

    /// The name of a stripe's row.
    pub(crate) fn name(&self, stripe: usize) -> Option<RowName> {
        self.rows.as_ref().and_then(|rows| rows.names.get(stripe).copied())
    }

    /// The names of all rows.
    pub(crate) fn names(&self) -> &[RowName] {
        self.rows.as_ref().map_or(&[], |rows| &rows.names)
    }

    /// Whether all rows are stored.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.names.iter().all(|name| *name != NOT_YET))
    }

    /// Updates a slot's tag after a change of old ⊕ new. A tag that was wrong stays wrong.
    pub(crate) fn change(&mut self, slot: usize, difference: &[u8]) {
        let tag = self.tags.tag(difference);
        match &mut self.rows {
            None => self.tags.add(slot, tag),
            Some(rows) => rows.add(slot, tag),
        }
    }

    /// Sets the tags of a partition, whose first slot is `first`. Call it once for each partition.
    pub(crate) fn put(&mut self, first: usize, tags: &[u64]) {
        let Some(rows) = &mut self.rows else { return self.tags.put(first, tags) };
        let (s, mut slot, mut rest) = (rows.stripe_records, first, tags);
        while !rest.is_empty() {
            let (stripe, offset) = (slot / s, slot % s);
            let (piece, after) = rest.split_at(rest.len().min(s - offset));
            if rows.names[stripe] == NOT_YET {
                let open = rows.open.entry(stripe).or_insert_with(|| Open::new(s));
                open.tags[offset..][..piece.len()].copy_from_slice(piece);
                open.filled += piece.len();
                open.name = None;
            } else {
                (slot..).zip(piece).for_each(|(slot, &tag)| rows.add(slot, tag)); // the database grew into a stored row
            }
            (slot, rest) = (slot + piece.len(), after);
        }
    }

    /// The next complete row, to be stored and then [kept](Table::kept). `last`: all partitions have been folded.
    pub(crate) fn next_row(&mut self, secret: &Secret, geometry: &Geometry, last: bool) -> Option<NamedRow> {
        let rows = self.rows.as_mut()?;
        let s = rows.stripe_records;
        let is_whole = |stripe: usize, open: &Open| open.filled >= geometry.slots().saturating_sub(stripe * s).min(s);
        if let Some((stripe, open)) = rows.open.iter_mut().find(|(stripe, open)| is_whole(**stripe, open)) {
            return Some(open.named(secret, *stripe));
        }
        // No partition has the stripes beyond the last slot.
        let stripe = rows.names.iter().position(|name| *name == NOT_YET).filter(|_| last)?;
        Some(rows.open.entry(stripe).or_insert_with(|| Open::new(s)).named(secret, stripe))
    }

    /// Tells that a row is stored. A row that has changed since it was returned will be returned again.
    pub(crate) fn kept(&mut self, name: &RowName) {
        let Some(rows) = &mut self.rows else { return };
        let found = rows.open.iter().find(|(_, open)| open.name == Some(*name));
        if let Some((&stripe, _)) = found {
            rows.names[stripe] = *name;
            if let Some(mut open) = rows.open.remove(&stripe) {
                open.tags.zeroize();
            }
        }
    }

    /// The name of a row to be [renewed](Table::renewed): one with changed tags, if enough tags have changed in all, or if
    /// renewing has `begun`.
    pub(crate) fn stale(&self, begun: bool) -> Option<RowName> {
        let rows = self.rows.as_ref()?;
        let due = begun || rows.changes.len() * CHANGED_OF >= rows.names.len() * rows.stripe_records;
        let (&slot, _) = rows.changes.first_key_value().filter(|_| due)?;
        Some(rows.names[slot as usize / rows.stripe_records])
    }

    /// Makes the row that replaces the [stale](Table::stale) one. Store it, and then call [`Table::renew`].
    ///
    /// # Errors
    /// [`Error::State`] if `row` is another row; [`Error::Phase`] if none is stale.
    pub(crate) fn renewed(&mut self, secret: &Secret, row: &[u8]) -> Result<NamedRow, Error> {
        const NONE: Error = Error::Phase("no row of tags has changed, so none is to be renewed");
        let rows = self.rows.as_ref().ok_or(NONE)?;
        let (&slot, _) = rows.changes.first_key_value().ok_or(NONE)?;
        let stripe = slot as usize / rows.stripe_records;
        let mut tags = self.read(secret, stripe, row)?;
        let slots = (stripe * rows.stripe_records) as u32..((stripe + 1) * rows.stripe_records) as u32;
        let changes: Vec<(u32, u64)> = rows.changes.range(slots).map(|(slot, tag)| (*slot, *tag)).collect();
        for (slot, tag) in &changes {
            tags[*slot as usize % rows.stripe_records] ^= tag;
        }
        let renewed = NamedRow::of(secret, stripe, &tags);
        tags.zeroize();
        if let Some(rows) = &mut self.rows {
            rows.renewing = Some(Renewing { stripe, name: renewed.name, changes });
        }
        Ok(renewed)
    }

    /// Replaces the stale row by the renewed one, which is stored now.
    ///
    /// # Errors
    /// [`Error::Phase`] without a renewed row.
    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        const NONE: Error = Error::Phase("no row of tags was renewed; make one first");
        let rows = self.rows.as_mut().ok_or(NONE)?;
        let Renewing { stripe, name, changes } = rows.renewing.take().ok_or(NONE)?;
        rows.names[stripe] = name;
        for (slot, tag) in changes {
            rows.add(slot as usize, tag);
        }
        Ok(())
    }

    /// For tests: whether the tags are those of all slots.
    pub(crate) fn hazmat_agrees_with(&self, secret: &Secret, records: &[Vec<u8>]) -> bool {
        let tags: Vec<u64> = records.iter().map(|record| self.tag(record)).collect();
        let Some(rows) = &self.rows else { return self.tags.all() == tags };
        tags.chunks_exact(rows.stripe_records).enumerate().all(|(stripe, tags)| {
            let changed = |slot: u32| rows.changes.get(&slot).copied().unwrap_or(0);
            let first = (stripe * rows.stripe_records) as u32;
            let then: Vec<u64> = (first..).zip(tags).map(|(slot, tag)| tag ^ changed(slot)).collect();
            NamedRow::of(secret, stripe, &then).name == rows.names[stripe]
        })
    }

    /// Writes tags. In memory: those of the given slots, in order. In rows: names, rows in the making, and changes.
    pub(super) fn write(&self, out: &mut Writer, slots: impl Iterator<Item = std::ops::Range<usize>>) {
        let Some(rows) = &self.rows else {
            slots.for_each(|slots| out.u64s(&self.tags.all()[slots]));
            return;
        };
        out.bytes(rows.names.as_flattened());
        out.u32(rows.open.len());
        for (stripe, open) in &rows.open {
            out.u32(*stripe);
            out.u32(open.filled);
            out.u64s(&open.tags);
        }
        out.u32(rows.changes.len());
        for (slot, tag) in &rows.changes {
            out.u32(*slot as usize);
            out.u64s(&[*tag]);
        }
    }

    /// Reads what [`Table::write`] has written for the same slots.
    pub(super) fn restore(
        &mut self,
        reader: &mut Reader<'_>,
        mut slots: impl Iterator<Item = std::ops::Range<usize>>,
    ) -> Result<(), Error> {
        let Some(rows) = &mut self.rows else {
            return slots.try_for_each(|slots| {
                self.tags.restore(slots.start, reader.bytes(slots.len() * TAG_BYTES)?);
                Ok(())
            });
        };
        let names = reader.bytes(rows.names.len() * ROW_NAME_BYTES)?;
        rows.names.as_flattened_mut().copy_from_slice(names);
        for _ in 0..reader.u32()? {
            let (stripe, filled) = (reader.u32()? as usize, reader.u32()? as usize);
            let mut tags = vec![0; rows.stripe_records];
            reader.u64s(&mut tags)?;
            if rows.names.get(stripe) != Some(&NOT_YET) || filled > rows.stripe_records {
                return Err(Error::State("a row in the making is of no stripe, or of one whose row is stored"));
            }
            rows.open.insert(stripe, Open { tags, filled, name: None });
        }
        for _ in 0..reader.u32()? {
            let slot = reader.u32()?;
            let mut tag = [0];
            reader.u64s(&mut tag)?;
            if slot as usize >= rows.names.len() * rows.stripe_records {
                return Err(Error::State("a changed tag lies beyond the database"));
            }
            rows.changes.insert(slot, tag[0]);
        }
        Ok(())
    }
}

impl Rows {
    fn add(&mut self, slot: usize, tag: u64) {
        if let Some(open) = self.open.get_mut(&(slot / self.stripe_records)) {
            open.tags[slot % self.stripe_records] ^= tag;
            open.name = None;
            return;
        }
        let change = self.changes.entry(slot as u32).or_insert(0);
        *change ^= tag;
        if *change == 0 {
            self.changes.remove(&(slot as u32));
        }
    }
}
