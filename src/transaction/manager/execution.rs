//! How a batch runs: under a grant of its submitter, by the combiner, or with nodes locked.

use std::panic::Location;
use std::pin::Pin;

use smol_str::SmolStr;

use super::submission::{Completion, Submission, first};
use super::{Manager, TransactionManager};
use crate::codes::{CodedError, Retry};
use crate::id::OwnerId;
use crate::lock::{
    AcquireOptions, Answer, Grant, LeftWork, LockError, QueuedWork, Requester, WaiterKind, blocking,
};
use crate::store::{
    CombinerGrant, CommitError, Draft, HeldGrant, ObservedTransaction, Publish, Transaction,
    TransactionKind,
};
use crate::transaction::history::{Edit, PlannedEntry};
use crate::transaction::idempotency::IdempotentBatch;
use crate::transaction::run::{OperationBatch, run_batch};
use crate::transaction::session::{Session, SessionTurn};
use crate::transaction::{Hooks, Operation, TransactionError, TransactionResult, retry};

/// What the submitter gets.
pub(super) type BatchOutcome = Result<TransactionResult, TransactionError>;

/// A batch that may wait. In a box that another function makes, it takes no room in the frames of
/// batches that find the lock free.
type BoxedRun<'a> = Pin<Box<dyn Future<Output = BatchOutcome> + Send + 'a>>;

/// A batch that waits for the lock. If it is data, the combiner runs it at the head of the queue.
struct QueuedBatch {
    manager: TransactionManager,
    session: Option<Session>,
    submission: Submission,
    /// Whether another thread may run its code.
    any_thread: bool,
    /// Whether a task waits for it, which may never be polled again.
    by_task: bool,
    observed: ObservedTransaction,
}

impl QueuedWork for QueuedBatch {
    type Reply = BatchOutcome;

    fn is_for_any_thread(&self) -> bool {
        self.any_thread || self.submission.is_data()
    }

    fn is_brief(&self) -> bool {
        self.submission.is_brief()
    }

    fn run(&mut self, grant: Grant) -> BatchOutcome {
        let Self {
            manager,
            session,
            submission,
            observed,
            by_task,
            ..
        } = self;
        if !submission.is_brief() {
            // A task may not sleep on behind code that takes long, or waits for that task.
            manager.store().wake_tasks();
        }
        observed.granted();
        let outcome = manager.carry_out(grant, session.as_ref(), submission, observed);
        if *by_task && outcome.is_ok() {
            manager.store().wake_writer();
        }
        outcome
    }

    fn after_keeper(&self) -> Option<LeftWork> {
        Some(self.manager.store().after_keeper())
    }
}

/// A batch whose edits are made, with its nodes locked.
struct BatchOnNodes {
    manager: TransactionManager,
    session: Option<Session>,
    submission: Submission,
}

impl Publish for BatchOnNodes {
    type Error = TransactionError;

    fn publish(&mut self, transaction: &mut Transaction) -> BatchOutcome {
        let Self {
            manager,
            session,
            submission,
        } = self;
        let (held, draft) = transaction.parts_mut();
        let session = session.as_ref();
        let turn = session.map(|session| session.turn_on_nodes(manager.store(), draft));
        manager.publish(manager.owner(), (held, draft), submission, turn)
    }
}

/// Describes the request of a batch.
#[inline(always)]
fn requester<'a>(
    owner: &'a OwnerId,
    options: &'a AcquireOptions,
    label: &'a SmolStr,
    call_site: &'static Location<'static>,
) -> Requester<'a> {
    let requester = options.requester(owner, call_site, true);
    Requester {
        label: requester.label.or(Some(label)),
        ..requester
    }
}

/// Ends the observation of a batch with its outcome, which ends its hold.
#[inline(always)]
pub(super) fn observe_end(observed: &mut ObservedTransaction, outcome: &BatchOutcome) {
    observed.ended(outcome.as_ref().map_err(TransactionError::observed_code));
}

