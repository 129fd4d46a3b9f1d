//! Journals. An entry is an effect or an update; each brings a hint from one version to the next.

use crate::error::Error;
use crate::stored::{EFFECT, HintUpdate, UPDATE};
use crate::tapir::hint::Hint;
use crate::tapir::recon::{self, Effect};
use crate::tapir::update::update_hint;

/// Applies the next entry of a journal.
///
/// # Errors
/// [`Error::State`] if it is neither an effect nor an update, or not the next one; [`Error::Update`].
pub fn replay(hint: &mut Hint, entry: &[u8]) -> Result<(), Error> {
    match entry.first_chunk() {
        Some(&EFFECT) => recon::replay(hint, &Effect::decode(entry, hint.layout())?),
        Some(&UPDATE) => update_hint(hint, None, &HintUpdate::decode(entry, hint.layout())?),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}
