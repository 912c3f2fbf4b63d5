//! A limit that adapts to the latency of its downstream.

use std::time::Duration;

use crate::time::MonotonicTime;

/// A limit that rises while calls are fast and falls when they are slow: additive increase,
/// multiplicative decrease.
///
/// The algorithm is that of Chiu and Jain (*Analysis of the Increase and Decrease Algorithms for
/// Congestion Avoidance in Computer Networks*, 1989). TCP uses it to find its share of a network
/// (RFC 5681). Its signal is the 95th percentile of the latency, evaluated in windows of
/// [`WINDOW`](Aimd::WINDOW) calls:
///
/// - as soon as more than 5 % of a window's calls took longer than the target, the limit is
///   multiplied by the backoff, and falls by at least one;
/// - when a window fills up without that, the limit rises by one, provided that at least half of it
///   was in use at the end of one of these calls. An unused limit shows nothing about what the
///   downstream can bear (after RFC 7661).
///
/// A call that was granted before the last fall is left out: it shows nothing about the time after.
/// A call that panicked or was cancelled counts only if it took longer than the target.
///
/// The latency is the time from the grant to the return of the slot. When the limit falls, running
/// calls continue; the next grant waits until fewer calls are in flight than the limit.
///
/// ```
/// use doclock_locks::limiter::{Aimd, InFlightLimiter, LimiterOptions};
/// use std::time::Duration;
///
/// let search = Aimd::new(Duration::from_millis(50)).between(2, 32).start(8);
/// let limiter = InFlightLimiter::with_options(LimiterOptions::new(4).adaptive("search", search));
/// assert_eq!(limiter.run("search", |_| "found")?, "found");
/// # Ok::<(), doclock_locks::limiter::LimiterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Aimd {
    target: Duration,
    least: usize,
    most: usize,
    start: usize,
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

/// The present state of an [`Aimd`].
#[derive(Debug)]
pub(super) struct Adaptive {
    rules: Aimd,
    limit: usize,
    window: Window,
    /// When the limit last fell.
    fell: Option<MonotonicTime>,
}

#[derive(Debug, Default)]
struct Window {
    calls: usize,
    slow: usize,
    /// Whether the limit was in use.
    used: bool,
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) began: MonotonicTime,
    pub(super) ended: MonotonicTime,
    /// Whether the call ran to its own end.
    pub(super) whole: bool,
    /// How many slots were in flight, including its own.
    pub(super) in_flight: usize,
}

