//! Locks on single nodes, for work on a part of the document.
//!
//! How a transaction on nodes edits and validates is in `nodes/on_nodes.rs`, and in which order
//! such transactions are published in `publish_queue.rs`.

mod needs;
mod on_nodes;
mod reads;
mod session;
mod turns;

use std::fmt;
use std::panic::Location;

use on_nodes::NodeLocking;
pub(super) use on_nodes::{LaterWaits, OnNodes};
pub(crate) use session::FromSession;
pub(super) use turns::Turns;
pub(crate) use turns::{LONGEST_PAUSE, Retrying};

use super::{DataStore, Draft, ObservedTransaction, Transaction, TransactionKind};
use crate::document::View;
use crate::id::{FencingToken, LockId, NodeId, OwnerId};
use crate::lock::{
    AcquireOptions, Grant, HeldLock, LockError, LockRequest, PendingRequest, RequestContext,
    RequestStats, Scope, Tree, WaiterKind, WaitingRequest,
};

impl Tree for DataStore {
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) -> u64 {
        let snapshot = self.snapshot();
        snapshot.ancestors(id).for_each(|node| visit(node.id()));
        snapshot.version()
    }

    fn version(&self) -> u64 {
        self.version()
    }
}

impl DataStore {
    /// Begins a transaction as [`begin_on_as`](Self::begin_on_as) does, in a thread. Without a
    /// future around it, a free lock takes a fifth fewer instructions.
    pub(super) fn begin_on_at(
        &self,
        owner: OwnerId,
        scope: Scope,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        self.wait_for_turn(WaiterKind::Thread, &owner, &options);
        let requester = options.requester(&owner, call_site, true);
        let nodes = OnNodes::new(&scope);
        let lock = &self.0.lock;
        let grant = lock.grant_nodes(&requester, &options, scope, self)?;
        Ok(self.begin_on_granted(grant, owner, nodes, (options, call_site)))
    }

    pub(super) async fn begin_on_observed(
        &self,
        context: RequestContext,
        owner: OwnerId,
        scope: Scope,
    ) -> Result<Transaction, LockError> {
        let observed = self.observe(TransactionKind::OnNodes, &context.requester(&owner, true));
        let RequestContext {
            waits_as,
            options,
            call_site,
        } = context;
        let begun = self.begin_on_as(waits_as, owner, scope, options, call_site);
        observed.begin(begun.await)
    }

    pub(crate) async fn begin_on_as(
        &self,
        waits_as: WaiterKind,
        owner: OwnerId,
        scope: Scope,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        self.wait_for_turn(waits_as, &owner, &options);
        let options = match waits_as {
            WaiterKind::Thread => options,
            // Also its later waits are those of no particular thread.
            WaiterKind::Task => options.unbound(),
        };
        let requester = options.requester(&owner, call_site, true);
        let nodes = OnNodes::new(&scope);
        let lock = &self.0.lock;
        let asked = lock.grant_nodes_as(waits_as, &requester, &options, scope, self);
        let grant = asked.await?;
        Ok(self.begin_on_granted(grant, owner, nodes, (options, call_site)))
    }

    /// Locks more nodes for a holder. Returns the grant of all.
    async fn lock_more_nodes(
        &self,
        waits_as: WaiterKind,
        grant: Grant,
        options: &AcquireOptions,
        scope: &Scope,
    ) -> Result<Grant, LockError> {
        let asked = self.0.lock.extend_nodes(
            waits_as,
            grant,
            options,
            scope,
            self,
            self.refused(waits_as),
        );
        let granted = asked.await;
        if let Err(LockError::Deadlock(_) | LockError::UpgradeConflict(_)) = granted {
            self.note_refusal(waits_as);
        }
        granted
    }

    fn begin_on_granted(
        &self,
        grant: Grant,
        owner: OwnerId,
        nodes: OnNodes,
        (options, call_site): (AcquireOptions, &'static Location<'static>),
    ) -> Transaction {
        let locking = NodeLocking {
            store: self.clone(),
            grant,
            options,
            call_site,
        };
        let nodes = Some(Box::new(nodes.locking_by(locking)));
        Transaction::begin(self, grant, owner, nodes, ObservedTransaction::default())
    }

    /// Begins a transaction on the nodes that `edits` changes and reads. Returns whether its edits
    /// are made.
    ///
    /// The edits are made without a lock first, and return whether they are complete. They are
    /// discarded if not, or if there is another commit before their nodes are locked. They begin
    /// with the selection and the clipboard of a session.
    pub(crate) async fn begin_with_edits(
        &self,
        (waits_as, session): (WaiterKind, Option<FromSession>),
        owner: OwnerId,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
        edits: impl FnOnce(&mut Draft) -> bool,
    ) -> Result<(Transaction, bool), LockError> {
        let mut unlocked = Draft::without_locks(&self.0.document, self.snapshot());
        if let Some(session) = session {
            unlocked.begin_of_session(session);
        }
        let complete = edits(&mut unlocked);
        let scope = unlocked.needed_locks();
        let mut transaction = match waits_as {
            WaiterKind::Thread => self.begin_on_at(owner, scope, options, call_site)?,
            WaiterKind::Task => {
                let begun = self.begin_on_as(waits_as, owner, scope, options, call_site);
                begun.await?
            }
        };
        let made = complete && transaction.take_over(&mut unlocked);
        let left = unlocked.nodes.as_mut().filter(|_| !made);
        if let Some(session) = left.and_then(|nodes| nodes.session.take()) {
            transaction.begin_of_session(session);
        }
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
pub struct NodeLocks(pub(super) DataStore);

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
        self.lock_with(
            owner.into(),
            scope.into(),
            &AcquireOptions::new(),
            Location::caller(),
        )
    }

