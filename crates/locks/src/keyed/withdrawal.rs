//! How a request leaves its queue without a grant.

use std::time::Duration;

use super::entry::{Drain, KeyedPosition, KeyedWaiter};
use super::shard::Shard;
use crate::LockError;
use crate::error::TimeoutEvidence;
use crate::request::{Answer, RequestOutcome, Requester, Waiting};
use crate::time::MonotonicTime;
use crate::wait::Reason;

impl<K, V> Shard<K, V> {
    /// Removes a waiter from its queue and fails its request. Does nothing when it has already left
    /// the queue: then the earlier outcome counts.
    pub(super) fn withdraw(
        &mut self,
        waiting_at: KeyedPosition,
        reason: Reason,
        now: MonotonicTime,
    ) -> Option<Answer> {
        let ahead = self.position(waiting_at)?;
        let (key, position, listed) = match (waiting_at, reason) {
            (KeyedPosition::Turn(key, _), Reason::Expired(_)) => {
                (key, ahead + 1, ahead.min(TimeoutEvidence::AHEAD))
            }
            (KeyedPosition::Turn(key, _), Reason::Cancelled) => (key, ahead + 1, 0),
            // All joined requests are answered together.
            (KeyedPosition::Join(key, _), _) => (key, 1, 0),
            (KeyedPosition::Drain(_), _) => {
                let first = self.entries().min_by_key(|entry| entry.state.number)?;
                (first.id, ahead, 0)
            }
        };
        let mut active = self.active(key)?;
        let waiting = active.entry.state.waiting();
        let ahead = active.queue(now).take(listed).collect();
        let holder = active.current(now);
        let waiter = self.take_out(waiting_at)?;
        let owner = waiter.request.head().requester().owner.clone();
        let counts = &mut self.state.counts;
        let error = match reason {
            Reason::Expired(limit) if limit.is_zero() => LockError::WouldBlock {
                owner,
                holder: Box::new(holder),
                waiting,
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
                    position,
                    holder,
                    ahead,
                    node: None,
                };
                evidence.because(reason)
            }
        };
        let failed = RequestOutcome::Failed(Box::new(error));
        Some((waiter.request, failed))
    }

    pub(super) fn each_waiting(&self, mut visit: impl FnMut(KeyedPosition, &dyn Waiting)) {
        for entry in self.entries() {
            let Some(queues) = &entry.state.queues else {
                continue;
            };
            for (ticket, waiter) in queues.turns.iter(None) {
                visit(KeyedPosition::Turn(entry.id, ticket), &*waiter.request);
            }
            for (ticket, waiter) in queues.joins.iter(None) {
                visit(KeyedPosition::Join(entry.id, ticket), &*waiter.request);
            }
        }
        for Drain { waiter, .. } in &self.state.drains {
            visit(KeyedPosition::Drain(waiter.number), &*waiter.request);
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
        let active = self.active(key);
        let refused = active.map_or(Ok(()), |mut active| active.refuse_reentry(requester, now));
        refused.inspect_err(|_| drop(self.take_out(waiting_at)))
    }

    /// Returns the number of requests that must end before this one; `None` when it no longer
    /// waits.
    fn position(&self, waiting_at: KeyedPosition) -> Option<usize> {
        let queues = |key| self.find(key)?.state.queues.as_ref();
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => queues(key)?.turns.ahead_of(ticket),
            KeyedPosition::Join(key, ticket) => queues(key)?.joins.ahead_of(ticket),
            KeyedPosition::Drain(number) => {
                let mut drains = self.state.drains.iter();
                Some(drains.find(|drain| drain.waiter.number == number)?.left)
            }
        }
    }

    /// Removes a waiter from its queue if it is still there, without answering it. No other waiter
    /// needs an answer: a wait for all also waits for every request ahead in this queue.
    pub(super) fn take_out(
        &mut self,
        waiting_at: KeyedPosition,
    ) -> Option<KeyedWaiter<dyn Waiting>> {
        match waiting_at {
            KeyedPosition::Turn(key, ticket) => {
                let turns = &mut self.active(key)?.entry.state.queues.as_mut()?.turns;
                let waiter = turns.remove(ticket)?;
                let last = self.state.leave(waiter.number);
                debug_assert!(!last, "the holder came before it");
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
            KeyedPosition::Drain(number) => {
                let drains = &mut self.state.drains;
                let at = drains
                    .iter()
                    .position(|drain| drain.waiter.number == number)?;
                Some(drains.remove(at).waiter)
            }
        }
    }
}
