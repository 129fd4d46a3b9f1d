//! Makes the requests of an instant lookup. They are never stored. A failed lookup makes new requests with fresh entropy, and
//! sends no byte of the old ones again, to either server.

use keyhush_kernels::dpf::domain_log;
use keyhush_kernels::prg::{SEED_BYTES, Seed};
use keyhush_kernels::shape::Shape;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::vectors::Form;
use super::{dpf, max_queries, shape, vectors};
use crate::error::{Error, expect_below};
use crate::layout::Layout;
use crate::random::{ChaCha, ENTROPY_BYTES, Uniform};

/// Queries whose answers have not arrived. Secret: wiped when dropped, neither `Clone` nor `Debug`.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Pending {
    #[zeroize(skip)]
    layout: Layout,
    indices: Vec<u32>,
    /// one a server
    requests: Vec<Vec<u8>>,
    /// of the queries' number of servers
    #[zeroize(skip)]
    shape: Shape,
    /// the server whose queries are vectors; none with two servers
    #[zeroize(skip)]
    carrier: Option<usize>,
}

impl Pending {
    /// The layout at the queries' epoch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How a server's queries carry its shares; none with two servers, whose queries are keys.
    #[must_use]
    pub fn form(&self, server: usize) -> Option<Form> {
        self.carrier.map(|carrier| if server == carrier { Form::Vector } else { Form::Seed })
    }

    /// The number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.requests.len()
    }

    /// The queries for a server, in order.
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

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }
}

/// Makes the requests for the records at `indices`, from fresh entropy. For each query, stream 0 gives both parties' seeds
/// (party 0's first), then a bit that says which server is party 0.
///
/// # Errors
/// [`Error::Index`] for an index beyond the last record; [`Error::Length`] unless there are 1 to [`max_queries`] indices.
pub fn query(layout: &Layout, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
    expect_queries(indices, max_queries(layout))?;
    let shape = shape(layout);
    let domain_log = domain_log(shape.groups());
    let mut random = ChaCha::new(entropy, 0);
    let mut requests = vec![Vec::new(); 2];
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
    Ok(Pending { layout: *layout, indices: indices.to_vec(), requests, shape, carrier: None })
}

/// [`query`] for 3 to 8 servers, whose order is that of the answers ([`vectors`]).
///
/// # Errors
/// As [`query`]; [`Error::Index`] for another number of servers.
pub fn query_any_of(
    layout: &Layout,
    servers: usize,
    indices: &[u32],
    entropy: &[u8; ENTROPY_BYTES],
) -> Result<Pending, Error> {
    vectors::expect_servers(servers)?;
    let shape = vectors::shape(layout, servers);
    expect_queries(indices, vectors::max_queries(&shape))?;
    let (requests, carrier) = vectors::requests(layout, servers, indices, &mut ChaCha::new(entropy, 0))?;
    Ok(Pending { layout: *layout, indices: indices.to_vec(), requests, shape, carrier: Some(carrier) })
}

fn expect_queries(indices: &[u32], most: usize) -> Result<(), Error> {
    if (1..=most).contains(&indices.len()) {
        return Ok(());
    }
    let (expected, actual) = (indices.len().min(most).max(1) as u64, indices.len() as u64);
    Err(Error::Length { what: "record indices", expected, actual })
}
