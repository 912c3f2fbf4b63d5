//! The promises of the global lock, by number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    AcquireOptions, CancelToken, Clock, DataStore, Editor, FifoLock, LockError, LockGuard, LockId,
    LockInfo, LockStats, ManualClock, NodeSpec, QueueEntry, ReleaseError, Released, Snapshot,
    StoreOptions, Subscription, TimeoutEvidence, Transaction, TransactionManager, View, dsl,
};

/// A store on a clock that the test moves.
fn timed_store() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    (store, clock)
}

/// Returns once exactly this many requests wait.
fn until_waiting(store: &DataStore, count: usize) {
    while store.queue_length() != count {
        thread::yield_now();
    }
}

fn patient() -> AcquireOptions {
    AcquireOptions::new().no_wait_limit()
}

fn timeout_of(result: Result<LockGuard, LockError>) -> TimeoutEvidence {
    match result {
        Err(LockError::Timeout(evidence)) => *evidence,
        other => panic!("expected a timeout, found {other:?}"),
    }
}

#[test]
fn lock_01_acquire_reports_owner_and_id_and_release_unlocks() {
    let store = DataStore::new();
    assert!(!store.is_locked());
    assert_eq!(store.current_lock(), None);

    let id = store.acquire_lock("test-owner").unwrap();
    assert!(store.is_locked());
    let info = store.current_lock().unwrap();
    assert_eq!(info.lock_id, id);
    assert_eq!(info.owner_id.as_str(), "test-owner");

    assert_eq!(store.release_lock(id), Ok(Released::Freed));
    assert!(!store.is_locked());
    assert_eq!(store.current_lock(), None);
}

#[test]
fn lock_01_ids_have_their_form_and_never_repeat() {
    let store = DataStore::new();
    let other = DataStore::new();
    let mut seen = std::collections::HashSet::new();
    for turn in 0..10_000 {
        let store = if turn % 2 == 0 { &store } else { &other };
        let id = store.acquire_lock("x").unwrap();
        let text = id.to_string();
        let mut parts = text.splitn(3, '-');
        assert_eq!(parts.next(), Some("lock"));
        assert!(parts.next().unwrap().bytes().all(|b| b.is_ascii_digit()));
        let suffix = parts.next().unwrap();
        assert!(!suffix.is_empty());
        assert!(
            suffix
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        );
        assert_eq!(text.parse::<LockId>(), Ok(id));
        assert!(seen.insert(text), "an id came twice");
        store.release_lock(id).unwrap();
    }
}

#[test]
fn lock_02_a_wrong_id_names_both_and_releases_nothing() {
    let store = DataStore::new();
    let stale = store.acquire_lock("a").unwrap();
    store.release_lock(stale).unwrap();
    let held = store.acquire_lock("b").unwrap();

    let error = store.release_lock(stale).unwrap_err();
    let (expected, got) = (held, stale);
    assert_eq!(error, ReleaseError::Mismatch { expected, got });
    assert_eq!(
        error.to_string(),
        format!("Lock ID mismatch: expected {held}, got {stale}")
    );
    assert_eq!(store.current_lock().unwrap().lock_id, held);

    // The same number, given by another store.
    let elsewhere = DataStore::new();
    let _ = elsewhere
        .acquire_lock("c")
        .map(|id| elsewhere.release_lock(id));
    let foreign = elsewhere.acquire_lock("c").unwrap();
    assert_eq!(foreign.number(), held.number());
    assert!(store.release_lock(foreign).is_err());
    assert!(store.is_locked());
}

#[test]
fn lock_02_releasing_what_nobody_holds_is_a_reported_no_op() {
    let store = DataStore::new();
    let id = store.acquire_lock("a").unwrap();
    assert_eq!(store.release_lock(id), Ok(Released::Freed));
    assert_eq!(store.release_lock(id), Ok(Released::NothingHeld));
    assert_eq!(store.lock_stats().total_releases, 1);
}

#[test]
fn lock_03_no_release_can_free_a_lock_of_somebody_else() {
    let store = DataStore::new();
    let first = store.lock("a").unwrap();
    let first_id = first.id();
    // The guard's lock is released by id behind its back, and somebody else acquires.
    store.release_lock(first_id).unwrap();
    let second = store.acquire_lock("b").unwrap();

    drop(first);
    assert_eq!(store.current_lock().unwrap().lock_id, second);
    assert!(store.release_lock(first_id).is_err());
    assert_eq!(store.current_lock().unwrap().lock_id, second);
}

