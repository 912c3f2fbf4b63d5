//! Sequences with tombstones: the characters of a text, or the children of a node.
//!
//! A sequence has its hidden items in the places where they were, so an item that returns is again
//! between the neighbours that it had (as in the tombstone transformation functions of Oster,
//! Molli, Urso and Imine, 2006). Some items have no width: tombstones, edges of nodes that were
//! split or joined here, and carets.

use std::cell::Cell;
use std::iter::once;
use std::ops::{Deref, DerefMut, Range};

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::undo::UnitReversal;
use super::{HashMap, RecordKey};
use crate::Node;
use crate::hashing::Secret;
use crate::mark::{Mark, Marks};

/// More than the length of any sequence: the untouched rest of a sequence ends there.
const END: usize = usize::MAX / 4;

/// With so many edits in a row, the items behind the last one are kept apart.
const MANY_EDITS: usize = 32;

/// A step of a unit of edits that inserted or removed something, and whether it is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepTag {
    unit: u64,
    step: u32,
    is_in_effect: bool,
}

impl StepTag {
    /// Of edits that are never undone.
    pub(super) const ALWAYS: Self = Self::new(0, 0);

    pub(super) const fn new(unit: u64, step: u32) -> Self {
        let is_in_effect = true;
        Self {
            unit,
            step,
            is_in_effect,
        }
    }

    pub(super) fn unit(self) -> u64 {
        self.unit
    }

    pub(super) fn step(self) -> (u64, u32) {
        (self.unit, self.step)
    }

    pub(super) fn is_in_effect(self) -> bool {
        self.is_in_effect
    }

    /// Sets whether it is in effect, if it is of a step of the reversal.
    pub(super) fn reverse(&mut self, reversal: &UnitReversal) {
        if reversal.has(*self) {
            self.is_in_effect = reversal.in_effect;
        }
    }
}

/// An item of a sequence, or consecutive items that share their history.
pub(super) trait Item: Clone {
    /// How many items of the document it stands for.
    fn width(&self) -> usize;

    /// Whether it is an end of a selection.
    fn is_caret(&self) -> bool;

    /// Splits off the items from an index on, within its width.
    fn split_off(&mut self, at: usize) -> Self;

    /// Merges the next item into it if both share their history. Returns whether it did.
    fn try_merge(&mut self, next: &Self) -> bool;

    /// Untouched items.
    fn untouched(len: usize) -> Self;

    fn of_edge(at: EdgeAt) -> Self;

    fn of_end(at: EdgeAt) -> Self;

    /// The edge that it is.
    fn edge(&self) -> Option<EdgeAt>;

    /// The edge whose content ends with it.
    fn end(&self) -> Option<EdgeAt>;
}

/// The edges and ends among the items of a sequence.
macro_rules! edge_items {
    () => {
        fn of_edge(at: EdgeAt) -> Self {
            Self::Edge(at)
        }

        fn of_end(at: EdgeAt) -> Self {
            Self::End(at)
        }

        fn edge(&self) -> Option<EdgeAt> {
            match self {
                Self::Edge(at) => Some(*at),
                _ => None,
            }
        }

        fn end(&self) -> Option<EdgeAt> {
            match self {
                Self::End(at) => Some(*at),
                _ => None,
            }
        }
    };
}

/// A place in a sequence: an item, and how many items of the document are before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequencePosition {
    pub(super) index: usize,
    pub(super) offset: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Sequence<I> {
    items: Vec<I>,
    /// The place that was found last, from which the next one is looked for: edits are near each
    /// other. The items before it have as much width as its offset says, so a change of one of them
    /// resets it to the start.
    near: Cell<SequencePosition>,
    /// The items behind those around the last border, in reverse order, between [`begin_edits`] and
    /// [`end_edits`]. So an insertion moves none of them.
    ///
    /// [`begin_edits`]: Self::begin_edits
    /// [`end_edits`]: Self::end_edits
    #[expect(
        clippy::box_collection,
        reason = "few sequences have it, and each pays its size"
    )]
    apart: Option<Box<Vec<I>>>,
}

