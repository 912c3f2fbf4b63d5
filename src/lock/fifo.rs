//! The global lock: one holder, and a line in the order of asking.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cancel::Withdraw;
use super::error::CancelEvidence;
use super::options::WaitLimit;
use super::parker::Parker;
use super::state::{Claim, Reason, State, Wakeup};
use super::{
    AcquireOptions, Grant, JoinError, LockError, LockGuard, LockInfo, LockStats, QueueEntry,
    ReleaseError,
};
use crate::id::{LockId, OwnerId, random_session};
use crate::queue::Ticket;
use crate::sync::{Mutex, thread_number};
use crate::time::{Clock, Timestamp};

/// A lock that is granted strictly in the order in which it was asked for.
///
/// # Fairness
///
/// Release names the next holder in the same step (direct hand-off), so nobody can come in between: not a later
/// request, not a `try`, not the releasing thread. A waiter that gives up or is cancelled leaves the line
/// from wherever it stands and changes nobody's order.
///
/// # Differences from the standard library
///
/// It guards no value, has no poisoning, may be released by another thread, tells who holds and who waits, and
/// every wait has a limit (five seconds unless set otherwise).
///
/// Clones are handles of the same lock. A waiting thread keeps the lock alive, so dropping the other handles
/// never strands it.
#[derive(Clone)]
pub struct FifoLock(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    clock: Clock,
}

/// How a lock starts out.
#[derive(Clone, Debug)]
pub(crate) struct LockSettings {
    pub(crate) clock: Clock,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) queue_bound: Option<usize>,
}

impl LockSettings {
    pub(crate) const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(5);
}

impl Default for LockSettings {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            wait_limit: Some(Self::DEFAULT_WAIT_LIMIT),
            queue_bound: None,
        }
    }
}

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Nobody waited: the lock is free.
    Freed,
    /// The lock went to the next in line.
    HandedOver,
    /// Nobody held the lock; nothing happened.
    NothingHeld,
}

impl FifoLock {
    /// A free lock that waits on the system's clock, at most five seconds, in a line of any length.
    pub fn new() -> Self {
        Self::with_settings(LockSettings::default())
    }

