//! Decides where the core's data begins in WASM memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32") {
        // First the stack, 1 MiB. Then 64 KiB for the worker module's constants (tools/build-wasm.mjs).
        println!("cargo::rustc-link-arg-cdylib=--global-base=1114112");
    }
}
