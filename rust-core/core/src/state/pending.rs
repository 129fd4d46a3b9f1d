//! The stored form of a pending batch: all it takes to send the same bytes again and to apply their answers.
//!
//! Body: layout, Q when it was made (u32), queries (u32), then indices (u32 each), columns (u16 each), refresh columns,
//! retrieve and refresh vectors (Q u16 a query each).

use super::frame::{Reader, Writer};
use crate::error::Error;
use crate::hint::Hint;
use crate::layout::Layout;
use crate::query::Pending;

const KIND: [u8; 4] = *b"PIRp";

impl Pending {
    /// Bytes to make durable before the first vector leaves. Secret: they tell what is asked.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = Writer::new(KIND, self.stamp, self.count() * bytes_a_query(layout));
        out.layout(layout);
        out.u32(self.partitions_at_first as usize);
        out.u32(self.count());
        for &index in &self.indices {
            out.u32(index as usize);
        }
        for field in [&self.columns, &self.refresh_columns, &self.retrieve, &self.refresh] {
            out.u16s(field);
        }
        out.seal()
    }

    /// Takes up a stored batch of this hint at this version.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Index`] if the bytes are not such a batch.
    pub fn decode(bytes: &[u8], hint: &Hint) -> Result<Self, Error> {
        let layout = hint.layout();
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
        if stamp != hint.stamp() {
            return Err(Error::State("a pending batch of another hint, or of another moment"));
        }
        reader.expect_layout(layout)?;
        let partitions_at_first = reader.u32()?;
        if partitions_at_first == 0 || partitions_at_first as usize > layout.partitions() {
            return Err(Error::State("it was made for more partitions than there are, or for none"));
        }
        let count = reader.count(bytes_a_query(layout))?;
        let entries = count * layout.partitions();
        let indices = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        let pending = Pending {
            stamp,
            partitions_at_first,
            indices,
            columns: reader.offsets(count, layout)?,
            refresh_columns: reader.offsets(entries, layout)?,
            retrieve: reader.offsets(entries, layout)?,
            refresh: reader.offsets(entries, layout)?,
            verified: [None, None],
        };
        reader.end()?;
        for &index in &pending.indices {
            layout.locate(index)?;
        }
        Ok(pending)
    }
}

fn bytes_a_query(layout: &Layout) -> usize {
    4 + 2 + 3 * 2 * layout.partitions()
}
