//! A call before its slots are granted, how it gets them, and the permit that returns them.

use std::thread;

use super::state::WaitingCall;
use super::*;
use crate::mailbox::Mailbox;
use crate::sampling::Pace;
use crate::sync::assert_unlocked;
use crate::wait::{Wait, WaiterKind};
use crate::{AcquireOptions, CancelToken, LockRequest, RequestContext};

/// A request for the slots of a call: [`InFlightLimiter::request`].
#[derive(Debug)]
pub struct CallRequest<K: LimiterKey> {
    pub(super) limiter: InFlightLimiter<K>,
    /// Taken out with the grant.
    pub(super) key: Option<K>,
    pub(super) weight: usize,
}

impl<K: LimiterKey> Unpin for CallRequest<K> {}

impl<K: LimiterKey> LockRequest for CallRequest<K> {
    type Granted = Permit<K>;
    type Error = LimiterError;

    #[inline]
    fn try_grant(&mut self, context: &RequestContext) -> Result<Option<Permit<K>>, LimiterError> {
        let tries = !context.options.is_cancelled();
        let Some(key) = self.key.as_ref().filter(|_| tries) else {
            return Ok(None);
        };
        let hash = Secret.hash_one(key);
        let caller = (context.call_site, context.waits_as.thread());
        let shared = &self.limiter.0;
        let mut state = shared.state.lock();
        let granted = state.try_take(&mut self.key, hash, self.weight, caller, &shared.clock);
        drop(state);
        Ok(granted.map(|granted| {
            let permit = Permit::new(&self.limiter, granted).taken(&context.options);
            permit.without(self.key.take())
        }))
    }

    /// Both endings have tried. A cancelled call is counted here.
    async fn grant_as(self, context: RequestContext) -> Result<Permit<K>, LimiterError> {
        let (waits_as, options) = (context.waits_as, &context.options);
        let caller = (context.call_site, waits_as.thread());
        let shared = &self.limiter.0;
        // The timeout begins first: threads that see the call in the queue rely on that.
        let bound = shared.queue_bound.unwrap_or(usize::MAX);
        let how = options.how_to_wait(shared.timeout, bound, &shared.clock);
        let key = self.key.as_ref().expect("it is taken with the grant");
        let shown = |key: &K| format!("{key:?}");
        let hash = Secret.hash_one(key);
        let cancelled = options.is_cancelled();
        let attended = waits_as.attend(shared, !cancelled && !how.is_at_once());
        attended.map_err(|error| LimiterError::NoKeeper {
            key: shown(key),
            reason: error.to_string(),
        })?;
        // Copied without the mutex. The call keeps its key for the error.
        let mut copy = Some(key.clone());
        let refused = |mut state: LimiterGuard<'_, K>, count: fn(&mut LimiterCounters)| {
            let load = state.turn_away(key, hash, count);
            drop(state);
            Box::new(CallEvidence {
                key: shown(key),
                weight: self.weight,
                waited: Duration::ZERO,
                position: None,
                load,
            })
        };
        let (mailbox, wait) = {
            let mut state = shared.state.lock();
            if cancelled {
                let call = refused(state, |counts| counts.cancelled += 1);
                return Err(LimiterError::Cancelled { call });
            }
            let most = state.most(key, hash);
            if self.weight > most {
                let call = refused(state, |counts| counts.too_heavy += 1);
                return Err(LimiterError::TooHeavy {
                    key: call.key,
                    weight: call.weight,
                    limit: most,
                });
            }
            if let Some(slots) = state.try_take(&mut copy, hash, self.weight, caller, &shared.clock)
            {
                drop(state);
                let permit = Permit::new(&self.limiter, slots).taken(options);
                return Ok(permit.without((copy, self.key)));
            }
            if how.is_at_once() {
                let call = refused(state, |counts| counts.declined += 1);
                return Err(LimiterError::Busy { call });
            }
            if !how.may_wait(state.load(key, hash).queued) {
                let (bound, call) = (how.bound, refused(state, |counts| counts.rejected += 1));
                return Err(LimiterError::QueueFull { bound, call });
            }
            let mailbox = Arc::new(Mailbox::new());
            let waiting = WaitingCall {
                weight: self.weight,
                caller,
                since: shared.clock.now(),
                mailbox: Arc::clone(&mailbox),
                task: (waits_as == WaiterKind::Task).then_some(how.deadline),
            };
            let wait = Wait {
                ticket: state.join(&mut copy, hash, waiting),
                deadline: how.deadline,
                // Calls take too long to spin for their end.
                spins: Pace::SLOW.spins(how.limit()),
                keeper_looks: waits_as.ended_by_keeper(how.deadline),
            };
            (mailbox, wait)
        };
        let cancel = options.cancel.as_ref();
        match waits_as.wait(shared, &mailbox, cancel, wait).await {
            Ok(permit) => Ok(permit.taken(options).without((copy, self.key))),
            Err(left) => {
                let (reason, mut call) = *left;
                call.key = self.key.as_ref().map_or_else(String::new, shown);
                let call = Box::new(call);
                Err(match reason {
                    Reason::Expired(limit) => LimiterError::Timeout { limit, call },
                    Reason::Cancelled => LimiterError::Cancelled { call },
                })
            }
        }
    }
}

