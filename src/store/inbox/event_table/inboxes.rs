//! The event tables of all inboxes of a store, and the mark that is published with an effect.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;
use smol_str::SmolStr;

use super::stored::InboxChanges;
use super::{EventNote, EventTable};
use crate::brief::Brief;
use crate::codes::{Retry, codes};
use crate::hashing::Secret;
use crate::id::FencingToken;
use crate::millis;
use crate::shrink::excess;
use crate::store::calendar::Calendar;
use crate::store::notes::{NoteChange, WatermarkNote};
use crate::store::{
    Bookkeeping, CommitCondition, CommitError, DataStore, PublishedState, Transaction,
};
use crate::sync::{MutexGuard, rank};
use crate::time::{Clock, MonotonicTime};

/// The name of an inbox, with its hash.
#[derive(Clone)]
pub(crate) struct InboxKey {
    name: SmolStr,
    hash: u64,
}

impl InboxKey {
    pub(crate) fn new(name: SmolStr) -> Self {
        let hash = Secret.hash_one(name.as_str());
        Self { name, hash }
    }

    pub(crate) fn name(&self) -> &SmolStr {
        &self.name
    }

    fn is_of(&self, inbox: &NamedInbox) -> bool {
        self.name == inbox.0.name
    }
}

/// An error: an inbox was not removed, because workers hold claims on its events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inbox {name} was not removed: {claims} events are claimed, the last for another {remaining:.1?}", name = Brief(.name))]
#[non_exhaustive]
pub struct InboxInUse {
    /// The name of the inbox.
    pub name: SmolStr,
    /// How many claims are not stale.
    pub claims: usize,
    /// The time until the last of them is stale.
    pub remaining: Duration,
}

codes! { InboxInUse {
    Self { name, claims, remaining } => "inboxInUse" {
        name: name,
        claims: claims,
        remaining_ms: millis::number(*remaining),
    } if Retry::Later, 409;
}}

/// The inboxes of one store that have taken in a message. An inbox without an entry is empty.
pub(crate) struct Inboxes {
    table: HashTable<NamedInbox>,
    /// Whether a journal stores them.
    pub(in crate::store) are_stored: bool,
}

impl Inboxes {
    pub(in crate::store) fn new(are_stored: bool) -> Self {
        Self {
            table: HashTable::new(),
            are_stored,
        }
    }
}

type NamedInbox = (InboxKey, Box<EventTable>);

impl Inboxes {
    /// Returns the names of some inboxes, and how many there are.
    pub(in crate::store) fn names(&self, most: usize) -> (Vec<InboxKey>, usize) {
        let keys = self.table.iter().take(most).map(|(key, _)| key.clone());
        (keys.collect(), self.table.len())
    }

    /// All that a journal stores of the inboxes.
    #[cfg(feature = "redb")]
    pub(in crate::store) fn notes(&self, now: MonotonicTime) -> Vec<NoteChange> {
        let inboxes = self.table.iter();
        let notes = inboxes.flat_map(|(key, events)| events.notes(&key.name, now));
        notes.collect()
    }

    fn get(&self, key: &InboxKey) -> Option<&EventTable> {
        let found = self.table.find(key.hash, |inbox| key.is_of(inbox));
        found.map(|(_, events)| &**events)
    }

    fn get_mut(&mut self, key: &InboxKey) -> Option<&mut EventTable> {
        let found = self.table.find_mut(key.hash, |inbox| key.is_of(inbox));
        found.map(|(_, events)| &mut **events)
    }

    /// A new inbox continues after the last token of all inboxes, also of removed ones, so that no
    /// claim on a removed event matches one on a later event.
    fn get_or_make(&mut self, key: &InboxKey, last_token: u64) -> &mut EventTable {
        let is_it = |inbox: &NamedInbox| key.is_of(inbox);
        let are_stored = self.are_stored;
        let entry = self.table.entry(key.hash, is_it, |(key, _)| key.hash);
        let made = || {
            let changed = are_stored.then(|| InboxChanges::new(key.name.clone()));
            (
                key.clone(),
                Box::new(EventTable::after(last_token, changed)),
            )
        };
        &mut entry.or_insert_with(made).into_mut().1
    }

    /// Restores a stored event of an inbox. The tokens continue after this one.
    pub(in crate::store) fn restore(&mut self, note: EventNote, last_token: u64, now: &Calendar) {
        let key = InboxKey::new(note.inbox.clone());
        self.get_or_make(&key, last_token).restore(note, now);
    }

    pub(in crate::store) fn restore_watermark(&mut self, note: WatermarkNote, last_token: u64) {
        let WatermarkNote { inbox, sent_at } = note;
        let events = self.get_or_make(&InboxKey::new(inbox), last_token);
        events.restore_watermark(sent_at);
    }

