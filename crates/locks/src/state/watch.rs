//! Which waiters watch the hold limit, and how they revoke.
//!
//! L20. Whenever the mutex is free: while a holder with a hold limit delays a request, some
//! watcher looks no later than that holder exceeds its limit.

use std::collections::VecDeque;

use super::*;
/// The waiters that sleep no longer than until their alarm, on behalf of all waiters.
#[derive(Debug, Default)]
pub(super) struct Watch {
    watchers: Vec<Watcher>,
    /// Whether one of them left, or a new holder is due before all of them look.
    changed: bool,
    /// The latest revoked grants whose holders have not seen the revocation yet.
    pub(super) revoked: VecDeque<LockId>,
    /// The last revocations of holders of the whole lock.
    pub(super) last_revocations: LastRevocations,
    /// How often any of them looked.
    #[cfg(test)]
    pub(super) looks: usize,
}

#[derive(Clone, Copy, Debug)]
struct Watcher {
    /// The number of its request. Zero for the keeper, which watches on behalf of all tasks.
    number: u64,
    alarm: Deadline,
}

/// The number of the keeper among the watchers. No request has it.
const KEEPER: u64 = 0;

/// Returns the number under which a request watches.
fn watches_as(number: u64, request: &dyn Waiting) -> u64 {
    match request.task() {
        None => number,
        Some(_) => KEEPER,
    }
}

/// The number of watchers. Requests that join fill it up, so a watcher that leaves a busy queue
/// need not wake another waiter. One in a model, so that two waiters are enough to pass the watch
/// on.
pub(super) const WATCHERS: usize = if cfg!(loom) { 1 } else { 2 };

impl Watch {
    /// Whether a watcher looks by then.
    fn covers(&self, due: Deadline) -> bool {
        self.watchers.iter().any(|watcher| watcher.alarm <= due)
    }

    /// Makes a waiter a watcher if there are too few, or if none looks in time.
    fn enlist(&mut self, number: u64, due: Deadline) -> Option<Deadline> {
        let is_needed = self.watchers.len() < WATCHERS || !self.covers(due);
        is_needed.then(|| {
            self.appoint(number, due);
            due
        })
    }

    fn appoint(&mut self, number: u64, alarm: Deadline) {
        self.discharge(number);
        self.watchers.push(Watcher { number, alarm });
    }

    /// Removes a watcher. Returns whether it was one.
    fn discharge(&mut self, number: u64) -> bool {
        let before = self.watchers.len();
        self.watchers.retain(|watcher| watcher.number != number);
        self.watchers.len() < before
    }
}

impl LockState {
    /// Records that a request no longer waits, whatever its outcome.
    #[inline]
    pub(super) fn relieve(&mut self, number: u64) {
        if let Some(watch) = &mut self.watch {
            watch.changed |= watch.discharge(number);
        }
    }

    /// Returns when a hold that begins now exceeds the limit of its request.
    pub(super) fn overdue(&mut self, limit: RequestLimit, now: Moment) -> Option<Overdue> {
        Overdue::after(self.hold_limit_of(limit)?, now.clock)
    }

    /// Returns the hold limit of a request that is granted now.
    #[inline(always)]
    pub(crate) fn hold_limit_of(&mut self, limit: RequestLimit) -> Option<Duration> {
        let limit = limit.or(self.hold_limit.map(PackedDuration::get));
        self.had_limits |= limit.is_some();
        limit
    }

    /// Records that a holder may be due before any watcher looks. Called with each grant that other
    /// requests may wait for.
    #[inline]
    pub(super) fn ensure_watched(&mut self, overdue: Option<Overdue>) {
        let Some(overdue) = overdue else {
            return;
        };
        if self.queue.is_empty() && self.waiting_for_nodes() == 0 {
            return;
        }
        let watch = self.watch();
        watch.changed |= !watch.covers(overdue.at);
    }

    /// Makes a request that begins to wait a watcher if one is needed. Returns when it must look.
    pub(crate) fn enlist(
        &mut self,
        waiting_at: RequestPosition,
        waits_as: WaitsAs,
        now: Moment,
    ) -> Option<Deadline> {
        // A watcher sees at once what is already overdue.
        let due = self.due(now, |_| false)?;
        let number = match waits_as {
            WaitsAs::Thread => waiting_at.number,
            WaitsAs::Task => KEEPER,
        };
        self.watch().enlist(number, due)
    }

    /// Revokes as [`look`](Self::look) does, for the keeper.
    pub(crate) fn look_for_tasks(
        &mut self,
        now: Moment,
        has_passed: impl Fn(Deadline) -> bool,
    ) -> Option<Deadline> {
        self.watch.as_ref()?;
        self.revoke_overdue(now, &has_passed);
        self.watch().discharge(KEEPER);
        let due = self.due(now, has_passed)?;
        self.watch().enlist(KEEPER, due)
    }

