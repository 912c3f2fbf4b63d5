//! What a request passes on its way into the queue: refusals, and its place there.

use std::cell::Cell;

use super::*;
use crate::queue::MemberNumber;

pub(crate) type LockWaiter = Waiter<dyn Waiting, LockWait>;

/// What the document lock keeps of a wait.
pub(crate) struct LockWait {
    /// The number of the wait: of the first, that of the id.
    pub(super) number: u64,
    /// The part of the lock that is requested.
    pub(super) part: CapacityPart,
    /// The requested nodes, while the request is in the queue of the lock.
    pub(super) nodes: Option<Box<NodeSet>>,
    /// The cause for which the wait, or another one, was reported: the number of a request, or
    /// zero.
    pub(super) reported_for: Cell<u64>,
}

impl LockState {
    /// Refuses a request that would wait for its own thread.
    pub(crate) fn refuse_reentry(
        &mut self,
        owner: &OwnerId,
        thread: u64,
        part: CapacityPart,
    ) -> Result<(), LockError> {
        if thread == 0 {
            return Ok(());
        }
        let whole = self.holder();
        let whole = whole.filter(|hold| [hold.source.thread, hold.thread()].contains(&thread));
        let holder = whole.or_else(|| self.nodes.as_ref()?.bound_to(thread));
        let Some(holder) = holder.map(|hold| Box::new(hold.info(self.now))) else {
            return Ok(());
        };
        self.recorder_of(part).counts.total_refusals += 1;
        let owner = owner.clone();
        Err(LockError::Reentrant { owner, holder })
    }

    /// Refuses a request that may not wait, because of `member`, or else of the holder.
    pub(crate) fn refuse_wait(
        &mut self,
        owner: &OwnerId,
        part: CapacityPart,
        how: HowToWait,
        member: Option<MemberNumber>,
    ) -> LockError {
        let holder = how.is_at_once().then(|| {
            let member = member.and_then(|number| self.member_of_number(number));
            let member = member.map(|member| member.hold.info(self.now));
            Box::new(member.unwrap_or_else(|| self.blocker_info(part)))
        });
        let waiting = self.waiting();
        how.refuse(owner, waiting, holder, &mut self.recorder_of(part).counts)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.waiting_for_nodes()
    }

    pub(crate) fn join_queue(
        &mut self,
        request: Arc<dyn Waiting>,
        priority: Priority,
        nodes: Option<Box<NodeSet>>,
    ) -> RequestPosition {
        self.requests += 1;
        let number = self.requests;
        let part = match nodes {
            None => CapacityPart::Whole,
            Some(_) => CapacityPart::Share,
        };
        let more = LockWait {
            number,
            part,
            nodes,
            reported_for: Cell::new(0),
        };
        let waiter = LockWaiter {
            number,
            since: self.now,
            more,
            request,
        };
        RequestPosition {
            number,
            wait: number,
            ticket: Some(self.queue.join(part as usize, priority, waiter)),
        }
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
        let more = LockWait {
            number: wait,
            part: CapacityPart::Share,
            nodes: None,
            reported_for: Cell::new(0),
        };
        Self {
            number,
            since: now,
            more,
            request,
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
            wait: self.more.number,
            ticket,
        }
    }
}
