//! One active key: its holder and its waiters.

use std::borrow::Borrow;
use std::sync::Arc;

use super::execution::Joiner;
use crate::id::{FencingToken, LockId};
use crate::lock::request::{Asker, Claim, Waiting};
use crate::lock::since::Since;
use crate::lock::tempo::Measured;
use crate::lock::{Grant, LockInfo, QueueEntry};
use crate::queue::{Exclusive, Queue, Ticket};
use crate::sync::key_code;
use crate::time::Timestamp;

/// Identifies an entry while its key stays active. Never reused for another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The hash of the key.
    pub(super) hash: u64,
    /// The number of the request that made the key active.
    pub(super) began: u64,
}

/// A grant of a key, with the number of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) spot: Spot,
    pub(super) number: u64,
}

/// The position where a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// In the queue of a key.
    Turn(Spot, Ticket),
    /// Among the requests for the result of the task that held the key at that moment.
    Join(Spot, Ticket),
    /// For all requests of a shard up to this epoch.
    Drain {
        shard: usize,
        generation: u64,
        ticket: Ticket,
    },
}

/// Small, because it is moved into the table and out of it. The rest is in a box that is reused.
pub(super) struct Entry<K, V> {
    pub(super) spot: Spot,
    pub(super) key: K,
    pub(super) holder: Box<Holder<V>>,
}

pub(super) struct Holder<V> {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) claim: Claim,
    pub(super) since: Since,
    /// Set by the first waiter. Kept until the key is idle, because tickets name positions in these
    /// queues.
    pub(super) lines: Option<Box<Lines<V>>>,
}

/// The two queues of a key: requests for the key, and requests for the result of its task. The end
/// of a task grants the first request of the one, and answers all requests of the other.
pub(super) struct Lines<V> {
    pub(super) turns: Queue<Exclusive, Turn>,
    pub(super) joins: Queue<Exclusive, Waiter<dyn Joiner<V>>>,
}

pub(super) struct Turn {
    pub(super) waiter: Waiter<dyn Waiting>,
    pub(super) generation: u64,
}

pub(super) struct Waiter<R: ?Sized> {
    pub(super) number: u64,
    pub(super) since: Timestamp,
    pub(super) request: Arc<R>,
}

impl<K, V> Entry<K, V> {
    /// Whether the entry is that of `key`. Only keys with the same hash are compared.
    #[inline(always)]
    pub(super) fn is<Q>(&self, hash: u64, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.spot.hash == hash && key_code::run(|| self.key.borrow() == key)
    }
}

impl<V> Holder<V> {
    pub(super) fn vacant() -> Self {
        Self {
            number: 0,
            generation: 0,
            claim: Claim::vacant(),
            since: Since::default(),
            lines: None,
        }
    }

    /// Makes the request the holder. Every field is written in place, see [`Claim::assign`].
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        number: u64,
        generation: u64,
        asker: &Asker<'_>,
        measured: Option<Measured>,
    ) {
        self.number = number;
        self.generation = generation;
        self.claim.assign(asker);
        self.since.begin(measured);
    }

    /// Drops every value that owns memory.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if self.lines.is_some() {
            self.lines = None;
        }
        self.claim.forget();
    }

    pub(super) fn lines(&mut self) -> &mut Lines<V> {
        self.lines.get_or_insert_with(Box::default)
    }

    /// Returns how many requests wait for the key.
    pub(super) fn waiting(&self) -> usize {
        self.lines.as_ref().map_or(0, |lines| lines.turns.len())
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter<dyn Waiting>> {
        let turns = self.lines.iter().flat_map(|lines| lines.turns.waiting());
        turns.map(|(_, turn)| &turn.waiter)
    }

    pub(super) fn info(&self, lock: u32, now: Timestamp) -> LockInfo {
        let held_for = self.since.lasted(now);
        LockInfo::of(self.grant(lock), &self.claim, held_for, self.since.exact)
    }

    pub(super) fn grant(&self, lock: u32) -> Grant {
        let number = self.number;
        // Grants of one key have rising numbers.
        Grant::new(LockId { number, lock }, FencingToken(number), false)
    }
}

impl<V> Default for Lines<V> {
    /// Creates the queues of a key that is held. No request overtakes another.
    fn default() -> Self {
        let mut lines = Self {
            turns: Queue::new(Exclusive::default(), 0),
            joins: Queue::new(Exclusive::default(), 0),
        };
        let taken = lines.turns.try_take(&()) && lines.joins.try_take(&());
        debug_assert!(taken, "a new line is free");
        lines
    }
}

impl<V> Lines<V> {
    /// Returns the requests for the result of the task that ends now. Later requests wait for the
    /// next task.
    pub(super) fn part(&mut self) -> Vec<Arc<dyn Joiner<V>>> {
        let mut joiners = Vec::new();
        self.joins.give_back(&());
        while let Some(waiter) = self.joins.next() {
            joiners.push(waiter.request);
            self.joins.give_back(&());
        }
        let taken = self.joins.try_take(&());
        debug_assert!(taken, "all who waited have passed");
        joiners
    }

    /// Grants the key to the next request in the queue.
    pub(super) fn without_combining(&mut self) -> Option<Turn> {
        self.turns.give_back(&());
        self.turns.next()
    }
}

impl<R: Waiting + ?Sized> Waiter<R> {
    pub(super) fn entry(&self, lock: u32, place: usize, now: Timestamp) -> QueueEntry {
        let number = self.number;
        let id = LockId { number, lock };
        QueueEntry::of(id, &self.request.asker(), now - self.since, place)
    }
}
