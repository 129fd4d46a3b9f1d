//! Writes an update list into a database, in steps of bounded work (Fig. 6, UpdateDB 9–24), so that a server can answer
//! between them. Only what changed is touched: tree paths, content groups.
//!
//! 1. Steps before [`Write::begin`] make everything ready: memory, and new partitions. The epochs stay answerable. Only
//!    these steps can fail.
//! 2. [`Write::begin`] makes the old newest epoch the previous one. It stays answerable after every step, because each step
//!    keeps what it overwrites.
//! 3. After the last step, the new epoch is answerable.
//!
//! Other threads may read the database's memory meanwhile, but not during a step for which [`Write::alone`] is true.

use std::ops::Range;

use keyhush_kernels::scan::Node;

use crate::bytes::{reserved, xor_into};
use crate::commitment::{CELL_BYTES, VectorCommitment};
use crate::database::content::{ContentTree, GROUP_BYTES};
use crate::database::flat::{Database, Overwritten, Writing, auxiliary_bytes};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;

/// Bytes copied, hashed or compared in one step. One record, or one partition's tree, may be more: it is not divided.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Most records written in one step.
const STEP_RECORDS: usize = 1 << 13;

/// An update list that is being written.
pub struct Write {
    list: UpdateList,
    stage: Stage,
    /// the copy of a buffer that grows; after [`Stage::Swap`] the old buffer
    beside: Vec<u8>,
    /// content hashes of new partitions
    content: Vec<ContentTree>,
    /// memory for what will be overwritten
    room: Option<Overwritten>,
    /// what the update before has overwritten; to be freed
    forgotten: Option<Overwritten>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buffer {
    Records,
    Auxiliary,
}

/// What the next step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Check,
    /// copies a buffer into a larger one
    Grow(Buffer),
    /// puts the copy in its place
    Swap(Buffer),
    /// frees the old buffer
    Free(Buffer),
    /// zeros the bytes after the last partition, from here on: an abandoned write may have left some
    Clear(usize),
    Reserve,
    /// writes the records of a new partition
    Fill(usize),
    /// builds its tree
    Build(usize),
    /// computes its content hash
    Hash(usize),
    Ready,
    Forget,
    /// writes records and leaves of the partition that has entry `next`; `first` records were overwritten before it
    Leaves {
        next: usize,
        first: usize,
    },
    /// updates the rest of its tree
    Above {
        next: usize,
        first: usize,
    },
    /// updates its content hash; `done` overwritten records have been hashed
    Content {
        next: usize,
        first: usize,
        done: usize,
    },
    Finish,
    Done,
}

impl Write {
    /// Begins to write a list, which must have been checked.
    pub(crate) fn new(list: UpdateList) -> Self {
        Write { list, stage: Stage::Check, beside: Vec::new(), content: Vec::new(), room: None, forgotten: None }
    }

    /// The list.
    #[must_use]
    pub fn list(&self) -> &UpdateList {
        &self.list
    }

    /// Whether no other thread may read the database's memory during the next step.
    #[must_use]
    pub fn alone(&self) -> bool {
        matches!(self.stage, Stage::Swap(_) | Stage::Leaves { .. } | Stage::Above { .. } | Stage::Finish)
    }

    /// Does the next step. Returns whether there is more to do before [`Write::begin`], or, after `begin`, at all. Nobody else
    /// may change the database until the last step. Before `begin` the write may be dropped.
    ///
    /// # Errors
    /// [`Error::Phase`] unless every partition is committed; [`Error::Update`] if the list starts from another layout;
    /// [`Error::Layout`] if it leads beyond the generation, or memory does not suffice. Then nothing has changed. After `begin`
    /// there are no errors.
    pub fn step<C: VectorCommitment>(&mut self, database: &mut Database<C>) -> Result<bool, Error> {
        if self.alone() {
            database.edition += 1;
        }
        self.stage = self.next(database)?;
        Ok(!matches!(self.stage, Stage::Ready | Stage::Done))
    }

    /// Makes the newest epoch, from which the list starts, the previous one. No other thread may read meanwhile.
    ///
    /// # Errors
    /// [`Error::Phase`] unless all is ready. Then nothing has changed.
    pub fn begin<C: VectorCommitment>(&mut self, database: &mut Database<C>) -> Result<(), Error> {
        if self.stage != Stage::Ready || database.writing != Writing::Nothing {
            return Err(Error::Phase("the write is not ready to begin; make the steps before it first"));
        }
        self.forgotten = std::mem::replace(&mut database.previous, self.room.take());
        database.writing = Writing::Update;
        database.edition += 1;
        self.stage = Stage::Forget;
        Ok(())
    }

