//! Receiving partitions, the same for each handle into which a database is downloaded. It is a macro, because exports to
//! JavaScript cannot be generic.

/// `fold` is the method that takes a lane's partition after checking its content hash; `is_folded` tells whether it was
/// taken.
macro_rules! receives_partitions {
    ($handle:ident, $fold:ident, $is_folded:ident) => {
        #[wasm_bindgen]
        impl $handle {
            /// The address of the M·ℓ bytes into which a lane receives its partition.
            ///
            /// # Errors
            /// `index`, `phase`.
            #[wasm_bindgen(js_name = lanePointer)]
            pub fn lane_pointer(&mut self, lane: usize) -> Outcome<usize> {
                self.0.lane_bytes(lane).map(|bytes| bytes.as_ptr() as usize).map_err(thrown)
            }

            /// Begins to receive a partition.
            ///
            /// # Errors
            /// `index`, `phase`, `layout`.
            pub fn begin(&mut self, lane: usize, partition: usize) -> Outcome<()> {
                self.0.begin(lane, partition).map_err(thrown)
            }

            /// Hashes the lane's next bytes.
            ///
            /// # Errors
            /// `index`, `phase`, `length`.
            pub fn absorb(&mut self, lane: usize, bytes: usize) -> Outcome<()> {
                self.0.absorb(lane, bytes).map_err(thrown)
            }

            /// Takes the lane's partition if it has its content hash.
            ///
            /// # Errors
            /// `index`, `phase`, `length`, `layout`.
            pub fn fold(&mut self, lane: usize) -> Outcome<bool> {
                self.0.$fold(lane).map_err(thrown)
            }

            /// Drops what the lane has received so far.
            ///
            /// # Errors
            /// `index`.
            pub fn abandon(&mut self, lane: usize) -> Outcome<()> {
                self.0.abandon(lane).map_err(thrown)
            }

            /// Whether a partition was taken.
            ///
            /// # Errors
            /// `index`.
            #[wasm_bindgen(js_name = isFolded)]
            pub fn is_folded(&self, partition: usize) -> Outcome<bool> {
                self.0.$is_folded(partition).map_err(thrown)
            }
        }
    };
}
