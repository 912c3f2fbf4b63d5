//! The store: one document, the line in front of it, and the news of what was committed.

mod claims;
mod commit;
mod edit;
pub mod events;
pub mod lease;
mod nodes;
mod options;
mod publish;
mod receipts;
mod transaction;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

pub(crate) use claims::{
    Aftermath, Claimant, Claims, Delivery, Failed, FailedKind, InboxKey, Verdict,
};
pub use claims::{Cause, DeadLetter, EventState, InboxInUse, InboxStats, ReasonCount};
pub use commit::CommitError;
pub(crate) use commit::{Commit, Committed, ExecutedOperation};
use events::{Filter, Subscription};
pub(crate) use events::{Observer, ObserverId, Witnessed};
use lease::LeaseLost;
pub(crate) use nodes::Needs;
pub use nodes::{NodeGuard, NodeLocks};
pub use options::StoreOptions;
pub(crate) use publish::{Published, Term};
pub(crate) use receipts::{BatchDigest, Receipt};
use transaction::Held;
pub use transaction::{AliasError, Savepoint, SavepointError, TakenOut, Transaction};
pub(crate) use transaction::{EndedBy, Publication};

use crate::document::Snapshot;
use crate::document::schema::Schema;
use crate::id::{LockId, NodeId, NodeIds, OwnerId, TransactionId, random_session};
use crate::lock::{
    AcquireOptions, FifoLock, Grant, JoinError, LockDump, LockError, LockGuard, LockInfo,
    LockStats, QueueEntry, ReleaseError, ReleaseOutcome,
};
use crate::sync::{Mutex, rank};
use events::Events;

/// A document store: transactions one at a time in the order in which they asked, readers at any
/// time.
///
/// Clones are handles of the same store. A store ends when its last handle and transaction is gone.
/// Its lock lives on with the guards and waiters that are left, so dropping handles strands nobody.
///
/// # Blocking
///
/// [`lock`](Self::lock), [`acquire_lock`](Self::acquire_lock) and [`begin`](Self::begin) wait for
/// their turn, at most for the timeout. Nothing else waits for a transaction: snapshots, statistics
/// and releases are done in the time that it takes to copy what they return.
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
pub struct DataStore(Arc<Shared>);

/// What each transaction writes, the count of references among it, lies apart from what is only
/// read: a thread that asks would else take it away, again and again, from the thread that works.
struct Shared {
    lock: FifoLock,
    /// Only whoever holds `lock`, or a share of it and `publishing`, publishes; readers clone what
    /// they want and are gone.
    published: CachePadded<Mutex<{ rank::PUBLISHED }, Published>>,
    /// Held for a commit by whoever has not the whole lock.
    publishing: Mutex<{ rank::PUBLISHING }, ()>,
    events: Events,
    ids: CachePadded<NodeIds>,
    schema: Option<Arc<Schema>>,
    session: u32,
}

impl DataStore {
    /// An empty store: timeout five seconds, no bound on the queue, the system's clock.
    pub fn new() -> Self {
        Self::with_options(StoreOptions::new())
    }

    /// An empty store with other settings.
    pub fn with_options(options: StoreOptions) -> Self {
        let session = options.session.unwrap_or_else(random_session);
        Self(Arc::new(Shared {
            lock: FifoLock::with_options(options.lock),
            published: CachePadded::new(Mutex::new(Published::new(options.remembered_keys))),
            publishing: Mutex::default(),
            events: Events::default(),
            ids: CachePadded::new(NodeIds::new(session)),
            schema: options.schema,
            session,
        }))
    }

