//! Instant lookups: a client's queries, and a server's passes.

use keyhush_core::instant;
use keyhush_core::instant::query::{Pending, query, query_any_of};
use keyhush_core::instant::recon::recon;
use keyhush_core::instant::vectors::{self, Form};
use wasm_bindgen::prelude::*;

use crate::{LayoutHandle, Outcome, WipesStack, exactly, thrown};

#[wasm_bindgen]
impl LayoutHandle {
    /// Bytes of an instant query, for either server.
    #[wasm_bindgen(getter, js_name = instantRequestBytes)]
    pub fn instant_request_bytes(&self) -> usize {
        instant::request_bytes(&self.0)
    }

    /// Bytes of the answer to an instant query, from either server.
    #[wasm_bindgen(getter, js_name = instantAnswerBytes)]
    pub fn instant_answer_bytes(&self) -> usize {
        instant::answer_bytes(&self.0)
    }

    /// The most instant queries of a request.
    #[wasm_bindgen(getter, js_name = instantMaxQueries)]
    pub fn instant_max_queries(&self) -> usize {
        instant::max_queries(&self.0)
    }
}

#[wasm_bindgen]
impl LayoutHandle {
    /// The sizes of lookups with 2 to 8 servers: bytes of a query that is a key or a seed, of one that is a vector (with two
    /// servers: a key), of an answer; the most queries of a request.
    ///
    /// # Errors
    /// `index`.
    #[wasm_bindgen(js_name = instantSizes)]
    pub fn instant_sizes(&self, servers: usize) -> Outcome<Vec<u32>> {
        let layout = &self.0;
        let sizes = if servers == 2 {
            let key = instant::request_bytes(layout);
            [key, key, instant::answer_bytes(layout), instant::max_queries(layout)]
        } else {
            let shape = vectors::checked_shape(layout, servers).map_err(thrown)?;
            let bytes = |form| vectors::query_bytes(&shape, form);
            [bytes(Form::Seed), bytes(Form::Vector), shape.answer_bytes(), vectors::max_queries(&shape)]
        };
        Ok(sizes.map(|size| size as u32).to_vec())
    }
}

/// Instant queries whose answers have not arrived.
#[wasm_bindgen]
pub struct InstantQueryHandle(Pending, WipesStack);

#[wasm_bindgen]
impl InstantQueryHandle {
    /// Makes queries for some record indices, at most as many as a request may have, from 32 bytes of fresh entropy, for 2 to 8
    /// servers.
    ///
    /// # Errors
    /// `index`, `length`.
    #[wasm_bindgen(constructor)]
    pub fn new(layout: &LayoutHandle, indices: &[u32], entropy: &[u8], servers: usize) -> Outcome<InstantQueryHandle> {
        exactly("entropy", entropy)
            .and_then(|entropy| match servers {
                2 => query(&layout.0, indices, &entropy),
                _ => query_any_of(&layout.0, servers, indices, &entropy),
            })
            .map(|pending| InstantQueryHandle(pending, WipesStack))
            .map_err(thrown)
    }

    /// Whether a server's queries are vectors.
    #[wasm_bindgen(js_name = isVector)]
    pub fn is_vector(&self, server: usize) -> bool {
        self.0.form(server) == Some(Form::Vector)
    }

    /// The queries for a server.
    ///
    /// # Errors
    /// `index`.
    pub fn request(&self, server: usize) -> Outcome<Vec<u8>> {
        self.0.request(server).map(<[u8]>::to_vec).map_err(thrown)
    }

    /// The records, from the servers' answers in order, one after the other; none if an answer was changed.
    ///
    /// # Errors
    /// `length`, `index`.
    pub fn recon(&self, commitments: &[u8], answers: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let each = answers.len().div_ceil(self.0.servers()).max(1);
        recon(&self.0, commitments, &answers.chunks(each).collect::<Vec<_>>()).map_err(thrown)
    }
}

#[cfg(feature = "server")]
pub(crate) use server::form;

#[cfg(feature = "server")]
mod server {
    use keyhush_core::database::flat::At;
    use keyhush_core::error::Error;
    use keyhush_core::instant::pass::{DESCRIPTOR_WORDS, Pass, check, check_vectors};
    use keyhush_core::instant::vectors::{Form, checked_shape, shape_of};
    use wasm_bindgen::prelude::*;

    use crate::server::DatabaseHandle;
    use crate::{LayoutHandle, Outcome, thrown};

    #[wasm_bindgen]
    impl LayoutHandle {
        /// Checks the queries of a request of a lookup with 2 to 8 servers, before they wait for a pass with others.
        ///
        /// # Errors
        /// `length`, `query`, `index`.
        #[wasm_bindgen(js_name = checkInstantQueries)]
        pub fn check_instant_queries(
            &self,
            queries: &[u8],
            servers: usize,
            vectors: bool,
            group_log: Option<u32>,
        ) -> Outcome<()> {
            match servers {
                2 => check(&self.0, queries),
                _ => check_vectors(&self.0, servers, form(vectors, group_log), queries),
            }
            .map_err(thrown)
        }

