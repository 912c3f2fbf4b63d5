//! What is recorded of one node.

use std::ops::Range;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::RecordKey;
use super::sequence::{Chars, ChildItem, Hidden, RecordedMark, Sequence, StepTag, TextItem, hide};
use super::writes::{ValueWrite, ValueWrites, WrittenValue};
use crate::id::NodeId;
use crate::mark::{Mark, Marks};
use crate::{Change, MarksChange, Node};

/// A node, in the document or not.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) id: NodeId,
    /// The unit that created it. `None` if it was there before.
    pub(super) born: Option<StepTag>,
    /// The units that removed it, with a subtree.
    pub(super) removed: SmallVec<[StepTag; 1]>,
    /// The node itself, while it is not in the document.
    pub(super) body: Option<Arc<Node>>,
    pub(super) text: Sequence<TextItem>,
    pub(super) children: Sequence<ChildItem>,
    /// Its places. The one in effect with the highest order is the present one. Empty if no unit
    /// touched its place.
    pub(super) places: Vec<Place>,
    /// The nodes that were split off from it, each with the place that it got.
    pub(super) halves: SmallVec<[(RecordKey, usize); 1]>,
    /// Where it was split off or joined to another node, in this order.
    pub(super) edges: SmallVec<[Edge; 1]>,
    /// The edge behind which its content is.
    pub(super) merged: Option<usize>,
    pub(super) writes: ValueWrites,
    /// The units that edited it while it stayed for others, although its creation was not in effect
    /// or a removal was.
    pub(super) kept_by: SmallVec<[StepTag; 1]>,
    /// Nodes to which characters of its text went.
    pub(super) spread: SmallVec<[RecordKey; 1]>,
}

/// A place of a node.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) by: StepTag,
    pub(super) version: u64,
    /// A number that rises with each place of any node. Places that a half has beside the places of
    /// the other half share it, and so do the places aside of a wrapper; one of them is active.
    pub(super) order: u64,
    pub(super) is_active: bool,
    /// The node in whose child list it is. `None` if it is in none.
    pub(super) list: Option<RecordKey>,
    /// Whether it is beside the place that a wrapper had, for content that stays without its
    /// creation.
    pub(super) is_aside: bool,
    /// Whether the node is held there by a wrapper, although the unit that put it there is not in
    /// effect: content of others in the wrapper could not keep its order otherwise.
    pub(super) is_held: bool,
    /// Set if a wrapper gave it to the node: the order of the place that the node had outside of
    /// all wrappers.
    pub(super) before: Option<u64>,
    /// The left half behind which a split put it, and which place that half had then.
    pub(super) beside: Option<(RecordKey, usize)>,
    /// Set if the node was put into a wrapper that was there without its creation: the last of the
    /// nodes that were before the wrapper in the document, but have their place in the wrapper
    /// behind this one, and the first of those that were behind the wrapper, but have it before
    /// this one. As long as the creation is not in effect, the wrapper stays between the two.
    pub(super) beyond: [Option<RecordKey>; 2],
}

/// Where a node was split off from another, or joined to another.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) by: StepTag,
    /// Whether the unit split the node off. Otherwise it joined it.
    pub(super) splits: bool,
    /// The node that it was split off from, or joined to.
    pub(super) left: RecordKey,
    /// The nodes that have the edge in their text and in their children.
    pub(super) text_in: RecordKey,
    pub(super) child_in: RecordKey,
    /// Whether a later join went the other way: the edge is in the content of its own node, which
    /// has its content itself.
    pub(super) is_overruled: bool,
}

/// A change of the root.
#[derive(Clone, Debug)]
pub(super) struct RootWrite {
    pub(super) by: StepTag,
    pub(super) version: u64,
    pub(super) before: Option<NodeId>,
    pub(super) after: Option<NodeId>,
}

/// A node and the nodes to which items of it went.
pub(super) fn spread_of<'r>(
    key: RecordKey,
    record: impl Fn(RecordKey) -> Option<&'r Record>,
) -> SmallVec<[RecordKey; 2]> {
    let mut all: SmallVec<[RecordKey; 2]> = SmallVec::new();
    let mut ahead: SmallVec<[RecordKey; 2]> = SmallVec::from_slice(&[key]);
    while let Some(key) = ahead.pop() {
        let Some(record) = record(key) else {
            continue;
        };
        if !all.contains(&key) {
            ahead.extend(record.spread.iter().copied());
            all.push(key);
        }
    }
    all
}

