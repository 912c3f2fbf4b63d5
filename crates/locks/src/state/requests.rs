//! What a request passes on its way into the queue: refusals, and its place there.

use std::cell::Cell;

use super::*;
use crate::queue::MemberNumber;

pub(crate) struct LockWaiter {
    /// The number of its id; the other part is the lock's.
    pub(super) number: u64,
    /// The number of the wait: of the first, that of the id.
    pub(super) wait: u64,
    pub(super) since: MonotonicTime,
    pub(super) request: Arc<dyn Waiting>,
    /// The part of the lock that it requests.
    pub(super) part: CapacityPart,
    /// The requested nodes, while it is in the queue of the lock.
    pub(super) nodes: Option<Box<NodeSet>>,
    pub(super) priority: Priority,
    /// The number of the request for which its long wait was reported, or was not because another
    /// one was. Zero for none.
    pub(super) reported_for: Cell<u64>,
}

/// How a request waits, if it must.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HowToWait {
    /// It may not wait.
    pub(crate) at_once: bool,
    pub(crate) bound: Option<usize>,
    pub(crate) priority: Priority,
}

impl LockState {
    /// Refuses a request that would wait for its own thread.
    pub(crate) fn refuse_reentry(
        &mut self,
        requester: &Requester<'_>,
        part: CapacityPart,
        now: MonotonicTime,
    ) -> Result<(), LockError> {
        if requester.thread == 0 {
            return Ok(());
        }
        let mut holds = self.holds();
        let holder = holds.find(|hold| hold.is_held_by(requester.thread));
        let Some(holder) = holder.map(|hold| Box::new(hold.info(now))) else {
            return Ok(());
        };
        drop(holds);
        self.recorder_of(part).counts.total_refusals += 1;
        Err(LockError::Reentrant {
            owner: requester.owner.clone(),
            holder,
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
        self.recorder_of(part).counts.total_rejections += 1;
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
        part: CapacityPart,
        member: Option<MemberNumber>,
        now: MonotonicTime,
    ) -> LockError {
        let member = member.and_then(|number| self.info_of_member(number, now));
        LockError::WouldBlock {
            owner: requester.owner.clone(),
            holder: Box::new(member.unwrap_or_else(|| self.blocker_info(part, now))),
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
            part,
            nodes,
            priority,
            ..LockWaiter::for_nodes(number, number, request, now)
        };
        let position = waiter.position_at(None);
        let ticket = Some(self.queue.join(part.weight(), priority, waiter));
        RequestPosition { ticket, ..position }
    }
}

impl LockWaiter {
    /// Describes a request that waits for nodes.
    pub(super) fn for_nodes(
        number: u64,
        wait: u64,
        request: Arc<dyn Waiting>,
        now: MonotonicTime,
    ) -> Self {
        Self {
            number,
            wait,
            since: now,
            request,
            part: CapacityPart::Share,
            nodes: None,
            priority: Priority::Normal,
            reported_for: Cell::new(0),
        }
    }

    /// Looks at it, if a task waits.
    pub(crate) fn look_at(&self, ticket: Option<Ticket>, look: &mut Look<'_, RequestPosition>) {
        look.at(self.position_at(ticket), self.request.head().task());
    }

    /// Returns its position: in the queue with a ticket, among the waits for nodes without.
    pub(super) fn position_at(&self, ticket: Option<Ticket>) -> RequestPosition {
        RequestPosition {
            number: self.number,
            wait: self.wait,
            ticket,
        }
    }
}
