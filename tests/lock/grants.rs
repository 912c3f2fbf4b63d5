//! The order of grants: ids, release, FIFO, tries (LOCK 1-4, 13).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, Draft, LockId, TransactionManager, dsl,
    lock::{AcquireOptions, CancelToken, LockError, ReleaseError, ReleaseOutcome},
};

use crate::{is_revoked, patient, timed_store, timeout_of, until_waiting};

#[test]
fn lock_01_acquire_reports_owner_and_id_and_release_unlocks() {
    let store = DataStore::new();
    assert!(!store.is_locked());
    assert_eq!(store.current_lock(), None);

    let id = store.acquire_lock("test-owner").unwrap();
    assert!(store.is_locked());
    let info = store.current_lock().unwrap();
    assert_eq!(info.lock_id, id);
    assert_eq!(info.owner_id.as_str(), "test-owner");

    assert_eq!(store.release_lock(id), Ok(ReleaseOutcome::Freed));
    assert!(!store.is_locked());
    assert_eq!(store.current_lock(), None);
}

#[test]
fn lock_01_a_guard_that_becomes_an_id_keeps_the_lock_and_lets_its_thread_wait() {
    let (store, clock) = timed_store();
    let guard = store.request("ann").label("drag").wait().unwrap();
    let refused = store.try_lock("ann").unwrap_err();
    assert!(matches!(refused, LockError::Reentrant { .. }), "{refused}");
    let (id, of_the_guard) = (guard.id(), guard.into_id());
    assert_eq!(id, of_the_guard);
    let refused = store.try_lock("ann").unwrap_err();
    assert!(matches!(refused, LockError::WouldBlock { .. }), "{refused}");
    clock.advance(Duration::from_millis(3));
    assert_eq!(store.release_lock(id), Ok(ReleaseOutcome::Freed));
    let stats = store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (1, 1));
}

#[test]
fn lock_02_a_guard_that_becomes_an_id_after_its_revocation_holds_nothing() {
    let (store, clock) = timed_store();
    let options = AcquireOptions::new().hold_limit(Duration::from_millis(5));
    let guard = store.request("ann").options(options).wait().unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| store.acquire_lock("bob").unwrap());
        until_waiting(&store, 1);
        clock.advance(Duration::from_millis(5));
        let other = other.join().unwrap();
        let id = guard.into_id();
        assert!(is_revoked(id, store.release_lock(id)));
        assert_eq!(store.current_lock().unwrap().lock_id, other);
    });
}

#[test]
fn lock_01_ids_have_their_form_and_never_repeat() {
    let store = DataStore::new();
    let other = DataStore::new();
    let mut seen = std::collections::HashSet::new();
    for turn in 0..10_000 {
        let store = if turn % 2 == 0 { &store } else { &other };
        let id = store.acquire_lock("x").unwrap();
        let text = id.to_string();
        let mut parts = text.splitn(3, '-');
        assert_eq!(parts.next(), Some("lock"));
        assert!(parts.next().unwrap().bytes().all(|b| b.is_ascii_digit()));
        let suffix = parts.next().unwrap();
        assert!(!suffix.is_empty());
        assert!(
            suffix
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        );
        assert_eq!(text.parse::<LockId>(), Ok(id));
        assert!(seen.insert(text), "an id came twice");
        store.release_lock(id).unwrap();
    }
}

#[test]
fn lock_02_a_wrong_id_names_both_and_releases_nothing() {
    let store = DataStore::new();
    let stale = store.acquire_lock("a").unwrap();
    store.release_lock(stale).unwrap();
    let held = store.acquire_lock("b").unwrap();

    let error = store.release_lock(stale).unwrap_err();
    let (expected, got) = (held, stale);
    assert_eq!(error, ReleaseError::Mismatch { expected, got });
    assert_eq!(
        error.to_string(),
        format!("Lock ID mismatch: expected {held}, got {stale}")
    );
    assert_eq!(store.current_lock().unwrap().lock_id, held);

    // The same number, issued by another store.
    let elsewhere = DataStore::new();
    let _ = elsewhere
        .acquire_lock("c")
        .map(|id| elsewhere.release_lock(id));
    let foreign = elsewhere.acquire_lock("c").unwrap();
    assert_eq!(foreign.number(), held.number());
    assert!(store.release_lock(foreign).is_err());
    assert!(store.is_locked());
}

