//! Slots that return themselves.

use std::fmt;
use std::thread;

use super::state::Granted;
use super::{InFlightLimiter, LimiterKey};
use crate::{AcquireOptions, CancelToken};

/// Holds the slots of a call until it is dropped.
///
/// It may move to another thread and be dropped there. A forgotten permit ([`std::mem::forget`])
/// never returns its slots.
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
///
/// ```
/// use doclock_locks::{CancelToken, limiter::InFlightLimiter};
///
/// let limiter = InFlightLimiter::new(1);
/// let token = CancelToken::new();
/// let running = limiter.request("report").cancel_token(&token).wait()?;
/// token.cancel(); // as another thread would
/// assert!(running.signal().is_cancelled());
/// # Ok::<(), doclock_locks::limiter::LimiterError>(())
/// ```
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
