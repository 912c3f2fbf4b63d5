//! The duration and the end of waits (LOCK 5-7, 16).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    DataStore,
    lock::{
        AcquireOptions, CancelToken, FifoLock, LockError, LockOptions, ReleaseOutcome,
        TimeoutEvidence,
    },
    time::ManualClock,
};

use crate::{is_revoked, patient, timed_store, timeout_of, until_waiting};

#[test]
fn lock_05_a_lock_without_a_store_has_the_same_settings() {
    let clock = ManualClock::new();
    let options = LockOptions::new()
        .timeout(None)
        .queue_bound(1)
        .hold_limit(Duration::from_millis(5))
        .clock(clock.clock());
    let lock = FifoLock::with_options(options);
    let held = lock.acquire_lock("a").unwrap();
    assert!(matches!(
        lock.try_lock("b"),
        Err(LockError::WouldBlock { .. })
    ));
    let waiter = thread::spawn({
        let lock = lock.clone();
        move || lock.acquire_lock("b").unwrap()
    });
    while lock.queue_length() == 0 {
        thread::yield_now();
    }
    let full = lock.acquire_lock("c").unwrap_err();
    assert!(
        matches!(full, LockError::QueueFull { bound: 1, .. }),
        "{full}"
    );
    // The hold limit passes, and the waiter is granted.
    clock.advance(Duration::from_millis(6));
    let next = waiter.join().unwrap();
    assert!(is_revoked(held, lock.release_lock(held)));
    lock.release_lock(next).unwrap();

    let impatient = FifoLock::with_options(LockOptions::new().timeout(Duration::ZERO));
    let guard = impatient.acquire_lock("a").unwrap();
    let refused = impatient.acquire_lock("b").unwrap_err();
    assert!(matches!(refused, LockError::WouldBlock { .. }), "{refused}");
    impatient.set_lock_timeout(Duration::from_millis(1));
    let late = impatient.acquire_lock("b").unwrap_err();
    assert!(matches!(late, LockError::Timeout(_)), "{late}");
    impatient.release_lock(guard).unwrap();
}

#[test]
fn lock_05_a_wait_of_100_ms_ends_in_a_timeout_and_never_before() {
    let store = DataStore::new();
    store.set_lock_timeout(Duration::from_millis(100));
    let _held = store
        .request("owner-1")
        .options(AcquireOptions::new().unbound())
        .wait()
        .unwrap();
    let asked = Instant::now();
    let error = store.lock("owner-2").unwrap_err();
    assert!(asked.elapsed() >= Duration::from_millis(100));
    assert!(
        error
            .to_string()
            .starts_with("Lock acquisition timeout after 100ms for owner owner-2"),
        "{error}"
    );
    assert_eq!(store.lock_stats().total_timeouts, 1);
    assert_eq!(store.queue_length(), 0);
}

#[test]
fn lock_05_a_limit_is_not_over_one_nanosecond_early() {
    let (store, clock) = timed_store();
    let _held = store.lock("holder").unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| store.lock("waiter"));
        until_waiting(&store, 1);
        clock.advance(Duration::from_secs(5) - Duration::from_nanos(1));
        assert_eq!(store.queue_length(), 1, "it still waits");
        clock.advance(Duration::from_nanos(1));
        let evidence = timeout_of(waiter.join().unwrap());
        assert_eq!(evidence.waited, Duration::from_secs(5));
    });
}

