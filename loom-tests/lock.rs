//! Races for the global lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    AcquireOptions, CancelToken, DataStore, FifoLock, LockError, LockId, ManualClock, Released,
    StoreOptions,
};
use loom::thread;

use crate::model::check;

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_wait_limit()
}

/// Nobody holds, nobody waits, and every grant was released.
fn at_rest(lock: &FifoLock) {
    let stats = lock.stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.total_acquisitions, stats.total_releases);
}

/// The order of grants. Not loom's: it only records, and must not add to the interleavings.
#[derive(Clone, Default)]
struct Grants(Arc<Mutex<Vec<LockId>>>);

impl Grants {
    fn note(&self, id: LockId) {
        self.0.lock().unwrap().push(id);
    }

    /// Ids are numbered in the order of asking.
    fn are_in_order_of_asking(&self) {
        let granted = self.0.lock().unwrap();
        assert!(granted.is_sorted(), "{granted:?}");
    }
}

fn exclusion(contenders: usize) {
    let lock = FifoLock::new();
    let inside = Arc::new(AtomicBool::new(false));
    let enter = |lock: &FifoLock, inside: &AtomicBool| {
        let guard = lock.lock("contender", patient()).unwrap();
        assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
        thread::yield_now();
        inside.store(false, Ordering::SeqCst);
        drop(guard);
    };
    let others: Vec<_> = (1..contenders)
        .map(|_| {
            let (lock, inside) = (lock.clone(), Arc::clone(&inside));
            thread::spawn(move || enter(&lock, &inside))
        })
        .collect();
    enter(&lock, &inside);
    others.into_iter().for_each(|other| other.join().unwrap());
    at_rest(&lock);
    assert_eq!(lock.stats().total_acquisitions, contenders as u64);
}

#[test]
fn lock_exclusion_two_contenders() {
    check("exclusion, 2 contenders", None, || exclusion(2));
}

#[test]
fn lock_exclusion_three_contenders() {
    check("exclusion, 3 contenders", Some(3), || exclusion(3));
}

#[test]
fn lock_grants_follow_the_order_of_asking() {
    check("FIFO, 3 contenders", Some(3), || {
        let lock = FifoLock::new();
        let grants = Grants::default();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (lock, grants) = (lock.clone(), grants.clone());
                thread::spawn(move || {
                    let id = lock.acquire("other", patient()).unwrap();
                    grants.note(id);
                    lock.release(id).unwrap();
                })
            })
            .collect();
        let id = lock.acquire("main", patient()).unwrap();
        grants.note(id);
        lock.release(id).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        grants.are_in_order_of_asking();
        at_rest(&lock);
    });
}

/// A holder releases, `waiters` wait, and meanwhile the limit of the first of them, `w0`, passes.
fn expiry_against_grant(waiters: usize) {
    let lock = FifoLock::new();
    let grants = Grants::default();
    let held = lock.acquire("holder", patient()).unwrap();
    let threads: Vec<_> = (0..waiters)
        .map(|nth| {
            let (lock, grants) = (lock.clone(), grants.clone());
            thread::spawn(move || match lock.acquire(format!("w{nth}"), patient()) {
                Ok(id) => {
                    grants.note(id);
                    assert_ne!(lock.release(id).unwrap(), Released::NothingHeld);
                    true
                }
                Err(LockError::Timeout(evidence)) => {
                    assert_eq!(nth, 0, "only the limit of w0 passed");
                    assert_ne!(evidence.id, evidence.holder.lock_id);
                    false
                }
                Err(other) => panic!("{other}"),
            })
        })
        .collect();
    let timer = {
        let lock = lock.clone();
        thread::spawn(move || lock.expire("w0"))
    };
    lock.release(held).unwrap();
    let granted: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    timer.join().unwrap();

    grants.are_in_order_of_asking();
    at_rest(&lock);
    let stats = lock.stats();
    let grants = granted.iter().filter(|&&granted| granted).count() as u64;
    assert_eq!(stats.total_acquisitions, grants + 1);
    assert_eq!(stats.total_timeouts, waiters as u64 - grants);
}

#[test]
fn lock_expiry_against_grant_two_contenders() {
    check("expiry against grant, 2 contenders, 1 timer", None, || {
        expiry_against_grant(1);
    });
}

#[test]
fn lock_expiry_against_grant_three_contenders() {
    check(
        "expiry against grant, 3 contenders, 1 timer",
        Some(3),
        || {
            expiry_against_grant(2);
        },
    );
}

