//! PaiCKSPIR (Li and others 2024, Appendix A, Fig. 5): keywords, with a server that learns of each lookup whether the key exists.
//! So it can charge for records that were found, and only for those.
//!
//! Tags are H(k)^(α·β): α is the server's, β the client's. Values are v ⊕ F(mk, k), encrypted and permuted by the client as in
//! Pai. A lookup sends H(k)^β, and evaluates F together with the server.
//!
//! # Assumption
//!
//! For the client: that of Pai's published form, and **for one lookup**. For the server: one-more Diffie–Hellman in ristretto255,
//! and a client that follows the protocol. A client that keeps the offline phase's data, and evaluates F without sending H(k)^β,
//! can open the value among N candidates if it can recognise it. It is not charged then.
//!
//! # Corrections
//!
//! - *Elements* are refused unless they are canonical and not the identity.
//! - *α and the key of F* are drawn independently. The text does not say so. See [`Deviation::OneKey`].
//! - *A key asked for twice* gives the same element twice. This client refuses to ask again.
//!
//! # What an attacker gains
//!
//! The server: what it gains from Pai's published form, the rows and columns of what was found. The client, with
//! [`Deviation::OneKey`]: the whole database from the offline phase, without a lookup. `tests/pai.rs` does so.

use std::collections::HashSet;

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;

use super::keyword::oprf::{self, ELEMENT_BYTES};
use super::one_query::grid;
use super::{Cipher, IV_BYTES, Store};
use crate::channel::Channel;
use crate::error::{Error, expect_bytes};
use crate::prg::{Aes, Prg};
use crate::random::{Random, shuffle};
use crate::records::Records;
use crate::xor::xor;

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// As described.
    #[default]
    None,
    /// α is the key of F.
    OneKey,
}

/// Bytes of the offline phase: four elements, a masked value, and three ciphertexts for each cell.
pub fn offline_bytes(records: usize, value_bytes: usize) -> usize {
    let (rows, columns) = grid(records);
    rows * columns * (4 * ELEMENT_BYTES + value_bytes + 3 * (value_bytes + IV_BYTES))
}

/// Bytes of a lookup that finds something: the tag's element, an element in each direction for F, and a ciphertext. A lookup
/// that finds nothing has no ciphertext, which tells the server so, on purpose.
pub fn lookup_bytes(value_bytes: usize) -> usize {
    3 * ELEMENT_BYTES + value_bytes + IV_BYTES
}

/// XORs the mask F(mk, k), as long as a value, into `text`.
fn mask(element: &RistrettoPoint, text: &mut [u8]) {
    let (_, key) = oprf::output(element);
    let prg = Aes::new(&key);
    let mut blocks = vec![[0; 16]; text.len().div_ceil(16)];
    prg.fill(0, 0, &mut blocks);
    xor(text, &blocks.as_flattened()[..text.len()]);
}

/// The server: its keys, and the client's table.
pub struct Server {
    alpha: Scalar,
    master: Scalar,
    store: Store<ELEMENT_BYTES>,
    /// number of lookups to be charged
    pub charged: usize,
}

/// The client.
pub struct Client {
    beta: Scalar,
    cipher: Cipher,
    asked: HashSet<Vec<u8>>,
}

/// Keys and values in the server's uniform order, as cells of a grid. Cells beyond the last have keys that nobody asks for.
struct Cells<'a> {
    keys: &'a [&'a [u8]],
    values: &'a Records,
    order: Vec<u32>,
}

impl Cells<'_> {
    fn hashed(&self, cell: usize) -> RistrettoPoint {
        match self.order[cell] as usize {
            n if n < self.keys.len() => oprf::hash(&[b"key ", self.keys[n]].concat()),
            n => oprf::hash(&[b"none", n.to_le_bytes().as_slice()].concat()),
        }
    }

    fn value(&self, cell: usize) -> Vec<u8> {
        match self.order[cell] as usize {
            n if n < self.keys.len() => self.values.get(n).to_vec(),
            _ => vec![0; self.values.record_bytes()],
        }
    }
}

