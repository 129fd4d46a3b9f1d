//! Prepares a database, in steps of some milliseconds: its columns with their paths, whitened; the digits that packing needs; the hint.
//!
//! Row r of an output is an LWE ciphertext. Its random part, as a ring element, is f_r = Σ_k a_k·D_{r,k}(1/X), where D_{r,k} has the
//! row's centred entries of chunk k as coefficients. Packing (InspiRING, ePrint 2025/1352) sums over j < n/2 the elements
//! A_j = (2/n)·Σ_r X^r·τ_j(f_r), τ_j: X → X^(5^j), which belong to the secrets τ_j(s). In evaluation form, all A_j follow from one
//! transform over r at each slot ([`Stage::Across`]). From the last j down, A_j is rounded to a digit, and key-switched to
//! τ_(j−1)(s) ([`Stage::Collapse`]). The digits depend on the database alone; what is left in the end is the answer's random part.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // two's complement is meant

use std::sync::Arc;

use keyhush_kernels::modular::{Factor, MODULUS, PRIMES, less, reduced, residue};

use super::column::{Tree, leaf};
use super::digits::{Digits, doubled};
use super::entries::Entries;
use super::ring::{Element, Matrices, Ring};
use super::server::Prepared;
use super::{BLOCK, Context, GADGET_DROP, HINT_BITS, HINT_DROP, Shape, bits, whitening, zeroed};
use crate::error::Error;

/// Columns hashed, columns whitened, rows, slots and elements of a step: some milliseconds of work.
const HASHED: usize = 256;
const WHITENED: usize = BLOCK;
const ROWS: usize = 32;
const SLOTS: usize = 128;
const ELEMENTS: usize = 16;

enum Stage {
    /// waiting for records; so many bytes are there
    Fill(usize),
    /// the next column to be hashed
    Hash(usize),
    /// the next column to be whitened
    Whiten(usize),
    /// the next row of an output
    Rows(usize, usize),
    /// the next slot of an output
    Across(usize, usize),
    /// the next step of an output, from n/2 − 1 down to 1
    Collapse(usize, usize),
    Done,
}

/// A database in the making.
pub struct Preparing {
    shape: Shape,
    context: Context,
    attempt: u32,
    ring: Arc<Ring>,
    stage: Stage,
    /// column after column; empty once they are whitened
    columns: Vec<u8>,
    leaves: Vec<[u8; 32]>,
    seed: [u8; 32],
    entries: Entries,
    /// the a_k modulo each prime, in the transform's order
    selectors: Vec<[Vec<u32>; 2]>,
    key: [Vec<Factor>; 2],
    /// modulo each prime, by slot: n/2 values
    rows: [Vec<u32>; 2],
    carry: Element,
    digits: Digits,
    cap: Vec<u8>,
    elements: Vec<u8>,
}

