//! Races between the hold limit and the holder.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, LockId, StoreOptions, View,
    document::NodeSpec,
    lock::{AcquireOptions, CancelToken, JoinError, LockError, ReleaseError, ReleaseOutcome},
    time::ManualClock,
    transaction::TransactionError,
};
use loom::sync::mpsc;
use loom::thread;

use crate::model::{Actor, Model, Run};
use crate::site::{AGES, Outcome, Site, at_rest};

fn limited() -> DataStore {
    DataStore::with_options(StoreOptions::new().hold_limit(AGES).lock_timeout(None))
}

/// A transaction that creates a node with its owner's name. Returns whether it was published. If
/// so, no other transaction published since its grant; if not, it leaves nothing.
fn write(store: &DataStore, name: &'static str) -> bool {
    let mut transaction = store.begin(name).unwrap();
    let before = transaction.base().version();
    let spec = NodeSpec::new("text").with_id(name);
    transaction.create(spec).unwrap();
    let seen = store.version();
    match transaction.commit() {
        Ok(committed) => {
            assert_eq!((seen, committed.version), (before, before + 1));
            true
        }
        Err(CommitError::Revoked { owner, .. }) => {
            assert_eq!(owner.as_str(), name);
            false
        }
        Err(other) => panic!("{other}"),
    }
}

fn expire_hold(run: &Run, store: &DataStore) -> Actor<()> {
    let store = store.clone();
    run.spawn("timer", move || store.expire_hold())
}

#[test]
fn revocation_comes_before_a_commit_or_after_it() {
    let model = Model::new("revoke against commit", 2)
        .reaches(["all published"])
        .reaches_by("timer", "a revoked")
        .reaches_by("timer", "b or c revoked");
    model.check(|run| {
        let store = limited();
        let others = ["b", "c"].map(|name| {
            let store = store.clone();
            thread::spawn(move || write(&store, name))
        });
        let timer = expire_hold(run, &store);
        let a = write(&store, "a");
        let [b, c] = others.map(|thread| thread.join().unwrap());
        timer.join();

        let document = store.snapshot();
        for (name, published) in [("a", a), ("b", b), ("c", c)] {
            assert_eq!(document.contains(name), published, "{name}");
        }
        let published: u64 = [a, b, c].into_iter().map(u64::from).sum();
        assert_eq!(document.version(), published);
        let stats = store.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 3);
        assert_eq!(stats.total_revocations, 3 - published);
        run.note(match (a, b && c) {
            (true, true) => "all published",
            (false, _) => "a revoked",
            (true, false) => "b or c revoked",
        });
    });
}

/// Waits for the lock, and checks that no version appears while it is held.
fn wait(store: &DataStore, name: &'static str) {
    let id = store.acquire_lock(name).unwrap();
    let versions = [store.version(), store.version()];
    match store.release_lock(id) {
        Ok(ReleaseOutcome::Freed | ReleaseOutcome::HandedOver) => {
            assert_eq!(versions[0], versions[1])
        }
        Err(ReleaseError::Revoked { id: named }) => assert_eq!(named, id),
        other => panic!("{other:?}"),
    }
}

/// Two wait for a holder, and the hold limit passes. `hold` returns whether its grant was revoked.
fn release(run: &Run, hold: impl FnOnce(&DataStore) -> bool) {
    let store = limited();
    let waiters = ["b", "c"].map(|name| {
        let store = store.clone();
        thread::spawn(move || wait(&store, name))
    });
    let timer = expire_hold(run, &store);
    let revoked = hold(&store);
    waiters
        .into_iter()
        .for_each(|waiter| waiter.join().unwrap());
    timer.join();
    let stats = store.lock_stats();
    at_rest(&stats);
    assert_eq!(stats.total_acquisitions, 3);
    match revoked {
        true => {
            assert_eq!(stats.total_revocations, 1);
            run.note("revoked");
        }
        false if stats.total_revocations == 1 => run.note("another revoked"),
        false => run.note("released"),
    }
}

