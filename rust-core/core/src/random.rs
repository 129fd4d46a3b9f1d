//! Uniform random numbers. The code is in `kernels`, which draws them too.

pub use keyhush_kernels::random::*;
