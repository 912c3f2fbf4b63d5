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

    /// Counts a revocation, and records its holder for the statistics.
    pub(super) fn record_revocation(
        &mut self,
        part: CapacityPart,
        holder: LockInfo,
        overdue: Overdue,
        now: Moment,
    ) {
        self.recorder_of(part).counts.revocations += 1;
        let last = match part {
            CapacityPart::Whole => &mut self.hold_limits().last_revocations,
            CapacityPart::Share => &mut self.nodes.get_or_insert_default().last_revocations,
        };
        last.push(holder, overdue.limit(), now.at);
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
        match self.holder_of(id) {
            Some(holder) => {
                holder.sealed = true;
                true
            }
            None => self.seal_member(id),
        }
    }

    /// Whether a grant is still held, of the whole lock or of nodes.
    pub(crate) fn is_granted(&mut self, id: LockId) -> bool {
        self.holder_of(id).is_some() || self.is_member(id)
    }
}
