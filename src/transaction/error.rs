//! Errors of operation batches.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use smol_str::SmolStr;

use super::{HookId, PatternError};
use crate::brief::Brief;
use crate::caught::CaughtPanic;
use crate::codes::{CodedError, codes, retry_of};
use crate::document::{EditError, LimitExceeded, Position};
use crate::id::{NodeId, TransactionId};
use crate::lock::{JoinError, LockError};
use crate::store::lease::LeaseError;
use crate::store::{AliasError, CommitError};

/// Why an operation batch had no effect. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The lock was not acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock that the caller was to hold already is not held.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An operation failed, and with it the whole batch.
    #[error("operation {index} ({name}{}): {cause}", OnNode(.node_id))]
    Operation {
        /// The index of the operation in the flattened batch.
        index: usize,
        /// The name of the operation in its JSON form.
        name: &'static str,
        /// The node that the operation was applied to.
        node_id: Option<NodeId>,
        /// Why the operation failed.
        #[source]
        cause: OperationError,
    },
    /// A before-hook refused the transaction.
    #[error("before-hook {hook} refused the transaction: {reason}")]
    Refused {
        /// The hook.
        hook: HookId,
        /// The reason that the hook gave.
        reason: String,
    },
    /// A before-hook panicked.
    #[error("before-hook {hook} {payload}")]
    HookPanicked {
        /// The hook.
        hook: HookId,
        /// The payload of the panic.
        payload: PanicPayload,
    },
    /// The first transaction with the idempotency key had other operations.
    #[error(transparent)]
    IdempotencyMismatch(#[from] IdempotencyMismatch),
    /// The idempotency key exceeds a limit of the manager.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The changes were not published.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

codes! { TransactionError {
    Self::Lock(error) => as error;
    Self::Join(error) => as error;
    Self::Operation { index, name, node_id, cause } => "operationFailed"
        if cause.retry(), cause.http_status();
    Self::Refused { hook, reason } => "beforeHookRefused", 403;
    Self::HookPanicked { hook, payload } => "beforeHookPanicked" {
        hook: hook,
        panic_message: payload.message(),
    }, 500;
    Self::IdempotencyMismatch(mismatch) => as mismatch;
    Self::Limit(exceeded) => as exceeded;
    Self::Commit(error) => as error;
}}

impl TransactionError {
    /// The code under which its outcome is reported: a panic of an operation is a panic.
    pub(super) fn observed_code(&self) -> &'static str {
        match self {
            Self::Operation {
                cause: cause @ OperationError::Panicked(_),
                ..
            } => cause.code(),
            other => other.code(),
        }
    }
}

/// An error: the first transaction with an idempotency key had other operations, or was an undo or
/// a redo. See [`IdempotencyKey`](super::IdempotencyKey).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key {key:?} belongs to transaction {transaction_id} (version {version}), which ran something else", key = Brief(.key))]
#[non_exhaustive]
pub struct IdempotencyMismatch {
    /// The key.
    pub key: SmolStr,
    /// The first transaction with the key.
    pub transaction_id: TransactionId,
    /// The version of the document after that transaction.
    pub version: u64,
}

codes! { IdempotencyMismatch {
    Self { key, transaction_id, version } => "idempotencyMismatch";
}}

struct OnNode<'a>(&'a Option<NodeId>);

impl fmt::Display for OnNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, " on node {}", Brief(id)),
            None => Ok(()),
        }
    }
}

