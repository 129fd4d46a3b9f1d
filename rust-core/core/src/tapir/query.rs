//! `Query` (Fig. 5), but without swapping: it computes both vectors and leaves the permutations as they are.
//! [`crate::tapir::recon`] applies swaps and parity changes together. So permutations and parities always agree, and after a
//! lost answer the client sends the same two vectors again.
//!
//! A lookup has several queries. A query's swaps are known before its answer. So the next query's vectors are computed from
//! the permutations after those swaps.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::Error;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::stored::{NAME_BYTES, Stamp};
use crate::tapir::hint::Hint;

/// What the two servers are asked for. Their roles stay the same for the life of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It gets the retrieve vector (Fig. 5, `qry_2`).
    Retrieve,
    /// It gets the refresh vector (Fig. 5, `qry_1`).
    Refresh,
}

/// The role of a party (0 or 1).
///
/// # Errors
/// [`Error::Index`] if there is no such party.
pub fn role_of(party: usize) -> Result<Role, Error> {
    match party {
        0 => Ok(Role::Retrieve),
        1 => Ok(Role::Refresh),
        _ => Err(Error::Index { what: "role", bound: 2 }),
    }
}

/// A lookup's queries, in order, whose vectors may have been sent, and whose answers have not been applied. It is applied as a
/// whole, once. Secret: wiped when dropped, never copied.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Pending {
    /// the hint's stamp before the lookup is applied
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// the name for the rollback fence; computed when the lookup was drawn, and unchanged by updates
    pub(crate) name: [u8; NAME_BYTES],
    /// for each query the record's index
    pub(crate) indices: Vec<u32>,
    /// for each query ind
    pub(crate) columns: Vec<u16>,
    /// for each query Q values `r_q`
    pub(crate) refresh_columns: Vec<u16>,
    /// for each query Q offsets, with the dummy r* at q*
    pub(crate) retrieve: Vec<u16>,
    /// for each query Q offsets
    pub(crate) refresh: Vec<u16>,
    /// for each role the count·Q records of its verified answer; never stored
    pub(crate) verified: [Option<Vec<u8>>; 2],
}

impl Pending {
    /// The number of queries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// The offsets for one server: count·Q u16, little-endian.
    #[must_use]
    pub fn vectors(&self, role: Role) -> Vec<u8> {
        self.offsets(role).iter().flat_map(|offset| offset.to_le_bytes()).collect()
    }

    /// The name under which the rollback fence knows this lookup. It is a pseudorandom function, with a key of the hint, of all
    /// that was drawn and all that was asked for. So different lookups have different names, and the name reveals nothing to
    /// others. An update may extend the lookup; its name stays.
    #[must_use]
    pub fn name(&self) -> [u8; NAME_BYTES] {
        self.name
    }

    /// r_q for all q, of query `number`.
    pub(crate) fn refresh_columns_of(&self, number: usize, partitions: usize) -> &[u16] {
        &self.refresh_columns[number * partitions..][..partitions]
    }

    pub(crate) fn offsets(&self, role: Role) -> &[u16] {
        match role {
            Role::Retrieve => &self.retrieve,
            Role::Refresh => &self.refresh,
        }
    }
}

/// Makes the lookup of `indices`, in this order, from 32 bytes of fresh entropy. The hint's secret, its version and
/// the indices are mixed in. So if the generator repeats itself (on a cloned machine, say), another version or other
/// indices still give other draws.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] for an empty lookup; [`Error::Index`] if a record does not exist.
pub fn query(hint: &mut Hint, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
    let entropy = hint.secret.query_entropy(entropy, hint.stamp.version, indices);
    hazmat_query_from(hint, indices, &mut ChaCha::new(&entropy, 0))
}

/// [`query`] with the caller's randomness. For tests that enumerate all draws. With anything but secret, uniform randomness,
/// servers can learn the client's queries.
///
/// # Errors
/// As [`query`].
pub fn hazmat_query_from(hint: &mut Hint, indices: &[u32], source: &mut impl Uniform) -> Result<Pending, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    if indices.is_empty() {
        return Err(Error::Phase("a lookup needs at least one query"));
    }
    let layout = hint.layout;
    let located = indices.iter().map(|&index| layout.locate(index)).collect::<Result<Vec<_>, _>>()?;

    let (partitions, bound) = (layout.partitions(), layout.partition_records() as u32);
    let entries = indices.len() * partitions;
    let mut pending = Pending {
        stamp: hint.stamp,
        name: [0; NAME_BYTES],
        indices: indices.to_vec(),
        columns: Vec::with_capacity(indices.len()),
        refresh_columns: Vec::with_capacity(entries),
        retrieve: Vec::with_capacity(entries),
        refresh: Vec::with_capacity(entries),
        verified: [None, None],
    };
    for (number, &(q_star, m_star)) in located.iter().enumerate() {
        let column = hint.permutations.column(q_star, m_star); // Fig. 5, Query 5
        // Query 6. Each draw is from all of [M], ind and m* included: excluding a value would reveal it.
        let dummy = source.below(bound) as u16;
        let start = pending.refresh_columns.len();
        pending.refresh_columns.extend((0..partitions).map(|_| source.below(bound) as u16));
        for q in 0..partitions {
            let refresh_column = usize::from(pending.refresh_columns[start + q]);
            pending.refresh.push(hint.permutations.of(q)[refresh_column]); // Query 9
            pending.retrieve.push(if q == q_star { dummy } else { hint.permutations.of(q)[column] }); // Query 10, 13
        }
        pending.columns.push(column as u16);
        swap(hint, q_star, column, pending.refresh_columns_of(number, partitions)); // for the next query of the lookup
    }
    for (number, &(q_star, _)) in located.iter().enumerate().rev() {
        // Undo all swaps: each is its own inverse.
        swap(hint, q_star, usize::from(pending.columns[number]), pending.refresh_columns_of(number, partitions));
    }
    pending.name = hint.secret.pending_name(&pending.unnamed(&layout));
    Ok(pending)
}

/// Query 12: swaps σ_q(ind) and σ_q(r_q), for all q ≠ q*.
pub(crate) fn swap(hint: &mut Hint, q_star: usize, column: usize, refresh_columns: &[u16]) {
    for (q, &refresh_column) in refresh_columns.iter().enumerate() {
        if q != q_star {
            hint.permutations.swap(q, column, usize::from(refresh_column));
        }
    }
}
