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
    /// `None` once it is given up for its id.
    lock: Option<FifoLock>,
    grant: Grant,
}

impl LockGuard {
    #[doc(hidden)]
    pub fn new(lock: FifoLock, grant: Grant) -> Self {
        let lock = Some(lock);
        Self { lock, grant }
    }

    /// Returns the id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// Keeps the lock held, and returns the id of the grant, for
    /// [`release_lock`](FifoLock::release_lock). The grant is then bound to no thread: if the
    /// calling thread requests the lock again, that request waits as one of any other thread. A
    /// transaction that is open under the guard stays open. If the grant was revoked, the release
    /// fails with [`ReleaseError::Revoked`](crate::ReleaseError::Revoked).
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// let lock = FifoLock::new();
    /// let id = lock.request("front end").label("drag").wait()?.into_id();
    /// assert!(lock.is_locked());
    /// lock.release_lock(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_id(mut self) -> LockId {
        let id = self.grant.id();
        if let Some(lock) = self.lock.take() {
            lock.unbind(id);
        }
        id
    }

    /// Returns the fencing token of the grant, greater than that of every earlier one.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            lock.release_or_defer(self.grant.id());
        }
    }
}
