//! Undo and redo: edits go out of effect, or come into effect again.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::check::QuietGaps;
use super::draft::{ProvenanceDraft, UndoResult};
use super::record::{Record, RootWrite};
use super::sequence::{ChildItem, Item, StepTag, TextItem};
use super::writes::WrittenValue;
use super::{
    BlockedUndo, EditUnit, NodeRecords, Provenance, RecordKey, SilentReversals, TouchedItem,
    UnitRecord,
};
use crate::hashing::Secret;
use crate::id::{NodeId, NodeIds, OwnerId};
use crate::mark::{Mark, Marks};
use crate::{AttributePatch, Change, Overlay, Selection, TextSelection, UndoConflict, View};

/// An undo or a redo in an open transaction.
#[allow(missing_debug_implementations)]
pub struct Undoing<'a> {
    pub(super) draft: ProvenanceDraft<'a>,
    /// The units, and whether each is to be in effect.
    units: Vec<(u64, bool)>,
}

/// So often nodes are hidden and brought back until nothing changes any more.
const MOST_ROUNDS: usize = 50;

/// What an undo or a redo changes in the recorded history, once it is published.
#[derive(Debug, Default)]
pub struct ReversedRecords {
    pub(super) changed: HashMap<RecordKey, Record, Secret>,
    pub(super) appeared: HashMap<NodeId, RecordKey, Secret>,
    pub(super) root: Option<Vec<RootWrite>>,
    /// Where carets went, the last one last.
    pub(super) carets: Vec<(u64, u8, RecordKey)>,
    /// The units, and whether each came into effect.
    pub(super) units: Vec<(u64, bool)>,
    /// The version after which the record began.
    pub since: u64,
}

/// More changes of the tree than this go out of effect at once: each for itself may cost as much as
/// all of them.
const MOST_APART: usize = 256;

/// Steps of units that go out of effect, or come into effect, at once.
#[derive(Debug)]
pub(super) struct UnitReversal {
    pub(super) in_effect: bool,
    /// The units, and the steps of each.
    steps: SmallVec<[(u64, RangeInclusive<u32>); 1]>,
    /// What they changed, in the order in which it is changed back.
    pub(super) touched: Vec<TouchedItem>,
}

impl UnitReversal {
    fn new(in_effect: bool) -> Self {
        Self {
            in_effect,
            steps: SmallVec::new(),
            touched: Vec::new(),
        }
    }

    /// Whether a tag is of one of these steps.
    pub(super) fn has(&self, tag: StepTag) -> bool {
        let (unit, step) = tag.step();
        let found = self.steps.binary_search_by_key(&unit, |(unit, _)| *unit);
        found.is_ok_and(|at| self.steps[at].1.contains(&step))
    }

    /// Adds what a step changed.
    fn add_step(&mut self, unit: u64, touches: &[(u32, TouchedItem)]) {
        let step = touches[0].0;
        match self.steps.last_mut().filter(|last| last.0 == unit) {
            Some((_, steps)) => *steps = step.min(*steps.start())..=step.max(*steps.end()),
            None => self.steps.push((unit, step..=step)),
        }
        let touches = touches.iter().map(|(_, touch)| touch.clone());
        match self.in_effect {
            true => self.touched.extend(touches),
            false => self.touched.extend(touches.rev()),
        }
    }

    /// Ends it: units are found faster, and nothing is looked at twice.
    fn end(&mut self) {
        self.steps.sort_unstable_by_key(|(unit, _)| *unit);
        let has_several = self
            .steps
            .iter()
            .any(|(_, steps)| steps.start() < steps.end());
        if has_several || self.steps.len() > 1 {
            let mut known: HashSet<TouchedItem, Secret> = HashSet::default();
            self.touched.retain(|touch| known.insert(touch.clone()));
        }
    }
}

