//! Undo of a change after other editors have changed the document.
//!
//! An undo applies the inverses of the changes, the last first. A map says where the items of each
//! text and list went by later changes of others ([`PieceMap`]). An inverse is applied where its
//! items are now, in one node or in several. Then the inverse is taken into the map, as if the
//! undone change had never been made, and the next inverse follows. If others have made an inverse
//! impossible, or it would revert their changes, that is an [`UndoConflict`].

mod conflict;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::replace;
use std::ops::Range;
use std::sync::Arc;

pub use conflict::UndoConflict;
use smol_str::SmolStr;

use super::mark::Mark;
use super::piece_map::{PieceMap, Sequences, Side, Spot, Survivors};
use super::plan::{self, find, follows};
use super::{
    Attributes, Change, ChildPosition, Marks, MarksChange, Node, Overlay, RightHalf, SplitPoint,
    View,
};
use crate::id::{NodeId, NodeIds};

impl Overlay {
    /// Applies the inverse of `change` to a document with the later changes `since`, and takes the
    /// inverse in there: they become what they would be if `change` had never been made.
    ///
    /// Where others deleted the content of the change, its inverse does nothing.
    pub(crate) fn rewind(
        &mut self,
        change: &Change,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let inverse = change.inverse();
        if matches!(inverse, Change::SetSelection { .. }) {
            return Ok(());
        }
        if since.is_empty() && self.try_apply(&inverse, ids) {
            return Ok(());
        }
        match inverse {
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => {
                let splice = TextSplice {
                    at,
                    removed,
                    inserted,
                };
                self.rewind_splice(&id, splice, marks, since, ids)
            }
            Change::SetMarks { id, marks } => self.rewind_marks(&id, &marks, since, ids),
            Change::InsertSubtree { at, nodes } => self.rewind_removal(at, nodes, since, ids),
            Change::RemoveSubtree { at, nodes } => self.rewind_insertion(at, nodes, since, ids),
            Change::MoveNode { id, from, to } => self.rewind_move(id, from, to, since, ids),
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => self.rewind_join(id, at, right, place, since, ids),
            Change::JoinNodes {
                id,
                at,
                right,
                place,
            } => self.rewind_split(id, at, right, place, since, ids),
            Change::PatchAttrs { ref id, .. } | Change::SetType { ref id, .. } => {
                match self.contains(id) {
                    true => Ok(self.apply(inverse, ids)?),
                    false => Ok(()),
                }
            }
            Change::SetRoot { .. } | Change::SetSelection { .. } => Ok(self.apply(inverse, ids)?),
        }
    }

    /// Whether items that cannot be undone in a node return with it, if another editor restores it.
    fn returns_with(&self, id: &NodeId) -> bool {
        !self.contains(id)
    }

    /// In most cases no change by others conflicts.
    fn try_apply(&mut self, change: &Change, ids: &NodeIds) -> bool {
        self.apply(change.clone(), ids).is_ok()
    }

    /// The gap before an item of a sequence, if the node that has it now exists; and the side of
    /// the gap that was found.
    fn gap(&self, sequences: &Sequences, id: &NodeId, at: usize) -> Option<(Spot, Side)> {
        let mut sides = [Side::AfterPrevious, Side::BeforeNext].into_iter();
        sides.find_map(|side| {
            let spot = sequences.gap(id, at, side)?;
            self.contains(&spot.node).then_some((spot, side))
        })
    }

