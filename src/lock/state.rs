//! What the mutex of a [`FifoLock`](super::FifoLock) guards: the line, the holder and the figures.
//!
//! Time comes in as an argument and outcomes go out as return values; nothing here sleeps or wakes.

mod asking;
mod holder;
mod nodes;
mod revoking;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use super::error::TimeoutEvidence;
use super::node::{Granule, Members, NodeWait, Scope};
use super::options::Limit;
use super::pace::Pace;
use super::request::{Asker, Claim, Outcome, Verdict, Waiting};
use super::stats::{LockStats, Recorder};
use super::tempo::{Measured, Tempo};
use super::wait::Reason;
use super::word::Held;
use super::{Grant, JoinError, LockError, LockInfo, QueueEntry, ReleaseError};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::queue::{Cursor, Divisible, Part, Priority, Queue, Rights, Ticket};
use crate::time::{Deadline, Timestamp};

pub(super) use asking::HowToWait;
use asking::{Stood, Waiter};
use holder::{Holder, Joined};
pub(super) use nodes::AskedNodes;
use watch::Watch;

/// The present, for steps after which somebody else may hold the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    /// When a hold that begins now has lasted too long.
    pub(super) overdue: Option<Deadline>,
}

/// Nodes with all that has to be locked above them.
pub(super) type NodeSet = Vec<(Granule, Rights)>;

/// Names one wait. A guard that waits for more nodes waits under the id of its first request, but
/// in another wait: what was meant for one wait, and comes late, ends no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitId(u64);

/// Where a request stands that was not granted at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    /// Of its id.
    number: u64,
    wait: WaitId,
    /// In the line for the lock. After that, and without, it waits for nodes.
    ticket: Option<Ticket>,
}

/// What is to be done once the mutex is free again, by whoever had it.
#[must_use]
pub(super) enum Next {
    /// Tell a waiter what became of its request.
    Tell(Arc<dyn Waiting>, Verdict),
    /// Do the work of the new holder.
    Serve(Arc<dyn Waiting>, Grant),
    /// Have a waiter keep watch.
    Watch(Arc<dyn Waiting>),
}

impl Next {
    /// Tells the waiter.
    pub(super) fn deliver(self) {
        match self {
            Self::Tell(request, verdict) => request.tell(verdict),
            Self::Serve(request, grant) => request.tell(Outcome::Granted(grant)),
            Self::Watch(request) => request.call_to_watch(),
        }
    }
}

/// The steps of the uncontended path are always inlined: as calls they pass their parts over the
/// stack, which costs a third of that path (docs/performance.md, "The lock").
///
/// In this order: what a request that joins the line reads and writes comes first, see
/// [`Shared`](super::shared::Shared).
#[repr(C)]
pub(super) struct State {
    /// What the lock's word was last set to under the mutex. Unless that is held and not pinned, it
    /// is so still.
    pub(super) shown: Option<Held>,
    /// Whether somebody took the whole of `queue`.
    held: bool,
    /// Which lock this is, in its ids.
    lock: u32,
    requests: u64,
    pub(super) pace: Pace,
    /// Those who have a share of `queue`, once there have been any.
    nodes: Option<Box<Members>>,
    pub(super) hold_limit: Limit,
    /// How many may wait.
    pub(super) queue_bound: usize,
    /// Whom to tell what when the mutex is free again, beside what a step returns.
    pub(super) outbox: Vec<Next>,
    /// Who did, or who did last: written over rather than made anew, see [`Claim::assign`].
    holder: Holder,
    queue: Queue<Divisible, Waiter>,
    grants: u64,
    pub(super) tempo: Tempo,
    pub(super) figures: Recorder,
    /// Since somebody waited while holding had a limit.
    watch: Option<Box<Watch>>,
}

/// Of so many waiters a dump makes notes at a time.
const PAGE: usize = 32;

impl State {
    pub(super) fn new(lock: u32, overtaking: u32, tempo: Tempo) -> Self {
        Self {
            queue: Queue::new(Divisible::default(), overtaking),
            held: false,
            holder: Holder::nobody(),
            shown: None,
            lock,
            requests: 0,
            grants: 0,
            watch: None,
            tempo,
            pace: Pace::default(),
            hold_limit: Limit::default(),
            queue_bound: usize::MAX,
            figures: Recorder::default(),
            nodes: None,
            outbox: Vec::new(),
        }
    }

    // --- Grants ---

