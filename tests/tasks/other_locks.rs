//! Keyed locks, the limiter and node locks, in tasks.

use std::future::pending;
use std::time::Duration;

use doclock::document::NodeSpec;
use doclock::lock::keyed::{ExecutionError, KeyedLock, KeyedOptions};
use doclock::lock::limiter::{InFlightLimiter, LimiterError, LimiterOptions};
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, CancelToken, LockError};
use doclock::time::ManualClock;
use doclock::{DataStore, StoreOptions};

use crate::common::{Task, eventually};

fn plain() -> AcquireOptions {
    AcquireOptions::new()
}

/// A task that executes `work` under the key `k`.
fn keyed<F: Future<Output = u32> + Send + 'static>(
    lock: &KeyedLock<String, u32>,
    owner: &'static str,
    work: F,
) -> Task<Result<u32, LockError>> {
    let lock = lock.clone();
    Task::new(async move { lock.request("k", owner).await?.execute_async(work).await })
}

#[test]
fn async_01_keyed_tasks_and_threads_are_granted_in_one_order() {
    let lock = KeyedLock::<String, u32>::new();
    let mut first = keyed(&lock, "first", async {
        tokio::task::yield_now().await;
        1
    });
    assert!(first.poll().is_none(), "its work is pending");
    let theirs = lock.clone();
    let second = std::thread::spawn(move || theirs.execute_exclusive("k", || 2));
    eventually("the thread waits", || lock.queue_info("k").len() == 1);
    let mut third = keyed(&lock, "third", async { 3 });
    assert!(third.poll().is_none());
    assert_eq!(first.finish(), Ok(1));
    assert_eq!(second.join().unwrap(), Ok(2));
    assert_eq!(third.finish(), Ok(3));
    assert_eq!(lock.active_keys_count(), 0);
}

#[test]
fn async_02_keyed_futures_that_are_dropped_give_their_turn_up() {
    let lock = KeyedLock::<String, u32>::new();
    let mut running = keyed(&lock, "running", pending());
    assert!(running.poll().is_none());
    let theirs = lock.clone();
    let joined = theirs.current_execution("k").unwrap();
    let mut joined = Task::new(joined.request_result().into_future());
    assert!(joined.poll().is_none());
    let mut waiting = keyed(&lock, "waiting", async { 1 });
    let mut granted = keyed(&lock, "granted", async { 2 });
    let mut last = keyed(&lock, "last", async { 3 });
    for task in [&mut waiting, &mut granted, &mut last] {
        assert!(task.poll().is_none());
    }
    drop(waiting);
    assert_eq!(lock.queue_info("k").len(), 2);
    // Its work is dropped in the middle.
    drop(running);
    assert!(matches!(
        joined.poll(),
        Some(Err(ExecutionError::Abandoned { .. }))
    ));
    assert!(granted.is_woken() && !last.is_woken());
    drop(granted);
    assert_eq!(last.poll(), Some(Ok(3)));
    assert_eq!(lock.active_keys_count(), 0);
}

#[test]
fn async_01_keyed_tasks_time_out_and_name_an_untaken_grant() {
    let clock = ManualClock::new();
    let options = KeyedOptions::new()
        .timeout(Duration::from_secs(1))
        .clock(clock.clock());
    let lock = KeyedLock::<String, u32>::with_options(options);
    let mut running = keyed(&lock, "running", pending());
    assert!(running.poll().is_none());
    let mut unpolled = keyed(&lock, "unpolled", async { 1 });
    assert!(unpolled.poll().is_none());
    drop(running);
    let mut late = keyed(&lock, "late", async { 1 });
    assert!(late.poll().is_none());
    let theirs = lock.clone();
    let all = async move { theirs.request_drain("all").await };
    let mut all = Task::waiting(all);
    let joined = lock.current_execution("k").unwrap();
    let mut joined = Task::waiting(joined.request_result().into_future());
    clock.advance(Duration::from_secs(1));
    eventually("they time out", || {
        late.is_woken() && all.is_woken() && joined.is_woken()
    });
    let error = late.poll().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("of unpolled") && error.contains("not yet taken"),
        "{error}"
    );
    assert!(matches!(all.poll(), Some(Err(LockError::Timeout(_)))));
    assert!(matches!(
        joined.poll(),
        Some(Err(ExecutionError::Lock(LockError::Timeout(_))))
    ));
    assert_eq!(unpolled.poll(), Some(Ok(1)), "a grant has no timeout");
}

