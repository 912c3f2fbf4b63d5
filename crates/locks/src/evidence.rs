//! The evidence in errors of requests without a grant, and the entries of holders and waiters.

use std::time::{Duration, SystemTime};

use super::error::{CancelEvidence, TimeoutEvidence};
use super::request::{RequestSource, Requester};
use super::wait::Reason;
use super::{Grant, LockError, LockInfo, QueueEntry};
use crate::id::LockId;

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

impl TimeoutEvidence {
    /// Returns the error of the request, which left its queue for this reason.
    pub(super) fn because(self, reason: Reason) -> LockError {
        match reason {
            Reason::Expired(limit) => LockError::Timeout(Box::new(Self {
                limit,
                // The timeout begins just before the request joins the queue.
                waited: self.waited.max(limit),
                ..self
            })),
            Reason::Cancelled => LockError::Cancelled(Box::new(CancelEvidence {
                owner: self.owner,
                waited: self.waited,
                queued: Some((self.id, self.position)),
            })),
        }
    }
}