/// Starts waiters one after the other, each when the one before stands in the line, and returns the order of
/// their grants.
fn grant_order(kinds: impl Iterator<Item = Kind>) -> (Vec<usize>, usize) {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = store.acquire_lock("holder").unwrap();
    let waiters: Vec<_> = kinds
        .enumerate()
        .map(|(nth, kind)| {
            let (theirs, order) = (store.clone(), Arc::clone(&order));
            let waiter = thread::spawn(move || {
                let note = move || order.lock().unwrap().push(nth);
                kind.run(&theirs, note);
            });
            until_waiting(&store, nth + 1);
            waiter
        })
        .collect();
    let count = waiters.len();
    assert_eq!(store.release_lock(holder), Ok(Released::HandedOver));
    for waiter in waiters {
        waiter.join().unwrap();
    }
    let order = std::mem::take(&mut *order.lock().unwrap());
    (order, count)
}

#[derive(Clone, Copy)]
enum Kind {
    ById,
    Guard,
    Timed,
    Cancellable,
    Transaction,
    Operations,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::ById,
        Self::Guard,
        Self::Timed,
        Self::Cancellable,
        Self::Transaction,
        Self::Operations,
    ];

    fn run(self, store: &DataStore, note: impl Fn() + Send + Sync + 'static) {
        match self {
            Self::ById => {
                let id = store.acquire_lock("w").unwrap();
                note();
                store.release_lock(id).unwrap();
            }
            Self::Guard => {
                let _guard = store.lock("w").unwrap();
                note();
            }
            Self::Timed => {
                let options = AcquireOptions::new().wait_limit(Duration::from_secs(600));
                let _guard = store.lock_with("w", options).unwrap();
                note();
            }
            Self::Cancellable => {
                let token = CancelToken::new();
                let options = patient().cancel_token(&token);
                let _guard = store.lock_with("w", options).unwrap();
                note();
            }
            Self::Transaction => {
                let transaction = store.begin("w").unwrap();
                note();
                transaction.commit().unwrap();
            }
            Self::Operations => {
                let note = move |_: &mut Transaction| {
                    note();
                    Ok::<(), doclock::EditError>(())
                };
                let manager = TransactionManager::new(store.clone());
                manager.execute(dsl::op(note)).unwrap();
            }
        }
    }
}

