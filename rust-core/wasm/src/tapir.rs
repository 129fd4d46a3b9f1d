//! Mode `full`: hints in the making, hints, their queries, and their stored forms.

use keyhush_core::commitment::Merkle;
use keyhush_core::database::list::UpdateList;
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::role_of;
use keyhush_core::tapir::recon::judged;
use keyhush_core::tapir::update::update_builder;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

use crate::proofs::proofs_named;
use crate::stored::{ReceivedFormHandle, StoredFormHandle};
use crate::{LayoutHandle, Outcome, WipesStack, exactly, thrown};

/// A hint in the making.
#[wasm_bindgen]
pub struct HintBuilderHandle(HintBuilder, WipesStack);

receives_partitions!(HintBuilderHandle, fold, is_folded);

#[wasm_bindgen]
impl HintBuilderHandle {
    /// Begins a hint from 32 bytes of fresh entropy. Only a hint with Merkle proofs reads commitments.
    ///
    /// # Errors
    /// `length`, `layout`, `index` for an unknown kind of proof.
    #[wasm_bindgen(constructor)]
    pub fn new(
        layout: &LayoutHandle,
        commitments: &[u8],
        content_hashes: &[u8],
        entropy: &[u8],
        proofs: Option<String>,
    ) -> Outcome<HintBuilderHandle> {
        let proofs = proofs_named(proofs).map_err(thrown)?;
        exactly("entropy", entropy)
            .and_then(|entropy| HintBuilder::new(layout.0, proofs, commitments, content_hashes, entropy))
            .map(|builder| HintBuilderHandle(builder, WipesStack))
            .map_err(thrown)
    }

    /// The kind of proof that the hint's answers must have.
    #[wasm_bindgen(getter, unchecked_return_type = "import('@keyhush/protocol').Proofs")]
    pub fn proofs(&self) -> String {
        self.0.proofs().name().into()
    }

    /// Updates what is folded to the next epoch. Downloads of changed partitions are dropped. A hint with tags ignores
    /// commitments.
    ///
    /// # Errors
    /// `update`, `state`, `layout`, `length`; then nothing has changed.
    pub fn update(
        &mut self,
        list: &[u8],
        before: &LayoutHandle,
        after: &LayoutHandle,
        commitments: &[u8],
        content_hashes: &[u8],
    ) -> Outcome<()> {
        UpdateList::decode(list, before.0, after.0)
            .and_then(|list| update_builder(&mut self.0, &list, commitments, content_hashes))
            .map_err(thrown)
    }

    /// The id of the hint in the making: 16 bytes.
    #[wasm_bindgen(getter, js_name = hintId)]
    pub fn hint_id(&self) -> Vec<u8> {
        self.0.hint_id().to_vec()
    }

    /// The number of folded partitions.
    #[wasm_bindgen(getter)]
    pub fn folded(&self) -> usize {
        self.0.folded()
    }

    /// The stored form of the builder, bound to the hash of its manifest (32 bytes).
    ///
    /// # Errors
    /// `length`.
    pub fn partial(&self, binding: &[u8]) -> Outcome<StoredFormHandle> {
        exactly("binding", binding).map(|binding| StoredFormHandle::new(self.0.written(&binding))).map_err(thrown)
    }

    /// Reads a stored builder of the manifest with these values.
    ///
    /// # Errors
    /// `state`, `length`, `layout`.
    pub fn resume(
        partial: &ReceivedFormHandle,
        layout: &LayoutHandle,
        commitments: &[u8],
        content_hashes: &[u8],
        binding: &[u8],
    ) -> Outcome<HintBuilderHandle> {
        exactly("binding", binding)
            .and_then(|binding| HintBuilder::decode(&partial.0, layout.0, commitments, content_hashes, &binding))
            .map(|builder| HintBuilderHandle(builder, WipesStack))
            .map_err(thrown)
    }

