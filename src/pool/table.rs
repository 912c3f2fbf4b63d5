//! Which documents are open, which of them are idle, and how many slots are taken.
//!
//! It is locked for moments only: no code of a user runs meanwhile, nothing is opened or closed,
//! and no other mutex is locked but that of the calls to the closer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::slots::SlotPermit;
use crate::DataStore;
use crate::hashing::Secret;
use crate::time::{Deadline, MonotonicTime};

/// An open document.
pub(super) struct Opened<T> {
    /// Distinguishes it from the same document when that is opened again.
    pub(super) number: u64,
    pub(super) name: SmolStr,
    pub(super) store: DataStore,
    pub(super) data: T,
}

/// An open document as the table has it.
struct Entry<T> {
    opened: Arc<Opened<T>>,
    permit: SlotPermit,
    /// How many [`Use`](super::shared::Use)s of it exist.
    uses: usize,
    last_use: MonotonicTime,
}

/// A document that was removed from the table to be closed, with the slot that it still takes.
pub(super) struct Removed<T> {
    pub(super) opened: Arc<Opened<T>>,
    pub(super) permit: SlotPermit,
}

/// Where the slot of a document goes when that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotUse {
    Returned,
    /// It passes on to the request that closes the document.
    Kept,
}

/// What a request to close one document finds.
pub(super) enum Unused<T> {
    Removed(Removed<T>),
    InUse(usize),
    Missing,
}

pub(super) struct Table<T> {
    most_open: usize,
    open: HashMap<SmolStr, Entry<T>, Secret>,
    /// The names of the documents without a use, by their last use. The longest idle is the first.
    idle: BTreeMap<(MonotonicTime, u64), SmolStr>,
    /// The slots of documents that are open, or are being opened or closed.
    claimed: usize,
    /// Those of them whose document is being closed.
    closing: usize,
    /// Those of them that are returned then. The others pass on to a request that closes a document
    /// for its own one.
    returning: usize,
    /// The requests that wait for a slot, or have one that they do not know of.
    waiting: usize,
    /// Those of them that code in a close makes: its slot is returned after they have theirs.
    waiting_in_closes: usize,
    last_number: u64,
    /// Whether the thread that closes documents runs.
    pub(super) closer_runs: bool,
}

impl<T> Table<T> {
    pub(super) fn new(most_open: usize) -> Self {
        Self {
            most_open,
            open: HashMap::with_hasher(Secret),
            idle: BTreeMap::new(),
            claimed: 0,
            closing: 0,
            returning: 0,
            waiting: 0,
            waiting_in_closes: 0,
            last_number: 0,
            closer_runs: false,
        }
    }

    // --- Uses ---

    /// Begins a use of a document, if it is open and accepts commits.
    pub(super) fn begin_use(&mut self, name: &str) -> Option<Arc<Opened<T>>> {
        let entry = self.open.get_mut(name)?;
        if entry.opened.store.is_read_only() {
            return None;
        }
        if entry.uses == 0 {
            self.idle.remove(&(entry.last_use, entry.opened.number));
        }
        entry.uses += 1;
        Some(Arc::clone(&entry.opened))
    }

    /// Begins another use of a document that is in use. It may have left the table.
    pub(super) fn repeat_use(&mut self, opened: &Opened<T>) {
        if let Some(entry) = self.entry(&opened.name, opened.number) {
            entry.uses += 1;
        }
    }

    /// Ends a use. Returns whether the document is idle now.
    pub(super) fn end_use(&mut self, name: &SmolStr, number: u64, now: MonotonicTime) -> bool {
        let Some(entry) = self.entry(name, number) else {
            return false;
        };
        entry.uses -= 1;
        if entry.uses > 0 {
            return false;
        }
        entry.last_use = now;
        self.idle.insert((now, number), name.clone());
        true
    }

    fn entry(&mut self, name: &str, number: u64) -> Option<&mut Entry<T>> {
        let entry = self.open.get_mut(name);
        entry.filter(|entry| entry.opened.number == number)
    }

    /// Adds a document that was just opened, with one use.
    pub(super) fn insert(
        &mut self,
        name: &SmolStr,
        (store, data): (DataStore, T),
        permit: SlotPermit,
        now: MonotonicTime,
    ) -> Arc<Opened<T>> {
        self.last_number += 1;
        let opened = Arc::new(Opened {
            number: self.last_number,
            name: name.clone(),
            store,
            data,
        });
        let entry = Entry {
            opened: Arc::clone(&opened),
            permit,
            uses: 1,
            last_use: now,
        };
        let before = self.open.insert(name.clone(), entry);
        debug_assert!(before.is_none(), "one request at a time opens a document");
        opened
    }

    // --- Removal ---

    /// Removes a document that accepts no commits. It keeps its slot.
    pub(super) fn remove_read_only(&mut self, name: &str) -> Option<Removed<T>> {
        let is_read_only = self.open.get(name)?.opened.store.is_read_only();
        is_read_only.then(|| self.remove(name)).flatten()
    }

