//! The primitive changes and their inverses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, SmolStrBuilder};

use super::{AttributeValue, Attributes, Mark, Marks, Node, Position, Selection, value};
use crate::id::NodeId;

/// A position among the children of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildPosition {
    /// The parent.
    pub parent: NodeId,
    /// The index among its children. For a node that is moved, the node itself does not count.
    pub index: usize,
}

/// A primitive change: the smallest step from one state of a document to another, as data.
///
/// A change contains what it replaces and what it inserts. So its inverse is the change with both
/// swapped, and needs no document. If the document is not in the expected state, the change fails
/// with [`EditError::Conflict`](super::EditError::Conflict).
///
/// In JSON: `{"type": "spliceText", "id": "t", "at": 2, "inserted": "!"}`. The page
/// [hooks](https://docs.rs/doclock/latest/doclock/guide/hooks/index.html#the-json-of-a-change)
/// has the JSON of each variant. Positions count scalar values; the page
/// [queries](https://docs.rs/doclock/latest/doclock/guide/queries/index.html#utf-16) shows how to
/// convert them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Change {
    /// Inserts a subtree into the document.
    InsertSubtree {
        /// The position of its top node; `None` for no parent.
        at: Option<ChildPosition>,
        /// Its nodes in document order, the top node first. Each has its children and its parent as
        /// ids.
        nodes: Vec<Arc<Node>>,
    },
    /// Removes a subtree from the document.
    RemoveSubtree {
        /// The position of its top node; `None` for no parent.
        at: Option<ChildPosition>,
        /// Its nodes in document order, the top node first. Each has its children and its parent as
        /// ids.
        nodes: Vec<Arc<Node>>,
    },
    /// Moves a node with its subtree.
    MoveNode {
        /// The node.
        id: NodeId,
        /// The old position; `None` for no parent.
        from: Option<ChildPosition>,
        /// The new position; `None` for no parent.
        to: Option<ChildPosition>,
    },
    /// Replaces characters of a node's text.
    SpliceText {
        /// The node.
        id: NodeId,
        /// The first character that is replaced.
        at: usize,
        /// The removed characters.
        #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
        removed: SmolStr,
        /// The inserted characters.
        #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
        inserted: SmolStr,
        /// The changes of marks that do not follow from the splice; `None` if all follow.
        ///
        /// A mark that is before the characters, after them or around them follows from it: it is
        /// unchanged, shifted, grown or shrunk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marks: Option<MarksChange>,
    },
    /// Removes marks of a node's text and adds others.
    SetMarks {
        /// The node.
        id: NodeId,
        /// The removed and added marks. All other marks are unchanged.
        #[serde(flatten)]
        marks: MarksChange,
    },
    /// Sets, changes and removes attributes of a node.
    PatchAttrs {
        /// The node.
        id: NodeId,
        /// One patch for each changed attribute.
        patches: Vec<AttributePatch>,
    },
    /// Changes the type of a node.
    SetType {
        /// The node.
        id: NodeId,
        /// The old type.
        before: SmolStr,
        /// The new type.
        after: SmolStr,
    },
    /// Splits a node. The content after the split point moves to a new node, its next sibling.
    SplitNode {
        /// The node, which keeps the content before the split point.
        id: NodeId,
        /// The split point.
        at: SplitPoint,
        /// The new node.
        right: Box<RightHalf>,
        /// The position of the new node.
        place: ChildPosition,
    },
    /// Joins a node and its next sibling, which is deleted.
    JoinNodes {
        /// The node, which receives the content of the other.
        id: NodeId,
        /// The seam: the length of the text and the number of children that the node had.
        at: SplitPoint,
        /// The deleted node.
        right: Box<RightHalf>,
        /// The position of the deleted node.
        place: ChildPosition,
    },
    /// Sets the root of the document.
    SetRoot {
        /// The old root.
        before: Option<NodeId>,
        /// The new root.
        after: Option<NodeId>,
    },
    /// Sets the selection.
    ///
    /// The selection is not part of the document: it belongs to the editor. So this is the only
    /// change that applies whatever the selection was before.
    SetSelection {
        /// The old selection.
        before: Option<Selection>,
        /// The new selection.
        after: Option<Selection>,
    },
}

