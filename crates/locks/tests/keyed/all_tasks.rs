//! KEYED 4: waiting for all current holders and waiters.

use std::sync::atomic::{AtomicU32, Ordering};

use doclock_locks::LockError;

use crate::*;

/// Waits for all in a separate thread, which ends with the wait.
fn waiting_for_all(lock: &Lock, options: AcquireOptions) -> JoinHandle<Result<(), LockError>> {
    let token = CancelToken::new();
    let options = options.cancel_token(&token);
    let lock = lock.clone();
    let thread = thread::spawn(move || lock.request_drain("closing").options(options).wait());
    until_waiting_with(&token, 1);
    thread
}

#[test]
fn keyed_04_a_wait_for_all_covers_running_and_queued_tasks_and_no_later_ones() {
    let lock = Lock::new();
    assert_eq!(lock.wait_for_all_existing_tasks(), Ok(()));
    let ann = running(&lock, "ann", "first");
    let bob = running(&lock, "bob", "first");
    let (end, ending) = channel();
    let second = queued(&lock, "ann", "second", plain(), move || recv(&ending));
    let all = waiting_for_all(&lock, plain());

    // Later requests are not waited for, at the same key or at another.
    let (end_later, ending) = channel();
    let later = queued(&lock, "ann", "later", plain(), move || recv(&ending));
    let cid = running(&lock, "cid", "later");

    // The waiting call is not in the queue of a key.
    assert_eq!(lock.queue_length("ann"), 2);
    assert_eq!(bob.end(0), Ok(0));
    assert_eq!(ann.end(1), Ok(1));
    until(|| lock.current("ann").unwrap().owner_id.as_str() == "second");
    assert!(!all.is_finished());
    end.send(2).unwrap();
    assert_eq!(all.join().unwrap(), Ok(()));
    assert!(second.join().is_ok());
    assert!(lock.is_active_key("ann") && lock.is_active_key("cid"));

    end_later.send(3).unwrap();
    assert_eq!(later.join().unwrap(), Ok(3));
    assert_eq!(cid.end(4), Ok(4));
    at_rest(&lock);
}

#[test]
fn keyed_04_each_wait_for_all_covers_the_tasks_at_its_start() {
    let lock = Lock::new();
    let first = lock.reserve("ann").unwrap();
    let for_first = waiting_for_all(&lock, plain());
    let second = lock.reserve("ann").unwrap();
    let for_both = waiting_for_all(&lock, plain());
    let also_for_both = waiting_for_all(&lock, plain());
    assert_eq!(first.execute(|| 1), Ok(1));
    assert_eq!(for_first.join().unwrap(), Ok(()));
    assert!(!for_both.is_finished() && !also_for_both.is_finished());
    assert_eq!(second.execute(|| 2), Ok(2));
    assert_eq!(for_both.join().unwrap(), Ok(()));
    assert_eq!(also_for_both.join().unwrap(), Ok(()));
    at_rest(&lock);
}

#[test]
fn keyed_04_a_wait_for_all_skips_tasks_that_give_up() {
    let (lock, clock) = timed();
    let holder = lock.reserve("ann").unwrap();
    let late = queued(&lock, "ann", "late", plain().timeout(MS), || 1);
    let given_up = lock.reserve("ann").unwrap();
    let all = waiting_for_all(&lock, plain());
    let later = lock.reserve("ann").unwrap();
    clock.advance(MS);
    timeout_of(late.join().unwrap());
    drop(holder);
    assert!(!all.is_finished());
    drop(given_up);
    assert_eq!(all.join().unwrap(), Ok(()));
    drop(later);
    at_rest(&lock);

    // The same if it leaves with nothing after it in the queue.
    let held = lock.reserve("ann").unwrap();
    let behind = lock.reserve("ann").unwrap();
    let all = waiting_for_all(&lock, plain());
    drop(behind);
    drop(held);
    assert_eq!(all.join().unwrap(), Ok(()));
    at_rest(&lock);
}

#[test]
fn keyed_04_a_task_that_panics_has_ended() {
    let lock = Lock::new();
    let (go, goes) = channel::<u32>();
    let (begun, has_begun) = channel();
    let torn = spawn(&lock, "ann", "torn", plain(), move || {
        begun.send(()).unwrap();
        recv(&goes);
        panic!("torn")
    });
    recv(&has_begun);
    let all = waiting_for_all(&lock, plain());
    go.send(0).unwrap();
    assert!(torn.join().is_err());
    assert_eq!(all.join().unwrap(), Ok(()));
    at_rest(&lock);
}

