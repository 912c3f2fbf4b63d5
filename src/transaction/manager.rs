//! Runs operation batches, each as one transaction.

use std::panic::Location;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use smol_str::SmolStr;

use super::admission::admit;
use super::hooks::BeforeHooks;
use super::once::Once;
use super::run::{OperationBatch, run_batch};
use super::session::{Prepared, Session};
use super::{
    Callback, HistoryMode, Hooks, IdempotencyKey, IntoOperations, Operation, TransactionError,
    TransactionResult, declare, retry,
};
use crate::document::{Limit, Limits};
use crate::id::{LockId, OwnerId};
use crate::lock::{AcquireOptions, Answer, Asker, FifoLock, Grant, QueuedWork};
use crate::store::{CommitError, DataStore, EndedBy, ExecutedOperation, Transaction};

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
}

/// A submitted batch and how to record it.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    operations: OperationBatch,
    /// The code of the operations once they run. It is dropped with the submission, after the lock
    /// is released.
    code: Vec<Callback>,
    before: BeforeHooks,
    once: Option<Box<Once>>,
    in_history: HistoryMode,
}

/// What the submitter gets.
type BatchOutcome = Result<TransactionResult, TransactionError>;

/// A batch that waits for the lock. If it is data, the combiner runs it at the head of the queue.
struct QueuedBatch {
    manager: TransactionManager,
    session: Option<Session>,
    submission: Submission,
    /// Whether another thread may run its code.
    any_thread: bool,
    /// For the executed operations: the submitter frees it, so the submitter allocates it.
    room: Vec<ExecutedOperation>,
}

impl QueuedWork for QueuedBatch {
    type Reply = BatchOutcome;

    fn is_for_any_thread(&self) -> bool {
        self.any_thread || self.submission.is_data()
    }

    fn is_brief(&self) -> bool {
        /// So many operations take about two hundred microseconds, unless they touch large parts of
        /// the document.
        const BRIEF: usize = 512;
        if !self.submission.before.is_empty() {
            return false;
        }
        let mut operations = self.submission.operations.iter();
        let extent = operations.try_fold(0, |extent: usize, operation| {
            Some(extent + operation.extent()?).filter(|&extent| extent <= BRIEF)
        });
        extent.is_some()
    }

    fn run(&mut self, grant: Grant) -> BatchOutcome {
        let Self {
            manager,
            session,
            submission,
            room,
            ..
        } = self;
        manager.carry_out(grant, session.as_ref(), submission, std::mem::take(room))
    }
}

/// A grant of the calling thread. Its drop runs queued batches of other threads, or releases the
/// lock.
struct CombinerGrant<'a> {
    lock: &'a FifoLock,
    grant: Grant,
    without_combining: bool,
}

