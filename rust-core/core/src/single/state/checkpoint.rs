//! The stored form of whole hints, bound to one manifest by the manifest's hash.
//!
//! Body, in this order:
//!
//! - layout, binding (32 bytes), the hint's secret (32), the key of its streams (32), the point of its tags (8);
//! - the number of backups in all, and of those used (u32 each);
//! - groups of ids (u32), and the cutoffs of all their ids (i16 each);
//! - extras (H u32);
//! - the number of slots with a backup (u32), then slot and pair of each (u32 each), ascending by slot;
//! - parities (H·ℓ′ bytes), sums of tags (H u64), pairs that are left (2·ℓ′ bytes each);
//! - where tags are (u32). 0: all tags follow (u64 for each slot of the database). 1: tags are in rows; then the rows' names
//!   follow (16 bytes for each stripe), the number of rows in the making (u32, 0), the number of changed tags (u32), and
//!   slot (u32) and change (u64) of each, ascending.

use super::super::drawing::{Drawn, NONE};
use super::super::geometry::Geometry;
use super::super::hint::Hint;
use super::super::making::MAX_LOOKUPS;
use super::super::streams::{GROUP, Keyed};
use super::super::table::Table;
use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::key::Secret;
use crate::layout::Layout;
use crate::tapir::state::frame::{Reader, Writer};
use crate::tapir::state::{BINDING_BYTES, Form, Unsealed};

const KIND: [u8; 4] = *b"PISc";

pub(super) fn write_cutoffs(out: &mut Writer, cutoffs: &[i16]) {
    out.u32(cutoffs.len() / GROUP);
    for group in cutoffs.as_chunks::<GROUP>().0 {
        out.u16s(&group.map(i16::cast_unsigned));
    }
}

/// Reads the cutoffs of `groups` groups. The first `want` ids that have one are hints.
pub(super) fn read_cutoffs(reader: &mut Reader<'_>, groups: usize, want: usize) -> Result<Drawn, Error> {
    let columns = groups.checked_mul(GROUP).filter(|columns| i32::try_from(*columns).is_ok());
    let cutoffs = reader.u16s(columns.ok_or(Error::State("it has more ids than possible"))?)?;
    let cutoffs: Vec<i16> = cutoffs.into_iter().map(u16::cast_signed).collect();
    let hints = cutoffs.iter().enumerate().filter(|(_, cutoff)| **cutoff != NONE);
    let ids: Vec<u32> = hints.map(|(id, _)| id as u32).take(want).collect();
    if ids.len() != want {
        return Err(Error::State("it has fewer ids than hints"));
    }
    Ok(Drawn { cutoffs, ids, extras: Vec::new() })
}

impl Hint<Keyed> {
    /// The stored form, bound to the manifest whose hash is `binding`. Does all steps that are left first. Secret.
    ///
    /// # Errors
    /// [`Error::Condemned`]: a condemned hint is not stored.
    pub fn encode(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Vec<u8>, Error> {
        self.written(binding).map(Unsealed::seal)
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    ///
    /// # Errors
    /// As [`Hint::encode`].
    pub fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        if self.condemned {
            return Err(Error::Condemned);
        }
        self.settle();
        let mut out = Writer::new(KIND, self.stamp, self.hint_bytes() + self.tag_bytes() + 256);
        out.layout(&self.layout);
        out.bytes(binding);
        out.bytes(self.secret.bytes());
        out.bytes(self.function.bytes().as_slice());
        out.bytes(self.tags.key());
        out.u32(self.backups.len());
        out.u32(self.next);
        write_cutoffs(&mut out, &self.cutoffs);
        out.u32s(&self.extras);
        let first_backup = self.backups.first().copied().unwrap_or(u32::MAX);
        let replaced: Vec<(usize, u32)> =
            self.ids.iter().copied().enumerate().filter(|(_, id)| *id >= first_backup).collect();
        out.u32(replaced.len());
        for (slot, id) in replaced {
            out.u32(slot);
            out.u32(self.backups.partition_point(|&other| other < id));
        }
        out.bytes(&self.parities);
        out.u64s(&self.rests);
        out.bytes(&self.pairs[self.next * self.geometry.answer_bytes()..]);
        out.u32(usize::from(self.tags.is_in_rows()));
        self.tags.write(&mut out, std::iter::once(0..self.layout.slots()));
        Ok(out.written())
    }

    /// Reads a stored hint. `layout` and `binding` (the hash) are those of the manifest it was made under.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no hint of that manifest; [`Error::Layout`] if memory does not suffice.
    pub fn decode<'a>(form: impl Into<Form<'a>>, layout: Layout, binding: &[u8; BINDING_BYTES]) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(form, KIND)?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("it belongs to another manifest"));
        }
        let geometry = Geometry::of(&layout).map_err(|_| Error::State("one server cannot answer its layout"))?;
        let secret = Secret::new(*reader.array()?);
        let function = Keyed::from_bytes(reader.array()?);
        let tag_key: [u8; TAG_BYTES] = *reader.array()?;
        let (pairs, next) = (reader.u32()? as usize, reader.u32()? as usize);
        if next > pairs || pairs > MAX_LOOKUPS {
            return Err(Error::State("its number of backups is impossible"));
        }
        let groups = reader.u32()? as usize;
        let mut drawn = read_cutoffs(&mut reader, groups, geometry.hints() + pairs)?;
        drawn.extras = reader.u32s(geometry.hints())?;
        if drawn.extras.iter().any(|&extra| extra as usize >= geometry.room()) {
            return Err(Error::State("an extra lies beyond the database"));
        }
        let mut hint =
            Hint::new((layout, geometry), stamp, (secret, function, Table::in_rows(tag_key, &geometry)), drawn)?;
        let mut before = None;
        let mut seen = vec![false; next];
        for _ in 0..reader.u32()? {
            let (slot, pair) = (reader.u32()?, reader.u32()? as usize);
            if before >= Some(slot) || slot as usize >= geometry.hints() || seen.get(pair) != Some(&false) {
                return Err(Error::State("a backup is in no slot, or in two"));
            }
            (before, seen[pair]) = (Some(slot), true);
            let extra = hint.extras[slot as usize];
            hint.replace(slot as usize, pair, extra);
        }
        hint.next = next;
        hint.parities.copy_from_slice(reader.bytes(geometry.hints() * geometry.record_bytes())?);
        reader.u64s(&mut hint.rests)?;
        hint.pairs[next * geometry.answer_bytes()..]
            .copy_from_slice(reader.bytes((pairs - next) * geometry.answer_bytes())?);
        if reader.flag()? {
            hint.tags.restore(&mut reader, std::iter::empty())?;
        } else {
            hint.tags = Table::in_memory(tag_key, &geometry)?;
            hint.tags.restore(&mut reader, std::iter::once(0..layout.slots()))?;
        }
        if !hint.tags.is_whole() {
            return Err(Error::State("rows of tags are not stored"));
        }
        reader.end()?;
        Ok(hint)
    }
}
