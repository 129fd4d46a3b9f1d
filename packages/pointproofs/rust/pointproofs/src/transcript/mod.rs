//! The transcript of a ceremony. In it, operators make [α]₁ … [α⁵¹²]₁ without [α²⁵⁷]₁, and [α]₂ … [α²⁵⁶]₂, for an α that none
//! of them knows (docs/protocol.md, Ceremony). α is the product of everybody's factor. If one contributor forgets theirs, nobody
//! has α. [α²⁵⁷]₁ is missing because anything could be proved with it. So published powers of tau, which have it, cannot be
//! used.
//!
//! - [`Transcript::begin`]: α = 1, without contributions
//! - [`Transcript::decode`]: reads every point strictly
//! - [`Transcript::verify`]: checks that these are the powers of one α, and α the product of the contributors' factors
//! - [`Verified::contribute`]: adds a factor (contribute.rs)
//! - [`Verified::key`]: the key with which clients verify

mod contribute;
mod verify;

pub use contribute::Contributed;

use bls12_381::{G1Affine, G2Affine, Scalar};

use crate::error::{Error, expect_length};
use crate::key::{DEVELOPMENT, FLAGGED_BYTES, encode, head_of};
use crate::point::{G1_BYTES, G2_BYTES, g1, g2};
use crate::scalar::wide;
use crate::statement::{HASH_BYTES, ROW_RECORDS};

const MAGIC: [u8; 4] = *b"PIRT";
/// Bytes of magic, format, m, flags, number of contributors, and two reserved bytes.
const HEAD_BYTES: usize = FLAGGED_BYTES + 4;
const NAME_BYTES: usize = 64;
const CONTRIBUTION_BYTES: usize = NAME_BYTES + 2 * G1_BYTES + 32;

/// Powers in G1: 1 to 512 without 257.
pub const G1_POWERS: usize = 2 * ROW_RECORDS - 1;
/// Most contributors.
pub const MOST_CONTRIBUTORS: usize = 64;
/// Bytes of fresh entropy for verifying, and for contributing.
pub const ENTROPY_BYTES: usize = 32;

const CHAIN_CONTEXT: &str = "keyhush 2026-11 pointproofs chain v1";
const CHALLENGE_CONTEXT: &str = "keyhush 2026-11 pointproofs contribution v1";

/// Bytes of a transcript with `contributors` contributors.
#[must_use]
pub fn transcript_bytes(contributors: usize) -> usize {
    HEAD_BYTES + G1_POWERS * G1_BYTES + ROW_RECORDS * G2_BYTES + contributors * CONTRIBUTION_BYTES
}

/// A contribution: [α]₁ after it, and a Schnorr proof (R, z) that the contributor knows the factor.
#[derive(Clone, Copy)]
struct Contribution {
    /// UTF-8, padded with zeros
    name: [u8; NAME_BYTES],
    after: G1Affine,
    commitment: G1Affine,
    response: Scalar,
}

impl Contribution {
    /// A hash of the chain before it, the name, [α]₁ before and after it, and R. So the proof holds nowhere else.
    fn challenge(&self, chain: &[u8; HASH_BYTES], before: &G1Affine) -> Scalar {
        let mut hasher = blake3::Hasher::new_derive_key(CHALLENGE_CONTEXT);
        hasher.update(chain).update(&self.name);
        for point in [before, &self.after, &self.commitment] {
            hasher.update(&point.to_compressed());
        }
        Scalar::from_bytes_wide(&wide(&hasher))
    }

    /// The chain after this contribution.
    fn link(&self, chain: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
        *blake3::Hasher::new_derive_key(CHAIN_CONTEXT).update(chain).update(&self.encode()).finalize().as_bytes()
    }

    fn encode(&self) -> Vec<u8> {
        let [after, commitment] = [&self.after, &self.commitment].map(G1Affine::to_compressed);
        [&self.name[..], &after, &commitment, &self.response.to_bytes()].concat()
    }

    fn decode(bytes: &[u8; CONTRIBUTION_BYTES]) -> Result<Self, Error> {
        let (name, rest) = bytes.split_at(NAME_BYTES);
        let (points, response) = rest.split_at(2 * G1_BYTES);
        let mut contribution = Contribution {
            name: [0; NAME_BYTES],
            after: g1("a contribution's base", &points.as_chunks().0[0])?,
            commitment: g1("a contribution's proof", &points.as_chunks().0[1])?,
            response: Scalar::zero(),
        };
        contribution.name.copy_from_slice(name);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        if padded(&name[..end])? != contribution.name {
            return Err(Error::Name("expected zeros after it"));
        }
        let response: Option<Scalar> = response.try_into().ok().and_then(|bytes| Scalar::from_bytes(bytes).into());
        contribution.response =
            response.ok_or(Error::Transcript("a contribution's response is not below the order"))?;
        Ok(contribution)
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).trim_end_matches('\0').to_owned()
    }
}

