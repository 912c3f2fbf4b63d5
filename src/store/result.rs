//! The result of a commit, and the operations that it executed.

use std::fmt;
use std::ops::Not;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::codes::codes;
use crate::document::{Change, Changes, Position, Selection, SharedList};
use crate::id::{FencingToken, NodeId, OwnerId, TransactionId};

/// The result of a committed transaction.
///
/// Every way to commit returns it: [`Transaction::commit`](crate::Transaction::commit), the
/// methods of [`TransactionManager`](crate::TransactionManager) and [`Editor`](crate::Editor), and
/// the claim of an inbox. The [event](crate::events::CommitEvent) of a commit carries the same
/// value, which describes the commit completely: it can be logged, or applied to a copy of the
/// document.
///
/// Serializes in camelCase. Selections, places and keys that are `None`, a `repeated` that is
/// false and empty hook failures are omitted. It can be read back, apart from the hook failures.
///
/// ```
/// use doclock::{DataStore, TransactionManager, dsl::*};
///
/// let store = DataStore::new();
/// let events = store.subscribe();
/// let manager = TransactionManager::new(store);
/// let result = manager.execute([create(text_node("paragraph", "Hello"))])?;
/// assert_eq!((result.version, result.operations.len(), result.changes.len()), (1, 1, 1));
/// assert_eq!(*events.recv()?.commit, result);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TransactionResult {
    /// The id of the transaction.
    pub transaction_id: TransactionId,
    /// The document's version after the transaction; the version before it, if nothing changed.
    pub version: u64,
    /// Whether the transaction changed anything, and so made that version. A transaction that
    /// changed nothing sends no event.
    pub changed: bool,
    /// The owner of the lock.
    pub owner: OwnerId,
    /// The fencing token of the grant. Of two commits, the later has no smaller token. If both were
    /// on nodes, this holds only if both wrote to one node. It is zero for a batch without
    /// operations, which requests no lock.
    pub fencing_token: FencingToken,
    /// The idempotency key, if the transaction had one. From the key, a copy or a log can recognize
    /// a transaction that was already committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<SmolStr>,
    /// The executed operations, in order, if the transaction ran an operation batch. Those within a
    /// `control` are listed separately.
    pub operations: SharedList<ExecutedOperation>,
    /// The primitive changes, in order. Applied to the version before, they produce this version.
    /// Empty if nothing changed, and in a repetition, because a receipt does not keep them.
    pub changes: Changes,
    /// The editor's selection before the transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_before: Option<Selection>,
    /// The editor's selection after it: moved along with the text, or removed with its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_after: Option<Selection>,
    /// Of an undo or a redo, the [first place](Changes::first_place) that it changed, in this
    /// version: a front end scrolls there. `None` if it changed nothing, or if no node is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // In a box, because few results have one and each is moved.
    pub first_place: Option<Box<Position>>,
    /// Whether this is the result of an earlier transaction with the same idempotency key; nothing
    /// was done now.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub repeated: bool,
    /// The after-hooks of this transaction that failed. A repetition runs none. Always empty in an
    /// event, which is sent before the after-hooks run.
    #[serde(skip_serializing_if = "<[_]>::is_empty", skip_deserializing)]
    pub hook_failures: SharedList<HookFailure>,
}

impl TransactionResult {
    /// The result of a batch without operations, which requests no lock.
    pub(crate) fn nothing_done(
        transaction_id: TransactionId,
        version: u64,
        owner: OwnerId,
    ) -> Self {
        Self {
            transaction_id,
            version,
            changed: false,
            owner,
            fencing_token: FencingToken(0),
            idempotency_key: None,
            operations: SharedList::default(),
            changes: Changes::default(),
            selection_before: None,
            selection_after: None,
            first_place: None,
            repeated: false,
            hook_failures: SharedList::default(),
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let operations = self
            .operations
            .iter()
            .map(|executed| size_of::<ExecutedOperation>() + size_of_val(&executed.created[..]));
        let changes = self.changes.iter().map(Change::bytes);
        size_of::<Self>() + operations.sum::<usize>() + changes.sum::<usize>()
    }
}

/// Identifies a hook in its [`Hooks`](crate::transaction::Hooks): the first is number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct HookId(u64);

impl HookId {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an after-hook did not complete. The transaction is committed regardless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookFailure {
    /// The hook panicked.
    #[error("after-hook {hook} panicked: {}", .message.as_deref().unwrap_or("without a message"))]
    Panicked {
        /// The hook.
        hook: HookId,
        /// The message of the panic, if it had one.
        message: Option<String>,
    },
    /// The hook did not run, because after-hooks whose transactions run after-hooks were nested too
    /// deeply.
    #[error("after-hook {hook} was not run: {depth} after-hooks are nested already")]
    TooDeep {
        /// The hook.
        hook: HookId,
        /// How many after-hooks were running in this thread.
        depth: usize,
    },
}

codes! { HookFailure {
    Self::Panicked { hook, message } => "afterHookPanicked" {
        hook: hook,
        panic_message: message,
    }, 500;
    Self::TooDeep { hook, depth } => "afterHookTooDeep", 500;
}}

/// Describes an operation that was executed.
///
/// Serializes in camelCase: `{"type": "insertText", "nodeId": "1:4", "created": []}`.
///
/// The commit of an undo has one executed operation, `{"type": "undo", "created": []}`, and that of
/// a redo has `{"type": "redo", "created": []}`. Both are without a target node and without created
/// nodes, also if the undo inserts deleted nodes again; the changes contain these. No other
/// operation has one of these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExecutedOperation {
    /// The name of the operation in the JSON form of the DSL; `undo` or `redo` for an undo or redo.
    #[serde(rename = "type")]
    pub name: SmolStr,
    /// The target node of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The nodes that the operation created and that still existed at its end. First come the
    /// inserted nodes in document order, then the right halves of split nodes, the outermost first.
    #[serde(default)]
    pub created: Vec<NodeId>,
}

impl ExecutedOperation {
    /// An operation without a target node that creates none.
    pub(crate) fn named(name: SmolStr) -> Self {
        Self {
            name,
            node_id: None,
            created: Vec::new(),
        }
    }
}
