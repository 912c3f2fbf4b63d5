//! Commits as data, and how to follow them.
//!
//! **Use it** to keep something up to date with the document: a view, an index or a copy. A
//! [`Subscription`] receives each commit as a [`CommitEvent`], and a [`Filter`] limits it to some
//! nodes. It never delays a commit: a subscriber that is too far behind misses the oldest commits,
//! which [are counted](Subscription#gaps). **Do not use it** to refuse a commit: a before-hook
//! ([`Hooks`](crate::transaction::Hooks)) does that.
//!
//! ```
//! use doclock::dsl::*;
//! use doclock::{DataStore, TransactionManager};
//!
//! let store = DataStore::new();
//! let events = store.subscribe();
//! TransactionManager::new(store.clone()).execute([create(text_node("paragraph", "Hello"))])?;
//!
//! let event = events.recv()?;
//! assert_eq!((event.commit.version, event.missed), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filter;

use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
pub use futures_core::Stream;
use serde::Serialize;

pub use filter::Filter;
pub(super) use filter::Reach;

use super::log::{CommitLog, EventWait, SubscriberId};
pub use super::result::ExecutedOperation;
use super::{DataStore, TransactionResult};
use crate::codes::codes;

/// A commit, as one subscriber receives it.
///
/// Serializes as `{"missed": 0, "commit": {"version": 1, …}}`. The page
/// [hooks](crate::guide::hooks#the-json-of-a-change) has the JSON of the changes.
///
/// ```
/// use doclock::{DataStore, document::NodeSpec};
///
/// let store = DataStore::new();
/// let events = store.subscribe();
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// transaction.commit()?;
///
/// let event = serde_json::to_value(events.recv()?)?;
/// assert_eq!((&event["missed"], &event["commit"]["version"]), (&0.into(), &1.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommitEvent {
    /// The number of commits that this subscriber missed right before this one, because it was too
    /// far behind. Of commits that its filter excludes it misses none.
    pub missed: u64,
    /// The commit: what the committing call returns. All subscribers share it.
    pub commit: Arc<TransactionResult>,
}

/// Receives the commits of a store, in order, until it is dropped.
///
/// With a [`Filter`] it receives only the commits that pass the filter.
///
/// An event can be received after its version is published. A subscriber may begin its own
/// transactions. Several threads can share a subscription: each event goes to one of them.
///
/// # Gaps
///
/// The unread commits of all subscribers and editors are in one log, which
/// [has a limit](crate::StoreOptions::log_limit) in bytes. Beyond it, the oldest commits are
/// removed. A subscriber that has not received them misses them: its next event carries their
/// number. It never misses the newest commit that passes its filter, so it always learns of the
/// gap.
///
/// ```
/// use doclock::{DataStore, document::NodeSpec};
///
/// let store = DataStore::new();
/// let events = store.subscribe();
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// transaction.commit()?;
///
/// let event = events.recv()?;
/// assert_eq!((event.commit.version, event.missed), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subscription {
    log: Arc<CommitLog>,
    id: SubscriberId,
    ready: Receiver<()>,
    /// The last wait as a stream.
    waits: Option<EventWait>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.log.unsubscribe(self.id);
    }
}

impl Subscription {
    fn new((log, id, ready): (Arc<CommitLog>, SubscriberId, Receiver<()>)) -> Self {
        Self {
            log,
            id,
            ready,
            waits: None,
        }
    }

