//! The data behind the mutex of a [`FifoLock`](super::FifoLock): the queue, the holder and the
//! metrics. Time comes in and outcomes go out as values; nothing here sleeps or wakes.

mod closing;
mod hold_limits;
mod holder;
mod inspection;
mod nodes;
mod recording;
mod requests;
mod timeline_and_reports;
mod withdrawal;

use std::collections::VecDeque;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::error::TimeoutEvidence;
use super::holder_word::HeldWord;
use super::node::{Granule, NodeSet, NodeWait, Scope};
use super::options::{OF_THE_LOCK, RequestLimit};
use super::report::SlowReport;
use super::request::{LockOutcome, RequestSource, Waiter, Waiting};
use super::sampling::{HoldStart, Pace, Sampling};
use super::stats::{LockStats, Recorder, Revocation};
use super::wait::{HowToWait, Look, Reason};
use super::{Grant, JoinError, LockError, LockInfo, LockOptions, QueueEntry, ReleaseError};
use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::packed::PackedDuration;
use crate::queue::{CapacityPart, Priority, Queue, Rights, Slots, Ticket};
use crate::time::{Clock, Deadline, MonotonicTime};

use closing::Closing;
pub(super) use holder::Overdue;
use holder::{Joined, LockHold, LockHolder};
pub(super) use inspection::MembersPage;
use nodes::{Deadlocks, Members};
pub(super) use nodes::{MakeRequest, Requested};
use requests::LockWaiter;
pub(super) use timeline_and_reports::Observed;

/// The position of a request that was not granted at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPosition {
    /// The number of its id.
    pub(super) number: u64,
    /// The number of the wait, of which a guard can have several under the id of its first request:
    /// a late withdrawal of one ends no other.
    wait: u64,
    /// Set while it is in the queue of the lock, and not when it waits for nodes.
    ticket: Option<Ticket>,
}

/// A request in the queue, with its ticket and its position; 1 is the head of the queue.
pub(super) type QueuedAt<'a> = (Ticket, &'a LockWaiter, usize);

/// Work for after the release of the mutex, for the thread that held it.
#[must_use]
pub(super) enum AfterUnlock {
    Answer(Arc<dyn Waiting>, LockOutcome),
    /// Run the work of the new holder.
    Serve(Arc<dyn Waiting>, Grant),
    /// Let the keeper run the work that a task has left.
    Leave(Arc<dyn Waiting>, Grant),
    Report(Box<SlowReport>),
    /// Let the keeper look for overdue holders, and for long holds and waits.
    Look(Deadline),
}

/// The thread that ends a grant and can run queued work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combiner {
    pub(super) thread: u64,
    pub(super) kind: CombinerKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CombinerKind {
    /// A thread that has submitted work itself.
    Thread,
    /// A task, which delays all other tasks of its thread.
    Task,
    Keeper,
}

impl Combiner {
    fn runs(self, request: &dyn Waiting) -> bool {
        let head = request.head();
        match self.kind {
            CombinerKind::Thread => head.for_any_thread,
            CombinerKind::Task => head.for_any_thread && head.brief,
            CombinerKind::Keeper => head.for_any_thread || head.is_left_by_task(),
        }
    }
}

/// The steps of the uncontended path are always inlined: calls would cost a third of that path.
///
/// In this order: what a joining request uses comes first, as in [`super::shared::LockShared`].
#[repr(C)]
pub(super) struct LockState {
    /// What the word was last set to under the mutex. Unless that ends apart, it still has it.
    pub(super) shown: HeldWord,
    /// Whether a request holds the whole of `queue`.
    held: bool,
    /// Whether any hold had a limit. Stays set.
    pub(super) had_limits: bool,
    /// Whether a task may wait that has a deadline.
    pub(super) tasks_wait: bool,
    /// Whether `now` is the time of the present step.
    pub(super) is_timed: bool,
    /// The lock's number, a part of its ids.
    lock: u32,
    pub(super) requests: u64,
    /// When the present step began; without a step, when the last one did.
    pub(super) now: MonotonicTime,
    pub(super) pace: Pace,
    pub(super) sampling: Sampling,
    /// `None` until the first member holds a share of `queue`.
    nodes: Option<Box<Members>>,
    pub(super) hold_limit: Option<PackedDuration>,
    /// The outcomes to deliver when the mutex is free again, beside what a step returns.
    pub(super) outbox: Vec<AfterUnlock>,
    /// The holder, or the last one. A grant writes its source in place: [`RequestSource::assign`].
    holder: LockHolder,
    pub(super) queue: Queue<LockWaiter>,
    pub(super) last_token: u64,
    pub(super) metrics: Recorder,
    /// `None` until the lock is first closed.
    closing: Option<Box<Closing>>,
    /// The latest revoked grants whose holders have not seen the revocation yet.
    revoked: VecDeque<LockId>,
    /// How often the keeper looked.
    #[cfg(test)]
    pub(super) looks: usize,
    /// When the keeper looks next.
    pub(super) next_look: Deadline,
    /// `None` without a timeline and reports.
    pub(super) observed: Option<Box<Observed>>,
}

