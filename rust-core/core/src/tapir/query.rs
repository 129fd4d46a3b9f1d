//! `Query` (Fig. 5), except that it does not swap: it computes both vectors from the permutations as they stand, and
//! [`crate::tapir::recon`] applies swaps and parity changes together. So permutations and parities always agree, and a lost
//! answer is repaired by sending the same two vectors again.
//!
//! A batch holds several queries. Which entries a query will swap is known before its answer, so the next query's
//! vectors are computed on the permutations as they will be.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::Error;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};
use crate::tapir::hint::{Hint, Stamp};

/// Bytes of a batch's name.
pub const NAME_BYTES: usize = 32;

/// The two servers' roles for the life of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Gets the retrieve vector (Fig. 5, `qry_2`).
    Retrieve,
    /// Gets the refresh vector (Fig. 5, `qry_1`).
    Refresh,
}

/// The role of a party.
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

/// An ordered batch of queries whose vectors may have been sent and whose answers have not been applied. All or
/// nothing; move-only; secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Pending {
    /// the hint it was made from, before it is applied
    #[zeroize(skip)]
    pub(crate) stamp: Stamp,
    /// what the rollback fence knows it by: of the batch as it was drawn, whatever updates have added to it since
    pub(crate) name: [u8; NAME_BYTES],
    /// one a query: the record's index
    pub(crate) indices: Vec<u32>,
    /// one a query: ind
    pub(crate) columns: Vec<u16>,
    /// Q a query: `r_q`
    pub(crate) refresh_columns: Vec<u16>,
    /// Q a query; r* stands at q*
    pub(crate) retrieve: Vec<u16>,
    /// Q a query
    pub(crate) refresh: Vec<u16>,
    /// count·Q records of each role's answer, once all of its entries were verified; never stored
    pub(crate) verified: [Option<Vec<u8>>; 2],
}

impl Pending {
    /// Queries in the batch.
    #[must_use]
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// The offsets one server is sent, count·Q u16, little-endian.
    #[must_use]
    pub fn vectors(&self, role: Role) -> Vec<u8> {
        self.offsets(role).iter().flat_map(|offset| offset.to_le_bytes()).collect()
    }

    /// What the rollback fence knows this batch by: a pseudorandom function, under a key of the hint's own, of all that was
    /// drawn and asked for. So two batches have one name only if they are one batch, and nobody else can tell anything
    /// by it. Updates may extend the batch, and the name stays.
    #[must_use]
    pub fn name(&self) -> [u8; NAME_BYTES] {
        self.name
    }

    /// r_q for all q of query `number`.
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

/// Makes the pending batch that looks up `indices`, in this order, under 32 bytes of fresh entropy, hedged with the
/// hint's secret: should the generator have been in this state before (a machine that was cloned), other draws are made
/// for other indices or at another version all the same.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`] for an empty batch; [`Error::Index`] if a record does not exist.
pub fn query(hint: &mut Hint, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
    let entropy = hint.secret.query_entropy(entropy, hint.stamp.version, indices);
    hazmat_query_from(hint, indices, &mut ChaCha::new(&entropy, 0))
}

/// [`query`] with a source of the caller's: for tests that enumerate all draws. Anything but a secret uniform source
/// gives the client's queries away.
///
/// # Errors
/// As there.
pub fn hazmat_query_from(hint: &mut Hint, indices: &[u32], source: &mut impl Uniform) -> Result<Pending, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    if indices.is_empty() {
        return Err(Error::Phase("a batch holds at least one query"));
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
        // Query 6. All of [M] for each, ind and m* included: leaving any value out would tell it.
        let dummy = source.below(bound) as u16;
        let start = pending.refresh_columns.len();
        pending.refresh_columns.extend((0..partitions).map(|_| source.below(bound) as u16));
        for q in 0..partitions {
            let refresh_column = usize::from(pending.refresh_columns[start + q]);
            pending.refresh.push(hint.permutations.of(q)[refresh_column]); // Query 9
            pending.retrieve.push(if q == q_star { dummy } else { hint.permutations.of(q)[column] }); // Query 10, 13
        }
        pending.columns.push(column as u16);
        swap(hint, q_star, column, pending.refresh_columns_of(number, partitions)); // as they will be for the next query
    }
    for (number, &(q_star, _)) in located.iter().enumerate().rev() {
        // And back: each exchange undoes itself.
        swap(hint, q_star, usize::from(pending.columns[number]), pending.refresh_columns_of(number, partitions));
    }
    pending.name = hint.secret.batch_name(&pending.unnamed(&layout));
    Ok(pending)
}

/// Query 12: for all q ≠ q*, exchanges σ_q(ind) and σ_q(r_q).
pub(crate) fn swap(hint: &mut Hint, q_star: usize, column: usize, refresh_columns: &[u16]) {
    for (q, &refresh_column) in refresh_columns.iter().enumerate() {
        if q != q_star {
            hint.permutations.swap(q, column, usize::from(refresh_column));
        }
    }
}