    /// Makes the subscription receive only commits that are durable, each when it is.
    ///
    /// **Use it** for data that leaves the process: a message to another program, or the answer to
    /// a client. What a power cut takes back was then never seen outside. A subscription without it
    /// receives commits at once, for views in the same process.
    ///
    /// After [`subscribe`](DataStore::subscribe), a commit that was published before is not
    /// received, even if it becomes durable later. To start from
    /// [the durable document](DataStore::durable_snapshot), use
    /// [`follow_from`](DataStore::follow_from) with its version.
    ///
    /// It ends when the store is closed or its [journal](crate::durable) fails: then no further
    /// commit becomes durable. In a store in memory it changes nothing.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let for_clients = store.subscribe().durable();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit_with(Durability::Later)?;
    /// let event = for_clients.recv()?;
    /// assert_eq!(store.durable_version(), Some(event.commit.version));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn durable(self) -> Self {
        self.log.read_durable(self.id);
        self
    }

    /// Makes the subscription miss no further commit.
    ///
    /// If the subscriber has more than `limit` bytes of commits to read, new requests for the lock
    /// wait before they request it. They go on, in FIFO order, when the subscriber has read down to
    /// half of the limit, or is dropped. Until all of them have gone on, later requests wait behind
    /// them, and the lock is granted to one after the other. The sizes are estimates.
    ///
    /// The timeouts, cancel tokens and queue bounds of the requests apply. The
    /// [`LockError`](crate::lock::LockError) of the first one names the holder
    /// `lossless subscriber`. For the others the first one is the holder, and the error has the
    /// time since the request began to wait there. The statistics of the lock do not count these
    /// waits; [`admission_dump`](DataStore::admission_dump) shows them.
    ///
    /// The unread commits can exceed the limit by those of requests that have been admitted
    /// already, and of transactions under a lock that is held already. Requests for nodes are
    /// admitted without waiting for the grant of the one before. [`NodeLocks`](crate::NodeLocks)
    /// are not affected.
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
    /// let journal = store.subscribe().lossless(0);
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
    #[must_use]
    pub fn lossless(self, limit: usize) -> Self {
        self.log.read_losslessly(self.id, limit);
        self
    }

    /// Returns a channel that has a message while there may be an event to receive, for `select!`.
    ///
    /// The message says nothing about the event, and there may be none: after the message, receive
    /// events with [`try_recv`](Self::try_recv) or [`try_iter`](Self::try_iter). If events are left
    /// then, the channel has a message again.
    ///
    /// The channel disconnects when the store is dropped. There may be events left then, which
    /// `try_recv` returns before it returns [`TryRecvError::Disconnected`]. A clone of the channel
    /// also disconnects when this subscription is dropped.
    ///
    /// ```
    /// use crossbeam_channel::{never, select};
    /// use doclock::{DataStore, document::NodeSpec};
    ///
    /// let store = DataStore::new();
    /// let events = store.subscribe();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    ///
    /// let keys = never::<char>();
    /// select! {
    ///     recv(events.ready()) -> _ => {
    ///         let versions: Vec<u64> = events.try_iter().map(|event| event.commit.version).collect();
    ///         assert_eq!(versions, [1]);
    ///     }
    ///     recv(keys) -> key => println!("{key:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready(&self) -> &Receiver<()> {
        &self.ready
    }

    /// Waits for the next event and returns it.
    ///
    /// Blocks without a limit.
    ///
    /// # Errors
    ///
    /// [`RecvError`]: the store was dropped, and no event is left.
    pub fn recv(&self) -> Result<CommitEvent, RecvError> {
        loop {
            match self.try_recv() {
                Ok(event) => return Ok(event),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                // Also ends with the store, after which there may be events left.
                Err(TryRecvError::Empty) => drop(self.ready.recv()),
            }
        }
    }

    /// Waits for the next event in a task, and returns it.
    ///
    /// Cancel safe: a future that is dropped has received no event. The subscription is also a
    /// [`Stream`], which ends where this method returns an error.
    ///
    /// # Errors
    ///
    /// [`RecvError`]: the store was dropped, and no event is left.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*};
    ///
    /// # pollster::block_on(async {
    /// let store = DataStore::new();
    /// let events = store.subscribe();
    /// let manager = TransactionManager::new(store);
    /// manager.transaction(create(text_node("paragraph", "Hello"))).await?;
    /// assert_eq!(events.recv_async().await?.commit.version, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn recv_async(&self) -> Result<CommitEvent, RecvError> {
        let mut wait = TaskEvent {
            subscription: self,
            wait: None,
        };
        poll_fn(|context| self.poll_recv(&mut wait.wait, context)).await
    }

    fn poll_recv(
        &self,
        wait: &mut Option<EventWait>,
        context: &mut Context<'_>,
    ) -> Poll<Result<CommitEvent, RecvError>> {
        let next = || match self.try_recv() {
            Ok(event) => Poll::Ready(Ok(event)),
            Err(TryRecvError::Disconnected) => Poll::Ready(Err(RecvError)),
            Err(TryRecvError::Empty) => Poll::Pending,
        };
        if let ready @ Poll::Ready(_) = next() {
            return ready;
        }
        self.log
            .wait_in_task(self.id, wait, context.waker().clone());
        // There may be one since the first look.
        next()
    }

    /// Waits for the next event for at most `timeout` and returns it.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError`]: there was no event within the timeout, or the store was dropped and no
    /// event is left.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<CommitEvent, RecvTimeoutError> {
        // Further away than the clock reaches: no limit.
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return Ok(self.recv()?);
        };
        loop {
            match self.try_recv() {
                Ok(event) => return Ok(event),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {
                    if let Err(RecvTimeoutError::Timeout) = self.ready.recv_deadline(deadline) {
                        return Err(RecvTimeoutError::Timeout);
                    }
                }
            }
        }
    }

    /// Returns the next event if there is one. Never blocks.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`]: there is no event at the moment, or the store was dropped and no event is
    /// left.
    pub fn try_recv(&self) -> Result<CommitEvent, TryRecvError> {
        self.log.next(self.id)
    }

    /// Iterates over the events.
    ///
    /// The iterator blocks until the next event. It ends when the store is dropped and no event is
    /// left.
    pub fn iter(&self) -> EventIter<'_> {
        EventIter(self)
    }

    /// Iterates over the events that can be received now. Never blocks.
    pub fn try_iter(&self) -> impl Iterator<Item = CommitEvent> {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// The events, for tasks. It ends when the store is dropped and no event is left.
impl Stream for Subscription {
    type Item = CommitEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<CommitEvent>> {
        let mut wait = self.waits;
        let next = self.poll_recv(&mut wait, context);
        self.waits = wait;
        next.map(Result::ok)
    }
}

/// A wait of a task for an event. It leaves no waker when it is dropped.
struct TaskEvent<'s> {
    subscription: &'s Subscription,
    wait: Option<EventWait>,
}

