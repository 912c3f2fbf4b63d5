//! Undoing a change after others have changed the document, too.
//!
//! An undo applies the inverses of what was done, the last first. What others did since then is known as lengths, a
//! [`Delta`] for each sequence that they touched. An inverse is *rebased* over it: places are shifted, and what the change
//! replaces is read from the document as it is. Then what others did is *advanced* over the inverse, so that it is known
//! as if the change had never been, and the next inverse comes. Where others have made an inverse impossible, or it
//! would take away what they did, that is a [`Conflict`].

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::delta::Delta;
use super::mark::Mark;
use super::plan::{self, find};
use super::{Change, Cut, EditError, Marks, MarksChange, Node, Overlay, Place};
use crate::id::{NodeId, NodeIds};

/// Why something can no longer be undone or redone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// The node is gone.
    #[error("node {id} was deleted")]
    NodeGone {
        /// The node.
        id: NodeId,
    },
    /// The node is elsewhere.
    #[error("node {id} was moved")]
    Moved {
        /// The node.
        id: NodeId,
    },
    /// The node, or something below it, is different.
    #[error("node {id} was changed, or something below it")]
    SubtreeChanged {
        /// The node.
        id: NodeId,
    },
    /// The node has another type or other attributes.
    #[error("the {aspect} of node {id} was changed")]
    Changed {
        /// The node.
        id: NodeId,
        /// What: `type`, `set of attributes`, `root`, ….
        aspect: &'static str,
    },
    /// Nothing that it did is left.
    #[error("nothing of it is left in node {id}")]
    NothingLeft {
        /// A node that it changed.
        id: NodeId,
    },
    /// The document does not allow it any more.
    #[error(transparent)]
    Impossible(EditError),
}

impl Conflict {
    /// The node that it is about.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeGone { id }
            | Self::Moved { id }
            | Self::SubtreeChanged { id }
            | Self::Changed { id, .. }
            | Self::NothingLeft { id } => Some(id),
            Self::Impossible(_) => None,
        }
    }
}

impl From<EditError> for Conflict {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NodeNotFound { id } | EditError::NodeDeleted { id } => Self::NodeGone { id },
            EditError::Conflict { id, aspect } => match aspect {
                "place" => Self::Moved { id },
                "subtree" => Self::SubtreeChanged { id },
                _ => Self::Changed { id, aspect },
            },
            error => Self::Impossible(error),
        }
    }
}

/// What was done to the sequences of a document since some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Since {
    texts: HashMap<NodeId, Delta, FixedState>,
    children: HashMap<NodeId, Delta, FixedState>,
}

/// A place in a list of children that is put back when a node moves: first it leaves one list, then it enters another.
type Lists<'a> = [Option<(&'a NodeId, Delta)>; 2];

impl Since {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.children.is_empty()
    }

    /// Takes in a change that was made after all that is known.
    pub(crate) fn observe(&mut self, change: &Change) {
        self.take(Steps::of(std::slice::from_ref(change)));
    }

    /// Takes in what was done after all that is known.
    pub(crate) fn take(&mut self, steps: Steps) {
        for (list, id, delta) in steps.0 {
            note(self.of(list), &id, delta);
        }
        for id in steps.1 {
            self.texts.remove(&id);
            self.children.remove(&id);
        }
    }

    fn of(&mut self, list: Sequence) -> &mut Deltas {
        match list {
            Sequence::Text => &mut self.texts,
            Sequence::Children => &mut self.children,
        }
    }

    /// Takes in what was done after all that is known.
    pub(crate) fn append(&mut self, later: Self) {
        for (id, delta) in later.texts {
            note(&mut self.texts, &id, delta);
        }
        for (id, delta) in later.children {
            note(&mut self.children, &id, delta);
        }
    }

    /// What was done, as it would have been done after this change, which began where it began.
    fn advance(&mut self, change: &Change) {
        match change {
            Change::SpliceText { id, .. } => after(&mut self.texts, id, &splice_of(change)),
            Change::SplitNode { id, at, right, .. } => {
                divide(&mut self.texts, id, at.text, &right.id);
                divide(&mut self.children, id, at.children, &right.id);
            }
            Change::JoinNodes { id, at, right, .. } => {
                join(&mut self.texts, id, at.text, &right.id);
                join(&mut self.children, id, at.children, &right.id);
            }
            _ => {}
        }
        for (list, delta) in lists_of(change).into_iter().flatten() {
            after(&mut self.children, list, &delta);
        }
    }

    fn text(&self, id: &NodeId) -> Option<&Delta> {
        self.texts.get(id)
    }

    fn child_place(&self, place: &Place) -> Place {
        let index = match self.children.get(&place.parent) {
            Some(delta) => delta.place(place.index),
            None => place.index,
        };
        Place {
            parent: place.parent.clone(),
            index,
        }
    }
}

