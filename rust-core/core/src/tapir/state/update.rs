//! The stored form of an update of a hint, which is a journal entry as an effect is.
//!
//! Body: layout before, records and partitions after (u32 each), entropy (32 bytes), length of the list (u32), list.

use super::frame::{Reader, Writer};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;
use crate::tapir::update::HintUpdate;

pub(super) const KIND: [u8; 4] = *b"PIRu";

impl HintUpdate {
    /// The stored form, for the journal. Secret: new permutations follow from it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (before, after, list) = (self.list.before(), self.list.after(), self.list.bytes());
        let mut out = Writer::new(KIND, self.stamp, list.len() + ENTROPY_BYTES + 32);
        out.layout(before);
        out.u32(after.records());
        out.u32(after.partitions());
        out.bytes(self.entropy.as_slice());
        out.u32(list.len());
        out.bytes(list);
        out.seal()
    }

    /// Reads an update of a hint of layout `before`.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Update`] if the bytes are no such update.
    pub fn decode(bytes: &[u8], before: &Layout) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
        reader.expect_layout(before)?;
        let (records, partitions) = (reader.u32()?, reader.u32()?);
        let after = before
            .grown(u64::from(records), u64::from(partitions))
            .map_err(|_| Error::State("the layout after it is impossible"))?;
        let entropy: [u8; ENTROPY_BYTES] = *reader.array()?;
        let list_bytes = reader.u32()? as usize;
        let list = UpdateList::decode(reader.bytes(list_bytes)?, *before, after)?;
        reader.end()?;
        Ok(HintUpdate { stamp, list, entropy: entropy.into() })
    }
}
