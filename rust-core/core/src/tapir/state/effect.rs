//! The stored form of an effect.
//!
//! Body: layout, queries (u32), then partitions q* (u32 each), columns (u16 each), refresh columns (Q u16 a query),
//! changes (Q·ℓ bytes a query).

use super::frame::{Reader, Writer};
use crate::error::Error;
use crate::layout::Layout;
use crate::tapir::recon::Effect;

pub(super) const KIND: [u8; 4] = *b"PIRe";

impl Effect {
    /// Bytes for the journal. Secret: they tell what was asked.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = Writer::new(KIND, self.stamp, self.columns.len() * bytes_a_query(layout));
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
    /// [`Error::State`] if the bytes are none.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, Error> {
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
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