impl<I> Default for Sequence<I> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<I> From<Vec<I>> for Sequence<I> {
    fn from(items: Vec<I>) -> Self {
        let near = Cell::default();
        let apart = None;
        Self { items, near, apart }
    }
}

impl<I> Deref for Sequence<I> {
    type Target = Vec<I>;

    fn deref(&self) -> &Vec<I> {
        debug_assert!(self.apart.is_none());
        &self.items
    }
}

impl<I> DerefMut for Sequence<I> {
    fn deref_mut(&mut self) -> &mut Vec<I> {
        debug_assert!(self.apart.is_none());
        self.near = Cell::default();
        &mut self.items
    }
}

impl<I: Item> Sequence<I> {
    /// A sequence of which nothing is known.
    pub(super) fn untouched() -> Self {
        Self::from(vec![I::untouched(END)])
    }

    /// Adds an item at the end, or to the last one if both share their history.
    pub(super) fn add(&mut self, item: I) {
        let last = self.last_mut();
        if !last.is_some_and(|last| last.try_merge(&item)) {
            self.push(item);
        }
    }

    pub(super) fn add_all(&mut self, items: impl IntoIterator<Item = I>) {
        items.into_iter().for_each(|item| self.add(item));
    }

    /// Prepares for so many edits, each near the one before it. Until
    /// [`end_edits`](Self::end_edits) only the methods that find places by offsets can be called.
    pub(super) fn begin_edits(&mut self, count: usize) {
        debug_assert!(self.apart.is_none());
        if count >= MANY_EDITS {
            self.apart = Some(Box::default());
        }
    }

    pub(super) fn end_edits(&mut self) {
        let apart = self.apart.take().unwrap_or_default();
        self.items.extend(apart.into_iter().rev());
    }

    /// Makes a border before the item at `offset`. Returns the first item that is there with a
    /// width, or the end.
    fn border(&mut self, offset: usize) -> usize {
        let SequencePosition {
            mut index,
            offset: mut before,
        } = self.near.get();
        // Not for long ones: a test with many edits would take quadratic time.
        let width = |items: &[I]| items.iter().map(I::width).sum::<usize>();
        debug_assert!(index > 100 || width(&self.items[..index]) == before);
        while before > offset {
            index -= 1;
            before -= self.items[index].width();
        }
        if let Some(apart) = &mut self.apart {
            apart.extend(self.items.drain(index..).rev());
        }
        let from = SequencePosition {
            index,
            offset: before,
        };
        let mut found = self.reach(from, offset);
        while self.next(found.index).is_some_and(|it| it.width() == 0) {
            found.index += 1;
        }
        self.near.set(found);
        found.index
    }

    /// The place directly behind the item before an offset, which is at or behind this place.
    fn reach(&mut self, from: SequencePosition, offset: usize) -> SequencePosition {
        let SequencePosition {
            mut index,
            offset: mut before,
        } = from;
        while before < offset
            && let Some(item) = self.next(index)
        {
            if offset < before + item.width() {
                let rest = item.split_off(offset - before);
                self.items.insert(index + 1, rest);
            }
            before += self.items[index].width();
            index += 1;
        }
        SequencePosition {
            index,
            offset: before,
        }
    }

    /// The item at an index, which may be the first one of those that are apart.
    fn next(&mut self, index: usize) -> Option<&mut I> {
        if let Some(apart) = &mut self.apart
            && index == self.items.len()
        {
            self.items.extend(apart.pop());
        }
        self.items.get_mut(index)
    }

    /// Where something is inserted, or the sequence divided, among items without a width at an
    /// offset: behind the tombstones that are there, and before the carets behind these. Splits and
    /// joins that are undone do not count, so it does not matter whether they are still recorded.
    /// Those in effect are not passed. An undone join of a half stays beside its undone split: it
    /// leads to the node before the half.
    pub(super) fn gap_in(&self, gap: &Range<usize>, state: impl Fn(EdgeAt) -> EdgeState) -> usize {
        let mut within: SmallVec<[EdgeAt; 2]> = SmallVec::new();
        let (mut found, mut half) = (gap.start, None);
        for index in gap.clone() {
            let item = &self.items[index];
            if let Some(edge) = item.edge() {
                within.push(edge);
                match state(edge) {
                    EdgeState::UndoneSplit => (found, half) = (index + 1, Some(edge.node)),
                    EdgeState::UndoneJoin if found == index && half == Some(edge.node) => {
                        found = index + 1;
                    }
                    EdgeState::UndoneJoin => {}
                    EdgeState::InEffect => break,
                }
            } else if let Some(end) = item.end() {
                if !within.contains(&end) {
                    break;
                }
            } else if !item.is_caret() {
                found = index + 1;
            }
        }
        found
    }

