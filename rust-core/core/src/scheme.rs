//! The interfaces of schemes. A server has one [`Answerer`] for each suite; [`crate::suites`] picks it by the number in the
//! query. A client keeps a [`State`] for its scheme, inside an [`Asked`], which checks the order of calls.

use zeroize::Zeroizing;

use crate::database::flat::{At, Database};
use crate::database::list::UpdateList;
use crate::error::Error;
use crate::layout::{Layout, MAX_QUERIES};
use crate::random::ENTROPY_BYTES;
use crate::stored::{BINDING_BYTES, NAME_BYTES, Unsealed};

/// Answers the queries of one suite. It has no state. All lengths depend on nothing but the layout and the number of queries.
pub trait Answerer<C> {
    /// The suite's number. Queries and answers carry it.
    fn suite(&self) -> u16;

    /// The bytes of one query in a request's body.
    fn query_bytes(&self, layout: &Layout) -> usize;

    /// The most queries of a request. `limit` is the generation's query limit.
    fn max_queries(&self, _layout: &Layout, limit: usize) -> usize {
        limit
    }

    /// The bytes of an answer to `queries` queries, including the proof of the whole answer if the suite has one.
    fn answer_bytes(&self, layout: &Layout, queries: usize) -> usize;

    /// Whether the database holds what these answers need.
    fn serves(&self, database: &Database<C>) -> bool;

    /// Answers the queries of a body, at an epoch that exists. The caller has checked the body's length. Everything else is
    /// checked here, before any record is copied.
    ///
    /// # Errors
    /// [`Error::Index`] for an offset beyond the database; [`Error::Query`] for a query that no honest client makes.
    fn answer(&self, database: &Database<C>, queries: &[u8], at: At) -> Result<Vec<u8>, Error>;
}

// ---- the client's half ----------------------------------------------------------------------------

/// What a reply proves by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The reply is genuine.
    Genuine,
    /// The reply is not genuine, and the state is now condemned.
    Forged,
    /// Only all replies together can be judged: [`State::recon`] does that.
    Open,
}

/// The result of a lookup that has been applied.
pub struct Recovered {
    /// count·ℓ bytes, in query order
    pub records: Vec<u8>,
    /// Queries that no hint could serve. Their records are zeros. The call fails, but the other queries' hints are spent.
    pub missed: usize,
    /// The lookup's journal entry. Secret.
    pub effect: Zeroizing<Vec<u8>>,
}

/// What a client keeps between lookups, in a scheme that sends queries (`AskedState` in packages/client,
/// scheme/scheme.ts). Secret, and never copied. All lengths depend on nothing but the layout and the number of queries.
/// Callers keep it in an [`Asked`].
pub trait State<C>: Sized {
    /// A lookup whose requests may have been sent, and whose replies have not been applied. It is used once. Secret.
    type Pending;

    /// The layout at the state's epoch.
    fn layout(&self) -> &Layout;

    /// How many more queries the state can serve; `None`: any number.
    fn remaining(&self) -> Option<usize>;

    /// Whether a lookup may have this many queries.
    fn carries(&self, queries: usize) -> bool;

    /// Makes a lookup with fresh entropy. The state does not change.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::Phase`] for an empty lookup; [`Error::Index`] if a record does not exist.
    fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<Self::Pending, Error>;

    /// The number of queries in a lookup.
    fn count(pending: &Self::Pending) -> usize;

    /// The name under which the rollback fence knows a lookup. It is the same at every epoch.
    fn pending_name(pending: &Self::Pending) -> [u8; NAME_BYTES];

    /// The stored form of a lookup, to be made durable before the first request leaves. Secret.
    fn pending_bytes(&self, pending: &Self::Pending) -> Vec<u8>;

    /// Reads a stored lookup. It must belong to this state at this version.
    ///
    /// # Errors
    /// [`Error::State`] or [`Error::Index`] if the bytes are no such lookup.
    fn resume(&self, pending: &[u8]) -> Result<Self::Pending, Error>;

