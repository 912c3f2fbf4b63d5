//! Submitted batches.

use super::execution::BatchOutcome;
use crate::document::{Changes, Limits, SharedList};
use crate::store::durable::Durability;
use crate::store::{DataStore, ExecutedOperation};
use crate::transaction::hooks::BeforeHooks;
use crate::transaction::idempotency::IdempotentBatch;
use crate::transaction::run::OperationBatch;
use crate::transaction::{
    Callback, HistoryMode, IdempotencyKey, IntoOperations, Operation, TransactionError, limits,
};

/// A submitted batch and how to record it.
#[derive(Clone, Debug)]
pub(in crate::transaction) struct Submission {
    pub(super) operations: OperationBatch,
    /// The code of the operations once they run. It is dropped with the submission, after the lock
    /// is released.
    pub(super) code: Vec<Callback>,
    pub(super) before: BeforeHooks,
    pub(super) once: Option<Box<IdempotentBatch>>,
    pub(super) in_history: HistoryMode,
    pub(super) completion: Completion,
    /// Buffers for the operations and the changes of the result.
    pub(super) executed: SharedList<ExecutedOperation>,
    pub(super) changes: Changes,
}

/// What a call does between the commit of its batch and its return.
#[derive(Clone, Copy, Debug)]
pub(in crate::transaction) enum Completion {
    /// It waits until the commit may be acknowledged, and runs the after-hooks. With a durability
    /// in place of that of the manager.
    Here(Option<Durability>),
    /// Nothing: the caller has a [`Published`](crate::transaction::Published) for that.
    Later,
}

impl Submission {
    #[inline]
    pub(in crate::transaction) fn new(operations: impl IntoOperations) -> Self {
        Self {
            operations: operations.into_operations().into(),
            code: Vec::new(),
            before: BeforeHooks::default(),
            once: None,
            in_history: HistoryMode::Recorded,
            completion: Completion::Here(None),
            executed: SharedList::default(),
            changes: Changes::default(),
        }
    }

    /// Allocates the buffers of the result: the submitter frees them, whichever thread runs the
    /// batch.
    pub(super) fn make_room(&mut self) {
        self.executed = SharedList::with_room(self.operations.len());
        self.changes = Changes::with_room(1);
    }

    /// What is left of it once its operations have run.
    pub(super) fn without_operations(&self) -> Self {
        Self {
            once: self.once.clone(),
            in_history: self.in_history.clone(),
            ..Self::new(Vec::<Operation>::new())
        }
    }

    /// Takes the batch, and leaves an empty one.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(Vec::<Operation>::new()))
    }

    /// Checks the input of a client against the limits, with no lock held.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), TransactionError> {
        if let Some(once) = &self.once {
            limits::check_key(limits, once)?;
        }
        limits::check(limits, &self.operations)
    }

    /// The outcome of the first batch with its key.
    pub(super) fn first_result(&self, store: &DataStore) -> Option<BatchOutcome> {
        self.once.as_ref().and_then(|once| once.first_result(store))
    }

    /// Whether it runs no code of users.
    pub(super) fn is_data(&self) -> bool {
        let mut operations = self.operations.iter();
        self.before.is_empty() && operations.all(|operation| operation.code().is_none())
    }

    /// Whether it is data and runs for about two hundred microseconds at most, unless it touches
    /// large parts of the document.
    pub(super) fn is_brief(&self) -> bool {
        const BRIEF: usize = 512;
        if !self.before.is_empty() {
            return false;
        }
        // Most batches are one operation on a node.
        if matches!(self.operations[..], [Operation::On { .. }]) {
            return true;
        }
        let mut operations = self.operations.iter();
        let extent = operations.try_fold(0, |extent: usize, operation| {
            Some(extent + operation.extent()?).filter(|&extent| extent <= BRIEF)
        });
        extent.is_some()
    }

    /// The inverses that its code has.
    pub(super) fn inverses(&self) -> impl Iterator<Item = Callback> {
        self.code.iter().filter_map(Callback::inverse)
    }

    pub(super) fn is_in_history(&self) -> bool {
        self.in_history != HistoryMode::Skipped
    }

    pub(in crate::transaction) fn set_key(&mut self, key: IdempotencyKey) {
        let does_nothing = first(&self.operations).is_none();
        let once = IdempotentBatch::new(key, &self.operations, does_nothing);
        self.once = Some(Box::new(once));
    }

    pub(in crate::transaction) fn set_history(&mut self, how: HistoryMode) {
        self.in_history = how;
    }

    pub(in crate::transaction) fn set_durability(&mut self, durability: Durability) {
        self.completion = Completion::Here(Some(durability));
    }

    pub(in crate::transaction) fn set_published(&mut self) {
        self.completion = Completion::Later;
    }
}

/// The first operation that has an effect.
pub(super) fn first(operations: &[Operation]) -> Option<&Operation> {
    operations.iter().find(|operation| !is_empty(operation))
}

fn is_empty(operation: &Operation) -> bool {
    matches!(operation, Operation::Control { operations, .. } if operations.is_empty())
}