/// What one commit did to sequences, step by step, and the nodes that it took away; cheap to make and to keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(SmallVec<[(Sequence, NodeId, Delta); 1]>, Vec<NodeId>);

/// One of the two sequences that a node has.
#[derive(Clone, Copy, Debug)]
enum Sequence {
    Text,
    Children,
}

impl Steps {
    pub(crate) fn of(changes: &[Change]) -> Self {
        let mut steps = Self::default();
        changes.iter().for_each(|change| steps.add(change));
        steps
    }

    fn add(&mut self, change: &Change) {
        match change {
            Change::SpliceText { id, .. } => self.note(Sequence::Text, id, splice_of(change)),
            Change::SplitNode { id, at, .. } => {
                // What moved to the right half is not followed there.
                self.note(Sequence::Text, id, Delta::cut(at.text));
                self.note(Sequence::Children, id, Delta::cut(at.children));
            }
            Change::RemoveSubtree { nodes, .. } => {
                self.1.extend(nodes.iter().map(|node| node.id.clone()));
            }
            Change::JoinNodes { right, .. } => self.1.push(right.id.clone()),
            _ => {}
        }
        for (id, delta) in lists_of(change).into_iter().flatten() {
            self.note(Sequence::Children, id, delta);
        }
    }

    fn note(&mut self, sequence: Sequence, id: &NodeId, delta: Delta) {
        self.0.push((sequence, id.clone(), delta));
    }
}

type Deltas = HashMap<NodeId, Delta, FixedState>;

fn note(deltas: &mut Deltas, id: &NodeId, delta: Delta) {
    let whole = match deltas.get(id) {
        Some(so_far) => so_far.then(&delta),
        None => delta,
    };
    keep(deltas, id, whole);
}

fn after(deltas: &mut Deltas, id: &NodeId, change: &Delta) {
    if let Some(delta) = deltas.get(id) {
        let advanced = delta.after(change);
        keep(deltas, id, advanced);
    }
}

fn divide(deltas: &mut Deltas, id: &NodeId, at: usize, right: &NodeId) {
    if let Some(whole) = deltas.get(id) {
        let (left, rest) = whole.divided(at);
        keep(deltas, id, left);
        keep(deltas, right, rest);
    }
}

fn join(deltas: &mut Deltas, id: &NodeId, at: usize, right: &NodeId) {
    let rest = deltas.remove(right);
    let left = deltas.get(id);
    if left.is_some() || rest.is_some() {
        let whole = left.cloned().unwrap_or_default();
        keep(deltas, id, whole.joined(at, &rest.unwrap_or_default()));
    }
}

fn keep(deltas: &mut Deltas, id: &NodeId, delta: Delta) {
    match delta.is_empty() {
        true => drop(deltas.remove(id)),
        false => drop(deltas.insert(id.clone(), delta)),
    }
}

fn splice_of(change: &Change) -> Delta {
    match change {
        Change::SpliceText {
            at,
            removed,
            inserted,
            ..
        } => Delta::splice(*at, removed.chars().count(), inserted.chars().count()),
        _ => Delta::default(),
    }
}

/// What a change does to lists of children, other than those of a node that it splits or joins.
fn lists_of(change: &Change) -> Lists<'_> {
    let leave = |place: &Place| Delta::splice(place.index, 1, 0);
    let enter = |place: &Place| Delta::splice(place.index, 0, 1);
    match change {
        Change::InsertSubtree { at: Some(at), .. } | Change::SplitNode { place: at, .. } => {
            [Some((&at.parent, enter(at))), None]
        }
        Change::RemoveSubtree { at: Some(at), .. } | Change::JoinNodes { place: at, .. } => {
            [Some((&at.parent, leave(at))), None]
        }
        Change::MoveNode { from, to, .. } => [
            from.as_ref().map(|from| (&from.parent, leave(from))),
            to.as_ref().map(|to| (&to.parent, enter(to))),
        ],
        _ => [None, None],
    }
}

impl Overlay {
    /// Makes the inverse of `change` on a document to which `since` was done after it, and advances that.
    pub(crate) fn rewind(
        &mut self,
        change: &Change,
        since: &mut Since,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
        let inverse = change.inverse();
        if matches!(inverse, Change::SetSelection { .. }) {
            return Ok(());
        }
        match since.is_empty() && self.try_apply(&inverse, ids) {
            true => Ok(()),
            false => self.apply_rebased(&inverse, since, ids),
        }?;
        if !since.is_empty() {
            since.advance(&inverse);
        }
        Ok(())
    }

    /// Nobody else's change was in the way, in most cases.
    fn try_apply(&mut self, change: &Change, ids: &NodeIds) -> bool {
        self.apply(change.clone(), ids).is_ok()
    }