impl TransactionManager {
    /// Runs a batch for the session.
    pub(in crate::transaction) fn run(
        &self,
        submission: &mut Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        session: Option<&Session>,
    ) -> BatchOutcome {
        let Some(label) = self.check_in(submission)? else {
            return blocking(self.run_nothing(WaiterKind::Thread, submission));
        };
        if let Some(attempts) = self.0.attempts_on_nodes {
            let request = (options.clone().or_label(label), call_site);
            let (waits_as, submission) = (WaiterKind::Thread, submission.take());
            return blocking(self.run_on_nodes(waits_as, attempts, submission, request, session));
        }
        let requester = requester(&self.0.owner, options, &label, call_site);
        let mut observed = self.0.store.observe(TransactionKind::Batch, &requester);
        let granted = self.0.store.fifo().try_grant(&requester, options);
        if let Ok(Some(grant)) = granted {
            observed.granted_at_once();
            let held = self.combining(grant, WaiterKind::Thread, options);
            return self.run_here(held, session, submission, &mut observed);
        }
        let (refused, submission) = (granted.err(), submission.take());
        let (waits_as, asks) = (WaiterKind::Thread, (&requester, options));
        blocking(self.run_in_queue(waits_as, submission, asks, session, refused, observed))
    }

    /// Runs a batch as [`run`](Self::run) does, in a task. Each wait is on the heap, so that the
    /// future of a batch that runs at once is small.
    pub(in crate::transaction) async fn run_in_task(
        &self,
        submission: &mut Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        session: Option<&Session>,
    ) -> BatchOutcome {
        let Some(label) = self.check_in(submission)? else {
            return Box::pin(self.run_nothing(WaiterKind::Task, submission)).await;
        };
        if let Some(attempts) = self.0.attempts_on_nodes {
            let request = (options.clone().or_label(label), call_site);
            let submission = submission.take();
            let waits_as = WaiterKind::Task;
            let running = self.run_on_nodes(waits_as, attempts, submission, request, session);
            return running.await;
        }
        let requester = requester(&self.0.owner, options, &label, call_site);
        let mut observed = self.0.store.observe(TransactionKind::Batch, &requester);
        // A batch that runs at once ends with this poll, so it is bound to the polling thread.
        let granted = self.0.store.fifo().try_grant(&requester, options);
        if let Ok(Some(grant)) = granted {
            observed.granted_at_once();
            let held = self.combining(grant, WaiterKind::Task, options);
            let completion = submission.completion;
            let mut outcome = self.carry_out(grant, session, submission, &mut observed);
            drop(held);
            if self.0.store.is_durable() {
                return Box::pin(self.complete_in_task(outcome, completion, observed)).await;
            }
            self.complete(&mut outcome, completion, &mut observed);
            return outcome;
        }
        let requester = Requester {
            thread: 0,
            ..requester
        };
        let (refused, submission) = (granted.err(), submission.take());
        let (waits_as, asks) = (WaiterKind::Task, (&requester, options));
        let running = self.run_in_queue(waits_as, submission, asks, session, refused, observed);
        running.await
    }

    async fn complete_in_task(
        &self,
        mut outcome: BatchOutcome,
        completion: Completion,
        mut observed: ObservedTransaction,
    ) -> BatchOutcome {
        self.complete_as(WaiterKind::Task, &mut outcome, completion, &mut observed)
            .await;
        outcome
    }

    /// Checks a batch before the lock is requested. Returns the label of its request, or `None` for
    /// a batch without operations.
    #[inline]
    fn check_in(&self, submission: &mut Submission) -> Result<Option<SmolStr>, TransactionError> {
        self.check_limits(submission.once.as_deref(), &submission.operations)?;
        let Some(first) = first(&submission.operations) else {
            return Ok(None);
        };
        let label = SmolStr::new_static(first.name());
        submission.before = Hooks::of_submission(self.0.hooks.as_ref());
        Ok(Some(label))
    }

    /// Returns the outcome of a batch without operations.
    async fn run_nothing(&self, waits_as: WaiterKind, submission: &Submission) -> BatchOutcome {
        let mut unobserved = ObservedTransaction::default();
        let first = self.first_outcome(waits_as, submission, &mut unobserved);
        first.await.unwrap_or_else(|| Ok(self.nothing_done()))
    }

