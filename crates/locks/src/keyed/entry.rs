//! One active key: its holder, its waiters, and the operations on it.

use std::sync::Arc;

use super::execution::Joiner;
use super::shard::ShardState;
use crate::id::OwnerId;
use crate::key_table::{KeyEntry, KeyId};
use crate::queue::{Priority, Ticket, WaitList};
use crate::request::{Holder, Requester, Waiter, Waiting};
use crate::sampling::HoldStart;
use crate::time::MonotonicTime;
use crate::wait::HowToWait;
use crate::{LockError, LockInfo, QueueEntry};

/// A key that is held, with its holder and its waiters.
pub(super) type ActiveKey<K, V> = KeyEntry<K, KeyHolder<V>>;

/// A grant of a key, with the number of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) key: KeyId,
    pub(super) number: u64,
}

/// The position where a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyedPosition {
    /// In the queue of a key.
    Turn(KeyId, Ticket),
    /// Among the requests for the result of the task that held the key at that moment.
    Join(KeyId, Ticket),
    /// For all requests of a shard with a lower number.
    Drain(u64),
}

/// The holder of a key, with the number of its request and the queues of the key. The first waiter
/// sets these. They are kept until the key is idle, because tickets name positions in them.
pub(super) type KeyHolder<V> = Holder<Option<Box<KeyQueues<V>>>, u64>;

/// The two queues of a key: requests for the key, and requests for the result of its task. The end
/// of a task grants the first request of the one, and answers all requests of the other.
pub(super) struct KeyQueues<V> {
    pub(super) turns: WaitList<Waiter>,
    pub(super) joins: WaitList<Waiter<dyn Joiner<V>>>,
}

/// A wait for all requests of a shard that have a lower number.
pub(super) struct Drain {
    pub(super) waiter: Waiter,
    /// How many of them have not left, and have a higher number than the wait for all before this.
    pub(super) left: usize,
}

impl<V> KeyHolder<V> {
    /// Makes the request the holder. Its source is written in place, see
    /// [`RequestSource::assign`].
    #[inline(always)]
    pub(super) fn begin(&mut self, number: u64, requester: &Requester<'_>, since: HoldStart) {
        self.grant = number;
        self.source.assign(requester);
        self.since = since;
    }

    /// Drops every value that owns memory.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if self.more.is_some() {
            self.more = None;
        }
        self.source.forget();
    }

    pub(super) fn queues(&mut self) -> &mut KeyQueues<V> {
        // No request overtakes another.
        self.more.get_or_insert_with(|| {
            Box::new(KeyQueues {
                turns: WaitList::new(0),
                joins: WaitList::new(0),
            })
        })
    }

    pub(super) fn waiting(&self) -> usize {
        self.more.as_ref().map_or(0, |queues| queues.turns.len())
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let queues = self.more.iter();
        let turns = queues.flat_map(|queues| queues.turns.iter(None));
        turns.map(|(_, waiter)| waiter)
    }
}

pub(super) struct Active<'a, K, V> {
    pub(super) entry: &'a mut ActiveKey<K, V>,
    pub(super) state: &'a mut ShardState,
}

impl<K, V> Active<'_, K, V> {
    /// Refuses a request that would wait for its own thread.
    pub(super) fn refuse_reentry(
        &mut self,
        owner: &OwnerId,
        thread: u64,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        if thread == 0 || self.entry.state.source.thread != thread {
            return Ok(());
        }
        self.state.counts.total_refusals += 1;
        Err(LockError::Reentrant {
            owner: owner.clone(),
            holder: Box::new(self.current(now)),
        })
    }

    /// Refuses a request that may not wait, or that finds the queue full.
    pub(super) fn refuse_waiting(
        &mut self,
        owner: &OwnerId,
        how: HowToWait,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        let waiting = self.entry.state.waiting();
        if how.may_wait(waiting) {
            return Ok(());
        }
        let holder = how.is_at_once().then(|| Box::new(self.current(now)));
        Err(how.refuse(owner, waiting, holder, &mut self.state.counts))
    }

    pub(super) fn join_queue(
        &mut self,
        request: Arc<dyn Waiting>,
        now: MonotonicTime,
    ) -> (KeyedPosition, Hold) {
        let key = self.entry.id;
        let waiter = self.waiter(request, now);
        let number = waiter.number;
        self.state.present += 1;
        let turns = &mut self.entry.state.queues().turns;
        let ticket = turns.join(Priority::Normal, waiter);
        (KeyedPosition::Turn(key, ticket), Hold { key, number })
    }

    /// Joins the task that is executed, to wait for its result.
    pub(super) fn join_task(
        &mut self,
        request: Arc<dyn Joiner<V>>,
        now: MonotonicTime,
    ) -> KeyedPosition {
        self.state.joins += 1;
        let waiter = self.waiter(request, now);
        let joins = &mut self.entry.state.queues().joins;
        let ticket = joins.join(Priority::Normal, waiter);
        KeyedPosition::Join(self.entry.id, ticket)
    }

    /// Creates a waiter. The hold of the holder is measured from here on.
    fn waiter<R: ?Sized>(&mut self, request: Arc<R>, now: MonotonicTime) -> Waiter<R> {
        self.entry.state.since.observe(now);
        self.state.waiter(request, now)
    }

    /// Returns the holder of the key. The hold is measured from here on.
    pub(super) fn current(&mut self, now: MonotonicTime) -> LockInfo {
        let holder = &mut self.entry.state;
        holder.since.observe(now);
        holder.info_of(self.state.grant(holder.grant), now)
    }

    pub(super) fn queue(&self, now: MonotonicTime) -> impl Iterator<Item = QueueEntry> {
        let positions = self.entry.state.waiters().zip(1..);
        positions.map(move |(waiter, position)| waiter.entry(self.state.lock, position, now))
    }
}
