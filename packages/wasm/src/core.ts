// The Rust core as JavaScript sees it: what `rust-core/wasm` exports. There is a file for each build that adds to the one before
// (base, instant, client, single, server). All data are flat bytes, and no call is made for each record. Handles own WASM
// memory; free them with `free()`.
//
// Every method that can refuse its input throws an `Error` with a stable `code` (see CoreErrorCode).
// A thrown `WebAssembly.RuntimeError` is a trap: the whole instance is unusable. Call `discardInstance` then. Every handle of the
// instance is unusable from then on, and the next `loadCore()` starts a fresh instance.

export type * from './core/base.js'
export type * from './core/client.js'
export type * from './core/costs.js'
export type * from './core/instant.js'
export type * from './core/one-server.js'
export type * from './core/server.js'
export type * from './core/single.js'
