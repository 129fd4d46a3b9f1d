//! What a scheme of looking up implements. Server: one [`Answerer`] a suite, which [`crate::suites`] picks by the number in
//! the query. Client: a [`State`] is what a scheme keeps, and [`Asked`] wraps any of them.

use zeroize::Zeroizing;

use crate::database::flat::{At, Database};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::{Layout, MAX_BATCH};
use crate::random::ENTROPY_BYTES;
use crate::tapir::query::NAME_BYTES;
use crate::tapir::state::{BINDING_BYTES, Unsealed};

/// How a server answers one suite: without state, one call a request. All lengths follow from the layout and the number of
/// queries.
pub trait Answerer<C> {
    /// Its number, which queries and answers carry.
    fn suite(&self) -> u16;

    /// Bytes of one query in a request's body.
    fn query_bytes(&self, layout: &Layout) -> usize;

    /// Most queries of a request; `limit` is the generation's.
    fn max_batch(&self, _layout: &Layout, limit: usize) -> usize {
        limit
    }

    /// Bytes of an answer to so many queries, with the proof of the whole answer, if it has one.
    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize;

    /// Whether this database keeps what these answers are made of.
    fn serves(&self, database: &Database<C>) -> bool;

    /// Answers the queries of a body at an epoch that exists. The caller has checked the body's length; everything else is
    /// checked before a byte is copied.
    ///
    /// # Errors
    /// [`Error::Index`] for an offset beyond the database; [`Error::Query`] for a query that no client makes.
    fn answer(&self, database: &Database<C>, queries: &[u8], at: At) -> Result<Vec<u8>, Error>;
}

// ---- the client's half ----------------------------------------------------------------------------

/// What a reply proves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is genuine.
    Genuine,
    /// It is not, and the state is condemned.
    Forged,
    /// Only all replies together tell: [`State::recon`] does.
    Open,
}

/// What a batch brought. It has been applied already.
pub struct Recovered {
    /// count·ℓ bytes, in query order
    pub records: Vec<u8>,
    /// queries that no hint could serve; their records are zeros. The call fails, yet the hints of the others are spent
    pub missed: usize,
    /// the journal's entry for it. Secret.
    pub effect: Zeroizing<Vec<u8>>,
}

/// What a client holds between lookups of a scheme that asks its parties, a batch at a time (packages/client,
/// scheme/scheme.ts, `AskedState`). Secret and unique. All lengths follow from the layout and the number of queries. Callers
/// keep it in an [`Asked`].
pub trait State<C>: Sized {
    /// A batch whose requests may have been sent and whose replies have not been applied. Used once; secret.
    type Pending;

    /// The layout of its epoch.
    fn layout(&self) -> &Layout;

    /// Queries it is good for still; `None`: any number.
    fn remaining(&self) -> Option<usize>;

    /// Whether a batch may have so many queries.
    fn carries(&self, queries: usize) -> bool;

    /// Makes a batch under fresh entropy. The state stays as it is.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::Phase`] for an empty batch; [`Error::Index`] if a record does not exist.
    fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Self::Pending, Error>;

    /// Queries in a batch.
    fn count(pending: &Self::Pending) -> usize;

    /// What the rollback fence knows a batch by, the same at every epoch.
    fn batch_name(pending: &Self::Pending) -> [u8; NAME_BYTES];

    /// Bytes to make durable before the first request leaves. Secret.
    fn pending_bytes(&self, pending: &Self::Pending) -> Vec<u8>;

    /// Takes up a stored batch of this state at this version.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Index`] if the bytes are not such a batch.
    fn resume(&self, pending: &[u8]) -> Result<Self::Pending, Error>;

    /// What a party is sent. The same each time.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such party.
    fn request(pending: &Self::Pending, party: usize) -> Result<Vec<u8>, Error>;

    /// Judges a party's reply whole, without early exit, and keeps what `recon` needs of it.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::Index`] if there is no such party; [`Error::Length`] for what is no reply to the batch.
    fn verify(&mut self, pending: &mut Self::Pending, party: usize, reply: &[u8]) -> Result<Verdict, Error>;

    /// Recovers the batch's records and applies the batch.
    ///
    /// # Errors
    /// [`Error::Phase`] if a reply is missing; [`Error::Condemned`] also where the replies are not genuine together;
    /// [`Error::State`] if the state is corrupt. Nothing has been applied then, and the batch is given back.
    fn recon(&mut self, pending: Self::Pending) -> Result<Recovered, (Error, Self::Pending)>;

    /// Applies the next entry of a journal, an effect or an update.
    ///
    /// # Errors
    /// [`Error::State`] if it is neither, or not the next one; [`Error::Update`].
    fn replay(&mut self, entry: &[u8]) -> Result<(), Error>;

    /// Brings state and batch to the next epoch, which has these commitments, under fresh entropy. The journal's entry.
    ///
    /// # Errors
    /// [`Error::Condemned`], [`Error::Update`], [`Error::State`], [`Error::Layout`], [`Error::Length`]. Nothing has changed
    /// then.
    fn update(
        &mut self,
        pending: Option<&mut Self::Pending>,
        list: UpdateList,
        commitments: &[u8],
        entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Vec<u8>, Error>;

    /// Its stored form, bound to its manifest. Secret.
    ///
    /// # Errors
    /// [`Error::Condemned`].
    fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error>;
}

/// A state and at most one pending batch. It holds every scheme's calls to their order.
pub struct Asked<C, S: State<C>> {
    /// for calls that only its own scheme has
    pub state: S,
    pending: Option<S::Pending>,
    /// of the last batch applied, until it is taken
    effect: Option<Zeroizing<Vec<u8>>>,
    /// of the last batch applied
    missed: usize,
}

const NONE_PENDING: Error = Error::Phase("no batch is pending");

impl<C, S: State<C>> Asked<C, S> {
    /// With nothing pending.
    #[must_use]
    pub fn new(state: S) -> Self {
        Asked { state, pending: None, effect: None, missed: 0 }
    }

