//! Errors of undo and redo.

use std::fmt;

use crate::brief::Brief;
use crate::codes::{CodedError, codes};
use crate::document::{LimitExceeded, UndoConflict};
use crate::id::{NodeId, OwnerId};
use crate::lock::LockError;
use crate::store::CommitError;
use crate::transaction::error::{IdempotencyMismatch, OperationError};

/// Why an undo or a redo failed. The document is not changed then, and no entry is removed from the
/// history.
///
/// After [`Conflict`](Self::Conflict), [`Inverse`](Self::Inverse) and a violated schema, the next
/// undo can revert an older entry: see [`Editor`](crate::Editor#undo-and-redo).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// There is nothing to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// There is nothing to redo.
    #[error("there is nothing to redo")]
    NothingToRedo,
    /// The node of the scope does not exist.
    #[error("the node of the undo scope does not exist: {}", Brief(.node))]
    ScopeNotFound {
        /// The node.
        node: NodeId,
    },
    /// The lock was not acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A later change by another editor conflicts with the undo, or the tree forbids the redo.
    #[error(
        "the entry can no longer be {}: {conflict}{}",
        if *redo { "redone" } else { "undone" }, ConflictingCommit(.by)
    )]
    Conflict {
        /// Whether it was a redo.
        redo: bool,
        /// The conflict.
        #[source]
        conflict: UndoConflict,
        /// The owner and the version of the later edit in the way, if known.
        by: Option<(OwnerId, u64)>,
        /// Whether the edit in the way can still be undone. Then the entry can be undone after
        /// that.
        returns: bool,
    },
    /// The inverse code of an operation failed.
    #[error("the inverse of an operation failed: {0}")]
    Inverse(#[source] OperationError),
    /// The first transaction with the idempotency key was not this undo or redo.
    #[error(transparent)]
    IdempotencyMismatch(#[from] IdempotencyMismatch),
    /// The idempotency key exceeds a limit of the editor.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The changes were not published.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl UndoError {
    /// Returns the node at which the undo or redo failed, which is that of the inner error. Returns
    /// `None` if the error concerns no node.
    ///
    /// ```
    /// use doclock::{codes::CodedError, DataStore, Editor, document::NodeSpec, dsl::*};
    ///
    /// let store = DataStore::new();
    /// let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(store.clone(), owner));
    /// transaction(&ann, create(text_node("inline-text", "Hello").with_id("greeting"))).commit()?;
    /// transaction(&ann, delete_text_range(1, 5).on("greeting")).commit()?;
    /// transaction(&bob, delete_node().on("greeting")).commit()?;
    ///
    /// let error = ann.undo().commit().unwrap_err();
    /// assert_eq!((error.code(), error.node()), ("undoConflict", Some(&"greeting".into())));
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Conflict { conflict, .. } => conflict.node(),
            Self::Inverse(OperationError::Edit(error)) => error.node(),
            Self::Commit(CommitError::Schema(violation)) => Some(violation.node_id()),
            Self::ScopeNotFound { node } => Some(node),
            Self::NothingToUndo
            | Self::NothingToRedo
            | Self::Lock(_)
            | Self::Inverse(_)
            | Self::IdempotencyMismatch(_)
            | Self::Limit(_)
            | Self::Commit(_) => None,
        }
    }
}

codes! { UndoError {
    Self::NothingToUndo => "nothingToUndo", 409;
    Self::NothingToRedo => "nothingToRedo", 409;
    Self::ScopeNotFound { node } => "undoScopeNotFound" { node: node }, 404;
    Self::Lock(error) => as error;
    Self::Conflict { redo, conflict, by, returns } => "undoConflict" {
        redo: redo,
        node: conflict.node(),
        owner: by.as_ref().map(|(owner, _)| owner),
        version: by.as_ref().map(|(_, version)| version),
        returns: returns,
        cause: conflict,
    } if conflict.retry(), 409;
    Self::Inverse(cause) => "undoInverse" { cause: cause } if cause.retry(), 500;
    Self::IdempotencyMismatch(mismatch) => as mismatch;
    Self::Limit(exceeded) => as exceeded;
    Self::Commit(error) => as error;
}}

impl UndoError {
    /// The code under which its outcome is reported: a panic of an inverse is a panic.
    pub(in crate::transaction) fn observed_code(&self) -> &'static str {
        match self {
            Self::Inverse(cause @ OperationError::Panicked(_)) => cause.code(),
            other => other.code(),
        }
    }
}

struct ConflictingCommit<'a>(&'a Option<(OwnerId, u64)>);

impl fmt::Display for ConflictingCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((owner, version)) => {
                write!(f, ", by {} in version {version}", Brief(owner))
            }
            None => Ok(()),
        }
    }
}
