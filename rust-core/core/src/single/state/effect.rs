//! The stored form of an effect (how a lookup changed a hint), and its replay.
//!
//! Body: layout, number of queries (u32); then for each query slot, pair and the record's slot in the database (u32 each; both
//! slots are 2^32 − 1 if no hint contained the record); then a tag (u64) for each; then ℓ′ bytes of record for each.

use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::layout::Layout;
use crate::single::hint::Hint;
use crate::single::query::MISSED;
use crate::single::recon::{self, Effect};
use crate::single::streams::Keyed;
use crate::stored::frame::{Reader, Writer};
use crate::stored::{HintUpdate, SINGLE_EFFECT};

impl Effect {
    /// The stored form, for the journal. Secret: it reveals what was asked for.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = Writer::new(SINGLE_EFFECT, self.stamp, self.used.len() * bytes_a_query(layout));
        out.layout(layout);
        out.u32(self.used.len());
        for number in self.used.as_flattened() {
            out.u32(*number as usize);
        }
        out.u64s(&self.tags);
        out.bytes(&self.blocks);
        out.seal()
    }

    /// Reads an effect on a hint of this layout.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no such effect.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(bytes, SINGLE_EFFECT)?;
        reader.expect_layout(layout)?;
        let count = reader.count(bytes_a_query(layout))?;
        let mut used = vec![[0; 3]; count];
        for number in used.as_flattened_mut() {
            *number = reader.u32()?;
        }
        if used.iter().any(|[slot, pair, index]| *pair == MISSED || (*slot == MISSED) != (*index == MISSED)) {
            return Err(Error::State("a query was both answered and missed"));
        }
        let mut tags = vec![0; count];
        reader.u64s(&mut tags)?;
        let blocks = reader.bytes(count * layout.record_bytes())?.to_vec();
        reader.end()?;
        Ok(Effect { stamp, used, tags, blocks })
    }
}

fn bytes_a_query(layout: &Layout) -> usize {
    3 * 4 + TAG_BYTES + layout.record_bytes()
}

/// Applies the next entry of a journal: an effect or an update.
///
/// # Errors
/// [`Error::State`] if it is neither an effect nor an update, or not the next one; [`Error::Update`].
pub fn replay(hint: &mut Hint<Keyed>, entry: &[u8]) -> Result<(), Error> {
    if entry.first_chunk() == Some(&SINGLE_EFFECT) {
        recon::replay(hint, &Effect::decode(entry, hint.layout())?)
    } else {
        hint.update(None, &HintUpdate::decode(entry, hint.layout())?)
    }
}
