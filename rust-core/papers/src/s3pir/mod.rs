//! S3PIR (Mughees, Sun, Ren: *Simple and Practical Amortized Sublinear Private Information Retrieval*, 2023; Pai's paper calls it
//! Spam, SinglePass's MIR), with two servers ([`two_servers`], Algorithms 1, 2, 3) or with one ([`one_server`], Algorithms 4, 2, 5).
//!
//! - N slots are q *stripes* of s records; in the paper both are √N.
//! - A hint names a record in each stripe of one half, and one record of another stripe, its extra. It has their parity.
//! - A lookup takes a hint that contains the wanted record, and leaves that record out. The other q/2 records are one subset.
//!   A record of each remaining stripe is the other subset. A coin decides their order. Together they cover every stripe.
//! - The hint is spent. A new one that contains the record takes its place.
//!
//! A pseudorandom function of the hint's number and the stripe decides half and records, with 16 bits each: a stripe is chosen if
//! its value is below the hint's *cutoff*, the middle of its q values. [`drawing`] computes that, [`folding`] makes the parities,
//! and [`slots`] has the client's hints.
//!
//! # Assumption
//!
//! With a random function, privacy is perfect for adaptive sequences of lookups and any number of hints: after every query, all
//! slots are distributed as independent fresh hints again (§3.5 of the paper, with the corrections below). Servers answer
//! honestly, and do not learn whether a lookup failed. With two servers, the offline server knows every hint and must not talk
//! to the online server.
//!
//! # Corrections
//!
//! Each is a [`Deviation`]. `tests/s3pir.rs` enumerates its effect at q = 4, s = 2.
//!
//! | point | published text or code | here |
//! |---|---|---|
//! | where to look | Algorithm 2, line 3, tests the chosen half only; §3.2 says the extra counts too | both |
//! | where the new hint goes | "replaces hint j" | into the same slot; if several slots contain i, the choice depends on nothing but which they are |
//! | no hint contains i | not treated | a query that reveals nothing is sent, nothing is used up, the call fails |
//! | dummy record in the queried stripe | "possibly i" | uniform over all: neither "not i" nor always i |
//! | order of the subsets | a coin, unseeded in code | a coin from fresh entropy |
//! | backup hint | the half without i's stripe in prose; Algorithm 3, line 9, and 5, line 2, compare the other way round | the half without i's stripe; a number whose two middle values are equal is never used |
//! | parity of the new hint | Algorithm 5, lines 8 and 9, both add DB\[i\], which cancels | once |
//! | search | code stops at the first hit | [`Search`] has both: stopping reveals by its time how far it went |
//! | keys | one literal AES key for client and servers in code | a fresh key for each client |
//!
//! # What an attacker gains
//!
//! From the text taken literally: what the opposite of each row reveals about two lookups, from 1/36 of total variation (the
//! search ignores the extra) to 3/4 (no query). With the corrections and honest servers: nothing. A server that lies in one of
//! the two parities is noticed exactly if that one was the real subset, and the queried stripe is in the other: **one bit about
//! the index for each lie**, and every second lie is unnoticed. With two servers, a wrong parity from the offline server reveals,
//! by a failure, which hint was used. A defence would check both parities with linear tags. The paper and this module do not.
//!
//! # A lookup
//!
//! ```
//! use papers::{channel::Channel, prg::Aes, random::Random, records::Records, s3pir::*};
//!
//! let mut source = Random::from_system()?;
//! let database = Records::from_seed(1, 1 << 10, 32);
//! let geometry = Geometry::square(1 << 10, 32, LAMBDA)?; // 32 stripes of 32 records
//! let server = Server::new(&database, geometry)?;
//!
//! // Offline: all records stream by. Hints for 100 lookups are left.
//! let mut line = Channel::default();
//! let mut client =
//!     one_server::Client::<Aes>::download(&source.block(), &server, geometry, 100, &mut source, &mut line);
//! assert_eq!(line, Channel { up: 0, down: 32 << 10 });
//!
//! // Online: a bit and an offset for each stripe up, two parities down.
//! let mut line = Channel::default();
//! let record = client.lookup(123, Search::All, &mut source, &server, &mut line)?;
//! assert_eq!(record, database.get(123));
//! assert_eq!(line, Channel { up: 32 / 8 + 32 * 2, down: 2 * 32 });
//! # Ok::<(), papers::error::Error>(())
//! ```

pub mod drawing;
pub mod folding;
pub mod one_server;
pub mod slots;
pub mod two_servers;

use crate::error::{Error, bad, expect_bytes};
use crate::records::Records;
use crate::xor::xor_from;

