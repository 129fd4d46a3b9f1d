//! Runs the decoder that KEYHUSH_DECODER names.

#![no_main]

use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| std::env::var("KEYHUSH_DECODER").expect("KEYHUSH_DECODER"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| keyhush_fuzz::decoders::run(&NAME, data));