/// As with the expiry, but `w0` carries a token that is cancelled.
fn cancel_against_hand_off(waiters: usize) {
    let lock = FifoLock::new();
    let token = CancelToken::new();
    let grants = Grants::default();
    let held = lock.acquire("holder", patient()).unwrap();
    let threads: Vec<_> = (0..waiters)
        .map(|nth| {
            let (lock, grants) = (lock.clone(), grants.clone());
            let options = match nth {
                0 => patient().cancel_token(&token),
                _ => patient(),
            };
            thread::spawn(move || match lock.acquire("waiter", options) {
                Ok(id) => {
                    grants.note(id);
                    lock.release(id).unwrap();
                    true
                }
                Err(LockError::Cancelled(_)) => {
                    assert_eq!(nth, 0, "only w0 was cancelled");
                    false
                }
                Err(other) => panic!("{other}"),
            })
        })
        .collect();
    let canceller = {
        let token = token.clone();
        thread::spawn(move || token.cancel())
    };
    lock.release(held).unwrap();
    let granted: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    canceller.join().unwrap();

    grants.are_in_order_of_asking();
    at_rest(&lock);
    let grants = granted.iter().filter(|&&granted| granted).count() as u64;
    assert_eq!(lock.stats().total_acquisitions, grants + 1);
    assert_eq!(lock.stats().total_cancellations, waiters as u64 - grants);
    assert!(
        format!("{token:?}").contains("waiting: 0"),
        "the token keeps nobody"
    );
}

#[test]
fn lock_cancel_against_hand_off_two_contenders() {
    check("cancel against hand-off, 2 contenders", None, || {
        cancel_against_hand_off(1);
    });
}

#[test]
fn lock_cancel_against_hand_off_three_contenders() {
    check("cancel against hand-off, 3 contenders", Some(3), || {
        cancel_against_hand_off(2);
    });
}

#[test]
fn lock_cancel_against_expiry_against_grant() {
    check("cancel against expiry against grant", Some(4), || {
        let lock = FifoLock::new();
        let token = CancelToken::new();
        let held = lock.acquire("holder", patient()).unwrap();
        let waiter = {
            let (lock, options) = (lock.clone(), patient().cancel_token(&token));
            thread::spawn(move || lock.lock("w0", options).map(drop))
        };
        let timer = {
            let lock = lock.clone();
            thread::spawn(move || lock.expire("w0"))
        };
        let canceller = thread::spawn(move || token.cancel());
        lock.release(held).unwrap();
        let outcome = waiter.join().unwrap();
        timer.join().unwrap();
        canceller.join().unwrap();

        at_rest(&lock);
        let stats = lock.stats();
        let counts = (
            stats.total_acquisitions - 1,
            stats.total_timeouts,
            stats.total_cancellations,
        );
        match outcome {
            Ok(()) => assert_eq!(counts, (1, 0, 0)),
            Err(LockError::Timeout(_)) => assert_eq!(counts, (0, 1, 0)),
            Err(LockError::Cancelled(_)) => assert_eq!(counts, (0, 0, 1)),
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn lock_try_never_overtakes() {
    check("try against a waiter and a release", None, || {
        let lock = FifoLock::new();
        let grants = Grants::default();
        let held = lock.acquire("holder", patient()).unwrap();
        let spawn = |options: AcquireOptions| {
            let (lock, grants) = (lock.clone(), grants.clone());
            thread::spawn(move || match lock.acquire("other", options) {
                Ok(id) => {
                    grants.note(id);
                    lock.release(id).unwrap();
                }
                Err(LockError::WouldBlock { .. }) => {}
                Err(other) => panic!("{other}"),
            })
        };
        let waiter = spawn(patient());
        let eager = spawn(patient().no_wait());
        lock.release(held).unwrap();
        waiter.join().unwrap();
        eager.join().unwrap();
        grants.are_in_order_of_asking();
        at_rest(&lock);
    });
}

#[test]
fn lock_a_holder_that_is_dropped_serves_its_waiters() {
    check("drop of a holder with 2 waiters", Some(3), || {
        let lock = FifoLock::new();
        let guard = lock.lock("holder", patient()).unwrap();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || drop(lock.lock("waiter", patient()).unwrap()))
            })
            .collect();
        // The handle goes first, then the guard, elsewhere than where it was taken.
        let watched = lock.clone();
        drop(lock);
        let dropper = thread::spawn(move || drop(guard));
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
        dropper.join().unwrap();
        at_rest(&watched);
    });
}

/// The waiter's own way through its deadline: a manual clock moves while it looks, sleeps and withdraws.
fn deadline(released: bool) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let held = store.acquire_lock("holder").unwrap();
    let waiter = {
        let store = store.clone();
        let options = AcquireOptions::new().wait_limit(Duration::from_millis(1));
        thread::spawn(move || store.lock_with("w0", options).map(drop))
    };
    while store.queue_length() == 0 {
        thread::yield_now();
    }
    let releaser = released.then(|| {
        let store = store.clone();
        thread::spawn(move || store.release_lock(held).unwrap())
    });
    clock.advance(Duration::from_millis(1));
    let outcome = waiter.join().unwrap();
    match releaser {
        Some(releaser) => drop(releaser.join().unwrap()),
        None => {
            assert!(matches!(outcome, Err(LockError::Timeout(_))));
            store.release_lock(held).unwrap();
        }
    }
    let stats = store.lock_stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.total_timeouts, u64::from(outcome.is_err()));
}

#[test]
fn lock_a_deadline_always_wakes_its_waiter() {
    check("deadline, nobody releases", None, || deadline(false));
}

#[test]
fn lock_a_deadline_against_a_release() {
    check("deadline against release", None, || deadline(true));
}
