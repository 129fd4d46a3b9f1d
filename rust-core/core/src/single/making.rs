//! The offline phase. Partitions arrive; each is checked against its content hash in the manifest, and then folded into all
//! hints. The work is divided into steps, so that a page stays responsive. Calls that need finished steps do those that are
//! left, so the result does not depend on who steps.

use zeroize::{Zeroize, Zeroizing};

use super::drawing::{Drawing, Drawn};
use super::edits::Edits;
use super::folding::{Reached, Rows, together};
use super::geometry::Geometry;
use super::hint::Hint;
use super::streams::{Function, Keyed};
use super::table::{NamedRow, RowName, Table};
use super::update::followed;
use crate::bytes::zeroed;
use crate::commitment::tags::TAG_BYTES;
use crate::database::content::CONTENT_HASH_BYTES;
use crate::database::lanes::{LANES, Lanes};
use crate::database::list::UpdateList;
use crate::error::{Error, expect_below, expect_length};
use crate::key::{SECRET_BYTES, Secret};
use crate::layout::{Layout, MAX_QUERIES};
use crate::random::{ChaCha, ENTROPY_BYTES};
use crate::stored::{HINT_ID_BYTES, ID_STREAM, Stamp};

/// The default number of lookups of a hint, if the backups for them take at most 16 MiB.
pub const LOOKUPS: usize = 16_384;
const BACKUPS_BYTES: usize = 16 << 20;
/// The most lookups of a hint.
pub const MAX_LOOKUPS: usize = 1 << 20;

/// The default number of lookups of a database's hints. Each needs a backup.
#[must_use]
pub fn lookups(layout: &Layout) -> usize {
    (BACKUPS_BYTES / (2 * layout.record_bytes())).clamp(MAX_QUERIES, LOOKUPS)
}

// Streams of the entropy of a hint. ([`ID_STREAM`]: its id.)
const SECRET_STREAM: u64 = u64::MAX - 1;
const KEY_STREAM: u64 = u64::MAX - 2;
const POINT_STREAM: u64 = u64::MAX - 3;
const EXTRAS_STREAM: u64 = u64::MAX - 4;

/// A partition that is being folded.
struct Folding {
    lane: usize,
    partition: usize,
    /// the next stripe to fold, and how far it has come, with those folded together with it
    stripe: usize,
    reached: Reached,
    /// tags of its records, and of the zeros after them
    tags: Vec<u64>,
}

impl Drop for Folding {
    fn drop(&mut self) {
        self.tags.zeroize();
    }
}

/// Before the first partition can be folded, hints are drawn.
enum Stage<F> {
    Drawing(Box<(Drawing<ChaCha>, F)>),
    /// while one stage replaces the other; it stays if memory does not suffice
    Taken,
    Made(Box<Hint<F>>),
}

/// Hints in the making. Secret.
pub struct Builder<F = Keyed> {
    pub(crate) layout: Layout,
    pub(crate) geometry: Geometry,
    pub(crate) lookups: usize,
    /// whether tags are stored in rows
    pub(crate) in_rows: bool,
    pub(crate) stamp: Stamp,
    pub(crate) entropy: Zeroizing<[u8; ENTROPY_BYTES]>,
    pub(crate) content_hashes: Vec<u8>,
    pub(crate) folded: Vec<bool>,
    stage: Stage<F>,
    folding: Option<Folding>,
    lanes: Lanes,
    /// M·ℓ bytes and ℓ′ zeros for each lane that was begun
    buffers: [Vec<u8>; LANES],
}

impl Builder {
    /// Begins hints for `lookups` lookups, from 32 bytes of fresh entropy that are used for nothing else. `content_hashes` are Q
    /// times 32 bytes.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are Q hashes; [`Error::Layout`] if one server cannot answer this layout, or memory does
    /// not suffice; [`Error::Index`] for no lookups, or too many.
    pub fn new(
        layout: Layout,
        content_hashes: &[u8],
        lookups: usize,
        entropy: [u8; ENTROPY_BYTES],
    ) -> Result<Self, Error> {
        let geometry = Geometry::of(&layout)?;
        let function = Keyed::new(&entropy, KEY_STREAM);
        Self::hazmat_with((layout, geometry), content_hashes, lookups, entropy, function)
    }
}

