//! Transactions, batches, histories and subscriptions, in tasks.

use std::sync::{Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use doclock::document::{NodeSpec, Selection};
use doclock::events::Stream;
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, LockError};
use doclock::time::ManualClock;
use doclock::transaction::{Hooks, Operation};
use doclock::{DataStore, Editor, StoreOptions, TransactionManager, View, dsl::*};

use crate::common::{Task, eventually};

pub(crate) fn note() -> Operation {
    create(text_node("note", "one").with_id("note"))
}

#[test]
fn async_02_nothing_of_a_store_happens_before_the_first_poll() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let editor = Editor::new(store.clone(), "ann");
    editor.execute(note()).unwrap();
    let futures = (
        store.request("task").into_future(),
        store.request_transaction("task").into_future(),
        store
            .request_transaction("task")
            .on(Scope::new().write("note"))
            .into_future(),
        manager.transaction(note()).into_future(),
        manager.transaction(note()).idempotent("key").into_future(),
        transaction(&editor, note()).into_future(),
        editor.undo().into_future(),
    );
    drop(futures);
    assert_eq!((store.version(), store.is_locked()), (1, false));
    assert!(
        !manager
            .transaction(note())
            .idempotent("key")
            .commit()
            .is_ok_and(|it| it.repeated)
    );
}

#[test]
fn async_02_a_transaction_of_a_task_commits_or_rolls_back() {
    let store = DataStore::new();
    pollster::block_on(async {
        let mut transaction = store.request_transaction("ann").await.unwrap();
        transaction.create(NodeSpec::new("note")).unwrap();
        drop(transaction);
        assert_eq!(store.version(), 0);
        let mut transaction = store.request_transaction("ann").await.unwrap();
        transaction.create(NodeSpec::new("note")).unwrap();
        let commit = transaction.commit_async();
        assert_eq!(store.version(), 0, "nothing before the first poll");
        assert_eq!(commit.await.unwrap().version, 1);
    });
    assert!(!store.is_locked());
}

#[test]
fn async_03_histories_keys_and_hooks_are_those_of_the_synchronous_methods() {
    let store = DataStore::new();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let hooks = {
        let seen = std::sync::Arc::clone(&seen);
        let hooks = Hooks::new();
        hooks.after(move |result| seen.lock().unwrap().push(result.version));
        hooks
    };
    let editor = std::sync::Arc::new(Editor::new(store.clone(), "ann").with_hooks(hooks));
    let guard = store.lock("holder").unwrap();
    let theirs = std::sync::Arc::clone(&editor);
    let task = async move {
        let edit = || transaction(&theirs, note()).idempotent("edit");
        let first = edit().await?;
        let again = edit().await?;
        assert!(again.repeated && again.version == first.version);
        let plain = AcquireOptions::new;
        theirs.undo().idempotent("undo").options(plain()).await?;
        assert!(
            theirs
                .undo()
                .idempotent("undo")
                .options(plain())
                .await?
                .repeated
        );
        theirs.redo().options(plain()).await?;
        theirs.undo().options(plain()).await?;
        theirs.redo().idempotent("redo").options(plain()).await?;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    };
    let task = Task::waiting(task);
    drop(guard);
    task.finish().unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(store.snapshot().text_of("note").unwrap(), "one");
}

#[test]
fn async_03_a_batch_on_nodes_runs_in_a_task() {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone()).with_node_locks(3);
    manager.execute(note()).unwrap();
    let guard = store
        .node_locks()
        .lock("holder", Scope::new().write("note"))
        .unwrap();
    let batch = Task::waiting(manager.transaction(insert_text(3, "!").on("note")));
    drop(guard);
    assert_eq!(batch.finish().unwrap().version, 2);
    assert!(!store.is_locked());
}

#[test]
fn async_01_tasks_wait_for_a_lossless_subscriber_in_the_line_of_threads() {
    let store =
        DataStore::with_options(StoreOptions::new().lock_timeout(Duration::from_millis(20)));
    let journal = store.subscription().lossless(0).all();
    let manager = TransactionManager::new(store.clone());
    manager.execute(note()).unwrap();
    let late = Task::new(manager.transaction(create(element("list", []))));
    let error = late.finish().unwrap_err().to_string();
    assert!(error.contains("lossless subscriber"), "{error}");
    store.set_lock_timeout(None);
    let first = Task::waiting(store.request("first"));
    let mut second = Task::waiting(store.request("second"));
    drop(first);
    journal.recv().unwrap();
    eventually("the second goes on", || second.is_woken());
    drop(second.poll().unwrap().unwrap());
    assert!(!store.is_locked());
}

