use std::time::Duration;

use super::*;
use crate::store::StoreOptions;
use crate::time::ManualClock;

const SECOND: Duration = Duration::from_secs(1);

/// Regression: claims and retries were timed by the processor's counter, which runs fast.
#[test]
fn claims_and_pauses_before_retries_end_by_monotonic_time_and_not_by_the_counter() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.skewed(2)));
    let options = InboxOptions::new()
        .claim_time(30 * SECOND)
        .backoff(10 * SECOND, 10 * SECOND);
    let inbox = Inbox::with_options(&store, "payments", options);

    let claim = inbox.claim(&("evt-1", ())).unwrap();
    clock.advance(16 * SECOND);
    let remaining = 14 * SECOND;
    let other = inbox.claim(&("evt-1", ())).unwrap_err();
    assert_eq!(other, Outcome::Taken { remaining });
    drop(claim);

    let failure = |_: &mut Transaction, _: &_| Err(HandlerError::transient("no network"));
    let outcome = inbox.process(&("evt-2", ()), failure).unwrap();
    assert!(matches!(outcome, Outcome::Retry { .. }));
    clock.advance(6 * SECOND);
    let remaining = 4 * SECOND;
    let outcome = inbox.process(&("evt-2", ()), failure).unwrap();
    assert_eq!(outcome, Outcome::Taken { remaining });
    clock.advance(remaining);
    let outcome = inbox.process(&("evt-2", ()), |_, _| Ok(())).unwrap();
    assert!(matches!(outcome, Outcome::Done { .. }));
}
