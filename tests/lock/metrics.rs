//! The queue, the statistics and bounds (LOCK 8, 9, 14).

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, StoreOptions,
    lock::{AcquireOptions, CancelToken, LockError, LockStats, QueueEntry},
};

use crate::{patient, timed_store, until_waiting};

#[test]
fn lock_08_the_queue_grows_and_shrinks_and_lists_waiters() {
    let (store, clock) = timed_store();
    let held = store.acquire_lock("holder").unwrap();
    let (done, finish) = mpsc::channel::<()>();
    let finish = Mutex::new(finish);
    thread::scope(|scope| {
        let wait = |owner: &'static str| {
            let (store, finish) = (&store, &finish);
            move || {
                let guard = store
                    .request(owner)
                    .options(patient().label("edit"))
                    .wait()
                    .unwrap();
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
        let row =
            |entry: &QueueEntry| (entry.owner_id.to_string(), entry.wait_time, entry.position);
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
fn lock_09_the_metrics_are_exact() {
    let (store, clock) = timed_store();
    // One hold of each of 1..=100 ms; the second request of each pair waits that long.
    thread::scope(|scope| {
        for ms in 1..=100 {
            let held = store.acquire_lock("a").unwrap();
            let waiter = scope.spawn(|| {
                let id = store
                    .request("b")
                    .options(patient())
                    .wait()
                    .unwrap()
                    .into_id();
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
    // 5,050 ms over 200 requests, half of which waited or held for almost no time.
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
        let cancelled = scope.spawn(|| {
            store
                .request("c")
                .options(patient().cancel_token(&token))
                .wait()
        });
        until_waiting(&store, 1);
        token.cancel();
        assert!(matches!(
            cancelled.join().unwrap(),
            Err(LockError::Cancelled(_))
        ));
        let rejected = scope.spawn(|| {
            store
                .request("r")
                .options(AcquireOptions::new().queue_bound(0))
                .wait()
        });
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
fn lock_09_a_reset_in_mid_hold_leaves_finite_metrics() {
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
            "the lock queue is full for owner third: bound 2, 2 requests waiting"
        );
        // The smaller of the two bounds counts.
        let options = AcquireOptions::new().queue_bound(1);
        let rejected = scope.spawn(|| store.request("fourth").options(options).wait().unwrap_err());
        assert!(matches!(
            rejected.join().unwrap(),
            LockError::QueueFull { bound: 1, .. }
        ));
        drop(held);
    });
    assert_eq!(store.lock_stats().total_rejections, 2);
}

/// At any rate of grants, and for any sampling of the holds.
#[test]
fn lock_09_every_grant_is_counted_under_sparse_sampling() {
    const GRANTS: u64 = 20_000;
    let store = DataStore::new();
    for turn in 0..GRANTS {
        match turn % 3 {
            0 => drop(store.lock("w").unwrap()),
            1 => drop(store.begin("w").unwrap()),
            _ => drop(store.acquire_lock("w").map(|id| store.release_lock(id))),
        }
        if turn % 1000 == 0 {
            let stats = store.lock_stats();
            assert_eq!(
                (stats.total_acquisitions, stats.total_releases),
                (turn + 1, turn + 1)
            );
        }
    }
    let stats = store.lock_stats();
    assert_eq!((stats.wait.count, stats.hold.count), (GRANTS, GRANTS));
    assert_eq!(stats.wait.max, Duration::ZERO);
    assert!(stats.hold.mean <= stats.hold.max && stats.hold.p50 <= stats.hold.p999);
    store.reset_lock_stats();
    let stats = store.lock_stats();
    assert_eq!((stats.wait.count, stats.hold.count), (0, 0));
}
