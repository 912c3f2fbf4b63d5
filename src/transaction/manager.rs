//! Runs lists of operations, each as one transaction.

use std::panic::Location;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use smol_str::SmolStr;

use super::admission::admit;
use super::desk::{Prepared, Seat};
use super::hooks::BeforeHooks;
use super::once::Once;
use super::run::List;
use super::{
    Callback, HistoryMode, Hooks, IdempotencyKey, IntoOperations, Operation, TransactionError,
    TransactionResult, declare, retry,
};
use crate::document::{Limit, Limits};
use crate::id::{LockId, OwnerId};
use crate::lock::{AcquireOptions, Answer, Asker, Errand, FifoLock, Grant};
use crate::store::{CommitError, DataStore, EndedBy, ExecutedOperation, Transaction};

/// Runs lists of operations on a store.
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

/// Behind a pointer of its own, so that a list on its way takes no more along than that; and apart
/// from the count of references, which each list on its way changes while others read.
#[derive(Clone, Debug)]
struct Manager {
    store: DataStore,
    owner: OwnerId,
    /// None unless some were given, so that who has none does not pay for any.
    hooks: Option<Hooks>,
    /// How often a list is tried that locks nodes only; `None` if lists lock the whole document.
    attempts_on_nodes: Option<u32>,
    limits: Option<Limits>,
}

/// A list of operations on its way to the store, and what is to become of it.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    operations: List,
    /// The code among the operations, once they run: it is dropped with the submission, when the
    /// lock is released.
    code: Vec<Callback>,
    before: BeforeHooks,
    once: Option<Box<Once>>,
    in_history: HistoryMode,
}

/// What the submitter is told.
type Outcome = Result<TransactionResult, TransactionError>;

/// A list of operations that waits for the lock. If it is data, the holder of the lock carries it
/// out when it is its turn.
struct Job {
    manager: TransactionManager,
    seat: Option<Seat>,
    submission: Submission,
    /// Whether another thread may run its code.
    any_thread: bool,
    /// For what was carried out: the submitter frees it, so it allocates it as well.
    room: Vec<ExecutedOperation>,
}

impl Errand for Job {
    type Reply = Outcome;

    fn is_for_any_thread(&self) -> bool {
        self.any_thread || self.submission.is_data()
    }

    fn is_brief(&self) -> bool {
        /// So many take some two hundred microseconds, if they are not about large parts of the
        /// document.
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

    fn run(&mut self, grant: Grant) -> Outcome {
        let Self {
            manager,
            seat,
            submission,
            room,
            ..
        } = self;
        manager.carry_out(grant, seat.as_ref(), submission, std::mem::take(room))
    }
}

/// A grant in the hands of the thread that asked for it. When it is dropped, the thread goes on
/// with the lists of others, or hands the lock over.
struct Turn<'a> {
    lock: &'a FifoLock,
    grant: Grant,
    without_combining: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // A thread that unwinds has other things to do than the work of others.
        match self.without_combining || std::thread::panicking() {
            true => self.lock.part_from_grant(self.grant.id()),
            false => self.lock.part_and_serve(self.grant),
        }
    }
}

impl TransactionManager {
    /// Runs transactions for the owner `transaction-execution`.
    pub fn new(store: DataStore) -> Self {
        Self::for_owner(store, "transaction-execution")
    }

    /// Runs transactions for an owner.
    pub fn for_owner(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self(Arc::new(CachePadded::new(Manager {
            store,
            owner: owner.into(),
            hooks: None,
            attempts_on_nodes: None,
            limits: None,
        })))
    }