impl Provenance {
    /// Begins an undo or a redo. All earlier commits are recorded.
    pub fn undoing<'a>(&'a mut self, document: &'a mut Overlay, ids: &'a NodeIds) -> Undoing<'a> {
        self.undoing_after(None, document, ids)
    }

    /// Begins an undo or a redo after others, which are published together with it.
    pub fn undoing_after<'a>(
        &'a mut self,
        before: Option<&'a SilentReversals>,
        document: &'a mut Overlay,
        ids: &'a NodeIds,
    ) -> Undoing<'a> {
        // Its place is one of the document before the undo.
        self.place_selection_after();
        Undoing {
            draft: ProvenanceDraft {
                base: self,
                before: before.and_then(SilentReversals::reversed),
                document,
                ids,
                changed: HashMap::default(),
                root: None,
                appeared: HashMap::default(),
                units: SmallVec::new(),
                in_effect: false,
                is_newest: false,
                last: None,
                showing: Vec::new(),
                carets: Vec::new(),
                known_out: RefCell::default(),
            },
            units: Vec::new(),
        }
    }

    /// Applies a published undo or redo to the records.
    pub fn apply_published(&mut self, reversed: ReversedRecords) {
        let ReversedRecords {
            changed,
            appeared,
            root,
            carets,
            units,
            since: _,
        } = reversed;
        for (key, record) in changed {
            if let Some(known) = self.records.get_mut(key) {
                match record.is_left_over() {
                    true => self.left_over.insert(key),
                    false => self.left_over.remove(&key),
                };
                *known = record;
            }
        }
        self.ids.extend(appeared);
        if let Some(root) = root {
            self.root = root;
        }
        for (unit, nth, key) in carets {
            if let Some(unit) = self.units.get_mut(&unit) {
                unit.carets[usize::from(nth)] = Some(key);
            }
        }
        for (unit, in_effect) in units {
            if let Some(unit) = self.units.get_mut(&unit) {
                unit.is_in_effect = in_effect;
            }
        }
    }

    /// The recorded units that an undo or a redo took out of effect or put into effect, and which
    /// of the two, in its order.
    pub fn units_of(&self, reversed: &ReversedRecords) -> Vec<(Vec<Arc<EditUnit>>, bool)> {
        let runs = reversed.units.chunk_by(|one, next| one.1 == next.1);
        let numbers = |run: &[(u64, bool)]| run.iter().map(|(unit, _)| *unit).collect::<Vec<_>>();
        runs.map(|run| (self.known_units(&numbers(run)), run[0].1))
            .collect()
    }

    /// Whether a unit is in effect, if it is recorded.
    pub fn is_in_effect(&self, unit: &EditUnit) -> Option<bool> {
        self.units.get(&unit.number).map(|it| it.is_in_effect)
    }

    /// Whether a node is in the document although its creation is not in effect or a removal is:
    /// any undo may remove it.
    pub fn has_left_over(&self) -> bool {
        let mut nodes = self.left_over.iter();
        nodes.any(|key| self.records.get(*key).is_some_and(Record::is_left_over))
    }

    /// The owner of the unit with a commit of this version, if it is recorded.
    pub fn owner_of(&self, version: u64) -> Option<&OwnerId> {
        let units = self.units.values();
        let mut units = units.filter(|it| it.last == version || it.unit.number == version);
        units.next().map(|it| &it.unit.owner)
    }
}

impl<'a> Undoing<'a> {
    /// Takes units out of effect, or puts them into effect again. Unless it is `forced`, it is
    /// refused if a later edit of another unit is in its way.
    pub fn set_in_effect(
        &mut self,
        units: &[Arc<EditUnit>],
        in_effect: bool,
        forced: bool,
    ) -> UndoResult {
        if units.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u64> = units.iter().map(|unit| unit.number).collect();
        let known = || {
            let units = &self.draft.base.units;
            numbers.iter().filter_map(|number| units.get(number))
        };
        let last = known().map(|it| it.last).max().unwrap_or(0);
        let reversals = reversals_of(known(), in_effect);
        self.units.extend(numbers.iter().map(|it| (*it, in_effect)));
        self.draft.units = SmallVec::from_vec(numbers);
        self.draft.units.sort_unstable();
        self.draft.in_effect = in_effect;
        self.draft.last = (!forced).then_some(last);
        self.draft.is_newest = units.len() == 1 && last == self.draft.base.newest;
        let before = self.draft.document.changes().len();
        let is_checked = !forced && !self.draft.is_newest;
        if is_checked && reversals.len() > 1 {
            self.check_whole(&reversals)?;
        }
        for reversal in &reversals {
            self.reverse_tags(reversal);
            if is_checked && reversals.len() == 1 {
                self.check(reversal, &mut QuietGaps::default())?;
            }
            self.update_document(reversal)?;
        }
        self.show_and_hide()?;
        let is_same = self.draft.document.changes().len() == before;
        match is_same && !forced {
            true => reversals
                .iter()
                .try_for_each(|reversal| self.check_stayed(reversal)),
            false => Ok(()),
        }
    }

