//! Locks on nodes, for whoever needs only a part of the document.

mod claim;
mod needs;
mod reads;

use std::fmt;
use std::panic::Location;

pub(super) use claim::OnNodes;
pub(crate) use needs::Needs;

use super::{DataStore, EndedBy, Held, Transaction};
use crate::document::View;
use crate::id::{FencingToken, LockId, NodeId, OwnerId};
use crate::lock::node::{NodeHolder, NodeLockStats, NodeWaiter};
use crate::lock::{AcquireOptions, Grant, LockError, Scope, Tree};
use crate::queue::LockMode;

impl Tree for DataStore {
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) {
        let snapshot = self.snapshot();
        snapshot.ancestors(id).for_each(|node| visit(node.id()));
    }
}

/// # Node locks
impl DataStore {
    /// The locks on single nodes: to take some by hand, and to see who has and who waits for which.
    pub fn node_locks(&self) -> NodeLocks {
        NodeLocks(self.clone())
    }

    /// Waits for nodes and begins a transaction on them. It runs beside others that are on other
    /// nodes.
    ///
    /// All nodes of the scope are locked before this returns, or none. What the transaction changes
    /// beyond them it locks as it goes, and what it only reads is looked at again when it is
    /// committed; see [`Transaction`], "On nodes". The locks are released when the transaction is
    /// committed, rolled back or dropped.
    ///
    /// # Order
    ///
    /// Whoever wants the whole document and whoever wants nodes stand in one line: a transaction on
    /// nodes waits for a global one that asked before, and the other way round. Requests for one
    /// node are granted in the order in which they asked. A scope joins the lines of all its nodes
    /// in one step, so two that ask for the same nodes cannot block each other.
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
    ///     // Ann is at it still, on another node.
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

    /// As [`begin_on`](Self::begin_on), with options for this and all further waits of the
    /// transaction. Priorities count in the line before the whole document, not in those before
    /// nodes.
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
        self.begin_on_at(owner.into(), scope.into(), options, Location::caller())
    }

    pub(crate) fn begin_on_at(
        &self,
        owner: OwnerId,
        scope: Scope,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Transaction, LockError> {
        let asker = options.asker(&owner, call_site, true);
        let nodes = OnNodes::new(&scope, asker.thread, call_site);
        let grant = self.0.lock.grant_nodes(&asker, &options, scope, self)?;
        let held = Held::new(self.clone(), grant, EndedBy::Transaction);
        let mut transaction = Transaction::new(self.next_transaction(), owner, held);
        transaction.nodes = Some(Box::new(nodes.waiting_as(options)));
        Ok(transaction)
    }
}

/// The locks on the nodes of one store.
///
/// A node is locked for its owner alone or together with other readers, by itself or with all below
/// it ([`LockMode`]). Locks on nodes and the [global lock](DataStore::lock) exclude each other, in
/// the order of asking.
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
    /// The order is that of [`DataStore::begin_on`]; so is what can go wrong.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`DataStore::lock`]. A thread that has nodes locked cannot take a second
    /// guard, because it might wait for itself: it [extends](NodeGuard::extend) the one that it
    /// has.
    #[track_caller]
    #[inline]
    pub fn lock(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> Result<NodeGuard, LockError> {
        self.lock_with(owner, scope, AcquireOptions::new())
    }

    /// As [`lock`](Self::lock), for pairs of a node and a mode.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// ```
    /// use doclock::{DataStore, lock::LockMode::{Exclusive, NodeShared}};
    ///
    /// let locks = DataStore::new().node_locks();
    /// let guard = locks.lock_nodes("ann", [("section", Exclusive), ("title", NodeShared)])?;
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    #[track_caller]
    pub fn lock_nodes<I: Into<NodeId>>(
        &self,
        owner: impl Into<OwnerId>,
        nodes: impl IntoIterator<Item = (I, LockMode)>,
    ) -> Result<NodeGuard, LockError> {
        let scope: Scope = nodes.into_iter().collect();
        self.lock_with(owner, scope, AcquireOptions::new())
    }

    /// As [`lock`](Self::lock), with options for the wait.
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
        let asker = options.asker(&owner, Location::caller(), false);
        let store = &self.0;
        let lock = &store.0.lock;
        let grant = lock.grant_nodes(&asker, &options, scope.into(), store)?;
        Ok(NodeGuard {
            store: store.clone(),
            grant,
        })
    }

    /// Locks nodes only if nobody has or waits for what excludes them; never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] with who holds, or [`LockError::Reentrant`].
    #[track_caller]
    pub fn try_lock(
        &self,
        owner: impl Into<OwnerId>,
        scope: impl Into<Scope>,
    ) -> Result<NodeGuard, LockError> {
        self.lock_with(owner, scope, AcquireOptions::new().no_wait())
    }

    /// Who has which nodes locked, in the order in which they asked. Others go on meanwhile,
    /// however many they are, so the list is not of one moment: 32 owners are.
    pub fn holders(&self) -> Vec<NodeHolder> {
        self.0.0.lock.node_holders()
    }

    /// Who waits for which nodes, and for whom, noted down as the [holders](Self::holders) are.
    /// Those who wait for the global lock first are not among them.
    pub fn waiters(&self) -> Vec<NodeWaiter> {
        self.0.0.lock.node_waiters()
    }

    /// Figures and state of one moment.
    pub fn stats(&self) -> NodeLockStats {
        self.0.0.lock.node_stats()
    }
}

/// Has nodes locked until it is dropped.
///
/// It may be sent to another thread and dropped there.
#[must_use = "the nodes are released as soon as the guard is dropped"]
pub struct NodeGuard {
    store: DataStore,
    grant: Grant,
}

impl NodeGuard {
    /// The id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// The number of the grant, greater than that of every earlier one on any of its nodes. It
    /// rises when more nodes are locked.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }

    /// Locks one more node, or one that is locked already in a further mode.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    ///
    /// ```
    /// use doclock::{DataStore, lock::{LockMode, node::Scope}};
    ///
    /// let locks = DataStore::new().node_locks();
    /// let mut guard = locks.lock("ann", Scope::new().read("title"))?;
    /// guard.lock("title", LockMode::NodeExclusive)?;
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn lock(&mut self, id: impl Into<NodeId>, mode: LockMode) -> Result<(), LockError> {
        self.extend(Scope::new().lock(id, mode))
    }

    /// Locks more nodes, or some that are locked already in further modes: all or none.
    ///
    /// # Errors
    ///
    /// [`LockError`]. What was locked before is locked still, unless it is [`LockError::Revoked`].
    /// A node that was moved while it was waited for may be locked as well then. A request that
    /// would wait for somebody who waits for this guard fails at once with [`LockError::Deadlock`],
    /// or with [`LockError::UpgradeConflict`] where two have one node locked shared and both want
    /// it to themselves.
    pub fn extend(&mut self, scope: impl Into<Scope>) -> Result<(), LockError> {
        self.extend_with(scope, &AcquireOptions::new())
    }

    /// As [`extend`](Self::extend), with options for the wait.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    pub fn extend_with(
        &mut self,
        scope: impl Into<Scope>,
        options: &AcquireOptions,
    ) -> Result<(), LockError> {
        let lock = &self.store.0.lock;
        let claim = lock.claim_of(self.grant)?;
        self.grant = lock.extend_nodes(
            self.grant,
            &claim.asker(),
            options,
            &scope.into(),
            &self.store,
        )?;
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
