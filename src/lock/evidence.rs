//! What requests that got no grant are told, and how those that hold and wait are listed.

use std::time::{Duration, SystemTime};

use super::error::{CancelEvidence, TimeoutEvidence};
use super::request::{Asker, Claim};
use super::since::Since;
use super::wait::Reason;
use super::{LockError, LockInfo, QueueEntry};
use crate::id::{FencingToken, LockId, OwnerId};
use crate::time::Timestamp;

impl LockInfo {
    /// Whoever holds by this claim since then.
    pub(super) fn of(
        id: LockId,
        fencing_token: FencingToken,
        claim: &Claim,
        began: Since,
        now: Timestamp,
    ) -> Self {
        let since = began.known().map_or(now, |(since, _)| since);
        let held_for = now - since;
        Self {
            lock_id: id,
            owner_id: claim.owner.clone(),
            fencing_token,
            acquired_at: SystemTime::now()
                .checked_sub(held_for)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            at_least: !began.exact,
            label: claim.label.clone(),
            call_site: claim.call_site.into(),
        }
    }
}

impl QueueEntry {
    /// Whoever asked in this way and has waited for so long.
    pub(super) fn of(id: LockId, asker: &Asker<'_>, waited: Duration, place: usize) -> Self {
        Self {
            lock_id: id,
            owner_id: asker.owner.clone(),
            wait_time: waited,
            place,
            label: asker.label.cloned(),
            call_site: asker.call_site.into(),
        }
    }
}

/// A request that left its line without a grant.
pub(super) struct Withdrawn {
    pub(super) id: LockId,
    pub(super) owner: OwnerId,
    pub(super) waited: Duration,
    /// Where it stood; 1 was next.
    pub(super) place: usize,
    pub(super) holder: LockInfo,
    pub(super) ahead: Vec<QueueEntry>,
}

impl Withdrawn {
    pub(super) fn because(self, reason: Reason) -> LockError {
        match reason {
            Reason::Expired(limit) => LockError::Timeout(Box::new(TimeoutEvidence {
                id: self.id,
                owner: self.owner,
                limit,
                // The limit went by another clock than the figures.
                waited: self.waited.max(limit),
                place: self.place,
                holder: self.holder,
                ahead: self.ahead,
            })),
            Reason::Cancelled => LockError::Cancelled(Box::new(CancelEvidence {
                owner: self.owner,
                waited: self.waited,
                stood: Some((self.id, self.place)),
            })),
        }
    }
}

impl CancelEvidence {
    /// Of a request whose token had been cancelled before it joined any line.
    pub(super) fn before_joining(owner: &OwnerId) -> Self {
        Self {
            owner: owner.clone(),
            waited: Duration::ZERO,
            stood: None,
        }
    }
}
