//! Options of a limiter.

use std::time::Duration;

use super::Aimd;
use crate::LockOptions;
use crate::time::Clock;

/// Options of a new [`InFlightLimiter`](super::InFlightLimiter).
///
/// ```
/// use doclock_locks::limiter::{Aimd, InFlightLimiter, LimiterOptions};
/// use std::time::Duration;
///
/// let options = LimiterOptions::new(8)
///     .limit("payments", 4)
///     .adaptive("search", Aimd::new(Duration::from_millis(50)))
///     .global_limit(16)
///     .queue_bound(64)
///     .timeout(Duration::from_millis(200));
/// let limiter = InFlightLimiter::with_options(options);
/// assert_eq!(limiter.load(&"payments").limit, 4);
/// assert_eq!(limiter.load(&"shipping").limit, 8);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct LimiterOptions<K> {
    pub(super) default_limit: usize,
    pub(super) keys: Vec<(K, KeyLimit)>,
    pub(super) global_limit: Option<usize>,
    pub(super) queue_bound: Option<usize>,
    pub(super) timeout: Option<Duration>,
    pub(super) clock: Clock,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum KeyLimit {
    Fixed(usize),
    Adaptive(Aimd),
}

impl<K: PartialEq> LimiterOptions<K> {
    /// Creates options with this number of slots for every key without a limit of its own. There is
    /// no other limit, and waits time out after five seconds.
    pub fn new(default_limit: usize) -> Self {
        Self {
            default_limit,
            keys: Vec::new(),
            global_limit: None,
            queue_bound: None,
            timeout: Some(LockOptions::DEFAULT_TIMEOUT),
            clock: Clock::system(),
        }
    }

    /// Sets the number of slots of a key. With zero slots, every call to the key fails with
    /// [`LimiterError::TooHeavy`](super::LimiterError::TooHeavy).
    ///
    /// A key that is configured here or in [`adaptive`](Self::adaptive) has metrics of its own; the
    /// others share theirs. The last configuration of a key counts.
    pub fn limit(self, key: K, slots: usize) -> Self {
        self.rule(key, KeyLimit::Fixed(slots))
    }

    /// Sets an adaptive limit for a key, which follows the latency of its calls.
    pub fn adaptive(self, key: K, rules: Aimd) -> Self {
        self.rule(key, KeyLimit::Adaptive(rules))
    }

    fn rule(mut self, key: K, rule: KeyLimit) -> Self {
        match self.keys.iter_mut().find(|(named, _)| *named == key) {
            Some((_, said)) => *said = rule,
            None => self.keys.push((key, rule)),
        }
        self
    }

    /// Sets how many slots all keys together may take. There is no global limit by default.
    ///
    /// Keys that compete for it are served in turns, one call each.
    pub fn global_limit(mut self, slots: usize) -> Self {
        self.global_limit = Some(slots);
        self
    }

    /// Bounds how many calls wait for one key. A full queue rejects the next call at once. There is
    /// no bound by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Sets the timeout of calls that set none. Zero: they do not wait. `None`: they wait without
    /// limit. The default is five seconds.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Sets the clock that the limiter reads. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}
