//! The kernels as a WebAssembly module for worker threads (packages/wasm/src/worker.ts).
//!
//! A server's worker threads share the memory of the core's instance. They run the kernels and nothing else of the core:
//! Rust's `std` for WebAssembly, its allocator above all, is built for one thread. So this module imports the memory and has
//! no allocator. Its constants lie in bytes that the core leaves free (rust-core/wasm/build.rs); tools/build-wasm.mjs checks
//! that they fit. Its stack is memory that the core has set aside: the caller sets `__stack_pointer` to the end of that
//! memory before the first call.
//!
//! Until the worker reports that it is done, the core touches neither the bytes of a pass nor the database.

#![cfg_attr(target_arch = "wasm32", no_std)]

#[cfg(target_arch = "wasm32")]
mod exports {
    use core::slice::{from_raw_parts, from_raw_parts_mut};

    use keyhush_kernels::dpf::{Key, domain_log};
    use keyhush_kernels::scan::{Node, Overwritten, PASS_QUERIES, Scratch};
    use keyhush_kernels::shape::Shape;

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }

    /// An address and a length in the core's memory.
    #[repr(C)]
    struct Place(u32, u32);

    impl Place {
        /// # Safety
        /// The bytes must exist, and nobody may write them while the slice lives.
        unsafe fn bytes<'a>(&self) -> &'a [u8] {
            // SAFETY: the caller guarantees it.
            unsafe { from_raw_parts(self.0 as *const u8, self.1 as usize) }
        }

        /// # Safety
        /// As for `bytes`, and nobody may read them either.
        unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
            // SAFETY: the caller guarantees it.
            unsafe { from_raw_parts_mut(self.0 as *mut u8, self.1 as usize) }
        }
    }

    /// A descriptor, as `instant::pass::Pass::descriptor` of the core writes it.
    #[repr(C)]
    pub struct Pass {
        partitions: u32,
        partition_records: u32,
        record_bytes: u32,
        depth: u32,
        group_log: u32,
        queries: u32,
        records: Place,
        trees: Place,
        scratch: Place,
        /// a bit for each query: whether it is for the previous epoch
        previous: u32,
        /// 1 if queries are vectors, 0 if they are keys
        vectors: u32,
        /// indices (u32), records (bytes) and nodes
        overwritten: [Place; 3],
        /// for each query its key or vector, and the number of groups of its epoch
        shares: [(Place, u32); PASS_QUERIES],
    }

    /// Does all steps of a pass over instant lookups. Returns 1, or 0 for a malformed descriptor.
    ///
    /// # Safety
    /// `pass` is the address of a descriptor. Until this returns, its pass must live, its database must not change, and nobody
    /// else may work on the pass.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn run(pass: *const Pass) -> u32 {
        // SAFETY: the caller guarantees it.
        let (pass, records, trees, scratch) = unsafe {
            let pass = &*pass;
            (pass, pass.records.bytes(), pass.trees.bytes(), pass.scratch.bytes_mut())
        };
        let shape = Shape {
            partitions: pass.partitions as usize,
            partition_records: pass.partition_records as usize,
            record_bytes: pass.record_bytes as usize,
            depth: pass.depth,
            group_log: pass.group_log,
        };
        let queries = pass.queries as usize;
        let Some(mut scratch) = Scratch::new(shape, queries, scratch) else { return 0 };
        for (number, (share, groups)) in pass.shares.iter().take(queries).enumerate() {
            // SAFETY: the caller guarantees it.
            let bytes = unsafe { share.bytes() };
            let groups = *groups as usize;
            if pass.vectors == 1 {
                scratch.select_vector(number, bytes);
                continue;
            }
            let Some(key) = Key::decode(bytes, domain_log(groups)) else { return 0 };
            scratch.select(number, &key, groups);
        }
        for step in 0..shape.steps() {
            scratch.step(step, records, trees);
        }
        let Ok(previous) = u16::try_from(pass.previous) else { return 0 };
        if previous != 0 {
            let [indices, old_records, nodes] = &pass.overwritten;
            // SAFETY: the caller guarantees it. The addresses are those of the core's slices of u32 and of nodes, so they are aligned.
            let overwritten = unsafe {
                Overwritten {
                    indices: from_raw_parts(indices.0 as *const u32, indices.1 as usize),
                    records: old_records.bytes(),
                    nodes: from_raw_parts(nodes.0 as *const Node, nodes.1 as usize),
                }
            };
            for q in 0..shape.partitions {
                scratch.undo(q, previous, &overwritten, records, trees);
            }
        }
        1
    }
}
