//! Executors: tokio with one thread and with many, and smol.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, FifoLock};
use doclock::{DataStore, Editor, TransactionManager, View, dsl::*};

use crate::common::at_rest;

const TASKS: usize = 50;
const ROUNDS: usize = 40;

/// Locks, waits with the guard for others, counts, and releases.
async fn count(lock: FifoLock, counter: Arc<AtomicUsize>, pause: impl AsyncFn()) {
    for _ in 0..ROUNDS {
        let guard = lock.request("task").await.unwrap();
        let before = counter.load(Ordering::Relaxed);
        pause().await;
        counter.store(before + 1, Ordering::Relaxed);
        drop(guard);
    }
}

/// Appends to one text.
async fn append(manager: TransactionManager) {
    for _ in 0..ROUNDS {
        manager
            .transaction(insert_text(0, "x").on("note"))
            .await
            .unwrap();
    }
}

fn store() -> TransactionManager {
    let manager = TransactionManager::new(DataStore::new());
    manager
        .execute(create(text_node("note", "").with_id("note")))
        .unwrap();
    manager
}

fn check(lock: &FifoLock, counter: &AtomicUsize, manager: &TransactionManager) {
    at_rest(lock);
    assert_eq!(counter.load(Ordering::Relaxed), TASKS * ROUNDS);
    let snapshot = manager.store().snapshot();
    assert_eq!(snapshot.text_of("note").unwrap().len(), TASKS * ROUNDS);
    assert_eq!(snapshot.version(), (TASKS * ROUNDS) as u64 + 1);
}

fn on_tokio(runtime: tokio::runtime::Runtime) {
    let (lock, counter, manager) = (FifoLock::new(), Arc::default(), store());
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..TASKS {
            let pause = async || tokio::task::yield_now().await;
            tasks.spawn(count(lock.clone(), Arc::clone(&counter), pause));
            tasks.spawn(append(manager.clone()));
        }
        let all = tasks.join_all();
        tokio::time::timeout(Duration::from_secs(60), all)
            .await
            .expect("no task hangs");
    });
    check(&lock, &counter, &manager);
}

#[test]
fn async_04_works_on_the_current_thread_of_tokio() {
    on_tokio(
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap(),
    );
}

#[test]
fn async_04_works_on_many_threads_of_tokio() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    on_tokio(builder.worker_threads(4).enable_time().build().unwrap());
}

#[test]
fn async_04_works_on_smol() {
    let (lock, counter, manager) = (FifoLock::new(), Arc::default(), store());
    let executor = smol::Executor::new();
    smol::block_on(executor.run(async {
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            let pause = async || smol::future::yield_now().await;
            tasks.push(executor.spawn(count(lock.clone(), Arc::clone(&counter), pause)));
            tasks.push(executor.spawn(append(manager.clone())));
        }
        for task in tasks {
            task.await;
        }
    }));
    check(&lock, &counter, &manager);
}

/// Compiles only if a thread pool takes the future.
fn spawnable<F: IntoFuture<IntoFuture: Send + 'static>>(future: F) {
    drop(future);
}

#[test]
fn async_04_every_future_can_be_spawned_on_a_thread_pool() {
    let lock = FifoLock::new();
    let options = AcquireOptions::new;
    spawnable(lock.request(String::from("ann")).options(options()));
    let store = DataStore::new();
    spawnable(store.request(String::from("ann")));
    spawnable(store.request_transaction(String::from("ann")));
    spawnable(
        store
            .request_transaction(String::from("ann"))
            .on(Scope::new().write("note")),
    );
    spawnable(store.wait_durable(1));
    let transaction = store.begin("ann").unwrap();
    spawnable(transaction.commit_async());
    let (nodes, events) = (store.node_locks(), store.subscribe());
    spawnable(nodes.request(String::from("ann"), Scope::new().write("note")));
    spawnable(async move {
        let mut guard = nodes.request("ann", Scope::new().write("note")).await?;
        guard.request_more(Scope::new().write("list")).await
    });
    spawnable(async move { events.recv_async().await });
    let manager = TransactionManager::new(store.clone());
    spawnable(manager.transaction(create(element("note", []))));
    spawnable(
        manager
            .transaction(create(element("note", [])))
            .idempotent("key")
            .options(options()),
    );
    let editor = Arc::new(Editor::new(store, "ann"));
    let theirs = Arc::clone(&editor);
    spawnable(async move { theirs.transaction(create(element("note", []))).await });
    let theirs = Arc::clone(&editor);
    spawnable(async move { theirs.undo().await });
    spawnable(async move {
        let note = create(element("note", []));
        doclock::dsl::transaction(&editor, note).await
    });
    let keyed = KeyedLock::<String, u32>::new();
    let theirs = keyed.clone();
    spawnable(async move {
        let key = String::from("key");
        theirs
            .request(&key, "ann")
            .await?
            .execute_async(async { 1 })
            .await
    });
    let reserved = keyed.reserve("key").unwrap();
    spawnable(reserved.execute_async(async { 1 }));
    let borrowed = KeyedLock::<&'static str, u32>::new();
    spawnable(async move {
        let turn = borrowed.request(&"key", "ann").await?;
        turn.execute_async(async { 1 }).await
    });
    let theirs = keyed.clone();
    spawnable(async move { theirs.request_drain("ann").await });
    let reserved = keyed.reserve("key").unwrap();
    let joined = keyed.current_execution("key").unwrap();
    spawnable(joined.request_result().into_future());
    drop(reserved);
    let limiter = InFlightLimiter::<String>::new(1);
    spawnable(limiter.request(String::from("mail")).into_future());
    spawnable(async move {
        let permit = limiter.request(String::from("mail")).await;
        permit.map(drop)
    });
}
