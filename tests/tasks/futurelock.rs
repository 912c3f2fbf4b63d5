//! Tasks that are granted the lock and not polled, and batches, which need no poll.

use std::time::Duration;

use doclock::lock::{AcquireOptions, FifoLock, LockError, LockOptions, ReleaseError};
use doclock::time::ManualClock;
use doclock::{DataStore, StoreOptions, TransactionManager, dsl::*};

use crate::common::{Task, at_rest, eventually};

fn note(text: &'static str) -> doclock::transaction::Operation {
    create(text_node("note", text))
}

#[test]
fn async_03_a_batch_runs_in_its_turn_though_its_task_is_not_polled() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let mut batch = Task::waiting(manager.transaction(note("one")));
    let mut behind = Task::waiting(store.request("behind"));
    // A guard combines nothing: the keeper runs the batch.
    drop(guard);
    eventually("the batch runs", || store.version() == 1);
    eventually("the lock goes on", || behind.is_woken());
    drop(behind.poll().unwrap().unwrap());
    assert!(batch.is_woken());
    assert_eq!(batch.poll().unwrap().unwrap().version, 1);
    assert!(!store.is_locked());
}

#[test]
fn async_03_a_batch_of_code_runs_in_its_turn_though_its_task_is_not_polled() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let same = store.clone();
    let code = op(move |transaction| {
        // The thread that runs it would wait for itself.
        let error = same.lock("nested").unwrap_err();
        assert!(matches!(error, LockError::Reentrant { .. }), "{error}");
        transaction.create(text_node("note", "one")).map(drop)
    });
    let mut batch = Task::waiting(manager.transaction([code]));
    drop(guard);
    eventually("the batch runs", || batch.is_woken());
    assert_eq!(batch.poll().unwrap().unwrap().version, 1);
}

#[test]
fn async_02_a_running_batch_whose_future_is_dropped_runs_to_its_end() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let (begins, has_begun) = std::sync::mpsc::channel();
    let (end, may_end) = std::sync::mpsc::channel::<()>();
    let may_end = std::sync::Mutex::new(may_end);
    let code = op(move |transaction| {
        begins.send(()).unwrap();
        may_end.lock().unwrap().recv().unwrap();
        transaction.create(text_node("note", "one")).map(drop)
    });
    let guard = store.lock("holder").unwrap();
    let running = Task::waiting(manager.transaction([code]));
    let queued = Task::waiting(manager.transaction(note("two")));
    drop(guard);
    has_begun.recv().unwrap();
    drop(running);
    drop(queued);
    end.send(()).unwrap();
    eventually("it runs to its end", || !store.is_locked());
    assert_eq!(store.version(), 1, "the queued one left the queue");
}

#[test]
fn async_03_a_guard_that_is_not_taken_is_named_with_its_call_site() {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
    let held = lock.lock("holder").unwrap();
    let unpolled = Task::waiting(lock.request("sleeper"));
    let line = line!() - 1;
    let mut other = Task::waiting(lock.request("other"));
    drop(held);
    clock.advance(Duration::from_millis(3_200));
    let holder = lock.current_lock().unwrap();
    assert!(holder.untaken);
    let place = format!("tests/tasks/futurelock.rs:{line}");
    let told = "granted 3200ms ago, not yet taken by its task";
    let dump = lock.diagnostics().to_string();
    assert!(dump.contains(told) && dump.contains(&place), "{dump}");
    clock.advance(Duration::from_secs(2));
    eventually("the other times out", || other.is_woken());
    let error = other.poll().unwrap().unwrap_err();
    let (text, json) = (error.to_string(), serde_json::to_value(&error).unwrap());
    assert!(text.contains("granted 5200ms ago, not yet taken"), "{text}");
    assert!(text.contains(&place), "{text}");
    assert_eq!(json["holder"]["untaken"], true);
    drop(unpolled);
    at_rest(&lock);
}

