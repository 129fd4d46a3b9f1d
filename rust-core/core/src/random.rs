//! Uniform numbers; they are drawn in kernels too, so that is where they stand.

pub use keyhush_kernels::random::*;
