//! The holder of a lock, and the start of its hold.

use std::cell::Cell;

use super::*;
use crate::request::Holder;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    pub(crate) at: Deadline,
    limit: PackedDuration,
}

impl Overdue {
    /// Returns when a hold that begins now exceeds the limit, if the clock counts that far.
    pub(crate) fn after(limit: Duration, now: MonotonicTime) -> Option<Self> {
        Some(Self {
            at: Deadline::after(limit, now)?,
            limit: PackedDuration::new(limit)?,
        })
    }

    pub(super) fn limit(self) -> Duration {
        self.limit.get()
    }
}

pub(crate) type LockHolder = Holder<LockHold>;

/// What the document lock keeps of a hold.
///
/// In this order: the fields that a request reads come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct LockHold {
    /// When it can be revoked.
    pub(super) overdue: Option<Overdue>,
    /// Its transaction publishes, so it cannot be revoked until that ends.
    pub(super) sealed: bool,
    /// Whether the hold was reported.
    pub(super) is_reported: Cell<bool>,
    /// Whether a long wait for it was reported.
    pub(super) is_named: Cell<bool>,
    /// The transaction that was begun under a grant which it does not own.
    pub(super) joined: Option<Joined>,
    /// The nodes of a request that is alone. Another one for nodes downgrades it to them.
    pub(super) scope: Option<Scope>,
    /// How long its request waited. Only a timeline needs it.
    pub(super) waited: Cell<Option<PackedDuration>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// The thread that would wait for itself, whichever thread acquired the lock.
    pub(super) thread: u64,
    /// The grant's owner is gone; the lock is released when the transaction ends.
    pub(super) last: bool,
}

impl LockHolder {
    /// Whether it holds anything. A request for nodes is admitted before that.
    pub(super) fn is_granted(&self) -> bool {
        self.grant.token != FencingToken(0)
    }

    /// Returns the thread that has a transaction under it, or requested it; zero for none.
    pub(super) fn thread(&self) -> u64 {
        self.more.joined.map_or(self.source.thread, |it| it.thread)
    }

    pub(super) fn has_transaction(&self) -> bool {
        self.source.transaction || self.more.joined.is_some()
    }
}
