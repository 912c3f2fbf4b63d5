//! What is kept of revoked grants, and when a grant cannot be revoked.

use super::*;

/// So many revoked grants are remembered, to be told apart from ids that never were.
pub(super) const REMEMBERED: usize = 256;

impl State {
    /// Keeps what the release of a grant is to be told.
    pub(super) fn remember_revocation(&mut self, id: LockId) {
        let revoked = &mut self.watch().revoked;
        if revoked.len() == REMEMBERED {
            revoked.pop_front();
        }
        revoked.push_back(id);
    }

    /// Whether a grant was taken back. To be told to its holder once.
    pub(super) fn learn_of_revocation(&mut self, id: LockId) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        let revoked = &mut watch.revoked;
        let at = revoked.iter().position(|&revoked| revoked == id);
        at.and_then(|at| revoked.remove(at)).is_some()
    }

    /// From here on the grant is not taken back until the transaction under it is over. `false`
    /// when it was already.
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
}
