//! The stored form of hints in the making, so that an interrupted offline phase can resume.
//!
//! Body, in this order:
//!
//! - layout, binding (32 bytes), entropy (32), number of backups (u32), whether tags are in rows (u32, 0 or 1);
//! - groups of ids (u32). 0: drawing has not ended; it begins again, and nothing follows;
//! - the cutoffs of all their ids (i16 each), extras (H u32), flags of folded partitions (Q bytes, 0 or 1);
//! - parities (H·ℓ′ bytes), sums of tags (H u64), pairs (2·ℓ′ bytes each);
//! - tags in memory: those of the folded partitions (u64 for each slot, in order);
//! - tags in rows: as in a [checkpoint](super::checkpoint), but the name of a row that is not stored is zeros, and each row
//!   in the making has its stripe, the number of filled slots (u32 each) and s tags (u64).
//!
//! Everything else follows from the entropy.

use super::super::making::Builder;
use super::super::streams::Keyed;
use super::checkpoint::{read_cutoffs, write_cutoffs};
use crate::error::Error;
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;
use crate::stored::frame::{Reader, Writer};
use crate::stored::{BINDING_BYTES, Form, Unsealed};

const KIND: [u8; 4] = *b"PISb";

/// The slots of the folded partitions.
fn slots_of(layout: &Layout, folded: &[bool]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let m = layout.partition_records();
    folded.iter().enumerate().filter(|(_, folded)| **folded).map(move |(q, _)| q * m..(q + 1) * m)
}

impl Builder<Keyed> {
    /// The stored form, without partly received partitions. Does all steps that are left first. Secret.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn encode(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Vec<u8>, Error> {
        self.written(binding).map(Unsealed::seal)
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    ///
    /// # Errors
    /// As [`Builder::encode`].
    pub fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        let (drawing, layout, stamp) = (self.is_drawing(), self.layout, self.stamp);
        let (entropy, lookups, in_rows) = (self.entropy.clone(), self.lookups, self.in_rows);
        let begin = |bytes| {
            let mut out = Writer::new(KIND, stamp, bytes + 256);
            out.layout(&layout);
            out.bytes(binding);
            out.bytes(entropy.as_slice());
            out.u32(lookups);
            out.u32(usize::from(in_rows));
            out
        };
        if drawing {
            let mut out = begin(0);
            out.u32(0);
            return Ok(out.written());
        }
        self.made()?; // folds the partition that was kept last
        let folded = self.folded.clone();
        let hint = self.made()?;
        let mut out = begin(hint.hint_bytes() + hint.tag_bytes() + folded.len());
        write_cutoffs(&mut out, &hint.cutoffs);
        out.u32s(&hint.extras);
        out.bytes(&folded.iter().map(|&folded| u8::from(folded)).collect::<Vec<_>>());
        out.bytes(&hint.parities);
        out.u64s(&hint.rests);
        out.bytes(&hint.pairs);
        hint.tags.write(&mut out, slots_of(&layout, &folded));
        Ok(out.written())
    }

    /// Reads a stored builder of the manifest with these values.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no builder of that manifest; as [`Builder::new`].
    pub fn decode<'a>(
        form: impl Into<Form<'a>>,
        layout: Layout,
        content_hashes: &[u8],
        binding: &[u8; BINDING_BYTES],
    ) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(form, KIND)?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("it belongs to another manifest"));
        }
        let entropy: [u8; ENTROPY_BYTES] = *reader.array()?;
        let (pairs, in_rows) = (reader.u32()? as usize, reader.flag()?);
        let mut builder = Builder::new(layout, content_hashes, pairs, entropy).map_err(|error| {
            if let Error::Index { .. } = error { Error::State("its number of backups is impossible") } else { error }
        })?;
        builder.in_rows = in_rows;
        if builder.stamp != stamp {
            return Err(Error::State("its id does not follow from its entropy"));
        }
        let geometry = builder.geometry;
        let groups = reader.u32()? as usize;
        if groups == 0 {
            reader.end()?;
            return Ok(builder);
        }
        let mut drawn = read_cutoffs(&mut reader, groups, geometry.hints() + pairs)?;
        drawn.extras = reader.u32s(geometry.hints())?;
        if drawn.extras.iter().any(|&extra| extra as usize >= geometry.room()) {
            return Err(Error::State("an extra lies beyond the database"));
        }
        builder.begin_with(drawn)?;
        let folded = reader.bytes(layout.partitions())?;
        if folded.iter().any(|&flag| flag > 1) {
            return Err(Error::State("a flag is neither 0 nor 1"));
        }
        let hint = builder.made()?;
        hint.empty();
        while hint.fill(&mut reader)? {}
        let folded: Vec<bool> = folded.iter().map(|&folded| folded == 1).collect();
        hint.tags.restore(&mut reader, slots_of(&layout, &folded))?;
        builder.folded = folded;
        reader.end()?;
        Ok(builder)
    }
}
