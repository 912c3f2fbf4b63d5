//! Records of revoked grants, and the protection of grants from revocation.

use super::*;

/// This many revoked grants are remembered, to distinguish them from ids that were never granted.
pub(super) const REMEMBERED: usize = 256;

impl LockState {
    /// Remembers the revocation for the release of the grant.
    pub(super) fn remember_revocation(&mut self, id: LockId) {
        let revoked = &mut self.hold_limits().revoked;
        if revoked.len() == REMEMBERED {
            revoked.pop_front();
        }
        revoked.push_back(id);
    }

    /// Revokes a grant that exceeds its limit.
    pub(super) fn revoke(&mut self, id: LockId, overdue: Overdue, now: MonotonicTime) {
        let Some(hold) = self.hold_of(id) else {
            return;
        };
        let (is_released_by_id, info) = (hold.is_released_by_id(), hold.info(now));
        if is_released_by_id {
            self.remember_revocation(id);
        }
        let limit = overdue.limit();
        let part = self.part_held();
        self.recorder_of(part).counts.total_revocations += 1;
        match part {
            CapacityPart::Whole => self.hold_limits().last_revocations.push(info, limit, now),
            CapacityPart::Share => {
                let nodes = self.nodes.get_or_insert_default();
                nodes.last_revocations.push(info, limit, now);
            }
        }
        self.observe_end(id, TimelineOutcome::Revoked, now);
        if self.held {
            let next = self.vacate(now, None);
            self.outbox.extend(next);
        } else {
            self.leave(id.number, now);
        }
    }

    /// Whether a grant was revoked. Returns `true` once, for its holder.
    pub(super) fn learn_of_revocation(&mut self, id: LockId) -> bool {
        let Some(limits) = &mut self.hold_limits else {
            return false;
        };
        let revoked = &mut limits.revoked;
        let at = revoked.iter().position(|&revoked| revoked == id);
        at.and_then(|at| revoked.remove(at)).is_some()
    }

    /// Protects the grant from revocation until the transaction under it ends. `false` when it was
    /// already revoked.
    pub(crate) fn seal(&mut self, id: LockId) -> bool {
        self.hold_of(id).map(|hold| hold.sealed = true).is_some()
    }

    /// Returns the description of the request of a grant, of the whole lock or of nodes, if it is
    /// still held.
    pub(crate) fn held_source(&mut self, id: LockId) -> Option<&mut RequestSource> {
        self.hold_of(id).map(|hold| &mut hold.source)
    }
}