    /// Deletes the remains of the inserted characters, and restores the removed ones in their
    /// position, with their marks.
    fn rewind_splice(
        &mut self,
        id: &NodeId,
        splice: TextSplice,
        marks: Option<MarksChange>,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let TextSplice {
            at,
            removed,
            inserted,
        } = splice;
        let (gone, back) = (removed.chars().count(), inserted.chars().count());
        let mut pieces = self.remains(id, at, &removed, since)?;
        let mut side = Side::AfterPrevious;
        let mut place = None;
        if back > 0 {
            let found = self.gap(&since.texts, id, at);
            let found = found.ok_or_else(|| UndoConflict::NodeGone { id: id.clone() })?;
            side = found.1;
            let Spot { node, offset } = &*place.insert(found.0);
            let divided = pieces.iter_mut().find_map(|(id, range)| {
                let is_within = id == node && range.start < *offset && *offset < range.end;
                is_within.then(|| (node.clone(), *offset..replace(&mut range.end, *offset)))
            });
            pieces.extend(divided);
            // A piece at this position is replaced.
            if !pieces
                .iter()
                .any(|(id, range)| id == node && range.start == *offset)
            {
                pieces.push((node.clone(), *offset..*offset));
            }
        }
        // From the end, so that the other pieces of a node stay in their positions.
        pieces.sort_by_key(|(_, range)| Reverse(range.start));
        for (node, range) in &pieces {
            let comes_back = place
                .as_ref()
                .is_some_and(|place| place.node == *node && place.offset == range.start);
            let with = if comes_back { &*inserted } else { "" };
            self.replace(node, range.clone(), with, ids)?;
        }
        if let (Some(Spot { node, offset }), Some(MarksChange { added, .. })) = (place, marks) {
            let before = pieces
                .iter()
                .filter(|(id, range)| *id == node && range.start < offset);
            let offset = offset - before.map(|(_, range)| range.len()).sum::<usize>();
            self.restore_marks(&node, &added, at..at + back, offset, ids)?;
        }
        since
            .texts
            .keep(id, &(at..at + gone), |node| self.returns_with(node));
        since.texts.undo_splice(id, at, gone, back, side);
        Ok(())
    }

