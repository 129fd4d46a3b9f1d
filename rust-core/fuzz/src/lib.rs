//! The core's decoders, each as a function of any bytes at all. They must refuse or accept: never panic, never take
//! memory that the bytes do not pay for, and what they accept they must write as it was.

#![forbid(unsafe_code)]

pub mod decoders;
