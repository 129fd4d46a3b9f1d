//! The stored form of a pending lookup: everything needed to send the same bytes again and to apply the answers.
//!
//! Body: layout, number of queries (u32), indices (a u32 for each query), columns (a u16 for each), refresh columns, retrieve
//! vectors and refresh vectors (Q u16 for each), and the lookup's name (32 bytes). The name was computed from everything
//! before it, when the lookup was drawn.

use zeroize::Zeroizing;

use crate::error::Error;
use crate::layout::Layout;
use crate::stored::NAME_BYTES;
use crate::stored::frame::{Reader, Writer};
use crate::tapir::hint::Hint;
use crate::tapir::query::Pending;

const KIND: [u8; 4] = *b"PIRp";

impl Pending {
    /// The stored form, to be made durable before the first vector leaves. Secret: it reveals what is asked for.
    #[must_use]
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut out = self.write(layout);
        out.bytes(&self.name);
        out.seal()
    }

    /// The form without the name: the name is computed from it.
    pub(crate) fn unnamed(&self, layout: &Layout) -> Zeroizing<Vec<u8>> {
        self.write(layout).unsealed()
    }

    fn write(&self, layout: &Layout) -> Writer {
        let mut out = Writer::new(KIND, self.stamp, self.count() * bytes_a_query(layout) + NAME_BYTES);
        out.layout(layout);
        out.u32(self.count());
        for &index in &self.indices {
            out.u32(index as usize);
        }
        for field in [&self.columns, &self.refresh_columns, &self.retrieve, &self.refresh] {
            out.u16s(field);
        }
        out
    }

    /// Reads a stored lookup. It must belong to this hint at this version.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Index`] if the bytes are no such lookup.
    pub fn decode(bytes: &[u8], hint: &Hint) -> Result<Self, Error> {
        let layout = hint.layout();
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
        if stamp != hint.stamp() {
            return Err(Error::State("a pending lookup of another hint, or of another version of it"));
        }
        reader.expect_layout(layout)?;
        let name = *reader.last()?;
        let count = reader.count(bytes_a_query(layout))?;
        let entries = count * layout.partitions();
        let indices = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        let pending = Pending {
            stamp,
            name,
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
