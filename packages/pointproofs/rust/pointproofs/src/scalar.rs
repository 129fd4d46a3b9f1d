//! Maps bytes to scalars: 64 bytes of BLAKE3, little-endian, modulo the group's order. With so many bytes, the probabilities of
//! two scalars differ by less than 2⁻²⁵⁶. Each use has a context of its own.

use bls12_381::Scalar;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

const RECORD_CONTEXT: &str = "keyhush 2026-11 pointproofs scalar v1";

/// Bytes that are reduced to a scalar.
pub const WIDE_BYTES: usize = 64;

/// The 64 bytes from which the scalar of the record at an index (q·M + offset) is reduced. An all-zero record has the scalar
/// zero, so that empty slots and padding cost nothing. The steps are the same whatever the record is.
#[must_use]
pub fn record_bytes(index: u64, record: &[u8]) -> [u8; WIDE_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key(RECORD_CONTEXT);
    hasher.update(&index.to_le_bytes()).update(record);
    let mut wide = wide(&hasher);
    let empty: Choice = record.iter().fold(0, |all, byte| all | byte).ct_eq(&0);
    for byte in &mut wide {
        *byte = u8::conditional_select(byte, &0, empty);
    }
    wide
}

/// The scalar of a record.
#[must_use]
pub fn of_record(index: u64, record: &[u8]) -> Scalar {
    Scalar::from_bytes_wide(&record_bytes(index, record))
}

pub(crate) fn wide(hasher: &blake3::Hasher) -> [u8; WIDE_BYTES] {
    let mut bytes = [0; WIDE_BYTES];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}
