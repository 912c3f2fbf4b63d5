//! How a request leaves without a grant: by its timeout, its token, or the end of its task.

use super::*;

impl LockState {
    /// Removes a waiter from the queue, or from the waits for nodes. Does nothing after that wait.
    pub(crate) fn withdraw(&mut self, waiting_at: RequestPosition, reason: Reason) {
        let ahead_of = |ticket| Some((ticket, self.queue.ahead_of(ticket)?));
        let Some((ticket, position)) = waiting_at.ticket.and_then(ahead_of) else {
            return self.withdraw_from_nodes(waiting_at, reason);
        };
        let listed = position.min(reason.listed());
        let ahead = self.entries().take(listed).collect();
        let Some(waiter) = self.queue.withdraw(ticket) else {
            return;
        };
        let holder = self.blocker_info(waiter.more.part);
        let evidence = waiter.evidence(self.lock, position + 1, holder, self.now);
        self.fail(waiter, TimeoutEvidence { ahead, ..evidence }, reason);
        // Requests behind it may fit where it did not.
        self.serve_queue();
    }

    pub(super) fn fail(&mut self, waiter: LockWaiter, evidence: TimeoutEvidence, reason: Reason) {
        let counts = &mut self.recorder_of(waiter.more.part).counts;
        let (count, outcome) = match reason {
            Reason::Expired(_) => (&mut counts.total_timeouts, TimelineOutcome::TimedOut),
            Reason::Cancelled => (&mut counts.total_cancellations, TimelineOutcome::Cancelled),
        };
        *count += 1;
        self.observe_failure(&waiter, evidence.position, outcome);
        let failed = Err(Box::new(evidence.because(reason)));
        self.outbox
            .push(AfterUnlock::Answer(waiter.request, failed));
    }

    /// Removes the request of a task that is gone, and counts it as cancelled. If it was granted
    /// meanwhile, its grant ends, unless its work runs. Returns it, to drop without the mutex.
    pub(crate) fn abandon(&mut self, waiting_at: RequestPosition) -> Option<Arc<dyn Waiting>> {
        let ticket = waiting_at.ticket;
        if let Some(waiter) = ticket.and_then(|ticket| self.queue.withdraw(ticket)) {
            let metrics = self.recorder_of(waiter.more.part);
            metrics.counts.total_cancellations += 1;
            self.observe_failure(&waiter, 1, TimelineOutcome::Cancelled);
            // Requests behind it may fit where it did not.
            self.serve_queue();
            return Some(waiter.request);
        }
        let id = self.id(waiting_at.number);
        if let Some(holder) = self.holder_of(id).filter(|holder| holder.source.untaken) {
            match &mut holder.more.joined {
                Some(joined) => joined.last = true,
                None => {
                    let next = self.end(TimelineOutcome::Released, None);
                    self.outbox.extend(next);
                }
            }
            return None;
        }
        self.abandon_nodes(waiting_at.number, waiting_at.wait)
    }
}
