//! How long a runner pauses between two looks for requests.

use std::time::{Duration, Instant};

/// After a request, the next look follows at once for this long: the next request of a caller comes
/// soon after the outcome of its last one.
const AT_ONCE: Duration = Duration::from_millis(4);

/// After a request, the pauses are short for this long: a ring may be held back meanwhile.
const EAGER: Duration = Duration::from_millis(25);

/// The pause between two looks that do not follow at once.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// The longest pause while a doorbell rings for requests.
const RUNG_FOR: Duration = Duration::from_secs(1);

/// So long after a request that came without a ring, others are expected to.
const UNRUNG: Duration = Duration::from_secs(60);

/// The pauses of a runner.
pub(super) struct Pauses {
    /// The longest one without a doorbell.
    longest: Duration,
    last: Duration,
    /// When the last requests were taken.
    took_at: Option<Instant>,
    /// When a request was found that came without a ring: not all machines ring.
    unrung_at: Option<Instant>,
    /// Whether the last pause has ended without a ring.
    is_unrung: bool,
}

impl Pauses {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            last: SHORTEST,
            took_at: None,
            unrung_at: None,
            is_unrung: false,
        }
    }

    /// Returns the next pause. `None`: the next look follows at once.
    pub(super) fn next(&mut self, now: Instant, is_heard: bool) -> Option<Duration> {
        let within = |at: Option<Instant>, limit| {
            at.is_some_and(|at| now.saturating_duration_since(at) < limit)
        };
        let longest = match is_heard && !within(self.unrung_at, UNRUNG) {
            true => self.longest.max(RUNG_FOR),
            false => self.longest,
        };
        self.last = match within(self.took_at, EAGER) {
            true => SHORTEST,
            false => (self.last * 2).min(longest),
        };
        self.is_unrung = false;
        (!within(self.took_at, AT_ONCE)).then_some(self.last)
    }

    /// Takes note of how a pause has ended.
    pub(super) fn ended(&mut self, is_rung: bool) {
        self.is_unrung = !is_rung;
    }

    /// Takes note of a look that has found requests.
    pub(super) fn took(&mut self, now: Instant) {
        self.took_at = Some(now);
        // After a shorter pause, the ring may be on its way.
        if self.is_unrung && self.last > self.longest {
            self.unrung_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(50);

    /// The looks of an idle second, which begin at their times.
    fn idle(pauses: &mut Pauses, from: Instant, is_heard: bool) -> usize {
        let mut now = from;
        let mut looks = 0;
        while now < from + Duration::from_secs(1) {
            looks += 1;
            now += pauses.next(now, is_heard).unwrap_or_default();
            pauses.ended(false);
        }
        looks
    }

    #[test]
    fn an_idle_owner_looks_once_a_second_while_a_doorbell_rings() {
        let (mut pauses, start) = (Pauses::new(LONGEST), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        // From short pauses to long ones.
        assert_eq!(idle(&mut pauses, at(0), true), 9);
        assert_eq!(idle(&mut pauses, at(1), true), 1);
        assert_eq!(idle(&mut pauses, at(2), true), 1);
        // The doorbell is lost, and comes back.
        assert_eq!(idle(&mut pauses, at(3), false), 20);
        assert_eq!(idle(&mut pauses, at(4), true), 4);
        assert_eq!(idle(&mut pauses, at(5), true), 1);
        // Longer pauses stay.
        let mut pauses = Pauses::new(Duration::from_secs(30));
        for nth in 0..20 {
            pauses.next(at(nth), true);
        }
        assert_eq!(pauses.next(at(20), true), Some(Duration::from_secs(30)));
    }

    #[test]
    fn an_owner_looks_often_after_a_request() {
        let (mut pauses, start) = (Pauses::new(LONGEST), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        idle(&mut pauses, at(0), true);
        pauses.ended(true);
        pauses.took(at(1000));
        assert_eq!(pauses.next(at(1001), true), None);
        for millis in [1004, 1024] {
            assert_eq!(pauses.next(at(millis), true), Some(SHORTEST));
        }
        assert_eq!(pauses.next(at(1025), true), Some(2 * SHORTEST));
    }

    #[test]
    fn a_request_without_a_ring_makes_the_pauses_short_for_a_minute() {
        let (mut pauses, start) = (Pauses::new(LONGEST), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        idle(&mut pauses, at(0), true);
        assert_eq!(idle(&mut pauses, at(1), true), 1);
        // It was found when the pause had ended by itself.
        pauses.took(at(2));
        idle(&mut pauses, at(3), true);
        assert_eq!(idle(&mut pauses, at(61), true), 20);
        idle(&mut pauses, at(62), true);
        assert_eq!(idle(&mut pauses, at(63), true), 1);
        // A ring has announced this one.
        pauses.ended(true);
        pauses.took(at(64));
        idle(&mut pauses, at(65), true);
        assert_eq!(idle(&mut pauses, at(66), true), 1);
    }
}
