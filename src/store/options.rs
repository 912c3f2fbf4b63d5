//! Options of a new store.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::DataStore;
use crate::document::Snapshot;
use crate::document::schema::{Schema, SchemaViolation};
use crate::lock::{BatchLimit, LockOptions};
use crate::time::Clock;

/// Options of a new store.
///
/// ```
/// use doclock::{DataStore, StoreOptions};
/// use std::time::Duration;
///
/// let options = StoreOptions::new().lock_timeout(Duration::from_secs(1)).queue_bound(100).session(7);
/// let store = DataStore::with_options(options);
/// assert_eq!(store.generate_id().unwrap().to_string(), "7:1");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreOptions {
    pub(super) name: SmolStr,
    pub(super) session: Option<u32>,
    pub(super) schema: Option<Arc<Schema>>,
    pub(super) lock: LockOptions,
    pub(super) remembered_keys: usize,
    pub(super) log_limit: usize,
    pub(super) kept_commits: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            name: SmolStr::new_static(Self::DEFAULT_NAME),
            session: None,
            schema: None,
            lock: LockOptions::default(),
            remembered_keys: 10_000,
            log_limit: 1 << 20,
            kept_commits: 0,
        }
    }
}

impl StoreOptions {
    pub(super) const DEFAULT_NAME: &str = "default";