    /// The request to a party (0 or 1). It is the same each time.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such party.
    fn request(pending: &Self::Pending, party: usize) -> Result<Vec<u8>, Error>;

    /// Checks a party's whole reply, without early exit, and keeps what `recon` needs of it.
    ///
    /// # Errors
    /// [`Error::Condemned`]; [`Error::Index`] if there is no such party; [`Error::Length`] for a reply of the wrong length.
    fn verify(&mut self, pending: &mut Self::Pending, party: usize, reply: &[u8]) -> Result<Verdict, Error>;

    /// Recovers the lookup's records and applies the lookup.
    ///
    /// # Errors
    /// [`Error::Phase`] if a reply is missing; [`Error::Condemned`] if the replies together are not genuine;
    /// [`Error::State`] if the state is corrupt. Then nothing has been applied, and the lookup is returned.
    fn recon(&mut self, pending: Self::Pending) -> Result<Recovered, (Error, Self::Pending)>;

    /// Applies the next entry of a journal: an effect or an update.
    ///
    /// # Errors
    /// [`Error::State`] if it is neither, or not the next one; [`Error::Update`].
    fn replay(&mut self, entry: &[u8]) -> Result<(), Error>;

    /// Brings state and lookup to the next epoch, whose `commitments` are given, with fresh entropy. Returns the journal entry.
    ///
    /// # Errors
    /// [`Error::Condemned`], [`Error::Update`], [`Error::State`], [`Error::Layout`], [`Error::Length`]. Then nothing has changed.
    fn update(
        &mut self,
        pending: Option<&mut Self::Pending>,
        list: UpdateList,
        commitments: &[u8],
        entropy: &[u8; ENTROPY_BYTES],
    ) -> Result<Vec<u8>, Error>;

    /// The state's stored form, bound to the manifest whose hash is `binding`. Secret.
    ///
    /// # Errors
    /// [`Error::Condemned`].
    fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error>;
}

/// A state, and at most one pending lookup. It refuses calls that come out of order, for every scheme.
pub struct Asked<C, S: State<C>> {
    /// public for calls that only one scheme has
    pub state: S,
    pending: Option<S::Pending>,
    /// the last applied lookup's journal entry, until it is taken
    effect: Option<Zeroizing<Vec<u8>>>,
    /// the last applied lookup's [`Recovered::missed`]
    missed: usize,
}

const NONE_PENDING: Error = Error::Phase("no lookup is pending");

impl<C, S: State<C>> Asked<C, S> {
    /// Wraps a state that has no pending lookup.
    #[must_use]
    pub fn new(state: S) -> Self {
        Asked { state, pending: None, effect: None, missed: 0 }
    }

    fn none_pending(&self) -> Result<(), Error> {
        if self.pending.is_some() { Err(Error::Phase("a lookup is pending; finish it first")) } else { Ok(()) }
    }

    fn some_pending(&self) -> Result<&S::Pending, Error> {
        self.pending.as_ref().ok_or(NONE_PENDING)
    }

