use super::*;
use crate::store::StoreOptions;
use crate::time::ManualClock;

const MINUTE: Duration = Duration::from_secs(60);

/// Regression: a lease of an hour ended after 59 minutes and 58 seconds, because the processor's
/// counter measured its time.
#[test]
fn a_lease_ends_by_monotonic_time_and_not_by_the_counter() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.skewed(2)));
    let mut lease = store.lease("form", "window-1", 60 * MINUTE).unwrap();
    clock.advance(31 * MINUTE);
    assert_eq!(lease.remaining(), 29 * MINUTE);
    assert_eq!(store.leased("form").unwrap().remaining, 29 * MINUTE);
    assert_eq!(store.leases().len(), 1);
    assert!(store.lease("form", "window-2", MINUTE).is_err());
    let mut transaction = store.begin("window-1").unwrap();
    transaction.require(&lease).unwrap();
    transaction.commit().unwrap();
    lease.renew(60 * MINUTE).unwrap();
    clock.advance(60 * MINUTE);
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(store.lease("form", "window-2", MINUTE).is_ok());
}
