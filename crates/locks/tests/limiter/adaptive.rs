//! How an adaptive limit follows the latency (LIMITER 9).

use doclock_locks::CancelToken;
use doclock_locks::limiter::Aimd;

use super::*;

/// A downstream with an adaptive limit, and a clock.
struct Downstream {
    limiter: Limiter,
    clock: ManualClock,
}

impl Downstream {
    fn new(rules: Aimd) -> Self {
        let (limiter, clock) = timed(LimiterOptions::new(1).adaptive("it", rules));
        Self { limiter, clock }
    }

    /// Takes slots that are never returned.
    fn with_busy(self, slots: usize) -> Self {
        (0..slots).for_each(|_| std::mem::forget(self.limiter.acquire("it").unwrap()));
        self
    }

    fn limit(&self) -> usize {
        self.limiter.load(&"it").limit
    }

    /// Returns the limit after a call of this latency.
    fn after(&self, latency: Duration) -> usize {
        let permit = self.limiter.acquire("it").unwrap();
        self.clock.advance(latency);
        drop(permit);
        self.limit()
    }

    /// Returns the limit after a call of this latency that was cancelled.
    fn after_cancelled(&self, latency: Duration) -> usize {
        let token = CancelToken::new();
        let call = self.limiter.request("it").cancel_token(&token);
        let permit = call.wait().unwrap();
        self.clock.advance(latency);
        token.cancel();
        drop(permit);
        self.limit()
    }
}

fn rules() -> Aimd {
    Aimd::new(10 * MS).between(2, 12).start(10)
}

#[test]
fn limiter_09_a_window_of_fast_calls_raises_the_limit_by_one_up_to_the_maximum() {
    let downstream = Downstream::new(rules()).with_busy(5);
    for (before, raised) in [(10, 11), (11, 12), (12, 12)] {
        for _ in 1..Aimd::WINDOW {
            assert_eq!(downstream.after(10 * MS), before);
        }
        assert_eq!(downstream.after(10 * MS), raised);
    }
}

#[test]
fn limiter_09_one_slow_call_in_twenty_is_tolerated_and_a_second_is_not() {
    let downstream = Downstream::new(rules()).with_busy(5);
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
    let downstream = Downstream::new(rules().backoff(50));
    let limits = [(); 8].map(|()| downstream.after(11 * MS));
    assert_eq!(limits, [10, 5, 5, 2, 2, 2, 2, 2]);
}

#[test]
fn limiter_09_slow_calls_granted_before_a_fall_do_not_lower_the_limit_again() {
    let downstream = Downstream::new(rules());
    // Nine slow calls in flight at once: one fall, because all were granted before it.
    let permits = [(); 9].map(|()| downstream.limiter.acquire("it").unwrap());
    downstream.clock.advance(50 * MS);
    let limits = permits.map(|permit| {
        drop(permit);
        downstream.limit()
    });
    assert_eq!(limits, [10, 9, 9, 9, 9, 9, 9, 9, 9]);
}

#[test]
fn limiter_09_an_unused_limit_does_not_rise() {
    let mut downstream = Downstream::new(rules()).with_busy(3);
    for limit in [10, 11] {
        for _ in 0..Aimd::WINDOW {
            downstream.after(MS);
        }
        assert_eq!(downstream.limit(), limit);
        downstream = downstream.with_busy(1);
    }
}

#[test]
fn limiter_09_a_call_that_was_broken_off_counts_when_it_was_slow() {
    let downstream = Downstream::new(rules()).with_busy(5);
    for _ in 0..3 * Aimd::WINDOW {
        assert_eq!(
            downstream.after_cancelled(MS),
            10,
            "fast, and worth nothing"
        );
    }
    assert_eq!(downstream.after_cancelled(11 * MS), 10);
    assert_eq!(downstream.after_cancelled(11 * MS), 9);
}

#[test]
fn limiter_09_settings_out_of_range_are_clamped() {
    let downstream = Downstream::new(Aimd::new(MS).between(0, 0).start(7).backoff(100));
    assert_eq!(downstream.limit(), 1);
    let heavy = downstream.limiter.request("it").weight(2);
    let refused = heavy.wait().unwrap_err();
    assert!(matches!(refused, LimiterError::TooHeavy { limit: 1, .. }));
    let downstream = Downstream::new(Aimd::new(MS).between(3, 1).start(0).backoff(0));
    assert_eq!([(); 4].map(|()| downstream.after(2 * MS)), [3; 4]);
}

#[test]
fn limiter_09_the_largest_limit_neither_overflows_nor_falls_to_zero() {
    const MOST: usize = usize::MAX;
    let downstream = Downstream::new(Aimd::new(10 * MS).between(MOST, MOST));
    for _ in 0..Aimd::WINDOW {
        let heavy = downstream.limiter.request("it").weight(MOST);
        drop(heavy.wait().unwrap());
        assert_eq!(downstream.limit(), MOST);
    }
    let rules = Aimd::new(10 * MS).between(1, MOST).start(MOST).backoff(50);
    let downstream = Downstream::new(rules);
    assert_eq!(downstream.after(11 * MS), MOST);
    assert_eq!(downstream.after(11 * MS), MOST / 2);
}
