//! Runs lists of operations, each as one transaction.

use serde::Serialize;
use smol_str::SmolStr;

use super::{IntoOperations, Operation, TransactionError};
use crate::document::Selection;
use crate::id::{LockId, OwnerId, TransactionId};
use crate::lock::AcquireOptions;
use crate::store::{Committed, DataStore, ExecutedOperation, Transaction};

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
}

/// What became of a list of operations.
///
/// Serializes in camelCase.
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
        self.run(operations.into_operations(), options, |_| (), commit)
    }

    /// As [`execute`](Self::execute), under a lock that is held by id and stays held.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; nothing is changed then.
    pub fn execute_under(
        &self,
        lock: LockId,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let mut transaction = self.store.begin_with(lock)?;
        transaction.run(operations)?;
        commit(transaction)
    }

    /// Begins, runs, and lets `finish` commit while the lock is still held.
    pub(super) fn run(
        &self,
        operations: Vec<Operation>,
        options: AcquireOptions,
        prepare: impl FnOnce(&mut Transaction),
        finish: impl FnOnce(Transaction) -> Result<TransactionResult, TransactionError>,
    ) -> Result<TransactionResult, TransactionError> {
        let Some(first) = operations.iter().find(|operation| !is_empty(operation)) else {
            return Ok(self.nothing_done());
        };
        let options = options.label_unless_set(SmolStr::new_static(first.name()));
        let mut transaction = self.store.begin_as(&self.owner, options)?;
        prepare(&mut transaction);
        transaction.run(operations)?;
        finish(transaction)
    }

    fn nothing_done(&self) -> TransactionResult {
        TransactionResult {
            transaction_id: self.store.next_transaction(),
            version: self.store.version(),
            changed: false,
            operations: Vec::new(),
            selection_before: None,
            selection_after: None,
        }
    }
}

fn is_empty(operation: &Operation) -> bool {
    matches!(operation, Operation::Control { operations, .. } if operations.is_empty())
}

fn commit(transaction: Transaction) -> Result<TransactionResult, TransactionError> {
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
        }
    }
}
