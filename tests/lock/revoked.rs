//! The hold limit for holders of the lock itself (LOCK 10).

use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::{
    CommitError, DataStore, Draft, Editor, LockId, StoreOptions, Transaction, TransactionManager,
    View,
    document::{EditError, NodeSpec},
    dsl,
    history::{HistoryOptions, UndoError},
    lock::{
        AcquireOptions, CancelToken, JoinError, LockError, QueueEntry, ReleaseError, ReleaseOutcome,
    },
    time::ManualClock,
    transaction::TransactionError,
};

use crate::{is_revoked, until_waiting};

pub(crate) const LIMIT: Duration = Duration::from_millis(100);

/// Returns a store whose holders are revoked after the limit, and its clock.
pub(crate) fn limited() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).hold_limit(LIMIT);
    let store = DataStore::with_options(options.lock_timeout(None));
    (store, clock)
}

/// Passes the hold limit while a request waits. Returns the transaction of that request; the queue
/// is then empty.
fn overtaken(store: &DataStore, clock: &ManualClock) -> Transaction {
    let theirs = store.clone();
    let waiter: JoinHandle<Transaction> = thread::spawn(move || theirs.begin("next").unwrap());
    until_waiting(store, 1);
    clock.advance(LIMIT - Duration::from_nanos(1));
    assert_eq!(store.queue_length(), 1, "the limit has not passed");
    clock.advance(Duration::from_nanos(1));
    let next = waiter.join().unwrap();
    assert_eq!(store.lock_stats().total_revocations, 1);
    next
}

fn writes(transaction: &mut Draft, id: &str) {
    let node = NodeSpec::new("x").with_id(id);
    transaction.create(node).unwrap();
}

/// The next holder commits on its unchanged base, and then the lock is free.
fn unharmed(store: &DataStore, mut next: Transaction) {
    assert_eq!(store.current_lock().unwrap().lock_id, next.lock_id());
    assert!(!next.contains("lost"));
    assert_eq!(next.base().version(), 0);
    writes(&mut next, "kept");
    assert_eq!(next.commit().unwrap().version, 1);
    assert!(!store.is_locked());
    assert!(!store.snapshot().contains("lost"));
}

/// For which request the only holder was revoked, and how errors say that.
fn revoked_for(store: &DataStore) -> (Option<Box<QueueEntry>>, String) {
    let [revocation] = &store.lock_stats().last_revocations[..] else {
        panic!("it is one revocation");
    };
    let waiter = revocation.waiter.clone().unwrap();
    assert_eq!(
        (waiter.owner_id.as_str(), waiter.wait_time),
        ("next", LIMIT)
    );
    let (id, site) = (waiter.lock_id, &waiter.call_site);
    let said = format!(" for {id} of next from {site}, which had waited for 100ms");
    assert!(revocation.to_string().ends_with(&said), "{revocation}");
    (Some(waiter), said)
}

/// The first release after the revocation reports it; later ones return the error of any old id.
fn released_in_vain(store: &DataStore, id: LockId, next: &Transaction) {
    let (waiter, said) = revoked_for(store);
    let revoked = ReleaseError::Revoked { id, waiter };
    assert_eq!(
        revoked.to_string(),
        format!("lock {id} was revoked{said} before its release: it exceeded the hold limit")
    );
    assert_eq!(store.release_lock(id), Err(revoked));
    let (expected, got) = (next.lock_id(), id);
    let mismatch = ReleaseError::Mismatch { expected, got };
    assert_eq!(store.release_lock(id), Err(mismatch));
}

#[test]
fn lock_10_a_lock_held_by_id_is_revoked() {
    let (store, clock) = limited();
    let id = store.acquire_lock("ann").unwrap();
    let next = overtaken(&store, &clock);
    released_in_vain(&store, id, &next);
    let (expected, got) = (next.lock_id(), id);
    let refused = store.begin_under(id).unwrap_err();
    assert_eq!(refused, JoinError::Mismatch { expected, got });
    unharmed(&store, next);
    assert_eq!(store.release_lock(id), Err(ReleaseError::NotHeld { id }));
}

#[test]
fn lock_10_a_guard_is_revoked_and_may_be_dropped() {
    let (store, clock) = limited();
    let guard = store.lock("ann").unwrap();
    let next = overtaken(&store, &clock);
    drop(guard);
    // The thread of the guard may request the lock again: it holds nothing.
    let theirs = store.clone();
    unharmed(&store, next);
    drop(theirs.lock("ann").unwrap());
    let stats = store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (3, 2));
    assert_eq!((stats.total_revocations, stats.hold.count), (1, 3));
    assert_eq!(stats.hold.max, LIMIT);
}