impl Edge {
    /// Whether it joined the node, and no later join went the other way.
    fn is_join(&self) -> bool {
        !self.splits && !self.is_overruled
    }
}

impl Record {
    fn of(id: NodeId, text: Sequence<TextItem>, children: Sequence<ChildItem>) -> Self {
        Self {
            id,
            born: None,
            removed: SmallVec::new(),
            body: None,
            text,
            children,
            places: Vec::new(),
            halves: SmallVec::new(),
            edges: SmallVec::new(),
            merged: None,
            writes: ValueWrites::default(),
            kept_by: SmallVec::new(),
            spread: SmallVec::new(),
        }
    }

    pub(super) fn untouched(id: NodeId) -> Self {
        Self::of(id, Sequence::untouched(), Sequence::untouched())
    }

    pub(super) fn created(node: &Node, by: StepTag) -> Self {
        let mut text = Sequence::default();
        if !node.text.is_empty() {
            text.add(TextItem::Chars(Chars::new(node.text.len(), by)));
        }
        Self {
            born: Some(by),
            ..Self::of(node.id.clone(), text, Sequence::default())
        }
    }

    pub(super) fn split_off(id: NodeId, left: RecordKey, by: StepTag) -> Self {
        let edge = Edge {
            by,
            splits: true,
            left,
            text_in: left,
            child_in: left,
            is_overruled: false,
        };
        Self {
            born: Some(by),
            edges: smallvec![edge],
            ..Self::of(id, Sequence::default(), Sequence::default())
        }
    }

    // --- Recording ---

    /// Records that a range was removed, which has this text. In the text before, it began at the
    /// offset, and had those of the marks that are over it.
    pub(super) fn hide_text(
        &mut self,
        range: Range<usize>,
        removed: &str,
        by: StepTag,
        marks: Option<(usize, &Marks)>,
    ) {
        if range.is_empty() {
            return;
        }
        if by == StepTag::ALWAYS {
            return self.text.remove_within(&range);
        }
        let (mut letters, mut reached) = (removed.chars(), 0);
        for item in self.text.within(&range) {
            let TextItem::Chars(chars) = item else {
                continue;
            };
            if chars.hidden().is_some() {
                continue;
            }
            let text = letters.by_ref().take(chars.len).collect();
            let end = reached + chars.len;
            let marks = marks.map(|(at, marks)| marks.within(&(at + reached..at + end)));
            let marks = marks.unwrap_or_default();
            let later = chars.later_mut();
            later.hidden = Some(Hidden { text, marks });
            later.gone.push(by);
            reached = end;
        }
    }

    pub(super) fn set_marks(&mut self, marks: &MarksChange, version: u64, by: StepTag) {
        let MarksChange { removed, added } = marks;
        self.text.begin_edits(removed.len().max(added.len()));
        for mark in removed.minus(added) {
            self.set_mark(&mark, false, version, by);
        }
        for mark in added.minus(removed) {
            self.set_mark(&mark, true, version, by);
        }
        self.text.end_edits();
    }

    fn set_mark(&mut self, mark: &Mark, given: bool, version: u64, by: StepTag) {
        let within = mark.bounds();
        let mark = Mark {
            range: None,
            ..mark.clone()
        };
        for item in self.text.within(&within) {
            let TextItem::Chars(chars) = item else {
                continue;
            };
            let is_known = || chars.marked().iter().any(|it| it.mark == mark);
            if chars.hidden().is_none() && (by != StepTag::ALWAYS || is_known()) {
                chars.mark(RecordedMark {
                    by,
                    version,
                    mark: mark.clone(),
                    given,
                });
            }
        }
    }

