//! Races for the global lock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    DataStore, LockId, StoreOptions,
    lock::{AcquireOptions, CancelToken, FifoLock, LockError, LockOptions},
    time::ManualClock,
};
use loom::thread;

use crate::model::{Actor, Model, Run};

/// A lock whose requests wait without a timeout.
pub(crate) fn patient_lock() -> FifoLock {
    FifoLock::with_options(LockOptions::new().timeout(None))
}

/// Checks that the lock is free, no request waits, and every grant was released.
fn at_rest(lock: &FifoLock) {
    let stats = lock.lock_stats();
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

    fn place(&self, id: LockId) -> usize {
        let granted = self.0.lock().unwrap();
        granted.iter().position(|granted| *granted == id).unwrap()
    }

    /// Checks that ids are numbered in FIFO order.
    fn are_in_fifo_order(&self) {
        let granted = self.0.lock().unwrap();
        assert!(granted.is_sorted(), "{granted:?}");
    }
}

fn exclusion(run: &Run, contenders: u64) {
    let lock = patient_lock();
    let (inside, begun) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let enter = |lock: &FifoLock, inside: &AtomicBool, begun: &AtomicUsize| {
        begun.fetch_add(1, SeqCst);
        let guard = lock.lock("contender").unwrap();
        assert!(!inside.swap(true, SeqCst), "two holders at once");
        let before = begun.load(SeqCst);
        thread::yield_now();
        let others = begun.load(SeqCst) - before;
        inside.store(false, SeqCst);
        drop(guard);
        others
    };
    let others: Vec<_> = (1..contenders)
        .map(|_| {
            let (lock, inside, begun) = (lock.clone(), Arc::clone(&inside), Arc::clone(&begun));
            run.spawn("other", move || enter(&lock, &inside, &begun))
        })
        .collect();
    let meanwhile = enter(&lock, &inside, &begun);
    let others: Vec<_> = others.into_iter().filter_map(Actor::join).collect();
    at_rest(&lock);
    assert_eq!(
        lock.lock_stats().total_acquisitions,
        1 + others.len() as u64
    );
    note_exclusion(run, meanwhile);
}

/// Creates a model of which each execution calls [`note_exclusion`].
pub(crate) fn exclusion_model(name: &'static str, bound: impl Into<Option<usize>>) -> Model {
    Model::new(name, bound)
        .reaches(["no request while it is held"])
        .reaches_by("other", "another comes while it is held")
}

/// Notes whether other requests came while one contender held the lock.
pub(crate) fn note_exclusion(run: &Run, came: usize) {
    run.note(match came {
        0 => "no request while it is held",
        _ => "another comes while it is held",
    });
}

#[test]
fn lock_exclusion_two_contenders() {
    exclusion_model("exclusion, 2 contenders", None).check(|run| exclusion(run, 2));
}

#[test]
fn lock_exclusion_three_contenders() {
    exclusion_model("exclusion, 3 contenders", 3).check(|run| exclusion(run, 3));
}

#[test]
fn lock_grants_follow_the_order_of_requests() {
    Model::new("FIFO, 3 contenders", 3)
        .reaches(["first"])
        .reaches_by("other", "second")
        .reaches_by("other", "third")
        .check(|run| {
            let lock = patient_lock();
            let grants = Grants::default();
            let others = [(); 2].map(|()| {
                let (lock, grants) = (lock.clone(), grants.clone());
                run.spawn("other", move || {
                    let id = lock.acquire_lock("other").unwrap();
                    grants.note(id);
                    lock.release_lock(id).unwrap();
                })
            });
            let id = lock.acquire_lock("main").unwrap();
            grants.note(id);
            lock.release_lock(id).unwrap();
            for other in others {
                other.join();
            }
            grants.are_in_fifo_order();
            at_rest(&lock);
            run.note(["first", "second", "third"][grants.place(id)]);
        });
}

