//! How a request leaves its queue without a grant.

use std::time::Duration;

use super::entry::{KeyedPosition, KeyedWaiter, QueuedTurn};
use super::shard::Shard;
use crate::error::TimeoutEvidence;
use crate::request::{Answer, RequestOutcome, Requester, Waiting};
use crate::time::MonotonicTime;
use crate::wait::Reason;
use crate::{LockError, LockInfo, QueueEntry};

/// What a waiting request observes ahead of it.
struct QueueView {
    position: usize,
    /// How many requests wait in the same queue.
    waiting: usize,
    holder: LockInfo,
    ahead: Vec<QueueEntry>,
}

impl<K, V> Shard<K, V> {
    /// Removes a waiter from its queue and fails its request. Does nothing when it has already left
    /// the queue: then the earlier outcome counts.
    pub(super) fn withdraw(
        &mut self,
        waiting_at: KeyedPosition,
        reason: Reason,
        now: MonotonicTime,
    ) -> Option<Answer> {
        let listed = match reason {
            Reason::Expired(_) => TimeoutEvidence::AHEAD,
            Reason::Cancelled => 0,
        };
        let view = self.view(waiting_at, listed, now)?;
        let waiter = self.take_out(waiting_at)?;
        let owner = waiter.request.head().requester().owner.clone();
        let counts = &mut self.state.counts;
        let error = match reason {
            Reason::Expired(limit) if limit.is_zero() => LockError::WouldBlock {
                owner,
                holder: Box::new(view.holder),
                waiting: view.waiting,
            },
            _ => {
                match reason {
                    Reason::Expired(_) => counts.total_timeouts += 1,
                    Reason::Cancelled => counts.total_cancellations += 1,
                }
                let evidence = TimeoutEvidence {
                    id: self.state.id(waiter.number),
                    owner,
                    limit: Duration::ZERO,
                    waited: now - waiter.since,
                    position: view.position,
                    holder: view.holder,
                    ahead: view.ahead,
                    node: None,
                };
                evidence.because(reason)
            }
        };
        let failed = RequestOutcome::Failed(Box::new(error));
        Some((waiter.request, failed))
    }

    /// Removes a waiter from its queue if it is still there, without answering it.
    pub(super) fn leave(&mut self, waiting_at: KeyedPosition) {
        self.take_out(waiting_at);
    }

    /// Removes the waiter of a task that is gone, if it is still there, and counts it as cancelled.
    pub(super) fn abandon(&mut self, waiting_at: KeyedPosition) {
        if self.take_out(waiting_at).is_some() {
            self.state.counts.total_cancellations += 1;
        }
    }

    /// Visits all requests that wait.
    pub(super) fn each_waiting(&self, mut visit: impl FnMut(KeyedPosition, &dyn Waiting)) {
        for entry in self.entries() {
            let Some(queues) = &entry.state.queues else {
                continue;
            };
            for (ticket, turn) in queues.turns.iter(None) {
                visit(KeyedPosition::Turn(entry.id, ticket), &*turn.waiter.request);
            }
            for (ticket, waiter) in queues.joins.iter(None) {
                visit(KeyedPosition::Join(entry.id, ticket), &*waiter.request);
            }
        }
        let drains = self
            .state
            .drains
            .iter()
            .flat_map(|drains| drains.iter(None));
        for (ticket, drain) in drains {
            let waiting_at = KeyedPosition::Drain {
                shard: self.state.index(),
                epoch: drain.epoch,
                ticket,
            };
            visit(waiting_at, &*drain.waiter.request);
        }
    }

    /// Refuses a request that waits already, and waits for its own thread.
    pub(super) fn refuse_self(
        &mut self,
        waiting_at: KeyedPosition,
        requester: &Requester<'_>,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        let key = match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _)
                if self.position(waiting_at).is_some() =>
            {
                key
            }
            _ => return Ok(()),
        };
        let refused = match self.active(key) {
            Some(mut active) => active.refuse_reentry(requester, now),
            None => Ok(()),
        };
        refused.inspect_err(|_| self.leave(waiting_at))
    }

    /// Returns the number of requests that must end before this one; `None` when it no longer
    /// waits.
    fn position(&self, waiting_at: KeyedPosition) -> Option<usize> {
        let queues = |key| self.find(key)?.state.queues.as_ref();
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => queues(key)?.turns.ahead_of(ticket),
            KeyedPosition::Join(key, ticket) => queues(key)?.joins.ahead_of(ticket),
            KeyedPosition::Drain { ticket, .. } => self.state.drains.as_ref()?.ahead_of(ticket),
        }
    }

    fn view(
        &mut self,
        waiting_at: KeyedPosition,
        listed: usize,
        now: MonotonicTime,
    ) -> Option<QueueView> {
        let ahead = self.position(waiting_at)?;
        let (key, position, listed) = match waiting_at {
            KeyedPosition::Turn(key, _) => (key, ahead + 1, listed.min(ahead)),
            // All joined requests are answered together.
            KeyedPosition::Join(key, _) => (key, 1, 0),
            KeyedPosition::Drain { epoch, .. } => {
                let first = self
                    .entries()
                    .filter(|entry| entry.state.epoch <= epoch)
                    .min_by_key(|entry| entry.state.number)?;
                (first.id, self.state.present.left(epoch), 0)
            }
        };
        let mut active = self.active(key)?;
        Some(QueueView {
            position,
            waiting: active.entry.state.waiting(),
            ahead: active.queue(now).take(listed).collect(),
            holder: active.current(now),
        })
    }

    /// Removes a waiter. No other waiter needs an answer: a wait for all also waits for every
    /// request ahead in this queue.
    fn take_out(&mut self, waiting_at: KeyedPosition) -> Option<KeyedWaiter<dyn Waiting>> {
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => {
                let turns = &mut self.active(key)?.entry.state.queues.as_mut()?.turns;
                let QueuedTurn { waiter, epoch } = turns.remove(ticket)?;
                let last = self.state.present.leave(epoch);
                debug_assert!(!last, "the holder came in no later epoch");
                Some(waiter)
            }
            KeyedPosition::Join(key, ticket) => {
                let joins = &mut self.active(key)?.entry.state.queues.as_mut()?.joins;
                let KeyedWaiter {
                    number,
                    since,
                    request,
                } = joins.remove(ticket)?;
                Some(KeyedWaiter {
                    number,
                    since,
                    request,
                })
            }
            KeyedPosition::Drain { ticket, .. } => {
                let drain = self.state.drains.as_mut()?.remove(ticket)?;
                Some(drain.waiter)
            }
        }
    }
}
