//! A call before its slots are granted.

use std::fmt::{self, Debug};
use std::io;
use std::panic::Location;
use std::time::Duration;

use super::permit::HeldSlots;
use super::state::LeftCall;
use super::{
    CallCancellation, CallEvidence, InFlightLimiter, LimiterError, LimiterKey, LimiterLoad, Permit,
};
use crate::sync::assert_unlocked;
use crate::wait::{Reason, WaitsAs};
use crate::{AcquireOptions, LockRequest, PendingRequest};

/// A request for the slots of a call: [`InFlightLimiter::request`].
pub struct CallRequest<K: LimiterKey> {
    pub(super) limiter: InFlightLimiter<K>,
    pub(super) call: Call<K>,
}

impl<K: LimiterKey> Unpin for CallRequest<K> {}

impl<K: LimiterKey> LockRequest for CallRequest<K> {
    type Granted = Permit<K>;
    type Error = LimiterError;

    #[inline]
    fn try_grant(
        &mut self,
        _: WaitsAs,
        options: &AcquireOptions,
        _: &'static Location<'static>,
    ) -> Result<Option<Permit<K>>, LimiterError> {
        let Some(granted) = self.limiter.try_grant(&mut self.call, options) else {
            return Ok(None);
        };
        let (limiter, key) = (self.limiter.clone(), self.call.key.take());
        Ok(Some(Permit(HeldSlots::by(limiter, granted, options, key))))
    }

    /// Both endings have tried.
    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        _: &'static Location<'static>,
    ) -> Result<Permit<K>, LimiterError> {
        let (limiter, options) = (self.limiter, &options);
        let (granted, keys) = limiter.grant(waits_as, self.call, options).await?;
        Ok(Permit(HeldSlots::by(limiter, granted, options, keys)))
    }
}

impl<K: LimiterKey> PendingRequest<'_, CallRequest<K>> {
    /// Sets how many slots the call takes, of the key's limit and of the global limit. Zero counts
    /// as one. A weight above the number of slots is an error at once.
    ///
    /// While a heavy call is at the head of its queue, lighter calls behind it wait too, even if
    /// they would fit.
    pub fn weight(mut self, slots: usize) -> Self {
        self.request.call.weight = slots.max(1);
        self
    }

    /// Waits for the slots in the calling thread, as [`wait`](Self::wait) does, runs a task with
    /// them, and returns its result. [`InFlightLimiter::run`] is the short form.
    ///
    /// # Errors
    ///
    /// [`LimiterError`]; the task has not run then.
    pub fn run<R>(self, task: impl FnOnce(&CallCancellation) -> R) -> Result<R, LimiterError> {
        let (CallRequest { limiter, call }, options, _) = self.into_parts();
        let slots = HeldSlots::of(&limiter, call, &options, |slots| slots)?;
        assert_unlocked("a call is made");
        Ok(task(&slots.signal))
    }
}

impl<K: LimiterKey> Debug for CallRequest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest")
            .field("key", &self.call.key)
            .finish_non_exhaustive()
    }
}

/// The slots that a call takes.
pub(super) struct Call<K> {
    /// Taken out with the grant.
    pub(super) key: Option<K>,
    pub(super) weight: usize,
}

impl<K> Call<K> {
    /// Creates a call of weight one.
    #[inline(always)]
    pub(super) fn to(key: K) -> Self {
        Self {
            key: Some(key),
            weight: 1,
        }
    }
}

impl<K: Debug> Call<K> {
    fn shown_key(&self) -> String {
        self.key
            .as_ref()
            .map_or_else(String::new, |key| format!("{key:?}"))
    }

    /// Returns the evidence of a call that never joined the queue.
    pub(super) fn evidence(&self, load: LimiterLoad) -> Box<CallEvidence> {
        Box::new(CallEvidence {
            key: self.shown_key(),
            weight: self.weight,
            waited: Duration::ZERO,
            position: None,
            load,
        })
    }

    pub(super) fn too_heavy(&self, limit: usize) -> LimiterError {
        LimiterError::TooHeavy {
            key: self.shown_key(),
            weight: self.weight,
            limit,
        }
    }

    pub(super) fn no_keeper(&self, error: &io::Error) -> LimiterError {
        LimiterError::NoKeeper {
            key: self.shown_key(),
            reason: error.to_string(),
        }
    }

    pub(super) fn error(&self, left: LeftCall) -> LimiterError {
        let mut call = self.evidence(left.load);
        call.waited = left.waited;
        call.position = Some(left.position);
        match left.reason {
            Reason::Expired(limit) => LimiterError::Timeout { limit, call },
            Reason::Cancelled => LimiterError::Cancelled { call },
        }
    }
}
