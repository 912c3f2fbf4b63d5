//! Undo of a change after other editors have changed the document.
//!
//! An undo applies the inverses of the changes, the last first. Later changes by others are stored
//! as lengths ([`ChangesSince`]). An inverse is *rebased* over them: positions are shifted, and the
//! replaced content is read from the current document. Then the changes by others are *advanced*
//! over the inverse, as if the undone change had never been, and the next inverse follows. If
//! others have made an inverse impossible, or it would revert their changes, that is a
//! [`UndoConflict`].

use std::ops::Range;

use super::delta::Delta;
use super::mark::Mark;
use super::plan::{self, find};
use super::{
    Change, ChangesSince, ChildPosition, EditError, Marks, MarksChange, Node, Overlay, SplitPoint,
};
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::{NodeId, NodeIds};

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
    /// The node was split, and the edited content is in more than one node.
    #[error("node {id} was split", id = Brief(.id))]
    Split {
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
    /// No effect of the edit is left.
    #[error("nothing of the edit is left in node {id}", id = Brief(.id))]
    NothingLeft {
        /// A node that the edit changed.
        id: NodeId,
    },
    /// The document no longer permits the change.
    #[error(transparent)]
    Impossible(EditError),
}

codes! { UndoConflict {
    Self::NodeGone { id } => "undoNodeGone";
    Self::Moved { id } => "undoNodeMoved";
    Self::Split { id } => "undoNodeSplit";
    Self::SubtreeChanged { id } => "undoSubtreeChanged";
    Self::Changed { id, aspect } => "undoNodeChanged";
    Self::NothingLeft { id } => "undoNothingLeft";
    Self::Impossible(error) => as error;
}}

impl UndoConflict {
    /// Returns the node that the conflict concerns. Returns `None` if it concerns the document
    /// itself or no node.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeGone { id }
            | Self::Moved { id }
            | Self::Split { id }
            | Self::SubtreeChanged { id }
            | Self::Changed { id, .. }
            | Self::NothingLeft { id } => Some(id),
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

/// Checks that no part of a range moved to another node, where it is not followed.
fn expect_whole(id: &NodeId, delta: &Delta, range: &Range<usize>) -> Result<(), UndoConflict> {
    match delta.cuts(range) {
        true => Err(UndoConflict::Split { id: id.clone() }),
        false => Ok(()),
    }
}

/// Checks that the surviving characters are present: changes by others are known only as lengths,
/// and a node may have the id of a deleted one.
fn expect_survivors(
    node: &Node,
    delta: &Delta,
    removed: &str,
    range: &Range<usize>,
) -> Result<(), UndoConflict> {
    expect_whole(&node.id, delta, range)?;
    let (mut letters, mut reached) = (removed.chars(), range.start);
    for (from, now) in delta.survivors(range.clone()) {
        let then = letters.by_ref().skip(from - reached).take(now.len());
        let then: String = then.collect();
        reached = from + now.len();
        if node.text.slice(now).is_none_or(|now| now != then) {
            let id = node.id.clone();
            return Err(UndoConflict::Changed { id, aspect: "text" });
        }
    }
    Ok(())
}

impl Overlay {
    /// Applies the inverse of `change` to a document with the later changes `since`, and advances
    /// those.
    pub(crate) fn rewind(
        &mut self,
        change: &Change,
        since: &mut ChangesSince,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let inverse = change.inverse();
        if matches!(inverse, Change::SetSelection { .. }) {
            return Ok(());
        }
        if since.is_empty() && self.try_apply(&inverse, ids) {
            return Ok(());
        }
        let end = match &inverse {
            Change::JoinNodes { id, .. } => find(self, id)?.end(),
            _ => SplitPoint::default(),
        };
        self.apply_rebased(&inverse, since, ids)?;
        since.advance(&inverse, end);
        Ok(())
    }

    /// In most cases no change by others conflicts.
    fn try_apply(&mut self, change: &Change, ids: &NodeIds) -> bool {
        self.apply(change.clone(), ids).is_ok()
    }

    fn apply_rebased(
        &mut self,
        change: &Change,
        since: &ChangesSince,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        match change {
            Change::SpliceText { .. } => return self.splice_rebased(change, since, ids),
            Change::SetMarks { id, marks } => return self.marks_rebased(id, marks, since, ids),
            _ => {}
        }
        let rebased = match change.clone() {
            Change::InsertSubtree { at, nodes } => {
                let at = at.map(|at| since.child_place(&at));
                Change::InsertSubtree { at, nodes }
            }
            Change::RemoveSubtree { at, nodes } => {
                let Some(top) = nodes.first() else {
                    return Ok(());
                };
                let at = self.still_at(&top.id, at.as_ref(), since)?;
                Change::RemoveSubtree { at, nodes }
            }
            Change::MoveNode { id, from, to } => {
                let now = self.still_at(&id, from.as_ref(), since)?;
                let to = to.map(|to| since.child_place_without(&to, from.as_ref()));
                Change::MoveNode { id, from: now, to }
            }
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => {
                let node = find(self, &id)?;
                let now = self.place_beside(node, &place)?;
                if since.cuts_off(&id, &at) {
                    return Err(UndoConflict::Split { id });
                }
                let text = since
                    .text(&id)
                    .map_or(at.text, |delta| delta.place(at.text));
                let list = ChildPosition {
                    parent: id.clone(),
                    index: at.children,
                };
                let children = since.child_place(&list).index;
                Change::SplitNode {
                    at: SplitPoint { text, children },
                    place: now,
                    id,
                    right,
                }
            }
            Change::JoinNodes {
                id,
                at,
                right,
                place,
            } => {
                let node = find(self, &id)?;
                let now = self.place_beside(node, &place)?;
                if since.cuts_off(&id, &at) {
                    return Err(UndoConflict::Split { id });
                }
                Change::JoinNodes {
                    at: node.end(),
                    place: now,
                    id,
                    right,
                }
            }
            other => other,
        };
        Ok(self.apply(rebased, ids)?)
    }

