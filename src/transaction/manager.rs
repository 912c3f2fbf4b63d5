//! Runs lists of operations, each as one transaction.

use std::ops::Not;

use serde::Serialize;
use smol_str::SmolStr;

use super::{Callback, HookFailure, Hooks, IntoOperations, Operation, TransactionError};
use crate::document::Selection;
use crate::id::{LockId, OwnerId, TransactionId};
use crate::lock::AcquireOptions;
use crate::store::{Committed, DataStore, ExecutedOperation, Receipt, Transaction};

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
/// # Ok::<(), doclock::TransactionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransactionManager {
    store: DataStore,
    owner: OwnerId,
    /// None unless some were given, so that who has none does not pay for any.
    hooks: Option<Hooks>,
}

/// A list of operations on its way to the store.
pub(super) struct Submission {
    pub(super) operations: Vec<Operation>,
    pub(super) options: AcquireOptions,
    pub(super) idempotency_key: Option<SmolStr>,
}

/// What became of a list of operations.
///
/// Serializes in camelCase, without hook failures where there are none and without `repeated` where it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TransactionResult {
    /// The transaction.
    pub transaction_id: TransactionId,
    /// The document's version after it; that before it, if it changed nothing.
    pub version: u64,
    /// Whether it changed anything, and so made that version.
    pub changed: bool,
    /// What was carried out, in order, those within a `control` one by one.
    pub operations: Vec<ExecutedOperation>,
    /// The editor's selection before.
    pub selection_before: Option<Selection>,
    /// The editor's selection after: moved along with the text, gone with the node.
    pub selection_after: Option<Selection>,
    /// Whether this is the result of an earlier transaction with the same idempotency key, and nothing was done now.
    #[serde(skip_serializing_if = "Not::not")]
    pub repeated: bool,
    /// The after-hooks of this transaction that did not do their work. A repetition runs none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hook_failures: Vec<HookFailure>,
}

impl TransactionManager {
    /// Runs transactions for the owner `transaction-execution`.
    pub fn new(store: DataStore) -> Self {
        Self::for_owner(store, "transaction-execution")
    }

    /// Runs transactions for an owner.
    pub fn for_owner(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        Self {
            store,
            owner: owner.into(),
            hooks: None,
        }
    }

