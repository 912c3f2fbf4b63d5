//! The end of a hold, and which thread may end it: panic, re-entry, drop, threads (LOCK 11, 12, 17,
//! 18).

use std::sync::Barrier;
use std::thread;

use doclock::{
    DataStore, Draft, Editor, LockId, Snapshot, Transaction, TransactionManager, View,
    document::NodeSpec,
    dsl,
    events::Subscription,
    lock::{
        AcquireOptions, CancelToken, FifoLock, JoinError, LockError, LockGuard, LockInfo,
        LockStats, ReleaseError,
    },
    time::{Clock, ManualClock},
};

use crate::{patient, timed_store, until_waiting};

#[test]
fn lock_11_a_panic_rolls_back_hands_on_and_reaches_the_submitter() {
    let store = DataStore::new();
    let barrier = Barrier::new(2);
    let went_on = thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut transaction = store.begin("panicking").unwrap();
            transaction
                .create(NodeSpec::new("paragraph").with_id("lost"))
                .unwrap();
            barrier.wait();
            until_waiting(&store, 1);
            panic!("a planned panic");
        });
        barrier.wait();
        let next = scope.spawn(|| {
            let mut transaction = store
                .request_transaction("next")
                .options(patient())
                .wait()
                .unwrap();
            assert!(!transaction.contains("lost"));
            transaction
                .create(NodeSpec::new("paragraph").with_id("kept"))
                .unwrap();
            transaction.commit().unwrap();
        });
        let payload = panicking.join().unwrap_err();
        next.join().unwrap();
        payload.downcast_ref::<&str>().copied()
    });
    assert_eq!(went_on, Some("a planned panic"));
    let snapshot = store.snapshot();
    assert_eq!((snapshot.version(), snapshot.len()), (1, 1));
    assert!(!store.is_locked());
    drop(store.lock("after").unwrap());
}

#[test]
fn lock_12_a_second_request_on_the_holding_thread_is_refused_at_once() {
    let (store, _clock) = timed_store();
    let guard = store.lock("ann").unwrap();
    // The clock is stopped: a wait would never end.
    for options in [
        AcquireOptions::new(),
        patient(),
        AcquireOptions::new().no_wait(),
    ] {
        match store.request("ann again").options(options).wait() {
            Err(LockError::Reentrant { owner, holder }) => {
                assert_eq!(owner.as_str(), "ann again");
                assert_eq!(holder.lock_id, guard.id());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        store.begin("ann"),
        Err(LockError::Reentrant { .. })
    ));
    drop(guard);

    let editor = Editor::new(store.clone(), "ann");
    let inner = store.clone();
    let nested = dsl::op(move |_: &mut Draft| inner.lock("inner").map(drop));
    let error = dsl::transaction(&editor, nested).commit().unwrap_err();
    assert!(
        error.to_string().contains("by the thread that holds it"),
        "{error}"
    );
    assert!(!store.is_locked());
}

/// A pool thread that ran the next command of a front end was refused the lock.
#[test]
fn lock_12_a_grant_by_id_is_bound_to_no_thread() {
    let store = DataStore::new();
    let other = store.clone();
    let forms: [fn(&DataStore) -> LockId; 2] = [
        |store| store.acquire_lock("front end").unwrap(),
        |store| {
            store
                .request("front end")
                .options(patient())
                .wait()
                .unwrap()
                .into_id()
        },
    ];
    for acquire in forms {
        let id = acquire(&store);
        thread::scope(|scope| {
            scope.spawn(|| {
                until_waiting(&other, 1);
                other.release_lock(id).unwrap();
            });
            drop(
                store
                    .request("front end")
                    .options(patient())
                    .wait()
                    .unwrap(),
            );
        });
        // A grant after a wait is unbound, too.
        let guard = store.request("other").wait().unwrap();
        let id = thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let id = acquire(&other);
                assert!(matches!(
                    other.try_lock("again"),
                    Err(LockError::WouldBlock { .. })
                ));
                id
            });
            until_waiting(&store, 1);
            drop(guard);
            waiter.join().unwrap()
        });
        store.release_lock(id).unwrap();
    }
}

#[test]
fn lock_12_a_thread_that_has_a_guard_is_refused_a_grant_by_id() {
    let store = DataStore::new();
    let guard = store.lock("ann").unwrap();
    for acquired in [
        store.acquire_lock("ann"),
        store
            .request("ann")
            .options(patient())
            .wait()
            .map(|guard| guard.into_id()),
    ] {
        assert!(matches!(acquired, Err(LockError::Reentrant { .. })));
    }
    drop(guard);
}

