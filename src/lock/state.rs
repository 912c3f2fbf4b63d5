//! What the mutex of a [`FifoLock`](super::FifoLock) guards: the line, the holder and the figures.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::{CancelEvidence, TimeoutEvidence};
use super::request::{Asker, Claim, Outcome, Verdict, Waiting};
use super::since::Since;
use super::stats::{LockStats, Recorder};
use super::tempo::{Measured, Tempo};
use super::wait::Reason;
use super::word::Held;
use super::{Grant, JoinError, LockError, LockInfo, QueueEntry, ReleaseError};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::queue::{Cursor, Exclusive, Priority, Queue, Ticket};
use crate::time::{Deadline, Timestamp};

/// The present, for steps after which somebody else may hold the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    /// When a hold that begins now has lasted too long.
    pub(super) overdue: Option<Deadline>,
}

struct Waiter {
    /// Of its id; the other part is the lock's.
    number: u64,
    since: Timestamp,
    request: Arc<dyn Waiting>,
}

#[derive(Debug)]
struct Holder {
    grant: Grant,
    claim: Claim,
    since: Since,
    /// When others may take the lock away.
    overdue: Option<Deadline>,
    /// It publishes, and cannot be revoked until it is done.
    sealed: bool,
    /// The transaction that was begun under a grant which it does not own.
    joined: Option<Joined>,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    /// Whose thread would wait for itself if it asked for the lock, whoever acquired it.
    thread: u64,
    /// The grant's owner is gone; the lock is released when the transaction ends.
    last: bool,
}

/// What is to be done once the mutex is free again, by whoever had it.
#[must_use]
pub(super) enum Next {
    /// Tell a waiter what became of its request.
    Tell(Arc<dyn Waiting>, Verdict),
    /// Do the work of the new holder.
    Serve(Arc<dyn Waiting>, Grant),
}

impl Next {
    /// Tells the waiter.
    pub(super) fn deliver(self) {
        match self {
            Self::Tell(request, verdict) => request.tell(verdict),
            Self::Serve(request, grant) => request.tell(Outcome::Granted(grant)),
        }
    }
}

/// The steps of the uncontended path are always inlined: as calls they pass their parts over the stack, which costs
/// a third of that path (docs/performance.md, "The lock").
pub(super) struct State {
    queue: Queue<Exclusive, Waiter>,
    /// Whether somebody took the capacity of `queue`.
    held: bool,
    /// Who did, or who did last: written over rather than made anew, see [`Claim::assign`].
    holder: Holder,
    /// What the lock's word was last set to under the mutex. Unless that is held and not pinned, it is so still.
    pub(super) shown: Option<Held>,
    /// Which lock this is, in its ids.
    lock: u32,
    requests: u64,
    grants: u64,
    /// The latest grants that were taken back and whose holders do not know it yet.
    revoked: VecDeque<LockId>,
    pub(super) tempo: Tempo,
    /// What a hold lasts, lately: a moving average over the measured ones.
    pub(super) pace: Duration,
    pub(super) wait_limit: Option<Duration>,
    pub(super) hold_limit: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
    pub(super) figures: Recorder,
}

/// Of so many waiters a dump makes notes at a time.
const PAGE: usize = 32;

/// So many revoked grants are remembered, to be told apart from ids that never were.
const REMEMBERED: usize = 256;

impl State {
    pub(super) fn new(lock: u32, overtaking: u32, tempo: Tempo) -> Self {
        Self {
            queue: Queue::new(Exclusive::default(), overtaking),
            held: false,
            holder: Holder::nobody(),
            shown: None,
            lock,
            requests: 0,
            grants: 0,
            revoked: VecDeque::new(),
            tempo,
            pace: Duration::ZERO,
            wait_limit: None,
            hold_limit: None,
            queue_bound: None,
            figures: Recorder::default(),
        }
    }

    // --- Grants ---