    /// Where the surviving characters of a text are now, in pieces between insertions.
    ///
    /// Checks that they are present: the map knows no characters, and a node may have the id of a
    /// deleted one.
    fn remains(
        &self,
        id: &NodeId,
        at: usize,
        text: &str,
        since: &PieceMap,
    ) -> Result<Vec<(NodeId, Range<usize>)>, UndoConflict> {
        let range = at..at + text.chars().count();
        let (mut letters, mut reached) = (text.chars(), at);
        let mut pieces: Vec<(NodeId, Range<usize>)> = Vec::new();
        for Survivors { from, node, range } in since.texts.survivors(id, &range) {
            let then = letters.by_ref().skip(from - reached).take(range.len());
            let then: String = then.collect();
            reached = from + range.len();
            let Some(now) = View::node(self, &node) else {
                continue;
            };
            if now.text.slice(range.clone()).is_none_or(|now| now != then) {
                let aspect = "text";
                return Err(UndoConflict::Changed { id: node, aspect });
            }
            match pieces.last_mut() {
                Some((last, before)) if *last == node && before.end == range.start => {
                    before.end = range.end;
                }
                _ => pieces.push((node, range)),
            }
        }
        Ok(pieces)
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
    fn rewind_marks(
        &mut self,
        id: &NodeId,
        marks: &MarksChange,
        since: &PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let MarksChange { removed, added } = marks;
        let mut changed: BTreeMap<NodeId, Marks> = BTreeMap::new();
        let steps = removed.minus(added).into_iter().map(|mark| (mark, false));
        let steps = steps.chain(added.minus(removed).into_iter().map(|mark| (mark, true)));
        for (mark, comes_back) in steps {
            for Survivors { node, range, .. } in since.texts.survivors(id, &mark.bounds()) {
                let Some(known) = View::node(self, &node) else {
                    continue;
                };
                let now = changed.entry(node).or_insert_with(|| known.marks.clone());
                let next: Vec<Mark> = match comes_back {
                    true => now.iter().cloned().chain([mark.over(range)]).collect(),
                    false => now.change_within(&range, |other| {
                        (!other.differs_only_in_range(&mark)).then_some(other)
                    }),
                };
                *now = Marks::sorted(next);
            }
        }
        let mut changed = changed.into_iter();
        changed.try_for_each(|(id, marks)| self.mark(&id, marks.iter().cloned().collect(), ids))
    }

    fn mark(&mut self, id: &NodeId, marks: Vec<Mark>, ids: &NodeIds) -> Result<(), UndoConflict> {
        match plan::set_marks(self, id, marks)? {
            Some(change) => Ok(self.apply(change, ids)?),
            None => Ok(()),
        }
    }

    /// Inserts a removed subtree again.
    fn rewind_removal(
        &mut self,
        at: Option<ChildPosition>,
        mut nodes: Vec<Arc<Node>>,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let mut now = None;
        if let Some(at) = &at {
            let (spot, side) = self.child_gap(at, since)?;
            since.children.undo_splice(&at.parent, at.index, 0, 1, side);
            now = Some(spot);
        }
        nodes.iter().for_each(|node| since.restore(&node.id));
        attach_to(&mut nodes, now.as_ref());
        Ok(self.apply(Change::InsertSubtree { at: now, nodes }, ids)?)
    }

    /// Removes an inserted subtree, apart from what others have put in there.
    fn rewind_insertion(
        &mut self,
        at: Option<ChildPosition>,
        nodes: Vec<Arc<Node>>,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let Some(top) = nodes.first() else {
            return Ok(());
        };
        let stood = self.place_of(&top.id);
        if !self.removes_whole(at.as_ref(), nodes.clone(), since, ids) {
            for node in nodes.iter().rev() {
                self.remove_own(node, since, ids)?;
            }
        }
        match (&at, self.contains(&top.id)) {
            (Some(at), true) => since.leave_again(at, |_| true),
            (Some(at), false) => {
                since.leave_from(at, stood.as_ref(), |list| self.returns_with(list));
            }
            // It would stay outside of the tree: the entry had moved it there, which is undone.
            (None, true) if self.base().parent(&top.id).is_some() => {
                return Err(UndoConflict::SubtreeChanged { id: top.id.clone() });
            }
            (None, _) => {}
        }
        nodes.iter().for_each(|node| since.forget(&node.id));
        Ok(())
    }

    /// Removes a subtree in one change if it is as it was inserted.
    fn removes_whole(
        &mut self,
        then: Option<&ChildPosition>,
        mut nodes: Vec<Arc<Node>>,
        since: &PieceMap,
        ids: &NodeIds,
    ) -> bool {
        let now = match self.still_at(&nodes[0].id, then, since) {
            Ok(now) => now,
            Err(_) => return false,
        };
        attach_to(&mut nodes, now.as_ref());
        self.apply(Change::RemoveSubtree { at: now, nodes }, ids)
            .is_ok()
    }

    /// Removes the text of an inserted node, in all nodes that have it now, and then the node
    /// itself if nothing is left in it and no other editor changed it.
    fn remove_own(
        &mut self,
        node: &Arc<Node>,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let whole = TextSplice {
            at: 0,
            removed: node.text.to_string().into(),
            inserted: SmolStr::default(),
        };
        self.rewind_splice(&node.id, whole, None, since, ids)?;
        self.remove_own_if_bare(node, ids)
    }

    /// Removes an inserted node if nothing is in it and no other editor changed or moved it.
    fn remove_own_if_bare(&mut self, node: &Node, ids: &NodeIds) -> Result<(), UndoConflict> {
        match View::node(self, &node.id) {
            Some(now) if now.parent == node.parent => {
                self.remove_bare(&node.id, &node.kind, &node.attributes, ids)
            }
            _ => Ok(()),
        }
    }

    /// Removes the nodes that an undone change had created, if they stayed for content that is gone
    /// by now. Takes that in as later changes.
    pub(crate) fn remove_left_over(
        &mut self,
        change: &Change,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let made = self.changes().len();
        match change {
            Change::InsertSubtree { nodes, .. } => {
                for node in nodes.iter().rev() {
                    self.remove_own_if_bare(node, ids)?;
                }
            }
            Change::SplitNode { right, .. } if self.contains(&right.id) => {
                self.remove_bare(&right.id, &right.kind, &right.attributes, ids)?;
            }
            _ => {}
        }
        since.extend(&self.changes()[made..]);
        Ok(())
    }

    /// Removes a node without content, if it has this type and these attributes.
    fn remove_bare(
        &mut self,
        id: &NodeId,
        kind: &str,
        attributes: &Attributes,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let node = find(self, id)?;
        let is_bare = node.kind == kind
            && node.attributes == *attributes
            && node.text.is_empty()
            && node.children.is_empty()
            && self.root() != Some(id);
        if is_bare {
            let at = plan::place(self, node);
            let nodes = vec![Arc::new(node.clone())];
            self.apply(Change::RemoveSubtree { at, nodes }, ids)?;
        }
        Ok(())
    }

    fn rewind_move(
        &mut self,
        id: NodeId,
        from: Option<ChildPosition>,
        to: Option<ChildPosition>,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        let exists = self.contains(&id);
        let now = match exists {
            true => self.still_at(&id, from.as_ref(), since)?,
            false => None,
        };
        if let Some(from) = &from {
            since.leave_again(from, |list| self.returns_with(list));
        }
        if !exists {
            to.iter()
                .for_each(|to| since.children.undo_removal_of_gone(&to.parent, to.index));
            return Ok(());
        }
        let mut back = None;
        if let Some(to) = &to {
            let (spot, side) = self.child_gap(to, since)?;
            since.children.undo_splice(&to.parent, to.index, 0, 1, side);
            back = Some(spot);
        }
        Ok(self.apply(
            Change::MoveNode {
                id,
                from: now,
                to: back,
            },
            ids,
        )?)
    }

    /// Splits a node again that was joined, where the seam is now.
    fn rewind_join(
        &mut self,
        id: NodeId,
        at: SplitPoint,
        right: Box<RightHalf>,
        place: ChildPosition,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        // If children stay before the seam, it is among the children, hence after all of the text.
        let text = self.gap(&since.texts, &id, at.text).map(|(spot, _)| spot);
        let child = self
            .gap(&since.children, &id, at.children)
            .map(|(spot, _)| spot);
        let seam = match at.children {
            0 => text.as_ref(),
            _ => child.as_ref(),
        };
        let node = seam.map(|seam| seam.node.clone());
        let Some(node) = node.as_ref().and_then(|id| View::node(self, id)) else {
            since.texts.undo_join(&id, at.text, &right.id, None);
            since.children.undo_join(&id, at.children, &right.id, None);
            since
                .children
                .undo_removal_of_gone(&place.parent, place.index);
            return Ok(());
        };
        let here = |spot: Option<Spot>, other: usize| {
            let spot = spot.filter(|spot| spot.node == node.id);
            spot.map_or(other, |spot| spot.offset)
        };
        let at_now = SplitPoint {
            text: here(text, node.text.len()),
            children: here(child, 0),
        };
        let beside = plan::place(self, node).map(|place| ChildPosition {
            index: place.index + 1,
            ..place
        });
        let moved = || UndoConflict::Moved { id: id.clone() };
        let beside = beside.ok_or_else(moved)?;
        let node = node.id.clone();
        let spot = |offset| Spot {
            node: node.clone(),
            offset,
        };
        let (text, child) = (spot(at_now.text), spot(at_now.children));
        let (parent, index) = (beside.parent.clone(), beside.index);
        let right_id = right.id.clone();
        self.apply(
            Change::SplitNode {
                id: node,
                at: at_now,
                right,
                place: beside,
            },
            ids,
        )?;
        since.texts.undo_join(&id, at.text, &right_id, Some(&text));
        since
            .children
            .undo_join(&id, at.children, &right_id, Some(&child));
        let spot = Spot {
            node: parent,
            offset: index,
        };
        since
            .children
            .undo_removal(&place.parent, place.index, &spot);
        Ok(())
    }

    /// Joins the halves of a node that was split, where they are now.
    fn rewind_split(
        &mut self,
        id: NodeId,
        at: SplitPoint,
        right: Box<RightHalf>,
        place: ChildPosition,
        since: &mut PieceMap,
        ids: &NodeIds,
    ) -> Result<(), UndoConflict> {
        // The end of the left half moved along if others split it. If others joined the halves and
        // split them again, it may be in the right one.
        let sides = [Side::BeforeNext, Side::AfterPrevious].into_iter();
        let mut ends = sides.filter_map(|side| since.texts.gap(&id, at.text, side));
        let left = ends.find(|spot| spot.node != right.id);
        let left = left.map_or_else(|| id.clone(), |spot| spot.node);
        let stood = self.place_of(&right.id);
        let mut joined = None;
        if !self.contains(&right.id) {
            // Others joined or deleted it.
        } else if let Some(node) = View::node(self, &left) {
            let adjacent = stood.clone();
            let adjacent = adjacent.filter(|place| follows(self, place, &left));
            let end = node.end();
            let moved = || UndoConflict::Moved {
                id: right.id.clone(),
            };
            let change = Change::JoinNodes {
                id: left.clone(),
                at: end,
                right: right.clone(),
                place: adjacent.ok_or_else(moved)?,
            };
            self.apply(change, ids)?;
            joined = Some((&left, end));
        } else {
            self.remove_bare(&right.id, &right.kind, &right.attributes, ids)?;
        }
        let text = joined.map(|(left, end)| (left, end.text));
        since.texts.undo_split(&id, at.text, &right.id, text);
        let child = joined.map(|(left, end)| (left, end.children));
        since
            .children
            .undo_split(&id, at.children, &right.id, child);
        match self.contains(&right.id) {
            true => since.leave_again(&place, |_| true),
            false => {
                since.leave_from(&place, stood.as_ref(), |list| self.returns_with(list));
            }
        }
        Ok(())
    }

    fn place_of(&self, id: &NodeId) -> Option<ChildPosition> {
        plan::place(self, View::node(self, id)?)
    }

    /// Where the gap before a child is, if its list still exists.
    fn child_gap(
        &self,
        at: &ChildPosition,
        since: &PieceMap,
    ) -> Result<(ChildPosition, Side), UndoConflict> {
        let found = self.gap(&since.children, &at.parent, at.index);
        let gone = || UndoConflict::NodeGone {
            id: at.parent.clone(),
        };
        let (Spot { node, offset }, side) = found.ok_or_else(gone)?;
        Ok((
            ChildPosition {
                parent: node,
                index: offset,
            },
            side,
        ))
    }

    /// The position of a node, which no other editor moved.
    fn still_at(
        &self,
        id: &NodeId,
        then: Option<&ChildPosition>,
        since: &PieceMap,
    ) -> Result<Option<ChildPosition>, UndoConflict> {
        let node = find(self, id)?;
        let stays = match then {
            None => node.parent.is_none(),
            Some(then) => {
                let list = since.children.survivor(&then.parent, then.index);
                list.is_some_and(|list| node.parent.as_ref() == Some(&list.node))
            }
        };
        match stays {
            true => Ok(plan::place(self, node)),
            false => Err(UndoConflict::Moved { id: id.clone() }),
        }
    }
}

/// The splice that an undo makes in a text.
struct TextSplice {
    at: usize,
    removed: SmolStr,
    inserted: SmolStr,
}

/// Sets the parent of the top node of a subtree.
fn attach_to(nodes: &mut [Arc<Node>], at: Option<&ChildPosition>) {
    let parent = at.map(|at| &at.parent);
    if let Some(top) = nodes
        .first_mut()
        .filter(|top| top.parent.as_ref() != parent)
    {
        Arc::make_mut(top).parent = parent.cloned();
    }
}