#[test]
fn lock_05_the_error_names_the_holder_its_hold_and_the_requests_ahead() {
    let (store, clock) = timed_store();
    let options = AcquireOptions::new().label("import");
    let (request, line) = (store.request("ann").options(options), line!());
    let held = request.wait().unwrap();
    clock.advance(Duration::from_millis(40));
    thread::scope(|scope| {
        let ahead: Vec<_> = ["ben", "cem"]
            .into_iter()
            .enumerate()
            .map(|(nth, owner)| {
                let store = &store;
                let waiter = scope.spawn(move || store.request(owner).options(patient()).wait());
                until_waiting(store, nth + 1);
                waiter
            })
            .collect();
        let limit = Duration::from_millis(100);
        let options = AcquireOptions::new().timeout(limit);
        let last = scope.spawn(|| store.request("dora").options(options).wait());
        until_waiting(&store, 3);
        clock.advance(limit);

        let evidence = timeout_of(last.join().unwrap());
        assert_eq!(evidence.owner.as_str(), "dora");
        assert_eq!((evidence.limit, evidence.waited), (limit, limit));
        assert_eq!(evidence.position, 3);
        assert_eq!(evidence.holder.lock_id, held.id());
        assert_eq!(evidence.holder.owner_id.as_str(), "ann");
        assert_eq!(evidence.holder.held_for, Duration::from_millis(140));
        assert_eq!(evidence.holder.label.as_deref(), Some("import"));
        let call_site = &evidence.holder.call_site;
        assert_eq!((call_site.file.as_str(), call_site.line), (file!(), line));
        let names: Vec<_> = evidence
            .ahead
            .iter()
            .map(|entry| entry.owner_id.as_str())
            .collect();
        assert_eq!(names, ["ben", "cem"]);
        let ids: Vec<_> = evidence.ahead.iter().map(|entry| entry.lock_id).collect();
        assert_eq!(
            evidence.to_string(),
            format!(
                "Lock acquisition timeout after 100ms for owner dora: queue position 3 behind \
                 {} of ann (import) from {call_site}, held for 140ms; ahead: {} of ben, {} of cem",
                held.id(),
                ids[0],
                ids[1]
            )
        );
        drop(held);
        for waiter in ahead {
            drop(waiter.join().unwrap().unwrap());
        }
    });
    assert_eq!(store.lock_stats().total_timeouts, 1);
}

#[test]
fn lock_06_released_in_time_the_waiter_gets_it() {
    let (store, clock) = timed_store();
    let held = store.acquire_lock("holder").unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| store.lock("waiter").map(|guard| guard.id()));
        until_waiting(&store, 1);
        clock.advance(Duration::from_millis(4_999));
        assert_eq!(store.release_lock(held), Ok(ReleaseOutcome::HandedOver));
        // Granted now, so a timeout before the waiter wakes changes nothing.
        clock.advance(Duration::from_secs(60));
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(store.lock_stats().total_timeouts, 0);
}

/// One thread holds, and releases as soon as the other is in the queue, whose timeout passes at
/// about the same moment. Either may win: there is one outcome, and the statistics agree with the
/// outcomes. In one of sixteen rounds the holder waits for the expiry, and in another the timeout
/// is long, so neither side always wins.
#[test]
fn lock_06_a_million_races_of_grant_and_expiry_leak_nothing() {
    // A debug build runs a part of them; `.ci/run races` runs them all.
    let rounds: u64 = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    let store = DataStore::new();
    // Odd during the waiter's turn: 2n + 1 when round n is held, 2n + 2 when its request has ended.
    let turn = AtomicU64::new(0);
    let until = |reached: &dyn Fn() -> bool| {
        while !reached() {
            thread::yield_now();
        }
    };
    let (mut granted, mut expired) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                let held = store.request("holder").options(patient()).wait().unwrap();
                turn.store(2 * round + 1, Ordering::SeqCst);
                let ended = || turn.load(Ordering::SeqCst) == 2 * round + 2;
                match round % 16 {
                    0 => until(&ended),
                    _ => until(&|| ended() || store.queue_length() == 1),
                }
                drop(held);
                until(&ended);
            }
        });
        for round in 0..rounds {
            until(&|| turn.load(Ordering::SeqCst) == 2 * round + 1);
            let limit = match round % 16 {
                1 => Duration::from_secs(600),
                _ => Duration::from_nanos(1 + round * 37 % 1500),
            };
            match store.request("waiter").timeout(limit).wait() {
                Ok(guard) => {
                    assert_eq!(store.current_lock().unwrap().lock_id, guard.id());
                    granted += 1;
                }
                Err(LockError::Timeout(evidence)) => {
                    assert!(evidence.waited >= limit);
                    expired += 1;
                }
                Err(other) => panic!("{other}"),
            }
            turn.store(2 * round + 2, Ordering::SeqCst);
        }
    });
    assert!(granted >= rounds / 16 && expired >= rounds / 16);
    println!("{granted} granted, {expired} expired");
    let stats = store.lock_stats();
    let grants = rounds + granted;
    assert_eq!(
        (stats.total_acquisitions, stats.total_releases),
        (grants, grants)
    );
    assert_eq!(stats.total_timeouts, expired);
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!((stats.wait.count, stats.hold.count), (grants, grants));
}

