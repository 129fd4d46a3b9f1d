//! The frame around every stored form: kind (4 bytes), version of the form (u16), two zero bytes, the hint's id (16 bytes)
//! and version (u64), the body, and a checksum: the first 16 bytes of the BLAKE3 of everything before. Integers are
//! little-endian.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::bytes::reserved;
use crate::commitment::packaged::{PACKAGED, Packaged};
use crate::error::Error;
use crate::layout::Layout;
use crate::stored::{HINT_ID_BYTES, Stamp};

/// The version of all forms. A reader refuses any other. Tests read fixtures of every version ever written, in
/// core/tests/fixtures.
pub(crate) const VERSION: u16 = 1;

const CHECKSUM_BYTES: usize = 16;
/// The most bytes of a frame besides its body: header, layout, a count and the checksum.
const AROUND_BYTES: usize = 32 + 16 + 4 + CHECKSUM_BYTES;

/// (N, ℓ, Q, M). A stored form belongs to one manifest, which has g.
fn numbers(layout: &Layout) -> [usize; 4] {
    let stored = layout.stored();
    [layout.records(), stored.record_bytes, layout.partitions(), stored.partition_records]
}

/// Bytes of a piece. A form may have tens of megabytes, and is handed over in pieces.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the last piece, which also has the checksum.
const MOST_BYTES: usize = PIECE_BYTES + CHECKSUM_BYTES;

/// Writes a frame into pieces. Pieces are never moved in memory, and are wiped when dropped.
pub(crate) struct Writer {
    full: VecDeque<Zeroizing<Vec<u8>>>,
    last: Zeroizing<Vec<u8>>,
}

impl Writer {
    /// For a body of at least `body_bytes`. A body that fits into one piece gets a piece of exactly its length.
    pub(crate) fn new(kind: [u8; 4], stamp: Stamp, body_bytes: usize) -> Self {
        let last = Zeroizing::new(Vec::with_capacity(MOST_BYTES.min(body_bytes + AROUND_BYTES)));
        let mut writer = Writer { full: VecDeque::new(), last };
        writer.bytes(&kind);
        writer.bytes(&VERSION.to_le_bytes());
        writer.bytes(&[0; 2]);
        writer.bytes(&stamp.hint_id);
        writer.bytes(&stamp.version.to_le_bytes());
        writer
    }

    /// The bytes left in the last piece. Begins a new piece if fewer than `wanted` are left.
    fn room(&mut self, wanted: usize) -> usize {
        if self.last.len() + wanted > PIECE_BYTES {
            self.full.push_back(std::mem::replace(&mut self.last, Zeroizing::new(Vec::with_capacity(MOST_BYTES))));
        }
        PIECE_BYTES - self.last.len()
    }

    pub(crate) fn u32(&mut self, number: usize) {
        self.bytes(&(number as u32).to_le_bytes()); // counts and indices are below 2^32: the layout bounds them
    }

    pub(crate) fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(self.room(1)));
            self.last.extend_from_slice(now);
            bytes = rest;
        }
    }

    pub(crate) fn u16s(&mut self, numbers: &[u16]) {
        self.numbers(numbers, u16::to_le_bytes);
    }

    pub(crate) fn u32s(&mut self, numbers: &[u32]) {
        self.numbers(numbers, u32::to_le_bytes);
    }

    pub(crate) fn u64s(&mut self, numbers: &[u64]) {
        self.numbers(numbers, u64::to_le_bytes);
    }

    /// Writes millions of numbers in place. Appending them byte by byte would take ten times as long.
    fn numbers<T: Copy, const BYTES: usize>(&mut self, mut numbers: &[T], bytes: impl Fn(T) -> [u8; BYTES]) {
        while !numbers.is_empty() {
            let (now, rest) = numbers.split_at(numbers.len().min(self.room(BYTES) / BYTES));
            let begun = self.last.len();
            self.last.resize(begun + now.len() * BYTES, 0);
            for (place, &number) in self.last[begun..].as_chunks_mut().0.iter_mut().zip(now) {
                *place = bytes(number);
            }
            numbers = rest;
        }
    }

    /// (N, ℓ, Q, M), the first fields of every form.
    pub(crate) fn layout(&mut self, layout: &Layout) {
        for number in numbers(layout) {
            self.u32(number);
        }
    }

    /// All bytes so far.
    pub(crate) fn unsealed(self) -> Zeroizing<Vec<u8>> {
        let mut pieces = self.full.iter().chain([&self.last]);
        let mut all = Zeroizing::new(Vec::with_capacity(pieces.clone().map(|piece| piece.len()).sum()));
        pieces.by_ref().for_each(|piece| all.extend_from_slice(piece));
        all
    }

    pub(crate) fn written(mut self) -> Unsealed {
        self.full.push_back(self.last);
        Unsealed { pieces: self.full, hasher: blake3::Hasher::new() }
    }

    pub(crate) fn seal(self) -> Vec<u8> {
        self.written().seal()
    }
}

