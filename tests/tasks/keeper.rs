//! The keeper's thread: when it is there, what it survives, and what does not hold it up.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use doclock::codes::CodedError;
use doclock::document::NodeSpec;
use doclock::durable::DurableOptions;
use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::{AcquireOptions, CancelToken, FifoLock, LockError, LockOptions};
use doclock::time::ManualClock;
use doclock::{DataStore, TransactionManager, dsl::*};

use crate::common::{Task, eventually};
use crate::gated::Gated;

fn short() -> AcquireOptions {
    AcquireOptions::new().timeout(Duration::from_millis(20))
}

/// An operation that waits until it is told to end.
fn blocking() -> (doclock::transaction::Operation, mpsc::Sender<()>) {
    let (end, may_end) = mpsc::channel::<()>();
    let may_end = Mutex::new(may_end);
    let code = op(move |_| {
        let _ = may_end.lock().unwrap().recv();
        Ok::<(), doclock::document::EditError>(())
    });
    (code, end)
}

#[test]
fn async_03_code_that_blocks_the_keeper_holds_up_no_timeout() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let (code, end) = blocking();
    let running = Task::waiting(manager.transaction([code]));
    drop(guard);
    let timed_out = Task::new(store.request("task").options(short()));
    let error = timed_out.finish().unwrap_err();
    assert!(matches!(error, LockError::Timeout(_)), "{error}");
    end.send(()).unwrap();
    running.finish().unwrap();
}

#[test]
fn async_03_the_keeper_survives_a_batch_that_panics() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    for _ in 0..3 {
        let guard = store.lock("holder").unwrap();
        let panics = op(|_| -> Result<(), doclock::document::EditError> { panic!("no paper") });
        let batch = Task::waiting(manager.transaction([panics]));
        let behind = Task::waiting(manager.transaction(create(element("note", []))));
        drop(guard);
        assert!(batch.finish().unwrap_err().to_string().contains("no paper"));
        behind.finish().unwrap();
    }
    let guard = store.lock("holder").unwrap();
    assert!(
        Task::new(store.request("task").options(short()))
            .finish()
            .is_err()
    );
    drop(guard);
}

/// Runs code when its task is woken.
struct Woken<F>(F);

impl<F: Fn() + Send + Sync> Wake for Woken<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Lets a task wait at the lock, which calls the code when the task is woken.
fn wait_at<F: Fn() + Send + Sync + 'static>(lock: &FifoLock, woken: F) -> impl Future + use<F> {
    let mut task = Box::pin(lock.request("task").into_future());
    let waker = Waker::from(Arc::new(Woken(woken)));
    let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    task
}

#[test]
fn async_03_waits_at_several_locks_end_in_the_order_of_their_deadlines() {
    let second = Duration::from_secs(1);
    let locks: [_; 9] = std::array::from_fn(|_| {
        let clock = ManualClock::new();
        let options = LockOptions::new().clock(clock.clock()).timeout(second);
        (FifoLock::with_options(options), clock)
    });
    let (busy, due) = locks.split_first().unwrap();
    let mut backwards: Vec<_> = due.iter().collect();
    backwards.reverse();
    // Where a lock is in memory has no influence.
    for due in [due.iter().collect::<Vec<_>>(), backwards] {
        let (let_go, gate) = mpsc::channel();
        let gate = Mutex::new(gate);
        let held = busy.0.lock("holder").unwrap();
        let waits = wait_at(&busy.0, move || gate.lock().unwrap().recv().unwrap());
        busy.1.advance(second);
        // Now the keeper is in that waker, or will be before it looks at another lock.
        let woken = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = due
            .iter()
            .enumerate()
            .map(|(index, (lock, clock))| {
                let woken = Arc::clone(&woken);
                let held = lock.lock("holder").unwrap();
                let waits = wait_at(lock, move || woken.lock().unwrap().push(index));
                clock.advance(second);
                (waits, held)
            })
            .collect();
        let_go.send(()).unwrap();
        eventually("all of them end", || {
            woken.lock().unwrap().len() == due.len()
        });
        assert!(woken.lock().unwrap().is_sorted(), "{woken:?}");
        drop((tasks, waits, held));
    }
}

