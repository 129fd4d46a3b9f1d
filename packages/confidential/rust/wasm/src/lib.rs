//! What secrets do in a confidential database (docs/protocol/confidential.md): an evaluator's share multiplies elements, an owner's key
//! makes the keys and values of the list. The crate `voprf` multiplies, in constant time. Errors have a stable `code`.

#![allow(clippy::must_use_candidate)] // nobody calls these from Rust

use std::alloc::System;

use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use js_sys::{Error as JsError, Reflect};
use voprf::{BlindedElement, OprfServer, Ristretto255};
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;
use zeroizing_alloc::ZeroAlloc;

type Outcome<T> = Result<T, JsValue>;

const ELEMENT_BYTES: usize = 32;
const INPUT: &str = "keyhush 2026-12 confidential input v1";
const KEY: &str = "keyhush 2026-12 confidential key v1";
const VALUE: &str = "keyhush 2026-12 confidential value v1";
const PRICED: &str = "keyhush 2026-12 confidential priced v1";
const PRICED_SALT: &str = "keyhush 2026-12 confidential priced salt v1";
const TAG_BYTES: usize = 16;
const KEY_CHARACTERS: usize = 65;
const SALT_BYTES: usize = 12;
const FRESH_BYTES: usize = 8;

/// Wipes all memory that is freed, so that no secret is left on the heap.
#[global_allocator]
static WIPING: ZeroAlloc<System> = ZeroAlloc(System);

fn thrown(code: &str, what: &str) -> JsValue {
    let thrown = JsError::new(what);
    let _ = Reflect::set(&thrown, &"code".into(), &code.into());
    thrown.into()
}

fn scalar(bytes: &[u8]) -> Outcome<Scalar> {
    let fixed = Zeroizing::new(<[u8; 32]>::try_from(bytes).map_err(|_| thrown("secret", "expected 32 bytes"))?);
    let found = Option::<Scalar>::from(Scalar::from_canonical_bytes(*fixed));
    found
        .filter(|one| *one != Scalar::ZERO)
        .ok_or_else(|| thrown("secret", "expected a scalar from 1 to the group's order"))
}

/// A secret: an evaluator's share, or an owner's key.
#[wasm_bindgen]
pub struct SecretHandle {
    secret: OprfServer<Ristretto255>,
    scalar: Zeroizing<Scalar>,
}

#[wasm_bindgen]
impl SecretHandle {
    /// Reads a secret of 32 bytes.
    ///
    /// # Errors
    /// `secret`: it is no canonical scalar, or zero.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Outcome<Self> {
        let scalar = Zeroizing::new(scalar(bytes)?);
        let secret = OprfServer::new_with_key(bytes).map_err(|_| thrown("secret", "expected a scalar"))?;
        Ok(Self { secret, scalar })
    }

    /// The public key: the secret times the group's generator.
    #[wasm_bindgen(js_name = publicKey)]
    pub fn public_key(&self) -> Vec<u8> {
        RistrettoPoint::mul_base(&self.scalar).compress().as_bytes().to_vec()
    }

    /// `BlindEvaluate` of RFC 9497 for each of the elements, 32 bytes each, one after the other.
    ///
    /// # Errors
    /// `element`: one is not canonical, or the identity.
    pub fn multiply(&self, elements: &[u8]) -> Outcome<Vec<u8>> {
        let mut products = Vec::with_capacity(elements.len());
        for bytes in elements.chunks(ELEMENT_BYTES) {
            let element = BlindedElement::deserialize(bytes).map_err(|_| thrown("element", "expected an element"))?;
            products.extend_from_slice(&self.secret.blind_evaluate(&element).serialize());
        }
        Ok(products)
    }

    /// The entry of a list for a key: its pseudorandom key (`~` and 64 hexadecimal characters) and, with a value, the sealed value. `fresh`: 8
    /// random bytes. `value_bytes`: of the longest value.
    ///
    /// # Errors
    /// `length`: the value is longer than that, or `fresh` has another length.
    pub fn entry(&self, key: &[u8], value: Option<Vec<u8>>, fresh: &[u8], value_bytes: usize) -> Outcome<Vec<u8>> {
        let input = blake3::derive_key(INPUT, key);
        let output = self.secret.evaluate(&input).map_err(|_| thrown("element", "expected another key"))?;
        let evaluated = Zeroizing::new(<[u8; 64]>::from(output));
        let mut entry = Vec::with_capacity(KEY_CHARACTERS + SALT_BYTES + FRESH_BYTES + 2 + value_bytes);
        entry.push(b'~');
        entry.extend_from_slice(blake3::Hash::from(blake3::derive_key(KEY, &*evaluated)).to_hex().as_bytes());
        let secret = Zeroizing::new(blake3::derive_key(VALUE, &*evaluated));
        if let Some(value) = value.map(Zeroizing::new) {
            let text = padded(&value, fresh, value_bytes)?;
            let hash = blake3::Hasher::new_keyed(&secret).update(b"salt").update(&text).finalize();
            let salt = &hash.as_bytes()[..SALT_BYTES];
            let mut mask = Zeroizing::new(vec![0; text.len()]);
            blake3::Hasher::new_keyed(&secret).update(salt).finalize_xof().fill(&mut mask);
            entry.extend_from_slice(salt);
            entry.extend(text.iter().zip(mask.iter()).map(|(text, mask)| text ^ mask));
        }
        Ok(entry)
    }

    /// A priced value: its salt, sealed under this secret's evaluation of salt and input, and a tag. Parameters as of `entry`.
    ///
    /// # Errors
    /// As of `entry`.
    pub fn priced(&self, key: &[u8], value: Vec<u8>, fresh: &[u8], value_bytes: usize) -> Outcome<Vec<u8>> {
        let value = Zeroizing::new(value);
        let text = padded(&value, fresh, value_bytes)?;
        let input = blake3::derive_key(INPUT, key);
        let mut hasher = blake3::Hasher::new_derive_key(PRICED_SALT);
        let hash = hasher.update(self.scalar.as_bytes()).update(&input).update(&text).finalize();
        let salt = &hash.as_bytes()[..SALT_BYTES];
        let asked = [salt, &input].concat();
        let output = self.secret.evaluate(&asked).map_err(|_| thrown("element", "expected another key"))?;
        let evaluated = Zeroizing::new(<[u8; 64]>::from(output));
        let secret = Zeroizing::new(blake3::derive_key(PRICED, &*evaluated));
        let text = &text[FRESH_BYTES..];
        let mut mask = Zeroizing::new(vec![0; text.len()]);
        blake3::Hasher::new_keyed(&secret).update(salt).finalize_xof().fill(&mut mask);
        let tag = blake3::Hasher::new_keyed(&secret).update(b"tag").update(text).finalize();
        let sealed = text.iter().zip(mask.iter()).map(|(text, mask)| text ^ mask);
        Ok(salt.iter().copied().chain(sealed).chain(tag.as_bytes()[..TAG_BYTES].iter().copied()).collect())
    }
}

