//! Forgets what units did that can no longer be undone or redone.
//!
//! What they inserted counts as if it had always been there, and what they removed is gone for
//! good. So the record grows with what the histories refer to, and not with the number of edits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::record::{Record, spread_of};
use super::sequence::{
    Chars, ChildItem, EdgeAt, Item, LaterEdits, RecordedMark, Sequence, StepTag, TextItem,
};
use super::{Provenance, RecordKey, TouchedItem};
use crate::hashing::Secret;

/// So many units are recorded before it is looked for the first that can be forgotten.
const FEW: usize = 64;

/// So many commits are recorded before it is looked for items that can be forgotten. To record one
/// takes as long as the sequences that it changes.
const MANY: usize = 128;

/// Whether a tag is in effect, and whether that can change.
enum TagEffect {
    /// Its unit can still be undone or redone.
    Open,
    /// It is in effect for good.
    Always,
    /// It is out of effect for good.
    Never,
}

/// The units, of which those matter that a history refers to.
pub(super) struct Units<'p>(pub(super) &'p HashMap<u64, super::UnitRecord, Secret>);

impl Units<'_> {
    fn effect_of(&self, tag: StepTag) -> TagEffect {
        let unit = self.0.get(&tag.unit());
        let is_open = unit.is_some_and(|it| Arc::strong_count(&it.unit) > 1);
        match (is_open, tag.is_in_effect()) {
            (true, _) => TagEffect::Open,
            (false, true) => TagEffect::Always,
            (false, false) => TagEffect::Never,
        }
    }

    /// Makes a tag that is in effect for good one without a unit. Returns whether it can ever be in
    /// effect.
    fn make_permanent(&self, tag: &mut StepTag) -> bool {
        match self.effect_of(*tag) {
            TagEffect::Open => true,
            TagEffect::Always => {
                *tag = StepTag::ALWAYS;
                true
            }
            TagEffect::Never => false,
        }
    }

    /// Whether it is in effect, or can be.
    fn counts(&self, tag: StepTag) -> bool {
        !matches!(self.effect_of(tag), TagEffect::Never)
    }

    pub(super) fn is_permanent(&self, tag: StepTag) -> bool {
        !matches!(self.effect_of(tag), TagEffect::Open)
    }
}

impl Provenance {
    /// Forgets what is no longer needed, if there are twice as many units as after the last time,
    /// or many commits since then. It looks at all records and units, so the more there are, the
    /// rarer.
    pub fn forget(&mut self) {
        let many = MANY + 8 * self.records.len() + self.units.len();
        if self.units.len() < FEW + 2 * self.kept_units && self.recorded < many {
            return;
        }
        self.recorded = 0;
        self.units
            .retain(|_, unit| Arc::strong_count(&unit.unit) > 1);
        self.kept_units = self.units.len();
        let units = Units(&self.units);
        let lists = self.lists_of_open_places(&units);
        let gone: Vec<RecordKey> = self
            .records
            .iter()
            .filter(|(key, record)| {
                let may_have_nodes = || lists.contains(key) || self.may_have_halves(record, &units);
                is_gone(record, &units, may_have_nodes)
            })
            .map(|(key, _)| key)
            .collect();
        self.pass_on_texts(&gone);
        for key in gone {
            self.drop_record(key);
        }
        let renumbered = self.forget_in_records();
        self.forget_in_items(&renumbered);
        self.drop_untouched();
    }

    /// Whether a split or a join of this node can still be undone or redone.
    fn may_have_halves(&self, record: &Record, units: &Units<'_>) -> bool {
        let mut edges = record.text.iter().filter_map(Item::edge);
        edges.any(|at| {
            let other = self.records.get(at.node);
            other.is_some_and(|it| !units.is_permanent(it.edges[at.edge].by))
        })
    }