    /// The part of a gap that is beside a gap of another sequence: the edges and ends before that
    /// are before it here, too, and those behind it are behind it.
    pub(super) fn part_beside<J: Item>(
        &self,
        gap: &Range<usize>,
        other: &SameItems<'_, J>,
        of_other: &Range<usize>,
    ) -> Range<usize> {
        let mut part = gap.clone();
        for index in gap.clone() {
            match other.find(&self.items[index]) {
                Some(at) if at < of_other.start => part.start = index + 1,
                Some(at) if at >= of_other.end => {
                    part.end = index;
                    break;
                }
                _ => {}
            }
        }
        part
    }

    /// All items without a width at an offset.
    pub(super) fn whole_gap(&mut self, offset: usize) -> Range<usize> {
        let end = self.border(offset);
        let before = self.items[..end].iter().rposition(|item| item.width() > 0);
        before.map_or(0, |before| before + 1)..end
    }

    /// The place directly behind the item before an offset.
    pub(super) fn behind(&mut self, offset: usize) -> usize {
        self.whole_gap(offset).start
    }

    /// The items from the one at the start of a range to the last one in it. The place that was
    /// found last is then their start, so that a change of them does not reset it.
    pub(super) fn cut(&mut self, range: &Range<usize>) -> Range<usize> {
        let start = self.border(range.start);
        start..self.reach(self.near.get(), range.end).index
    }

    /// The same items, to be changed.
    pub(super) fn within(&mut self, range: &Range<usize>) -> &mut [I] {
        let items = self.cut(range);
        &mut self.items[items]
    }

    /// Removes what is in a range. What has no width stays.
    pub(super) fn remove_within(&mut self, range: &Range<usize>) {
        let items = self.cut(range);
        let mut kept = items.start;
        for nth in items.clone() {
            if self.items[nth].width() == 0 {
                self.items.swap(kept, nth);
                kept += 1;
            }
        }
        self.items.drain(kept..items.end);
    }

    /// Moves the carets among these items behind the others. Returns where they begin.
    pub(super) fn move_carets_behind(&mut self, items: Range<usize>) -> usize {
        let end = items.end;
        let items = &mut self.items[items];
        let carets = items.iter().filter(|item| item.is_caret()).count();
        if carets > 0 {
            // It keeps the order of all others.
            items.sort_by_key(I::is_caret);
        }
        end - carets
    }

    /// Inserts an item in the gap at an offset. It goes into the item before the gap if both share
    /// their history. The carets of the gap come behind it.
    pub(super) fn insert_in_gap(&mut self, gap: Range<usize>, index: usize, new: I) {
        let index = self.move_carets_behind(gap.start..index);
        let before = index.checked_sub(1).map(|before| &mut self.items[before]);
        let is_merged = before.is_some_and(|it| it.width() > 0 && it.try_merge(&new));
        let mut offset = self.near.get().offset;
        match is_merged {
            true => offset += new.width(),
            false => self.items.insert(index, new),
        }
        self.near.set(SequencePosition { index, offset });
    }

    pub(super) fn insert(&mut self, index: usize, item: I) {
        self.changeable_from(index).insert(index, item);
    }

    /// An item, to be changed.
    pub(super) fn item_mut(&mut self, index: usize) -> &mut I {
        &mut self.changeable_from(index)[index]
    }

    /// All items, of which only those from an index on will be changed.
    fn changeable_from(&mut self, index: usize) -> &mut Vec<I> {
        debug_assert!(self.apart.is_none());
        if index < self.near.get().index {
            self.near = Cell::default();
        }
        &mut self.items
    }

