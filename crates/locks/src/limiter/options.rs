//! Options of a limiter, and a limit that adapts to the latency of its downstream.

use std::mem;
use std::time::Duration;

use crate::LockOptions;
use crate::queue::Slots;
use crate::time::{Clock, MonotonicTime};

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
    /// [`LimiterError::TooHeavy`](super::LimiterError::TooHeavy). A key that is configured here or
    /// in [`adaptive`](Self::adaptive) has metrics of its own; the others share theirs. The last
    /// configuration of a key counts.
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
    pub fn global_limit(mut self, slots: usize) -> Self {
        self.global_limit = Some(slots);
        self
    }

    /// Bounds how many calls wait for one key: the next one is rejected at once. There is no bound
    /// by default.
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

/// A limit that rises while calls are fast and falls when they are slow: additive increase,
/// multiplicative decrease (Chiu and Jain, *Analysis of the Increase and Decrease Algorithms for
/// Congestion Avoidance in Computer Networks*, 1989), as in TCP (RFC 5681). Its signal is the 95th
/// percentile of the latency, evaluated in windows of [`WINDOW`](Aimd::WINDOW) calls:
///
/// - as soon as more than 5 % of a window's calls took longer than the target, the limit is
///   multiplied by the backoff, and falls by at least one;
/// - when a window fills up without that, the limit rises by one, provided that at least half of it
///   was in use at the end of one of these calls. An unused limit shows nothing about what the
///   downstream can bear (after RFC 7661).
///
/// A call that was granted before the last fall is left out: it shows nothing about the time after.
/// A call that panicked or was cancelled counts only if it took longer than the target. The latency
/// is the time from the grant to the return of the slot. When the limit falls, running calls
/// continue; the next grant waits until fewer calls are in flight than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Aimd {
    target: Duration,
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) start: usize,
    backoff: usize,
}

impl Aimd {
    /// The number of calls in one window: the fewest of which one is 5 %.
    pub const WINDOW: usize = 20;

    /// At most one call in this many may be slow.
    const ONE_IN: usize = 20;

    /// Creates a limit that begins at one, stays between 1 and 1000, and falls to 90 % when the
    /// latency's 95th percentile exceeds `target`.
    pub fn new(target: Duration) -> Self {
        Self {
            target,
            least: 1,
            most: 1000,
            start: 1,
            backoff: 90,
        }
    }

    /// Sets the lowest and the highest limit. A `least` of zero counts as one, a `most` below
    /// `least` as `least`.
    pub fn between(mut self, least: usize, most: usize) -> Self {
        self.least = least.max(1);
        self.most = most.max(self.least);
        self
    }

    /// Sets the initial limit, clamped to the lowest and the highest limit.
    pub fn start(mut self, limit: usize) -> Self {
        self.start = limit;
        self
    }

    /// Sets the percentage of the limit that is left when it falls, clamped to 1 to 99.
    pub fn backoff(mut self, percent: usize) -> Self {
        self.backoff = percent.clamp(1, 99);
        self
    }
}

/// What a key with an adaptive limit learns from its calls.
#[derive(Debug)]
pub(super) struct Adaptive {
    pub(super) rules: Aimd,
    window: Window,
    fell: Option<MonotonicTime>,
}

#[derive(Debug, Default)]
struct Window {
    calls: usize,
    slow: usize,
    used: bool,
}

impl Adaptive {
    pub(super) fn new(rules: Aimd) -> Self {
        let (window, fell) = (Window::default(), None);
        Self {
            rules,
            window,
            fell,
        }
    }

    /// Learns from a call that ended, whose slots are still taken. `whole` means that it ran to its
    /// own end. Returns the limit from now on.
    pub(super) fn learn(
        &mut self,
        [began, ended]: [MonotonicTime; 2],
        whole: bool,
        slots: &Slots,
    ) -> usize {
        let limit = slots.limit();
        let slow = ended - began > self.rules.target;
        let stale = self.fell.is_some_and(|fell| began < fell);
        if stale || !(slow || whole) {
            return limit;
        }
        let window = &mut self.window;
        window.calls += 1;
        window.slow += usize::from(slow);
        window.used |= slots.taken() >= limit.div_ceil(2);
        if window.slow * Aimd::ONE_IN > Aimd::WINDOW {
            let percent = self.rules.backoff;
            let part = limit / 100 * percent + limit % 100 * percent / 100;
            (self.window, self.fell) = (Window::default(), Some(ended));
            part.min(limit - 1).max(self.rules.least)
        } else if window.calls == Aimd::WINDOW {
            let raised = limit.saturating_add(mem::take(window).used.into());
            raised.min(self.rules.most)
        } else {
            limit
        }
    }
}
