//! Mode `single`: hints for lookups with one server.

use keyhush_core::commitment::Merkle;
use keyhush_core::database::list::UpdateList;
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::single::NamedRow;
use keyhush_core::single::geometry::Geometry;
use keyhush_core::single::hint::Hint;
use keyhush_core::single::making::{Builder, lookups};
use keyhush_core::single::state::checkpoint::Reopening;
use keyhush_core::stored::Form;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

use crate::stored::{ReceivedFormHandle, StoredFormHandle};
use crate::{LayoutHandle, Outcome, WipesStack, exactly, thrown, whole};

/// Four numbers: the bytes of a query to one server, the bytes of its answer, the most queries of a request, and the default
/// number of lookups of hints.
///
/// # Errors
/// `layout` if one server cannot answer this layout.
#[wasm_bindgen(js_name = singleBytes)]
pub fn single_bytes(layout: &LayoutHandle) -> Outcome<Vec<u32>> {
    let geometry = Geometry::of(&layout.0).map_err(thrown)?;
    let numbers = [geometry.query_bytes(), geometry.answer_bytes(), geometry.max_queries(), lookups(&layout.0)];
    Ok(numbers.map(|number| number as u32).to_vec())
}

/// Whether hints made for one layout also work with another one of its generation.
///
/// # Errors
/// `layout` if one server cannot answer the first layout.
#[wasm_bindgen(js_name = singleFollows)]
pub fn single_follows(before: &LayoutHandle, after: &LayoutHandle) -> Outcome<bool> {
    let geometry = Geometry::of(&before.0).map_err(thrown)?;
    Ok(geometry.followed(&after.0).is_some())
}

fn named(row: NamedRow) -> Vec<u8> {
    let NamedRow { name, bytes } = row;
    [&name[..], &bytes].concat()
}

/// Hints in the making.
#[wasm_bindgen]
pub struct SingleBuilderHandle(Builder, WipesStack);

receives_partitions!(SingleBuilderHandle, keep, is_folded);

#[wasm_bindgen]
impl SingleBuilderHandle {
    /// Begins hints for `lookups` lookups, from 32 bytes of fresh entropy. `in_rows` is for tests: it says where tags are stored.
    /// Otherwise their number decides.
    ///
    /// # Errors
    /// `length`, `layout`, `index`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        layout: &LayoutHandle,
        content_hashes: &[u8],
        entropy: &[u8],
        lookups: Option<f64>,
        in_rows: Option<bool>,
    ) -> Outcome<SingleBuilderHandle> {
        let lookups = lookups.map_or(self::lookups(&layout.0), |lookups| whole(lookups) as usize);
        exactly("entropy", entropy)
            .and_then(|entropy| Builder::new(layout.0, content_hashes, lookups, entropy))
            .map(|mut builder| {
                if let Some(in_rows) = in_rows {
                    builder.hazmat_in_rows(in_rows);
                }
                SingleBuilderHandle(builder, WipesStack)
            })
            .map_err(thrown)
    }

    /// Reads a stored form of `partial`, of the manifest with these values.
    ///
    /// # Errors
    /// `state`, `length`, `layout`.
    pub fn resume(
        partial: &ReceivedFormHandle,
        layout: &LayoutHandle,
        content_hashes: &[u8],
        binding: &[u8],
    ) -> Outcome<SingleBuilderHandle> {
        exactly("binding", binding)
            .and_then(|binding| Builder::decode(&partial.0, layout.0, content_hashes, &binding))
            .map(|builder| SingleBuilderHandle(builder, WipesStack))
            .map_err(thrown)
    }

    /// The id of the hint in the making: 16 bytes.
    #[wasm_bindgen(getter, js_name = hintId)]
    pub fn hint_id(&self) -> Vec<u8> {
        self.0.hint_id().to_vec()
    }

    /// Does a part of the work. Returns whether there is more to do.
    ///
    /// # Errors
    /// `layout`.
    pub fn step(&mut self) -> Outcome<bool> {
        self.0.step().map_err(thrown)
    }

    /// The name (16 bytes) of the next row of tags to be stored, and the row; empty if there is none.
    pub fn row(&mut self) -> Vec<u8> {
        self.0.next_row().map_or_else(Vec::new, named)
    }

    /// Tells that the row of this name is stored.
    ///
    /// # Errors
    /// `length`.
    pub fn kept(&mut self, name: &[u8]) -> Outcome<()> {
        exactly("name", name).map(|name| self.0.kept(&name)).map_err(thrown)
    }

    /// Brings the builder to the next epoch.
    ///
    /// # Errors
    /// `update`, `length`, `layout`; then nothing has changed.
    pub fn update(
        &mut self,
        list: &[u8],
        before: &LayoutHandle,
        after: &LayoutHandle,
        content_hashes: &[u8],
    ) -> Outcome<()> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| self.0.update(&list, content_hashes))
            .map_err(thrown)
    }

    /// The stored form of the builder, bound to the hash of its manifest (32 bytes).
    ///
    /// # Errors
    /// `length`, `layout`.
    pub fn partial(&mut self, binding: &[u8]) -> Outcome<StoredFormHandle> {
        let form = exactly("binding", binding).and_then(|binding| self.0.written(&binding));
        form.map(StoredFormHandle::new).map_err(thrown)
    }

    /// The client's state. Its version becomes `version`.
    ///
    /// # Errors
    /// `phase` if partitions are missing; the handle is used up all the same.
    pub fn finish(self, version: u32) -> Outcome<SingleHandle> {
        let hint = self.0.finish_at(version.into()).map_err(|(error, _)| thrown(error))?;
        Ok(SingleHandle(Asked::new(hint), WipesStack))
    }
}

