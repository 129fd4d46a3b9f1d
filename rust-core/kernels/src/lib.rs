//! Loops over whole databases: what a server does for one instant lookup costs as much as reading all it has. They work
//! on slices that are handed in and allocate nothing, without `std`: so the same code runs inside the core and in worker
//! threads that have nothing but the core's memory (packages/wasm/src/worker.ts).

#![no_std]

pub mod dpf;
pub mod linear;
pub mod prg;
pub mod random;
pub mod scan;
pub mod streams;
mod words;
