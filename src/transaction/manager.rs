//! Runs operation batches, each as one transaction.

mod execution;
mod published;
mod submission;

use std::panic::Location;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use super::idempotency::IdempotentBatch;
use super::{
    Hooks, IntoOperations, PendingTransaction, TransactionError, TransactionResult, limits,
};
use crate::document::{LimitExceeded, Limits};
use crate::id::{LockId, OwnerId};
use crate::lock::{AcquireOptions, WaiterKind, blocking};
use crate::store::durable::Durability;
use crate::store::{CommitError, DataStore, ObservedTransaction, TransactionKind};
use execution::{BatchOutcome, observe_end};
pub use published::Published;
use submission::first;
pub(super) use submission::{Completion, Submission};

/// Runs operation batches on a store.
///
/// ```
/// use doclock::{DataStore, TransactionManager, dsl::*};
///
/// let manager = TransactionManager::new(DataStore::new());
/// let result = manager.execute([create(text_node("inline-text", "Hello"))])?;
/// assert_eq!((result.version, result.operations.len()), (1, 1));
///
/// let error = manager.execute([insert_text(9, "!").on("nowhere")]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (insertText on node nowhere): node nowhere does not exist",
/// );
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransactionManager(Arc<CachePadded<Manager>>);

/// Behind a pointer of its own, so a queued batch is small. The padding separates it from the
/// reference count, which each batch changes while other threads read.
#[derive(Clone, Debug)]
struct Manager {
    store: DataStore,
    owner: OwnerId,
    /// `None` if no hooks were given: managers without hooks pay nothing.
    hooks: Option<Hooks>,
    /// How often a batch is tried in all if it locks only nodes; `None` if it locks the document.
    attempts_on_nodes: Option<u32>,
    limits: Option<Limits>,
    /// `None` for that of the store.
    durability: Option<Durability>,
}

impl TransactionManager {
    /// Creates a manager with the owner `transaction-execution`.
    pub fn new(store: DataStore) -> Self {
        Self::for_owner(store, "transaction-execution")
    }

    /// Creates a manager with the given owner.
    pub fn for_owner(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self(Arc::new(CachePadded::new(Manager {
            store,
            owner: owner.into(),
            hooks: None,
            attempts_on_nodes: None,
            limits: None,
            durability: None,
        })))
    }