    /// Removes a document without a use, to close it.
    pub(super) fn remove_unused(&mut self, name: &str) -> Unused<T> {
        match self.open.get(name).map(|entry| entry.uses) {
            Some(0) => self
                .remove_idle(name, SlotUse::Returned, |_, _| true)
                .map_or(Unused::Missing, Unused::Removed),
            Some(uses) => Unused::InUse(uses),
            None => Unused::Missing,
        }
    }

    /// Removes a document without a use, to close it, if that still has to happen.
    pub(super) fn remove_idle(
        &mut self,
        name: &str,
        slot: SlotUse,
        is_due: impl FnOnce(&Self, MonotonicTime) -> bool,
    ) -> Option<Removed<T>> {
        let entry = self.open.get(name).filter(|entry| entry.uses == 0)?;
        if !is_due(self, entry.last_use) {
            return None;
        }
        self.closing += 1;
        self.returning += usize::from(slot == SlotUse::Returned);
        self.remove(name)
    }

    fn remove(&mut self, name: &str) -> Option<Removed<T>> {
        let entry = self.open.remove(name)?;
        let Entry { opened, permit, .. } = entry;
        self.idle.remove(&(entry.last_use, opened.number));
        Some(Removed { opened, permit })
    }

    // --- Slots ---

    /// Counts a request that is about to wait for a slot.
    pub(super) fn begin_wait(&mut self, in_close: bool) {
        self.waiting += 1;
        self.waiting_in_closes += usize::from(in_close);
    }

    pub(super) fn end_wait(&mut self, in_close: bool) {
        self.waiting -= 1;
        self.waiting_in_closes -= usize::from(in_close);
    }

    /// Counts the slot of a request that has waited for it.
    pub(super) fn claim(&mut self, in_close: bool) {
        self.end_wait(in_close);
        self.claimed += 1;
    }

    /// Counts the slot of a closed document, which passes on to a request.
    pub(super) fn keep_slot(&mut self) {
        self.closing -= 1;
    }

    /// Whether requests wait for a slot.
    pub(super) fn has_waits(&self) -> bool {
        self.waiting > 0
    }

    /// Counts a slot that is about to be returned.
    pub(super) fn unclaim(&mut self, closing: Option<SlotUse>) {
        self.claimed -= 1;
        self.closing -= usize::from(closing.is_some());
        self.returning -= usize::from(closing == Some(SlotUse::Returned));
    }

    /// Whether more requests wait than there are slots that they get anyway: those that no
    /// document takes, and those that are returned by a close that waits for none itself.
    pub(super) fn lacks_slots(&self) -> bool {
        let returned = self.returning.saturating_sub(self.waiting_in_closes);
        self.waiting > self.most_open.saturating_sub(self.claimed) + returned
    }

    // --- What is idle ---

    /// Returns the document that is idle for the longest time, with its last use.
    pub(super) fn longest_idle(&self) -> Option<(SmolStr, MonotonicTime)> {
        let ((last_use, _), name) = self.idle.first_key_value()?;
        Some((name.clone(), *last_use))
    }

    /// Returns the document that has to be closed next, if one has to be now.
    pub(super) fn due(&self, idle_after: Option<Duration>, now: MonotonicTime) -> Option<SmolStr> {
        let (name, last_use) = self.longest_idle()?;
        self.is_due(last_use, idle_after, now).then_some(name)
    }

    /// Whether an idle document with this last use has to be closed now.
    pub(super) fn is_due(
        &self,
        last_use: MonotonicTime,
        idle_after: Option<Duration>,
        now: MonotonicTime,
    ) -> bool {
        self.lacks_slots() || idle_after.is_some_and(|unused| now - last_use >= unused)
    }

    /// Returns when the next document has been idle for so long.
    pub(super) fn next_deadline(&self, idle_after: Duration) -> Option<Deadline> {
        let (_, last_use) = self.longest_idle()?;
        Deadline::after(idle_after, last_use)
    }

    /// Whether this is the only idle document.
    pub(super) fn has_one_idle(&self) -> bool {
        self.idle.len() == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the name of any open document.
    pub(super) fn any_name(&self) -> Option<SmolStr> {
        self.open.keys().next().cloned()
    }

    // --- Pictures ---

    /// Returns how many documents are open, in use, being opened and being closed.
    pub(super) fn counts(&self) -> [usize; 4] {
        let open = self.open.len();
        let in_use = open - self.idle.len();
        let opening = self.claimed.saturating_sub(open + self.closing);
        [open, in_use, opening, self.closing]
    }

    /// Returns the names of open documents, with their uses and their last use.
    pub(super) fn each(&self) -> impl Iterator<Item = (&SmolStr, usize, MonotonicTime)> {
        let entries = self.open.iter();
        entries.map(|(name, entry)| (name, entry.uses, entry.last_use))
    }
}
