//! Keys and names, hashed (docs/protocol.md, Hashes). Each hash has a context of its own.

use crate::error::Error;

/// Bytes of a key fingerprint. 16, because whoever registers keys can search for collisions of anything shorter.
pub const FINGERPRINT_BYTES: usize = 16;

const FINGERPRINT_CONTEXT: &str = "pirouette 2026-11 key fingerprint v1";
const DATABASE_ID_CONTEXT: &str = "pirouette 2026-11 database id v1";
const DIRECTORY_SEED_CONTEXT: &str = "pirouette 2026-11 directory seed v1";

/// First 16 bytes of BLAKE3's `derive_key`.
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

/// A database's id, from its name or its first manifest.
#[must_use]
pub fn database_id(seed: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    derive(DATABASE_ID_CONTEXT, seed)
}

/// The seed of the directory of these fingerprints, which come in ascending order: whoever registers a key cannot know
/// it beforehand, and so cannot prepare keys that fail to be placed.
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

/// Plain BLAKE3, which any tool can check: of a partition, a directory, an update list, a manifest.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}