    pub(super) fn write(&mut self, change: &Change, version: u64, by: StepTag) {
        // What the creating unit writes is a part of the creation. A write for good keeps a node.
        let is_apart = match by {
            StepTag::ALWAYS => self.can_leave(),
            by => self.born.map(StepTag::unit) != Some(by.unit()),
        };
        let mut write = |what| {
            self.writes
                .write(ValueWrite { by, version, what }, is_apart)
        };
        match change {
            Change::PatchAttrs { patches, .. } => patches
                .iter()
                .for_each(|patch| write(WrittenValue::Attribute(patch.clone()))),
            Change::SetType { before, after, .. } => {
                let [before, after] = [before.clone(), after.clone()];
                write(WrittenValue::Kind { before, after });
            }
            _ => {}
        }
    }

    /// Forgets the child at an index, which leaves by an edit that is never undone.
    pub(super) fn remove_child(&mut self, index: usize) {
        self.children.remove_within(&(index..index + 1));
    }

    pub(super) fn spread_to(&mut self, to: RecordKey) {
        if !self.spread.contains(&to) {
            self.spread.push(to);
        }
    }

    /// Notes that it leaves the document, in which it is this node. Returns whether all of its
    /// children are recorded.
    pub(super) fn leave(&mut self, node: &Arc<Node>) -> bool {
        self.text.end_at(node.text.len());
        self.children.end_at(node.children.len());
        hide(&mut self.text, node, 0);
        let mut are_known = true;
        for item in self.children.iter_mut() {
            match item {
                ChildItem::Place { shown, .. } => *shown = false,
                ChildItem::Untouched(_) => are_known = false,
                ChildItem::Edge(_) | ChildItem::End(_) => {}
            }
        }
        self.body = Some(Arc::clone(node));
        are_known
    }

    /// Records that a unit removed it with its subtree.
    pub(super) fn remove(&mut self, node: &Arc<Node>, by: StepTag) {
        for item in self.text.iter_mut() {
            if let TextItem::Chars(chars) = item
                && chars.hidden().is_none()
            {
                chars.later_mut().gone.push(by);
            }
        }
        self.removed.push(by);
        // Its own edits do not keep what it removes.
        self.kept_by.retain(|it| it.unit() != by.unit());
        self.leave(node);
    }

    // --- Reading ---

    /// Whether it says nothing that the document does not say.
    pub(super) fn says_nothing(&self) -> bool {
        let is_plain = |item: &TextItem| match item {
            TextItem::Chars(chars) => chars.born == StepTag::ALWAYS && chars.are_unedited(),
            _ => false,
        };
        let is_untouched = |item: &ChildItem| matches!(item, ChildItem::Untouched(_));
        self.is_present()
            && self.born.is_none()
            && self.removed.is_empty()
            && self.kept_by.is_empty()
            && self.merged.is_none()
            && self.edges.is_empty()
            && self.places.is_empty()
            && self.halves.is_empty()
            && self.writes.is_empty()
            && self.text.iter().all(is_plain)
            && self.children.iter().all(is_untouched)
    }

    pub(super) fn is_present(&self) -> bool {
        self.body.is_none()
    }

    /// Whether its creation or a removal is recorded.
    pub(super) fn can_leave(&self) -> bool {
        self.born.is_some() || !self.removed.is_empty()
    }

    /// Whether its creation is in effect and no removal.
    pub(super) fn is_wanted(&self) -> bool {
        self.exists() && self.edge_wanted().is_none()
    }

    /// Whether it is in the document without being wanted there.
    pub(super) fn is_left_over(&self) -> bool {
        self.is_present() && !self.is_wanted()
    }

    /// Whether it was split off from another node.
    pub(super) fn is_half(&self) -> bool {
        self.left_half().is_some()
    }

    /// The node that it was split off from.
    pub(super) fn left_half(&self) -> Option<RecordKey> {
        let first = self.edges.first().filter(|edge| edge.splits);
        first.map(|edge| edge.left)
    }

    /// Whether its creation is in effect and no removal, joined or not.
    pub(super) fn exists(&self) -> bool {
        self.is_created() && !self.is_removed()
    }

    pub(super) fn is_created(&self) -> bool {
        self.born.is_none_or(StepTag::is_in_effect)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.iter().any(|tag| tag.is_in_effect())
    }

