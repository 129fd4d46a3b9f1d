//! Downloads of partitions, side by side. Each is hashed as it arrives. The owner of the lanes holds the bytes.

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

/// All downloads.
#[derive(Default)]
pub(crate) struct Lanes([Lane; LANES]);

impl Lanes {
    /// The partition that a lane is receiving.
    pub(crate) fn under_way(&self, lane: usize) -> Result<usize, Error> {
        expect_below("lane", lane, LANES)?;
        self.0[lane].partition.ok_or(Error::Phase("begin a partition in this lane first"))
    }

    /// Begins to receive a partition, from its first byte. `is_there`: it was received before.
    pub(crate) fn begin(&mut self, lane: usize, partition: usize, is_there: bool) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        if is_there {
            return Err(Error::Phase("this partition was received already"));
        }
        if self.0.iter().enumerate().any(|(other, l)| other != lane && l.partition == Some(partition)) {
            return Err(Error::Phase("the other lane is receiving this partition"));
        }
        self.0[lane] = Lane { partition: Some(partition), ..Lane::default() };
        Ok(())
    }

    /// Hashes the next `count` bytes, which the caller has written into `partition`, the lane's whole partition.
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

    /// Ends a download that is complete. Returns its partition, and whether the bytes have their hash among the Q
    /// `content_hashes`. The lane is free again.
    pub(crate) fn end(&mut self, lane: usize, partition: &[u8], content_hashes: &[u8]) -> Result<(usize, bool), Error> {
        let q = self.under_way(lane)?;
        expect_length("partition", &partition[..self.0[lane].received], partition.len())?;
        let Lane { hasher, .. } = std::mem::take(&mut self.0[lane]);
        let expected = &content_hashes[q * CONTENT_HASH_BYTES..][..CONTENT_HASH_BYTES];
        Ok((q, hasher.finalize().as_slice() == expected))
    }

    /// Drops what a lane has received.
    pub(crate) fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        expect_below("lane", lane, LANES)?;
        self.0[lane].partition = None;
        Ok(())
    }

    /// Drops the downloads of these partitions.
    pub(crate) fn abandon_partitions(&mut self, mut which: impl FnMut(usize) -> bool) {
        for lane in &mut self.0 {
            if lane.partition.is_some_and(&mut which) {
                lane.partition = None;
            }
        }
    }
}