/// Mistakes that only tests make.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// The corrected scheme.
    #[default]
    None,
    /// Algorithm 2, line 3, taken literally: a hint whose extra is the record is not found.
    SearchIgnoresExtra,
    /// The new hint goes after all others.
    AppendsAtEnd,
    /// If no hint is found, no query is sent: that reveals that no unspent hint contains the record.
    SilentWhenUnlucky,
    /// The dummy record in the queried stripe is never the wanted one.
    DummyAvoidsQueried,
    /// The dummy record in the queried stripe is the wanted one.
    DummyIsQueried,
    /// The real subset always comes first.
    NoCoin,
    /// The backup's half below is taken, even if it chooses the queried stripe.
    BackupMayChoose,
    /// The hint is used again.
    NoReplenishing,
}

/// When a search ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// At the first hit, as in the authors' code. Its time reveals how far it went.
    UntilFound,
    /// After all slots.
    All,
}

/// How the database is divided, and how many hints there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// q, even, at most 2^14
    pub stripes: usize,
    /// s, a power of two, at most 2^16
    pub stripe_records: usize,
    /// H = λ·s
    pub hints: usize,
    /// ℓ
    pub record_bytes: usize,
}

/// λ of the paper: a record is in no hint with probability about e^(−λ/2).
pub const LAMBDA: usize = 80;

impl Geometry {
    /// The paper's geometry: q = s = √N and H = λ·√N, for N a power of four.
    pub fn square(records: usize, record_bytes: usize, lambda: usize) -> Result<Self, Error> {
        if records < 4 || !records.is_power_of_two() || !records.ilog2().is_multiple_of(2) || records > 1 << 28 {
            return Err(bad("N", "a power of four from 4 to 2^28", records));
        }
        let root = 1 << (records.ilog2() / 2);
        Ok(Geometry { stripes: root, stripe_records: root, hints: lambda * root, record_bytes })
    }

    /// Bytes of a query: ⌈q/8⌉ bytes that assign stripes to subsets, then q offsets of two bytes.
    pub fn query_bytes(&self) -> usize {
        self.stripes.div_ceil(8) + 2 * self.stripes
    }

    /// Bytes of an answer: two parities.
    pub fn answer_bytes(&self) -> usize {
        2 * self.record_bytes
    }

    /// (stripe, offset) of a record.
    pub fn place(&self, index: usize) -> (usize, usize) {
        (index / self.stripe_records, index % self.stripe_records)
    }

    /// The offset that 16 bits stand for.
    #[inline]
    fn offset(&self, bits: u16) -> usize {
        usize::from(bits) & (self.stripe_records - 1)
    }

    fn check(&self, index: usize) -> Result<(), Error> {
        let slots = self.stripes * self.stripe_records;
        if index < slots { Ok(()) } else { Err(bad("index", format_args!("below {slots}"), index)) }
    }
}

/// The online server of both forms. It answers, and keeps no state.
pub struct Server<'a> {
    records: &'a Records,
    geometry: Geometry,
}

impl<'a> Server<'a> {
    /// A server of these records.
    pub fn new(records: &'a Records, geometry: Geometry) -> Result<Self, Error> {
        let slots = geometry.stripes * geometry.stripe_records;
        if records.len() != slots || records.record_bytes() != geometry.record_bytes {
            return Err(bad("database", format_args!("{slots} records of the geometry's length"), records.len()));
        }
        Ok(Server { records, geometry })
    }

    /// The parities of the two subsets.
    pub fn answer(&self, query: &[u8]) -> Result<Vec<u8>, Error> {
        let Geometry { stripes, stripe_records, record_bytes, .. } = self.geometry;
        expect_bytes("query", query, self.geometry.query_bytes())?;
        let (bits, offsets) = query.split_at(stripes.div_ceil(8));
        let mut answer = vec![0; 2 * record_bytes];
        let mut subsets = [Vec::with_capacity(stripes), Vec::with_capacity(stripes)];
        for (k, offset) in offsets.as_chunks().0.iter().enumerate() {
            let offset = usize::from(u16::from_le_bytes(*offset));
            if offset >= stripe_records {
                return Err(bad("offset", format_args!("below {stripe_records}"), offset));
            }
            subsets[usize::from(bits[k / 8] >> (k % 8) & 1)].push((k * stripe_records + offset) * record_bytes);
        }
        for (parity, subset) in answer.chunks_exact_mut(record_bytes).zip(&subsets) {
            xor_from(parity, self.records.bytes(), subset);
        }
        Ok(answer)
    }

    /// The records of stripe k, for the offline phase.
    pub fn stripe(&self, k: usize) -> &'a [u8] {
        let s = self.geometry.stripe_records;
        self.records.range(k * s, (k + 1) * s)
    }
}