    /// The outcome of a batch whose key was used before, which need not wait for the lock.
    async fn first_outcome(
        &self,
        waits_as: WaiterKind,
        submission: &Submission,
        observed: &mut ObservedTransaction,
    ) -> Option<BatchOutcome> {
        let once = submission.once.as_deref();
        let mut outcome = IdempotentBatch::first_result(once, &self.0.store)?;
        observe_end(observed, &outcome);
        self.complete_as(waits_as, &mut outcome, submission.completion, observed)
            .await;
        Some(outcome)
    }

    fn combining(
        &self,
        grant: Grant,
        waits_as: WaiterKind,
        options: &AcquireOptions,
    ) -> CombinerGrant<'_> {
        CombinerGrant {
            store: &self.0.store,
            lock: self.0.store.fifo(),
            grant,
            waits_as,
            without_combining: options.without_combining,
        }
    }

    /// Runs a batch that was not granted the lock at once, perhaps because it was `refused`.
    #[inline(never)]
    fn run_in_queue<'a>(
        &'a self,
        waits_as: WaiterKind,
        mut submission: Submission,
        (requester, options): (&'a Requester<'a>, &'a AcquireOptions),
        session: Option<&'a Session>,
        refused: Option<LockError>,
        mut observed: ObservedTransaction,
    ) -> BoxedRun<'a> {
        Box::pin(async move {
            let store = &self.0.store;
            let completion = submission.completion;
            let first = self.first_outcome(waits_as, &submission, &mut observed);
            if let Some(outcome) = first.await {
                return outcome;
            }
            if let Some(refused) = refused {
                observed.or_refused(Err(refused))?;
            }
            if submission.operations.len() == 1 {
                // The operations travel in the request: the thread that runs them cannot fetch them
                // elsewhere.
                submission.operations.shrink_to_fit();
            }
            submission.make_room();
            let batch = QueuedBatch {
                manager: self.clone(),
                session: session.cloned(),
                any_thread: options.any_thread,
                by_task: waits_as == WaiterKind::Task,
                submission,
                observed,
            };
            let mut work = Some(batch);
            let asked = store.fifo().ask(waits_as, requester, options, &mut work);
            let answer = asked.await;
            let mut batch = work.expect("a request gives its batch back");
            let QueuedBatch {
                submission,
                observed,
                ..
            } = &mut batch;
            let mut outcome = match observed.or_refused(answer)? {
                Answer::Done(outcome) => {
                    if waits_as == WaiterKind::Task {
                        // The keeper, if it has run the batch, leaves the rest to this poll.
                        store.after_release();
                    }
                    outcome
                }
                Answer::Granted(grant) => {
                    observed.granted();
                    // Of a task, it is run within this poll.
                    let held = self.combining(grant, waits_as, options);
                    if waits_as == WaiterKind::Thread {
                        return self.run_here(held, session, submission, observed);
                    }
                    store.fifo().bind(grant);
                    self.carry_out(grant, session, submission, observed)
                }
            };
            self.complete_as(waits_as, &mut outcome, completion, observed)
                .await;
            outcome
        })
    }

    /// Runs a batch in the thread that submitted it.
    fn run_here(
        &self,
        held: CombinerGrant<'_>,
        session: Option<&Session>,
        submission: &mut Submission,
        observed: &mut ObservedTransaction,
    ) -> BatchOutcome {
        if self.0.hooks.is_none() && !self.0.store.is_durable() {
            // No frame in between reads the outcome, so it is built in its final place.
            return self.carry_out(held.grant, session, submission, observed);
        }
        let mut outcome = self.carry_out(held.grant, session, submission, observed);
        drop(held);
        self.complete(&mut outcome, submission.completion, observed);
        outcome
    }

    /// Runs a batch with the nodes that it touches locked, in the calling thread or task.
    #[inline(never)]
    fn run_on_nodes<'a>(
        &'a self,
        waits_as: WaiterKind,
        attempts: u32,
        submission: Submission,
        (options, call_site): (AcquireOptions, &'static Location<'static>),
        session: Option<&'a Session>,
    ) -> BoxedRun<'a> {
        Box::pin(async move {
            let completion = submission.completion;
            let requester = options.requester(&self.0.owner, call_site, true);
            let mut observed = self.0.store.observe(TransactionKind::OnNodes, &requester);
            let first = self.first_outcome(waits_as, &submission, &mut observed);
            if let Some(outcome) = first.await {
                return outcome;
            }
            let mut attempt = 1;
            let mut outcome = loop {
                let at = (&options, call_site);
                let tried = self.try_on_nodes(waits_as, &submission, at, session, &mut observed);
                match tried.await {
                    Err(error) if attempt < attempts && error.retry() == Retry::Now => {}
                    outcome => break outcome,
                }
                retry::pause_as(waits_as, attempt).await;
                attempt += 1;
            };
            observe_end(&mut observed, &outcome);
            self.complete_as(waits_as, &mut outcome, completion, &mut observed)
                .await;
            outcome
        })
    }

    async fn try_on_nodes(
        &self,
        waits_as: WaiterKind,
        submission: &Submission,
        (options, call_site): (&AcquireOptions, &'static Location<'static>),
        session: Option<&Session>,
        observed: &mut ObservedTransaction,
    ) -> BatchOutcome {
        let Manager { store, owner, .. } = &**self.0;
        let (owner, options) = (owner.clone(), options.clone());
        let from_session = session.map(|session| session.for_nodes(store));
        let who = (waits_as, from_session);
        let begun = store.begin_with_edits(who, owner, options, call_site, |unlocked| {
            self.run_data(unlocked, submission)
        });
        let (mut transaction, made) = begun.await?;
        observed.granted();
        let mut left = match made {
            true => submission.without_operations(),
            false => submission.clone(),
        };
        let once = submission.once.as_deref();
        if let Some(outcome) = IdempotentBatch::first_result(once, &self.0.store) {
            return outcome;
        }
        let edited = self.edit(&self.0.owner, &mut transaction, &mut left, observed);
        let outcome = match edited {
            Ok(()) => {
                transaction.observe_as_batch(std::mem::take(observed));
                let how = BatchOnNodes {
                    manager: self.clone(),
                    session: session.cloned(),
                    submission: left,
                };
                let outcome;
                (transaction, _, outcome) = transaction.publish_on_nodes(waits_as, how).await;
                *observed = transaction.take_observed();
                outcome
            }
            Err(error) => Err(error),
        };
        let lock_error = transaction.take_lock_error();
        if outcome.is_ok() {
            // An error may be that of an attempt that is followed by another.
            observe_end(observed, &outcome);
        }
        drop(transaction);
        match (outcome, lock_error) {
            (Ok(result), _) => Ok(result),
            (Err(TransactionError::Commit(CommitError::Repeated { key })), _) => {
                // If there is none, so many newer keys followed that it has expired already.
                let first = IdempotentBatch::first_result(once, &self.0.store);
                first.unwrap_or_else(|| Err(CommitError::Repeated { key }.into()))
            }
            (Err(TransactionError::Commit(CommitError::NotLocked(error))), _) => {
                Err((*error).into())
            }
            (Err(_), Some(error)) => Err(error.into()),
            (Err(error), None) => Err(error),
        }
    }

    /// Runs the operations of a batch up to its first code of users. Returns whether they are the
    /// whole batch and have not failed.
    fn run_data(&self, on: &mut Draft, submission: &Submission) -> bool {
        let operations = submission.operations.iter();
        let data = operations.take_while(|operation| operation.code().is_none());
        let mut data: OperationBatch = data.cloned().collect();
        self.limit(on);
        run_batch(on, &mut data).is_ok() && submission.is_data()
    }

    fn limit(&self, draft: &mut Draft) {
        if let Some(limits) = &self.0.limits {
            draft.set_limits(limits.clone());
        }
    }

    /// Runs a batch under a grant that the caller ends. A key that another transaction has used
    /// meanwhile returns the first result. Until the commit, no other transaction can use the key
    /// under the document lock; one on nodes can, and then this one is not published.
    fn carry_out(
        &self,
        grant: Grant,
        session: Option<&Session>,
        submission: &mut Submission,
        observed: &mut ObservedTransaction,
    ) -> BatchOutcome {
        let once = submission.once.as_deref();
        // Like each outcome on this path, it is built in its final place.
        let outcome = match IdempotentBatch::first_result(once, &self.0.store) {
            Some(outcome) => outcome,
            None => self.edit_and_publish(grant, session, submission, observed),
        };
        observe_end(observed, &outcome);
        outcome
    }

    fn edit_and_publish(
        &self,
        grant: Grant,
        session: Option<&Session>,
        submission: &mut Submission,
        observed: &ObservedTransaction,
    ) -> BatchOutcome {
        let Manager { store, owner, .. } = &**self.0;
        let (held, mut draft) = store.draft_under(grant);
        draft.record_in(std::mem::take(&mut submission.executed));
        draft.record_changes_in(std::mem::take(&mut submission.changes));
        let is_brief = submission.is_brief();
        let turn = session.map(|session| session.turn(store, &mut draft, is_brief));
        self.edit(owner, &mut draft, submission, observed)?;
        self.publish(owner, (held, &mut draft), submission, turn)
    }

    /// Makes the edits of a batch.
    pub(super) fn edit(
        &self,
        owner: &OwnerId,
        draft: &mut Draft,
        submission: &mut Submission,
        observed: &ObservedTransaction,
    ) -> Result<(), TransactionError> {
        let Submission {
            operations,
            code,
            before,
            ..
        } = submission;
        self.limit(draft);
        if !before.is_empty() {
            let submitted = std::mem::take(operations).into_vec();
            let context = (owner, &*draft);
            let rewritten = observed.in_span(|| before.run(context, submitted));
            *operations = rewritten?.into();
        }
        code.extend(operations.iter().filter_map(Operation::code).cloned());
        match code.is_empty() {
            true => run_batch(draft, operations),
            false => observed.in_span(|| run_batch(draft, operations)),
        }
    }

    /// Publishes the edits of a batch, and records them in the history of the session.
    pub(super) fn publish(
        &self,
        owner: &OwnerId,
        (held, draft): (HeldGrant, &mut Draft),
        submission: &Submission,
        turn: Option<SessionTurn<'_>>,
    ) -> BatchOutcome {
        match turn {
            Some(turn) => self.publish_of_session(owner, (held, draft), submission, turn),
            None => {
                let publication = submission.publication(owner, None);
                self.0.store.publish(held, draft, publication)
            }
        }
    }

    fn publish_of_session(
        &self,
        owner: &OwnerId,
        (held, draft): (HeldGrant, &mut Draft),
        submission: &Submission,
        mut turn: SessionTurn<'_>,
    ) -> BatchOutcome {
        let store = &self.0.store;
        let clipboard = draft.has_copied().then(|| draft.clipboard().cloned());
        let unit = (owner, turn.next_version(), store.keeps_commits());
        let now = || store.monotonic();
        let history = &turn.state().history;
        let mut entering = history.enter(draft, &submission.in_history, now, unit);
        let unit = entering.as_ref().map(PlannedEntry::unit);
        let of_session = turn.submit(draft, submission.is_in_history(), unit);
        let publication = submission.publication(owner, Some(of_session));
        let outcome: BatchOutcome = store.publish(held, draft, publication);
        let Ok(result) = &outcome else {
            return outcome;
        };
        let session = turn.follow(result);
        if let Some(clipboard) = clipboard {
            session.clipboard = clipboard;
        }
        let inverses: Vec<_> = submission.inverses().collect();
        if entering.is_some() || !inverses.is_empty() {
            let at = entering.as_ref().map(PlannedEntry::at);
            let edit = Edit {
                typed: entering.as_mut().and_then(PlannedEntry::take_typed),
                inverses,
                before: result.selection_before.clone(),
                after: result.selection_after.clone(),
                at: at.unwrap_or_else(now),
                version: result.version,
            };
            let made = (&result.changes, store);
            session.history.record(edit, entering, made);
        }
        turn.end();
        outcome
    }
}