#[test]
fn lock_10_a_revoked_transaction_cannot_commit() {
    let (store, clock) = limited();
    let events = store.subscribe();
    let mut transaction = store.begin("ann").unwrap();
    let id = transaction.lock_id();
    writes(&mut transaction, "lost");
    let next = overtaken(&store, &clock);
    // It can still be written to, but its changes are never visible.
    writes(&mut transaction, "lost too");
    let holder = store.current_lock().unwrap();
    let error = transaction.commit().unwrap_err();
    let (_, said) = revoked_for(&store);
    let expected = format!(
        "lock {id} of owner ann was revoked{said}: it exceeded the hold limit; now held by {holder}"
    );
    assert_eq!(error.to_string(), expected);
    unharmed(&store, next);
    let event = events.try_recv().unwrap();
    assert_eq!(event.commit.owner.as_str(), "next");
    assert!(events.try_recv().is_err());
}

#[test]
fn lock_10_a_revoked_transaction_that_is_dropped_releases_nothing() {
    let (store, clock) = limited();
    let mut transaction = store.begin("ann").unwrap();
    writes(&mut transaction, "lost");
    let next = overtaken(&store, &clock);
    transaction.rollback();
    unharmed(&store, next);
}

#[test]
fn lock_10_the_error_names_no_holder_of_a_free_lock() {
    let (store, clock) = limited();
    let transaction = store.begin("ann").unwrap();
    let id = transaction.lock_id();
    overtaken(&store, &clock).rollback();
    let (waiter, said) = revoked_for(&store);
    let revoked = CommitError::Revoked {
        id,
        owner: "ann".into(),
        waiter,
        holder: None,
    };
    let text = format!("lock {id} of owner ann was revoked{said}: it exceeded the hold limit");
    assert_eq!(revoked.to_string(), text);
    assert_eq!(transaction.commit().unwrap_err(), revoked);
}

/// The unobserved end of the transaction was counted as the release.
#[test]
fn lock_10_a_grant_is_revoked_with_the_transaction_that_was_begun_under_it() {
    let (store, clock) = limited();
    let id = store.acquire_lock("ann").unwrap();
    let mut transaction = store.begin_under(id).unwrap();
    writes(&mut transaction, "lost");
    let next = overtaken(&store, &clock);
    let refused = transaction.commit().unwrap_err();
    assert!(matches!(refused, CommitError::Revoked { id: of, .. } if of == id));
    released_in_vain(&store, id, &next);
    unharmed(&store, next);
}