/// How many requests or members one step reads.
pub(super) const PAGE: usize = 32;

impl LockState {
    pub(super) fn new(lock: u32, settings: &LockOptions, sampling: Sampling) -> Self {
        let slots = Slots::new(CapacityPart::Whole as usize);
        Self {
            queue: Queue::new(slots, settings.overtaking),
            held: false,
            holder: LockHolder::default(),
            shown: HeldWord::FREE,
            lock,
            requests: settings.last_number,
            now: MonotonicTime::default(),
            last_token: settings.last_token,
            closing: None,
            revoked: VecDeque::new(),
            #[cfg(test)]
            looks: 0,
            next_look: Deadline::NEVER,
            tasks_wait: false,
            is_timed: true,
            observed: Observed::of(settings),
            sampling,
            pace: Pace::default(),
            hold_limit: settings.hold_limit.and_then(PackedDuration::new),
            had_limits: false,
            metrics: Recorder::default(),
            nodes: None,
            outbox: Vec::new(),
        }
    }

    // --- Grants ---

    /// Records the end of a hold without the mutex, before all but [`LockState::take`].
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.held) {
            self.recorder().counts.total_releases += 1;
            self.queue.give_back(CapacityPart::Whole as usize);
        }
    }

    /// Begins a step at the present time, the earliest known one of the unmeasured holds.
    #[inline(always)]
    pub(super) fn read_clock(&mut self, clock: &Clock) {
        // Read under the mutex, so that no hold begins before the previous one ended.
        (self.now, self.is_timed) = (clock.now(), true);
        self.holder.since.observe(self.now);
        if let Some(nodes) = &mut self.nodes {
            nodes.observe(self.now);
        }
    }

    #[inline(always)]
    pub(super) fn held(&self) -> HeldWord {
        if !self.held {
            return match &self.nodes {
                Some(nodes) if nodes.table.has_members() => HeldWord::SHARED,
                _ if self.closed().is_some() => HeldWord::CLOSED,
                _ => HeldWord::FREE,
            };
        }
        let hold = &self.holder;
        // If no thread has looked since the hold began, no request waits and the lock is open: its
        // end needs no mutex.
        let pinned = hold.since.is_known();
        HeldWord::by(hold.grant.number, hold.source.transaction, pinned)
    }

    #[inline(always)]
    fn recorder(&mut self) -> &mut Recorder {
        match self.holder.more.scope {
            None => &mut self.metrics,
            Some(_) => self.recorder_of(CapacityPart::Share),
        }
    }

    fn part_held(&self) -> CapacityPart {
        match self.held && self.holder.more.scope.is_none() {
            true => CapacityPart::Whole,
            false => CapacityPart::Share,
        }
    }

    fn holds(&self) -> impl Iterator<Item = &LockHolder> {
        let nodes = self.nodes.iter().flat_map(|nodes| nodes.holds());
        self.holder().into_iter().chain(nodes)
    }

    pub(super) fn recorder_of(&mut self, part: CapacityPart) -> &mut Recorder {
        match part {
            CapacityPart::Whole => &mut self.metrics,
            CapacityPart::Share => &mut self.nodes.get_or_insert_default().metrics,
        }
    }

    fn holder(&self) -> Option<&LockHolder> {
        self.held.then_some(&self.holder)
    }

    fn holder_of(&mut self, id: LockId) -> Option<&mut LockHolder> {
        (self.held && self.holder.grant.id() == id).then_some(&mut self.holder)
    }

    fn next_id(&mut self) -> LockId {
        self.requests += 1;
        self.id(self.requests)
    }

    fn id(&self, number: u64) -> LockId {
        LockId::new(number, self.lock)
    }

    /// Returns the description to write before [`LockState::take`]. Requires a free lock.
    #[inline(always)]
    pub(super) fn source(&mut self) -> &mut RequestSource {
        &mut self.holder.source
    }

    /// Makes the described request the holder. Requires a free lock, hence an empty queue.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        scope: impl FnOnce() -> Option<Scope>,
        since: HoldStart,
        overdue: Option<Overdue>,
    ) -> Grant {
        if self.held {
            // The last hold ended without the mutex, and kept its part of the queue's capacity.
            self.recorder().counts.total_releases += 1;
        } else {
            let taken = self.queue.try_take(CapacityPart::Whole as usize);
            debug_assert!(taken, "free, but a request waits (queue, invariant 2)");
        }
        let scope = scope();
        if scope.is_some() || self.holder.more.scope.is_some() {
            self.holder.more.scope = scope;
        }
        self.requests += 1;
        self.hold(self.requests, since, overdue)
    }

    #[inline(always)]
    fn hold(&mut self, number: u64, since: HoldStart, overdue: Option<Overdue>) -> Grant {
        self.held = true;
        self.last_token += 1;
        self.recorder().counts.total_acquisitions += 1;
        let grant = Grant {
            token: FencingToken(self.last_token),
            number,
            lock: self.lock,
            limited: overdue.is_some(),
        };
        self.holder.grant = grant;
        self.holder.since = since;
        if overdue.is_some() || self.holder.more.overdue.is_some() {
            self.holder.more.overdue = overdue;
            self.had_limits = true;
        }
        if self.holder.more.sealed || self.holder.more.joined.is_some() {
            (self.holder.more.sealed, self.holder.more.joined) = (false, None);
        }
        grant
    }

    /// Ends the hold; the next request becomes the holder. A `combiner` may run its work.
    fn end(&mut self, outcome: TimelineOutcome, combiner: Option<Combiner>) -> Option<AfterUnlock> {
        if self.observed.is_some() {
            self.observe_end(self.holder.grant.id(), outcome);
        }
        self.held = false;
        let (known, now) = (self.holder.since.known(), self.now);
        let recorder = self.recorder();
        recorder.counts.total_releases += u64::from(outcome == TimelineOutcome::Released);
        if let Some((since, weight)) = known {
            recorder.durations.record_hold(now - since, weight);
            self.pace.take_in(now - since);
        }
        self.queue.give_back(CapacityPart::Whole as usize);
        if self.closed().is_some() {
            self.blocks_from_now();
        }
        self.grant_next(combiner)
    }

    /// Grants after a request has joined or left: the head may fit now.
    fn serve_queue(&mut self) {
        if !self.queue.is_empty() {
            let next = self.grant_next(None);
            self.outbox.extend(next);
        }
    }

    /// Grants the lock to the next request for the whole, or to all for nodes first; not if closed.
    fn grant_next(&mut self, combiner: Option<Combiner>) -> Option<AfterUnlock> {
        if self.closed().is_some() {
            return None;
        }
        let waiter = loop {
            let mut waiter = self.queue.next()?;
            let Some(mut set) = waiter.more.nodes.take() else {
                break waiter;
            };
            // It has waited for its share of the lock.
            match self.enroll(waiter.number, &waiter.source().requester(), &mut set) {
                true => self.grant_waiter(waiter),
                false => drop(self.wait_for_nodes(waiter)),
            }
        };
        self.holder.more.scope = None;
        if self.observed.is_some() {
            self.observe_grant(&waiter);
        }
        self.metrics.durations.record_wait(self.now - waiter.since);
        let request = waiter.request;
        debug_assert!(!self.held, "granted beside a holder");
        let combiner = combiner.filter(|combiner| combiner.runs(&*request));
        let head = request.head();
        self.holder.source.clone_from(&head.source);
        if let Some(combiner) = combiner {
            self.holder.source.thread = combiner.thread;
        }
        let overdue = self.overdue(head.hold_limit);
        let since = match combiner {
            // The combiner need not lock the mutex again for the metrics.
            Some(_) if self.queue.is_empty() && overdue.is_none() => {
                self.sampling.measure(|| self.now)
            }
            _ => HoldStart::now(self.now),
        };
        let grant = self.hold(waiter.number, since, overdue);
        if let Some(overdue) = overdue {
            self.watch_holder(overdue);
        }
        Some(match combiner {
            Some(_) => AfterUnlock::Serve(request, grant),
            None if head.is_left_by_task() => AfterUnlock::Leave(request, grant),
            None => {
                self.holder.source.untaken = head.task().is_some();
                AfterUnlock::Answer(request, Ok(grant))
            }
        })
    }

    // --- Ending ---

    /// Ends the grant if it has this id. Returns the outcome to deliver to the next holder.
    pub(super) fn release(&mut self, id: LockId) -> Result<Option<AfterUnlock>, ReleaseError> {
        if let Some(hold) = self.hold_of(id) {
            return match hold.has_transaction() {
                true => Err(ReleaseError::TransactionOpen { id }),
                false if self.held => Ok(self.end(TimelineOutcome::Released, None)),
                false => Ok(self.part_from_nodes(id)),
            };
        }
        if self.learn_of_revocation(id) {
            let waiter = self.revoked_for(id);
            return Err(ReleaseError::Revoked { id, waiter });
        }
        let held = self.holds().next().map(|hold| hold.grant.id());
        Err(match held {
            None => ReleaseError::NotHeld { id },
            Some(expected) => ReleaseError::Mismatch { expected, got: id },
        })
    }

    /// Ends the grant, or leaves that to the transaction that is open under it.
    pub(super) fn release_or_defer(&mut self, id: LockId) -> Option<AfterUnlock> {
        let released = self.release(id);
        if let Err(ReleaseError::TransactionOpen { .. }) = released {
            let joined = self.holder.more.joined.as_mut();
            joined.into_iter().for_each(|joined| joined.last = true);
        }
        released.ok().flatten()
    }

    /// Opens a transaction under a grant that it does not own.
    pub(crate) fn join_grant(
        &mut self,
        id: LockId,
        thread: u64,
    ) -> Result<(OwnerId, Grant), JoinError> {
        if let Some(holder) = self.holder_of(id) {
            if holder.has_transaction() {
                return Err(JoinError::TransactionOpen { id });
            }
            if holder.more.scope.is_some() {
                return Err(JoinError::NodesOnly { id });
            }
            let last = false;
            holder.more.joined = Some(Joined { thread, last });
            return Ok((holder.source.owner.clone(), holder.grant));
        }
        let is_member = self.hold_of(id).is_some();
        Err(match self.holder().map(|holder| holder.grant.id()) {
            None if is_member => JoinError::NodesOnly { id },
            None => JoinError::NotHeld { id },
            Some(expected) => JoinError::Mismatch { expected, got: id },
        })
    }

    /// Closes the transaction that `join_grant` opened, or ends a transaction's own grant.
    pub(super) fn leave_grant(
        &mut self,
        id: LockId,
        combiner: Option<Combiner>,
    ) -> Option<AfterUnlock> {
        if !self.held {
            return self.part_from_nodes(id);
        }
        let holder = self.holder_of(id)?;
        holder.more.sealed = false;
        match holder.more.joined.take() {
            Some(joined) if !joined.last => None,
            _ => self.end(TimelineOutcome::Released, combiner),
        }
    }

    // --- Inspection ---

    /// Returns the holder; of several that share the lock, the first.
    pub(super) fn current(&self) -> Option<LockInfo> {
        // Some member holds all that it has requested: there is no cycle of waits.
        Some(self.holds().next()?.info(self.now))
    }

    /// Returns what keeps a request of a part waiting: a holder, or what closes the lock.
    fn blocker_info(&self, part: CapacityPart) -> LockInfo {
        let blocker = self.in_front_of(part).next();
        let blocker = blocker.expect("held or closed while a request waits (queue, invariant 2)");
        blocker.info(self.now)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = QueueEntry> {
        let waiting = self.queue.waiting().enumerate();
        waiting.map(move |(ahead, (_, waiter))| waiter.entry(self.lock, ahead + 1, self.now))
    }

    /// Returns metrics and state, without the list of waiting requests.
    pub(super) fn stats(&self) -> LockStats {
        let current_lock = self.current();
        let of_requests = self.metrics.stats(self.now);
        LockStats {
            counters: of_requests.counters,
            last_revocations: of_requests.last_revocations,
            average_wait_time: of_requests.wait.mean,
            wait: of_requests.wait,
            hold: of_requests.hold,
            queue_length: self.queue.len(),
            is_locked: current_lock.is_some(),
            current_lock,
            queue: Vec::new(),
        }
    }
}

#[cfg(loom)]
#[path = "../loom-tests/steps.rs"]
mod model_steps;
#[cfg(test)]
#[path = "../tests/unit/state.rs"]
mod tests;
