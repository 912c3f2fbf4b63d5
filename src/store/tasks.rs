//! Waiting for the lock of a store in a task.

use std::panic::Location;

use super::{DataStore, Kind, Transaction};
use crate::id::{LockId, OwnerId};
use crate::lock::{AcquireOptions, LockError, LockGuard};

/// # Tasks
///
/// The methods that wait have forms for tasks of an executor, such as tokio's or smol's. They need
/// no particular one. A future does nothing before it is first polled. Tasks and threads wait in
/// one queue, in FIFO order, with the same timeouts, cancel tokens and bounds. A thread of the
/// executor is never blocked; [`FifoLock`](crate::lock::FifoLock#tasks) describes the rest.
///
/// | call | if its future is dropped |
/// |---|---|
/// | `lock_async`, `acquire_lock_async`, `begin_async`, `begin_on_async` | the request leaves the queue; a grant that was not taken is released |
/// | `.await` of a [pending transaction](crate::transaction::PendingTransaction) | the batch leaves the queue, or runs to its end; ask with its key |
/// | [`wait_durable_async`](Self::wait_durable_async), [`Subscription::recv_async`](crate::events::Subscription::recv_async) | nothing is lost |
///
/// The methods without `async` in their name block the thread of the executor, with all its other
/// tasks. An open transaction and a guard are values as in threads: they may be kept across an
/// `await`, and then all other requests wait for that, too. A commit in a durable store blocks
/// until it is written; [`commit_async`](Transaction::commit_async) waits for that in the task.
impl DataStore {
    /// Waits for the lock in a task, and holds it until the returned guard is dropped. See
    /// [Tasks](#tasks).
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock), apart from `Reentrant`, and `NoKeeper`.
    ///
    /// ```
    /// use doclock::DataStore;
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let guard = store.lock_async("ann").await?;
    /// assert!(store.is_locked());
    /// drop(guard);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn lock_async(
        &self,
        owner: impl Into<OwnerId>,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send + 'static {
        self.lock_async_with(owner, AcquireOptions::new())
    }

    /// Waits as [`lock_async`](Self::lock_async) does, with options for the wait.
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
        let (store, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        async move {
            let requester = options.requester_of_task(&owner, call_site, false);
            let grant = store.grant_to_task(&requester, &options).await?;
            Ok(LockGuard::new(store.0.lock.clone(), grant))
        }
    }

    /// Waits for the lock in a task and returns its id, which [`release_lock`](Self::release_lock)
    /// takes. See [Tasks](#tasks).
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    #[track_caller]
    pub fn acquire_lock_async(
        &self,
        owner: impl Into<OwnerId>,
    ) -> impl Future<Output = Result<LockId, LockError>> + Send + 'static {
        self.acquire_lock_async_with(owner, AcquireOptions::new())
    }

    /// Waits as [`acquire_lock_async`](Self::acquire_lock_async) does, with options for the wait.
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
        let (store, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        async move {
            let requester = options.requester_of_task(&owner, call_site, false);
            Ok(store.grant_to_task(&requester, &options).await?.id())
        }
    }

    /// Waits for the lock in a task and begins a transaction that owns it. See [Tasks](#tasks).
    ///
    /// The lock is held until the transaction ends, also while the task waits for something else.
    /// A [pending transaction](crate::transaction::PendingTransaction) never holds it across an
    /// `await`.
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec};
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let mut transaction = store.begin_async("ann").await?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// assert_eq!(transaction.commit_async().await?.version, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn begin_async(
        &self,
        owner: impl Into<OwnerId>,
    ) -> impl Future<Output = Result<Transaction, LockError>> + Send + 'static {
        self.begin_async_with(owner, AcquireOptions::new())
    }

    /// Begins a transaction as [`begin_async`](Self::begin_async) does, with options for the wait.
    ///
    /// # Errors
    ///
    /// As [`lock_async`](Self::lock_async).
    #[track_caller]
    pub fn begin_async_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> impl Future<Output = Result<Transaction, LockError>> + Send + 'static {
        let (store, owner, call_site) = (self.clone(), owner.into(), Location::caller());
        async move {
            let requester = options.requester_of_task(&owner, call_site, true);
            let mut observed = store.observe(Kind::ByHand, &requester);
            let grant = observed.grant(store.grant_to_task(&requester, &options).await)?;
            Ok(store.begin_observed(grant, owner, observed))
        }
    }

    /// The code of the keeper's thread, which a model runs itself.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn keeper_thread(&self) -> impl FnOnce() + Send + use<> {
        self.0.lock.keeper_thread()
    }
}