impl<K: LimiterKey> PendingRequest<'_, CallRequest<K>> {
    /// Sets how many slots the call takes, of the key's limit and of the global limit. Zero counts
    /// as one. A weight above the number of slots is an error at once.
    pub fn weight(mut self, slots: usize) -> Self {
        self.request.weight = slots.max(1);
        self
    }

    /// Waits for the slots in the calling thread, runs a task with them, and returns its result.
    /// [`InFlightLimiter::run`] is the short form.
    ///
    /// # Errors
    ///
    /// [`LimiterError`]; the task has not run then.
    pub fn run<R>(self, task: impl FnOnce(&CallCancellation) -> R) -> Result<R, LimiterError> {
        let permit = self.wait()?;
        assert_unlocked("a call is made");
        Ok(task(permit.signal()))
    }
}

/// Holds the slots of a call until it is dropped, by any thread. A forgotten permit
/// ([`std::mem::forget`]) never returns its slots.
#[must_use = "the slots are returned as soon as the permit is dropped"]
pub struct Permit<K: LimiterKey> {
    limiter: InFlightLimiter<K>,
    granted: Granted,
    signal: CallCancellation,
    /// Whether the call has it. A call that is gone before counts as cancelled.
    is_taken: bool,
}

impl<K: LimiterKey> Permit<K> {
    #[inline]
    pub(super) fn new(limiter: &InFlightLimiter<K>, granted: Granted) -> Self {
        Self {
            limiter: limiter.clone(),
            granted,
            signal: CallCancellation::default(),
            is_taken: false,
        }
    }

    /// Returns the permit to its call.
    #[inline]
    pub(super) fn taken(mut self, options: &AcquireOptions) -> Self {
        self.signal = CallCancellation(options.cancel.clone());
        self.is_taken = true;
        self
    }

    /// Drops copies of its key, which is code of users. If that panics, the slots are returned: a
    /// permit that a function returns already would be lost.
    fn without<T>(self, keys: T) -> Self {
        drop(keys);
        self
    }

    /// Returns the signal of the call.
    pub fn signal(&self) -> &CallCancellation {
        &self.signal
    }

    /// Returns the number of slots that it holds.
    pub fn weight(&self) -> usize {
        self.granted.weight
    }
}

impl<K: LimiterKey> Drop for Permit<K> {
    #[inline]
    fn drop(&mut self) {
        let cancelled = !self.is_taken || self.signal.is_cancelled();
        let whole = !cancelled && !thread::panicking();
        self.limiter.0.give_back(self.granted, whole, cancelled);
    }
}

impl<K: LimiterKey> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("weight", &self.weight())
            .field("signal", self.signal())
            .finish_non_exhaustive()
    }
}

/// Reports to a running call whether it was cancelled. Nothing is interrupted: a long call should
/// check the signal and return early.
#[derive(Clone, Debug, Default)]
pub struct CallCancellation(Option<CancelToken>);

impl CallCancellation {
    /// Returns whether the token of the call was cancelled. Always `false` for a call without a
    /// token.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the token of the call, for waits on its behalf.
    pub fn token(&self) -> Option<&CancelToken> {
        self.0.as_ref()
    }
}
