//! Unit tests of `src/calendar.rs`.

use super::*;
use crate::time::Clock;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn dates_can_be_stored_before_and_after_1970() {
    let epoch = SystemTime::UNIX_EPOCH;
    let step = Duration::new(7, 300);
    for date in [
        epoch - step,
        epoch - Duration::from_nanos(1),
        epoch,
        epoch + step,
    ] {
        let stored = serde_json::to_string(&Date(date)).unwrap();
        let read: Date = serde_json::from_str(&stored).unwrap();
        assert_eq!(read.0, date, "{stored}");
    }
    for wrong in ["[0,1000000000]", "[9223372036854775808,0]", "[0]"] {
        assert!(serde_json::from_str::<Date>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_stored_end_comes_at_its_date_and_never_later_than_it_lasts() {
    let calendar = Calendar::at(MonotonicTime::default());
    let ends = |after: Duration| Date(calendar.today + after);
    let left = |expiry: Option<Expiry>| expiry.map(|expiry| expiry.left(calendar.now));
    assert_eq!(
        left(calendar.expiry(ends(SECOND), 9 * SECOND)),
        Some(SECOND)
    );
    // The calendar was set back since.
    assert_eq!(
        left(calendar.expiry(ends(99 * SECOND), 9 * SECOND)),
        Some(9 * SECOND)
    );
    assert_eq!(calendar.expiry(Date(calendar.today), SECOND), None);
}

#[test]
fn a_date_before_the_process_began_has_a_moment() {
    let calendar = Calendar::at(Clock::system().now());
    let hour = 3600 * SECOND;
    let moment = calendar.moment_of(Date(calendar.today - hour));
    assert_eq!(calendar.now - moment, hour);
}