fn release_model(name: &'static str) -> Model {
    Model::new(name, 2)
        .reaches(["released"])
        .reaches_by("timer", "another revoked")
}

fn release_id(store: &DataStore, id: LockId) -> bool {
    let revoked = match store.release_lock(id) {
        Ok(ReleaseOutcome::Freed | ReleaseOutcome::HandedOver) => false,
        Err(ReleaseError::Revoked { id: named }) => {
            assert_eq!(named, id);
            true
        }
        other => panic!("{other:?}"),
    };
    match store.release_lock(id) {
        Err(ReleaseError::NotHeld { id: stale }) => assert_eq!(stale, id),
        Err(ReleaseError::Mismatch { expected, got }) => assert!(expected != id && got == id),
        other => panic!("{other:?}"),
    }
    revoked
}

#[test]
fn revocation_against_a_release_by_id() {
    let model = release_model("revoke against release").reaches_by("timer", "revoked");
    model.check(|run| {
        release(run, |store| {
            let id = store.acquire_lock("a").unwrap();
            release_id(store, id)
        });
    });
}

#[test]
fn revocation_against_the_drop_of_a_guard() {
    release_model("revoke against drop").check(|run| {
        release(run, |store| {
            drop(store.lock("a").unwrap());
            false
        });
    });
}

#[test]
fn revocation_under_an_open_transaction_is_reported_by_commit_and_release() {
    let model = release_model("revoke against a transaction under an id");
    model.reaches_by("timer", "revoked").check(|run| {
        release(run, |store| {
            let id = store.acquire_lock("a").unwrap();
            let published = match store.begin_under(id) {
                Ok(mut transaction) => {
                    transaction.create(NodeSpec::new("text")).unwrap();
                    transaction.commit().is_ok()
                }
                Err(JoinError::Mismatch { got: stale, .. } | JoinError::NotHeld { id: stale }) => {
                    assert_eq!(stale, id);
                    false
                }
                Err(other) => panic!("{other}"),
            };
            assert_eq!(store.version(), u64::from(published));
            let revoked = release_id(store, id);
            assert!(published || revoked);
            revoked
        });
    });
}

#[test]
fn revocation_of_a_dropped_guard_with_an_open_transaction() {
    let model = Model::new("revoke against a guard's transaction", 2)
        .reaches(["published"])
        .reaches_by("timer", "revoked");
    model.check(|run| {
        let store = limited();
        let guard = store.lock("a").unwrap();
        let mut transaction = store.begin_under(guard.id()).unwrap();
        let dropper = thread::spawn(move || drop(guard));
        let waiter = {
            let store = store.clone();
            thread::spawn(move || write(&store, "b"))
        };
        let timer = expire_hold(run, &store);
        transaction.create(NodeSpec::new("text")).unwrap();
        let a = transaction.commit().is_ok();
        dropper.join().unwrap();
        let b = waiter.join().unwrap();
        timer.join();
        assert_eq!(store.version(), u64::from(a) + u64::from(b));
        let stats = store.lock_stats();
        at_rest(&stats);
        assert_eq!(stats.total_acquisitions, 2);
        assert!(a && b || stats.total_revocations == 1);
        run.note(if a { "published" } else { "revoked" });
    });
}