    /// The position of a node, which must still have its old place among its siblings.
    fn still_at(
        &self,
        id: &NodeId,
        then: Option<&ChildPosition>,
        since: &ChangesSince,
    ) -> Result<Option<ChildPosition>, UndoConflict> {
        let node = find(self, id)?;
        let under = node.parent.as_ref() == then.map(|then| &then.parent);
        match under && then.is_none_or(|then| since.keeps_child(then)) {
            true => Ok(plan::place(self, node)),
            false => Err(UndoConflict::Moved { id: id.clone() }),
        }
    }

    /// The position right after a node, which must have its old parent.
    fn place_beside(
        &self,
        node: &Node,
        then: &ChildPosition,
    ) -> Result<ChildPosition, UndoConflict> {
        let moved = || UndoConflict::Moved {
            id: node.id.clone(),
        };
        let place = plan::place(self, node).ok_or_else(moved)?;
        match place.parent == then.parent {
            true => Ok(ChildPosition {
                index: place.index + 1,
                ..place
            }),
            false => Err(moved()),
        }
    }

    /// Deletes the remains of the inserted characters, and restores the removed ones in their
    /// place, with their marks.
    fn splice_rebased(
        &mut self,
        change: &Change,
        since: &ChangesSince,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            marks,
        } = change
        else {
            return Ok(());
        };
        let node = find(self, id)?;
        let range = *at..at + removed.chars().count();
        let kept = Delta::default();
        let delta = since.text(id).unwrap_or(&kept);
        expect_survivors(node, delta, removed, &range)?;
        let mut pieces = delta.remains(range);
        let place = delta.place(*at);
        // The first piece is replaced, if it is at the position of the insertion.
        let first = match pieces.first() {
            Some(piece) if piece.start == place => pieces.remove(0),
            _ => place..place,
        };
        for piece in pieces.into_iter().rev() {
            self.replace(id, piece, "", ids)?;
        }
        self.replace(id, first, inserted, ids)?;
        if let Some(MarksChange { added, .. }) = marks {
            let came = inserted.chars().count();
            self.restore_marks(id, added, *at..at + came, place, ids)?;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        inserted: &str,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        match plan::splice_text(self, id, Some(range), inserted.into())? {
            Some(splice) => Ok(self.apply(splice, ids)?),
            None => Ok(()),
        }
    }

    /// Gives the characters at `place` the restored marks of `range`. They already have the marks
    /// around them.
    fn restore_marks(
        &mut self,
        id: &NodeId,
        back: &Marks,
        range: Range<usize>,
        place: usize,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let mut marks: Vec<Mark> = find(self, id)?.marks.iter().cloned().collect();
        marks.extend(back.within(&range).into_iter().map(|mark| {
            let Range { start, end } = mark.bounds();
            mark.over(start + place..end + place)
        }));
        self.mark(id, marks, ids)
    }

    /// Removes the added marks and restores the removed ones, where their characters still exist.
    fn marks_rebased(
        &mut self,
        id: &NodeId,
        marks: &MarksChange,
        since: &ChangesSince,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let kept = Delta::default();
        let delta = since.text(id).unwrap_or(&kept);
        let MarksChange { removed, added } = marks;
        let mut now = find(self, id)?.marks.clone();
        for gone in removed.minus(added) {
            expect_whole(id, delta, &gone.bounds())?;
            for range in delta.remains(gone.bounds()) {
                let other = |mark: Mark| (!mark.differs_only_in_range(&gone)).then_some(mark);
                now = Marks::sorted(now.change_within(&range, other));
            }
        }
        let mut now: Vec<Mark> = now.iter().cloned().collect();
        for back in added.minus(removed) {
            expect_whole(id, delta, &back.bounds())?;
            let ranges = delta.remains(back.bounds()).into_iter();
            now.extend(ranges.map(|range| back.over(range)));
        }
        self.mark(id, now, ids)
    }

    fn mark(&mut self, id: &NodeId, marks: Vec<Mark>, ids: &NodeIds) -> Result<(), UndoConflict> {
        match plan::set_marks(self, id, marks)? {
            Some(change) => Ok(self.apply(change, ids)?),
            None => Ok(()),
        }
    }
}
