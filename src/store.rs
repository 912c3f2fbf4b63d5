//! The store: one document, the lock on it, and the events of its commits.

mod admission;
mod calendar;
mod commit_error;
pub(crate) mod diagnostics;
mod draft;
pub mod durable;
pub mod events;
pub mod inbox;
mod lazy;
pub mod lease;
mod log;
#[cfg(loom)]
mod models;
mod nodes;
mod notes;
mod numbers;
mod observe;
mod options;
mod pinned;
mod provenance;
mod publish;
mod receipts;
mod registry;
mod request;
mod result;
mod transaction;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use smol_str::SmolStr;

pub use commit_error::CommitError;
pub use draft::{AliasError, Draft, Savepoint, SavepointError};
use lease::{LeaseLost, Leases};
pub(crate) use log::{CommitEdits, CommitRecord, FollowerId, ReversedEntry};
pub use nodes::{NodeGuard, NodeLocks};
pub(crate) use observe::{Kind, ObservedTransaction};
pub use options::StoreOptions;
pub(crate) use publish::{
    Bookkeeping, CommitCondition, HeldGrant, Publication, PublishedState, Reversal,
};
pub(crate) use receipts::{BatchDigest, Receipt};
pub(crate) use result::ExecutedOperation;
pub use result::{HookFailure, HookId, TransactionResult};
pub(crate) use transaction::Hold;
pub use transaction::Transaction;

use crate::document::Snapshot;
use crate::document::schema::Schema;
use crate::id::{LockId, NodeId, NodeIds, OwnerId, random_session};
use crate::lock::{
    AcquireOptions, FifoLock, Grant, JoinError, LockError, LockGuard, LockInfo, LockReport,
    LockStats, QueueEntry, ReleaseError, ReleaseOutcome, Timeline, WaitsAs, blocking,
};
use crate::sync::{Mutex, rank};
use crate::time::Clock;
use durable::Writer;
use log::OwnLog;
use numbers::Numbers;
use observe::Observer;
use provenance::RecordedProvenance;
pub(crate) use provenance::{KeptHistory, Undone};

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
/// subscriber](crate::events::PendingSubscription::lossless) has too much to read, they wait for it
/// first. No other method waits for a transaction: snapshots, statistics and releases take only the
/// time to copy what they return.
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

/// The document of a store. Each transaction writes it, so it is apart from what only the store
/// needs: otherwise a requesting thread takes its cache lines from the holder again and again.
pub(crate) struct SharedDocument {
    /// The last version. Replaced by the holder of the lock, or of a share of it and `publishing`;
    /// readers only clone.
    published: Mutex<{ rank::PUBLISHED }, PublishedState>,
    pub(crate) ids: NodeIds,
    schema: Option<Arc<Schema>>,
    clock: Clock,
}

impl SharedDocument {
    /// A document with ids after the last one of a session.
    pub(crate) fn new(
        snapshot: Snapshot,
        (session, last_id): (u32, u64),
        schema: Option<Arc<Schema>>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            published: Mutex::new(PublishedState::new(snapshot)),
            ids: NodeIds::after(session, last_id),
            schema,
            clock,
        })
    }
}

