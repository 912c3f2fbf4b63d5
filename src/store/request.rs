//! Requests for the lock of a store, by threads and by tasks.

use std::panic::Location;

use super::{DataStore, Kind, Transaction};
use crate::id::OwnerId;
use crate::lock::{
    AcquireOptions, LockError, LockGuard, LockRequest, NodesInstead, PendingRequest, Scope, WaitsAs,
};

/// # Tasks
///
/// A [`PendingRequest`] and a [pending transaction](crate::transaction::PendingTransaction) wait in
/// a task of an executor with `.await`. They need no particular executor. A future does nothing
/// before it is first polled. Tasks and threads wait in one queue, in FIFO order, with the same
/// timeouts, cancel tokens and bounds. The wait for a grant does not block the thread of the
/// executor; [`FifoLock`](crate::lock::FifoLock#tasks) describes the rest.
///
/// | await of | if the future is dropped |
/// |---|---|
/// | [`request`](Self::request), [`request_transaction`](Self::request_transaction) | the request leaves the queue; a grant that was not taken is released |
/// | a [pending transaction](crate::transaction::PendingTransaction) | the batch leaves the queue, or runs to its end; ask with its key |
/// | [`wait_durable`](Self::wait_durable), [`Subscription::recv_async`](crate::events::Subscription::recv_async) | nothing is lost |
///
/// The methods that wait and return no future block the thread of the executor, with all its other
/// tasks. An open transaction and a guard are values as in threads: they may be kept across an
/// `await`, and then all other requests wait for that, too. A commit in a durable store blocks
/// until it is written; [`commit_async`](Transaction::commit_async) waits for that in the task.
impl DataStore {
    /// Returns a request for a guard, to set its options. Nothing is requested before
    /// [`wait`](PendingRequest::wait) or `.await`.
    ///
    /// ```
    /// use doclock::{DataStore, lock::AcquireOptions};
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let guard = store.request("ann").label("layout").await?;
    /// let refused = store.request("ben").options(AcquireOptions::new().no_wait()).wait();
    /// assert_eq!(refused.unwrap_err().code(), "lockWouldBlock");
    /// # Ok::<(), doclock::lock::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn request(&self, owner: impl Into<OwnerId>) -> PendingRequest<'static, StoreRequest> {
        PendingRequest::new(StoreRequest {
            store: self.clone(),
            owner: owner.into(),
        })
    }

    /// Returns a request for a transaction that owns the lock, to set its options. Nothing is
    /// requested before [`wait`](PendingRequest::wait) or `.await`. The lock is held until the
    /// transaction ends, also while a task waits for something else. A [pending
    /// transaction](crate::transaction::PendingTransaction) never holds it across an `await`.
    ///
    /// # On nodes
    ///
    /// With [`on(scope)`](PendingRequest::on) it is a request for the transaction of
    /// [`begin_on`](Self::begin_on). The options hold for this wait and for all later waits of the
    /// transaction. Priorities count in the queue of the document lock, and not in the queues of
    /// nodes. In a task, the waits for further nodes, when the transaction changes or reads them,
    /// block the thread that polls: lock the nodes with the scope.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use doclock::{DataStore, document::NodeSpec, lock::node::Scope};
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let mut transaction = store.request_transaction("ann").timeout(Duration::from_secs(1)).await?;
    /// let section = transaction.create(NodeSpec::new("section"))?;
    /// assert_eq!(transaction.commit_async().await?.version, 1);
    ///
    /// let scope = Scope::new().write(&section);
    /// let mut transaction = store.request_transaction("ann").on(scope).await?;
    /// transaction.set_text(&section, "One")?;
    /// transaction.commit_async().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn request_transaction(
        &self,
        owner: impl Into<OwnerId>,
    ) -> PendingRequest<'static, TransactionRequest> {
        PendingRequest::new(TransactionRequest {
            store: self.clone(),
            owner: owner.into(),
        })
    }

    pub(super) async fn begin_as(
        &self,
        waits_as: WaitsAs,
        owner: OwnerId,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let requester = options.requester_as(waits_as, &owner, call_site, true);
        let mut observed = self.observe(Kind::ByHand, &requester);
        let granted = self.grant_as(waits_as, &requester, options).await;
        let grant = observed.grant(granted)?;
        Ok(Transaction::begin(self, grant, owner, observed))
    }
}

/// A request for a guard of the lock.
#[derive(Debug)]
#[doc(hidden)]
pub struct StoreRequest {
    store: DataStore,
    owner: OwnerId,
}

impl LockRequest for StoreRequest {
    type Granted = LockGuard;
    type Error = LockError;

    fn try_grant(
        &mut self,
        waits_as: WaitsAs,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Option<LockGuard>, LockError> {
        let requester = options.requester_as(waits_as, &self.owner, call_site, false);
        let granted = self.store.try_grant(&requester, options)?;
        Ok(granted.map(|grant| LockGuard::new(self.store.fifo().clone(), grant)))
    }

    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<LockGuard, LockError> {
        let Self { store, owner } = self;
        let requester = options.requester_as(waits_as, &owner, call_site, false);
        let grant = store.grant_as(waits_as, &requester, &options).await?;
        Ok(LockGuard::new(store.fifo().clone(), grant))
    }
}

/// A request for a transaction that owns the lock.
#[derive(Debug)]
#[doc(hidden)]
pub struct TransactionRequest {
    store: DataStore,
    owner: OwnerId,
}

impl LockRequest for TransactionRequest {
    type Granted = Transaction;
    type Error = LockError;

    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let Self { store, owner } = self;
        store.begin_as(waits_as, owner, &options, call_site).await
    }
}

impl NodesInstead for TransactionRequest {
    type OnNodes = NodesTransactionRequest;

    fn on_nodes(self, scope: Scope) -> NodesTransactionRequest {
        let Self { store, owner } = self;
        NodesTransactionRequest {
            store,
            owner,
            scope,
        }
    }
}

/// A request for a transaction on nodes.
#[derive(Debug)]
#[doc(hidden)]
pub struct NodesTransactionRequest {
    store: DataStore,
    owner: OwnerId,
    scope: Scope,
}

impl LockRequest for NodesTransactionRequest {
    type Granted = Transaction;
    type Error = LockError;

    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let Self {
            store,
            owner,
            scope,
        } = self;
        let begun = store.begin_on_observed(waits_as, owner, scope, options, call_site);
        begun.await
    }
}