    /// The lists in which an undo or a redo may put a node, and the nodes around them.
    fn lists_of_open_places(&self, units: &Units<'_>) -> HashSet<RecordKey, Secret> {
        let places = self.records.values().flat_map(|it| &it.places);
        let open = places.filter(|it| !units.is_permanent(it.by));
        let mut ahead: Vec<RecordKey> = open.filter_map(|it| it.list).collect();
        let mut lists: HashSet<RecordKey, Secret> = HashSet::default();
        while let Some(key) = ahead.pop() {
            let Some(record) = self.records.get(key).filter(|_| lists.insert(key)) else {
                continue;
            };
            let place = record.places.get(record.chosen());
            ahead.extend(place.and_then(|it| it.list));
        }
        lists
    }

    /// Notes where the text of nodes is whose records are going to be dropped. Units that changed
    /// it in these nodes find it there.
    pub(super) fn pass_on_texts(&mut self, gone: &[RecordKey]) {
        let mut heirs: HashMap<RecordKey, SmallVec<[RecordKey; 2]>, Secret> = HashMap::default();
        for key in gone {
            let mut all = spread_of(*key, |key| self.records.get(key));
            all.retain(|heir| !gone.contains(heir));
            if !all.is_empty() {
                heirs.insert(*key, all);
            }
        }
        if heirs.is_empty() {
            return;
        }
        let heirs_of = |keys: &[RecordKey]| {
            let all = keys.iter().filter_map(|key| heirs.get(key));
            all.flatten().copied().collect::<SmallVec<[RecordKey; 2]>>()
        };
        for record in self.records.values_mut() {
            let heirs = heirs_of(&record.spread);
            heirs.into_iter().for_each(|heir| record.spread_to(heir));
        }
        for unit in self.units.values_mut() {
            let mut at = 0;
            while let Some((step, touch)) = unit.touched.get(at) {
                at += 1;
                let heirs = match touch {
                    TouchedItem::Text(key) => heirs_of(&[*key]),
                    TouchedItem::Created(keys) | TouchedItem::Removed(keys) => heirs_of(keys),
                    _ => continue,
                };
                let touches = heirs
                    .into_iter()
                    .map(|heir| (*step, TouchedItem::Text(heir)));
                let touches: SmallVec<[_; 2]> = touches.collect();
                let more = touches.len();
                unit.touched.splice(at..at, touches);
                at += more;
            }
        }
    }

    fn drop_record(&mut self, key: RecordKey) {
        self.left_over.remove(&key);
        if let Some(record) = self.records.remove(key)
            && self.ids.get(&record.id) == Some(&key)
        {
            self.ids.remove(&record.id);
        }
    }

    /// Forgets in the records of nodes what no undo or redo needs. Returns the new numbers of
    /// places.
    fn forget_in_records(&mut self) -> HashMap<(RecordKey, usize), usize, Secret> {
        let units = Units(&self.units);
        let items = self.records.values().flat_map(|it| it.children.iter());
        let shown = items.filter_map(|item| match item {
            ChildItem::Place { node, place, shown } if *shown => Some((*node, *place)),
            _ => None,
        });
        let shown: HashSet<(RecordKey, usize), Secret> = shown.collect();
        let mut renumbered = HashMap::default();
        for (key, record) in &mut self.records {
            // Their numbers tell what came later.
            record.removed.retain(|tag| units.counts(*tag));
            record.kept_by.retain(|tag| units.counts(*tag));
            let permanent = record.kept_by.iter().filter(|it| units.is_permanent(**it));
            let last = permanent.map(|it| it.unit()).max();
            record
                .kept_by
                .retain(|tag| !units.is_permanent(*tag) || Some(tag.unit()) == last);
            record.born = record
                .born
                .filter(|born| !matches!(units.effect_of(*born), TagEffect::Always));
            let can_leave = record.can_leave();
            record
                .writes
                .forget(can_leave, |by| units.make_permanent(by));
            if record.merged.is_none() && record.edges.iter().all(|it| units.is_permanent(it.by)) {
                record.edges.clear();
            }
            let chosen = record
                .places
                .iter()
                .filter(|it| it.is_active && matches!(units.effect_of(it.by), TagEffect::Always));
            let last = chosen.map(|it| it.order).max().unwrap_or(0);
            // A single place for good is that of the document. One of a node that can leave the
            // document is needed then.
            let can_leave =
                record.born.is_some() || !record.removed.is_empty() || !record.edges.is_empty();
            if let [place] = &record.places[..]
                && !can_leave
                && place.by == StepTag::ALWAYS
                && place.beside.is_none()
                && record.body.is_none()
            {
                record.places.clear();
            }
            // A node that stays for others may be where its creation left it, and it may return
            // from a join to that place.
            let present = record.chosen();
            let mut nth = 0;
            let mut kept = 0;
            record.places.retain_mut(|place| {
                let can_count = units.make_permanent(&mut place.by);
                // The first one of a created node is not a move of others, which would keep it.
                let is_creation = nth == 0 && record.born.is_some();
                let is_needed = nth == present || is_creation || shown.contains(&(key, nth));
                let stays = place.order >= last && can_count || is_needed;
                if stays {
                    renumbered.insert((key, nth), kept);
                    kept += 1;
                }
                nth += 1;
                stays
            });
        }
        let before = self.root.first().map(|first| first.before.clone());
        self.root
            .retain_mut(|write| units.make_permanent(&mut write.by));
        if let Some((first, before)) = self.root.first_mut().zip(before) {
            first.before = before;
        }
        if self.root.iter().all(|write| write.by == StepTag::ALWAYS) {
            self.root.clear();
        }
        renumbered
    }

