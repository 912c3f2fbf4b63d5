//! The primitive changes, and what undoes them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

use super::{Marks, Node};
use crate::id::NodeId;

/// A position among the children of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The parent.
    pub parent: NodeId,
    /// The index among its children; that of a node which is moved does not count the node itself.
    pub index: usize,
}

/// The smallest step from one state of a document to another, as data.
///
/// A change carries what it replaces next to what it puts there. So its inverse is itself read backwards and needs
/// no document to be computed; and applying it to a document that is not in the state where it starts is found
/// out ([`EditError::Conflict`](super::EditError::Conflict)) instead of doing something else.
///
/// In JSON: `{"type": "spliceText", …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Change {
    /// Puts a new subtree into the document.
    InsertSubtree {
        /// Where its top is attached; `None` for nowhere.
        at: Option<Place>,
        /// Its nodes in document order, the top first.
        nodes: Vec<Arc<Node>>,
    },
    /// Takes a subtree out of the document.
    RemoveSubtree {
        /// Where its top was attached.
        at: Option<Place>,
        /// Its nodes in document order, the top first.
        nodes: Vec<Arc<Node>>,
    },
    /// Attaches a node elsewhere, with all below it.
    MoveNode {
        /// The node.
        id: NodeId,
        /// Where it was attached; `None` for nowhere.
        from: Option<Place>,
        /// Where it is attached then; `None` for nowhere.
        to: Option<Place>,
    },
    /// Replaces characters of a node's text.
    SpliceText {
        /// The node.
        id: NodeId,
        /// The first character that is replaced.
        at: usize,
        /// The characters that go.
        #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
        removed: SmolStr,
        /// The characters that come.
        #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
        inserted: SmolStr,
        /// The marks, where they change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marks: Option<MarksChange>,
    },
    /// Replaces the marks of a node's text.
    SetMarks {
        /// The node.
        id: NodeId,
        /// Before and after.
        #[serde(flatten)]
        marks: MarksChange,
    },
    /// Sets, changes and removes attributes of a node.
    PatchAttrs {
        /// The node.
        id: NodeId,
        /// One for each attribute that changes.
        patches: Vec<AttributePatch>,
    },
    /// Makes another node the root of the document.
    SetRoot {
        /// The root so far.
        before: Option<NodeId>,
        /// The root then.
        after: Option<NodeId>,
    },
}

/// The marks of a text before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarksChange {
    /// The marks so far.
    pub before: Marks,
    /// The marks then.
    pub after: Marks,
}

/// One attribute before and after a change; `None` where it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributePatch {
    /// Its name.
    pub key: SmolStr,
    /// Its value so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl Change {
    /// The change that leads back: applied after this one, it restores the document exactly.
    ///
    /// ```
    /// use doclock::{Change, NodeId};
    ///
    /// let typed = Change::SpliceText {
    ///     id: NodeId::from("title"),
    ///     at: 5,
    ///     removed: "".into(),
    ///     inserted: "!".into(),
    ///     marks: None,
    /// };
    /// assert_eq!(typed.inverse().inverse(), typed);
    /// ```
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self.clone() {
            Self::InsertSubtree { at, nodes } => Self::RemoveSubtree { at, nodes },
            Self::RemoveSubtree { at, nodes } => Self::InsertSubtree { at, nodes },
            Self::MoveNode { id, from, to } => Self::MoveNode {
                id,
                from: to,
                to: from,
            },
            Self::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => Self::SpliceText {
                id,
                at,
                removed: inserted,
                inserted: removed,
                marks: marks.map(MarksChange::inverse),
            },
            Self::SetMarks { id, marks } => Self::SetMarks {
                id,
                marks: marks.inverse(),
            },
            Self::PatchAttrs { id, patches } => Self::PatchAttrs {
                id,
                patches: patches.into_iter().map(AttributePatch::inverse).collect(),
            },
            Self::SetRoot { before, after } => Self::SetRoot {
                before: after,
                after: before,
            },
        }
    }
}

impl Change {
    /// Whether both sides are the same. Such a change is checked like any other when it is applied, and is then
    /// forgotten.
    pub fn changes_nothing(&self) -> bool {
        match self {
            Self::InsertSubtree { nodes, .. } | Self::RemoveSubtree { nodes, .. } => {
                nodes.is_empty()
            }
            Self::MoveNode { from, to, .. } => from == to,
            Self::SpliceText {
                removed,
                inserted,
                marks,
                ..
            } => {
                let same = |marks: &MarksChange| marks.before == marks.after;
                removed == inserted && marks.as_ref().is_none_or(same)
            }
            Self::SetMarks { marks, .. } => marks.before == marks.after,
            Self::PatchAttrs { patches, .. } => {
                patches.iter().all(|patch| patch.before == patch.after)
            }
            Self::SetRoot { before, after } => before == after,
        }
    }
}

impl MarksChange {
    fn inverse(self) -> Self {
        Self {
            before: self.after,
            after: self.before,
        }
    }
}

impl AttributePatch {
    fn inverse(self) -> Self {
        Self {
            before: self.after,
            after: self.before,
            ..self
        }
    }
}
