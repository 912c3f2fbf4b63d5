//! Who holds a lock, and since when.

use std::time::{Duration, SystemTime};

use crate::lock::node::Scope;
use crate::lock::request::Claim;
use crate::lock::tempo::Measured;
use crate::lock::{Grant, LockInfo};
use crate::time::{Deadline, Timestamp};

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) grant: Grant,
    pub(super) claim: Claim,
    pub(super) since: Since,
    /// When others may take the lock away.
    pub(super) overdue: Option<Deadline>,
    /// It publishes, and cannot be revoked until it is done.
    pub(super) sealed: bool,
    /// The transaction that was begun under a grant which it does not own.
    pub(super) joined: Option<Joined>,
    /// If it asked for nodes only, and is alone: which. It is narrowed to them when somebody else asks for nodes.
    pub(super) scope: Option<Scope>,
}

/// When a hold began. Plain fields, each written to its place at once, like [`Claim::assign`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    pub(super) at: Timestamp,
    /// For how many holds this one stands in the figures; zero says that nobody has looked at the clock yet.
    pub(super) weight: u64,
    /// Whether it began at that moment, and not at some time before.
    pub(super) exact: bool,
}

impl Since {
    #[inline(always)]
    pub(super) fn begin(&mut self, measured: Option<Measured>) {
        self.exact = measured.is_some();
        self.weight = 0;
        if let Some(Measured { at, weight }) = measured {
            self.at = at;
            self.weight = weight;
        }
    }

    /// When it began, as far as is known, and for how many holds it stands.
    pub(super) fn known(self) -> Option<(Timestamp, u64)> {
        (self.weight > 0).then_some((self.at, self.weight))
    }

    /// Takes note that somebody looks, which is the least that is known of when an unmeasured hold began.
    pub(super) fn observe(&mut self, now: Timestamp) {
        if self.weight == 0 {
            (self.at, self.weight) = (now, 1);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// Whose thread would wait for itself if it asked for the lock, whoever acquired it.
    pub(super) thread: u64,
    /// The grant's owner is gone; the lock is released when the transaction ends.
    pub(super) last: bool,
}

impl Holder {
    pub(super) fn nobody() -> Self {
        Self {
            grant: Grant::none(),
            claim: Claim::nobody(),
            since: Since {
                at: Timestamp::default(),
                weight: 0,
                exact: false,
            },
            overdue: None,
            sealed: false,
            joined: None,
            scope: None,
        }
    }

    pub(super) fn is_held_by(&self, thread: u64) -> bool {
        let joined = self.joined.map(|joined| joined.thread);
        self.claim.thread == thread || joined == Some(thread)
    }

    /// Whether somebody is to release it beside the transaction under it, which learns of a revocation on its own.
    pub(super) fn is_released_by_id(&self) -> bool {
        let is_left = self.joined.is_some_and(|joined| joined.last);
        !self.claim.transaction && !is_left
    }

    pub(super) fn has_transaction(&self) -> bool {
        self.claim.transaction || self.joined.is_some()
    }

    pub(super) fn info(&self, now: Timestamp) -> LockInfo {
        let since = self.since.known().map_or(now, |(since, _)| since);
        LockInfo {
            at_least: !self.since.exact,
            ..lock_info(self.grant, &self.claim, now - since)
        }
    }
}

pub(super) fn lock_info(grant: Grant, claim: &Claim, held_for: Duration) -> LockInfo {
    LockInfo {
        lock_id: grant.id(),
        owner_id: claim.owner.clone(),
        fencing_token: grant.token,
        acquired_at: SystemTime::now()
            .checked_sub(held_for)
            .unwrap_or(SystemTime::UNIX_EPOCH),
        held_for,
        at_least: false,
        label: claim.label.clone(),
        call_site: claim.call_site.into(),
    }
}
