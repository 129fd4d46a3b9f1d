//! A receipt: this machine has proved this database, so a restart need not do it again. It is a MAC under a key that never
//! leaves the machine. An attacker who can write its files, but cannot read the key, cannot make a receipt.

use crate::statement::HASH_BYTES;

const RECEIPT_CONTEXT: &str = "keyhush 2026-11 pointproofs receipt v1";

/// The receipt for the hash of a manifest and the hash of the openings made for it.
#[must_use]
pub fn receipt(key: &[u8; 32], manifest: &[u8; HASH_BYTES], openings: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    let own = blake3::Hasher::new_derive_key(RECEIPT_CONTEXT).update(key).finalize();
    *blake3::Hasher::new_keyed(own.as_bytes()).update(manifest).update(openings).finalize().as_bytes()
}

/// Whether a receipt is for these two hashes. Compares in constant time.
#[must_use]
pub fn holds(
    key: &[u8; 32],
    manifest: &[u8; HASH_BYTES],
    openings: &[u8; HASH_BYTES],
    given: &[u8; HASH_BYTES],
) -> bool {
    blake3::Hash::from_bytes(receipt(key, manifest, openings)) == blake3::Hash::from_bytes(*given)
}
