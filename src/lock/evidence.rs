//! What requests that got no grant are told, and how those that hold and wait are listed.

use std::time::{Duration, SystemTime};

use super::error::{CancelEvidence, TimeoutEvidence};
use super::node::NodeWait;
use super::request::{Asker, Claim};
use super::wait::Reason;
use super::{Grant, LockError, LockInfo, QueueEntry};
use crate::id::{LockId, OwnerId};

impl LockInfo {
    /// Whoever has held by this claim for so long, or for longer if that is not `exact`.
    pub(super) fn of(grant: Grant, claim: &Claim, held_for: Duration, exact: bool) -> Self {
        Self {
            lock_id: grant.id(),
            owner_id: claim.owner.clone(),
            fencing_token: grant.token,
            acquired_at: SystemTime::now()
                .checked_sub(held_for)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            at_least: !exact,
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
    pub(super) ahead: Vec<QueueEntry>,
    pub(super) node: Option<NodeWait>,
}

impl Withdrawn {
    /// What it is told. The holder is asked for only where that is part of it.
    pub(super) fn because(self, reason: Reason, holder: impl FnOnce() -> LockInfo) -> LockError {
        match reason {
            Reason::Expired(limit) => LockError::Timeout(Box::new(TimeoutEvidence {
                id: self.id,
                owner: self.owner,
                limit,
                // The limit went by another clock than the figures.
                waited: self.waited.max(limit),
                place: self.place,
                holder: holder(),
                ahead: self.ahead,
                node: self.node,
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
