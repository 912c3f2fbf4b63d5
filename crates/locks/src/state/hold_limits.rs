//! Which holders exceed their hold limit, when the keeper looks for them, and their revocation.
//!
//! L20. Whenever the mutex is free: while a holder with a hold limit delays a request, the keeper
//! looks no later than that holder exceeds its limit, or a thread is about to call it.

use super::*;

/// The keeper pauses at least so long between two looks at the same hold or wait.
pub(super) const LOOK_DISTANCE: Duration = Duration::from_millis(1);

/// This many revoked grants are remembered, to distinguish them from ids that were never granted.
pub(super) const REMEMBERED: usize = 256;

impl LockState {
    /// Returns when a hold that begins now exceeds the limit of its request.
    pub(super) fn overdue(&self, limit: RequestLimit) -> Option<Overdue> {
        Overdue::after(self.limit_of(limit)?, self.now)
    }

    #[inline(always)]
    pub(crate) fn limit_of(&self, own: RequestLimit) -> Option<Duration> {
        own.unwrap_or(self.hold_limit.map(PackedDuration::get))
    }

    /// Lets the keeper look in time if requests wait for a new holder that has a limit.
    pub(super) fn watch_holder(&mut self, overdue: Overdue) {
        if self.waiting() > 0 {
            self.let_keeper_look(Some(overdue.at));
        }
    }

    /// Lets the keeper look in time, after the unlock. `None` for no time.
    pub(super) fn let_keeper_look(&mut self, due: Option<Deadline>) {
        let look = due.and_then(|due| self.look_no_later_than(due));
        self.outbox.extend(look.map(AfterUnlock::Look));
    }

    /// Lets the keeper look no later than then. `None` if it does so anyway.
    pub(crate) fn look_no_later_than(&mut self, due: Deadline) -> Option<Deadline> {
        let is_earlier = due < self.next_look;
        self.next_look = due.min(self.next_look);
        is_earlier.then_some(due)
    }

    /// Revokes the grants that exceed their limit while requests wait. The keeper looks for others.
    pub(crate) fn revoke_overdue(&mut self, has_passed: impl Fn(Deadline) -> bool) {
        if !self.had_limits {
            return;
        }
        let first = |state: &Self| {
            let mut delaying = state.delaying();
            delaying.find(|(_, overdue, sealed)| !sealed && has_passed(overdue.at))
        };
        while let Some((id, overdue, _)) = first(self) {
            let was_held = self.held;
            self.revoke(id, overdue);
            // Nodes may go to another holder, but the next hold of the whole lock has begun now.
            if was_held || self.held {
                break;
            }
        }
        if let Some(due) = self.due(has_passed) {
            self.look_no_later_than(due);
        }
    }

    /// Remembers the revocation for the release of the grant.
    pub(super) fn remember_revocation(&mut self, id: LockId) {
        if self.revoked.len() == REMEMBERED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(id);
    }

    pub(super) fn revoke(&mut self, id: LockId, overdue: Overdue) {
        let now = self.now;
        let Some(hold) = self.hold_of(id) else {
            return;
        };
        let (holder, joined) = (hold.info(now), hold.more.joined);
        // A transaction learns of its revocation by itself.
        if !hold.source.transaction && !joined.is_some_and(|joined| joined.last) {
            self.remember_revocation(id);
        }
        let revocation = Revocation {
            holder,
            hold_limit: overdue.limit(),
            waiter: self.first_delayed_by(id.number).map(Box::new),
            revoked_for: Duration::ZERO,
        };
        let metrics = self.recorder_of(self.part_held());
        metrics.counts.total_revocations += 1;
        metrics.revocations.push(revocation, now);
        if self.held {
            let next = self.end(TimelineOutcome::Revoked, None);
            self.outbox.extend(next);
        } else {
            self.leave(id.number, TimelineOutcome::Revoked);
        }
    }