/// A stored form without its checksum, which takes most of the time. The checksum is computed piece by piece, so that
/// nothing has to wait for all of it. The original may change meanwhile. Secret: wiped when dropped.
pub struct Unsealed {
    pieces: VecDeque<Zeroizing<Vec<u8>>>,
    hasher: blake3::Hasher,
}

impl Unsealed {
    /// A form from all of its bytes but the checksum.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Unsealed { pieces: VecDeque::from([Zeroizing::new(bytes)]), hasher: blake3::Hasher::new() }
    }

    /// The number of bytes left.
    #[must_use]
    pub fn left(&self) -> usize {
        let checksum_bytes = if self.pieces.is_empty() { 0 } else { CHECKSUM_BYTES };
        self.pieces.iter().map(|piece| piece.len()).sum::<usize>() + checksum_bytes
    }

    /// The next piece of the stored form, about 256 KiB; `None` after the last one.
    pub fn piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = self.pieces.pop_front()?;
        self.hasher.update(&piece);
        if self.pieces.is_empty() {
            piece.extend_from_slice(&self.hasher.finalize().as_bytes()[..CHECKSUM_BYTES]);
        }
        Some(std::mem::take(&mut *piece))
    }

    /// All bytes that are left.
    #[must_use]
    pub fn seal(mut self) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(self.left());
        while let Some(piece) = self.piece() {
            sealed.extend_from_slice(&Zeroizing::new(piece));
        }
        sealed
    }
}

/// A stored form that arrives piece by piece and is hashed as it arrives, because hashing takes most of the time of
/// reading. Secret: the allocator of the bindings wipes memory that is freed.
pub struct Received {
    bytes: Vec<u8>,
    length: usize,
    hasher: blake3::Hasher,
}

impl Received {
    /// An empty form that will have `length` bytes.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(length: usize) -> Result<Self, Error> {
        Ok(Received { bytes: reserved(length)?, length, hasher: blake3::Hasher::new() })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// [`Error::Length`] if the form gets longer than announced.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        let begun = self.bytes.len();
        if piece.len() > self.length - begun {
            let [expected, actual] = [self.length, begun + piece.len()].map(|bytes| bytes as u64);
            return Err(Error::Length { what: "stored form", expected, actual });
        }
        self.bytes.extend_from_slice(piece);
        let framed = self.length.saturating_sub(CHECKSUM_BYTES);
        self.hasher.update(&self.bytes[begun.min(framed)..self.bytes.len().min(framed)]);
        Ok(())
    }
}

/// A stored form and its hash.
#[derive(Clone, Copy)]
pub struct Form<'a> {
    bytes: &'a [u8],
    hash: blake3::Hash,
}

impl<'a> From<&'a Received> for Form<'a> {
    fn from(received: &'a Received) -> Self {
        Form { bytes: &received.bytes, hash: received.hasher.finalize() }
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Form<'a> {
    fn from(bytes: &'a B) -> Self {
        let bytes = bytes.as_ref();
        Form { bytes, hash: blake3::hash(&bytes[..bytes.len().saturating_sub(CHECKSUM_BYTES)]) }
    }
}

impl Form<'_> {
    pub(crate) fn hash(&self) -> blake3::Hash {
        self.hash
    }

    /// Whether its header names this kind.
    pub(crate) fn is_of(&self, kind: [u8; 4]) -> bool {
        self.bytes.starts_with(&kind)
    }
}

