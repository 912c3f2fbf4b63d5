//! Slots that return themselves.

use std::fmt;

use super::state::Granted;
use super::{InFlightLimiter, LimiterKey};
use crate::lock::CancelToken;

/// Holds the slots of a call until it is dropped.
///
/// It may be sent to another thread and dropped there.
#[must_use = "the slots are returned as soon as the permit is dropped"]
pub struct Permit<K: LimiterKey> {
    limiter: InFlightLimiter<K>,
    granted: Granted,
    signal: Signal,
}

impl<K: LimiterKey> Permit<K> {
    pub(super) fn new(
        limiter: InFlightLimiter<K>,
        granted: Granted,
        cancel: Option<CancelToken>,
    ) -> Self {
        Self {
            limiter,
            granted,
            signal: Signal(cancel),
        }
    }

    /// Whether the call is still wanted.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// How many slots it holds.
    pub fn weight(&self) -> usize {
        self.granted.weight
    }
}

impl<K: LimiterKey> Drop for Permit<K> {
    fn drop(&mut self) {
        let cancelled = self.signal.is_cancelled();
        self.limiter.give_back(self.granted, cancelled);
    }
}

impl<K: LimiterKey> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("weight", &self.granted.weight)
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

/// Tells a running call whether it is still wanted. Nobody is interrupted: a call that takes long looks now and then, and
/// returns early.
///
/// ```
/// use doclock::{Call, CancelToken, InFlightLimiter};
///
/// let limiter = InFlightLimiter::new(1);
/// let token = CancelToken::new();
/// let call = Call::to("report").cancel_token(&token);
/// let pages = limiter.run(call, |signal| {
///     let mut pages = 0;
///     while !signal.is_cancelled() {
///         pages += 1;
///         if pages == 3 {
///             token.cancel(); // as another thread would
///         }
///     }
///     pages
/// })?;
/// assert_eq!(pages, 3);
/// assert_eq!(limiter.load(&"report").in_flight, 0);
/// # Ok::<(), doclock::LimiterError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Signal(Option<CancelToken>);

impl Signal {
    /// Whether the token of the call was cancelled. Never, for a call without one.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// The token of the call, to be handed on to whatever waits on its behalf.
    pub fn token(&self) -> Option<&CancelToken> {
        self.0.as_ref()
    }
}
