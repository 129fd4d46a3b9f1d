//! PaiKSPIR (Li and others 2024, §5): keys instead of indices. The client learns the value of the key it asks for, and no other.
//!
//! The server maps each key k to (h, ek) = F(mk, k), with an oblivious pseudorandom function ([`oprf`], §2.3). It puts
//! h ‖ Enc(ek, v) into a cuckoo table with three hashes and 1.5·n bins ([`cuckoo`]). A lookup evaluates F together with the
//! server, which sees a blinded element. Then it looks up all three bins of h privately. Any [`PrivateArray`] can be used.
//!
//! # Assumption
//!
//! For the client's privacy: that of the array. For the server's: one-more Diffie–Hellman in ristretto255, in the random-oracle
//! model.
//!
//! # Corrections
//!
//! - *Duplicates* (§5.2): a bin that is known already, or that is two bins of one key, is read from memory, and another is opened
//!   instead, in a random order. A key asked for again goes through all of it again, evaluation included.
//! - *Elements* (§2.3 is silent) are refused unless they are canonical and not the identity.
//!
//! # What an attacker gains
//!
//! With [`super::one_query`] the server gains what three lookups of that form reveal; they are more than the one that is
//! allowed. With [`super::full`] each lookup opens three cells that were never opened before: known, unknown and repeated keys
//! look alike. A client has seen the whole table of ciphertexts offline, and opens one key with each evaluation. So **keys that
//! can be guessed are guessed**, with an evaluation each.

use super::full::{Deviation, Opened};
use super::{Cipher, PrivateArray, Store};
use crate::channel::Channel;
use crate::error::Error;
use crate::prg::Block;
use crate::random::{Random, shuffle};
use crate::records::Records;

/// The oblivious pseudorandom function F(mk, k) = H(k)^mk of §2.3, in ristretto255.
pub mod oprf {
    use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
    use curve25519_dalek::scalar::Scalar;
    use curve25519_dalek::traits::IsIdentity;
    use sha2::{Digest, Sha512};

    use crate::error::{Error, bad};
    use crate::prg::Block;
    use crate::random::Random;

    /// Bytes of an element.
    pub const ELEMENT_BYTES: usize = 32;

    /// A uniform scalar other than zero.
    pub fn scalar(source: &mut Random) -> Scalar {
        loop {
            let mut wide = [0; 64];
            source.fill(&mut wide);
            let scalar = Scalar::from_bytes_mod_order_wide(&wide);
            if scalar != Scalar::ZERO {
                return scalar;
            }
        }
    }

    /// H: maps a key to an element.
    pub fn hash(key: &[u8]) -> RistrettoPoint {
        let digest = Sha512::new().chain_update(b"schemes: key to element").chain_update(key).finalize();
        RistrettoPoint::from_uniform_bytes(&digest.into())
    }

    /// Reads an element: refused unless canonical and not the identity.
    pub fn element(message: &[u8]) -> Result<RistrettoPoint, Error> {
        let element = CompressedRistretto::from_slice(message).ok().and_then(|bytes| bytes.decompress());
        let sound = element.filter(|element| !element.is_identity());
        sound.ok_or_else(|| bad("element", "a canonical element other than the identity", "none"))
    }

    /// (h, ek) from F(mk, k).
    pub fn output(element: &RistrettoPoint) -> (Block, Block) {
        let digest =
            Sha512::new().chain_update(b"schemes: element to output").chain_update(element.compress().0).finalize();
        (digest[..16].try_into().expect("16 bytes"), digest[16..32].try_into().expect("16 bytes"))
    }

    /// The bytes of many elements, doubled: one inversion for all.
    pub fn halves_to_bytes(halves: &[RistrettoPoint]) -> Vec<[u8; 32]> {
        RistrettoPoint::double_and_compress_batch(halves).into_iter().map(|element| element.0).collect()
    }
}

/// The cuckoo table: three hashes, and 1.5·n bins of at most one entry.
pub mod cuckoo {
    use crate::error::{Error, bad};
    use crate::prg::{Aes, Block, Prg};
    use crate::random::{Random, Uniform};

    /// Hash functions.
    pub const HASHES: usize = 3;

    /// The number of bins for n entries.
    pub fn bins(entries: usize) -> usize {
        (entries * 3).div_ceil(2).max(HASHES)
    }

    /// The three bins of a tag, under the public seed of the table. Two may be equal.
    pub fn places(seed: &Block, tag: &Block, bins: usize) -> [usize; HASHES] {
        let mut blocks = [*tag; HASHES];
        blocks.iter_mut().enumerate().for_each(|(n, block)| block[15] ^= n as u8);
        Aes::new(seed).permute(&mut blocks);
        // The upper half of a product: uniform over the bins within n/2^64.
        blocks.map(|block| {
            let uniform = u64::from_le_bytes(super::super::half(&block, 0));
            ((u128::from(uniform) * bins as u128) >> 64) as usize
        })
    }

    /// Lays a table: a seed, and the entry in each bin.
    pub fn place(tags: &[Block], source: &mut Random) -> Result<(Block, Vec<Option<u32>>), Error> {
        const ATTEMPTS: usize = 8; // each fails with about 2^-40
        for _ in 0..ATTEMPTS {
            let seed = source.block();
            if let Some(table) = attempt(&seed, tags, source) {
                return Ok((seed, table));
            }
        }
        Err(bad("keys", "distinct ones", "a table that cannot be laid"))
    }

