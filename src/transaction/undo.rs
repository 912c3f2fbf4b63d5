//! Undo and redo: each reverts an entry of a history in a transaction of its own.

use std::panic::Location;
use std::sync::Arc;

use smol_str::SmolStr;

use super::history::{self, Direction, Rewound, UndoAttempt, UndoFailure, UndoScope};
use super::idempotency::IdempotentBatch;
use super::session::{Session, SessionTurn};
use super::{TransactionManager, TransactionResult, UndoError};
use crate::codes::CodedError;
use crate::document::{Change, View};
use crate::id::{NodeId, OwnerId};
use crate::lock::{AcquireOptions, Requester, Scope, WaiterKind};
use crate::store::{
    CommitError, DataStore, Draft, ExecutedOperation, HeldGrant, ObservedTransaction, Publication,
    Publish, Reversal, Transaction, TransactionHold, undone,
};

type UndoOutcome = Result<TransactionResult, UndoError>;

/// An undo or a redo of a session.
#[derive(Clone)]
pub(super) struct UndoOrRedo {
    manager: TransactionManager,
    session: Session,
    direction: Direction,
    scope: UndoScope,
    once: Option<IdempotentBatch>,
}

impl UndoOrRedo {
    pub(super) fn new(
        manager: &TransactionManager,
        session: &Session,
        (direction, scope): &(Direction, UndoScope),
        once: Option<IdempotentBatch>,
    ) -> Self {
        Self {
            manager: manager.clone(),
            session: session.clone(),
            direction: *direction,
            scope: scope.clone(),
            once,
        }
    }

    fn store(&self) -> &DataStore {
        self.manager.store()
    }

    fn owner(&self) -> &OwnerId {
        self.manager.owner()
    }

    fn name(&self) -> SmolStr {
        SmolStr::new_static(self.direction.name())
    }

    fn nothing(&self) -> UndoError {
        match self.direction {
            Direction::Undo => UndoError::NothingToUndo,
            Direction::Redo => UndoError::NothingToRedo,
        }
    }

    /// The outcome of the first undo or redo with its key.
    fn first_result(&self) -> Option<UndoOutcome> {
        let once = self.once.as_ref()?;
        once.first_result(self.store())
    }

    fn attempt(&self) -> UndoAttempt {
        let key = self.once.as_ref().map(|once| once.key.clone());
        UndoAttempt::new(self.direction, self.scope.clone(), key)
    }

    /// Checks it before the lock is requested.
    pub(super) fn check_in(&self) -> Result<(), UndoError> {
        match &self.once {
            Some(once) => Ok(self.manager.check_key(once)?),
            // With a key, the call that takes the last entry may be the first with this key.
            None if self.session.state().history.depth(self.direction) == 0 => Err(self.nothing()),
            None => Ok(()),
        }
    }

    /// Reverts an entry and publishes the result.
    pub(super) async fn publish(
        &self,
        waits_as: WaiterKind,
        (options, call_site): (&AcquireOptions, &'static Location<'static>),
        observed: &mut ObservedTransaction,
    ) -> UndoOutcome {
        let name = self.name();
        let mut requester = options.requester(self.owner(), call_site, true);
        requester.label.get_or_insert(&name);
        *observed = self.store().observe(self.direction.kind(), &requester);
        if let Some(attempts) = self.manager.attempts_on_nodes() {
            let request = (options, call_site);
            let published = self.publish_on_nodes(waits_as, attempts, request, observed);
            if let Some(outcome) = Box::pin(published).await {
                return outcome;
            }
        }
        self.publish_under_lock(waits_as, requester, options, observed)
            .await
    }

    // --- Under the document lock ---

