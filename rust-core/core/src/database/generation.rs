//! Makes a new generation of a database (docs/protocol.md, A new generation): a newly planned layout and, with keys, a
//! perfect hash of exactly the keys that exist, without empty slots. It depends on nothing but the records, so all
//! operators make the same one.
//!
//! It is built beside the old database, in steps of bounded work, while the server answers from the old one.

use crate::bytes::reserved;
use crate::commitment::VectorCommitment;
use crate::database::flat::Database;
use crate::directory::{Directory, DirectoryBuilder};
use crate::error::Error;
use crate::key::FINGERPRINT_BYTES;
use crate::layout::{Layout, Stored};

/// Records processed in one step.
const STEP_RECORDS: usize = 1 << 15;
/// Other, small allocations need at most this: a 64th of the database, and 4 MiB.
const SLACK_FRACTION: usize = 64;
const SLACK_BYTES: usize = 4 << 20;

/// A generation in the making.
pub struct NextGeneration<C> {
    headroom: u64,
    /// N of the old generation
    records: usize,
    /// the next record or partition of this stage
    next: usize,
    stage: Stage<C>,
}

enum Stage<C> {
    Collect(DirectoryBuilder),
    Index(DirectoryBuilder, Database<C>),
    Place(Database<C>, Option<Directory>),
    Commit(Database<C>, Option<Directory>),
    /// a step has failed
    Failed,
}

impl<C: VectorCommitment> NextGeneration<C> {
    /// Begins the generation after that of `old`, with room for `headroom` more records than it has.
    ///
    /// # Errors
    /// [`Error::Layout`] if a keyless database has no layout, or if memory does not suffice.
    pub fn new(old: &Database<C>, keyed: bool, headroom: u64) -> Result<Self, Error> {
        let records = old.layout().records();
        let stage = if keyed {
            Stage::Collect(DirectoryBuilder::new())
        } else {
            Stage::Place(allocate(old, records, headroom)?, None)
        };
        Ok(NextGeneration { headroom, records, next: 0, stage })
    }

    /// Does the next step. Returns whether there is more to do. Pass the same `old`, unchanged, each time.
    ///
    /// # Errors
    /// [`Error::Layout`] if there is no layout, or memory does not suffice; [`Error::Directory`] if there are no keys, or
    /// memory does not suffice; [`Error::Phase`] after an error.
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
                    return Err(Error::Directory("there are no keys; a keyed database needs one".into()));
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
            Stage::Failed => return Err(Error::Phase("making the generation has failed; begin another")),
        };
        Ok(!matches!(&self.stage, Stage::Commit(database, _) if self.next == database.layout().partitions()))
    }

    /// The new generation, after the last step: its database, with every partition committed, and its directory.
    ///
    /// # Errors
    /// [`Error::Phase`] if steps are left.
    pub fn finish(self) -> Result<(Database<C>, Option<Directory>), Error> {
        match self.stage {
            Stage::Commit(database, directory) if database.is_committed() => Ok((database, directory)),
            _ => Err(Error::Phase("making the generation is not done; make its other steps first")),
        }
    }
}

/// The record's fingerprint; `None` for an empty slot.
fn fingerprint(record: &[u8]) -> Option<&[u8; FINGERPRINT_BYTES]> {
    record.first_chunk().filter(|fingerprint| **fingerprint != [0; FINGERPRINT_BYTES])
}

/// A database of N records, in a layout planned for N + headroom, with blocks as before.
fn allocate<C: VectorCommitment>(old: &Database<C>, records: usize, headroom: u64) -> Result<Database<C>, Error> {
    let Stored { record_bytes, block_records, .. } = *old.layout().stored();
    let records = records as u64;
    let plan = Layout::plan_packed(records.saturating_add(headroom), record_bytes as u64, None, block_records as u64)?;
    let layout = plan.grown(records, plan.partitions() as u64)?;
    let database = old.empty_like(layout)?;
    reserved(layout.database_bytes() / SLACK_FRACTION + SLACK_BYTES)?;
    Ok(database)
}
