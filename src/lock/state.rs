//! What the mutex of a [`FifoLock`](super::FifoLock) guards: the line, the holder and the figures.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use smol_str::SmolStr;

use super::error::{CancelEvidence, TimeoutEvidence};
use super::parker::Parker;
use super::stats::{LockStats, Recorder};
use super::{Grant, JoinError, LockError, LockInfo, QueueEntry, ReleaseError};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::queue::{Exclusive, Priority, Queue, Ticket};
use crate::time::Timestamp;

/// By how many later requests one may be overtaken for each level that their priority is above its own.
const OVERTAKING: u32 = 64;

/// What a waiter is told, exactly once.
pub(super) type Outcome = Result<Grant, LockError>;

/// Who asks, in the part that is the same before and after the grant.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) owner: OwnerId,
    pub(super) label: Option<SmolStr>,
    /// The thread that would wait for itself if it asked again; zero for none.
    pub(super) thread: u64,
    /// Whether the grant goes to a transaction, which alone may end it.
    pub(super) transaction: bool,
}

#[derive(Debug)]
pub(super) struct Waiter {
    id: LockId,
    claim: Claim,
    since: Timestamp,
    limit: Option<Duration>,
    parker: Arc<Parker<Outcome>>,
}

#[derive(Debug)]
struct Holder {
    grant: Grant,
    claim: Claim,
    since: Timestamp,
    transaction: Joined,
}

/// The transaction that was begun under a grant which it does not own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    None,
    Open {
        /// Whose thread would wait for itself if it asked for the lock, whoever acquired it.
        thread: u64,
        /// The grant's owner is gone; the lock is released when the transaction ends.
        last: bool,
    },
}

/// An outcome to be delivered once the mutex is free again.
#[must_use]
pub(super) struct Wakeup {
    parker: Arc<Parker<Outcome>>,
    outcome: Outcome,
}

impl Wakeup {
    pub(super) fn deliver(self) {
        self.parker.deliver(self.outcome);
    }
}

/// Why a waiter leaves the line without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Expired,
    Cancelled,
}

/// The steps of the uncontended path are always inlined: as calls they pass their parts over the stack, which costs
/// a third of that path (docs/performance.md, "The lock").
#[derive(Debug)]
pub(super) struct State {
    queue: Queue<Exclusive, Waiter>,
    /// Who took the capacity of `queue`.
    holder: Option<Holder>,
    /// Which lock this is, in its ids.
    lock: u32,
    requests: u64,
    grants: u64,
    pub(super) wait_limit: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
    pub(super) figures: Recorder,
}

impl State {
    pub(super) fn new(lock: u32, wait_limit: Option<Duration>, queue_bound: Option<usize>) -> Self {
        Self {
            queue: Queue::new(Exclusive::default(), OVERTAKING),
            holder: None,
            lock,
            requests: 0,
            grants: 0,
            wait_limit,
            queue_bound,
            figures: Recorder::default(),
        }
    }

    /// Whether a request could be granted at once: nobody holds, hence nobody waits.
    pub(super) fn try_take(&mut self) -> bool {
        self.queue.try_take(&())
    }

    fn next_id(&mut self) -> LockId {
        self.requests += 1;
        LockId {
            number: self.requests,
            lock: self.lock,
        }
    }

    /// Makes the claim the holder after [`State::try_take`] succeeded.
    #[inline(always)]
    pub(super) fn hold_at_once(&mut self, claim: Claim, now: Timestamp) -> Grant {
        self.figures.wait.record_zero();
        let id = self.next_id();
        self.hold(id, claim, now)
    }

    #[inline(always)]
    fn hold(&mut self, id: LockId, claim: Claim, now: Timestamp) -> Grant {
        debug_assert!(self.holder.is_none(), "granted beside a holder");
        self.grants += 1;
        self.figures.acquisitions += 1;
        let grant = Grant {
            id,
            token: FencingToken(self.grants),
        };
        let transaction = match claim.transaction {
            true => Joined::Open {
                thread: claim.thread,
                last: true,
            },
            false => Joined::None,
        };
        self.holder = Some(Holder {
            grant,
            claim,
            since: now,
            transaction,
        });
        grant
    }

