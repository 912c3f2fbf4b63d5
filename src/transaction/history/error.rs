//! Why something was not undone.

use std::fmt;

use crate::brief::Brief;
use crate::document::Conflict;
use crate::id::OwnerId;
use crate::lock::LockError;
use crate::store::CommitError;
use crate::transaction::error::OperationError;

/// Why nothing was undone or redone. Neither the document nor the history is changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// There is nothing to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// There is nothing to redo.
    #[error("there is nothing to redo")]
    NothingToRedo,
    /// The lock was not acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What others did since is in the way. [`Editor::discard_undo`](crate::Editor::discard_undo)
    /// forgets the entry.
    #[error("it can no longer be {}: {conflict}{}", if *redo { "redone" } else { "undone" }, By(.by))]
    Conflict {
        /// Whether it was to be redone.
        redo: bool,
        /// What is in the way.
        #[source]
        conflict: Conflict,
        /// Who changed that node last, and the version that this made, if it is known.
        by: Option<(OwnerId, u64)>,
    },
    /// The code that an operation brought along to undo it failed.
    #[error("the inverse of an operation failed: {0}")]
    Inverse(#[source] OperationError),
    /// The changes were not published.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

struct By<'a>(&'a Option<(OwnerId, u64)>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((owner, version)) => {
                write!(f, ", by {} in version {version}", Brief(owner))
            }
            None => Ok(()),
        }
    }
}
