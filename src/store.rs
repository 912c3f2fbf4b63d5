//! The store: one document, the lock on it, and the events of its commits.

pub(crate) mod causes;
mod commit_error;
pub(crate) mod diagnostics;
mod draft;
pub mod durable;
pub mod events;
pub mod inbox;
mod lazy;
pub mod lease;
mod log;
mod models;
mod nodes;
mod notes;
mod numbers;
mod observe;
mod options;
mod pinned;
mod provenance;
mod publish;
mod publish_queue;
mod receipts;
mod registry;
mod request;
mod result;
mod shared;
mod transaction;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

pub use commit_error::CommitError;
use doclock_common::calendar;
pub use draft::{AliasError, Draft, Savepoint, SavepointError};
use lease::{LeaseLost, Leases};
pub(crate) use log::{CommitRecord, FollowerId, LaterCommits, ReversedEntry};
pub(crate) use nodes::{FromSession, LONGEST_PAUSE, Retrying};
pub use nodes::{NodeGuard, NodeLocks};
pub(crate) use observe::{ObservedTransaction, TransactionKind};
pub use options::StoreOptions;
pub(crate) use publish::{
    Bookkeeping, CommitCondition, HeldGrant, Publication, PublishedState, Reversal, undone,
};
pub(crate) use publish_queue::Publish;
pub(crate) use receipts::{BatchDigest, Receipt};
pub(crate) use result::ExecutedOperation;
pub use result::{HookFailure, HookId, TransactionResult};
pub(crate) use shared::SharedDocument;
pub use transaction::Transaction;
pub(crate) use transaction::{CombinerGrant, TransactionHold};

use crate::document::Snapshot;
use crate::document::schema::Schema;
use crate::id::{LockId, NodeId, NodeIds, OwnerId, random_session};
use crate::lock::{
    AcquireOptions, FifoLock, JoinError, LockError, LockGuard, LockName, PendingRequest,
    Registrable, ReleaseError, ReleaseOutcome, Scope,
};
use crate::sync::{Mutex, rank};
use durable::Writer;
use log::OwnLog;
use numbers::Numbers;
use observe::{Observer, report_observer};
pub(crate) use provenance::KeptHistory;
use provenance::RecordedProvenance;
use request::{StoreRequest, TransactionRequest};

/// A document store: runs one transaction at a time, in FIFO order, and serves readers at any time.
///
/// Clones are handles of the same store. A store ends when its last handle and transaction is gone.
/// Its lock lives on with the remaining guards and waiters, so dropping handles leaves no waiter
/// blocked.
///
/// # Blocking
///
/// [`lock`](Self::lock), [`acquire_lock`](Self::acquire_lock), [`begin`](Self::begin),
/// [`begin_on`](Self::begin_on) and the `wait()` of a request wait in the queue of the lock, at
/// most for the timeout. While a [lossless
/// subscriber](crate::events::PendingSubscription::lossless) has too much to read, that queue
/// waits. The commit of a transaction on nodes waits while others publish. No other method waits
/// for a transaction: snapshots, statistics and releases take only the time to copy what they
/// return.
///
/// In a task, such a call blocks the thread of the executor with all its other tasks. Measured
/// with a lock that is held for 1 ms at a time, another task of a runtime with two threads then
/// waits for up to 5.2 ms (p99). It waits for 0.9 ms if the calls are in `spawn_blocking`, and for
/// 0.1 ms with [tasks that await](#tasks) the lock.
///
/// ```
/// use doclock::{DataStore, View, document::NodeSpec};
///
/// let store = DataStore::new();
/// let mut transaction = store.begin("ann")?;
/// let id = transaction.create(NodeSpec::new("paragraph").with_text("Hello"))?;
/// assert!(!store.snapshot().contains(&id), "outside, nothing has happened yet");
/// transaction.commit()?;
/// assert_eq!(store.snapshot().node(&id).unwrap().text(), &"Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DataStore(Arc<StoreShared>);

struct StoreShared {
    /// Its drafts and its journal have it, too.
    document: Arc<SharedDocument>,
    bookkeeping: Mutex<{ rank::BOOKKEEPING }, Bookkeeping>,
    numbers: Numbers,
    /// Set if the document is durable. Dropped before the log, of which it writes all commits.
    writer: Option<Box<Writer>>,
    log: OwnLog,
    provenance: Mutex<{ rank::PROVENANCE }, RecordedProvenance>,
    lock: FifoLock,
    name: SmolStr,
    /// Names the lock for the threads that wait in it, unless the name is the default.
    _named: Option<LockName>,
    observer: Observer,
}