    /// Creates the options that [`DataStore::new`](super::DataStore::new) uses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a store with these options and an existing document: one that was loaded, or the
    /// [snapshot](DataStore::snapshot) of another store.
    ///
    /// The document and its numberings continue:
    ///
    /// - The next commit makes the next version.
    /// - Fencing tokens are greater than those that the snapshot knows: of the transactions that
    ///   began before it was published, and of the leases and claims until then.
    /// - No generated id is the id of a node in the document.
    /// - If the [session](Self::session) is that of the store which made the last version, node ids
    ///   and transaction ids continue, also after the ids of deleted nodes. In another session they
    ///   begin anew. The default is a new random session, so no id of an earlier store returns.
    /// - A session in which a node has a number of 2⁶³ or more has none left. The node ids of the
    ///   store are then of a new random session.
    ///
    /// Numbers that the earlier store used after the last commit of the snapshot are not known and
    /// can return: tokens of locks without a commit, and, with the same session, ids. Leases,
    /// inboxes and idempotency keys are not a part of a snapshot. A lease of the earlier store has
    /// ended: a transaction that requires its token is refused.
    ///
    /// For a document in a file see [`DurableOptions::document`](crate::durable::DurableOptions).
    ///
    /// Takes the time to check the schema; without a schema, much less than a visit of each node.
    ///
    /// # Errors
    ///
    /// [`SchemaViolation`]: the document does not follow the [schema](Self::schema).
    ///
    /// ```
    /// use doclock::{DataStore, Snapshot, StoreOptions, document::NodeSpec};
    ///
    /// let store = DataStore::new();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    /// let saved = serde_json::to_string(&store.snapshot())?;
    /// drop(store);
    ///
    /// let snapshot: Snapshot = serde_json::from_str(&saved)?;
    /// let store = StoreOptions::new().document(snapshot)?;
    /// assert_eq!((store.version(), store.snapshot().len()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn document(self, snapshot: Snapshot) -> Result<DataStore, SchemaViolation> {
        if let Some(schema) = &self.schema {
            schema.check_all(&snapshot)?;
        }
        Ok(DataStore::beginning_with(snapshot, self, None))
    }

    /// Sets the name of the store, which tells its metrics and spans from those of other stores.
    /// The diagnostics of other stores say that a thread waits in this one. The default is
    /// `default`.
    ///
    /// Stores of one name share their metrics: see the page [observing](crate::guide::observing).
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().name("notes"));
    /// assert_eq!(store.name(), "notes");
    /// ```
    pub fn name(mut self, name: impl Into<SmolStr>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the first part of the ids that the store generates.
    ///
    /// The default is random, so that one document can hold nodes of two stores.
    pub fn session(mut self, session: u32) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the schema that every version of the document must follow. The default is no schema.
    ///
    /// Several stores can share a schema: give each a clone of one `Arc`.
    pub fn schema(mut self, schema: impl Into<Arc<Schema>>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Sets the timeout of lock requests that set none themselves: zero allows no wait, `None` sets
    /// no limit. The default is five seconds.
    pub fn lock_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.lock.timeout = limit.into();
        self
    }

    /// Limits how many requests may wait for the lock; the next request is rejected at once. The
    /// default is no limit.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.lock.queue_bound = Some(bound);
        self
    }

    /// Sets how many later requests can overtake a waiting request, for each step that their
    /// [priority](crate::lock::AcquireOptions::priority) is above its own.
    ///
    /// With 64, the default, at most 128 requests overtake one of low priority, and at most 64 of
    /// these are of normal priority. Zero disables priorities.
    pub fn overtaking_bound(mut self, requests: u32) -> Self {
        self.lock.overtaking = requests;
        self
    }

    /// Limits how long the lock may be held while other requests wait. The default is no limit.
    ///
    /// Past the limit the next waiter is granted the lock, and the holder's grant is revoked. The
    /// changes of its transaction are dropped. Its commit fails with
    /// [`CommitError::Revoked`](crate::CommitError::Revoked), and its release with
    /// [`ReleaseError::Revoked`](crate::lock::ReleaseError::Revoked). A commit that has begun to
    /// publish completes, and so does an undo or a redo. Revoking interrupts no thread. A thread of
    /// the store checks the limit while requests wait; it starts with the first of them.
    ///
    /// A single request sets its own limit with
    /// [`AcquireOptions::hold_limit`](crate::lock::AcquireOptions::hold_limit).
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.lock.hold_limit = Some(limit);
        self
    }

    /// Limits how many bytes of commits the store keeps for editors and subscribers that have not
    /// read them yet. The default is 1 MiB. The sizes are estimates.
    ///
    /// Past the limit, a [subscriber](crate::events::Subscription#gaps) misses the oldest commits.
    /// The commits that a [lossless](crate::events::PendingSubscription::lossless) one has not read
    /// stay, and so do those of a durable store that are not durable yet.
    ///
    /// An [`Editor`](crate::Editor) reads the commits of others when it is next used. Past the
    /// limit, or past 256 KiB if there are no subscribers, only the positions and lengths of their
    /// edits remain. Their memory depends on the number of edits, of which adjacent typing is one.
    ///
    /// Undo and selections are the same over such commits, except that the error of an undo may no
    /// longer name [who changed the node](crate::history::UndoError::Conflict).
    ///
    /// Without a subscriber or an editor that was used, and beside a single editor that makes all
    /// commits, the store keeps none.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, StoreOptions, dsl::*};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().log_limit(64 << 10));
    /// let [ann, bob] = ["ann", "bob"].map(|user| Editor::new(store.clone(), user));
    /// ann.execute([create(text_node("paragraph", "ann").with_id("p"))])?;
    /// for _ in 0..1_000 {
    ///     bob.execute([insert_text(0, "x").on("p")])?;
    /// }
    /// // Ann created the node. It stays for the text of Bob.
    /// ann.undo().commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log_limit(mut self, bytes: usize) -> Self {
        self.log_limit = bytes;
        self
    }

    /// Sets how many bytes of the latest commits the store keeps for
    /// subscriptions [after](crate::events::PendingSubscription::after) a version and
    /// [`commits_since`](super::DataStore::commits_since). The default is zero, which keeps none.
    ///
    /// They stay in the log of [`log_limit`](Self::log_limit), in addition to what that allows. So
    /// there are at least so many bytes, and at most both, apart from what has to stay. The sizes
    /// are estimates. Each commit costs the time to record it.
    pub fn kept_commits(mut self, bytes: usize) -> Self {
        self.kept_commits = bytes;
        self
    }

    /// Limits how many queued batches a thread runs for other threads.
    ///
    /// A thread that executes an operation batch runs queued batches of other threads after its own
    /// and before it returns. It runs at most `lists` batches, and starts none after `time` has
    /// passed. The next thread in the queue then continues. Zero for either turns this off. The
    /// default is 256 batches and half a millisecond. The same limit applies to commits of
    /// transactions on nodes, which a thread publishes for others after its own.
    ///
    /// Sleeping submitters are woken when the combiner is done: at the latest after half a
    /// millisecond and the batch that runs then. They are also woken before a batch that runs code
    /// or has more than 512 operations. Submitters that are still awake get their results at once.
    /// After it has woken a thread, the combiner yields its processor once.
    ///
    /// A single request opts out with
    /// [`AcquireOptions::without_combining`](crate::lock::AcquireOptions::without_combining).
    pub fn batch_limit(mut self, lists: usize, time: Duration) -> Self {
        self.lock.batch = BatchLimit { count: lists, time };
        self
    }

    /// Records the last `requests` requests for the lock that ended, for
    /// [`DataStore::timeline`](super::DataStore::timeline), as
    /// [`LockOptions::timeline`] does. They are not recorded by default.
    pub fn timeline(mut self, requests: usize) -> Self {
        self.lock = self.lock.timeline(requests);
        self
    }

    /// Reports holds of the lock that last longer than the threshold, as
    /// [`LockOptions::report_holds`] does. [`DataStore::lock_reports`] has the reports. They are
    /// not made by default.
    pub fn report_holds(mut self, longer_than: Duration) -> Self {
        self.lock = self.lock.report_holds(longer_than);
        self
    }

    /// Reports waits for the lock that last longer than the threshold, as
    /// [`LockOptions::report_waits`] does. [`DataStore::lock_reports`] has the reports. They are
    /// not made by default.
    pub fn report_waits(mut self, longer_than: Duration) -> Self {
        self.lock = self.lock.report_waits(longer_than);
        self
    }

    /// Sets the clock of the store. The default is the system's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.lock.clock = clock;
        self
    }

    /// Sets how many idempotency keys the store remembers, each with the result that it returns to
    /// repetitions. Zero remembers none. The default is 10,000.
    ///
    /// So many transactions with other keys can be committed between a transaction and its
    /// repetition. The store forgets the oldest key first. A transaction whose key is forgotten
    /// runs again when it is repeated.
    pub fn remembered_keys(mut self, keys: usize) -> Self {
        self.remembered_keys = keys;
        self
    }
}
