//! What a change did to the sequences of a document: the texts and the child lists.
//!
//! An edit has the lengths of a change without its content. It is all that positions and undo need
//! of the commits of others, and takes a fraction of the memory.

use smallvec::SmallVec;

use super::{Change, ChildPosition, SplitPoint};
use crate::id::NodeId;

/// The edits of consecutive changes, in their order.
pub type SequenceEdits = SmallVec<[SequenceEdit; 1]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceEdit {
    /// Replaces characters of a node's text.
    Text(Splice),
    /// Replaces children of a node.
    Children(Splice),
    /// Moves the content after the split point to another node.
    Split {
        id: NodeId,
        at: SplitPoint,
        right: NodeId,
    },
    /// Moves the content of another node to the end of this one.
    Join {
        id: NodeId,
        at: SplitPoint,
        right: NodeId,
    },
    /// Changes something else of a node.
    Other(NodeId),
}

/// Replaces items of the sequence of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    pub(super) id: NodeId,
    pub(super) at: usize,
    pub(super) removed: usize,
    pub(super) inserted: usize,
}

impl SequenceEdit {
    fn enter(at: &ChildPosition) -> Self {
        Self::Children(Splice {
            id: at.parent.clone(),
            at: at.index,
            removed: 0,
            inserted: 1,
        })
    }

    fn leave(at: &ChildPosition) -> Self {
        Self::Children(Splice {
            id: at.parent.clone(),
            at: at.index,
            removed: 1,
            inserted: 0,
        })
    }

    /// Whether it moves anything.
    pub fn is_of_a_sequence(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// Merges the next edit into it if both are one: typed letters become a word, and so do deleted
    /// ones.
    pub fn try_merge(&mut self, next: &Self) -> bool {
        let (Self::Text(splice), Self::Text(next)) = (self, next) else {
            return false;
        };
        if splice.id != next.id {
            return false;
        }
        let types = splice.removed == 0 && next.removed == 0;
        let deletes = splice.inserted == 0 && next.inserted == 0;
        if types && splice.at + splice.inserted == next.at {
            splice.inserted += next.inserted;
        } else if deletes && (next.at == splice.at || next.at + next.removed == splice.at) {
            splice.at = next.at;
            splice.removed += next.removed;
        } else {
            return false;
        }
        true
    }

    /// Whether the change that it belongs to was one of this node.
    pub fn changes(&self, node: &NodeId) -> bool {
        match self {
            Self::Text(Splice { id, .. })
            | Self::Split { id, .. }
            | Self::Join { id, .. }
            | Self::Other(id) => id == node,
            Self::Children(_) => false,
        }
    }
}

impl Change {
    /// The edits of consecutive changes.
    #[doc(hidden)]
    pub fn sequence_edits(changes: &[Self]) -> SequenceEdits {
        let mut edits = SequenceEdits::with_capacity(changes.len());
        for change in changes {
            change.each_sequence_edit(|edit| edits.push(edit));
        }
        edits
    }

    /// Calls `visit` for each edit of the change, in order.
    pub(super) fn each_sequence_edit(&self, mut visit: impl FnMut(SequenceEdit)) {
        match self {
            Self::SpliceText {
                id,
                at,
                removed,
                inserted,
                ..
            } => visit(SequenceEdit::Text(Splice {
                id: id.clone(),
                at: *at,
                removed: removed.chars().count(),
                inserted: inserted.chars().count(),
            })),
            Self::SplitNode {
                id,
                at,
                right,
                place,
            } => {
                visit(SequenceEdit::Split {
                    id: id.clone(),
                    at: *at,
                    right: right.id.clone(),
                });
                visit(SequenceEdit::enter(place));
            }
            Self::JoinNodes {
                id,
                at,
                right,
                place,
            } => {
                visit(SequenceEdit::Join {
                    id: id.clone(),
                    at: *at,
                    right: right.id.clone(),
                });
                visit(SequenceEdit::leave(place));
            }
            // What is known of deleted nodes stays: an undo may restore them.
            Self::InsertSubtree { at, .. } => {
                self.visit_node(&mut visit);
                at.iter().map(SequenceEdit::enter).for_each(visit);
            }
            Self::RemoveSubtree { at, .. } => {
                self.visit_node(&mut visit);
                at.iter().map(SequenceEdit::leave).for_each(visit);
            }
            Self::MoveNode { from, to, .. } => {
                self.visit_node(&mut visit);
                let (from, to) = (from.iter(), to.iter());
                let leave = from.map(SequenceEdit::leave);
                leave.chain(to.map(SequenceEdit::enter)).for_each(visit);
            }
            Self::SetMarks { .. }
            | Self::PatchAttrs { .. }
            | Self::SetType { .. }
            | Self::SetRoot { .. }
            | Self::SetSelection { .. } => self.visit_node(visit),
        }
    }

    fn visit_node(&self, mut visit: impl FnMut(SequenceEdit)) {
        if let Some(id) = self.node() {
            visit(SequenceEdit::Other(id.clone()));
        }
    }
}
