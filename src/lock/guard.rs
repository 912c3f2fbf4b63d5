//! A grant that releases itself.

use super::{FifoLock, Grant};
use crate::id::{FencingToken, LockId};

/// Holds a [`FifoLock`] until it is dropped.
///
/// It may be sent to another thread and dropped there. Where a transaction is still open under it
/// ([`DataStore::begin_under`](crate::DataStore::begin_under)), the lock is released when that
/// transaction ends.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    lock: FifoLock,
    grant: Grant,
}

impl LockGuard {
    pub(crate) fn new(lock: FifoLock, grant: Grant) -> Self {
        Self { lock, grant }
    }

    /// The id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// The number of the grant, greater than that of every earlier one.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.lock.release_or_defer(self.grant.id());
    }
}
