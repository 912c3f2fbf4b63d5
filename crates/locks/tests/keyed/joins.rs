//! KEYED 3: sharing the result of a task that another thread executes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use doclock_locks::{
    LockError,
    keyed::{Execution, ExecutionError, KeyedLock},
};

use crate::*;

fn current(lock: &Lock, key: &str) -> Execution<String, u32> {
    lock.current_execution(key).expect("a task is executed")
}

#[test]
fn keyed_03_all_joins_share_the_result_of_the_running_task() {
    let lock = Lock::new();
    assert!(lock.current_execution("ann").is_none());
    let task = running(&lock, "ann", "runner");
    let next = queued(&lock, "ann", "next", plain(), || 2);
    let joined = current(&lock, "ann");
    assert_eq!(joined.owner().as_str(), "runner");
    assert_eq!(joined.id(), lock.current("ann").unwrap().lock_id);
    let others: Vec<_> = (0..3)
        .map(|_| {
            let execution = current(&lock, "ann");
            thread::spawn(move || execution.join())
        })
        .collect();
    // A join has no queue position.
    assert_eq!(lock.queue_length("ann"), 1);
    assert_eq!(task.end(1), Ok(1));
    assert_eq!(next.join().unwrap(), Ok(2));
    for other in others {
        assert_eq!(other.join().unwrap(), Ok(1));
    }
    // At any later time.
    assert_eq!(joined.join(), Ok(1));
    assert!(lock.current_execution("ann").is_none());
    assert_eq!(lock.stats().total_joins, 4);
    at_rest(&lock);
}

#[test]
fn keyed_03_a_join_joins_the_task_that_runs_at_its_request() {
    let lock = Lock::new();
    let first = running(&lock, "ann", "first");
    let of_first = current(&lock, "ann");
    let (end, ending) = channel();
    let second = queued(&lock, "ann", "second", plain(), move || recv(&ending));
    assert_eq!(first.end(1), Ok(1));
    let of_second = current(&lock, "ann");
    assert_eq!(of_second.owner().as_str(), "second");
    end.send(2).unwrap();
    assert_eq!(second.join().unwrap(), Ok(2));
    assert_eq!((of_first.join(), of_second.join()), (Ok(1), Ok(2)));
    at_rest(&lock);
}

#[test]
fn keyed_03_a_join_of_a_task_that_panics_reports_its_id_owner_and_message() {
    let lock = Lock::new();
    let (go, goes) = channel();
    let begun = channel();
    let task = spawn(
        &lock,
        "ann",
        "runner",
        plain().label("refresh"),
        move || {
            begun.0.send(()).unwrap();
            recv(&goes);
            panic!("no answer from {}", "service")
        },
    );
    recv(&begun.1);
    let next = queued(&lock, "ann", "next", plain(), || 2);
    let joined = [current(&lock, "ann"), current(&lock, "ann")];
    let id = joined[0].id();
    go.send(()).unwrap();
    assert!(task.join().is_err(), "the panic goes on in who executed it");
    for joined in joined {
        match joined.join() {
            Err(ExecutionError::Panicked(panic)) => {
                assert_eq!((panic.id, panic.owner.as_str()), (id, "runner"));
                assert_eq!(panic.label.as_deref(), Some("refresh"));
                assert_eq!(panic.message.as_deref(), Some("no answer from service"));
                let told =
                    format!("task {id} of runner (refresh) panicked: no answer from service");
                assert_eq!(panic.to_string(), told);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next.join().unwrap(), Ok(2));
    at_rest(&lock);
}

#[test]
fn keyed_03_a_join_of_a_dropped_reservation_reports_it() {
    let lock = Lock::new();
    let turn = lock.request("ann", "idler").reserve().unwrap();
    let joined = current(&lock, "ann");
    let id = turn.id();
    drop(turn);
    let owner = "idler".into();
    assert_eq!(joined.join(), Err(ExecutionError::Abandoned { id, owner }));
    at_rest(&lock);
}

#[test]
fn keyed_03_joining_the_own_task_is_refused_at_once() {
    let lock = Lock::new();
    let result = lock.execute_exclusive("ann", || match current(&lock, "ann").join() {
        Err(ExecutionError::Lock(LockError::Reentrant { .. })) => 1,
        other => panic!("{other:?}"),
    });
    assert_eq!(result, Ok(1));
    at_rest(&lock);

    // A task may join another task of the same key.
    let first = running(&lock, "ann", "first");
    let joined = current(&lock, "ann");
    assert_eq!(first.end(7), Ok(7));
    assert_eq!(
        lock.execute_exclusive("ann", || joined.join().unwrap()),
        Ok(7)
    );
}

#[test]
fn keyed_03_joining_has_limits_and_can_be_cancelled() {
    let (lock, clock) = timed();
    let task = running(&lock, "ann", "runner");
    let late = current(&lock, "ann");
    let token = CancelToken::new();
    let limited = plain().timeout(4 * MS).cancel_token(&token);
    let waiting = thread::spawn(move || late.request_result().options(limited).wait());
    until_waiting_with(&token, 1);
    clock.advance(3 * MS);
    assert!(!waiting.is_finished());
    clock.advance(MS);
    match waiting.join().unwrap() {
        Err(ExecutionError::Lock(LockError::Timeout(evidence))) => {
            assert_eq!((evidence.limit, evidence.position), (4 * MS, 1));
            assert_eq!(evidence.holder.owner_id.as_str(), "runner");
        }
        other => panic!("{other:?}"),
    }

    let given_up = current(&lock, "ann");
    let options = plain().cancel_token(&token);
    let waiting = thread::spawn(move || given_up.request_result().options(options).wait());
    until_waiting_with(&token, 1);
    token.cancel();
    let cancelled = waiting.join().unwrap();
    assert!(matches!(
        cancelled,
        Err(ExecutionError::Lock(LockError::Cancelled(_)))
    ));

    let eager = current(&lock, "ann").request_result().no_wait().wait();
    assert!(matches!(
        eager,
        Err(ExecutionError::Lock(LockError::WouldBlock { .. }))
    ));
    let in_time = current(&lock, "ann");
    drop(current(&lock, "ann"));
    assert_eq!(task.end(1), Ok(1));
    assert_eq!(in_time.request_result().no_wait().wait(), Ok(1));
    let stats = lock.stats();
    assert_eq!((stats.total_timeouts, stats.total_cancellations), (1, 1));
    at_rest(&lock);
}

#[test]
fn keyed_03_a_clone_that_panics_affects_only_its_join() {
    struct Fragile(&'static AtomicU32);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("first clone"),
                _ => Self(self.0),
            }
        }
    }
    static CLONES: AtomicU32 = AtomicU32::new(0);

    let lock: KeyedLock<u8, Fragile> = KeyedLock::new();
    let turn = lock.reserve(&1).unwrap();
    let [first, second] = [0; 2].map(|_| lock.current_execution(&1).unwrap());
    assert!(turn.execute(|| Fragile(&CLONES)).is_ok());
    let payload = catch_unwind(AssertUnwindSafe(|| first.join().is_ok())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"first clone"));
    assert!(second.join().is_ok());
    assert_eq!(lock.active_keys_count(), 0);
}