/// Reads the fields of a frame.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the last field of the body.
    pub(crate) fn last<const COUNT: usize>(&mut self) -> Result<&'a [u8; COUNT], Error> {
        let (rest, field) = self.0.split_last_chunk().ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(field)
    }

    /// Opens a frame of this kind. Checks the checksum first, then kind and version. Returns the stamp, and a reader of the
    /// body.
    pub(crate) fn open(form: impl Into<Form<'a>>, kind: [u8; 4]) -> Result<(Stamp, Self), Error> {
        let Form { bytes, hash } = form.into();
        let (framed, checksum) = bytes.split_last_chunk().ok_or(Error::State("torn: too short"))?;
        if hash.as_bytes().first_chunk::<CHECKSUM_BYTES>() != Some(checksum) {
            return Err(Error::State("torn: the checksum does not match"));
        }
        let mut reader = Reader(framed);
        if *reader.array::<4>()? != kind {
            return Err(Error::State("foreign: another kind of state"));
        }
        if u16::from_le_bytes(*reader.array()?) != VERSION || *reader.array::<2>()? != [0; 2] {
            return Err(Error::State("it has another version"));
        }
        let hint_id: [u8; HINT_ID_BYTES] = *reader.array()?;
        Ok((Stamp { hint_id, version: u64::from_le_bytes(*reader.array()?) }, reader))
    }

    /// A reader of the last `left` bytes of a body that was opened before.
    pub(crate) fn at(form: &Form<'a>, left: usize) -> Result<Self, Error> {
        let framed = form.bytes.len().saturating_sub(CHECKSUM_BYTES);
        let rest = framed.checked_sub(left).and_then(|at| form.bytes.get(at..framed));
        rest.map(Reader).ok_or(Error::State("torn: too short"))
    }

    /// The number of bytes that were not read yet.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
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

    pub(crate) fn u32s(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        Ok(self.bytes(count * 4)?.as_chunks().0.iter().map(|field| u32::from_le_bytes(*field)).collect())
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Error> {
        match self.u32()? {
            flag @ (0 | 1) => Ok(flag == 1),
            _ => Err(Error::State("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn u64s(&mut self, numbers: &mut [u64]) -> Result<(), Error> {
        let fields = self.bytes(size_of_val(numbers))?;
        for (number, field) in numbers.iter_mut().zip(fields.as_chunks().0) {
            *number = u64::from_le_bytes(*field);
        }
        Ok(())
    }

    /// `count` numbers, which must be below M.
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
                return Err(Error::State("it has another layout"));
            }
        }
        Ok(())
    }

    /// A number of items of `each` bytes, which fill the rest of the body; at least one. The length is checked before memory
    /// is allocated for them.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Error> {
        let count = self.u32()? as usize;
        if count == 0 || count.checked_mul(each) != Some(self.0.len()) {
            return Err(Error::State("torn: its length does not match its number of queries"));
        }
        Ok(count)
    }

    /// The kind of proof whose mark is all that is left. It is taken.
    pub(crate) fn last_mark(&mut self) -> Option<&'static Packaged> {
        let kind = PACKAGED.iter().find(|kind| self.0 == kind.mark.to_le_bytes())?;
        self.0 = &[];
        Some(kind)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::State("torn: bytes follow the last field")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_one_after_the_other_in_however_many_pieces() {
        let stamp = Stamp { hint_id: [7; HINT_ID_BYTES], version: 3 };
        for bytes in [0, 5, PIECE_BYTES - 60, PIECE_BYTES - 33, PIECE_BYTES, 2 * PIECE_BYTES + 11] {
            let field: Vec<u8> = (0..bytes).map(|at| (at * 31 / 7) as u8).collect();
            let numbers: Vec<u64> = (0..300_000).map(|number| number * 0x0101_0203).collect();
            let mut out = Writer::new(*b"test", stamp, bytes);
            out.bytes(&field);
            out.u32(9);
            out.u64s(&numbers);
            out.u16s(&[1, 2, 3]);
            let mut form = out.written();
            let (mut sealed, left) = (Vec::new(), form.left());
            while let Some(piece) = form.piece() {
                assert!(piece.len() <= MOST_BYTES);
                sealed.extend(piece);
                assert_eq!(form.left(), left - sealed.len());
            }
            let (read, mut reader) = Reader::open(&sealed, *b"test").unwrap();
            assert_eq!((read.hint_id, read.version), (stamp.hint_id, stamp.version));
            // The form handed over in pieces of any length is the same.
            for each in [sealed.len() - 1, PIECE_BYTES, 100_003] {
                let mut received = Received::new(sealed.len()).unwrap();
                for piece in sealed.chunks(each) {
                    assert!(Reader::open(&received, *b"test").is_err());
                    received.take(piece).unwrap();
                }
                assert!(received.take(&[0]).is_err());
                let (_, mut again) = Reader::open(&received, *b"test").unwrap();
                assert_eq!(again.bytes(bytes).unwrap(), field);
                received = Received::new(sealed.len()).unwrap();
                let mut torn = sealed.clone();
                torn[sealed.len() / 2] ^= 1;
                torn.chunks(each).for_each(|piece| received.take(piece).unwrap());
                assert!(Reader::open(&received, *b"test").is_err());
            }
            assert_eq!(reader.bytes(bytes).unwrap(), field);
            assert_eq!(reader.u32().unwrap(), 9);
            let mut again = vec![0; numbers.len()];
            reader.u64s(&mut again).unwrap();
            assert_eq!(again, numbers);
            assert_eq!(reader.u16s(3).unwrap(), [1, 2, 3]);
            reader.end().unwrap();
        }
    }
}