/// A holder releases while `waiters` wait and the timeout of the first of them, `w0`, passes.
fn expiry_against_grant(run: &Run, waiters: usize) {
    let lock = patient_lock();
    let grants = Grants::default();
    let held = lock.acquire_lock("holder").unwrap();
    let threads: Vec<_> = (0..waiters)
        .map(|nth| {
            let (lock, grants) = (lock.clone(), grants.clone());
            thread::spawn(move || match lock.acquire_lock(format!("w{nth}")) {
                Ok(id) => {
                    grants.note(id);
                    lock.release_lock(id).unwrap();
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
        run.spawn("timer", move || lock.expire("w0"))
    };
    lock.release_lock(held).unwrap();
    let granted: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    timer.join();
    run.note(if granted[0] { "granted" } else { "timed out" });

    grants.are_in_fifo_order();
    at_rest(&lock);
    let stats = lock.lock_stats();
    let grants = granted.iter().filter(|&&granted| granted).count() as u64;
    assert_eq!(stats.total_acquisitions, grants + 1);
    assert_eq!(stats.total_timeouts, waiters as u64 - grants);
}

fn expiry_model(name: &'static str, bound: impl Into<Option<usize>>) -> Model {
    Model::new(name, bound)
        .reaches(["granted"])
        .reaches_by("timer", "timed out")
}

#[test]
fn lock_expiry_against_grant_two_contenders() {
    expiry_model("expiry against grant, 2 contenders", None)
        .check(|run| expiry_against_grant(run, 1));
}

#[test]
fn lock_expiry_against_grant_three_contenders() {
    expiry_model("expiry against grant, 3 contenders", 3).check(|run| expiry_against_grant(run, 2));
}

/// As with the expiry, but `w0` carries a token that is cancelled.
fn cancel_against_hand_off(run: &Run, waiters: usize) {
    let lock = patient_lock();
    let token = CancelToken::new();
    let grants = Grants::default();
    let held = lock.acquire_lock("holder").unwrap();
    let threads: Vec<_> = (0..waiters)
        .map(|nth| {
            let (lock, grants) = (lock.clone(), grants.clone());
            let options = match nth {
                0 => AcquireOptions::new().cancel_token(&token),
                _ => AcquireOptions::new(),
            };
            thread::spawn(move || {
                match lock
                    .request("waiter")
                    .options(options)
                    .wait()
                    .map(|guard| guard.into_id())
                {
                    Ok(id) => {
                        grants.note(id);
                        lock.release_lock(id).unwrap();
                        "granted"
                    }
                    Err(LockError::Cancelled(evidence)) => {
                        assert_eq!(nth, 0, "only w0 was cancelled");
                        match evidence.queued {
                            Some(_) => "cancelled",
                            None => "refused",
                        }
                    }
                    Err(other) => panic!("{other}"),
                }
            })
        })
        .collect();
    let canceller = {
        let token = token.clone();
        run.spawn("canceller", move || token.cancel())
    };
    lock.release_lock(held).unwrap();
    let outcomes: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    canceller.join();
    run.note(outcomes[0]);

    grants.are_in_fifo_order();
    at_rest(&lock);
    let granted = outcomes.iter().filter(|&&outcome| outcome == "granted");
    let grants = granted.count() as u64;
    assert_eq!(lock.lock_stats().total_acquisitions, grants + 1);
    assert_eq!(
        lock.lock_stats().total_cancellations,
        waiters as u64 - grants
    );
    assert!(
        format!("{token:?}").contains("waiting: 0"),
        "the token keeps no request"
    );
}

fn cancel_model(name: &'static str, bound: impl Into<Option<usize>>) -> Model {
    Model::new(name, bound)
        .reaches(["granted"])
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused")
}

#[test]
fn lock_cancel_against_hand_off_two_contenders() {
    cancel_model("cancel against hand-off, 2 contenders", None)
        .check(|run| cancel_against_hand_off(run, 1));
}

#[test]
fn lock_cancel_against_hand_off_three_contenders() {
    cancel_model("cancel against hand-off, 3 contenders", 3)
        .check(|run| cancel_against_hand_off(run, 2));
}

#[test]
fn lock_cancel_against_expiry_against_grant() {
    cancel_model("cancel against expiry against grant", 4)
        .reaches_by("timer", "timed out")
        .check(|run| {
            let lock = patient_lock();
            let token = CancelToken::new();
            let held = lock.acquire_lock("holder").unwrap();
            let waiter = {
                let (lock, options) = (lock.clone(), AcquireOptions::new().cancel_token(&token));
                thread::spawn(move || lock.request("w0").options(options).wait().map(drop))
            };
            let timer = {
                let lock = lock.clone();
                run.spawn("timer", move || lock.expire("w0"))
            };
            let canceller = run.spawn("canceller", move || token.cancel());
            lock.release_lock(held).unwrap();
            let outcome = waiter.join().unwrap();
            timer.join();
            canceller.join();

            at_rest(&lock);
            let stats = lock.lock_stats();
            let counts = (
                stats.total_acquisitions - 1,
                stats.total_timeouts,
                stats.total_cancellations,
            );
            let (expected, outcome) = match outcome {
                Ok(()) => ((1, 0, 0), "granted"),
                Err(LockError::Timeout(_)) => ((0, 1, 0), "timed out"),
                Err(LockError::Cancelled(evidence)) => match evidence.queued {
                    Some(_) => ((0, 0, 1), "cancelled"),
                    None => ((0, 0, 1), "refused"),
                },
                Err(other) => panic!("{other}"),
            };
            assert_eq!(counts, expected);
            run.note(outcome);
        });
}

#[test]
fn lock_try_never_overtakes() {
    Model::new("try against a waiter and a release", None)
        .reaches(["granted", "held by the first"])
        .reaches_by("waiter", "held by the waiter")
        .check(|run| {
            let lock = patient_lock();
            let grants = Grants::default();
            let held = lock.acquire_lock("holder").unwrap();
            let asks = |owner: &'static str, options: AcquireOptions| {
                let (lock, grants) = (lock.clone(), grants.clone());
                move || match lock
                    .request(owner)
                    .options(options)
                    .wait()
                    .map(|guard| guard.into_id())
                {
                    Ok(id) => {
                        grants.note(id);
                        lock.release_lock(id).unwrap();
                        "granted"
                    }
                    Err(LockError::WouldBlock { holder, .. }) if holder.lock_id == held => {
                        "held by the first"
                    }
                    Err(LockError::WouldBlock { .. }) => "held by the waiter",
                    Err(other) => panic!("{other}"),
                }
            };
            let waiter = run.spawn("waiter", asks("waiter", AcquireOptions::new()));
            let eager = thread::spawn(asks("eager", AcquireOptions::new().no_wait()));
            lock.release_lock(held).unwrap();
            waiter.join();
            run.note(eager.join().unwrap());
            grants.are_in_fifo_order();
            at_rest(&lock);
        });
}

#[test]
fn lock_a_holder_that_is_dropped_serves_its_waiters() {
    Model::new("drop of a holder with 2 waiters", 3)
        .reaches_by("dropper", "dropped before they came")
        .reaches_by("dropper", "dropped when they had come")
        .check(|run| {
            let lock = patient_lock();
            let guard = lock.lock("holder").unwrap();
            let begun = Arc::new(AtomicUsize::new(0));
            let waiters = [(); 2].map(|()| {
                let (lock, begun) = (lock.clone(), Arc::clone(&begun));
                thread::spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    drop(lock.lock("waiter").unwrap());
                })
            });
            // The handle goes first, then the guard, in another thread than the acquiring one.
            let watched = lock.clone();
            drop(lock);
            let dropper = {
                let (run, begun) = (run.clone(), Arc::clone(&begun));
                run.clone().spawn("dropper", move || {
                    match begun.load(SeqCst) {
                        0 => run.note("dropped before they came"),
                        2 => run.note("dropped when they had come"),
                        _ => {}
                    }
                    drop(guard);
                })
            };
            for waiter in waiters {
                waiter.join().unwrap();
            }
            dropper.join();
            at_rest(&watched);
        });
}

/// The waiter's own way through its deadline: a manual clock moves while it looks, sleeps and
/// withdraws. The holder stays until the waiter is gone, or is released meanwhile.
fn deadline(run: &Run, released: bool) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let held = store.acquire_lock("holder").unwrap();
    let waiter = {
        let store = store.clone();
        let options = AcquireOptions::new().timeout(Duration::from_millis(1));
        thread::spawn(move || store.request("w0").options(options).wait().map(drop))
    };
    while store.queue_length() == 0 {
        thread::yield_now();
    }
    let mover = run.spawn("mover", move || clock.advance(Duration::from_millis(1)));
    if released {
        store.release_lock(held).unwrap();
        mover.join();
    } else if mover.join().is_none() {
        // Without the actor the timeout does not pass.
        store.release_lock(held).unwrap();
    }
    let outcome = waiter.join().unwrap();
    if store.is_locked() {
        store.release_lock(held).unwrap();
    }
    let stats = store.lock_stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.total_timeouts, u64::from(outcome.is_err()));
    run.note(match outcome {
        Ok(()) => "granted",
        Err(LockError::Timeout(_)) => "timed out",
        Err(other) => panic!("{other}"),
    });
}

#[test]
fn lock_a_deadline_always_wakes_its_waiter() {
    Model::new("deadline, no release", None)
        .reaches_by("mover", "timed out")
        .check(|run| deadline(run, false));
}

#[test]
fn lock_a_deadline_against_a_release() {
    Model::new("deadline against release", None)
        .reaches(["granted"])
        .reaches_by("mover", "timed out")
        .check(|run| deadline(run, true));
}