    /// Returns the request that a holder has delayed for longest.
    fn first_delayed_by(&self, number: u64) -> Option<QueueEntry> {
        let queued = self.entries().next();
        let queued = queued.filter(|_| self.holders_delay_queue());
        let for_nodes = self.first_delayed_for_nodes(number);
        let for_nodes = for_nodes.map(|waiting| waiting.entry(self.lock, 1, self.now));
        let delayed = queued.into_iter().chain(for_nodes);
        delayed.max_by_key(|request| request.wait_time)
    }

    /// Returns the request for which a grant was revoked, if that is one of the last revocations.
    pub(crate) fn revoked_for(&self, id: LockId) -> Option<Box<QueueEntry>> {
        let of_nodes = self.nodes.iter().map(|nodes| &nodes.metrics);
        let metrics = of_nodes.chain([&self.metrics]);
        let mut revoked = metrics.flat_map(|metrics| metrics.revocations.iter());
        revoked.find(|it| it.holder.lock_id == id)?.waiter.clone()
    }

    /// Whether a grant was revoked. Returns `true` once, for its holder.
    pub(super) fn learn_of_revocation(&mut self, id: LockId) -> bool {
        let at = self.revoked.iter().position(|&revoked| revoked == id);
        at.and_then(|at| self.revoked.remove(at)).is_some()
    }

    /// Protects the grant from revocation until the transaction under it ends. `false` if revoked.
    pub(crate) fn seal(&mut self, id: LockId) -> bool {
        let hold = self.hold_of(id);
        hold.map(|hold| hold.more.sealed = true).is_some()
    }

    /// Returns when the first of the holders that delay a new waiter, and no other, exceeds its
    /// limit. The others are watched already, unless the keeper could not be called.
    pub(crate) fn due_for(&self, waiting_at: RequestPosition) -> Option<Deadline> {
        let is_first = waiting_at.ticket.is_some() && self.queue.len() == 1;
        if is_first || self.next_look == Deadline::NEVER {
            return self.due(|_| false);
        }
        if waiting_at.ticket.is_some() {
            return None;
        }
        let nodes = self.nodes.as_ref()?;
        let delaying = nodes.table.newly_delaying(waiting_at.number);
        let holds = delaying.filter_map(|number| Some(&nodes.table.member(number)?.hold));
        holds.filter_map(|hold| Some(hold.more.overdue?.at)).min()
    }

    /// Returns when the first of the holders that delay any request exceeds its limit. One that has
    /// but cannot be revoked now is due again one limit later, or a distance of looks.
    pub(crate) fn due(&self, passed: impl Fn(Deadline) -> bool) -> Option<Deadline> {
        // The list of the holders that delay a request is as long as that of the waiters.
        if !self.had_limits {
            return None;
        }
        let due = |overdue: Overdue| match passed(overdue.at) {
            true => Deadline::after(overdue.limit().max(LOOK_DISTANCE), self.now),
            false => Some(overdue.at),
        };
        if self.held {
            let overdue = self.holder.more.overdue;
            return overdue.filter(|_| self.holders_delay_queue()).and_then(due);
        }
        let delaying = self.delaying();
        delaying.filter_map(|(_, overdue, _)| due(overdue)).min()
    }

    /// Returns the holders with a hold limit that delay any request, each with the end of its limit
    /// and whether it publishes. A request that waits in the queue is delayed by all of them.
    fn delaying(&self) -> impl Iterator<Item = (LockId, Overdue, bool)> {
        let all = self.holders_delay_queue().then(|| self.holds());
        let nodes = self.nodes.iter().filter(|_| !self.holders_delay_queue());
        let holds = nodes.flat_map(|nodes| {
            let delaying = nodes.table.delaying();
            delaying.filter_map(|number| Some(&nodes.table.member(number)?.hold))
        });
        let holds = all.into_iter().flatten().chain(holds);
        holds.filter_map(|hold| Some((hold.grant.id(), hold.more.overdue?, hold.more.sealed)))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/hold_limits.rs"]
mod tests;
