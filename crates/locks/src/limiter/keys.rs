//! The table of the keys, and the state of each.
//!
//! Code of users runs here where a key is looked up (`Eq`, of keys with the same hash) and where
//! one is listed (`Clone`), before any change. Slots are returned by number, so no code of a key
//! can fail then.

use hashbrown::HashTable;

use super::adaptive::{Adaptive, Sample};
use super::metrics::CallMetrics;
use crate::queue::{Queue, Slots, Ticket};
use crate::sampling::Measured;
use crate::time::MonotonicTime;

/// Identifies a key while it is in use. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyId {
    hash: u64,
    number: u64,
}

/// A key as callers pass it, with its hash.
#[derive(Debug)]
pub(super) struct HashedKey<'a, K> {
    pub(super) key: &'a K,
    pub(super) hash: u64,
}

impl<K> Copy for HashedKey<'_, K> {}

impl<K> Clone for HashedKey<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

pub(super) struct LimiterKeys<K, T> {
    entries: HashTable<LimitedKey<K, T>>,
    /// How many numbers were issued.
    issued: u64,
    /// Of keys that were not configured by name.
    default_limit: usize,
    /// The box of the key that became idle last, for reuse.
    spare: Option<Box<KeyState<T>>>,
}

pub(super) struct LimitedKey<K, T> {
    pub(super) id: KeyId,
    pub(super) key: K,
    pub(super) state: Box<KeyState<T>>,
}

/// The state of a key beside its name.
pub(super) struct KeyState<T> {
    pub(super) queue: Queue<Slots, WaitingCall<T>>,
    pub(super) turn: Option<KeyTicket>,
    /// Set for a key that was configured by name.
    pub(super) own: Option<Box<OwnQueue>>,
}

/// The ticket of a key in the queue of keys, and its demand there.
pub(super) struct KeyTicket {
    pub(super) ticket: Ticket,
    pub(super) weight: usize,
}

pub(super) struct OwnQueue {
    pub(super) metrics: CallMetrics,
    pub(super) adaptive: Option<Adaptive>,
}

pub(super) struct WaitingCall<T> {
    pub(super) weight: usize,
    pub(super) since: MonotonicTime,
    pub(super) request: T,
}

impl<K, T> LimiterKeys<K, T> {
    /// The table keeps room for this many keys.
    const KEPT: usize = 14;

    pub(super) fn new(default_limit: usize) -> Self {
        Self {
            entries: HashTable::new(),
            issued: 0,
            default_limit,
            spare: None,
        }
    }

    pub(super) fn default_limit(&self) -> usize {
        self.default_limit
    }

    #[inline(always)]
    pub(super) fn get(&self, id: KeyId) -> Option<&KeyState<T>> {
        let found = self.entries.find(id.hash, |entry| entry.id == id);
        found.map(|entry| &*entry.state)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: KeyId) -> Option<&mut KeyState<T>> {
        let found = self.entries.find_mut(id.hash, |entry| entry.id == id);
        found.map(|entry| &mut *entry.state)
    }

    /// Adds an absent key.
    pub(super) fn add(&mut self, key: K, hash: u64) -> (KeyId, &mut KeyState<T>) {
        let limit = self.default_limit;
        let spare = self.spare.take();
        let state = spare.unwrap_or_else(|| Box::new(KeyState::new(limit, None)));
        self.insert(key, hash, state)
    }

    /// Adds an absent key that stays.
    pub(super) fn add_own(&mut self, key: K, hash: u64, limit: usize, own: OwnQueue) {
        let state = KeyState::new(limit, Some(Box::new(own)));
        self.insert(key, hash, Box::new(state));
    }

    fn insert(&mut self, key: K, hash: u64, state: Box<KeyState<T>>) -> (KeyId, &mut KeyState<T>) {
        let number = self.issued;
        self.issued += 1;
        let id = KeyId { hash, number };
        let entry = LimitedKey { id, key, state };
        let inserted = self
            .entries
            .insert_unique(hash, entry, |other| other.id.hash);
        (id, &mut inserted.into_mut().state)
    }

