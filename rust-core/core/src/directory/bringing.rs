//! The padded blocks of one epoch's directory brought to the next one's, in steps of bounded work: what has not changed is not
//! touched.

use super::table::Directory;
use crate::bytes::is_zero;
use crate::commitment::Merkle;
use crate::database::flat::Database;
use crate::database::list::{Kind, UpdateList};
use crate::database::write::{STEP_BYTES, Write};
use crate::error::Error;

/// What there is to write, as it is being found.
pub struct Bringing {
    /// numbers of blocks that differ
    changed: Vec<u32>,
    stage: Stage,
}

/// What the next step goes on with.
enum Stage {
    /// compares blocks, from a number on
    Compare(usize),
    /// lists those that differ, from the so manieth on
    List(usize, UpdateList),
}

impl Bringing {
    /// # Errors
    /// [`Error::Phase`] if these are the blocks of another generation.
    pub fn new(directory: &Directory, blocks: &Database<Merkle>) -> Result<Self, Error> {
        if *blocks.layout() != directory.shape.layout()? {
            return Err(Error::Phase("these are the blocks of another generation's directory"));
        }
        Ok(Bringing { changed: Vec::new(), stage: Stage::Compare(0) })
    }

    /// Goes on, always with the same directory and blocks; whether there is more to do.
    ///
    /// # Errors
    /// [`Error::Index`] for other blocks.
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

    /// What is to be written into the blocks, once all steps were made.
    ///
    /// # Errors
    /// [`Error::Phase`] before that.
    pub fn finish(self) -> Result<Write, Error> {
        match self.stage {
            Stage::List(to, list) if to == self.changed.len() => Ok(Write::new(list)),
            _ => Err(Error::Phase("there are steps to be made")),
        }
    }
}

impl Directory {
    /// Brings the blocks of the epoch before to this directory: what has not changed is not touched.
    ///
    /// # Errors
    /// [`Error::Phase`] if these are the blocks of another generation; [`Error::Layout`] if memory does not suffice.
    pub fn bring(&self, database: &mut Database<Merkle>) -> Result<(), Error> {
        let mut bringing = Bringing::new(self, database)?;
        while bringing.step(self, database)? {}
        bringing.finish()?.run(database).map(drop)
    }
}
