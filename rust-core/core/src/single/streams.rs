//! Which records a hint names: half of the stripes, and an offset in each. A pseudorandom function of the hint's number (its
//! *id*) and the stripe decides. The values of one stripe lie together for all ids, because streaming, searching and
//! updating read them so.

use keyhush_kernels::random::{ChaCha, ENTROPY_BYTES};
use keyhush_kernels::streams::{KEY_WORDS, column, group};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use keyhush_kernels::streams::GROUP;

/// What a value decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// whether the stripe is chosen: compared, as an i16, with the hint's cutoff
    Selection = 0,
    /// the offset in the stripe, modulo the records of a stripe
    Offset = 1,
}

/// The pseudorandom function. [`Keyed`] is the real one; tests use tables that they enumerate.
pub trait Function {
    /// The values of a stripe for a group of ids: `GROUP·number` and the following ones.
    fn group(&self, kind: Kind, stripe: usize, number: usize, values: &mut [u16; GROUP]);

    /// The values of an id, for `stripe` and the following ones.
    fn of_id(&self, kind: Kind, stripe: usize, id: u32, values: &mut [u16]);

    /// An id's selection in a stripe.
    fn selection(&self, stripe: usize, id: u32) -> i16 {
        let mut value = [0];
        self.of_id(Kind::Selection, stripe, id, &mut value);
        value[0].cast_signed()
    }
}

/// ChaCha20 with a counter and a nonce of 64 bits (otherwise as in RFC 8439), under a secret key. The nonce is
/// stripe + 2^32·kind. The id is the column in the stream.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Keyed([u32; KEY_WORDS]);

impl Keyed {
    /// A key from this stream of a hint's entropy.
    pub(crate) fn new(entropy: &[u8; ENTROPY_BYTES], stream: u64) -> Self {
        let mut key = Zeroizing::new([0; 4 * KEY_WORDS]);
        ChaCha::new(entropy, stream).fill(key.as_mut_slice());
        Self::from_bytes(&key)
    }

    pub(crate) fn from_bytes(key: &[u8; 4 * KEY_WORDS]) -> Self {
        let mut words = [0; KEY_WORDS];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Keyed(words)
    }

    pub(crate) fn bytes(&self) -> Zeroizing<[u8; 4 * KEY_WORDS]> {
        let mut key = Zeroizing::new([0; 4 * KEY_WORDS]);
        for (bytes, word) in key.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        key
    }
}

fn nonce(kind: Kind, stripe: usize) -> u64 {
    (kind as u64) << 32 | stripe as u64
}

impl Function for Keyed {
    #[inline]
    fn group(&self, kind: Kind, stripe: usize, number: usize, values: &mut [u16; GROUP]) {
        group(&self.0, nonce(kind, stripe), number, values);
    }

    fn of_id(&self, kind: Kind, stripe: usize, id: u32, values: &mut [u16]) {
        column(&self.0, nonce(kind, stripe), id as usize, values);
    }
}
