//! Races for a lock in a hurry, whose holder may leave without the mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use doclock::{AcquireOptions, DataStore, FifoLock, LockError, Released, StoreOptions};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::model::{check, check_all};
use crate::site::{Site, at_rest};

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_wait_limit()
}

fn hurried() -> FifoLock {
    let lock = FifoLock::new();
    lock.hurry();
    lock
}

/// Adds one as to plain data: only the lock orders it.
fn count(data: &AtomicU64) {
    let before = data.load(Ordering::Relaxed);
    thread::yield_now();
    data.store(before + 1, Ordering::Relaxed);
}

/// Each finds what those before it have left, also where a hold ends or begins without the mutex.
fn exclusion(contenders: u64) {
    let lock = hurried();
    let data = Arc::new(AtomicU64::new(0));
    let enter = |lock: &FifoLock, data: &AtomicU64| {
        let id = lock.acquire("contender", patient()).unwrap();
        count(data);
        assert_ne!(lock.release(id).unwrap(), Released::NothingHeld);
    };
    let others: Vec<_> = (1..contenders)
        .map(|_| {
            let (lock, data) = (lock.clone(), Arc::clone(&data));
            thread::spawn(move || enter(&lock, &data))
        })
        .collect();
    enter(&lock, &data);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert!(!lock.is_locked());
    let stats = lock.stats();
    at_rest(&stats);
    assert_eq!(stats.total_acquisitions, contenders);
    let id = lock.acquire("last", patient()).unwrap();
    assert_eq!(data.load(Ordering::Relaxed), contenders);
    lock.release(id).unwrap();
}

#[test]
fn word_exclusion_two_contenders() {
    check("hurried exclusion, 2 contenders", None, || exclusion(2));
}

#[test]
fn word_exclusion_three_contenders() {
    check("hurried exclusion, 3 contenders", Some(3), || exclusion(3));
}

/// One who holds, one who waits and one who looks: what is seen holds together.
#[test]
fn word_release_against_a_look() {
    let outcomes = ["free", "held", "held by the first"];
    check_all("hurried release against a look", None, outcomes, |seen| {
        let lock = hurried();
        let first = lock.acquire("first", patient()).unwrap();
        let second = {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock("second", patient()).unwrap()))
        };
        let looker = {
            let (lock, seen) = (lock.clone(), seen.clone());
            thread::spawn(move || {
                let current = lock.current();
                let stats = lock.stats();
                let ended = stats.total_releases + u64::from(stats.is_locked);
                assert_eq!(stats.total_acquisitions, ended);
                let now = stats.current_lock.map(|info| info.lock_id);
                // Nobody comes back.
                assert!(now != Some(first) || current.is_some());
                seen.note(match current {
                    None => "free",
                    Some(info) if info.lock_id == first => "held by the first",
                    Some(_) => "held",
                });
            })
        };
        lock.release(first).unwrap();
        second.join().unwrap();
        looker.join().unwrap();
        let stats = lock.stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 2);
        assert_eq!(stats.hold.count, 2);
    });
}

#[test]
fn word_release_against_a_waiter_and_a_try() {
    let outcomes = ["try declined", "try granted"];
    check_all("hurried release against a try", None, outcomes, |seen| {
        let lock = hurried();
        let first = lock.acquire("first", patient()).unwrap();
        let waiter = {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock("waiter", patient()).unwrap()))
        };
        let eager = {
            let (lock, seen) = (lock.clone(), seen.clone());
            thread::spawn(move || match lock.acquire("eager", patient().no_wait()) {
                Ok(id) => {
                    lock.release(id).unwrap();
                    seen.note("try granted");
                    1
                }
                Err(LockError::WouldBlock { holder, .. }) => {
                    assert_ne!(holder.owner_id.as_str(), "eager");
                    seen.note("try declined");
                    0
                }
                Err(other) => panic!("{other}"),
            })
        };
        lock.release(first).unwrap();
        waiter.join().unwrap();
        let granted = eager.join().unwrap();
        let stats = lock.stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 2 + granted);
    });
}

#[test]
fn word_release_against_expiry() {
    let outcomes = ["granted", "timed out"];
    check_all(
        "hurried release against expiry",
        Some(3),
        outcomes,
        |seen| {
            let lock = hurried();
            let first = lock.acquire("first", patient()).unwrap();
            let waiters = ["w0", "w1"].map(|name| {
                let lock = lock.clone();
                thread::spawn(move || lock.lock(name, patient()).map(drop))
            });
            let timer = {
                let lock = lock.clone();
                thread::spawn(move || lock.expire("w0"))
            };
            lock.release(first).unwrap();
            let [w0, w1] = waiters.map(|waiter| waiter.join().unwrap());
            timer.join().unwrap();
            let stats = lock.stats();
            at_rest(&stats);
            w1.unwrap();
            match w0 {
                Ok(()) => seen.note("granted"),
                Err(LockError::Timeout(_)) => seen.note("timed out"),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(stats.total_acquisitions + stats.total_timeouts, 3);
        },
    );
}

#[test]
fn word_release_of_a_guard_against_the_transaction_under_it() {
    check("hurried guard and its transaction", None, || {
        let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
        store.hurry();
        let guard = store.lock("guard").unwrap();
        let transaction = store.begin_with(guard.id()).unwrap();
        let open = Arc::new(AtomicBool::new(true));
        let dropper = thread::spawn(move || drop(guard));
        let waiter = {
            let (store, open) = (store.clone(), Arc::clone(&open));
            thread::spawn(move || {
                let _guard = store.lock("waiter").unwrap();
                assert!(!open.load(SeqCst), "granted beside a transaction");
            })
        };
        thread::yield_now();
        open.store(false, SeqCst);
        transaction.rollback();
        dropper.join().unwrap();
        waiter.join().unwrap();
        let stats = store.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 2);
    });
}

#[test]
fn word_lists_that_nobody_measures() {
    let outcomes = ["each by itself", "delegated"];
    check_all("hurried lists", Some(3), outcomes, |seen| {
        let site = Site::new(StoreOptions::new());
        site.store.hurry();
        let b = site.spawn_list("b", AcquireOptions::new());
        let c = site.spawn_list("c", AcquireOptions::new());
        let a = site.submit("a", AcquireOptions::new());
        let (b, c) = (b.join().unwrap(), c.join().unwrap());
        site.are_in_order_of_asking();
        let stats = site.at_rest(&[("a", &a), ("b", &b), ("c", &c)]);
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(stats.total_acquisitions, 3);
        let own = site.turns().iter().all(|(name, by)| name == by);
        seen.note(if own { "each by itself" } else { "delegated" });
    });
}
