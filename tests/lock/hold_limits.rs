//! The hold limit of a single request (LOCK 10).

use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::{
    DataStore, LockId, StoreOptions,
    lock::{AcquireOptions, FifoLock, LockOptions, ReleaseOutcome},
    time::ManualClock,
};

use crate::{is_revoked, patient, until_waiting};

const MS: Duration = Duration::from_millis(1);
const NANO: Duration = Duration::from_nanos(1);

/// A store with this hold limit of its lock.
fn store(limit: Option<Duration>) -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let options = match limit {
        Some(limit) => options.hold_limit(limit),
        None => options,
    };
    (DataStore::with_options(options), clock)
}

fn limited(limit: Duration) -> AcquireOptions {
    patient().hold_limit(limit)
}

/// Requests the lock in a separate thread, at this position, and keeps it.
fn waits(store: &DataStore, position: usize, options: AcquireOptions) -> JoinHandle<LockId> {
    let theirs = store.clone();
    let thread = thread::spawn(move || {
        theirs
            .request("waiter")
            .options(options)
            .wait()
            .unwrap()
            .into_id()
    });
    until_waiting(store, position);
    thread
}

/// The holder is revoked when this time has passed and not before, for this waiter.
fn revoked_after(store: &DataStore, clock: &ManualClock, left: Duration, next: JoinHandle<LockId>) {
    let before = store.lock_stats();
    clock.advance(left - NANO);
    assert_eq!(store.queue_length(), before.queue_length, "too early");
    clock.advance(NANO);
    let next = next.join().unwrap();
    assert_eq!(store.current_lock().unwrap().lock_id, next);
    let revocations = store.lock_stats().total_revocations;
    assert_eq!(revocations, before.total_revocations + 1);
}

/// Holds a free lock with a limit of ten milliseconds, whatever the limit of the lock, until the
/// holder is revoked.
fn revoked_when_free<T>(hold: impl Fn(&DataStore, AcquireOptions) -> T) {
    for of_the_lock in [None, Some(MS), Some(100 * MS)] {
        let (store, clock) = store(of_the_lock);
        let held = hold(&store, limited(10 * MS));
        let next = waits(&store, 1, patient());
        revoked_after(&store, &clock, 10 * MS, next);
        drop(held);
    }
}

#[test]
fn lock_10_the_hold_limit_of_a_request_replaces_that_of_the_lock_for_an_id() {
    revoked_when_free(|store, options| {
        store
            .request("ann")
            .options(options)
            .wait()
            .unwrap()
            .into_id()
    });
}

#[test]
fn lock_10_the_hold_limit_of_a_request_replaces_that_of_the_lock_for_a_guard() {
    revoked_when_free(|store, options| store.request("ann").options(options).wait().unwrap());
}

#[test]
fn lock_10_the_hold_limit_of_a_request_replaces_that_of_the_lock_for_a_transaction() {
    revoked_when_free(|store, options| {
        store
            .request_transaction("ann")
            .options(options)
            .wait()
            .unwrap()
    });
}

#[test]
fn lock_10_a_fifo_lock_has_the_hold_limit_of_a_request() {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()).timeout(None));
    let held = lock
        .request("ann")
        .options(limited(MS))
        .wait()
        .unwrap()
        .into_id();
    let theirs = lock.clone();
    let next = thread::spawn(move || theirs.acquire_lock("next").unwrap());
    while lock.queue_length() == 0 {
        thread::yield_now();
    }
    clock.advance(MS);
    let next = next.join().unwrap();
    assert!(is_revoked(held, lock.release_lock(held)));
    assert_eq!(lock.release_lock(next), Ok(ReleaseOutcome::Freed));
}

#[test]
fn lock_10_a_transaction_under_an_id_has_the_hold_limit_of_its_id() {
    let (store, clock) = store(None);
    let id = store
        .request("ann")
        .options(limited(10 * MS))
        .wait()
        .unwrap()
        .into_id();
    let transaction = store.begin_under(id).unwrap();
    let next = waits(&store, 1, patient());
    revoked_after(&store, &clock, 10 * MS, next);
    transaction.commit().unwrap_err();
    assert!(is_revoked(id, store.release_lock(id)));
}

/// The holder before it has a later limit.
#[test]
fn lock_10_a_waiter_with_a_shorter_limit_than_the_holder_before_it_is_revoked_in_time() {
    for of_the_lock in [None, Some(100 * MS)] {
        let (store, clock) = store(of_the_lock);
        let first = store
            .request("first")
            .options(limited(100 * MS))
            .wait()
            .unwrap()
            .into_id();
        let brief = waits(&store, 1, limited(10 * MS));
        let later: Vec<_> = (2..=4)
            .map(|position| waits(&store, position, patient()))
            .collect();
        assert_eq!(store.release_lock(first), Ok(ReleaseOutcome::HandedOver));
        brief.join().unwrap();
        clock.advance(10 * MS - NANO);
        assert_eq!(store.queue_length(), 3);
        clock.advance(NANO);
        until_waiting(&store, 2);
        assert_eq!(store.lock_stats().total_revocations, 1);
        for waiter in later {
            let held = waiter.join().unwrap();
            store.release_lock(held).unwrap();
        }
        assert!(!store.is_locked());
    }
}

#[test]
fn lock_10_a_request_without_a_hold_limit_is_not_revoked_and_the_next_holder_is() {
    let (store, clock) = store(Some(10 * MS));
    let first = store
        .request("ann")
        .options(patient().no_hold_limit())
        .wait()
        .unwrap()
        .into_id();
    let second = waits(&store, 1, patient());
    let third = waits(&store, 2, patient().no_hold_limit());
    let fourth = waits(&store, 3, patient());
    clock.advance(100 * MS);
    assert_eq!(store.queue_length(), 3);
    assert_eq!(store.release_lock(first), Ok(ReleaseOutcome::HandedOver));
    // The keeper had nothing to look for.
    second.join().unwrap();
    clock.advance(10 * MS - NANO);
    assert_eq!(store.queue_length(), 2);
    clock.advance(NANO);
    let third = third.join().unwrap();
    clock.advance(100 * MS);
    assert_eq!(store.lock_stats().total_revocations, 1);
    assert_eq!(store.release_lock(third), Ok(ReleaseOutcome::HandedOver));
    let fourth = fourth.join().unwrap();
    assert_eq!(store.release_lock(fourth), Ok(ReleaseOutcome::Freed));
}

/// The timeout ends with the grant, and the hold limit begins with it.
#[test]
fn lock_10_the_timeout_bounds_the_wait_and_the_hold_limit_the_hold() {
    let (store, clock) = store(None);
    let first = store.acquire_lock("first").unwrap();
    let options = AcquireOptions::new().timeout(20 * MS).hold_limit(10 * MS);
    let second = waits(&store, 1, options);
    // Longer than its hold limit, and shorter than its timeout.
    clock.advance(15 * MS);
    assert_eq!(store.release_lock(first), Ok(ReleaseOutcome::HandedOver));
    second.join().unwrap();
    let next = waits(&store, 1, patient());
    revoked_after(&store, &clock, 10 * MS, next);
    assert_eq!(store.lock_stats().total_timeouts, 0);
}

#[test]
fn lock_10_a_holder_without_waiters_may_exceed_its_hold_limit() {
    let (store, clock) = store(None);
    let mut transaction = store
        .request_transaction("ann")
        .options(limited(MS))
        .wait()
        .unwrap();
    clock.advance(10 * MS);
    transaction
        .create(doclock::document::NodeSpec::new("x"))
        .unwrap();
    assert_eq!(transaction.commit().unwrap().version, 1);
}
