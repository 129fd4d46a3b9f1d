//! The stored form of an effect: how a lookup changed a hint.
//!
//! Body: layout, number of queries (u32), partitions q* (a u32 for each query), columns (a u16 for each), refresh columns
//! (Q u16 for each), changes (Q·ℓ bytes for each).

use crate::error::Error;
use crate::layout::Layout;
use crate::stored::EFFECT;
use crate::stored::frame::{Reader, Writer};
use crate::tapir::recon::Effect;

impl Effect {
    /// The stored form, for the journal. Secret: it reveals what was asked for.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = Writer::new(EFFECT, self.stamp, self.columns.len() * bytes_a_query(layout));
        out.layout(layout);
        out.u32(self.columns.len());
        for &partition in &self.partitions {
            out.u32(partition as usize);
        }
        out.u16s(&self.columns);
        out.u16s(&self.refresh_columns);
        out.bytes(&self.changes);
        out.seal()
    }

    /// Reads an effect on a hint of this layout.
    ///
    /// # Errors
    /// [`Error::State`] if the bytes are no such effect.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(bytes, EFFECT)?;
        reader.expect_layout(layout)?;
        let count = reader.count(bytes_a_query(layout))?;
        let entries = count * layout.partitions();
        let partitions = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        if partitions.iter().any(|&q| q as usize >= layout.partitions()) {
            return Err(Error::State("a partition lies beyond the layout"));
        }
        let effect = Effect {
            stamp,
            partitions,
            columns: reader.offsets(count, layout)?,
            refresh_columns: reader.offsets(entries, layout)?,
            changes: reader.bytes(entries * layout.record_bytes())?.to_vec(),
        };
        reader.end()?;
        Ok(effect)
    }
}

fn bytes_a_query(layout: &Layout) -> usize {
    4 + 2 + (2 + layout.record_bytes()) * layout.partitions()
}
