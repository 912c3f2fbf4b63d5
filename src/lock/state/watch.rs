//! Which waiters keep watch over the limit on holding, and what they find.
//!
//! Invariant, whenever the mutex is free and holding has a limit: while any request waits, some
//! watcher looks no later than the first holder that delays a request exceeds the limit. One
//! exception: a holder of nodes that goes ahead of the line to get more may be found up to one
//! limit later.

use std::collections::VecDeque;

use super::*;

/// The waiters that sleep no longer than until their alarm, on behalf of all that wait.
#[derive(Debug, Default)]
pub(super) struct Watch {
    watchers: Vec<Watcher>,
    /// Whether one of them left.
    relieved: bool,
    /// The latest grants that were taken back and whose holders do not know it yet.
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

/// So many watch. Requests that join make up the number, so that a watcher that leaves a busy line
/// need not wake another waiter. In a model one, so that two that wait are enough to pass the watch
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

    /// Whether it was one of them.
    fn discharge(&mut self, number: u64) -> bool {
        let before = self.watchers.len();
        self.watchers.retain(|watcher| watcher.number != number);
        self.watchers.len() < before
    }
}

impl State {
    /// Takes note that a request waits no longer, whatever became of it.
    #[inline]
    pub(super) fn relieve(&mut self, number: u64) {
        if let Some(watch) = &mut self.watch {
            watch.relieved |= watch.discharge(number);
        }
    }

    /// Has a request that begins to wait keep watch where that is needed. Returns when it is to
    /// look.
    pub(in crate::lock) fn enlist(&mut self, stand: Stand, now: Moment) -> Option<Deadline> {
        // What is overdue already it sees at once.
        let due = self.due(now, |_| false)?;
        self.watch().enlist(stand.number, due)
    }

    pub(super) fn watch(&mut self) -> &mut Watch {
        self.watch.get_or_insert_default()
    }

    /// Passes the watch on if it was left. To be called at the end of each step in which a request
    /// may have left.
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
        // One far back in line stays for long.
        let waiter = self.queue.late();
        let found = waiter.map(|waiter| (waiter.number, Arc::clone(&waiter.request)));
        if let Some((number, request)) = found.or_else(|| self.last_asking()) {
            self.watch().appoint(number, due);
            self.outbox.push(Next::Watch(request));
        }
    }

    /// Takes back what was held for too long while others wait for it. Returns when the watcher is
    /// to look again; never, if it waits no longer or enough others watch.
    pub(in crate::lock) fn look(
        &mut self,
        stand: Stand,
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

    fn waits(&self, stand: Stand) -> bool {
        let in_line = stand.ticket.is_some_and(|ticket| self.queue.waits(ticket));
        in_line || self.waits_for_nodes(stand.number)
    }

    /// When the first will have held for too long of those for whom any request waits. A holder
    /// whose limit has passed already, but that cannot be revoked now, is due again when the limit
    /// has passed once more; so is one that has yet to begin.
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
            // What one leaves may go to another that is delayed by fewer.
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
    pub(in crate::lock) fn first_watcher(&self) -> Option<Stand> {
        let number = self.watch.as_ref()?.watchers.first()?.number;
        let mut waiting = self.queue.waiting();
        if let Some((ticket, waiter)) = waiting.find(|(_, waiter)| waiter.number == number) {
            return Some(waiter.stand(ticket));
        }
        let asking = self.nodes.as_ref()?.list.get(&number)?.asking.as_ref()?;
        Some(Stand {
            number,
            wait: asking.wait,
            ticket: None,
        })
    }
}

#[cfg(test)]
mod tests;