#[test]
fn async_02_keyed_work_that_panics_releases_the_key() {
    let lock = KeyedLock::<String, u32>::new();
    let panics = keyed(&lock, "panics", async { panic!("no paper") });
    let panicked = std::thread::spawn(move || panics.finish()).join();
    assert!(panicked.is_err());
    assert_eq!(keyed(&lock, "next", async { 1 }).poll(), Some(Ok(1)));
}

#[test]
fn async_02_nothing_of_a_keyed_lock_happens_before_the_first_poll() {
    let lock = KeyedLock::<String, u32>::new();
    let task = keyed(&lock, "task", async { 1 });
    assert_eq!(lock.active_keys_count(), 0);
    drop(task);
}

fn call(limiter: &InFlightLimiter<&'static str>) -> Task<Result<(), LimiterError>> {
    let limiter = limiter.clone();
    Task::new(async move {
        let _permit = limiter.request("mail").await?;
        pending().await
    })
}

#[test]
fn async_01_calls_of_tasks_and_threads_are_granted_in_one_order() {
    let limiter = InFlightLimiter::new(1);
    let permit = limiter.acquire("mail").unwrap();
    let mut first = Task::waiting(limiter.request("mail").into_future());
    let theirs = limiter.clone();
    let second = std::thread::spawn(move || theirs.acquire("mail").unwrap());
    eventually("the thread waits", || limiter.load(&"mail").queued == 2);
    let mut third = Task::waiting(limiter.request("mail").into_future());
    drop(permit);
    drop(first.poll().unwrap().unwrap());
    drop(second.join().unwrap());
    drop(third.poll().unwrap().unwrap());
    assert_eq!(limiter.snapshot().in_flight, 0);
}

#[test]
fn async_02_calls_whose_futures_are_dropped_return_their_slots() {
    let limiter = InFlightLimiter::new(1);
    let mut running = call(&limiter);
    assert!(running.poll().is_none());
    let waiting = Task::waiting(limiter.request("mail").into_future());
    let granted = Task::waiting(limiter.request("mail").into_future());
    let mut last = Task::waiting(limiter.request("mail").into_future());
    drop(waiting);
    assert_eq!(limiter.load(&"mail").queued, 2);
    drop(running);
    assert!(granted.is_woken() && !last.is_woken());
    drop(granted);
    assert!(last.is_woken());
    drop(last.poll().unwrap().unwrap());
    assert_eq!(limiter.snapshot().in_flight, 0);
    let unpolled = limiter.request("mail").into_future();
    assert_eq!(limiter.snapshot().in_flight, 0);
    drop(unpolled);
}

#[test]
fn async_01_calls_of_tasks_time_out_and_are_cancelled() {
    let clock = ManualClock::new();
    let limiter = InFlightLimiter::with_options(LimiterOptions::new(1).clock(clock.clock()));
    let _permit = limiter.acquire("mail").unwrap();
    let mut late = Task::waiting(limiter.request("mail").into_future());
    let token = CancelToken::new();
    let patient = limiter.request("mail").no_timeout().cancel_token(&token);
    let mut cancelled = Task::waiting(patient.into_future());
    clock.advance(Duration::from_secs(5));
    eventually("it times out", || late.is_woken());
    assert!(matches!(
        late.poll(),
        Some(Err(LimiterError::Timeout { .. }))
    ));
    assert!(!cancelled.is_woken());
    token.cancel();
    assert!(matches!(
        cancelled.poll(),
        Some(Err(LimiterError::Cancelled { .. }))
    ));
    assert_eq!(limiter.load(&"mail").queued, 0);
}

/// A store with the nodes `one` and `two`, and a manual clock.
fn nodes() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let mut transaction = store.begin("setup").unwrap();
    for id in ["one", "two"] {
        transaction
            .create(NodeSpec::new("section").with_id(id))
            .unwrap();
    }
    transaction.commit().unwrap();
    (store, clock)
}

