//! The limit on holding: taking a lock back from who has held it for too long.

use super::*;

/// So many revoked grants are remembered, to be told apart from ids that never were.
pub(super) const REMEMBERED: usize = 256;

impl State {
    /// Takes the lock from a holder that has held for too long, if the one who asks waits for it. Tells when the present
    /// holder will have.
    pub(in crate::lock) fn revoke_overdue(
        &mut self,
        stand: Stand,
        now: Moment,
        has_passed: impl Fn(Deadline) -> bool,
    ) -> (Option<Next>, Option<Deadline>) {
        let place = stand.ticket.and_then(|ticket| self.queue.place(ticket));
        if !self.held {
            let next = self.revoke_members(stand.number, place.is_some(), now, has_passed);
            // By that somebody may hold the whole, for whom it waits now.
            return (None, next.or_else(|| self.overdue(stand, now)));
        }
        if place.is_none() {
            // Who asks has been granted the lock, and need not keep an eye on the holder any more.
            return (None, None);
        }
        let overdue = self.holder.overdue;
        if !overdue.is_some_and(has_passed) {
            return (None, overdue);
        }
        if self.holder.sealed {
            return (None, now.overdue);
        }
        if self.holder.is_released_by_id() {
            self.remember_revocation(self.holder.grant.id());
        }
        self.recorder().revocations += 1;
        (self.vacate(now, None), now.overdue)
    }

    /// Keeps what the release of a grant is to be told.
    pub(super) fn remember_revocation(&mut self, id: LockId) {
        if self.revoked.len() == REMEMBERED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(id);
    }

    /// Whether a grant was taken back. To be told to its holder once.
    pub(super) fn learn_of_revocation(&mut self, id: LockId) -> bool {
        let at = self.revoked.iter().position(|&revoked| revoked == id);
        at.and_then(|at| self.revoked.remove(at)).is_some()
    }

    /// From here on the grant is not taken back until the transaction under it is over. `false` when it was already.
    pub(in crate::lock) fn seal(&mut self, id: LockId) -> bool {
        match self.holder_of(id) {
            Some(holder) => {
                holder.sealed = true;
                true
            }
            None => self.seal_member(id),
        }
    }

    /// Whether a grant holds still, of the whole or of nodes.
    pub(in crate::lock) fn is_granted(&mut self, id: LockId) -> bool {
        self.holder_of(id).is_some() || self.is_member(id)
    }

    /// When the first of those whom a request waits for will have held for too long.
    pub(in crate::lock) fn overdue(&self, stand: Stand, now: Moment) -> Option<Deadline> {
        match self.holder() {
            Some(holder) => holder.overdue,
            None => self.members_overdue(stand.number, stand.ticket.is_some(), now),
        }
    }
}