/// A position in the contents of a node: in its text and among its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitPoint {
    /// The number of characters before it.
    pub text: usize,
    /// The number of children before it.
    pub children: usize,
}

/// The properties of the right half of a split node. Text, marks and children come from the left
/// half.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RightHalf {
    /// Its id.
    pub id: NodeId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: SmolStr,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

impl RightHalf {
    pub(super) fn of(node: &Node) -> Self {
        Self {
            id: node.id.clone(),
            kind: node.kind.clone(),
            attributes: node.attributes.clone(),
        }
    }
}

/// The marks of a text that a change removes and adds. Unchanged marks are omitted, so the size
/// does not depend on their number.
///
/// In JSON: `{"removed": […], "added": […]}`. In [`Change::SetMarks`] these are fields of the
/// change itself, in [`Change::SpliceText`] of its field `marks`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarksChange {
    /// The removed marks, as they are before the change. Each must be present with this range and
    /// these attributes.
    pub removed: Marks,
    /// The added marks, as they are after the change. Together with the unchanged marks they are in
    /// normal form.
    pub added: Marks,
}

/// One attribute before and after a change; `None` where it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributePatch {
    /// Its name.
    pub key: SmolStr,
    /// Its old value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AttributeValue>,
    /// Its new value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AttributeValue>,
}

impl Change {
    /// Returns the inverse change: applied after this one, it restores the document exactly.
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
    /// Returns whether the old and the new state are the same. Such a change is checked like any
    /// other when it is applied, and is then discarded.
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
    /// The node that it concerns; the root for a change of the root; `None` if there is no such
    /// node.
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

    /// The nodes whose stored form it changes, apart from the parents of moved children: calls
    /// `node` for each, and `parent` for each node whose children may have got another parent.
    #[doc(hidden)]
    pub fn each_stored_node<'c>(
        &'c self,
        mut node: impl FnMut(&'c NodeId),
        mut parent: impl FnMut(&'c NodeId),
    ) {
        let mut list = |at: &'c Option<ChildPosition>| at.iter().for_each(|at| node(&at.parent));
        match self {
            Self::InsertSubtree { at, nodes } | Self::RemoveSubtree { at, nodes } => {
                list(at);
                nodes.iter().for_each(|it| node(it.id()));
            }
            Self::MoveNode { id, from, to } => {
                list(from);
                list(to);
                node(id);
            }
            Self::SplitNode {
                id, right, place, ..
            }
            | Self::JoinNodes {
                id, right, place, ..
            } => {
                node(&place.parent);
                for half in [id, &right.id] {
                    node(half);
                    parent(half);
                }
            }
            Self::SpliceText { id, .. }
            | Self::SetMarks { id, .. }
            | Self::PatchAttrs { id, .. }
            | Self::SetType { id, .. } => node(id),
            Self::SetRoot { .. } | Self::SetSelection { .. } => {}
        }
    }

    /// What both type, if the next one types in the same text right behind it, and both have so few
    /// letters that no allocation is needed.
    #[doc(hidden)]
    pub fn typed_with(&self, next: &Self) -> Option<SmolStr> {
        const MOST_LETTERS: usize = 22;
        let (
            Self::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks: None,
            },
            Self::SpliceText {
                id: of_next,
                at: at_next,
                removed: removed_next,
                inserted: inserted_next,
                marks: None,
            },
        ) = (self, next)
        else {
            return None;
        };
        let goes_on = id == of_next
            && removed.is_empty()
            && removed_next.is_empty()
            && inserted.len() + inserted_next.len() <= MOST_LETTERS
            && *at + inserted.chars().count() == *at_next;
        goes_on.then(|| {
            let mut both = SmolStrBuilder::new();
            both.push_str(inserted);
            both.push_str(inserted_next);
            both.finish()
        })
    }

