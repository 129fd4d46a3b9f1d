//! The core's decoders, as functions that take any bytes. A decoder must never panic, and must not allocate more memory than
//! the bytes are worth. What it accepts, it must write back unchanged.

#![forbid(unsafe_code)]

pub mod decoders;
