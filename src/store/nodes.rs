//! Locks on single nodes, for work on a part of the document.

mod claim;
mod needs;
mod reads;

use std::fmt;
use std::panic::Location;

pub(super) use claim::OnNodes;

use super::{DataStore, EndedBy, Kind, Transaction};
use crate::document::View;
use crate::id::{FencingToken, LockId, NodeId, OwnerId};
use crate::lock::node::NodeLockStats;
use crate::lock::{
    AcquireOptions, Grant, HeldLock, LockError, Scope, Tree, WaitingRequest, WaitsAs, blocking,
};

impl Tree for DataStore {
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) {
        let snapshot = self.snapshot();
        snapshot.ancestors(id).for_each(|node| visit(node.id()));
    }
}

/// # Node locks
impl DataStore {
    /// Returns the node locks of the store, to lock nodes by hand and to list holders and waiters.
    pub fn node_locks(&self) -> NodeLocks {
        NodeLocks(self.clone())
    }

    /// Waits for node locks and begins a transaction on the nodes.
    ///
    /// It runs beside transactions on other nodes.
    ///
    /// All nodes of the scope are locked before this returns, or none. The transaction locks
    /// further nodes when it changes them. The commit checks again the nodes that it only reads;
    /// see [`Transaction`], "On nodes". The locks are released when the transaction is committed,
    /// rolled back or dropped.
    ///
    /// # Order
    ///
    /// Requests for the whole document and for nodes stand in one queue: a transaction on nodes
    /// waits for an earlier request for the document lock, and the other way round. Requests for
    /// one node are granted in FIFO order. A scope enters the queues of all its nodes in one step,
    /// so two requests for the same nodes cannot block each other.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    ///
    /// ```
    /// use doclock::{DataStore, View, document::NodeSpec, lock::node::Scope};
    ///
    /// let store = DataStore::new();
    /// let mut transaction = store.begin("setup")?;
    /// let [one, two] = ["one", "two"].map(|id| transaction.create(NodeSpec::new("section").with_id(id)));
    /// let (one, two) = (one?, two?);
    /// transaction.commit()?;
    ///
    /// let mut ann = store.begin_on("ann", Scope::new().write(&one))?;
    /// let bob = store.clone();
    /// std::thread::spawn(move || {
    ///     // Ann's transaction is still open, on another node.
    ///     let mut transaction = bob.begin_on("bob", Scope::new().write(&two))?;
    ///     transaction.set_text(&two, "of Bob")?;
    ///     transaction.commit()?;
    ///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// })
    /// .join()
    /// .unwrap()
    /// .unwrap();
    /// ann.set_text(&one, "of Ann")?;
    /// ann.commit()?;
    /// assert_eq!(store.version(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn begin_on(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> Result<Transaction, LockError> {
        self.begin_on_with(owner, scope, AcquireOptions::new())
    }

    /// Begins a transaction as [`begin_on`](Self::begin_on) does, with options for all its waits.
    ///
    /// The options hold for this wait and for all later waits of the transaction. Priorities count
    /// in the queue of the document lock, and not in the queues of nodes.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn begin_on_with(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
        options: AcquireOptions,
    ) -> Result<Transaction, LockError> {
        let (owner, call_site) = (owner.into(), Location::caller());
        let observed = self.observe(Kind::OnNodes, &options.requester(&owner, call_site, true));
        observed.begin(self.begin_on_at(owner, scope.into(), options, call_site))
    }

    /// Waits for node locks in a task, and begins a transaction on the nodes.
    ///
    /// If the future is dropped, the request leaves the queue. The waits for further nodes, when
    /// the transaction changes or reads them, block the thread that polls: lock the nodes with the
    /// scope.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`begin_on`](Self::begin_on), and `NoKeeper`.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, lock::node::Scope};
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let mut transaction = store.begin("setup")?;
    /// let section = transaction.create(NodeSpec::new("section"))?;
    /// transaction.commit()?;
    /// let mut transaction = store.begin_on_async("ann", Scope::new().write(&section)).await?;
    /// transaction.set_text(&section, "One")?;
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn begin_on_async(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> impl Future<Output = Result<Transaction, LockError>> + Send + 'static {
        self.begin_on_async_with(owner, scope, AcquireOptions::new())
    }

    /// Begins a transaction as [`begin_on_async`](Self::begin_on_async) does, with options for all
    /// its waits.
    ///
    /// # Errors
    ///
    /// As [`begin_on_async`](Self::begin_on_async).
    #[track_caller]
    pub fn begin_on_async_with(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
        options: AcquireOptions,
    ) -> impl Future<Output = Result<Transaction, LockError>> + Send + 'static {
        let (store, owner, scope) = (self.clone(), owner.into(), scope.into());
        let call_site = Location::caller();
        async move {
            let requester = options.requester_of_task(&owner, call_site, true);
            let observed = store.observe(Kind::OnNodes, &requester);
            let begun = store.begin_on_in_task(owner, scope, options, call_site);
            observed.begin(begun.await)
        }
    }

    pub(crate) fn begin_on_at(
        &self,
        owner: OwnerId,
        scope: Scope,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let requester = options.requester(&owner, call_site, true);
        let nodes = OnNodes::new(&scope, requester.thread, call_site);
        let (admitted, left) = self.admit(&requester, &options)?;
        // The holder of a node may wait for a transaction on others, which must not wait in line.
        drop(admitted);
        let grant = self.0.lock.grant_nodes(&requester, &left, scope, self)?;
        drop(left);
        Ok(self.begin_on_granted(grant, owner, nodes.waiting_as(options)))
    }

    /// Begins a transaction as [`begin_on_at`](Self::begin_on_at) does, in a task.
    async fn begin_on_in_task(
        &self,
        owner: OwnerId,
        scope: Scope,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        // Also its later waits are those of no particular thread.
        let options = options.unbound();
        let requester = options.requester(&owner, call_site, true);
        let nodes = OnNodes::new(&scope, requester.thread, call_site);
        let (admitted, left) = self.admit_as(WaitsAs::Task, &requester, &options).await?;
        drop(admitted);
        let asked = self
            .0
            .lock
            .grant_nodes_to_task(&requester, &left, scope, self);
        let grant = asked.await?;
        drop(left);
        Ok(self.begin_on_granted(grant, owner, nodes.waiting_as(options)))
    }

    fn begin_on_granted(&self, grant: Grant, owner: OwnerId, nodes: OnNodes) -> Transaction {
        let mut transaction = self.begin_granted(grant, owner, EndedBy::Transaction);
        transaction.nodes = Some(Box::new(nodes));
        transaction
    }

    /// Begins a transaction on the nodes that `edits` changes and reads. Returns whether its edits
    /// are made.
    ///
    /// The edits are made without a lock first, and return whether they are complete. They are
    /// discarded if not, or if there is another commit before their nodes are locked.
    pub(crate) async fn begin_with_edits(
        &self,
        waits_as: WaitsAs,
        owner: OwnerId,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
        edits: impl FnOnce(&mut Transaction) -> bool,
    ) -> Result<(Transaction, bool), LockError> {
        let mut unlocked = Transaction::bare(self, self.snapshot());
        unlocked.nodes = Some(Box::new(OnNodes::without_locks(call_site)));
        let complete = edits(&mut unlocked);
        let scope = unlocked.needed_locks();
        let mut transaction = match waits_as {
            WaitsAs::Thread => self.begin_on_at(owner, scope, options, call_site)?,
            WaitsAs::Task => {
                self.begin_on_in_task(owner, scope, options, call_site)
                    .await?
            }
        };
        let made = complete && transaction.take_over(unlocked);
        Ok((transaction, made))
    }
}

