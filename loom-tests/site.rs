//! A store with operation batches on their way to it, and a record of the executing threads.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use doclock::{
    DataStore, LockId, StoreOptions, TransactionManager, View,
    document::NodeSpec,
    dsl::{create, op},
    lock::{AcquireOptions, LockError, LockStats},
    transaction::{Operation, TransactionError, TransactionResult},
};
use loom::thread::{self, JoinHandle, ThreadId};

use crate::model::{Actor, Run};

/// A duration that does not pass while a model is explored.
pub(crate) const AGES: Duration = Duration::from_secs(1_000_000);

pub(crate) type Outcome = Result<TransactionResult, TransactionError>;

#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) store: DataStore,
    run: Run,
    log: Arc<Mutex<Log>>,
}

/// Not loom's: it only records, and must not add to the interleavings.
#[derive(Default)]
struct Log {
    /// The name of each thread's request.
    threads: Vec<(ThreadId, &'static str)>,
    turns: Vec<Turn>,
}

/// A batch that was executed, or a guard that was held.
#[derive(Clone, Copy)]
struct Turn {
    name: &'static str,
    /// `None` if it was revoked before it was executed.
    lock: Option<LockId>,
    /// The name of the executing thread.
    by: &'static str,
}

impl Log {
    /// Names the calling thread after its request.
    fn asks(&mut self, name: &'static str) {
        self.threads.push((thread::current().id(), name));
    }

    fn note(&mut self, name: &'static str, lock: Option<LockId>) {
        let own = thread::current().id();
        let mut threads = self.threads.iter();
        let (_, by) = threads.find(|(thread, _)| *thread == own).unwrap();
        self.turns.push(Turn { name, lock, by });
    }
}

impl Site {
    pub(crate) fn new(run: &Run, options: StoreOptions) -> Self {
        let store = DataStore::with_options(options.lock_timeout(None));
        let (run, log) = (run.clone(), Arc::default());
        Self { store, run, log }
    }

    /// Returns an operation that creates a node of this name.
    pub(crate) fn operation(&self, name: &'static str) -> Operation {
        let (store, log) = (self.store.clone(), self.log.clone());
        op(move |draft| {
            let own = store
                .current_lock()
                .filter(|it| it.owner_id.as_str() == name);
            log.lock().unwrap().note(name, own.map(|it| it.lock_id));
            let spec = NodeSpec::new("text").with_id(name);
            draft.create(spec).map(drop)
        })
    }

    pub(crate) fn submit(&self, name: &'static str, options: AcquireOptions) -> Outcome {
        self.submit_list(name, options, [self.operation(name)])
    }

    pub(crate) fn submit_list<const N: usize>(
        &self,
        name: &'static str,
        options: AcquireOptions,
        operations: [Operation; N],
    ) -> Outcome {
        self.log().asks(name);
        let manager = TransactionManager::for_owner(self.store.clone(), name);
        // The operations are code, which only records.
        manager
            .transaction(operations)
            .options(options.any_thread())
            .commit()
    }

    /// Runs code in a thread of its own.
    pub(crate) fn spawn<T: 'static>(
        &self,
        code: impl FnOnce(&Self) -> T + 'static,
    ) -> JoinHandle<T> {
        let site = self.clone();
        thread::spawn(move || code(&site))
    }

    /// Runs an actor of the model.
    pub(crate) fn act<T: 'static>(
        &self,
        actor: &'static str,
        code: impl FnOnce(&Self) -> T + 'static,
    ) -> Actor<T> {
        let site = self.clone();
        self.run.spawn(actor, move || code(&site))
    }

    pub(crate) fn spawn_list(
        &self,
        name: &'static str,
        options: AcquireOptions,
    ) -> JoinHandle<Outcome> {
        self.spawn(move |site| site.submit(name, options))
    }

    /// Submits a batch that runs no code, and whose wait has a timeout.
    pub(crate) fn spawn_brief(&self, name: &'static str, limit: Duration) -> JoinHandle<Outcome> {
        self.spawn(move |site| {
            let options = AcquireOptions::new().timeout(limit);
            site.submit_list(name, options, [create(NodeSpec::new("text").with_id(name))])
        })
    }

    /// Holds the lock and checks that nothing happens meanwhile.
    pub(crate) fn hold(&self, name: &'static str, options: AcquireOptions) {
        self.try_hold(name, options).unwrap();
    }

    /// Holds as [`Site::hold`] does, if the lock is granted.
    pub(crate) fn try_hold(
        &self,
        name: &'static str,
        options: AcquireOptions,
    ) -> Result<(), LockError> {
        self.log().asks(name);
        let guard = self.store.request(name).options(options).wait()?;
        self.log().note(name, Some(guard.id()));
        let before = (self.store.version(), self.turns());
        thread::yield_now();
        assert_eq!((self.store.version(), self.turns()), before);
        drop(guard);
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// Returns the turns in order, each with its executing thread.
    pub(crate) fn turns(&self) -> Vec<(&'static str, &'static str)> {
        let log = self.log();
        log.turns.iter().map(|turn| (turn.name, turn.by)).collect()
    }

    /// Returns the thread that executed a batch, if it was executed.
    pub(crate) fn executor(&self, name: &'static str) -> Option<&'static str> {
        let turn = self.turns().into_iter().find(|(named, _)| *named == name);
        turn.map(|(_, by)| by)
    }

    /// Returns the number of a request that had its turn; later ones are higher.
    pub(crate) fn asked(&self, name: &str) -> Option<LockId> {
        let log = self.log();
        let turn = log.turns.iter().find(|turn| turn.name == name);
        turn.and_then(|turn| turn.lock)
    }

    /// Checks that ids are numbered in FIFO order.
    pub(crate) fn are_in_fifo_order(&self) {
        let ids: Vec<_> = self
            .log()
            .turns
            .iter()
            .filter_map(|turn| turn.lock)
            .collect();
        assert!(ids.is_sorted(), "{ids:?}");
    }

    /// Checks that successful batches were executed once, one after the other, with one version
    /// each, and that nothing is left of the others. The lock is free, no request waits, and every
    /// grant ended.
    pub(crate) fn at_rest(&self, outcomes: &[(&'static str, &Outcome)]) -> LockStats {
        let document = self.store.snapshot();
        let mut versions = Vec::new();
        let turns = self.turns();
        for &(name, _) in &turns {
            let outcome = outcomes.iter().find(|(listed, _)| *listed == name);
            if let Some((_, Ok(result))) = outcome {
                versions.push(result.version);
            }
        }
        assert!(versions.iter().copied().eq(1..=document.version()));
        for (name, outcome) in outcomes {
            assert_eq!(document.contains(*name), outcome.is_ok(), "{name}");
            let times = turns.iter().filter(|(named, _)| named == name).count();
            assert!(times == 1 || (times == 0 && outcome.is_err()), "{name}");
        }
        let stats = self.store.lock_stats();
        at_rest(&stats);
        stats
    }
}

/// Checks that the lock is free, no request waits, and every grant ended.
pub(crate) fn at_rest(stats: &LockStats) {
    assert_eq!((stats.is_locked, stats.queue_length), (false, 0));
    let ended = stats.total_releases + stats.total_revocations;
    assert_eq!(stats.total_acquisitions, ended);
}