#[test]
fn lock_10_a_guard_is_revoked_with_the_batch_that_runs_under_it() {
    let (store, clock) = limited();
    let guard = store.lock("ann").unwrap();
    let manager = TransactionManager::new(store.clone());
    let (next, theirs) = (
        std::sync::Arc::new(std::sync::Mutex::new(None)),
        store.clone(),
    );
    let noted = std::sync::Arc::clone(&next);
    let dawdling = dsl::op(move |transaction| {
        writes(transaction, "lost");
        *noted.lock().unwrap() = Some(overtaken(&theirs, &clock));
        Ok::<_, doclock::document::EditError>(())
    });
    let refused = manager.execute_under(guard.id(), dawdling).unwrap_err();
    let TransactionError::Commit(CommitError::Revoked { id, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(id, guard.id());
    drop(guard);
    let next = next.lock().unwrap().take().unwrap();
    unharmed(&store, next);
}

/// A dropped guard leaves the release to the open transaction under it.
#[test]
fn lock_10_a_transaction_that_outlives_its_guard_is_revoked() {
    let (store, clock) = limited();
    let guard = store.lock("ann").unwrap();
    let mut transaction = store.begin_under(guard.id()).unwrap();
    writes(&mut transaction, "lost");
    drop(guard);
    let next = overtaken(&store, &clock);
    transaction.commit().unwrap_err();
    unharmed(&store, next);
}

#[test]
fn lock_10_a_holder_without_waiters_is_not_revoked() {
    let (store, clock) = limited();
    let mut transaction = store.begin("ann").unwrap();
    writes(&mut transaction, "kept");
    clock.advance(10 * LIMIT);
    assert_eq!(store.current_lock().unwrap().held_for, 10 * LIMIT);
    assert_eq!(transaction.commit().unwrap().version, 1);

    // A late enough request does not wait at all.
    let id = store.acquire_lock("ann").unwrap();
    clock.advance(LIMIT);
    let theirs = store.clone();
    let late = thread::spawn(move || theirs.lock("late").map(drop));
    late.join().unwrap().unwrap();
    assert!(is_revoked(id, store.release_lock(id)));
}

#[test]
fn lock_10_each_queued_holder_has_the_full_hold_limit() {
    let (store, clock) = limited();
    let mut waiters = Vec::new();
    let first = store.acquire_lock("first").unwrap();
    for nth in 1..=3 {
        let theirs = store.clone();
        waiters.push(thread::spawn(move || theirs.acquire_lock("w").unwrap()));
        until_waiting(&store, nth);
    }
    let mut held = vec![first];
    for left in (0..3).rev() {
        clock.advance(LIMIT - Duration::from_nanos(1));
        assert_eq!(store.queue_length(), left + 1);
        clock.advance(Duration::from_nanos(1));
        until_waiting(&store, left);
        held.push(waiters.remove(0).join().unwrap());
    }
    clock.advance(LIMIT);
    assert_eq!(store.current_lock().unwrap().lock_id, held[3]);
    assert_eq!(store.lock_stats().total_revocations, 3);
    for id in held.drain(..3) {
        assert!(is_revoked(id, store.release_lock(id)));
    }
    let [last] = held[..] else {
        panic!("one is left");
    };
    assert_eq!(store.release_lock(last), Ok(ReleaseOutcome::Freed));
}

/// Only grants that are released by id are remembered, so that others do not displace them. The
/// transaction gets its revocation from its commit.
fn is_not_remembered(store: &DataStore, clock: &ManualClock, mut revoked: Transaction) {
    let got = revoked.lock_id();
    writes(&mut revoked, "lost");
    let next = overtaken(store, clock);
    let expected = next.lock_id();
    let mismatch = ReleaseError::Mismatch { expected, got };
    assert_eq!(store.release_lock(got), Err(mismatch));
    assert!(matches!(revoked.commit(), Err(CommitError::Revoked { .. })));
    unharmed(store, next);
}

#[test]
fn lock_10_the_revocation_of_a_transaction_is_not_remembered_for_its_id() {
    let (store, clock) = limited();
    let revoked = store.begin("ann").unwrap();
    is_not_remembered(&store, &clock, revoked);
}

/// A guard dropped before the transaction under it leaves the release to that transaction.
#[test]
fn lock_10_the_revocation_of_a_guard_that_is_gone_is_not_remembered_for_its_id() {
    let (store, clock) = limited();
    let guard = store.lock("ann").unwrap();
    let revoked = store.begin_under(guard.id()).unwrap();
    drop(guard);
    assert_eq!(store.current_lock().unwrap().lock_id, revoked.lock_id());
    is_not_remembered(&store, &clock, revoked);
}

/// Waits for the lock in a separate thread, at this position, and keeps it.
fn waits(
    store: &DataStore,
    place: usize,
    options: AcquireOptions,
) -> JoinHandle<Result<LockId, LockError>> {
    let theirs = store.clone();
    let thread = thread::spawn(move || {
        theirs
            .request("waiter")
            .options(options)
            .wait()
            .map(|guard| guard.into_id())
    });
    until_waiting(store, place);
    thread
}

/// The first requests leave the queue in some way; the last one is granted the lock when the limit
/// passes.
fn leave_the_last(
    options: impl Fn() -> AcquireOptions,
    leave: impl FnOnce(&DataStore, &ManualClock, LockId, Vec<JoinHandle<Result<LockId, LockError>>>),
) {
    let (store, clock) = limited();
    let held = store.acquire_lock("ann").unwrap();
    let leaving = (1..=3)
        .map(|place| waits(&store, place, options()))
        .collect();
    let last = waits(&store, 4, AcquireOptions::new());
    leave(&store, &clock, held, leaving);
    assert_eq!(store.queue_length(), 1);
    let holder = store.current_lock().unwrap();
    clock.advance(LIMIT - holder.held_for - Duration::from_nanos(1));
    assert_eq!(store.queue_length(), 1, "the limit has not passed");
    clock.advance(Duration::from_nanos(1));
    let last = last.join().unwrap().unwrap();
    let id = holder.lock_id;
    assert!(is_revoked(id, store.release_lock(id)));
    assert_eq!(store.release_lock(last), Ok(ReleaseOutcome::Freed));
    assert_eq!(store.lock_stats().total_revocations, 1);
}

#[test]
fn lock_10_the_limit_passes_for_the_last_request_after_the_others_have_timed_out() {
    let short = || AcquireOptions::new().timeout(LIMIT / 10);
    leave_the_last(short, |_, clock, _, leaving| {
        clock.advance(LIMIT / 10);
        for waiter in leaving {
            let refused = waiter.join().unwrap();
            assert!(matches!(refused, Err(LockError::Timeout(_))), "{refused:?}");
        }
    });
}

#[test]
fn lock_10_the_limit_passes_for_the_last_request_after_the_others_are_cancelled() {
    let token = CancelToken::new();
    let cancelled = || AcquireOptions::new().cancel_token(&token);
    leave_the_last(cancelled, |_, clock, _, leaving| {
        clock.advance(LIMIT / 2);
        token.cancel();
        for waiter in leaving {
            let refused = waiter.join().unwrap();
            assert!(
                matches!(refused, Err(LockError::Cancelled(_))),
                "{refused:?}"
            );
        }
    });
}

#[test]
fn lock_10_the_limit_passes_for_the_last_request_after_the_others_were_granted_the_lock() {
    leave_the_last(AcquireOptions::new, |store, clock, held, leaving| {
        let mut held = held;
        for waiter in leaving {
            clock.advance(LIMIT / 2);
            assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::HandedOver));
            held = waiter.join().unwrap().unwrap();
        }
    });
}

