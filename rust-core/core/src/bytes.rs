//! Buffers and what both halves do with them.

use crate::error::Error;

/// `count` zero bytes, or a typed error where they cannot be had.
pub(crate) fn zeroed(count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = reserved(count)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

/// Room for `count` bytes, not touched yet, or a typed error where it cannot be had.
pub(crate) fn reserved(count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| {
        Error::Layout(format!("{count} bytes of memory could not be had; close other pages or plan a smaller database"))
    })?;
    Ok(bytes)
}

/// `into` ⊕= `bytes`, of equal length.
pub(crate) fn xor_into(into: &mut [u8], bytes: &[u8]) {
    debug_assert_eq!(into.len(), bytes.len());
    for (a, b) in into.iter_mut().zip(bytes) {
        *a ^= b;
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