    /// The same with these hooks in the place of those that it has.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        Arc::make_mut(&mut self.0).hooks = Some(hooks);
        self
    }

    /// The same with limits for what each list makes large, for operations of clients that are not
    /// trusted.
    ///
    /// What a list holds itself is checked before the lock is requested. What it makes of the
    /// document, which it may copy, is checked by each change before it is made. Code of hooks and
    /// of [`op`](crate::dsl::op) is bounded as well, in what it does to the document.
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

    /// The same, on nodes: each list locks the nodes that it touches instead of the whole document,
    /// so lists that touch different nodes are carried out at the same time.
    ///
    /// What a list touches is told from its operations before any is carried out, and locked in one
    /// step, so lists cannot block each other. What cannot be told, as what code does, is locked
    /// when it is done, and what is only read is looked at again by the commit: see
    /// [`Transaction`], "On nodes". A list that fails by an
    /// [unlucky meeting](crate::transaction::Transient) with others is tried again from its start,
    /// `attempts` times in all; its code and before-hooks run again then. Lists are carried out by
    /// the thread that submits them.
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

    /// The store.
    pub fn store(&self) -> &DataStore {
        &self.0.store
    }

    /// For whom the transactions run.
    pub fn owner(&self) -> &OwnerId {
        &self.0.owner
    }

    /// Waits for the lock, runs the operations in the order given, and commits.
    ///
    /// All of them or none: at the first that fails, and if one panics, everything is rolled back,
    /// the lock goes to the next in line, and the error says which it was. A list without
    /// operations succeeds without waiting and makes no version.
    ///
    /// # Who does the work
    ///
    /// If the lock is free, the calling thread carries the list out. Otherwise the list joins the
    /// line. When its turn comes, a thread that is in `execute` already and done with its own list
    /// may carry it out, in a transaction of its own. The calling thread waits meanwhile and gets
    /// the result: at once, or, if it has fallen asleep, within half a millisecond and the list
    /// that is carried out then, but for what the scheduler takes. In turn the calling thread may
    /// carry out a [limited number](crate::StoreOptions::batch_limit) of lists of other threads
    /// before it returns, unless it [hands over](AcquireOptions::without_combining).
    ///
    /// Only lists that are pure data are carried out by other threads. One with an
    /// [`op`](crate::dsl::op), or of a manager with before-hooks, runs in the calling thread,
    /// unless it is for [any thread](AcquireOptions::any_thread). After-hooks always run in the
    /// calling thread.
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

    /// As [`execute`](Self::execute), with options for the wait. Unless they bring a label of their
    /// own, the lock is labelled with the name of the first operation.
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

    /// As [`execute_with`](Self::execute_with), once for a key: if it comes again, the result of
    /// the first time is returned, [marked as repeated](field@TransactionResult::repeated), and
    /// nothing is done. No operation and no hook runs, and there is no version and no event.
    ///
    /// So who does not know whether a transaction was committed can submit it again. The result is
    /// kept from the moment in which the changes are published, also if there are none; a
    /// transaction that failed leaves nothing behind and can be tried again. Of several at the same
    /// time with one key, one is carried out and the others wait for their turn and get its result.
    ///
    /// A key belongs to the store, whichever manager or editor uses it, and stands for the
    /// operations of its first transaction: with others it is refused, unless it
    /// [accepts them](IdempotencyKey::accept_other_operations). The operations are compared as they
    /// are submitted, before hooks rewrite them; those that run code count by their name alone. A
    /// key is forgotten when [as many others](crate::StoreOptions::remembered_keys) have come after
    /// it. A list without operations is no use of a key.
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
    /// [`TransactionError`]; nothing is changed then. Among them
    /// [`IdempotencyMismatch`](TransactionError::IdempotencyMismatch): the key came first with
    /// other operations.
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

    /// As [`execute`](Self::execute), under a lock that is held by id and stays held. After-hooks
    /// run when the transaction is over, but the lock is not released yet.
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

    /// Has a list carried out, on behalf of whoever sits in the seat.
    pub(super) fn run(
        &self,
        mut submission: Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        seat: Option<&Seat>,
    ) -> Result<TransactionResult, TransactionError> {
        let Manager { store, owner, .. } = &**self.0;
        self.admit(submission.once.as_deref(), &submission.operations)?;
        // What is done already need not wait.
        if let Some(outcome) = self.repeated(submission.once.as_deref()) {
            return outcome;
        }
        let Some(first) = first(&submission.operations) else {
            return Ok(self.nothing_done());
        };
        let label = SmolStr::new_static(first.name());
        submission.before = Hooks::of_submission(self.0.hooks.as_ref());
        if let (Some(attempts), None) = (self.0.attempts_on_nodes, seat) {
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
        let turn = |grant| Turn {
            lock,
            grant,
            without_combining: options.hands_over(),
        };
        if let Some(grant) = lock.try_grant(&asker, options)? {
            return self.take_turn(turn(grant), seat, &mut submission);
        }
        if submission.operations.len() == 1 {
            // It comes along in the request: whoever carries it out has no other place to fetch it
            // from.
            submission.operations.shrink_to_fit();
        }
        let job = Job {
            manager: self.clone(),
            seat: seat.cloned(),
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
                let mut job = job.expect("no thread ran the job, so it is still here");
                self.take_turn(turn(grant), seat, &mut job.submission)
            }
        }
    }

    /// Checks what came from a client against the limits, with no lock held.
    fn admit(&self, once: Option<&Once>, operations: &[Operation]) -> Result<(), TransactionError> {
        let Some(limits) = &self.0.limits else {
            return Ok(());
        };
        if let Some(once) = once {
            limits.check(Limit::NameBytes, once.key.len())?;
        }
        admit(limits, operations)
    }

    /// Has a list carried out by the thread that submitted it.
    fn take_turn(
        &self,
        turn: Turn<'_>,
        seat: Option<&Seat>,
        submission: &mut Submission,
    ) -> Outcome {
        if self.0.hooks.is_none() {
            // Nobody looks at the outcome, so it is made where it goes.
            return self.carry_out(turn.grant, seat, submission, Vec::new());
        }
        let mut outcome = self.carry_out(turn.grant, seat, submission, Vec::new());
        drop(turn);
        self.follow_if_done(&mut outcome);
        outcome
    }

    /// Has a list carried out in the calling thread, with the nodes that it touches locked.
    fn run_on_nodes(
        &self,
        attempts: u32,
        submission: Submission,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Outcome {
        retry(attempts, || {
            self.try_on_nodes(submission.clone(), &options, call_site)
        })
    }

    fn try_on_nodes(
        &self,
        mut submission: Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Outcome {
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
                // If there is none it is forgotten already, so many others came after it.
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

    /// Carries a list out under a grant that the caller ends.
    fn carry_out(
        &self,
        grant: Grant,
        seat: Option<&Seat>,
        submission: &mut Submission,
        room: Vec<ExecutedOperation>,
    ) -> Outcome {
        let Manager { store, owner, .. } = &**self.0;
        let mut transaction = store.begin_granted(grant, owner.clone(), EndedBy::Lender);
        // From here on nobody else can use the key; while this one waited, somebody may have.
        if let Some(outcome) = self.repeated(submission.once.as_deref()) {
            return outcome;
        }
        if let Some(once) = submission.once.take() {
            transaction.remember_as(once.key, once.digest);
        }
        transaction.record_in(room);
        let prepared = seat.map(|seat| seat.prepare(&mut transaction));
        self.carry_out_in(&mut transaction, prepared, submission)
    }

    fn carry_out_in(
        &self,
        transaction: &mut Transaction,
        prepared: Option<Prepared<'_>>,
        submission: &mut Submission,
    ) -> Outcome {
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
            transaction.run_list(operations)?;
            return prepared.commit(transaction, inverses, in_history.clone());
        }
        transaction.run_list(operations)?;
        let published = transaction.publish_and(|_, _| ())?;
        Ok(TransactionResult::new(transaction, published, None, None))
    }

    /// Runs the after-hooks, in the thread of the submitter and with no lock held.
    fn follow_if_done(&self, outcome: &mut Outcome) {
        if let Ok(result) = outcome
            && !result.repeated
        {
            self.follow(result);
        }
    }

    /// The outcome of a batch whose key has come before.
    #[inline]
    fn repeated(&self, once: Option<&Once>) -> Option<Outcome> {
        let once = once?;
        let receipt = self.0.store.receipt(&once.key)?;
        Some(once.repeat(&receipt))
    }

    /// Lets the after-hooks see a result.
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

/// The first operation that does anything.
fn first(operations: &[Operation]) -> Option<&Operation> {
    operations.iter().find(|operation| !is_empty(operation))
}

fn is_empty(operation: &Operation) -> bool {
    matches!(operation, Operation::Control { operations, .. } if operations.is_empty())
}
