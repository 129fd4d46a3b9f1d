//! Where the core's data begins in WASM memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32") {
        // The stack comes first, 1 MiB; then 64 KiB are left free for the worker module's data (tools/build-wasm.mjs).
        println!("cargo::rustc-link-arg-cdylib=--global-base=1114112");
    }
}
