//! Tasks and threads in one queue: order, timeouts, tokens, bounds, and futures that are dropped.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use doclock::lock::{AcquireOptions, CancelToken, FifoLock, LockError, LockOptions, Priority};
use doclock::time::ManualClock;

use crate::common::{Count, Task, at_rest, eventually};

#[test]
fn async_01_tasks_and_threads_are_granted_in_one_order() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let mut first = Task::waiting(lock.request("first"));
    let theirs = lock.clone();
    let second = thread::spawn(move || theirs.acquire_lock("second").unwrap());
    eventually("the thread waits", || lock.queue_length() == 2);
    let mut third = Task::waiting(lock.request("third"));
    let owners: Vec<_> = lock
        .queue_info()
        .into_iter()
        .map(|it| it.owner_id)
        .collect();
    assert_eq!(owners, ["first".into(), "second".into(), "third".into()]);

    drop(held);
    assert!(first.is_woken() && !third.is_woken());
    let first = first.poll().expect("it was granted").unwrap();
    assert!(!second.is_finished() && third.poll().is_none());
    drop(first);
    let second = second.join().unwrap();
    assert!(third.poll().is_none());
    lock.release_lock(second).unwrap();
    drop(third.poll().expect("it was granted").unwrap());
    at_rest(&lock);
}

#[test]
fn async_01_priorities_and_bounds_count_for_tasks() {
    let lock = FifoLock::with_options(LockOptions::new().queue_bound(2));
    let held = lock.lock("holder").unwrap();
    let low = AcquireOptions::new().priority(Priority::Low);
    let _low = Task::waiting(lock.request("low").options(low));
    let mut high = Task::waiting(lock.request("normal"));
    let refused = Task::new(lock.request("third")).poll().unwrap();
    assert!(matches!(
        refused,
        Err(LockError::QueueFull { bound: 2, .. })
    ));
    drop(held);
    assert!(high.poll().is_some());
}

#[test]
fn async_01_a_task_that_may_not_wait_is_told_at_its_first_poll() {
    let lock = FifoLock::new();
    let _held = lock.lock("holder").unwrap();
    let no_wait = AcquireOptions::new().no_wait();
    let refused = Task::new(lock.request("task").options(no_wait)).poll();
    assert!(matches!(refused, Some(Err(LockError::WouldBlock { .. }))));
}

#[test]
fn async_01_a_task_times_out_with_the_evidence_of_a_thread() {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
    let _held = lock.lock("holder").unwrap();
    let options = AcquireOptions::new()
        .timeout(Duration::from_secs(2))
        .label("save");
    let first = Task::waiting(lock.request("first"));
    let mut second = Task::waiting(lock.request("second").options(options));
    clock.advance(Duration::from_millis(1_999));
    assert!(second.poll().is_none());
    clock.advance(Duration::from_millis(1));
    eventually("the keeper ends the wait", || second.is_woken());
    let Some(Err(LockError::Timeout(evidence))) = second.poll() else {
        panic!("it times out");
    };
    assert_eq!(evidence.position, 2);
    assert_eq!(evidence.ahead[0].owner_id.as_str(), "first");
    assert_eq!(evidence.holder.owner_id.as_str(), "holder");
    assert_eq!(evidence.waited, Duration::from_secs(2));
    assert!(!first.is_woken() && lock.queue_length() == 1);
    assert_eq!(lock.lock_stats().total_timeouts, 1);
}

#[test]
fn async_01_ten_thousand_tasks_time_out_at_their_own_deadlines() {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
    let held = lock.lock("holder").unwrap();
    let mut tasks: Vec<_> = (0..10_000u64)
        .map(|nth| {
            let limit = AcquireOptions::new().timeout(Duration::from_secs(1 + nth % 10));
            Task::waiting(lock.request("task").options(limit))
        })
        .collect();
    for second in 1..=5 {
        clock.advance(Duration::from_secs(1));
        let left = 10_000 - 1_000 * second;
        eventually("the overdue leave", || lock.queue_length() == left);
    }
    drop(held);
    let granted = tasks.iter_mut().filter_map(Task::poll).map(|it| it.is_ok());
    assert_eq!(granted.filter(|granted| *granted).count(), 5_000);
    at_rest(&lock);
}

