//! Light hints: a client's attempt, and what the two servers make for it.

use keyhush_core::error::Error;
use keyhush_core::light::attempt::{Attempt, Checking, Inquiry, Liars, Outcome as Made};
use wasm_bindgen::prelude::*;

use crate::proofs::proofs_named;
use crate::tapir::ClientHandle;
use crate::{LayoutHandle, Outcome, WipesStack, exactly, thrown};

/// A light hint in the making.
#[wasm_bindgen]
pub struct LightAttemptHandle {
    /// until its replies are checked
    attempt: Option<Attempt>,
    checking: Option<Checking>,
    /// bodies, by the numbers of the parties
    replies: [Vec<u8>; 2],
    _wipes: WipesStack,
}

#[wasm_bindgen]
impl LightAttemptHandle {
    /// Under 32 bytes of fresh entropy, of a hint whose answers this kind of proof proves; Merkle if none is named.
    ///
    /// # Errors
    /// `length`; `index` for a kind there is not; `layout` where there is no memory for the replies.
    #[wasm_bindgen(constructor)]
    pub fn new(
        layout: &LayoutHandle,
        commitments: &[u8],
        root: &[u8],
        proofs: Option<String>,
    ) -> Outcome<LightAttemptHandle> {
        let made = exactly("root", root).and_then(|root| {
            let attempt = Attempt::new(layout.0, proofs_named(proofs)?, commitments, &root)?;
            let replies = attempt.room()?;
            Ok(LightAttemptHandle { attempt: Some(attempt), checking: None, replies, _wipes: WipesStack })
        });
        made.map_err(thrown)
    }

    fn attempt(&self) -> Result<&Attempt, Error> {
        self.attempt.as_ref().ok_or(Error::Phase("the attempt is over"))
    }

    /// For the refresh server alone.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = paritiesRequest)]
    pub fn parities_request(&self) -> Outcome<Vec<u8>> {
        self.attempt().map(|attempt| attempt.parities_request().to_vec()).map_err(thrown)
    }

    /// For the retrieve server alone.
    ///
    /// # Errors
    /// `phase`.
    #[wasm_bindgen(js_name = tagsRequest)]
    pub fn tags_request(&self) -> Outcome<Vec<u8>> {
        self.attempt().map(|attempt| attempt.tags_request().to_vec()).map_err(thrown)
    }

    /// Address of where the body of a party's reply is to be written, with room for so many bytes of it. So memory is touched as
    /// they arrive, and not hundreds of megabytes at once.
    ///
    /// # Errors
    /// `phase`; `index` if there is no such party; `length` if its reply is shorter.
    #[wasm_bindgen(js_name = replyPointer)]
    pub fn reply_pointer(&mut self, party: usize, bytes: usize) -> Outcome<usize> {
        self.attempt().map_err(thrown)?;
        let reply = self.replies.get_mut(party).ok_or_else(|| thrown(Error::Index { what: "party", bound: 2 }))?;
        if bytes > reply.capacity() {
            let [expected, actual] = [reply.capacity(), bytes].map(|bytes| bytes as u64);
            return Err(thrown(Error::Length { what: "reply", expected, actual }));
        }
        reply.resize(bytes.max(reply.len()), 0);
        Ok(reply.as_mut_ptr() as usize)
    }

    /// Checks a partition more of both replies, which are there whole; whether there are more.
    ///
    /// # Errors
    /// `phase`.
    pub fn check(&mut self) -> Outcome<bool> {
        self.begin_checking().map_err(thrown)?;
        let [tags, parities] = &self.replies;
        Ok(self.checking.as_mut().is_some_and(|checking| checking.step([tags, parities])))
    }

    /// Checks what has not been checked yet; once.
    ///
    /// # Errors
    /// `phase`.
    pub fn finish(&mut self) -> Outcome<LightOutcomeHandle> {
        self.begin_checking().map_err(thrown)?;
        let [tags, parities] = std::mem::take(&mut self.replies);
        let made = self.checking.take().map(|checking| checking.finish([&tags, &parities]));
        Ok(LightOutcomeHandle(made, WipesStack))
    }

    fn begin_checking(&mut self) -> Result<(), Error> {
        let [tags, parities] = &self.replies;
        if let Some(attempt) = self.attempt.take() {
            self.checking = Some(attempt.check([tags, parities])?);
        }
        self.checking.is_some().then_some(()).ok_or(Error::Phase("the attempt is over"))
    }
}

/// What came of an attempt.
#[wasm_bindgen]
pub struct LightOutcomeHandle(Option<Made>, WipesStack);

#[wasm_bindgen]
impl LightOutcomeHandle {
    /// The hint, once; none if the replies were refused.
    #[wasm_bindgen(js_name = takeHint)]
    pub fn take_hint(&mut self) -> Option<ClientHandle> {
        match self.0.take() {
            Some(Made::Accepted(hint)) => Some(ClientHandle::new(hint)),
            other => {
                self.0 = other;
                None
            }
        }
    }