    /// The item that has what is at this offset.
    pub(super) fn item_at(&self, offset: usize) -> Option<usize> {
        let mut before = 0;
        self.iter().position(|item| {
            before += item.width();
            before > offset
        })
    }

    /// The first item for which `is_it` holds.
    pub(super) fn find(&self, mut is_it: impl FnMut(&I) -> bool) -> Option<SequencePosition> {
        let mut offset = 0;
        for (index, item) in self.iter().enumerate() {
            if is_it(item) {
                return Some(SequencePosition { index, offset });
            }
            offset += item.width();
        }
        None
    }

    /// The only item for which `is_it` holds. It is looked for on both sides of the place that was
    /// found last.
    pub(super) fn find_only(&self, is_it: impl Fn(&I) -> bool) -> Option<SequencePosition> {
        // Those between the two are not it.
        let (mut first, mut next) = (self.near.get(), self.near.get());
        let found = loop {
            let item = self.get(next.index);
            if item.is_some_and(&is_it) {
                break next;
            }
            if let Some(item) = item {
                next.index += 1;
                next.offset += item.width();
            }
            match first.index.checked_sub(1) {
                Some(index) => {
                    first.index = index;
                    first.offset -= self[index].width();
                    if is_it(&self[index]) {
                        break first;
                    }
                }
                None if item.is_none() => return None,
                None => {}
            }
        };
        self.near.set(found);
        Some(found)
    }

    /// Whether something of the document is among these items.
    pub(super) fn has_width_in(&self, range: Range<usize>) -> bool {
        self[range].iter().any(|item| item.width() > 0)
    }

    pub(super) fn find_edge(&self, edge: EdgeAt) -> Option<SequencePosition> {
        self.find_only(|item| item.edge() == Some(edge))
    }

