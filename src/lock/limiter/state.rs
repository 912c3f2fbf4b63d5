//! What the mutex of an [`InFlightLimiter`](super::InFlightLimiter) guards: a line for each key, and the line of the keys.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.
//!
//! Invariants, whenever the mutex is free:
//!
//! 1. Of each key no more slots were granted than its limit was at that moment, and of all keys together no more than the global limit.
//! 2. Of one key, calls are granted in the order in which they joined.
//! 3. A key stands in the line of the keys if and only if somebody waits for it and the head of its line fits its own limit. It
//!    demands what that head demands.
//! 4. If a key stands there, the first of these does not fit the global limit. So without one nobody stands there.
//! 5. A key that is idle and was not configured by name is not kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::RandomState;
use slotmap::SlotMap;
use smallvec::SmallVec;

use super::adaptive::{Adaptive, Sample};
use super::error::Load;
use super::figures::{Figures, KeySnapshot, LimiterSnapshot};
use super::options::Rule;
use crate::lock::wait::Reason;
use crate::queue::{Priority, Queue, Slots, Ticket};
use crate::time::Timestamp;

slotmap::new_key_type! {
    /// Names a key for as long as it is in use.
    pub(super) struct KeyId;
}

/// `T` is what the face keeps of each waiting call.
pub(super) struct State<K, T> {
    ids: HashMap<K, KeyId, RandomState>,
    entries: SlotMap<KeyId, Entry<K, T>>,
    /// The line of the keys in front of the global limit. A key that was served joins again at the end, which makes it a
    /// round robin.
    turns: Queue<Slots, KeyId>,
    default_limit: usize,
    global_limit: Option<usize>,
    /// Of the keys that were not configured by name.
    others: Figures,
}

struct Entry<K, T> {
    key: K,
    queue: Queue<Slots, Waiter<T>>,
    turn: Option<Turn>,
    /// What a key has that was configured by name.
    own: Option<Box<Own>>,
}

/// A key's place in the line of the keys, and what it demands there.
struct Turn {
    ticket: Ticket,
    weight: usize,
}

#[derive(Default)]
struct Own {
    figures: Figures,
    adaptive: Option<Adaptive>,
}

struct Waiter<T> {
    weight: usize,
    since: Timestamp,
    request: T,
}

/// Slots that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    key: KeyId,
    pub(super) weight: usize,
    since: Timestamp,
}

/// Names a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    key: KeyId,
    ticket: Ticket,
}

/// Why a call left the line without slots, and what it saw then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) reason: Reason,
    pub(super) waited: Duration,
    pub(super) place: usize,
    pub(super) load: Load,
}

pub(super) type Verdict = Result<Granted, Left>;

/// Who is to be told what, once the mutex is free again.
pub(super) type Next<T> = SmallVec<[(T, Verdict); 2]>;

impl<K: Clone + Eq + Hash, T> State<K, T> {
    pub(super) fn new(
        default_limit: usize,
        global_limit: Option<usize>,
        keys: Vec<(K, Rule)>,
    ) -> Self {
        let global = Slots::new(global_limit.unwrap_or(usize::MAX));
        let mut state = Self {
            ids: HashMap::default(),
            entries: SlotMap::with_key(),
            turns: Queue::new(global, 0),
            default_limit,
            global_limit,
            others: Figures::default(),
        };
        for (key, rule) in keys {
            let (limit, adaptive) = match rule {
                Rule::Fixed(limit) => (limit, None),
                Rule::Adaptive(rules) => {
                    let adaptive = Adaptive::new(rules);
                    (adaptive.limit(), Some(adaptive))
                }
            };
            let figures = Figures::default();
            state.add(&key, limit, Some(Box::new(Own { figures, adaptive })));
        }
        state
    }

    // --- Keys ---

    fn add(&mut self, key: &K, limit: usize, own: Option<Box<Own>>) -> KeyId {
        // Both before the first is kept: cloning is code of users, and may panic.
        let [name, listed] = [key.clone(), key.clone()];
        let id = self.entries.insert(Entry {
            key: name,
            queue: Queue::new(Slots::new(limit), 0),
            turn: None,
            own,
        });
        self.ids.insert(listed, id);
        id
    }

    /// The entry of a key for a call of this weight; the most that there ever is if that is less.
    pub(super) fn enter(&mut self, key: &K, weight: usize) -> Result<KeyId, usize> {
        let known = self.ids.get(key).copied();
        let entry = known.and_then(|id| self.entries.get(id));
        let limit = entry.map_or(self.default_limit, Entry::least_limit);
        let most = limit.min(self.turns.capacity().limit());
        if weight > most {
            return Err(most);
        }
        Ok(known.unwrap_or_else(|| self.add(key, self.default_limit, None)))
    }

