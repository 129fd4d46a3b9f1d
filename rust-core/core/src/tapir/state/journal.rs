//! Journals. An entry is an effect or an update; each brings a hint from one version to the next.

use super::{effect, update};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::single::state::effect as single;
use crate::tapir::hint::Hint;
use crate::tapir::recon::{self, Effect};
use crate::tapir::update::{HintUpdate, update_hint};

/// Applies the next entry of a journal.
///
/// # Errors
/// [`Error::State`] if it is neither an effect nor an update, or not the next one; [`Error::Update`].
pub fn replay(hint: &mut Hint, entry: &[u8]) -> Result<(), Error> {
    match entry.first_chunk() {
        Some(&effect::KIND) => recon::replay(hint, &Effect::decode(entry, hint.layout())?),
        Some(&update::KIND) => update_hint(hint, None, &HintUpdate::decode(entry, hint.layout())?),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}

/// The update list in an entry on a state of layout `before`; `None` for an effect. It works for the entries of every
/// scheme. Callers use it to update other data than the hint.
///
/// # Errors
/// [`Error::State`] if the entry is neither an effect nor an update of such a state; [`Error::Update`].
pub fn update_in(entry: &[u8], before: &Layout) -> Result<Option<UpdateList>, Error> {
    match entry.first_chunk() {
        Some(&(effect::KIND | single::KIND)) => Ok(None),
        Some(&update::KIND) => Ok(Some(HintUpdate::decode(entry, before)?.list)),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}
