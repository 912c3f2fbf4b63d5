//! How a request leaves its line without a grant.

use super::entry::{Stand, Turn, Waiter};
use super::shard::Shard;
use crate::lock::error::TimeoutEvidence;
use crate::lock::evidence::Withdrawn;
use crate::lock::request::{Asker, Outcome, Waiting};
use crate::lock::state::Next;
use crate::lock::wait::Reason;
use crate::lock::{LockError, LockInfo, QueueEntry};
use crate::time::Timestamp;

/// What somebody who waits sees before it.
struct View {
    place: usize,
    /// How many wait for a turn where it stands.
    waiting: usize,
    holder: LockInfo,
    ahead: Vec<QueueEntry>,
}

impl<K, V> Shard<K, V> {
    /// Takes a waiter out of its line, and tells it so. Nothing is told when it no longer stands
    /// there: then the outcome that took it out counts.
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

    /// Takes a waiter out of its line if it still stands there, without telling it.
    pub(super) fn leave(&mut self, stand: Stand) {
        self.take_out(stand);
    }

    /// Refuses one that waits already, and waits for the thread that asks.
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

    /// Who has to go before this one does; `None` when it no longer waits.
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
            // All who join are told together.
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

    /// Takes a waiter out. Nobody else has to be told: who waits for all waits for whoever is ahead
    /// in this line as well.
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
