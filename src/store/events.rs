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
mod pending;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
pub use futures_core::Stream;
use serde::Serialize;

pub use filter::Filter;
pub use pending::PendingSubscription;
pub(super) use pending::SubscriptionOptions;

use super::log::{CommitLog, EventWait, SubscriberId};
pub use super::result::ExecutedOperation;
use super::{DataStore, TransactionResult};
use crate::codes::codes;
use crate::document::{KeptCommits, TrackedPosition};

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
/// # End
///
/// It ends when the store is closed or dropped, or its [journal](crate::durable) fails: then no
/// further commit comes. The events that are left are received first. A store in memory cannot be
/// closed, so a subscription to it ends with its last handle.
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

    /// Returns a channel that has a message while there may be an event to receive, for `select!`.
    ///
    /// The message says nothing about the event, and there may be none: after the message, receive
    /// events with [`try_recv`](Self::try_recv) or [`try_iter`](Self::try_iter). If events are left
    /// then, the channel has a message again.
    ///
    /// The channel disconnects when the subscription [ends](Self#end). There may be events left
    /// then, which `try_recv` returns before it returns [`TryRecvError::Disconnected`]. A clone of
    /// the channel also disconnects when this subscription is dropped.
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
    /// [`RecvError`]: the subscription [has ended](Self#end), and no event is left.
    pub fn recv(&self) -> Result<CommitEvent, RecvError> {
        loop {
            match self.try_recv() {
                Ok(event) => return Ok(event),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                // Also returns at the end, when there may be events left.
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
    /// [`RecvError`]: the subscription [has ended](Self#end), and no event is left.
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
    /// [`RecvTimeoutError`]: there was no event within the timeout, or the subscription
    /// [has ended](Self#end) and no event is left.
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
    /// [`TryRecvError`]: there is no event at the moment, or the subscription [has ended](Self#end)
    /// and no event is left.
    pub fn try_recv(&self) -> Result<CommitEvent, TryRecvError> {
        self.log.next(self.id)
    }

    /// Iterates over the events.
    ///
    /// The iterator blocks until the next event. It ends when the subscription
    /// [has ended](Self#end) and no event is left.
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

/// The events, for tasks. It ends when the subscription [has ended](Subscription#end) and no event
/// is left.
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
/// [`after`](PendingSubscription::after) and [`commits_since`](DataStore::commits_since).
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
    /// Subscribes to all future commits: short for `subscription().all()`.
    ///
    /// A subscriber never delays a commit. If it is too far behind, it misses the oldest commits,
    /// and its next event [carries their number](Subscription#gaps). A
    /// [`subscription`](Self::subscription) has options, and can begin
    /// [after a version](PendingSubscription::after).
    #[track_caller]
    pub fn subscribe(&self) -> Subscription {
        self.subscription().all()
    }

    /// Returns a subscription that has not begun, to set its options and to select its commits.
    ///
    /// Its endings are [`all`](PendingSubscription::all),
    /// [`matching`](PendingSubscription::matching) and [`after`](PendingSubscription::after).
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, events::Filter};
    ///
    /// let store = DataStore::new();
    /// let journal = store.subscription().lossless(1 << 20).all();
    /// let chapter = store.subscription().matching(Filter::Subtree("chapter".into()));
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph"))?;
    /// transaction.commit()?;
    /// assert_eq!((journal.try_iter().count(), chapter.try_iter().count()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn subscription(&self) -> PendingSubscription {
        PendingSubscription::new(self.clone())
    }

    /// Returns the commits after a version, in order, up to the latest. They need not be durable:
    /// data that leaves the process comes from a [durable](PendingSubscription::durable)
    /// subscription [after](PendingSubscription::after) the version.
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

impl KeptCommits for DataStore {
    type Error = MissingCommits;

    fn lead(
        &self,
        position: &mut TrackedPosition,
        version: u64,
        latest: u64,
    ) -> Result<(), MissingCommits> {
        if version > latest {
            return Err(MissingCommits::NotReached { version, latest });
        }
        for (commit, undone, is_redo) in self.undoing_since(version, latest)? {
            position.follow(commit.version, &commit.changes, &undone, is_redo);
        }
        Ok(())
    }
}
