//! The draft of an undo or redo: it brings text and nodes into the document and out of it, to what
//! the edits in effect make of them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::forget::{Units, is_gone};
use super::record::{Place, Record, RootWrite};
use super::sequence::{ChildItem, Item, SequencePosition, StepTag, TextItem};
use super::{BlockedUndo, NodeRecords, Provenance, RecordKey, ReversedRecords};
use smallvec::SmallVec;

use crate::hashing::Secret;
use crate::id::{NodeId, NodeIds};
use crate::mark::{Mark, Marks};
use crate::plan;
use crate::{Change, ChildPosition, Children, EditError, Node, Overlay, UndoConflict, View};

pub(super) type UndoResult = Result<(), BlockedUndo>;

/// What stays in a wrapper whose creation is not in effect.
#[derive(Debug, Default)]
pub(super) struct WrapperContent {
    /// The nodes that it wrapped, each with its place in it.
    pub(super) wrapped: Vec<(RecordKey, usize)>,
    /// Which of these are between its first and its last content. `None` if it has none.
    pub(super) between: Option<Range<usize>>,
}

impl WrapperContent {
    fn has_wrapped(&self, node: RecordKey) -> bool {
        self.wrapped.iter().any(|(it, _)| *it == node)
    }

    /// Adds content behind so many of the nodes.
    fn add(&mut self, at: usize) {
        let between = self.between.get_or_insert(at..at);
        *between = at.min(between.start)..at.max(between.end);
    }
}

/// Where an item is in the parts of a list that was divided: in which of them, and where there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaceInParts {
    list: usize,
    index: usize,
}

/// So many items of a wrapper are looked at.
pub(super) const MOST_WRAPPED: usize = 1024;

/// An undo or a redo in a transaction. The recorded history is changed when it is published.
pub(super) struct ProvenanceDraft<'a> {
    pub(super) base: &'a Provenance,
    /// What undos and redos changed that are published together with it, before it.
    pub(super) before: Option<&'a ReversedRecords>,
    pub(super) document: &'a mut Overlay,
    pub(super) ids: &'a NodeIds,
    pub(super) changed: HashMap<RecordKey, Record, Secret>,
    pub(super) root: Option<Vec<RootWrite>>,
    /// The nodes that came into the document.
    pub(super) appeared: HashMap<NodeId, RecordKey, Secret>,
    /// The units that go out of effect or come into effect, in order.
    pub(super) units: SmallVec<[u64; 1]>,
    /// Whether they come into effect.
    pub(super) in_effect: bool,
    /// Whether they are one unit and the newest one: nothing of others can be in its way.
    pub(super) is_newest: bool,
    /// Edits after this version refuse the undo. `None` if nothing does.
    pub(super) last: Option<u64>,
    /// The nodes that are being brought into the document.
    pub(super) showing: Vec<RecordKey>,
    /// Where carets went.
    pub(super) carets: Vec<(u64, u8, RecordKey)>,
    /// The nodes of which [`Self::belongs`] knows that they do not, until content goes elsewhere.
    pub(super) known_out: RefCell<HashSet<RecordKey, Secret>>,
}

impl NodeRecords for ProvenanceDraft<'_> {
    fn record_mut(&mut self, key: RecordKey) -> Option<&mut Record> {
        self.get(key)?;
        Some(self.edit(key))
    }

    fn move_caret(&mut self, unit: u64, nth: u8, to: RecordKey) {
        self.carets.push((unit, nth, to));
    }
}