    pub(super) fn watch(&mut self) -> &mut Watch {
        self.watch.get_or_insert_default()
    }

    /// Passes the watch on if a watcher left, or if none looks in time. Called at the end of each
    /// step in which a request may have left or become a holder.
    #[inline]
    pub(crate) fn pass_watch_on(&mut self, now: Moment) {
        if let Some(watch) = &mut self.watch
            && std::mem::take(&mut watch.changed)
        {
            self.appoint(now);
        }
    }

    #[cold]
    fn appoint(&mut self, now: Moment) {
        let Some(due) = self.due(now, |_| false) else {
            return;
        };
        if self.watch().covers(due) {
            return;
        }
        // A request far back in the queue stays for long.
        let waiter = self.queue.late();
        let found = waiter.map(|waiter| (waiter.number, Arc::clone(&waiter.request)));
        if let Some((number, request)) = found.or_else(|| self.last_asking()) {
            let number = watches_as(number, &*request);
            self.watch().appoint(number, due);
            self.outbox.push(AfterUnlock::Watch(request));
        }
    }

    /// Revokes grants that exceed the hold limit while requests wait. Returns when the watcher must
    /// look again; `None` if it no longer waits or enough others watch.
    pub(crate) fn look(
        &mut self,
        waiting_at: RequestPosition,
        now: Moment,
        has_passed: impl Fn(Deadline) -> bool,
    ) -> Option<Deadline> {
        #[cfg(test)]
        {
            self.watch().looks += 1;
        }
        if !self.waits(waiting_at) {
            return None;
        }
        self.revoke_overdue(now, &has_passed);
        if !self.waits(waiting_at) {
            return None;
        }
        self.watch().discharge(waiting_at.number);
        let due = self.due(now, has_passed)?;
        self.watch().enlist(waiting_at.number, due)
    }

    fn waits(&self, waiting_at: RequestPosition) -> bool {
        let is_queued = waiting_at
            .ticket
            .is_some_and(|ticket| self.queue.waits(ticket));
        is_queued || self.waits_for_nodes(waiting_at.number)
    }

    /// Returns when the first of the holders that delay any request exceeds its limit. A holder
    /// that has exceeded it but cannot be revoked now is due again one limit later.
    fn due(&self, now: Moment, has_passed: impl Fn(Deadline) -> bool) -> Option<Deadline> {
        // To list the holders that delay a request takes a time that grows with the number of
        // waiters.
        if !self.had_limits {
            return None;
        }
        let due = |overdue: Overdue| match has_passed(overdue.at) {
            true => now.clock.deadline(overdue.limit()),
            false => Some(overdue.at),
        };
        if self.held {
            let overdue = self.holder.overdue.filter(|_| !self.queue.is_empty());
            return overdue.and_then(due);
        }
        let delaying = self.delaying().into_iter();
        delaying.filter_map(|(_, overdue, _)| due(overdue)).min()
    }

    fn revoke_overdue(&mut self, now: Moment, has_passed: impl Fn(Deadline) -> bool) {
        if !self.held {
            // The nodes of one may go to another that delays fewer requests.
            while let Some(&(number, overdue, _)) = self
                .delaying()
                .iter()
                .find(|(_, overdue, sealed)| !sealed && has_passed(overdue.at))
            {
                self.revoke_member(number, overdue, now);
            }
        } else if let Some(overdue) = self.holder.overdue
            && !self.queue.is_empty()
            && !self.holder.sealed
            && has_passed(overdue.at)
        {
            if self.holder.is_released_by_id() {
                self.remember_revocation(self.holder.grant.id());
            }
            let holder = self.holder.info(now.at);
            let part = match self.holder.scope {
                None => CapacityPart::Whole,
                Some(_) => CapacityPart::Share,
            };
            self.record_revocation(part, holder, overdue, now);
            self.observe_hold(TimelineOutcome::Revoked, now);
            let next = self.vacate(now, None);
            self.outbox.extend(next);
        }
    }

    #[cfg(loom)]
    pub(crate) fn first_watcher(&self) -> Option<RequestPosition> {
        let number = self.watch.as_ref()?.watchers.first()?.number;
        if number == KEEPER {
            return None;
        }
        let mut waiting = self.queue.waiting();
        if let Some((ticket, waiter)) = waiting.find(|(_, waiter)| waiter.number == number) {
            return Some(waiter.position_at(ticket));
        }
        let asking = self.member_of_number(number)?.asking.as_ref()?;
        Some(RequestPosition {
            number,
            wait: asking.wait,
            ticket: None,
        })
    }
}

#[cfg(test)]
mod tests;