    /// Does all steps at once.
    ///
    /// # Errors
    /// As [`Write::step`].
    pub(crate) fn run<C: VectorCommitment>(mut self, database: &mut Database<C>) -> Result<UpdateList, Error> {
        while self.step(database)? {}
        self.begin(database)?;
        while self.step(database)? {}
        Ok(self.list)
    }

    fn next<C: VectorCommitment>(&mut self, database: &mut Database<C>) -> Result<Stage, Error> {
        let (before, after) = (*self.list.before(), *self.list.after());
        Ok(match self.stage {
            Stage::Check => {
                if !database.is_committed() {
                    return Err(Error::Phase("commit every partition first"));
                }
                if before != *database.layout() {
                    return Err(Error::Update("it starts from another layout"));
                }
                database.check_carried(&after)?;
                Stage::Grow(Buffer::Records)
            }
            Stage::Grow(buffer) => self.grow(database, buffer, &after)?,
            Stage::Swap(buffer) => {
                std::mem::swap(&mut self.beside, database.buffer(buffer));
                Stage::Free(buffer)
            }
            Stage::Free(buffer) => {
                self.beside = Vec::new();
                match buffer {
                    Buffer::Records => Stage::Grow(Buffer::Auxiliary),
                    Buffer::Auxiliary => Stage::Clear(before.database_bytes()),
                }
            }
            Stage::Clear(from) => {
                let to = after.database_bytes().min(from + STEP_BYTES);
                database.records[from..to].fill(0);
                if to < after.database_bytes() { Stage::Clear(to) } else { Stage::Reserve }
            }
            Stage::Reserve => {
                self.room = Some(self.reserve(database)?);
                self.fresh(before.partitions())
            }
            Stage::Fill(q) => {
                self.fill(database, q);
                Stage::Build(q)
            }
            Stage::Build(q) => {
                database.build(&after, q);
                Stage::Hash(q)
            }
            Stage::Hash(q) => {
                self.content.push(ContentTree::new(database.of_partition(&after, q)));
                self.fresh(q + 1)
            }
            Stage::Ready | Stage::Done => self.stage,
            Stage::Forget => {
                self.forgotten = None;
                self.partition(0, 0)
            }
            Stage::Leaves { next, first } => self.leaves(database, next, first),
            Stage::Above { next, first } => {
                if let Some(previous) = &mut database.previous {
                    let m = after.partition_records();
                    let changed = &previous.indices[first..];
                    let q = changed[0] as usize / m;
                    let offsets = changed.iter().map(|index| *index as usize % m).collect();
                    let bytes = C::auxiliary_bytes(&after);
                    let auxiliary = &mut database.auxiliary[q * bytes..][..bytes];
                    C::update_above(&after, auxiliary, offsets, &mut keeper(&mut previous.cells, q));
                }
                Stage::Content { next, first, done: first }
            }
            Stage::Content { next, first, done } => self.content(database, next, first, done),
            Stage::Finish => {
                database.layout = after;
                database.content.extend(self.content.drain(..).map(Some));
                database.writing = Writing::Nothing;
                Stage::Done
            }
        })
    }

    fn grow<C: VectorCommitment>(
        &mut self,
        database: &mut Database<C>,
        buffer: Buffer,
        after: &Layout,
    ) -> Result<Stage, Error> {
        let bytes = match buffer {
            Buffer::Records => after.database_bytes(),
            Buffer::Auxiliary => auxiliary_bytes::<C>(after, database.openings)?,
        };
        let old = database.buffer(buffer);
        if old.len() >= bytes {
            return Ok(Stage::Free(buffer));
        }
        if self.beside.capacity() == 0 {
            self.beside = reserved(bytes)?;
        }
        let from = self.beside.len();
        if from < old.len() {
            self.beside.extend_from_slice(&old[from..old.len().min(from + STEP_BYTES)]);
        } else {
            self.beside.resize(bytes.min(from + STEP_BYTES), 0);
        }
        Ok(if self.beside.len() < bytes { Stage::Grow(buffer) } else { Stage::Swap(buffer) })
    }

    /// Memory for everything that the list may overwrite.
    fn reserve<C: VectorCommitment>(&self, database: &Database<C>) -> Result<Overwritten, Error> {
        let before = *self.list.before();
        let (mut records, mut cells) = (0, 0);
        for q in 0..before.partitions() {
            let entries = self.entries(q);
            let changed = entries.len().min(before.partition_records());
            records += changed;
            if database.openings && changed > 0 {
                cells += C::changing_cells(&before, changed);
            }
        }
        let too_many = |_| Error::Layout("memory for what the update overwrites could not be had".into());
        let mut room = Overwritten {
            layout: before,
            indices: Vec::new(),
            records: reserved(records * before.record_bytes())?,
            cells: Vec::new(),
        };
        room.indices.try_reserve_exact(records).map_err(too_many)?;
        room.cells.try_reserve_exact(cells).map_err(too_many)?;
        Ok(room)
    }

