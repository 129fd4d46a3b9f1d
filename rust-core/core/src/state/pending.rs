//! The stored form of a pending batch: all it takes to send the same bytes again and to apply their answers.
//!
//! Body: queries (u32), Q (u32), M (u32), then indices (u32 each), columns (u16 each), refresh columns, retrieve and
//! refresh vectors (Q u16 a query each).

use super::frame::{self, Fields};
use crate::error::Error;
use crate::layout::Layout;
use crate::query::Pending;

const KIND: [u8; 4] = *b"PIRp";
const VERSION: u16 = 1;

impl Pending {
    /// Bytes to make durable before the first vector leaves. Secret: they tell what is asked.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = frame::begin(KIND, VERSION);
        for field in [self.count(), layout.partitions(), layout.partition_records()] {
            out.extend_from_slice(&(field as u32).to_le_bytes());
        }
        for index in &self.indices {
            out.extend_from_slice(&index.to_le_bytes());
        }
        for field in [&self.columns, &self.refresh_columns, &self.retrieve, &self.refresh].into_iter().flatten() {
            out.extend_from_slice(&field.to_le_bytes());
        }
        frame::seal(out)
    }

    /// Takes up a stored batch of the same layout.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Length`] or [`Error::Index`] if the bytes are not such a batch.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, Error> {
        let mut fields = Fields(frame::open(bytes, KIND, VERSION)?);
        let count = fields.u32()? as usize;
        if (fields.u32()? as usize, fields.u32()? as usize) != (layout.partitions(), layout.partition_records()) {
            return Err(Error::State("of another layout"));
        }
        // Before anything is allocated: the body has as many bytes as its count says.
        let bytes_a_query = 6 + 6 * layout.partitions();
        if count == 0 || count.checked_mul(bytes_a_query) != Some(fields.0.len()) {
            return Err(Error::State("torn: not as long as it says"));
        }
        let indices = (0..count).map(|_| fields.u32()).collect::<Result<Vec<_>, _>>()?;
        let entries = count * layout.partitions();
        let pending = Pending {
            columns: fields.u16s(count)?,
            refresh_columns: fields.u16s(entries)?,
            retrieve: fields.u16s(entries)?,
            refresh: fields.u16s(entries)?,
            indices,
            verified: [None, None],
        };
        fields.end()?;
        for &index in &pending.indices {
            layout.locate(index)?;
        }
        let offsets = [&pending.columns, &pending.refresh_columns, &pending.retrieve, &pending.refresh];
        if offsets.into_iter().flatten().any(|&offset| usize::from(offset) >= layout.partition_records()) {
            return Err(Error::State("an offset lies beyond its partition"));
        }
        Ok(pending)
    }
}