/// Fig. 5, Offline Phase. `watch` gets each (s, m) that the client sees, for a test of what it can open.
pub fn set_up(
    keys: &[&[u8]],
    values: &Records,
    deviation: Deviation,
    source: &mut Random,
    channel: &mut Channel,
    mut watch: impl FnMut(&[u8; 32], &[u8]),
) -> Result<(Server, Client), Error> {
    let (rows, columns) = grid(keys.len());
    let (bytes, cipher_bytes) = (values.record_bytes(), values.record_bytes() + IV_BYTES);
    let mut order: Vec<u32> = (0..(rows * columns) as u32).collect();
    shuffle(&mut order, source);
    let cells = Cells { keys, values, order };
    let alpha = oprf::scalar(source);
    let master = if deviation == Deviation::OneKey { alpha } else { oprf::scalar(source) };
    // Compressing many elements shares one inversion, but doubles them. So exponents are halved beforehand.
    let half = Scalar::from(2u8).invert();
    let (beta_0, beta_1) = (oprf::scalar(source), oprf::scalar(source));
    let cipher = Cipher::new(&source.block());
    let (mut of_rows, mut of_columns): (Vec<_>, Vec<_>) = ((0..rows).collect(), (0..columns).collect());
    shuffle(&mut of_rows, source);
    shuffle(&mut of_columns, source);

    let (mut tags, mut texts): (Vec<[u8; 32]>, Vec<u8>) = (Vec::new(), Vec::new());
    for column in 0..columns {
        // 1(a), 1(b): the server's part
        let mut halves = Vec::with_capacity(rows);
        let mut masked = Vec::with_capacity(rows * bytes);
        for row in 0..rows {
            let hashed = cells.hashed(row * columns + column);
            halves.push(alpha * half * hashed);
            let mut value = cells.value(row * columns + column);
            mask(&(master * hashed), &mut value);
            masked.extend(value);
        }
        let elements = oprf::halves_to_bytes(&halves);
        let elements = channel.receive(elements.as_flattened()).as_chunks().0;
        channel.receive(&masked);
        elements.iter().zip(masked.chunks_exact(bytes)).for_each(|(element, value)| watch(element, value));
        // 1(c): the client's part
        let mut blinded = Vec::with_capacity(rows);
        let begin = texts.len();
        for &row in &of_rows {
            blinded.push(beta_0 * half * oprf::element(&elements[row])?);
            cipher.encrypt(&masked[row * bytes..][..bytes], source, &mut texts);
        }
        tags.extend(oprf::halves_to_bytes(&blinded));
        channel.send(tags[tags.len() - rows..].as_flattened());
        channel.send(&texts[begin..]);
    }

    let (mut final_tags, mut final_texts) = (Vec::with_capacity(tags.len()), Vec::with_capacity(texts.len()));
    for row in 0..rows {
        let mut blinded = Vec::with_capacity(columns);
        let begin = final_texts.len();
        for &column in &of_columns {
            let at = column * rows + row; // 2(a)
            blinded.push(beta_1 * half * oprf::element(channel.receive(&tags[at]))?); // 2(b)
            let plain = cipher.decrypt(channel.receive(&texts[at * cipher_bytes..][..cipher_bytes]))?;
            cipher.encrypt(&plain, source, &mut final_texts); // 2(c)
        }
        final_tags.extend(oprf::halves_to_bytes(&blinded));
        channel.send(final_tags[final_tags.len() - columns..].as_flattened());
        channel.send(&final_texts[begin..]);
    }
    let store = Store::new(&final_tags, final_texts, cipher_bytes);
    Ok((Server { alpha, master, store, charged: 0 }, Client { beta: beta_0 * beta_1, cipher, asked: HashSet::new() }))
}

/// Opens (s, m) of the offline phase without a lookup, which a client can do if α is the key of F.
pub fn open_without_lookup(element: &[u8; 32], masked: &[u8]) -> Result<Vec<u8>, Error> {
    let mut value = masked.to_vec();
    mask(&oprf::element(element)?, &mut value);
    Ok(value)
}

impl Server {
    /// Fig. 5, Response: the ciphertext; empty if there is none.
    pub fn answer(&mut self, query: &[u8]) -> Result<Vec<u8>, Error> {
        let tag = (self.alpha * oprf::element(query)?).compress().0;
        let Some(cell) = self.store.cell(&tag) else { return Ok(Vec::new()) };
        self.charged += 1;
        Ok(self.store.ciphertext(cell).to_vec())
    }

    /// Evaluates F obliviously for the client.
    pub fn evaluate(&self, blinded: &[u8]) -> Result<Vec<u8>, Error> {
        Ok((self.master * oprf::element(blinded)?).compress().0.to_vec())
    }

    /// The cell that a query opens. The server sees it.
    pub fn cell(&self, query: &[u8]) -> Result<Option<usize>, Error> {
        Ok(self.store.cell(&(self.alpha * oprf::element(query)?).compress().0))
    }
}

impl Client {
    /// Fig. 5, Query: H(k)^β.
    pub fn query(&self, key: &[u8]) -> [u8; 32] {
        (self.beta * oprf::hash(&[b"key ", key].concat())).compress().0
    }

    /// A whole lookup of a key that was not asked for before.
    pub fn lookup(
        &mut self,
        key: &[u8],
        server: &mut Server,
        source: &mut Random,
        channel: &mut Channel,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !self.asked.insert(key.to_vec()) {
            return Err(Error::Repeated);
        }
        let blind = oprf::scalar(source);
        let blinded = (blind * oprf::hash(&[b"key ", key].concat())).compress().0;
        let evaluated = oprf::element(&channel.ask(&blinded, |blinded| server.evaluate(blinded))?)?;
        let answer = channel.ask(&self.query(key), |query| server.answer(query))?;
        if answer.is_empty() {
            return Ok(None);
        }
        expect_bytes("ciphertext", &answer, server.store.ciphertext_bytes)?;
        let mut value = self.cipher.decrypt(&answer)?;
        mask(&(blind.invert() * evaluated), &mut value); // Extract
        Ok(Some(value))
    }
}