        /// The a of lookups with 3 to 8 servers.
        ///
        /// # Errors
        /// `index`.
        #[wasm_bindgen(js_name = instantGroupLog)]
        pub fn instant_group_log(&self, servers: usize) -> Outcome<u32> {
            checked_shape(&self.0, servers).map(|shape| shape.group_log).map_err(thrown)
        }

        /// The bytes of a part of a vector for groups of 2^a blocks, and of an answer to it.
        ///
        /// # Errors
        /// `index`, `query`.
        #[wasm_bindgen(js_name = instantPartSizes)]
        pub fn instant_part_sizes(&self, servers: usize, group_log: u32) -> Outcome<Vec<u32>> {
            let shape = shape_of(&self.0, servers, Form::Part(group_log)).map_err(thrown)?;
            Ok([shape.vector_bytes(), shape.answer_bytes()].map(|bytes| bytes as u32).to_vec())
        }
    }

    pub(crate) fn form(vectors: bool, group_log: Option<u32>) -> Form {
        group_log.map_or(if vectors { Form::Vector } else { Form::Seed }, Form::Part)
    }

    /// Up to sixteen instant queries that are being answered.
    #[wasm_bindgen]
    pub struct InstantPassHandle {
        /// none after `finish`
        pass: Option<Pass>,
        descriptor: Box<[u32; DESCRIPTOR_WORDS]>,
    }

    impl InstantPassHandle {
        fn pass(&mut self) -> Outcome<&mut Pass> {
            self.pass.as_mut().ok_or_else(|| thrown(Error::Phase("the pass is finished")))
        }
    }

    #[wasm_bindgen]
    impl InstantPassHandle {
        /// Begins a pass for queries of lookups with 2 to 8 servers, which lie one after the other. `kinds` has a byte for each: bit 0
        /// is set for the previous epoch, bit 1 for a vector. With `group_log` all queries are parts of vectors for such groups.
        ///
        /// # Errors
        /// `length`, `index`, `query`, `phase`, `layout`.
        #[wasm_bindgen(constructor)]
        pub fn new(
            database: &DatabaseHandle,
            queries: &[u8],
            kinds: &[u8],
            servers: usize,
            group_log: Option<u32>,
        ) -> Outcome<InstantPassHandle> {
            let kind =
                |bits: &u8| (form(bits & 2 != 0, group_log), if bits & 1 == 0 { At::Newest } else { At::Previous });
            let kinds: Vec<(Form, At)> = kinds.iter().map(kind).collect();
            let pass = Pass::of_joined(&database.0, servers, queries, &kinds).map_err(thrown)?;
            Ok(InstantPassHandle { pass: Some(pass), descriptor: Box::new([0; DESCRIPTOR_WORDS]) })
        }

        /// Does the next step. Returns whether there are more.
        ///
        /// # Errors
        /// `phase`.
        pub fn step(&mut self, database: &DatabaseHandle) -> Outcome<bool> {
            self.pass()?.step(&database.0).map_err(thrown)
        }

        /// The address of the descriptor, with which a worker thread does all steps.
        ///
        /// # Errors
        /// `phase`.
        pub fn descriptor(&mut self, database: &DatabaseHandle) -> Outcome<usize> {
            *self.descriptor = self.pass()?.descriptor(&database.0).map_err(thrown)?;
            Ok(self.descriptor.as_ptr() as usize)
        }

        /// Tells the pass that a worker thread has done all steps.
        ///
        /// # Errors
        /// `phase`.
        pub fn stepped(&mut self) -> Outcome<()> {
            self.pass()?.stepped();
            Ok(())
        }

        /// The answers, one after the other. They can be taken once.
        ///
        /// # Errors
        /// `phase`.
        pub fn finish(&mut self, database: &DatabaseHandle) -> Outcome<Vec<u8>> {
            self.pass()?;
            let pass = self.pass.take().ok_or_else(|| thrown(Error::Phase("the pass is finished")))?;
            pass.finish(&database.0).map(|answers| answers.concat()).map_err(thrown)
        }
    }

    /// The stack of a worker thread.
    #[wasm_bindgen]
    pub struct WorkerStackHandle(Vec<u128>);

    #[wasm_bindgen]
    impl WorkerStackHandle {
        /// 64 KiB. The largest part of what kernels have on the stack are the tables of a point: 16 KiB.
        #[wasm_bindgen(constructor)]
        #[allow(clippy::new_without_default)] // nobody calls this from Rust
        pub fn new() -> WorkerStackHandle {
            WorkerStackHandle(vec![0; (64 << 10) / size_of::<u128>()])
        }

        /// The address of its end. A stack grows downwards, so it begins there.
        #[wasm_bindgen(getter)]
        pub fn end(&self) -> usize {
            self.0.as_ptr_range().end as usize
        }
    }
}