    fn attempt(seed: &Block, tags: &[Block], source: &mut Random) -> Option<Vec<Option<u32>>> {
        let count = bins(tags.len());
        let mut table: Vec<Option<u32>> = vec![None; count];
        for entry in 0..tags.len() as u32 {
            let mut homeless = entry;
            let mut moves = 0;
            while let Some(entry) = Some(homeless) {
                let places = places(seed, &tags[entry as usize], count);
                if let Some(&free) = places.iter().find(|&&place| table[place].is_none()) {
                    table[free] = Some(entry);
                    break;
                }
                let taken = places[source.below(HASHES as u32) as usize];
                homeless = table[taken].replace(entry).expect("taken");
                moves += 1;
                if moves > 1000 {
                    return None;
                }
            }
        }
        Some(table)
    }
}

/// Bytes of a table entry: h, and the encrypted value.
pub fn entry_bytes(value_bytes: usize) -> usize {
    16 + value_bytes
}

/// Bytes of a lookup: an element in each direction, and three lookups of entries.
pub fn lookup_bytes(value_bytes: usize) -> usize {
    2 * oprf::ELEMENT_BYTES + cuckoo::HASHES * super::lookup_bytes(entry_bytes(value_bytes))
}

/// The server's part: the key of F. The table goes into an array.
pub struct KeywordServer {
    master: curve25519_dalek::scalar::Scalar,
}

/// The table that a server lays: public seed and entries.
pub struct Table {
    /// the seed of the hashes; clients get it
    pub seed: Block,
    /// h ‖ Enc(ek, v) in each bin; random bytes in empty ones
    pub entries: Records,
}

impl KeywordServer {
    /// §5.3, steps 1 to 5, and §5.2: encodes keys and values of equal length into a table.
    pub fn encode<'k>(
        keys: impl IntoIterator<Item = &'k [u8]>,
        values: &Records,
        source: &mut Random,
    ) -> Result<(Self, Table), Error> {
        let master = oprf::scalar(source);
        let mut tags = Vec::with_capacity(values.len());
        let mut texts = Vec::with_capacity(values.len() * values.record_bytes());
        for (n, key) in keys.into_iter().enumerate().take(values.len()) {
            let (tag, value_key) = oprf::output(&(master * oprf::hash(key)));
            tags.push(tag);
            let begin = texts.len();
            texts.extend_from_slice(values.get(n));
            Cipher::new(&value_key).apply(&[0; 16], &mut texts[begin..]); // a key used for one text needs no nonce
        }
        let (seed, bins) = cuckoo::place(&tags, source)?;
        let bytes = entry_bytes(values.record_bytes());
        let mut entries = vec![0; bins.len() * bytes];
        for (bin, entry) in bins.iter().zip(entries.chunks_exact_mut(bytes)) {
            match bin {
                Some(n) => {
                    let n = *n as usize;
                    entry[..16].copy_from_slice(&tags[n]);
                    entry[16..].copy_from_slice(&texts[n * values.record_bytes()..][..values.record_bytes()]);
                }
                None => source.fill(entry),
            }
        }
        Ok((KeywordServer { master }, Table { seed, entries: Records::new(entries, bytes)? }))
    }

    /// §2.3, step 1: evaluates F at an element, from which the server learns nothing.
    pub fn evaluate(&self, blinded: &[u8]) -> Result<Vec<u8>, Error> {
        Ok((self.master * oprf::element(blinded)?).compress().0.to_vec())
    }
}

/// The client: an array, and the contents of the cells it has opened.
pub struct KeywordClient<A> {
    array: A,
    seed: Block,
    bins: usize,
    opened: Opened,
}

impl<A: PrivateArray> KeywordClient<A> {
    /// A client of an array that was set up with the `bins` entries of a table. The array may be padded.
    pub fn new(array: A, seed: Block, bins: usize) -> Self {
        let opened = Opened::new(array.len(), Deviation::None);
        KeywordClient { array, seed, bins, opened }
    }

    /// The value of a key; none if it does not exist. Three cells are opened in any case.
    pub fn lookup(
        &mut self,
        key: &[u8],
        (server, store): (&KeywordServer, &Store),
        source: &mut Random,
        channel: &mut Channel,
    ) -> Result<Option<Vec<u8>>, Error> {
        if self.opened.left() < cuckoo::HASHES {
            return Err(Error::Exhausted);
        }
        let blind = oprf::scalar(source);
        let blinded = (blind * oprf::hash(key)).compress().0;
        let evaluated = oprf::element(&channel.ask(&blinded, |blinded| server.evaluate(blinded))?)?;
        let (tag, value_key) = oprf::output(&(blind.invert() * evaluated));

        let places = cuckoo::places(&self.seed, &tag, self.bins);
        // Instead of a bin that is known already, or that occurs twice, one is opened that was never opened before.
        let mut fresh: Vec<usize> = places.into_iter().filter(|&place| self.opened.found(place).is_none()).collect();
        fresh.sort_unstable();
        fresh.dedup();
        while fresh.len() < places.len() {
            let dummy = self.opened.dummy(source)?;
            if !fresh.contains(&dummy) {
                fresh.push(dummy);
            }
        }
        shuffle(&mut fresh, source); // their order would reveal which are dummies
        for place in fresh {
            let entry = self.array.lookup(place, store, channel)?;
            self.opened.remember(place, entry);
        }
        let found = places.iter().filter_map(|&place| self.opened.found(place)).find(|entry| entry[..16] == tag);
        Ok(found.map(|entry| {
            let mut value = entry[16..].to_vec();
            Cipher::new(&value_key).apply(&[0; 16], &mut value);
            value
        }))
    }
}
