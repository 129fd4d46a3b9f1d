#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| keyhush_fuzz::decoders::run("one_server_answer", data));