#[test]
fn async_03_the_batches_beyond_the_limit_of_a_poll_are_run_by_the_keeper() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let batches: Vec<_> = (0..1_000)
        .map(|_| Task::waiting(manager.transaction(create(element("note", [])))))
        .collect();
    drop(guard);
    eventually("all of them run", || store.version() == 1_000);
    let versions = batches
        .into_iter()
        .map(|batch| batch.finish().unwrap().version);
    assert!(versions.eq(1..=1_000), "in FIFO order");
}

/// Counts the threads of the keeper of this process. Other tests of this binary need them, too.
#[cfg(target_os = "linux")]
fn keepers() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "doclock-keeper").count()
}

/// Whether this process runs only this test, so that it counts no other keepers. If not, runs the
/// test in such a process.
#[cfg(target_os = "linux")]
fn is_alone(test: &str) -> bool {
    let is_alone = std::env::var_os("DOCLOCK_ALONE").is_some();
    if !is_alone {
        let this = std::env::current_exe().unwrap();
        let alone = std::process::Command::new(this)
            .args([&format!("keeper::async_03_{test}"), "--exact"])
            .env("DOCLOCK_ALONE", "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && told.contains("1 passed"),
            "{told}"
        );
    }
    is_alone
}

#[cfg(target_os = "linux")]
#[test]
fn async_03_the_keeper_starts_with_the_first_wait_and_ends_with_the_lock() {
    if !is_alone("the_keeper_starts_with_the_first_wait_and_ends_with_the_lock") {
        return;
    }
    let lock = FifoLock::new();
    drop(Task::new(lock.request("free")).poll().unwrap().unwrap());
    assert_eq!(keepers(), 0, "no task has waited");
    let held = lock.lock("holder").unwrap();
    let task = Task::waiting(lock.request("task"));
    eventually("it starts", || keepers() == 1);
    drop((held, task));
    assert_eq!(keepers(), 1);
    drop(lock);
    eventually("it ends", || keepers() == 0);
}

/// Once such a task had the error `NoKeeper` where no thread can be started.
#[cfg(target_os = "linux")]
#[test]
fn async_03_a_task_that_may_not_wait_needs_no_keeper() {
    if !is_alone("a_task_that_may_not_wait_needs_no_keeper") {
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let token = CancelToken::new();
    token.cancel();
    let (store, calls, keys) = (
        DataStore::new(),
        InFlightLimiter::new(1),
        KeyedLock::<u8, u8>::new(),
    );
    let manager = TransactionManager::new(store.clone());
    manager
        .execute(create(element("note", []).with_id("a")))
        .unwrap();
    let scope = || doclock::lock::node::Scope::new().write("a");
    let held = (
        store.lock("holder").unwrap(),
        calls.acquire("a").unwrap(),
        keys.reserve(&0).unwrap(),
    );
    let now = |options: &AcquireOptions| {
        let options = || options.clone();
        let joined = keys.current_execution(&0).unwrap();
        let join = Task::new(joined.request_result().options(options())).poll();
        let call = Task::new(calls.request("a").options(options())).poll();
        let whole = Task::new(store.request("task").options(options())).poll();
        let nodes = store.node_locks().request("task", scope());
        let nodes = Task::new(nodes.options(options())).poll();
        let theirs = keys.clone();
        let (turn, drain) = (options(), options());
        let turn = Task::new(async move { theirs.request(&0, "task").options(turn).await.err() });
        let theirs = keys.clone();
        let drain = async move { theirs.request_drain("task").options(drain).await.err() };
        [
            whole.expect("it may not wait").unwrap_err().code(),
            nodes.expect("it may not wait").unwrap_err().code(),
            { turn }.poll().expect("it may not wait").unwrap().code(),
            Task::new(drain)
                .poll()
                .expect("it may not wait")
                .unwrap()
                .code(),
            join.expect("it may not wait").unwrap_err().code(),
            call.expect("it may not wait").unwrap_err().code(),
        ]
    };
    let cancelled = now(&AcquireOptions::new().cancel_token(&token));
    assert_eq!(cancelled[..5], ["lockCancelled"; 5]);
    assert_eq!(cancelled[5], "limiterCancelled");
    let busy = now(&AcquireOptions::new().no_wait());
    assert_eq!(busy[..5], ["lockWouldBlock"; 5]);
    assert_eq!(busy[5], "limiterBusy");
    assert_eq!(threads(), before);
    let journal = Gated(mpsc::channel().1);
    let durable = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let wait = || durable.wait_durable(1).timeout(Duration::ZERO);
    // It starts the thread of the journal.
    wait().wait().unwrap_err();
    let with_journal = threads();
    let late = Task::new(wait()).poll().expect("it may not wait");
    assert_eq!(late.unwrap_err().code(), "durabilityTimeout");
    assert_eq!(threads(), with_journal);
    drop(held);
}

/// Dropped by the keeper, it drops the last handle of the store there.
#[test]
fn async_03_the_keeper_may_drop_the_last_handle_of_its_store() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let alive = Arc::new(());
    let here = Arc::downgrade(&alive);
    let (code, end) = blocking();
    let code_owns = Arc::clone(&alive);
    let owner = op(move |_| {
        let _ = &code_owns;
        Ok::<(), doclock::document::EditError>(())
    });
    drop(alive);
    let guard = store.lock("holder").unwrap();
    let batch = Task::waiting(manager.transaction([code, owner]));
    drop((guard, store, manager));
    drop(batch);
    drop(end);
    eventually("everything is dropped", || here.upgrade().is_none());
}