    /// Drops what is kept of a key that nobody uses.
    pub(super) fn leave(&mut self, id: KeyId) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let idle = entry.queue.len() == 0 && entry.queue.capacity().taken() == 0;
        if idle && entry.own.is_none() {
            self.ids.remove(&entry.key);
            self.entries.remove(id);
        }
    }

    /// As [`State::leave`], and how busy the key was.
    pub(super) fn leave_with_load(&mut self, id: KeyId) -> Load {
        let load = self.load_of(id);
        self.leave(id);
        load
    }

    /// The figures in which a key's calls are counted.
    fn figures_of(&mut self, id: KeyId) -> &mut Figures {
        let entry = self.entries.get_mut(id);
        match entry.and_then(|entry| entry.own.as_mut()) {
            Some(own) => &mut own.figures,
            None => &mut self.others,
        }
    }

    // --- Asking ---

    /// Takes slots at once, if they are free and nobody waits who has a better claim.
    #[inline]
    pub(super) fn try_take(
        &mut self,
        id: KeyId,
        weight: usize,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Granted> {
        let entry = self.entries.get_mut(id)?;
        if !entry.queue.try_take(&weight) {
            return None;
        }
        if !self.turns.try_take(&weight) {
            // Nobody waits for this key, so there is nobody for whom this makes room.
            entry.queue.give_back(&weight);
            return None;
        }
        entry.figures(&mut self.others).acquired += 1;
        Some(Granted {
            key: id,
            weight,
            since: now(),
        })
    }

    /// Joins the line of a key. To be called only after [`State::try_take`] has declined.
    pub(super) fn join(&mut self, id: KeyId, weight: usize, now: Timestamp, request: T) -> Place {
        // Asked for by its key under the same mutex, so it is there.
        let entry = &mut self.entries[id];
        let waiter = Waiter {
            weight,
            since: now,
            request,
        };
        let ticket = entry.queue.join(weight, Priority::Normal, waiter);
        self.update_turn(id);
        Place { key: id, ticket }
    }

    pub(super) fn count_rejected(&mut self, id: KeyId) {
        self.figures_of(id).rejected += 1;
    }

    pub(super) fn count_declined(&mut self, id: KeyId) {
        self.figures_of(id).declined += 1;
    }

    pub(super) fn count_cancelled(&mut self, key: &K) {
        let id = self.ids.get(key).copied().unwrap_or_default();
        self.figures_of(id).cancelled += 1;
    }

    // --- Ending ---

    /// Takes a call out of its line; nobody is told when it no longer stands there, because it was told before.
    pub(super) fn withdraw(&mut self, place: Place, reason: Reason, now: Timestamp) -> Next<T> {
        let mut next = Next::new();
        let load = self.load_of(place.key);
        let Some(entry) = self.entries.get_mut(place.key) else {
            return next;
        };
        let ahead = entry.queue.place(place.ticket);
        let Some((ahead, waiter)) = ahead.zip(entry.queue.withdraw(place.ticket)) else {
            return next;
        };
        let waited = now - waiter.since;
        let figures = entry.figures(&mut self.others);
        let waited = match reason {
            Reason::Expired(limit) => {
                figures.timed_out += 1;
                // The limit went by another clock than the figures.
                waited.max(limit)
            }
            Reason::Cancelled => {
                figures.cancelled += 1;
                waited
            }
        };
        let left = Left {
            reason,
            waited,
            place: ahead + 1,
            load,
        };
        next.push((waiter.request, Err(left)));
        self.update_turn(place.key);
        self.serve(now, &mut next);
        self.leave(place.key);
        next
    }

    /// Returns slots; whoever they make room for has them in the same step.
    #[inline]
    pub(super) fn give_back(
        &mut self,
        granted: Granted,
        now: Timestamp,
        whole: bool,
        cancelled: bool,
    ) -> Next<T> {
        let mut next = Next::new();
        let Granted { key, weight, since } = granted;
        let Some(entry) = self.entries.get_mut(key) else {
            debug_assert!(false, "a key is kept while it has slots out");
            return next;
        };
        let figures = entry.figures(&mut self.others);
        figures.latency.record(now - since, 1);
        figures.cancelled_running += u64::from(cancelled);
        entry.learn(Sample {
            began: since,
            ended: now,
            whole,
            in_flight: entry.queue.capacity().taken(),
        });
        entry.queue.give_back(&weight);
        self.turns.give_back(&weight);
        if entry.queue.len() > 0 {
            self.update_turn(key);
        }
        self.serve(now, &mut next);
        self.leave(key);
        next
    }

    // --- Turns ---

    /// Restores invariant 3 for a key of whose line or limit something changed.
    fn update_turn(&mut self, id: KeyId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let capacity = entry.queue.capacity();
        let head = entry.queue.head().copied();
        let demand = head.filter(|&weight| capacity.fits(weight));
        if entry.turn.as_ref().map(|turn| turn.weight) == demand {
            return;
        }
        if let Some(turn) = entry.turn.take() {
            self.turns.withdraw(turn.ticket);
        }
        entry.turn = demand.map(|weight| Turn {
            ticket: self.turns.join(weight, Priority::Normal, id),
            weight,
        });
    }

    /// Restores invariant 4: grants to keys in turn for as long as the first fits.
    fn serve(&mut self, now: Timestamp, next: &mut Next<T>) {
        while let Some(id) = self.turns.next() {
            let Some(entry) = self.entries.get_mut(id) else {
                debug_assert!(false, "a key is kept while somebody waits for it");
                continue;
            };
            entry.turn = None;
            let Some(waiter) = entry.queue.next() else {
                debug_assert!(false, "the head of a key's line fits its limit (3)");
                continue;
            };
            let figures = entry.figures(&mut self.others);
            figures.acquired += 1;
            figures.wait.record(now - waiter.since, 1);
            let granted = Granted {
                key: id,
                weight: waiter.weight,
                since: now,
            };
            next.push((waiter.request, Ok(granted)));
            self.update_turn(id);
        }
    }

    // --- Looking ---

    pub(super) fn load(&self, key: &K) -> Load {
        self.load_of(self.ids.get(key).copied().unwrap_or_default())
    }

    pub(super) fn load_of(&self, id: KeyId) -> Load {
        let entry = self.entries.get(id);
        let slots = entry.map(|entry| entry.queue.capacity());
        Load {
            in_flight: slots.map_or(0, Slots::taken),
            limit: slots.map_or(self.default_limit, Slots::limit),
            queued: entry.map_or(0, |entry| entry.queue.len()),
            total_in_flight: self.turns.capacity().taken(),
            global_limit: self.global_limit,
        }
    }

    pub(super) fn snapshot(&self) -> LimiterSnapshot<K> {
        let mut total = Figures::default();
        total.add(&self.others);
        let mut keys = Vec::with_capacity(self.entries.len());
        for entry in self.entries.values() {
            let own = entry.own.as_ref().map(|own| &own.figures);
            own.inspect(|figures| total.add(figures));
            keys.push(KeySnapshot {
                key: entry.key.clone(),
                limit: entry.queue.capacity().limit(),
                in_flight: entry.queue.capacity().taken(),
                queued: entry.queue.len(),
                figures: own.map(Figures::show),
            });
        }
        LimiterSnapshot {
            in_flight: self.turns.capacity().taken(),
            global_limit: self.global_limit,
            queued: keys.iter().map(|key| key.queued).sum(),
            total: total.show(),
            keys,
        }
    }

    /// Who waits at this place of a key's line, from 1.
    #[cfg(loom)]
    pub(super) fn waiting_at(&self, key: &K, place: usize) -> Option<Place> {
        let key = *self.ids.get(key)?;
        let mut waiting = self.entries.get(key)?.queue.waiting();
        let (ticket, _) = waiting.nth(place.checked_sub(1)?)?;
        Some(Place { key, ticket })
    }
}

impl<K, T> Entry<K, T> {
    /// How many slots there are at any time.
    fn least_limit(&self) -> usize {
        let adaptive = self.own.as_ref().and_then(|own| own.adaptive.as_ref());
        adaptive.map_or(self.queue.capacity().limit(), Adaptive::least)
    }

    fn figures<'a>(&'a mut self, others: &'a mut Figures) -> &'a mut Figures {
        match &mut self.own {
            Some(own) => &mut own.figures,
            None => others,
        }
    }

    /// Has an adaptive limit follow what a call shows.
    fn learn(&mut self, sample: Sample) {
        let own = self.own.as_mut();
        if let Some(adaptive) = own.and_then(|own| own.adaptive.as_mut()) {
            adaptive.take_in(sample);
            self.queue.capacity_mut().set_limit(adaptive.limit());
        }
    }
}

#[cfg(test)]
mod tests;