#[test]
fn lock_04_five_waiters_are_granted_in_order() {
    let (order, count) = grant_order([Kind::Guard; 5].into_iter());
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_04_a_thousand_waiters_are_granted_in_order() {
    let (order, count) = grant_order(std::iter::repeat_n(Kind::ById, 1000));
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_04_mixed_kinds_of_waiters_are_granted_in_order() {
    let (order, count) = grant_order(Kind::ALL.into_iter().cycle().take(60));
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

#[test]
fn lock_05_a_wait_of_100_ms_ends_in_a_timeout_and_never_before() {
    let store = DataStore::new();
    store.set_lock_timeout(Duration::from_millis(100));
    let _held = store
        .lock_with("owner-1", AcquireOptions::new().unbound())
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
fn lock_05_the_error_carries_holder_hold_place_and_who_is_ahead() {
    let (store, clock) = timed_store();
    let held = store
        .lock_with("ann", AcquireOptions::new().label("import"))
        .unwrap();
    clock.advance(Duration::from_millis(40));
    thread::scope(|scope| {
        let ahead: Vec<_> = ["ben", "cem"]
            .into_iter()
            .enumerate()
            .map(|(nth, owner)| {
                let store = &store;
                let waiter = scope.spawn(move || store.lock_with(owner, patient()));
                until_waiting(store, nth + 1);
                waiter
            })
            .collect();
        let limit = Duration::from_millis(100);
        let options = AcquireOptions::new().wait_limit(limit);
        let last = scope.spawn(|| store.lock_with("dora", options));
        until_waiting(&store, 3);
        clock.advance(limit);

        let evidence = timeout_of(last.join().unwrap());
        assert_eq!(evidence.owner.as_str(), "dora");
        assert_eq!((evidence.limit, evidence.waited), (limit, limit));
        assert_eq!(evidence.place, 3);
        assert_eq!(evidence.holder.lock_id, held.id());
        assert_eq!(evidence.holder.owner_id.as_str(), "ann");
        assert_eq!(evidence.holder.held_for, Duration::from_millis(140));
        assert_eq!(evidence.holder.label.as_deref(), Some("import"));
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
                "Lock acquisition timeout after 100ms for owner dora: place 3 in line behind \
                 {} of ann (import), held for 140ms; ahead: {} of ben, {} of cem",
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
        assert_eq!(store.release_lock(held), Ok(Released::HandedOver));
        // Granted now, so a limit that passes before the waiter wakes changes nothing.
        clock.advance(Duration::from_secs(60));
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(store.lock_stats().total_timeouts, 0);
}

/// Two threads hand the lock to and fro while the waiter's limit, a few hundred nanoseconds, passes at about the
/// moment of the release. Whichever wins, there is one outcome, and the counts agree with the outcomes.
#[test]
fn lock_06_a_million_races_of_grant_and_expiry_leak_nothing() {
    // A debug build runs a share of them; the release run in `.ci/run` runs them all.
    let races: u64 = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    let store = DataStore::new();
    let (granted, expired) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for owner in ["a", "b"] {
            let (store, granted, expired) = (&store, &granted, &expired);
            scope.spawn(move || {
                for race in 0..races / 2 {
                    let limit = Duration::from_nanos(200 + race % 1500);
                    match store.lock_with(owner, AcquireOptions::new().wait_limit(limit)) {
                        Ok(guard) => {
                            assert_eq!(store.current_lock().unwrap().lock_id, guard.id());
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LockError::Timeout(_)) => {
                            expired.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let stats = store.lock_stats();
    let (granted, expired) = (granted.into_inner(), expired.into_inner());
    assert!(
        granted > 0 && expired > 0,
        "one side always won: {granted} to {expired}"
    );
    assert_eq!(
        (stats.total_acquisitions, stats.total_releases),
        (granted, granted)
    );
    assert_eq!(stats.total_timeouts, expired);
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    assert_eq!(stats.wait.count, granted);
}

#[test]
fn lock_07_leaving_the_middle_of_the_line_disturbs_nobody() {
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
                _ => AcquireOptions::new().wait_limit(Duration::from_millis(10)),
            };
            let (store, order) = (&store, &order);
            waiters.push(scope.spawn(move || {
                let guard = store.lock_with(format!("w{nth}"), options);
                if guard.is_ok() {
                    order.lock().unwrap().push(nth);
                }
                guard.err()
            }));
            until_waiting(store, nth + 1);
        }
        token.cancel();
        assert_eq!(
            store.queue_length(),
            6,
            "cancelled requests are gone when `cancel` returns"
        );
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
                    assert!(evidence.stood.is_some());
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
                        let result = store.lock_with("w", patient().cancel_token(&token));
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
        .lock_with("w", patient().cancel_token(&token))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Lock acquisition cancelled for owner w before it joined the line"
    );
    assert_eq!(store.lock_stats().total_cancellations, 1);
    assert!(!store.is_locked());
}

#[test]
fn lock_08_the_queue_grows_and_shrinks_and_lists_who_waits() {
    let (store, clock) = timed_store();
    let held = store.acquire_lock("holder").unwrap();
    let (done, finish) = mpsc::channel::<()>();
    let finish = Mutex::new(finish);
    thread::scope(|scope| {
        let wait = |owner: &'static str| {
            let (store, finish) = (&store, &finish);
            move || {
                let guard = store.lock_with(owner, patient().label("edit")).unwrap();
                finish.lock().unwrap().recv().unwrap();
                guard.id()
            }
        };
        assert_eq!(store.queue_length(), 0);
        let ben = scope.spawn(wait("ben"));
        until_waiting(&store, 1);
        clock.advance(Duration::from_millis(30));
        let cem = scope.spawn(wait("cem"));
        until_waiting(&store, 2);
        clock.advance(Duration::from_millis(12));

        let queue = store.queue_info();
        let row = |entry: &QueueEntry| (entry.owner_id.to_string(), entry.wait_time, entry.place);
        assert_eq!(row(&queue[0]), ("ben".into(), Duration::from_millis(42), 1));
        assert_eq!(row(&queue[1]), ("cem".into(), Duration::from_millis(12), 2));
        assert!(queue[0].lock_id < queue[1].lock_id);
        assert_eq!(queue[0].label.as_deref(), Some("edit"));

        store.release_lock(held).unwrap();
        assert_eq!(store.queue_length(), 1);
        assert_eq!(store.current_lock().unwrap().lock_id, queue[0].lock_id);
        done.send(()).unwrap();
        assert_eq!(
            ben.join().unwrap(),
            queue[0].lock_id,
            "the id in the line is that of the grant"
        );
        until_waiting(&store, 0);
        done.send(()).unwrap();
        assert_eq!(cem.join().unwrap(), queue[1].lock_id);
    });
    assert_eq!(store.queue_length(), 0);
}

#[test]
fn lock_09_the_figures_are_true() {
    let (store, clock) = timed_store();
    // One hold of each of 1..=100 ms; the second request of each pair waits that long.
    thread::scope(|scope| {
        for ms in 1..=100 {
            let held = store.acquire_lock("a").unwrap();
            let waiter = scope.spawn(|| {
                let id = store.acquire_lock_with("b", patient()).unwrap();
                store.release_lock(id).unwrap();
            });
            until_waiting(&store, 1);
            clock.advance(Duration::from_millis(ms));
            store.release_lock(held).unwrap();
            waiter.join().unwrap();
        }
    });
    let stats = store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (200, 200));
    assert_eq!((stats.wait.count, stats.hold.count), (200, 200));
    // 5,050 ms over 200 requests, half of which did not wait, or hardly held.
    for summary in [stats.wait, stats.hold] {
        assert_eq!(summary.mean, Duration::from_micros(25_250));
        assert_eq!(summary.max, Duration::from_millis(100));
        assert_eq!(summary.p50, Duration::ZERO);
        let near = |found: Duration, ms: f64| (found.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.01;
        assert!(near(summary.p95, 90.0), "{:?}", summary.p95);
        assert!(near(summary.p99, 98.0), "{:?}", summary.p99);
    }
    assert_eq!(stats.average_wait_time, stats.wait.mean);
}

#[test]
fn lock_09_every_outcome_is_counted_once_under_its_name() {
    let (store, clock) = timed_store();
    let held = store.lock("holder").unwrap();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let timed = scope.spawn(|| store.lock("timed"));
        until_waiting(&store, 1);
        clock.advance(Duration::from_secs(5));
        assert!(matches!(timed.join().unwrap(), Err(LockError::Timeout(_))));
        let cancelled = scope.spawn(|| store.lock_with("c", patient().cancel_token(&token)));
        until_waiting(&store, 1);
        token.cancel();
        assert!(matches!(
            cancelled.join().unwrap(),
            Err(LockError::Cancelled(_))
        ));
        let rejected = scope.spawn(|| store.lock_with("r", AcquireOptions::new().queue_bound(0)));
        assert!(matches!(
            rejected.join().unwrap(),
            Err(LockError::QueueFull { .. })
        ));
    });
    assert!(matches!(
        store.lock("holder"),
        Err(LockError::Reentrant { .. })
    ));
    drop(held);
    let stats = store.lock_stats();
    let counts = |stats: &LockStats| {
        [
            stats.total_acquisitions,
            stats.total_releases,
            stats.total_timeouts,
            stats.total_cancellations,
            stats.total_rejections,
            stats.total_refusals,
            stats.total_revocations,
        ]
    };
    assert_eq!(counts(&stats), [1, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn lock_09_a_reset_in_mid_hold_leaves_finite_figures() {
    let (store, clock) = timed_store();
    let held = store.acquire_lock("a").unwrap();
    clock.advance(Duration::from_millis(7));
    store.reset_lock_stats();
    let stats = store.lock_stats();
    assert_eq!(
        (stats.total_acquisitions, stats.wait.count, stats.hold.count),
        (0, 0, 0)
    );
    assert_eq!(stats.wait.mean, Duration::ZERO);
    assert!(stats.is_locked, "the holder stays");

    clock.advance(Duration::from_millis(3));
    store.release_lock(held).unwrap();
    let stats = store.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (0, 1));
    assert_eq!(
        stats.hold.mean,
        Duration::from_millis(10),
        "the hold counts whole"
    );

    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["averageWaitTime"], 0.0);
    assert_eq!(json["hold"]["max"], 10.0);
    assert_eq!(json["currentLock"], serde_json::Value::Null);
}

#[test]
fn lock_11_a_panic_rolls_back_hands_on_and_reaches_the_submitter() {
    let store = DataStore::new();
    let barrier = Barrier::new(2);
    let went_on = thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut transaction = store.begin("panicking").unwrap();
            transaction
                .create(NodeSpec::new("paragraph").with_id("lost"))
                .unwrap();
            barrier.wait();
            until_waiting(&store, 1);
            panic!("in the midst of it");
        });
        barrier.wait();
        let next = scope.spawn(|| {
            let mut transaction = store.begin_as("next", patient()).unwrap();
            assert!(!transaction.contains(&"lost".into()));
            transaction
                .create(NodeSpec::new("paragraph").with_id("kept"))
                .unwrap();
            transaction.commit().unwrap();
        });
        let payload = panicking.join().unwrap_err();
        next.join().unwrap();
        payload.downcast_ref::<&str>().copied()
    });
    assert_eq!(went_on, Some("in the midst of it"));
    let snapshot = store.snapshot();
    assert_eq!((snapshot.version(), snapshot.len()), (1, 1));
    assert!(!store.is_locked());
    drop(store.lock("after").unwrap());
}

#[test]
fn lock_12_asking_again_on_the_holding_thread_is_refused_at_once() {
    let (store, _clock) = timed_store();
    let guard = store.lock("ann").unwrap();
    // The clock stands still: a wait would never end.
    for options in [
        AcquireOptions::new(),
        patient(),
        AcquireOptions::new().no_wait(),
    ] {
        match store.lock_with("ann again", options) {
            Err(LockError::Reentrant { owner, holder }) => {
                assert_eq!(owner.as_str(), "ann again");
                assert_eq!(holder.lock_id, guard.id());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        store.begin("ann"),
        Err(LockError::Reentrant { .. })
    ));
    drop(guard);

    let editor = Editor::new(store.clone(), "ann");
    let inner = store.clone();
    let nested = dsl::op(move |_: &mut Transaction| inner.lock("inner").map(drop));
    let error = dsl::transaction(&editor, nested).commit().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("requested again by its holding thread"),
        "{error}"
    );
    assert!(!store.is_locked());
}

#[test]
fn lock_12_an_unbound_grant_may_be_waited_for_on_its_own_thread() {
    let store = DataStore::new();
    let id = store
        .acquire_lock_with("front end", AcquireOptions::new().unbound())
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            until_waiting(&store, 1);
            store.release_lock(id).unwrap();
        });
        drop(store.lock_with("front end", patient()).unwrap());
    });
}