    /// The numbers of the entries of a partition.
    fn entries(&self, q: usize) -> Range<usize> {
        let records = self.list.after().stored().partition_records;
        self.list.first_from(q * records)..self.list.first_from((q + 1) * records)
    }

    /// The stage for new partition `q`, or [`Stage::Ready`] after the last one.
    fn fresh(&self, q: usize) -> Stage {
        if q < self.list.after().partitions() { Stage::Fill(q) } else { Stage::Ready }
    }

    fn fill<C: VectorCommitment>(&self, database: &mut Database<C>, q: usize) {
        let bytes = self.list.after().stored().record_bytes;
        for entry in self.entries(q).filter_map(|number| self.list.entry(number)) {
            database.records[entry.index as usize * bytes..][..bytes].copy_from_slice(entry.difference);
        }
    }

    /// The stage for the partition of the next entry; [`Stage::Finish`] if only new partitions are left.
    fn partition(&self, next: usize, first: usize) -> Stage {
        let before = self.list.before();
        let old = next < self.list.len() && (self.list.index(next) as usize) < before.room();
        if old { Stage::Leaves { next, first } } else { Stage::Finish }
    }

    fn leaves<C: VectorCommitment>(&self, database: &mut Database<C>, mut next: usize, first: usize) -> Stage {
        let after = self.list.after();
        let (m, bytes, g) = (after.partition_records(), after.record_bytes(), after.stored().block_records);
        let q = self.list.index(next) as usize / after.stored().partition_records;
        let end = self.entries(q).end;
        // New content of the changed blocks, as a whole.
        let mut changes: Vec<(u32, Vec<u8>)> = Vec::new();
        while next < end && changes.len() < STEP_RECORDS && changes.len() * bytes < STEP_BYTES {
            let block = self.list.index(next) / g as u32;
            let mut content = database.records[block as usize * bytes..][..bytes].to_vec();
            while next < end && self.list.index(next) / g as u32 == block {
                if let Some(entry) = self.list.entry(next) {
                    xor_into(&mut content[after.slot(entry.index)], entry.difference);
                }
                next += 1;
            }
            changes.push((block, content));
        }
        database.writing = Writing::Partition(q);
        if let Some(previous) = &mut database.previous {
            if database.openings {
                let tree_bytes = C::auxiliary_bytes(after);
                let auxiliary = &mut database.auxiliary[q * tree_bytes..][..tree_bytes];
                let offsets = changes.iter().map(|(block, content)| (*block as usize % m, content.as_slice()));
                C::update_leaves(after, auxiliary, offsets, &mut keeper(&mut previous.cells, q));
            }
            for (block, content) in &changes {
                let stored = &mut database.records[*block as usize * bytes..][..bytes];
                previous.indices.push(*block);
                previous.records.extend_from_slice(stored);
                stored.copy_from_slice(content);
            }
        }
        match (next < end, database.openings) {
            (true, _) => Stage::Leaves { next, first },
            (false, true) => Stage::Above { next, first },
            (false, false) => Stage::Content { next, first, done: first },
        }
    }

    fn content<C: VectorCommitment>(
        &self,
        database: &mut Database<C>,
        next: usize,
        first: usize,
        done: usize,
    ) -> Stage {
        let after = self.list.after();
        let (m, bytes) = (after.partition_records(), after.record_bytes());
        let changed = database.previous.as_ref().map_or(&[][..], |previous| &previous.indices);
        let to = changed.len().min(done + STEP_BYTES / GROUP_BYTES.max(bytes));
        let q = changed[first] as usize / m;
        let partition = &database.records[q * after.partition_bytes()..][..after.partition_bytes()];
        let ranges = changed[done..to].iter().map(|index| {
            let start = *index as usize % m * bytes;
            start..start + bytes
        });
        if let Some(Some(content)) = database.content.get_mut(q) {
            content.rehash(partition, ranges);
            if to == changed.len() {
                content.merge(partition);
            }
        }
        if to < changed.len() {
            return Stage::Content { next, first, done: to };
        }
        database.writing = Writing::Update;
        self.partition(next, changed.len())
    }
}

impl<C: VectorCommitment> Database<C> {
    fn buffer(&mut self, buffer: Buffer) -> &mut Vec<u8> {
        match buffer {
            Buffer::Records => &mut self.records,
            Buffer::Auxiliary => &mut self.auxiliary,
        }
    }
}

/// A function that keeps overwritten cells of partition `q`.
fn keeper(cells: &mut Vec<Node>, q: usize) -> impl FnMut(usize, &[u8; CELL_BYTES]) {
    move |cell, old| cells.push(Node { partition: q as u32, place: cell as u32, content: *old })
}