impl<F: Function> Builder<F> {
    /// [`Builder::new`] with the caller's geometry and function. For tests that enumerate them.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub fn hazmat_with(
        (layout, geometry): (Layout, Geometry),
        content_hashes: &[u8],
        lookups: usize,
        entropy: [u8; ENTROPY_BYTES],
        function: F,
    ) -> Result<Self, Error> {
        let entropy = Zeroizing::new(entropy);
        expect_length("content hashes", content_hashes, layout.partitions() * CONTENT_HASH_BYTES)?;
        expect_below("lookups", lookups.wrapping_sub(1), MAX_LOOKUPS)?;
        let mut hint_id = [0; HINT_ID_BYTES];
        ChaCha::new(&entropy, ID_STREAM).fill(&mut hint_id);
        let extras = ChaCha::new(&entropy, EXTRAS_STREAM);
        let drawing = Drawing::new(&geometry, geometry.hints() + lookups, geometry.hints(), extras);
        Ok(Builder {
            layout,
            geometry,
            lookups,
            in_rows: geometry.keeps_rows(),
            stamp: Stamp { hint_id, version: 0 },
            entropy,
            content_hashes: content_hashes.to_vec(),
            folded: vec![false; layout.partitions()],
            stage: Stage::Drawing(Box::new((drawing, function))),
            folding: None,
            lanes: Lanes::default(),
            buffers: Default::default(),
        })
    }

    /// Replaces the extras that were drawn, before anything is folded. For tests that enumerate them.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice; [`Error::Length`] unless there are H.
    pub fn hazmat_extras(&mut self, extras: &[u32]) -> Result<(), Error> {
        let hint = self.made()?;
        expect_length("extras", &vec![0; extras.len()], hint.extras.len())?;
        hint.extras.copy_from_slice(extras);
        Ok(())
    }

    /// Decides whether tags are stored in rows, however many there are. For tests, before anything else is called.
    pub fn hazmat_in_rows(&mut self, in_rows: bool) {
        self.in_rows = in_rows;
    }

    /// The next complete row of tags. Store it, then call [`kept`](Self::kept). Until then it stays in memory.
    pub fn next_row(&mut self) -> Option<NamedRow> {
        let last = self.folded.iter().all(|&folded| folded);
        match &mut self.stage {
            Stage::Made(hint) => hint.tags.next_row(&hint.secret, &self.geometry, last),
            _ => None,
        }
    }

    /// Tells that a row is stored. It must stay stored for as long as anything [names](Hint::rows) it.
    pub fn kept(&mut self, name: &RowName) {
        if let Stage::Made(hint) = &mut self.stage {
            hint.tags.kept(name);
        }
    }

    /// The id of the hint in the making.
    #[must_use]
    pub fn hint_id(&self) -> [u8; HINT_ID_BYTES] {
        self.stamp.hint_id
    }

    /// Does a part of the work: drawing, folding a partition that was [kept](Self::keep), applying an [update](Self::update).
    /// Returns whether there is more to do.
    ///
    /// # Errors
    /// [`Error::Layout`] if memory does not suffice.
    pub fn step(&mut self) -> Result<bool, Error> {
        match (&mut self.stage, &mut self.folding) {
            (Stage::Drawing(drawing), _) => {
                let (drawing, function) = &mut **drawing;
                if drawing.is_done() {
                    self.drawn()?;
                } else {
                    drawing.step(&self.geometry, function);
                }
                Ok(true)
            }
            (Stage::Made(hint), _) if hint.editing.is_some() => {
                let more = hint.step();
                Ok(more || self.folding.is_some())
            }
            (Stage::Made(hint), Some(folding)) => {
                let m = self.layout.partition_records();
                let slots = folding.partition * m..(folding.partition + 1) * m;
                let bytes = &self.buffers[folding.lane];
                if folding.tags.is_empty() {
                    folding.tags = vec![0; slots.len() + 1];
                    hint.tags.tag_all(bytes, self.geometry.record_bytes(), &mut folding.tags);
                    return Ok(true);
                }
                let rows = Rows { bytes, tags: &folding.tags, slots };
                let end = self.geometry.stripes_of(&rows.slots).end;
                if folding.stripe < end {
                    let count = together(self.geometry.stripe_records(), self.geometry.record_bytes());
                    let next = end.min(folding.stripe + count);
                    if !hint.fold_stripes(&rows, folding.stripe..next, &mut folding.reached) {
                        folding.reached = Reached::default();
                        folding.stripe = next;
                    }
                    return Ok(true);
                }
                hint.fold_rest(&rows);
                self.folded[folding.partition] = true;
                self.folding = None;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Does all steps that are left.
    fn settle(&mut self) -> Result<(), Error> {
        while self.step()? {}
        Ok(())
    }

    /// Whether hints are still being drawn.
    pub(crate) fn is_drawing(&self) -> bool {
        matches!(self.stage, Stage::Drawing(_))
    }

    /// Ends drawing, and begins hints with what was drawn.
    fn drawn(&mut self) -> Result<(), Error> {
        match &mut self.stage {
            Stage::Drawing(drawing) => {
                let drawn = std::mem::take(&mut drawing.0.drawn);
                self.begin_with(drawn)
            }
            _ => Ok(()),
        }
    }

    /// Begins hints with what was drawn now, or before it was stored.
    pub(crate) fn begin_with(&mut self, drawn: Drawn) -> Result<(), Error> {
        if let Stage::Drawing(drawing) = std::mem::replace(&mut self.stage, Stage::Taken) {
            let (_, function) = *drawing;
            let mut key = Zeroizing::new([0; TAG_BYTES]);
            ChaCha::new(&self.entropy, POINT_STREAM).fill(key.as_mut_slice());
            let tags = if self.in_rows {
                Table::in_rows(*key, &self.geometry)
            } else {
                Table::in_memory(*key, &self.geometry)?
            };
            let hint = Hint::new((self.layout, self.geometry), self.stamp, (self.secret(), function, tags), drawn)?;
            self.stage = Stage::Made(Box::new(hint));
        }
        Ok(())
    }

    fn secret(&self) -> Secret {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        ChaCha::new(&self.entropy, SECRET_STREAM).fill(secret.as_mut_slice());
        Secret::new(*secret)
    }

    /// The hint so far, after all steps that are left.
    pub(crate) fn made(&mut self) -> Result<&mut Hint<F>, Error> {
        self.settle()?;
        match &mut self.stage {
            Stage::Made(hint) => Ok(hint),
            _ => Err(Error::Phase("memory did not suffice; begin another hint")),
        }
    }

    /// The M·ℓ bytes into which a lane receives its partition.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane; [`Error::Phase`] if it was not begun.
    pub fn lane_bytes(&mut self, lane: usize) -> Result<&mut [u8], Error> {
        self.lanes.under_way(lane)?;
        Ok(&mut self.buffers[lane][..self.layout.partition_bytes()])
    }

    /// Begins to receive a partition, from its first byte.
    ///
    /// # Errors
    /// [`Error::Index`] if lane or partition do not exist; [`Error::Phase`] if the partition is folded already, or the other
    /// lane receives it; [`Error::Layout`] if memory does not suffice.
    pub fn begin(&mut self, lane: usize, partition: usize) -> Result<(), Error> {
        let folded = self.is_folded(partition)?;
        expect_below("lane", lane, LANES)?;
        if self.folding.is_some() {
            self.settle()?;
        }
        let bytes = self.layout.partition_bytes() + self.geometry.record_bytes();
        if self.buffers[lane].is_empty() {
            self.buffers[lane] = zeroed(bytes)?;
        }
        self.lanes.begin(lane, partition, folded || self.folded[partition])
    }

    /// Hashes the lane's next `count` bytes, which the caller has written.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if the bytes go beyond the partition.
    pub fn absorb(&mut self, lane: usize, count: usize) -> Result<(), Error> {
        self.lanes.under_way(lane)?;
        self.lanes.absorb(lane, count, &self.buffers[lane][..self.layout.partition_bytes()])
    }

    /// Checks the lane's partition against its content hash. [Steps](Self::step) fold it then. Returns `false` if the hash
    /// differs; then the partition is not folded. The lane is free again either way.
    ///
    /// # Errors
    /// [`Error::Phase`] if the lane was not begun; [`Error::Length`] if bytes are missing; [`Error::Layout`] if memory does
    /// not suffice.
    pub fn keep(&mut self, lane: usize) -> Result<bool, Error> {
        self.lanes.under_way(lane)?;
        self.settle()?;
        let bytes = &self.buffers[lane][..self.layout.partition_bytes()];
        let (partition, genuine) = self.lanes.end(lane, bytes, &self.content_hashes)?;
        if genuine {
            let m = self.layout.partition_records();
            let stripe = partition * m / self.geometry.stripe_records();
            self.folding = Some(Folding { lane, partition, stripe, reached: Reached::default(), tags: Vec::new() });
        }
        Ok(genuine)
    }

    /// Drops what a lane has received so far.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such lane.
    pub fn abandon(&mut self, lane: usize) -> Result<(), Error> {
        self.lanes.abandon(lane)
    }

    /// Whether a partition is folded, or being folded.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such partition.
    pub fn is_folded(&self, partition: usize) -> Result<bool, Error> {
        expect_below("partition", partition, self.folded.len())?;
        Ok(self.folded[partition] || self.folding.as_ref().is_some_and(|folding| folding.partition == partition))
    }

    /// Brings the builder to the next epoch. Folded partitions are updated; the others will be downloaded as they are now.
    /// Downloads of changed partitions are dropped.
    ///
    /// # Errors
    /// [`Error::Update`] if the list starts from another layout, or leads to another geometry; [`Error::Length`] unless there
    /// are Q hashes; [`Error::Layout`] if memory does not suffice. Then nothing has changed.
    pub fn update(&mut self, list: &UpdateList, content_hashes: &[u8]) -> Result<(), Error> {
        let after = *list.after();
        expect_length("content hashes", content_hashes, after.partitions() * CONTENT_HASH_BYTES)?;
        let geometry = followed(&self.layout, &self.geometry, list)?;
        if !self.is_drawing() {
            self.made()?; // folds the partition that was kept last
            let folded = self.folded.clone();
            let hint = self.made()?;
            let edits = Edits::of(list, |q| folded.get(q).is_some_and(|&folded| folded));
            hint.begin_edits(edits);
            (hint.layout, hint.geometry) = (after, geometry);
        }
        (self.layout, self.geometry) = (after, geometry);
        self.folded.resize(after.partitions(), false);
        self.content_hashes = content_hashes.to_vec();
        let changed: Vec<usize> = list.entries().map(|entry| after.place(entry.index).0).collect();
        self.lanes.abandon_partitions(|q| changed.binary_search(&q).is_ok());
        Ok(())
    }

    /// The hint, when all Q partitions are folded and all rows stored. Its version becomes `version`.
    ///
    /// # Errors
    /// [`Error::Phase`] if partitions are missing or rows not stored, with the builder unchanged; [`Error::Layout`].
    pub fn finish_at(mut self, version: u64) -> Result<Hint<F>, (Error, Self)> {
        if let Err(error) = self.settle() {
            return Err((error, self));
        }
        if self.folded.iter().any(|folded| !folded) {
            return Err((Error::Phase("partitions are missing from the hint; fold them first"), self));
        }
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Made(mut hint) if hint.tags.is_whole() => {
                hint.stamp.version = version;
                Ok(*hint)
            }
            stage @ Stage::Made(_) => {
                self.stage = stage;
                Err((Error::Phase("rows of tags are not stored; store them first"), self))
            }
            stage => {
                self.stage = stage;
                Err((Error::Phase("memory did not suffice; begin another hint"), self))
            }
        }
    }
}