    /// Takes note of a hold that ended without the mutex. To be called before anything else but
    /// [`State::take`] when nobody holds.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.held) {
            self.recorder().releases += 1;
            self.queue.give_back(&Part::Whole);
        }
    }

    /// Takes note that somebody looks, which is the least that is known of when an unmeasured hold
    /// began.
    pub(super) fn observe(&mut self, now: Timestamp) {
        self.holder.since.observe(now);
    }

    /// The holder, as the lock's word says it.
    #[inline(always)]
    pub(super) fn held(&self) -> Option<Held> {
        if !self.held {
            return self.is_shared().then_some(Held::SHARED);
        }
        let Holder {
            grant,
            claim,
            since,
            ..
        } = &self.holder;
        // When nobody has looked at the clock since it began, nobody waits: its end needs no mutex.
        Held::by(grant.id().number, claim.transaction, since.is_known())
    }

    /// The figures in which the holder counts.
    #[inline(always)]
    fn recorder(&mut self) -> &mut Recorder {
        match self.holder.scope {
            None => &mut self.figures,
            Some(_) => self.recorder_of(Part::Share),
        }
    }

    /// The figures of those who want the whole, or of those who want nodes.
    pub(super) fn recorder_of(&mut self, part: Part) -> &mut Recorder {
        match part {
            Part::Whole => &mut self.figures,
            Part::Share => &mut self.nodes.get_or_insert_default().figures,
        }
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

    /// Waits are numbered with the requests: the first wait of a request has the number of its id.
    fn next_wait(&mut self) -> WaitId {
        WaitId(self.next_id().number)
    }

    fn id(&self, number: u64) -> LockId {
        LockId {
            number,
            lock: self.lock,
        }
    }

    /// Where whoever is about to [take](State::take) the lock writes its claim. Nobody holds it.
    #[inline(always)]
    pub(super) fn claim(&mut self) -> &mut Claim {
        &mut self.holder.claim
    }

    /// Makes whoever wrote its claim the holder at once. Nobody holds, hence nobody waits.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        scope: impl FnOnce() -> Option<Scope>,
        measured: Option<Measured>,
        overdue: Option<Deadline>,
    ) -> Grant {
        if self.held {
            // The last hold ended without the mutex, so what it took of the line was not given
            // back.
            self.recorder().releases += 1;
        } else {
            let taken = self.queue.try_take(&Part::Whole);
            debug_assert!(
                taken,
                "nobody holds, but somebody waits (queue, invariant 2)"
            );
        }
        let scope = scope();
        if scope.is_some() || self.holder.scope.is_some() {
            self.holder.scope = scope;
        }
        let id = self.next_id();
        self.hold(id, measured, overdue)
    }

    /// Makes whoever claims it the holder.
    #[inline(always)]
    fn hold(&mut self, id: LockId, measured: Option<Measured>, overdue: Option<Deadline>) -> Grant {
        self.held = true;
        self.grants += 1;
        self.recorder().acquisitions += 1;
        let token = FencingToken(self.grants);
        let grant = Grant::new(id, token, overdue.is_some());
        self.holder.grant = grant;
        self.holder.since.begin(measured);
        if overdue.is_some() || self.holder.overdue.is_some() {
            self.holder.overdue = overdue;
        }
        if self.holder.sealed || self.holder.joined.is_some() {
            (self.holder.sealed, self.holder.joined) = (false, None);
        }
        grant
    }

    /// Ends the hold; the next in line becomes the holder in the same step. Its work is left to be
    /// done by the thread `server`, if there is one and it can be.
    fn end(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        self.recorder().releases += 1;
        self.vacate(now, server)
    }

    fn vacate(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        self.held = false;
        if let Some((since, weight)) = self.holder.since.known() {
            let hold = now.at - since;
            self.pace.take_in(hold);
            if self.recorder().hold.record(hold, weight) {
                self.tempo.pardon();
            }
        }
        self.queue.give_back(&Part::Whole);
        self.grant_next(now, server)
    }

    /// Grants the lock to whom it can be granted: to the next in line, or to all up to the first
    /// who wants the whole.
    fn grant_next(&mut self, now: Moment, server: Option<u64>) -> Option<Next> {
        let (number, since, request) = loop {
            let mut waiter = self.queue.next()?;
            match waiter.nodes.take() {
                None => break (waiter.number, waiter.since, waiter.request),
                Some(set) => self.admit(waiter, *set, now),
            }
        };
        self.relieve(number);
        self.holder.scope = None;
        let id = self.id(number);
        let figures = &mut self.figures;
        figures.wait.record_wait(now.at - since, &mut figures.hold);
        debug_assert!(!self.held, "granted beside a holder");
        let server = server.filter(|_| request.is_errand());
        let asker = request.asker();
        self.holder.claim.assign(&Asker {
            thread: server.unwrap_or(asker.thread),
            ..asker
        });
        let measured = match server {
            // The server goes on at once, and need not come back to the mutex for figures.
            Some(_) if self.queue.is_empty() && self.hold_limit.get().is_none() => {
                self.tempo.measure(|| now.at)
            }
            _ => Some(Measured::once(now.at)),
        };
        let grant = self.hold(id, measured, now.overdue);
        Some(match server {
            Some(_) => Next::Serve(request, grant),
            None => Next::Tell(request, Outcome::Granted(grant)),
        })
    }

    // --- Ending ---

    /// Ends the grant if `id` names it.
    pub(super) fn release(&mut self, id: LockId, now: Moment) -> Result<Ended, ReleaseError> {
        if let Some(holder) = self.holder_of(id) {
            return match holder.has_transaction() {
                true => Err(ReleaseError::TransactionOpen { id }),
                false => Ok(Ended {
                    next: self.end(now, None),
                }),
            };
        }
        if let Some(released) = self.release_member(id, now) {
            return released;
        }
        if self.learn_of_revocation(id) {
            return Err(ReleaseError::Revoked { id });
        }
        let held = self.holder().map(|holder| holder.grant.id());
        Err(match held.or_else(|| self.first_member_id()) {
            None => ReleaseError::NotHeld { id },
            Some(expected) => ReleaseError::Mismatch { expected, got: id },
        })
    }

    /// Ends the grant, or leaves that to the transaction that is open under it.
    pub(super) fn release_or_defer(&mut self, id: LockId, now: Moment) -> Option<Next> {
        match self.release(id, now) {
            Ok(ended) => ended.next,
            Err(ReleaseError::TransactionOpen { .. }) => {
                if let Some(joined) = &mut self.holder.joined {
                    joined.last = true;
                }
                None
            }
            Err(
                ReleaseError::Mismatch { .. }
                | ReleaseError::NotHeld { .. }
                | ReleaseError::Revoked { .. },
            ) => None,
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
            if holder.scope.is_some() {
                return Err(JoinError::NodesOnly { id });
            }
            holder.joined = Some(Joined {
                thread,
                last: false,
            });
            return Ok((holder.claim.owner.clone(), holder.grant));
        }
        Err(match self.holder() {
            None if self.is_member(id) => JoinError::NodesOnly { id },
            None => JoinError::NotHeld { id },
            Some(holder) => JoinError::Mismatch {
                expected: holder.grant.id(),
                got: id,
            },
        })
    }

    /// Closes the transaction that [`State::join_grant`] opened, or ends the grant that is a
    /// transaction's own: then the next in line can be left to be served.
    pub(super) fn part_from_grant(
        &mut self,
        id: LockId,
        now: Moment,
        server: Option<u64>,
    ) -> Option<Next> {
        if !self.held {
            return self.part_from_nodes(id, now);
        }
        let holder = self.holder_of(id)?;
        holder.sealed = false;
        match holder.joined.take() {
            Some(joined) if !joined.last => None,
            _ => self.end(now, server),
        }
    }

    // --- Looking ---

    /// The holder; of those who share the lock the first.
    pub(super) fn current(&self, now: Timestamp) -> Option<LockInfo> {
        match self.holder() {
            Some(holder) => Some(holder.info(now)),
            None => self.first_member(now),
        }
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
    pub(super) fn stand_of(&self, owner: &OwnerId) -> Option<Stand> {
        let mut waiting = self.queue.waiting();
        let in_line = waiting.find(|(_, waiter)| waiter.request.asker().owner == owner);
        match in_line {
            Some((ticket, waiter)) => Some(waiter.stand(ticket)),
            None => self.member_who_waits(|other| other == owner),
        }
    }

    pub(super) fn reset_figures(&mut self) {
        self.figures = Recorder::default();
        self.tempo.calm();
    }

    /// Figures and state, without the list of those who wait.
    pub(super) fn stats(&self, now: Timestamp) -> LockStats {
        let current = self.current(now);
        self.figures.stats(current, self.queue_length())
    }
}

/// A grant that ended, and what is to be done about the waiter to whom the lock went.
pub(super) struct Ended {
    pub(super) next: Option<Next>,
}

#[cfg(test)]
mod tests;