    /// Prepares to find the edges and ends of so many items of another sequence.
    pub(super) fn same_items<'a>(
        &'a self,
        count: usize,
        room: &'a mut EdgeIndexes,
    ) -> SameItems<'a, I> {
        const FEW: usize = 4;
        let is_indexed = count > FEW;
        room.clear();
        if is_indexed {
            let keys = self.iter().map(|item| (item.edge(), item.end()));
            for (index, key) in keys.enumerate().filter(|(_, key)| *key != (None, None)) {
                room.entry(key).or_insert(index);
            }
        }
        SameItems {
            sequence: self,
            indexes: is_indexed.then_some(&*room),
        }
    }

    /// Where the content behind an edge, which is at an index, ends: at its own end, or else at
    /// that of content around it to which it belongs.
    pub(super) fn end_of(
        &self,
        edge: EdgeAt,
        at: usize,
        belongs_to: impl Fn(EdgeAt) -> bool,
    ) -> usize {
        let behind = || self[at..].iter().map(Item::end);
        let is_around = |around: EdgeAt| {
            let mut before = self[..at].iter().filter_map(Item::edge);
            belongs_to(around) && before.any(|it| it == around)
        };
        let end = behind().position(|it| it == Some(edge));
        let end = end.or_else(|| behind().position(|it| it.is_some_and(is_around)));
        end.map_or(self.len(), |end| at + end)
    }

    /// What comes behind the end of the content of an edge, if that has no width.
    pub(super) fn rest_behind_end(&self, edge: EdgeAt) -> Option<usize> {
        let mut items = self.iter();
        let end = items.position(|item| item.end() == Some(edge))?;
        (!self.has_width_in(end..self.len())).then_some(end + 1)
    }

    /// Takes out the content behind an edge, up to its end. Other edges of its node stay, unless
    /// they are in the content behind an edge that is closed.
    pub(super) fn take_behind(
        &mut self,
        edge: EdgeAt,
        at: usize,
        end: usize,
        is_closed: impl Fn(EdgeAt) -> bool,
    ) -> Vec<I> {
        let end = end - (at + 1);
        let behind = self.split_off(at + 1);
        let mut taken = Vec::new();
        let mut own: SmallVec<[EdgeAt; 2]> = SmallVec::new();
        let mut within = None;
        for (nth, item) in behind.into_iter().enumerate() {
            let is_own_end = item.end().is_some_and(|it| own.contains(&it));
            if is_own_end || within.is_some() && item.end() == within {
                within = None;
            }
            match item.edge().filter(|_| within.is_none()) {
                Some(it) if it.node == edge.node => own.push(it),
                other => within = within.or(other.filter(|it| is_closed(*it))),
            }
            let is_own = item.edge().is_some_and(|it| own.contains(&it));
            match nth >= end || is_own || is_own_end {
                true => self.push(item),
                false => taken.push(item),
            }
        }
        taken
    }

    /// Puts content behind an edge, and behind other edges of its node that are beside it.
    pub(super) fn put_behind(&mut self, edge: EdgeAt, at: usize, items: Vec<I>) {
        let is_own = |item: &&I| item.edge().is_some_and(|it| it.node == edge.node);
        let own = self[at..].iter().take_while(is_own).count();
        self.splice(at + own..at + own, items);
    }

    /// Where the content of a joined node comes: before the open edges and the ends at the end, but
    /// behind those of nodes that are before it. Undone joins do not count, as in
    /// [`gap_in`](Self::gap_in). If the content behind an edge of another sequence goes on here, it
    /// comes into that.
    pub(super) fn joint(
        &self,
        state: impl Fn(EdgeAt) -> JointEdge,
        is_before: impl Fn(EdgeAt) -> bool,
    ) -> usize {
        let last = self.iter().rposition(|item| item.width() > 0);
        let start = last.map_or(0, |last| last + 1);
        let (mut at, mut undone) = (start, SmallVec::<[EdgeAt; 2]>::new());
        for (index, item) in self.iter().enumerate().skip(start) {
            let is_passed = match (item.edge(), item.end()) {
                (Some(edge), _) if is_before(edge) => true,
                (Some(edge), _) => match state(edge) {
                    JointEdge::Closed => true,
                    JointEdge::UndoneJoin => {
                        undone.push(edge);
                        false
                    }
                    JointEdge::Open => break,
                },
                (_, Some(end)) if undone.contains(&end) => false,
                (_, Some(end)) if !is_before(end) => break,
                _ => !item.is_caret() || at == index,
            };
            if is_passed {
                at = index + 1;
            }
        }
        let ends_other = |item: &&I| item.end().is_some_and(|it| self.find_edge(it).is_none());
        at - self[start..at].iter().rev().take_while(ends_other).count()
    }

    /// The edges before an index whose content has no end, and for which this holds, the last one
    /// first.
    pub(super) fn unended(
        &self,
        at: usize,
        is_it: impl Fn(EdgeAt) -> bool,
    ) -> SmallVec<[EdgeAt; 2]> {
        let ends = || self.iter().filter_map(Item::end);
        let edges = self[..at].iter().rev().filter_map(Item::edge);
        edges
            .filter(|it| is_it(*it) && ends().all(|end| end != *it))
            .collect()
    }

    /// Ends the content of edges at an index. Returns the index behind that.
    pub(super) fn end_edges(&mut self, at: usize, edges: &[EdgeAt]) -> usize {
        let ends = edges.iter().map(|edge| I::of_end(*edge));
        self.splice(at..at, ends);
        at + edges.len()
    }

    /// Puts the content of a joined node at an index, behind its edge.
    pub(super) fn join(&mut self, at: usize, edge: EdgeAt, items: Vec<I>) {
        let (begin, end) = (once(I::of_edge(edge)), once(I::of_end(edge)));
        self.splice(at..at, begin.chain(items).chain(end));
    }

    /// Ends it at the length that the document has.
    pub(super) fn end_at(&mut self, len: usize) {
        let end = self.border(len);
        let rest = self.split_off(end);
        self.extend(rest.into_iter().filter(|item| item.width() == 0));
    }
}

