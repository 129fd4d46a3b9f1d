//! The numbers of stripes, records in a stripe, and hints. They follow from the layout alone: a client that chose its own
//! could be told from others.

use std::ops::Range;

use crate::commitment::tags::TAG_BYTES;
use crate::error::Error;
use crate::layout::{Layout, MAX_QUERIES};

/// κ: hints for each record of a stripe. A record is in no hint with probability e^(−κ/2), which is below 2^-43.
pub const HINTS_A_RECORD: usize = 60;
/// Most records of a stripe: offsets fit into a u16.
const MAX_STRIPE_RECORDS: usize = 1 << 16;
/// Fewest whole stripes, if there are enough records.
const MIN_STRIPES: usize = 32;
/// Most stripes. With more, 16-bit values would have no middle too often, and queries would be long.
pub const MAX_STRIPES: usize = 1 << 14;
/// Most bytes of a lookup's queries.
const QUERIES_BYTES: usize = 1 << 17;
/// Most bytes of records that a server reads for a request: some milliseconds on the thread that also answers all others.
const LOOKUP_WORK_BYTES: u64 = 64 << 20;
/// Hints may take at least this many bytes.
const HINTS_BYTES_TARGET: usize = 8 << 20;
/// Most bytes of tags in memory. The tags of larger databases are stored in rows.
const TAGS_HELD_BYTES: usize = 64 << 20;
/// Bytes of a hint besides its parity: number, cutoff, index of the extra.
const BESIDES_BYTES: usize = 10;

/// (slots, q, s, H, ℓ′). Slots are those of the layout: blocks with padding. Slot i is at offset i mod s of stripe ⌊i/s⌋. Slots
/// beyond the last one are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: usize,
    stripes: usize,
    stripe_records: usize,
    hints: usize,
    record_bytes: usize,
}

impl Geometry {
    /// The geometry of a layout. s is the largest power of two ≤ 65 536 with κ·s·(ℓ′ + 10) ≤ max(8 MiB, 2·slots) and
    /// 32·s ≤ slots, or 1. q is ⌈slots/s⌉, rounded up to an even number. H = κ·s.
    ///
    /// # Errors
    /// [`Error::Layout`] for more than 16 384 stripes, or more than 64 MiB to be read for a query.
    pub fn of(layout: &Layout) -> Result<Self, Error> {
        let (slots, record_bytes) = (layout.slots(), layout.record_bytes());
        let most = HINTS_BYTES_TARGET.max(2 * slots) as u64;
        let fits = |s: usize| {
            (HINTS_A_RECORD * s) as u64 * (record_bytes + BESIDES_BYTES) as u64 <= most && MIN_STRIPES * s <= slots
        };
        let mut stripe_records = MAX_STRIPE_RECORDS;
        while stripe_records > 1 && !fits(stripe_records) {
            stripe_records /= 2;
        }
        let stripes = slots.div_ceil(stripe_records).next_multiple_of(2);
        let geometry =
            Geometry { slots, stripes, stripe_records, hints: HINTS_A_RECORD * stripe_records, record_bytes };
        if stripes > MAX_STRIPES || geometry.work_bytes() > LOOKUP_WORK_BYTES {
            return Err(Error::Layout(format!(
                "one server cannot answer it: expected at most {MAX_STRIPES} stripes, and 64 MiB to be read for a query, got \
                 {stripes} stripes for {slots} records of {record_bytes} bytes; use a mode with two servers"
            )));
        }
        Ok(geometry)
    }

    /// The geometry of a later epoch's layout; `None` if it has other stripes. A client with hints of the old stripes could be
    /// told from others.
    #[must_use]
    pub fn followed(&self, after: &Layout) -> Option<Self> {
        if after.slots() == self.slots {
            return Some(*self);
        }
        let followed = Geometry { slots: after.slots(), ..*self };
        Self::of(after).ok().filter(|geometry| *geometry == followed)
    }

    /// This geometry with `hints` hints. For tests: with few hints, some records are in none.
    #[must_use]
    pub fn hazmat_with_hints(self, hints: usize) -> Self {
        Geometry { hints, ..self }
    }

    /// This geometry with stripes of `stripe_records`, a power of two up to 65 536. For tests that enumerate.
    #[must_use]
    pub fn hazmat_with_stripes_of(self, stripe_records: usize) -> Self {
        Geometry { stripe_records, stripes: self.slots.div_ceil(stripe_records).next_multiple_of(2), ..self }
    }

    /// The blocks of the layout, with padding.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// q, even
    #[must_use]
    pub fn stripes(&self) -> usize {
        self.stripes
    }

    /// s, a power of two
    #[must_use]
    pub fn stripe_records(&self) -> usize {
        self.stripe_records
    }

    /// H
    #[must_use]
    pub fn hints(&self) -> usize {
        self.hints
    }

