//! Races between the hold limit and the holder.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, LockId, StoreOptions, View,
    document::NodeSpec,
    lock::{AcquireOptions, FifoLock, JoinError, LockOptions, ReleaseError, ReleaseOutcome},
    time::ManualClock,
    transaction::TransactionError,
};
use loom::future::block_on;
use loom::thread;

use crate::model::{Actor, Model, Run};
use crate::site::{AGES, Outcome, Site, at_rest};
use crate::tasks::{poll, polled};

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
        Err(ReleaseError::Revoked { id: named, .. }) => assert_eq!(named, id),
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
        Err(ReleaseError::Revoked { id: named, .. }) => {
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

/// A request joins the queue of a holder while the hold limit of that passes. Without the keeper
/// the holder releases.
#[test]
fn revocation_of_a_holder_whose_limit_passes_while_a_request_joins() {
    let model = Model::new("keeper against join under a limit", 2).reaches_by("keeper", "revoked");
    model.check(|run| {
        let (lock, clock) = on_a_clock();
        let keeper = run.spawn("keeper", lock.keeper_thread());
        let held = lock
            .request("a")
            .options(own_limit())
            .wait()
            .unwrap()
            .into_id();
        let waiters = ["b", "c"].map(|name| {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock(name).unwrap()))
        });
        clock.advance(LIMIT);
        let is_kept = run.has("keeper");
        if !is_kept {
            lock.release_lock(held).unwrap();
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        if is_kept {
            let released = lock.release_lock(held);
            assert!(matches!(released, Err(ReleaseError::Revoked { id, .. }) if id == held));
            run.note("revoked");
        }
        at_rest(&lock.lock_stats());
        drop(lock);
        keeper.join();
    });
}

/// The hold limit passes while the next request is granted, and keeps the lock: then that one is
/// revoked for the last.
#[test]
fn revocation_of_the_next_holder_that_is_granted_while_the_limit_passes() {
    let model = Model::new("keeper against grant under a limit", 2)
        .reaches(["a released"])
        .reaches_by("keeper", "a revoked")
        .reaches_by("keeper", "b revoked");
    model.check(|run| {
        let (lock, clock) = on_a_clock();
        let keeper = run.spawn("keeper", lock.keeper_thread());
        let held = lock
            .request("a")
            .options(own_limit())
            .wait()
            .unwrap()
            .into_id();
        let mut b = polled(lock.request("b").options(own_limit()));
        assert!(poll(&mut b).is_none());
        let c = {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock("c").unwrap()))
        };
        let timer = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(LIMIT))
        };
        let is_revoked = |id| match lock.release_lock(id) {
            Ok(_) => false,
            Err(ReleaseError::Revoked { .. }) => true,
            Err(other) => panic!("{other}"),
        };
        run.note(match is_revoked(held) {
            true => "a revoked",
            false => "a released",
        });
        timer.join().unwrap();
        let id = block_on(b).unwrap().into_id();
        clock.advance(LIMIT);
        let is_kept = run.has("keeper");
        if is_kept && lock.queue_length() > 0 {
            // Only the limit of b ends its hold.
            c.join().unwrap();
            assert!(is_revoked(id));
            run.note("b revoked");
        } else {
            is_revoked(id);
            c.join().unwrap();
        }
        at_rest(&lock.lock_stats());
        drop(lock);
        keeper.join();
    });
}

const LIMIT: Duration = Duration::from_millis(1);

/// The limit of a request: the lock has none.
fn own_limit() -> AcquireOptions {
    AcquireOptions::new().hold_limit(LIMIT)
}

fn on_a_clock() -> (FifoLock, ManualClock) {
    let clock = ManualClock::new();
    let options = LockOptions::new().clock(clock.clock()).timeout(None);
    (FifoLock::with_options(options), clock)
}