    fn none_pending(&self) -> Result<(), Error> {
        if self.pending.is_some() { Err(Error::Phase("a batch is pending; finish it first")) } else { Ok(()) }
    }

    fn some_pending(&self) -> Result<&S::Pending, Error> {
        self.pending.as_ref().ok_or(NONE_PENDING)
    }

    /// Queries pending; 0: no batch is.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.as_ref().map_or(0, S::count)
    }

    /// Makes a pending batch under fresh entropy.
    ///
    /// # Errors
    /// [`Error::Phase`] while one is pending, or if the state is good for fewer; [`Error::Index`] if a batch cannot have so
    /// many; as [`State::query`].
    pub fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<(), Error> {
        self.none_pending()?;
        if !self.state.carries(indices.len().max(1)) {
            return Err(Error::Index { what: "queries in a batch", bound: MAX_BATCH as u64 + 1 });
        }
        if self.state.remaining().is_some_and(|left| left < indices.len()) {
            return Err(Error::Phase("the state is used up; prepare a new one"));
        }
        self.pending = Some(self.state.query(indices, entropy)?);
        Ok(())
    }

    /// The stored form of what is pending. Secret.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is.
    pub fn pending_bytes(&self) -> Result<Vec<u8>, Error> {
        self.some_pending().map(|pending| self.state.pending_bytes(pending))
    }

    /// Takes up a stored batch.
    ///
    /// # Errors
    /// [`Error::Phase`] while one is pending; as [`State::resume`].
    pub fn resume(&mut self, pending: &[u8]) -> Result<(), Error> {
        self.none_pending()?;
        self.pending = Some(self.state.resume(pending)?);
        Ok(())
    }

    /// Forgets a batch that was neither stored nor sent.
    pub fn withdraw(&mut self) {
        self.pending = None;
    }

    /// What a party is sent.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is pending; as [`State::request`].
    pub fn request(&self, party: usize) -> Result<Vec<u8>, Error> {
        S::request(self.some_pending()?, party)
    }

    /// What the rollback fence knows the pending batch by.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is.
    pub fn batch_name(&self) -> Result<[u8; NAME_BYTES], Error> {
        self.some_pending().map(S::batch_name)
    }

    /// The state and what is pending, for a call that only its own scheme has.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is pending; as the call.
    pub fn with_pending<T>(
        &mut self,
        call: impl FnOnce(&mut S, &mut S::Pending) -> Result<T, Error>,
    ) -> Result<T, Error> {
        call(&mut self.state, self.pending.as_mut().ok_or(NONE_PENDING)?)
    }

    /// The state, for a call that only its own scheme has, and that must not come between a batch and its replies.
    ///
    /// # Errors
    /// [`Error::Phase`] while a batch is pending.
    pub fn at_rest(&mut self) -> Result<&mut S, Error> {
        self.none_pending()?;
        Ok(&mut self.state)
    }

    /// Judges a party's reply.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is pending; as [`State::verify`].
    pub fn verify(&mut self, party: usize, reply: &[u8]) -> Result<Verdict, Error> {
        self.with_pending(|state, pending| state.verify(pending, party, reply))
    }

    /// Recovers the records and applies the batch. What that changed is to be taken.
    ///
    /// # Errors
    /// [`Error::Phase`] if nothing is pending; as [`State::recon`]. The batch is pending as before then.
    pub fn recon(&mut self) -> Result<Vec<u8>, Error> {
        let pending = self.pending.take().ok_or(NONE_PENDING)?;
        let recovered = self.state.recon(pending).map_err(|(error, pending)| {
            self.pending = Some(pending);
            error
        })?;
        self.effect = Some(recovered.effect);
        self.missed = recovered.missed;
        Ok(recovered.records)
    }

    /// Queries of the last batch applied whose records were not found ([`Recovered::missed`]).
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// The journal's entry of what the last `recon` changed; once.
    ///
    /// # Errors
    /// [`Error::Phase`] if there is none.
    pub fn take_effect(&mut self) -> Result<Vec<u8>, Error> {
        let mut effect = self.effect.take().ok_or(Error::Phase("no effect to take"))?;
        Ok(std::mem::take(&mut *effect))
    }

    /// Applies the next entry of a journal.
    ///
    /// # Errors
    /// [`Error::Phase`] while a batch is pending; as [`State::replay`].
    pub fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.none_pending()?;
        self.state.replay(entry)
    }

    /// Brings it, and what is pending, to the next epoch. The journal's entry.
    ///
    /// # Errors
    /// As [`State::update`]; [`Error::Update`] if the bytes are no list from this layout to that. Nothing has changed then.
    pub fn update(
        &mut self,
        list: &[u8],
        after: Layout,
        commitments: &[u8],
        entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Vec<u8>, Error> {
        let list = UpdateList::decode(list, *self.state.layout(), after)?;
        self.state.update(self.pending.as_mut(), list, commitments, entropy)
    }

    /// Its stored form.
    ///
    /// # Errors
    /// [`Error::Phase`] while a batch is pending; as [`State::written`].
    pub fn encode(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Vec<u8>, Error> {
        self.written(binding).map(Unsealed::seal)
    }

    /// The same, to be sealed in slices.
    ///
    /// # Errors
    /// As [`Asked::encode`].
    pub fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        self.none_pending()?;
        self.state.written(binding)
    }
}
