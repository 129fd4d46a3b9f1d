//! The frame around every stored form: kind (4 bytes), version of the form (u16), two zero bytes, the hint's id (16)
//! and version (u64), the body, and the first 16 bytes of the BLAKE3 of all of that. Integers are little-endian.

use zeroize::Zeroizing;

use crate::error::Error;
use crate::layout::Layout;
use crate::tapir::hint::{HINT_ID_BYTES, Stamp};

/// The one version of all forms so far. A reader refuses any other; fixtures of every version ever written are kept
/// in core/tests/fixtures and read by the tests.
pub(crate) const VERSION: u16 = 1;

const CHECKSUM_BYTES: usize = 16;
/// Most that a frame has besides its body: head, layout, a count and the checksum.
const AROUND_BYTES: usize = 32 + 16 + 4 + CHECKSUM_BYTES;

/// (N, ℓ, Q, M). What is stored belongs to one hint under one manifest, which says g.
fn numbers(layout: &Layout) -> [usize; 4] {
    let stored = layout.stored();
    [layout.records(), stored.record_bytes, layout.partitions(), stored.partition_records]
}

/// Writes a frame into a buffer of its final length, which is wiped when dropped.
pub(crate) struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    pub(crate) fn new(kind: [u8; 4], stamp: Stamp, body_bytes: usize) -> Self {
        let mut frame = Vec::with_capacity(body_bytes + AROUND_BYTES);
        frame.extend_from_slice(&kind);
        frame.extend_from_slice(&VERSION.to_le_bytes());
        frame.extend_from_slice(&[0; 2]);
        frame.extend_from_slice(&stamp.hint_id);
        frame.extend_from_slice(&stamp.version.to_le_bytes());
        Writer(Zeroizing::new(frame))
    }

    pub(crate) fn u32(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u32).to_le_bytes()); // counts and indices: below 2^32 by their layout
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u16s(&mut self, numbers: &[u16]) {
        self.numbers(numbers.iter().map(|number| number.to_le_bytes()));
    }

    pub(crate) fn u64s(&mut self, numbers: &[u64]) {
        self.numbers(numbers.iter().map(|number| number.to_le_bytes()));
    }

    /// Written in place, number by number: there are millions of them, and pushing byte by byte takes ten times as long.
    fn numbers<const BYTES: usize>(&mut self, numbers: impl ExactSizeIterator<Item = [u8; BYTES]>) {
        let begun = self.0.len();
        self.0.resize(begun + numbers.len() * BYTES, 0);
        for (place, number) in self.0[begun..].as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number;
        }
    }

    /// (N, ℓ, Q, M), which every form begins with.
    pub(crate) fn layout(&mut self, layout: &Layout) {
        for number in numbers(layout) {
            self.u32(number);
        }
    }

    /// What was written so far.
    pub(crate) fn unsealed(self) -> Zeroizing<Vec<u8>> {
        self.0
    }

    pub(crate) fn written(self) -> Unsealed {
        Unsealed { frame: self.0, hasher: blake3::Hasher::new(), hashed: 0 }
    }

    pub(crate) fn seal(self) -> Vec<u8> {
        self.written().seal()
    }
}

/// A stored form, written but for its checksum. That takes most of the time, and may be made in slices, so that nobody has to
/// wait for all of it; what the form was made of may change meanwhile. Secret: wiped when dropped.
pub struct Unsealed {
    frame: Zeroizing<Vec<u8>>,
    hasher: blake3::Hasher,
    hashed: usize,
}

impl Unsealed {
    /// Of all bytes but the checksum.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Unsealed { frame: Zeroizing::new(bytes), hasher: blake3::Hasher::new(), hashed: 0 }
    }

    /// Hashes at most so many bytes more; whether there are more.
    pub fn hash(&mut self, most: usize) -> bool {
        let end = self.frame.len().min(self.hashed.saturating_add(most));
        self.hasher.update(&self.frame[self.hashed..end]);
        self.hashed = end;
        end < self.frame.len()
    }

    /// The stored form. Hashes what has not been hashed yet.
    #[must_use]
    pub fn seal(mut self) -> Vec<u8> {
        self.hash(usize::MAX);
        self.frame.extend_from_slice(&self.hasher.finalize().as_bytes()[..CHECKSUM_BYTES]);
        std::mem::take(&mut *self.frame)
    }
}

/// Reads a frame, field by field.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The body's last field.
    pub(crate) fn last<const COUNT: usize>(&mut self) -> Result<&'a [u8; COUNT], Error> {
        let (rest, field) = self.0.split_last_chunk().ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(field)
    }

    /// Opens a frame of this kind: checksum first, then who and what it says it is.
    pub(crate) fn open(bytes: &'a [u8], kind: [u8; 4]) -> Result<(Stamp, Self), Error> {
        let end = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Error::State("torn: too short"))?;
        let (framed, checksum) = bytes.split_at(end);
        if &blake3::hash(framed).as_bytes()[..CHECKSUM_BYTES] != checksum {
            return Err(Error::State("torn: the checksum does not match"));
        }
        let mut reader = Reader(framed);
        if *reader.array::<4>()? != kind {
            return Err(Error::State("foreign: another kind of state"));
        }
        if u16::from_le_bytes(*reader.array()?) != VERSION || *reader.array::<2>()? != [0; 2] {
            return Err(Error::State("of another version"));
        }
        let hint_id: [u8; HINT_ID_BYTES] = *reader.array()?;
        Ok((Stamp { hint_id, version: u64::from_le_bytes(*reader.array()?) }, reader))
    }

    pub(crate) fn array<const COUNT: usize>(&mut self) -> Result<&'a [u8; COUNT], Error> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(*self.array()?))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn u16s(&mut self, count: usize) -> Result<Vec<u16>, Error> {
        Ok(self.bytes(count * 2)?.as_chunks().0.iter().map(|field| u16::from_le_bytes(*field)).collect())
    }

    pub(crate) fn u64s(&mut self, numbers: &mut [u64]) -> Result<(), Error> {
        let fields = self.bytes(size_of_val(numbers))?;
        for (number, field) in numbers.iter_mut().zip(fields.as_chunks().0) {
            *number = u64::from_le_bytes(*field);
        }
        Ok(())
    }

    /// Numbers that must be below M.
    pub(crate) fn offsets(&mut self, count: usize, layout: &Layout) -> Result<Vec<u16>, Error> {
        let offsets = self.u16s(count)?;
        if offsets.iter().any(|&offset| usize::from(offset) >= layout.partition_records()) {
            return Err(Error::State("an offset lies beyond its partition"));
        }
        Ok(offsets)
    }

    pub(crate) fn expect_layout(&mut self, layout: &Layout) -> Result<(), Error> {
        for number in numbers(layout) {
            if self.u32()? as usize != number {
                return Err(Error::State("of another layout"));
            }
        }
        Ok(())
    }

    /// A count of things of `each` bytes that make up the rest of the body, at least one. Checked before anything is
    /// allocated for them.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Error> {
        let count = self.u32()? as usize;
        if count == 0 || count.checked_mul(each) != Some(self.0.len()) {
            return Err(Error::State("torn: not as long as it says"));
        }
        Ok(count)
    }

    /// Whether nothing but this number is left; it is read then.
    pub(crate) fn is_last_u32(&mut self, number: u32) -> bool {
        let is = self.0 == number.to_le_bytes();
        if is {
            self.0 = &[];
        }
        is
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::State("torn: longer than it says")) }
    }
}
