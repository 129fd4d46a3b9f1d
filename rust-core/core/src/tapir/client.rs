//! Makes a hint a [`State`]. Its two parties are the servers: party 0 has the retrieve role, party 1 the refresh role.

use zeroize::Zeroizing;

use crate::commitment::VectorCommitment;
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::Layout;
use crate::random::ENTROPY_BYTES;
use crate::scheme::{Recovered, State, Verdict};
use crate::stored::{BINDING_BYTES, HintUpdate, NAME_BYTES, Unsealed};
use crate::tapir::hint::Hint;
use crate::tapir::query::{Pending, query, role_of};
use crate::tapir::recon::{recon, verify};
use crate::tapir::state::journal::replay;
use crate::tapir::update::update_hint;

/// `C` verifies the answers to hints without tags.
impl<C: VectorCommitment> State<C> for Hint {
    type Pending = Pending;

    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn remaining(&self) -> Option<usize> {
        None
    }

    fn carries(&self, queries: usize) -> bool {
        let (layout, proofs) = (self.layout(), self.proofs());
        layout.carries(queries, proofs.entry_bytes::<C>(layout)) && proofs.max_queries(layout, queries) == queries
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
        role_of(party).map(|role| pending.vectors(role))
    }

    fn verify(&mut self, pending: &mut Pending, party: usize, reply: &[u8]) -> Result<Verdict, Error> {
        let genuine = verify::<C>(self, pending, role_of(party)?, reply)?;
        Ok(if genuine { Verdict::Genuine } else { Verdict::Forged })
    }

    fn recon(&mut self, pending: Pending) -> Result<Recovered, (Error, Pending)> {
        let recovered = recon(self, pending)?;
        let effect = Zeroizing::new(recovered.effect.encode(self.layout()));
        Ok(Recovered { records: recovered.records, missed: 0, effect })
    }

    fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        replay(self, entry)
    }

    fn update(
        &mut self,
        pending: Option<&mut Pending>,
        list: UpdateList,
        commitments: &[u8],
        entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Vec<u8>, Error> {
        self.check_commitments(list.after(), commitments)?;
        let update = HintUpdate::new(self, list, entropy);
        update_hint(self, pending, &update)?;
        self.rebind(commitments)?;
        Ok(update.encode())
    }

    fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        Hint::written(self, binding)
    }
}
