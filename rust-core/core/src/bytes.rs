//! Helpers for buffers: allocation that can fail, XOR, tests for zero, wiping.

pub(crate) use keyhush_kernels::xor::xor_into;
use zeroize::optimization_barrier;

use crate::error::Error;

/// `count` zero bytes, or [`Error::Layout`] if memory does not suffice.
pub(crate) fn zeroed(count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = reserved(count)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

/// An empty buffer with room for `count` bytes, or [`Error::Layout`] if memory does not suffice.
pub(crate) fn reserved(count: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| {
        Error::Layout(format!("{count} bytes of memory could not be had; close other pages or plan a smaller database"))
    })?;
    Ok(bytes)
}

/// Zeros all memory of a large secret at once. `zeroize()` stores each element by itself, which for a megabyte of bytes is a long task of
/// a slow page.
pub(crate) fn wipe<T: Copy + Default>(secret: &mut Vec<T>) {
    secret.clear();
    secret.resize(secret.capacity(), T::default());
    optimization_barrier(secret.as_slice());
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiping_zeros_what_is_there_and_the_room_behind_it() {
        let mut secret = vec![7u16; 1000];
        let room = secret.capacity();
        secret.truncate(10);
        wipe(&mut secret);
        assert_eq!(secret, vec![0; room]);
    }
}