    /// Takes all steps out of effect at once, refuses the undo if something is in its way, and puts
    /// them back into effect.
    fn check_whole(&mut self, reversals: &[UnitReversal]) -> UndoResult {
        let (changed, root) = (self.draft.changed.clone(), self.draft.root.clone());
        reversals
            .iter()
            .for_each(|reversal| self.reverse_tags(reversal));
        let mut quiet = QuietGaps::default();
        let mut all = reversals.iter();
        let outcome = all.try_for_each(|reversal| self.check(reversal, &mut quiet));
        (self.draft.changed, self.draft.root) = (changed, root);
        outcome
    }

    /// Ends it. The recorded history changes when the transaction is published.
    pub fn end(self) -> ReversedRecords {
        let ProvenanceDraft {
            changed,
            root,
            appeared,
            carets,
            ..
        } = self.draft;
        ReversedRecords {
            changed,
            appeared,
            root,
            carets,
            units: self.units,
            since: 0,
        }
    }

    /// A selection before or after a unit, moved along with all edits since.
    pub fn selection(&self, unit: &EditUnit, is_after: bool, then: &Selection) -> Selection {
        let Selection::Text(text) = then else {
            return then.clone();
        };
        let first = if is_after { 2 } else { 0 };
        let [anchor, focus] = [(0, &text.anchor), (1, &text.focus)].map(|(nth, at)| {
            let spot = self.caret(unit.number, first + nth);
            spot.unwrap_or_else(|| at.clone())
        });
        let marks = text.marks.clone();
        Selection::Text(TextSelection {
            anchor,
            focus,
            marks,
        })
        .normal()
    }

    fn caret(&self, unit: u64, nth: u8) -> Option<crate::Position> {
        let before = self
            .draft
            .before
            .iter()
            .flat_map(|it| it.carets.iter().rev());
        let moved = self.draft.carets.iter().rev().chain(before);
        let mut moved = moved.filter(|(of, which, _)| (*of, *which) == (unit, nth));
        let key = match moved.next() {
            Some((_, _, key)) => *key,
            None => self.draft.base.units.get(&unit)?.carets[usize::from(nth)]?,
        };
        let record = self.draft.get(key)?;
        let is_it = |item: &TextItem| matches!(item, TextItem::Caret(of, which) if (*of, *which) == (unit, nth));
        let found = record.text.find(is_it)?;
        Some(crate::Position::new(record.id.clone(), found.offset))
    }

    fn reverse_tags(&mut self, reversal: &UnitReversal) {
        self.draft.clear_known_out();
        let reverse = |tag: &mut StepTag| tag.reverse(reversal);
        for touch in &reversal.touched {
            match touch {
                TouchedItem::Text(key) => self.reverse_text_tags(*key, reversal),
                TouchedItem::Created(keys) | TouchedItem::Removed(keys) => {
                    for key in keys {
                        let Some(record) = self.draft.record_mut(*key) else {
                            continue;
                        };
                        record.born.iter_mut().for_each(reverse);
                        record.removed.iter_mut().for_each(reverse);
                        record.places.iter_mut().for_each(|it| reverse(&mut it.by));
                        record.edges.iter_mut().for_each(|it| reverse(&mut it.by));
                        self.reverse_text_tags(*key, reversal);
                    }
                }
                TouchedItem::Moved(key) | TouchedItem::Edge(key) | TouchedItem::Written(key) => {
                    let Some(record) = self.draft.record_mut(*key) else {
                        continue;
                    };
                    record.born.iter_mut().for_each(reverse);
                    record.places.iter_mut().for_each(|it| reverse(&mut it.by));
                    record.edges.iter_mut().for_each(|it| reverse(&mut it.by));
                    record.writes.iter_mut().for_each(|it| reverse(&mut it.by));
                }
                TouchedItem::Kept(key) => {
                    if let Some(record) = self.draft.record_mut(*key) {
                        record.kept_by.iter_mut().for_each(reverse);
                    }
                }
                TouchedItem::Root => {
                    let mut root = self.draft.root().to_vec();
                    root.iter_mut().for_each(|it| reverse(&mut it.by));
                    self.draft.root = Some(root);
                }
            }
        }
    }