/// Takes the characters of these items out of a text in which they are from an offset on. Returns
/// the offset behind them.
pub(super) fn hide(items: &mut [TextItem], node: &Node, mut offset: usize) -> usize {
    for item in items {
        if let TextItem::Chars(chars) = item
            && chars.hidden().is_none()
        {
            // The untouched rest of a text is as long as that.
            chars.len = chars.len.min(node.text.len() - offset);
            let within = offset..offset + chars.len;
            offset = within.end;
            chars.hide(node, within);
        }
    }
    offset
}

/// Finds the edges and ends of another sequence.
pub(super) struct SameItems<'a, I: Item> {
    sequence: &'a Sequence<I>,
    /// Where each of its own is. `None` for few searches.
    indexes: Option<&'a EdgeIndexes>,
}

/// Where a sequence has its edges and ends.
pub(super) type EdgeIndexes = HashMap<(Option<EdgeAt>, Option<EdgeAt>), usize>;

impl<I: Item> SameItems<'_, I> {
    /// Where the sequence has the edge or the end that an item of another one is.
    pub(super) fn find<J: Item>(&self, of: &J) -> Option<usize> {
        let wanted = (of.edge(), of.end());
        if wanted == (None, None) {
            return None;
        }
        match &self.indexes {
            Some(indexes) => indexes.get(&wanted).copied(),
            None => {
                let mut items = self.sequence.iter();
                items.position(|item| (item.edge(), item.end()) == wanted)
            }
        }
    }
}

/// The edges of a node in the sequence of another: where it was split off or joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EdgeAt {
    pub(super) node: RecordKey,
    pub(super) edge: usize,
}

/// Whether a split or a join is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeState {
    /// The node is split off there or joined.
    InEffect,
    /// The split is undone: the content of the right half is behind the edge.
    UndoneSplit,
    /// The join is undone: nothing is behind the edge.
    UndoneJoin,
}

/// What an edge is for a node that is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JointEdge {
    /// Content is behind it.
    Closed,
    /// The split is in effect.
    Open,
    UndoneJoin,
}

/// Characters of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextItem {
    Chars(Chars),
    Edge(EdgeAt),
    /// Where the content of a joined node ends.
    End(EdgeAt),
    /// An end of a selection: of the unit, and which of its four.
    Caret(u64, u8),
}

/// Characters that share their history.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chars {
    pub(super) len: usize,
    pub(super) born: StepTag,
    /// Few characters have it, and each pays its size.
    later: Option<Box<LaterEdits>>,
}

/// What was done to characters after they were inserted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaterEdits {
    /// The units that removed them.
    pub(super) gone: SmallVec<[StepTag; 1]>,
    /// The marks that units gave and took, in order.
    pub(super) marked: Vec<RecordedMark>,
    /// The characters and their marks, while they are not in the document.
    pub(super) hidden: Option<Hidden>,
}

/// A mark that a unit gave or took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordedMark {
    pub(super) by: StepTag,
    /// The version of the commit.
    pub(super) version: u64,
    /// Without a range.
    pub(super) mark: Mark,
    pub(super) given: bool,
}

/// Characters that are not in the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hidden {
    pub(super) text: SmolStr,
    pub(super) marks: Marks,
}

impl Chars {
    pub(super) fn new(len: usize, born: StepTag) -> Self {
        Self {
            len,
            born,
            later: None,
        }
    }

    pub(super) fn gone(&self) -> &[StepTag] {
        self.later.as_deref().map_or(&[], |later| &later.gone)
    }

    pub(super) fn marked(&self) -> &[RecordedMark] {
        self.later.as_deref().map_or(&[], |later| &later.marked)
    }

    pub(super) fn hidden(&self) -> Option<&Hidden> {
        self.later.as_deref()?.hidden.as_ref()
    }

    /// Whether nothing is recorded of them but their insertion.
    pub(super) fn are_unedited(&self) -> bool {
        self.later.is_none()
    }

    /// Changes what was done to them, if anything was.
    pub(super) fn change_later(&mut self, change: impl FnOnce(&mut LaterEdits)) {
        if let Some(later) = &mut self.later {
            change(later);
            if **later == LaterEdits::default() {
                self.later = None;
            }
        }
    }

