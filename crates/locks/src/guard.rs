//! A grant that releases itself.

use super::{FifoLock, Grant};
use crate::id::{FencingToken, LockId};

/// Holds a [`FifoLock`] until it is dropped.
///
/// It may move to another thread and be dropped there. If a transaction is open under it
/// (`DataStore::begin_under`), the end of that transaction
/// releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    lock: FifoLock,
    grant: Grant,
}

impl LockGuard {
    #[doc(hidden)]
    pub fn new(lock: FifoLock, grant: Grant) -> Self {
        Self { lock, grant }
    }

    /// Returns the id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// Returns the fencing token of the grant, greater than that of every earlier one.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.lock.release_or_defer(self.grant.id());
    }
}
