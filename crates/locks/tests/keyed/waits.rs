//! KEYED 1: waits that end without a grant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use doclock_locks::{
    AcquireOptions, CancelToken, LockError,
    keyed::{KeyedLock, KeyedOptions},
};

use crate::*;

#[test]
fn keyed_01_a_timeout_is_never_early_and_lists_the_requests_ahead() {
    let (lock, clock) = timed();
    let holder = running(&lock, "ann", "holder");
    clock.advance(7 * MS);
    let ahead = queued(&lock, "ann", "ahead", plain().label("report"), || 1);
    clock.advance(3 * MS);
    let limited = plain().timeout(100 * MS).label("autosave");
    let waiter = queued(&lock, "ann", "waiter", limited, || 2);
    let behind = queued(&lock, "ann", "behind", plain(), || 3);
    clock.advance(99 * MS);
    assert!(!waiter.is_finished());
    assert_eq!(lock.queue_length("ann"), 3);
    clock.advance(MS);
    let evidence = timeout_of(waiter.join().unwrap());
    assert_eq!((evidence.owner.as_str(), evidence.position), ("waiter", 2));
    assert_eq!((evidence.limit, evidence.waited), (100 * MS, 100 * MS));
    assert_eq!(evidence.holder.owner_id.as_str(), "holder");
    assert_eq!(evidence.holder.held_for, 110 * MS);
    let [first] = &evidence.ahead[..] else {
        panic!("{evidence}")
    };
    assert_eq!((first.owner_id.as_str(), first.position), ("ahead", 1));
    assert_eq!(first.wait_time, 103 * MS);
    assert!(
        evidence
            .to_string()
            .contains("queue position 2 behind lock-")
    );

    // Other requests are not affected.
    assert_eq!(lock.queue_length("ann"), 2);
    assert_eq!(holder.end(0), Ok(0));
    assert_eq!(ahead.join().unwrap(), Ok(1));
    assert_eq!(behind.join().unwrap(), Ok(3));
    at_rest(&lock);
    let stats = lock.stats();
    assert_eq!((stats.total_timeouts, stats.total_acquisitions), (1, 3));
    assert_eq!((stats.hold.max, stats.wait.max), (110 * MS, 103 * MS));
}

#[test]
fn keyed_01_the_limit_of_the_lock_counts_unless_a_request_has_its_own() {
    let clock = ManualClock::new();
    let options = KeyedOptions::new().clock(clock.clock()).timeout(5 * MS);
    let lock = Lock::with_options(options);
    let holder = running(&lock, "ann", "holder");
    let limited = queued(&lock, "ann", "limited", plain(), || 1);
    let patient = queued(&lock, "ann", "patient", plain().no_timeout(), || 2);
    clock.advance(5 * MS);
    assert_eq!(timeout_of(limited.join().unwrap()).limit, 5 * MS);
    assert_eq!(lock.queue_length("ann"), 1);
    assert_eq!(holder.end(0), Ok(0));
    assert_eq!(patient.join().unwrap(), Ok(2));
    at_rest(&lock);
}