#[test]
fn async_03_a_taken_guard_is_not_called_untaken() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let mut task = Task::waiting(lock.request("task"));
    drop(held);
    assert!(lock.current_lock().unwrap().untaken);
    let guard = task.poll().unwrap().unwrap();
    assert!(!lock.current_lock().unwrap().untaken);
    drop(guard);
    // Nor is the next holder, whose claim is in the same place.
    let next = lock.lock("next").unwrap();
    assert!(!lock.current_lock().unwrap().untaken);
    drop(next);
}

#[test]
fn async_03_a_hold_limit_revokes_a_guard_that_is_not_taken() {
    let clock = ManualClock::new();
    let options = LockOptions::new()
        .clock(clock.clock())
        .hold_limit(Duration::from_secs(1));
    let lock = FifoLock::with_options(options);
    let held = lock.lock("holder").unwrap();
    let mut unpolled = Task::waiting(lock.request("sleeper"));
    let mut other = Task::waiting(lock.request("other"));
    drop(held);
    assert!(!other.is_woken());
    clock.advance(Duration::from_secs(1));
    eventually("the lock goes on", || other.is_woken());
    let revoked = &lock.lock_stats().last_revocations[0];
    assert!(revoked.holder.untaken && revoked.holder.owner_id.as_str() == "sleeper");
    // The task learns of it when it releases.
    let id = unpolled.poll().unwrap().unwrap().into_id();
    let released = lock.release_lock(id).unwrap_err();
    let ReleaseError::Revoked { waiter, .. } = &released else {
        panic!("{released}");
    };
    let waiter = waiter.as_ref().map(|waiter| waiter.owner_id.as_str());
    assert_eq!(waiter, Some("other"));
    drop(other.poll().unwrap().unwrap());
    assert!(!lock.is_locked());
}

#[test]
fn async_03_the_keeper_revokes_on_behalf_of_tasks_when_threads_hold() {
    let clock = ManualClock::new();
    let options = LockOptions::new()
        .clock(clock.clock())
        .hold_limit(Duration::from_secs(1));
    let lock = FifoLock::with_options(options);
    let id = lock.acquire_lock("stuck").unwrap();
    let mut tasks = [(); 3].map(|()| Task::waiting(lock.request("task")));
    for task in &mut tasks {
        clock.advance(Duration::from_secs(1));
        eventually("the holder is revoked", || task.is_woken());
        // It keeps its guard for longer than the limit, too.
        std::mem::forget(task.poll().unwrap().unwrap());
    }
    let released = lock.release_lock(id);
    assert!(matches!(released, Err(ReleaseError::Revoked { id: of, .. }) if of == id));
    assert_eq!(lock.lock_stats().total_revocations, 3);
}

/// The program that gave futurelocks their name: a future is granted the lock while its task waits
/// for another request of the lock.
async fn futurelock<F: IntoFuture>(first: F, second: F) -> F::Output {
    let mut first = std::pin::pin!(first.into_future());
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    // `first` is alive, and not polled any more.
    second.await
}

#[test]
fn async_03_the_futurelock_program_ends_with_batches() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("background").unwrap();
    let program = futurelock(
        manager.transaction(note("one")),
        manager.transaction(note("two")),
    );
    let program = Task::waiting(program);
    drop(guard);
    assert_eq!(program.finish().unwrap().version, 2);
}

#[test]
fn async_03_the_futurelock_program_with_guards_ends_in_an_error_that_names_it() {
    let (clock, limit) = (ManualClock::new(), Duration::from_secs(1));
    let options = StoreOptions::new().clock(clock.clock());
    let store = DataStore::with_options(options.lock_timeout(limit));
    let guard = store.lock("background").unwrap();
    let first = store
        .request("first")
        .options(AcquireOptions::new().no_timeout());
    let program = Task::waiting(futurelock(first, store.request("second")));
    drop(guard);
    clock.advance(limit);
    let error = program.finish().unwrap_err().to_string();
    assert!(
        error.contains("of first from tests/tasks/futurelock.rs"),
        "{error}"
    );
    assert!(error.contains("not yet taken by its task"), "{error}");
}