/// As at every wait, a task that is not polled holds the lock until its hold limit.
#[test]
fn async_03_a_task_that_is_first_at_a_closed_lock_and_not_polled_is_revoked() {
    let limit = Duration::from_millis(20);
    let store = DataStore::with_options(StoreOptions::new().hold_limit(limit));
    let journal = store.subscription().lossless(0).all();
    let manager = TransactionManager::new(store.clone());
    manager.execute(note()).unwrap();
    let unpolled = Task::waiting(store.request("unpolled"));
    let second = Task::waiting(store.request("second"));
    journal.recv().unwrap();
    drop(second.finish().unwrap());
    drop(unpolled.finish().unwrap());
    assert!(!store.is_locked());
    let revoked = &store.lock_stats().last_revocations[0];
    assert_eq!(revoked.holder.owner_id.as_str(), "unpolled");
}

/// Of 64 threads and 1,000 tasks in one queue, each third may wait for a second only.
#[test]
fn feed_01_threads_and_tasks_at_a_closed_lock_keep_their_order_and_their_timeouts() {
    const THREADS: usize = 64;
    const REQUESTS: usize = THREADS + 1_000;
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock()).lock_timeout(None);
    let store = DataStore::with_options(options);
    let journal = store.subscription().lossless(0).all();
    TransactionManager::new(store.clone())
        .execute(note())
        .unwrap();
    let is_brief = |nth: usize| nth.is_multiple_of(3);
    let request = |nth: usize| {
        let request = store.request(nth.to_string());
        match is_brief(nth) {
            true => request.timeout(Duration::from_secs(1)),
            false => request,
        }
    };
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let mut tasks = Vec::new();
        for nth in 0..REQUESTS {
            // The threads are all over the queue.
            if nth % (REQUESTS / THREADS) == 0 && nth / (REQUESTS / THREADS) < THREADS {
                let (request, order) = (request(nth), &order);
                scope.spawn(move || match request.wait() {
                    Ok(guard) => {
                        assert!(!is_brief(nth), "{nth} has timed out");
                        order.lock().unwrap().push(nth);
                        drop(guard);
                    }
                    Err(error) => assert!(is_brief(nth), "{nth}: {error}"),
                });
            } else {
                tasks.push((nth, Task::waiting(request(nth))));
            }
            eventually("it waits", || store.queue_length() == nth + 1);
        }
        clock.advance(Duration::from_secs(1));
        let patient = (0..REQUESTS).filter(|nth| !is_brief(*nth)).count();
        eventually("the others time out", || store.queue_length() == patient);
        let (brief, patient): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|(nth, _)| is_brief(*nth));
        for (nth, task) in brief {
            let LockError::Timeout(evidence) = task.finish().unwrap_err() else {
                panic!("{nth}");
            };
            assert_eq!(evidence.holder.owner_id.as_str(), "lossless subscriber");
        }
        journal.recv().unwrap();
        for (nth, task) in patient {
            let guard = task.finish().unwrap();
            order.lock().unwrap().push(nth);
            drop(guard);
        }
    });
    let order = order.into_inner().unwrap();
    let expected = (0..REQUESTS).filter(|nth| !is_brief(*nth));
    assert!(order.iter().copied().eq(expected), "{order:?}");
}

pub(crate) fn next<S: Stream + Unpin>(events: &mut S) -> impl Future<Output = Option<S::Item>> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *events).poll_next(context))
}

#[test]
fn async_01_a_subscription_is_a_stream_that_ends_with_its_store() {
    let store = DataStore::new();
    let mut events = store.subscribe();
    let manager = TransactionManager::new(store.clone());
    let reader = async move {
        let mut versions = Vec::new();
        while let Some(event) = next(&mut events).await {
            versions.push(event.commit.version);
        }
        versions
    };
    let mut reader = Task::waiting(reader);
    manager.execute(note()).unwrap();
    assert!(reader.is_woken() && reader.poll().is_none());
    manager.execute(create(element("list", []))).unwrap();
    drop((manager, store));
    assert_eq!(reader.finish(), [1, 2]);
}

#[test]
fn async_02_an_event_is_not_lost_when_its_future_is_dropped() {
    let store = DataStore::new();
    let events = std::sync::Arc::new(store.subscribe());
    let recv = || {
        let events = std::sync::Arc::clone(&events);
        async move { events.recv_async().await.unwrap().commit.version }
    };
    let dropped = Task::waiting(recv());
    let mut other = Task::waiting(recv());
    TransactionManager::new(store.clone())
        .execute(note())
        .unwrap();
    assert!(dropped.is_woken() && other.is_woken());
    drop(dropped);
    assert_eq!(other.poll(), Some(1));
}

