//! Durable documents, in tasks.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use doclock::document::NodeSpec;
use doclock::durable::{Durability, DurabilityError, DurableOptions};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, StoreOptions, TransactionManager, dsl::create};

use crate::common::{Task, eventually};
use crate::store::{next, note};

#[test]
fn async_01_a_version_is_waited_for_in_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let options = DurableOptions::new().durability(Durability::Later);
    let store = DataStore::open_with(folder.path().join("notes.doclock"), options).unwrap();
    let manager = TransactionManager::new(store.clone());
    let version = manager.execute(note()).unwrap().version;
    let durable = Task::new(store.wait_durable(version)).finish();
    assert_eq!(durable, Ok(1));
    let limit = Some(Duration::from_millis(20));
    let never = Task::new(store.wait_durable(2).timeout(limit));
    let error = never.finish().unwrap_err();
    assert!(
        matches!(error, DurabilityError::Timeout { version: 2, .. }),
        "{error}"
    );
    drop(Task::waiting(store.wait_durable(2)));
    let mut closed = Task::waiting(store.wait_durable(2));
    store.close().unwrap();
    assert!(matches!(
        closed.poll(),
        Some(Err(DurabilityError::Closed { .. }))
    ));
    let in_memory = Task::new(DataStore::new().wait_durable(0)).poll();
    assert_eq!(in_memory, Some(Err(DurabilityError::NotDurable)));
}

#[test]
fn async_01_a_batch_of_a_task_is_acknowledged_when_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let store = DataStore::open(folder.path().join("notes.doclock")).unwrap();
    let manager = TransactionManager::new(store.clone());
    let result = Task::new(manager.transaction(note())).finish().unwrap();
    assert_eq!(
        store.durable_snapshot().map(|it| it.version()),
        Some(result.version)
    );
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(NodeSpec::new("note")).unwrap();
    let result = Task::new(transaction.commit_async()).finish().unwrap();
    assert_eq!(
        store.durable_snapshot().map(|it| it.version()),
        Some(result.version)
    );
}

#[test]
fn async_01_a_durable_subscription_wakes_its_task_when_a_commit_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let store = DataStore::open(folder.path().join("notes.doclock")).unwrap();
    let mut events = store.subscription().durable().all();
    let seen = store.clone();
    let reader = async move {
        let event = next(&mut events).await.unwrap();
        assert!(seen.durable_snapshot().map(|it| it.version()) >= Some(event.commit.version));
        drop(seen);
        next(&mut events).await.is_none()
    };
    let reader = Task::waiting(reader);
    TransactionManager::new(store.clone())
        .execute(note())
        .unwrap();
    store.close().unwrap();
    assert!(reader.finish(), "it ends when the store is closed");
}

#[test]
fn async_03_a_batch_that_a_task_left_is_written_without_another_poll() {
    let folder = tempfile::tempdir().unwrap();
    for is_dropped in [false, true] {
        let path = folder.path().join(format!("{is_dropped}.doclock"));
        let store = DataStore::open_with(path, DurableOptions::new().unwritten_limit(0)).unwrap();
        let manager = TransactionManager::new(store.clone());
        let guard = store.lock("holder").unwrap();
        let mut batch = Some(Task::waiting(manager.transaction(note())));
        drop(guard);
        eventually("the keeper runs it", || store.version() == 1);
        batch.take_if(|_| is_dropped);
        // The unwritten commit closes the lock until it is written.
        let limit = AcquireOptions::new().timeout(Duration::from_secs(10));
        drop(store.request("next").options(limit).wait().unwrap());
    }
}

#[test]
fn async_03_the_commits_of_batches_that_the_keeper_runs_take_no_memory_for_ever() {
    let store = DataStore::with_options(StoreOptions::new().log_limit(0));
    let (events, manager) = (store.subscribe(), TransactionManager::new(store.clone()));
    for _ in 0..1_000 {
        let guard = store.lock("holder").unwrap();
        let batch = Task::waiting(manager.transaction(create(NodeSpec::new("note"))));
        drop(guard);
        batch.finish().unwrap();
    }
    let log = store.diagnostics().log;
    assert!(log.bytes < 1 << 20, "{log:?}");
    assert!(events.try_recv().unwrap().missed > 0);
}

#[test]
fn durable_07_the_drop_of_the_last_handle_waits_beside_a_waker_in_the_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.doclock");
    let options = || DurableOptions::new().durability(Durability::Later);
    let store = DataStore::open_with(&path, options()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let events = store.subscribe();
    let (entered, is_entered) = mpsc::channel();
    let (let_go, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let mut next = Box::pin(events.recv_async());
    let waker = Waker::from(Arc::new(Blocks(move || {
        entered.send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
    })));
    assert!(
        next.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let guard = store.lock("holder").unwrap();
    let batch = Task::waiting(manager.transaction(create(NodeSpec::new("note"))));
    drop(guard);
    batch.finish().unwrap();
    is_entered.recv().unwrap();
    // The keeper is in the waker. No other handle is left.
    drop((manager, store));
    let opened = DataStore::open_with(&path, options());
    let_go.send(()).unwrap();
    assert_eq!(opened.unwrap().version(), 1);
}

/// Runs code when its task is woken.
struct Blocks<F>(F);

impl<F: Fn() + Send + Sync> Wake for Blocks<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}
