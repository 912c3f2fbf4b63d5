//! LEASE 1: a lease has a duration and needs no thread; renewal, release, expiry.

use std::time::{Duration, SystemTime};

use doclock::{
    DataStore, StoreOptions,
    lease::{LeaseError, LeaseTarget},
    time::ManualClock,
};

use crate::common::{commit, image};
use crate::{SECOND, conflict, lost, owners, timed};

#[test]
fn lease_01_a_lease_ends_when_its_duration_has_passed_and_not_a_nanosecond_before() {
    let (store, clock) = timed();
    let lease = store.leases().acquire("ann", "teller", 5 * SECOND).unwrap();
    clock.advance(5 * SECOND - Duration::from_nanos(1));
    assert_eq!(lease.remaining(), Duration::from_nanos(1));
    assert_eq!(owners(&store), ["teller"]);
    conflict(store.leases().acquire("ann", "other", SECOND));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(store.leases().list().is_empty() && store.leases().holder("ann").is_none());
    drop(store.leases().acquire("ann", "other", SECOND).unwrap());
}

#[test]
fn lease_01_a_renewed_lease_lasts_from_the_renewal_on() {
    let (store, clock) = timed();
    let mut lease = store.leases().acquire("ann", "teller", 5 * SECOND).unwrap();
    let token = lease.fencing_token();
    clock.advance(4 * SECOND);
    lease.renew(5 * SECOND).unwrap();
    clock.advance(4 * SECOND);
    assert_eq!((lease.remaining(), lease.fencing_token()), (SECOND, token));
    // An earlier end is a renewal as well.
    lease.renew(SECOND / 2).unwrap();
    assert_eq!(lease.remaining(), SECOND / 2);
    clock.advance(SECOND / 2);
    assert!(store.leases().holder("ann").is_none());
}

#[test]
fn lease_01_a_release_frees_all_targets_at_once() {
    let (store, _) = timed();
    let lease = store
        .leases()
        .acquire(["ann", "bob"], "teller", SECOND)
        .unwrap();
    lease.release().unwrap();
    assert!(store.leases().list().is_empty());
    for account in ["ann", "bob"] {
        drop(store.leases().acquire(account, "other", SECOND).unwrap());
    }
}

#[test]
fn lease_01_a_dropped_lease_lasts_until_it_expires() {
    let (store, clock) = timed();
    drop(store.leases().acquire("ann", "front end", SECOND).unwrap());
    assert_eq!(owners(&store), ["front end"]);
    clock.advance(SECOND);
    assert!(owners(&store).is_empty());
}

#[test]
fn lease_01_an_ended_lease_can_be_neither_renewed_nor_released() {
    let (store, clock) = timed();
    let mut expired = store.leases().acquire("ann", "teller", SECOND).unwrap();
    clock.advance(SECOND);
    let told = lost(expired.renew(SECOND));
    assert_eq!(told.fencing_token, expired.fencing_token());
    assert_eq!(
        (told.lease.as_ref(), &told.holder),
        (Some(&expired.info()), &None)
    );
    assert_eq!(
        told.to_string(),
        "the lease of teller on node ann (fencing token 1) has ended"
    );
    assert!(owners(&store).is_empty(), "it is not revived");
    assert_eq!(lost(expired.release()), told);

    let released = store.leases().acquire("ann", "teller", SECOND).unwrap();
    let mut twin = store.leases().by_token(released.fencing_token()).unwrap();
    released.release().unwrap();
    lost(twin.renew(SECOND));
    lost(twin.release());
}

#[test]
fn lease_01_a_fencing_token_is_enough_to_continue_the_lease() {
    let (store, clock) = timed();
    let token = store
        .leases()
        .acquire("form", "window", SECOND)
        .unwrap()
        .fencing_token();
    let kept = serde_json::to_string(&token).unwrap();
    let token = serde_json::from_str(&kept).unwrap();
    let mut lease = store.leases().by_token(token).unwrap();
    assert_eq!(
        (lease.owner().as_str(), lease.targets()),
        ("window", &"form".into())
    );
    lease.renew(3 * SECOND).unwrap();
    clock.advance(2 * SECOND);
    assert_eq!(store.leases().by_token(token).unwrap().remaining(), SECOND);
    clock.advance(SECOND);
    assert!(store.leases().by_token(token).is_none());
    assert!(store.leases().by_token(99.into()).is_none());
}

