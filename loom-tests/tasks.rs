//! Races of waiting tasks: their grants, deadlines, drops and wakers, and the keeper.
//!
//! A task is polled by `block_on` of loom, or by hand. Where a model does not run the keeper, an
//! expiry is a thread that calls the code which the keeper calls at the deadline.

use std::pin::Pin;
// Not those of loom: they only record.
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use doclock::document::NodeSpec;
use doclock::durable::{Durability, DurableOptions};
use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::{InFlightLimiter, LimiterOptions};
use doclock::lock::node::Scope;
use doclock::lock::{
    AcquireOptions, CancelToken, FifoLock, LockError, LockGuard, LockOptions, ReleaseError,
    SlowRequest,
};
use doclock::time::ManualClock;
use doclock::{DataStore, LockId, StoreOptions, TransactionManager, dsl::*};
use loom::future::block_on;
use loom::thread;

use crate::durable::Memory;
use crate::lock::patient_lock;
use crate::model::{Model, Run};

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_timeout()
}

/// A future that is polled by hand.
pub(crate) type Polled<T> = Pin<Box<dyn Future<Output = T>>>;

pub(crate) fn polled<F: IntoFuture<IntoFuture: 'static>>(future: F) -> Polled<F::Output> {
    Box::pin(future.into_future())
}