impl Drop for CombinerGrant<'_> {
    fn drop(&mut self) {
        // A thread that unwinds does not combine.
        match self.without_combining || std::thread::panicking() {
            true => self.lock.part_from_grant(self.grant.id()),
            false => self.lock.part_and_serve(self.grant),
        }
    }
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

    /// Makes the manager lock nodes: each batch locks the nodes that it touches instead of the
    /// whole document, so batches that touch different nodes run at the same time.
    ///
    /// The nodes are derived from the operations before any of them runs, and are locked in one
    /// step, so batches cannot deadlock on them. Nodes that cannot be derived, such as those that
    /// code changes, are locked when they are changed. Nodes that are only read are validated by
    /// the commit: see [`Transaction`], "On nodes". A batch that fails with a
    /// [transient](crate::transaction::Transient) error is retried from its start, `attempts` times
    /// in all; its code and before-hooks run again each time. The thread that submits a batch runs
    /// it.
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
    /// At the head of the queue, it may be run by the combiner: a thread inside `execute` that has
    /// finished its own batch. It runs each batch in a separate transaction. Meanwhile the calling
    /// thread waits for the result. A thread that is awake gets it at once; a sleeping thread
    /// gets it within half a millisecond plus the batch that runs at that time, apart from
    /// scheduling delays. In turn the calling thread may run a [limited
    /// number](crate::StoreOptions::batch_limit) of batches of other threads before it returns.
    /// [`without_combining`](AcquireOptions::without_combining) disables this for a call.
    ///
    /// Other threads run only batches that are pure data. A batch with an [`op`](crate::dsl::op),
    /// or of a manager with before-hooks, runs in the calling thread, unless its options allow [any
    /// thread](AcquireOptions::any_thread). After-hooks always run in the calling thread.
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
        self.execute_with(operations, AcquireOptions::new())
    }

    /// Runs a batch as [`execute`](Self::execute) does, with options for the lock request. Without
    /// a label in the options, the label of the lock is the name of the first operation.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    #[track_caller]
    #[inline]
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        let submission = Submission::new(operations);
        self.run(submission, &options, Location::caller(), None)
    }

    /// Runs a batch once for a key, otherwise as [`execute_with`](Self::execute_with) does. A
    /// repeated submission returns the result of the first, [marked as
    /// repeated](field@TransactionResult::repeated), and changes nothing: no operation and no hook
    /// runs, and there is no version and no event.
    ///
    /// So a caller can submit a transaction again if it cannot determine whether it was committed.
    /// The store keeps the result from the moment at which it publishes the changes, even if there
    /// are none. A transaction that failed is not recorded and can be retried. Of several
    /// concurrent transactions with one key, one runs; the others wait in the queue and get its
    /// result.
    ///
    /// A key belongs to the store, and all managers and editors share it. It stands for the
    /// operations of its first transaction. Other operations under the key are an error, unless it
    /// [accepts them](IdempotencyKey::accept_other_operations). The operations are compared as
    /// submitted, before hooks rewrite them; operations that run code are compared by name only. A
    /// key expires after [as many newer keys](crate::StoreOptions::remembered_keys). A batch
    /// without operations does not use up its key.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, lock::AcquireOptions};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let pay = || [create(text_node("payment", "100"))];
    /// let first = manager.execute_once("invoice 7", pay(), AcquireOptions::new())?;
    /// let again = manager.execute_once("invoice 7", pay(), AcquireOptions::new())?;
    /// assert_eq!((again.version, again.transaction_id), (1, first.transaction_id));
    /// assert!(again.repeated && !first.repeated);
    /// assert_eq!(manager.store().snapshot().len(), 1);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then. One of them is
    /// [`IdempotencyMismatch`](TransactionError::IdempotencyMismatch): the first transaction with
    /// the key had other operations.
    #[track_caller]
    pub fn execute_once(
        &self,
        key: impl Into<IdempotencyKey>,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        let submission = Submission::new(operations).once(key.into());
        self.run(submission, &options, Location::caller(), None)
    }

    /// Runs a batch as [`execute`](Self::execute) does, under a lock that is held by id and stays
    /// held. After-hooks run at the end of the transaction, while the lock is still held.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute_under(
        &self,
        lock: LockId,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let operations = operations.into_operations();
        self.admit(None, &operations)?;
        let mut transaction = self.0.store.begin_under(lock)?;
        if first(&operations).is_none() {
            let published = transaction.publish_and(|_, _| ())?;
            return Ok(TransactionResult::new(
                &mut transaction,
                published,
                None,
                None,
            ));
        }
        let mut submission = Submission::new(operations);
        submission.before = Hooks::of_submission(self.0.hooks.as_ref());
        let mut outcome = self.carry_out_in(&mut transaction, None, &mut submission);
        drop(transaction);
        self.follow_if_done(&mut outcome);
        outcome
    }

    /// Runs a batch for the session.
    pub(super) fn run(
        &self,
        mut submission: Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        session: Option<&Session>,
    ) -> Result<TransactionResult, TransactionError> {
        let Manager { store, owner, .. } = &**self.0;
        self.admit(submission.once.as_deref(), &submission.operations)?;
        // A completed batch need not wait.
        if let Some(outcome) = self.repeated(submission.once.as_deref()) {
            return outcome;
        }
        let Some(first) = first(&submission.operations) else {
            return Ok(self.nothing_done());
        };
        let label = SmolStr::new_static(first.name());
        submission.before = Hooks::of_submission(self.0.hooks.as_ref());
        if let (Some(attempts), None) = (self.0.attempts_on_nodes, session) {
            return self.run_on_nodes(
                attempts,
                submission,
                options.clone().or_label(label),
                call_site,
            );
        }
        let asker = options.asker(owner, call_site, true);
        let asker = Asker {
            label: asker.label.or(Some(&label)),
            ..asker
        };
        let lock = store.fifo();
        let turn = |grant| CombinerGrant {
            lock,
            grant,
            without_combining: options.opts_out_of_combining(),
        };
        if let Some(grant) = lock.try_grant(&asker, options)? {
            return self.take_turn(turn(grant), session, &mut submission);
        }
        if submission.operations.len() == 1 {
            // The operations travel in the request: the thread that runs them cannot fetch them
            // elsewhere.
            submission.operations.shrink_to_fit();
        }
        let job = QueuedBatch {
            manager: self.clone(),
            session: session.cloned(),
            any_thread: options.allows_any_thread(),
            room: Vec::with_capacity(submission.operations.len()),
            submission,
        };
        match lock.ask(&asker, options, Some(job))? {
            Answer::Done(mut outcome, _spent) => {
                self.follow_if_done(&mut outcome);
                outcome
            }
            Answer::Granted(grant, job) => {
                let mut job = job.expect("a job that no combiner ran is still here");
                self.take_turn(turn(grant), session, &mut job.submission)
            }
        }
    }

    /// Checks the input of a client against the limits, with no lock held.
    fn admit(&self, once: Option<&Once>, operations: &[Operation]) -> Result<(), TransactionError> {
        let Some(limits) = &self.0.limits else {
            return Ok(());
        };
        if let Some(once) = once {
            limits.check(Limit::NameBytes, once.key.len())?;
        }
        admit(limits, operations)
    }

    /// Runs a batch in the thread that submitted it.
    fn take_turn(
        &self,
        turn: CombinerGrant<'_>,
        session: Option<&Session>,
        submission: &mut Submission,
    ) -> BatchOutcome {
        if self.0.hooks.is_none() {
            // No frame in between reads the outcome, so it is built in its final place.
            return self.carry_out(turn.grant, session, submission, Vec::new());
        }
        let mut outcome = self.carry_out(turn.grant, session, submission, Vec::new());
        drop(turn);
        self.follow_if_done(&mut outcome);
        outcome
    }

    /// Runs a batch in the calling thread, with the nodes that it touches locked.
    fn run_on_nodes(
        &self,
        attempts: u32,
        submission: Submission,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> BatchOutcome {
        retry(attempts, || {
            self.try_on_nodes(submission.clone(), &options, call_site)
        })
    }

    fn try_on_nodes(
        &self,
        mut submission: Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> BatchOutcome {
        let Manager { store, owner, .. } = &**self.0;
        let scope = declare::list(&store.snapshot(), &submission.operations);
        let mut transaction =
            store.begin_on_at(owner.clone(), scope, options.clone(), call_site)?;
        if let Some(outcome) = self.repeated(submission.once.as_deref()) {
            return outcome;
        }
        let once = submission.once.take();
        if let Some(once) = &once {
            transaction.remember_as(once.key.clone(), once.digest);
        }
        let outcome = self.carry_out_in(&mut transaction, None, &mut submission);
        let lock_error = transaction.take_lock_error();
        drop(transaction);
        match (outcome, lock_error) {
            (Ok(mut result), _) => {
                self.follow(&mut result);
                Ok(result)
            }
            (Err(TransactionError::Commit(CommitError::Repeated { key })), _) => {
                // If there is none, so many newer keys followed that it has expired already.
                let repeated = self.repeated(once.as_deref());
                repeated.unwrap_or_else(|| Err(CommitError::Repeated { key }.into()))
            }
            (Err(TransactionError::Commit(CommitError::NotLocked(error))), _) => {
                Err((*error).into())
            }
            (Err(_), Some(error)) => Err(error.into()),
            (Err(error), None) => Err(error),
        }
    }

    /// Runs a batch under a grant that the caller ends.
    fn carry_out(
        &self,
        grant: Grant,
        session: Option<&Session>,
        submission: &mut Submission,
        room: Vec<ExecutedOperation>,
    ) -> BatchOutcome {
        let Manager { store, owner, .. } = &**self.0;
        let mut transaction = store.begin_granted(grant, owner.clone(), EndedBy::Lender);
        // From here on no other thread can use the key; during the wait another thread may have
        // used it.
        if let Some(outcome) = self.repeated(submission.once.as_deref()) {
            return outcome;
        }
        if let Some(once) = submission.once.take() {
            transaction.remember_as(once.key, once.digest);
        }
        transaction.record_in(room);
        let prepared = session.map(|session| session.prepare(&mut transaction));
        self.carry_out_in(&mut transaction, prepared, submission)
    }

    fn carry_out_in(
        &self,
        transaction: &mut Transaction,
        prepared: Option<Prepared<'_>>,
        submission: &mut Submission,
    ) -> BatchOutcome {
        let Submission {
            operations,
            code,
            before,
            in_history,
            ..
        } = submission;
        if let Some(limits) = &self.0.limits {
            transaction.set_limits(limits.clone());
        }
        if !before.is_empty() {
            let list = std::mem::take(operations).into_vec();
            *operations = before.run(transaction, list)?.into();
        }
        code.extend(operations.iter().filter_map(Operation::code).cloned());
        if let Some(prepared) = prepared {
            let inverses = operations.iter().filter_map(Operation::inverse).collect();
            run_batch(transaction, operations)?;
            return prepared.commit(transaction, inverses, in_history.clone());
        }
        run_batch(transaction, operations)?;
        let published = transaction.publish_and(|_, _| ())?;
        Ok(TransactionResult::new(transaction, published, None, None))
    }

    /// Runs the after-hooks, in the thread of the submitter and with no lock held.
    fn follow_if_done(&self, outcome: &mut BatchOutcome) {
        if let Ok(result) = outcome
            && !result.repeated
        {
            self.follow(result);
        }
    }

    /// Returns the outcome of an earlier batch with the same key.
    #[inline]
    fn repeated(&self, once: Option<&Once>) -> Option<BatchOutcome> {
        let once = once?;
        let receipt = self.0.store.receipt(&once.key)?;
        Some(once.repeat(&receipt))
    }

    /// Runs the after-hooks on a result.
    pub(super) fn follow(&self, result: &mut TransactionResult) {
        if let Some(hooks) = &self.0.hooks {
            result.hook_failures = hooks.run_after(result);
        }
    }

    fn nothing_done(&self) -> TransactionResult {
        let (transaction_id, snapshot) = self.0.store.next_transaction();
        TransactionResult {
            transaction_id,
            version: snapshot.version(),
            changed: false,
            operations: Vec::new(),
            selection_before: None,
            selection_after: None,
            repeated: false,
            hook_failures: Vec::new(),
        }
    }
}

impl Submission {
    #[inline]
    pub(super) fn new(operations: impl IntoOperations) -> Self {
        Self {
            operations: operations.into_operations().into(),
            code: Vec::new(),
            before: BeforeHooks::default(),
            once: None,
            in_history: HistoryMode::Recorded,
        }
    }

    /// Whether it runs no code of users.
    fn is_data(&self) -> bool {
        let mut operations = self.operations.iter();
        self.before.is_empty() && operations.all(|operation| operation.code().is_none())
    }

    pub(super) fn once(mut self, key: IdempotencyKey) -> Self {
        let does_nothing = first(&self.operations).is_none();
        let once = Once::new(key, &self.operations, does_nothing);
        self.once = Some(Box::new(once));
        self
    }

    pub(super) fn in_history(mut self, how: HistoryMode) -> Self {
        self.in_history = how;
        self
    }
}

/// The first operation that has an effect.
fn first(operations: &[Operation]) -> Option<&Operation> {
    operations.iter().find(|operation| !is_empty(operation))
}

fn is_empty(operation: &Operation) -> bool {
    matches!(operation, Operation::Control { operations, .. } if operations.is_empty())
}
