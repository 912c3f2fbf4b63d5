//! Records commits: which unit inserted, removed, moved, split and joined what.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::draft::MOST_WRAPPED;
use super::record::{Edge, Place, Record, RootWrite};
use super::sequence::{Chars, ChildItem, EdgeAt, EdgeState, Item, JointEdge, StepTag, TextItem};
use super::{
    Detail, MOST_LEVELS, NodeRecords, Provenance, RecordKey, RecordedCommit, TouchedItem,
    UnitRecord, body_of,
};
use crate::id::NodeId;
use crate::{Change, Node, Selection};

/// How many of the first changes are splices of the text of this node.
fn splices_in_a_row(node: &NodeId, changes: &[Change]) -> usize {
    let is_of_it = |it: &&Change| matches!(it, Change::SpliceText { id, .. } if id == node);
    changes.iter().take_while(is_of_it).count()
}

impl Provenance {
    /// The record of a node that is in the document, or was last.
    fn key(&mut self, id: &NodeId) -> RecordKey {
        match self.ids.get(id) {
            Some(key) => *key,
            None => {
                let key = self.records.insert(Record::untouched(id.clone()));
                self.ids.insert(id.clone(), key);
                key
            }
        }
    }

    /// The record of a node, if it has one.
    pub(super) fn known(&self, id: &NodeId) -> Option<RecordKey> {
        self.ids.get(id).copied()
    }

    /// The record of a node that a change of this unit touches: a change that is never undone
    /// touches only what is recorded.
    fn key_for(&mut self, id: &NodeId, by: StepTag) -> Option<RecordKey> {
        match by {
            StepTag::ALWAYS => self.known(id).inspect(|_| self.recorded += 1),
            _ => Some(self.key(id)),
        }
    }

    /// Notes that an edit changes a node. It keeps one that is only there for others.
    fn keep(&mut self, key: RecordKey, version: u64, by: StepTag) {
        let is_permanent = |tag: &&mut StepTag| !self.units.contains_key(&tag.unit());
        let record = &mut self.records[key];
        if record.exists() || record.kept_by.contains(&by) {
            return;
        }
        if by != StepTag::ALWAYS {
            record.kept_by.push(by);
            return self.touch(by, TouchedItem::Kept(key));
        }
        // Of edits for good the last one says all.
        let tag = StepTag::new(version, 0);
        match record.kept_by.last_mut().filter(is_permanent) {
            Some(last) => *last = tag,
            None => record.kept_by.push(tag),
        }
    }

    fn touch(&mut self, by: StepTag, touch: TouchedItem) {
        let Some(unit) = self.units.get_mut(&by.unit()) else {
            return;
        };
        let touch = (by.step().1, touch);
        // Text is touched by each keystroke.
        let mut newest = unit.touched.iter().rev().take(8);
        if !newest.any(|known| *known == touch) {
            unit.touched.push(touch);
        }
    }

    /// Records a commit that follows all others. An undo or a redo is not recorded again.
    pub fn record(&mut self, commit: &RecordedCommit<'_>) {
        let number = commit.unit.map_or(0, |unit| unit.number);
        self.newest = self.newest.max(commit.version);
        let is_undone = commit.unit.is_some();
        let is_of_the_tree = || commit.changes.iter().any(Change::is_of_the_tree);
        self.recorded += usize::from(is_undone || is_of_the_tree());
        if self.after.as_ref().is_some_and(|(unit, _)| *unit != number) {
            self.place_selection_after();
        }
        if let Some(unit) = commit.unit {
            let known = self.units.entry(number).or_insert_with(|| UnitRecord {
                unit: Arc::clone(unit),
                last: 0,
                is_in_effect: true,
                step: (0, false),
                touched: Vec::new(),
                carets: [None; 4],
            });
            let is_first = known.last == 0;
            known.last = commit.version;
            if let Some(before) = commit.selections[0].filter(|_| is_first) {
                self.place_carets(number, 0, before);
            }
        }
        let mut details = commit.details.iter().peekable();
        let mut record_nth = |all: &mut Self, nth: usize| {
            let change = &commit.changes[nth];
            let detail = details.next_if(|detail| detail.change == nth);
            let by = match commit.unit {
                Some(_) => all.step_of(change, number),
                None => StepTag::ALWAYS,
            };
            let detail = detail.map(|detail| &detail.what);
            all.record_change(change, commit.version, by, detail);
        };
        let mut nth = 0;
        while let Some(change) = commit.changes.get(nth) {
            // The first splice of a text begins its record.
            record_nth(self, nth);
            nth += 1;
            let Change::SpliceText { id, .. } = change else {
                continue;
            };
            let more = splices_in_a_row(id, &commit.changes[nth..]);
            let text = (more > 0).then(|| self.known(id)).flatten();
            if let Some(text) = text {
                self.records[text].text.begin_edits(more);
            }
            (nth..nth + more).for_each(|nth| record_nth(self, nth));
            if let Some(text) = text {
                self.records[text].text.end_edits();
            }
            nth += more;
        }
        if let Some(after) = commit.selections[1].filter(|_| commit.unit.is_some()) {
            self.after = Some((number, after.clone()));
        }
    }