    /// The document as last committed. O(1), and never waits for a transaction's work.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        self.0.published.lock().snapshot.clone()
    }

    /// The number of commits so far.
    pub fn version(&self) -> u64 {
        self.0.published.lock().snapshot.version()
    }

    /// What the document may look like, if the store was given a schema.
    pub fn schema(&self) -> Option<&Schema> {
        self.0.schema.as_deref()
    }

    /// An id that no node of this store has or will have, for a node to be created with
    /// [`NodeSpec::with_id`](crate::document::NodeSpec::with_id). `None` when the numbers are used
    /// up, which takes 2⁶⁴ of them.
    pub fn generate_id(&self) -> Option<NodeId> {
        self.0.ids.generate()
    }

    // --- Transactions ---

    /// Waits for the lock and begins a transaction that owns it.
    ///
    /// The lock is released when the transaction is committed, rolled back or dropped.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn begin(&self, owner: impl Into<OwnerId>) -> Result<Transaction, LockError> {
        self.begin_with(owner, AcquireOptions::new())
    }

    /// As [`begin`](Self::begin), with options for the wait.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn begin_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<Transaction, LockError> {
        let owner = owner.into();
        let asker = options.asker(&owner, Location::caller(), true);
        let grant = self.0.lock.grant(&asker, &options)?;
        Ok(self.begin_granted(grant, owner, EndedBy::Transaction))
    }

    /// Begins a transaction under a grant to a transaction.
    #[inline(always)]
    pub(crate) fn begin_granted(
        &self,
        grant: Grant,
        owner: OwnerId,
        ended_by: EndedBy,
    ) -> Transaction {
        let held = Held::new(self.clone(), grant, ended_by);
        Transaction::new(self.next_transaction(), owner, held)
    }

    /// The lock behind it, for whoever lends its grants to transactions.
    pub(crate) fn fifo(&self) -> &FifoLock {
        &self.0.lock
    }

    /// Begins a transaction under a lock that is held by id. The lock stays held when it ends.
    ///
    /// One transaction at a time can be open under a lock; while it is, the lock cannot be released
    /// by id.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: the id is not that of the holder, or a transaction is open already.
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
        Transaction::joining(self.clone(), id)
    }

    /// The id of a transaction, and the document as last committed.
    #[inline(always)]
    pub(crate) fn next_transaction(&self) -> (TransactionId, Snapshot) {
        let mut published = self.0.published.lock();
        published.transactions += 1;
        let id = TransactionId {
            session: self.0.session,
            number: published.transactions,
        };
        (id, published.snapshot.clone())
    }

    // --- Events ---

    /// Subscribes to the commits from now on, keeping at most `capacity` of them that were not
    /// received yet.
    ///
    /// A subscriber that falls further behind misses commits and is told how many; it never holds
    /// up a commit. A capacity of zero counts as one, one of more than 2²⁰ as that. The channel
    /// takes its room at once, some 24 bytes for each commit that it may keep.
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        self.subscribe_to(capacity, Filter::All)
    }

    /// As [`subscribe`](Self::subscribe), to the commits alone that the filter lets in. Others take
    /// no room in the channel and are not counted as missed.
    ///
    /// While somebody subscribes with a filter other than [`Filter::All`], each commit costs time
    /// in proportion to the nodes that it touches and those above them.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*, events::Filter};
    ///
    /// let store = DataStore::new();
    /// let editor = Editor::new(store.clone(), "ann");
    /// let chapter = store.subscribe_to(16, Filter::Subtree("chapter".into()));
    /// transaction(&editor, [
    ///     create(element("section", [text_node("paragraph", "One").with_id("one")]).with_id("chapter")),
    ///     create(text_node("paragraph", "Two").with_id("two")),
    /// ])
    /// .commit()?;
    /// transaction(&editor, [set_text("2").on("two")]).commit()?;
    /// transaction(&editor, [move_node("chapter", 0).on("two")]).commit()?;
    /// transaction(&editor, [set_text("II").on("two")]).commit()?;
    ///
    /// let versions: Vec<u64> = chapter.receiver().try_iter().map(|event| event.commit.version).collect();
    /// assert_eq!(versions, [1, 3, 4]);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn subscribe_to(&self, capacity: usize, filter: Filter) -> Subscription {
        self.0.events.subscribe(capacity, filter)
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) -> ObserverId {
        self.0.events.register(observer)
    }

    pub(crate) fn stop_observing(&self, id: ObserverId) {
        // Dropped when the mutex is free.
        let _observer = self.0.events.deregister(id);
    }

    // --- The lock ---

    /// Waits for the lock and returns the id under which it is held, to be given to
    /// [`release_lock`](Self::release_lock).
    ///
    /// For whoever must hold the lock across calls that share no scope. Where one scope is enough,
    /// take [`lock`](Self::lock), which cannot forget to release.
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

    /// As [`acquire_lock`](Self::acquire_lock), with options for the wait.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn acquire_lock_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<LockId, LockError> {
        self.0.lock.acquire_lock_with(owner, options)
    }

    /// Releases the grant that `id` names. The next waiter holds the lock when this returns. Never
    /// blocks. Any thread may call it.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]: the grant is not held, was revoked, or a transaction is open under it. Nothing is
    /// released.
    #[inline]
    pub fn release_lock(&self, id: LockId) -> Result<ReleaseOutcome, ReleaseError> {
        self.0.lock.release_lock(id)
    }

    /// Waits for the lock and holds it until the returned guard is dropped.
    ///
    /// Grants follow the order in which they were asked for, by whatever method. The wait ends with
    /// the grant, with the timeout, or by a [`CancelToken`](crate::lock::CancelToken); if a grant
    /// races one of the others, the grant counts.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the wait timed out, would have been needed where none was allowed, or was cancelled; the
    /// queue was full; or the calling thread holds the lock already and would wait for itself.
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

    /// As [`lock`](Self::lock), with options for the wait.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`lock`](Self::lock).
    #[track_caller]
    pub fn lock_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<LockGuard, LockError> {
        self.0.lock.lock_with(owner, options)
    }

    /// Takes the lock only if nobody holds it and nobody waits; never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] with who holds, or [`LockError::Reentrant`] if it is the calling
    /// thread.
    #[track_caller]
    pub fn try_lock(&self, owner: impl Into<OwnerId>) -> Result<LockGuard, LockError> {
        self.0.lock.try_lock(owner)
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.0.lock.is_locked()
    }

    /// Who holds the lock.
    pub fn current_lock(&self) -> Option<LockInfo> {
        self.0.lock.current_lock()
    }

    /// How many wait for the lock.
    pub fn queue_length(&self) -> usize {
        self.0.lock.queue_length()
    }

    /// Who waits for the lock, in order.
    pub fn queue_info(&self) -> Vec<QueueEntry> {
        self.0.lock.queue_info()
    }

    /// Who holds the lock and who waits for it, for a person to read when something hangs. Others
    /// go on while it is taken, however long the line is.
    pub fn lock_dump(&self) -> LockDump {
        self.0.lock.lock_dump()
    }

    /// The lock's figures and state, all of one moment but for those who wait behind the first 32.
    pub fn lock_stats(&self) -> LockStats {
        self.0.lock.lock_stats()
    }

    /// Sets the lock's figures to zero. Holder and queue stay; a hold that began before counts
    /// whole when it ends.
    pub fn reset_lock_stats(&self) {
        self.0.lock.reset_lock_stats();
    }

    /// Sets how long requests made from now on wait: zero not at all, `None` without limit. Those
    /// that wait already keep the limit that they came with.
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

    /// The code that `owner` runs when the limit of its present wait has passed. `None` when it
    /// does not wait.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn expiry(&self, owner: impl Into<OwnerId>) -> Option<Box<dyn FnOnce()>> {
        self.0.lock.expiry(owner.into())
    }

    /// Lets the timeout of `owner` pass, if it waits.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn expire(&self, owner: impl Into<OwnerId>) {
        self.0.lock.expire(owner);
    }

    /// Lets the limit on holding pass for whoever holds: the very code that a waiter runs when that
    /// comes.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn expire_hold(&self) {
        self.0.lock.expire_hold();
    }

    /// Has the lock believe that it is taken again and again, so that it measures none of the next
    /// grants for which nobody waits.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn hurry(&self) {
        self.0.lock.hurry();
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