    async fn publish_under_lock(
        &self,
        waits_as: WaiterKind,
        requester: Requester<'_>,
        options: &AcquireOptions,
        observed: &mut ObservedTransaction,
    ) -> UndoOutcome {
        let store = self.store();
        // An entry is undone within one call or poll, so it is bound to the thread of that.
        let grant = match store.fifo().try_grant(&requester, options) {
            Ok(Some(grant)) => grant,
            granted => {
                // A completed one need not wait.
                if let Some(outcome) = self.first_result() {
                    return outcome;
                }
                granted?;
                let thread = match waits_as {
                    WaiterKind::Thread => requester.thread,
                    WaiterKind::Task => 0,
                };
                let requester = Requester {
                    thread,
                    ..requester
                };
                let grant = store
                    .fifo()
                    .grant_in_queue(waits_as, &requester, options)
                    .await?;
                if waits_as == WaiterKind::Task {
                    store.fifo().bind(grant);
                }
                grant
            }
        };
        observed.granted();
        // Declared before the hold, hence dropped without the lock: it may hold the last reference
        // to the code of an entry.
        let mut attempt = self.attempt();
        let hold = TransactionHold::new(store.clone(), grant, ObservedTransaction::default());
        if let Some(outcome) = self.first_result() {
            return outcome;
        }
        let (held, mut draft) = store.draft_under(grant);
        let turn = self.session.turn(store, &mut draft, false);
        let rewound = observed.in_span(|| self.rewind(held, &mut attempt, &mut draft))?;
        let result = self.publish_rewound((held, &mut draft), &mut attempt, rewound, turn);
        observed.ended(result.as_ref().map_err(CommitError::code));
        drop((draft, hold));
        result.map_err(UndoError::Commit)
    }

    // --- Under node locks ---

    /// Reverts an entry with the nodes locked that this changes. `None` if it has to hold the whole
    /// document.
    async fn publish_on_nodes(
        &self,
        waits_as: WaiterKind,
        attempts: u32,
        (options, call_site): (&AcquireOptions, &'static Location<'static>),
        observed: &mut ObservedTransaction,
    ) -> Option<UndoOutcome> {
        let store = self.store();
        let options = options.clone().or_label(self.name());
        let mut scope = Scope::new();
        for _ in 0..=attempts {
            // A completed one need not wait.
            let first = self.first_result();
            if first.is_some() || self.session.state().history.runs_code(self.direction) {
                return first;
            }
            let (owner, locked) = (self.owner().clone(), scope.clone());
            let begun = store.begin_on_as(waits_as, owner, locked, options.clone(), call_site);
            let mut transaction = match Box::pin(begun).await {
                Ok(transaction) => transaction,
                Err(error) => return Some(Err(error.into())),
            };
            observed.granted();
            transaction.observe_as_batch(std::mem::take(observed));
            let how = OnNodes {
                reversal: self.clone(),
                missing: None,
            };
            let published = transaction.publish_on_nodes(waits_as, how);
            let (mut transaction, how, outcome) = published.await;
            *observed = transaction.take_observed();
            match (how.missing, outcome) {
                (Some(missing), _) => scope.extend(missing),
                (None, Err(UndoError::Commit(CommitError::NotLocked(error)))) => {
                    return Some(Err((*error).into()));
                }
                (None, outcome) => return Some(outcome),
            }
        }
        None
    }

    // --- In both ---

    /// Publishes a draft in which an entry is reverted, and moves all entries that are undone.
    fn publish_rewound(
        &self,
        (held, draft): (HeldGrant, &mut Draft),
        attempt: &mut UndoAttempt,
        rewound: Rewound,
        mut turn: SessionTurn<'_>,
    ) -> Result<TransactionResult, CommitError> {
        let store = self.store();
        draft.record(ExecutedOperation::named(self.name()));
        let entry = attempt.reversed(&rewound);
        let once = self.once.as_ref();
        let mut publication = Publication {
            owner: self.owner().clone(),
            once: once.map(|once| (once.key.clone(), once.digest)),
            undone: undone(attempt.versions()),
            in_history: true,
            reversal: Reversal {
                is_recorded: rewound.is_recorded(),
                newest: rewound.newest.clone(),
                entry: entry.filter(|_| store.keeps_commits()).map(Arc::new),
            },
            ..Publication::default()
        };
        turn.sign(&mut publication, draft);
        // The history is not read between the commit and its entry.
        turn.state();
        let result = store.publish::<CommitError>(held, draft, publication);
        if let Ok(result) = &result {
            let made = (result.version, &result.changes);
            let session = turn.follow(result);
            let added = history::record_published_undo(store, (&mut *attempt, rewound), made);
            let version = result.changed.then_some(result.version);
            session.history.move_entries(attempt, added, version);
        }
        let has_removed = turn.state().history.has_removed();
        turn.end(has_removed);
        result
    }

