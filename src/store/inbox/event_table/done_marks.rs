//! The marks of done events, by which a duplicate is recognized; there are many.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use smol_str::SmolStr;

use super::DoneEvent;
use crate::hashing::Secret;
use crate::shrink::excess;

/// The marks of all done events. A table grows by moving all its entries, and readers of the
/// document would wait for that. So many marks lie in parts that grow one at a time; few lie in one
/// part.
pub(super) struct DoneMarks {
    /// One, or [`PARTS`](Self::PARTS).
    parts: Box<[DoneMarksPart]>,
    len: usize,
}

type DoneMarksPart = HashTable<(SmolStr, DoneEvent)>;

impl Default for DoneMarks {
    fn default() -> Self {
        Self {
            parts: Box::new([DoneMarksPart::new()]),
            len: 0,
        }
    }
}

impl DoneMarks {
    /// A million marks are about 4,000 in a part, which are moved in tens of microseconds.
    const PARTS: usize = 256;

    /// Capacity for this many marks of a part is never given back.
    const KEPT: usize = 16;

    /// From this many marks on they lie in parts; at a quarter of it, in one part again. This move
    /// takes tens of microseconds, too.
    const MANY: usize = 1024;

    /// The hash of an event and its part. The part comes from bits that a table does not use: it
    /// uses the lowest ones and the highest seven.
    fn place(&self, id: &str) -> (u64, usize) {
        let hash = Secret.hash_one(id);
        (hash, (hash >> 40) as usize % self.parts.len())
    }

    /// Moves all marks to so many parts.
    fn divide(&mut self, parts: usize) {
        let parts = (0..parts).map(|_| DoneMarksPart::new()).collect();
        for (id, done) in std::mem::replace(&mut self.parts, parts)
            .into_iter()
            .flatten()
        {
            self.put(id, done);
        }
    }

    fn put(&mut self, id: SmolStr, done: DoneEvent) {
        let (hash, part) = self.place(&id);
        self.parts[part].insert_unique(hash, (id, done), |(id, _)| Secret.hash_one(id.as_str()));
    }

    pub(super) fn get(&self, id: &str) -> Option<&DoneEvent> {
        let (hash, part) = self.place(id);
        let found = self.parts[part].find(hash, |(other, _)| other == id);
        found.map(|(_, done)| done)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Marks an event that is not marked yet.
    pub(super) fn insert(&mut self, id: SmolStr, done: DoneEvent) {
        debug_assert!(!self.contains(&id), "an event is done once");
        self.put(id, done);
        self.len += 1;
        if self.len == Self::MANY && self.parts.len() == 1 {
            self.divide(Self::PARTS);
        }
    }

    /// Removes a mark, and returns whether there was one.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let (hash, part) = self.place(id);
        let table = &mut self.parts[part];
        let Ok(found) = table.find_entry(hash, |(other, _)| other == id) else {
            return false;
        };
        found.remove();
        if let Some(room) = excess(table.capacity(), table.len(), Self::KEPT) {
            table.shrink_to(room, |(id, _)| Secret.hash_one(id.as_str()));
        }
        self.len -= 1;
        if self.len == Self::MANY / 4 && self.parts.len() > 1 {
            self.divide(1);
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The marked events.
    pub(super) fn ids(&self) -> impl Iterator<Item = &SmolStr> {
        self.parts.iter().flatten().map(|(id, _)| id)
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/inbox_event_table_done_marks.rs"]
mod tests;
