//! The evidence in errors of requests without a grant, and the entries of holders and waiters.

use std::time::{Duration, SystemTime};

use super::error::{CancelEvidence, TimeoutEvidence};
use super::node::NodeWait;
use super::request::{RequestSource, Requester};
use super::wait::Reason;
use super::{Grant, LockError, LockInfo, QueueEntry};
use crate::id::{LockId, OwnerId};

impl LockInfo {
    /// Describes the holder with this source. It has held for `held_for`, or longer if not `exact`.
    pub(super) fn of(
        grant: Grant,
        source: &RequestSource,
        held_for: Duration,
        exact: bool,
    ) -> Self {
        Self {
            lock_id: grant.id(),
            owner_id: source.owner.clone(),
            fencing_token: grant.token,
            acquired_at: SystemTime::now()
                .checked_sub(held_for)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            at_least: !exact,
            untaken: source.untaken,
            label: source.label.clone(),
            call_site: source.call_site.into(),
        }
    }
}

impl QueueEntry {
    /// Describes a request that has waited for `waited`.
    pub(super) fn of(
        id: LockId,
        requester: &Requester<'_>,
        waited: Duration,
        position: usize,
    ) -> Self {
        Self {
            lock_id: id,
            owner_id: requester.owner.clone(),
            wait_time: waited,
            position,
            label: requester.label.cloned(),
            call_site: requester.call_site.into(),
        }
    }
}

/// A request that left its queue without a grant.
pub(super) struct Withdrawn {
    pub(super) id: LockId,
    pub(super) owner: OwnerId,
    pub(super) waited: Duration,
    /// Its queue position; 1 is the head of the queue.
    pub(super) position: usize,
    pub(super) ahead: Vec<QueueEntry>,
    pub(super) node: Option<NodeWait>,
}

impl Withdrawn {
    /// Returns its error. `holder` is called only if the error contains it.
    pub(super) fn because(self, reason: Reason, holder: impl FnOnce() -> LockInfo) -> LockError {
        match reason {
            Reason::Expired(limit) => LockError::Timeout(Box::new(TimeoutEvidence {
                id: self.id,
                owner: self.owner,
                limit,
                // The timeout begins just before the request joins the queue.
                waited: self.waited.max(limit),
                position: self.position,
                holder: holder(),
                ahead: self.ahead,
                node: self.node,
            })),
            Reason::Cancelled => LockError::Cancelled(Box::new(CancelEvidence {
                owner: self.owner,
                waited: self.waited,
                queued: Some((self.id, self.position)),
            })),
        }
    }
}