/// Fresh bytes, the value's length, and the value as long as the longest.
fn padded(value: &[u8], fresh: &[u8], value_bytes: usize) -> Outcome<Zeroizing<Vec<u8>>> {
    let Ok(length) = u16::try_from(value.len()) else {
        return Err(thrown("length", "expected a shorter value"));
    };
    if value.len() > value_bytes || fresh.len() != FRESH_BYTES {
        return Err(thrown("length", "expected a shorter value, and 8 fresh bytes"));
    }
    let mut text = Zeroizing::new(vec![0; FRESH_BYTES + 2 + value_bytes]);
    text[..FRESH_BYTES].copy_from_slice(fresh);
    text[FRESH_BYTES..][..2].copy_from_slice(&length.to_le_bytes());
    text[FRESH_BYTES + 2..][..value.len()].copy_from_slice(value);
    Ok(text)
}

/// A random secret, from 64 random bytes.
///
/// # Errors
/// `length`.
#[wasm_bindgen(js_name = newSecret)]
pub fn new_secret(entropy: &[u8]) -> Outcome<Vec<u8>> {
    Ok(random(entropy)?.as_bytes().to_vec())
}

/// Shares a secret among `count` evaluators: the values at 1, 2 … of a polynomial whose value at 0 it is (Shamir). `entropy`: 64 random
/// bytes for each other coefficient; one more share than there are of these suffices.
///
/// # Errors
/// `secret`, `length`.
#[wasm_bindgen]
pub fn deal(secret: &[u8], count: u8, entropy: &[u8]) -> Outcome<Vec<u8>> {
    let mut coefficients = vec![Zeroizing::new(scalar(secret)?)];
    for bytes in entropy.chunks(64) {
        coefficients.push(random(bytes)?);
    }
    let value = |at: u8| {
        let at = Scalar::from(at);
        coefficients.iter().rev().fold(Scalar::ZERO, |sum, coefficient| sum * at + **coefficient)
    };
    Ok((1..=count).flat_map(|at| value(at).to_bytes()).collect())
}

/// The secret that these shares are of, 32 bytes each, of the evaluators with these numbers, which differ.
///
/// # Errors
/// `secret`.
#[wasm_bindgen]
pub fn recover(numbers: &[u8], shares: &[u8]) -> Outcome<Vec<u8>> {
    let mut secret = Zeroizing::new(Scalar::ZERO);
    for (share, &own) in shares.chunks(ELEMENT_BYTES).zip(numbers) {
        let mut weight = Scalar::ONE;
        for &other in numbers.iter().filter(|&&other| other != own) {
            weight *= Scalar::from(other) * (Scalar::from(other) - Scalar::from(own)).invert();
        }
        *secret += *Zeroizing::new(scalar(share)?) * weight;
    }
    Ok(secret.to_bytes().to_vec())
}

fn random(entropy: &[u8]) -> Outcome<Zeroizing<Scalar>> {
    let wide = Zeroizing::new(<[u8; 64]>::try_from(entropy).map_err(|_| thrown("length", "expected 64 random bytes"))?);
    Ok(Zeroizing::new(Scalar::from_bytes_mod_order_wide(&wide)))
}