/// The first requests are batches that the combiner runs.
#[test]
fn lock_10_the_limit_passes_for_the_last_request_after_a_combiner_ran_the_others() {
    let (store, clock) = limited();
    let held = store.acquire_lock("ann").unwrap();
    let lists: Vec<_> = (1..=3)
        .map(|place| {
            let theirs = store.clone();
            let creates = dsl::create(dsl::text_node("x", "text"));
            let submit = move || TransactionManager::new(theirs).execute(creates);
            let thread = thread::spawn(submit);
            until_waiting(&store, place);
            thread
        })
        .collect();
    let next = waits(&store, 4, AcquireOptions::new());
    let last = waits(&store, 5, AcquireOptions::new());
    assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::HandedOver));
    for list in lists {
        list.join().unwrap().unwrap();
    }
    let next = next.join().unwrap().unwrap();
    assert_eq!(store.queue_length(), 1);
    clock.advance(LIMIT);
    let last = last.join().unwrap().unwrap();
    assert!(is_revoked(next, store.release_lock(next)));
    assert_eq!(store.release_lock(last), Ok(ReleaseOutcome::Freed));
}

/// A long queue of holders that stay just within the limit, and none is revoked.
#[test]
fn lock_10_holders_that_keep_the_limit_are_not_revoked() {
    let (store, clock) = limited();
    let mut held = store.acquire_lock("ann").unwrap();
    let waiters: Vec<_> = (1..=50)
        .map(|place| waits(&store, place, AcquireOptions::new()))
        .collect();
    for waiter in waiters {
        clock.advance(LIMIT - Duration::from_nanos(1));
        assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::HandedOver));
        held = waiter.join().unwrap().unwrap();
    }
    assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::Freed));
    assert_eq!(store.lock_stats().total_revocations, 0);
}

/// Once the entry without an effect was undone, though the call failed.
#[test]
fn undo_02_a_revoked_undo_that_goes_on_leaves_the_history() {
    let (store, clock) = limited();
    let options = HistoryOptions::new().undo_next_effective(true);
    let ann = Editor::new(store.clone(), "ann").with_history(options);
    ann.execute(dsl::create(dsl::text_node("x", "").with_id("t")))
        .unwrap();
    // The limit passes while its inverse code runs.
    let (theirs, passes) = (store.clone(), clock);
    let inverse = move |_: &mut Draft| -> Result<(), EditError> {
        if theirs.lock_stats().total_revocations == 0 {
            let next = waits(&theirs, 1, AcquireOptions::new());
            passes.advance(LIMIT);
            let next = next.join().unwrap().unwrap();
            theirs.release_lock(next).unwrap();
        }
        Ok(())
    };
    let create = |on: &mut Draft| on.create(NodeSpec::new("x").with_id("u")).map(drop);
    ann.execute(dsl::op_with_inverse(create, inverse)).unwrap();
    ann.execute(dsl::insert_text(0, "a").on("t")).unwrap();
    let bob = Editor::new(store.clone(), "bob");
    bob.execute(dsl::delete_text_range(0, 1).on("t")).unwrap();
    let depths = || (ann.undo_depth(), ann.redo_depth());
    let before = depths();

    let refused = ann.undo().commit();
    let is_refused = matches!(
        &refused,
        Err(UndoError::Commit(CommitError::Revoked { .. }))
    );
    assert!(is_refused, "{refused:?}");
    assert_eq!(depths(), before);
    // The letter returns, so its entry is in effect.
    bob.undo().commit().unwrap();
    assert_eq!(store.snapshot().node("t").unwrap().text(), &"a");
    bob.redo().commit().unwrap();
    ann.undo().commit().unwrap();
    assert_eq!(depths(), (before.0 - 2, 2));
    assert!(!store.snapshot().contains("u"));
}
