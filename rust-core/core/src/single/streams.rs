//! Which records a hint names: its half of the stripes and an offset in each, out of a pseudorandom function of its number,
//! its *id*, and the stripe. Values of one stripe lie together for all ids: that is what streaming, searching and updating
//! read.

use keyhush_kernels::random::{ChaCha, ENTROPY_BYTES};
use keyhush_kernels::streams::{KEY_WORDS, column, group};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use keyhush_kernels::streams::GROUP;

/// What a value is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// compared, as an i16, with the hint's cutoff
    Selection = 0,
    /// masked to the records of a stripe
    Offset = 1,
}

/// The function. The product has one, [`Keyed`]; tests put in tables that they enumerate.
pub trait Function {
    /// Values of a stripe for the ids of a group: `GROUP·number` and those behind it.
    fn group(&self, kind: Kind, stripe: usize, number: usize, values: &mut [u16; GROUP]);

    /// Values of an id, of `stripe` and those behind it.
    fn of_id(&self, kind: Kind, stripe: usize, id: u32, values: &mut [u16]);

    /// A hint's selection of a stripe.
    fn selection(&self, stripe: usize, id: u32) -> i16 {
        let mut value = [0];
        self.of_id(Kind::Selection, stripe, id, &mut value);
        value[0].cast_signed()
    }
}

/// ChaCha20 (RFC 8439's, with a counter and a nonce of 64 bits) under a secret key: the nonce is stripe + 2^32·kind, the id
/// is the column of the stream.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Keyed([u32; KEY_WORDS]);

impl Keyed {
    /// Under the key that this stream of a hint's entropy begins with.
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