fn is_revoked(outcome: &Outcome) -> bool {
    match outcome {
        Ok(_) => false,
        Err(TransactionError::Commit(CommitError::Revoked { .. })) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn revocation_of_a_combined_batch_fails_its_submitter_and_ends_combining() {
    let model = Model::new("hold limit against combining", 2)
        .reaches(["no revocation"])
        .reaches_by("timer", "revoked in its own thread")
        .reaches_by("timer", "revoked in another's")
        .reaches_by("timer", "none after it in that thread");
    model.check(|run| {
        let site = Site::new(run, StoreOptions::new().hold_limit(AGES));
        let b = site.spawn_list("b", Default::default());
        let c = site.spawn_list("c", Default::default());
        let timer = site.act("timer", |site| site.store.expire_hold());
        let a = site.submit("a", Default::default());
        let (b, c) = (b.join().unwrap(), c.join().unwrap());
        timer.join();

        let outcomes = [("a", &a), ("b", &b), ("c", &c)];
        let stats = site.at_rest(&outcomes);
        assert_eq!(stats.total_acquisitions, 3);
        let mut revoked = outcomes.iter().filter(|(_, outcome)| is_revoked(outcome));
        let revoked = revoked.next().map(|(name, _)| *name);
        assert_eq!(stats.total_revocations, u64::from(revoked.is_some()));
        let Some(revoked) = revoked else {
            run.note("no revocation");
            return;
        };
        let by = site.executor(revoked).unwrap();
        run.note(match by == revoked {
            true => "revoked in its own thread",
            false => "revoked in another's",
        });
        // Its thread executes nothing any more, and does not delay the others.
        let turns = site.turns();
        let at = turns.iter().position(|(name, _)| *name == revoked).unwrap();
        let after = &turns[at + 1..];
        assert!(after.iter().all(|(_, executor)| *executor != by));
        if by != revoked && !after.is_empty() {
            run.note("none after it in that thread");
        }
    });
}

/// The waiters' own way: a manual clock moves, and they read it.
#[test]
fn revocation_is_done_by_waiters() {
    let model = Model::new("a passed hold limit", 4).reaches_by("mover", "revoked");
    model.check(|run| {
        let clock = ManualClock::new();
        let limit = Duration::from_millis(1);
        let options = StoreOptions::new().clock(clock.clock()).hold_limit(limit);
        let store = DataStore::with_options(options.lock_timeout(None));
        let held = store.acquire_lock("a").unwrap();
        let waiters = ["b", "c"].map(|name| {
            let store = store.clone();
            thread::spawn(move || drop(store.lock(name).unwrap()))
        });
        let moved = run.has("mover");
        match moved {
            true => clock.advance(limit),
            false => assert!(!release_id(&store, held)),
        }
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
        if moved {
            assert!(release_id(&store, held), "no thread released it");
            run.note("revoked");
        }
        at_rest(&store.lock_stats());
    });
}

/// A holder that never releases, and two requests that wait. The watcher may leave while the limit
/// passes; then the other is granted the lock by a watcher whose own clock moved. Without the timer
/// the holder releases.
fn watched(run: &Run, options: AcquireOptions, leave: impl FnOnce()) -> Result<(), LockError> {
    let clock = ManualClock::new();
    let limit = Duration::from_millis(1);
    let settings = StoreOptions::new().clock(clock.clock()).hold_limit(limit);
    let store = DataStore::with_options(settings.lock_timeout(None));
    let held = store.acquire_lock("a").unwrap();
    let [b, c] = [options, AcquireOptions::new()].map(|options| {
        let store = store.clone();
        thread::spawn(move || store.lock_with("waiter", options).map(drop))
    });
    let timer = run.spawn("timer", move || clock.advance(limit));
    leave();
    let is_timed = run.has("timer");
    if !is_timed {
        store.release_lock(held).unwrap();
    }
    let b = b.join().unwrap();
    c.join().unwrap().unwrap();
    timer.join();
    let stats = store.lock_stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.total_revocations > 0, is_timed);
    b
}

#[test]
fn revocation_though_the_watcher_is_cancelled_while_the_limit_passes() {
    let model = Model::new("watch against cancel", 3)
        .reaches(["b granted"])
        .reaches_by("canceller", "b cancelled");
    model.check(|run| {
        let token = CancelToken::new();
        let options = AcquireOptions::new().cancel_token(&token);
        let cancel = || {
            if run.has("canceller") {
                token.cancel();
            }
        };
        match watched(run, options, cancel) {
            Err(LockError::Cancelled(_)) => run.note("b cancelled"),
            Ok(()) => run.note("b granted"),
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn revocation_though_the_watcher_times_out_while_the_limit_passes() {
    let model = Model::new("watch against timeout", 3)
        .reaches(["b granted"])
        .reaches_by("timer", "b timed out");
    model.check(|run| {
        let options = AcquireOptions::new().timeout(Duration::from_millis(1));
        match watched(run, options, || ()) {
            Err(LockError::Timeout(_)) => run.note("b timed out"),
            Ok(()) => run.note("b granted"),
            Err(other) => panic!("{other}"),
        }
    });
}

/// The watcher is granted the lock while the limit passes, and keeps it: then the other looks.
#[test]
fn revocation_though_the_watcher_is_granted_the_lock_while_the_limit_passes() {
    let model = Model::new("watch against grant", 2)
        .reaches(["a released"])
        .reaches_by("timer", "a revoked");
    model.check(|run| {
        let clock = ManualClock::new();
        let limit = Duration::from_millis(1);
        let settings = StoreOptions::new().clock(clock.clock()).hold_limit(limit);
        let store = DataStore::with_options(settings.lock_timeout(None));
        let held = store.acquire_lock("a").unwrap();
        let (grants, granted) = mpsc::channel();
        let waiters = ["b", "c"].map(|name| {
            let (store, grants) = (store.clone(), grants.clone());
            thread::spawn(move || grants.send(store.acquire_lock(name).unwrap()).unwrap())
        });
        let timer = {
            let clock = clock.clone();
            run.spawn("timer", move || clock.advance(limit))
        };
        let revoked = release_id(&store, held);
        let first = granted.recv().unwrap();
        clock.advance(limit);
        let next = granted.recv().unwrap();
        // The request that was granted first may be the last to send.
        let (first, last) = (first.min(next), first.max(next));
        timer.join();
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
        assert!(release_id(&store, first), "it was in the way of the other");
        assert!(!release_id(&store, last), "no request waits");
        at_rest(&store.lock_stats());
        run.note(if revoked { "a revoked" } else { "a released" });
    });
}

/// No waiter watches a holder without a limit. The grant of the next holder, which has a limit of
/// its own, makes a waiter a watcher while the limit passes.
#[test]
fn revocation_of_a_holder_with_a_limit_of_its_own() {
    let model = Model::new("watch begun by a grant", 3)
        .reaches(["b not revoked"])
        .reaches_by("timer", "b revoked");
    model.check(|run| {
        let clock = ManualClock::new();
        let limit = Duration::from_millis(1);
        let settings = StoreOptions::new().clock(clock.clock());
        let store = DataStore::with_options(settings.lock_timeout(None));
        let held = store.acquire_lock("a").unwrap();
        let (grants, granted) = mpsc::channel();
        let b = {
            let store = store.clone();
            let options = AcquireOptions::new().hold_limit(limit);
            thread::spawn(move || grants.send(store.acquire_lock_with("b", options).unwrap()))
        };
        let c = {
            let store = store.clone();
            thread::spawn(move || drop(store.lock("c").unwrap()))
        };
        assert!(!release_id(&store, held), "it has no limit");
        let id = granted.recv().unwrap();
        let timer = run.spawn("timer", move || clock.advance(limit));
        let revoked = match run.has("timer") {
            // With a request that waits, only the limit ends the hold.
            true if store.queue_length() > 0 => {
                c.join().unwrap();
                timer.join();
                release_id(&store, id)
            }
            _ => {
                let revoked = release_id(&store, id);
                c.join().unwrap();
                timer.join();
                revoked
            }
        };
        b.join().unwrap().unwrap();
        at_rest(&store.lock_stats());
        run.note(if revoked {
            "b revoked"
        } else {
            "b not revoked"
        });
    });
}
