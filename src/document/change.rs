//! The primitive changes, and what undoes them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

use super::{Attributes, Marks, Node, Selection, value};
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
/// A change carries what it replaces next to what it puts there. So its inverse is itself read
/// backwards and needs no document to be computed; and applying it to a document that is not in the
/// state where it starts is found out ([`EditError::Conflict`](super::EditError::Conflict)) instead
/// of doing something else.
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
        /// The marks that do not follow from the splice; `None` where all do.
        ///
        /// A mark before the characters, behind them or around all of them follows: it stays, is
        /// shifted, grows or shrinks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marks: Option<MarksChange>,
    },
    /// Removes marks of a node's text and adds others.
    SetMarks {
        /// The node.
        id: NodeId,
        /// What is removed and what is added. All other marks stay.
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
    /// Changes the type of a node.
    SetType {
        /// The node.
        id: NodeId,
        /// The type so far.
        before: SmolStr,
        /// The type then.
        after: SmolStr,
    },
    /// Cuts a node in two. What lies behind the cut goes to a new node, its next sibling.
    SplitNode {
        /// The node, which keeps what lies before the cut.
        id: NodeId,
        /// The cut.
        at: Cut,
        /// The new node.
        right: Box<Half>,
        /// Where the new node comes to stand.
        place: Place,
    },
    /// Joins a node and its next sibling, which goes.
    JoinNodes {
        /// The node, which takes in what the other has.
        id: NodeId,
        /// Where the two meet: the length of the text and the number of children that the node had.
        at: Cut,
        /// The node that goes.
        right: Box<Half>,
        /// Where that stood.
        place: Place,
    },
    /// Makes another node the root of the document.
    SetRoot {
        /// The root so far.
        before: Option<NodeId>,
        /// The root then.
        after: Option<NodeId>,
    },
    /// Selects something else.
    ///
    /// A selection is no part of the document: it belongs to whoever runs the transaction. So this
    /// is the one change that applies whatever was selected before.
    SetSelection {
        /// What was selected.
        before: Option<Selection>,
        /// What is selected then.
        after: Option<Selection>,
    },
}

/// A place between the parts of a node: in its text, and among its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// How many characters lie before it.
    pub text: usize,
    /// How many children lie before it.
    pub children: usize,
}

/// What the right half of a split node has of its own. Text, marks and children come from the left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    /// Its id.
    pub id: NodeId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

/// The marks of a text that are different after a change. It tells nothing of the others, so its
/// size does not depend on how many there are.
///
/// In JSON: `{"removed": […], "added": […]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarksChange {
    /// Marks that go, as they are before the change. Each of them has to be there, with this range
    /// and these attributes.
    pub removed: Marks,
    /// Marks that come, as they are after the change. They and those that stay are in normal form.
    pub added: Marks,
}

/// One attribute before and after a change; `None` where it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributePatch {
    /// Its name.
    pub key: SmolStr,
    /// Its value so far.
    #[serde(
        default,
        deserialize_with = "value::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub before: Option<Value>,
    /// Its value then.
    #[serde(
        default,
        deserialize_with = "value::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<Value>,
}

impl Change {
    /// The change that leads back: applied after this one, it restores the document exactly.
    ///
    /// ```
    /// use doclock::{NodeId, document::Change};
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
            Self::SetType { id, before, after } => Self::SetType {
                id,
                before: after,
                after: before,
            },
            Self::SplitNode {
                id,
                at,
                right,
                place,
            } => Self::JoinNodes {
                id,
                at,
                right,
                place,
            },
            Self::JoinNodes {
                id,
                at,
                right,
                place,
            } => Self::SplitNode {
                id,
                at,
                right,
                place,
            },
            Self::SetRoot { before, after } => Self::SetRoot {
                before: after,
                after: before,
            },
            Self::SetSelection { before, after } => Self::SetSelection {
                before: after,
                after: before,
            },
        }
    }
}

impl Change {
    /// Whether both sides are the same. Such a change is checked like any other when it is applied,
    /// and is then forgotten.
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
            } => removed == inserted && marks.as_ref().is_none_or(MarksChange::changes_nothing),
            Self::SetMarks { marks, .. } => marks.changes_nothing(),
            Self::PatchAttrs { patches, .. } => {
                patches.iter().all(|patch| patch.before == patch.after)
            }
            Self::SetType { before, after, .. } => before == after,
            Self::SplitNode { .. } | Self::JoinNodes { .. } => false,
            Self::SetRoot { before, after } => before == after,
            Self::SetSelection { before, after } => before == after,
        }
    }
}

impl Change {
    /// The node that it is about; the root for a change of the root, none where there is none.
    pub(crate) fn node(&self) -> Option<&NodeId> {
        match self {
            Self::InsertSubtree { nodes, .. } | Self::RemoveSubtree { nodes, .. } => {
                nodes.first().map(|top| top.id())
            }
            Self::MoveNode { id, .. }
            | Self::SpliceText { id, .. }
            | Self::SetMarks { id, .. }
            | Self::PatchAttrs { id, .. }
            | Self::SetType { id, .. }
            | Self::SplitNode { id, .. }
            | Self::JoinNodes { id, .. } => Some(id),
            Self::SetRoot { before, after } => after.as_ref().or(before.as_ref()),
            Self::SetSelection { .. } => None,
        }
    }

    /// Whether it is about the document, and not only about what is selected in it.
    pub(crate) fn is_of_the_document(&self) -> bool {
        !matches!(self, Self::SetSelection { .. })
    }
}

impl MarksChange {
    fn inverse(self) -> Self {
        Self {
            removed: self.added,
            added: self.removed,
        }
    }

    fn changes_nothing(&self) -> bool {
        self.removed == self.added
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
