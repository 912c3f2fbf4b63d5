//! What the timeline records.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use doclock::lock::{
    CancelToken, FifoLock, LockOptions, Timeline, TimelineEntry, TimelineOutcome as Outcome,
};
use doclock::{NodeId, TransactionManager, dsl::*};

use super::*;
use doclock::lock::node::Scope;

const MS: Duration = Duration::from_millis(1);

fn recorded_store(requests: usize) -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).timeline(requests);
    (DataStore::with_options(options), clock)
}

/// Owner, outcome, and the times in milliseconds.
type Row<'a> = (&'a str, Outcome, u128, Option<u128>, Option<u128>);

fn row(entry: &TimelineEntry) -> Row<'_> {
    let millis = |time: Duration| time.as_millis();
    (
        entry.owner_id.as_str(),
        entry.outcome,
        millis(entry.requested_at),
        entry.granted_at.map(millis),
        entry.ended_at.map(millis),
    )
}

fn rows(timeline: &Timeline) -> Vec<Row<'_>> {
    timeline.entries.iter().map(row).collect()
}

#[test]
fn a_timeline_lists_when_requests_were_made_granted_and_ended() {
    let (store, clock) = recorded_store(10);
    let import = AcquireOptions::new().label("import");
    let line = line!() + 1;
    let request = store.request("ann").options(import);
    let ann = request.wait().unwrap().into_id();
    thread::scope(|scope| {
        clock.advance(MS);
        let ben = scope.spawn(|| {
            store
                .request("ben")
                .options(patient())
                .wait()
                .unwrap()
                .into_id()
        });
        until_waiting(&store, 1);
        clock.advance(2 * MS);
        let cem = scope.spawn(|| {
            store
                .request("cem")
                .options(patient())
                .wait()
                .unwrap()
                .into_id()
        });
        until_waiting(&store, 2);
        clock.advance(4 * MS);
        let timeline = store.timeline().unwrap();
        assert_eq!(
            rows(&timeline),
            [
                ("ann", Outcome::Holding, 0, Some(0), None),
                ("ben", Outcome::Waiting, 1, None, None),
                ("cem", Outcome::Waiting, 3, None, None),
            ]
        );
        assert_eq!((timeline.read_at, timeline.forgotten), (7 * MS, 0));

        store.release_lock(ann).unwrap();
        let ben = ben.join().unwrap();
        clock.advance(8 * MS);
        store.release_lock(ben).unwrap();
        let cem = cem.join().unwrap();
        clock.advance(16 * MS);
        store.release_lock(cem).unwrap();
    });
    let timeline = store.timeline().unwrap();
    assert_eq!(
        rows(&timeline),
        [
            ("ann", Outcome::Released, 0, Some(0), Some(7)),
            ("ben", Outcome::Released, 1, Some(7), Some(15)),
            ("cem", Outcome::Released, 3, Some(15), Some(31)),
        ]
    );
    let first = &timeline.entries[0];
    assert_eq!(
        (first.lock_id, first.label.as_deref()),
        (ann, Some("import"))
    );
    assert_eq!(
        (first.call_site.file.as_str(), first.call_site.line),
        (file!(), line)
    );
}

#[test]
fn a_timeline_has_requests_that_time_out_are_cancelled_or_are_revoked() {
    let (store, clock) = recorded_store(10);
    let limited = AcquireOptions::new().hold_limit(50 * MS);
    store
        .request("ann")
        .options(limited)
        .wait()
        .unwrap()
        .into_id();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let ben = scope.spawn(|| store.request("ben").timeout(10 * MS).wait());
        until_waiting(&store, 1);
        clock.advance(10 * MS);
        timeout_of(ben.join().unwrap());
        let cem = scope.spawn(|| {
            store
                .request("cem")
                .options(patient().cancel_token(&token))
                .wait()
        });
        until_waiting(&store, 1);
        clock.advance(5 * MS);
        token.cancel();
        assert!(matches!(cem.join().unwrap(), Err(LockError::Cancelled(_))));
        let dan = scope.spawn(|| drop(store.request("dan").options(patient()).wait().unwrap()));
        until_waiting(&store, 1);
        clock.advance(35 * MS);
        dan.join().unwrap();
    });
    assert_eq!(
        rows(&store.timeline().unwrap()),
        [
            ("ben", Outcome::TimedOut, 0, None, Some(10)),
            ("cem", Outcome::Cancelled, 10, None, Some(15)),
            ("ann", Outcome::Revoked, 0, Some(0), Some(50)),
            ("dan", Outcome::Released, 15, Some(50), Some(50)),
        ]
    );
}

#[test]
fn a_timeline_has_a_waiting_task_that_is_dropped() {
    let (store, _clock) = recorded_store(10);
    let _guard = store.lock("ann").unwrap();
    let waits = Box::pin(store.request("ben").into_future());
    assert!(pollster::block_on(async {
        let mut waits = waits;
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(Future::poll(waits.as_mut(), context).is_pending())
        })
        .await
    }));
    let timeline = store.timeline().unwrap();
    assert_eq!(
        rows(&timeline),
        [
            ("ben", Outcome::Cancelled, 0, None, Some(0)),
            ("ann", Outcome::Holding, 0, Some(0), None),
        ]
    );
}