#[test]
fn lock_07_leaving_the_middle_of_the_queue_disturbs_no_other_request() {
    let (store, clock) = timed_store();
    let held = store.lock("holder").unwrap();
    let token = CancelToken::new();
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let mut waiters = Vec::new();
        for nth in 0..9 {
            let options = match nth % 3 {
                0 => patient(),
                1 => patient().cancel_token(&token),
                _ => AcquireOptions::new().timeout(Duration::from_millis(10)),
            };
            let (store, order) = (&store, &order);
            waiters.push(scope.spawn(move || {
                let guard = store.request(format!("w{nth}")).options(options).wait();
                if guard.is_ok() {
                    order.lock().unwrap().push(nth);
                }
                guard.err()
            }));
            until_waiting(store, nth + 1);
        }
        token.cancel();
        until_waiting(&store, 6);
        clock.advance(Duration::from_millis(10));
        until_waiting(&store, 3);
        let left: Vec<_> = store
            .queue_info()
            .iter()
            .map(|entry| entry.owner_id.to_string())
            .collect();
        assert_eq!(left, ["w0", "w3", "w6"]);
        drop(held);
        for (nth, waiter) in waiters.into_iter().enumerate() {
            match (nth % 3, waiter.join().unwrap()) {
                (0, None) => {}
                (1, Some(LockError::Cancelled(evidence))) => {
                    assert_eq!(evidence.owner.as_str(), format!("w{nth}"));
                    assert!(evidence.queued.is_some());
                }
                (2, Some(LockError::Timeout(_))) => {}
                (_, other) => panic!("w{nth}: {other:?}"),
            }
        }
    });
    assert_eq!(*order.lock().unwrap(), [0, 3, 6]);
    let stats = store.lock_stats();
    assert_eq!((stats.total_cancellations, stats.total_timeouts), (3, 3));
}

#[test]
fn lock_07_ten_thousand_cancels_leave_no_entry() {
    let store = DataStore::new();
    let held = store.lock("holder").unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1250 {
                    let token = CancelToken::new();
                    let canceller = token.clone();
                    let (go, gone) = mpsc::channel();
                    thread::scope(|inner| {
                        inner.spawn(move || {
                            gone.recv().unwrap();
                            canceller.cancel();
                        });
                        go.send(()).unwrap();
                        let result = store
                            .request("w")
                            .options(patient().cancel_token(&token))
                            .wait();
                        assert!(matches!(result, Err(LockError::Cancelled(_))), "{result:?}");
                    });
                    assert!(format!("{token:?}").contains("waiting: 0"), "{token:?}");
                }
            });
        }
    });
    let stats = store.lock_stats();
    assert_eq!(stats.total_cancellations, 10_000);
    assert_eq!(stats.queue_length, 0);
    drop(held);
    assert!(!store.is_locked());
}

#[test]
fn lock_07_a_cancelled_token_refuses_even_a_free_lock() {
    let store = DataStore::new();
    let token = CancelToken::new();
    token.cancel();
    let error = store
        .request("w")
        .options(patient().cancel_token(&token))
        .wait()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "lock acquisition cancelled for owner w before it joined the queue"
    );
    assert_eq!(store.lock_stats().total_cancellations, 1);
    assert!(!store.is_locked());
}