/// Stored hints that are being read.
#[wasm_bindgen]
pub struct SingleReopeningHandle(Reopening, WipesStack);

#[wasm_bindgen]
impl SingleReopeningHandle {
    /// Begins to read stored hints of the manifest with these values.
    ///
    /// # Errors
    /// `state`, `length`, `layout`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        checkpoint: &ReceivedFormHandle,
        layout: &LayoutHandle,
        binding: &[u8],
    ) -> Outcome<SingleReopeningHandle> {
        exactly("binding", binding)
            .and_then(|binding| Reopening::new(&Form::from(&checkpoint.0), layout.0, &binding))
            .map(|reopening| SingleReopeningHandle(reopening, WipesStack))
            .map_err(thrown)
    }

    /// Reads more of the same stored form. Returns whether there is more.
    ///
    /// # Errors
    /// `state`, `layout`.
    pub fn step(&mut self, checkpoint: &ReceivedFormHandle) -> Outcome<bool> {
        self.0.step(&Form::from(&checkpoint.0)).map_err(thrown)
    }

    /// The client's state, after the last step.
    ///
    /// # Errors
    /// `phase` before it; `state`. The handle is used up all the same.
    pub fn finish(self) -> Outcome<SingleHandle> {
        self.0.finish().map(|hint| SingleHandle(Asked::new(hint), WipesStack)).map_err(thrown)
    }
}

/// Hints, and at most one pending lookup.
#[wasm_bindgen]
pub struct SingleHandle(Asked<Merkle, Hint>, WipesStack);

asks!(SingleHandle);

#[wasm_bindgen]
impl SingleHandle {
    /// The bytes for the server.
    ///
    /// # Errors
    /// `phase`.
    pub fn request(&self) -> Outcome<Vec<u8>> {
        self.0.request(0).map_err(thrown)
    }

    /// Verifies both parities of every query. `false`: one is forged, and the state is condemned.
    ///
    /// # Errors
    /// `phase`, `length`, `condemned`.
    pub fn verify(&mut self, parities: &[u8]) -> Outcome<bool> {
        self.0.verify(0, parities).map(|verdict| verdict == Verdict::Genuine).map_err(thrown)
    }

    /// The queries of the last `recon` whose records no hint contained. Those records are zeros.
    #[wasm_bindgen(getter)]
    pub fn missed(&self) -> usize {
        self.0.missed()
    }

    /// Brings hints and the pending lookup to the next epoch. Returns the journal entry.
    ///
    /// # Errors
    /// `update`, `state`, `condemned`; then nothing has changed.
    pub fn update(&mut self, list: &[u8], after: &LayoutHandle) -> Outcome<Vec<u8>> {
        self.0.update(list, after.0, &[], &[0; 32]).map_err(thrown)
    }

    /// The names (16 bytes each) of the rows of tags that are still needed to judge the answer: one for each query.
    ///
    /// # Errors
    /// `phase`.
    pub fn wants(&mut self) -> Outcome<Vec<u8>> {
        let wanted = self.0.with_pending(|hint, pending| Ok(pending.wants(hint)));
        wanted.map(|names| names.as_flattened().to_vec()).map_err(thrown)
    }

    /// Passes the bytes of the first of these rows.
    ///
    /// # Errors
    /// `state` if it is another row; `phase`.
    pub fn hold(&mut self, row: &[u8]) -> Outcome<()> {
        self.0.with_pending(|hint, pending| pending.hold(hint, row)).map_err(thrown)
    }

    /// The names of all its rows of tags.
    pub fn rows(&self) -> Vec<u8> {
        self.0.state.rows().as_flattened().to_vec()
    }

    /// The name of a row to renew before a checkpoint is written; empty if there is none. `begun`: some were renewed already.
    pub fn stale(&self, begun: bool) -> Vec<u8> {
        self.0.state.stale(begun).map_or_else(Vec::new, |name| name.to_vec())
    }

    /// Makes the row that replaces it. Returns its name and the row, to be stored.
    ///
    /// # Errors
    /// `state` if `row` is another row; `phase`, also while a lookup is pending.
    pub fn renewed(&mut self, row: &[u8]) -> Outcome<Vec<u8>> {
        self.0.renewed(row).map(named).map_err(thrown)
    }

    /// Replaces the row by the renewed one, which is stored now.
    ///
    /// # Errors
    /// `phase`, also while a lookup is pending; then nothing has changed.
    pub fn renew(&mut self) -> Outcome<()> {
        self.0.renew().map_err(thrown)
    }

    /// Does a part of the work that an update has left. Returns whether there is more. Calls that need it finished do what is
    /// left.
    pub fn step(&mut self) -> bool {
        self.0.state.step()
    }

    /// The number of lookups it was made for.
    #[wasm_bindgen(getter)]
    pub fn lookups(&self) -> usize {
        self.0.state.lookups()
    }

    /// The number of lookups left.
    #[wasm_bindgen(getter)]
    pub fn left(&self) -> usize {
        self.0.state.left()
    }

    /// Bytes of hints and backups.
    #[wasm_bindgen(getter, js_name = hintBytes)]
    pub fn hint_bytes(&self) -> usize {
        self.0.state.hint_bytes()
    }
}
