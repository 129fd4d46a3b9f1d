//! Updates the database of padded blocks to the next epoch's directory, in steps of bounded work. Blocks that have not
//! changed are not touched.

use super::table::Directory;
use crate::bytes::is_zero;
use crate::commitment::Merkle;
use crate::database::flat::Database;
use crate::database::list::{Kind, UpdateList};
use crate::database::write::{STEP_BYTES, Write};
use crate::error::Error;

/// An update of blocks, in the making.
pub struct Bringing {
    /// numbers of the blocks that differ
    changed: Vec<u32>,
    stage: Stage,
}

/// What the next step does.
enum Stage {
    /// compares blocks, from this number on
    Compare(usize),
    /// lists the blocks that differ, from this place in `changed` on
    List(usize, UpdateList),
}

impl Bringing {
    /// Begins to update `blocks` to `directory`.
    ///
    /// # Errors
    /// [`Error::Phase`] if these are the blocks of another generation.
    pub fn new(directory: &Directory, blocks: &Database<Merkle>) -> Result<Self, Error> {
        if *blocks.layout() != directory.shape.layout()? {
            return Err(Error::Phase("these are the blocks of another generation's directory"));
        }
        Ok(Bringing { changed: Vec::new(), stage: Stage::Compare(0) })
    }

    /// Does the next step. Returns whether there is more to do. Pass the same directory and blocks each time.
    ///
    /// # Errors
    /// [`Error::Index`] if the blocks are too few.
    pub fn step(&mut self, directory: &Directory, blocks: &Database<Merkle>) -> Result<bool, Error> {
        let (count, step) = (directory.shape.blocks(), (STEP_BYTES / directory.shape.block_bytes()).max(1));
        match &mut self.stage {
            Stage::Compare(from) => {
                let to = count.min(*from + step);
                for number in *from..to {
                    let (block, before) = (directory.block_bytes(number), blocks.record(number)?);
                    let (inside, padding) = before.split_at(block.len());
                    if inside != block || !is_zero(padding) {
                        self.changed.push(number as u32);
                    }
                }
                *from = to;
                if to == count {
                    let layout = *blocks.layout();
                    self.stage = Stage::List(0, UpdateList::new(layout, layout, self.changed.len()));
                }
                Ok(true)
            }
            Stage::List(from, list) => {
                let to = self.changed.len().min(*from + step);
                for &number in &self.changed[*from..to] {
                    let mut padded = directory.block_bytes(number as usize).to_vec();
                    padded.resize(directory.shape.block_bytes(), 0);
                    list.push(number, Kind::Edit, blocks.record(number as usize)?, &padded);
                }
                *from = to;
                Ok(to < self.changed.len())
            }
        }
    }

    /// The write into the blocks, after the last step.
    ///
    /// # Errors
    /// [`Error::Phase`] if steps are left.
    pub fn finish(self) -> Result<Write, Error> {
        match self.stage {
            Stage::List(to, list) if to == self.changed.len() => Ok(Write::new(list)),
            _ => Err(Error::Phase("listing the changed blocks is not done; make its other steps first")),
        }
    }
}

impl Directory {
    /// Updates the previous epoch's blocks to this directory. Blocks that have not changed are not touched.
    ///
    /// # Errors
    /// [`Error::Phase`] if these are the blocks of another generation; [`Error::Layout`] if memory does not suffice.
    pub fn bring(&self, database: &mut Database<Merkle>) -> Result<(), Error> {
        let mut bringing = Bringing::new(self, database)?;
        while bringing.step(self, database)? {}
        bringing.finish()?.run(database).map(drop)
    }
}