    fn apply_rebased(
        &mut self,
        change: &Change,
        since: &Since,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
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
                let at = self.still_under(&top.id, at.as_ref())?;
                Change::RemoveSubtree { at, nodes }
            }
            Change::MoveNode { id, from, to } => {
                let now = self.still_under(&id, from.as_ref())?;
                // The index that the node comes back to is counted without it.
                let mut without = since.clone();
                if let Some(from) = &from {
                    let left = Delta::splice(from.index, 1, 0);
                    after(&mut without.children, &from.parent, &left);
                }
                let to = to.map(|to| without.child_place(&to));
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
                let text = since
                    .text(&id)
                    .map_or(at.text, |delta| delta.place(at.text));
                let list = Place {
                    parent: id.clone(),
                    index: at.children,
                };
                let children = since.child_place(&list).index;
                Change::SplitNode {
                    at: Cut { text, children },
                    place: now,
                    id,
                    right,
                }
            }
            Change::JoinNodes {
                id, right, place, ..
            } => {
                let node = find(self, &id)?;
                let now = self.place_beside(node, &place)?;
                let at = Cut {
                    text: node.text.len(),
                    children: node.children.len(),
                };
                Change::JoinNodes {
                    id,
                    at,
                    right,
                    place: now,
                }
            }
            other => other,
        };
        Ok(self.apply(rebased, ids)?)
    }

    /// Where a node is, which has to be under the parent that it had.
    fn still_under(&self, id: &NodeId, then: Option<&Place>) -> Result<Option<Place>, Conflict> {
        let node = find(self, id)?;
        match node.parent.as_ref() == then.map(|then| &then.parent) {
            true => Ok(plan::place(self, node)),
            false => Err(Conflict::Moved { id: id.clone() }),
        }
    }

    /// The place right behind a node, which has to be under the parent that it had.
    fn place_beside(&self, node: &Node, then: &Place) -> Result<Place, Conflict> {
        let moved = || Conflict::Moved {
            id: node.id.clone(),
        };
        let place = plan::place(self, node).ok_or_else(moved)?;
        match place.parent == then.parent {
            true => Ok(Place {
                index: place.index + 1,
                ..place
            }),
            false => Err(moved()),
        }
    }

    /// Deletes what is left of the characters that are to go, and puts those that are to come where they were, with the
    /// marks that they had.
    fn splice_rebased(
        &mut self,
        change: &Change,
        since: &Since,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
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
        find(self, id)?;
        let range = *at..at + removed.chars().count();
        let kept = Delta::default();
        let delta = since.text(id).unwrap_or(&kept);
        let mut pieces = delta.remains(range);
        let place = delta.place(*at);
        // The first piece makes room for what comes, if it stands where that comes.
        let first = match pieces.first() {
            Some(piece) if piece.start == place => pieces.remove(0),
            _ => place..place,
        };
        for piece in pieces.into_iter().rev() {
            self.replace(id, piece, "", ids)?;
        }
        self.replace(id, first, inserted, ids)?;
        if let Some(MarksChange { after, .. }) = marks {
            let came = inserted.chars().count();
            self.restore_marks(id, after, *at..at + came, place, ids)?;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        inserted: &str,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
        match plan::splice_text(self, id, Some(range), inserted.into())? {
            Some(splice) => Ok(self.apply(splice, ids)?),
            None => Ok(()),
        }
    }

    /// Gives the characters at `place` the marks that those of `range` have in `then`.
    fn restore_marks(
        &mut self,
        id: &NodeId,
        then: &Marks,
        range: Range<usize>,
        place: usize,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
        let now = place..place + range.len();
        let outside = find(self, id)?.marks.change_within(&now, |_| None);
        let inside = then.within(&range).into_iter().map(|mark| {
            let Range { start, end } = mark.bounds();
            mark.over(start + place..end + place)
        });
        self.mark(id, outside.into_iter().chain(inside).collect(), ids)
    }

    /// Takes away the marks that came and brings back those that went, where their characters still are.
    fn marks_rebased(
        &mut self,
        id: &NodeId,
        marks: &MarksChange,
        since: &Since,
        ids: &NodeIds,
    ) -> Result<(), Conflict> {
        let kept = Delta::default();
        let delta = since.text(id).unwrap_or(&kept);
        let MarksChange { before, after } = marks;
        let mut now = find(self, id)?.marks.clone();
        for gone in before.minus(after) {
            for range in delta.remains(gone.bounds()) {
                let other = |mark: Mark| (!mark.says_the_same_as(&gone)).then_some(mark);
                now = Marks::sorted(now.change_within(&range, other));
            }
        }
        let mut now: Vec<Mark> = now.iter().cloned().collect();
        for back in after.minus(before) {
            let ranges = delta.remains(back.bounds()).into_iter();
            now.extend(ranges.map(|range| back.over(range)));
        }
        self.mark(id, now, ids)
    }

    fn mark(&mut self, id: &NodeId, marks: Vec<Mark>, ids: &NodeIds) -> Result<(), Conflict> {
        match plan::set_marks(self, id, marks)? {
            Some(change) => Ok(self.apply(change, ids)?),
            None => Ok(()),
        }
    }
}