impl Drop for TaskEvent<'_> {
    fn drop(&mut self) {
        if let Some(wait) = self.wait {
            let Subscription { log, id, .. } = self.subscription;
            log.forget_task(*id, wait);
        }
    }
}

impl<'s> IntoIterator for &'s Subscription {
    type Item = CommitEvent;
    type IntoIter = EventIter<'s>;

    fn into_iter(self) -> EventIter<'s> {
        self.iter()
    }
}

/// An iterator over the events of a [`Subscription`].
#[derive(Debug)]
pub struct EventIter<'s>(&'s Subscription);

impl Iterator for EventIter<'_> {
    type Item = CommitEvent;

    fn next(&mut self) -> Option<CommitEvent> {
        self.0.recv().ok()
    }
}

/// Why a store has not all commits after a version: the error of
/// [`follow_from`](DataStore::follow_from) and [`commits_since`](DataStore::commits_since).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingCommits {
    /// The store has removed the first of these commits, those up to version `earliest`, or has
    /// not kept them.
    #[error(
        "the commits after version {version} are incomplete: only those after version {earliest} are kept, up to version {latest}"
    )]
    Removed {
        /// The version after which the commits were requested.
        version: u64,
        /// The lowest version after which the store has all commits.
        earliest: u64,
        /// The version of the document.
        latest: u64,
    },
    /// The document has not reached the version. Perhaps the version is that of another store.
    #[error("there are no commits after version {version}: the document has version {latest}")]
    NotReached {
        /// The version after which the commits were requested.
        version: u64,
        /// The version of the document.
        latest: u64,
    },
}