    /// Removes an idle key. Dropping the key is code of users.
    pub(super) fn remove(&mut self, id: KeyId) -> Option<K> {
        let found = self.entries.find_entry(id.hash, |entry| entry.id == id);
        let (LimitedKey { key, state, .. }, _) = found.ok()?.remove();
        self.spare = Some(state);
        let capacity = self.entries.capacity();
        if capacity > Self::KEPT && self.entries.len() < capacity / 8 {
            self.shrink();
        }
        Some(key)
    }

    /// Shrinks the table when seven eighths of it are unused. The hysteresis: before the next
    /// allocation, the number of keys must double or fall by three quarters.
    #[cold]
    fn shrink(&mut self) {
        let room = Self::KEPT.max(self.entries.len() * 2);
        self.entries.shrink_to(room, |entry| entry.id.hash);
    }

    /// Returns all keys, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LimitedKey<K, T>> {
        self.entries.iter()
    }

    /// Returns all keys, in the order in which they were added.
    pub(super) fn in_order(&self) -> Vec<&LimitedKey<K, T>> {
        let mut entries: Vec<_> = self.iter().collect();
        entries.sort_unstable_by_key(|entry| entry.id.number);
        entries
    }
}

impl<K: Eq, T> LimiterKeys<K, T> {
    pub(super) fn find(&self, name: HashedKey<'_, K>) -> Option<(KeyId, &KeyState<T>)> {
        let is_it = |entry: &LimitedKey<K, T>| entry.is(name);
        let found = self.entries.find(name.hash, is_it);
        found.map(|entry| (entry.id, &*entry.state))
    }

    #[inline(always)]
    pub(super) fn find_mut(&mut self, name: HashedKey<'_, K>) -> Option<(KeyId, &mut KeyState<T>)> {
        let is_it = |entry: &LimitedKey<K, T>| entry.is(name);
        let found = self.entries.find_mut(name.hash, is_it);
        found.map(|entry| (entry.id, &mut *entry.state))
    }
}

impl<K: Eq, T> LimitedKey<K, T> {
    /// Whether the entry is that of the key. Only keys with the same hash are compared.
    #[inline(always)]
    fn is(&self, name: HashedKey<'_, K>) -> bool {
        self.id.hash == name.hash && self.key == *name.key
    }
}

impl<T> KeyState<T> {
    fn new(limit: usize, own: Option<Box<OwnQueue>>) -> Self {
        Self {
            queue: Queue::new(Slots::new(limit), 0),
            turn: None,
            own,
        }
    }

    /// Whether the key is idle and was not configured by name.
    pub(super) fn is_over(&self) -> bool {
        self.own.is_none() && self.queue.is_empty() && self.queue.capacity().taken() == 0
    }

    /// Returns the lowest number of slots that the limit can fall to.
    pub(super) fn least_limit(&self) -> usize {
        let adaptive = self.own.as_ref().and_then(|own| own.adaptive.as_ref());
        adaptive.map_or(self.queue.capacity().limit(), Adaptive::least)
    }

    /// Returns the metrics in which its calls count.
    pub(super) fn metrics<'a>(&'a mut self, others: &'a mut CallMetrics) -> &'a mut CallMetrics {
        match &mut self.own {
            Some(own) => &mut own.metrics,
            None => others,
        }
    }

    /// Updates an adaptive limit with a call that returns its slots.
    #[inline(always)]
    pub(super) fn learn(&mut self, began: Option<Measured>, ended: MonotonicTime, whole: bool) {
        let own = self.own.as_mut();
        let adaptive = own.and_then(|own| own.adaptive.as_mut());
        if let (Some(adaptive), Some(began)) = (adaptive, began) {
            adaptive.take_in(Sample {
                began: began.at,
                ended,
                whole,
                in_flight: self.queue.capacity().taken(),
            });
            self.queue.capacity_mut().set_limit(adaptive.limit());
        }
    }
}
