//! A journal entry is an effect or an update; both bring a hint from one version to the next.

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
/// [`Error::State`] if it is neither, or not the next one; [`Error::Update`].
pub fn replay(hint: &mut Hint, entry: &[u8]) -> Result<(), Error> {
    match entry.first_chunk() {
        Some(&effect::KIND) => recon::replay(hint, &Effect::decode(entry, hint.layout())?),
        Some(&update::KIND) => update_hint(hint, None, &HintUpdate::decode(entry, hint.layout())?),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}

/// The update list in an entry on a hint of layout `before`, whichever server answers it; none in an effect. For what follows updates besides the
/// hint.
///
/// # Errors
/// [`Error::State`] if the entry is neither an effect nor an update of such a hint; [`Error::Update`].
pub fn update_in(entry: &[u8], before: &Layout) -> Result<Option<UpdateList>, Error> {
    match entry.first_chunk() {
        Some(&(effect::KIND | single::KIND)) => Ok(None),
        Some(&update::KIND) => Ok(Some(HintUpdate::decode(entry, before)?.list)),
        _ => Err(Error::State("foreign: neither an effect nor an update")),
    }
}
