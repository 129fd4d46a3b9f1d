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
use crate::stored::frame::{Reader, Writer};
use crate::stored::{BINDING_BYTES, Form, Unsealed};

const KIND: [u8; 4] = *b"PISc";

/// Bytes that a step reads: some milliseconds.
const STEP_BYTES: usize = 1 << 20;

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

    /// Reads a stored hint, all steps of a [`Reopening`]. `layout` and `binding` (the hash) are those of the manifest it was made
    /// under.
    ///
    /// # Errors
    /// As [`Reopening`].
    pub fn decode<'a>(form: impl Into<Form<'a>>, layout: Layout, binding: &[u8; BINDING_BYTES]) -> Result<Self, Error> {
        let form = form.into();
        let mut reopening = Reopening::new(&form, layout, binding)?;
        while reopening.step(&form)? {}
        reopening.finish()
    }

    /// Reads the next part of parities, sums and pairs. Returns `false` when all are whole, without reading.
    pub(super) fn fill(&mut self, reader: &mut Reader<'_>) -> Result<bool, Error> {
        let hints = self.geometry.hints();
        let left = [
            hints * self.geometry.record_bytes() - self.parities.len(),
            hints - self.rests.len(),
            self.backups.len() * self.geometry.answer_bytes() - self.pairs.len(),
        ];
        match left {
            [0, 0, 0] => return Ok(false),
            [0, 0, left] => self.pairs.extend_from_slice(reader.bytes(left.min(STEP_BYTES))?),
            [0, left, _] => {
                let begun = self.rests.len();
                self.rests.resize(begun + left.min(STEP_BYTES / TAG_BYTES), 0);
                reader.u64s(&mut self.rests[begun..])?;
            }
            [left, ..] => self.parities.extend_from_slice(reader.bytes(left.min(STEP_BYTES))?),
        }
        Ok(true)
    }
}

/// A stored hint that is being read, about a MiB in each step, so that a page's thread is not held. Nobody can ask with it before its
/// last byte was read.
pub struct Reopening {
    hint: Hint<Keyed>,
    /// bytes of the form that are left
    left: usize,
    hash: blake3::Hash,
    /// slots whose tags were read; `None`: where tags are is not known yet
    tags: Option<usize>,
    done: bool,
}

impl Reopening {
    /// Checks the whole form, and reads its first fields. `layout` and `binding` (the hash) are those of the manifest it was made
    /// under.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no hint of that manifest; [`Error::Layout`] if memory does not suffice.
    pub fn new(form: &Form<'_>, layout: Layout, binding: &[u8; BINDING_BYTES]) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(*form, KIND)?;
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
        let tags = Table::in_rows(tag_key, &geometry);
        let mut hint = Hint::without_parities((layout, geometry), stamp, (secret, function, tags), drawn)?;
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
        hint.pairs.resize(next * geometry.answer_bytes(), 0); // used ones are not stored
        Ok(Reopening { hint, left: reader.left(), hash: form.hash(), tags: None, done: false })
    }

    /// Reads some more of the same form. Returns whether there is more.
    ///
    /// # Errors
    /// As [`Reopening::new`]; [`Error::State`], too, for another form.
    pub fn step(&mut self, form: &Form<'_>) -> Result<bool, Error> {
        if form.hash() != self.hash {
            return Err(Error::State("it is another stored form than the one whose reading was begun"));
        }
        let mut reader = Reader::at(form, self.left)?;
        match self.tags {
            None if self.hint.fill(&mut reader)? => {}
            None if reader.flag()? => {
                self.hint.tags.restore(&mut reader, std::iter::empty())?;
                self.done = true;
            }
            None => {
                self.hint.tags.hold(self.hint.geometry.room())?;
                self.tags = Some(0);
            }
            Some(first) => {
                let slots = self.hint.layout.slots();
                let end = slots.min(first + STEP_BYTES / TAG_BYTES);
                self.hint.tags.restore(&mut reader, std::iter::once(first..end))?;
                (self.tags, self.done) = (Some(end), end == slots);
            }
        }
        self.left = reader.left();
        Ok(!self.done)
    }

    /// The hint, after the last step.
    ///
    /// # Errors
    /// [`Error::Phase`] before it; [`Error::State`] if something follows the last field, or a row of tags is not stored.
    pub fn finish(self) -> Result<Hint<Keyed>, Error> {
        if !self.done {
            return Err(Error::Phase("the stored form was not read to its end; do all steps first"));
        }
        if self.left > 0 {
            return Err(Error::State("torn: bytes follow the last field"));
        }
        if !self.hint.tags.is_whole() {
            return Err(Error::State("rows of tags are not stored"));
        }
        Ok(self.hint)
    }
}
