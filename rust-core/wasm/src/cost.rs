//! The choice of a client's mode.

use keyhush_core::cost::{self, DirectorySize, Mode, Offers};
use keyhush_core::layout::Layout;
use wasm_bindgen::prelude::*;

use crate::LayoutHandle;

/// The sizes of the directory from a manifest. If it does not have blocks yet, their expected size.
pub(crate) fn directory_size(layout: &LayoutHandle, bytes: u32, block_log: u32, block_bytes: u32) -> DirectorySize {
    if bytes == 0 {
        return DirectorySize::default();
    }
    let blocks = 1_u64.checked_shl(block_log).unwrap_or(0);
    let blocks = Layout::of_lookups(blocks, u64::from(block_bytes), 1, blocks, 1).ok();
    DirectorySize { bytes: u64::from(bytes), blocks: blocks.or(DirectorySize::expected(&layout.0).blocks) }
}

/// The mode for a client with a free choice.
#[wasm_bindgen(js_name = chooseMode)]
#[allow(clippy::cast_sign_loss)] // saturates
pub fn choose_mode(
    layout: &LayoutHandle,
    directory_bytes: u32,
    block_log: u32,
    block_bytes: u32,
    instant: bool,
    servers: usize,
    lookups: f64,
) -> String {
    let directory = directory_size(layout, directory_bytes, block_log, block_bytes);
    let mode =
        cost::choose_mode(&layout.0, &directory, Offers { instant, servers: servers.clamp(1, 8) }, lookups as u64);
    mode_name(mode).into()
}

pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Local => "local",
        Mode::Instant => "instant",
        Mode::Full => "full",
        Mode::Single => "single",
    }
}
