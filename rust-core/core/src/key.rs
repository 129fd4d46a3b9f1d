//! Hashes of keys and names (docs/protocol.md, Hashes). Each hash has a context of its own.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::error::Error;

/// Bytes of a key's fingerprint. With fewer than 16, an attacker who may add keys could search for collisions.
pub const FINGERPRINT_BYTES: usize = 16;

const FINGERPRINT_CONTEXT: &str = "keyhush 2026-11 key fingerprint v1";
const DATABASE_ID_CONTEXT: &str = "keyhush 2026-11 database id v1";
const DIRECTORY_SEED_CONTEXT: &str = "keyhush 2026-11 directory seed v1";
const QUERY_CONTEXT: &str = "keyhush 2026-11 query entropy v1";
const UPDATE_CONTEXT: &str = "keyhush 2026-11 update entropy v1";
const PENDING_NAME_CONTEXT: &str = "keyhush 2026-11 batch name v1";
const ROW_NAME_CONTEXT: &str = "keyhush 2026-11 row name v1";

/// Bytes of the name of a row of tags.
pub(crate) const ROW_NAME_BYTES: usize = 16;

/// The first 16 bytes of BLAKE3's `derive_key`.
fn derive(context: &str, bytes: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    first_bytes(blake3::Hasher::new_derive_key(context).update(bytes))
}

fn first_bytes(hasher: &blake3::Hasher) -> [u8; FINGERPRINT_BYTES] {
    let mut out = [0; FINGERPRINT_BYTES];
    hasher.finalize_xof().fill(&mut out);
    out
}

/// The fingerprint of a key's exact bytes.
#[must_use]
pub fn fingerprint(key: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    derive(FINGERPRINT_CONTEXT, key)
}

/// Fingerprints of many keys, 16 bytes each: key i ends at `ends[i]` of `keys` and begins where its predecessor ends.
///
/// # Errors
/// [`Error::Index`] if the ends are not ascending within `keys`.
pub fn fingerprints(keys: &[u8], ends: &[u32]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(ends.len() * FINGERPRINT_BYTES);
    let mut start = 0;
    for &end in ends {
        let key =
            keys.get(start..end as usize).ok_or(Error::Index { what: "end of a key", bound: keys.len() as u64 + 1 })?;
        out.extend_from_slice(&fingerprint(key));
        start = end as usize;
    }
    Ok(out)
}

/// A database's id, derived from its name or its first manifest.
#[must_use]
pub fn database_id(seed: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    derive(DATABASE_ID_CONTEXT, seed)
}

/// Derives a directory's seed from its fingerprints, which come in ascending order. Nobody who adds a key knows the seed
/// beforehand, so nobody can choose keys that the directory has no place for.
pub(crate) struct DirectorySeed(blake3::Hasher);

impl DirectorySeed {
    pub(crate) fn new() -> Self {
        DirectorySeed(blake3::Hasher::new_derive_key(DIRECTORY_SEED_CONTEXT))
    }

    pub(crate) fn absorb(&mut self, sorted: &[[u8; FINGERPRINT_BYTES]]) {
        self.0.update(sorted.as_flattened());
    }

    pub(crate) fn finish(&self) -> [u8; FINGERPRINT_BYTES] {
        first_bytes(&self.0)
    }
}

/// Bytes of a hint's secret.
pub const SECRET_BYTES: usize = 32;

/// A hint's secret, drawn when the hint is made. It names lookups, and it is mixed into all later entropy: if the
/// operating system's generator repeats itself, two hints still draw different numbers.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    pub(crate) fn new(secret: [u8; SECRET_BYTES]) -> Self {
        Secret(secret)
    }

    pub(crate) fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The entropy of a lookup at `indices`: BLAKE3's `derive_key` of entropy, secret, version (u64) and the indices (u32 each).
    pub(crate) fn query_entropy(&self, entropy: &[u8; 32], version: u64, indices: &[u32]) -> Zeroizing<[u8; 32]> {
        let mut hasher = self.hedge(QUERY_CONTEXT, entropy, version);
        for index in indices {
            hasher.update(&index.to_le_bytes());
        }
        Zeroizing::new(*hasher.finalize().as_bytes())
    }

    /// The entropy of an update: the same under another context, without indices.
    pub(crate) fn update_entropy(&self, entropy: &[u8; 32], version: u64) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(*self.hedge(UPDATE_CONTEXT, entropy, version).finalize().as_bytes())
    }

    fn hedge(&self, context: &str, entropy: &[u8; 32], version: u64) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(entropy).update(&self.0).update(&version.to_le_bytes());
        hasher
    }

    /// A lookup's name: BLAKE3 of its stored form as drawn, keyed with the `derive_key` of the secret.
    pub(crate) fn pending_name(&self, form: &[u8]) -> [u8; 32] {
        let key = Zeroizing::new(blake3::derive_key(PENDING_NAME_CONTEXT, &self.0));
        *blake3::keyed_hash(&key, form).as_bytes()
    }

    /// The name of a row of tags: the first 16 bytes of BLAKE3 of its stripe (u32) and the row, keyed with the `derive_key`
    /// of the secret.
    pub(crate) fn row_name(&self, stripe: usize, row: &[u8]) -> [u8; ROW_NAME_BYTES] {
        let key = Zeroizing::new(blake3::derive_key(ROW_NAME_CONTEXT, &self.0));
        first_bytes(blake3::Hasher::new_keyed(&key).update(&(stripe as u32).to_le_bytes()).update(row))
    }
}

/// Plain BLAKE3 of a partition, directory, update list or manifest: any tool can check it.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Computes [`content_hash`] of bytes that come in parts.
#[derive(Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}
