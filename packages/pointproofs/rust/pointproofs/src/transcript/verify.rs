//! Verifies a transcript. Random weights wₖ of 128 bits combine many equations into one. If one equation fails, the weighted
//! sum still holds with probability 2⁻¹²⁸.

use bls12_381::{G1Affine, G1Projective, G2Affine, G2Prepared, G2Projective, Gt, multi_miller_loop};
use group::Curve;
use subtle::ConstantTimeEq;

use super::{ENTROPY_BYTES, Transcript, Verified, first_link};
use crate::error::Error;
use crate::point::weighted_sum;
use crate::statement::{COEFFICIENT_BYTES, ROW_RECORDS};

const WEIGHTS_CONTEXT: &str = "keyhush 2026-11 pointproofs transcript weights v1";

impl Transcript {
    /// Checks these, in this order:
    ///
    /// 1. the chain of contributions leads from the generator to [α]₁;
    /// 2. [α]₁ and [α]₂ have the same α;
    /// 3. each power in G1 is the one before times α, below the gap and above it;
    /// 4. the powers fit across the gap;
    /// 5. each power in G2 is the one before times α.
    ///
    /// The entropy must be fresh, so that nobody knows it beforehand.
    ///
    /// # Errors
    /// [`Error::Transcript`] for the first check that fails.
    pub fn verify(self, entropy: &[u8; ENTROPY_BYTES]) -> Result<Verified, Error> {
        let mut before = G1Affine::generator();
        let mut chain = vec![first_link(self.flags)];
        for contribution in &self.contributions {
            let last = chain[chain.len() - 1];
            let challenge = contribution.challenge(&last, &before);
            let left = before * contribution.response;
            let right = G1Projective::from(contribution.commitment) + contribution.after * challenge;
            if left != right {
                return Err(Error::Transcript("a contribution's proof does not hold where it stands"));
            }
            before = contribution.after;
            chain.push(contribution.link(&last));
        }
        let (one, two) = (G1Affine::generator(), G2Affine::generator());
        let Transcript { g1, g2, .. } = &self;
        if before != g1[0] {
            return Err(Error::Transcript("the contributions do not lead to its first power"));
        }
        if !same(&g1[0], &two, &one, &g2[0]) {
            return Err(Error::Transcript("its first powers in G1 and G2 differ"));
        }

        let mut weights = vec![[0; COEFFICIENT_BYTES]; g1.len()];
        let mut hasher = blake3::Hasher::new_derive_key(WEIGHTS_CONTEXT);
        hasher.update(entropy).update(&self.hash).finalize_xof().fill(weights.as_flattened_mut());
        // All pairs of neighbouring powers, except across the gap.
        let (lower, upper): (Vec<_>, Vec<_>) = [&g1[..ROW_RECORDS], &g1[ROW_RECORDS..]]
            .iter()
            .flat_map(|side| side.windows(2))
            .map(|pair| (G1Projective::from(pair[0]), G1Projective::from(pair[1])))
            .unzip();
        let [lower, upper] = [lower, upper].map(|points| weighted_sum(&points, &weights).to_affine());
        if !same(&upper, &two, &lower, &g2[0]) {
            return Err(Error::Transcript("its powers in G1 are not those of one number"));
        }
        if !same(&g1[ROW_RECORDS], &two, &g1[ROW_RECORDS - 1], &g2[1]) {
            return Err(Error::Transcript("its powers in G1 do not fit across the gap"));
        }
        let points: Vec<_> = g2.iter().map(G2Projective::from).collect();
        let [lower, upper] = [&points[..ROW_RECORDS - 1], &points[1..]];
        let [lower, upper] = [lower, upper].map(|points| weighted_sum(points, &weights).to_affine());
        if !same(&one, &upper, &g1[0], &lower) {
            return Err(Error::Transcript("its powers in G2 are not those of one number"));
        }
        Ok(Verified { transcript: self, chain })
    }
}

/// e(a, b) = e(c, d)
fn same(a: &G1Affine, b: &G2Affine, c: &G1Affine, d: &G2Affine) -> bool {
    let [b, d] = [*b, *d].map(G2Prepared::from);
    multi_miller_loop(&[(a, &b), (&-c, &d)]).final_exponentiation().ct_eq(&Gt::identity()).into()
}