/// A name as in a transcript: padded with zeros.
fn padded(name: &[u8]) -> Result<[u8; NAME_BYTES], Error> {
    let text = std::str::from_utf8(name).map_err(|_| Error::Name("expected UTF-8"))?;
    if text.is_empty() || name.len() > NAME_BYTES || text.chars().any(char::is_control) {
        return Err(Error::Name("expected 1 to 64 bytes, and no control characters"));
    }
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name);
    Ok(padded)
}

/// A transcript whose points have been read. Whether they fit together is not checked yet.
pub struct Transcript {
    flags: u32,
    hash: [u8; HASH_BYTES],
    /// [αᵏ]₁ for k = 1 … 256, then 258 … 512
    g1: Vec<G1Affine>,
    /// [αᵏ]₂ for k = 1 … 256
    g2: Vec<G2Affine>,
    contributions: Vec<Contribution>,
}

/// A verified transcript.
pub struct Verified {
    transcript: Transcript,
    /// before the first contribution, and after each
    chain: Vec<[u8; HASH_BYTES]>,
}

impl Transcript {
    /// A ceremony without contributions. Clients refuse keys for `development` unless the app allows them.
    #[must_use]
    pub fn begin(development: bool) -> Vec<u8> {
        let flags = if development { DEVELOPMENT } else { 0 };
        encode_transcript(
            flags,
            &vec![G1Affine::generator(); G1_POWERS],
            &vec![G2Affine::generator(); ROW_RECORDS],
            &[],
        )
    }

    /// Reads the bytes of a transcript.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Transcript`] for another format; [`Error::Point`] for a point that is not canonical, on the
    /// curve and in the subgroup, or that is the identity; [`Error::Name`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(Error::Length {
                what: "transcript",
                expected: transcript_bytes(0) as u64,
                actual: bytes.len() as u64,
            });
        };
        let flags = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if head[..FLAGGED_BYTES] != head_of(MAGIC, flags) || flags & !DEVELOPMENT != 0 || head[14..] != [0, 0] {
            return Err(Error::Transcript("expected PIRT, format 1, rows of 256, and no unknown flag"));
        }
        let contributors = usize::from(u16::from_le_bytes([head[12], head[13]]));
        if contributors > MOST_CONTRIBUTORS {
            return Err(Error::Transcript("expected at most 64 contributors, got more"));
        }
        expect_length("transcript", bytes, transcript_bytes(contributors))?;
        let (in_g1, rest) = rest.split_at(G1_POWERS * G1_BYTES);
        let (in_g2, contributions) = rest.split_at(ROW_RECORDS * G2_BYTES);
        Ok(Transcript {
            flags,
            hash: *blake3::hash(bytes).as_bytes(),
            g1: in_g1.as_chunks().0.iter().map(|bytes| g1("a power in G1", bytes)).collect::<Result<_, _>>()?,
            g2: in_g2.as_chunks().0.iter().map(|bytes| g2("a power in G2", bytes)).collect::<Result<_, _>>()?,
            contributions: contributions.as_chunks().0.iter().map(Contribution::decode).collect::<Result<_, _>>()?,
        })
    }

    /// Whether it is for development.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.flags == DEVELOPMENT
    }

    /// The BLAKE3 of its bytes.
    #[must_use]
    pub fn hash(&self) -> &[u8; HASH_BYTES] {
        &self.hash
    }

    /// The contributors' names, in order.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.contributions.iter().map(Contribution::name)
    }
}

impl Verified {
    /// The transcript.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Whether it has the contribution with this receipt, and so everything that came before it.
    #[must_use]
    pub fn has(&self, receipt: &[u8; HASH_BYTES]) -> bool {
        self.chain[1..].contains(receipt)
    }

    /// The verifier's key.
    ///
    /// # Errors
    /// [`Error::Transcript`] if nobody has contributed yet: then everybody knows α.
    pub fn key(&self) -> Result<Vec<u8>, Error> {
        let Transcript { flags, hash, g1, g2, contributions } = &self.transcript;
        if contributions.is_empty() {
            return Err(Error::Transcript("nobody has contributed yet; contribute first"));
        }
        Ok(encode(*flags, hash, &g1[0], g2))
    }

    /// [αᵏ]₁ for k = 1 … 256, then 258 … 512, both coordinates of each.
    pub fn g1_powers(&self) -> impl Iterator<Item = [u8; crate::point::G1_WHOLE_BYTES]> {
        self.transcript.g1.iter().map(G1Affine::to_uncompressed)
    }
}

/// The chain before the first link.
fn first_link(flags: u32) -> [u8; HASH_BYTES] {
    *blake3::Hasher::new_derive_key(CHAIN_CONTEXT).update(&head_of(MAGIC, flags)).finalize().as_bytes()
}

fn encode_transcript(flags: u32, g1: &[G1Affine], g2: &[G2Affine], contributions: &[Contribution]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(transcript_bytes(contributions.len()));
    bytes.extend_from_slice(&head_of(MAGIC, flags));
    bytes.extend_from_slice(&(contributions.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend(g1.iter().flat_map(G1Affine::to_compressed));
    bytes.extend(g2.iter().flat_map(G2Affine::to_compressed));
    bytes.extend(contributions.iter().flat_map(Contribution::encode));
    bytes
}
