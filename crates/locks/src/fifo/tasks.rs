//! Waiting for the lock in a task.

use std::panic::Location;

use super::FifoLock;
use crate::id::{LockId, OwnerId};
use crate::wait::WaitsAs;
use crate::{AcquireOptions, LockError, LockGuard};

/// # Tasks
///
/// Tasks and threads wait in one queue. A future does nothing before it is first polled; then its
/// request joins the queue. The thread of the executor is never blocked. The timeout and the cancel
/// token work as for threads, without a timer of the executor.
///
/// **Cancel safety.** A future that is dropped leaves the queue, and loses its position. If it was
/// granted the lock and has not been polled since, the drop releases the lock, and the next waiter
/// holds it.
///
/// **Futurelock.** A task can be granted the lock while it waits for something else and does not
/// poll the future, as in `select!` on `&mut future`. Then the lock is held by a task that does not
/// know it. Errors and diagnostics say so: [`LockInfo::untaken`](crate::LockInfo::untaken). A
/// [hold limit](crate::LockOptions::hold_limit) revokes such a grant.
///
/// A task is not recognized as the holder when it requests the lock again: that request waits until
/// its timeout. The guards are bound to no thread, so a task may release on any thread.
impl FifoLock {
    /// Acquires the lock for the life of the returned guard, in a task. See [Tasks](#tasks).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), apart from [`LockError::Reentrant`], and
    /// [`LockError::NoKeeper`].
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// # pollster::block_on(async {
    /// let lock = FifoLock::new();
    /// let guard = lock.lock_async("editor").await?;
    /// assert!(lock.is_locked());
    /// drop(guard);
    /// # Ok::<(), doclock_locks::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn lock_async(
        &self,
        owner: impl Into<OwnerId>,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send + 'static {
        let (lock, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        async move {
            if let Some(grant) = lock.take_plainly(&owner, call_site) {
                return Ok(LockGuard::new(lock, grant));
            }
            lock.guard_in_task(owner, AcquireOptions::new(), call_site)
                .await
        }
    }

    async fn guard_in_task(
        self,
        owner: OwnerId,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<LockGuard, LockError> {
        let requester = options.requester_of_task(&owner, call_site, false);
        let grant = self.grant_as(WaitsAs::Task, &requester, &options).await?;
        Ok(LockGuard::new(self, grant))
    }

    /// Acquires the lock as [`lock_async`](Self::lock_async) does, with options.
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    #[track_caller]
    pub fn lock_async_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send + 'static {
        let (lock, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        lock.guard_in_task(owner, options, call_site)
    }

    /// Acquires the lock in a task and returns the id of the grant, for
    /// [`release_lock`](Self::release_lock). See [Tasks](#tasks).
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// # pollster::block_on(async {
    /// let lock = FifoLock::new();
    /// let id = lock.acquire_lock_async("editor").await?;
    /// lock.release_lock(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn acquire_lock_async(
        &self,
        owner: impl Into<OwnerId>,
    ) -> impl Future<Output = Result<LockId, LockError>> + Send + 'static {
        self.acquire_lock_async_with(owner, AcquireOptions::new())
    }

    /// Acquires the lock as [`acquire_lock_async`](Self::acquire_lock_async) does, with options.
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    #[track_caller]
    pub fn acquire_lock_async_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> impl Future<Output = Result<LockId, LockError>> + Send + 'static {
        let (lock, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        async move {
            let requester = options.requester_of_task(&owner, call_site, false);
            Ok(lock
                .grant_as(WaitsAs::Task, &requester, &options)
                .await?
                .id())
        }
    }

    /// The code of the keeper's thread, which a model runs itself. It serves the lock, and ends
    /// with it.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn keeper_thread(&self) -> impl FnOnce() + Send + use<> {
        let keeper = std::sync::Arc::clone(self.keeper());
        keeper.attend(&self.0).expect("no thread is started");
        move || keeper.run()
    }
}
