//! Requests for a lock, and their withdrawal from the queue.

use std::cell::Cell;

use super::*;
use crate::evidence::Withdrawn;
use crate::queue::MemberNumber;

pub(super) struct LockWaiter {
    /// The number of its id; the other part is the lock's.
    pub(super) number: u64,
    pub(super) since: MonotonicTime,
    pub(super) request: Arc<dyn Waiting>,
    /// The requested nodes; `None` for the whole lock.
    pub(super) nodes: Option<Box<NodeSet>>,
    pub(super) priority: Priority,
    /// Whether its wait was reported.
    pub(super) is_reported: Cell<bool>,
}

/// How a request for nodes waits, if it must.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HowToWait {
    /// It may not wait.
    pub(crate) at_once: bool,
    pub(crate) bound: Option<usize>,
    pub(crate) priority: Priority,
}

/// The state of a request that is about to fail.
pub(super) struct LeavingRequest {
    pub(super) number: u64,
    pub(super) part: CapacityPart,
    pub(super) since: MonotonicTime,
    pub(super) position: usize,
    /// The holder that it waits for, if not the holder of the whole lock.
    pub(super) holder: Option<LockInfo>,
    pub(super) node: Option<NodeWait>,
    pub(super) ahead: Vec<QueueEntry>,
    pub(super) is_reported: bool,
}

impl LockState {
    /// Refuses a request that would wait for its own thread.
    pub(crate) fn refuse_reentry(
        &mut self,
        requester: &Requester<'_>,
        part: CapacityPart,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        let holder = if requester.thread == 0 {
            None
        } else if self.held {
            let held = self.holder.is_held_by(requester.thread);
            held.then(|| self.holder.info(now))
        } else {
            self.info_of_thread(requester.thread, now)
        };
        let Some(holder) = holder else {
            return Ok(());
        };
        self.recorder_of(part).counts.refusals += 1;
        Err(LockError::Reentrant {
            owner: requester.owner.clone(),
            holder: Box::new(holder),
        })
    }

    /// Rejects a request that finds the queue full.
    pub(crate) fn reject_excess(
        &mut self,
        requester: &Requester<'_>,
        part: CapacityPart,
        bound: Option<usize>,
    ) -> Result<(), LockError> {
        let bound = bound.unwrap_or(usize::MAX).min(self.queue_bound);
        let waiting = self.queue.len() + self.waiting_for_nodes();
        if waiting < bound {
            return Ok(());
        }
        self.recorder_of(part).counts.rejections += 1;
        Err(LockError::QueueFull {
            owner: requester.owner.clone(),
            waiting,
            bound,
        })
    }

    /// Refuses a request that may not wait. `member` blocks it, or the holder.
    pub(crate) fn would_block(
        &self,
        requester: &Requester<'_>,
        member: Option<MemberNumber>,
        now: MonotonicTime,
    ) -> LockError {
        let member = member.and_then(|number| self.info_of_member(number, now));
        LockError::WouldBlock {
            owner: requester.owner.clone(),
            holder: Box::new(member.unwrap_or_else(|| self.holder_info(now))),
            waiting: self.queue.len() + self.waiting_for_nodes(),
        }
    }

    pub(crate) fn join_queue(
        &mut self,
        request: Arc<dyn Waiting>,
        priority: Priority,
        nodes: Option<Box<NodeSet>>,
        now: MonotonicTime,
    ) -> RequestPosition {
        let number = self.next_id().number;
        let part = match nodes {
            None => CapacityPart::Whole,
            Some(_) => CapacityPart::Share,
        };
        let waiter = LockWaiter {
            number,
            since: now,
            request,
            nodes,
            priority,
            is_reported: Cell::new(false),
        };
        let wait = waiter.wait();
        let ticket = Some(self.queue.join(part, priority, waiter));
        RequestPosition {
            number,
            wait,
            ticket,
        }
    }

    /// Removes a waiter from the queue, or from the waits for nodes. Does nothing when that wait is
    /// over, because the request was granted or withdrawn before: then that outcome counts, even if
    /// it waits again.
    pub(crate) fn withdraw(&mut self, waiting_at: RequestPosition, reason: Reason, now: Moment) {
        let position = waiting_at
            .ticket
            .and_then(|ticket| self.queue.ahead_of(ticket));
        let (Some(ticket), Some(ahead)) = (waiting_at.ticket, position) else {
            return self.withdraw_from_nodes(waiting_at, reason, now);
        };
        let listed = match reason {
            Reason::Expired(_) => ahead.min(TimeoutEvidence::AHEAD),
            Reason::Cancelled => 0,
        };
        let ahead_of_it = self.entries(now.at).take(listed).collect();
        let Some(waiter) = self.queue.withdraw(ticket) else {
            return;
        };
        let leaving = LeavingRequest {
            number: waiter.number,
            part: match waiter.nodes {
                None => CapacityPart::Whole,
                Some(_) => CapacityPart::Share,
            },
            since: waiter.since,
            position: ahead + 1,
            holder: None,
            node: None,
            ahead: ahead_of_it,
            is_reported: waiter.is_reported.get(),
        };
        self.fail(waiter.request, leaving, reason, now);
        // Requests behind it may fit where it did not.
        let next = self.grant_next(now, None);
        self.outbox.extend(next);
    }

    /// Fails a waiter for an external reason.
    pub(super) fn fail(
        &mut self,
        request: Arc<dyn Waiting>,
        leaving: LeavingRequest,
        reason: Reason,
        now: Moment,
    ) {
        let waited = Waited {
            number: leaving.number,
            requester: request.requester(),
            nodes: leaving.part == CapacityPart::Share,
            since: leaving.since,
            position: leaving.position,
            is_reported: leaving.is_reported,
        };
        let outcome = match reason {
            Reason::Expired(_) => TimelineOutcome::TimedOut,
            Reason::Cancelled => TimelineOutcome::Cancelled,
        };
        self.observe_failure(&waited, outcome, now);
        let now = now.at;
        let withdrawn = Withdrawn {
            id: self.id(leaving.number),
            owner: request.requester().owner.clone(),
            waited: now - leaving.since,
            position: leaving.position,
            ahead: leaving.ahead,
            node: leaving.node,
        };
        let holder = || leaving.holder.unwrap_or_else(|| self.holder_info(now));
        let error = withdrawn.because(reason, holder);
        let metrics = self.recorder_of(leaving.part);
        match reason {
            Reason::Expired(_) => metrics.counts.timeouts += 1,
            Reason::Cancelled => metrics.counts.cancellations += 1,
        }
        let verdict = RequestOutcome::Failed(Box::new(error));
        self.outbox.push(AfterUnlock::Answer(request, verdict));
    }
}

impl LockWaiter {
    /// Its wait in the queue, and for nodes once it is admitted.
    pub(super) fn wait(&self) -> WaitId {
        WaitId(self.number)
    }

    #[cfg(loom)]
    pub(super) fn position_at(&self, ticket: Ticket) -> RequestPosition {
        RequestPosition {
            number: self.number,
            wait: self.wait(),
            ticket: Some(ticket),
        }
    }

    pub(super) fn entry(&self, lock: u32, position: usize, now: MonotonicTime) -> QueueEntry {
        let id = LockId {
            number: self.number,
            lock,
        };
        QueueEntry::of(id, &self.request.requester(), now - self.since, position)
    }
}