/// A value of a user that panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a value of a user is dropped");
        }
    }
}

#[test]
fn async_03_a_value_that_panics_when_the_keeper_drops_it_strands_no_lock() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let (code, end) = blocking();
    let fragile = Fragile;
    let owner = op(move |_| {
        let _ = &fragile;
        Ok::<(), doclock::document::EditError>(())
    });
    let batch = Task::waiting(manager.transaction([code, owner]));
    let mut behind = Task::waiting(store.request("behind"));
    drop(guard);
    drop(batch);
    end.send(()).unwrap();
    eventually("the lock goes on", || behind.is_woken());
    drop(behind.poll().unwrap().unwrap());
    assert!(!store.is_locked());
}

#[test]
fn async_03_values_of_a_batch_whose_future_is_gone_are_dropped_when_the_lock_is_free() {
    struct Looks(DataStore, mpsc::Sender<bool>);
    impl Drop for Looks {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.is_locked());
        }
    }
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let guard = store.lock("holder").unwrap();
    let (code, end) = blocking();
    let (tell, was_locked) = mpsc::channel();
    let looks = Looks(store.clone(), tell);
    let owner = op(move |_| {
        let _ = &looks;
        Ok::<(), doclock::document::EditError>(())
    });
    let batch = Task::waiting(manager.transaction([code, owner]));
    drop(guard);
    drop(batch);
    end.send(()).unwrap();
    assert_eq!(was_locked.recv_timeout(Duration::from_secs(10)), Ok(false));
}

