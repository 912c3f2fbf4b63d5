//! Which waiters watch the hold limit, and how they revoke.
//!
//! L20. Whenever the mutex is free and there is a hold limit: while any request waits, some
//! watcher looks no later than the first holder that delays a request exceeds the limit. One
//! exception: a holder of nodes that goes ahead of the queue to get more may be found up to one
//! limit later.

use std::collections::VecDeque;

use super::*;

/// The waiters that sleep no longer than until their alarm, on behalf of all waiters.
#[derive(Debug, Default)]
pub(super) struct Watch {
    watchers: Vec<Watcher>,
    /// Whether one of them left.
    relieved: bool,
    /// The latest revoked grants whose holders have not seen the revocation yet.
    pub(super) revoked: VecDeque<LockId>,
    /// How often any of them looked.
    #[cfg(test)]
    pub(super) looks: usize,
}

#[derive(Clone, Copy, Debug)]
struct Watcher {
    /// The number of its request.
    number: u64,
    alarm: Deadline,
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
            watch.relieved |= watch.discharge(number);
        }
    }

    /// Makes a request that begins to wait a watcher if one is needed. Returns when it must look.
    pub(in crate::lock) fn enlist(
        &mut self,
        stand: RequestPosition,
        now: Moment,
    ) -> Option<Deadline> {
        // A watcher sees at once what is already overdue.
        let due = self.due(now, |_| false)?;
        self.watch().enlist(stand.number, due)
    }

    pub(super) fn watch(&mut self) -> &mut Watch {
        self.watch.get_or_insert_default()
    }

    /// Passes the watch on if a watcher left. Called at the end of each step in which a request may
    /// have left.
    #[inline]
    pub(in crate::lock) fn pass_watch_on(&mut self, now: Moment) {
        if let Some(watch) = &mut self.watch
            && std::mem::take(&mut watch.relieved)
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
            self.watch().appoint(number, due);
            self.outbox.push(AfterUnlock::Watch(request));
        }
    }

    /// Revokes grants that exceed the hold limit while requests wait. Returns when the watcher must
    /// look again; `None` if it no longer waits or enough others watch.
    pub(in crate::lock) fn look(
        &mut self,
        stand: RequestPosition,
        now: Moment,
        has_passed: impl Fn(Deadline) -> bool,
    ) -> Option<Deadline> {
        #[cfg(test)]
        {
            self.watch().looks += 1;
        }
        if !self.waits(stand) {
            return None;
        }
        self.revoke_overdue(now, &has_passed);
        if !self.waits(stand) {
            return None;
        }
        self.watch().discharge(stand.number);
        let due = self.due(now, has_passed)?;
        self.watch().enlist(stand.number, due)
    }

    fn waits(&self, stand: RequestPosition) -> bool {
        let in_line = stand.ticket.is_some_and(|ticket| self.queue.waits(ticket));
        in_line || self.waits_for_nodes(stand.number)
    }

    /// Returns when the first of the holders that delay any request exceeds its limit. A holder
    /// that has exceeded it but cannot be revoked now is due again one limit later; so is one that
    /// has yet to begin.
    fn due(&self, now: Moment, has_passed: impl Fn(Deadline) -> bool) -> Option<Deadline> {
        let later = now.overdue?;
        let due = |overdue: Option<Deadline>| {
            let ahead = overdue.filter(|&overdue| !has_passed(overdue));
            ahead.unwrap_or(later)
        };
        if self.held {
            return (!self.queue.is_empty()).then(|| due(self.holder.overdue));
        }
        let overdue = self.delaying().into_iter().map(|(_, overdue, _)| overdue);
        overdue.map(due).min()
    }

    fn revoke_overdue(&mut self, now: Moment, has_passed: impl Fn(Deadline) -> bool) {
        let is_over = |overdue: Option<Deadline>| overdue.is_some_and(&has_passed);
        if !self.held {
            // The nodes of one may go to another that delays fewer requests.
            while let Some(&(number, ..)) = self
                .delaying()
                .iter()
                .find(|(_, overdue, sealed)| !sealed && is_over(*overdue))
            {
                self.revoke_member(number, now);
            }
        } else if !self.queue.is_empty() && !self.holder.sealed && is_over(self.holder.overdue) {
            if self.holder.is_released_by_id() {
                self.remember_revocation(self.holder.grant.id());
            }
            self.recorder().revocations += 1;
            let next = self.vacate(now, None);
            self.outbox.extend(next);
        }
    }

    #[cfg(loom)]
    pub(in crate::lock) fn first_watcher(&self) -> Option<RequestPosition> {
        let number = self.watch.as_ref()?.watchers.first()?.number;
        let mut waiting = self.queue.waiting();
        if let Some((ticket, waiter)) = waiting.find(|(_, waiter)| waiter.number == number) {
            return Some(waiter.stand(ticket));
        }
        let asking = self.nodes.as_ref()?.list.get(&number)?.asking.as_ref()?;
        Some(RequestPosition {
            number,
            wait: asking.wait,
            ticket: None,
        })
    }
}

#[cfg(test)]
mod tests;