    /// Undoes the newest entry of the scope for which this is possible. An undo continues after an
    /// entry if the failure of its undo was returned before.
    fn rewind(
        &self,
        held: HeldGrant,
        attempt: &mut UndoAttempt,
        on: &mut Draft,
    ) -> Result<Rewound, UndoError> {
        let (store, owner) = (self.store(), self.owner());
        let mut passed = None;
        // The document and the entries match if the grant is still valid: no other commit happened
        // in between.
        store.check_grant(held.grant, owner)?;
        let node = self.scope.node.as_ref();
        if let Some(node) = node.filter(|node| !on.base().contains(node)) {
            let node = NodeId::clone(node);
            return Err(UndoError::ScopeNotFound { node });
        }
        while self.session.state().history.try_next(attempt) {
            // The session's mutex is free here: the code of an inverse may read the selection.
            let outcome = on.all_or_nothing(|on| {
                let rewound = attempt.rewind(store, owner, on).map_err(Some)?;
                self.scope.has_reverted(on).then_some(rewound).ok_or(None)
            });
            let failure = match outcome {
                Ok(rewound) => {
                    // Code of an inverse can put another draft in its place.
                    if !store.is_own(held, on) {
                        return Err(on.foreign().into());
                    }
                    let is_changed = on.changes().iter().any(Change::is_of_the_document);
                    let goes_on = || self.session.state().history.goes_on_after(attempt);
                    if is_changed || store.check_writable().is_err() || !goes_on() {
                        return Ok(rewound);
                    }
                    attempt.pass(rewound, on.base().version());
                    continue;
                }
                Err(None) => continue,
                Err(Some(failure)) => failure,
            };
            // A revoked holder sees later commits; the cause of its failure is the revocation.
            store.check_grant(held.grant, owner)?;
            if !self.scope.has_failed(&failure, on.base()) {
                continue;
            }
            if attempt.has_passed() && !attempt.was_refused() {
                // It is returned when it is tried first.
                break;
            }
            if self.session.state().history.refuse(attempt) && !attempt.has_passed() {
                return Err(self.explain(failure, attempt));
            }
            passed.get_or_insert(failure);
        }
        match passed {
            // Entries without an effect are undone. The call succeeds, and changes nothing.
            _ if attempt.has_passed() => Ok(attempt.end()),
            Some(failure) => Err(self.explain(failure, attempt)),
            None => Err(self.nothing()),
        }
    }

    fn explain(&self, failure: UndoFailure, attempt: &UndoAttempt) -> UndoError {
        let store = self.store();
        failure.explain(attempt.direction, |refusal| {
            let owner = refusal.version.and_then(|it| store.owner_of_version(it));
            let latest = |node| store.latest_change(node, self.session.id());
            let by = owner.zip(refusal.version);
            let by = by.or_else(|| refusal.conflict.node().and_then(latest));
            let is_recorded = |it: &(OwnerId, u64)| store.owner_of_version(it.1).is_some();
            let returns = by.as_ref().is_some_and(is_recorded);
            (by, returns)
        })
    }
}

/// An undo or a redo that has locked nodes.
struct OnNodes {
    reversal: UndoOrRedo,
    /// What it has to lock besides. It is not published then.
    missing: Option<Scope>,
}

impl Publish for OnNodes {
    type Error = UndoError;

    fn is_brief(&self, _: &Transaction) -> bool {
        false
    }

    /// Determines what it changes, which is exact: no other commit comes in between.
    fn publish(&mut self, transaction: &mut Transaction) -> UndoOutcome {
        let Self { reversal, missing } = self;
        let (store, session) = (reversal.store(), &reversal.session);
        // Another one with its key may have been published while it waited.
        if let Some(first) = reversal.first_result() {
            return first;
        }
        let mut attempt = reversal.attempt();
        let mut unlocked = transaction.without_locks();
        let turn = session.turn(store, &mut unlocked, false);
        let (held, draft) = transaction.parts_mut();
        // Another thread has given the history code.
        let runs_code = session.state().history.runs_code(reversal.direction);
        let lacks = match runs_code {
            true => Scope::new(),
            false => {
                let rewound = reversal.rewind(held, &mut attempt, &mut unlocked)?;
                let lacks = draft.lacks(&unlocked);
                if lacks.is_empty() {
                    // Of the same version, so it is taken.
                    if draft.take_over(&mut unlocked) {
                        let made = (held, draft);
                        return Ok(reversal.publish_rewound(made, &mut attempt, rewound, turn)?);
                    }
                }
                lacks
            }
        };
        let node = lacks.nodes().next().map(|(id, _)| id.clone());
        *missing = Some(lacks);
        Err(CommitError::Conflict {
            node,
            version: draft.base().version(),
        }
        .into())
    }
}
