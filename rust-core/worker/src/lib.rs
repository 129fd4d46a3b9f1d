//! The kernels as a WebAssembly module of their own (packages/wasm/src/worker.ts).
//!
//! Worker threads of a server share the one memory of the core's instance, and run nothing of the core but its kernels:
//! Rust's `std` for WebAssembly is built for one thread, its allocator above all. So this module imports the memory, has
//! neither data nor allocator, and its stack is a piece of memory that the core has set aside for it: whoever
//! instantiates it sets `__stack_pointer` to the end of that piece before the first call. tools/build-wasm.mjs refuses to
//! build it with data, which would overwrite the core's.
//!
//! The core touches neither the bytes of a pass nor the database until the worker has reported that it is done.

#![cfg_attr(target_arch = "wasm32", no_std)]

#[cfg(target_arch = "wasm32")]
mod exports {
    use core::slice::{from_raw_parts, from_raw_parts_mut};

    use keyhush_kernels::dpf::{Key, domain_log};
    use keyhush_kernels::scan::{MAX_QUERIES, Node, Overwritten, Scratch, Shape};

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }

    /// An address and a length in the core's memory.
    #[repr(C)]
    struct Place(u32, u32);

    impl Place {
        /// # Safety
        /// The bytes must be there, and nobody may write them while the slice lives.
        unsafe fn bytes<'a>(&self) -> &'a [u8] {
            // SAFETY: the caller's.
            unsafe { from_raw_parts(self.0 as *const u8, self.1 as usize) }
        }

        /// # Safety
        /// As of `bytes`, and nobody may read them either.
        unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
            // SAFETY: the caller's.
            unsafe { from_raw_parts_mut(self.0 as *mut u8, self.1 as usize) }
        }
    }

    /// What the core's `instant::pass::Pass::descriptor` writes.
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
        /// a bit a query: whether it asks at the epoch before
        previous: u32,
        /// u32s, bytes and nodes
        overwritten: [Place; 3],
        /// of each query its key, and the groups of its epoch
        keys: [(Place, u32); MAX_QUERIES],
    }

    /// Goes all steps of an instant lookups' pass; whether its descriptor made sense.
    ///
    /// # Safety
    /// `pass` is the address of a descriptor whose pass lives, whose database does not change, and which nobody else
    /// works on, until this returns.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn run(pass: *const Pass) -> u32 {
        // SAFETY: the caller's.
        let (pass, records, trees, scratch) = unsafe {
            let pass = &*pass;
            let scratch = from_raw_parts_mut(pass.scratch.0 as *mut u8, pass.scratch.1 as usize);
            (pass, pass.records.bytes(), pass.trees.bytes(), scratch)
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
        for (number, (key, groups)) in pass.keys.iter().take(queries).enumerate() {
            // SAFETY: the caller's.
            let key = unsafe { key.bytes() };
            let groups = *groups as usize;
            let Some(key) = Key::decode(key, domain_log(groups)) else { return 0 };
            scratch.select(number, &key, groups);
        }
        for step in 0..shape.steps() {
            scratch.step(step, records, trees);
        }
        if pass.previous != 0 {
            let [indices, old_records, nodes] = &pass.overwritten;
            // SAFETY: the caller's. Addresses of u32s and nodes are those of slices of the core's, so aligned.
            let overwritten = unsafe {
                Overwritten {
                    indices: from_raw_parts(indices.0 as *const u32, indices.1 as usize),
                    records: old_records.bytes(),
                    nodes: from_raw_parts(nodes.0 as *const Node, nodes.1 as usize),
                }
            };
            for q in 0..shape.partitions {
                scratch.undo(q, pass.previous as u8, &overwritten, records, trees);
            }
        }
        1
    }
}