    /// The client's state. Its version becomes `version`, the number of updates applied to the builder; 0 if it is not given.
    ///
    /// # Errors
    /// `phase` if partitions are missing; the handle is used up all the same.
    pub fn finish(self, version: Option<u32>) -> Outcome<ClientHandle> {
        let hint = self.0.finish_at(version.unwrap_or(0).into()).map_err(|(error, _)| thrown(error))?;
        Ok(ClientHandle::new(hint))
    }
}

/// A hint, and at most one pending lookup.
#[wasm_bindgen]
pub struct ClientHandle(Asked<Merkle, Hint>, WipesStack);

impl ClientHandle {
    pub(crate) fn new(hint: Hint) -> Self {
        ClientHandle(Asked::new(hint), WipesStack)
    }
}

asks!(ClientHandle);

#[wasm_bindgen]
impl ClientHandle {
    /// The bytes for the retrieve server.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = retrieveVectors)]
    pub fn retrieve_vectors(&self) -> Outcome<Vec<u8>> {
        self.0.request(0).map_err(thrown)
    }

    /// The bytes for the refresh server.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = refreshVectors)]
    pub fn refresh_vectors(&self) -> Outcome<Vec<u8>> {
        self.0.request(1).map_err(thrown)
    }

    /// Verifies a whole answer. `false`: it is forged, and the hint is condemned.
    ///
    /// # Errors
    /// `phase`, `length`, `condemned`, `index` for a role that is neither 0 nor 1.
    pub fn verify(&mut self, role: u32, entries: &[u8]) -> Outcome<bool> {
        self.0.verify(role as usize, entries).map(|verdict| verdict == Verdict::Genuine).map_err(thrown)
    }

    /// Takes an answer that the caller has verified, and the verdict. `false` condemns the hint.
    ///
    /// # Errors
    /// `phase`, also for a hint that verifies answers itself; `length`, `condemned`, `index` as `verify`.
    pub fn judged(&mut self, role: u32, answer: &[u8], genuine: bool) -> Outcome<bool> {
        self.0
            .with_pending(|hint, pending| judged::<Merkle>(hint, pending, role_of(role as usize)?, answer, genuine))
            .map_err(thrown)
    }

    /// Brings the hint and its pending lookup to the next epoch, with 32 bytes of fresh entropy. Returns the journal entry. A hint
    /// with tags ignores commitments.
    ///
    /// # Errors
    /// `update`, `state`, `layout`, `length`, `condemned`; then nothing has changed.
    pub fn update(
        &mut self,
        list: &[u8],
        after: &LayoutHandle,
        commitments: &[u8],
        entropy: &[u8],
    ) -> Outcome<Vec<u8>> {
        let entropy = Zeroizing::new(exactly("entropy", entropy).map_err(thrown)?);
        self.0.update(list, after.0, commitments, &entropy).map_err(thrown)
    }

    /// Sets the commitments of the epoch to which `replay` of an update has led.
    ///
    /// # Errors
    /// `length`.
    pub fn rebind(&mut self, commitments: &[u8]) -> Outcome<()> {
        self.0.state.rebind(commitments).map_err(thrown)
    }

    /// Reads a stored hint of the manifest with these values.
    ///
    /// # Errors
    /// `state`, `length`.
    pub fn reopen(
        checkpoint: &ReceivedFormHandle,
        layout: &LayoutHandle,
        commitments: &[u8],
        binding: &[u8],
    ) -> Outcome<ClientHandle> {
        exactly("binding", binding)
            .and_then(|binding| Hint::decode(&checkpoint.0, layout.0, commitments, &binding))
            .map(ClientHandle::new)
            .map_err(thrown)
    }

    /// The kind of proof that its answers must have.
    #[wasm_bindgen(getter, unchecked_return_type = "import('@keyhush/protocol').Proofs")]
    pub fn proofs(&self) -> String {
        self.0.state.proofs().name().into()
    }

    /// Bytes of parities.
    #[wasm_bindgen(getter, js_name = hintBytes)]
    pub fn hint_bytes(&self) -> usize {
        self.0.state.parity_bytes()
    }

    /// Bytes of permutations.
    #[wasm_bindgen(getter, js_name = permutationBytes)]
    pub fn permutation_bytes(&self) -> usize {
        self.0.state.permutation_bytes()
    }
}
