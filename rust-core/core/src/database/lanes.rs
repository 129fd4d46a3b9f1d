//! Partitions on their way to a client, side by side, each hashed as it arrives. The bytes are their owner's.

use super::content::CONTENT_HASH_BYTES;
use crate::error::{Error, expect_below, expect_length};

/// Downloads that may run side by side, one from each server.
pub const LANES: usize = 2;

#[derive(Default)]
struct Lane {
    partition: Option<usize>,
    received: usize,
    hasher: blake3::Hasher,
}

/// The downloads under way.
#[derive(Default)]
pub(crate) struct Lanes([Lane; LANES]);

impl Lanes {
    /// The partition that a lane receives.
    pub(crate) fn under_way(&self, lane: usize) -> Result<usize, Error> {
        expect_below("lane", lane, LANES)?;
        self.0[lane].partition.ok_or(Error::Phase("begin a partition in this lane first"))
    }

    /// Starts receiving a partition, from its first byte. `is_there`: it has been received before.
    pub(crate) fn begin(&mut self, lane: usize, partition: usize, is_there: bool) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        if is_there {
            return Err(Error::Phase("this partition is there already"));
        }
        if self.0.iter().enumerate().any(|(other, l)| other != lane && l.partition == Some(partition)) {
            return Err(Error::Phase("this partition is under way in the other lane"));
        }
        self.0[lane] = Lane { partition: Some(partition), ..Lane::default() };
        Ok(())
    }

    /// Takes note that the next `count` bytes have been written to where the lane's partition, all of it, is received.
    pub(crate) fn absorb(&mut self, lane: usize, count: usize, partition: &[u8]) -> Result<(), Error> {
        self.under_way(lane)?;
        let lane = &mut self.0[lane];
        let rest = &partition[lane.received..];
        let part = rest.get(..count).ok_or(Error::Length {
            what: "rest of a partition",
            expected: rest.len() as u64,
            actual: count as u64,
        })?;
        lane.hasher.update(part);
        lane.received += count;
        Ok(())
    }

    /// All of the lane's partition is received: which it is, and whether it has its content hash, of Q. The lane is free
    /// again.
    pub(crate) fn end(&mut self, lane: usize, partition: &[u8], content_hashes: &[u8]) -> Result<(usize, bool), Error> {
        let q = self.under_way(lane)?;
        expect_length("partition", &partition[..self.0[lane].received], partition.len())?;
        let Lane { hasher, .. } = std::mem::take(&mut self.0[lane]);
        let expected = &content_hashes[q * CONTENT_HASH_BYTES..][..CONTENT_HASH_BYTES];
        Ok((q, hasher.finalize().as_slice() == expected))
    }

    /// Gives a lane up; what it received is forgotten.
    pub(crate) fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        self.0[lane].partition = None;
        Ok(())
    }

    /// Gives up the lanes that receive one of these partitions.
    pub(crate) fn abandon_partitions(&mut self, mut which: impl FnMut(usize) -> bool) {
        for lane in &mut self.0 {
            if lane.partition.is_some_and(&mut which) {
                lane.partition = None;
            }
        }
    }
}