#[test]
fn lease_01_no_duration_and_too_long_a_one_are_errors_and_change_nothing() {
    let (store, _) = timed();
    let mut lease = store.leases().acquire("ann", "teller", SECOND).unwrap();
    assert_eq!(lease.renew(Duration::ZERO), Err(LeaseError::NoDuration));
    let outcome = store.leases().acquire("bob", "teller", Duration::ZERO);
    assert_eq!(outcome.unwrap_err(), LeaseError::NoDuration);
    for duration in [
        Duration::MAX,
        Duration::from_nanos(u64::MAX) + Duration::from_nanos(1),
    ] {
        let outcome = store.leases().acquire("bob", "teller", duration);
        assert_eq!(outcome.unwrap_err(), LeaseError::TooLong { duration });
        assert_eq!(lease.renew(duration), Err(LeaseError::TooLong { duration }));
    }
    assert_eq!(
        store
            .leases()
            .acquire([] as [LeaseTarget; 0], "teller", SECOND)
            .unwrap_err(),
        LeaseError::NoTargets
    );
    assert_eq!(lease.remaining(), SECOND);
    assert_eq!(store.leases().list().len(), 1);
    // The longest possible one.
    drop(
        store
            .leases()
            .acquire("bob", "teller", Duration::from_nanos(u64::MAX))
            .unwrap(),
    );
}

#[test]
fn lease_01_a_lease_reports_its_expiry_as_system_time() {
    let before = SystemTime::now();
    let store = DataStore::new();
    let mut lease = store
        .leases()
        .acquire("ann", "teller", 60 * SECOND)
        .unwrap();
    let at = lease.expires_at();
    assert!(before + 60 * SECOND <= at && at <= SystemTime::now() + 60 * SECOND);
    assert!(lease.remaining() <= 60 * SECOND);
    lease.renew(120 * SECOND).unwrap();
    assert!(lease.expires_at() >= before + 120 * SECOND);
    let json = serde_json::to_value(lease.info()).unwrap();
    let since = lease.expires_at().duration_since(SystemTime::UNIX_EPOCH);
    let millis = u64::try_from(since.unwrap().as_millis()).unwrap();
    let expected = serde_json::json!({
        "targets": [{"node": "ann"}], "ownerId": "teller", "fencingToken": 1, "expiresAt": millis,
    });
    assert_eq!(json, expected);
}

#[test]
fn lease_01_a_lease_is_no_change_of_the_document() {
    let (store, _) = timed();
    commit(&store, |on| {
        drop(
            on.create(doclock::document::NodeSpec::new("account").with_id("ann"))
                .unwrap(),
        )
    });
    let events = store.subscribe();
    let before = store.snapshot();
    let open = store.begin("writer").unwrap();
    let mut lease = store
        .leases()
        .acquire(["ann", "new"], "teller", SECOND)
        .unwrap();
    lease.renew(SECOND).unwrap();
    drop(open);
    assert_eq!((store.version(), store.snapshot()), (1, before.clone()));
    assert_eq!(image(&store.snapshot()), image(&before));
    assert_eq!(store.leases().list(), [lease.info()]);
    assert!(events.try_recv().is_err());
    assert_eq!(store.lock_stats().total_acquisitions, 2);
}

#[test]
fn lease_01_a_lease_outlasts_commits_small_and_large() {
    let (store, clock) = timed();
    let mut lease = store.leases().acquire("ann", "teller", 5 * SECOND).unwrap();
    for nodes in [1, 500] {
        let mut transaction = store.begin("writer").unwrap();
        for _ in 0..nodes {
            transaction
                .create(doclock::document::NodeSpec::new("item"))
                .unwrap();
        }
        // Also leases granted while the transaction is open.
        let meanwhile = store.leases().acquire("bob", "other", SECOND).unwrap();
        transaction.commit().unwrap();
        assert_eq!(owners(&store), ["teller", "other"]);
        lease.renew(5 * SECOND).unwrap();
        meanwhile.release().unwrap();
    }
    assert_eq!(store.leases().list(), [lease.info()]);
    clock.advance(5 * SECOND);
    assert!(owners(&store).is_empty());
}

/// Regression: a lease of an hour ended after 59 minutes and 58 seconds.
#[test]
fn a_lease_lasts_as_long_as_it_was_taken_and_renewed_for() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let mut lease = store
        .leases()
        .acquire("form", "window-1", 3600 * SECOND)
        .unwrap();
    clock.advance(1860 * SECOND);
    assert_eq!(lease.remaining(), 1740 * SECOND);
    assert_eq!(
        store.leases().holder("form").unwrap().remaining,
        1740 * SECOND
    );
    assert_eq!(store.leases().list().len(), 1);
    assert!(
        store
            .leases()
            .acquire("form", "window-2", 60 * SECOND)
            .is_err()
    );
    let mut transaction = store.begin("window-1").unwrap();
    transaction.require(&lease).unwrap();
    transaction.commit().unwrap();
    lease.renew(3600 * SECOND).unwrap();
    clock.advance(3600 * SECOND);
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(
        store
            .leases()
            .acquire("form", "window-2", 60 * SECOND)
            .is_ok()
    );
}