    /// Replaces the hooks of the manager.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        Arc::make_mut(&mut self.0).hooks = Some(hooks);
        self
    }

    /// Sets limits for the resources that each batch may use. Use it for operations of untrusted
    /// clients.
    ///
    /// The size of a batch is checked before the lock is requested. The size of its effects on the
    /// document, including copies, is checked before each change. The limits also apply to the
    /// changes that hooks and the code of [`op`](crate::dsl::op) make.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, document::Limits, dsl::*};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let for_clients = manager.clone().with_limits(Limits::new());
    /// manager.execute([create(text_node("paragraph", "x").with_id("p"))])?;
    /// // Twice as much text with each operation, forty times.
    /// let twice = [copy_range(..).on("p"), paste(0).on("p")];
    /// let error = for_clients.execute((0..40).flat_map(|_| twice.clone()).collect::<Vec<_>>());
    /// assert!(error.unwrap_err().to_string().ends_with("the limit `text` is 1048576"));
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        Arc::make_mut(&mut self.0).limits = Some(limits);
        self
    }

    /// Sets when a commit returns in a [durable](crate::durable) store. The default is that of the
    /// store.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let manager = TransactionManager::new(store.clone()).with_durability(Durability::Later);
    /// let result = manager.execute([create(text_node("paragraph", "Hello"))])?;
    /// assert_eq!(store.wait_durable(result.version).wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        Arc::make_mut(&mut self.0).durability = Some(durability);
        self
    }

    /// Makes the manager lock nodes: each batch locks the nodes that it changes and reads instead
    /// of the whole document, so batches on different nodes run at the same time.
    ///
    /// A batch runs without a lock first. Then one request locks everything that it has changed or
    /// read, so batches cannot deadlock on these nodes. If another commit came between, the batch
    /// runs again with its locks held. Code of users runs with locks only, and nodes that it
    /// changes are locked when it changes them. The commit validates what it only reads: see
    /// [`Transaction`](crate::Transaction), "On nodes". A batch that fails with an error whose
    /// verdict is [`Now`](crate::codes::Retry::Now) is retried from its start, `attempts` times in
    /// all; its code and before-hooks run again each time. The thread that submits a batch runs it.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*};
    ///
    /// let manager = TransactionManager::new(DataStore::new()).with_node_locks(3);
    /// manager.execute([create(text_node("paragraph", "Hello").with_id("p"))])?;
    /// manager.execute([insert_text(5, "!").on("p")])?;
    /// assert_eq!(manager.store().node_locks().stats().total_acquisitions, 2);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    #[must_use]
    pub fn with_node_locks(mut self, attempts: u32) -> Self {
        Arc::make_mut(&mut self.0).attempts_on_nodes = Some(attempts.max(1));
        self
    }

    /// How often a transaction is tried in all, if it locks only nodes.
    pub(super) fn attempts_on_nodes(&self) -> Option<u32> {
        self.0.attempts_on_nodes
    }

    /// Returns the store.
    pub fn store(&self) -> &DataStore {
        &self.0.store
    }

    /// Returns the owner of the transactions.
    pub fn owner(&self) -> &OwnerId {
        &self.0.owner
    }

    /// Waits for the lock, runs the operations in the order given, and commits.
    ///
    /// A batch has all of its effects or none. If an operation fails or panics, everything is
    /// rolled back, the lock is released, and the error names the operation. A batch without
    /// operations succeeds without waiting and makes no version.
    ///
    /// # Which thread runs a batch
    ///
    /// If the lock is free, the calling thread runs the batch. Otherwise the batch joins the queue.
    /// At the head of the queue, it may be run by the combiner: a thread inside `execute` or
    /// `commit` that has finished its own batch. It runs each batch in a separate transaction.
    /// Meanwhile the calling thread waits for the result. A thread that is awake gets it at once; a
    /// sleeping thread gets it within half a millisecond plus the batch that runs at that time,
    /// apart from scheduling delays. In turn the calling thread may run a [limited
    /// number](crate::StoreOptions::batch_limit) of batches of other threads before it returns. The
    /// option [`without_combining`](AcquireOptions::without_combining) of a
    /// [`transaction`](Self::transaction) disables this.
    ///
    /// In a task, the call blocks the thread of the executor while it waits and combines, see
    /// [`DataStore`](crate::DataStore#blocking). A [`transaction`](Self::transaction) that is
    /// awaited does not.
    ///
    /// Other threads run only batches that are pure data. A batch with an [`op`](crate::dsl::op),
    /// or of a manager with before-hooks, runs in the calling thread, unless the options of a
    /// [`transaction`](Self::transaction) allow [any thread](AcquireOptions::any_thread).
    /// After-hooks always run in the calling thread.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    #[track_caller]
    #[inline]
    pub fn execute(
        &self,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let (options, call_site) = (AcquireOptions::new(), Location::caller());
        self.run(&mut Submission::new(operations), &options, call_site, None)
    }

    /// Returns a transaction of the operations that has not begun, to set its options. Nothing
    /// happens before [`commit`](PendingTransaction::commit) or `.await`.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let note = || create(text_node("paragraph", "Hello"));
    /// assert_eq!(manager.transaction(note()).label("note").commit()?.version, 1);
    /// # pollster::block_on(async {
    /// assert_eq!(manager.transaction(note()).await?.version, 2);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// # })?;
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    #[track_caller]
    pub fn transaction(&self, operations: impl IntoOperations) -> PendingTransaction<'static> {
        PendingTransaction::of_manager(self.clone(), Submission::new(operations))
    }

    /// Runs a batch as [`execute`](Self::execute) does, under a lock that is held by id and stays
    /// held. After-hooks run at the end of the transaction, while the lock is still held.
    ///
    /// The owner of the transaction is the owner of the lock. The batch takes no idempotency key,
    /// is in no history of an [`Editor`](crate::Editor), and uses neither the selection nor the
    /// clipboard of one. Never waits for the lock.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then. If the id is not the holder's, it has the
    /// [`JoinError`](crate::lock::JoinError) of [`DataStore::begin_under`].
    pub fn execute_under(
        &self,
        lock: LockId,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let operations = operations.into_operations();
        if let Some(limits) = &self.0.limits {
            limits::check(limits, &operations)?;
        }
        let transaction = self.0.store.begin_under_as(TransactionKind::Batch, lock)?;
        if first(&operations).is_none() {
            return Ok(transaction.commit()?);
        }
        let mut submission = Submission::new(operations);
        if let Some(hooks) = &self.0.hooks {
            submission.before = hooks.of_submission();
        }
        let (owner, mut hold, (held, mut draft)) = transaction.into_parts();
        let mut observed = hold.take_observed();
        let outcome = match self.edit(&owner, &mut draft, &mut submission, &observed) {
            Ok(()) => self.publish(&owner, (held, &mut draft), &submission, None),
            Err(error) => Err(error),
        };
        observe_end(&mut observed, &outcome);
        drop((draft, hold));
        match self.is_complete(&outcome, Completion::Here(None)) {
            true => outcome,
            false => blocking(self.rest(
                WaiterKind::Thread,
                outcome,
                Completion::Here(None),
                observed,
            )),
        }
    }

    /// Checks an idempotency key of a client against the limits.
    pub(super) fn check_key(&self, once: &IdempotentBatch) -> Result<(), LimitExceeded> {
        let limits = self.0.limits.as_ref();
        limits.map_or(Ok(()), |limits| limits::check_key(limits, once))
    }

    /// Whether nothing is left to do for the outcome of a batch that has run.
    #[inline]
    fn is_complete(&self, outcome: &BatchOutcome, completion: Completion) -> bool {
        let Manager {
            store,
            hooks,
            durability,
            ..
        } = &**self.0;
        match completion {
            _ if outcome.is_err() => true,
            Completion::Here(own) => {
                hooks.is_none() && store.acknowledges_unwritten(own.or(*durability))
            }
            Completion::Later => false,
        }
    }

    /// Waits until the commit may be acknowledged, then runs the after-hooks. Called in the thread
    /// or task of the submitter.
    pub(super) async fn complete<E: From<CommitError>>(
        &self,
        waits_as: WaiterKind,
        outcome: &mut Result<TransactionResult, E>,
        completion: Completion,
        observed: &mut ObservedTransaction,
    ) {
        let Ok(result) = outcome else {
            return;
        };
        let manager = &**self.0;
        let acknowledged = match completion {
            Completion::Here(durability) => {
                let durability = durability.or(manager.durability);
                let acknowledged = manager.store.acknowledge_as(waits_as, result, durability);
                acknowledged.await
            }
            Completion::Later => {
                manager.store.wake_writer();
                Ok(())
            }
        };
        match observed.acknowledge(acknowledged) {
            Ok(()) if result.repeated || matches!(completion, Completion::Later) => {}
            Ok(()) => self.follow(result, observed),
            Err(unknown) => *outcome = Err(unknown.into()),
        }
    }

    /// Runs the after-hooks on a result.
    fn follow(&self, result: &mut TransactionResult, observed: &ObservedTransaction) {
        if let Some(hooks) = &self.0.hooks {
            result.hook_failures = observed.in_span(|| hooks.run_after(result));
        }
    }

    fn nothing_done(&self) -> TransactionResult {
        let Manager { store, owner, .. } = &**self.0;
        store.nothing_done(owner.clone())
    }
}