/// A second release of an id was an error while another grant was held, but not while the lock was
/// free.
#[test]
fn lock_02_a_stale_id_is_an_error_in_every_state() {
    let store = DataStore::new();
    let id = store.acquire_lock("a").unwrap();
    assert_eq!(store.release_lock(id), Ok(ReleaseOutcome::Freed));
    let error = store.release_lock(id).unwrap_err();
    assert_eq!(error, ReleaseError::NotHeld { id });
    assert_eq!(error.to_string(), format!("lock {id} is not held"));
    let error = store.begin_under(id).unwrap_err();
    assert_eq!(error.to_string(), format!("lock {id} is not held"));

    let held = store.acquire_lock("b").unwrap();
    let error = store.release_lock(id).unwrap_err();
    let mismatch = format!("Lock ID mismatch: expected {held}, got {id}");
    assert_eq!(error.to_string(), mismatch);
    assert_eq!(store.current_lock().unwrap().lock_id, held);

    let waiter = thread::spawn({
        let store = store.clone();
        move || {
            store
                .request("c")
                .options(patient())
                .wait()
                .unwrap()
                .into_id()
        }
    });
    until_waiting(&store, 1);
    assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::HandedOver));
    // The waiter holds the lock already, even if its thread has not continued yet.
    let error = store.release_lock(held).unwrap_err();
    let next = waiter.join().unwrap();
    let (expected, got) = (next, held);
    assert_eq!(error, ReleaseError::Mismatch { expected, got });
    assert_eq!(store.release_lock(next), Ok(ReleaseOutcome::Freed));
    assert_eq!(store.lock_stats().total_releases, 3);
}

#[test]
fn lock_03_a_release_never_frees_the_lock_of_another_holder() {
    let store = DataStore::new();
    let first = store.lock("a").unwrap();
    let first_id = first.id();
    // The guard's lock is released by id without the guard, and another request is granted.
    store.release_lock(first_id).unwrap();
    let second = store.acquire_lock("b").unwrap();

    drop(first);
    assert_eq!(store.current_lock().unwrap().lock_id, second);
    assert!(store.release_lock(first_id).is_err());
    assert_eq!(store.current_lock().unwrap().lock_id, second);
}

/// Starts waiters one by one, each when the previous one is in the queue, and returns the order of
/// their grants.
fn grant_order(kinds: impl Iterator<Item = Kind>) -> (Vec<usize>, usize) {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = store.acquire_lock("holder").unwrap();
    let waiters: Vec<_> = kinds
        .enumerate()
        .map(|(nth, kind)| {
            let (theirs, order) = (store.clone(), Arc::clone(&order));
            let waiter = thread::spawn(move || {
                let note = move || order.lock().unwrap().push(nth);
                kind.run(&theirs, note);
            });
            until_waiting(&store, nth + 1);
            waiter
        })
        .collect();
    let count = waiters.len();
    assert_eq!(store.release_lock(holder), Ok(ReleaseOutcome::HandedOver));
    for waiter in waiters {
        waiter.join().unwrap();
    }
    let order = std::mem::take(&mut *order.lock().unwrap());
    (order, count)
}