/// Polls once. `None` while it is pending.
pub(crate) fn poll<T>(future: &mut Polled<T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Checks that the lock is free, no request waits, and every grant was released.
fn at_rest(lock: &FifoLock) {
    let stats = lock.lock_stats();
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(
        stats.total_acquisitions,
        stats.total_releases + stats.total_revocations
    );
}

/// The code of a thread that releases a grant.
fn releasing(lock: &FifoLock, held: LockId) -> impl FnOnce() + use<> {
    let lock = lock.clone();
    move || {
        lock.release_lock(held).unwrap();
    }
}

/// Locks and releases in a thread.
fn contend(lock: &FifoLock, owner: &'static str) -> thread::JoinHandle<()> {
    let lock = lock.clone();
    thread::spawn(move || drop(lock.request(owner).options(patient()).wait().unwrap()))
}

/// Locks and releases in a task.
fn contend_in_task(lock: &FifoLock, owner: &'static str) -> thread::JoinHandle<()> {
    let lock = lock.clone();
    thread::spawn(move || {
        block_on(async move { drop(lock.request(owner).options(patient()).await) })
    })
}

#[test]
fn tasks_and_threads_exclude_each_other() {
    crate::lock::exclusion_model("exclusion, 2 tasks and a thread", 2).check(|run| {
        let lock = patient_lock();
        let inside = std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let begun = std::sync::Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let enter = {
            let (inside, begun) = (inside.clone(), begun.clone());
            move |guard: LockGuard| {
                use loom::sync::atomic::Ordering::SeqCst;
                assert!(!inside.swap(true, SeqCst), "two holders at once");
                let before = begun.load(SeqCst);
                thread::yield_now();
                let others = begun.load(SeqCst) - before;
                inside.store(false, SeqCst);
                drop(guard);
                others
            }
        };
        let tasks = [(); 2].map(|()| {
            let (lock, enter, begun) = (lock.clone(), enter.clone(), begun.clone());
            run.spawn("other", move || {
                begun.fetch_add(1, loom::sync::atomic::Ordering::SeqCst);
                let guard =
                    block_on(lock.request("task").options(patient()).into_future()).unwrap();
                enter(guard);
            })
        });
        begun.fetch_add(1, loom::sync::atomic::Ordering::SeqCst);
        let came = enter(lock.request("thread").options(patient()).wait().unwrap());
        for task in tasks {
            task.join();
        }
        at_rest(&lock);
        crate::lock::note_exclusion(run, came);
    });
}

/// A task is polled once and dropped, while the holder releases and a thread waits behind it.
#[test]
fn tasks_a_drop_against_a_grant_strands_nothing() {
    Model::new("grant against drop", 3)
        .reaches(["never queued", "left the queue"])
        .reaches_by("holder", "gave a grant back")
        .check(|run| {
            let lock = patient_lock();
            let held = lock.acquire_lock("holder").unwrap();
            let holder = run.spawn("holder", releasing(&lock, held));
            let mut task = polled(lock.request("task").options(patient()));
            let first = poll(&mut task);
            let behind = contend(&lock, "behind");
            let taken = first.is_some();
            drop(first);
            drop(task);
            if !run.has("holder") {
                lock.release_lock(held).unwrap();
            }
            holder.join();
            behind.join().unwrap();
            at_rest(&lock);
            let stats = lock.lock_stats();
            run.note(match (taken, stats.total_cancellations) {
                (true, _) => "never queued",
                (false, 1) => "left the queue",
                (false, _) => "gave a grant back",
            });
        });
}

/// The same with a timer that passes the deadline of the task.
#[test]
fn tasks_a_deadline_against_a_grant_and_a_drop_strands_nothing() {
    Model::new("deadline against grant against drop", 3)
        .reaches(["granted", "dropped"])
        .reaches_by("timer", "timed out")
        .check(|run| {
            let lock = patient_lock();
            let held = lock.acquire_lock("holder").unwrap();
            let mut task = polled(lock.request("task").options(patient()));
            assert!(poll(&mut task).is_none());
            let timer = {
                let lock = lock.clone();
                run.spawn("timer", move || lock.expire("task"))
            };
            let release = thread::spawn(releasing(&lock, held));
            let behind = contend(&lock, "behind");
            let second = poll(&mut task);
            drop(task);
            run.note(match second {
                None => "dropped",
                Some(Ok(guard)) => {
                    drop(guard);
                    "granted"
                }
                Some(Err(LockError::Timeout(_))) => "timed out",
                Some(Err(other)) => panic!("{other}"),
            });
            timer.join();
            release.join().unwrap();
            behind.join().unwrap();
            at_rest(&lock);
        });
}

/// A future is polled with one waker and then by another task, while it is granted.
#[test]
fn tasks_the_last_waker_is_woken() {
    Model::new("other waker against grant", 3)
        .reaches(["granted to the first poll", "granted to the second task"])
        .reaches_by("holder", "granted while it moves")
        .check(|run| {
            let lock = patient_lock();
            let held = lock.request("holder").options(patient()).wait().unwrap();
            let mut held = Some(held);
            let holder = match run.has("holder") {
                true => {
                    let held = held.take();
                    run.spawn("holder", move || drop(held))
                }
                false => run.spawn("holder", || ()),
            };
            let mut task = polled(lock.request("task").options(patient()));
            let first = poll(&mut task);
            let behind = contend_in_task(&lock, "behind");
            drop(held);
            match first {
                Some(guard) => {
                    drop(guard);
                    run.note("granted to the first poll");
                }
                None => {
                    let is_granted = lock.current_lock().is_some_and(|holder| holder.untaken);
                    drop(block_on(task).unwrap());
                    run.note(match is_granted && run.has("holder") {
                        true => "granted while it moves",
                        false => "granted to the second task",
                    });
                }
            }
            holder.join();
            behind.join().unwrap();
            at_rest(&lock);
        });
}

/// Of two tasks in the queue, the first is granted and dropped without a poll.
#[test]
fn tasks_the_next_task_gets_what_a_dropped_one_was_granted() {
    Model::new("two in line, the granted one dropped", 2)
        .reaches(["before its grant"])
        .reaches_by("holder", "after its grant")
        .check(|run| {
            let lock = patient_lock();
            let held = lock.acquire_lock("holder").unwrap();
            let mut first = polled(lock.request("first").options(patient()));
            assert!(poll(&mut first).is_none());
            let second = contend_in_task(&lock, "second");
            let third = contend(&lock, "third");
            let holder = run.spawn("holder", releasing(&lock, held));
            drop(first);
            if !run.has("holder") {
                lock.release_lock(held).unwrap();
            }
            holder.join();
            second.join().unwrap();
            third.join().unwrap();
            at_rest(&lock);
            run.note(match lock.lock_stats().total_cancellations {
                1 => "before its grant",
                _ => "after its grant",
            });
        });
}

#[test]
fn tasks_a_token_against_a_drop_and_a_grant_strands_nothing() {
    Model::new("cancel token against drop", 3)
        .reaches(["granted", "dropped"])
        .reaches_by("canceller", "cancelled")
        .check(|run| {
            let lock = patient_lock();
            let token = CancelToken::new();
            let held = lock.acquire_lock("holder").unwrap();
            let options = patient().cancel_token(&token);
            let mut task = polled(lock.request("task").options(options));
            assert!(poll(&mut task).is_none());
            let canceller = run.spawn("canceller", move || token.cancel());
            let release = thread::spawn(releasing(&lock, held));
            let behind = contend(&lock, "behind");
            let second = poll(&mut task);
            drop(task);
            run.note(match second {
                None => "dropped",
                Some(Ok(_guard)) => "granted",
                Some(Err(LockError::Cancelled(_))) => "cancelled",
                Some(Err(other)) => panic!("{other}"),
            });
            canceller.join();
            release.join().unwrap();
            behind.join().unwrap();
            at_rest(&lock);
        });
}

/// The hold limit of a task that was granted the lock passes while it is polled.
#[test]
fn tasks_a_revocation_against_the_first_poll_after_the_grant() {
    Model::new("revoke against first poll", 2)
        .reaches(["kept"])
        .reaches_by("timer", "revoked untaken")
        .reaches_by("timer", "revoked")
        .check(|run| {
            let ages = Duration::from_secs(1_000);
            let options = LockOptions::new().hold_limit(ages).timeout(None);
            let lock = FifoLock::with_options(options);
            let held = lock.acquire_lock("holder").unwrap();
            let mut task = polled(lock.request("task"));
            assert!(poll(&mut task).is_none());
            let others = [contend(&lock, "b"), contend_in_task(&lock, "c")];
            lock.release_lock(held).unwrap();
            let timer = {
                let lock = lock.clone();
                run.spawn("timer", move || lock.expire_hold())
            };
            let id = poll(&mut task).expect("it was granted").unwrap().into_id();
            match lock.release_lock(id) {
                Ok(_) => run.note("kept"),
                Err(ReleaseError::Revoked { .. }) => {
                    let last = &lock.lock_stats().last_revocations;
                    let is_it = |it: &&doclock::lock::Revocation| it.holder.lock_id == id;
                    let untaken = last.iter().find(is_it).unwrap().holder.untaken;
                    run.note(if untaken {
                        "revoked untaken"
                    } else {
                        "revoked"
                    });
                }
                Err(other) => panic!("{other}"),
            }
            timer.join();
            for other in others {
                other.join().unwrap();
            }
            assert!(!lock.is_locked() && lock.queue_length() == 0);
        });
}

/// A store without a limit of time, whose combiner runs so many batches.
fn store(batches: usize) -> (DataStore, TransactionManager) {
    let options = StoreOptions::new()
        .lock_timeout(None)
        .batch_limit(batches, Duration::from_secs(1_000));
    let store = DataStore::with_options(options);
    (store.clone(), TransactionManager::new(store))
}

fn note() -> doclock::transaction::Operation {
    create(element("note", []))
}

/// A task that is never polled again is in the queue among threads. Its answer is on the way
/// between two of them.
#[test]
fn tasks_a_task_in_the_middle_does_not_end_the_wake_up_chain() {
    Model::new("relay with a task in the middle", 3)
        .reaches(["ran in its poll"])
        .reaches_by("threads", "run by another")
        .check(|run| {
            let (_store, manager) = store(8);
            let threads = [(); 2].map(|()| {
                let manager = manager.clone();
                run.spawn("threads", move || manager.execute(note()).unwrap())
            });
            let mut task = polled(manager.transaction(note()));
            let first = poll(&mut task);
            for thread in threads {
                thread.join();
            }
            match first {
                Some(_) => run.note("ran in its poll"),
                None => {
                    poll(&mut task).expect("its batch was run").unwrap();
                    run.note("run by another");
                }
            }
        });
}

/// The future of a batch is dropped while others may run the batch.
#[test]
fn tasks_a_batch_that_is_carried_out_runs_to_its_end_when_it_is_dropped() {
    Model::new("batch carried out against drop", 3)
        .reaches(["ran in its poll"])
        .reaches_by("threads", "left the queue")
        .reaches_by("threads", "ran after all")
        .check(|run| {
            let (store, manager) = store(8);
            let threads = [(); 2].map(|()| {
                let manager = manager.clone();
                run.spawn("threads", move || drop(manager.execute(note()).unwrap()))
            });
            let mut task = polled(manager.transaction(note()));
            let first = poll(&mut task).map(Result::unwrap);
            drop(task);
            let joined = threads.map(|thread| thread.join().is_some());
            let others = joined.iter().filter(|joined| **joined).count() as u64;
            assert!(!store.is_locked() && store.queue_length() == 0);
            run.note(match (first, store.version() - others) {
                (Some(_), 1) => "ran in its poll",
                (None, 0) => "left the queue",
                (None, 1) => "ran after all",
                other => panic!("{other:?}"),
            });
        });
}

/// A thread that runs one batch only leaves that of the task to the keeper.
#[test]
fn tasks_the_keeper_runs_what_a_server_leaves_at_its_limit() {
    Model::new("keeper against server at its limit", 2)
        .reaches_by("keeper", "run by the keeper")
        .check(|run| {
            let (store, manager) = store(1);
            let guard = store.lock("holder").unwrap();
            let mut task = polled(manager.transaction(note()));
            let queued = match run.has("keeper") {
                true => poll(&mut task).is_none(),
                false => false,
            };
            let keeper = run.spawn("keeper", store.keeper_thread());
            let behind = {
                let manager = manager.clone();
                thread::spawn(move || drop(manager.execute(note()).unwrap()))
            };
            drop(guard);
            block_on(task).unwrap();
            behind.join().unwrap();
            run.note(match queued {
                true => "run by the keeper",
                false => "ran in its poll",
            });
            assert_eq!((store.version(), store.is_locked()), (2, false));
            drop((store, manager));
            keeper.join();
        });
}

/// Notes how a wait ends that the keeper may time out.
fn note_end(run: &Run, ended: Result<LockGuard, LockError>) {
    match ended {
        Ok(guard) => {
            drop(guard);
            run.note("granted");
        }
        Err(LockError::Timeout(_)) => run.note("timed out"),
        Err(error) => panic!("{error}"),
    }
}

/// The time passes a deadline while the task joins the queue, and while the lock is released.
#[test]
fn tasks_the_keeper_misses_no_deadline() {
    Model::new("keeper against grant", 2)
        .reaches(["granted"])
        .reaches_by("keeper", "timed out")
        .check(|run| {
            let clock = ManualClock::new();
            let second = Duration::from_secs(1);
            let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
            let held = lock.acquire_lock("holder").unwrap();
            // Its wait has begun, so the keeper has a queue to look at.
            let mut first = polled(lock.request("first").options(patient()));
            assert!(poll(&mut first).is_none());
            let keeper = run.spawn("keeper", lock.keeper_thread());
            let limit = AcquireOptions::new().timeout(second);
            let mut task = polled(lock.request("task").options(limit));
            let is_queued = poll(&mut task).is_none();
            let time = thread::spawn(move || clock.advance(second));
            let releases = {
                let lock = lock.clone();
                thread::spawn(move || {
                    drop(first);
                    lock.release_lock(held).unwrap();
                })
            };
            assert!(is_queued, "no time has passed");
            note_end(run, block_on(task));
            time.join().unwrap();
            releases.join().unwrap();
            at_rest(&lock);
            drop(lock);
            keeper.join();
        });
}

/// A lock is dropped with the task that waits for it, while the time passes its deadline and that
/// of a task at a second lock.
#[test]
fn tasks_the_keeper_serves_a_second_lock_when_the_first_is_dropped() {
    Model::new("keeper between two locks", 3)
        .reaches(["granted"])
        .reaches_by("keeper", "timed out")
        .check(|run| {
            let clock = ManualClock::new();
            let second = Duration::from_secs(1);
            let options = LockOptions::new().clock(clock.clock()).timeout(second);
            let [first, other] = [(); 2].map(|()| FifoLock::with_options(options.clone()));
            let [_, held] = [&first, &other].map(|lock| lock.acquire_lock("holder").unwrap());
            let mut waits = polled(first.request("waits"));
            assert!(poll(&mut waits).is_none());
            let mut task = polled(other.request("task"));
            assert!(poll(&mut task).is_none());
            let keeper = run.spawn("keeper", other.keeper_thread());
            let time = {
                let other = other.clone();
                thread::spawn(move || {
                    clock.advance(second);
                    other.release_lock(held).unwrap();
                })
            };
            drop((waits, first));
            note_end(run, block_on(task));
            time.join().unwrap();
            at_rest(&other);
            drop(other);
            keeper.join();
        });
}

/// The time passes a deadline while the task joins the queue. Nothing is released before that.
#[test]
fn tasks_the_keeper_sees_a_deadline_that_passes_while_the_task_joins() {
    Model::new("keeper against join", 3)
        .reaches(["timed out"])
        .reaches_by("time", "passed before the join")
        .check(|run| {
            let clock = ManualClock::new();
            let second = Duration::from_secs(1);
            let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
            let held = lock.acquire_lock("holder").unwrap();
            let mut first = polled(lock.request("first").options(patient()));
            assert!(poll(&mut first).is_none());
            let keeper = thread::spawn(lock.keeper_thread());
            let time = {
                let clock = clock.clone();
                run.spawn("time", move || clock.advance(second))
            };
            let limit = AcquireOptions::new().timeout(second);
            let mut task = polled(lock.request("task").options(limit));
            let passed = match poll(&mut task) {
                Some(_) => true,
                None => {
                    if time.join().is_none() {
                        clock.advance(second);
                    }
                    // Only if its deadline was computed before the time passed.
                    clock.advance(second);
                    let error = block_on(task).unwrap_err();
                    assert!(matches!(error, LockError::Timeout(_)));
                    false
                }
            };
            run.note(if passed {
                "passed before the join"
            } else {
                "timed out"
            });
            drop(first);
            lock.release_lock(held).unwrap();
            at_rest(&lock);
            drop(lock);
            keeper.join().unwrap();
        });
}

/// The time passes the threshold of reports while requests join the queue, and while the lock is
/// released.
#[test]
fn tasks_the_keeper_reports_each_long_wait_once() {
    Model::new("report against grant", 2)
        .reaches(["not long", "reported at its end"])
        .reaches_by("keeper", "reported while it lasts")
        .check(|run| {
            let clock = ManualClock::new();
            let second = Duration::from_secs(1);
            let options = LockOptions::new().clock(clock.clock());
            let lock = FifoLock::with_options(options.report_waits(second).timeline(10));
            let held = lock.acquire_lock("holder").unwrap();
            // Its wait has begun, so the keeper has a queue to look at.
            let mut first = polled(lock.request("first").options(patient()));
            assert!(poll(&mut first).is_none());
            let keeper = run.spawn("keeper", lock.keeper_thread());
            let time = thread::spawn(move || clock.advance(second));
            let other = {
                let lock = lock.clone();
                thread::spawn(move || {
                    drop(lock.request("other").options(patient()).wait().unwrap())
                })
            };
            let releases = thread::spawn(releasing(&lock, held));
            drop(block_on(first).unwrap());
            for thread in [time, other, releases] {
                thread.join().unwrap();
            }
            at_rest(&lock);
            let reports: Vec<_> = lock.reports().unwrap().try_iter().collect();
            let mut ends = Vec::new();
            for entry in lock.timeline().unwrap().entries {
                let is_long = entry.granted_at.unwrap() - entry.requested_at >= second;
                let reported = reports.iter().filter_map(|report| match &report.slow {
                    SlowRequest::Wait { request, ended } if request.lock_id == entry.lock_id => {
                        Some(*ended)
                    }
                    _ => None,
                });
                let reported: Vec<_> = reported.collect();
                assert!(reported.len() <= usize::from(is_long), "{entry:?}");
                // Of two waits for one holder, the report of one is for both.
                let is_named = reports.iter().any(|report| report.holder.is_some());
                assert!(!is_long || !reported.is_empty() || is_named, "{entry:?}");
                ends.extend(reported);
            }
            run.note(match ends[..] {
                [] => "not long",
                _ if ends.contains(&false) => "reported while it lasts",
                _ => "reported at its end",
            });
            drop(lock);
            keeper.join();
        });
}

/// The last handles of a store are dropped while a task waits, and its keeper ends.
#[test]
fn tasks_the_keeper_ends_with_the_last_handle() {
    Model::new("store dropped", 3)
        .reaches(["granted"])
        .reaches_by("dropper", "dropped while the task waits")
        .check(|run| {
            let (store, manager) = store(8);
            let guard = store.lock("holder").unwrap();
            let mut task = polled(store.request("task"));
            assert!(poll(&mut task).is_none());
            let keeper = thread::spawn(store.keeper_thread());
            let is_dropped = std::sync::Arc::new(AtomicBool::new(false));
            let dropper = {
                let is_dropped = std::sync::Arc::clone(&is_dropped);
                run.spawn("dropper", move || {
                    drop((store, manager));
                    is_dropped.store(true, Ordering::SeqCst);
                })
            };
            let release = thread::spawn(move || drop(guard));
            let granted = block_on(task).unwrap();
            let before = is_dropped.load(Ordering::SeqCst);
            drop(granted);
            release.join().unwrap();
            run.note(match before {
                true => "dropped while the task waits",
                false => "granted",
            });
            dropper.join();
            keeper.join().unwrap();
        });
}

/// A commit, the end of the store, and a task that waits for events.
#[test]
fn tasks_no_event_and_no_end_of_a_stream_is_missed() {
    Model::new("stream against commit and end", 2)
        .reaches_by("writer", "one event")
        .check(|run| {
            let (store, manager) = store(8);
            let events = store.subscribe();
            let writer = run.spawn("writer", move || drop(manager.execute(note()).unwrap()));
            let end = thread::spawn(move || drop(store));
            let versions = block_on(async {
                let mut versions = Vec::new();
                while let Ok(event) = events.recv_async().await {
                    versions.push(event.commit.version);
                }
                versions
            });
            writer.join();
            end.join().unwrap();
            run.note(match &versions[..] {
                [] => "no event",
                [1] => "one event",
                other => panic!("{other:?}"),
            });
        });
}

/// A task waits for a version, and is perhaps dropped, while the journal writes it.
#[test]
fn tasks_a_version_that_becomes_durable_is_not_missed() {
    Model::new("durable version against drop", 2)
        .reaches(["at once", "later"])
        .reaches_by("dropper", "dropped while it waits")
        .check(|run| {
            let options = DurableOptions::new().durability(Durability::Later);
            let store = DataStore::open_journal(Memory::default(), options).unwrap();
            let journal = thread::spawn(store.journal_thread());
            let mut transaction = store.begin("ann").unwrap();
            transaction.create(NodeSpec::new("note")).unwrap();
            let version = transaction.commit().unwrap().version;
            let theirs = store.clone();
            let dropper = run.spawn("dropper", move || {
                let mut task = polled(theirs.wait_durable(version));
                poll(&mut task).is_none()
            });
            let mut task = polled(store.wait_durable(version));
            match poll(&mut task) {
                Some(durable) => {
                    assert_eq!(durable, Ok(version));
                    run.note("at once");
                }
                None => {
                    assert_eq!(block_on(task), Ok(version));
                    run.note("later");
                }
            }
            if dropper.join() == Some(true) {
                run.note("dropped while it waits");
            }
            drop(store);
            journal.join().unwrap();
        });
}

/// Slots are on the way to a call whose future is dropped.
#[test]
fn tasks_slots_of_a_call_that_is_dropped_are_returned() {
    Model::new("slots against drop", 3)
        .reaches(["never queued", "dropped"])
        .reaches_by("holder", "granted")
        .check(|run| {
            let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).timeout(None));
            let permit = limiter.acquire("mail").unwrap();
            let mut permit = Some(permit);
            let held = permit.take_if(|_| run.has("holder"));
            let holder = run.spawn("holder", move || drop(held));
            let mut task = polled(limiter.request("mail").into_future());
            let first = poll(&mut task);
            let behind = {
                let limiter = limiter.clone();
                thread::spawn(move || drop(limiter.acquire("mail").unwrap()))
            };
            let second = match first {
                None => poll(&mut task),
                Some(_) => None,
            };
            run.note(match (first.is_some(), second.is_some()) {
                (true, _) => "never queued",
                (false, true) => "granted",
                (false, false) => "dropped",
            });
            drop(task);
            drop((first, second, permit));
            holder.join();
            behind.join().unwrap();
            let snapshot = limiter.snapshot();
            assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
        });
}