/// Why one operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The document does not permit the change.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A name stands for no node, or already stands for another.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// A range ends before it starts.
    #[error(
        "the range starts at character {} of node {}, which comes after its end at character {} of node {}",
        .start.offset, Brief(&.start.node_id), .end.offset, Brief(&.end.node_id)
    )]
    RangeReversed {
        /// The start of the range.
        start: Position,
        /// The end of the range.
        end: Position,
    },
    /// A pattern is invalid, or exceeds a limit on this text.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The characters do not begin and end with the text to be removed.
    #[error("the characters of node {id} do not begin with {before:?} and end with {after:?}", id = Brief(.id), before = Brief(.before), after = Brief(.after))]
    NotWrapped {
        /// The node.
        id: NodeId,
        /// The expected text at the beginning.
        before: SmolStr,
        /// The expected text at the end.
        after: SmolStr,
    },
    /// No character of a range has the mark that was to be changed.
    #[error(
        "no mark {kind} lies between character {} of node {} and character {} of node {}",
        .start.offset, Brief(&.start.node_id), .end.offset, Brief(&.end.node_id), kind = Brief(.kind))]
    MarkNotFound {
        /// The kind of the mark.
        kind: SmolStr,
        /// The start of the range.
        start: Position,
        /// The end of the range.
        end: Position,
    },
    /// The clipboard is empty, so there is nothing to paste.
    #[error("the clipboard is empty")]
    EmptyClipboard,
    /// A child is named twice among the children to be moved or removed.
    #[error("node {id} is named twice", id = Brief(.id))]
    NamedTwice {
        /// The child.
        id: NodeId,
    },
    /// A new order of children leaves one out.
    #[error("node {child} is a child of {parent}, but the new order leaves it out", child = Brief(.child), parent = Brief(.parent))]
    LeftOut {
        /// The parent.
        parent: NodeId,
        /// The child.
        child: NodeId,
    },
    /// The node has no grandparent, so it cannot become a sibling of its parent, and its parent
    /// cannot be split.
    #[error("node {id} has no grandparent, so nothing can be put beside its parent", id = Brief(.id))]
    NoGrandparent {
        /// The node.
        id: NodeId,
    },
    /// The root cannot be put into another node.
    #[error("node {id} is the root of the document and cannot be wrapped", id = Brief(.id))]
    RootWrapped {
        /// The root.
        id: NodeId,
    },
    /// The last node of a range of blocks does not come after the first, or is no sibling of it.
    #[error("node {last} is not a sibling of node {id} that comes after it", last = Brief(.last), id = Brief(.id))]
    NotBehind {
        /// The first node.
        id: NodeId,
        /// The last node, as named by the operation.
        last: NodeId,
    },
    /// Two text nodes of different types cannot be joined.
    #[error("nodes {left} and {right} are of different types, so the two cannot be merged", left = Brief(.left), right = Brief(.right))]
    TypesDiffer {
        /// The node that would stay.
        left: NodeId,
        /// The node that would be deleted.
        right: NodeId,
    },
    /// There is no list item to split.
    #[error("node {id} is not of type {item_type}, nor is an ancestor", id = Brief(.id), item_type = Brief(.item_type))]
    NoItem {
        /// The node.
        id: NodeId,
        /// The type of list item that the operation names.
        item_type: SmolStr,
    },
    /// There is no text before or after a text that it could be joined with.
    #[error("nothing is on that side of node {id} that it could be joined with", id = Brief(.id))]
    NothingToJoin {
        /// The node.
        id: NodeId,
    },
    /// The document is not at the expected version.
    #[error("the document is at version {found}, not {expected}")]
    VersionConflict {
        /// The expected version.
        expected: u64,
        /// The actual version.
        found: u64,
    },
    /// The transaction requires a lease that has ended.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The code returned an error other than an [`EditError`].
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// The code panicked.
    #[error("{0}")]
    Panicked(PanicPayload),
}

codes! { OperationError {
    Self::Edit(error) => as error;
    Self::Alias(error) => as error;
    Self::RangeReversed { start, end } => "rangeReversed";
    Self::Pattern(error) => as error;
    Self::NotWrapped { id, before, after } => "notWrapped";
    Self::MarkNotFound { kind, start, end } => "markNotFound";
    Self::EmptyClipboard => "emptyClipboard";
    Self::NamedTwice { id } => "childNamedTwice";
    Self::LeftOut { parent, child } => "childLeftOut";
    Self::NoGrandparent { id } => "noGrandparent";
    Self::RootWrapped { id } => "rootWrapped";
    Self::NotBehind { id, last } => "notBehind";
    Self::TypesDiffer { left, right } => "typesDiffer";
    Self::NoItem { id, item_type } => "noItem";
    Self::NothingToJoin { id } => "nothingToJoin";
    Self::VersionConflict { expected, found } => "versionConflict", 409;
    Self::Lease(error) => as error;
    Self::Failed(error) => "codeFailed" if retry_of(&**error), 500;
    Self::Panicked(payload) => as payload;
}}

impl From<Box<dyn Error + Send + Sync>> for OperationError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        match error.downcast() {
            Ok(error) => Self::Edit(*error),
            Err(error) => Self::Failed(error),
        }
    }
}

/// The payload of a panic. The panic was caught when the transaction was rolled back; the caller
/// can [resume](Self::resume) it.
///
/// Dropping this value never panics, even if the `Drop` of the payload does: that panic is caught.
pub struct PanicPayload(Mutex<CaughtPanic>);

impl PanicPayload {
    pub(super) fn new(panic: CaughtPanic) -> Self {
        Self(Mutex::new(panic))
    }

    /// Returns the message, if the panic had one.
    pub fn message(&self) -> Option<String> {
        message(&self.0)
    }

    /// Resumes the panic in the calling thread.
    pub fn resume(self) -> ! {
        let panic = self.0.into_inner();
        panic.unwrap_or_else(PoisonError::into_inner).resume()
    }
}

fn message(panic: &Mutex<CaughtPanic>) -> Option<String> {
    let panic = panic.lock().unwrap_or_else(PoisonError::into_inner);
    panic.message().map(str::to_owned)
}

impl fmt::Display for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "panicked: {message}"),
            None => f.write_str("panicked"),
        }
    }
}

codes! { PanicPayload {
    Self(panic) => "codePanicked" { panic_message: message(panic) }, 500;
}}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
