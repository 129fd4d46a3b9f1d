// The Rust core as JavaScript sees it: what `rust-core/wasm` exports, and nothing it does not, in a file for each build
// that adds to it (base, instant, client, single, server). Everything crosses as flat bytes; no call is made per record.
// Handles own WASM memory: `free()`.
//
// Every method that can refuse its input throws an `Error` with a stable `code` (see CoreErrorCode).
// A thrown `WebAssembly.RuntimeError` is a trap: the whole instance is dead. Report it with `discardCore`, which
// makes every handle of that instance unusable and the next `loadCore()` start a fresh one.

export type * from './core/base.js'
export type * from './core/client.js'
export type * from './core/costs.js'
export type * from './core/instant.js'
export type * from './core/server.js'
export type * from './core/single.js'
