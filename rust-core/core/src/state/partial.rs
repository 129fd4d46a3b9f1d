//! The stored form of a hint in the making, so that an interrupted offline phase resumes. Parities, the set of folded
//! partitions and the manifest they belong to change together: they are one form. Permutations are not in it, they
//! follow from the entropy.
//!
//! Body: layout, binding (32), entropy (32), folded (Q bytes, 0 or 1), parities (M·ℓ bytes).

use super::BINDING_BYTES;
use super::frame::{Reader, Writer};
use crate::error::Error;
use crate::hint::HintBuilder;
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES};

const KIND: [u8; 4] = *b"PIRb";

impl HintBuilder {
    /// Bytes that bring this builder back, lanes apart. Secret.
    #[must_use]
    pub fn encode(&self, binding: &[u8; BINDING_BYTES]) -> Vec<u8> {
        let mut out = Writer::new(KIND, self.hint.stamp, self.hint.parities.len() + self.folded.len() + 96);
        out.layout(&self.hint.layout);
        out.bytes(binding);
        out.bytes(self.entropy.as_slice());
        out.bytes(&self.folded.iter().map(|&folded| u8::from(folded)).collect::<Vec<_>>());
        out.bytes(&self.hint.parities);
        out.seal()
    }

    /// Brings a builder back under the manifest it was begun under.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no builder of that manifest; otherwise as [`HintBuilder::new`].
    pub fn decode(
        bytes: &[u8],
        layout: Layout,
        commitments: &[u8],
        content_hashes: &[u8],
        binding: &[u8; BINDING_BYTES],
    ) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
        reader.expect_layout(&layout)?;
        if reader.array::<BINDING_BYTES>()? != binding {
            return Err(Error::State("of another manifest"));
        }
        let entropy: [u8; ENTROPY_BYTES] = *reader.array()?;
        let folded = reader.bytes(layout.partitions())?;
        if folded.iter().any(|&flag| flag > 1) {
            return Err(Error::State("a flag is neither 0 nor 1"));
        }
        let parities = reader.bytes(layout.partition_bytes())?;
        reader.end()?;

        let mut builder = HintBuilder::new(layout, commitments, content_hashes, entropy)?;
        if builder.hint.stamp != stamp {
            return Err(Error::State("its id does not follow from its entropy"));
        }
        builder.hint.parities.copy_from_slice(parities);
        for (q, &flag) in folded.iter().enumerate() {
            if flag == 1 {
                builder.hint.permutations.draw(q, &mut ChaCha::new(&entropy, q as u64));
                builder.folded[q] = true;
            }
        }
        Ok(builder)
    }
}