#[test]
fn async_01_node_locks_of_tasks_wait_time_out_and_go_on() {
    let (store, clock) = nodes();
    let locks = store.node_locks();
    let one = || Scope::new().write("one");
    let held = locks.lock("holder", one()).unwrap();
    let mut first = Task::waiting(locks.request("first", one()));
    let short = plain().timeout(Duration::from_secs(1));
    let mut late = Task::waiting(locks.request("late", one()).options(short));
    let whole = Task::waiting(store.request("whole"));
    let mut other = Task::waiting(
        store
            .request_transaction("other")
            .on(Scope::new().write("two")),
    );
    clock.advance(Duration::from_secs(1));
    eventually("it times out", || late.is_woken());
    assert!(matches!(late.poll(), Some(Err(LockError::Timeout(_)))));
    drop(whole);
    assert!(
        other.is_woken(),
        "the request for the whole document is gone"
    );
    let transaction = other.poll().unwrap().unwrap();
    drop(held);
    let mut guard = first.poll().expect("it was granted").unwrap();
    transaction.commit().unwrap();
    pollster::block_on(guard.request_more(Scope::new().write("two"))).unwrap();
    assert_eq!(locks.holders()[0].nodes.len(), 2);
    drop(guard);
    assert!(locks.holders().is_empty() && !store.is_locked());
}

#[test]
fn async_02_node_futures_that_are_dropped_release_what_they_were_granted() {
    let (store, _) = nodes();
    let locks = store.node_locks();
    let one = || Scope::new().write("one");
    let held = locks.lock("holder", one()).unwrap();
    let waiting = Task::waiting(locks.request("waiting", one()));
    let granted = Task::waiting(store.request_transaction("granted").on(one()));
    let mut last = Task::waiting(locks.request("last", one()));
    drop(waiting);
    assert_eq!(locks.waiters().len(), 2);
    drop(held);
    assert!(granted.is_woken() && !last.is_woken());
    assert!(
        locks.holders()[0].to_string().contains("not yet taken"),
        "{}",
        locks.holders()[0]
    );
    drop(granted);
    let guard = last.poll().expect("it was granted").unwrap();
    drop(guard);
    assert!(locks.holders().is_empty() && !store.is_locked());
}