#[test]
fn lock_16_a_timeout_applies_to_requests_made_after_it_was_set() {
    let (store, clock) = timed_store();
    let held = store.acquire_lock("holder").unwrap();
    thread::scope(|scope| {
        let before = scope.spawn(|| store.lock("before"));
        until_waiting(&store, 1);
        store.set_lock_timeout(Duration::from_millis(10));
        let after = scope.spawn(|| store.lock("after"));
        until_waiting(&store, 2);
        clock.advance(Duration::from_millis(10));
        let evidence = timeout_of(after.join().unwrap());
        assert_eq!(evidence.limit, Duration::from_millis(10));
        assert_eq!(store.queue_length(), 1, "the first keeps its five seconds");

        store.set_lock_timeout(Duration::ZERO);
        let eager = scope.spawn(|| store.lock("eager")).join().unwrap();
        assert!(
            matches!(eager, Err(LockError::WouldBlock { .. })),
            "zero means try"
        );

        store.set_lock_timeout(None);
        let patient = scope.spawn(|| store.lock("patient").map(drop));
        until_waiting(&store, 2);
        clock.advance(Duration::from_secs(4));
        assert_eq!(store.queue_length(), 2);
        store.release_lock(held).unwrap();
        drop(before.join().unwrap().unwrap());
        patient.join().unwrap().unwrap();
    });
}

#[test]
fn lock_16_no_limit_outlasts_a_century() {
    let (store, clock) = timed_store();
    store.set_lock_timeout(None);
    let held = store.acquire_lock("holder").unwrap();
    thread::scope(|scope| {
        let patient = scope.spawn(|| store.lock("patient").map(drop));
        until_waiting(&store, 1);
        clock.advance(Duration::from_secs(100 * 365 * 24 * 3600));
        assert_eq!(store.queue_length(), 1);
        store.release_lock(held).unwrap();
        patient.join().unwrap().unwrap();
    });
    // A timeout beyond the range of the clock is no timeout, not a panic.
    let options = AcquireOptions::new().timeout(Duration::MAX);
    drop(store.request("x").options(options).wait().unwrap());
}

#[test]
fn lock_07_a_token_keeps_no_request_that_ended() {
    let (store, clock) = timed_store();
    let token = CancelToken::new();
    let cancellable = || AcquireOptions::new().cancel_token(&token);
    let held = store.acquire_lock("holder").unwrap();
    thread::scope(|scope| {
        let granted = scope.spawn(|| {
            store
                .request("granted")
                .options(cancellable())
                .wait()
                .map(drop)
        });
        until_waiting(&store, 1);
        store.release_lock(held).unwrap();
        granted.join().unwrap().unwrap();
        assert!(format!("{token:?}").contains("waiting: 0"));

        let held = store.acquire_lock("holder").unwrap();
        let timed = scope.spawn(|| store.request("timed").options(cancellable()).wait());
        until_waiting(&store, 1);
        clock.advance(Duration::from_secs(5));
        timeout_of(timed.join().unwrap());
        assert!(format!("{token:?}").contains("waiting: 0"));
        store.release_lock(held).unwrap();
    });
}

#[test]
fn lock_05_the_error_lists_the_head_of_a_long_queue_and_counts_the_rest() {
    let (store, clock) = timed_store();
    let held = store.lock("holder").unwrap();
    thread::scope(|scope| {
        for nth in 0..10 {
            let store = &store;
            scope.spawn(move || {
                drop(
                    store
                        .request(format!("w{nth}"))
                        .options(patient())
                        .wait()
                        .unwrap(),
                )
            });
            until_waiting(store, nth + 1);
        }
        let last = scope.spawn(|| store.lock("last"));
        until_waiting(&store, 11);
        clock.advance(Duration::from_secs(5));
        let evidence = timeout_of(last.join().unwrap());
        assert_eq!(
            (evidence.position, evidence.ahead.len()),
            (11, TimeoutEvidence::AHEAD)
        );
        let text = evidence.to_string();
        assert!(text.ends_with("of w7 and 2 more"), "{text}");
        drop(held);
    });
}
