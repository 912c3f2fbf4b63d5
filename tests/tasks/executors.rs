//! Executors: tokio with one thread and with many, and smol.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doclock::lock::FifoLock;
use doclock::{DataStore, TransactionManager, View, dsl::*};

use crate::common::at_rest;

const TASKS: usize = 50;
const ROUNDS: usize = 40;

/// Locks, waits with the guard for others, counts, and releases.
async fn count(lock: FifoLock, counter: Arc<AtomicUsize>, pause: impl AsyncFn()) {
    for _ in 0..ROUNDS {
        let guard = lock.lock_async("task").await.unwrap();
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
            .execute_async(insert_text(0, "x").on("note"))
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
