//! Races for a lock whose hold is not measured: its holder may release without the mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use doclock::{
    DataStore, StoreOptions,
    lock::{AcquireOptions, FifoLock, LockError},
};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::lock::{exclusion_model, note_exclusion, patient_lock};
use crate::model::{Actor, Model, Run};
use crate::site::{Site, at_rest};

fn unmeasured() -> FifoLock {
    let lock = patient_lock();
    lock.skip_measured_hold();
    lock
}

/// Adds one as to plain data: only the lock orders it.
fn count(data: &AtomicU64) {
    let before = data.load(Ordering::Relaxed);
    thread::yield_now();
    data.store(before + 1, Ordering::Relaxed);
}

/// Each finds the writes of earlier holders, even if a hold ends or begins without the mutex.
fn exclusion(run: &Run, lock: FifoLock, contenders: usize) {
    let data = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicUsize::new(0));
    let enter = |lock: &FifoLock, data: &AtomicU64, begun: &AtomicUsize| {
        begun.fetch_add(1, SeqCst);
        let id = lock.acquire_lock("contender").unwrap();
        let before = begun.load(SeqCst);
        count(data);
        let others = begun.load(SeqCst) - before;
        lock.release_lock(id).unwrap();
        others
    };
    let others: Vec<_> = (1..contenders)
        .map(|_| {
            let (lock, data, begun) = (lock.clone(), Arc::clone(&data), Arc::clone(&begun));
            run.spawn("other", move || enter(&lock, &data, &begun))
        })
        .collect();
    let meanwhile = enter(&lock, &data, &begun);
    let others: Vec<_> = others.into_iter().filter_map(Actor::join).collect();
    let contenders = 1 + others.len() as u64;
    assert!(!lock.is_locked());
    let stats = lock.lock_stats();
    at_rest(&stats);
    assert_eq!(stats.total_acquisitions, contenders);
    let id = lock.acquire_lock("last").unwrap();
    assert_eq!(data.load(Ordering::Relaxed), contenders);
    lock.release_lock(id).unwrap();
    note_exclusion(run, meanwhile);
}

#[test]
fn word_exclusion_two_contenders() {
    exclusion_model("unmeasured exclusion, 2 contenders", None)
        .check(|run| exclusion(run, unmeasured(), 2));
}

#[test]
fn word_exclusion_three_contenders() {
    let model = exclusion_model("unmeasured exclusion, 3 contenders", 3);
    model.check(|run| exclusion(run, unmeasured(), 3));
}

/// One holder, one waiter and one reader: the reader sees a consistent state.
#[test]
fn word_release_against_a_reader_of_the_holder() {
    let model = Model::new("unmeasured release against a look", None)
        .reaches(["free", "held by the first"])
        .reaches_by("waiter", "held by the waiter");
    model.check(|run| {
        let lock = unmeasured();
        let first = lock.acquire_lock("first").unwrap();
        let second = {
            let lock = lock.clone();
            run.spawn("waiter", move || drop(lock.lock("second").unwrap()))
        };
        let looker = {
            let (lock, run) = (lock.clone(), run.clone());
            thread::spawn(move || {
                let current = lock.current_lock();
                let stats = lock.lock_stats();
                let ended = stats.total_releases + u64::from(stats.is_locked);
                assert_eq!(stats.total_acquisitions, ended);
                let now = stats.current_lock.map(|info| info.lock_id);
                // No earlier holder comes back.
                assert!(now != Some(first) || current.is_some());
                run.note(match current {
                    None => "free",
                    Some(info) if info.lock_id == first => "held by the first",
                    Some(_) => "held by the waiter",
                });
            })
        };
        lock.release_lock(first).unwrap();
        let holds = 1 + second.join().map_or(0, |()| 1);
        looker.join().unwrap();
        let stats = lock.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, holds);
        assert_eq!(stats.hold.count, holds);
    });
}

