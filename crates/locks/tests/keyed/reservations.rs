//! KEYED 1: exclusion, order and results of turns.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use doclock_locks::{
    LockError,
    keyed::{KeyedLock, Reservation},
};

use crate::common::Dice;
use crate::*;

#[test]
fn keyed_01_tasks_of_one_key_are_executed_in_the_order_of_requests() {
    let lock = Lock::new();
    let notes = Notes::default();
    let first = running(&lock, "ann", "first");
    let waiting: Vec<_> = (0..20)
        .map(|nth| {
            let notes = notes.clone();
            queued(&lock, "ann", "waiter", plain(), move || notes.note(nth))
        })
        .collect();
    assert_eq!(lock.queue_length("ann"), 20);
    assert_eq!(first.end(0), Ok(0));
    for (nth, thread) in (0..).zip(waiting) {
        assert_eq!(thread.join().unwrap(), Ok(nth));
    }
    assert!(notes.all().into_iter().eq(0..20));
    at_rest(&lock);
}

#[test]
fn keyed_01_tasks_of_different_keys_do_not_wait_for_each_other() {
    let lock = Lock::new();
    let meeting = Barrier::new(8);
    thread::scope(|threads| {
        for key in 0..8 {
            let (lock, meeting) = (&lock, &meeting);
            // Each continues when all are running.
            threads.spawn(move || {
                lock.execute_exclusive(&key.to_string(), || {
                    meeting.wait();
                    key
                })
            });
        }
    });
    at_rest(&lock);
}

/// Eight threads and few keys: one holder at a time for each key, in the order of requests.
#[test]
fn keyed_01_order_and_exclusion_hold_under_8_threads() {
    const KEYS: usize = 5;
    let tasks = if cfg!(debug_assertions) {
        2_000
    } else {
        50_000
    };
    let lock: KeyedLock<usize> = KeyedLock::new();
    let keys: [(AtomicBool, Mutex<Vec<u64>>); KEYS] = Default::default();
    thread::scope(|threads| {
        for nth in 0..8 {
            let (lock, keys) = (&lock, &keys);
            threads.spawn(move || {
                let mut dice = Dice(nth);
                for _ in 0..tasks {
                    let key = dice.below(KEYS);
                    let (inside, order) = &keys[key];
                    let task = || {
                        assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                        let id = lock.current(&key).unwrap().lock_id;
                        order.lock().unwrap().push(id.number());
                        inside.store(false, Ordering::SeqCst);
                    };
                    lock.execute_exclusive(&key, task).unwrap();
                }
            });
        }
    });
    let done: usize = keys
        .iter()
        .map(|(_, order)| order.lock().unwrap().len())
        .sum();
    assert_eq!(done, 8 * tasks);
    for (_, order) in &keys {
        // Numbers follow the order of requests.
        assert!(order.lock().unwrap().is_sorted());
    }
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    assert_eq!(stats.total_acquisitions, 8 * tasks as u64);
    assert_eq!(stats.total_releases, 8 * tasks as u64);
}

#[test]
fn keyed_01_a_panic_resumes_in_the_caller_and_the_key_goes_to_the_next_task() {
    let lock = Lock::new();
    let first = running(&lock, "ann", "first");
    let torn = queued(&lock, "ann", "torn", plain(), || panic!("torn"));
    let next = queued(&lock, "ann", "next", plain(), || 2);
    assert_eq!(first.end(1), Ok(1));
    let payload = torn.join().unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"torn"));
    assert_eq!(next.join().unwrap(), Ok(2));

    // Also without waiters, and with any payload.
    let torn = || lock.execute_exclusive("bob", || std::panic::panic_any(7_u8));
    let payload = catch_unwind(AssertUnwindSafe(torn)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&7_u8));
    assert_eq!(lock.execute_exclusive("bob", || 3), Ok(3));
    at_rest(&lock);
}

#[test]
fn keyed_01_an_error_of_a_task_is_a_result() {
    let lock: KeyedLock<u8, Result<u32, String>> = KeyedLock::new();
    let failed = lock.execute_exclusive(&1, || Err("no funds".to_owned()));
    assert_eq!(failed, Ok(Err("no funds".to_owned())));
}

#[test]
fn keyed_01_tasks_may_borrow_and_keys_may_be_looked_up_in_borrowed_form() {
    let lock: KeyedLock<Vec<u8>> = KeyedLock::new();
    let mut sum = 0;
    lock.execute_exclusive([1, 2].as_slice(), || sum += 1)
        .unwrap();
    lock.execute_exclusive(&vec![1, 2], || sum += 1).unwrap();
    assert_eq!(sum, 2);
}

// --- Reservations ---