    /// Notes more that was done to them.
    pub(super) fn later_mut(&mut self) -> &mut LaterEdits {
        self.later.get_or_insert_default()
    }

    /// Takes out what they were, if they return to the document.
    pub(super) fn take_hidden(&mut self) -> Option<Hidden> {
        let mut hidden = None;
        self.change_later(|later| hidden = later.hidden.take());
        hidden
    }

    /// Takes them out of a text in which they are.
    pub(super) fn hide(&mut self, node: &Node, within: Range<usize>) {
        let text = node.text.slice(within.clone()).unwrap_or_default();
        let marks = node.marks.within(&within);
        self.later_mut().hidden = Some(Hidden { text, marks });
    }

    /// Records that they got a mark or lost it. A commit that gives what it took has done
    /// nothing.
    pub(super) fn mark(&mut self, marked: RecordedMark) {
        let all = self.marked();
        let last = all.iter().rposition(|it| it.mark == marked.mark);
        match last.filter(|last| all[*last].version == marked.version) {
            Some(last) => self.change_later(|later| drop(later.marked.remove(last))),
            None => self.later_mut().marked.push(marked),
        }
    }

    /// Whether they belong into the document: the unit that inserted them is in effect, and none
    /// that removed them.
    pub(super) fn are_wanted(&self) -> bool {
        self.born.is_in_effect() && !self.gone().iter().any(|tag| tag.is_in_effect())
    }

    /// The marks that change when steps come into effect, or go out of it. Returns with each
    /// whether it is there afterwards.
    pub(super) fn changed_marks(&self, reversal: &UnitReversal) -> Vec<(&Mark, bool)> {
        // Each mark with what it is before and after, by the number of its first record.
        let mut all: Vec<(&Mark, [bool; 2])> = Vec::new();
        let (mut numbers, mut touched) = (HashMap::<_, _, Secret>::default(), Vec::new());
        for RecordedMark {
            by, mark, given, ..
        } in self.marked()
        {
            let next = all.len();
            let number = *numbers.entry(mark.says()).or_insert(next);
            if number == next {
                all.push((mark, [!given; 2]));
            }
            let is_reversed = reversal.has(*by);
            for (is_after, state) in all[number].1.iter_mut().enumerate() {
                let is_in_effect = match is_reversed {
                    true => reversal.in_effect == (is_after == 1),
                    false => by.is_in_effect(),
                };
                if is_in_effect {
                    *state = *given;
                }
            }
            touched.extend(is_reversed.then_some(number));
        }
        let mut changed = Vec::new();
        for number in touched {
            let (mark, states) = &mut all[number];
            if states[0] != states[1] {
                changed.push((*mark, states[1]));
                // Once for all of its records.
                states[0] = states[1];
            }
        }
        changed
    }
}

impl Item for TextItem {
    fn width(&self) -> usize {
        match self {
            Self::Chars(chars) if chars.hidden().is_none() => chars.len,
            _ => 0,
        }
    }

    fn is_caret(&self) -> bool {
        matches!(self, Self::Caret(..))
    }

    fn split_off(&mut self, at: usize) -> Self {
        let Self::Chars(chars) = self else {
            return self.clone();
        };
        let mut rest = chars.clone();
        rest.len = chars.len - at;
        chars.len = at;
        Self::Chars(rest)
    }

    fn try_merge(&mut self, next: &Self) -> bool {
        let (Self::Chars(chars), Self::Chars(next)) = (self, next) else {
            return false;
        };
        let alike =
            chars.born == next.born && chars.hidden().is_none() && chars.later == next.later;
        if alike {
            chars.len = (chars.len + next.len).min(END);
        }
        alike
    }

    fn untouched(len: usize) -> Self {
        Self::Chars(Chars::new(len, StepTag::ALWAYS))
    }

    edge_items!();
}

/// A child of a node, or consecutive ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChildItem {
    /// Children that no unit has touched.
    Untouched(usize),
    /// A place that a node has or had.
    Place {
        node: RecordKey,
        /// Which of its places.
        place: usize,
        /// Whether the node is there.
        shown: bool,
    },
    Edge(EdgeAt),
    End(EdgeAt),
}