#[test]
fn async_01_a_task_times_out_by_the_system_clock_without_any_executor() {
    let lock = FifoLock::new();
    let _held = lock.lock("holder").unwrap();
    let limit = AcquireOptions::new().timeout(Duration::from_millis(20));
    let error = Task::new(lock.request("task").options(limit))
        .finish()
        .unwrap_err();
    assert!(matches!(error, LockError::Timeout(_)), "{error}");
}

#[test]
fn async_01_a_token_cancels_tasks_that_wait_and_those_that_come_later() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let token = CancelToken::new();
    let options = AcquireOptions::new().cancel_token(&token);
    let mut waiting = Task::waiting(lock.request("task").options(options.clone()));
    token.cancel();
    assert!(waiting.is_woken());
    assert!(matches!(waiting.poll(), Some(Err(LockError::Cancelled(_)))));
    let later = Task::new(lock.request("task").options(options)).poll();
    assert!(matches!(later, Some(Err(LockError::Cancelled(_)))));
    drop(held);
    at_rest(&lock);
}

#[test]
fn async_01_a_task_waits_for_the_cancellation_of_a_token() {
    let token = CancelToken::new();
    let mut waiting = Task::waiting(token.cancelled());
    assert!(waiting.poll().is_none());
    drop(Task::waiting(token.cancelled()));
    assert!(format!("{token:?}").contains("waiting: 1"), "{token:?}");
    token.cancel();
    assert_eq!((waiting.woken(), waiting.poll()), (1, Some(())));
    assert_eq!(Task::new(token.cancelled()).poll(), Some(()));
    // Each poll can be that of another task.
    let token = CancelToken::new();
    let mut moved = Box::pin(token.cancelled());
    let first = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&first));
    assert!(
        moved
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let mut last = Task::waiting(moved);
    token.clone().cancel();
    assert_eq!((first.get(), last.woken(), last.poll()), (0, 1, Some(())));
}

#[test]
fn async_02_nothing_happens_before_the_first_poll() {
    let lock = FifoLock::new();
    let unpolled = lock.request("task").into_future();
    assert!(!lock.is_locked());
    let held = lock.lock("holder").unwrap();
    let queued = lock.request("task").into_future();
    assert_eq!(lock.queue_length(), 0);
    drop((unpolled, queued));
    drop(held);
    at_rest(&lock);
    assert_eq!(lock.lock_stats().total_acquisitions, 1);
}

#[test]
fn async_02_a_waiting_future_that_is_dropped_leaves_no_trace() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let first = Task::waiting(lock.request("first"));
    let mut second = Task::waiting(lock.request("second"));
    drop(first);
    assert_eq!(lock.queue_length(), 1);
    assert_eq!(lock.lock_stats().total_cancellations, 1);
    drop(held);
    drop(second.poll().expect("it was granted").unwrap());
    at_rest(&lock);
}

#[test]
fn async_02_a_granted_future_that_is_dropped_releases_to_the_next() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let first = Task::waiting(lock.request("first"));
    let mut second = Task::waiting(lock.request("second"));
    drop(held);
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.is_woken());
    assert_eq!(lock.current_lock().unwrap().owner_id.as_str(), "second");
    drop(second.poll().expect("it was granted").unwrap());
    at_rest(&lock);
}

#[test]
fn async_02_a_guard_of_a_task_may_be_dropped_on_any_thread() {
    let lock = FifoLock::new();
    let guard = Task::new(lock.request("task")).poll().unwrap().unwrap();
    // The polling thread is not taken for the holder.
    let limit = AcquireOptions::new().timeout(Duration::from_millis(1));
    assert!(matches!(
        lock.request("thread").options(limit).wait(),
        Err(LockError::Timeout(_))
    ));
    thread::spawn(move || drop(guard)).join().unwrap();
    at_rest(&lock);
}