#[test]
fn a_timeline_has_holders_of_nodes_their_extensions_and_deadlocks() {
    let (store, clock) = recorded_store(10);
    let manager = TransactionManager::new(store.clone());
    let nodes = ["one", "two"].map(|id| create(text_node("p", id).with_id(id)));
    manager.execute(nodes).unwrap();
    let node = |id: &str| Scope::new().write(NodeId::from(id));
    let lock = |owner: &str, id: &str| {
        let locks = store.node_locks();
        locks
            .request(owner, node(id))
            .options(patient().unbound())
            .wait()
            .unwrap()
    };
    let (mut ann, mut ben) = (lock("ann", "one"), lock("ben", "two"));
    clock.advance(MS);
    thread::scope(|scope| {
        let ann = scope.spawn(|| {
            ann.extend(node("two")).unwrap();
            ann
        });
        while store.node_locks().waiters().is_empty() {
            thread::yield_now();
        }
        assert!(matches!(
            ben.extend(node("one")),
            Err(LockError::Deadlock(_))
        ));
        clock.advance(MS);
        drop(ben);
        let ann = ann.join().unwrap();
        clock.advance(MS);
        drop(ann);
    });
    let timeline = store.timeline().unwrap();
    let rows = rows(&timeline);
    assert_eq!(
        rows[1..],
        [
            ("ben", Outcome::Deadlock, 1, None, Some(1)),
            ("ben", Outcome::Released, 0, Some(0), Some(2)),
            ("ann", Outcome::Extended, 1, Some(2), Some(2)),
            ("ann", Outcome::Released, 0, Some(0), Some(3)),
        ]
    );
    assert!(timeline.entries[1..].iter().all(|entry| entry.nodes));
}

#[test]
fn a_timeline_keeps_the_last_requests() {
    for capacity in [0, 1, 3, 255, 256, 257, 1000] {
        let lock = FifoLock::with_options(LockOptions::new().timeline(capacity));
        let mut ended = 0;
        for requests in [0_usize, 1, 9, 256, 257, 999, 1000, 5000] {
            while ended < requests {
                drop(lock.lock("ann").unwrap());
                ended += 1;
            }
            let timeline = lock.timeline().unwrap();
            let numbers = timeline.entries.iter().map(|entry| entry.lock_id.number());
            let first = requests.saturating_sub(capacity) as u64;
            assert!(numbers.eq(first + 1..=requests as u64), "{timeline:?}");
            assert_eq!(timeline.forgotten, first);
        }
    }
}

#[test]
fn a_timeline_that_is_read_while_requests_end_has_no_gap() {
    let lock = FifoLock::with_options(LockOptions::new().timeline(1000));
    let is_read = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_read.load(Ordering::Relaxed) {
                drop(lock.lock("ann").unwrap());
            }
        });
        let timelines: Vec<_> = (0..100).map(|_| lock.timeline().unwrap()).collect();
        is_read.store(true, Ordering::Relaxed);
        for timeline in &timelines {
            let ended = timeline
                .entries
                .iter()
                .filter(|entry| entry.ended_at.is_some());
            let numbers: Vec<_> = ended.map(|entry| entry.lock_id.number()).collect();
            let expected = timeline.forgotten + 1..;
            assert!(expected.take(numbers.len()).eq(numbers), "{timeline:?}");
        }
    });
}

#[test]
fn a_lock_without_a_timeline_has_none() {
    assert_eq!(FifoLock::new().timeline(), None);
    assert_eq!(DataStore::new().timeline(), None);
}

/// Threads with batches, guards, timeouts and cancellations. Each request that the metrics count is
/// recorded once, and no two holds of the whole lock overlap.
#[test]
fn a_timeline_of_many_threads_has_each_request_once_and_no_two_holds_at_a_time() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 500;
    let store = DataStore::with_options(StoreOptions::new().timeline(100_000));
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                let manager = TransactionManager::for_owner(store.clone(), number.to_string());
                start.wait();
                for round in 0..ROUNDS {
                    match (round + number) % 4 {
                        0 | 1 => drop(manager.execute(create(text_node("p", "x"))).unwrap()),
                        2 => drop(store.request("guard").options(patient()).wait().unwrap()),
                        _ => {
                            let hasty = AcquireOptions::new().timeout(Duration::from_nanos(200));
                            drop(store.request("hasty").options(hasty).wait());
                        }
                    }
                }
            });
        }
    });
    let timeline = store.timeline().unwrap();
    let stats = store.lock_stats();
    let count = |outcome| {
        let entries = timeline.entries.iter();
        entries.filter(|entry| entry.outcome == outcome).count() as u64
    };
    assert_eq!(count(Outcome::Released), stats.total_releases);
    assert_eq!(count(Outcome::TimedOut), stats.total_timeouts);
    assert_eq!(count(Outcome::Holding), 0);
    let mut last_end = Duration::ZERO;
    for entry in &timeline.entries {
        let ended = entry.ended_at.unwrap();
        if let Some(granted) = entry.granted_at {
            assert!(
                entry.requested_at <= granted && granted <= ended,
                "{entry:?}"
            );
            assert!(last_end <= granted, "{entry:?} begins before {last_end:?}");
            last_end = ended;
        }
    }
    let read: Timeline = serde_json::from_slice(&serde_json::to_vec(&timeline).unwrap()).unwrap();
    assert_eq!(read.entries, timeline.entries);
}