#[test]
fn lock_12_an_unbound_guard_may_be_waited_for_on_its_own_thread() {
    let store = DataStore::new();
    let guard = store
        .request("front end")
        .options(AcquireOptions::new().unbound())
        .wait()
        .unwrap();
    let id = guard.id();
    thread::scope(|scope| {
        scope.spawn(|| {
            until_waiting(&store, 1);
            store.release_lock(id).unwrap();
        });
        drop(
            store
                .request("front end")
                .options(patient())
                .wait()
                .unwrap(),
        );
    });
    drop(guard);
}

#[test]
fn lock_17_dropping_a_guard_or_a_transaction_releases() {
    let store = DataStore::new();
    drop(store.lock("a").unwrap());
    assert!(!store.is_locked());
    drop(store.begin("a").unwrap());
    assert!(!store.is_locked());
    let mut transaction = store.begin("a").unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    drop(transaction);
    assert!(!store.is_locked());
    assert_eq!(store.version(), 0);
}

#[test]
fn lock_17_dropping_every_other_handle_strands_no_waiter() {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let guard = store.lock("holder").unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let manager = TransactionManager::new(store.clone());
            thread::spawn(move || {
                manager
                    .execute(dsl::create(NodeSpec::new("x")))
                    .unwrap()
                    .version
            })
        })
        .collect();
    until_waiting(&store, 3);
    drop(store);
    drop(guard);
    let mut versions: Vec<_> = waiters
        .into_iter()
        .map(|waiter| waiter.join().unwrap())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3]);
}

#[test]
fn lock_17_a_guard_under_which_a_transaction_is_open_releases_when_that_ends() {
    let store = DataStore::new();
    let guard = store.lock("ann").unwrap();
    let id = guard.id();
    let mut transaction = store.begin_under(id).unwrap();
    assert_eq!(
        store.release_lock(id),
        Err(ReleaseError::TransactionOpen { id })
    );
    drop(guard);
    assert!(store.is_locked(), "the transaction still runs");
    transaction.create(NodeSpec::new("x")).unwrap();
    transaction.commit().unwrap();
    assert!(!store.is_locked());
    assert_eq!(store.version(), 1);
}

#[test]
fn lock_18_a_guard_may_be_released_on_another_thread() {
    let store = DataStore::new();
    let guard = store.lock("ann").unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(!store.is_locked());
    let id = store.acquire_lock("ann").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| store.release_lock(id).unwrap());
    });
    drop(store.lock("ann again").unwrap());
}

#[test]
fn lock_18_public_types_cross_threads() {
    fn crosses<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<DataStore>();
    is_shared::<FifoLock>();
    is_shared::<CancelToken>();
    is_shared::<Clock>();
    is_shared::<ManualClock>();
    is_shared::<Editor>();
    is_shared::<TransactionManager>();
    is_shared::<Snapshot>();
    is_shared::<LockError>();
    is_shared::<LockInfo>();
    is_shared::<LockStats>();
    is_shared::<doclock::transaction::TransactionError>();
    is_shared::<doclock::transaction::Operation>();
    is_shared::<doclock::transaction::TransactionResult>();
    crosses::<LockGuard>();
    crosses::<Transaction>();
    crosses::<Subscription>();
}

#[test]
fn lock_17_a_lock_has_one_open_transaction_at_a_time() {
    let store = DataStore::new();
    let id = store.acquire_lock("ann").unwrap();
    let open = store.begin_under(id).unwrap();
    let refused = JoinError::TransactionOpen { id };
    assert_eq!(store.begin_under(id).unwrap_err(), refused);
    drop(open);
    store.begin_under(id).unwrap().rollback();
    store.release_lock(id).unwrap();
}

/// The id of its lock is public. It could be released or joined under the transaction that owns it:
/// two transactions then ran at once, one update was lost, and the document was no longer a tree.
#[test]
fn lock_03_the_lock_of_an_open_transaction_can_be_neither_released_nor_joined() {
    let store = DataStore::new();
    let mut transaction = store.begin("ann").unwrap();
    let id = store.current_lock().unwrap().lock_id;
    assert_eq!(id, transaction.lock_id());
    assert_eq!(
        store.release_lock(id),
        Err(ReleaseError::TransactionOpen { id })
    );
    let refused = JoinError::TransactionOpen { id };
    assert_eq!(store.begin_under(id).unwrap_err(), refused);
    let manager = TransactionManager::new(store.clone());
    let inner = dsl::create(NodeSpec::new("x"));
    let error = manager.execute_under(id, inner).unwrap_err();
    assert_eq!(error.to_string(), refused.to_string());
    transaction.create(NodeSpec::new("x")).unwrap();
    transaction.commit().unwrap();
    assert!(!store.is_locked());
    assert_eq!(store.version(), 1);
}
