//! Opens and closes edges: the content of a node that was split off or joined goes into the node
//! itself, or behind its edge in another node.
//!
//! A split that is undone closes its edge, and so does a join. A split that is redone, or a join
//! that is undone, opens it. The newest unit of all is undone by plain inverses instead, without
//! this file (`DataStore::undo_newest_in`).

use std::sync::Arc;

use smallvec::SmallVec;

use super::draft::{ProvenanceDraft, UndoResult};
use super::record::{Record, spread_of};
use super::sequence::{ChildItem, EdgeAt, Item, SequencePosition, hide};
use super::{BlockedUndo, NodeRecords, RecordKey, body_of};
use crate::id::NodeId;
use crate::plan::{self, follows};
use crate::{Change, ChildPosition, Children, Node, RightHalf, SplitPoint, UndoConflict, View};

impl ProvenanceDraft<'_> {
    pub(super) fn find_edge(
        &self,
        edge: EdgeAt,
    ) -> Option<([RecordKey; 2], [SequencePosition; 2])> {
        let it = self.get(edge.node)?.edges.get(edge.edge)?;
        let [text_in, child_in] = [it.text_in, it.child_in];
        let text = self.get(text_in)?.text.find_edge(edge)?;
        let child = self.get(child_in)?.children.find_edge(edge)?;
        Some(([text_in, child_in], [text, child]))
    }

    /// Opens or closes the edges in the sequences of a node, as far as they are not as the units in
    /// effect want them.
    pub(super) fn update_edges_of(&mut self, key: RecordKey) -> UndoResult {
        let items = self.get(key).into_iter().flat_map(|it| it.text.iter());
        let nodes: Vec<RecordKey> = items.filter_map(Item::edge).map(|at| at.node).collect();
        nodes
            .into_iter()
            .try_for_each(|node| self.update_edge(node))
    }

    /// Brings the content of a node to where the units in effect want it: into the node itself, or
    /// behind one of its edges.
    pub(super) fn update_edge(&mut self, node: RecordKey) -> UndoResult {
        self.break_circle(node)?;
        let Some(record) = self.get(node) else {
            return Ok(());
        };
        let (wanted, merged) = (record.edge_wanted(), record.merged);
        let edge = |edge| EdgeAt { node, edge };
        match (merged, wanted) {
            (Some(merged), Some(wanted)) if merged != wanted => {
                match self.are_together(edge(merged), edge(wanted)) {
                    true => {
                        self.clear_known_out();
                        self.edit(node).merged = Some(wanted);
                    }
                    false => {
                        self.open(edge(merged))?;
                        self.break_circle(node)?;
                        self.close(edge(wanted))?;
                        // An edge may have been in the content of its own node until now.
                        let holder = self.at(node).edges[wanted].text_in;
                        self.update_edges_of(holder)?;
                    }
                }
                Ok(())
            }
            // It is going to be joined again. What others split off from its content stays there.
            (Some(merged), None)
                if self.is_divided(edge(merged)) && self.edge_at_end(record) == Some(merged) =>
            {
                Ok(())
            }
            (Some(merged), None) => self.open(edge(merged)),
            (None, Some(wanted)) => self.close(edge(wanted)),
            _ => Ok(()),
        }
    }

    /// If this node is to go behind an edge that is in its own content, one of the edges around
    /// that is opened: that of the earliest of the halves to which it goes. If it is joined to
    /// none, that is the earliest join, which is without effect. [`close`](Self::close) follows.
    fn break_circle(&mut self, node: RecordKey) -> UndoResult {
        let Some(record) = self.get(node) else {
            return Ok(());
        };
        let mut edges = record.edges.iter();
        let joined = edges.rposition(|edge| !edge.splits && edge.by.is_in_effect());
        let Some(nth) = joined.or_else(|| record.edge_wanted()) else {
            return Ok(());
        };
        let edge = &record.edges[nth];
        if !edge.is_overruled {
            return Ok(());
        }
        let at = EdgeAt { node, edge: nth };
        let of = |at: &EdgeAt| &self.at(at.node).edges[at.edge];
        let mut around = self.closed_around(node, at);
        around.retain(|it| of(it).by.step() < edge.by.step());
        let is_half =
            |it: &&EdgeAt| of(it).splits && self.with_lefts(edge.left).any(|left| left == it.node);
        let step = |it: &&EdgeAt| of(it).by.step();
        let half = around.iter().filter(is_half).min_by_key(step);
        let mut circle = self.circle_of(at);
        if circle.is_empty() {
            circle = around.clone();
        }
        let earliest = || circle.iter().filter(|_| !edge.splits).min_by_key(step);
        match half.or_else(earliest).copied() {
            Some(opened) if opened != at => {
                self.edit(opened.node).edges[opened.edge].is_overruled = true;
                self.open(opened)
            }
            _ => Ok(()),
        }
    }

    /// The edges through which a node is in itself, once this edge of another node in it, or of its
    /// own, is closed.
    fn circle_of(&self, edge: EdgeAt) -> Vec<EdgeAt> {
        let mut path = vec![edge];
        while let Some(last) = path.last() {
            let left = self.at(last.node).edges[last.edge].left;
            if let Some(start) = path.iter().position(|it| it.node == left) {
                return path.split_off(start);
            }
            match self.get(left).and_then(|it| it.merged) {
                Some(edge) => path.push(EdgeAt { node: left, edge }),
                None => break,
            }
        }
        Vec::new()
    }

    /// The closed edges in the text of a node that have another edge behind them.
    fn closed_around(&self, node: RecordKey, edge: EdgeAt) -> Vec<EdgeAt> {
        let mut around: Vec<EdgeAt> = Vec::new();
        for item in self.at(node).text.iter() {
            match (item.edge(), item.end()) {
                (Some(it), _) if it == edge => return around,
                (Some(it), _) if self.at(it.node).merged == Some(it.edge) => around.push(it),
                (_, Some(end)) => around.retain(|it| *it != end),
                _ => {}
            }
        }
        Vec::new()
    }

    /// The edge behind which the content of a node belongs at the end of the undo or redo.
    fn edge_at_end(&self, record: &Record) -> Option<usize> {
        record.edge_with(|tag| self.will_be_in_effect(tag))
    }

    /// Whether the content behind an edge ends in another node than that of the edge.
    fn is_divided(&self, edge: EdgeAt) -> bool {
        let holder = self.get(self.at(edge.node).edges[edge.edge].text_in);
        let has_end = |record: &Record| record.text.iter().any(|item| item.end() == Some(edge));
        holder.is_some_and(|holder| !has_end(holder))
    }

    /// Whether two edges are in the same place.
    fn are_together(&self, one: EdgeAt, other: EdgeAt) -> bool {
        let (Some((holders, one)), Some((others, other))) =
            (self.find_edge(one), self.find_edge(other))
        else {
            return false;
        };
        let between = |nth: usize| {
            let [one, other] = [one[nth].index, other[nth].index];
            one.min(other) + 1..one.max(other)
        };
        holders == others
            && self.at(holders[0]).text[between(0)].is_empty()
            && self.at(holders[1]).children[between(1)].is_empty()
    }

    /// Gives a node back the content behind an edge.
    fn open(&mut self, edge: EdgeAt) -> UndoResult {
        let node = edge.node;
        // Its list comes first: other edges may be opened with that.
        let record = self.at(node);
        let list = record.places.get(record.chosen()).and_then(|it| it.list);
        let list = list.filter(|list| self.get(*list).is_some());
        if let Some(list) = list.filter(|_| record.edge_wanted().is_none()) {
            self.show(list)?;
        }
        let Some((holders, at)) = self.find_edge(edge) else {
            return Ok(());
        };
        if self.at(node).merged != Some(edge.edge) {
            return Ok(());
        }
        let [left, child_in] = holders.map(|key| self.at(key));
        let id = left.id.clone();
        let [text, list] = self.ends_of(edge, holders, at);
        let has_content = left.is_present() && left.text.has_width_in(at[0].index..text)
            || child_in.is_present() && child_in.children.has_width_in(at[1].index..list);
        let is_last = !left.text.has_width_in(text..left.text.len())
            && !child_in
                .children
                .has_width_in(list..child_in.children.len());
        let is_whole = holders[0] == holders[1] && left.is_present() && is_last;
        let goes_on = self.at(node).edge_wanted().is_some();
        let returns = !goes_on && (has_content || self.at(node).is_wanted());
        let place = self
            .document
            .node(&id)
            .and_then(|it| plan::place(self.document, it));
        if let Some(place) = place.filter(|_| is_whole && returns)
            && let Some(body) = self.edit(node).body.take()
        {
            let beside = ChildPosition {
                index: place.index + 1,
                ..place
            };
            self.make(Change::SplitNode {
                id,
                at: SplitPoint {
                    text: at[0].offset,
                    children: at[1].offset,
                },
                right: Box::new(RightHalf::of(&body)),
                place: beside.clone(),
            })?;
            self.appeared.insert(body.id.clone(), node);
            self.take_out_behind(edge, holders, at);
            self.place_half(node, &beside)?;
            return self.update_edges_of(node);
        }
        let ends = self.ends_of(edge, holders, at);
        self.evacuate(holders, at, ends)?;
        self.take_out_behind(edge, holders, at);
        if goes_on {
            return Ok(());
        }
        if self.belongs(node) {
            self.show(node)?;
        }
        self.update_edges_of(node)
    }

    /// Puts a node that was split off again at its own place. If the list of that is gone for good,
    /// it stays beside its left half.
    fn place_half(&mut self, node: RecordKey, beside: &ChildPosition) -> UndoResult {
        let record = self.at(node);
        let (id, place) = (record.id.clone(), record.chosen());
        let list = record.places.get(place).and_then(|place| place.list);
        let Some(list) = list.filter(|list| self.get(*list).is_some()) else {
            self.place_at(node, place, beside);
            return Ok(());
        };
        let Some(found) = self.find_place(list, node, place) else {
            return Ok(());
        };
        self.show_item(list, found.index, true);
        let parent = self.at(list).id.clone();
        if parent == beside.parent && found.offset == beside.index {
            return Ok(());
        }
        match plan::move_node(self.document, &id, Some((&parent, Some(found.offset))))? {
            Some(change) => self.make(change),
            None => Ok(()),
        }
    }

    /// Gives a node that is at this position its place there.
    fn place_at(&mut self, node: RecordKey, place: usize, at: &ChildPosition) {
        let Some(list) = self.key_of(&at.parent) else {
            return;
        };
        if let Some(known) = self.edit(node).places.get_mut(place) {
            (known.list, known.beside) = (Some(list), None);
            let shown = true;
            let children = &mut self.edit(list).children;
            let index = children.behind(at.index);
            children.insert(index, ChildItem::Place { node, place, shown });
        }
    }

    /// Moves the items behind an edge to its node, apart from other edges of the node.
    fn take_out_behind(
        &mut self,
        edge: EdgeAt,
        holders: [RecordKey; 2],
        at: [SequencePosition; 2],
    ) {
        let node = edge.node;
        let ends = self.ends_of(edge, holders, at);
        let mut left = std::mem::take(&mut self.edit(holders[0]).text);
        let mut list = std::mem::take(&mut self.edit(holders[1]).children);
        let is_closed = |at: EdgeAt| {
            let record = self.get(at.node);
            record.is_some_and(|it| it.merged == Some(at.edge))
        };
        let text = left.take_behind(edge, at[0].index, ends[0], is_closed);
        let children = list.take_behind(edge, at[1].index, ends[1], is_closed);
        self.edit(holders[0]).text = left;
        self.edit(holders[1]).children = list;
        self.clear_known_out();
        self.rehome(holders[0], [node; 2], &text, &children);
        self.take_back_behind(edge, holders);
        let record = self.edit(node);
        record.merged = None;
        record.text = text.into();
        record.children = children.into();
    }

    /// The content of a joined node ends in a half that was split off from it: what comes behind
    /// that end belongs to the node that it was joined to.
    fn take_back_behind(&mut self, edge: EdgeAt, holders: [RecordKey; 2]) {
        for key in self.spread(holders[0]) {
            let rest = self.at(key).text.rest_behind_end(edge);
            if let Some(rest) = rest.filter(|_| key != holders[0]) {
                let behind = self.edit(key).text.split_off(rest);
                self.rehome(key, holders, &behind, &[]);
                self.edit(holders[0]).text.extend(behind);
            }
        }
        for key in self.spread(holders[1]) {
            let rest = self.at(key).children.rest_behind_end(edge);
            if let Some(rest) = rest.filter(|_| key != holders[1]) {
                let behind = self.edit(key).children.split_off(rest);
                self.rehome(key, holders, &[], &behind);
                self.edit(holders[1]).children.extend(behind);
            }
        }
    }

    /// A node and the nodes to which items of it went.
    pub(super) fn spread(&self, key: RecordKey) -> SmallVec<[RecordKey; 2]> {
        spread_of(key, |key| self.get(key))
    }

    /// Whether a node can be joined to the one that has its edge.
    pub(super) fn is_adjacent(&self, edge: EdgeAt) -> bool {
        let Some((holders, [text, child])) = self.find_edge(edge) else {
            return false;
        };
        let (node, holder) = (self.at(edge.node), self.at(holders[0]));
        let place = self.document.node(&node.id);
        let place = place.and_then(|it| plan::place(self.document, it));
        holders[0] == holders[1]
            && place.is_some_and(|place| follows(self.document, &place, &holder.id))
            && !holder.text.has_width_in(text.index..holder.text.len())
            && !holder
                .children
                .has_width_in(child.index..holder.children.len())
    }

    /// Moves the content of a node behind one of its edges.
    fn close(&mut self, edge: EdgeAt) -> UndoResult {
        let node = edge.node;
        let Some((holders, at)) = self.find_edge(edge) else {
            return Ok(());
        };
        if holders.contains(&node) {
            // Others joined the halves the other way around.
            return Ok(());
        }
        let id = self.at(node).id.clone();
        let is_in = self.at(node).is_present();
        let are_in = holders.iter().all(|key| self.at(*key).is_present());
        if let Some(end) = self.document.node(&id).filter(|_| is_in).map(Node::end) {
            let record = self.edit(node);
            record.text.end_at(end.text);
            record.children.end_at(end.children);
        }
        if is_in && are_in && self.is_adjacent(edge) {
            let left = self.at(holders[0]).id.clone();
            let right = self.document.node(&id);
            let place = right.and_then(|it| plan::place(self.document, it));
            let end = self.document.node(&left).map(Node::end);
            if let (Some(right), Some(place), Some(end)) = (right, place, end) {
                let right = RightHalf::of(right);
                let body = body_of(&right);
                let right = Box::new(right);
                if let Some((list, found)) = self.shown_place(node) {
                    self.show_item(list, found.index, false);
                }
                self.make(Change::JoinNodes {
                    id: left,
                    at: end,
                    right,
                    place,
                })?;
                self.edit(node).body = Some(Arc::new(body));
            }
        } else if is_in {
            if are_in && let Some(version) = self.later_between(holders[0], node) {
                return Err(BlockedUndo {
                    conflict: UndoConflict::Moved { id },
                    version: Some(version),
                });
            }
            // Its children go along if they can, so that nothing of them is lost.
            let children = self.document.node(&id).map(|it| it.children.clone());
            let children: Vec<NodeId> = children.iter().flat_map(Children::iter).cloned().collect();
            let left = self.at(holders[1]);
            let target = left.is_present().then(|| left.id.clone());
            for (nth, child) in children.iter().enumerate() {
                let Some(parent) = &target else {
                    break;
                };
                let target = Some((parent, Some(at[1].offset + nth)));
                if let Some(change) = plan::move_node(self.document, child, target)? {
                    self.make(change)?;
                }
            }
            let moved: Vec<ChildItem> = match target.is_some() {
                true => std::mem::take(&mut *self.edit(node).children),
                false => Vec::new(),
            };
            self.hide(node)?;
            self.edit(node).children.extend(moved);
        }
        self.put_in_behind(edge, holders, at);
        self.show_content(holders)?;
        self.return_rest(holders[0])
    }

    /// Brings what was put into nodes into the document: text into the first, children into the
    /// second.
    fn show_content(&mut self, [left, list]: [RecordKey; 2]) -> UndoResult {
        self.update_text(left)?;
        if self.at(list).is_present() {
            self.show_children(list)?;
        }
        Ok(())
    }

    /// A half came back to a node whose join is undone, with the end of the content that was
    /// joined: what is behind that end returns to the node that it was joined to.
    fn return_rest(&mut self, node: RecordKey) -> UndoResult {
        let ends = self.at(node).text.iter().filter_map(Item::end);
        let own: SmallVec<[EdgeAt; 1]> = ends.filter(|end| end.node == node).collect();
        for edge in own {
            let Some((holders, _)) = self.find_edge(edge).filter(|(it, _)| !it.contains(&node))
            else {
                continue;
            };
            let record = self.at(node);
            let text = record.text.find(|item| item.end() == Some(edge));
            let child = record.children.find(|item| item.end() == Some(edge));
            let (Some(text), Some(child)) = (text, child) else {
                continue;
            };
            let ends = [record.text.len(), record.children.len()];
            self.evacuate([node; 2], [text, child], ends)?;
            self.take_back_behind(edge, holders);
            self.show_content(holders)?;
        }
        Ok(())
    }

    /// The later edit that put something between two halves, or moved one of them.
    fn later_between(&self, left: RecordKey, right: RecordKey) -> Option<u64> {
        let moves = |key: RecordKey| self.at(key).places.iter();
        let moved = [left, right].into_iter().flat_map(moves);
        let moved = moved
            .filter_map(|it| self.is_later(it.by, it.version))
            .max();
        let place = |key: RecordKey| {
            let node = self.document.node(&self.at(key).id)?;
            plan::place(self.document, node)
        };
        let (Some(from), Some(to)) = (place(left), place(right)) else {
            return moved;
        };
        let Some(siblings) = self.document.node(&to.parent).map(Node::children) else {
            return moved;
        };
        let first = if from.parent == to.parent {
            from.index + 1
        } else {
            0
        };
        let between = (first..to.index).filter_map(|at| siblings.get(at));
        let keys = between.map(|id| self.key_of(id));
        let versions = keys.map(|key| match key.and_then(|key| self.get(key)) {
            Some(record) => {
                let born = record.born.into_iter();
                let tags = born.chain(record.places.iter().map(|it| it.by));
                tags.filter_map(|by| self.is_later(by, 0)).max()
            }
            None => None,
        });
        versions.flatten().chain(moved).max()
    }

    /// Brings the children of a node into the document that belong there.
    fn show_children(&mut self, list: RecordKey) -> UndoResult {
        let places = self.at(list).children.iter().filter_map(|item| match item {
            ChildItem::Place {
                node,
                place,
                shown: false,
            } => Some((*node, *place)),
            _ => None,
        });
        let places: Vec<(RecordKey, usize)> = places.collect();
        for (node, place) in places {
            if self.returns_to(node, place) {
                self.show(node)?;
            }
        }
        Ok(())
    }

    fn put_in_behind(&mut self, edge: EdgeAt, holders: [RecordKey; 2], at: [SequencePosition; 2]) {
        let node = edge.node;
        self.clear_known_out();
        let record = self.edit(node);
        record.merged = Some(edge.edge);
        let text = std::mem::take(&mut *record.text);
        let children = std::mem::take(&mut *record.children);
        self.rehome(node, holders, &text, &children);
        let left = &mut self.edit(holders[0]).text;
        left.put_behind(edge, at[0].index, text);
        let list = &mut self.edit(holders[1]).children;
        list.put_behind(edge, at[1].index, children);
    }

    /// Where the content behind an edge ends.
    fn ends_of(
        &self,
        edge: EdgeAt,
        holders: [RecordKey; 2],
        at: [SequencePosition; 2],
    ) -> [usize; 2] {
        let [left, list] = holders.map(|key| self.at(key));
        let belongs_to = |around: EdgeAt| self.belongs_to(edge, around);
        [
            left.text.end_of(edge, at[0].index, belongs_to),
            list.children.end_of(edge, at[1].index, belongs_to),
        ]
    }

    /// Whether an edge within the content behind another one belongs to the node of that, rather
    /// than to the node that has both: it is older, or its node was split off from that node.
    fn belongs_to(&self, edge: EdgeAt, around: EdgeAt) -> bool {
        let of = |at: EdgeAt| self.get(at.node)?.edges.get(at.edge);
        let (Some(inner), Some(outer)) = (of(edge), of(around)) else {
            return false;
        };
        edge.node != around.node
            && (inner.by.step() < outer.by.step()
                || self.with_lefts(inner.left).any(|left| left == around.node))
    }

    /// Takes what is between these places out of the document.
    fn evacuate(
        &mut self,
        holders: [RecordKey; 2],
        at: [SequencePosition; 2],
        ends: [usize; 2],
    ) -> UndoResult {
        let [left, list] = holders;
        let id = self.at(left).id.clone();
        if self.at(left).is_present()
            && let Some(node) = self.document.node(&id).cloned()
        {
            let start = at[0].offset;
            let items = &mut self.edit(left).text[at[0].index..ends[0]];
            let end = hide(items, &node, start);
            self.splice(&id, start..end, "", &[])?;
        }
        if !self.at(list).is_present() {
            return Ok(());
        }
        let shown = self.at(list).children[at[1].index..ends[1]].iter();
        let shown = shown.filter_map(|item| match item {
            ChildItem::Place {
                node, shown: true, ..
            } => Some(*node),
            _ => None,
        });
        let shown: Vec<RecordKey> = shown.collect();
        shown.into_iter().try_for_each(|node| self.hide(node))
    }
}
