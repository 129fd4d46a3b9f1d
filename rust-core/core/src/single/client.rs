//! The client half, as the seam has it: hints are a state with one party.

use zeroize::Zeroizing;

use super::hint::Hint;
use super::query::{Pending, query};
use super::recon::{recon, verify};
use super::state::effect::replay;
use super::streams::Keyed;
use super::table::NamedRow;
use crate::database::list::UpdateList;
use crate::error::{Error, expect_below};
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;
use crate::scheme::{Asked, Recovered, State, Verdict};
use crate::tapir::query::NAME_BYTES;
use crate::tapir::state::{BINDING_BYTES, Unsealed};
use crate::tapir::update::HintUpdate;

/// Commitments prove nothing here: tags do.
impl<C> State<C> for Hint<Keyed> {
    type Pending = Pending;

    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.left())
    }

    fn carries(&self, queries: usize) -> bool {
        (1..=self.geometry().max_batch()).contains(&queries)
    }

    fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
        query(self, indices, entropy)
    }

    fn count(pending: &Pending) -> usize {
        pending.count()
    }

    fn batch_name(pending: &Pending) -> [u8; NAME_BYTES] {
        pending.name()
    }

    fn pending_bytes(&self, pending: &Pending) -> Vec<u8> {
        pending.encode(self.layout())
    }

    fn resume(&self, pending: &[u8]) -> Result<Pending, Error> {
        Pending::decode(pending, self)
    }

    fn request(pending: &Pending, party: usize) -> Result<Vec<u8>, Error> {
        expect_below("party", party, 1)?;
        Ok(pending.queries().to_vec())
    }

    fn verify(&mut self, pending: &mut Pending, party: usize, reply: &[u8]) -> Result<Verdict, Error> {
        expect_below("party", party, 1)?;
        Ok(if verify(self, pending, reply)? { Verdict::Genuine } else { Verdict::Forged })
    }

    fn recon(&mut self, pending: Pending) -> Result<Recovered, (Error, Pending)> {
        let recovered = recon(self, pending)?;
        Ok(Recovered {
            records: recovered.records,
            missed: recovered.missed,
            effect: Zeroizing::new(recovered.effect.encode(self.layout())),
        })
    }

    fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        replay(self, entry)
    }

    fn update(
        &mut self,
        pending: Option<&mut Pending>,
        list: UpdateList,
        _commitments: &[u8],
        _entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Vec<u8>, Error> {
        let update = HintUpdate { stamp: self.stamp(), list, entropy: Zeroizing::new([0; ENTROPY_BYTES]) };
        self.update(pending, &update)?;
        Ok(update.encode())
    }

    fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        Hint::written(self, binding)
    }
}

/// Where tags are in rows. A batch that is pending may hold one, to which what has changed since is added when its answer is
/// judged: were the row made anew meanwhile, an honest answer would look like a lie.
impl<C> Asked<C, Hint<Keyed>> {
    /// What takes the place of the [stale](Hint::stale) row: to be kept, and then to be [taken over](Self::renew).
    ///
    /// # Errors
    /// [`Error::Phase`] while a batch is pending, or if no row is stale; [`Error::State`] if these are not the bytes of that row.
    pub fn renewed(&mut self, row: &[u8]) -> Result<NamedRow, Error> {
        let hint = self.at_rest()?;
        hint.tags.renewed(&hint.secret, row)
    }

    /// The renewed row has been kept. It belongs to the hint from now on, and to the next checkpoint.
    ///
    /// # Errors
    /// [`Error::Phase`] while a batch is pending, or if none was renewed. Nothing has changed then.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.at_rest()?.tags.renew()
    }
}
