//! The stored form of a whole hint, bound to one manifest by the manifest's hash.
//!
//! Body: layout, binding (32 bytes), the hint's secret (32), permutations (Q·M u16), parities (M·ℓ bytes). Then, if the hint
//! keeps tags, their point (8) and all tags (Q·M u64). If the caller verifies answers instead, the mark of
//! their kind (u32).

use crate::commitment::tags::TAG_BYTES;
use crate::commitment::{Checks, Tags};
use crate::error::Error;
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::Layout;
use crate::stored::frame::{Reader, Writer};
use crate::stored::{BINDING_BYTES, Form, Unsealed};
use crate::tapir::hint::Hint;
use crate::tapir::permutation::Permutations;

const KIND: [u8; 4] = *b"PIRc";

impl Hint {
    /// The stored form, bound to the manifest whose hash is `binding`. Secret.
    ///
    /// # Errors
    /// [`Error::Condemned`]: a condemned hint is not stored.
    pub fn encode(&self, binding: &[u8; BINDING_BYTES]) -> Result<Vec<u8>, Error> {
        self.written(binding).map(Unsealed::seal)
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    ///
    /// # Errors
    /// As [`Hint::encode`].
    pub fn written(&self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        if self.condemned {
            return Err(Error::Condemned);
        }
        let tag_bytes = TAG_BYTES + self.tag_bytes();
        let body_bytes = BINDING_BYTES + SECRET_BYTES + self.permutation_bytes() + self.parity_bytes() + tag_bytes + 16;
        let mut out = Writer::new(KIND, self.stamp, body_bytes);
        out.layout(&self.layout);
        out.bytes(binding);
        out.bytes(self.secret.bytes());
        out.u16s(self.permutations.entries());
        out.bytes(&self.parities);
        match &self.checks {
            Checks::Commitments(_) => {}
            Checks::Tags(tags) => {
                out.bytes(tags.key());
                out.u64s(tags.all());
            }
            Checks::ByCaller(kind) => out.u32(kind.mark as usize),
        }
        Ok(out.written())
    }

    /// Reads a stored hint. `layout`, `commitments` and `binding` (the hash) are those of the manifest it was made under. A hint
    /// with tags ignores commitments.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no hint of that manifest; [`Error::Length`] unless there are Q commitments.
    pub fn decode<'a>(
        form: impl Into<Form<'a>>,
        layout: Layout,
        commitments: &[u8],
        binding: &[u8; BINDING_BYTES],
    ) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(form, KIND)?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("it belongs to another manifest"));
        }
        let secret = Secret::new(*reader.array()?);
        let permutations = Permutations::from_entries(&layout, reader.u16s(layout.slots())?)
            .ok_or(Error::State("a permutation has an entry twice, or beyond its partition"))?;
        let parities = reader.bytes(layout.partition_bytes())?.to_vec();
        let checks = if let Some(kind) = reader.last_mark() {
            Checks::ByCaller(kind)
        } else if reader.is_empty() {
            Checks::commitments(&layout, commitments)?
        } else {
            let mut tags = Tags::new(*reader.array()?, layout.slots())?;
            tags.restore(0, reader.bytes(tags.bytes())?);
            Checks::Tags(tags)
        };
        reader.end()?;
        Ok(Hint { layout, stamp, checks, secret, permutations, parities, condemned: false })
    }
}