#[test]
fn async_01_a_held_lock_is_released_by_its_id_from_any_task() {
    let store = DataStore::new();
    pollster::block_on(async {
        let id = store.request("ann").await.unwrap().into_id();
        let mut transaction = store.begin_under(id).unwrap();
        transaction.create(NodeSpec::new("note")).unwrap();
        transaction.commit_async().await.unwrap();
        store.release_lock(id).unwrap();
        let limit = AcquireOptions::new().timeout(Duration::from_millis(5));
        let _guard = store.request("ann").await.unwrap();
        let again = store.request("ann").options(limit).await;
        assert!(
            matches!(again, Err(LockError::Timeout(_))),
            "a task is not recognized"
        );
    });
}

#[test]
fn async_02_a_dropped_wait_for_an_event_leaves_no_waker() {
    let store = DataStore::new();
    let events = store.subscribe();
    let woken = std::sync::Arc::new(crate::common::Count::default());
    let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
    let wakers = || std::sync::Arc::strong_count(&woken) - 2;
    // Two waits of one task.
    let [mut dropped, mut other] = [(); 2].map(|()| Box::pin(events.recv_async()));
    for wait in [&mut dropped, &mut other] {
        let mut context = std::task::Context::from_waker(&waker);
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(wakers(), 2);
    drop(dropped);
    assert_eq!(wakers(), 1);
    TransactionManager::new(store).execute(note()).unwrap();
    assert_eq!((woken.get(), wakers()), (1, 0), "the other wait is woken");
    drop(other);
}

/// Polls the tasks whenever they are woken, for a time. Returns the number of polls.
fn polls<T>(tasks: &mut [(Task<T>, usize)], time: Duration) -> usize {
    let began = std::time::Instant::now();
    let mut polls = 0;
    while began.elapsed() < time {
        for (task, seen) in &mut *tasks {
            if std::mem::replace(seen, task.woken()) != task.woken() {
                assert!(task.poll().is_none(), "the lock is closed");
                polls += 1;
            }
        }
        std::thread::yield_now();
    }
    polls
}

#[test]
fn async_03_tasks_that_wait_for_a_lossless_subscriber_for_long_are_not_polled_in_turns() {
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let journal = store.subscription().lossless(0).all();
    let manager = TransactionManager::new(store.clone());
    let batch = || {
        manager
            .transaction(create(element("list", [])))
            .into_future()
    };
    manager.execute(note()).unwrap();
    let mut tasks: Vec<_> = (0..3).map(|_| (Task::waiting(batch()), 0)).collect();
    polls(&mut tasks, Duration::from_millis(500));
    journal.recv().unwrap();
    let (first, _) = tasks.remove(0);
    // Its commit closes the lock again.
    assert_eq!(first.finish().unwrap().version, 2);
    let polls = polls(&mut tasks, Duration::from_millis(500));
    assert!(polls < 10, "{polls} polls");
    for ((task, _), version) in tasks.into_iter().zip(3..) {
        journal.recv().unwrap();
        assert_eq!(task.finish().unwrap().version, version, "in FIFO order");
    }
}

/// An operation that tells that it runs, and then waits.
fn pause() -> (Operation, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (entered, has_entered) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let goes_on = Mutex::new(goes_on);
    let pause = op(move |_| -> Result<(), mpsc::RecvError> {
        entered.send(()).unwrap();
        goes_on.lock().unwrap().recv()
    });
    (pause, has_entered, go_on)
}

/// Another thread runs the batch while the future and then the editor are dropped.
#[test]
fn a_batch_that_outlasts_its_editor_is_read_by_another_one() {
    for was_used in [false, true] {
        let options = StoreOptions::new().batch_limit(usize::MAX, Duration::MAX);
        let store = DataStore::with_options(options);
        let manager = TransactionManager::new(store.clone());
        manager.execute(note()).unwrap();
        let bob = Editor::new(store.clone(), "bob");
        bob.select(Selection::caret("note", 3)).unwrap();
        let ann = Editor::new(store.clone(), "ann");
        if was_used {
            assert_eq!(ann.selection(), None);
        }
        let (first, has_entered, go_on) = pause();
        let combiner = thread::spawn(move || manager.execute(first).unwrap());
        has_entered.recv().unwrap();

        let (second, is_run, end) = pause();
        let batch = [second, insert_text(0, "ab").on("note")];
        let any_thread = AcquireOptions::new().any_thread();
        let transaction = ann.transaction(batch).options(any_thread);
        let mut future = Box::pin(transaction.into_future());
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        go_on.send(()).unwrap();
        is_run.recv().unwrap();
        drop(future);
        drop(ann);
        end.send(()).unwrap();
        combiner.join().unwrap();

        let caret = Selection::caret("note", 5);
        assert_eq!(bob.selection(), Some(caret), "was used: {was_used}");
        assert_eq!(store.diagnostics().log.session_count, 1);
    }
}