    /// The edge behind which its content belongs; `None` if it has its content itself.
    pub(super) fn edge_wanted(&self) -> Option<usize> {
        self.edge_with(StepTag::is_in_effect)
    }

    /// The edge behind which its content belongs when these steps are in effect.
    pub(super) fn edge_with(&self, is_in_effect: impl Fn(StepTag) -> bool) -> Option<usize> {
        let mut edges = self.edges.iter();
        let joined = edges.rposition(|it| it.is_join() && is_in_effect(it.by));
        let mut edges = self.edges.iter();
        let split = edges.position(|it| it.splits && !is_in_effect(it.by));
        joined.or(split).or_else(|| {
            // Without its creation, what others put into it stays where the unit joined it to.
            let born = self.born.filter(|born| !is_in_effect(*born))?;
            let same = |it: &Edge| it.is_join() && it.by.unit() == born.unit();
            self.edges.iter().rposition(same)
        })
    }

    /// Whether edits of others keep it, although its creation is not in effect or a removal is:
    /// they moved it or changed a value since.
    pub(super) fn is_kept(&self) -> bool {
        let removal = self.removed.iter().filter(|it| it.is_in_effect());
        let removal = removal.map(|it| it.unit()).max();
        // Of what is in effect for good, only the version is known.
        let time = |by: StepTag, version: u64| match by {
            StepTag::ALWAYS => version,
            by => by.unit(),
        };
        let is_other = |by: StepTag, version: u64| match removal {
            Some(removal) => by.is_in_effect() && time(by, version) > removal,
            None => by.is_in_effect() && Some(by.unit()) != self.born.map(StepTag::unit),
        };
        let mut moved = self.places.iter();
        let mut writes = self.writes.iter();
        self.kept_by.iter().any(|it| is_other(*it, 0))
            || moved.any(|it| is_other(it.by, it.version))
            || writes.any(|it| is_other(it.by, it.version))
    }

    /// The place that it has by the edits before another place was made.
    pub(super) fn chosen_before(&self, order: u64) -> usize {
        self.chosen_if(order, |_, place| place.by.is_in_effect() || place.is_held)
    }

    /// The place that it has if it is not held in this one.
    pub(super) fn chosen_without(&self, held: usize) -> usize {
        self.chosen_if(u64::MAX, |nth, place| {
            place.by.is_in_effect() || place.is_held && nth != held
        })
    }

    /// The order of the place that it has outside of all wrappers.
    pub(super) fn order_outside(&self) -> Option<u64> {
        let place = self.chosen_if(u64::MAX, |_, it| {
            it.by.is_in_effect() && it.before.is_none()
        });
        Some(self.places.get(place)?.order)
    }

    /// Whether it is where it was when a wrapper gave it this place, without that place.
    pub(super) fn returns_from(&self, place: usize) -> bool {
        let before = self.places[place].before;
        before.is_none() || before == self.order_outside()
    }

    /// The place that it has by those of the edits before another place was made which count.
    fn chosen_if(&self, order: u64, is_in_effect: impl Fn(usize, &Place) -> bool) -> usize {
        let places = self.places.iter().enumerate();
        let known = || {
            places
                .clone()
                .filter(|(_, it)| it.is_active && it.order < order)
        };
        let in_effect = known().filter(|(nth, it)| is_in_effect(*nth, it));
        // Without the moves in effect, it is where its creation left it, or where it was first.
        let creation = self.born.filter(|_| !self.is_half()).map(StepTag::unit);
        let created = known().filter(|(_, it)| Some(it.by.unit()) == creation);
        let last = in_effect.max_by_key(|(_, it)| it.order);
        let last = last.or_else(|| created.max_by_key(|(_, it)| it.order));
        let found = last.or_else(|| known().min_by_key(|(_, it)| it.order));
        found.map_or(0, |(nth, _)| nth)
    }

    /// Its present place.
    pub(super) fn chosen(&self) -> usize {
        self.chosen_before(u64::MAX)
    }

    /// Whether its content is in this node, behind an edge.
    pub(super) fn is_in(&self, left: RecordKey) -> bool {
        let merged = self.merged.and_then(|edge| self.edges.get(edge));
        merged.is_some_and(|edge| edge.text_in == left)
    }
}
