//! A prepared database, and its answers.

use std::sync::Arc;

use keyhush_kernels::modular::MODULUS;

use super::digits::{Digits, Doubled, doubled};
use super::entries::Entries;
use super::ring::{Ring, add_modulo};
use super::{ANSWER_BITS, Context, KEY_BITS, KEY_DROP, Shape, bits};
use crate::error::Error;

/// A database that answers queries. It keeps nothing about clients.
pub struct Prepared {
    pub(super) shape: Shape,
    pub(super) context: Context,
    pub(super) ring: Arc<Ring>,
    pub(super) entries: Entries,
    pub(super) digits: Digits,
    pub(super) hint: Vec<u8>,
}

impl Prepared {
    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The public hint: attempt, t ring elements, 64 Merkle nodes.
    #[must_use]
    pub fn hint(&self) -> &[u8] {
        &self.hint
    }

    /// Answers queries that lie one after the other. Every bit pattern of the right length is a query: coefficients count modulo q.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are 1 to [`Shape::max_queries`] queries.
    pub fn answer(&self, requests: &[u8]) -> Result<Vec<u8>, Error> {
        let (each, most) = (self.shape.request_bytes(), self.shape.max_queries());
        if requests.is_empty() || !requests.len().is_multiple_of(each) || requests.len() > most * each {
            let expected = (requests.len().div_ceil(each) * each).clamp(each, most * each) as u64;
            return Err(Error::Length { what: "queries for one server", expected, actual: requests.len() as u64 });
        }
        let mut answers = Vec::with_capacity(requests.len() / each * self.shape.answer_bytes());
        for request in requests.chunks_exact(each) {
            let (key, selectors) = request.split_at(self.shape.key_bytes());
            let selectors: Vec<u32> = bits::unpack(selectors, self.shape.selector_bits())
                .take(self.shape.columns)
                .map(|selector| selector as u32)
                .collect();
            let sums = self.entries.scan(&selectors).into_iter().map(|sum| self.widened(sum));
            let key: Vec<u64> = bits::unpack(key, KEY_BITS).map(|value| middle(value, KEY_DROP)).collect();
            let packed = self.pack(&doubled(&self.ring.of_unsigned(&key)), sums);
            bits::pack(packed.into_iter().map(rounded), ANSWER_BITS, &mut answers);
        }
        Ok(answers)
    }

    /// A sum modulo 2^σ, brought to q.
    fn widened(&self, sum: u32) -> u64 {
        let bits = self.shape.selector_bits();
        (u64::from(sum) * MODULUS + (1 << (bits - 1))) >> bits
    }

    /// Packs sums of rows: the fixed parts of the answer's elements, n/2 coefficients of each.
    pub(super) fn pack(&self, key: &Doubled, sums: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let half = self.shape.degree / 2;
        let mut sums = sums.into_iter();
        let mut out = Vec::with_capacity(self.shape.rows());
        for output in 0..self.shape.outputs {
            let switched = self.ring.coefficients(&self.digits.switched(output, key));
            out.extend(switched.iter().take(half).zip(sums.by_ref()).map(|(switched, sum)| add_modulo(*switched, sum)));
        }
        out
    }
}

/// The middle of the numbers whose `drop` low bits were left out.
pub(super) fn middle(value: u64, drop: u32) -> u64 {
    (value << drop) + (1 << (drop - 1))
}

/// ⌊value·2^7/q + 1/2⌋ modulo 2^7, for values below q.
fn rounded(value: u64) -> u64 {
    (((value << ANSWER_BITS) + MODULUS / 2) / MODULUS) & ((1 << ANSWER_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest() {
        let step = MODULUS >> ANSWER_BITS; // and a little
        for k in 0..1 << ANSWER_BITS {
            let half = step / 2 + k * MODULUS % (1 << ANSWER_BITS) / (1 << ANSWER_BITS);
            let at = (k * MODULUS) >> ANSWER_BITS;
            for (near, expected) in [(0, k), (half - 1, k), (half + 2, k + 1), (step - 1, k + 1)] {
                assert_eq!(rounded((at + near).min(MODULUS - 1)), expected % (1 << ANSWER_BITS), "{k} {near}");
            }
        }
    }
}
