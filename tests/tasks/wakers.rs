//! Wakers are code of users: they are cloned, called and dropped under no mutex, and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use doclock::document::{EditError, NodeSpec};
use doclock::lock::{
    AcquireOptions, CancelToken, FifoLock,
    limiter::{InFlightLimiter, LimiterOptions},
};
use doclock::{DataStore, Editor, StoreOptions, TransactionManager, dsl::*, lock::node::Scope};

use crate::common::{Count, Task, at_rest};

/// Uses the lock whenever it is woken or dropped, which would block for ever under its mutex.
struct Curious(FifoLock, Arc<AtomicUsize>);

impl Curious {
    fn look(&self) {
        self.0.lock_stats();
        self.0.queue_info();
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wake for Curious {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.look();
    }
}

#[test]
fn async_04_no_waker_is_called_or_dropped_under_a_mutex() {
    let lock = FifoLock::new();
    let looks = Arc::new(AtomicUsize::new(0));
    let curious = || Waker::from(Arc::new(Curious(lock.clone(), Arc::clone(&looks))));
    let held = lock.lock("holder").unwrap();
    let mut future = Box::pin(lock.request("task").into_future());
    // The second waker replaces the first, which is dropped.
    for _ in 0..2 {
        let waker = curious();
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    drop(held);
    assert_eq!(looks.load(Ordering::SeqCst), 3, "it is woken and dropped");
    drop(future);
    let held = lock.lock("holder").unwrap();
    let mut future = Box::pin(lock.request("task").into_future());
    let waker = curious();
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    drop(future);
    assert_eq!(
        looks.load(Ordering::SeqCst),
        4,
        "it is dropped with its future"
    );
    drop(held);
    at_rest(&lock);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker of a user");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a waker of a user is dropped");
        }
    }
}

#[test]
fn async_04_a_waker_that_panics_costs_nobody_else_anything() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let waker = Waker::from(Arc::new(Panics));
    let mut future = Box::pin(lock.request("panics").into_future());
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    std::mem::forget(waker);
    let mut next = Task::waiting(lock.request("next"));
    drop(held);
    drop(future);
    assert!(next.is_woken());
    drop(next.poll().unwrap().unwrap());
    at_rest(&lock);
}

#[test]
fn async_04_the_waker_of_the_last_poll_is_woken() {
    let lock = FifoLock::new();
    let held = lock.lock("holder").unwrap();
    let mut future = Box::pin(lock.request("task").into_future());
    let wakers = [(); 2].map(|()| Arc::new(Count::default()));
    for waker in &wakers {
        let waker = Waker::from(Arc::clone(waker));
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    drop(held);
    assert_eq!(wakers.map(|waker| waker.get()), [0, 1]);
    drop(future);
    at_rest(&lock);
}

/// A waker that also panics when it is dropped while its thread unwinds.
struct Bursts;

impl Wake for Bursts {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Bursts {
    fn drop(&mut self) {
        panic!("a waker of a user is dropped");
    }
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls with a waker that only the future keeps.
fn poll_with_bursts(future: &mut Waiting) {
    let waker = Waker::from(Arc::new(Bursts));
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
}

/// Each future that keeps a waker. A second panic in a thread that unwinds aborts the program.
#[test]
fn async_04_a_waker_that_panics_in_drop_costs_nothing_in_any_future() {
    fn waiting(future: impl Future + Send + 'static) -> Waiting {
        Box::pin(async { drop(future.await) })
    }
    let (store, token) = (DataStore::new(), CancelToken::new());
    let events = Arc::new(store.subscribe());
    let locks = store.node_locks();
    let limiter = InFlightLimiter::with_options(LimiterOptions::new(1));
    let _slot = limiter.acquire("mail").unwrap();
    let _held = store.lock("holder").unwrap();
    let plain = || AcquireOptions::new().no_timeout().cancel_token(&token);
    let call = || limiter.request("mail").no_timeout().cancel_token(&token);
    let futures = || {
        let events = Arc::clone(&events);
        [
            waiting(token.cancelled()),
            waiting(store.request("task").options(plain()).into_future()),
            waiting(
                locks
                    .request("task", Scope::new().write("one"))
                    .options(plain())
                    .into_future(),
            ),
            waiting(call().into_future()),
            waiting(async move { events.recv_async().await.map(drop) }),
        ]
    };
    for mut future in futures() {
        poll_with_bursts(&mut future);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _future = future;
            panic!("the task");
        }));
        assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"the task"));
    }
    // The second waker replaces the first, which is dropped, and so is the third.
    let tasks = futures().map(|mut future| {
        poll_with_bursts(&mut future);
        poll_with_bursts(&mut future);
        let mut task = Task::over(future);
        assert!(task.poll().is_none());
        task
    });
    token.cancel();
    let woken = tasks.each_ref().map(Task::is_woken);
    assert_eq!(
        woken,
        [true, true, true, true, false],
        "all but the wait for an event"
    );
}

#[test]
fn async_04_the_waker_of_the_last_poll_is_woken_by_a_cancellation() {
    let token = CancelToken::new();
    let mut future: Waiting = Box::pin(token.cancelled());
    poll_with_bursts(&mut future);
    let mut task = Task::over(future);
    assert!(task.poll().is_none());
    token.cancel();
    assert!(task.is_woken());
    assert!(task.poll().is_some());
}

/// Cancels the token again when it is woken, and notes how many requests wait after that.
struct CancelsAgain {
    token: CancelToken,
    lock: FifoLock,
    waiting: Mutex<Vec<usize>>,
}

