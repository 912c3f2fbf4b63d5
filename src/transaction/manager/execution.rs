//! How a batch runs: under a grant of its submitter, by the combiner, or with nodes locked.

use std::ops::ControlFlow;
use std::panic::Location;
use std::pin::Pin;

use smol_str::SmolStr;

use super::submission::{Completion, Submission, first};
use super::{Manager, TransactionManager};
use crate::codes::{CodedError, Retry};
use crate::id::OwnerId;
use crate::lock::{
    AcquireOptions, Answer, Grant, LeftWork, LockError, QueuedWork, WaiterKind, blocking,
};
use crate::store::{
    CombinerGrant, CommitError, Draft, HeldGrant, ObservedTransaction, Publication, Publish,
    Retrying, Transaction, TransactionKind, undone,
};
use crate::transaction::history::PlannedEntry;
use crate::transaction::run::{OperationBatch, run_batch};
use crate::transaction::session::{OwnedSession, Session, SessionTurn};
use crate::transaction::{Operation, TransactionError, TransactionResult, retry};

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

/// Ends the observation of a batch with its outcome, which ends its hold.
#[inline(always)]
pub(super) fn observe_end(observed: &mut ObservedTransaction, outcome: &BatchOutcome) {
    observed.ended(outcome.as_ref().map_err(TransactionError::observed_code));
}

