//! How a limiter starts out, and what a call may ask.

use std::time::Duration;

use super::Aimd;
use crate::lock::discard::Discard;
use crate::lock::options::WaitLimit;
use crate::lock::{CancelToken, LockOptions};
use crate::time::Clock;

/// Settings of a new [`InFlightLimiter`](super::InFlightLimiter).
///
/// ```
/// use doclock::lock::limiter::{Aimd, InFlightLimiter, LimiterOptions};
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
    pub(super) keys: Vec<(K, Rule)>,
    pub(super) global_limit: Option<usize>,
    pub(super) queue_bound: Option<usize>,
    pub(super) timeout: Option<Duration>,
    pub(super) clock: Clock,
}

/// What the limit of a key is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Fixed(usize),
    Adaptive(Aimd),
}

impl<K: PartialEq> LimiterOptions<K> {
    /// So many slots for each key that nothing else is said of; nothing else limited, waits of at
    /// most five seconds.
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

    /// How many slots this key has. Without any, every call to it fails with
    /// [`LimiterError::TooHeavy`](super::LimiterError::TooHeavy).
    ///
    /// A key that is named here or in [`adaptive`](Self::adaptive) has figures of its own; the
    /// others share theirs. What is said of a key last counts.
    pub fn limit(self, key: K, slots: usize) -> Self {
        self.rule(key, Rule::Fixed(slots))
    }

    /// Has this key's limit follow the latency of its calls.
    pub fn adaptive(self, key: K, rules: Aimd) -> Self {
        self.rule(key, Rule::Adaptive(rules))
    }

    fn rule(mut self, key: K, rule: Rule) -> Self {
        match self.keys.iter_mut().find(|(named, _)| *named == key) {
            Some((_, said)) => *said = rule,
            None => self.keys.push((key, rule)),
        }
        self
    }

    /// How many slots all keys together may take. Any number unless set.
    ///
    /// Keys that compete for it are served in turns, one call each.
    pub fn global_limit(mut self, slots: usize) -> Self {
        self.global_limit = Some(slots);
        self
    }

    /// How many calls may wait for one key; the next is rejected at once. Any number unless set.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// How long a call waits unless it says otherwise: zero not at all, `None` without limit. Five
    /// seconds unless set.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Where the limiter takes its time from. The system's clock unless set.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

/// What is to be called, and how to wait for it. A key alone is a call of weight one with the
/// limiter's settings.
///
/// ```
/// use doclock::lock::limiter::{Call, InFlightLimiter};
/// use std::time::Duration;
///
/// let limiter = InFlightLimiter::new(4);
/// limiter.run("payments", |_| ())?;
/// let call = Call::to("payments").weight(2).timeout(Duration::from_millis(50)).queue_bound(8);
/// limiter.run(call, |_| ())?;
/// # Ok::<(), doclock::lock::limiter::LimiterError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Call<K> {
    pub(super) key: Discard<K>,
    pub(super) weight: usize,
    pub(super) wait: WaitLimit,
    pub(super) cancel: Option<CancelToken>,
    pub(super) queue_bound: Option<usize>,
}

impl<K> Call<K> {
    /// A call to this downstream.
    pub fn to(key: K) -> Self {
        Self {
            key: Discard::new(key),
            weight: 1,
            wait: WaitLimit::OfTheLock,
            cancel: None,
            queue_bound: None,
        }
    }

    /// How many slots it takes, of its key's and of the global limit. Zero counts as one. More than
    /// there ever are is an error at once.
    ///
    /// While a heavy call is first in line, lighter ones behind it wait as well, also where they
    /// would fit.
    pub fn weight(mut self, slots: usize) -> Self {
        self.weight = slots.max(1);
        self
    }

    /// Gives up after waiting for this long. Zero means not to wait at all. How long the call
    /// itself takes is not limited.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.wait = WaitLimit::Of(Some(limit));
        self
    }

    /// Waits for as long as it takes.
    pub fn no_timeout(mut self) -> Self {
        self.wait = WaitLimit::Of(None);
        self
    }

    /// Lets `token` withdraw the call while it waits, and tell it when it runs
    /// ([`Signal`](super::Signal)).
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Is rejected at once where `bound` calls wait for this key already. The smaller of this bound
    /// and the limiter's own counts.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }
}

impl<K> From<K> for Call<K> {
    fn from(key: K) -> Self {
        Self::to(key)
    }
}
