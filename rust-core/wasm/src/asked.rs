//! The calls of states with a pending lookup ([`keyhush_core::scheme::Asked`]), the same for each such handle. It is a macro,
//! because exports to JavaScript cannot be generic.

macro_rules! asks {
    ($handle:ident) => {
        #[wasm_bindgen]
        impl $handle {
            /// Makes a pending lookup from 32 bytes of fresh entropy.
            ///
            /// # Errors
            /// `phase`, `index`, `length`, `condemned`.
            pub fn query(&mut self, indices: &[u32], entropy: &[u8]) -> Outcome<()> {
                let entropy = Zeroizing::new(exactly("entropy", entropy).map_err(thrown)?);
                self.0.query(indices, &entropy).map_err(thrown)
            }

            /// The number of pending queries.
            #[wasm_bindgen(getter)]
            pub fn pending(&self) -> usize {
                self.0.pending()
            }

            /// The pending lookup's stored form.
            ///
            /// # Errors
            /// `phase`.
            #[wasm_bindgen(js_name = pendingBytes)]
            pub fn pending_bytes(&self) -> Outcome<Vec<u8>> {
                self.0.pending_bytes().map_err(thrown)
            }

            /// Reads a stored lookup, which becomes the pending one.
            ///
            /// # Errors
            /// `phase`, `state`, `length`, `index`.
            pub fn resume(&mut self, pending: &[u8]) -> Outcome<()> {
                self.0.resume(pending).map_err(thrown)
            }

            /// Drops the pending lookup. It must have been neither stored nor sent.
            pub fn withdraw(&mut self) {
                self.0.withdraw();
            }

            /// The name (32 bytes) under which the rollback fence knows the pending lookup. It is the same at every epoch.
            ///
            /// # Errors
            /// `phase`.
            #[wasm_bindgen(js_name = pendingName)]
            pub fn pending_name(&self) -> Outcome<Vec<u8>> {
                self.0.pending_name().map(|name| name.to_vec()).map_err(thrown)
            }

            /// Recovers the records and applies the lookup.
            ///
            /// # Errors
            /// `phase`, `condemned`; `state` if a record does not match its tag. Then the lookup is still pending.
            pub fn recon(&mut self) -> Outcome<Vec<u8>> {
                self.0.recon().map_err(thrown)
            }

            /// The journal entry of the last `recon`. It can be taken once.
            ///
            /// # Errors
            /// `phase` if there is none.
            #[wasm_bindgen(js_name = takeEffect)]
            pub fn take_effect(&mut self) -> Outcome<Vec<u8>> {
                self.0.take_effect().map_err(thrown)
            }

            /// Applies the next entry of a journal: an effect or an update.
            ///
            /// # Errors
            /// `phase` while a lookup is pending; `state`; `update`.
            pub fn replay(&mut self, entry: &[u8]) -> Outcome<()> {
                self.0.replay(entry).map_err(thrown)
            }

            /// The stored form of the state, bound to the hash of its manifest (32 bytes).
            ///
            /// # Errors
            /// `phase` while a lookup is pending; `condemned`; `length`.
            pub fn checkpoint(&mut self, binding: &[u8]) -> Outcome<StoredFormHandle> {
                let form = exactly("binding", binding).and_then(|binding| self.0.written(&binding));
                form.map(StoredFormHandle::new).map_err(thrown)
            }

            /// The layout at its epoch.
            #[wasm_bindgen(getter)]
            pub fn layout(&self) -> LayoutHandle {
                LayoutHandle(*self.0.state.layout())
            }

            /// Its random id: 16 bytes.
            #[wasm_bindgen(getter, js_name = hintId)]
            pub fn hint_id(&self) -> Vec<u8> {
                self.0.state.stamp().hint_id.to_vec()
            }

            /// The number of lookups and updates applied since it was made.
            #[wasm_bindgen(getter)]
            #[allow(clippy::cast_precision_loss)] // 2^53 lookups take longer than any hint lives
            pub fn version(&self) -> f64 {
                self.0.state.stamp().version as f64
            }

            /// Marks the state as unusable, for good.
            pub fn condemn(&mut self) {
                self.0.state.condemn();
            }

            /// Whether it is condemned.
            #[wasm_bindgen(getter)]
            pub fn condemned(&self) -> bool {
                self.0.state.is_condemned()
            }

            /// Bytes of tags in memory.
            #[wasm_bindgen(getter, js_name = tagBytes)]
            pub fn tag_bytes(&self) -> usize {
                self.0.state.tag_bytes()
            }
        }
    };
}