impl DataStore {
    /// Creates an empty store with a timeout of five seconds, an unbounded queue and the system's
    /// clock.
    pub fn new() -> Self {
        Self::with_options(StoreOptions::new())
    }

    /// Creates an empty store with the given options.
    pub fn with_options(options: StoreOptions) -> Self {
        Self::beginning_with(Snapshot::default(), options, None)
    }

    /// Creates a store whose first version is a document that follows the schema.
    fn beginning_with(
        snapshot: Snapshot,
        mut options: StoreOptions,
        writer: Option<Box<Writer>>,
    ) -> Self {
        let session = options.session.unwrap_or_else(random_session);
        let mut numbering = snapshot.numbering();
        numbering.session = numbering.session.of(session);
        // Ids of nodes may be from other stores, and have any number.
        let last_of = |session, last: u64| last.max(snapshot.last_id_of(session));
        let mut last_id = last_of(session, numbering.session.nodes);
        let mut session_of_ids = session;
        // The numbering stays that of the used up session, so no later store continues it.
        while NodeIds::is_used_up(last_id) {
            session_of_ids = random_session();
            last_id = last_of(session_of_ids, 0);
        }
        options.lock.last_token = numbering.lock_token;
        options.lock.observer = report_observer(&options.name, &options.lock);
        let bookkeeping = Bookkeeping::new(options.remembered_keys, writer.is_some());
        let ids = (session_of_ids, last_id);
        let clock = options.lock.clock.clone();
        let observer = Observer::new(&options.name, &clock);
        let lock = FifoLock::with_options(options.lock);
        let is_named = options.name != StoreOptions::DEFAULT_NAME;
        let named = is_named.then(|| lock.primitive().named(options.name.clone()));
        Self(Arc::new(StoreShared {
            document: SharedDocument::new(snapshot, ids, options.schema, clock),
            observer,
            name: options.name,
            _named: named,
            log: OwnLog::new(options.kept_commits, options.log_limit, lock.downgrade()),
            lock,
            bookkeeping: Mutex::new(bookkeeping),
            numbers: Numbers::after(numbering),
            provenance: Mutex::default(),
            writer,
        }))
    }