impl Preparing {
    /// Begins. `attempt` counts from 0; another one whitens anew, for a database that fails the check of norms.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn new(shape: Shape, context: Context, attempt: u32) -> Result<Self, Error> {
        let ring = Ring::of(shape.degree);
        let half = shape.degree / 2;
        let Matrices { selectors, key } = Matrices::new(&ring, &context.matrix_seed(), shape.chunks());
        let slots = doubled(&key);
        let factors = [0, 1].map(|m| slots[m].iter().map(|&slot| Factor::new(u64::from(slot), PRIMES[m])).collect());
        Ok(Preparing {
            columns: zeroed(shape.columns * shape.column_bytes())?,
            entries: Entries::new(&shape)?,
            rows: [zeroed(shape.degree * half)?, zeroed(shape.degree * half)?],
            digits: Digits::new(&shape)?,
            selectors: selectors.iter().map(|element| [0, 1].map(|m| ring.in_order(element.modulo(m)))).collect(),
            key: factors,
            stage: Stage::Fill(0),
            leaves: Vec::with_capacity(shape.columns),
            seed: [0; 32],
            carry: Element::zero(shape.degree),
            cap: Vec::new(),
            elements: Vec::with_capacity(shape.outputs * shape.element_bytes()),
            shape,
            context,
            attempt,
            ring,
        })
    }

    /// Takes the next bytes of the N·ℓ bytes of records.
    ///
    /// # Errors
    /// [`Error::Length`] for more bytes than there are left.
    pub fn put(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let all = self.shape.records * self.shape.record_bytes;
        let Stage::Fill(filled) = &mut self.stage else {
            return Err(Error::Phase("all records were put already"));
        };
        if bytes.len() > all - *filled {
            return Err(Error::Length {
                what: "records",
                expected: (all - *filled) as u64,
                actual: bytes.len() as u64,
            });
        }
        let each = self.shape.column_records * self.shape.record_bytes;
        while !bytes.is_empty() {
            let (column, at) = (*filled / each, *filled % each);
            let (now, later) = bytes.split_at(bytes.len().min(each - at));
            self.columns[column * self.shape.column_bytes() + at..][..now.len()].copy_from_slice(now);
            *filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Does the next step. Returns whether there is more to do.
    ///
    /// # Errors
    /// [`Error::Phase`] before all records were put.
    pub fn step(&mut self) -> Result<bool, Error> {
        let shape = self.shape;
        self.stage = match self.stage {
            Stage::Fill(filled) if filled == shape.records * shape.record_bytes => Stage::Hash(0),
            Stage::Fill(_) => return Err(Error::Phase("records are missing; put all of them first")),
            Stage::Hash(column) => self.hash(column),
            Stage::Whiten(column) => self.whiten(column),
            Stage::Rows(output, row) => self.random_parts(output, row),
            Stage::Across(output, slot) => self.across(output, slot),
            Stage::Collapse(output, j) => self.collapse(output, j),
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    /// The prepared database, after the last step.
    ///
    /// # Errors
    /// [`Error::Phase`] before that.
    pub fn finish(self) -> Result<Prepared, Error> {
        if !matches!(self.stage, Stage::Done) {
            return Err(Error::Phase("the database is not prepared yet; do all steps first"));
        }
        let Preparing { shape, context, ring, entries, digits, .. } = self;
        let hint = [&self.attempt.to_le_bytes()[..], &self.elements, &self.cap].concat();
        Ok(Prepared { shape, context, ring, entries, digits, hint })
    }

    fn hash(&mut self, from: usize) -> Stage {
        let shape = self.shape;
        let to = shape.columns.min(from + HASHED);
        let columns = self.columns.chunks_exact(shape.column_bytes());
        self.leaves.extend(columns.skip(from).take(to - from).map(|column| leaf(&column[..shape.leaf_bytes()])));
        if to < shape.columns {
            return Stage::Hash(to);
        }
        let tree = Tree::new(&shape, std::mem::take(&mut self.leaves));
        for (number, column) in self.columns.chunks_exact_mut(shape.column_bytes()).enumerate() {
            let path = column[shape.leaf_bytes()..].as_chunks_mut().0;
            path.iter_mut().zip(tree.path(number)).for_each(|(into, node)| *into = *node);
        }
        self.cap = tree.cap();
        self.seed = self.context.whitening_seed(self.attempt, &self.cap);
        Stage::Whiten(0)
    }

    /// Whitens columns, and copies them to where their entries lie.
    fn whiten(&mut self, from: usize) -> Stage {
        let (shape, bytes) = (self.shape, self.shape.column_bytes());
        let to = shape.columns.min(from + WHITENED);
        let mut mask = vec![0; bytes];
        let block = &mut self.columns[from * bytes..to * bytes];
        for (number, column) in block.chunks_exact_mut(bytes).enumerate() {
            whitening(&self.seed, (from + number) as u32, &mut mask);
            column.iter_mut().zip(&mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        self.entries.put(from / BLOCK, block);
        if to < shape.columns {
            return Stage::Whiten(to);
        }
        self.columns = Vec::new();
        Stage::Rows(0, 0)
    }

    /// f_r of some rows, at all slots.
    fn random_parts(&mut self, output: usize, from: usize) -> Stage {
        let Shape { degree, columns, .. } = self.shape;
        let half = degree / 2;
        let to = half.min(from + ROWS);
        let (mut entries, mut values, mut sums) = (vec![0; degree], vec![0; degree], vec![0u64; degree]);
        for row in from..to {
            for m in 0..2 {
                sums.fill(0);
                for (k, selectors) in self.selectors.iter().enumerate() {
                    let entries = &mut entries[..degree.min(columns - k * degree)];
                    self.entries.row(output * half + row, k * degree, entries);
                    self.ring.reversed_row(m, entries, &mut values);
                    for ((sum, value), selector) in sums.iter_mut().zip(&values).zip(&selectors[m]) {
                        *sum += u64::from(*value) * u64::from(*selector);
                    }
                }
                for (slot, &place) in self.ring.places().iter().enumerate() {
                    self.rows[m][slot * half + row] = reduced(sums[place as usize], m);
                }
            }
        }
        if to < half { Stage::Rows(output, to) } else { Stage::Across(output, 0) }
    }

    /// At some slots: the values of the polynomial over rows, at the slots of the same sign, times 2/n.
    fn across(&mut self, output: usize, from: usize) -> Stage {
        let degree = self.shape.degree;
        let half = degree / 2;
        let to = degree.min(from + SLOTS);
        let mut values = vec![0; half];
        for m in 0..2 {
            for (slot, line) in self.rows[m].chunks_exact_mut(half).enumerate().skip(from).take(to - from) {
                values.copy_from_slice(line);
                self.ring.across(m, slot / half, &mut values, line);
            }
        }
        if to < degree {
            return Stage::Across(output, to);
        }
        self.carry = self.part(half - 1);
        Stage::Collapse(output, half - 1)
    }

    /// A_j
    fn part(&self, j: usize) -> Element {
        let half = self.shape.degree / 2;
        let mut part = Element::zero(self.shape.degree);
        for m in 0..2 {
            for (sign, slots) in part.modulo_mut(m).chunks_exact_mut(half).enumerate() {
                for (k, slot) in slots.iter_mut().enumerate() {
                    *slot = self.rows[m][(sign * half + (k + j) % half) * half + k];
                }
            }
        }
        part
    }

    /// Some key switches: of A_j, to the secret of j − 1.
    fn collapse(&mut self, output: usize, from: usize) -> Stage {
        let shape = self.shape;
        let half = shape.degree / 2;
        let to = from.saturating_sub(ELEMENTS);
        let mut buffer = vec![0; shape.degree];
        let mut slots = vec![0; shape.degree];
        for j in (to + 1..=from).rev() {
            let mut next = self.part(j - 1);
            let digits = digits_of(&self.ring.coefficients(&self.carry));
            for (m, prime) in PRIMES.into_iter().enumerate() {
                buffer.iter_mut().zip(&digits).for_each(|(to, &digit)| *to = residue(digit, prime));
                self.ring.slots(m, &mut buffer, &mut slots);
                self.digits.put(output, m, j, &slots);
                let signs = next.modulo_mut(m).chunks_exact_mut(half).zip(slots.chunks_exact(half));
                for (sign, (next, digits)) in signs.enumerate() {
                    let key = &self.key[m][sign * shape.degree + j - 1..][..half];
                    for ((next, &digit), factor) in next.iter_mut().zip(digits).zip(key) {
                        *next = less(less(*next + factor.times(digit, prime), 2 * prime), prime);
                    }
                }
            }
            self.carry = next;
        }
        if to > 0 {
            return Stage::Collapse(output, to);
        }
        let random = self.ring.coefficients(&self.carry);
        bits::pack(random.iter().map(|value| value >> HINT_DROP), HINT_BITS, &mut self.elements);
        if output + 1 < shape.outputs { Stage::Rows(output + 1, 0) } else { Stage::Done }
    }
}

/// The digits of coefficients, which are centred and rounded: −2^22 … 2^22.
fn digits_of(coefficients: &[u64]) -> Vec<i32> {
    let digits = coefficients.iter().map(|&value| {
        let centred = if value > MODULUS / 2 { value as i64 - MODULUS as i64 } else { value as i64 };
        ((centred + (1 << (GADGET_DROP - 1))) >> GADGET_DROP) as i32
    });
    digits.collect()
}
