//! Reports of panics. Only wasm-pack's own `main` makes them.