#[cfg(all(target_os = "linux", feature = "redb"))]
#[test]
fn async_03_the_keeper_of_a_durable_store_ends_with_the_store() {
    if !is_alone("the_keeper_of_a_durable_store_ends_with_the_store") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = DataStore::open(folder.path().join("notes.doclock")).unwrap();
    let limit = Some(Duration::from_secs(60));
    let task = Task::waiting(store.wait_durable(1).timeout(limit));
    eventually("it starts", || keepers() == 1);
    drop((task, store));
    eventually("it ends", || keepers() == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn async_03_a_process_has_one_keeper() {
    if !is_alone("a_process_has_one_keeper") {
        return;
    }
    let stores = [(); 2].map(|()| DataStore::new());
    let held = stores.each_ref().map(|store| store.lock("holder").unwrap());
    // Here tasks wait before the queue of the lock.
    let closed = DataStore::new();
    let journal = closed.subscription().lossless(0).all();
    let manager = TransactionManager::new(closed.clone());
    manager.execute(create(element("note", []))).unwrap();
    let entering = [(); 2].map(|()| Task::waiting(closed.request("task").options(short())));
    let calls = InFlightLimiter::new(1);
    let permit = calls.acquire("a").unwrap();
    let waiting = stores.each_ref().map(|store| {
        let waiting = store.request("task").options(short());
        Task::waiting(waiting)
    });
    let call = Task::waiting(calls.request("a").options(short()));
    {
        let keys = KeyedLock::<u8>::new();
        let _turn = keys.reserve(&0).unwrap();
        let theirs = keys.clone();
        let turn = Task::waiting(async move {
            let turn = theirs.request(&0, "task").options(short());
            turn.await.map(drop)
        });
        eventually("it starts", || keepers() == 1);
        turn.finish().unwrap_err();
    }
    for task in waiting.into_iter().chain(entering) {
        task.finish().unwrap_err();
    }
    call.finish().unwrap_err();
    assert_eq!(keepers(), 1);
    drop((held, stores, permit, journal, manager, closed));
    assert_eq!(keepers(), 1, "it serves the limiter");
    drop(calls);
    eventually("it ends", || keepers() == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn async_03_a_hundred_thousand_locks_with_hold_limits_have_one_keeper() {
    if !is_alone("a_hundred_thousand_locks_with_hold_limits_have_one_keeper") {
        return;
    }
    const LOCKS: usize = 100_000;
    let options = LockOptions::new()
        .hold_limit(Duration::from_millis(100))
        .timeout(None);
    let waiting = |_| {
        let lock = FifoLock::with_options(options.clone());
        lock.acquire_lock("holder").unwrap();
        let task = Task::waiting(lock.request("task"));
        (lock, task)
    };
    let waiting: Vec<_> = (0..LOCKS).map(waiting).collect();
    eventually("it starts", || keepers() == 1);
    for (lock, task) in waiting {
        let granted = task.finish().unwrap();
        assert_eq!(lock.lock_stats().total_revocations, 1);
        drop(granted);
    }
    eventually("it ends", || keepers() == 0);
}

/// The batch of a task that is gone has the last handle of its store, and the end of a store waits
/// for its journal.
#[test]
fn async_03_a_store_that_ends_on_the_keeper_holds_up_no_timeout() {
    let (gate, gated) = mpsc::channel();
    // The open writes once, and the commit below.
    (0..2).for_each(|_| gate.send(true).unwrap());
    let store = DataStore::open_journal(Gated(gated), DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let leaves = vec![NodeSpec::new("leaf"); 50_000];
    let page = NodeSpec::new("page").with_id("page").with_children(leaves);
    manager.execute(create(page)).unwrap();

    let guard = store.lock("holder").unwrap();
    // It counts as brief, and takes long enough for the handles to be dropped meanwhile.
    let batch = Task::waiting(manager.transaction(delete_node().on("page")));
    drop(guard);
    drop((batch, manager, store));
    let lock = FifoLock::new();
    let _held = lock.lock("holder").unwrap();
    let waits = Task::waiting(lock.request("task").options(short()));
    eventually("it times out", || waits.is_woken());
    drop(gate);
}

/// A replaced thread of the keeper also runs the batches behind the first, up to its limit.
#[test]
fn async_03_the_keeper_starts_no_thread_for_each_batch_of_code() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let threads = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let guard = store.lock("holder").unwrap();
    let batches: Vec<_> = (0..100)
        .map(|_| {
            let threads = Arc::clone(&threads);
            let code = op(move |_| {
                let this = std::thread::current().id();
                threads.lock().unwrap().insert(this);
                Ok::<(), doclock::document::EditError>(())
            });
            Task::waiting(manager.transaction([code]))
        })
        .collect();
    drop(guard);
    for batch in batches {
        batch.finish().unwrap();
    }
    let threads = threads.lock().unwrap().len();
    assert!(threads < 100, "a thread for each batch");
}