#[derive(Clone, Copy)]
enum Kind {
    ById,
    Guard,
    Timed,
    Cancellable,
    Transaction,
    Operations,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::ById,
        Self::Guard,
        Self::Timed,
        Self::Cancellable,
        Self::Transaction,
        Self::Operations,
    ];

    fn run(self, store: &DataStore, note: impl Fn() + Send + Sync + 'static) {
        match self {
            Self::ById => {
                let id = store.acquire_lock("w").unwrap();
                note();
                store.release_lock(id).unwrap();
            }
            Self::Guard => {
                let _guard = store.lock("w").unwrap();
                note();
            }
            Self::Timed => {
                let options = AcquireOptions::new().timeout(Duration::from_secs(600));
                let _guard = store.request("w").options(options).wait().unwrap();
                note();
            }
            Self::Cancellable => {
                let token = CancelToken::new();
                let options = patient().cancel_token(&token);
                let _guard = store.request("w").options(options).wait().unwrap();
                note();
            }
            Self::Transaction => {
                let transaction = store.begin("w").unwrap();
                note();
                transaction.commit().unwrap();
            }
            Self::Operations => {
                let note = move |_: &mut Draft| {
                    note();
                    Ok::<(), doclock::document::EditError>(())
                };
                let manager = TransactionManager::new(store.clone());
                manager.execute(dsl::op(note)).unwrap();
            }
        }
    }
}

#[test]
fn lock_04_five_waiters_are_granted_in_order() {
    let (order, count) = grant_order([Kind::Guard; 5].into_iter());
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_04_a_thousand_waiters_are_granted_in_order() {
    let (order, count) = grant_order(std::iter::repeat_n(Kind::ById, 1000));
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_04_mixed_kinds_of_waiters_are_granted_in_order() {
    let (order, count) = grant_order(Kind::ALL.into_iter().cycle().take(60));
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_13_a_try_fails_whenever_the_lock_has_a_holder_or_waiter() {
    let store = DataStore::new();
    drop(store.try_lock("free").unwrap());
    let held = store.acquire_lock("holder").unwrap();
    let served = Mutex::new(Vec::new());
    let in_hand = AtomicBool::new(false);
    thread::scope(|scope| {
        let try_elsewhere = || {
            scope
                .spawn(|| store.try_lock("eager").map(drop))
                .join()
                .unwrap()
        };
        match try_elsewhere() {
            Err(LockError::WouldBlock {
                holder, waiting, ..
            }) => {
                assert_eq!((holder.lock_id, waiting), (held, 0));
            }
            other => panic!("{other:?}"),
        }
        // A try at every handover of a busy queue: it never gets the lock.
        let waiters: Vec<_> = (0..50)
            .map(|nth| {
                let (store, served, in_hand) = (&store, &served, &in_hand);
                let waiter = scope.spawn(move || {
                    let guard = store.request("patient").options(patient()).wait().unwrap();
                    assert!(!in_hand.swap(true, Ordering::SeqCst));
                    served.lock().unwrap().push(nth);
                    in_hand.store(false, Ordering::SeqCst);
                    drop(guard);
                });
                until_waiting(store, nth + 1);
                waiter
            })
            .collect();
        let eager = scope.spawn(|| {
            while served.lock().unwrap().len() < 50 {
                if let Ok(guard) = store.try_lock("eager") {
                    assert_eq!(store.queue_length(), 0, "it overtook the waiters");
                    assert_eq!(served.lock().unwrap().len(), 50);
                    drop(guard);
                }
            }
        });
        store.release_lock(held).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        eager.join().unwrap();
        assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
    });
    assert_eq!(
        store.lock_stats().total_rejections,
        0,
        "a try is not a rejection"
    );
}

#[test]
fn lock_01_an_id_of_a_request_that_timed_out_never_repeats() {
    let (store, clock) = timed_store();
    let held = store.lock("holder").unwrap();
    let mut seen = std::collections::HashSet::from([held.id()]);
    for _ in 0..3 {
        thread::scope(|scope| {
            let waiter = scope.spawn(|| store.lock("waiter"));
            until_waiting(&store, 1);
            clock.advance(Duration::from_secs(5));
            let evidence = timeout_of(waiter.join().unwrap());
            assert!(seen.insert(evidence.id), "{} came twice", evidence.id);
        });
    }
}
