//! One active key: who holds it, and who waits.

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

/// Names an entry for as long as its key stays active, and never another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Of the key.
    pub(super) hash: u64,
    /// The number of the request that made the key active.
    pub(super) began: u64,
}

/// A key that is held, by the request of that number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) spot: Spot,
    pub(super) number: u64,
}

/// Where a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// For its turn at a key.
    Turn(Spot, Ticket),
    /// For the result of the task that held the key when it came.
    Join(Spot, Ticket),
    /// For all of a shard that came no later than this generation.
    Drain {
        shard: usize,
        generation: u64,
        ticket: Ticket,
    },
}

/// Small, because it is moved into the table and out of it; the rest lies in a box that is used
/// again.
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
    /// Since somebody had to wait. Kept until the key is idle, because tickets name places in these
    /// queues.
    pub(super) lines: Option<Box<Lines<V>>>,
}

/// The two lines at a key. Both stand before its holder; whom the end of its task lets pass
/// differs: the first of those who wait for their turn, all of those who wait for its result.
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
    /// Whether it is that of a key. Only keys that have one hash are compared.
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
    pub(super) fn nobody() -> Self {
        Self {
            number: 0,
            generation: 0,
            claim: Claim::nobody(),
            since: Since::default(),
            lines: None,
        }
    }

    /// Makes it whoever asks. Every field is written to its place at once, see [`Claim::assign`].
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

    /// Leaves nothing in memory that has a size of its own.
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

    /// How many wait for their turn.
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
        // Turns of one key are granted in the order of their numbers.
        Grant::new(LockId { number, lock }, FencingToken(number), false)
    }
}

impl<V> Default for Lines<V> {
    /// The lines at a key that is held. Nobody overtakes anybody.
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
    /// Who waits for the result of the task that ends now. Whoever joins from here on waits for the
    /// next.
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

    /// Whose turn is next. It holds the key now.
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