    /// ℓ′
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// q·s: all slots, and the zeros after them.
    #[must_use]
    pub fn room(&self) -> usize {
        self.stripes * self.stripe_records
    }

    /// Whether tags are stored in rows, one for each stripe, outside of memory.
    #[must_use]
    pub fn keeps_rows(&self) -> bool {
        self.room() * TAG_BYTES > TAGS_HELD_BYTES
    }

    /// Bytes of a row of tags: s·8.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.stripe_records * TAG_BYTES
    }

    /// Bytes of a query: a bit and an offset (u16) for each stripe.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        self.bits_bytes() + self.stripes * size_of::<u16>()
    }

    /// ⌈q/8⌉
    pub(crate) fn bits_bytes(&self) -> usize {
        self.stripes.div_ceil(8)
    }

    /// Bytes of an answer: two parities.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        2 * self.record_bytes
    }

    /// Bytes of records that a server reads for a query: q·ℓ′.
    #[must_use]
    pub fn work_bytes(&self) -> u64 {
        self.stripes as u64 * self.record_bytes as u64
    }

    /// The most queries of a request, if the generation allows as many: their bytes fit into 128 KiB, and a server reads at most
    /// 64 MiB for them.
    #[must_use]
    pub fn max_queries(&self) -> usize {
        let read = (LOOKUP_WORK_BYTES / self.work_bytes()) as usize;
        read.min(QUERIES_BYTES / self.query_bytes()).min(MAX_QUERIES)
    }

    /// The stripe and the offset of a slot.
    #[must_use]
    pub fn place(&self, slot: usize) -> (usize, u16) {
        (slot / self.stripe_records, self.offset(slot as u16))
    }

    /// The offset that a 16-bit value stands for.
    #[inline]
    pub(crate) fn offset(&self, value: u16) -> u16 {
        value & (self.stripe_records - 1) as u16
    }

    /// The stripes that contain these slots.
    pub(crate) fn stripes_of(&self, slots: &Range<usize>) -> Range<usize> {
        slots.start / self.stripe_records..slots.end.div_ceil(self.stripe_records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: u64, record_bytes: u64, partitions: Option<u64>) -> Result<Geometry, Error> {
        Geometry::of(&Layout::plan(records, record_bytes, partitions).unwrap())
    }

    #[test]
    fn the_geometry_is_the_designs() {
        for (records, record_bytes, s, q) in
            [(1 << 20, 32, 2048, 512), (1 << 24, 32, 8192, 2048), (1 << 20, 256, 512, 2048), (1 << 16, 32, 2048, 32)]
        {
            let geometry = of(records, record_bytes, None).unwrap();
            assert_eq!((geometry.stripe_records(), geometry.stripes(), geometry.hints()), (s, q, 60 * s));
            assert_eq!(geometry.query_bytes(), q / 8 + 2 * q);
            assert!(geometry.max_queries() >= 30);
            // 128 MiB of tags are too many for memory.
            assert_eq!((geometry.keeps_rows(), geometry.row_bytes()), (records == 1 << 24, 8 * s));
        }
    }

    #[test]
    fn it_is_sound_at_the_edges() {
        for (records, record_bytes, partitions) in [
            (1, 1, Some(1)),
            (3, 1, Some(1)),
            (31, 9, Some(1)),
            (33, 9, Some(3)),
            (1 << 11, 65_536, None),
            (12_345, 7, None),
        ] {
            let geometry = of(records, record_bytes, partitions).unwrap();
            assert!(geometry.room() >= geometry.slots() && geometry.stripes().is_multiple_of(2));
            assert!(geometry.stripe_records().is_power_of_two());
            let last = geometry.slots() - 1;
            let (stripe, offset) = geometry.place(last);
            assert_eq!(stripe * geometry.stripe_records() + usize::from(offset), last);
            assert!(stripe < geometry.stripes());
        }
        assert!(matches!(of(1 << 20, 65_536, None), Err(Error::Layout(_))), "stripes of two records");
    }

    #[test]
    fn no_request_makes_a_server_read_more_than_64_mib() {
        let mut whole = 0;
        for log in 0..=16 {
            for records in [1 << 8, 1 << 11, 1 << 13, 1 << 16, 1 << 20, 1 << 24] {
                let Ok(layout) = Layout::plan(records, 1 << log, None) else { continue };
                let Ok(geometry) = Geometry::of(&layout) else { continue };
                assert!(geometry.max_queries() >= 1);
                let read = geometry.max_queries() as u64 * geometry.stripes() as u64 * geometry.record_bytes() as u64;
                assert!(read <= 64 << 20, "{records} of {} bytes: {read}", 1 << log);
                whole += usize::from(read == 64 << 20);
            }
        }
        assert!(whole > 0, "none comes to the bound");
        // A query would make the server read 256 MiB.
        assert!(matches!(of(8192, 65_536, None), Err(Error::Layout(_))));
    }
}