impl TransactionManager {
    /// Runs a batch for the session, in a thread.
    pub(in crate::transaction) fn run(
        &self,
        submission: &mut Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        session: Option<&OwnedSession>,
    ) -> BatchOutcome {
        let request = (options, call_site);
        let mut outcome = match self.start(WaiterKind::Thread, submission, request, session) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(rest) => blocking(rest),
        };
        if let Some(session) = session {
            session.leave(&mut outcome);
        }
        outcome
    }

    /// Runs a batch as [`run`](Self::run) does, in a task.
    pub(in crate::transaction) async fn run_in_task(
        &self,
        submission: &mut Submission,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
        session: Option<&OwnedSession>,
    ) -> BatchOutcome {
        let request = (options, call_site);
        let mut outcome = match self.start(WaiterKind::Task, submission, request, session) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(rest) => rest.await,
        };
        if let Some(session) = session {
            session.leave(&mut outcome);
        }
        outcome
    }

    /// Runs a batch at once if the lock is free. Returns the rest that has to wait: for the lock,
    /// for the disk or for hooks.
    #[inline(always)]
    fn start<'a>(
        &'a self,
        waits_as: WaiterKind,
        submission: &mut Submission,
        (options, call_site): (&'a AcquireOptions, &'static Location<'static>),
        session: Option<&'a OwnedSession>,
    ) -> ControlFlow<BatchOutcome, BoxedRun<'a>> {
        let Manager { store, owner, .. } = &**self.0;
        if let Some(session) = session.filter(|session| session.is_far_behind()) {
            drop(session.latest());
        }
        let session = session.map(|session| &**session);
        if let Some(limits) = &self.0.limits
            && let Err(refused) = submission.check(limits)
        {
            return ControlFlow::Break(Err(refused));
        }
        let Some(first) = first(&submission.operations) else {
            return ControlFlow::Continue(self.run_nothing(waits_as, submission.take()));
        };
        let label = SmolStr::new_static(first.name());
        if let Some(hooks) = &self.0.hooks {
            submission.before = hooks.of_submission();
        }
        if let Some(attempts) = self.0.attempts_on_nodes {
            let request = (options.clone().or_label(label), call_site);
            let rest = self.run_on_nodes(waits_as, attempts, submission.take(), request, session);
            return ControlFlow::Continue(rest);
        }
        let mut requester = options.requester(owner, call_site, true);
        requester.label.get_or_insert(&label);
        let mut observed = store.observe(TransactionKind::Batch, &requester);
        // A batch that runs at once ends with this call or poll, so it is bound to this thread.
        let granted = store.fifo().try_grant(&requester, options);
        let Ok(Some(grant)) = granted else {
            let (refused, request) = (granted.err(), (options, label, call_site));
            let submission = submission.take();
            let rest = self.run_in_queue(waits_as, submission, request, session, refused, observed);
            return ControlFlow::Continue(rest);
        };
        observed.granted_at_once();
        let held = self.combining(grant, waits_as, options);
        let completion = submission.completion;
        if self.0.hooks.is_none() && !store.is_durable() {
            // No frame in between reads the outcome, so it is built in its final place.
            return ControlFlow::Break(self.carry_out(grant, session, submission, &mut observed));
        }
        let outcome = self.carry_out(grant, session, submission, &mut observed);
        drop(held);
        match self.is_complete(&outcome, completion) {
            true => ControlFlow::Break(outcome),
            false => ControlFlow::Continue(self.rest(waits_as, outcome, completion, observed)),
        }
    }

    /// Completes a batch that has run.
    #[inline(never)]
    pub(super) fn rest(
        &self,
        waits_as: WaiterKind,
        mut outcome: BatchOutcome,
        completion: Completion,
        mut observed: ObservedTransaction,
    ) -> BoxedRun<'_> {
        Box::pin(async move {
            self.complete(waits_as, &mut outcome, completion, &mut observed)
                .await;
            outcome
        })
    }

    /// Returns the outcome of a batch without operations.
    #[inline(never)]
    fn run_nothing(&self, waits_as: WaiterKind, submission: Submission) -> BoxedRun<'_> {
        Box::pin(async move {
            let mut unobserved = ObservedTransaction::default();
            let first = self.first_outcome(waits_as, &submission, &mut unobserved);
            first.await.unwrap_or_else(|| Ok(self.nothing_done()))
        })
    }

    /// The outcome of a batch whose key was used before, which need not wait for the lock.
    async fn first_outcome(
        &self,
        waits_as: WaiterKind,
        submission: &Submission,
        observed: &mut ObservedTransaction,
    ) -> Option<BatchOutcome> {
        let mut outcome = submission.first_result(&self.0.store)?;
        observe_end(observed, &outcome);
        self.complete(waits_as, &mut outcome, submission.completion, observed)
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
        (options, label, call_site): (&'a AcquireOptions, SmolStr, &'static Location<'static>),
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
            let mut requester = options.requester_as(waits_as, &self.0.owner, call_site, true);
            requester.label.get_or_insert(&label);
            let mut work = Some(batch);
            let asked = store.fifo().ask(waits_as, &requester, options, &mut work);
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
                    if waits_as == WaiterKind::Task {
                        // It is run within this poll.
                        store.fifo().bind(grant);
                    }
                    let _held = self.combining(grant, waits_as, options);
                    self.carry_out(grant, session, submission, observed)
                }
            };
            self.complete(waits_as, &mut outcome, completion, observed)
                .await;
            outcome
        })
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
            let retrying = (waits_as == WaiterKind::Thread && attempts > 1).then(Retrying::begin);
            let mut outcome = loop {
                let at = (&options, call_site);
                let tried = self.try_on_nodes(waits_as, &submission, at, session, &mut observed);
                match tried.await {
                    Err(error) if attempt < attempts && error.retry() == Retry::Now => {}
                    outcome => break outcome,
                }
                let needs_no_pause = retrying.as_ref().map(Retrying::needs_no_pause);
                if needs_no_pause != Some(true) {
                    retry::pause_as(waits_as, attempt).await;
                }
                attempt += 1;
            };
            drop(retrying);
            observe_end(&mut observed, &outcome);
            self.complete(waits_as, &mut outcome, completion, &mut observed)
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
        if let Some(outcome) = submission.first_result(store) {
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
                let first = submission.first_result(store);
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
        let Manager { store, owner, .. } = &**self.0;
        // Like each outcome on this path, it is built in its final place.
        let outcome = match submission.first_result(store) {
            Some(outcome) => outcome,
            None => {
                let (held, mut draft) = store.draft_under(grant);
                // A batch that has waited brings the buffers of its result.
                if submission.executed.has_room() {
                    draft.record_in(std::mem::take(&mut submission.executed));
                    draft.record_changes_in(std::mem::take(&mut submission.changes));
                }
                let is_brief = submission.is_brief();
                let turn = session.map(|session| session.turn(store, &mut draft, is_brief));
                match self.edit(owner, &mut draft, submission, observed) {
                    Ok(()) => self.publish(owner, (held, &mut draft), submission, turn),
                    Err(error) => Err(error),
                }
            }
        };
        observe_end(observed, &outcome);
        outcome
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
        // Most batches are one operation on a node, which is no code.
        if !matches!(operations[..], [Operation::On { .. }]) {
            code.extend(operations.iter().filter_map(Operation::code).cloned());
        }
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
        let store = &self.0.store;
        let once = submission.once.as_deref();
        let is_inverse = submission.is_in_history() && submission.inverses().next().is_some();
        let mut publication = Publication {
            owner: owner.clone(),
            once: once.map(|once| (once.key.clone(), once.digest)),
            undone: match is_inverse {
                true => undone(Vec::new()),
                false => Vec::new(),
            },
            ..Publication::default()
        };
        let Some(mut turn) = turn else {
            return store.publish(held, draft, publication);
        };
        let clipboard = draft.has_copied().then(|| draft.clipboard().cloned());
        let unit = (owner, turn.next_version(), store.keeps_commits());
        let now = || store.monotonic();
        let history = &turn.state().history;
        let planned = history.enter(draft, &submission.in_history, now, unit);
        turn.sign(&mut publication, draft);
        publication.in_history = submission.is_in_history();
        publication.unit = planned.as_ref().map(PlannedEntry::unit);
        let outcome: BatchOutcome = store.publish(held, draft, publication);
        let Ok(result) = &outcome else {
            return outcome;
        };
        let session = turn.follow(result);
        if let Some(clipboard) = clipboard {
            session.clipboard = clipboard;
        }
        if let Some(planned) = planned {
            let inverses = submission.inverses().collect();
            session.history.record(planned, inverses, result, store);
        }
        let has_removed = session.history.has_removed();
        turn.end(has_removed);
        outcome
    }
}
