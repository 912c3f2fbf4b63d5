//! Why an edit can no longer be undone.

use crate::EditError;
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::NodeId;

/// Why an edit can no longer be undone or redone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoConflict {
    /// The node no longer exists.
    #[error("node {id} was deleted", id = Brief(.id))]
    NodeGone {
        /// The node.
        id: NodeId,
    },
    /// The node was moved.
    #[error("node {id} was moved", id = Brief(.id))]
    Moved {
        /// The node.
        id: NodeId,
    },
    /// The node or its subtree was changed.
    #[error("node {id} or its subtree was changed", id = Brief(.id))]
    SubtreeChanged {
        /// The node.
        id: NodeId,
    },
    /// The type or the attributes of the node were changed.
    #[error("the {aspect} of node {id} was changed", id = Brief(.id))]
    Changed {
        /// The node.
        id: NodeId,
        /// The changed aspect: `type`, `set of attributes`, `root`, ….
        aspect: &'static str,
    },
    /// The nodes before and after the place of the node were joined.
    #[error("the nodes around the place of node {id} were joined", id = Brief(.id))]
    PlaceJoined {
        /// The node.
        id: NodeId,
    },
    /// The document no longer permits the change.
    #[error(transparent)]
    Impossible(EditError),
}

codes! { inherent UndoConflict {
    Self::NodeGone { id } => "undoNodeGone", 409;
    Self::Moved { id } => "undoNodeMoved", 409;
    Self::SubtreeChanged { id } => "undoSubtreeChanged", 409;
    Self::Changed { id, aspect } => "undoNodeChanged", 409;
    Self::PlaceJoined { id } => "undoPlaceJoined", 409;
    Self::Impossible(error) => as error;
}}

impl UndoConflict {
    /// Returns the node that the conflict concerns. Returns `None` if it concerns the document
    /// itself or no node.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeGone { id }
            | Self::Moved { id }
            | Self::SubtreeChanged { id }
            | Self::Changed { id, .. }
            | Self::PlaceJoined { id } => Some(id),
            Self::Impossible(error) => error.node(),
        }
    }
}

impl From<EditError> for UndoConflict {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NodeNotFound { id }
            | EditError::NodeDeleted { id }
            | EditError::NodeJoined { id, .. } => Self::NodeGone { id },
            EditError::Conflict { id, aspect } => match aspect {
                "place" => Self::Moved { id },
                "subtree" => Self::SubtreeChanged { id },
                _ => Self::Changed { id, aspect },
            },
            error => Self::Impossible(error),
        }
    }
}

/// Why edits cannot go out of effect, and the version of the later edit that is in the way, if
/// known.
#[derive(Debug)]
pub struct BlockedUndo {
    /// Why not.
    pub conflict: UndoConflict,
    /// The version of the later edit.
    pub version: Option<u64>,
}

impl From<UndoConflict> for BlockedUndo {
    fn from(conflict: UndoConflict) -> Self {
        Self {
            conflict,
            version: None,
        }
    }
}

impl From<EditError> for BlockedUndo {
    fn from(error: EditError) -> Self {
        UndoConflict::from(error).into()
    }
}
