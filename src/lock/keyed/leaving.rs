//! How a request leaves its queue without a grant.

use super::entry::{Stand, Turn, Waiter};
use super::shard::Shard;
use crate::lock::error::TimeoutEvidence;
use crate::lock::evidence::Withdrawn;
use crate::lock::request::{Asker, Outcome, Waiting};
use crate::lock::state::Next;
use crate::lock::wait::Reason;
use crate::lock::{LockError, LockInfo, QueueEntry};
use crate::time::Timestamp;

/// What a waiting request observes ahead of it.
struct View {
    place: usize,
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
        stand: Stand,
        reason: Reason,
        now: Timestamp,
    ) -> Option<Next> {
        let listed = match reason {
            Reason::Expired(_) => TimeoutEvidence::AHEAD,
            Reason::Cancelled => 0,
        };
        let view = self.view(stand, listed, now)?;
        let waiter = self.take_out(stand)?;
        let owner = waiter.request.asker().owner.clone();
        let counts = &mut self.book.counts;
        let error = match reason {
            Reason::Expired(limit) if limit.is_zero() => LockError::WouldBlock {
                owner,
                holder: Box::new(view.holder),
                waiting: view.waiting,
            },
            _ => {
                match reason {
                    Reason::Expired(_) => counts.timeouts += 1,
                    Reason::Cancelled => counts.cancellations += 1,
                }
                let withdrawn = Withdrawn {
                    id: self.book.id(waiter.number),
                    owner,
                    waited: now - waiter.since,
                    place: view.place,
                    ahead: view.ahead,
                    node: None,
                };
                withdrawn.because(reason, || view.holder)
            }
        };
        let failed = Outcome::Failed(Box::new(error));
        Some(Next::Tell(waiter.request, failed))
    }

    /// Removes a waiter from its queue if it is still there, without answering it.
    pub(super) fn leave(&mut self, stand: Stand) {
        self.take_out(stand);
    }

    /// Refuses a request that waits already, and waits for its own thread.
    pub(super) fn refuse_self(
        &mut self,
        stand: Stand,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<(), LockError> {
        let spot = match stand {
            Stand::Turn(spot, _) | Stand::Join(spot, _) if self.place(stand).is_some() => spot,
            _ => return Ok(()),
        };
        let refused = match self.active(spot) {
            Some(mut active) => active.refuse_reentry(asker, now),
            None => Ok(()),
        };
        refused.inspect_err(|_| self.leave(stand))
    }

    /// Returns the number of requests that must end before this one; `None` when it no longer
    /// waits.
    fn place(&self, stand: Stand) -> Option<usize> {
        match stand {
            Stand::Turn(spot, ticket) => {
                self.find(spot)?.holder.lines.as_ref()?.turns.place(ticket)
            }
            Stand::Join(spot, ticket) => {
                self.find(spot)?.holder.lines.as_ref()?.joins.place(ticket)
            }
            Stand::Drain { ticket, .. } => self.book.drains.as_ref()?.place(ticket),
        }
    }

    fn view(&mut self, stand: Stand, listed: usize, now: Timestamp) -> Option<View> {
        let ahead = self.place(stand)?;
        let (spot, place, listed) = match stand {
            Stand::Turn(spot, _) => (spot, ahead + 1, listed.min(ahead)),
            // All joined requests are answered together.
            Stand::Join(spot, _) => (spot, 1, 0),
            Stand::Drain { generation, .. } => {
                let first = self
                    .entries()
                    .filter(|entry| entry.holder.generation <= generation)
                    .min_by_key(|entry| entry.holder.number)?;
                (first.spot, self.book.there.left(generation), 0)
            }
        };
        let mut active = self.active(spot)?;
        Some(View {
            place,
            waiting: active.entry.holder.waiting(),
            ahead: active.queue(now).take(listed).collect(),
            holder: active.current(now),
        })
    }

    /// Removes a waiter. No other waiter needs an answer: a wait for all also waits for every
    /// request ahead in this queue.
    fn take_out(&mut self, stand: Stand) -> Option<Waiter<dyn Waiting>> {
        match stand {
            Stand::Turn(spot, ticket) => {
                let turns = &mut self.active(spot)?.entry.holder.lines.as_mut()?.turns;
                let Turn { waiter, generation } = turns.withdraw(ticket)?;
                let last = self.book.there.leave(generation);
                debug_assert!(!last, "the holder came in no later generation");
                Some(waiter)
            }
            Stand::Join(spot, ticket) => {
                let joins = &mut self.active(spot)?.entry.holder.lines.as_mut()?.joins;
                let Waiter {
                    number,
                    since,
                    request,
                } = joins.withdraw(ticket)?;
                Some(Waiter {
                    number,
                    since,
                    request,
                })
            }
            Stand::Drain { ticket, .. } => self.book.drains.as_mut()?.withdraw(ticket),
        }
    }
}
