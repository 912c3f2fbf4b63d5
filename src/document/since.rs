//! Changes by others to a document, as lengths.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::delta::Delta;
use super::{Change, ChildPosition, Selection, SplitPoint};
use crate::hashing::Secret;
use crate::id::NodeId;

type Deltas = HashMap<NodeId, Delta, Secret>;

/// Changes of the sequences of a document since some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesSince {
    texts: Deltas,
    children: Deltas,
}

/// The change of child lists by a move back: first the node leaves one list, then it enters
/// another.
type Lists<'a> = [Option<(&'a NodeId, Delta)>; 2];

impl ChangesSince {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.children.is_empty()
    }

    /// Takes in a change after all known ones.
    pub(crate) fn observe(&mut self, change: &Change) {
        self.take(Steps::of(std::slice::from_ref(change)));
    }

    /// Takes in steps after all known ones.
    pub(crate) fn take(&mut self, steps: Steps) {
        for (sequence, id, delta) in steps.0 {
            match sequence {
                Sequence::Text => note(&mut self.texts, &id, delta),
                Sequence::Children => note(&mut self.children, &id, delta),
            }
        }
    }

    /// Takes in later changes. Takes time linear in the later changes and in the sequences that
    /// both know.
    pub(crate) fn append(&mut self, later: Self) {
        for (id, delta) in later.texts {
            note(&mut self.texts, &id, delta);
        }
        for (id, delta) in later.children {
            note(&mut self.children, &id, delta);
        }
    }

    /// Transforms these changes to come after `change`, which started from the same state. `end` is
    /// where the left half of joined nodes ends now.
    pub(super) fn advance(&mut self, change: &Change, end: SplitPoint) {
        match change {
            Change::SpliceText { id, .. } => after(&mut self.texts, id, &splice_of(change)),
            Change::SplitNode { id, at, right, .. } => {
                divide(&mut self.texts, id, at.text, &right.id);
                divide(&mut self.children, id, at.children, &right.id);
            }
            Change::JoinNodes { id, at, right, .. } => {
                join(&mut self.texts, id, at.text, end.text, &right.id);
                join(&mut self.children, id, at.children, end.children, &right.id);
            }
            // After the change these nodes do not exist, or are different ones.
            Change::InsertSubtree { nodes, .. } | Change::RemoveSubtree { nodes, .. } => {
                for node in nodes {
                    self.texts.remove(&node.id);
                    self.children.remove(&node.id);
                }
            }
            _ => {}
        }
        for (list, delta) in lists_of(change).into_iter().flatten() {
            after(&mut self.children, list, &delta);
        }
    }

    pub(super) fn text(&self, id: &NodeId) -> Option<&Delta> {
        self.texts.get(id)
    }

    /// The selection afterwards, as far as lengths determine it.
    pub(crate) fn selection(&self, selection: &Selection) -> Selection {
        selection.shifted(|at| match self.text(&at.node_id) {
            Some(delta) => delta.caret(at.offset),
            None => at.offset,
        })
    }

    pub(super) fn child_place(&self, place: &ChildPosition) -> ChildPosition {
        self.child_place_without(place, None)
    }

    /// A position in a list, counted without the child that was at `gone`.
    pub(super) fn child_place_without(
        &self,
        place: &ChildPosition,
        gone: Option<&ChildPosition>,
    ) -> ChildPosition {
        let gone = gone.filter(|gone| gone.parent == place.parent);
        let index = match (self.children.get(&place.parent), gone) {
            (None, _) => place.index,
            (Some(delta), None) => delta.place(place.index),
            (Some(delta), Some(gone)) => {
                let left = Delta::splice(gone.index, 1, 0);
                delta.after(&left).place(place.index)
            }
        };
        ChildPosition {
            parent: place.parent.clone(),
            index,
        }
    }

    /// Whether a split point is within content that others split off.
    pub(super) fn cuts_off(&self, id: &NodeId, at: &SplitPoint) -> bool {
        let cut = |deltas: &Deltas, at| deltas.get(id).is_some_and(|delta| delta.cuts(&(at..at)));
        cut(&self.texts, at.text) || cut(&self.children, at.children)
    }

    /// Whether the child at a position is still in its list.
    pub(super) fn keeps_child(&self, at: &ChildPosition) -> bool {
        let delta = self.children.get(&at.parent);
        delta.is_none_or(|delta| !delta.remains(at.index..at.index + 1).is_empty())
    }
}

/// The consecutive steps of one commit on sequences; cheap to make and to keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(SmallVec<[(Sequence, NodeId, Delta); 1]>);

/// The two sequences of a node.
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
            Change::SplitNode { id, at, right, .. } => {
                // Content that moved to the right half is not followed there. If that node existed
                // before, as one that a join removed, none of its earlier content is known to be in
                // it.
                for (id, at) in [(id, *at), (&right.id, SplitPoint::default())] {
                    self.note(Sequence::Text, id, Delta::cut(at.text));
                    self.note(Sequence::Children, id, Delta::cut(at.children));
                }
            }
            // The record of deleted nodes stays: an undo may restore them.
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

fn join(deltas: &mut Deltas, id: &NodeId, at: usize, end: usize, right: &NodeId) {
    let rest = deltas.remove(right).unwrap_or_default();
    let left = deltas.get(id).cloned().unwrap_or_default();
    keep(deltas, id, left.joined(at, end, &rest));
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

/// The effects of a change on child lists, other than those of a node that it splits or joins.
fn lists_of(change: &Change) -> Lists<'_> {
    let leave = |place: &ChildPosition| Delta::splice(place.index, 1, 0);
    let enter = |place: &ChildPosition| Delta::splice(place.index, 0, 1);
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
