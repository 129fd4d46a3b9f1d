//! All integration tests of the core are one program: it is linked once.

mod any_of_k;
mod common;
mod corpora;
mod cost;
mod forms;
mod instant;
mod judged;
mod living;
mod local;
mod one_server;
mod one_server_vectors;
mod packed;
mod privacy;
mod scheme;
mod sharded;
mod single;
mod single_privacy;
mod state;
mod steps;
mod structure;
mod tags;
mod vectors;

#[path = "../../fuzz/src/decoders.rs"]
#[allow(dead_code)] // the fuzzer runs them
mod decoders;
