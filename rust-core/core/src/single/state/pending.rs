//! The stored form of a pending lookup: everything needed to send the same bytes again and to apply the answer.
//!
//! Body: layout, number of queries (u32); then for each query index, slot and pair (u32 each; the slot is 2^32 − 1 if no hint
//! contains the record); then a side (0 or 1) for each; then the queries' bytes; then the lookup's name (32 bytes), computed
//! from everything before it when the lookup was drawn.

use zeroize::Zeroizing;

use crate::error::Error;
use crate::layout::Layout;
use crate::single::geometry::Geometry;
use crate::single::hint::Hint;
use crate::single::query::{MISSED, Pending};
use crate::single::streams::Function;
use crate::stored::NAME_BYTES;
use crate::stored::frame::{Reader, Writer};

const KIND: [u8; 4] = *b"PISp";

impl Pending {
    /// The stored form, to be made durable before the first query leaves. Secret: it reveals what is asked for.
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
        let mut out = Writer::new(KIND, self.stamp, self.count() * (3 * 4 + 1) + self.queries.len() + NAME_BYTES);
        out.layout(layout);
        out.u32(self.count());
        for ((&index, &slot), &pair) in self.indices.iter().zip(&self.slots).zip(&self.pairs) {
            for number in [index, slot, pair] {
                out.u32(number as usize);
            }
        }
        out.bytes(&self.sides);
        out.bytes(&self.queries);
        out
    }

    /// Reads a stored lookup. It must belong to this hint at this version.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Index`] if the bytes are no such lookup.
    pub fn decode<F: Function>(bytes: &[u8], hint: &Hint<F>) -> Result<Self, Error> {
        let (layout, geometry) = (hint.layout(), hint.geometry());
        let (stamp, mut reader) = Reader::open(bytes, KIND)?;
        if stamp != hint.stamp() {
            return Err(Error::State("a pending lookup of another hint, or of another version of it"));
        }
        reader.expect_layout(layout)?;
        let name = *reader.last()?;
        let count = reader.count(3 * 4 + 1 + geometry.query_bytes())?;
        let mut pending = Pending {
            stamp,
            name,
            indices: Vec::with_capacity(count),
            slots: Vec::with_capacity(count),
            pairs: Vec::with_capacity(count),
            sides: Vec::new(),
            queries: Vec::new(),
            verified: None,
            rows: Vec::new(),
        };
        for next in hint.next..hint.next + count {
            let [index, slot, pair] = [reader.u32()?, reader.u32()?, reader.u32()?];
            layout.locate(index)?;
            let is_there = slot == MISSED || (slot as usize) < geometry.hints();
            if !is_there || pair as usize != next || next >= hint.backups.len() {
                return Err(Error::State("a query with a slot or backup that this hint does not have"));
            }
            pending.indices.push(index);
            pending.slots.push(slot);
            pending.pairs.push(pair);
        }
        pending.sides = reader.bytes(count)?.to_vec();
        pending.queries = reader.bytes(count * geometry.query_bytes())?.to_vec();
        reader.end()?;
        let well_formed = |query: &[u8]| is_query(geometry, query);
        if pending.sides.iter().any(|&side| side > 1)
            || !pending.queries.chunks_exact(geometry.query_bytes()).all(well_formed)
        {
            return Err(Error::State("a query that no hint makes"));
        }
        Ok(pending)
    }
}

/// Whether bytes of a query's length are a query: half of the stripes in either subset, and offsets within a stripe.
pub(crate) fn is_query(geometry: &Geometry, query: &[u8]) -> bool {
    let (bits, offsets) = query.split_at(geometry.bits_bytes());
    let ones: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
    let spare = bits.last().map_or(0, |byte| u32::from(*byte) >> ((geometry.stripes() - 1) % 8 + 1));
    let within = |offset: &[u8; 2]| usize::from(u16::from_le_bytes(*offset)) < geometry.stripe_records();
    ones as usize == geometry.stripes() / 2 && spare == 0 && offsets.as_chunks().0.iter().all(within)
}