    /// Whether a node does not exist afterwards.
    pub(super) fn removes(&self, id: &NodeId) -> bool {
        match self {
            Self::RemoveSubtree { nodes, .. } => nodes.iter().any(|node| node.id() == id),
            Self::JoinNodes { right, .. } => right.id == *id,
            _ => false,
        }
    }

    /// About how many bytes it takes.
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let content = match self {
            Self::InsertSubtree { nodes, .. } | Self::RemoveSubtree { nodes, .. } => {
                nodes.iter().map(|node| bytes_of_node(node)).sum()
            }
            Self::SpliceText {
                removed,
                inserted,
                marks,
                ..
            } => removed.len() + inserted.len() + marks.as_ref().map_or(0, MarksChange::bytes),
            Self::SetMarks { marks, .. } => marks.bytes(),
            Self::PatchAttrs { patches, .. } => {
                let values = patches
                    .iter()
                    .flat_map(|patch| [&patch.before, &patch.after]);
                size_of_val(&patches[..])
                    + values.flatten().map(|it| value::bytes(it)).sum::<usize>()
            }
            Self::SplitNode { right, .. } | Self::JoinNodes { right, .. } => {
                bytes_of_attributes(&right.attributes)
            }
            _ => 0,
        };
        size_of::<Self>() + content
    }

    /// Where it changed something. Of a removed node it is the parent.
    pub(crate) fn place(&self) -> Option<Position> {
        let (id, offset) = match self {
            Self::SpliceText { id, at, .. } => (id, *at),
            Self::SetMarks { id, marks } => {
                let marks = marks.removed.iter().chain(marks.added.iter());
                (id, marks.map(|mark| mark.bounds().start).min().unwrap_or(0))
            }
            Self::RemoveSubtree { at, .. } => (&at.as_ref()?.parent, 0),
            Self::InsertSubtree { nodes, .. } => (&nodes.first()?.id, 0),
            Self::MoveNode { id, .. } | Self::PatchAttrs { id, .. } | Self::SetType { id, .. } => {
                (id, 0)
            }
            Self::SplitNode { right, .. } => (&right.id, 0),
            Self::JoinNodes { id, at, .. } => (id, at.text),
            Self::SetRoot { after, .. } => (after.as_ref()?, 0),
            Self::SetSelection { .. } => return None,
        };
        Some(Position::new(id.clone(), offset))
    }

    /// Whether it makes new nodes.
    #[doc(hidden)]
    pub fn creates(&self) -> bool {
        matches!(self, Self::InsertSubtree { .. } | Self::SplitNode { .. })
    }

    /// Whether it changes the document, and not only the selection.
    #[doc(hidden)]
    pub fn is_of_the_document(&self) -> bool {
        !matches!(self, Self::SetSelection { .. })
    }

    /// Whether it changes which nodes there are, or where they are.
    pub(crate) fn is_of_the_tree(&self) -> bool {
        match self {
            Self::InsertSubtree { .. }
            | Self::RemoveSubtree { .. }
            | Self::MoveNode { .. }
            | Self::SplitNode { .. }
            | Self::JoinNodes { .. }
            | Self::SetRoot { .. } => true,
            Self::SpliceText { .. }
            | Self::SetMarks { .. }
            | Self::PatchAttrs { .. }
            | Self::SetType { .. }
            | Self::SetSelection { .. } => false,
        }
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

    fn bytes(&self) -> usize {
        let both = self.removed.iter().chain(self.added.iter());
        both.map(bytes_of_mark).sum()
    }
}

fn bytes_of_node(node: &Node) -> usize {
    let children = node.children().len() * size_of::<NodeId>();
    let marks: usize = node.marks().iter().map(bytes_of_mark).sum();
    size_of::<Node>()
        + node.text().len()
        + children
        + marks
        + bytes_of_attributes(node.attributes())
}

fn bytes_of_mark(mark: &Mark) -> usize {
    size_of::<Mark>() + bytes_of_attributes(&mark.attributes)
}

fn bytes_of_attributes(attributes: &Attributes) -> usize {
    let pairs = attributes.iter();
    pairs
        .map(|(key, value)| key.len() + value::bytes(value))
        .sum()
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