    /// Returns the document as of the last commit.
    ///
    /// Takes O(1) and never waits for the work of a transaction.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        self.0.document.published.lock().document.clone()
    }

    /// Returns the number of commits so far, with those before the document was
    /// [opened](StoreOptions::document).
    pub fn version(&self) -> u64 {
        self.0.document.published.lock().version()
    }

    /// Returns the [name](StoreOptions::name) of the store.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the schema that every version of the document follows, if the store has one.
    pub fn schema(&self) -> Option<&Schema> {
        self.0.document.schema.as_deref()
    }

    /// Generates an id that no node of this store has or will have.
    ///
    /// A node gets the id with [`NodeSpec::with_id`](crate::document::NodeSpec::with_id). Returns
    /// `None` when all numbers are used up, which takes 2⁶⁴ calls.
    pub fn generate_id(&self) -> Option<NodeId> {
        self.0.document.ids.generate()
    }

    /// Returns the leases of the store, to acquire a lease and to list them.
    pub fn leases(&self) -> Leases {
        Leases {
            store: self.clone(),
        }
    }

    /// Returns the node locks of the store, to lock nodes by hand and to list holders and waiters.
    pub fn node_locks(&self) -> NodeLocks {
        NodeLocks(self.clone())
    }

    // --- Transactions ---

    /// Waits for the lock and begins a transaction that owns it.
    ///
    /// The lock is released when the transaction is committed, rolled back or dropped. A thread
    /// that holds a guard or an open transaction of the store is refused at once. A lock held by
    /// id is bound to no thread, so a thread that acquired one waits here until its timeout;
    /// [`begin_under`](Self::begin_under) begins a transaction under it.
    /// [`request_transaction`](Self::request_transaction) has options, and also waits in a task.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn begin(&self, owner: impl Into<OwnerId>) -> Result<Transaction, LockError> {
        let (owner, options) = (owner.into(), AcquireOptions::new());
        let call_site = Location::caller();
        let requester = options.requester(&owner, call_site, true);
        let mut observed = self.observe(TransactionKind::ByHand, &requester);
        // Without a future around it, a free lock takes fewer instructions.
        let lock = &self.0.lock;
        if let Ok(Some(grant)) = lock.try_grant(&requester, &options) {
            observed.granted_at_once();
            return Ok(Transaction::begin(self, grant, owner, None, observed));
        }
        let grant = observed.grant(lock.wait_in_queue(&requester, &options))?;
        Ok(Transaction::begin(self, grant, owner, None, observed))
    }

    /// Begins a transaction under a lock that is held by id.
    ///
    /// The owner of the transaction is the owner of the lock. The lock stays held when the
    /// transaction ends.
    ///
    /// Only one transaction at a time can be open under a lock. While one is open, the lock cannot
    /// be released by id. Any caller with the id can begin one: a server compares
    /// [`current_lock`](Self::current_lock) with its client first. The transaction is in no
    /// history of an [`Editor`](crate::Editor). Never blocks.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: the id is not the holder's, or a transaction is already open under the lock.
    /// The id of a revoked grant is [`JoinError::NotHeld`], or [`JoinError::Mismatch`] if another
    /// grant is held.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec};
    ///
    /// let store = DataStore::new();
    /// let id = store.acquire_lock("front end")?;
    /// let mut transaction = store.begin_under(id)?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    /// assert!(store.is_locked());
    /// store.release_lock(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_under(&self, id: LockId) -> Result<Transaction, JoinError> {
        self.begin_under_as(TransactionKind::ByHand, id)
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
        let (owner, options) = (owner.into(), AcquireOptions::new());
        let call_site = Location::caller();
        let observed = self.observe(
            TransactionKind::OnNodes,
            &options.requester(&owner, call_site, true),
        );
        observed.begin(self.begin_on_at(owner, scope.into(), options, call_site))
    }

    // --- The lock ---

    /// Waits for the lock and returns its id, which [`release_lock`](Self::release_lock) takes.
    ///
    /// With options or in a task, a [`request`](Self::request) does the same, with
    /// [`into_id`](LockGuard::into_id) of its guard.
    ///
    /// Use it to hold the lock across calls that share no scope. Within one scope, prefer
    /// [`lock`](Self::lock): its guard releases the lock on drop.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    ///
    /// ```
    /// use doclock::DataStore;
    ///
    /// let store = DataStore::new();
    /// let id = store.acquire_lock("ann")?;
    /// assert_eq!(store.current_lock().unwrap().owner_id.as_str(), "ann");
    /// store.release_lock(id)?;
    /// assert!(!store.is_locked());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn acquire_lock(&self, owner: impl Into<OwnerId>) -> Result<LockId, LockError> {
        self.0.lock.acquire_lock(owner)
    }

    /// Releases the grant with this id.
    ///
    /// The next waiter holds the lock when this returns. Never blocks. Any thread may call it.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]: the grant is not held, was revoked, or has an open transaction. Nothing is
    /// released then.
    #[inline]
    pub fn release_lock(&self, id: LockId) -> Result<ReleaseOutcome, ReleaseError> {
        self.0.lock.release_lock(id)
    }

    /// Waits for the lock and holds it until the returned guard is dropped.
    ///
    /// Locks are granted in FIFO order, whichever method requested them. The wait ends with the
    /// grant or with the timeout. If the two race, the grant wins. A [`request`](Self::request) has
    /// options, such as a cancel token, and also waits in a task.
    ///
    /// # Errors
    ///
    /// [`LockError`], in these cases:
    ///
    /// - The wait timed out or was cancelled.
    /// - The request would have to wait, and its options allow no wait.
    /// - The queue is full.
    /// - The calling thread already holds the lock and would wait for itself.
    ///
    /// ```
    /// use doclock::{DataStore, lock::LockError};
    ///
    /// let store = DataStore::new();
    /// let guard = store.lock("ann")?;
    /// assert!(matches!(store.lock("ann"), Err(LockError::Reentrant { .. })));
    /// drop(guard);
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn lock(&self, owner: impl Into<OwnerId>) -> Result<LockGuard, LockError> {
        self.0.lock.lock(owner)
    }

    /// Acquires the lock only if it is free and its queue is empty.
    ///
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] with the holder, or [`LockError::Reentrant`] if the calling thread
    /// is the holder.
    #[track_caller]
    pub fn try_lock(&self, owner: impl Into<OwnerId>) -> Result<LockGuard, LockError> {
        let options = AcquireOptions::new().no_wait();
        self.request(owner).options(options).wait()
    }

    /// Sets the timeout of future requests: zero allows no wait, `None` sets no limit.
    ///
    /// Requests that already wait keep their timeout.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// store.set_lock_timeout(Duration::from_secs(10));
    /// store.set_lock_timeout(None);
    /// ```
    pub fn set_lock_timeout(&self, limit: impl Into<Option<Duration>>) {
        self.0.lock.set_lock_timeout(limit);
    }

    /// The store's lock.
    pub(crate) fn fifo(&self) -> &FifoLock {
        &self.0.lock
    }
}

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
}

impl Default for DataStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DataStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStore")
            .field("document", &self.snapshot())
            .field("lock", &self.0.lock)
            .finish()
    }
}