#[test]
fn keyed_04_a_task_that_would_wait_for_itself_is_refused_at_once() {
    let lock = Lock::new();
    let other = lock.reserve("bob").unwrap();
    let result = lock.execute_exclusive("ann", || match lock.wait_for_all_existing_tasks() {
        Err(LockError::Reentrant { .. }) => 1,
        other => panic!("{other:?}"),
    });
    assert_eq!(result, Ok(1));
    // The failed request waits nowhere.
    drop(other);
    assert_eq!(lock.wait_for_all_existing_tasks(), Ok(()));
    at_rest(&lock);
}

#[test]
fn keyed_04_a_wait_for_all_can_time_out_and_be_cancelled() {
    let (lock, clock) = timed();
    let holder = running(&lock, "ann", "holder");
    let waiter = queued(&lock, "ann", "waiter", plain(), || 2);
    let all = waiting_for_all(&lock, plain().timeout(9 * MS));
    clock.advance(8 * MS);
    assert!(!all.is_finished());
    clock.advance(MS);
    let evidence = timeout_of(all.join().unwrap());
    assert_eq!((evidence.owner.as_str(), evidence.position), ("closing", 2));
    assert_eq!(evidence.holder.owner_id.as_str(), "holder");
    assert_eq!(evidence.holder.held_for, 9 * MS);

    let token = CancelToken::new();
    let options = plain().cancel_token(&token);
    let cancelled = {
        let lock = lock.clone();
        thread::spawn(move || lock.request_drain("closing").options(options).wait())
    };
    until_waiting_with(&token, 1);
    token.cancel();
    assert!(matches!(
        cancelled.join().unwrap(),
        Err(LockError::Cancelled(_))
    ));

    let eager = lock.request_drain("closing").no_wait().wait();
    assert!(matches!(
        eager,
        Err(LockError::WouldBlock { waiting: 1, .. })
    ));
    assert_eq!(holder.end(0), Ok(0));
    assert_eq!(waiter.join().unwrap(), Ok(2));
    at_rest(&lock);
}

#[test]
fn keyed_04_a_shutdown_ends_after_all_accepted_tasks() {
    let lock: KeyedLock<u32> = KeyedLock::new();
    let done = AtomicU32::new(0);
    thread::scope(|threads| {
        for message in 0..40 {
            let turn = lock.reserve(&(message % 5)).unwrap();
            let done = &done;
            threads.spawn(move || {
                turn.execute(|| {
                    done.fetch_add(1, Ordering::SeqCst);
                })
            });
        }
        lock.wait_for_all_existing_tasks().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 40);
        assert_eq!(lock.active_keys_count(), 0);
    });
}

/// Eight threads come and go while another repeatedly waits for all: each wait covers all earlier
/// requests, and ends.
#[test]
fn keyed_04_a_wait_for_all_ends_while_many_tasks_come_and_go() {
    let rounds = if cfg!(debug_assertions) { 200 } else { 5_000 };
    let lock: KeyedLock<u32> = KeyedLock::new();
    let stop = AtomicU32::new(0);
    thread::scope(|threads| {
        for nth in 0..8 {
            let (lock, stop) = (&lock, &stop);
            threads.spawn(move || {
                let mut key = nth;
                while stop.load(Ordering::Relaxed) == 0 {
                    key = (key + 1) % 11;
                    lock.execute_exclusive(&key, || ()).unwrap();
                }
            });
        }
        for round in 0..rounds {
            let before = AtomicU32::new(0);
            let turns = [round % 11, (round + 1) % 11].map(|key| lock.reserve(&key).unwrap());
            thread::scope(|threads| {
                for turn in turns {
                    let before = &before;
                    threads.spawn(move || {
                        turn.execute(|| {
                            before.fetch_add(1, Ordering::SeqCst);
                        })
                    });
                }
                lock.wait_for_all_existing_tasks().unwrap();
                assert_eq!(before.load(Ordering::SeqCst), 2);
            });
        }
        stop.store(1, Ordering::Relaxed);
    });
    assert_eq!(lock.active_keys_count(), 0);
}

/// Once such a wait was `Ok` if no task was there.
#[test]
fn keyed_04_a_wait_for_all_with_a_cancelled_token_is_refused_also_without_a_task() {
    let lock = Lock::new();
    let token = CancelToken::new();
    token.cancel();
    let all = || lock.request_drain("closing").cancel_token(&token);
    assert!(matches!(all().wait(), Err(LockError::Cancelled(_))));
    let turn = lock.reserve("ann").unwrap();
    assert!(matches!(all().wait(), Err(LockError::Cancelled(_))));
    assert_eq!(lock.stats().total_cancellations, 2);
    assert_eq!(turn.execute(|| 1), Ok(1));
    at_rest(&lock);
}
