//! The key with which a client verifies: [α]₁ and the powers [α]₂ … [α²⁵⁶]₂, with both coordinates, as a blob with a hash
//! (docs/protocol.md, Pointproofs).
//!
//! Decompressing 257 points and checking their subgroup takes WebAssembly most of a second. It is not needed: whoever made the
//! key has verified the transcript, and the hash says that it is the same key.

use bls12_381::{G1Affine, G2Affine};

use crate::error::{Error, expect_length};
use crate::point::{G1_WHOLE_BYTES, G2_WHOLE_BYTES};
use crate::statement::{HASH_BYTES, ROW_RECORDS};

const MAGIC: [u8; 4] = *b"PIRK";
const FORMAT: u16 = 1;
/// The only flag: the key is for development, and gives no security.
pub(crate) const DEVELOPMENT: u32 = 1;
/// Bytes of magic, format, m and flags.
pub(crate) const FLAGGED_BYTES: usize = 12;
const HEAD_BYTES: usize = FLAGGED_BYTES + HASH_BYTES;

/// Bytes of a key.
pub const KEY_BYTES: usize = HEAD_BYTES + G1_WHOLE_BYTES + ROW_RECORDS * G2_WHOLE_BYTES;

/// A verifier's key.
pub struct Key {
    hash: [u8; HASH_BYTES],
    development: bool,
    pub(crate) first: G1Affine,
    /// [αᵏ]₂ is at k − 1
    pub(crate) powers: Vec<G2Affine>,
}

impl Key {
    /// Reads a key. Its hash stands at the beginning of a manifest's row lists, and must come from a trusted manifest: points are
    /// only checked to be on the curve, not to be in the subgroup.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Key`] for another hash, another format, or a development key if those are not allowed;
    /// [`Error::Point`].
    pub fn decode(bytes: &[u8], hash: &[u8; HASH_BYTES], allow_development: bool) -> Result<Self, Error> {
        expect_length("verifier's key", bytes, KEY_BYTES)?;
        if blake3::hash(bytes) != *hash {
            return Err(Error::Key("its hash is not the one in the row lists; fetch it from an honest server"));
        }
        let (head, points) = bytes.split_at(HEAD_BYTES);
        let flags = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if head[..FLAGGED_BYTES] != head_of(MAGIC, flags) || flags & !DEVELOPMENT != 0 {
            return Err(Error::Key("expected PIRK, format 1, rows of 256, and no unknown flag"));
        }
        let development = flags == DEVELOPMENT;
        if development && !allow_development {
            return Err(Error::Key("it was made for development, and development keys are not allowed here"));
        }
        let (first, powers) = points.split_at(G1_WHOLE_BYTES);
        let first = first.try_into().ok().and_then(|bytes| Option::from(G1Affine::from_uncompressed_unchecked(bytes)));
        let first = first.filter(|point: &G1Affine| bool::from(point.is_on_curve() & !point.is_identity()));
        let powers = powers.as_chunks::<G2_WHOLE_BYTES>().0.iter().map(|bytes| {
            let point: Option<G2Affine> = G2Affine::from_uncompressed_unchecked(bytes).into();
            point.filter(|point| bool::from(point.is_on_curve() & !point.is_identity()))
        });
        Ok(Key {
            hash: *hash,
            development,
            first: first.ok_or(Error::Point("verifier's key"))?,
            powers: powers.collect::<Option<_>>().ok_or(Error::Point("verifier's key"))?,
        })
    }

    /// The BLAKE3 of its bytes.
    #[must_use]
    pub fn hash(&self) -> &[u8; HASH_BYTES] {
        &self.hash
    }

    /// Whether it was made for development.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.development
    }
}

/// The first bytes of keys and transcripts.
pub(crate) fn head_of(magic: [u8; 4], flags: u32) -> [u8; FLAGGED_BYTES] {
    let mut head = [0; FLAGGED_BYTES];
    head[..4].copy_from_slice(&magic);
    head[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    head[6..8].copy_from_slice(&(ROW_RECORDS as u16).to_le_bytes());
    head[8..].copy_from_slice(&flags.to_le_bytes());
    head
}

/// The key of a verified transcript.
pub(crate) fn encode(flags: u32, transcript: &[u8; HASH_BYTES], first: &G1Affine, powers: &[G2Affine]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(KEY_BYTES);
    bytes.extend_from_slice(&head_of(MAGIC, flags));
    bytes.extend_from_slice(transcript);
    bytes.extend_from_slice(&first.to_uncompressed());
    bytes.extend(powers.iter().flat_map(G2Affine::to_uncompressed));
    bytes
}