#[test]
fn keyed_01_reservations_run_in_the_order_of_reserving_in_any_thread() {
    let lock = Lock::new();
    let order: Mutex<HashMap<usize, Vec<usize>>> = Mutex::default();
    let (to_pool, turns) = mpsc::channel::<(Reservation<String, u32>, usize, usize)>();
    let turns = Mutex::new(turns);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Ok((turn, key, message)) = { turns.lock().unwrap().recv() } {
                    let task = || {
                        order.lock().unwrap().entry(key).or_default().push(message);
                        0
                    };
                    turn.execute(task).unwrap();
                }
            });
        }
        for message in 0..3_000 {
            let key = message % 7;
            let turn = lock.reserve(&key.to_string()).unwrap();
            to_pool.send((turn, key, message)).unwrap();
        }
        drop(to_pool);
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order.len(), 7);
    for (key, messages) in order {
        assert!(messages.into_iter().eq((key..3_000).step_by(7)));
    }
    at_rest(&lock);
}

#[test]
fn keyed_01_a_dropped_reservation_frees_its_queue_position() {
    let lock = Lock::new();
    let notes = Notes::default();
    let held = lock.reserve("ann").unwrap();
    let behind = lock.reserve("ann").unwrap();
    assert_eq!(lock.current("ann").unwrap().lock_id, held.id());
    assert_eq!(lock.queue_info("ann")[0].lock_id, behind.id());
    let waiter = {
        let notes = notes.clone();
        queued(&lock, "ann", "waiter", plain(), move || notes.note(3))
    };
    // In the middle of the queue: nothing is granted.
    drop(behind);
    assert_eq!((lock.queue_length("ann"), notes.all().len()), (1, 0));
    drop(held);
    assert_eq!(waiter.join().unwrap(), Ok(3));

    // Granted before its use.
    let held = lock.reserve("ann").unwrap();
    let behind = lock.reserve("ann").unwrap();
    drop(held);
    assert_eq!(lock.current("ann").unwrap().lock_id, behind.id());
    drop(behind);
    at_rest(&lock);
}

#[test]
fn keyed_01_a_task_may_reserve_at_its_own_key_and_not_wait_there() {
    let lock = Lock::new();
    let (later, refused) = {
        let turns = Mutex::new(None);
        let task = || {
            *turns.lock().unwrap() = Some(lock.reserve("ann").unwrap());
            let own = lock.reserve("ann").unwrap();
            u32::from(matches!(
                own.execute(|| 0),
                Err(LockError::Reentrant { .. })
            ))
        };
        let refused = lock.execute_exclusive("ann", task);
        (turns.into_inner().unwrap().unwrap(), refused)
    };
    assert_eq!(refused, Ok(1));
    assert_eq!(later.execute(|| 5), Ok(5));
    at_rest(&lock);
}

#[test]
fn keyed_01_a_reservation_is_bound_to_the_thread_that_executes_it() {
    let lock = Lock::new();
    let turn = lock.reserve("ann").unwrap();
    let nested = turn.execute(|| match lock.execute_exclusive("ann", || 0) {
        Err(LockError::Reentrant { .. }) => 1,
        other => panic!("{other:?}"),
    });
    assert_eq!(nested, Ok(1));
    // The reservation is not bound to this thread.
    let turn = lock.reserve("ann").unwrap();
    let executing = thread::spawn(move || turn.execute(|| 2));
    assert_eq!(lock.execute_exclusive("ann", || 3), Ok(3));
    assert_eq!(executing.join().unwrap(), Ok(2));
    at_rest(&lock);
}

/// A future that is ready at once, and says whether the key was in use when it was dropped.
struct Probe<'a>(&'a Lock, &'a AtomicBool);

impl Future for Probe<'_> {
    type Output = u32;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<u32> {
        std::task::Poll::Ready(7)
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.is_active_key("ann"), Ordering::Relaxed);
    }
}

#[test]
fn keyed_01_a_key_is_released_before_the_future_of_its_task_is_dropped() {
    let (lock, was_active) = (Lock::new(), AtomicBool::new(true));
    let turn = lock.reserve("ann").unwrap();
    let executed = pollster::block_on(turn.execute_async(Probe(&lock, &was_active)));
    assert_eq!(executed, Ok(7));
    assert!(!was_active.load(Ordering::Relaxed));
    at_rest(&lock);
}

#[test]
fn keyed_01_types_may_cross_threads() {
    fn both<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    both::<KeyedLock<String, std::cell::Cell<u8>>>();
    sent::<Reservation<String, std::rc::Rc<u8>>>();
    sent::<doclock_locks::keyed::Execution<String, u8>>();
    both::<doclock_locks::keyed::ExecutionError>();
    let _: Arc<KeyedLock<u8>> = Arc::default();
}
