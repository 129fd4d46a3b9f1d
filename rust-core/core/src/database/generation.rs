//! A new generation over the records of a database (docs/protocol.md, A new generation): a layout planned anew and, with
//! keys, a perfect hash of exactly those there are, the empty slots gone. It follows from the records alone, so every
//! operator makes the same.
//!
//! Made beside the old database, in steps of bounded work, so that a server can go on answering from that.

use crate::bytes::reserved;
use crate::commitment::VectorCommitment;
use crate::database::flat::Database;
use crate::directory::{Directory, DirectoryBuilder};
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, Stored};

/// Records looked at in one step.
const STEP_RECORDS: usize = 1 << 15;
/// What is allocated besides, in small parts: at most a 64th of the database.
const SLACK_FRACTION: usize = 64;
const SLACK_BYTES: usize = 4 << 20;

/// A generation in the making.
pub struct NextGeneration<C> {
    headroom: u64,
    /// N of the old generation
    records: usize,
    /// the next record or partition to look at
    next: usize,
    stage: Stage<C>,
}

enum Stage<C> {
    Collect(DirectoryBuilder),
    Index(DirectoryBuilder, Database<C>),
    Place(Database<C>, Option<Directory>),
    Commit(Database<C>, Option<Directory>),
    /// an error came before
    Failed,
}

impl<C: VectorCommitment> NextGeneration<C> {
    /// Begins the generation after `old`'s, with room for `headroom` records more than it has.
    ///
    /// # Errors
    /// [`Error::Layout`] if a keyless database has no layout, or not enough memory.
    pub fn new(old: &Database<C>, keyed: bool, headroom: u64) -> Result<Self, Error> {
        let records = old.layout().records();
        let stage = if keyed {
            Stage::Collect(DirectoryBuilder::new())
        } else {
            Stage::Place(allocate(old, records, headroom)?, None)
        };
        Ok(NextGeneration { headroom, records, next: 0, stage })
    }

    /// Goes on; whether there is more to do. `old` must be as it was.
    ///
    /// # Errors
    /// [`Error::Layout`] if there is no layout, or not enough memory; [`Error::Directory`] if there are no keys, or not
    /// enough memory; [`Error::Phase`] after an error.
    pub fn step(&mut self, old: &Database<C>) -> Result<bool, Error> {
        let record_bytes = old.layout().stored().record_bytes;
        let slice = self.next..self.records.min(self.next + STEP_RECORDS);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Collect(mut builder) => {
                for index in slice.clone() {
                    if let Some(fingerprint) = fingerprint(old.record(index)?) {
                        builder.push(fingerprint)?;
                    }
                }
                self.next = slice.end;
                if self.next < self.records {
                    Stage::Collect(builder)
                } else if builder.keys() == 0 {
                    return Err(Error::Directory("there are no keys".into()));
                } else {
                    let database = allocate(old, builder.keys(), self.headroom)?;
                    Stage::Index(builder, database)
                }
            }
            Stage::Index(mut builder, database) => match builder.step(database.layout().room())? {
                None => Stage::Index(builder, database),
                Some(directory) => {
                    self.next = 0;
                    Stage::Place(database, Some(directory))
                }
            },
            Stage::Place(mut database, directory) => {
                let keys = database.layout().records() as u32;
                let into = database.records_mut();
                for index in slice.clone() {
                    let record = old.record(index)?;
                    let place = match (&directory, fingerprint(record)) {
                        (None, _) => index,
                        (Some(_), None) => continue,
                        (Some(directory), Some(fingerprint)) => directory.index(fingerprint, keys)? as usize,
                    };
                    into[place * record_bytes..][..record_bytes].copy_from_slice(record);
                }
                self.next = slice.end;
                if self.next < self.records {
                    Stage::Place(database, directory)
                } else {
                    self.next = 0;
                    Stage::Commit(database, directory)
                }
            }
            Stage::Commit(mut database, directory) => {
                if self.next < database.layout().partitions() {
                    database.commit(self.next)?;
                    self.next += 1;
                }
                Stage::Commit(database, directory)
            }
            Stage::Failed => return Err(Error::Phase("making the generation has failed")),
        };
        Ok(!matches!(&self.stage, Stage::Commit(database, _) if self.next == database.layout().partitions()))
    }

    /// The new generation, once every step was made: its database, every partition committed, and its directory.
    ///
    /// # Errors
    /// [`Error::Phase`] before that.
    pub fn finish(self) -> Result<(Database<C>, Option<Directory>), Error> {
        match self.stage {
            Stage::Commit(database, directory) if database.is_committed() => Ok((database, directory)),
            _ => Err(Error::Phase("there are steps to be made")),
        }
    }
}

/// `None`: an empty slot.
fn fingerprint(record: &[u8]) -> Option<&[u8; FINGERPRINT_BYTES]> {
    record.first_chunk().filter(|fingerprint| **fingerprint != [0; FINGERPRINT_BYTES])
}

/// N records in a layout planned for N + headroom, packed as they were.
fn allocate<C: VectorCommitment>(old: &Database<C>, records: usize, headroom: u64) -> Result<Database<C>, Error> {
    let Stored { record_bytes, block_records, .. } = *old.layout().stored();
    let records = records as u64;
    let plan = Layout::plan_packed(records.saturating_add(headroom), record_bytes as u64, None, block_records as u64)?;
    let layout = plan.grown(records, plan.partitions() as u64)?;
    let database = old.empty_like(layout)?;
    reserved(layout.database_bytes() / SLACK_FRACTION + SLACK_BYTES)?;
    Ok(database)
}
