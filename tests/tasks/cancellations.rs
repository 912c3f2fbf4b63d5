//! Random cancellations: futures are dropped at random moments, and nothing is stranded.
//!
//! `DOCLOCK_CANCELLATIONS` sets their number for each executor, and `SEED` the cases.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use doclock::document::NodeSpec;
use doclock::lock::FifoLock;
use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::node::Scope;
use doclock::{DataStore, TransactionManager, View, dsl::*};

use crate::common::at_rest;

/// Xorshift: the cases of a seed are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Everything that a task can wait for.
#[derive(Clone)]
struct Subjects {
    lock: FifoLock,
    store: DataStore,
    manager: TransactionManager,
    keyed: KeyedLock<u64, ()>,
    limiter: InFlightLimiter<u64>,
    cancelled: Arc<AtomicU64>,
    committed: Arc<AtomicU64>,
}

impl Subjects {
    fn new() -> Self {
        let store = DataStore::new();
        let mut transaction = store.begin("setup").unwrap();
        for id in ["one", "two"] {
            transaction
                .create(NodeSpec::new("note").with_id(id))
                .unwrap();
        }
        transaction.commit().unwrap();
        Self {
            lock: FifoLock::new(),
            manager: TransactionManager::new(store.clone()),
            store,
            keyed: KeyedLock::new(),
            limiter: InFlightLimiter::new(2),
            cancelled: Arc::default(),
            committed: Arc::default(),
        }
    }

    /// Polls a future a few times and drops it, or to its end. Returns its result.
    async fn maybe<T>(&self, polls: u64, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut left = polls;
        let result = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                // Until it is woken, and sometimes not so long.
                if left.is_multiple_of(2) {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        });
        let result = result.await;
        if result.is_none() {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// One request of each kind in turn, dropped after some polls. A request that is not dropped
    /// holds what it got for some polls of others.
    async fn run(self, seed: u64, rounds: u64, pause: impl AsyncFn()) {
        let mut random = Random(seed | 1);
        for _ in 0..rounds {
            let polls = [0, 0, 1, 2, 3, 1_000_000][random.below(6) as usize];
            let scope = Scope::new().write(["one", "two"][random.below(2) as usize]);
            let holds = random.below(3) == 0;
            match random.below(7) {
                0 => {
                    let guard = self
                        .maybe(polls, self.lock.request("task").into_future())
                        .await;
                    if holds && guard.is_some() {
                        pause().await;
                    }
                }
                1 => {
                    let guard = self
                        .maybe(polls, self.lock.request("task").into_future())
                        .await;
                    if let Some(guard) = guard {
                        self.lock.release_lock(guard.unwrap().into_id()).unwrap();
                    }
                }
                2 => {
                    let transaction = self
                        .maybe(polls, self.store.request_transaction("task").into_future())
                        .await;
                    if holds && transaction.is_some() {
                        pause().await;
                    }
                }
                3 => {
                    let batch = self
                        .manager
                        .transaction(insert_text(0, "x").on("one"))
                        .into_future();
                    if let Some(result) = self.maybe(polls, batch).await {
                        result.unwrap();
                        self.committed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                4 => {
                    let nodes = self.store.node_locks();
                    let guard = self
                        .maybe(polls, nodes.request("task", scope).into_future())
                        .await;
                    if holds && guard.is_some() {
                        pause().await;
                    }
                }
                5 => {
                    let key = random.below(2);
                    let work = async {
                        if holds {
                            pause().await;
                        }
                    };
                    let turn = self.keyed.request(&key, "task");
                    let run = async { turn.await?.execute_async(work).await };
                    self.maybe(polls, run).await;
                }
                _ => {
                    let permit = self.limiter.request(random.below(2)).into_future();
                    let permit = self.maybe(polls, permit).await;
                    if holds && permit.is_some() {
                        pause().await;
                    }
                }
            }
        }
    }

    fn check(&self) {
        // A batch whose future was dropped may still be running.
        crate::common::eventually("the last batches end", || !self.store.is_locked());
        at_rest(&self.lock);
        assert_eq!(self.store.queue_length(), 0);
        assert!(self.store.node_locks().holders().is_empty());
        assert!(self.store.node_locks().waiters().is_empty());
        assert_eq!(self.keyed.active_keys_count(), 0);
        let calls = self.limiter.snapshot();
        assert_eq!((calls.in_flight, calls.queued), (0, 0));
        let text = self.store.snapshot().text_of("one").unwrap().len() as u64;
        let acknowledged = self.committed.load(Ordering::Relaxed);
        assert_eq!(text + 1, self.store.version());
        assert!(text >= acknowledged, "{text} {acknowledged}");
        let dropped = self.cancelled.load(Ordering::Relaxed);
        assert!(
            dropped >= setting("DOCLOCK_CANCELLATIONS", 2_000),
            "{dropped}"
        );
    }
}

const TASKS: u64 = 16;

fn rounds() -> (u64, u64) {
    let seed = setting("SEED", u64::from(std::process::id()));
    println!("SEED={seed}");
    // About a quarter of the requests is dropped while it waits; more than a fifth.
    (seed, setting("DOCLOCK_CANCELLATIONS", 2_000) * 5 / TASKS)
}

fn on_tokio(runtime: tokio::runtime::Runtime) {
    let (seed, rounds) = rounds();
    let subjects = Subjects::new();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let pause = async || tokio::task::yield_now().await;
            let seed = seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(task * 2);
            tasks.spawn(subjects.clone().run(seed, rounds, pause));
        }
        let limit = Duration::from_secs(60 + rounds / 100);
        tokio::time::timeout(limit, tasks.join_all())
            .await
            .expect("no task hangs");
    });
    println!(
        "{} futures dropped",
        subjects.cancelled.load(Ordering::Relaxed)
    );
    subjects.check();
}

#[test]
fn async_02_random_cancellations_strand_nothing_on_the_current_thread_of_tokio() {
    on_tokio(
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap(),
    );
}

#[test]
fn async_02_random_cancellations_strand_nothing_on_many_threads_of_tokio() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    on_tokio(builder.worker_threads(4).enable_time().build().unwrap());
}

#[test]
fn async_02_random_cancellations_strand_nothing_on_smol() {
    let (seed, rounds) = rounds();
    let subjects = Subjects::new();
    let executor = Arc::new(smol::Executor::new());
    let (end, ended) = smol::channel::unbounded::<()>();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            let (executor, ended) = (Arc::clone(&executor), ended.clone());
            threads.spawn(move || {
                let _ = smol::block_on(executor.run(ended.recv()));
            });
        }
        smol::block_on(async {
            let mut tasks = Vec::new();
            for task in 0..TASKS {
                let pause = async || smol::future::yield_now().await;
                let seed = seed
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .wrapping_add(task * 2);
                tasks.push(executor.spawn(subjects.clone().run(seed, rounds, pause)));
            }
            for task in tasks {
                task.await;
            }
        });
        drop(end);
    });
    println!(
        "{} futures dropped",
        subjects.cancelled.load(Ordering::Relaxed)
    );
    subjects.check();
}
