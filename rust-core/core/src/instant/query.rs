//! Makes the requests of an instant lookup. They are never stored. A failed lookup makes new requests with fresh entropy, and
//! sends no byte of the old ones again, to either server.

use keyhush_kernels::dpf::domain_log;
use keyhush_kernels::prg::{SEED_BYTES, Seed};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{dpf, max_batch, shape};
use crate::error::{Error, expect_below};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};

/// Queries whose answers have not arrived. Secret: wiped when dropped, neither `Clone` nor `Debug`.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Pending {
    #[zeroize(skip)]
    layout: Layout,
    indices: Vec<u32>,
    requests: [Vec<u8>; 2],
}

impl Pending {
    /// The layout at the queries' epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The request's body for server 0 or 1: the queries in order.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such server.
    pub fn request(&self, server: usize) -> Result<&[u8], Error> {
        expect_below("server", server, self.requests.len())?;
        Ok(&self.requests[server])
    }

    pub(super) fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// Makes the requests for the records at `indices`, from fresh entropy. For each query, stream 0 gives both parties' seeds
/// (party 0's first), then a bit that says which server is party 0.
///
/// # Errors
/// [`Error::Index`] for an index beyond the last record; [`Error::Length`] unless there are 1 to [`max_batch`] indices.
pub fn query(layout: &Layout, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
    let most = max_batch(layout);
    if !(1..=most).contains(&indices.len()) {
        let (expected, actual) = (indices.len().clamp(1, most) as u64, indices.len() as u64);
        return Err(Error::Length { what: "record indices", expected, actual });
    }
    let shape = shape(layout);
    let domain_log = domain_log(shape.groups());
    let mut random = ChaCha::new(entropy, 0);
    let mut requests = [(); 2].map(|()| Vec::with_capacity(indices.len() * shape.request_bytes()));
    for &index in indices {
        let (q, m) = layout.locate(index)?;
        let mut seeds = Zeroizing::new([[0; SEED_BYTES]; 2]);
        random.fill(seeds.as_flattened_mut());
        let first: usize = random.below(2) as usize;
        let seeds: &[Seed; 2] = &seeds;
        let keys = dpf::generate(domain_log, q * shape.partition_groups() + (m >> shape.group_log), seeds);
        for (party, key) in keys.map(Zeroizing::new).iter().enumerate() {
            requests[first ^ party].extend_from_slice(key);
        }
    }
    Ok(Pending { layout: *layout, indices: indices.to_vec(), requests })
}
