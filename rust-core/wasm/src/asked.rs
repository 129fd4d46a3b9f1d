//! A state that is asked from and the batch that may be pending on it, the same for every handle that has one. A macro, for
//! what is exported to JavaScript cannot be generic.

macro_rules! asks {
    ($handle:ident) => {
        #[wasm_bindgen]
        impl $handle {
            /// Makes a pending batch under 32 bytes of fresh entropy.
            ///
            /// # Errors
            /// `phase`, `index`, `length`, `condemned`.
            pub fn query(&mut self, indices: &[u32], entropy: &[u8]) -> Outcome<()> {
                let entropy = Zeroizing::new(exactly("entropy", entropy).map_err(thrown)?);
                self.0.query(indices, &entropy).map_err(thrown)
            }

            /// Queries pending.
            #[wasm_bindgen(getter)]
            pub fn pending(&self) -> usize {
                self.0.pending()
            }

            /// The pending batch's stored form.
            ///
            /// # Errors
            /// `phase`.
            #[wasm_bindgen(js_name = pendingBytes)]
            pub fn pending_bytes(&self) -> Outcome<Vec<u8>> {
                self.0.pending_bytes().map_err(thrown)
            }

            /// Takes up a stored batch.
            ///
            /// # Errors
            /// `phase`, `state`, `length`, `index`.
            pub fn resume(&mut self, pending: &[u8]) -> Outcome<()> {
                self.0.resume(pending).map_err(thrown)
            }

            /// Forgets a batch that was neither stored nor sent.
            pub fn withdraw(&mut self) {
                self.0.withdraw();
            }

            /// What the rollback fence knows the pending batch by (32 bytes), the same at every epoch.
            ///
            /// # Errors
            /// `phase`.
            #[wasm_bindgen(js_name = batchName)]
            pub fn batch_name(&self) -> Outcome<Vec<u8>> {
                self.0.batch_name().map(|name| name.to_vec()).map_err(thrown)
            }

            /// Recovers the records and applies the batch.
            ///
            /// # Errors
            /// `phase`, `condemned`; `state` if a record is not the one tagged. The batch is pending as before then.
            pub fn recon(&mut self) -> Outcome<Vec<u8>> {
                self.0.recon().map_err(thrown)
            }

            /// The stored form of what the last `recon` changed; once.
            ///
            /// # Errors
            /// `phase`, if there is none.
            #[wasm_bindgen(js_name = takeEffect)]
            pub fn take_effect(&mut self) -> Outcome<Vec<u8>> {
                self.0.take_effect().map_err(thrown)
            }

            /// Applies the next entry of a journal, an effect or an update.
            ///
            /// # Errors
            /// `phase` while a batch is pending; `state`; `update`.
            pub fn replay(&mut self, entry: &[u8]) -> Outcome<()> {
                self.0.replay(entry).map_err(thrown)
            }

            /// The stored form of all of it, bound to the hash of its manifest (32 bytes).
            ///
            /// # Errors
            /// `phase` while a batch is pending; `condemned`; `length`.
            pub fn checkpoint(&mut self, binding: &[u8]) -> Outcome<StoredFormHandle> {
                let form = exactly("binding", binding).and_then(|binding| self.0.written(&binding));
                form.map(StoredFormHandle::new).map_err(thrown)
            }

            /// (N, ℓ, Q, M) of the epoch it is at.
            #[wasm_bindgen(getter)]
            pub fn layout(&self) -> LayoutHandle {
                LayoutHandle(*self.0.state.layout())
            }

            /// Its random id, 16 bytes.
            #[wasm_bindgen(getter, js_name = hintId)]
            pub fn hint_id(&self) -> Vec<u8> {
                self.0.state.stamp().hint_id.to_vec()
            }

            /// Batches and updates applied since it was made.
            #[wasm_bindgen(getter)]
            #[allow(clippy::cast_precision_loss)] // 2^53 batches take longer than any hint lives
            pub fn version(&self) -> f64 {
                self.0.state.stamp().version as f64
            }

            /// Never to be used again.
            pub fn condemn(&mut self) {
                self.0.state.condemn();
            }

            /// Whether it was condemned.
            #[wasm_bindgen(getter)]
            pub fn condemned(&self) -> bool {
                self.0.state.is_condemned()
            }

            /// Bytes of tags.
            #[wasm_bindgen(getter, js_name = tagBytes)]
            pub fn tag_bytes(&self) -> usize {
                self.0.state.tag_bytes()
            }
        }
    };
}