#[test]
fn word_release_against_a_waiter_and_a_try() {
    let model = Model::new("unmeasured release against a try", None)
        .reaches(["granted", "held by the first"])
        .reaches_by("waiter", "held by the waiter");
    model.check(|run| {
        let lock = unmeasured();
        let first = lock.acquire_lock("first").unwrap();
        let waiter = {
            let lock = lock.clone();
            run.spawn("waiter", move || drop(lock.lock("waiter").unwrap()))
        };
        let eager = {
            let (lock, run) = (lock.clone(), run.clone());
            thread::spawn(move || {
                match lock
                    .request("eager")
                    .options(AcquireOptions::new().no_wait())
                    .wait()
                    .map(|guard| guard.into_id())
                {
                    Ok(id) => {
                        lock.release_lock(id).unwrap();
                        run.note("granted");
                        1
                    }
                    Err(LockError::WouldBlock { holder, .. }) => {
                        run.note(match holder.owner_id.as_str() {
                            "first" => "held by the first",
                            "waiter" => "held by the waiter",
                            other => panic!("{other}"),
                        });
                        0
                    }
                    Err(other) => panic!("{other}"),
                }
            })
        };
        lock.release_lock(first).unwrap();
        let waited = waiter.join().map_or(0, |()| 1);
        let granted = eager.join().unwrap();
        let stats = lock.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 1 + waited + granted);
    });
}

#[test]
fn word_release_against_expiry() {
    let model = Model::new("unmeasured release against expiry", 3)
        .reaches(["granted"])
        .reaches_by("timer", "timed out");
    model.check(|run| {
        let lock = unmeasured();
        let first = lock.acquire_lock("first").unwrap();
        let waiters = ["w0", "w1"].map(|name| {
            let lock = lock.clone();
            thread::spawn(move || lock.lock(name).map(drop))
        });
        let timer = {
            let lock = lock.clone();
            run.spawn("timer", move || lock.expire("w0"))
        };
        lock.release_lock(first).unwrap();
        let [w0, w1] = waiters.map(|waiter| waiter.join().unwrap());
        timer.join();
        let stats = lock.lock_stats();
        at_rest(&stats);
        w1.unwrap();
        match w0 {
            Ok(()) => run.note("granted"),
            Err(LockError::Timeout(_)) => run.note("timed out"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(stats.total_acquisitions + stats.total_timeouts, 3);
    });
}

#[test]
fn word_release_of_a_guard_against_the_transaction_under_it() {
    let model = Model::new("unmeasured guard and its transaction", None)
        .reaches_by("dropper", "dropped first")
        .reaches_by("dropper", "rolled back first");
    model.check(|run| {
        let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
        store.skip_measured_hold();
        let guard = store.lock("guard").unwrap();
        let transaction = store.begin_under(guard.id()).unwrap();
        let open = Arc::new(AtomicBool::new(true));
        let dropper = {
            let (run, open) = (run.clone(), Arc::clone(&open));
            run.clone().spawn("dropper", move || {
                drop(guard);
                run.note(match open.load(SeqCst) {
                    true => "dropped first",
                    false => "rolled back first",
                });
            })
        };
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
        dropper.join();
        waiter.join().unwrap();
        let stats = store.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 2);
    });
}

#[test]
fn word_unmeasured_batches() {
    let model = Model::new("unmeasured batches", 3)
        .reaches(["each by itself"])
        .reaches_by("others", "combined");
    model.check(|run| {
        let site = Site::new(run, StoreOptions::new());
        site.store.skip_measured_hold();
        let submit = |name| move |site: &Site| site.submit(name, AcquireOptions::new());
        let others = ["b", "c"].map(|name| (name, site.act("others", submit(name))));
        let a = site.submit("a", AcquireOptions::new());
        let joined = |(name, other): (_, Actor<_>)| Some((name, other.join()?));
        let others: Vec<_> = others.into_iter().filter_map(joined).collect();
        let outcomes = others.iter().map(|(name, outcome)| (*name, outcome));
        let outcomes: Vec<_> = [("a", &a)].into_iter().chain(outcomes).collect();
        site.are_in_fifo_order();
        let stats = site.at_rest(&outcomes);
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
        assert_eq!(stats.total_acquisitions, outcomes.len() as u64);
        let own = site.turns().iter().all(|(name, by)| name == by);
        run.note(if own { "each by itself" } else { "combined" });
    });
}