/// The locks on the nodes of one store.
///
/// A lock on a node is exclusive or shared with other readers, and covers the node alone or its
/// subtree ([`LockMode`](crate::lock::LockMode)). Locks on nodes and the [document
/// lock](DataStore::lock) exclude each other, in FIFO order.
///
/// ```
/// use doclock::{DataStore, lock::{LockMode, node::Scope}};
///
/// let locks = DataStore::new().node_locks();
/// let guard = locks.lock("ann", Scope::new().write_subtree("section"))?;
/// let holders = locks.holders();
/// assert_eq!(holders[0].nodes, [("section".into(), LockMode::Exclusive)]);
/// drop(guard);
/// assert!(locks.holders().is_empty());
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeLocks(DataStore);

impl NodeLocks {
    /// Waits for nodes and holds them until the returned guard is dropped: all of them or none.
    ///
    /// Order and errors are those of [`DataStore::begin_on`].
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`DataStore::lock`]. A thread that has nodes locked cannot take a second
    /// guard, because it might wait for itself. It [extends](NodeGuard::extend) its guard instead.
    #[track_caller]
    #[inline]
    pub fn lock(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> Result<NodeGuard, LockError> {
        self.lock_with(owner, scope, AcquireOptions::new())
    }

    /// Waits for nodes as [`lock`](Self::lock) does, in a task.
    ///
    /// If the future is dropped, the request leaves the queue, and releases what it was granted. A
    /// task is not recognized as the holder: a second guard of one task waits until its timeout.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`DataStore::lock`], and `NoKeeper`.
    ///
    /// ```
    /// use doclock::{DataStore, lock::node::Scope};
    ///
    /// # pollster::block_on(async {
    /// let locks = DataStore::new().node_locks();
    /// let mut guard = locks.lock_async("ann", Scope::new().read("title")).await?;
    /// guard.extend_async(Scope::new().write("section")).await?;
    /// assert_eq!(locks.holders()[0].nodes.len(), 2);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn lock_async(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> impl Future<Output = Result<NodeGuard, LockError>> + Send + 'static {
        self.lock_async_with(owner, scope, AcquireOptions::new())
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
        scope: impl Into<Scope>,
        options: AcquireOptions,
    ) -> impl Future<Output = Result<NodeGuard, LockError>> + Send + 'static {
        let (store, owner, scope) = (self.0.clone(), owner.into(), scope.into());
        let call_site = Location::caller();
        async move {
            let requester = options.requester_of_task(&owner, call_site, false);
            let lock = &store.0.lock;
            let asked = lock.grant_nodes_to_task(&requester, &options, scope, &store);
            let grant = asked.await?;
            Ok(NodeGuard { store, grant })
        }
    }

    /// Locks nodes as [`lock`](Self::lock) does, with options for the wait.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    #[inline(always)]
    pub fn lock_with(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
        options: AcquireOptions,
    ) -> Result<NodeGuard, LockError> {
        let owner = owner.into();
        let requester = options.requester(&owner, Location::caller(), false);
        let store = &self.0;
        let lock = &store.0.lock;
        let grant = lock.grant_nodes(&requester, &options, scope.into(), store)?;
        Ok(NodeGuard {
            store: store.clone(),
            grant,
        })
    }

    /// Locks nodes only if no conflicting lock is held or waited for.
    ///
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] with the holder, or [`LockError::Reentrant`].
    #[track_caller]
    pub fn try_lock(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> Result<NodeGuard, LockError> {
        self.lock_with(owner, scope, AcquireOptions::new().no_wait())
    }

    /// Lists the owners of node locks in the order of their requests, each with at most
    /// [`HeldLock::LISTED`] of its nodes.
    ///
    /// The list is read in pages of at most 32 owners, and other threads continue in between. So
    /// each page is of one moment, but the list is not.
    pub fn holders(&self) -> Vec<HeldLock> {
        self.0.0.lock.members().0
    }

    /// Lists the requests that wait for nodes, each with at most [`WaitingRequest::BLOCKERS`] of
    /// the grants and requests that it waits for.
    ///
    /// The list is read in pages, as the one of [holders](Self::holders). It omits requests that
    /// wait for the document lock first.
    pub fn waiters(&self) -> Vec<WaitingRequest> {
        self.0.0.lock.members().1
    }

    /// Returns the metrics and the state of the node locks, all of one moment.
    pub fn stats(&self) -> NodeLockStats {
        self.0.0.lock.node_stats()
    }
}

