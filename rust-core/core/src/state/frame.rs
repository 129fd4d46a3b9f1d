//! The frame around every stored form: kind (4 bytes), version (u16), two zero bytes, body, and the first 16 bytes of
//! the BLAKE3 of all of that.

use crate::error::{Error, expect_length};

const HEADER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 16;

/// Begins a frame; write the body after it, then [`seal`].
pub(super) fn begin(kind: [u8; 4], version: u16) -> Vec<u8> {
    let mut frame = kind.to_vec();
    frame.extend_from_slice(&version.to_le_bytes());
    frame.extend_from_slice(&[0; 2]);
    frame
}

/// Ends a frame.
pub(super) fn seal(mut frame: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&frame);
    frame.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
    frame
}

/// The body of a sealed frame of this kind and version.
pub(super) fn open(bytes: &[u8], kind: [u8; 4], version: u16) -> Result<&[u8], Error> {
    let body_end = bytes.len().checked_sub(CHECKSUM_BYTES).filter(|&end| end >= HEADER_BYTES);
    let (framed, checksum) = bytes.split_at(body_end.ok_or(Error::State("torn: too short"))?);
    if &blake3::hash(framed).as_bytes()[..CHECKSUM_BYTES] != checksum {
        return Err(Error::State("torn: the checksum does not match"));
    }
    let (header, body) = framed.split_at(HEADER_BYTES);
    if header[..4] != kind {
        return Err(Error::State("foreign: another kind of state"));
    }
    if header[4..6] != version.to_le_bytes() || header[6..] != [0; 2] {
        return Err(Error::State("of another version"));
    }
    Ok(body)
}

/// Reads fixed-width fields off the front of a body.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*field))
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(Error::State("torn: a field is missing"))?;
        self.0 = rest;
        Ok(field)
    }

    pub(super) fn u16s(&mut self, count: usize) -> Result<Vec<u16>, Error> {
        Ok(self.bytes(count * 2)?.as_chunks().0.iter().map(|field| u16::from_le_bytes(*field)).collect())
    }

    pub(super) fn end(self) -> Result<(), Error> {
        expect_length("rest of a stored state", self.0, 0)
    }
}
