//! Refuses an undo if a later edit of another unit is in its way.

use std::collections::HashMap;
use std::ops::Range;

use super::draft::UndoResult;
use super::sequence::{ChildItem, EdgeAt, Item, StepTag, TextItem};
use super::undo::{Undoing, UnitReversal};
use super::writes::WrittenValue;
use super::{BlockedUndo, RecordKey, TouchedItem};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::{UndoConflict, View};

/// For each child list a range of adjacent hidden children, none of which has content elsewhere:
/// they are in the way of no child between them. Valid as long as nothing changes.
pub(super) type QuietGaps = HashMap<RecordKey, Range<usize>, Secret>;

impl Undoing<'_> {
    /// The later removal because of which a node is not in the document.
    fn later_removal(&self, key: RecordKey) -> Option<u64> {
        let record = self.draft.get(key)?;
        if record.is_present() {
            return None;
        }
        let mut removed = record.removed.iter();
        removed.find_map(|by| self.draft.is_later(*by, 0))
    }

    fn gone(&self, key: RecordKey) -> UndoResult {
        match self.later_removal(key) {
            Some(version) => Err(BlockedUndo {
                conflict: UndoConflict::NodeGone {
                    id: self.draft.at(key).id.clone(),
                },
                version: Some(version),
            }),
            None => Ok(()),
        }
    }

    /// Refuses the undo if a later edit of another unit is in its way.
    pub(super) fn check(&self, reversal: &UnitReversal, quiet: &mut QuietGaps) -> UndoResult {
        reversal.touched.iter().try_for_each(|touch| match touch {
            TouchedItem::Text(key) => {
                let spread = self.draft.spread(*key);
                spread
                    .into_iter()
                    .try_for_each(|key| self.check_text(reversal, key))
            }
            TouchedItem::Removed(keys) => {
                let top = keys.first().and_then(|top| self.draft.get(*top));
                let place = top.and_then(|top| top.places.get(top.chosen()));
                match place.and_then(|place| place.list) {
                    Some(list) => {
                        self.gone(list)?;
                        self.check_neighbours(list, keys[0], quiet)
                    }
                    None => Ok(()),
                }
            }
            TouchedItem::Moved(key) => self.check_place(reversal, *key),
            TouchedItem::Edge(key) => self.check_edge(*key),
            TouchedItem::Written(key) => self.check_values(reversal, *key),
            TouchedItem::Root => self.check_root(reversal),
            TouchedItem::Created(_) | TouchedItem::Kept(_) => Ok(()),
        })
    }

    /// Characters would return to a node that was removed.
    fn check_text(&self, reversal: &UnitReversal, key: RecordKey) -> UndoResult {
        let Some(record) = self.draft.get(key).filter(|it| !it.is_present()) else {
            return Ok(());
        };
        let returns = |item: &TextItem| match item {
            TextItem::Chars(chars) => {
                let is_of_it = chars.gone().iter().any(|it| reversal.has(*it));
                is_of_it && chars.hidden().is_some() && chars.are_wanted()
            }
            _ => false,
        };
        match record.text.iter().any(returns) {
            true => self.gone(key),
            false => Ok(()),
        }
    }

    /// The nodes on both sides of the place of a removed node were joined: it would return before
    /// or behind the text of both.
    fn check_neighbours(
        &self,
        list: RecordKey,
        key: RecordKey,
        quiet: &mut QuietGaps,
    ) -> UndoResult {
        let record = self.draft.at(key);
        let found = self.draft.find_place(list, key, record.chosen());
        let Some(found) = found.filter(|_| !record.is_present()) else {
            return Ok(());
        };
        if quiet
            .get(&list)
            .is_some_and(|gap| gap.contains(&found.index))
        {
            return Ok(());
        }
        let items = &self.draft.at(list).children;
        // The hidden nodes on both sides, up to the next ones that are there.
        let is_hidden = |item: &&ChildItem| item.width() == 0;
        let (before, behind) = (&items[..found.index], &items[found.index + 1..]);
        let gap = Range {
            start: found.index - before.iter().rev().take_while(is_hidden).count(),
            end: found.index + 1 + behind.iter().take_while(is_hidden).count(),
        };
        let mut is_quiet = self.draft.content_elsewhere(key, list).is_empty();
        for index in (found.index + 1..gap.end).chain((gap.start..found.index).rev()) {
            let is_behind = index > found.index;
            let ChildItem::Place { node, .. } = &items[index] else {
                continue;
            };
            let content = self.draft.content_elsewhere(*node, list);
            is_quiet &= content.is_empty();
            let crosses = |(_, at): &(StepTag, usize)| (*at > found.index) != is_behind;
            let crossing = content.iter().filter(|it| crosses(it));
            let later = crossing.filter_map(|(by, _)| self.draft.is_later(*by, 0));
            if let Some(version) = later.max() {
                return Err(BlockedUndo {
                    conflict: UndoConflict::PlaceJoined {
                        id: record.id.clone(),
                    },
                    version: Some(version),
                });
            }
        }
        if is_quiet {
            quiet.insert(list, gap);
        }
        Ok(())
    }

    fn check_place(&self, reversal: &UnitReversal, key: RecordKey) -> UndoResult {
        let Some(record) = self.draft.get(key).filter(|it| it.is_present()) else {
            return Ok(());
        };
        let owned = record.places.iter().filter(|it| reversal.has(it.by));
        let Some(first) = owned.map(|it| it.order).min() else {
            return Ok(());
        };
        let mut later = record.places.iter().filter(|it| it.order > first);
        let moved = later.find_map(|it| self.draft.is_later(it.by, it.version));
        if moved.is_some() {
            let id = record.id.clone();
            return Err(BlockedUndo {
                conflict: UndoConflict::Moved { id },
                version: moved,
            });
        }
        let place = record.places.get(record.chosen());
        match place.and_then(|place| place.list) {
            Some(list) => self.gone(list),
            None => Ok(()),
        }
    }

    fn check_values(&self, reversal: &UnitReversal, key: RecordKey) -> UndoResult {
        let Some(record) = self.draft.get(key).filter(|it| it.is_present()) else {
            return Ok(());
        };
        for writes in record.writes.of_each() {
            let Some(first) = writes.iter().position(|it| reversal.has(it.by)) else {
                continue;
            };
            let write = &writes[first];
            let mut later = writes[first..].iter();
            let changed = later.find_map(|it| self.draft.is_later(it.by, it.version));
            if changed.is_some() {
                return Err(BlockedUndo {
                    conflict: changed_value(&record.id, &write.what),
                    version: changed,
                });
            }
        }
        Ok(())
    }

    fn check_root(&self, reversal: &UnitReversal) -> UndoResult {
        let root = self.draft.root();
        let Some(first) = root.iter().position(|it| reversal.has(it.by)) else {
            return Ok(());
        };
        let later = root[first..].iter().find_map(|it| {
            let version = self.draft.is_later(it.by, it.version)?;
            Some((version, it.after.clone().or_else(|| it.before.clone())))
        });
        match later {
            Some((version, Some(id))) => Err(BlockedUndo {
                conflict: UndoConflict::Changed { id, aspect: "root" },
                version: Some(version),
            }),
            _ => Ok(()),
        }
    }

    fn check_edge(&self, key: RecordKey) -> UndoResult {
        let Some(record) = self.draft.get(key) else {
            return Ok(());
        };
        match (record.edge_wanted(), record.merged) {
            // It was removed with the node that it was joined to.
            (None, Some(_)) if !record.exists() => Ok(()),
            (None, Some(edge)) => {
                let holders = [record.edges[edge].text_in, record.edges[edge].child_in];
                holders.into_iter().try_for_each(|it| self.gone(it))?;
                self.check_rest(key, edge)
            }
            (Some(edge), None) if record.is_present() => {
                let holder = record.edges[edge].text_in;
                self.gone(holder)?;
                for write in record.writes.iter() {
                    if let Some(version) = self.draft.is_later(write.by, write.version) {
                        return Err(BlockedUndo {
                            conflict: changed_value(&record.id, &write.what),
                            version: Some(version),
                        });
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The end of the content of a joined node was split off, and is before the place to which the
    /// node would return.
    fn check_rest(&self, key: RecordKey, edge: usize) -> UndoResult {
        let record = self.draft.at(key);
        let at = EdgeAt { node: key, edge };
        let holder = record.edges[edge].text_in;
        let has_end = |key: &RecordKey| {
            let items = &self.draft.at(*key).text;
            items.iter().any(|item| *item == TextItem::End(at))
        };
        let rest = self.draft.spread(holder).into_iter().find(has_end);
        let place = |key: RecordKey| {
            let record = self.draft.at(key);
            let list = record.places.get(record.chosen())?.list?;
            Some((
                list,
                self.draft.find_place(list, key, record.chosen())?.index,
            ))
        };
        let Some(rest) = rest.filter(|rest| *rest != holder) else {
            return Ok(());
        };
        let is_before = match (place(rest), place(key)) {
            (Some((list, rest)), Some((own, at))) => list == own && rest < at,
            _ => false,
        };
        let born = self.draft.at(rest).born;
        let version = born.and_then(|by| self.draft.is_later(by, 0));
        match version.filter(|_| is_before) {
            Some(version) => Err(BlockedUndo {
                conflict: UndoConflict::Moved {
                    id: record.id.clone(),
                },
                version: Some(version),
            }),
            None => Ok(()),
        }
    }

    /// Nothing of it was undone. Refused, if a node that it created stays for others.
    pub(super) fn check_stayed(&self, reversal: &UnitReversal) -> UndoResult {
        for touch in &reversal.touched {
            let TouchedItem::Created(keys) = touch else {
                continue;
            };
            for key in keys {
                let Some(record) = self.draft.get(*key) else {
                    continue;
                };
                if !record.is_present() || record.is_created() {
                    continue;
                }
                if let Some(version) = self.foreign(*key).into_iter().max() {
                    return Err(BlockedUndo {
                        conflict: UndoConflict::SubtreeChanged {
                            id: record.id.clone(),
                        },
                        version: Some(version),
                    });
                }
            }
        }
        Ok(())
    }

    /// The versions of the edits of others for which a node stays.
    fn foreign(&self, key: RecordKey) -> Vec<u64> {
        let record = self.draft.at(key);
        let mut found = Vec::new();
        let mut note = |by: StepTag, version: u64| found.extend(self.draft.is_later(by, version));
        for item in record.text.iter() {
            if let TextItem::Chars(chars) = item
                && chars.are_wanted()
            {
                note(chars.born, 0);
            }
        }
        for item in record.children.iter() {
            if let ChildItem::Place {
                node, shown: true, ..
            } = item
            {
                let child = self.draft.at(*node);
                child.born.into_iter().for_each(|by| note(by, 0));
                child.places.iter().for_each(|it| note(it.by, it.version));
            }
        }
        // A node that was there at first, and a half of such a node, may have such children.
        let is_new = record.born.is_some() && !record.edges.iter().any(|it| it.splits);
        let children = self.draft.document.node(&record.id).map(|it| &it.children);
        let mut children = children.into_iter().flat_map(|it| it.iter());
        if is_new && children.any(|id| self.draft.key_of(id).is_none()) {
            note(StepTag::ALWAYS, u64::MAX);
        }
        record.writes.iter().for_each(|it| note(it.by, it.version));
        record.places.iter().for_each(|it| note(it.by, it.version));
        found
    }
}

fn changed_value(id: &NodeId, what: &WrittenValue) -> UndoConflict {
    let aspect = match what {
        WrittenValue::Kind { .. } => "type",
        WrittenValue::Attribute(_) => "set of attributes",
    };
    UndoConflict::Changed {
        id: id.clone(),
        aspect,
    }
}