/// A turn is granted to work whose future is dropped.
#[test]
fn tasks_a_turn_of_dropped_work_is_given_up() {
    Model::new("turn against drop", 3)
        .reaches(["executed"])
        .reaches_by("others", "dropped")
        .reaches_by("others", "executed later")
        .check(|run| {
            let lock = KeyedLock::<u32, ()>::new();
            let holder = {
                let lock = lock.clone();
                run.spawn("others", move || lock.execute_exclusive(&1, || ()).unwrap())
            };
            let behind = {
                let lock = lock.clone();
                run.spawn("others", move || {
                    let work = std::future::ready(());
                    let executed =
                        async { lock.request(&1, "behind").await?.execute_async(work).await };
                    block_on(executed).unwrap();
                })
            };
            let theirs = lock.clone();
            let mut task = polled(async move {
                let work = std::future::ready(());
                theirs.request(&1, "task").await?.execute_async(work).await
            });
            let outcome = match poll(&mut task) {
                Some(_) => "executed",
                None => match poll(&mut task) {
                    Some(_) => "executed later",
                    None => "dropped",
                },
            };
            drop(task);
            holder.join();
            behind.join();
            run.note(outcome);
            assert_eq!(lock.active_keys_count(), 0);
        });
}

/// Nodes are granted to a task that is dropped, between a request for the same nodes and one for
/// the whole document.
#[test]
fn tasks_nodes_of_a_dropped_task_are_released() {
    Model::new("nodes against drop", 3)
        .reaches(["granted"])
        .reaches_by("others", "dropped")
        .reaches_by("others", "granted later")
        .check(|run| {
            let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
            let one = || Scope::new().write("one");
            let holder = {
                let locks = store.node_locks();
                run.spawn("others", move || drop(locks.lock("holder", one()).unwrap()))
            };
            let whole = {
                let store = store.clone();
                run.spawn("others", move || drop(store.lock("whole").unwrap()))
            };
            let locks = store.node_locks();
            let mut task = polled(locks.request("task", one()));
            let outcome = match poll(&mut task) {
                Some(guard) => {
                    drop(guard.unwrap());
                    "granted"
                }
                None => match poll(&mut task) {
                    Some(guard) => {
                        drop(guard.unwrap());
                        "granted later"
                    }
                    None => "dropped",
                },
            };
            drop(task);
            holder.join();
            whole.join();
            run.note(outcome);
            assert!(!store.is_locked() && locks.holders().is_empty());
            assert!(locks.waiters().is_empty());
        });
}