    /// What will show who lied, once; none if the replies were accepted.
    #[wasm_bindgen(js_name = takeInquiry)]
    pub fn take_inquiry(&mut self) -> Option<LightInquiryHandle> {
        match self.0.take() {
            Some(Made::Refused(inquiry)) => Some(LightInquiryHandle(Some(inquiry), WipesStack)),
            other => {
                self.0 = other;
                None
            }
        }
    }
}

/// Refused replies, until the partitions show who lied.
#[wasm_bindgen]
pub struct LightInquiryHandle(Option<Box<Inquiry>>, WipesStack);

#[wasm_bindgen]
impl LightInquiryHandle {
    /// Whether it was the refresh server that lied, without looking further; if not, it may have been either.
    #[wasm_bindgen(getter, js_name = blamesRefreshServer)]
    pub fn blames_refresh_server(&self) -> bool {
        self.0.as_ref().is_some_and(|inquiry| inquiry.verdict().blames_refresh_server())
    }

    /// Compares what was replied with a partition that has its content hash.
    ///
    /// # Errors
    /// `index`, `length`, `phase`.
    pub fn take(&mut self, partition: usize, bytes: &[u8]) -> Outcome<()> {
        let inquiry = self.0.as_mut().ok_or_else(|| thrown(Error::Phase("the inquiry is over")))?;
        inquiry.take(partition, bytes).map_err(thrown)
    }

    /// Who lied, by the parties' numbers; none while partitions are missing. The inquiry is over then.
    pub fn liars(&mut self) -> Option<Vec<u32>> {
        let Liars { refresh, retrieve } = self.0.take()?.liars()?;
        Some([retrieve, refresh].iter().zip(0..).filter(|(lied, _)| **lied).map(|(_, party)| party).collect())
    }
}

#[cfg(feature = "server")]
mod server {
    use keyhush_core::database::flat::At;
    use keyhush_core::error::Error;
    use keyhush_core::light::making::{DESCRIPTOR_WORDS, Making};
    use wasm_bindgen::prelude::*;

    use crate::server::DatabaseHandle;
    use crate::{Outcome, thrown};

    fn at(previous: bool) -> At {
        if previous { At::Previous } else { At::Newest }
    }

    /// A server's reply in the making.
    #[wasm_bindgen]
    pub struct LightReplyHandle {
        /// none once it is finished
        making: Option<Making>,
        descriptor: Box<[u32; DESCRIPTOR_WORDS]>,
    }

    impl LightReplyHandle {
        fn of(making: Result<Making, Error>) -> Outcome<LightReplyHandle> {
            let making = Some(making.map_err(thrown)?);
            Ok(LightReplyHandle { making, descriptor: Box::new([0; DESCRIPTOR_WORDS]) })
        }

        fn making(&mut self) -> Outcome<&mut Making> {
            self.making.as_mut().ok_or_else(|| thrown(Error::Phase("the reply was taken")))
        }
    }

    #[wasm_bindgen]
    impl LightReplyHandle {
        /// The refresh server's.
        ///
        /// # Errors
        /// `length`, `layout`, `phase`.
        pub fn parities(database: &DatabaseHandle, request: &[u8], previous: bool) -> Outcome<LightReplyHandle> {
            Self::of(Making::parities(&database.0, request, at(previous)))
        }

        /// The retrieve server's.
        ///
        /// # Errors
        /// `length`, `layout`, `phase`.
        pub fn tags(database: &DatabaseHandle, request: &[u8], previous: bool) -> Outcome<LightReplyHandle> {
            Self::of(Making::tags(&database.0, request, at(previous)))
        }

        /// Goes a step; whether there are more.
        ///
        /// # Errors
        /// `phase`.
        pub fn step(&mut self, database: &DatabaseHandle) -> Outcome<bool> {
            self.making()?.step(&database.0).map_err(thrown)
        }

        /// Address of what a worker thread needs to go the steps of the next so many partitions.
        ///
        /// # Errors
        /// `phase`, `layout`.
        pub fn descriptor(&mut self, database: &DatabaseHandle, partitions: usize) -> Outcome<usize> {
            *self.descriptor = self.making()?.descriptor(&database.0, partitions).map_err(thrown)?;
            Ok(self.descriptor.as_ptr() as usize)
        }

        /// A worker thread has gone those steps; whether there are more.
        ///
        /// # Errors
        /// `phase`.
        pub fn stepped(&mut self) -> Outcome<bool> {
            self.making().map(Making::stepped)
        }

        /// The reply's body, once.
        ///
        /// # Errors
        /// `phase`.
        pub fn finish(&mut self) -> Outcome<Vec<u8>> {
            let making = self.making.take().ok_or_else(|| thrown(Error::Phase("the reply was taken")))?;
            making.finish().map_err(thrown)
        }
    }
}
