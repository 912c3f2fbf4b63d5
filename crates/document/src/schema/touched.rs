//! Finds the nodes and children that changes may have made invalid.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use super::content::KeptSiblings;
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::{Change, ChildPosition, Marks, Node, View};

/// The nodes that changes touched, in the order of the first touch.
pub(super) struct TouchedNodes<'a> {
    entries: Vec<(&'a NodeId, TouchedPart<'a>)>,
    positions: HashMap<&'a NodeId, usize, Secret>,
    /// Nodes with the same position that may have another type.
    retyped: HashSet<&'a NodeId, Secret>,
    /// Whether nodes were removed, so their ids may have been reused.
    removed: bool,
}

/// What was changed in a node.
#[derive(Clone, Debug, Default)]
struct TouchedPart<'a> {
    /// The node is new or has another type: nothing known about it holds.
    whole: bool,
    /// Whether its attributes were changed.
    attributes: bool,
    marks: TouchedMarks<'a>,
    children: Option<UnchangedEnds>,
    /// Whether one of the children is among `retyped`.
    retyped: bool,
}

/// Which marks of a node need a check.
#[derive(Clone, Debug)]
pub(super) enum TouchedMarks<'a> {
    /// All of them.
    All,
    /// Those that changes added, as far as they are still there.
    Added(SmallVec<[&'a Marks; 1]>),
}

impl Default for TouchedMarks<'_> {
    fn default() -> Self {
        Self::Added(SmallVec::new())
    }
}

/// The unchanged part of a list of children.
#[derive(Clone, Copy, Debug)]
struct UnchangedEnds {
    len: usize,
    prefix: usize,
    suffix: usize,
}

/// Which children of a node need a check.
#[derive(Clone, Copy, Debug)]
pub(super) enum TouchedChildren<'v> {
    /// None of them.
    Same,
    /// All of them.
    All,
    /// The edit that made them from the children of this node.
    Edited(&'v Node, KeptSiblings),
}

impl<'a> TouchedNodes<'a> {
    pub(super) fn by(changes: &'a [Change], base: &'a impl View, after: &'a impl View) -> Self {
        let mut touched = Self {
            entries: Vec::new(),
            positions: HashMap::default(),
            retyped: HashSet::default(),
            removed: false,
        };
        for change in changes {
            touched.add_change(change, base);
        }
        let parents = touched.retyped.iter().filter_map(|id| after.parent(id));
        for parent in parents.collect::<Vec<_>>() {
            touched.children(parent, base);
            touched.extent(parent).retyped = true;
        }
        touched
    }

    fn add_change(&mut self, change: &'a Change, base: &'a impl View) {
        match change {
            Change::InsertSubtree { at, nodes } => {
                for node in nodes {
                    self.extent(&node.id).whole = true;
                    self.returned(&node.id, base);
                }
                self.insert(at.as_ref(), base);
            }
            Change::RemoveSubtree { at, .. } => {
                self.removed = true;
                self.remove(at.as_ref(), base);
            }
            Change::MoveNode { from, to, .. } => {
                self.remove(from.as_ref(), base);
                self.insert(to.as_ref(), base);
            }
            Change::SpliceText { id, marks, .. } => {
                let added = marks.as_ref().map(|marks| &marks.added);
                self.add_marks(id, added);
            }
            Change::SetMarks { id, marks } => self.add_marks(id, Some(&marks.added)),
            Change::PatchAttrs { id, .. } => self.extent(id).attributes = true,
            Change::SetType { id, .. } => {
                self.extent(id).whole = true;
                self.retyped.insert(id);
            }
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => {
                self.replace_from(id, at.children, base);
                self.extent(&right.id).whole = true;
                self.returned(&right.id, base);
                self.insert(Some(place), base);
            }
            Change::JoinNodes { id, at, place, .. } => {
                self.removed = true;
                self.replace_from(id, at.children, base);
                self.extent(id).marks = TouchedMarks::All;
                self.remove(Some(place), base);
            }
            Change::SetRoot { .. } | Change::SetSelection { .. } => {}
        }
    }

    /// Records a new node that may have the id and position of a removed one.
    fn returned(&mut self, id: &'a NodeId, base: &impl View) {
        if self.removed && base.contains(id) {
            self.retyped.insert(id);
        }
    }