/// Holds locks on nodes until it is dropped.
///
/// It may be sent to another thread and dropped there.
#[must_use = "the nodes are released as soon as the guard is dropped"]
pub struct NodeGuard {
    store: DataStore,
    grant: Grant,
}

impl NodeGuard {
    /// Returns the id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// Returns the fencing token of the grant.
    ///
    /// It is greater than that of every earlier grant on any of its nodes, and rises when more
    /// nodes are locked. After a revocation it is one of those that the guard had.
    pub fn fencing_token(&self) -> FencingToken {
        self.store.0.lock.token_of(self.grant)
    }

    /// Locks more nodes as [`extend`](Self::extend) does, in a task.
    ///
    /// If the future is dropped, the request leaves the queue and the guard keeps what it has. If
    /// the nodes were granted by then, the guard keeps them too, and its
    /// [token](Self::fencing_token) has risen.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend), and `NoKeeper`.
    pub async fn extend_async(&mut self, scope: impl Into<Scope>) -> Result<(), LockError> {
        let options = AcquireOptions::new();
        self.extend_as(WaitsAs::Task, scope.into(), &options).await
    }

    /// Locks more nodes, or locked nodes in further modes: all of them or none.
    ///
    /// # Errors
    ///
    /// [`LockError`]. Locks held before stay held, unless the error is [`LockError::Revoked`]. A
    /// node that was moved during the wait may then be locked as well. A request that would wait
    /// for a request that waits for this guard fails at once with [`LockError::Deadlock`]. If two
    /// guards hold one node shared and both request it exclusively, it fails with
    /// [`LockError::UpgradeConflict`].
    ///
    /// ```
    /// use doclock::{DataStore, lock::{LockMode, node::Scope}};
    ///
    /// let locks = DataStore::new().node_locks();
    /// let mut guard = locks.lock("ann", Scope::new().read("title"))?;
    /// guard.extend([("title", LockMode::NodeExclusive)])?;
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn extend(&mut self, scope: impl Into<Scope>) -> Result<(), LockError> {
        self.extend_with(scope, &AcquireOptions::new())
    }

    /// Locks more nodes as [`extend`](Self::extend) does, with options for the wait. A hold limit
    /// has no effect here: that of the guard's first request stays.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    pub fn extend_with(
        &mut self,
        scope: impl Into<Scope>,
        options: &AcquireOptions,
    ) -> Result<(), LockError> {
        blocking(self.extend_as(WaitsAs::Thread, scope.into(), options))
    }

    async fn extend_as(
        &mut self,
        waits_as: WaitsAs,
        scope: Scope,
        options: &AcquireOptions,
    ) -> Result<(), LockError> {
        let lock = &self.store.0.lock;
        let claim = lock.source_of(self.grant)?;
        let (requester, store) = (claim.requester(), &self.store);
        let asked = lock.extend_nodes(waits_as, self.grant, &requester, options, &scope, store);
        self.grant = asked.await?;
        Ok(())
    }
}

impl Drop for NodeGuard {
    #[inline]
    fn drop(&mut self) {
        self.store.0.lock.release_or_defer(self.grant.id());
    }
}

impl fmt::Debug for NodeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeGuard")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