    /// Takes note of a hold that ended without the mutex. To be called before anything else when nobody holds.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.held) {
            self.figures.releases += 1;
            self.queue.give_back(&());
        }
    }

    /// Takes note that somebody looks, which is the least that is known of when an unmeasured hold began.
    pub(super) fn observe(&mut self, now: Timestamp) {
        self.holder.since.observe(now);
    }

    /// The holder, as the lock's word says it.
    #[inline(always)]
    pub(super) fn held(&self) -> Option<Held> {
        self.holder().map(|holder| Held {
            number: holder.grant.id().number,
            transaction: holder.claim.transaction,
            pinned: true,
        })
    }

    fn holder(&self) -> Option<&Holder> {
        self.held.then_some(&self.holder)
    }

    /// The holder, if its grant is the one that is named.
    fn holder_of(&mut self, id: LockId) -> Option<&mut Holder> {
        (self.held && self.holder.grant.id() == id).then_some(&mut self.holder)
    }

    fn next_id(&mut self) -> LockId {
        self.requests += 1;
        self.id(self.requests)
    }

    fn id(&self, number: u64) -> LockId {
        LockId {
            number,
            lock: self.lock,
        }
    }

    /// Makes whoever asks the holder at once. Nobody holds, hence nobody waits.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        asker: &Asker<'_>,
        measured: Option<Measured>,
        overdue: Option<Deadline>,
    ) -> Grant {
        let taken = self.queue.try_take(&());
        debug_assert!(
            taken,
            "nobody holds, but somebody waits (queue, invariant 2)"
        );
        self.holder.claim.assign(asker);
        let id = self.next_id();
        self.hold(id, measured, overdue)
    }

    /// Makes whoever claims it the holder.
    #[inline(always)]
    fn hold(&mut self, id: LockId, measured: Option<Measured>, overdue: Option<Deadline>) -> Grant {
        debug_assert!(!self.held, "granted beside a holder");
        self.held = true;
        self.grants += 1;
        self.figures.acquisitions += 1;
        let token = FencingToken(self.grants);
        let grant = Grant::new(id, token, overdue.is_some());
        self.holder.grant = grant;
        self.holder.since.begin(measured);
        if overdue.is_some() || self.holder.overdue.is_some() {
            self.holder.overdue = overdue;
        }
        self.holder.sealed = false;
        self.holder.joined = None;
        grant
    }

    /// Ends the hold; the next in line becomes the holder in the same step. Its work is left to be done by the thread
    /// `server`, if there is one and it can be.
    fn end(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        self.figures.releases += 1;
        self.vacate(now, server)
    }

    fn vacate(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        self.held = false;
        if let Some((since, weight)) = self.holder.since.known() {
            let hold = now.at - since;
            self.pace = (self.pace * 7 + hold) / 8;
            self.figures.hold.record(hold, weight);
        }
        self.queue.give_back(&());
        self.grant_next(now, server)
    }

    fn grant_next(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        let Waiter {
            number,
            since,
            request,
        } = self.queue.next()?;
        let id = self.id(number);
        self.figures.wait.record(now.at - since, 1);
        let server = server.filter(|_| request.is_errand());
        let asker = request.asker();
        self.holder.claim.assign(&Asker {
            thread: server.unwrap_or(asker.thread),
            ..asker
        });
        let grant = self.hold(id, Some(Measured::once(now.at)), now.overdue);
        Some(match server {
            Some(_) => Next::Serve(request, grant),
            None => Next::Tell(request, Outcome::Granted(grant)),
        })
    }

    // --- Asking ---

    /// Refuses a request that would wait for its own thread.
    pub(super) fn refuse_reentry(
        &mut self,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<(), LockError> {
        if asker.thread == 0 || !self.holder.is_held_by(asker.thread) {
            return Ok(());
        }
        self.figures.refusals += 1;
        Err(LockError::Reentrant {
            owner: asker.owner.clone(),
            holder: Box::new(self.holder.info(now)),
        })
    }

    /// Rejects a request that finds the line full.
    pub(super) fn reject_excess(
        &mut self,
        asker: &Asker<'_>,
        bound: Option<usize>,
    ) -> Result<(), LockError> {
        let bound = [bound, self.queue_bound].into_iter().flatten().min();
        let waiting = self.queue.len();
        match bound {
            Some(bound) if waiting >= bound => {
                self.figures.rejections += 1;
                Err(LockError::QueueFull {
                    owner: asker.owner.clone(),
                    waiting,
                    bound,
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn would_block(&self, asker: &Asker<'_>, now: Timestamp) -> LockError {
        LockError::WouldBlock {
            owner: asker.owner.clone(),
            holder: Box::new(self.holder_info(now)),
            waiting: self.queue.len(),
        }
    }

    pub(super) fn join_line(
        &mut self,
        request: Arc<dyn Waiting>,
        priority: Priority,
        now: Timestamp,
    ) -> Ticket {
        let waiter = Waiter {
            number: self.next_id().number,
            since: now,
            request,
        };
        self.queue.join((), priority, waiter)
    }

    /// Takes a waiter out of the line; `None` when it no longer stands there, because it was granted or
    /// withdrawn before: then that outcome counts.
    pub(super) fn withdraw(
        &mut self,
        ticket: Ticket,
        reason: Reason,
        now: Timestamp,
    ) -> Option<Next> {
        let ahead = self.queue.place(ticket)?;
        let place = ahead + 1;
        let listed = match reason {
            Reason::Expired(_) => ahead.min(TimeoutEvidence::AHEAD),
            Reason::Cancelled => 0,
        };
        let entries = self.entries(now).take(listed).collect();
        let Waiter {
            number,
            since,
            request,
        } = self.queue.withdraw(ticket)?;
        let id = self.id(number);
        let waited = now - since;
        let owner = request.asker().owner.clone();
        let error = match reason {
            Reason::Expired(limit) => {
                self.figures.timeouts += 1;
                LockError::Timeout(Box::new(TimeoutEvidence {
                    id,
                    owner,
                    limit,
                    // The limit went by another clock than the figures.
                    waited: waited.max(limit),
                    place,
                    holder: self.holder_info(now),
                    ahead: entries,
                }))
            }
            Reason::Cancelled => {
                self.figures.cancellations += 1;
                LockError::Cancelled(Box::new(CancelEvidence {
                    owner,
                    waited,
                    stood: Some((id, place)),
                }))
            }
        };
        Some(Next::Tell(request, Outcome::Failed(Box::new(error))))
    }

    // --- Ending ---

    /// Ends the grant if `id` names it.
    pub(super) fn release(
        &mut self,
        id: LockId,
        now: Moment,
    ) -> Result<Option<Ended>, ReleaseError> {
        if let Some(holder) = self.holder_of(id) {
            return match holder.has_transaction() {
                true => Err(ReleaseError::TransactionOpen { id }),
                false => Ok(Some(Ended {
                    next: self.end(now, None),
                })),
            };
        }
        if self.learn_of_revocation(id) {
            return Err(ReleaseError::Revoked { id });
        }
        match self.holder() {
            None => Ok(None),
            Some(holder) => Err(ReleaseError::Mismatch {
                expected: holder.grant.id(),
                got: id,
            }),
        }
    }

    /// Ends the grant, or leaves that to the transaction that is open under it.
    pub(super) fn release_or_defer(&mut self, id: LockId, now: Moment) -> Option<Next> {
        match self.release(id, now) {
            Ok(ended) => ended?.next,
            Err(ReleaseError::TransactionOpen { .. }) => {
                if let Some(joined) = &mut self.holder.joined {
                    joined.last = true;
                }
                None
            }
            Err(ReleaseError::Mismatch { .. } | ReleaseError::Revoked { .. }) => None,
        }
    }

    /// Opens a transaction under a grant that it does not own.
    pub(super) fn join_grant(
        &mut self,
        id: LockId,
        thread: u64,
    ) -> Result<(OwnerId, Grant), JoinError> {
        if let Some(holder) = self.holder_of(id) {
            if holder.has_transaction() {
                return Err(JoinError::TransactionOpen { id });
            }
            holder.joined = Some(Joined {
                thread,
                last: false,
            });
            return Ok((holder.claim.owner.clone(), holder.grant));
        }
        Err(match self.holder() {
            None => JoinError::NotHeld { got: id },
            Some(holder) => JoinError::Mismatch {
                expected: holder.grant.id(),
                got: id,
            },
        })
    }

    /// Closes the transaction that [`State::join_grant`] opened, or ends the grant that is a transaction's own: then
    /// the next in line can be left to be served.
    pub(super) fn part_from_grant(
        &mut self,
        id: LockId,
        now: Moment,
        server: Option<u64>,
    ) -> Option<Next> {
        let holder = self.holder_of(id)?;
        holder.sealed = false;
        match holder.joined.take() {
            Some(joined) if !joined.last => None,
            _ => self.end(now, server),
        }
    }

    // --- The limit on holding ---

    /// Takes the lock from a holder that has held for too long, if anybody waits for it. Tells when the present holder
    /// will have.
    pub(super) fn revoke_overdue(
        &mut self,
        now: Moment,
        has_passed: impl FnOnce(Deadline) -> bool,
    ) -> (Option<Next>, Option<Deadline>) {
        if self.queue.len() == 0 {
            // Who asks has been granted the lock, and need not keep an eye on the holder any more.
            return (None, None);
        }
        let Some(overdue) = self.holder().map(|holder| holder.overdue) else {
            return (None, None);
        };
        if !overdue.is_some_and(has_passed) {
            return (None, overdue);
        }
        if self.holder.sealed {
            return (None, now.overdue);
        }
        if self.holder.is_released_by_id() {
            self.remember_revocation(self.holder.grant.id());
        }
        self.figures.revocations += 1;
        (self.vacate(now, None), now.overdue)
    }

    /// Keeps what the release of a grant is to be told.
    fn remember_revocation(&mut self, id: LockId) {
        if self.revoked.len() == REMEMBERED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(id);
    }

    /// Whether a grant was taken back. To be told to its holder once.
    fn learn_of_revocation(&mut self, id: LockId) -> bool {
        let at = self.revoked.iter().position(|&revoked| revoked == id);
        at.and_then(|at| self.revoked.remove(at)).is_some()
    }

    /// From here on the grant is not taken back until the transaction under it is over. `false` when it was already.
    pub(super) fn seal(&mut self, id: LockId) -> bool {
        self.holder_of(id)
            .map(|holder| holder.sealed = true)
            .is_some()
    }

    /// When the present holder will have held for too long.
    pub(super) fn overdue(&self) -> Option<Deadline> {
        self.holder()?.overdue
    }

    // --- Looking ---

    pub(super) fn current(&self, now: Timestamp) -> Option<LockInfo> {
        self.holder().map(|holder| holder.info(now))
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
        waiting.map(move |(ahead, (_, waiter))| waiter.entry(self.lock, ahead + 1, now))
    }

    /// Some of who waits, from a position in the line on, and where to read on.
    pub(super) fn page(
        &self,
        after: Option<Cursor>,
        listed: usize,
        now: Timestamp,
    ) -> (Vec<QueueEntry>, Option<Cursor>) {
        let (page, next) = self.queue.page(after, PAGE);
        let places = page.into_iter().zip(listed + 1..);
        let entries = places.map(|((_, waiter), place)| waiter.entry(self.lock, place, now));
        (entries.collect(), next)
    }

    #[cfg(loom)]
    pub(super) fn ticket_of(&self, owner: &OwnerId) -> Option<Ticket> {
        let mut waiting = self.queue.waiting();
        waiting
            .find(|(_, waiter)| waiter.request.asker().owner == owner)
            .map(|(ticket, _)| ticket)
    }

    pub(super) fn reset_figures(&mut self) {
        self.figures = Recorder::default();
        self.tempo.calm();
    }

    pub(super) fn stats(&self, now: Timestamp) -> LockStats {
        let current = self.current(now);
        self.figures.stats(current, self.entries(now).collect())
    }
}

/// A grant that ended, and what is to be done about the waiter to whom the lock went.
pub(super) struct Ended {
    pub(super) next: Option<Next>,
}

impl Waiter {
    fn entry(&self, lock: u32, place: usize, now: Timestamp) -> QueueEntry {
        let asker = self.request.asker();
        QueueEntry {
            lock_id: LockId {
                number: self.number,
                lock,
            },
            owner_id: asker.owner.clone(),
            wait_time: now - self.since,
            place,
            label: asker.label.cloned(),
            call_site: asker.call_site.into(),
        }
    }
}

impl Holder {
    fn nobody() -> Self {
        Self {
            grant: Grant::none(),
            claim: Claim::nobody(),
            since: Since::default(),
            overdue: None,
            sealed: false,
            joined: None,
        }
    }

    fn is_held_by(&self, thread: u64) -> bool {
        let joined = self.joined.map(|joined| joined.thread);
        self.claim.thread == thread || joined == Some(thread)
    }

    /// Whether somebody is to release it beside the transaction under it, which learns of a revocation on its own.
    fn is_released_by_id(&self) -> bool {
        let is_left = self.joined.is_some_and(|joined| joined.last);
        !self.claim.transaction && !is_left
    }

    fn has_transaction(&self) -> bool {
        self.claim.transaction || self.joined.is_some()
    }

    fn info(&self, now: Timestamp) -> LockInfo {
        let since = self.since.known().map_or(now, |(since, _)| since);
        let held_for = now - since;
        LockInfo {
            lock_id: self.grant.id(),
            owner_id: self.claim.owner.clone(),
            fencing_token: self.grant.token,
            acquired_at: SystemTime::now()
                .checked_sub(held_for)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            at_least: !self.since.exact,
            label: self.claim.label.clone(),
            call_site: self.claim.call_site.into(),
        }
    }
}

#[cfg(test)]
mod tests;