codes! { MissingCommits {
    Self::Removed { version, earliest, latest } => "commitsRemoved", 410;
    Self::NotReached { version, latest } => "versionNotReached", 404;
}}

/// # Commits
impl DataStore {
    /// Subscribes to all future commits.
    ///
    /// A subscriber never delays a commit. If it is too far behind, it misses the oldest commits,
    /// and its next event [carries their number](Subscription#gaps). To start from a document,
    /// [`follow_from`](Self::follow_from) its version.
    #[track_caller]
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_to(Filter::All)
    }

    /// Subscribes to the future commits that pass the filter.
    ///
    /// Other commits do not count as missed. All else is as for [`subscribe`](Self::subscribe).
    ///
    /// While a subscription has a filter other than [`Filter::All`], each commit costs time in
    /// proportion to the nodes that it touches and their ancestors.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*, events::Filter};
    ///
    /// let store = DataStore::new();
    /// let editor = Editor::new(store.clone(), "ann");
    /// let chapter = store.subscribe_to(Filter::Subtree("chapter".into()));
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
    #[track_caller]
    pub fn subscribe_to(&self, filter: Filter) -> Subscription {
        let parts = self.subscribe_with(filter, Location::caller());
        Subscription::new(parts)
    }

    /// Subscribes to the commits after a version: those that the store has kept, and all future
    /// ones, in one order without a gap and without a duplicate.
    ///
    /// **Use it** to continue from a document: a copy, or a client that was away. A version is that
    /// of a [snapshot](crate::Snapshot), or the last one that the client has received.
    ///
    /// The store [keeps](crate::StoreOptions::kept_commits) as many commits as it is told to, which
    /// is none by default. A durable store also has the commits that are not durable yet. So a
    /// [`durable_snapshot`](Self::durable_snapshot) is continued by `follow_from` its version with
    /// [`durable`](Subscription::durable). If its commits are removed between the two calls, the
    /// second one returns an error, and a newer snapshot can be followed.
    ///
    /// A subscriber that is too far behind [misses commits](Subscription#gaps) as any other, unless
    /// it is [`lossless`](Subscription::lossless).
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
    /// let events = store.follow_from(1)?;
    /// manager.execute(create(text_node("paragraph", "four")))?;
    /// let versions: Vec<u64> = events.try_iter().map(|event| event.commit.version).collect();
    /// assert_eq!(versions, [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn follow_from(&self, version: u64) -> Result<Subscription, MissingCommits> {
        let parts = self.subscribe_after(version, Location::caller())?;
        Ok(Subscription::new(parts))
    }

    /// Subscribes to all future commits, and misses none: short for
    /// `subscribe().lossless(limit)`.
    ///
    /// See [`Subscription::lossless`]: requests for the lock wait while more than `limit` bytes are
    /// unread.
    #[track_caller]
    pub fn subscribe_lossless(&self, limit: usize) -> Subscription {
        self.subscribe().lossless(limit)
    }

    /// Returns the commits after a version, in order, up to the latest. They need not be durable:
    /// for data that leaves the process, [`follow_from`](Self::follow_from) the version with
    /// [`durable`](Subscription::durable).
    ///
    /// The store [keeps](crate::StoreOptions::kept_commits) as many commits for this as it is told
    /// to, which is none by default. Never blocks. Takes time in proportion to the number of
    /// commits.
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
    /// let versions: Vec<u64> = store.commits_since(1)?.iter().map(|commit| commit.version).collect();
    /// assert_eq!(versions, [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commits_since(
        &self,
        version: u64,
    ) -> Result<Vec<Arc<TransactionResult>>, MissingCommits> {
        self.recorded_since(version)
    }
}
