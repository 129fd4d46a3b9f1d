//! Makes a hint a [`State`]. It has one party: the server.

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
use crate::stored::{BINDING_BYTES, HintUpdate, NAME_BYTES, Unsealed};

/// `C` is not used: tags verify the answers.
impl<C> State<C> for Hint<Keyed> {
    type Pending = Pending;

    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.left())
    }

    fn carries(&self, queries: usize) -> bool {
        (1..=self.geometry().max_queries()).contains(&queries)
    }

    fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Pending, Error> {
        query(self, indices, entropy)
    }

    fn count(pending: &Pending) -> usize {
        pending.count()
    }

    fn pending_name(pending: &Pending) -> [u8; NAME_BYTES] {
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

/// Calls for hints whose tags are in rows. They are refused while a lookup is pending, because the lookup may hold a row, to
/// which later changes are added when the answer is judged. If the row were renewed meanwhile, an honest answer would look
/// forged.
impl<C> Asked<C, Hint<Keyed>> {
    /// Makes the row that replaces the [stale](Hint::stale) one, whose bytes are `row`. Store it, and then call [`Self::renew`].
    ///
    /// # Errors
    /// [`Error::Phase`] while a lookup is pending, or if no row is stale; [`Error::State`] if `row` is another row.
    pub fn renewed(&mut self, row: &[u8]) -> Result<NamedRow, Error> {
        let hint = self.at_rest()?;
        hint.tags.renewed(&hint.secret, row)
    }

    /// Replaces the stale row by the renewed one, which has been stored. It belongs to the hint and to the next checkpoint.
    ///
    /// # Errors
    /// [`Error::Phase`] while a lookup is pending, or without a renewed row. Then nothing has changed.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.at_rest()?.tags.renew()
    }
}
