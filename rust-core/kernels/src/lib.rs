//! Inner loops of the core. Some run over whole databases: a server reads all of its database for one instant lookup. They
//! work on slices of the caller, allocate nothing and do without `std`. So the same code runs inside the core and in worker
//! threads, which have only the core's memory (packages/wasm/src/worker.ts).

#![no_std]

pub mod dpf;
mod eight;
pub mod gauss;
pub mod linear;
pub mod modular;
pub mod prg;
pub mod random;
pub mod scan;
pub mod shape;
pub mod streams;
mod words;
pub mod xor;