    fn add_marks(&mut self, id: &'a NodeId, added: Option<&'a Marks>) {
        let extent = self.extent(id);
        if let TouchedMarks::Added(lists) = &mut extent.marks {
            lists.extend(added.filter(|added| !added.is_empty()));
        }
    }

    fn extent(&mut self, id: &'a NodeId) -> &mut TouchedPart<'a> {
        let position = *self.positions.entry(id).or_insert_with(|| {
            self.entries.push((id, TouchedPart::default()));
            self.entries.len() - 1
        });
        &mut self.entries[position].1
    }

    fn children(&mut self, id: &'a NodeId, base: &impl View) -> &mut UnchangedEnds {
        self.extent(id).children.get_or_insert_with(|| {
            let len = base.node(id).map_or(0, |node| node.children.len());
            UnchangedEnds {
                len,
                prefix: len,
                suffix: len,
            }
        })
    }

    fn insert(&mut self, at: Option<&'a ChildPosition>, base: &impl View) {
        if let Some(ChildPosition { parent, index }) = at {
            let ends = self.children(parent, base);
            ends.prefix = ends.prefix.min(*index);
            ends.suffix = ends.suffix.min(ends.len.saturating_sub(*index));
            ends.len += 1;
        }
    }

    fn remove(&mut self, at: Option<&'a ChildPosition>, base: &impl View) {
        if let Some(ChildPosition { parent, index }) = at {
            let ends = self.children(parent, base);
            ends.len = ends.len.saturating_sub(1);
            ends.prefix = ends.prefix.min(*index);
            ends.suffix = ends.suffix.min(ends.len.saturating_sub(*index));
        }
    }

    /// Records that the children of a node differ from `index` on.
    fn replace_from(&mut self, id: &'a NodeId, index: usize, base: &impl View) {
        let ends = self.children(id, base);
        ends.prefix = ends.prefix.min(index);
        ends.suffix = 0;
    }

    /// Whether the children of a node were edited, or its type.
    pub(super) fn has_list(&self, id: &NodeId) -> bool {
        let part = self.positions.get(id).map(|&at| &self.entries[at].1);
        part.is_some_and(|part| part.whole || part.children.is_some())
    }

    /// The touched nodes that still exist, and whether their attributes need a check.
    pub(super) fn nodes<'v>(
        &self,
        after: &'v impl View,
    ) -> impl Iterator<Item = (&'v Node, bool, &TouchedMarks<'a>)> {
        self.entries.iter().filter_map(|(id, extent)| {
            let marks = match extent.whole {
                true => &TouchedMarks::All,
                false => &extent.marks,
            };
            Some((after.node(id)?, extent.whole || extent.attributes, marks))
        })
    }

    /// The checks for the children of each touched node that still exists and that is wanted.
    pub(super) fn lists<'v>(
        &self,
        base: &'v impl View,
        after: &'v impl View,
        wanted: impl Fn(&NodeId) -> bool,
    ) -> impl Iterator<Item = (&'v Node, TouchedChildren<'v>)> {
        let entries = self.entries.iter().filter(move |(id, _)| wanted(id));
        entries.filter_map(|(id, extent)| {
            let node = after.node(id)?;
            Some((node, self.list(base.node(id), node, extent)))
        })
    }

    fn list<'v>(
        &self,
        before: Option<&'v Node>,
        after: &Node,
        extent: &TouchedPart<'_>,
    ) -> TouchedChildren<'v> {
        let Some(before) = before.filter(|before| !extent.whole && before.kind == after.kind)
        else {
            return TouchedChildren::All;
        };
        let Some(ends) = extent.children else {
            return TouchedChildren::Same;
        };
        let shorter = before.children.len().min(after.children.len());
        let (mut prefix, mut suffix) = (ends.prefix.min(shorter), ends.suffix.min(shorter));
        if extent.retyped {
            let same =
                |(one, other): &(&NodeId, &NodeId)| one == other && !self.retyped.contains(*one);
            let pairs = before.children.iter().zip(after.children.iter());
            prefix = pairs.take(prefix).take_while(same).count();
            let pairs = before
                .children
                .iter()
                .rev()
                .zip(after.children.iter().rev());
            suffix = pairs.take(suffix).take_while(same).count();
        }
        let suffix = suffix.min(shorter - prefix);
        TouchedChildren::Edited(before, KeptSiblings { prefix, suffix })
    }
}