impl Item for ChildItem {
    fn width(&self) -> usize {
        match self {
            Self::Untouched(len) => *len,
            Self::Place { shown, .. } => usize::from(*shown),
            Self::Edge(_) | Self::End(_) => 0,
        }
    }

    fn is_caret(&self) -> bool {
        false
    }

    fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Untouched(len) => {
                let rest = *len - at;
                *len = at;
                Self::Untouched(rest)
            }
            _ => self.clone(),
        }
    }

    fn try_merge(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Untouched(len), Self::Untouched(more)) => {
                *len = (*len + more).min(END);
                true
            }
            _ => false,
        }
    }

    fn untouched(len: usize) -> Self {
        Self::Untouched(len)
    }

    edge_items!();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sequence with its places looked for from the start, near the last one, and with the
    /// items behind the last one apart.
    #[derive(Debug)]
    struct Ways([Sequence<TextItem>; 3]);

    impl Ways {
        fn edit(&mut self, edit: impl Fn(&mut Sequence<TextItem>)) {
            self.0[0].near = Cell::default();
            self.0.iter_mut().for_each(edit);
        }
    }

    fn items() -> impl Strategy<Value = Vec<TextItem>> {
        let chars = |hidden: bool| {
            (1..4usize, 0..3u64).prop_map(move |(len, unit)| {
                let mut chars = Chars::new(len, StepTag::new(unit, 0));
                if hidden {
                    chars.later_mut().hidden = Some(Hidden::default());
                }
                TextItem::Chars(chars)
            })
        };
        let edge = |edge| EdgeAt {
            node: RecordKey::default(),
            edge,
        };
        let item = prop_oneof![
            3 => chars(false),
            2 => chars(true),
            1 => (0..3usize).prop_map(move |nth| TextItem::Edge(edge(nth))),
            1 => (0..3usize).prop_map(move |nth| TextItem::End(edge(nth))),
            1 => (0..3u64, 0..4u8).prop_map(|(unit, nth)| TextItem::Caret(unit, nth)),
        ];
        prop::collection::vec(item, 0..12)
    }

    proptest! {
        #[test]
        fn edits_do_the_same_wherever_their_places_are_looked_for(
            items in items(),
            edits in prop::collection::vec((0..4u8, 0..40usize, 0..9usize, 0..3u64), 0..30),
        ) {
            let mut ways = Ways(std::array::from_fn(|_| Sequence::from(items.clone())));
            ways.0[2].begin_edits(MANY_EDITS);
            let mut len: usize = items.iter().map(Item::width).sum();
            for (what, at, more, unit) in edits {
                let at = at.min(len);
                let range = at..(at + more).min(len);
                let by = StepTag::new(unit, 0);
                match what {
                    0 => {
                        let new = TextItem::Chars(Chars::new(more + 1, by));
                        ways.edit(|it| {
                            let gap = it.whole_gap(at);
                            let index = it.gap_in(&gap, |edge| match edge.edge {
                                0 => EdgeState::InEffect,
                                1 => EdgeState::UndoneSplit,
                                _ => EdgeState::UndoneJoin,
                            });
                            it.insert_in_gap(gap, index, new.clone());
                        });
                        len += more + 1;
                    }
                    1 => {
                        ways.edit(|it| it.remove_within(&range));
                        len -= range.len();
                    }
                    2 => {
                        ways.edit(|it| {
                            for item in it.within(&range) {
                                if let TextItem::Chars(chars) = item {
                                    let later = chars.later_mut();
                                    later.hidden.get_or_insert_default();
                                    later.gone.push(by);
                                }
                            }
                        });
                        len -= range.len();
                    }
                    _ => ways.edit(|it| {
                        for item in it.within(&range) {
                            if let TextItem::Chars(chars) = item {
                                chars.later_mut().gone.push(by);
                            }
                        }
                    }),
                }
            }
            ways.0[2].end_edits();
            let [from_the_start, near, apart] = ways.0;
            prop_assert_eq!(&from_the_start.items, &near.items);
            prop_assert_eq!(&from_the_start.items, &apart.items);
        }
    }
}