#[test]
fn async_02_an_extension_that_is_dropped_leaves_the_guard_as_it_was() {
    let (store, _) = nodes();
    let locks = store.node_locks();
    let two = || Scope::new().write("two");
    let mut guard = locks.lock("ann", Scope::new().write("one")).unwrap();
    let theirs = std::thread::scope(|threads| {
        let lock = || locks.lock("ben", two()).unwrap();
        threads.spawn(lock).join().unwrap()
    });
    let mut extension = Box::pin(guard.request_more(two()).into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(extension.as_mut().poll(&mut context).is_pending());
    drop(extension);
    assert!(locks.waiters().is_empty());
    drop(theirs);
    assert_eq!(locks.holders()[0].nodes.len(), 1);
    drop(guard);
    assert!(!store.is_locked());
}

/// A key that panics when the keeper drops it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fragile(u32);

impl Drop for Fragile {
    fn drop(&mut self) {
        if std::thread::current().name() == Some("doclock-keeper") {
            panic!("a key of a user is dropped");
        }
    }
}

#[test]
fn async_01_a_key_that_panics_when_the_keeper_drops_it_holds_up_no_other_timeout() {
    let (clock, limit) = (ManualClock::new(), Duration::from_secs(1));
    let options = LimiterOptions::<Fragile>::new(1).global_limit(1);
    let limiter = InFlightLimiter::with_options(options.clock(clock.clock()));
    let held = limiter.request(Fragile(0)).wait().unwrap();
    let calls: Vec<_> = (1..4)
        .map(|key| {
            let call = limiter.request(Fragile(key)).timeout(limit);
            Task::waiting(call.into_future())
        })
        .collect();
    clock.advance(limit);
    for mut call in calls {
        eventually("it times out", || call.is_woken());
        let error = call.poll().unwrap().unwrap_err();
        assert!(matches!(error, LimiterError::Timeout { .. }), "{error}");
    }
    drop(held);
}

#[test]
fn async_02_an_extension_that_is_forgotten_gives_way_to_the_next() {
    let (store, _) = nodes();
    let locks = store.node_locks();
    let two = || Scope::new().write("two");
    let theirs = locks.lock("ben", two()).unwrap();
    let mut guard = pollster::block_on(locks.request("ann", Scope::new().write("one"))).unwrap();
    for _ in 0..2 {
        let mut extension = Box::pin(guard.request_more(two()).into_future());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(extension.as_mut().poll(&mut context).is_pending());
        std::mem::forget(extension);
        assert_eq!(locks.waiters().len(), 1);
    }
    assert_eq!(locks.stats().waiting, 1);
    drop(theirs);
    assert_eq!(locks.holders()[0].nodes.len(), 2);
    drop(guard);
    assert_eq!(locks.stats().waiting, 0);
    assert!(locks.holders().is_empty() && !store.is_locked());
}

/// A request in the queue of the document can begin to wait for its nodes while the keeper reads
/// that queue.
#[test]
fn async_01_a_task_that_is_admitted_while_the_keeper_looks_times_out() {
    let seed = std::env::var("SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut random: u64 = seed;
    let second = Duration::from_secs(1);
    for _ in 0..100 {
        let (store, clock) = nodes();
        let locks = store.node_locks();
        let one = || Scope::new().write("one");
        let revoked = plain().hold_limit(second);
        let revoked = store.request("revoked").options(revoked).wait().unwrap();
        let whole = Task::waiting(store.request("whole").options(plain().no_timeout()));
        let waits = |owner: &'static str, options| {
            Task::waiting(locks.request(owner, one()).options(options))
        };
        let ahead: Vec<_> = (0..1_000)
            .map(|_| waits("ahead", plain().no_timeout()))
            .collect();
        let mut late = waits("late", plain().timeout(2 * second));
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        clock.advance(second);
        // The keeper revokes before it reads the queue.
        eventually("the next is granted", || whole.is_woken());
        (0..random >> 52).for_each(|_| std::hint::spin_loop());
        drop(whole);
        clock.advance(second);
        eventually("the last times out", || late.is_woken());
        assert!(matches!(late.poll(), Some(Err(LockError::Timeout(_)))));
        drop((revoked, ahead));
    }
}

#[test]
fn async_02_a_waiting_future_that_is_dropped_counts_as_cancelled() {
    let (store, _) = nodes();
    let locks = store.node_locks();
    let one = || Scope::new().write("one");
    let held = locks.lock("holder", one()).unwrap();
    drop(Task::waiting(locks.request("task", one())));
    drop(Task::waiting(store.request("task")));
    assert_eq!(locks.stats().total_cancellations, 1);
    assert_eq!(store.lock_stats().total_cancellations, 1);
    drop(held);
    let lock = KeyedLock::<String, u32>::new();
    let held = lock.reserve("k").unwrap();
    let mut task = keyed(&lock, "task", async { 1 });
    assert!(task.poll().is_none());
    drop((task, held));
    assert_eq!(lock.stats().total_cancellations, 1);
    let limiter = InFlightLimiter::new(1);
    let held = limiter.acquire("mail").unwrap();
    let mut task = call(&limiter);
    assert!(task.poll().is_none());
    drop((task, held));
    assert_eq!(limiter.snapshot().total.cancelled, 1);
}

/// The node was granted while the future of the extension was dropped or forgotten. The token of
/// the guard stayed below that of the last holder of the node.
#[test]
fn async_02_an_extension_that_is_granted_and_not_taken_raises_the_token_of_its_guard() {
    let ways: [fn(Pinned); 2] = [|it| drop(it), |it| std::mem::forget(it)];
    for way in ways {
        let (store, _) = nodes();
        let locks = store.node_locks();
        let mut guard =
            pollster::block_on(locks.request("ann", Scope::new().write("one"))).unwrap();
        let theirs = locks.lock("ben", Scope::new().write("two")).unwrap();
        let last = theirs.fencing_token();
        {
            let mut extension: Pinned =
                Box::pin(guard.request_more(Scope::new().write("two")).into_future());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(extension.as_mut().poll(&mut context).is_pending());
            drop(theirs);
            way(extension);
        }
        assert_eq!(locks.holders()[0].nodes.len(), 2);
        assert!(guard.fencing_token() > last);
    }
}

type Pinned<'a> =
    std::pin::Pin<Box<dyn Future<Output = Result<(), doclock::lock::LockError>> + 'a>>;