#[test]
fn lock_13_a_try_fails_whenever_somebody_holds_or_waits() {
    let store = DataStore::new();
    drop(store.try_lock("free").unwrap());
    let held = store.acquire_lock("holder").unwrap();
    let served = Mutex::new(Vec::new());
    let in_hand = AtomicBool::new(false);
    thread::scope(|scope| {
        let try_elsewhere = || {
            scope
                .spawn(|| store.try_lock("eager").map(drop))
                .join()
                .unwrap()
        };
        match try_elsewhere() {
            Err(LockError::WouldBlock {
                holder, waiting, ..
            }) => {
                assert_eq!((holder.lock_id, waiting), (held, 0));
            }
            other => panic!("{other:?}"),
        }
        // A try in every gap of a line that is being served: it never gets in between.
        let waiters: Vec<_> = (0..50)
            .map(|nth| {
                let (store, served, in_hand) = (&store, &served, &in_hand);
                let waiter = scope.spawn(move || {
                    let guard = store.lock_with("patient", patient()).unwrap();
                    assert!(!in_hand.swap(true, Ordering::SeqCst));
                    served.lock().unwrap().push(nth);
                    in_hand.store(false, Ordering::SeqCst);
                    drop(guard);
                });
                until_waiting(store, nth + 1);
                waiter
            })
            .collect();
        let eager = scope.spawn(|| {
            while served.lock().unwrap().len() < 50 {
                if let Ok(guard) = store.try_lock("eager") {
                    assert_eq!(
                        store.queue_length(),
                        0,
                        "it took the lock from those who wait"
                    );
                    assert_eq!(served.lock().unwrap().len(), 50);
                    drop(guard);
                }
            }
        });
        store.release_lock(held).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        eager.join().unwrap();
        assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
    });
    assert_eq!(
        store.lock_stats().total_rejections,
        0,
        "a try is not a rejection"
    );
}