    #[inline(always)]
    fn lock_with(
        &self,
        owner: OwnerId,
        scope: Scope,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<NodeGuard, LockError> {
        let store = &self.0;
        store.wait_for_turn(WaiterKind::Thread, &owner, options);
        let requester = options.requester(&owner, call_site, false);
        let grant = store
            .0
            .lock
            .grant_nodes(&requester, options, scope, store)?;
        Ok(NodeGuard {
            store: store.clone(),
            grant,
        })
    }

    /// Returns a request for nodes, to set its options. Nothing is requested before
    /// [`wait`](PendingRequest::wait) or `.await`.
    ///
    /// A task is not recognized as the holder: a second guard of one task waits until its timeout.
    ///
    /// ```
    /// use doclock::{DataStore, lock::node::Scope};
    ///
    /// # pollster::block_on(async {
    /// let locks = DataStore::new().node_locks();
    /// let guard = locks.request("ann", Scope::new().read("title")).label("layout").await?;
    /// assert_eq!(locks.holders()[0].nodes.len(), 1);
    /// # drop(guard);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn request(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> PendingRequest<'static, NodesRequest> {
        PendingRequest::new(NodesRequest {
            store: self.0.clone(),
            owner: owner.into(),
            scope: scope.into(),
        })
    }

    /// Locks nodes only if no conflicting lock is held or waited for, and the lock of the store is
    /// not closed by a [lossless subscriber](crate::events::PendingSubscription::lossless).
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
        let options = AcquireOptions::new().no_wait();
        self.lock_with(owner.into(), scope.into(), &options, Location::caller())
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

    /// Returns the metrics and the state of the node locks, all of one moment. The [report of the
    /// lock](crate::lock::LockReport) has them, too, with the last refused cycles.
    pub fn stats(&self) -> RequestStats {
        let [_, nodes] = self.0.0.lock.request_stats();
        nodes
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

    /// Locks more nodes, or locked nodes in further modes: all of them or none.
    ///
    /// # Errors
    ///
    /// [`LockError`]. Locks held before stay held, unless the error is [`LockError::Revoked`]. A
    /// node that was moved during the wait may then be locked as well. A request that would wait
    /// for a request that waits for this guard fails at once with [`LockError::Deadlock`]. So does
    /// one that waits, if a transaction that has its turn in [`retry`](crate::transaction::retry)
    /// would wait for it. If two guards hold one node shared and both request it exclusively, it
    /// fails with [`LockError::UpgradeConflict`].
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
        self.request_more(scope).wait()
    }

    /// Returns a request for more nodes, to set its options. Nothing is requested before
    /// [`wait`](PendingRequest::wait) or `.await`. It grants what [`extend`](Self::extend) does. A
    /// label and a hold limit have no effect here: label, hold limit and call site are those of the
    /// guard's first request.
    ///
    /// If its future is dropped, the request leaves the queue and the guard keeps what it has. If
    /// the nodes were granted by then, the guard keeps them too, and its
    /// [token](Self::fencing_token) has risen.
    ///
    /// ```
    /// use doclock::{DataStore, lock::node::Scope};
    ///
    /// # pollster::block_on(async {
    /// let locks = DataStore::new().node_locks();
    /// let mut guard = locks.lock("ann", Scope::new().read("title"))?;
    /// guard.request_more(Scope::new().write("section")).await?;
    /// assert_eq!(locks.holders()[0].nodes.len(), 2);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn request_more(&mut self, scope: impl Into<Scope>) -> PendingRequest<'_, MoreNodes<'_>> {
        PendingRequest::new(MoreNodes {
            guard: self,
            scope: scope.into(),
        })
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

/// A request for nodes.
#[derive(Debug)]
#[doc(hidden)]
pub struct NodesRequest {
    store: DataStore,
    owner: OwnerId,
    scope: Scope,
}

impl LockRequest for NodesRequest {
    type Granted = NodeGuard;
    type Error = LockError;

    async fn grant_as(self, context: RequestContext) -> Result<NodeGuard, LockError> {
        let Self {
            store,
            owner,
            scope,
        } = self;
        let requester = context.requester(&owner, false);
        let (waits_as, options) = (context.waits_as, &context.options);
        store.wait_for_turn(waits_as, &owner, options);
        let lock = &store.0.lock;
        let asked = lock.grant_nodes_as(waits_as, &requester, options, scope, &store);
        let grant = asked.await?;
        Ok(NodeGuard { store, grant })
    }
}

/// A request of a holder of nodes for more nodes.
#[derive(Debug)]
#[doc(hidden)]
pub struct MoreNodes<'a> {
    guard: &'a mut NodeGuard,
    scope: Scope,
}

impl LockRequest for MoreNodes<'_> {
    type Granted = ();
    type Error = LockError;

    async fn grant_as(self, context: RequestContext) -> Result<(), LockError> {
        let Self { guard, scope } = self;
        let (waits_as, options) = (context.waits_as, &context.options);
        let asked = guard
            .store
            .lock_more_nodes(waits_as, guard.grant, options, &scope);
        guard.grant = asked.await?;
        Ok(())
    }
}
