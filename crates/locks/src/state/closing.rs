//! A closed lock grants no request. What closes it is described as a holder that holds nothing.
//!
//! L34. Whenever the mutex is free, a lock that is closed has admitted no request since it was
//! closed; and a request at the head of the queue that fits is there only while it is closed.

use super::*;

/// What closes the lock.
#[derive(Default)]
pub(super) struct Closing {
    /// The number of the last change.
    change: u64,
    /// Described as a holder. `None` while the lock is open.
    by: Option<LockHolder>,
}

impl LockState {
    /// Closes the lock, or opens it and grants it. A change after a later one has no effect.
    pub(crate) fn set_closed(
        &mut self,
        change: u64,
        by: Option<(&OwnerId, &'static Location<'static>)>,
    ) -> Option<AfterUnlock> {
        let closing = self.closing.get_or_insert_default();
        if change <= closing.change {
            return None;
        }
        closing.change = change;
        if let Some(closed) = closing.by.take() {
            // A request that has come since then has a later number.
            let began = closed.grant.id().number;
            if self.requests > began || !self.queue.is_empty() {
                // Code that sees reports may use the session of the commit that closes the lock.
                self.observe_opening(&closed, by.is_none());
            }
        }
        let Some((owner, call_site)) = by else {
            // Now the holders delay the queue.
            let due = self.due(|_| false);
            self.let_keeper_look(due);
            return self.grant_next(None);
        };
        let mut closed = LockHolder::default();
        closed.source.assign_plainly(owner.clone(), call_site, 0);
        closed.grant = Grant::new(self.next_id(), FencingToken(0), false);
        closed.since = HoldStart::now(self.now);
        self.closing.get_or_insert_default().by = Some(closed);
        None
    }

    /// Notes that the last holder has left a closed lock: until now, the requests waited for it.
    pub(super) fn blocks_from_now(&mut self) {
        if let Some(closing) = &mut self.closing
            && let Some(closed) = &mut closing.by
        {
            closed.since = HoldStart::now(self.now);
            closed.more.is_reported.set(false);
        }
    }

    /// Whether the queue waits for the holders, not for what closes the lock.
    pub(super) fn holders_delay_queue(&self) -> bool {
        !self.queue.is_empty() && self.closed().is_none()
    }

    /// Returns the holders. Without any, what closes the lock.
    pub(super) fn holds_or_closing(&self) -> impl Iterator<Item = &LockHolder> {
        let closed = self.closed().filter(|_| self.holds().next().is_none());
        self.holds().chain(closed)
    }

    /// Returns what keeps a request of a part waiting. Holders that can share with it come last.
    pub(super) fn in_front_of(&self, part: CapacityPart) -> impl Iterator<Item = &LockHolder> {
        let apart = self.holder().or_else(|| self.closed());
        let apart = apart.filter(|_| part == CapacityPart::Share);
        apart.into_iter().chain(self.holds_or_closing())
    }

    #[inline]
    pub(super) fn closed(&self) -> Option<&LockHolder> {
        self.closing.as_ref()?.by.as_ref()
    }
}
