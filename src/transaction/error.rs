//! Why a transaction was not carried out.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use smol_str::SmolStr;

use super::retry::is_transient;
use super::{HookId, PatternError};
use crate::brief::Brief;
use crate::caught::CaughtPanic;
use crate::codes::codes;
use crate::document::{EditError, LimitExceeded, Position};
use crate::id::{NodeId, TransactionId};
use crate::lock::{JoinError, LockError};
use crate::store::lease::LeaseError;
use crate::store::{AliasError, CommitError, TakenOut};

/// Why a list of operations had no effect. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The lock was not acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock that was to be held already is not.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An operation failed, and with it the whole list.
    #[error("operation {index} ({name}{}): {cause}", OnNode(.node_id))]
    Operation {
        /// Which one, counted from zero in the flattened list.
        index: usize,
        /// Its name in the JSON form.
        name: &'static str,
        /// The node that it was aimed at.
        node_id: Option<NodeId>,
        /// What went wrong.
        #[source]
        cause: OperationError,
    },
    /// A before-hook refused.
    #[error("before-hook {hook} refused the transaction: {reason}")]
    Refused {
        /// The hook.
        hook: HookId,
        /// The reason that it gave.
        reason: String,
    },
    /// A before-hook panicked.
    #[error("before-hook {hook} {payload}")]
    HookPanicked {
        /// The hook.
        hook: HookId,
        /// What the panic carried.
        payload: PanicPayload,
    },
    /// The idempotency key stands for a transaction with other operations. See
    /// [`IdempotencyKey`](super::IdempotencyKey).
    #[error(
        "the key {key:?} stands for transaction {transaction_id} (version {version}), which had other operations", key = Brief(.key))]
    IdempotencyMismatch {
        /// The key.
        key: SmolStr,
        /// The transaction that came first with it.
        transaction_id: TransactionId,
        /// The document's version after that transaction.
        version: u64,
    },
    /// The idempotency key goes beyond a limit of the manager.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The changes were not published.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

codes! { TransactionError {
    Self::Lock(error) => as error;
    Self::Join(error) => as error;
    Self::Operation { index, name, node_id, cause } => "operationFailed" if cause.is_transient();
    Self::Refused { hook, reason } => "beforeHookRefused";
    Self::HookPanicked { hook, payload } => "beforeHookPanicked" {
        hook: hook,
        panic_message: payload.message(),
    };
    Self::IdempotencyMismatch { key, transaction_id, version } => "idempotencyMismatch";
    Self::Limit(exceeded) => as exceeded;
    Self::Commit(error) => as error;
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
    /// The document does not allow it.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A name that stands for no node, or for another.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// A range ends before it starts.
    #[error(
        "the range starts at character {} of node {}, which comes after its end at character {} of node {}",
        .start.offset, Brief(&.start.node_id), .end.offset, Brief(&.end.node_id)
    )]
    RangeReversed {
        /// Where it was to start.
        start: Position,
        /// Where it was to end.
        end: Position,
    },
    /// A pattern cannot be used, or not on this text.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Characters do not stand between what was to be taken away around them.
    #[error("the characters of node {id} do not begin with {before:?} and end with {after:?}", id = Brief(.id), before = Brief(.before), after = Brief(.after))]
    NotWrapped {
        /// The node.
        id: NodeId,
        /// What they were to begin with.
        before: SmolStr,
        /// What they were to end with.
        after: SmolStr,
    },
    /// No character of a range has the mark that was to be changed.
    #[error(
        "no mark {kind} lies between character {} of node {} and character {} of node {}",
        .start.offset, Brief(&.start.node_id), .end.offset, Brief(&.end.node_id), kind = Brief(.kind))]
    MarkNotFound {
        /// The kind of the mark.
        kind: SmolStr,
        /// Where the range starts.
        start: Position,
        /// Where it ends.
        end: Position,
    },
    /// There is nothing to paste.
    #[error("the clipboard is empty")]
    EmptyClipboard,
    /// Among children to be moved or removed, one is named twice.
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
    /// A node without a grandparent cannot come to stand beside its parent, nor can its parent be
    /// cut in two.
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
    /// The nodes to be put into a list do not end with a later sibling of the first.
    #[error("node {last} is not a sibling of node {id} that comes after it", last = Brief(.last), id = Brief(.id))]
    NotBehind {
        /// The first node.
        id: NodeId,
        /// The node that was named as the last.
        last: NodeId,
    },
    /// Two text nodes of different types cannot become one.
    #[error("nodes {left} and {right} are of different types, so the two cannot be merged", left = Brief(.left), right = Brief(.right))]
    TypesDiffer {
        /// The node that was to stay.
        left: NodeId,
        /// The node that was to go.
        right: NodeId,
    },
    /// There is no list item to be split.
    #[error("node {id} is no {item_type}, and is in none", id = Brief(.id), item_type = Brief(.item_type))]
    NoItem {
        /// The node.
        id: NodeId,
        /// The type that was looked for.
        item_type: SmolStr,
    },
    /// The document is not at the version for which the transaction was made.
    #[error("the document is at version {found}, not {expected}")]
    VersionConflict {
        /// The version that was asked for.
        expected: u64,
        /// The version that there is.
        found: u64,
    },
    /// The transaction requires a lease that has ended.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Its code has put another transaction in the place of the one that it ran in.
    #[error(transparent)]
    TakenOut(#[from] TakenOut),
    /// Its code returned an error, other than an [`EditError`].
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// Its code panicked.
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
    Self::VersionConflict { expected, found } => "versionConflict";
    Self::Lease(error) => as error;
    Self::TakenOut(error) => as error;
    Self::Failed(error) => "codeFailed" if is_transient(&**error);
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

/// What a panic carried. It was caught when the transaction was rolled back, and can go on from
/// here.
///
/// A payload whose own `Drop` panics does so in no thread that drops this value: that panic ends
/// there.
pub struct PanicPayload(Mutex<CaughtPanic>);

impl PanicPayload {
    pub(super) fn new(panic: CaughtPanic) -> Self {
        Self(Mutex::new(panic))
    }

    /// The message, if the panic had one.
    pub fn message(&self) -> Option<String> {
        message(&self.0)
    }

    /// Lets the panic go on in the calling thread.
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
    Self(panic) => "codePanicked" { panic_message: message(panic) };
}}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
