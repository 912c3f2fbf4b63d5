//! Slots that return themselves.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::thread;

use super::request::Call;
use super::state::Granted;
use super::{InFlightLimiter, LimiterError, LimiterKey};
use crate::wait::{WaitsAs, blocking};
use crate::{AcquireOptions, CancelToken};

/// Slots that are returned on drop, to a limiter that it owns a handle of or borrows.
pub(super) struct HeldSlots<K: LimiterKey, L: Borrow<InFlightLimiter<K>>> {
    limiter: L,
    granted: Granted,
    pub(super) signal: CallCancellation,
    key: PhantomData<fn() -> K>,
}

impl<K: LimiterKey, L: Borrow<InFlightLimiter<K>>> HeldSlots<K, L> {
    /// Acquires slots in a thread. `wrap` receives them in place: one more copy costs as much as a
    /// lock.
    #[inline(always)]
    pub(super) fn of<R>(
        limiter: L,
        mut call: Call<K>,
        options: &AcquireOptions,
        wrap: impl FnOnce(Self) -> R,
    ) -> Result<R, LimiterError> {
        if let Some(granted) = limiter.borrow().try_grant(&mut call, options) {
            return Ok(wrap(Self::by(limiter, granted, options, call.key)));
        }
        let (granted, keys) = blocking(limiter.borrow().grant(WaitsAs::Thread, call, options))?;
        Ok(wrap(Self::by(limiter, granted, options, keys)))
    }

    /// Holds granted slots, and drops the keys that are not used.
    #[inline(always)]
    pub(super) fn by<U>(limiter: L, granted: Granted, options: &AcquireOptions, keys: U) -> Self {
        let held = Self {
            limiter,
            granted,
            signal: CallCancellation(options.cancel.clone()),
            key: PhantomData,
        };
        // Dropping a key is code of users. If it panics, the slots are returned.
        drop(keys);
        held
    }
}

impl<K: LimiterKey, L: Borrow<InFlightLimiter<K>>> Drop for HeldSlots<K, L> {
    #[inline]
    fn drop(&mut self) {
        let (limiter, granted) = (self.limiter.borrow(), self.granted);
        let cancelled = self.signal.is_cancelled();
        let whole = !cancelled && !thread::panicking();
        limiter.give_back(granted, whole, cancelled);
    }
}

/// Holds the slots of a call until it is dropped.
///
/// It may move to another thread and be dropped there. A forgotten permit ([`std::mem::forget`])
/// never returns its slots.
#[must_use = "the slots are returned as soon as the permit is dropped"]
pub struct Permit<K: LimiterKey>(pub(super) HeldSlots<K, InFlightLimiter<K>>);

impl<K: LimiterKey> Permit<K> {
    /// Returns the signal of the call.
    pub fn signal(&self) -> &CallCancellation {
        &self.0.signal
    }

    /// Returns the number of slots that it holds.
    pub fn weight(&self) -> usize {
        self.0.granted.weight
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
