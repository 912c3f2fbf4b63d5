//! Clocks and deadlines.

use std::time::Duration;

use doclock_locks::time::ManualClock;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_deadline_beyond_the_clock_range_is_the_last_moment() {
    let manual = ManualClock::new();
    let clock = manual.clock();
    manual.advance(Duration::from_nanos(u64::MAX) - SECOND);
    let deadline = clock.due(2 * SECOND);
    assert_eq!(clock.deadline(2 * SECOND), Some(deadline));
    assert!(clock.until(deadline).is_some());
    manual.advance(SECOND);
    assert!(clock.until(deadline).is_none());
    assert_eq!(clock.deadline(Duration::MAX), None, "no limit");
}