#[test]
fn lock_14_a_bound_rejects_the_excess_at_once() {
    let store = DataStore::with_options(StoreOptions::new().queue_bound(2).lock_timeout(None));
    let held = store.lock("holder").unwrap();
    thread::scope(|scope| {
        for nth in 0..2 {
            let store = &store;
            scope.spawn(move || drop(store.lock("waiter").unwrap()));
            until_waiting(store, nth + 1);
        }
        let rejected = scope
            .spawn(|| store.lock("third").unwrap_err())
            .join()
            .unwrap();
        assert_eq!(
            rejected,
            LockError::QueueFull {
                owner: "third".into(),
                waiting: 2,
                bound: 2
            }
        );
        assert_eq!(
            rejected.to_string(),
            "Lock queue full for owner third: 2 waiting, 2 allowed"
        );
        // The smaller of the two bounds counts.
        let options = AcquireOptions::new().queue_bound(1);
        let rejected = scope.spawn(|| store.lock_with("fourth", options).unwrap_err());
        assert!(matches!(
            rejected.join().unwrap(),
            LockError::QueueFull { bound: 1, .. }
        ));
        drop(held);
    });
    assert_eq!(store.lock_stats().total_rejections, 2);
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
    // A limit beyond what a clock can count is no limit, not a panic.
    let options = AcquireOptions::new().wait_limit(Duration::MAX);
    drop(store.lock_with("x", options).unwrap());
}