    /// Forgets in the items of all sequences what no undo or redo needs.
    fn forget_in_items(&mut self, renumbered: &HashMap<(RecordKey, usize), usize, Secret>) {
        let edges: HashSet<(RecordKey, usize), Secret> = self
            .records
            .iter()
            .flat_map(|(key, record)| (0..record.edges.len()).map(move |edge| (key, edge)))
            .collect();
        let stays = |at: &EdgeAt| edges.contains(&(at.node, at.edge));
        let known: HashSet<RecordKey, Secret> = self.records.keys().collect();
        let unplaced = self.records.iter().filter(|(_, it)| it.places.is_empty());
        let unplaced: HashSet<RecordKey, Secret> = unplaced.map(|(key, _)| key).collect();
        let units = Units(&self.units);
        for record in self.records.values_mut() {
            let mut text = Sequence::from(Vec::with_capacity(record.text.len()));
            for item in record.text.drain(..) {
                match item {
                    TextItem::Chars(chars) => {
                        text.add_all(needed_of(chars, &units).map(TextItem::Chars));
                    }
                    TextItem::Edge(at) | TextItem::End(at) if !stays(&at) => {}
                    TextItem::Caret(unit, _) if !units.0.contains_key(&unit) => {}
                    item => text.add(item),
                }
            }
            record.text = text;
            let mut children = Sequence::from(Vec::with_capacity(record.children.len()));
            for item in record.children.drain(..) {
                match item {
                    ChildItem::Place { node, place, shown } => {
                        match renumbered.get(&(node, place)) {
                            Some(&place) => children.add(ChildItem::Place { node, place, shown }),
                            None if shown => children.add(ChildItem::Untouched(1)),
                            None => {}
                        }
                    }
                    ChildItem::Edge(at) | ChildItem::End(at) if !stays(&at) => {}
                    item => children.add(item),
                }
            }
            record.children = children;
            record
                .halves
                .retain(|half| match renumbered.get(&(half.0, half.1)) {
                    Some(&place) => {
                        half.1 = place;
                        true
                    }
                    None => false,
                });
            for place in &mut record.places {
                place.beside = place.beside.and_then(|(left, at)| {
                    let at = renumbered.get(&(left, at));
                    // A left half of which no place is recorded has its first one.
                    let at = at
                        .copied()
                        .or_else(|| unplaced.contains(&left).then_some(0));
                    Some((left, at?))
                });
            }
            record.spread.retain(|key| known.contains(key));
        }
    }

