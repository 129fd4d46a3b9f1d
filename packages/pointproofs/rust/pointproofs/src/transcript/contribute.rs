//! A contribution: every power [αᵏ] becomes [(α·s)ᵏ], for a factor s that nobody else learns and that is forgotten.

use bls12_381::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use zeroize::Zeroizing;

use super::{Contribution, ENTROPY_BYTES, MOST_CONTRIBUTORS, Verified, encode_transcript, padded};
use crate::error::Error;
use crate::point::multiply;
use crate::scalar::{WIDE_BYTES, wide};
use crate::statement::{HASH_BYTES, ROW_RECORDS};

const SECRET_CONTEXT: &str = "keyhush 2026-11 pointproofs factor v1";

/// The result of contributing.
pub struct Contributed {
    /// the transcript with the contribution
    pub transcript: Vec<u8>,
    /// with which the contributor recognises the contribution later
    pub receipt: [u8; HASH_BYTES],
}

impl Verified {
    /// Adds a contribution under a name, with a factor drawn from fresh entropy.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Transcript`] if there are 64 contributions already.
    pub fn contribute(&self, name: &str, entropy: &[u8; ENTROPY_BYTES]) -> Result<Contributed, Error> {
        let super::Transcript { flags, g1, g2, contributions, .. } = &self.transcript;
        let name = padded(name.as_bytes())?;
        if contributions.len() == MOST_CONTRIBUTORS {
            return Err(Error::Transcript("64 have contributed, and no more can; begin another ceremony"));
        }
        let chain = self.chain[self.chain.len() - 1];
        let before = g1[0];
        // Chain and name are mixed in: if entropy repeats, two proofs still do not share a nonce.
        let draw = |what: u8| {
            let mut hasher = Zeroizing::new(blake3::Hasher::new_derive_key(SECRET_CONTEXT));
            hasher.update(entropy).update(&chain).update(&name).update(&[what]);
            let wide: Zeroizing<[u8; WIDE_BYTES]> = Zeroizing::new(wide(&hasher));
            Zeroizing::new(Scalar::from_bytes_wide(&wide))
        };
        let [factor, nonce] = [draw(0), draw(1)];

        // s, s², … s⁵¹²
        let mut powers = Zeroizing::new(Vec::with_capacity(2 * ROW_RECORDS));
        let mut power = Zeroizing::new(Scalar::one());
        for _ in 0..2 * ROW_RECORDS {
            *power *= *factor;
            powers.push(power.to_bytes());
        }
        let gap = ROW_RECORDS;
        let in_g1 = powers[..gap].iter().chain(&powers[gap + 1..]).zip(g1);
        let in_g1: Vec<_> = in_g1.map(|(power, &point)| multiply(&G1Projective::from(point), power)).collect();
        let in_g2 = powers.iter().zip(g2);
        let in_g2: Vec<_> = in_g2.map(|(power, &point)| multiply(&G2Projective::from(point), power)).collect();
        let mut new_g1 = vec![G1Affine::identity(); g1.len()];
        G1Projective::batch_normalize(&in_g1, &mut new_g1);
        let mut new_g2 = vec![G2Affine::identity(); g2.len()];
        G2Projective::batch_normalize(&in_g2, &mut new_g2);

        let committed = multiply(&G1Projective::from(before), &Zeroizing::new(nonce.to_bytes())[..]);
        let mut own = Contribution { name, after: new_g1[0], commitment: committed.into(), response: Scalar::zero() };
        own.response = *nonce + own.challenge(&chain, &before) * *factor;
        let receipt = own.link(&chain);
        let all: Vec<_> = contributions.iter().copied().chain([own]).collect();
        Ok(Contributed { transcript: encode_transcript(*flags, &new_g1, &new_g2, &all), receipt })
    }
}
