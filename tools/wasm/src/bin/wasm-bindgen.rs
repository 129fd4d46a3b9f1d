//! The command of wasm-bindgen, with the options that wasm-pack gives it.

use std::path::PathBuf;

use clap::Parser;
use wasm_bindgen_cli_support::Bindgen;

#[derive(Parser)]
#[command(name = "wasm-bindgen", version)]
struct Options {
    input: PathBuf,
    #[arg(long)]
    out_dir: PathBuf,
    #[arg(long)]
    out_name: String,
    #[arg(long, value_parser = ["web"])]
    target: String,
    #[arg(long)]
    typescript: bool,
    #[arg(long)]
    omit_default_module_path: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    Bindgen::new()
        .web(options.target == "web")?
        .input_path(options.input)
        .out_name(&options.out_name)
        .typescript(options.typescript)
        .demangle(true)
        .omit_default_module_path(options.omit_default_module_path)
        .generate(options.out_dir)
}
