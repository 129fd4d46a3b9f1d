//! S3PIR (Mughees, Sun, Ren: *Simple and Practical Amortized Sublinear Private Information Retrieval*, 2023; called Spam in
//! Pai's paper, MIR in SinglePass's). With two servers ([`two_servers`], Algorithms 1, 2, 3) or with one ([`one_server`], Algorithms 4, 2, 5).
//!
//! N slots are q *stripes* of s records, both √N in the paper. A hint names half of the stripes and one, the extra's,
//! besides; a record in each; and keeps their parity. A lookup takes a hint that contains the record, leaves the record out,
//! and sends the q/2 others as one subset and a record of each remaining stripe as another, in an order that a coin
//! decides: together they always cover every stripe, so that nothing is missed. The hint is spent, and replaced by one
//! that contains the record again.
//!
//! Which half and which records follow from a pseudorandom function of the hint's number and the stripe, 16 bits each:
//! a stripe is chosen if its value is below the hint's *cutoff*, the middle of its q values. [`drawing`] is that,
//! [`folding`] makes the parities, [`slots`] is what a client does with them.
//!
//! # Assumption
//!
//! Privacy is perfect given a random function, for adaptive sequences of lookups and any number of hints: after every
//! query all slots have again the law of independent fresh hints (§3.5 of the paper, with the corrections below). Servers
//! answer honestly, and whether a lookup failed stays hidden from them. With two, the offline server knows every hint and must not talk to the online server.
//!
//! # Corrections
//!
//! Each is a [`Deviation`], whose effect `tests/s3pir.rs` enumerates at q = 4, s = 2.
//!
//! | point | published text or code | here |
//! |---|---|---|
//! | where to look | Algorithm 2, line 3, tests the chosen half only; §3.2 says the extra counts too | both |
//! | where the new hint goes | "replaces hint j" | in the same slot; which of several slots is used may depend on nothing but which contain i |
//! | no hint contains i | not treated | a query that tells nothing is sent, nothing is consumed, the call fails |
//! | dummy record in the queried stripe | "possibly i" | uniform over all: never "not i", never i |
//! | order of the subsets | a coin, unseeded in code | a coin from fresh entropy |
//! | backup hint | the half without i's stripe in prose; Algorithm 3, line 9, and 5, line 2, compare the other way round | the half without i's stripe; a number whose two middle values are equal is never used |
//! | parity of the new hint | Algorithm 5, lines 8 and 9, both add DB\[i\], which cancels | once |
//! | search | code stops at the first hit | [`Search`] offers both: stopping shows in time how far it went |
//! | keys | one literal AES key for client and servers in code | a fresh key a client |
//!
//! # What an attacker gets
//!
//! From the text taken literally, what each of the table's opposites tells of two lookups: from 1/36 of total variation (the
//! extra is not looked at) to 3/4 (no query). With the corrections and honest servers, nothing. A server that lies in one of
//! the two parities is noticed exactly if that one was the real subset, and the queried stripe lies in the other: **one
//! bit about the index for each lie**, every second lie unnoticed. With two servers, the offline server's wrong parity
//! tells it, on failure, which hint was used. A defence would check both parities against linear tags; the paper, and this
//! module, do not.
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
//! // Offline: all records stream by, and hints for 100 lookups remain.
//! let mut line = Channel::default();
//! let mut client =
//!     one_server::Client::<Aes>::download(&source.block(), &server, geometry, 100, &mut source, &mut line);
//! assert_eq!(line, Channel { up: 0, down: 32 << 10 });
//!
//! // Online: a bit and an offset a stripe up, two parities down.
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

/// Wrong turns; only tests take them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// The corrected scheme.
    #[default]
    None,
    /// Algorithm 2, line 3, read literally: a hint whose extra is the record is not found.
    SearchIgnoresExtra,
    /// The new hint goes behind all others.
    AppendsAtEnd,
    /// No hint, no query: silence tells that no unspent hint has the record.
    SilentWhenUnlucky,
    /// The dummy record in the queried stripe is never the wanted one.
    DummyAvoidsQueried,
    /// The dummy record in the queried stripe is the wanted one.
    DummyIsQueried,
    /// The real subset always comes first.
    NoCoin,
    /// The backup's lower half is taken, whether it chooses the queried stripe or not.
    BackupMayChoose,
    /// The hint is used again.
    NoReplenishing,
}

/// How long a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Until the first hit, as the authors' code. Time shows how far it went.
    UntilFound,
    /// At every slot.
    All,
}

/// How the database is cut and how many hints there are.
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
    /// The paper's: q = s = √N and H = λ·√N, for N a power of four.
    pub fn square(records: usize, record_bytes: usize, lambda: usize) -> Result<Self, Error> {
        if records < 4 || !records.is_power_of_two() || !records.ilog2().is_multiple_of(2) || records > 1 << 28 {
            return Err(bad("N", "a power of four from 4 to 2^28", records));
        }
        let root = 1 << (records.ilog2() / 2);
        Ok(Geometry { stripes: root, stripe_records: root, hints: lambda * root, record_bytes })
    }

    /// ⌈q/8⌉ bytes of which subset, then q offsets of two bytes.
    pub fn query_bytes(&self) -> usize {
        self.stripes.div_ceil(8) + 2 * self.stripes
    }

    /// Two parities.
    pub fn answer_bytes(&self) -> usize {
        2 * self.record_bytes
    }

    /// (stripe, offset) of a record.
    pub fn place(&self, index: usize) -> (usize, usize) {
        (index / self.stripe_records, index % self.stripe_records)
    }

    /// 16 bits as an offset.
    #[inline]
    fn offset(&self, bits: u16) -> usize {
        usize::from(bits) & (self.stripe_records - 1)
    }

    fn check(&self, index: usize) -> Result<(), Error> {
        let slots = self.stripes * self.stripe_records;
        if index < slots { Ok(()) } else { Err(bad("index", format_args!("below {slots}"), index)) }
    }
}

/// The online server of both forms: it answers, and keeps nothing.
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

    /// Stripe k, for the streaming offline phase.
    pub fn stripe(&self, k: usize) -> &'a [u8] {
        let s = self.geometry.stripe_records;
        self.records.range(k * s, (k + 1) * s)
    }
}