struct StoreShared {
    /// Its drafts and its journal have it, too.
    document: Arc<SharedDocument>,
    bookkeeping: Mutex<{ rank::BOOKKEEPING }, Bookkeeping>,
    numbers: Numbers,
    /// Held during a commit by a transaction that does not hold the whole lock.
    publishing: Mutex<{ rank::PUBLISHING }, ()>,
    /// Set if the document is durable. Dropped before the log, of which it writes all commits.
    writer: Option<Box<Writer>>,
    log: OwnLog,
    provenance: Mutex<{ rank::PROVENANCE }, RecordedProvenance>,
    /// Dropped after all that its keeper serves, so that the keeper ends.
    lock: FifoLock,
    name: SmolStr,
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
        let bookkeeping = Bookkeeping::new(options.remembered_keys, writer.is_some());
        let ids = (session_of_ids, last_id);
        let clock = options.lock.clock.clone();
        Self(Arc::new(StoreShared {
            document: SharedDocument::new(snapshot, ids, options.schema, clock),
            observer: Observer::new(&options.lock.name, &options.lock.clock),
            name: options.lock.name.clone(),
            lock: FifoLock::with_options(options.lock),
            bookkeeping: Mutex::new(bookkeeping),
            numbers: Numbers::after(numbering),
            publishing: Mutex::default(),
            log: OwnLog::new(options.kept_commits, options.log_limit),
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
        blocking(self.begin_as(WaitsAs::Thread, owner, &options, Location::caller()))
    }

    /// A draft of the last version, under a grant to a transaction.
    #[inline(always)]
    pub(crate) fn draft_under(&self, grant: Grant) -> Draft {
        let document = Arc::clone(&self.0.document);
        let id = self.0.numbers.next_transaction();
        Draft::new(id, document, self.snapshot_under(grant))
    }

    /// The store's lock.
    pub(crate) fn fifo(&self) -> &FifoLock {
        &self.0.lock
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
        self.begin_under_as(Kind::ByHand, id)
    }

    #[track_caller]
    pub(crate) fn begin_under_as(&self, kind: Kind, id: LockId) -> Result<Transaction, JoinError> {
        let call_site = Location::caller();
        let (owner, grant) = self.0.lock.join_grant(id)?;
        let options = AcquireOptions::new();
        let mut observed = self.observe(kind, &options.requester(&owner, call_site, true));
        observed.granted_at_once();
        Ok(Transaction::begin(self, grant, owner, observed))
    }

    /// The result of a transaction without operations.
    pub(crate) fn nothing_done(&self, owner: OwnerId) -> TransactionResult {
        let id = self.0.numbers.next_transaction();
        TransactionResult::nothing_done(id, self.version(), owner)
    }

    /// The document as last committed, for an open transaction. Its token is noted for the next
    /// version.
    pub(crate) fn snapshot_under(&self, grant: Grant) -> Snapshot {
        let published = self.0.document.published.lock();
        self.0.numbers.note_lock_token(grant.token);
        published.document.clone()
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
        match self.has_entry_queue() {
            false => self.0.lock.acquire_lock(owner),
            true => Ok(self.request(owner).wait()?.into_id()),
        }
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
        match self.has_entry_queue() {
            false => self.0.lock.lock(owner),
            true => self.request(owner).wait(),
        }
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

    /// Returns whether the lock is held.
    pub fn is_locked(&self) -> bool {
        self.0.lock.is_locked()
    }

    /// Describes the current holder of the lock, if there is one.
    pub fn current_lock(&self) -> Option<LockInfo> {
        self.0.lock.current_lock()
    }

    /// Returns the number of requests that wait for the lock.
    pub fn queue_length(&self) -> usize {
        self.0.lock.queue_length()
    }

    /// Lists the requests that wait for the lock, in order.
    pub fn queue_info(&self) -> Vec<QueueEntry> {
        self.0.lock.queue_info()
    }

    /// Returns the metrics and the state of the lock.
    ///
    /// All values are of one moment, except for the waiters behind the first 32.
    pub fn lock_stats(&self) -> LockStats {
        self.0.lock.lock_stats()
    }

    /// Returns what the lock has recorded: its last requests, with those that hold or wait.
    ///
    /// `None` if [`StoreOptions::timeline`] does not turn the recorder on. Other threads continue
    /// while it is taken.
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions, lock::TimelineOutcome};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().timeline(100_000));
    /// store.begin("ann")?.rollback();
    /// let timeline = store.timeline().unwrap();
    /// assert_eq!(timeline.entries[0].owner_id.as_str(), "ann");
    /// assert_eq!(timeline.entries[0].outcome, TimelineOutcome::Released);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn timeline(&self) -> Option<Timeline> {
        self.0.lock.timeline()
    }

    /// Returns the channel of the reports of long holds and long waits.
    ///
    /// `None` if neither [`StoreOptions::report_holds`] nor [`StoreOptions::report_waits`] is set.
    /// All receivers share the channel: each report goes to one of them. It keeps the last
    /// [`LockReport::KEPT`] reports that no receiver has taken. A [report](LockReport) has an
    /// example.
    pub fn lock_reports(&self) -> Option<Receiver<LockReport>> {
        self.0.lock.reports()
    }

    /// Resets the metrics of the lock to zero.
    ///
    /// Holder and queue stay. A hold that began before the reset counts in full when it ends.
    pub fn reset_lock_stats(&self) {
        self.0.lock.reset_lock_stats();
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