impl Wake for CancelsAgain {
    fn wake(self: Arc<Self>) {
        self.token.cancel();
        self.waiting.lock().unwrap().push(self.lock.queue_length());
    }
}

/// Lets so many tasks wait whose wakers cancel the token again, and cancels it. Returns how many
/// requests waited when each of the other calls returned.
fn waiting_after_nested_calls(tasks: usize) -> Vec<usize> {
    let (lock, token) = (FifoLock::new(), CancelToken::new());
    let held = lock.lock("holder").unwrap();
    let again = Arc::new(CancelsAgain {
        token: token.clone(),
        lock: lock.clone(),
        waiting: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&again));
    let mut context = Context::from_waker(&waker);
    let request = |_| Box::pin(lock.request("task").cancel_token(&token).into_future());
    let mut waiting: Vec<_> = (0..tasks).map(request).collect();
    for task in &mut waiting {
        assert!(task.as_mut().poll(&mut context).is_pending());
    }
    token.cancel();
    assert_eq!(lock.queue_length(), 0);
    drop((waiting, held));
    at_rest(&lock);
    again.waiting.lock().unwrap().clone()
}

#[test]
fn async_04_no_request_waits_when_a_nested_cancellation_returns() {
    assert_eq!(waiting_after_nested_calls(3), [0, 0, 0]);
}

/// If each call within another removed a request, the stack would have as many calls as requests.
#[test]
fn async_04_cancellations_within_cancellations_have_a_bounded_depth() {
    assert_eq!(waiting_after_nested_calls(20_000).len(), 20_000);
}

/// Blocks the thread that wakes it.
struct Blocks(Mutex<mpsc::Receiver<()>>, mpsc::Sender<()>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.1.send(()).unwrap();
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn async_04_a_second_cancellation_removes_the_requests_that_the_first_has_not_reached() {
    let (lock, token) = (FifoLock::new(), CancelToken::new());
    let held = lock.lock("holder").unwrap();
    let (go_on, may_go_on) = mpsc::channel();
    let (block, is_blocked) = mpsc::channel();
    let waker = Waker::from(Arc::new(Blocks(Mutex::new(may_go_on), block)));
    let request = || Box::pin(lock.request("task").cancel_token(&token).into_future());
    let mut first = request();
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let others = [(); 2].map(|()| Task::waiting(lock.request("other").cancel_token(&token)));
    thread::scope(|scope| {
        scope.spawn(|| token.cancel());
        is_blocked.recv().unwrap();
        token.cancel();
        assert_eq!(lock.queue_length(), 0);
        assert_eq!(others.each_ref().map(Task::is_woken), [true, true]);
        drop(go_on);
    });
    drop((first, others, held));
    at_rest(&lock);
}

/// Uses the editor in another thread, and notes whether that could.
struct AsksTheEditor(Arc<Editor>, DataStore, mpsc::Sender<bool>);

impl Wake for AsksTheEditor {
    fn wake(self: Arc<Self>) {
        let (done, is_done) = mpsc::channel();
        let this = Arc::clone(&self);
        thread::spawn(move || {
            this.0.selection();
            let is_free = !this.1.is_locked();
            let _ = done.send(is_free);
        });
        let is_free = is_done.recv_timeout(Duration::from_secs(1));
        self.2.send(is_free == Ok(true)).unwrap();
    }
}

#[test]
fn async_04_a_waker_that_a_commit_calls_can_use_the_editor_and_the_lock() {
    let store = DataStore::new();
    let editor = Arc::new(Editor::new(store.clone(), "ann"));
    let nodes = TransactionManager::new(store.clone()).with_node_locks(1);
    let events = store.subscribe();
    let note = || create(text_node("note", "one"));
    let commits: [&dyn Fn(); 5] = [
        &|| drop(editor.execute(note()).unwrap()),
        &|| drop(editor.undo().commit().unwrap()),
        &|| drop(editor.redo().commit().unwrap()),
        &|| drop(nodes.execute(note()).unwrap()),
        &|| {
            let mut transaction = store.begin("bob").unwrap();
            transaction.create(NodeSpec::new("note")).unwrap();
            transaction.commit().unwrap();
        },
    ];
    for (index, commit) in commits.into_iter().enumerate() {
        let (asked, answers) = mpsc::channel();
        let asks = AsksTheEditor(Arc::clone(&editor), store.clone(), asked);
        let waker = Waker::from(Arc::new(asks));
        let mut next = Box::pin(events.recv_async());
        let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        commit();
        assert_eq!(answers.try_recv(), Ok(true), "commit {index}");
        drop(next);
        events.try_iter().for_each(drop);
    }
}

/// Tells when its task is woken.
struct Tells(mpsc::Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn async_04_a_task_at_a_subscription_does_not_sleep_behind_the_code_of_the_next_batch() {
    let store =
        DataStore::with_options(StoreOptions::new().batch_limit(2, Duration::from_secs(60)));
    let manager = TransactionManager::new(store.clone());
    let events = store.subscribe();
    let (woken, is_woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Tells(woken)));
    let mut next = Box::pin(events.recv_async());
    let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let guard = store.lock("holder").unwrap();
    let brief = Task::waiting(manager.transaction(create(text_node("note", "one"))));
    let is_woken = Mutex::new(is_woken);
    let waits_for_the_reader = op(move |_| {
        let woken = is_woken.lock().unwrap();
        assert_eq!(woken.recv_timeout(Duration::from_secs(20)), Ok(()));
        Ok::<(), EditError>(())
    });
    let code = Task::waiting(manager.transaction([waits_for_the_reader]));
    // The keeper runs both, and the first task is not polled meanwhile.
    drop(guard);
    code.finish().unwrap();
    brief.finish().unwrap();
}
