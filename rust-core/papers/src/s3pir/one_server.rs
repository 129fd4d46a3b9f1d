//! S3PIR with one server: Algorithms 4, 2, 5. The client streams the whole database once, and keeps H hints and B backups, with
//! a pair of parities each. A lookup uses one backup.

use super::drawing::{Drawn, draw};
use super::folding::{Parities, fold};
use super::slots::{Backup, Slots};
use super::{Deviation, Geometry, Search, Server};
use crate::channel::Channel;
use crate::error::Error;
use crate::prg::{Block, Prg};
use crate::random::Uniform;

/// B of the paper: half as many backups as hints.
pub fn backups(geometry: &Geometry) -> usize {
    geometry.hints / 2
}

/// Bytes that a client keeps: for each hint its number (4), cutoff (2), extra (4), a bit and ℓ bytes; for each backup its number
/// (4), cutoff (2) and 2·ℓ bytes.
pub fn client_bytes(geometry: &Geometry, backups: usize) -> usize {
    geometry.hints * (10 + geometry.record_bytes)
        + geometry.hints.div_ceil(8)
        + backups * (6 + 2 * geometry.record_bytes)
}

/// The client.
pub struct Client<P: Prg> {
    slots: Slots<P>,
    backups: Drawn,
    pairs: Vec<u8>,
    next: usize,
    record_bytes: usize,
}

impl<P: Prg> Client<P> {
    /// Algorithm 4: the offline phase, with a fresh key.
    pub fn download(
        key: &Block,
        server: &Server<'_>,
        geometry: Geometry,
        backups: usize,
        source: &mut impl Uniform,
        channel: &mut Channel,
    ) -> Self {
        let prg = P::new(key);
        let drawn = draw(&prg, &geometry, 0, geometry.hints + backups, geometry.hints, source); // lines 1 to 8
        let parities = fold(&prg, &geometry, &drawn, |k| channel.receive(server.stripe(k))); // lines 9 to 19
        Self::from_parts(prg, geometry, drawn, parities, Deviation::None)
    }

    /// A client from hints and backups, for tests that enumerate them.
    pub fn from_parts(prg: P, geometry: Geometry, mut drawn: Drawn, parities: Parities, deviation: Deviation) -> Self {
        let slots = Slots::new(prg, geometry, &drawn, parities.hints, deviation);
        let backups = Drawn {
            numbers: drawn.numbers.split_off(geometry.hints),
            cutoffs: drawn.cutoffs.split_off(geometry.hints),
            extras: Vec::new(),
        };
        Client { slots, backups, pairs: parities.pairs, next: 0, record_bytes: geometry.record_bytes }
    }

    /// The number of lookups left.
    pub fn lookups_left(&self) -> usize {
        self.backups.numbers.len() - self.next
    }

    /// The hints.
    pub fn slots(&self) -> &Slots<P> {
        &self.slots
    }

    /// Bytes of the client's state.
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.backups.numbers.len() * 6 + self.pairs.len()
    }

    /// Algorithms 2 and 5: a whole lookup.
    pub fn lookup(
        &mut self,
        index: usize,
        search: Search,
        source: &mut impl Uniform,
        server: &Server<'_>,
        channel: &mut Channel,
    ) -> Result<Vec<u8>, Error> {
        self.lookup_through(index, search, source, |query| channel.ask(query, |query| server.answer(query)))
    }

    /// [`Client::lookup`] with any function as the server.
    pub fn lookup_through(
        &mut self,
        index: usize,
        search: Search,
        source: &mut impl Uniform,
        ask: impl FnOnce(&[u8]) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        if self.lookups_left() == 0 {
            return Err(Error::Exhausted);
        }
        let pending = self.slots.query(index, search, source)?;
        let answer = ask(&pending.query)?;
        let record = self.slots.read(&pending, &answer)?;
        let backup = Backup {
            number: self.backups.numbers[self.next],
            cutoff: self.backups.cutoffs[self.next],
            parities: self.pairs[self.next * 2 * self.record_bytes..][..2 * self.record_bytes].to_vec(),
        };
        self.next += 1;
        self.slots.replenish(&pending, &record, &backup);
        Ok(record)
    }
}