/// Timeouts that race with the grant: a grant counts, and nothing leaks either way.
#[test]
fn keyed_01_a_grant_that_races_the_limit_wins() {
    let rounds = if cfg!(debug_assertions) {
        2_000
    } else {
        100_000
    };
    let lock: KeyedLock<u8> = KeyedLock::new();
    let done = AtomicU64::new(0);
    let errors = AtomicU64::new(0);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for round in 0..rounds {
                    let limit = Duration::from_nanos(round % 3_000);
                    let options = plain().timeout(limit);
                    let task = || {
                        done.fetch_add(1, Ordering::Relaxed);
                    };
                    let turn = lock.request(&1, "racer").options(options).wait();
                    match turn.and_then(|turn| turn.execute(task)) {
                        Ok(()) => {}
                        Err(LockError::Timeout(_) | LockError::WouldBlock { .. }) => {
                            errors.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let done = done.into_inner();
    assert_eq!(done + errors.into_inner(), 3 * rounds);
    let stats = lock.stats();
    assert_eq!(
        (stats.total_acquisitions, stats.total_releases),
        (done, done)
    );
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
}

#[test]
fn keyed_01_cancelling_in_mid_queue_disturbs_no_other_request() {
    let lock = Lock::new();
    let notes = Notes::default();
    let holder = running(&lock, "ann", "holder");
    let token = CancelToken::new();
    let waiting: Vec<_> = (0..30)
        .map(|nth| {
            let options = match nth % 3 {
                1 => plain().cancel_token(&token),
                _ => plain(),
            };
            let notes = notes.clone();
            queued(&lock, "ann", "waiter", options, move || notes.note(nth))
        })
        .collect();
    until_waiting_with(&token, 10);
    token.cancel();
    assert_eq!(lock.queue_length("ann"), 20);
    assert_eq!(holder.end(0), Ok(0));
    for (nth, thread) in waiting.into_iter().enumerate() {
        match thread.join().unwrap() {
            Ok(_) => assert_ne!(nth % 3, 1),
            Err(LockError::Cancelled(evidence)) => {
                assert_eq!((nth % 3, evidence.owner.as_str()), (1, "waiter"));
                assert!(evidence.queued.is_some());
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        notes
            .all()
            .into_iter()
            .eq((0..30).filter(|nth| nth % 3 != 1))
    );
    until_waiting_with(&token, 0);
    at_rest(&lock);

    // A cancelled token fails a request at once.
    let options = plain().cancel_token(&token);
    let refused = execute(&lock, "bob", "late", options, || 1);
    assert!(matches!(refused, Err(LockError::Cancelled(evidence)) if evidence.queued.is_none()));
    assert_eq!(lock.stats().total_cancellations, 11);
    at_rest(&lock);
}

#[test]
fn keyed_01_no_wait_fails_whenever_the_key_has_a_request() {
    let lock = Lock::new();
    let eager = || execute(&lock, "ann", "eager", plain().no_wait(), || 1);
    assert_eq!(eager(), Ok(1));
    let holder = running(&lock, "ann", "holder");
    match eager() {
        Err(LockError::WouldBlock {
            owner,
            holder,
            waiting,
        }) => {
            assert_eq!(
                (owner.as_str(), holder.owner_id.as_str()),
                ("eager", "holder")
            );
            assert_eq!(waiting, 0);
        }
        other => panic!("{other:?}"),
    }
    let reserved = lock
        .request("ann", "eager")
        .options(plain().no_wait())
        .reserve();
    assert!(matches!(reserved, Err(LockError::WouldBlock { .. })));
    assert_eq!(
        execute(&lock, "bob", "eager", plain().no_wait(), || 2),
        Ok(2)
    );
    assert_eq!(holder.end(0), Ok(0));
    at_rest(&lock);
}

#[test]
fn keyed_01_a_full_queue_rejects_at_once() {
    let lock = Lock::with_options(KeyedOptions::new().queue_bound(2));
    let holder = running(&lock, "ann", "holder");
    let waiting: Vec<_> = (0..2)
        .map(|nth| queued(&lock, "ann", "waiter", plain(), move || nth))
        .collect();
    for (options, allowed) in [
        (plain(), 2),
        (plain().queue_bound(1), 1),
        (plain().queue_bound(9), 2),
    ] {
        match execute(&lock, "ann", "excess", options, || 9) {
            Err(LockError::QueueFull { waiting, bound, .. }) => {
                assert_eq!((waiting, bound), (2, allowed));
            }
            other => panic!("{other:?}"),
        }
    }
    // Each key has its own queue.
    assert_eq!(lock.execute_exclusive("bob", || 1), Ok(1));
    assert_eq!(holder.end(0), Ok(0));
    for (nth, thread) in (0..).zip(waiting) {
        assert_eq!(thread.join().unwrap(), Ok(nth));
    }
    assert_eq!(lock.stats().total_rejections, 3);
    at_rest(&lock);
}

/// An idle key and a busy one are granted by different steps.
#[test]
fn keyed_01_a_thread_that_has_waited_for_a_key_cannot_wait_for_itself() {
    for busy in [false, true] {
        let lock = Lock::new();
        let holder = busy.then(|| lock.reserve("ann").unwrap());
        let turn = thread::scope(|threads| {
            let waits = || {
                let options = plain().unbound();
                let turn = lock
                    .request("ann", "first")
                    .options(options)
                    .wait()
                    .unwrap();
                let again = lock.request("ann", "again").timeout(100 * MS).wait();
                assert!(
                    matches!(again, Err(LockError::Reentrant { .. })),
                    "{again:?}"
                );
                turn
            };
            let waiting = threads.spawn(waits);
            if let Some(holder) = holder {
                until(|| lock.queue_length("ann") == 1);
                drop(holder);
            }
            waiting.join().unwrap()
        });
        assert_eq!(turn.execute(|| 1), Ok(1));
        assert_eq!(lock.stats().total_refusals, 1);
        at_rest(&lock);
    }
}

#[test]
fn keyed_01_a_task_that_requests_its_own_key_is_refused_at_once() {
    let lock = Lock::new();
    let outer = execute(&lock, "ann", "outer", plain().label("transfer"), || {
        // Even without a timeout, and even if it claims to be unbound.
        let inner = plain().no_timeout().unbound();
        match execute(&lock, "ann", "inner", inner, || 0) {
            Err(LockError::Reentrant { owner, holder }) => {
                assert_eq!(
                    (owner.as_str(), holder.owner_id.as_str()),
                    ("inner", "outer")
                );
                assert_eq!(holder.label.as_deref(), Some("transfer"));
                assert_eq!(holder.call_site.file, file!());
            }
            other => panic!("{other:?}"),
        }
        // Another key has another queue.
        lock.execute_exclusive("bob", || 2).unwrap()
    });
    assert_eq!(outer, Ok(2));
    assert_eq!(lock.stats().total_refusals, 1);
    at_rest(&lock);
}

#[test]
fn keyed_01_the_timeout_of_a_reservation_starts_when_it_is_made() {
    let (lock, clock) = timed();
    let holder = running(&lock, "ann", "holder");
    let limited = || plain().timeout(10 * MS);
    let late = lock
        .request("ann", "late")
        .options(limited())
        .reserve()
        .unwrap();
    let in_time = lock
        .request("ann", "in time")
        .options(limited())
        .reserve()
        .unwrap();
    clock.advance(10 * MS);
    // Its timeout passes before it begins to wait.
    let evidence = timeout_of(late.execute(|| 1));
    assert_eq!((evidence.position, evidence.waited), (1, 10 * MS));
    // A granted turn stays granted.
    assert_eq!(holder.end(0), Ok(0));
    clock.advance(10 * MS);
    assert_eq!(in_time.execute(|| 2), Ok(2));
    at_rest(&lock);
}

#[test]
fn keyed_01_a_reservation_can_be_cancelled_until_its_grant() {
    let lock = Lock::new();
    let token = CancelToken::new();
    let options = || AcquireOptions::new().cancel_token(&token);
    let come = lock
        .request("ann", "come")
        .options(options())
        .reserve()
        .unwrap();
    let waits = lock
        .request("ann", "waits")
        .options(options())
        .reserve()
        .unwrap();
    token.cancel();
    assert!(matches!(waits.execute(|| 1), Err(LockError::Cancelled(_))));
    assert_eq!(come.execute(|| 2), Ok(2));
    at_rest(&lock);
}

#[test]
fn keyed_01_priorities_do_not_change_the_order() {
    use doclock_locks::Priority;
    let lock = Lock::new();
    let notes = Notes::default();
    let holder = running(&lock, "ann", "holder");
    let waiting: Vec<_> = [
        (0, Priority::Low),
        (1, Priority::High),
        (2, Priority::Normal),
    ]
    .map(|(nth, priority)| {
        let notes = notes.clone();
        let options = plain().priority(priority);
        queued(&lock, "ann", "waiter", options, move || notes.note(nth))
    })
    .into();
    holder.end(0).unwrap();
    waiting
        .into_iter()
        .for_each(|thread| drop(thread.join().unwrap()));
    assert_eq!(notes.all(), [0, 1, 2]);
}

#[test]
fn keyed_01_dropping_the_lock_strands_no_waiter() {
    let lock = Lock::new();
    let gate = Arc::new(Barrier::new(2));
    let holder = {
        let gate = Arc::clone(&gate);
        let begun = Arc::new(Barrier::new(2));
        let (begins, lock) = (Arc::clone(&begun), lock.clone());
        let holder = thread::spawn(move || {
            lock.execute_exclusive("ann", || {
                begins.wait();
                gate.wait();
                1
            })
        });
        begun.wait();
        holder
    };
    let waiters: Vec<_> = (0..3)
        .map(|nth| queued(&lock, "ann", "waiter", plain(), move || nth))
        .collect();
    let turn = lock.reserve("ann").unwrap();
    let joined = lock.clone();
    drop(lock);
    drop(joined);
    gate.wait();
    assert_eq!(holder.join().unwrap(), Ok(1));
    for (nth, waiter) in (0..).zip(waiters) {
        assert_eq!(waiter.join().unwrap(), Ok(nth));
    }
    assert_eq!(turn.execute(|| 9), Ok(9));
}

/// A late cancellation finds the same key in use again, with another wait.
#[test]
fn keyed_01_a_cancellation_that_comes_late_ends_no_other_wait() {
    let lock = Lock::new();
    let late = LateCancel::new();
    let first = running(&lock, "ann", "first");
    let (ended, goes_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let waiter = {
        let (ended, goes_on) = (Arc::clone(&ended), Arc::clone(&goes_on));
        let (lock, options) = (lock.clone(), plain().cancel_token(late.token()));
        thread::spawn(move || {
            execute(&lock, "ann", "waiter", options, || 1).unwrap();
            ended.wait();
            goes_on.wait();
            lock.execute_exclusive("ann", || 2)
        })
    };
    let canceller = late.begin();
    first.end(0).unwrap();
    ended.wait();
    assert_eq!(lock.active_keys_count(), 0);
    let second = running(&lock, "ann", "second");
    goes_on.wait();
    while lock.queue_length("ann") != 1 {
        thread::yield_now();
    }
    late.finish(canceller);
    assert_eq!(lock.queue_length("ann"), 1, "its second wait has no token");
    second.end(0).unwrap();
    assert_eq!(waiter.join().unwrap(), Ok(2));
}