    fn reverse_text_tags(&mut self, key: RecordKey, reversal: &UnitReversal) {
        for key in self.draft.spread(key) {
            let record = self.draft.edit(key);
            for item in record.text.iter_mut() {
                let TextItem::Chars(chars) = item else {
                    continue;
                };
                chars.born.reverse(reversal);
                chars.change_later(|later| {
                    later.gone.iter_mut().for_each(|it| it.reverse(reversal));
                    let marked = later.marked.iter_mut();
                    marked.for_each(|it| it.by.reverse(reversal));
                });
            }
        }
    }

    /// Changes the document to what the units in effect make of it.
    fn update_document(&mut self, reversal: &UnitReversal) -> UndoResult {
        for touch in &reversal.touched {
            match touch {
                TouchedItem::Created(keys) | TouchedItem::Removed(keys) => {
                    for key in keys {
                        self.update_node(
                            *key,
                            matches!(touch, TouchedItem::Created(_)) && reversal.in_effect,
                        )?;
                    }
                }
                TouchedItem::Moved(key) => self.update_place(*key)?,
                TouchedItem::Edge(key) => self.draft.update_edge(*key)?,
                TouchedItem::Root => self.update_root()?,
                _ => {}
            }
        }
        for touch in &reversal.touched {
            match touch {
                TouchedItem::Text(key) => {
                    self.update_texts(*key, reversal)?;
                }
                TouchedItem::Created(keys) | TouchedItem::Removed(keys) => {
                    for key in keys.iter() {
                        self.update_texts(*key, reversal)?;
                    }
                }
                TouchedItem::Written(key) => self.update_values(*key, reversal)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Brings a node into the document or out of it. `returns` says that its creation comes into
    /// effect.
    fn update_node(&mut self, key: RecordKey, returns: bool) -> UndoResult {
        let Some(record) = self.draft.get(key) else {
            return Ok(());
        };
        if returns {
            self.draft.update_edge(key)?;
            self.draft.return_wrapper(key);
            return self.move_to_place(key);
        }
        if !record.is_present() && self.draft.belongs(key) {
            self.draft.show(key)?;
        } else if self.is_hollow(key) {
            self.draft.hide(key)?;
        } else if record.is_present() {
            self.draft.update_edge(key)?;
        }
        self.move_halves(key)
    }

    /// Hides nodes that are in the document without being wanted there, and brings back those that
    /// have something of another unit, until nothing changes any more.
    fn show_and_hide(&mut self) -> UndoResult {
        let mut changed = None;
        for _ in 0..MOST_ROUNDS {
            changed = self.show_and_hide_once()?;
            if changed.is_none() {
                break;
            }
        }
        if let Some(key) = changed {
            let id = self.draft.at(key).id.clone();
            return Err(UndoConflict::SubtreeChanged { id }.into());
        }
        self.move_astray()
    }

    /// Returns a node that it hid or brought back.
    fn show_and_hide_once(&mut self) -> Result<Option<RecordKey>, BlockedUndo> {
        let mut keys: Vec<RecordKey> = self.draft.changed.keys().copied().collect();
        let holder = |key: &RecordKey| {
            let record = self.draft.get(*key)?;
            Some(record.edges.get(record.merged?)?.text_in)
        };
        // A node may stay for one that is joined to it.
        let holders = keys.iter().filter_map(holder);
        let around = keys.iter().flat_map(|key| self.draft.wrappers_of(*key));
        keys.extend(holders.chain(around).collect::<Vec<_>>());
        keys.sort_unstable();
        keys.dedup();
        let mut changed = None;
        for key in keys {
            let Some(record) = self.draft.get(key).filter(|it| it.merged.is_none()) else {
                continue;
            };
            if record.is_present() {
                let is_wrapper = !record.is_created() && !record.places.is_empty();
                if self.is_hollow(key) {
                    self.draft.hide(key)?;
                    changed = Some(key);
                } else if is_wrapper {
                    let moved = self.draft.order_wrapper(key);
                    self.move_to_place(key)?;
                    for node in moved {
                        self.move_to_place(node)?;
                        changed = Some(key);
                    }
                }
            } else if self.draft.belongs(key) {
                self.draft.show(key)?;
                if self.draft.at(key).is_present() {
                    changed = Some(key);
                }
            }
        }
        Ok(changed)
    }

    /// Moves nodes to their places that are still outside of the tree, because their lists came
    /// later.
    fn move_astray(&mut self) -> UndoResult {
        let keys = self.draft.changed.keys().copied();
        let mut astray: Vec<RecordKey> = keys.filter(|key| self.is_astray(*key)).collect();
        astray.sort_unstable();
        for key in astray {
            self.draft.move_node(key)?;
            if self.is_astray(key) {
                let id = self.draft.at(key).id.clone();
                return Err(UndoConflict::Moved { id }.into());
            }
        }
        Ok(())
    }

    /// Whether a node is outside of the tree, although it has a place in a node.
    fn is_astray(&self, key: RecordKey) -> bool {
        let record = self.draft.at(key);
        let place = record.places.get(record.chosen());
        let node = self.draft.document.node(&record.id);
        record.is_present()
            && place.is_some_and(|it| it.list.is_some())
            && node.is_some_and(|node| node.parent.is_none())
    }

    /// Whether a node is in the document though it is not wanted there, and nothing of another unit
    /// keeps it.
    fn is_hollow(&self, key: RecordKey) -> bool {
        let Some(top) = self.draft.get(key) else {
            return false;
        };
        if !top.is_present() || top.is_wanted() {
            return false;
        }
        let mut ahead = vec![key];
        while let Some(key) = ahead.pop() {
            let Some(record) = self.draft.get(key) else {
                return false;
            };
            if record.is_wanted() || self.draft.document.root() == Some(&record.id) {
                return false;
            }
            if self.draft.is_kept(record) {
                return false;
            }
            let Some(node) = self.draft.document.node(&record.id) else {
                return false;
            };
            for child in node.children.iter() {
                match self.draft.key_of(child) {
                    Some(child) => ahead.push(child),
                    None => return false,
                }
            }
        }
        true
    }

    /// Brings a text and its marks to what the units in effect make of it, also where it went to
    /// other nodes.
    fn update_texts(&mut self, key: RecordKey, reversal: &UnitReversal) -> UndoResult {
        self.draft.spread(key).into_iter().try_for_each(|key| {
            self.update_marks(key, reversal)?;
            self.draft.update_text(key)
        })
    }

    fn update_marks(&mut self, key: RecordKey, reversal: &UnitReversal) -> UndoResult {
        let mut steps: Vec<(Mark, bool)> = Vec::new();
        let mut hidden: Vec<(usize, Vec<(Mark, bool)>)> = Vec::new();
        let mut offset = 0;
        for (index, item) in self.draft.at(key).text.iter().enumerate() {
            if let TextItem::Chars(chars) = item {
                let changed = chars.changed_marks(reversal);
                let over = |range: std::ops::Range<usize>| {
                    let all = changed.iter();
                    all.map(move |(mark, given)| (mark.over(range.clone()), *given))
                };
                match chars.hidden() {
                    None => steps.extend(over(offset..offset + chars.len)),
                    Some(_) if !changed.is_empty() => {
                        hidden.push((index, over(0..chars.len).collect()));
                    }
                    Some(_) => {}
                }
            }
            offset += item.width();
        }
        for (index, steps) in hidden {
            if let TextItem::Chars(chars) = self.draft.edit(key).text.item_mut(index) {
                chars.change_later(|later| {
                    if let Some(hidden) = &mut later.hidden {
                        hidden.marks = Marks::sorted(with_steps(&hidden.marks, &steps));
                    }
                });
            }
        }
        let Some(node) = self.draft.node(key).filter(|_| !steps.is_empty()) else {
            return Ok(());
        };
        let (id, marks) = (node.id.clone(), with_steps(&node.marks, &steps));
        self.draft.set_marks(&id, marks)
    }

    /// Moves a node to its place of now.
    fn update_place(&mut self, key: RecordKey) -> UndoResult {
        if self.draft.get(key).is_none() {
            return Ok(());
        }
        if !self.draft.is_newest {
            self.order_wrapper_of(key)?;
        }
        self.move_to_place(key)
    }

    /// A node is going to leave a wrapper that stays for content of others, although its creation
    /// is not in effect.
    fn order_wrapper_of(&mut self, key: RecordKey) -> UndoResult {
        let record = self.draft.at(key);
        let list = record.places.get(record.chosen()).and_then(|it| it.list);
        if let Some(wrapper) = self.draft.wrapper_of(key, list) {
            let moved = self.draft.order_wrapper(wrapper);
            let mut others = moved.into_iter().filter(|node| *node != key);
            others.try_for_each(|node| self.move_to_place(node))?;
        }
        Ok(())
    }

    /// Moves a node to its place of now. The halves that were split off from it go along, if they
    /// were split off after the move.
    fn move_to_place(&mut self, key: RecordKey) -> UndoResult {
        self.draft.move_node(key)?;
        self.move_halves(key)
    }

    /// Moves the halves of a node behind it. Those that were split off later are nearer to it.
    fn move_halves(&mut self, key: RecordKey) -> UndoResult {
        let mut ahead = vec![key];
        while let Some(key) = ahead.pop() {
            for (half, place) in self.draft.at(key).halves.clone() {
                if self.draft.get(half).is_some() && self.update_half(key, half, place)? {
                    ahead.push(half);
                }
            }
        }
        Ok(())
    }

    /// Lets a half have its place behind the node that it was split off from. Returns whether that
    /// is another place than before.
    fn update_half(
        &mut self,
        left: RecordKey,
        half: RecordKey,
        place: usize,
    ) -> Result<bool, BlockedUndo> {
        let record = self.draft.at(half);
        let order = record.places[place].order;
        let mut lefts = self.draft.at(left).places.iter();
        if !lefts.any(|it| it.is_active && it.order < order) {
            // The left half was moved for good after the split.
            return Ok(false);
        }
        let wanted = self.draft.at(left).chosen_before(order);
        let beside = Some((left, wanted));
        let of_split = record
            .places
            .iter()
            .enumerate()
            .filter(|(_, it)| it.order == order);
        let (mut active, mut known) = (None, None);
        for (nth, it) in of_split {
            if it.is_active {
                active = Some(nth);
            }
            if it.beside == beside {
                known = Some(nth);
            }
        }
        let known = known.or_else(|| self.place_behind_aside(half, order, (left, wanted)));
        if known.is_some() && known == active {
            return Ok(false);
        }
        let was_chosen = active == Some(record.chosen());
        let known = match known {
            Some(known) => known,
            None => {
                let to = self
                    .draft
                    .at(left)
                    .places
                    .get(wanted)
                    .and_then(|it| it.list);
                let behind = to.and_then(|to| Some((to, self.draft.find_place(to, left, wanted)?)));
                let Some((to, behind)) = behind else {
                    return Ok(false);
                };
                let places = &mut self.draft.edit(half).places;
                let copy = super::record::Place {
                    list: Some(to),
                    beside,
                    is_active: false,
                    ..places[place].clone()
                };
                places.push(copy);
                let item = ChildItem::Place {
                    node: half,
                    place: places.len() - 1,
                    shown: false,
                };
                let known = places.len() - 1;
                self.draft.edit(to).children.insert(behind.index + 1, item);
                known
            }
        };
        self.draft.clear_known_out();
        let places = &mut self.draft.edit(half).places;
        if let Some(active) = active {
            places[active].is_active = false;
        }
        places[known].is_active = true;
        if was_chosen {
            self.draft.move_node(half)?;
        }
        Ok(true)
    }

    /// The place of a half that stays when its left half, a wrapper, only changes between its own
    /// place and one aside, if it is behind both: what others put between the halves keeps its
    /// order.
    fn place_behind_aside(
        &self,
        half: RecordKey,
        order: u64,
        (left, wanted): (RecordKey, usize),
    ) -> Option<usize> {
        let lefts = &self.draft.at(left).places;
        let to = lefts.get(wanted)?;
        let lists = self.draft.parts_of(to.list?);
        let spot = |key: RecordKey, place: usize| self.draft.place_in_parts(&lists, key, place);
        let left_at = spot(left, wanted)?;
        let is_aside = |at: usize| {
            let from = &lefts[at];
            from.order == to.order && (from.is_aside || to.is_aside)
        };
        let mut places = self.draft.at(half).places.iter().enumerate();
        let found = places.find(|(nth, it)| {
            let beside = it.beside.filter(|(of, at)| *of == left && is_aside(*at));
            let is_it = it.order == order && beside.is_some();
            is_it && spot(half, *nth).is_some_and(|at| left_at < at)
        });
        found.map(|(nth, _)| nth)
    }

    fn update_values(&mut self, key: RecordKey, reversal: &UnitReversal) -> UndoResult {
        let Some(record) = self.draft.get(key) else {
            return Ok(());
        };
        let id = record.id.clone();
        let mut changes: Vec<WrittenValue> = Vec::new();
        let of_each = record.writes.of_each();
        for writes in of_each.filter(|of_one| of_one.iter().any(|it| reversal.has(it.by))) {
            let Some(write) = writes.first() else {
                continue;
            };
            let value = match writes.iter().rfind(|it| it.by.is_in_effect()) {
                Some(last) => last.what.value(true),
                None => write.what.value(false),
            };
            let node = self.draft.node(key);
            changes.push(match &write.what {
                WrittenValue::Kind { .. } => WrittenValue::Kind {
                    before: node.map_or_else(SmolStr::default, |it| it.kind.clone()),
                    after: value
                        .and_then(|it| it.as_str().map(SmolStr::new))
                        .unwrap_or_default(),
                },
                WrittenValue::Attribute(patch) => WrittenValue::Attribute(AttributePatch {
                    key: patch.key.clone(),
                    before: node.and_then(|it| it.attributes.shared(&patch.key).cloned()),
                    after: value,
                }),
            });
        }
        let mut patches = Vec::new();
        for change in changes {
            match change {
                WrittenValue::Kind { before, after } if before != after => {
                    let id = id.clone();
                    self.draft
                        .set_value(key, Change::SetType { id, before, after })?;
                }
                WrittenValue::Attribute(patch) if patch.before != patch.after => {
                    patches.push(patch)
                }
                _ => {}
            }
        }
        match patches.is_empty() {
            true => Ok(()),
            false => self
                .draft
                .set_value(key, Change::PatchAttrs { id, patches }),
        }
    }

    fn update_root(&mut self) -> UndoResult {
        let root = self.draft.root();
        let after = match root.iter().rfind(|it| it.by.is_in_effect()) {
            Some(last) => last.after.clone(),
            None => root.first().and_then(|first| first.before.clone()),
        };
        let exists = after
            .as_ref()
            .is_none_or(|id| self.draft.document.contains(id));
        match exists {
            true => self.draft.set_root(after),
            false => Ok(()),
        }
    }
}

/// What these units did: one reversal for each change of the tree and one for what is between two
/// of these, in the order in which they are made. One for all, if there are very many.
fn reversals_of<'u>(
    units: impl Iterator<Item = &'u UnitRecord>,
    in_effect: bool,
) -> SmallVec<[UnitReversal; 1]> {
    let is_of_the_tree = |touches: &[(u32, TouchedItem)]| {
        let mut touches = touches.iter();
        touches.any(|(_, touch)| touch.is_of_the_tree())
    };
    let steps = |unit: &'u UnitRecord| {
        let steps = unit.touched.chunk_by(|one, next| one.0 == next.0);
        steps.map(|touches| (unit.unit.number, touches, is_of_the_tree(touches)))
    };
    let mut steps: SmallVec<[_; 1]> = units.flat_map(steps).collect();
    if !in_effect {
        steps.reverse();
    }
    let apart = steps.iter().filter(|(_, _, is_apart)| *is_apart).count();
    let mut reversals: SmallVec<[UnitReversal; 1]> = SmallVec::new();
    let mut is_over = true;
    for (unit, touches, is_apart) in steps {
        if reversals.is_empty() || apart <= MOST_APART && (is_apart || is_over) {
            reversals.push(UnitReversal::new(in_effect));
        }
        is_over = is_apart;
        if let Some(reversal) = reversals.last_mut() {
            reversal.add_step(unit, touches);
        }
    }
    reversals.iter_mut().for_each(UnitReversal::end);
    reversals
}

/// Marks with some given and taken, each at most once over the same characters.
fn with_steps(marks: &Marks, steps: &[(Mark, bool)]) -> Vec<Mark> {
    let [taken, given] = [false, true].map(|is_given| {
        let steps = steps.iter().filter(|(_, given)| *given == is_given);
        steps.map(|(mark, _)| mark.clone()).collect()
    });
    let mut all = marks.minus(&Marks::sorted(taken));
    all.extend::<Vec<Mark>>(given);
    all
}
