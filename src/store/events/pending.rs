//! A subscription before it begins: its options, and which commits it receives.

use std::fmt;
use std::panic::Location;

use super::{Filter, MissingCommits, Subscription};
use crate::store::DataStore;

/// A subscription that has not begun, with its options. [`DataStore::subscription`] creates it, and
/// reports name its line.
///
/// Its ending selects the commits that the subscription receives:
///
/// - [`all`](Self::all) future commits;
/// - the future commits [`matching`](Self::matching) a filter;
/// - all commits [`after`](Self::after) a version.
#[must_use = "nothing is received before it begins"]
pub struct PendingSubscription {
    store: DataStore,
    call_site: &'static Location<'static>,
    options: SubscriptionOptions,
}

/// How a subscriber reads.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct SubscriptionOptions {
    pub(in crate::store) is_durable: bool,
    pub(in crate::store) lossless_limit: Option<usize>,
}

impl PendingSubscription {
    #[track_caller]
    pub(super) fn new(store: DataStore) -> Self {
        Self {
            store,
            call_site: Location::caller(),
            options: SubscriptionOptions::default(),
        }
    }

    /// Makes the subscription receive only commits that are durable, each when it is.
    ///
    /// **Use it** for data that leaves the process: a message to another program, or the answer to
    /// a client. What a power cut takes back was then never seen outside. A subscription without it
    /// receives commits at once, for views in the same process.
    ///
    /// A commit that was published before the subscription is not received, even if it becomes
    /// durable later. To start from [the durable document](DataStore::durable_snapshot), subscribe
    /// [after](Self::after) its version.
    ///
    /// If the [journal](crate::durable) fails, the commits that are not durable by then are never
    /// received. In a store in memory it changes nothing.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let for_clients = store.subscription().durable().all();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit_with(Durability::Later)?;
    /// let event = for_clients.recv()?;
    /// assert_eq!(store.durable_snapshot().map(|it| it.version()), Some(event.commit.version));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durable(mut self) -> Self {
        self.options.is_durable = true;
        self
    }

    /// Makes the subscription miss no commit.
    ///
    /// If the subscriber has more than `limit` bytes of commits to read, the lock of the store is
    /// closed: its queue waits, with requests for nodes. It opens when the subscriber has read down
    /// to half of the limit, or is dropped. The sizes are estimates.
    ///
    /// The timeouts, cancel tokens and queue bounds of the requests apply. The
    /// [`LockError`](crate::lock::LockError) of one that ends names the holder
    /// `lossless subscriber`, unless another request holds the lock.
    /// [`LockReport::closed_by`](crate::lock::LockReport::closed_by) has it, too.
    ///
    /// The unread commits can exceed the limit by those of transactions that hold the lock, or hold
    /// nodes or wait for them, when it closes.
    ///
    /// With a filter, all commits since the last read count. When the journal of a
    /// [durable](Self::durable) subscription ends, no request waits for it any more.
    ///
    /// The thread that reads must not request the lock without a timeout: its request could wait
    /// for itself.
    ///
    /// ```
    /// use doclock::lock::{AcquireOptions, LockError};
    /// use doclock::{DataStore, TransactionManager, dsl::*};
    ///
    /// let store = DataStore::new();
    /// let journal = store.subscription().lossless(0).all();
    /// let manager = TransactionManager::new(store.clone());
    /// manager.execute(create(text_node("paragraph", "one")))?;
    ///
    /// let no_wait = AcquireOptions::new().no_wait();
    /// let refused = store.request("ann").options(no_wait.clone()).wait();
    /// assert!(matches!(refused, Err(LockError::WouldBlock { .. })));
    /// assert_eq!(journal.recv()?.commit.version, 1);
    /// assert!(store.request("ann").options(no_wait).wait().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lossless(mut self, limit: usize) -> Self {
        self.options.lossless_limit = Some(limit);
        self
    }

    /// Subscribes to all future commits.
    pub fn all(self) -> Subscription {
        self.matching(Filter::All)
    }

    /// Subscribes to the future commits that pass the filter.
    ///
    /// Other commits do not count as missed. A filter selects no kept commits: each commit is
    /// compared with the filters of its moment.
    ///
    /// While a subscription has a filter other than [`Filter::All`], each commit costs time in
    /// proportion to the nodes that it touches and their ancestors.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*, events::Filter};
    ///
    /// let store = DataStore::new();
    /// let editor = Editor::new(store.clone(), "ann");
    /// let chapter = store.subscription().matching(Filter::Subtree("chapter".into()));
    /// transaction(&editor, [
    ///     create(element("section", [text_node("paragraph", "One").with_id("one")]).with_id("chapter")),
    ///     create(text_node("paragraph", "Two").with_id("two")),
    /// ])
    /// .commit()?;
    /// transaction(&editor, [set_text("2").on("two")]).commit()?;
    /// transaction(&editor, [move_node("chapter", 0).on("two")]).commit()?;
    /// transaction(&editor, [set_text("II").on("two")]).commit()?;
    ///
    /// let versions: Vec<u64> = chapter.try_iter().map(|event| event.commit.version).collect();
    /// assert_eq!(versions, [1, 3, 4]);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn matching(self, filter: Filter) -> Subscription {
        let Self {
            store,
            call_site,
            options,
        } = self;
        Subscription::new(store.subscribe_with(filter, options, call_site))
    }

    /// Subscribes to the commits after a version: those that the store has kept, and all future
    /// ones, in one order without a gap and without a duplicate.
    ///
    /// **Use it** to continue from a document: a copy, or a client that was away. A version is that
    /// of a [snapshot](crate::Snapshot), or the last one that the client has received.
    ///
    /// The store [keeps](crate::StoreOptions::kept_commits) as many commits as it is told to, which
    /// is none by default. A durable store also has the commits that are not durable yet. So a
    /// [`durable_snapshot`](DataStore::durable_snapshot) is continued by a
    /// [`durable`](Self::durable) subscription after its version. If commits are removed between
    /// the two calls, the second one returns an error, and a newer snapshot can be followed.
    ///
    /// A subscriber that is too far behind [misses commits](Subscription#gaps) as any other, unless
    /// it is [`lossless`](Self::lossless).
    ///
    /// Never blocks. Takes time in proportion to the number of kept commits after the version.
    ///
    /// # Errors
    ///
    /// [`MissingCommits`]: the oldest of these commits were removed, or the document has not
    /// reached the version.
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions, TransactionManager, dsl::*};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().kept_commits(1 << 20));
    /// let manager = TransactionManager::new(store.clone());
    /// for text in ["one", "two", "three"] {
    ///     manager.execute(create(text_node("paragraph", text)))?;
    /// }
    /// let events = store.subscription().after(1)?;
    /// manager.execute(create(text_node("paragraph", "four")))?;
    /// let versions: Vec<u64> = events.try_iter().map(|event| event.commit.version).collect();
    /// assert_eq!(versions, [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(self, version: u64) -> Result<Subscription, MissingCommits> {
        let Self {
            store,
            call_site,
            options,
        } = self;
        let parts = store.subscribe_after(version, options, call_site)?;
        Ok(Subscription::new(parts))
    }
}

impl fmt::Debug for PendingSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingSubscription")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
