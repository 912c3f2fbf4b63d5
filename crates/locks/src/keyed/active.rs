//! The operations on a key that is held.

use std::sync::Arc;
use std::time::Duration;

use super::entry::{ActiveKey, Hold, InEpoch, KeyedPosition, KeyedWaiter};
use super::join::Joiner;
use super::shard::ShardState;
use crate::queue::Priority;
use crate::request::{Requester, Waiting};
use crate::time::MonotonicTime;
use crate::{LockError, LockInfo, QueueEntry};

pub(super) struct Active<'a, K, V> {
    pub(super) entry: &'a mut ActiveKey<K, V>,
    pub(super) state: &'a mut ShardState,
}

impl<K, V> Active<'_, K, V> {
    /// Refuses a request that would wait for its own thread.
    pub(super) fn refuse_reentry(
        &mut self,
        requester: &Requester<'_>,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        if requester.thread == 0 || self.entry.state.source.thread != requester.thread {
            return Ok(());
        }
        self.state.counts.total_refusals += 1;
        Err(LockError::Reentrant {
            owner: requester.owner.clone(),
            holder: Box::new(self.current(now)),
        })
    }

    /// Refuses a request that may not wait, or that finds the queue full.
    pub(super) fn refuse_waiting(
        &mut self,
        requester: &Requester<'_>,
        limit: Option<Duration>,
        bound: usize,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        let waiting = self.entry.state.waiting();
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(LockError::WouldBlock {
                owner: requester.owner.clone(),
                holder: Box::new(self.current(now)),
                waiting,
            });
        }
        if waiting < bound {
            return Ok(());
        }
        self.state.counts.total_rejections += 1;
        Err(LockError::QueueFull {
            owner: requester.owner.clone(),
            waiting,
            bound,
        })
    }

    /// Joins the queue of the key.
    pub(super) fn join_queue(
        &mut self,
        request: Arc<dyn Waiting>,
        now: MonotonicTime,
    ) -> (KeyedPosition, Hold) {
        let key = self.entry.id;
        let waiter = self.waiter(request, now);
        let number = waiter.number;
        let epoch = self.state.present.arrive();
        let turn = InEpoch { waiter, epoch };
        let ticket = self.entry.state.queues().turns.join(Priority::Normal, turn);
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
    fn waiter<R: ?Sized>(&mut self, request: Arc<R>, now: MonotonicTime) -> KeyedWaiter<R> {
        self.entry.state.since.observe(now);
        self.state.waiter(request, now)
    }

    /// Returns the holder of the key. The hold is measured from here on.
    pub(super) fn current(&mut self, now: MonotonicTime) -> LockInfo {
        let holder = &mut self.entry.state;
        holder.since.observe(now);
        let grant = self.state.grant(holder.number);
        LockInfo::of(grant, &holder.source, holder.since, now)
    }

    /// Returns the requests that wait for the key, in queue order.
    pub(super) fn queue(&self, now: MonotonicTime) -> impl Iterator<Item = QueueEntry> {
        let positions = self.entry.state.waiters().zip(1..);
        positions.map(move |(waiter, position)| {
            let (id, waited) = (self.state.id(waiter.number), now - waiter.since);
            QueueEntry::of(id, &waiter.request.head().requester(), waited, position)
        })
    }
}
