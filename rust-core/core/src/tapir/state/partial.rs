//! The stored form of a hint in the making, so that an interrupted offline phase can resume. Parities, the set of folded
//! partitions and the manifest must change together, so they are one form. Permutations follow from the entropy and are not
//! stored.
//!
//! Body: layout, binding (32 bytes), entropy (32), flags of folded partitions (Q bytes, 0 or 1), parities (M·ℓ bytes). While
//! nothing is folded there are no parities: that form is written before the download begins, which waits for it. Then, if
//! the hint keeps tags, their point (8) and the tags of folded partitions (M u64 each, in order). If the caller verifies
//! answers instead, the number 3 (u32).

use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Checks, Proofs, Tags};
use crate::error::Error;
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES};
use crate::stored::frame::{Reader, Writer};
use crate::stored::{BINDING_BYTES, Form, Unsealed};
use crate::tapir::hint::{Hint, HintBuilder};

const KIND: [u8; 4] = *b"PIRb";

impl HintBuilder {
    /// The stored form, without partly received partitions. Secret.
    #[must_use]
    pub fn encode(&self, binding: &[u8; BINDING_BYTES]) -> Vec<u8> {
        self.written(binding).seal()
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    #[must_use]
    pub fn written(&self, binding: &[u8; BINDING_BYTES]) -> Unsealed {
        let parities = if self.folded() == 0 { &[][..] } else { &self.hint.parities[..] };
        let tag_bytes = self.hint.tag_bytes() / self.folded.len() * self.folded();
        let body_bytes = parities.len() + self.folded.len() + TAG_BYTES + tag_bytes + 96;
        let mut out = Writer::new(KIND, self.hint.stamp, body_bytes);
        out.layout(&self.hint.layout);
        out.bytes(binding);
        out.bytes(self.entropy.as_slice());
        out.bytes(&self.folded.iter().map(|&folded| u8::from(folded)).collect::<Vec<_>>());
        out.bytes(parities);
        if let Some(tags) = self.hint.tags() {
            out.bytes(tags.key());
            let partitions = tags.all().chunks_exact(self.hint.layout.partition_records());
            for (partition, _) in partitions.zip(&self.folded).filter(|(_, folded)| **folded) {
                out.u64s(partition);
            }
        } else if let Checks::ByCaller(kind) = self.hint.checks {
            out.u32(kind.mark as usize);
        }
        out.written()
    }

    /// Reads a stored builder of the manifest with these values. A builder with tags ignores commitments.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no builder of that manifest; as [`HintBuilder::new`].
    pub fn decode<'a>(
        form: impl Into<Form<'a>>,
        layout: Layout,
        commitments: &[u8],
        content_hashes: &[u8],
        binding: &[u8; BINDING_BYTES],
    ) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(form, KIND)?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("it belongs to another manifest"));
        }
        let entropy: [u8; ENTROPY_BYTES] = *reader.array()?;
        let folded = reader.bytes(layout.partitions())?;
        if folded.iter().any(|&flag| flag > 1) {
            return Err(Error::State("a flag is neither 0 nor 1"));
        }
        let parities = reader.bytes(if folded.contains(&1) { layout.partition_bytes() } else { 0 })?;
        let by_caller = reader.last_mark();
        let tag_key: Option<&[u8; TAG_BYTES]> =
            if by_caller.is_some() || reader.is_empty() { None } else { Some(reader.array()?) };

        let proofs = match (tag_key, by_caller) {
            (_, Some(kind)) => Proofs::Packaged(kind),
            (None, None) => Proofs::Openings,
            (Some(_), None) => Proofs::Tags,
        };
        let mut builder = HintBuilder::new(layout, proofs, commitments, content_hashes, entropy)?;
        if builder.hint.stamp != stamp || builder.hint.tags().map(Tags::key) != tag_key {
            return Err(Error::State("its id or key does not follow from its entropy"));
        }
        let Hint { checks, permutations, parities: empty, .. } = &mut builder.hint;
        empty[..parities.len()].copy_from_slice(parities);
        for q in (0..layout.partitions()).filter(|&q| folded[q] == 1) {
            permutations.draw(q, &mut ChaCha::new(&entropy, q as u64));
            builder.folded[q] = true;
            if let Checks::Tags(tags) = checks {
                let m = layout.partition_records();
                tags.restore(q * m, reader.bytes(m * TAG_BYTES)?);
            }
        }
        reader.end()?;
        Ok(builder)
    }
}