#[test]
fn lock_17_dropping_a_guard_or_a_transaction_releases() {
    let store = DataStore::new();
    drop(store.lock("a").unwrap());
    assert!(!store.is_locked());
    drop(store.begin("a").unwrap());
    assert!(!store.is_locked());
    let mut transaction = store.begin("a").unwrap();
    transaction.create(NodeSpec::new("x")).unwrap();
    drop(transaction);
    assert!(!store.is_locked());
    assert_eq!(store.version(), 0);
}

#[test]
fn lock_17_dropping_every_other_handle_strands_no_waiter() {
    let store = DataStore::new();
    store.set_lock_timeout(None);
    let guard = store.lock("holder").unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let manager = TransactionManager::new(store.clone());
            thread::spawn(move || {
                manager
                    .execute(dsl::create(NodeSpec::new("x")))
                    .unwrap()
                    .version
            })
        })
        .collect();
    until_waiting(&store, 3);
    drop(store);
    drop(guard);
    let mut versions: Vec<_> = waiters
        .into_iter()
        .map(|waiter| waiter.join().unwrap())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3]);
}

#[test]
fn lock_17_a_guard_under_which_a_transaction_is_open_releases_when_that_ends() {
    let store = DataStore::new();
    let guard = store.lock("ann").unwrap();
    let id = guard.id();
    let mut transaction = store.begin_with(id).unwrap();
    assert_eq!(
        store.release_lock(id),
        Err(ReleaseError::TransactionOpen { id })
    );
    drop(guard);
    assert!(store.is_locked(), "the transaction still runs");
    transaction.create(NodeSpec::new("x")).unwrap();
    transaction.commit().unwrap();
    assert!(!store.is_locked());
    assert_eq!(store.version(), 1);
}

#[test]
fn lock_18_a_guard_may_be_released_on_another_thread() {
    let store = DataStore::new();
    let guard = store.lock("ann").unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(!store.is_locked());
    let id = store.acquire_lock("ann").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| store.release_lock(id).unwrap());
    });
    drop(store.lock("ann again").unwrap());
}

#[test]
fn lock_18_public_types_cross_threads() {
    fn crosses<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<DataStore>();
    is_shared::<FifoLock>();
    is_shared::<CancelToken>();
    is_shared::<Clock>();
    is_shared::<ManualClock>();
    is_shared::<Editor>();
    is_shared::<TransactionManager>();
    is_shared::<Snapshot>();
    is_shared::<LockError>();
    is_shared::<LockInfo>();
    is_shared::<LockStats>();
    is_shared::<doclock::TransactionError>();
    is_shared::<doclock::Operation>();
    is_shared::<doclock::Commit>();
    crosses::<LockGuard>();
    crosses::<Transaction>();
    crosses::<Subscription>();
}
