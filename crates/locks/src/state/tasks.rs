//! The steps for requests of tasks.

use super::*;

impl LockState {
    /// Removes the request of a task that is gone, and counts it as cancelled. If it was granted
    /// meanwhile, its grant ends, unless it left work: that runs to its end. Returns the request,
    /// to drop it when the mutex is free.
    pub(crate) fn abandon(
        &mut self,
        waiting_at: RequestPosition,
        now: Moment,
    ) -> Option<Arc<dyn Waiting>> {
        let queued = waiting_at
            .ticket
            .and_then(|ticket| self.queue.withdraw(ticket));
        let Some(waiter) = queued else {
            return self.abandon_later(waiting_at, now);
        };
        self.recorder_of(waiter.part).counts.cancellations += 1;
        self.observe_failure(&waiter, 1, TimelineOutcome::Cancelled, now);
        // Requests behind it may fit where it did not.
        let next = self.grant_next(now, None);
        self.outbox.extend(next);
        Some(waiter.request)
    }

    /// Abandons a request that is no longer in the queue.
    fn abandon_later(
        &mut self,
        waiting_at: RequestPosition,
        now: Moment,
    ) -> Option<Arc<dyn Waiting>> {
        let RequestPosition { number, wait, .. } = waiting_at;
        let id = self.id(number);
        if let Some(holder) = self.holder_of(id).filter(|holder| holder.source.untaken) {
            match &mut holder.joined {
                Some(joined) => joined.last = true,
                None => {
                    let next = self.end(now, None);
                    self.outbox.extend(next);
                }
            }
            return None;
        }
        self.abandon_nodes(number, wait, now)
    }

    /// Records that the task knows of its grant.
    pub(crate) fn take_note_of(&mut self, id: LockId) {
        if let Some(hold) = self.hold_of(id) {
            hold.source.untaken = false;
        }
    }

    /// Binds a grant to the thread that runs the work which a task has left.
    pub(crate) fn bind(&mut self, id: LockId, thread: u64) {
        if let Some(hold) = self.hold_of(id) {
            hold.source.thread = thread;
        }
    }

    /// Looks at the waits of tasks for nodes.
    pub(crate) fn look_at_nodes(&self, look: &mut TaskLook<'_, RequestPosition>) {
        for waiter in self.nodes.iter().flat_map(|nodes| nodes.waiters()) {
            waiter.look_at(None, look);
        }
    }
}