    /// The step of a change of this unit. Each change of the tree is a step of its own, and so are
    /// the other changes between two of these.
    fn step_of(&mut self, change: &Change, unit: u64) -> StepTag {
        let Some(known) = self.units.get_mut(&unit) else {
            return StepTag::ALWAYS;
        };
        let (step, of_the_tree) = &mut known.step;
        if *of_the_tree || change.is_of_the_tree() {
            *step = step.saturating_add(1);
        }
        *of_the_tree = change.is_of_the_tree();
        StepTag::new(unit, *step)
    }

    fn record_change(
        &mut self,
        change: &Change,
        version: u64,
        by: StepTag,
        detail: Option<&Detail>,
    ) {
        match change {
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                ..
            } => {
                if let Some(key) = self.key_for(id, by) {
                    // Its place in time is known, although it is never undone.
                    let born = match by {
                        StepTag::ALWAYS => StepTag::new(version, 0),
                        by => by,
                    };
                    let marks = match detail {
                        Some(Detail::RemovedMarks(marks)) => Some((*at, marks)),
                        _ => None,
                    };
                    // What replaces characters comes before them.
                    let new = inserted.chars().count();
                    self.insert_text(key, *at, new, born);
                    let gone = *at + new..*at + new + removed.chars().count();
                    self.records[key].hide_text(gone, removed, by, marks);
                    self.keep(key, version, by);
                    self.touch(by, TouchedItem::Text(key));
                }
            }
            Change::SetMarks { id, marks } => {
                if let Some(key) = self.key_for(id, by) {
                    self.records[key].set_marks(marks, version, by);
                    self.keep(key, version, by);
                    self.touch(by, TouchedItem::Text(key));
                }
            }
            Change::InsertSubtree { at, nodes } => {
                let list = at.as_ref().map(|at| (&at.parent, at.index));
                self.record_insertion(list, nodes, version, by);
            }
            Change::RemoveSubtree { at, nodes } => {
                let list = at.as_ref().map(|at| (&at.parent, at.index));
                self.record_removal(list, nodes, version, by);
            }
            Change::MoveNode { id, from, to } => {
                let [from, to] = [from, to].map(|at| at.as_ref().map(|at| (&at.parent, at.index)));
                self.record_move(id, from, to, version, by);
            }
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => self.record_split(
                id,
                [at.text, at.children],
                &right.id,
                (&place.parent, place.index),
                version,
                by,
            ),
            Change::JoinNodes {
                id,
                at,
                right,
                place,
            } => {
                let body = body_of(right);
                let at = [at.text, at.children];
                let lengths = match detail {
                    Some(Detail::Joined(lengths)) => Some(*lengths),
                    _ => None,
                };
                self.record_join(id, at, body, lengths, (&place.parent, place.index), by);
            }
            Change::PatchAttrs { id, .. } | Change::SetType { id, .. } => {
                if let Some(key) = self.key_for(id, by) {
                    self.records[key].write(change, version, by);
                    self.touch(by, TouchedItem::Written(key));
                }
            }
            Change::SetRoot { before, after } => {
                if by != StepTag::ALWAYS || !self.root.is_empty() {
                    let [before, after] = [before.clone(), after.clone()];
                    self.root.push(RootWrite {
                        by,
                        version,
                        before,
                        after,
                    });
                    self.touch(by, TouchedItem::Root);
                }
            }
            Change::SetSelection { .. } => {}
        }
    }

    fn record_insertion(
        &mut self,
        list: Option<(&NodeId, usize)>,
        nodes: &[Arc<Node>],
        version: u64,
        by: StepTag,
    ) {
        let Some(top) = nodes.first() else {
            return;
        };
        if by == StepTag::ALWAYS {
            // Earlier nodes of these ids are others.
            for node in nodes {
                self.ids.remove(&node.id);
            }
            if let Some((parent, index)) = list
                && let Some(list) = self.known(parent)
            {
                self.insert_child(list, index, ChildItem::Untouched(1));
                self.keep(list, version, by);
            }
            return;
        }
        let keys: SmallVec<[RecordKey; 1]> = nodes
            .iter()
            .map(|node| {
                let key = self.records.insert(Record::created(node, by));
                self.ids.insert(node.id.clone(), key);
                key
            })
            .collect();
        for (key, node) in keys.iter().zip(nodes) {
            for child in node.children.iter() {
                let child = self.ids[child];
                self.add_place(child, Some(*key), None, version, by);
                self.records[*key].children.add(ChildItem::Place {
                    node: child,
                    place: 0,
                    shown: true,
                });
            }
        }
        let top = self.ids[&top.id];
        let parent = list.map(|(parent, index)| (self.key(parent), index));
        let place = self.add_place(top, parent.map(|(list, _)| list), None, version, by);
        if let Some((list, index)) = parent {
            self.insert_place(list, top, place, index);
            self.keep(list, version, by);
        }
        self.touch(by, TouchedItem::Created(keys));
    }

    /// Adds a place of a node, and returns which of its places it is.
    fn add_place(
        &mut self,
        node: RecordKey,
        list: Option<RecordKey>,
        beside: Option<(RecordKey, usize)>,
        version: u64,
        by: StepTag,
    ) -> usize {
        self.placed += 1;
        let list_born = list.and_then(|list| self.records.get(list)?.born);
        let is_wrapper = list_born.is_some_and(|born| born.unit() == by.unit());
        let before = self.records[node].order_outside().filter(|_| is_wrapper);
        let places = &mut self.records[node].places;
        places.push(Place {
            before,
            by,
            version,
            order: self.placed,
            is_active: true,
            is_aside: false,
            is_held: false,
            list,
            beside,
            beyond: [None; 2],
        });
        places.len() - 1
    }

    /// Gives a node its place in a list, at an index.
    fn insert_place(&mut self, list: RecordKey, node: RecordKey, place: usize, index: usize) {
        let shown = true;
        self.insert_child(list, index, ChildItem::Place { node, place, shown });
        let sides = [Ordering::Less, Ordering::Greater];
        let beyond = sides.map(|side| self.wrapped_beyond(list, node, side));
        self.records[node].places[place].beyond = beyond;
    }

    /// Of the nodes whose places in a wrapper are behind that of a child, the last one that is
    /// before the wrapper in the document. On the other side, of those with places before that of
    /// the child, the first one that is behind the wrapper. `None` unless the wrapper is there
    /// without its creation.
    fn wrapped_beyond(
        &self,
        list: RecordKey,
        child: RecordKey,
        side: Ordering,
    ) -> Option<RecordKey> {
        let unit = |key: RecordKey| {
            let record = self.records.get(key)?;
            let born = record
                .born
                .filter(|born| !born.is_in_effect() && !record.is_half());
            born.map(StepTag::unit)
        };
        let own = unit(list)?;
        let around = std::iter::successors(Some(list), |key| {
            let record = self.records.get(*key)?;
            let list = record.places.get(record.chosen())?.list?;
            (unit(list) == Some(own)).then_some(list)
        });
        let top = around.take(MOST_LEVELS).last()?;
        // From that end, one list of children in the other.
        let mut ahead = vec![self.records[top].children.iter()];
        for _ in 0..MOST_WRAPPED {
            let item = loop {
                let items = ahead.last_mut()?;
                let item = match side {
                    Ordering::Less => items.next_back(),
                    _ => items.next(),
                };
                match item {
                    Some(item) => break item,
                    None => ahead.pop(),
                };
            };
            let ChildItem::Place { node, place, .. } = item else {
                continue;
            };
            let Some(record) = self.records.get(*node) else {
                continue;
            };
            let (its, chosen) = (&record.places[*place], record.chosen());
            let is_here = chosen == *place;
            if *node == child && is_here {
                return None;
            }
            // A half went along with its left half.
            let is_half = !is_here && record.places[chosen].order == its.order;
            let is_wrapped = its.by.unit() == own && !its.by.is_in_effect() || is_half;
            if is_here && unit(*node) == Some(own) {
                ahead.push(record.children.iter());
            } else if is_wrapped && self.order_in_list(*node, top) == Some(side) {
                return Some(*node);
            }
        }
        None
    }

    /// Inserts a child at an index of a list: behind the tombstones that are there. In a wrapper
    /// that stays without its creation it comes before those of wrapped nodes that are behind the
    /// wrapper now.
    fn insert_child(&mut self, list: RecordKey, index: usize, item: ChildItem) {
        let gap = self.records[list].children.whole_gap(index);
        let mut at = self.child_gap_in(list, &gap);
        if !self.records[list].is_created() {
            let start = gap.start;
            let mut before = self.records[list].children[start..at].iter();
            let behind = before.position(|item| self.is_wrapped_behind(item, list));
            at = behind.map_or(at, |behind| start + behind);
        }
        self.records[list].children.insert(at, item);
    }

    /// Whether a hidden item is the place that a wrapper gave to a node which is behind the wrapper
    /// now.
    fn is_wrapped_behind(&self, item: &ChildItem, wrapper: RecordKey) -> bool {
        let Some(born) = self.records[wrapper].born else {
            return false;
        };
        let is_of_it = |by: StepTag| by.unit() == born.unit() && !by.is_in_effect();
        // Nodes that were in each other at different times lead in a circle.
        let (mut ahead, mut left) = (vec![item], MOST_WRAPPED);
        while let Some(item) = ahead.pop().filter(|_| left > 0) {
            left -= 1;
            let ChildItem::Place { node, place, .. } = item else {
                continue;
            };
            let Some(child) = self.records.get(*node) else {
                continue;
            };
            if child.born.is_some_and(is_of_it) {
                // A wrapper within the wrapper.
                if !child.is_present() {
                    ahead.extend(child.children.iter());
                }
            } else if is_of_it(child.places[*place].by)
                && child.is_present()
                && self.is_behind(*node, wrapper)
            {
                return true;
            }
        }
        false
    }

    /// Whether a node is behind another one, or one around that, in the same list.
    fn is_behind(&self, node: RecordKey, other: RecordKey) -> bool {
        self.order_in_list(node, other) == Some(Ordering::Greater)
    }

    /// The order of a node and another one, or one around that, if they are in the same list.
    fn order_in_list(&self, node: RecordKey, other: RecordKey) -> Option<Ordering> {
        let place = |key: RecordKey| {
            let record = self.records.get(key)?;
            Some((
                key,
                record.chosen(),
                record.places.get(record.chosen())?.list?,
            ))
        };
        let (_, nth, list) = place(node)?;
        let around = std::iter::successors(place(other), |(_, _, list)| place(*list));
        let mut around = around.take(MOST_LEVELS);
        let (other, other_nth, _) = around.find(|(_, _, of)| *of == list)?;
        let index = |key: RecordKey, nth: usize| {
            let is_it = |item: &ChildItem| matches!(item, ChildItem::Place { node, place, .. } if (*node, *place) == (key, nth));
            Some(self.records[list].children.find_only(is_it)?.index)
        };
        Some(index(node, nth).cmp(&index(other, other_nth)))
    }

    /// Makes an item of the child that a node has at an index.
    fn item_of_child(&mut self, node: RecordKey, list: RecordKey, index: usize) -> usize {
        let at = self.records[list].children.cut(&(index..index + 1)).start;
        if matches!(self.records[list].children[at], ChildItem::Untouched(_)) {
            if self.records[node].places.is_empty() {
                self.add_place(node, Some(list), None, 0, StepTag::ALWAYS);
            }
            *self.records[list].children.item_mut(at) = ChildItem::Place {
                node,
                place: 0,
                shown: true,
            };
        }
        at
    }

    /// Hides the item of a child.
    fn hide_child(&mut self, node: RecordKey, list: RecordKey, index: usize) {
        let at = self.item_of_child(node, list, index);
        if let ChildItem::Place { shown, .. } = self.records[list].children.item_mut(at) {
            *shown = false;
        }
    }

    fn record_removal(
        &mut self,
        list: Option<(&NodeId, usize)>,
        nodes: &[Arc<Node>],
        version: u64,
        by: StepTag,
    ) {
        let Some(top) = nodes.first() else {
            return;
        };
        if by == StepTag::ALWAYS {
            if let Some((parent, index)) = list
                && let Some(list) = self.known(parent)
            {
                self.records[list].remove_child(index);
                self.keep(list, version, by);
            }
            let keys = nodes.iter().filter_map(|node| self.ids.remove(&node.id));
            let keys: Vec<RecordKey> = keys.collect();
            self.pass_on_texts(&keys);
            for key in keys {
                self.records.remove(key);
            }
            return;
        }
        let mut keys: SmallVec<[RecordKey; 1]> =
            nodes.iter().map(|node| self.key(&node.id)).collect();
        match list {
            Some((parent, index)) => {
                let list = self.key(parent);
                self.hide_child(self.ids[&top.id], list, index);
                self.keep(list, version, by);
            }
            None => self.note_detached(self.ids[&top.id]),
        }
        for (key, node) in keys.iter().zip(nodes) {
            for (index, child) in node.children.iter().enumerate() {
                self.item_of_child(self.ids[child], *key, index);
            }
            self.records[*key].remove(node, by);
        }
        // With a node go the nodes that were joined to it.
        let mut nth = 0;
        while let Some(key) = keys.get(nth).copied() {
            let joined = self.records[key].text.iter().filter_map(Item::edge);
            for at in joined.collect::<SmallVec<[EdgeAt; 2]>>() {
                if let Some(record) = self.records.get_mut(at.node)
                    && record.merged == Some(at.edge)
                    && !record.edges[at.edge].splits
                    && !keys.contains(&at.node)
                {
                    record.removed.push(by);
                    keys.push(at.node);
                }
            }
            nth += 1;
        }
        self.touch(by, TouchedItem::Removed(keys));
    }

    /// Records that a node had no place before its first one by a unit.
    fn note_detached(&mut self, node: RecordKey) {
        if self.records[node].places.is_empty() {
            self.add_place(node, None, None, 0, StepTag::ALWAYS);
        }
    }

    fn record_move(
        &mut self,
        id: &NodeId,
        from: Option<(&NodeId, usize)>,
        to: Option<(&NodeId, usize)>,
        version: u64,
        by: StepTag,
    ) {
        if by == StepTag::ALWAYS && self.known(id).is_none() {
            if let Some((parent, index)) = from
                && let Some(list) = self.known(parent)
            {
                self.records[list].remove_child(index);
                self.keep(list, version, by);
            }
            if let Some((parent, index)) = to
                && let Some(list) = self.known(parent)
            {
                self.insert_child(list, index, ChildItem::Untouched(1));
                self.keep(list, version, by);
            }
            return;
        }
        let node = self.key(id);
        match from {
            Some((parent, index)) => {
                let list = self.key(parent);
                self.hide_child(node, list, index);
                self.keep(list, version, by);
            }
            None => self.note_detached(node),
        }
        let list = to.map(|(parent, _)| self.key(parent));
        let place = self.add_place(node, list, None, version, by);
        if let (Some(list), Some((_, index))) = (list, to) {
            self.insert_place(list, node, place, index);
            self.keep(list, version, by);
        }
        self.touch(by, TouchedItem::Moved(node));
    }

    fn record_split(
        &mut self,
        id: &NodeId,
        [text, children]: [usize; 2],
        right_id: &NodeId,
        (parent, index): (&NodeId, usize),
        version: u64,
        by: StepTag,
    ) {
        if by == StepTag::ALWAYS && self.known(id).is_none() {
            self.ids.remove(right_id);
            if let Some(list) = self.known(parent) {
                let at = self.records[list].children.behind(index);
                let half = ChildItem::Untouched(1);
                self.records[list].children.insert(at, half);
            }
            return;
        }
        let left = self.key(id);
        let list = self.key(parent);
        let right = Record::split_off(right_id.clone(), left, by);
        let right = self.records.insert(right);
        self.ids.insert(right_id.clone(), right);
        self.divide(left, right, [text, children]);
        self.keep(left, version, by);
        let at = self.behind_left_half(list, left, index);
        let left_place = self.records[left].chosen();
        let beside = Some((left, left_place));
        let place = self.add_place(right, Some(list), beside, version, by);
        // What the left half is behind in a wrapper, the right half is behind, too.
        let of_left = self.records[left].places.get(left_place);
        let of_left = of_left.filter(|it| it.list == Some(list));
        self.records[right].places[place].beyond = of_left.map_or([None; 2], |it| it.beyond);
        self.records[left].halves.push((right, place));
        self.records[list].children.insert(
            at,
            ChildItem::Place {
                node: right,
                place,
                shown: true,
            },
        );
        self.touch(by, TouchedItem::Edge(right));
    }

    /// Where the right half of a node comes: behind the hidden nodes that were joined into the left
    /// half, and behind those that were moved into it, if no other node is before these.
    fn behind_left_half(&mut self, list: RecordKey, left: RecordKey, index: usize) -> usize {
        let start = self.records[list].children.behind(index);
        let hidden = self.records[list].children[start..].iter();
        let hidden = hidden.take_while(|item| item.width() == 0);
        let (mut at, mut has_other) = (start, false);
        for (nth, item) in hidden.enumerate() {
            let ChildItem::Place { node, .. } = item else {
                continue;
            };
            let is_joined = self.records.get(*node).is_some_and(|it| it.is_in(left));
            if is_joined || !has_other && self.is_within(*node, left) {
                at = start + nth + 1;
            } else {
                has_other = true;
            }
        }
        at
    }

    /// Whether an edge is in effect, and what was made there.
    fn edge_state(&self, at: EdgeAt) -> EdgeState {
        let record = self.records.get(at.node);
        let edge = record.and_then(|it| Some((it.edges.get(at.edge)?, it.merged == Some(at.edge))));
        match edge {
            Some((edge, true)) if edge.splits => EdgeState::UndoneSplit,
            Some((edge, false)) if !edge.splits => EdgeState::UndoneJoin,
            _ => EdgeState::InEffect,
        }
    }

    /// All items without a width at an offset of a text. Returns also where among them something
    /// is inserted.
    fn text_gap(&mut self, key: RecordKey, offset: usize) -> (Range<usize>, usize) {
        let gap = self.records[key].text.whole_gap(offset);
        let text = &self.records[key].text;
        let at = text.gap_in(&gap, |edge| self.edge_state(edge));
        (gap, at)
    }

    /// Inserts so many characters at an offset of a text.
    fn insert_text(&mut self, key: RecordKey, at: usize, len: usize, born: StepTag) {
        if len > 0 {
            let (gap, index) = self.text_gap(key, at);
            let new = TextItem::Chars(Chars::new(len, born));
            self.records[key].text.insert_in_gap(gap, index, new);
        }
    }

    /// Where a child is inserted or the list divided among items without a width: behind the last
    /// node whose content another node has, unless that is behind the gap.
    fn child_gap_in(&self, list: RecordKey, gap: &Range<usize>) -> usize {
        let children = &self.records[list].children;
        let at = children.gap_in(gap, |edge| self.edge_state(edge));
        let is_joined = |item: &ChildItem| {
            let ChildItem::Place { node, place, .. } = item else {
                return false;
            };
            let record = self.records.get(*node);
            let record = record.filter(|it| it.chosen() == *place);
            let edge = record.and_then(|it| it.edges.get(it.merged?));
            edge.is_some_and(|it| self.order_in_list(*node, it.text_in) != Some(Ordering::Less))
        };
        let behind = &children[at..gap.end];
        let last = behind.iter().rposition(is_joined);
        last.map_or(at, |last| at + last + 1)
    }

    /// Whether a node is in the subtree of another, as far as its places are recorded.
    fn is_within(&self, node: RecordKey, top: RecordKey) -> bool {
        let mut at = node;
        for _ in 0..MOST_LEVELS {
            let record = self.records.get(at);
            let place = record.and_then(|it| it.places.get(it.chosen()));
            match place.and_then(|place| place.list) {
                Some(list) if list == top => return true,
                Some(list) => at = list,
                None => return false,
            }
        }
        false
    }

    /// Moves the content of a node after these offsets to its right half, which is empty. Leaves
    /// the edge of that there.
    fn divide(&mut self, left: RecordKey, right: RecordKey, [text, children]: [usize; 2]) {
        let mut room = std::mem::take(&mut self.room);
        let record = &mut self.records[left];
        let text_gap = record.text.whole_gap(text);
        let child_gap = record.children.whole_gap(children);
        let record = &self.records[left];
        // The edge or the end of an edge goes to the same half in both sequences.
        let [for_text, for_children] = &mut room;
        let in_children = record.children.same_items(text_gap.len(), for_text);
        let in_text = record.text.same_items(child_gap.len(), for_children);
        let text_part = record.text.part_beside(&text_gap, &in_children, &child_gap);
        let child_part = record.children.part_beside(&child_gap, &in_text, &text_gap);
        let mut text_at = record.text.gap_in(&text_part, |edge| self.edge_state(edge));
        let mut child_at = self.child_gap_in(left, &child_part);
        for index in text_part.clone() {
            let found = in_children.find(&record.text[index]);
            if found.is_some_and(|at| at < child_at) {
                text_at = text_at.max(index + 1);
            }
        }
        for index in child_part {
            let found = in_text.find(&record.children[index]);
            if found.is_some_and(|at| at < text_at) {
                child_at = child_at.max(index + 1);
            }
        }
        self.room = room;
        let record = &mut self.records[left];
        // A caret at the split point moves behind it.
        let text_at = record.text.move_carets_behind(text_part.start..text_at);
        let text = record.text.split_off(text_at);
        let children = record.children.split_off(child_at);
        let edge = EdgeAt {
            node: right,
            edge: 0,
        };
        record.text.add(TextItem::Edge(edge));
        record.children.add(ChildItem::Edge(edge));
        self.rehome(left, [right; 2], &text, &children);
        let record = &mut self.records[right];
        record.text = text.into();
        record.children = children.into();
    }

    fn record_join(
        &mut self,
        id: &NodeId,
        [text, children]: [usize; 2],
        body: Node,
        lengths: Option<[usize; 2]>,
        (parent, index): (&NodeId, usize),
        by: StepTag,
    ) {
        let right_id = body.id.clone();
        let is_known = |id: &NodeId| self.known(id).is_some();
        if by == StepTag::ALWAYS && !is_known(id) && !is_known(&right_id) {
            if let Some(list) = self.known(parent) {
                self.records[list].remove_child(index);
            }
            return;
        }
        let [left, right, list] = [id, &right_id, parent].map(|id| self.key(id));
        self.hide_child(right, list, index);
        let record = &mut self.records[right];
        if let Some([text, children]) = lengths {
            record.text.end_at(text);
            record.children.end_at(children);
        }
        record.edges.push(Edge {
            by,
            splits: false,
            left,
            text_in: left,
            child_in: left,
            is_overruled: false,
        });
        let edge = record.edges.len() - 1;
        record.merged = Some(edge);
        record.body = Some(Arc::new(body));
        let record = &mut self.records[left];
        record.text.end_at(text);
        record.children.end_at(children);
        let text = std::mem::take(&mut *self.records[right].text);
        let children = std::mem::take(&mut *self.records[right].children);
        self.put_at_end(left, right, edge, text, children);
        self.touch(by, TouchedItem::Edge(right));
    }

    /// Appends the content of a joined node. What was split off before from the end comes behind
    /// it, and so does what was joined before, unless it was before the joined node.
    fn put_at_end(
        &mut self,
        left: RecordKey,
        right: RecordKey,
        edge: usize,
        text: Vec<TextItem>,
        children: Vec<ChildItem>,
    ) {
        let edge = EdgeAt { node: right, edge };
        let mut room = std::mem::take(&mut self.room);
        let records = &self.records;
        let is_open =
            |at: EdgeAt| at.node != right && records.get(at.node).is_none_or(|it| !it.is_in(left));
        // A node whose join is undone, or a half that was deleted. The joined node is behind it in
        // the list, or is a half of it.
        let is_before = |at: EdgeAt| {
            let mut splits = records[right].edges.iter().filter(|it| it.splits);
            let is_half_of_it = splits.any(|it| it.text_in == at.node);
            is_open(at) && (is_half_of_it || self.is_behind(right, at.node))
        };
        let state = |at: EdgeAt| match records.get(at.node) {
            _ if !is_open(at) => JointEdge::Closed,
            Some(record) if !record.edges[at.edge].splits => JointEdge::UndoneJoin,
            _ => JointEdge::Open,
        };
        let Record {
            text: of_left,
            children: list,
            ..
        } = &records[left];
        let (mut at_text, mut at_child) = (
            of_left.joint(state, is_before),
            list.joint(state, is_before),
        );
        // The edge and the end are on the same side of the others in both sequences.
        let passes = |at: usize| move |found: usize| found < at;
        let [for_text, for_children] = &mut room;
        let in_list = list.same_items(of_left.len() - at_text, for_text);
        let in_left = of_left.same_items(list.len() - at_child, for_children);
        for (index, item) in of_left.iter().enumerate().skip(at_text) {
            if in_list.find(item).is_some_and(passes(at_child)) {
                at_text = index + 1;
            }
        }
        for (index, item) in list.iter().enumerate().skip(at_child) {
            if in_left.find(item).is_some_and(passes(at_text)) {
                at_child = index + 1;
            }
        }
        // The content of such a half ends before that of the joined node.
        let is_half = |at: EdgeAt| {
            let record = records.get(at.node);
            record.is_some_and(|it| it.edges[at.edge].splits) && is_before(at)
        };
        let ended: SmallVec<[EdgeAt; 2]> = records[left].text.unended(at_text, is_half);
        self.room = room;
        self.rehome(right, [left; 2], &text, &children);
        let record = &mut self.records[left];
        let at_text = record.text.end_edges(at_text, &ended);
        let at_child = record.children.end_edges(at_child, &ended);
        record.text.join(at_text, edge, text);
        record.children.join(at_child, edge, children);
    }

    // --- Selections ---

    /// Marks the ends of a selection in the texts. `first` is the number of the first end.
    fn place_carets(&mut self, unit: u64, first: u8, selection: &Selection) {
        let Selection::Text(selection) = selection else {
            return;
        };
        for (nth, at) in (first..).zip([&selection.anchor, &selection.focus]) {
            self.remove_caret(unit, nth);
            let key = self.key(&at.node_id);
            let (_, index) = self.text_gap(key, at.offset);
            let text = &mut self.records[key].text;
            text.insert(index, TextItem::Caret(unit, nth));
            if let Some(unit) = self.units.get_mut(&unit) {
                unit.carets[usize::from(nth)] = Some(key);
            }
        }
    }

    fn remove_caret(&mut self, unit: u64, nth: u8) {
        let known = self.units.get_mut(&unit);
        let key = known.and_then(|unit| unit.carets[usize::from(nth)].take());
        let Some(record) = key.and_then(|key| self.records.get_mut(key)) else {
            return;
        };
        let is_it = |item: &TextItem| matches!(item, TextItem::Caret(of, which) if (*of, *which) == (unit, nth));
        if let Some(found) = record.text.find(is_it) {
            record.text.remove(found.index);
        }
    }

    /// Marks the ends of the selection after the newest commit.
    pub(super) fn place_selection_after(&mut self) {
        if let Some((unit, selection)) = self.after.take() {
            self.place_carets(unit, 2, &selection);
        }
    }
}