    /// The number of pending queries; 0 without a pending lookup.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.as_ref().map_or(0, S::count)
    }

    /// Makes a lookup with fresh entropy, and keeps it as the pending one.
    ///
    /// # Errors
    /// [`Error::Phase`] if a lookup is pending already, or if the state has too few queries left; [`Error::Index`] for more
    /// queries than a lookup may have; as [`State::query`].
    pub fn query(&mut self, indices: &[u32], entropy: &[u8; ENTROPY_BYTES]) -> Result<(), Error> {
        self.none_pending()?;
        if !self.state.carries(indices.len().max(1)) {
            return Err(Error::Index { what: "queries in a lookup", bound: MAX_QUERIES as u64 + 1 });
        }
        if self.state.remaining().is_some_and(|left| left < indices.len()) {
            return Err(Error::Phase("the state is used up; prepare a new one"));
        }
        self.pending = Some(self.state.query(indices, entropy)?);
        Ok(())
    }

    /// The pending lookup's stored form. Secret.
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup.
    pub fn pending_bytes(&self) -> Result<Vec<u8>, Error> {
        self.some_pending().map(|pending| self.state.pending_bytes(pending))
    }

    /// Reads a stored lookup, and keeps it as the pending one.
    ///
    /// # Errors
    /// [`Error::Phase`] if a lookup is pending already; as [`State::resume`].
    pub fn resume(&mut self, pending: &[u8]) -> Result<(), Error> {
        self.none_pending()?;
        self.pending = Some(self.state.resume(pending)?);
        Ok(())
    }

    /// Drops the pending lookup. It must have been neither stored nor sent.
    pub fn withdraw(&mut self) {
        self.pending = None;
    }

    /// The pending lookup's request to a party.
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup; as [`State::request`].
    pub fn request(&self, party: usize) -> Result<Vec<u8>, Error> {
        S::request(self.some_pending()?, party)
    }

    /// The name under which the rollback fence knows the pending lookup.
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup.
    pub fn pending_name(&self) -> Result<[u8; NAME_BYTES], Error> {
        self.some_pending().map(S::pending_name)
    }

    /// Runs a call that only one scheme has, on the state and the pending lookup.
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup; as the call.
    pub fn with_pending<T>(
        &mut self,
        call: impl FnOnce(&mut S, &mut S::Pending) -> Result<T, Error>,
    ) -> Result<T, Error> {
        call(&mut self.state, self.pending.as_mut().ok_or(NONE_PENDING)?)
    }

    /// The state, for a call that only one scheme has and that must not come between a lookup and its replies.
    ///
    /// # Errors
    /// [`Error::Phase`] if a lookup is pending.
    pub fn at_rest(&mut self) -> Result<&mut S, Error> {
        self.none_pending()?;
        Ok(&mut self.state)
    }

    /// Checks a party's reply to the pending lookup.
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup; as [`State::verify`].
    pub fn verify(&mut self, party: usize, reply: &[u8]) -> Result<Verdict, Error> {
        self.with_pending(|state, pending| state.verify(pending, party, reply))
    }

    /// Recovers the records and applies the lookup. The caller then takes the journal entry with [`Asked::take_effect`].
    ///
    /// # Errors
    /// [`Error::Phase`] without a pending lookup; as [`State::recon`]. Then the lookup is still pending.
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

    /// [`Recovered::missed`] of the last applied lookup.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// The journal entry of the last `recon`. It can be taken once.
    ///
    /// # Errors
    /// [`Error::Phase`] if there is none.
    pub fn take_effect(&mut self) -> Result<Vec<u8>, Error> {
        let mut effect = self.effect.take().ok_or(Error::Phase("no effect to take; apply a lookup first"))?;
        Ok(std::mem::take(&mut *effect))
    }

    /// Applies the next entry of a journal.
    ///
    /// # Errors
    /// [`Error::Phase`] if a lookup is pending; as [`State::replay`].
    pub fn replay(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.none_pending()?;
        self.state.replay(entry)
    }

    /// Brings the state, and the pending lookup if there is one, to the next epoch. Returns the journal entry.
    ///
    /// # Errors
    /// As [`State::update`]; [`Error::Update`] if the bytes are no list from this layout to `after`. Then nothing has changed.
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

    /// The state's stored form.
    ///
    /// # Errors
    /// [`Error::Phase`] if a lookup is pending; as [`State::written`].
    pub fn encode(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Vec<u8>, Error> {
        self.written(binding).map(Unsealed::seal)
    }

    /// The stored form without its checksum, for callers that seal it in slices.
    ///
    /// # Errors
    /// As [`Asked::encode`].
    pub fn written(&mut self, binding: &[u8; BINDING_BYTES]) -> Result<Unsealed, Error> {
        self.none_pending()?;
        self.state.written(binding)
    }
}
