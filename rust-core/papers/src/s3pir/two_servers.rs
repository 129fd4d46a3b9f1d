//! S3PIR with two servers: Algorithms 1, 2, 3. The offline server makes the hints, with a key that only this client and it know.
//! For each lookup it makes a new pair of parities; the client asks it for "next", and nothing else. The online server answers
//! queries.

use super::drawing::{Drawn, draw};
use super::folding::{fold, pair_of};
use super::slots::{Backup, Slots};
use super::{Deviation, Geometry, Search, Server};
use crate::channel::Channel;
use crate::error::{Error, bad, expect_bytes};
use crate::prg::{Block, Prg};
use crate::random::Uniform;
use crate::records::Records;

/// Bytes of a hint: number (8; they grow without end), cutoff (2), extra (4), parity.
pub fn hint_bytes(record_bytes: usize) -> usize {
    14 + record_bytes
}

/// Bytes of a new hint: number, cutoff, two parities.
pub fn replenish_bytes(record_bytes: usize) -> usize {
    10 + 2 * record_bytes
}

/// The offline server's state for one client: its key, and the next number.
pub struct OfflineServer<'a, P: Prg> {
    records: &'a Records,
    geometry: Geometry,
    prg: P,
    next: u64,
}

impl<'a, P: Prg> OfflineServer<'a, P> {
    /// A server for a client's key.
    pub fn new(records: &'a Records, geometry: Geometry, key: &Block) -> Self {
        OfflineServer { records, geometry, prg: P::new(key), next: 0 }
    }

    /// Algorithm 1: all hints. The server may choose the extras, since it knows every hint anyway.
    pub fn hints(&mut self, source: &mut impl Uniform) -> Vec<u8> {
        let Geometry { stripe_records: s, hints, record_bytes, .. } = self.geometry;
        let drawn = draw(&self.prg, &self.geometry, 0, hints, hints, source);
        let parities = fold(&self.prg, &self.geometry, &drawn, |k| self.records.range(k * s, (k + 1) * s));
        self.next = drawn.numbers.last().map_or(0, |last| last + 1);
        let mut message = Vec::with_capacity(hints * hint_bytes(record_bytes));
        for (hint, parity) in parities.hints.chunks_exact(record_bytes).enumerate() {
            message.extend_from_slice(&drawn.numbers[hint].to_le_bytes());
            message.extend_from_slice(&drawn.cutoffs[hint].to_le_bytes());
            message.extend_from_slice(&drawn.extras[hint].to_le_bytes());
            message.extend_from_slice(parity);
        }
        message
    }

    /// Algorithm 3, lines 1 to 8: both parities of the next number.
    pub fn next(&mut self, source: &mut impl Uniform) -> Vec<u8> {
        let drawn = draw(&self.prg, &self.geometry, self.next, 1, 0, source);
        let pair = pair_of(&self.prg, &self.geometry, drawn.numbers[0], drawn.cutoffs[0], self.records);
        self.next = drawn.numbers[0] + 1;
        let mut message = Vec::with_capacity(replenish_bytes(self.geometry.record_bytes));
        message.extend_from_slice(&drawn.numbers[0].to_le_bytes());
        message.extend_from_slice(&drawn.cutoffs[0].to_le_bytes());
        message.extend_from_slice(&pair);
        message
    }
}

/// The client.
pub struct Client<P: Prg> {
    slots: Slots<P>,
}

impl<P: Prg> Client<P> {
    /// A client from the hints of Algorithm 1, made with `key`.
    pub fn new(key: &Block, geometry: Geometry, message: &[u8]) -> Result<Self, Error> {
        let bytes = hint_bytes(geometry.record_bytes);
        expect_bytes("hints", message, geometry.hints * bytes)?;
        let slots = geometry.stripes * geometry.stripe_records;
        let mut drawn = Drawn::default();
        let mut parities = Vec::with_capacity(geometry.hints * geometry.record_bytes);
        for hint in message.chunks_exact(bytes) {
            drawn.numbers.push(u64::from_le_bytes(part(hint, 0)));
            drawn.cutoffs.push(i16::from_le_bytes(part(hint, 8)));
            let extra = u32::from_le_bytes(part(hint, 10));
            if extra as usize >= slots {
                return Err(bad("extra index", format_args!("below {slots}"), extra));
            }
            drawn.extras.push(extra);
            parities.extend_from_slice(&hint[14..]);
        }
        Ok(Client { slots: Slots::new(P::new(key), geometry, &drawn, parities, Deviation::None) })
    }

    /// Bytes of the client's state.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Algorithms 2 and 3: a whole lookup. The first channel is to the offline server, the second to the online server.
    pub fn lookup(
        &mut self,
        index: usize,
        search: Search,
        source: &mut impl Uniform,
        (offline, online): (&mut OfflineServer<'_, P>, &Server<'_>),
        channels: &mut [Channel; 2],
    ) -> Result<Vec<u8>, Error> {
        let pending = self.slots.query(index, search, source)?;
        let [of_offline, of_online] = channels;
        let answer = of_online.ask(&pending.query, |query| online.answer(query))?;
        // Asked for even if it cannot be used: otherwise the offline server would see which lookups fail.
        let next = of_offline.ask(&[], |_| Ok(offline.next(source)))?;
        expect_bytes("backup hint", &next, replenish_bytes(answer.len() / 2))?;
        let record = self.slots.read(&pending, &answer)?;
        let backup = Backup {
            number: u64::from_le_bytes(part(&next, 0)),
            cutoff: i16::from_le_bytes(part(&next, 8)),
            parities: next[10..].to_vec(),
        };
        self.slots.replenish(&pending, &record, &backup);
        Ok(record)
    }
}

/// B bytes from `at` on, of a message whose length was checked.
fn part<const B: usize>(message: &[u8], at: usize) -> [u8; B] {
    message[at..at + B].try_into().expect("B bytes")
}