    /// The same with these hooks in the place of those that it has.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self {
            hooks: Some(hooks),
            ..self
        }
    }

    /// The store.
    pub fn store(&self) -> &DataStore {
        &self.store
    }

    /// For whom the transactions run.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Waits for the lock, runs the operations in the order given, and commits.
    ///
    /// All of them or none: at the first that fails, and if one panics, everything is rolled back, the lock goes to
    /// the next in line, and the error says which it was. A list without operations succeeds without waiting
    /// and makes no version.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute(
        &self,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        self.execute_with(operations, AcquireOptions::new())
    }

    /// As [`execute`](Self::execute), with options for the wait. Unless they bring a label of their own, the lock
    /// is labelled with the name of the first operation.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        self.run(Submission::new(operations, options), |_| (), commit)
    }

    /// As [`execute_with`](Self::execute_with), once for a key: if it comes again, the result of the first time is
    /// returned, [marked as repeated](field@TransactionResult::repeated), and nothing is done. No operation and no hook
    /// runs, and there is no version and no event.
    ///
    /// So who does not know whether a transaction was committed can submit it again. The result is kept from the
    /// moment in which the changes are published, also if there are none; a transaction that failed leaves nothing
    /// behind and can be tried again. Of several at the same time with one key, one is carried out and the others
    /// wait for their turn and get its result.
    ///
    /// A key belongs to the store, whoever uses it, and stands for its first transaction, whatever operations come
    /// with it later. It is forgotten when [as many others](crate::StoreOptions::remembered_keys) have come
    /// after it. A list without operations is no use of a key.
    ///
    /// ```
    /// use doclock::{AcquireOptions, DataStore, TransactionManager, dsl::*};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let pay = || [create(text_node("payment", "100"))];
    /// let first = manager.execute_once("invoice 7", pay(), AcquireOptions::new())?;
    /// let again = manager.execute_once("invoice 7", pay(), AcquireOptions::new())?;
    /// assert_eq!((again.version, again.transaction_id), (1, first.transaction_id));
    /// assert!(again.repeated && !first.repeated);
    /// assert_eq!(manager.store().snapshot().len(), 1);
    /// # Ok::<(), doclock::TransactionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute_once(
        &self,
        key: impl Into<SmolStr>,
        operations: impl IntoOperations,
        options: AcquireOptions,
    ) -> Result<TransactionResult, TransactionError> {
        self.run(
            Submission::new(operations, options).once(key),
            |_| (),
            commit,
        )
    }

    /// As [`execute`](Self::execute), under a lock that is held by id and stays held. After-hooks run when the
    /// transaction is over, but the lock is not released yet.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute_under(
        &self,
        lock: LockId,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let transaction = self.store.begin_with(lock)?;
        let operations = operations.into_operations();
        if first(&operations).is_none() {
            return commit(transaction, Vec::new());
        }
        self.carry_out(transaction, operations, commit)
    }

    /// Begins, runs, and lets `finish` commit while the lock is still held.
    pub(super) fn run(
        &self,
        submission: Submission,
        prepare: impl FnOnce(&mut Transaction),
        finish: impl FnOnce(Transaction, Vec<Callback>) -> Result<TransactionResult, TransactionError>,
    ) -> Result<TransactionResult, TransactionError> {
        let Submission {
            operations,
            options,
            idempotency_key: key,
        } = submission;
        let receipt = || self.store.receipt(key.as_ref()?);
        // What is done already need not wait.
        if let Some(receipt) = receipt() {
            return Ok(TransactionResult::repeated(&receipt));
        }
        let Some(first) = first(&operations) else {
            return Ok(self.nothing_done());
        };
        let options = options.label_unless_set(SmolStr::new_static(first.name()));
        let mut transaction = self.store.begin_as(&self.owner, options)?;
        // From here on nobody else can use the key; while this one waited, somebody may have.
        if let Some(receipt) = receipt() {
            return Ok(TransactionResult::repeated(&receipt));
        }
        if let Some(key) = key {
            transaction.remember_as(key);
        }
        prepare(&mut transaction);
        self.carry_out(transaction, operations, finish)
    }

    fn carry_out(
        &self,
        mut transaction: Transaction,
        operations: Vec<Operation>,
        finish: impl FnOnce(Transaction, Vec<Callback>) -> Result<TransactionResult, TransactionError>,
    ) -> Result<TransactionResult, TransactionError> {
        let operations = match &self.hooks {
            Some(hooks) => hooks.run_before(&transaction, operations)?,
            None => operations,
        };
        let inverses = operations.iter().filter_map(Operation::inverse).collect();
        transaction.run_list(operations)?;
        // Changed in place: results are large to move.
        let mut outcome = finish(transaction, inverses);
        if let Ok(result) = &mut outcome {
            self.follow(result);
        }
        outcome
    }

    /// Lets the after-hooks see a result.
    pub(super) fn follow(&self, result: &mut TransactionResult) {
        if let Some(hooks) = &self.hooks {
            result.hook_failures = hooks.run_after(result);
        }
    }

    fn nothing_done(&self) -> TransactionResult {
        TransactionResult {
            transaction_id: self.store.next_transaction(),
            version: self.store.version(),
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
    pub(super) fn new(operations: impl IntoOperations, options: AcquireOptions) -> Self {
        Self {
            operations: operations.into_operations(),
            options,
            idempotency_key: None,
        }
    }

    pub(super) fn once(self, key: impl Into<SmolStr>) -> Self {
        Self {
            idempotency_key: Some(key.into()),
            ..self
        }
    }
}

/// The first operation that does anything.
fn first(operations: &[Operation]) -> Option<&Operation> {
    operations.iter().find(|operation| !is_empty(operation))
}

fn is_empty(operation: &Operation) -> bool {
    matches!(operation, Operation::Control { operations, .. } if operations.is_empty())
}

fn commit(
    transaction: Transaction,
    _: Vec<Callback>,
) -> Result<TransactionResult, TransactionError> {
    Ok(transaction.commit()?.into())
}

impl From<Committed> for TransactionResult {
    fn from(committed: Committed) -> Self {
        Self {
            transaction_id: committed.transaction_id,
            version: committed.version,
            changed: committed.changed,
            operations: committed.operations,
            selection_before: None,
            selection_after: None,
            repeated: false,
            hook_failures: Vec::new(),
        }
    }
}

impl TransactionResult {
    fn repeated(first: &Receipt) -> Self {
        Self {
            transaction_id: first.transaction_id,
            version: first.version,
            changed: first.changed,
            operations: first.operations.clone(),
            selection_before: first.selection_before.clone(),
            selection_after: first.selection_after.clone(),
            repeated: true,
            hook_failures: Vec::new(),
        }
    }
}