impl Adaptive {
    pub(super) fn new(rules: Aimd) -> Self {
        Self {
            rules,
            limit: rules.start.clamp(rules.least, rules.most),
            window: Window::default(),
            fell: None,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the lowest limit.
    pub(super) fn least(&self) -> usize {
        self.rules.least
    }

    pub(super) fn take_in(&mut self, sample: Sample) {
        let slow = sample.ended - sample.began > self.rules.target;
        let stale = self.fell.is_some_and(|fell| sample.began < fell);
        if stale || !(slow || sample.whole) {
            return;
        }
        let window = &mut self.window;
        window.calls += 1;
        window.slow += usize::from(slow);
        window.used |= sample.in_flight >= self.limit.div_ceil(2);
        if window.slow * Aimd::ONE_IN > Aimd::WINDOW {
            self.fall(sample.ended);
        } else if window.calls == Aimd::WINDOW {
            let raised = self.limit.saturating_add(window.used.into());
            self.begin_window(raised.min(self.rules.most));
        }
    }

    fn fall(&mut self, now: MonotonicTime) {
        let [limit, percent] = [self.limit, self.rules.backoff];
        let part = limit / 100 * percent + limit % 100 * percent / 100;
        let lowered = part.min(limit - 1);
        self.fell = Some(now);
        self.begin_window(lowered.max(self.rules.least));
    }

    fn begin_window(&mut self, limit: usize) {
        self.limit = limit;
        self.window = Window::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    const MS: Duration = Duration::from_millis(1);

    /// A limit with a target of ten milliseconds, and a clock.
    struct Downstream {
        adaptive: Adaptive,
        clock: ManualClock,
        began: MonotonicTime,
    }

    impl Downstream {
        fn new(rules: Aimd) -> Self {
            let clock = ManualClock::new();
            Self {
                adaptive: Adaptive::new(rules),
                began: clock.clock().now(),
                clock,
            }
        }

        fn ends(&mut self, whole: bool, in_flight: usize) -> usize {
            let ended = self.clock.clock().now();
            self.adaptive.take_in(Sample {
                began: self.began,
                ended,
                whole,
                in_flight,
            });
            self.adaptive.limit()
        }

        /// Returns the limit after a call of this latency.
        fn after(&mut self, latency: Duration) -> usize {
            self.began = self.clock.clock().now();
            self.clock.advance(latency);
            self.ends(true, self.adaptive.limit())
        }
    }

    fn rules() -> Aimd {
        Aimd::new(10 * MS).between(2, 12).start(10)
    }

    #[test]
    fn limiter_09_a_window_of_fast_calls_raises_the_limit_by_one_up_to_the_maximum() {
        let mut downstream = Downstream::new(rules());
        for (before, raised) in [(10, 11), (11, 12), (12, 12)] {
            for _ in 1..Aimd::WINDOW {
                assert_eq!(downstream.after(10 * MS), before);
            }
            assert_eq!(downstream.after(10 * MS), raised);
        }
    }

    #[test]
    fn limiter_09_one_slow_call_in_twenty_is_tolerated_and_a_second_is_not() {
        let mut downstream = Downstream::new(rules());
        assert_eq!(downstream.after(11 * MS), 10);
        for _ in 2..Aimd::WINDOW {
            assert_eq!(downstream.after(MS), 10);
        }
        assert_eq!(downstream.after(MS), 11);
        assert_eq!(downstream.after(11 * MS), 11);
        assert_eq!(downstream.after(11 * MS), 9, "90 % of 11");
    }

    #[test]
    fn limiter_09_slow_calls_lower_the_limit_to_the_minimum() {
        let mut downstream = Downstream::new(rules().backoff(50));
        let limits: Vec<_> = (0..8).map(|_| downstream.after(11 * MS)).collect();
        assert_eq!(limits, [10, 5, 5, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn limiter_09_slow_calls_granted_before_a_fall_do_not_lower_the_limit_again() {
        let mut downstream = Downstream::new(rules());
        // Nine slow calls in flight at once: one fall, because all were granted before it.
        downstream.clock.advance(50 * MS);
        let limits: Vec<_> = (0..9).map(|_| downstream.ends(true, 10)).collect();
        assert_eq!(limits, [10, 9, 9, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn limiter_09_an_unused_limit_does_not_rise() {
        let mut downstream = Downstream::new(rules());
        for (in_flight, limit) in [(4, 10), (5, 11)] {
            for _ in 0..Aimd::WINDOW {
                downstream.ends(true, in_flight);
            }
            assert_eq!(downstream.adaptive.limit(), limit);
        }
    }

    #[test]
    fn limiter_09_a_call_that_was_broken_off_counts_when_it_was_slow() {
        let mut downstream = Downstream::new(rules());
        for _ in 0..3 * Aimd::WINDOW {
            assert_eq!(downstream.ends(false, 10), 10, "fast, and worth nothing");
        }
        downstream.clock.advance(11 * MS);
        assert_eq!(downstream.ends(false, 10), 10);
        assert_eq!(downstream.ends(false, 10), 9);
    }

    #[test]
    fn settings_out_of_range_are_clamped() {
        let adaptive = Adaptive::new(Aimd::new(MS).between(0, 0).start(7).backoff(100));
        assert_eq!((adaptive.limit(), adaptive.least()), (1, 1));
        let mut downstream = Downstream::new(Aimd::new(MS).between(3, 1).start(0).backoff(0));
        let limits: Vec<_> = (0..4).map(|_| downstream.after(2 * MS)).collect();
        assert_eq!(limits, [3; 4]);
    }

    #[test]
    fn the_largest_limit_neither_overflows_nor_falls_to_zero() {
        let rules = Aimd::new(10 * MS)
            .between(1, usize::MAX)
            .start(usize::MAX)
            .backoff(50);
        let mut downstream = Downstream::new(rules);
        for _ in 0..Aimd::WINDOW {
            assert_eq!(downstream.after(MS), usize::MAX);
        }
        assert_eq!(downstream.after(11 * MS), usize::MAX);
        assert_eq!(downstream.after(11 * MS), usize::MAX / 2);
    }
}