impl ProvenanceDraft<'_> {
    pub(super) fn get(&self, key: RecordKey) -> Option<&Record> {
        self.changed
            .get(&key)
            .or_else(|| self.before?.changed.get(&key))
            .or_else(|| self.base.records.get(key))
    }

    /// A record that exists: keys come from records.
    pub(super) fn at(&self, key: RecordKey) -> &Record {
        self.get(key).expect("the record of a key")
    }

    pub(super) fn edit(&mut self, key: RecordKey) -> &mut Record {
        let (base, before) = (self.base, self.before);
        self.changed.entry(key).or_insert_with(|| {
            let changed = before.and_then(|it| it.changed.get(&key));
            changed.unwrap_or_else(|| &base.records[key]).clone()
        })
    }

    pub(super) fn key_of(&self, id: &NodeId) -> Option<RecordKey> {
        let appeared = self.appeared.get(id);
        let appeared = appeared.or_else(|| self.before?.appeared.get(id));
        appeared.copied().or_else(|| self.base.known(id))
    }

    pub(super) fn root(&self) -> &[RootWrite] {
        let root = self.root.as_ref();
        let root = root.or_else(|| self.before?.root.as_ref());
        root.unwrap_or(&self.base.root)
    }

    /// The node, in the document or not.
    pub(super) fn node(&self, key: RecordKey) -> Option<&Node> {
        let record = self.get(key)?;
        match &record.body {
            Some(body) => Some(body),
            None => self.document.node(&record.id),
        }
    }

    /// The version of a later edit of another unit that is in effect and refuses the undo.
    pub(super) fn is_later(&self, by: StepTag, version: u64) -> Option<u64> {
        if !by.is_in_effect() || self.is_reversed(by) {
            return None;
        }
        let last = self.base.units.get(&by.unit()).map(|it| it.last);
        let last = last.unwrap_or(version.max(by.unit()));
        (last > self.last?).then_some(last)
    }

    /// Whether a step is of a unit that goes out of effect or comes into effect.
    fn is_reversed(&self, tag: StepTag) -> bool {
        self.units.binary_search(&tag.unit()).is_ok()
    }

    /// Whether a step is in effect at the end of the undo or redo.
    pub(super) fn will_be_in_effect(&self, tag: StepTag) -> bool {
        match self.is_reversed(tag) {
            true => self.in_effect,
            false => tag.is_in_effect(),
        }
    }

    /// Whether the creation of a node is in effect at the end of the undo or redo.
    pub(super) fn will_be_created(&self, record: &Record) -> bool {
        record.born.is_none_or(|born| self.will_be_in_effect(born))
    }

    pub(super) fn make(&mut self, change: Change) -> UndoResult {
        Ok(self.document.apply(change, self.ids)?)
    }

    // --- Texts ---

    /// Whether a node will be without its creation. A half is then behind its edge again.
    fn is_left_over(&self, record: &Record) -> bool {
        !self.will_be_created(record) && !record.is_half()
    }

    /// Brings a text to what the units in effect make of it. The text of a node that is not in the
    /// document is hidden as a whole.
    pub(super) fn update_text(&mut self, key: RecordKey) -> UndoResult {
        let record = self.at(key);
        let is_present = record.is_present();
        let is_wrong = |item: &TextItem| match item {
            TextItem::Chars(chars) => {
                (is_present && chars.are_wanted()) == chars.hidden().is_some()
            }
            _ => false,
        };
        if !is_present || !record.text.iter().any(is_wrong) {
            return Ok(());
        }
        let id = record.id.clone();
        let Some(node) = self.document.node(&id).cloned() else {
            return Ok(());
        };
        // Each with its range in the present text, and with what comes in its place.
        let mut splices: Vec<(Range<usize>, String, Vec<Mark>)> = Vec::new();
        let mut offset = 0;
        let mut is_open = false;
        for item in self.edit(key).text.iter_mut() {
            let TextItem::Chars(chars) = item else {
                continue;
            };
            let (is_wanted, within) = (chars.are_wanted(), offset..offset + chars.len);
            match (is_wanted, chars.hidden().is_some()) {
                (true, false) => (offset, is_open) = (within.end, false),
                (false, true) => {}
                (_, _) => {
                    if !is_open {
                        splices.push((offset..offset, String::new(), Vec::new()));
                        is_open = true;
                    }
                    let Some((range, text, marks)) = splices.last_mut() else {
                        continue;
                    };
                    match chars.take_hidden() {
                        Some(hidden) => {
                            let at = text.chars().count();
                            marks.extend(hidden.marks.iter().map(|mark| moved(mark, at)));
                            text.push_str(&hidden.text);
                        }
                        None => {
                            chars.hide(&node, within.clone());
                            (range.end, offset) = (within.end, within.end);
                        }
                    }
                }
            }
        }
        let mut splices = splices.into_iter().rev();
        splices.try_for_each(|(range, text, marks)| self.splice(&id, range, &text, &marks))
    }

    /// Replaces characters. The new ones have these marks.
    pub(super) fn splice(
        &mut self,
        id: &NodeId,
        range: Range<usize>,
        text: &str,
        marks: &[Mark],
    ) -> UndoResult {
        let within = range.start..range.start + text.chars().count();
        let splice = plan::splice_text(plan::find(self.document, id)?, Some(range), text.into())?;
        if let Some(change) = splice {
            self.make(change)?;
        }
        let marks = marks.iter().map(|mark| moved(mark, within.start));
        match plan::replace_marks(self.document, id, &within, marks)? {
            Some(change) => self.make(change),
            None => Ok(()),
        }
    }

    pub(super) fn set_marks(&mut self, id: &NodeId, marks: Vec<Mark>) -> UndoResult {
        match plan::set_marks(self.document, id, marks)? {
            Some(change) => self.make(change),
            None => Ok(()),
        }
    }

    // --- Values ---

    pub(super) fn set_value(&mut self, key: RecordKey, change: Change) -> UndoResult {
        if self.at(key).is_present() {
            return self.make(change);
        }
        if let Some(body) = self.edit(key).body.as_mut().map(Arc::make_mut) {
            match change {
                Change::PatchAttrs { patches, .. } => body.attributes.patch(&patches),
                Change::SetType { after, .. } => body.kind = after,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn set_root(&mut self, after: Option<NodeId>) -> UndoResult {
        match plan::set_root(self.document, after.as_ref())? {
            Some(change) => self.make(change),
            None => Ok(()),
        }
    }

    // --- Places ---

    /// Where a place of a node is among the children of its list.
    pub(super) fn find_place(
        &self,
        list: RecordKey,
        node: RecordKey,
        place: usize,
    ) -> Option<SequencePosition> {
        let is_it = |item: &ChildItem| {
            matches!(item, ChildItem::Place { node: of, place: which, .. }
                if (*of, *which) == (node, place))
        };
        self.get(list)?.children.find_only(is_it)
    }

    pub(super) fn is_shown(&self, list: RecordKey, found: SequencePosition) -> bool {
        let items = &self.at(list).children;
        matches!(items[found.index], ChildItem::Place { shown: true, .. })
    }

    pub(super) fn show_item(&mut self, list: RecordKey, index: usize, is_shown: bool) {
        if let ChildItem::Place { shown, .. } = self.edit(list).children.item_mut(index) {
            *shown = is_shown;
        }
    }

    /// The place where a node is shown, with the list that shows it. `None` if it is in no list, or
    /// nothing is recorded of its place.
    pub(super) fn shown_place(&self, node: RecordKey) -> Option<(RecordKey, SequencePosition)> {
        let places = self.at(node).places.iter().enumerate();
        let mut lists = places
            .rev()
            .filter_map(|(nth, place)| Some((nth, place.list?)));
        lists.find_map(|(nth, list)| {
            let found = self.find_place(list, node, nth)?;
            self.is_shown(list, found).then_some((list, found))
        })
    }

    /// Whether a node belongs into the document: it is wanted there, or something is in it.
    pub(super) fn belongs(&self, key: RecordKey) -> bool {
        let mut known_out = self.known_out.borrow_mut();
        let mut seen = Vec::new();
        let mut ahead = vec![key];
        while let Some(key) = ahead.pop() {
            let Some(record) = self.get(key).filter(|it| it.merged.is_none()) else {
                continue;
            };
            let is_untouched = |item: &ChildItem| matches!(item, ChildItem::Untouched(1..));
            if known_out.contains(&key) {
                continue;
            }
            if record.is_wanted()
                || self.is_kept(record)
                || record.children.iter().any(is_untouched)
            {
                for key in seen {
                    known_out.remove(&key);
                }
                return true;
            }
            known_out.insert(key);
            seen.push(key);
            for item in record.children.iter() {
                if let ChildItem::Place { node, place, .. } = item {
                    let child = self.get(*node);
                    ahead.extend(child.filter(|it| it.chosen() == *place).map(|_| *node));
                }
            }
        }
        false
    }

    /// Whether a node that is not in the document belongs there, at this place.
    pub(super) fn returns_to(&self, node: RecordKey, place: usize) -> bool {
        let record = self.get(node).filter(|it| !it.is_present());
        record.is_some_and(|it| it.chosen() == place) && self.belongs(node)
    }

    /// Content went elsewhere, or edits came into effect or out of it.
    pub(super) fn clear_known_out(&mut self) {
        self.known_out.get_mut().clear();
    }

    /// Whether edits of others keep a node that is not wanted: text is in it, or another node was
    /// joined to it, or it was moved or changed.
    pub(super) fn is_kept(&self, record: &Record) -> bool {
        record.is_kept()
            || record.text.iter().any(|item| match item {
                TextItem::Chars(chars) => chars.are_wanted(),
                TextItem::Edge(at) => self.get(at.node).is_some_and(|joined| {
                    let is_here = joined.merged == Some(at.edge);
                    is_here && !joined.edges[at.edge].splits && joined.exists()
                }),
                _ => false,
            })
    }

    /// Where the content of a hidden node went that others joined or moved away: by which edit, and
    /// the item of the list that has it now.
    pub(super) fn content_elsewhere(
        &self,
        node: RecordKey,
        list: RecordKey,
    ) -> Vec<(StepTag, usize)> {
        let mut found = Vec::new();
        let Some(record) = self.get(node) else {
            return found;
        };
        if let Some(edge) = record.merged.map(|edge| &record.edges[edge])
            && let Some(at) = self.item_with(edge.text_in, list)
        {
            found.push((edge.by, at));
        }
        for item in record.children.iter() {
            let ChildItem::Place { node, place, .. } = item else {
                continue;
            };
            let Some(child) = self.get(*node).filter(|it| it.chosen() != *place) else {
                continue;
            };
            let now = &child.places[child.chosen()];
            if let Some(at) = now.list.and_then(|at| self.item_with(at, list)) {
                found.push((now.by, at));
            }
        }
        found
    }

    /// The item of a list that is a node or has it in its subtree.
    fn item_with(&self, node: RecordKey, list: RecordKey) -> Option<usize> {
        let mut at = node;
        for _ in 0..super::MOST_LEVELS {
            let record = self.get(at)?;
            match record.places.get(record.chosen()).and_then(|it| it.list) {
                Some(up) if up == list => {
                    return Some(self.find_place(list, at, record.chosen())?.index);
                }
                Some(up) => at = up,
                None => {
                    // Nothing is recorded of its place.
                    let parent = self.document.node(&record.id)?.parent.clone()?;
                    let up = self.key_of(&parent)?;
                    if up == list {
                        let node = self.document.node(&record.id)?;
                        let siblings = &self.document.node(&parent)?.children;
                        let index = siblings.index_of(self.document, node)?;
                        return self.at(list).children.item_at(index);
                    }
                    at = up;
                }
            }
        }
        None
    }

    // --- Wrappers ---

    /// The wrapper from which a node goes to its present place in a list: it is in that list, and
    /// stays for content of others although its creation is not in effect.
    pub(super) fn wrapper_of(&self, node: RecordKey, list: Option<RecordKey>) -> Option<RecordKey> {
        let (mut at, _) = self.shown_place(node)?;
        for _ in 0..super::MOST_LEVELS {
            let record = self.get(at)?;
            let up = record.places.get(record.chosen()).and_then(|it| it.list)?;
            if Some(up) == list {
                return Some(at).filter(|_| self.is_left_over(record));
            }
            at = up;
        }
        None
    }

    /// The wrappers that stay although their creation is not in effect, and that wrapped a node, or
    /// out of which it was taken.
    pub(super) fn wrappers_of(&self, node: RecordKey) -> SmallVec<[RecordKey; 1]> {
        let mut wrappers = SmallVec::new();
        let Some(child) = self.get(node) else {
            return wrappers;
        };
        for place in &child.places {
            let born = |key| Some(self.get(key)?.born?.unit());
            let Some(unit) = place.list.and_then(born) else {
                continue;
            };
            let was_wrapped = unit == place.by.unit() && !place.by.is_in_effect();
            if !was_wrapped && !self.is_taken_out(child, place) {
                continue;
            }
            let mut around = place.list;
            for _ in 0..super::MOST_LEVELS {
                let Some((key, record)) = around.and_then(|key| Some((key, self.get(key)?))) else {
                    break;
                };
                if record.born.map(StepTag::unit) != Some(unit) {
                    break;
                }
                if record.is_present() && self.is_left_over(record) {
                    wrappers.push(key);
                }
                around = record.places.get(record.chosen()).and_then(|it| it.list);
            }
        }
        wrappers
    }

    /// The nodes that a wrapper wrapped, and where its content is among them.
    pub(super) fn content_of(&self, wrapper: RecordKey) -> WrapperContent {
        let mut content = WrapperContent::default();
        // The places of content, and how many wrapped nodes are before each.
        let mut places: Vec<(&Place, usize)> = Vec::new();
        let born = self.at(wrapper).born.map(StepTag::unit);
        // The items that follow, the next one last.
        let items = |key: RecordKey| self.at(key).children.iter().rev();
        let mut ahead: Vec<&ChildItem> = items(wrapper).collect();
        let mut left = MOST_WRAPPED;
        while let Some(item) = ahead.pop().filter(|_| left > 0) {
            left -= 1;
            let ChildItem::Place { node, place, .. } = *item else {
                if item.width() > 0 {
                    content.add(content.wrapped.len());
                }
                continue;
            };
            let Some(child) = self.get(node) else {
                continue;
            };
            let its = &child.places[place];
            let is_of_it = child.born.map(StepTag::unit) == born;
            let is_left =
                child.chosen() != place || its.is_held || its.by.is_in_effect() && !is_of_it;
            if is_left && Some(its.by.unit()) == born && !self.will_be_in_effect(its.by) {
                // A node that was wrapped often has a place in each wrapper.
                if content.wrapped.last().map(|last| last.0) != Some(node) {
                    content.wrapped.push((node, place));
                }
                continue;
            }
            // A half belongs to the node that it was split off from, whether it is still here or
            // has left with that node.
            let is_wrapped = |left: RecordKey| content.has_wrapped(left);
            if child.chosen() != place {
                let there = child.places.get(child.chosen());
                let beside = there.filter(|it| it.order == its.order);
                let beside = beside.and_then(|it| it.beside);
                if beside.is_some_and(|(left, _)| is_wrapped(left)) && !is_wrapped(node) {
                    content.wrapped.push((node, place));
                } else if self.is_taken_out(child, its) && self.belongs(node) {
                    places.push((its, content.wrapped.len()));
                }
                continue;
            }
            let goes_along = its.beside.is_some_and(|(left, at)| {
                is_wrapped(left) && self.at(left).chosen_before(its.order) != at
            });
            if goes_along {
                content.wrapped.push((node, place));
            } else if !self.will_be_created(child) && child.born.map(StepTag::unit) == born {
                ahead.extend(items(node));
            } else if self.belongs(node)
                || self.is_about_to_open(child)
                || child.is_created() && self.is_taken_out(child, its)
            {
                places.push((its, content.wrapped.len()));
            }
        }
        for (place, at) in places {
            let [behind, before] = self.between_remembered(&content, place);
            let at = behind.map_or(at, |behind| behind.max(at));
            content.add(before.map_or(at, |before| before.min(at)));
        }
        content
    }

    /// Whether an edit in effect took a node out of the list of this place, when that list was
    /// there only for others. The other nodes of the list stayed where they were, so the node
    /// counts as if it were still there.
    fn is_taken_out(&self, child: &Record, place: &Place) -> bool {
        let list = place.list.and_then(|list| self.get(list));
        let mut taken_by = child.places.iter().map(|it| &it.by).chain(&child.removed);
        list.is_some_and(|list| taken_by.any(|by| by.is_in_effect() && list.kept_by.contains(by)))
    }

    /// How many wrapped nodes are before content that has this place, at least and at most: with
    /// the remembered ones go their halves. One that was moved since is not remembered.
    fn between_remembered(&self, content: &WrapperContent, place: &Place) -> [Option<usize>; 2] {
        let [behind, before] = place.beyond.map(|node| {
            let node = node?;
            let wrapped = &content.wrapped;
            let is_of_it =
                |(key, _): &(RecordKey, usize)| self.with_lefts(*key).any(|it| it == node);
            let (_, held) = wrapped.iter().find(|(key, _)| *key == node)?;
            let record = self.at(node);
            let outside = record.places.get(record.chosen_without(*held));
            let is_there = outside.is_none_or(|it| it.order < place.order);
            let ends = [
                wrapped.iter().position(is_of_it)?,
                wrapped.iter().rposition(is_of_it)?,
            ];
            is_there.then_some(ends)
        });
        [
            behind.map(|[_, last]| last + 1),
            before.map(|[first, _]| first),
        ]
    }

    /// Whether a joined node is going to have its content back.
    fn is_about_to_open(&self, record: &Record) -> bool {
        record.merged.is_some() && record.is_wanted()
    }

    /// Gives a wrapper whose creation is not in effect a place among the nodes that it wrapped, so
    /// that its content keeps its order. What cannot keep its order outside of it is held in it.
    /// Returns the nodes that are to be moved.
    pub(super) fn order_wrapper(&mut self, wrapper: RecordKey) -> Vec<RecordKey> {
        let record = self.at(wrapper);
        let place = record.chosen();
        let list = record.places.get(place).and_then(|it| it.list);
        // A wrapper in another one of its unit is a part of that.
        let born = record.born.map(StepTag::unit);
        let is_inner = |list| {
            let list: Option<&Record> = self.get(list);
            list.is_some_and(|it| it.born.map(StepTag::unit) == born && self.is_left_over(it))
        };
        let list = list.filter(|list| self.is_left_over(record) && !is_inner(*list));
        let Some(list) = list else {
            return Vec::new();
        };
        let content = self.content_of(wrapper);
        let mut held = content.between.clone().unwrap_or_default();
        let mut bound = Vec::new();
        if content.between.is_some() {
            let lists = self.parts_of(list);
            // Where the nodes are without it, if that is in the same list or another part of it,
            // and they were there when they were wrapped.
            let outside = |(node, place): &(RecordKey, usize)| {
                let record = self.at(*node);
                let free = record.chosen_without(*place);
                let spot = self.place_in_parts(&lists, *node, free);
                spot.filter(|_| record.merged.is_none() && record.returns_from(*place))
            };
            let outside: Vec<Option<PlaceInParts>> = content.wrapped.iter().map(outside).collect();
            let own = self.place_among(wrapper, place, &lists, &outside, &held);
            let is_beside = |it: &Option<PlaceInParts>| it.is_some_and(|it| it.list == own.list);
            bound = outside.iter().map(is_beside).collect();
            let is_wrong = |nth: usize, is_before: bool| {
                outside[nth].is_some_and(|at| at != own && (at < own) != is_before)
            };
            let wrong = (0..held.start).find(|nth| is_wrong(*nth, true));
            held.start = wrong.unwrap_or(held.start);
            let wrong = (held.end..outside.len()).rfind(|nth| is_wrong(*nth, false));
            held.end = wrong.map_or(held.end, |nth| nth + 1);
        }
        // A half stays with the node that it was split off from.
        for (node, place) in &content.wrapped[held.clone()] {
            let left = self.at(*node).places[*place].beside.map(|(left, _)| left);
            let left = content.wrapped.iter().position(|it| Some(it.0) == left);
            held.start = held.start.min(left.unwrap_or(held.start));
        }
        let mut moved = Vec::new();
        for (nth, (node, place)) in content.wrapped.into_iter().enumerate() {
            let it = &self.at(node).places[place];
            let is_held = held.contains(&nth) && bound[nth] && !it.by.is_in_effect();
            let is_changed = is_held != it.is_held;
            if is_changed {
                self.clear_known_out();
                self.edit(node).places[place].is_held = is_held;
            }
            let record = self.at(node);
            let shown = self.shown_place(node);
            let shown = shown.map(|(list, found)| &self.at(list).children[found.index]);
            let is_there = matches!(shown, Some(ChildItem::Place { place, .. })
                if *place == record.chosen());
            if is_changed || is_held && record.is_present() && !is_there {
                moved.push(node);
            }
        }
        moved
    }

    /// A node, the one that it was split off from, and so on.
    pub(super) fn with_lefts(&self, node: RecordKey) -> impl Iterator<Item = RecordKey> {
        let left = |key: &RecordKey| self.get(*key).and_then(Record::left_half);
        std::iter::successors(Some(node), left).take(super::MOST_LEVELS)
    }

    /// The lists that a list was divided into, itself among them, in the order of their items.
    pub(super) fn parts_of(&self, list: RecordKey) -> SmallVec<[RecordKey; 2]> {
        let first = |list: RecordKey| self.with_lefts(list).last();
        let all = first(list);
        // What was divided last comes first.
        let mut parts = self.spread(all.unwrap_or(list));
        parts.retain(|it| first(*it) == all);
        parts
    }

    /// Where a place of a node is in one of these lists.
    pub(super) fn place_in_parts(
        &self,
        lists: &[RecordKey],
        node: RecordKey,
        place: usize,
    ) -> Option<PlaceInParts> {
        let of = self.at(node).places.get(place)?.list?;
        let list = lists.iter().position(|it| *it == of)?;
        let index = self.find_place(of, node, place)?.index;
        Some(PlaceInParts { list, index })
    }

    /// Chooses a place of a wrapper behind the nodes before its content, and before those behind
    /// it. Returns where that is.
    fn place_among(
        &mut self,
        wrapper: RecordKey,
        place: usize,
        lists: &[RecordKey],
        outside: &[Option<PlaceInParts>],
        held: &Range<usize>,
    ) -> PlaceInParts {
        let first = outside[..held.start].iter().flatten().max().copied();
        let last = outside[held.end..].iter().flatten().min().copied();
        let own = self.place_in_parts(lists, wrapper, place);
        let Some(own) = own else {
            return PlaceInParts::default();
        };
        let is_beside = |at: PlaceInParts| outside.iter().flatten().any(|it| it.list == at.list);
        let fits = |at: PlaceInParts| match (first, last) {
            // All of these nodes would be held, unless it is in another part of the list.
            (None, None) => !is_beside(at),
            _ => first.is_none_or(|first| first < at) && last.is_none_or(|last| at <= last),
        };
        if first.is_none() && last.is_none() && fits(own) {
            return own;
        }
        let own_nodes = self.wrapped_by(wrapper);
        let is_near = |at: PlaceInParts| self.is_near(lists, &own_nodes, own, at);
        let order = self.at(wrapper).places[place].order;
        let places = self.at(wrapper).places.iter().enumerate();
        let all = places.filter(|(_, it)| it.order == order);
        let mut all =
            all.filter_map(|(nth, _)| Some((nth, self.place_in_parts(lists, wrapper, nth)?)));
        let known = all.find(|(_, at)| fits(*at) && is_near(*at));
        let behind = |PlaceInParts { list, index }| PlaceInParts {
            list,
            index: index + 1,
        };
        let beside = first.map(behind).or(last);
        let (chosen, at) = match (known, beside.filter(|at| fits(*at) && is_near(*at))) {
            (Some(known), _) => known,
            (None, Some(at)) => {
                let list = lists[at.list];
                (self.add_aside(wrapper, place, list, at.index), at)
            }
            (None, None) => return own,
        };
        for (nth, place) in self.edit(wrapper).places.iter_mut().enumerate() {
            if place.order == order {
                place.is_active = nth == chosen;
            }
        }
        at
    }

    /// Gives a wrapper a place at this index, beside the one that it has.
    fn add_aside(&mut self, wrapper: RecordKey, place: usize, list: RecordKey, at: usize) -> usize {
        let places = &mut self.edit(wrapper).places;
        places.push(Place {
            list: Some(list),
            is_aside: true,
            is_active: false,
            ..places[place].clone()
        });
        let place = places.len() - 1;
        let item = ChildItem::Place {
            node: wrapper,
            place,
            shown: false,
        };
        self.edit(list).children.insert(at, item);
        place
    }

    /// Gives a wrapper whose creation is in effect again the place that it had, unless another node
    /// has come between that and the present one.
    pub(super) fn return_wrapper(&mut self, wrapper: RecordKey) {
        self.release(wrapper);
        let record = self.at(wrapper);
        let Some(aside) = record.places.get(record.chosen()).filter(|it| it.is_aside) else {
            return;
        };
        let order = aside.order;
        let lists = aside.list.map(|list| self.parts_of(list));
        let chosen = record.chosen();
        let mut places = record.places.iter();
        let first = places.position(|it| it.order == order && !it.is_aside);
        let spot = |nth: usize| self.place_in_parts(lists.as_ref()?, wrapper, nth);
        let is_near = match (&lists, first.and_then(spot), spot(chosen)) {
            (Some(lists), Some(first), Some(aside)) => {
                self.is_near(lists, &self.wrapped_by(wrapper), first, aside)
            }
            _ => true,
        };
        for (nth, place) in self.edit(wrapper).places.iter_mut().enumerate() {
            if place.order == order {
                place.is_aside = match is_near {
                    true => place.is_aside,
                    false => nth != chosen,
                };
                place.is_active = !place.is_aside;
            }
        }
    }

    /// A wrapper and the nodes that its unit put into it.
    fn wrapped_by(&self, wrapper: RecordKey) -> HashSet<RecordKey, Secret> {
        let born = self.at(wrapper).born.map(StepTag::unit);
        let (mut all, mut ahead) = (HashSet::default(), vec![wrapper]);
        while let Some(key) = ahead.pop().filter(|_| all.len() < MOST_WRAPPED) {
            let Some(record) = self.get(key).filter(|_| all.insert(key)) else {
                continue;
            };
            if record.born.map(StepTag::unit) != born {
                // Its halves go with it.
                ahead.extend(record.halves.iter().map(|(half, _)| *half));
                continue;
            }
            for item in record.children.iter() {
                if let ChildItem::Place { node, place, .. } = item
                    && let Some(child) = self.get(*node)
                    && Some(child.places[*place].by.unit()) == born
                {
                    ahead.push(*node);
                }
            }
        }
        all
    }

    /// Whether a wrapper can go from one spot in these lists to another. On its way it passes by no
    /// place of a node that is not its own, whether that node is there or comes back one day.
    fn is_near(
        &self,
        lists: &[RecordKey],
        own: &HashSet<RecordKey, Secret>,
        from: PlaceInParts,
        to: PlaceInParts,
    ) -> bool {
        let (from, to) = (from.min(to), from.max(to));
        let is_own = |item: &ChildItem| match item {
            ChildItem::Place { node, .. } => own.contains(node) || self.is_gone(*node),
            ChildItem::Untouched(len) => *len == 0,
            ChildItem::Edge(_) | ChildItem::End(_) => true,
        };
        (from.list..=to.list).all(|nth| {
            let items = &self.at(lists[nth]).children;
            let start = if nth == from.list { from.index } else { 0 };
            let end = if nth == to.list {
                to.index
            } else {
                items.len()
            };
            items[start..end].iter().all(is_own)
        })
    }

    /// Whether a node is out of the document for good. It may be forgotten at any time.
    fn is_gone(&self, node: RecordKey) -> bool {
        let units = Units(&self.base.units);
        let may_have_nodes = || {
            let (mut ahead, mut left) = (vec![node], MOST_WRAPPED);
            while let Some(record) = ahead.pop().and_then(|key| self.get(key)) {
                for item in record.children.iter() {
                    let ChildItem::Place { node, place, .. } = *item else {
                        if item.width() > 0 {
                            return true;
                        }
                        continue;
                    };
                    let Some(child) = self.get(node) else {
                        continue;
                    };
                    left -= 1;
                    if left == 0 || !units.is_permanent(child.places[place].by) {
                        return true;
                    }
                    if child.chosen() == place {
                        ahead.push(node);
                    }
                }
            }
            false
        };
        self.get(node)
            .is_none_or(|record| is_gone(record, &units, may_have_nodes))
    }

    /// Ends that nodes are held in a wrapper.
    fn release(&mut self, wrapper: RecordKey) {
        let held = self.at(wrapper).children.iter().filter_map(|item| {
            let ChildItem::Place { node, place, .. } = *item else {
                return None;
            };
            let is_held = self.get(node).is_some_and(|it| it.places[place].is_held);
            is_held.then_some((node, place))
        });
        for (node, place) in held.collect::<Vec<_>>() {
            self.edit(node).places[place].is_held = false;
        }
    }

    /// Brings a node with its subtree into the document, to its present place.
    pub(super) fn show(&mut self, node: RecordKey) -> UndoResult {
        let record = self.at(node);
        if record.is_present() || record.merged.is_some() {
            return Ok(());
        }
        if self.show_list_of(node)?.is_none() {
            return self.insert(node, None);
        }
        self.order_wrapper(node);
        // That may be in another part of the list.
        let Some(list) = self.show_list_of(node)? else {
            return Ok(());
        };
        let found = self.find_place(list, node, self.at(node).chosen());
        let Some(found) = found.filter(|_| !self.at(node).is_present()) else {
            return Ok(());
        };
        self.show_item(list, found.index, true);
        let at = ChildPosition {
            parent: self.at(list).id.clone(),
            index: found.offset,
        };
        self.insert(node, Some(at))
    }

    /// Brings the list of a node into the document.
    fn show_list_of(&mut self, node: RecordKey) -> Result<Option<RecordKey>, BlockedUndo> {
        let record = self.at(node);
        let list = record.places.get(record.chosen()).and_then(|it| it.list);
        let Some(list) = list else {
            return Ok(None);
        };
        if self.get(list).is_none() {
            // It was removed by an edit that is never undone.
            let id = record.id.clone();
            return Err(UndoConflict::NodeGone { id }.into());
        }
        if self.showing.contains(&node) {
            let [id, parent] = [node, list].map(|key| self.at(key).id.clone());
            return Err(EditError::Cycle { id, parent }.into());
        }
        self.showing.push(node);
        let outcome = self.show(list);
        self.showing.pop();
        outcome.map(|()| Some(list))
    }

    fn insert(&mut self, node: RecordKey, at: Option<ChildPosition>) -> UndoResult {
        let (mut keys, mut nodes) = (Vec::new(), Vec::new());
        let mut ahead = vec![(node, at.as_ref().map(|at| at.parent.clone()))];
        while let Some((key, parent)) = ahead.pop() {
            let mut body = match self.edit(key).body.take() {
                Some(body) => Arc::unwrap_or_clone(body),
                None => continue,
            };
            body.parent = parent;
            self.fill(key, &mut body, &mut ahead);
            keys.push(key);
            nodes.push(Arc::new(body));
        }
        for key in &keys {
            let id = self.at(*key).id.clone();
            self.appeared.insert(id, *key);
        }
        self.make(Change::InsertSubtree { at, nodes })?;
        keys.into_iter()
            .try_for_each(|key| self.update_edges_of(key))
    }

    /// Gives a node the text and the children that belong into it. The children follow.
    fn fill(
        &mut self,
        key: RecordKey,
        body: &mut Node,
        ahead: &mut Vec<(RecordKey, Option<NodeId>)>,
    ) {
        let (mut text, mut marks) = (String::new(), Vec::new());
        let mut len = 0;
        for item in self.edit(key).text.iter_mut() {
            if let TextItem::Chars(chars) = item
                && chars.are_wanted()
                && let Some(hidden) = chars.take_hidden()
            {
                text.push_str(&hidden.text);
                marks.extend(hidden.marks.iter().map(|mark| moved(mark, len)));
                len += chars.len;
            }
        }
        body.text = text.as_str().into();
        body.marks = Marks::sorted(marks);
        let mut children = Vec::new();
        for index in 0..self.at(key).children.len() {
            let ChildItem::Place { node, place, .. } = self.at(key).children[index] else {
                continue;
            };
            if self.returns_to(node, place) {
                self.show_item(key, index, true);
                children.push((node, self.at(node).id.clone()));
            }
        }
        body.children = Children::default();
        for (nth, (_, id)) in children.iter().enumerate() {
            body.children.insert(nth, id.clone());
        }
        let children = children.into_iter().rev();
        ahead.extend(children.map(|(key, _)| (key, Some(body.id.clone()))));
    }

    /// Takes a node with its subtree out of the document.
    pub(super) fn hide(&mut self, node: RecordKey) -> UndoResult {
        if !self.at(node).is_present() {
            return Ok(());
        }
        let id = self.at(node).id.clone();
        if let Some((list, found)) = self.shown_place(node) {
            self.show_item(list, found.index, false);
        }
        let Some(change) = plan::remove_subtree(self.document, &id)? else {
            return Ok(());
        };
        if let Change::RemoveSubtree { nodes, .. } = &change {
            for body in nodes {
                let key = self.key_of(&body.id);
                let is_taken = key.is_some_and(|key| self.edit(key).leave(body));
                if !is_taken {
                    return Err(UndoConflict::SubtreeChanged { id }.into());
                }
            }
        }
        self.make(change)
    }

    /// Moves a node from where it is to its present place.
    pub(super) fn move_node(&mut self, node: RecordKey) -> UndoResult {
        if !self.at(node).is_present() {
            return match self.belongs(node) {
                true => self.show(node),
                false => Ok(()),
            };
        }
        let record = self.at(node);
        if record.places.is_empty() {
            // It is where it is for good: its other places are forgotten.
            return Ok(());
        }
        let (id, to) = (record.id.clone(), record.chosen());
        let list = record.places.get(to).and_then(|place| place.list);
        if let Some(list) = list {
            if self.get(list).is_none() {
                return Err(UndoConflict::NodeGone { id }.into());
            }
            self.show(list)?;
        }
        if let Some((list, found)) = self.shown_place(node) {
            self.show_item(list, found.index, false);
        }
        let found = list.and_then(|list| Some((list, self.find_place(list, node, to)?)));
        let place = found.map(|(list, found)| {
            self.show_item(list, found.index, true);
            (self.at(list).id.clone(), found.offset)
        });
        let target = place.as_ref().map(|(parent, index)| (parent, Some(*index)));
        match plan::move_node(self.document, &id, target)? {
            Some(change) => self.make(change),
            None => Ok(()),
        }
    }
}

fn moved(mark: &Mark, by: usize) -> Mark {
    let Range { start, end } = mark.bounds();
    mark.over(start + by..end + by)
}