    /// Drops records that say nothing and to which nothing refers.
    fn drop_untouched(&mut self) {
        let mut referred: HashSet<RecordKey, Secret> = HashSet::default();
        for record in self.records.values() {
            referred.extend(record.places.iter().filter_map(|place| place.list));
            referred.extend(record.places.iter().filter_map(|it| Some(it.beside?.0)));
            referred.extend(record.edges.iter().flat_map(|it| [it.text_in, it.child_in]));
            referred.extend(record.children.iter().filter_map(|item| match item {
                ChildItem::Place { node, .. } => Some(*node),
                _ => None,
            }));
            referred.extend(record.halves.iter().map(|(half, _)| *half));
            referred.extend(record.spread.iter().copied());
        }
        let said_nothing = self
            .records
            .iter()
            .filter(|(key, record)| record.says_nothing() && !referred.contains(key));
        let said_nothing: Vec<RecordKey> = said_nothing.map(|(key, _)| key).collect();
        self.pass_on_texts(&said_nothing);
        for key in said_nothing {
            self.drop_record(key);
        }
    }

    /// How many nodes, units and items are recorded.
    #[cfg(feature = "__tests")]
    pub fn sizes(&self) -> [usize; 3] {
        let records = self.records.values();
        let items = records.map(|it| it.text.len() + it.children.len());
        [self.records.len(), self.units.len(), items.sum()]
    }
}

/// Whether a node can never be in the document again, and nothing of it elsewhere.
pub(super) fn is_gone(
    record: &Record,
    units: &Units<'_>,
    may_have_nodes: impl Fn() -> bool,
) -> bool {
    let always = |tag: &StepTag| matches!(units.effect_of(*tag), TagEffect::Always);
    let is_removed = record.removed.iter().any(always);
    let is_open = |tag: StepTag| matches!(units.effect_of(tag), TagEffect::Open);
    // With a redo of others, it may be needed for what they put into it or changed in it.
    let is_kept = || {
        let mut places = record.places.iter();
        let mut text = record.text.iter();
        record.kept_by.iter().any(|by| is_open(*by))
            || places.any(|place| is_open(place.by))
            || record.writes.iter().any(|write| is_open(write.by))
            || text.any(|item| matches!(item, TextItem::Chars(chars) if is_open(chars.born)))
            || may_have_nodes()
    };
    let is_never = record
        .born
        .is_some_and(|born| matches!(units.effect_of(born), TagEffect::Never) && !is_kept());
    let is_permanent = record.edges.iter().all(|it| units.is_permanent(it.by));
    match record.merged {
        Some(_) => is_permanent,
        None => !record.is_present() && is_permanent && (is_removed || is_never),
    }
}

/// Characters without what no undo or redo needs. `None` if they never return.
fn needed_of(mut chars: Chars, units: &Units<'_>) -> Option<Chars> {
    if !units.make_permanent(&mut chars.born) {
        return None;
    }
    let is_gone = |tag: &StepTag| matches!(units.effect_of(*tag), TagEffect::Always);
    if chars.gone().iter().any(is_gone) {
        return None;
    }
    chars.change_later(|LaterEdits { gone, marked, .. }| {
        gone.retain(|tag| units.make_permanent(tag));
        let firsts = firsts_of(marked, |one, other| one.mark == other.mark);
        marked.retain_mut(|it| units.make_permanent(&mut it.by));
        let is_open = |mark: &_| {
            let mut all = marked.iter();
            all.any(|it| it.mark == *mark && it.by != StepTag::ALWAYS)
        };
        let open: Vec<bool> = marked.iter().map(|it| is_open(&it.mark)).collect();
        let mut open = open.into_iter();
        marked.retain(|_| open.next().unwrap_or(true));
        for first in firsts {
            // Whether it was there before is told by the first change of it.
            let now = marked.iter().find(|it| it.mark == first.mark);
            if now.is_some_and(|now| now.by != StepTag::ALWAYS && now.given != first.given) {
                let (by, given) = (StepTag::ALWAYS, !first.given);
                marked.insert(0, RecordedMark { by, given, ..first });
            }
        }
    });
    Some(chars)
}

/// The first of all items that are alike.
fn firsts_of<T: Clone>(all: &[T], are_alike: impl Fn(&T, &T) -> bool) -> SmallVec<[T; 1]> {
    let mut firsts: SmallVec<[T; 1]> = SmallVec::new();
    for item in all {
        if !firsts.iter().any(|first| are_alike(first, item)) {
            firsts.push(item.clone());
        }
    }
    firsts
}