    /// Removes an inbox, unless one of its claims holds.
    fn remove(
        &mut self,
        key: &InboxKey,
        now: MonotonicTime,
    ) -> Result<Option<Box<EventTable>>, InboxInUse> {
        /// Capacity for this many inboxes is never given back.
        const KEPT: usize = 16;
        let Ok(found) = self.table.find_entry(key.hash, |inbox| key.is_of(inbox)) else {
            return Ok(None);
        };
        if let Some((claims, remaining)) = found.get().1.held(now) {
            return Err(InboxInUse {
                name: key.name.clone(),
                claims,
                remaining,
            });
        }
        let ((_, events), _) = found.remove();
        if let Some(room) = excess(self.table.capacity(), self.table.len(), KEPT) {
            self.table.shrink_to(room, |(key, _)| key.hash);
        }
        Ok(Some(events))
    }
}

/// Marks an event as done with the transaction, if the claim on the event still holds then.
struct DoneMark {
    inbox: InboxKey,
    event: SmolStr,
    token: FencingToken,
    at: MonotonicTime,
}

impl CommitCondition for DoneMark {
    fn check(&self, _last: &PublishedState, bookkeeping: &Bookkeeping) -> Result<(), CommitError> {
        let events = bookkeeping.inboxes.get(&self.inbox);
        match events.is_some_and(|events| events.holds(&self.event, self.token)) {
            true => Ok(()),
            false => Err(CommitError::Superseded {
                event: self.event.clone(),
                token: self.token,
            }),
        }
    }

    fn apply(&mut self, bookkeeping: &mut Bookkeeping) -> Vec<NoteChange> {
        let Some(events) = bookkeeping.inboxes.get_mut(&self.inbox) else {
            return Vec::new();
        };
        events.finish(&self.event, self.at);
        events.take_changes()
    }
}

impl Transaction {
    /// Publishes the transaction only if the claim still holds, and marks the event as done in that
    /// step. Both are of this store.
    pub(crate) fn marks(
        &mut self,
        of: &DataStore,
        inbox: InboxKey,
        event: SmolStr,
        token: FencingToken,
    ) -> Result<(), CommitError> {
        if !Arc::ptr_eq(&self.store().0, &of.0) {
            return Err(CommitError::OtherStore { event });
        }
        let at = self.store().monotonic();
        self.on_condition(Box::new(DoneMark {
            inbox,
            event,
            token,
            at,
        }));
        Ok(())
    }
}

impl DataStore {
    /// Reads or changes the records of an inbox at one moment. Commits with receipts or claims
    /// wait, so `code` must be short. Does not make a missing inbox.
    pub(crate) fn with_inbox<R>(
        &self,
        inbox: &InboxKey,
        code: impl FnOnce(&mut EventTable, MonotonicTime) -> R,
    ) -> R {
        let now = self.monotonic();
        let mut bookkeeping = self.0.bookkeeping.lock();
        let Some(events) = bookkeeping.inboxes.get_mut(inbox) else {
            return code(&mut EventTable::default(), now);
        };
        let result = code(events, now);
        let changes = events.take_changes();
        self.leave_bookkeeping(bookkeeping, changes);
        result
    }

    /// Unlocks the bookkeeping, and stores what has changed in it.
    fn leave_bookkeeping(
        &self,
        bookkeeping: MutexGuard<'_, { rank::BOOKKEEPING }, Bookkeeping>,
        changes: Vec<NoteChange>,
    ) {
        let has_changed = self.store_notes(changes);
        drop(bookkeeping);
        if has_changed {
            self.call_writer();
        }
    }

    /// As [`with_inbox`](Self::with_inbox), for an inbox that takes in a message: makes a missing
    /// inbox.
    pub(crate) fn with_new_inbox<R>(
        &self,
        inbox: &InboxKey,
        code: impl FnOnce(&mut EventTable, MonotonicTime) -> R,
    ) -> R {
        let now = self.monotonic();
        let mut bookkeeping = self.0.bookkeeping.lock();
        let numbers = &self.0.numbers;
        let last_token = numbers.claim_token();
        let events = bookkeeping.inboxes.get_or_make(inbox, last_token);
        let result = code(events, now);
        numbers.note_claim_token(events.last_token);
        let changes = events.take_changes();
        self.leave_bookkeeping(bookkeeping, changes);
        result
    }

    /// Removes all records of an inbox, unless one of its claims holds.
    pub(crate) fn remove_inbox(&self, inbox: &InboxKey) -> Result<(), InboxInUse> {
        let now = self.monotonic();
        let mut bookkeeping = self.0.bookkeeping.lock();
        let removed = bookkeeping.inboxes.remove(inbox, now);
        let events = removed.as_ref().ok().and_then(Option::as_ref);
        let changes = events.map_or(Vec::new(), |events| events.forgets_all());
        self.leave_bookkeeping(bookkeeping, changes);
        // Freed when others no longer wait.
        removed.map(drop)
    }

    /// The time that decides all outcomes, by the clock of the store.
    pub(crate) fn monotonic(&self) -> MonotonicTime {
        self.clock().now()
    }

    /// The clock of the store.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.document.clock
    }
}