    /// Refuses a request that would wait for its own thread.
    pub(super) fn refuse_reentry(
        &mut self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<(), LockError> {
        match &self.holder {
            Some(holder) if claim.thread != 0 && holder.is_held_by(claim.thread) => {
                self.figures.refusals += 1;
                Err(LockError::Reentrant {
                    owner: claim.owner.clone(),
                    holder: Box::new(holder.info(now)),
                })
            }
            _ => Ok(()),
        }
    }

    /// Rejects a request that finds the line full.
    pub(super) fn reject_excess(
        &mut self,
        claim: &Claim,
        bound: Option<usize>,
    ) -> Result<(), LockError> {
        let bound = [bound, self.queue_bound].into_iter().flatten().min();
        let waiting = self.queue.len();
        match bound {
            Some(bound) if waiting >= bound => {
                self.figures.rejections += 1;
                Err(LockError::QueueFull {
                    owner: claim.owner.clone(),
                    waiting,
                    bound,
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn would_block(&self, claim: &Claim, now: Timestamp) -> LockError {
        LockError::WouldBlock {
            owner: claim.owner.clone(),
            holder: Box::new(self.holder_info(now)),
            waiting: self.queue.len(),
        }
    }

    pub(super) fn join_line(
        &mut self,
        claim: Claim,
        limit: Option<Duration>,
        now: Timestamp,
        parker: Arc<Parker<Outcome>>,
    ) -> Ticket {
        let id = self.next_id();
        let waiter = Waiter {
            id,
            claim,
            since: now,
            limit,
            parker,
        };
        self.queue.join((), Priority::Normal, waiter)
    }

    /// Takes a waiter out of the line; `None` when it no longer stands there, because it was granted or
    /// withdrawn before: then that outcome counts.
    pub(super) fn withdraw(
        &mut self,
        ticket: Ticket,
        reason: Reason,
        now: Timestamp,
    ) -> Option<Wakeup> {
        let ahead = self.queue.place(ticket)?;
        let listed = match reason {
            Reason::Expired => ahead.min(TimeoutEvidence::AHEAD),
            Reason::Cancelled => 0,
        };
        let entries = self.entries(now).take(listed).collect();
        let waiter = self.queue.withdraw(ticket)?;
        let waited = now - waiter.since;
        let place = ahead + 1;
        let error = match reason {
            Reason::Expired => {
                self.figures.timeouts += 1;
                LockError::Timeout(Box::new(TimeoutEvidence {
                    id: waiter.id,
                    owner: waiter.claim.owner,
                    limit: waiter.limit.unwrap_or(waited),
                    // The limit went by another clock than the figures.
                    waited: waited.max(waiter.limit.unwrap_or_default()),
                    place,
                    holder: self.holder_info(now),
                    ahead: entries,
                }))
            }
            Reason::Cancelled => {
                self.figures.cancellations += 1;
                LockError::Cancelled(Box::new(CancelEvidence {
                    owner: waiter.claim.owner,
                    waited,
                    stood: Some((waiter.id, place)),
                }))
            }
        };
        Some(Wakeup {
            parker: waiter.parker,
            outcome: Err(error),
        })
    }

    /// Ends the grant if `id` names it; the next in line becomes the holder in the same step.
    #[inline(always)]
    pub(super) fn release(
        &mut self,
        id: LockId,
        now: Timestamp,
    ) -> Result<Option<Ended>, ReleaseError> {
        match &self.holder {
            None => Ok(None),
            Some(holder) if holder.grant.id != id => Err(ReleaseError::Mismatch {
                expected: holder.grant.id,
                got: id,
            }),
            Some(holder) if holder.transaction != Joined::None => {
                Err(ReleaseError::TransactionOpen { id })
            }
            Some(holder) => {
                self.figures.releases += 1;
                self.figures.hold.record(now - holder.since);
                self.holder = None;
                self.queue.give_back(&());
                Ok(Some(Ended {
                    next: self.grant_next(now),
                }))
            }
        }
    }

    /// Ends the grant, or leaves that to the transaction that is open under it.
    pub(super) fn release_or_defer(&mut self, id: LockId, now: Timestamp) -> Option<Wakeup> {
        match self.release(id, now) {
            Ok(ended) => ended?.next,
            Err(ReleaseError::TransactionOpen { .. }) => {
                if let Some(Holder {
                    transaction: Joined::Open { last, .. },
                    ..
                }) = &mut self.holder
                {
                    *last = true;
                }
                None
            }
            Err(ReleaseError::Mismatch { .. }) => None,
        }
    }

    fn grant_next(&mut self, now: Timestamp) -> Option<Wakeup> {
        let waiter = self.queue.next()?;
        self.figures.wait.record(now - waiter.since);
        let grant = self.hold(waiter.id, waiter.claim, now);
        Some(Wakeup {
            parker: waiter.parker,
            outcome: Ok(grant),
        })
    }

    /// Opens a transaction under a grant that it does not own.
    pub(super) fn join_grant(
        &mut self,
        id: LockId,
        thread: u64,
    ) -> Result<(OwnerId, Grant), JoinError> {
        match &mut self.holder {
            None => Err(JoinError::NotHeld { got: id }),
            Some(holder) if holder.grant.id != id => Err(JoinError::Mismatch {
                expected: holder.grant.id,
                got: id,
            }),
            Some(holder) if holder.transaction != Joined::None => {
                Err(JoinError::TransactionOpen { id })
            }
            Some(holder) => {
                holder.transaction = Joined::Open {
                    thread,
                    last: false,
                };
                Ok((holder.claim.owner.clone(), holder.grant))
            }
        }
    }

    /// Closes the transaction that [`State::join_grant`] opened.
    pub(super) fn part_from_grant(&mut self, id: LockId, now: Timestamp) -> Option<Wakeup> {
        let holder = self
            .holder
            .as_mut()
            .filter(|holder| holder.grant.id == id)?;
        let before = std::mem::replace(&mut holder.transaction, Joined::None);
        match before {
            Joined::Open { last: true, .. } => self.release_or_defer(id, now),
            _ => None,
        }
    }

    pub(super) fn current(&self, now: Timestamp) -> Option<LockInfo> {
        self.holder.as_ref().map(|holder| holder.info(now))
    }

    pub(super) fn is_locked(&self) -> bool {
        self.holder.is_some()
    }

    fn holder_info(&self, now: Timestamp) -> LockInfo {
        self.current(now)
            .expect("somebody holds while anybody waits (queue, invariant 2)")
    }

    pub(super) fn queue_length(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn entries(&self, now: Timestamp) -> impl Iterator<Item = QueueEntry> {
        let waiting = self.queue.waiting().enumerate();
        waiting.map(move |(ahead, (_, waiter))| QueueEntry {
            lock_id: waiter.id,
            owner_id: waiter.claim.owner.clone(),
            wait_time: now - waiter.since,
            place: ahead + 1,
            label: waiter.claim.label.clone(),
        })
    }

    #[cfg(loom)]
    pub(super) fn ticket_of(&self, owner: &OwnerId) -> Option<Ticket> {
        let mut waiting = self.queue.waiting();
        waiting
            .find(|(_, waiter)| waiter.claim.owner == *owner)
            .map(|(ticket, _)| ticket)
    }

    pub(super) fn stats(&self, now: Timestamp) -> LockStats {
        self.figures
            .stats(self.current(now), self.entries(now).collect())
    }
}

/// A grant that ended, and the waiter to whom the lock went.
pub(super) struct Ended {
    pub(super) next: Option<Wakeup>,
}

impl Holder {
    fn is_held_by(&self, thread: u64) -> bool {
        let joined = match self.transaction {
            Joined::Open { thread, .. } => Some(thread),
            Joined::None => None,
        };
        self.claim.thread == thread || joined == Some(thread)
    }

    fn info(&self, now: Timestamp) -> LockInfo {
        let held_for = now - self.since;
        LockInfo {
            lock_id: self.grant.id,
            owner_id: self.claim.owner.clone(),
            fencing_token: self.grant.token,
            acquired_at: SystemTime::now()
                .checked_sub(held_for)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            label: self.claim.label.clone(),
        }
    }
}