    pub(crate) fn with_settings(settings: LockSettings) -> Self {
        let state = State::new(random_session(), settings.wait_limit, settings.queue_bound);
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            clock: settings.clock,
        }))
    }

    /// Acquires the lock and returns the id under which it is held, to be given to [`release`](Self::release).
    ///
    /// Blocks until the grant, a withdrawal, or the end of the wait limit. Of a grant and an expiry that race,
    /// the grant wins: an error means that the lock was not given.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the wait timed out, would have been needed where none was allowed, or was cancelled; the
    /// line was full; the calling thread holds the lock already.
    ///
    /// ```
    /// use doclock::FifoLock;
    ///
    /// let lock = FifoLock::new();
    /// let id = lock.acquire("editor", Default::default())?;
    /// assert!(lock.is_locked());
    /// lock.release(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<LockId, LockError> {
        self.grant(owner.into(), options, false)
            .map(|grant| grant.id)
    }

    /// Acquires the lock for a transaction: it is released by [`FifoLock::part_from_grant`] and by nothing else.
    pub(crate) fn grant_to_transaction(
        &self,
        owner: OwnerId,
        options: AcquireOptions,
    ) -> Result<Grant, LockError> {
        self.grant(owner, options, true)
    }

    fn grant(
        &self,
        owner: OwnerId,
        options: AcquireOptions,
        transaction: bool,
    ) -> Result<Grant, LockError> {
        if options
            .cancel
            .as_ref()
            .is_some_and(|token| token.is_cancelled())
        {
            return Err(self.refuse_cancelled(owner));
        }
        let claim = Claim {
            owner,
            label: options.label,
            thread: if options.unbound { 0 } else { thread_number() },
            transaction,
        };
        let mut state = self.0.state.lock();
        // Read under the mutex, here and everywhere: nobody holds since a moment when somebody else did.
        let now = self.0.clock.now();
        if state.try_take() {
            return Ok(state.hold_at_once(claim, now));
        }
        let limit = match options.wait {
            WaitLimit::OfTheLock => state.wait_limit,
            WaitLimit::Of(limit) => limit,
        };
        state.refuse_reentry(&claim, now)?;
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(state.would_block(&claim, now));
        }
        state.reject_excess(&claim, options.queue_bound)?;
        // The deadline comes first: whoever sees the request in the line may count on its limit running.
        let deadline = limit.and_then(|limit| self.0.clock.deadline(limit));
        let parker = Arc::new(Parker::new());
        let ticket = state.join_line(claim, limit, now, Arc::clone(&parker));
        drop(state);

        let _attached = options
            .cancel
            .as_ref()
            .map(|token| token.attach(Arc::clone(&self.0) as Arc<dyn Withdraw>, ticket));
        let Some(deadline) = deadline else {
            return parker.wait();
        };
        let listener = Arc::downgrade(&parker);
        self.0.clock.listen(listener);
        parker
            .wait_until(&self.0.clock, deadline)
            .unwrap_or_else(|| {
                self.0.withdraw(ticket, Reason::Expired);
                parker.wait()
            })
    }

    /// Acquires the lock for the life of the returned guard.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn lock(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<LockGuard, LockError> {
        let grant = self.grant(owner.into(), options, false)?;
        Ok(LockGuard::new(self.clone(), grant))
    }

    /// Releases the grant that `id` names; the next in line holds the lock when this returns. Never blocks.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]: another grant is held, or a transaction is open under this one. Nothing is released.
    pub fn release(&self, id: LockId) -> Result<Released, ReleaseError> {
        let ended = {
            let mut state = self.0.state.lock();
            state.release(id, self.0.clock.now())?
        };
        Ok(match ended {
            None => Released::NothingHeld,
            Some(ended) => match ended.next {
                None => Released::Freed,
                Some(wakeup) => {
                    wakeup.deliver();
                    Released::HandedOver
                }
            },
        })
    }

    /// The moment, by the clock that the figures go by.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.0.state.lock().is_locked()
    }

    /// Who holds the lock.
    pub fn current(&self) -> Option<LockInfo> {
        let state = self.0.state.lock();
        state.current(self.0.clock.now())
    }

    /// How many wait.
    pub fn queue_length(&self) -> usize {
        self.0.state.lock().queue_length()
    }

    /// Who waits, in order.
    pub fn queue_info(&self) -> Vec<QueueEntry> {
        let state = self.0.state.lock();
        state.entries(self.0.clock.now()).collect()
    }

    /// Figures and state of one moment.
    pub fn stats(&self) -> LockStats {
        let state = self.0.state.lock();
        state.stats(self.0.clock.now())
    }

    /// Sets all figures to zero. Holder and line stay; a hold that began before counts whole when it ends.
    pub fn reset_stats(&self) {
        self.0.state.lock().figures = Default::default();
    }

    /// How long requests made from now on wait: zero not at all, `None` without limit.
    pub fn set_wait_limit(&self, limit: Option<Duration>) {
        self.0.state.lock().wait_limit = limit;
    }

    /// Releases on behalf of a guard: what cannot be released now is released by the transaction under it.
    pub(crate) fn release_or_defer(&self, id: LockId) {
        self.0.step(|state, now| state.release_or_defer(id, now));
    }

    /// Opens a transaction under a grant that somebody else will release, and tells whose it is.
    pub(crate) fn join_grant(&self, id: LockId) -> Result<(OwnerId, Grant), JoinError> {
        self.0.state.lock().join_grant(id, thread_number())
    }

    /// Closes the transaction that [`FifoLock::join_grant`] opened.
    pub(crate) fn part_from_grant(&self, id: LockId) {
        self.0.step(|state, now| state.part_from_grant(id, now));
    }

    fn refuse_cancelled(&self, owner: OwnerId) -> LockError {
        self.0.state.lock().figures.cancellations += 1;
        LockError::Cancelled(Box::new(CancelEvidence {
            owner,
            waited: Duration::ZERO,
            stood: None,
        }))
    }

    /// Lets the wait limit of `owner` pass: the very code that a waiter runs when its deadline comes.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn expire(&self, owner: impl Into<OwnerId>) {
        let ticket = self.0.state.lock().ticket_of(&owner.into());
        if let Some(ticket) = ticket {
            self.0.withdraw(ticket, Reason::Expired);
        }
    }
}

impl Shared {
    /// Changes the state, and wakes whom the change concerns when the mutex is free again.
    fn step(&self, step: impl FnOnce(&mut State, Timestamp) -> Option<Wakeup>) {
        let wakeup = {
            let mut state = self.state.lock();
            step(&mut state, self.clock.now())
        };
        if let Some(wakeup) = wakeup {
            wakeup.deliver();
        }
    }

    fn withdraw(&self, ticket: Ticket, reason: Reason) {
        self.step(|state, now| state.withdraw(ticket, reason, now));
    }
}

impl Withdraw for Shared {
    fn cancel(&self, ticket: Ticket) {
        self.withdraw(ticket, Reason::Cancelled);
    }
}

impl Default for FifoLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FifoLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoLock")
            .field("current", &self.current())
            .field("queue", &self.queue_info())
            .finish()
    }
}
