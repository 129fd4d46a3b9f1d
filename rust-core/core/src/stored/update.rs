//! An update of a state, which is a journal entry as an effect is.
//!
//! Body of its stored form: layout before, records and partitions after (u32 each), entropy (32 bytes), length of the list (u32), list.

use zeroize::Zeroizing;

use super::frame::{Reader, Writer};
use super::{EFFECT, SINGLE_EFFECT, Stamp};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;

pub(crate) const UPDATE: [u8; 4] = *b"PIRu";

/// An update, in the form a journal stores: the list and the entropy are enough to replay it.
pub struct HintUpdate {
    /// the hint's stamp before the update
    pub(crate) stamp: Stamp,
    /// what changed
    pub list: UpdateList,
    /// the randomness of new permutations, and of a pending lookup's new entries
    pub(crate) entropy: Zeroizing<[u8; ENTROPY_BYTES]>,
}

impl HintUpdate {
    /// The stored form, for the journal. Secret: new permutations follow from it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (before, after, list) = (self.list.before(), self.list.after(), self.list.bytes());
        let mut out = Writer::new(UPDATE, self.stamp, list.len() + ENTROPY_BYTES + 32);
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
        let (stamp, mut reader) = Reader::open(bytes, UPDATE)?;
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

/// The update list in an entry on a state of layout `before`; `None` for an effect. It works for the entries of every
/// scheme. Callers use it to update other data than the hint.
///
/// # Errors
/// [`Error::State`] if the entry is neither an effect nor an update of such a state; [`Error::Update`].
pub fn update_in(entry: &[u8], before: &Layout) -> Result<Option<UpdateList>, Error> {
    match entry.first_chunk() {
        Some(&(EFFECT | SINGLE_EFFECT)) => Ok(None),
        Some(&UPDATE) => Ok(Some(HintUpdate::decode(entry, before)?.list)),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}
