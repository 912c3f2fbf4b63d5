//! Commits as data, and three ways to observe them.
//!
//! **Use it** to keep something up to date with the document: a view, an index or a copy. A
//! [`Subscription`] is a bounded channel of [`CommitEvent`]s, which a [`Filter`] limits to some
//! nodes. It never delays a commit: a subscriber that falls behind misses commits, which
//! [are counted](Subscription#gaps). **Do not use it** to refuse a commit: a before-hook
//! ([`Hooks`](crate::transaction::Hooks)) does that.
//!
//! ```
//! use doclock::dsl::*;
//! use doclock::{DataStore, TransactionManager};
//!
//! let store = DataStore::new();
//! let events = store.subscribe(16);
//! TransactionManager::new(store.clone()).execute([create(text_node("paragraph", "Hello"))])?;
//!
//! let event = events.recv()?;
//! assert_eq!((event.commit.version, event.missed), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filter;

use std::cell::LazyCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Iter, Sender, TrySendError};
pub use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use serde::Serialize;

pub use filter::Filter;

use super::TransactionResult;
pub use super::commit::ExecutedOperation;
use crate::document::Snapshot;
use crate::sync::{Mutex, rank};
use filter::Reach;

/// A commit, as one subscriber receives it.
///
/// Serializes as `{"missed": 0, "commit": {"version": 1, …}}`. The page
/// [hooks](crate::guide::hooks#the-json-of-a-change) has the JSON of the changes.
///
/// ```
/// use doclock::{DataStore, document::NodeSpec};
///
/// let store = DataStore::new();
/// let events = store.subscribe(64);
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// transaction.commit()?;
///
/// let event = serde_json::to_value(events.receiver().recv()?)?;
/// assert_eq!((&event["missed"], &event["commit"]["version"]), (&0.into(), &1.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommitEvent {
    /// The number of commits that this subscriber missed right before this one, because its channel
    /// was full. Commits that it missed after this one are in [`Subscription::missed`] until the
    /// next event.
    pub missed: u64,
    /// The commit: what the committing call returns. All subscribers share it.
    pub commit: Arc<TransactionResult>,
}

/// Receives the commits of a store, in order, until it is dropped.
///
/// With a [`Filter`] it receives only the commits that pass the filter.
///
/// An event enters the channel after its version is published, in the order of the versions. A
/// subscriber may begin its own transactions.
///
/// # Gaps
///
/// While the channel is full, new commits are dropped for this subscriber. The next event carries
/// their number. A gap at the end has no event: until another commit follows, [`recv`](Self::recv)
/// and [`iter`](Self::iter) keep waiting. A subscriber that must not stay outdated waits with
/// [`recv_timeout`](Self::recv_timeout), and takes a snapshot if [`missed`](Self::missed) is not
/// zero after a timeout. The page [hooks](crate::guide::hooks#following-all-commits) has the loop.
///
/// ```
/// use doclock::{DataStore, document::NodeSpec};
///
/// let store = DataStore::new();
/// let events = store.subscribe(64);
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// transaction.commit()?;
///
/// let event = events.recv()?;
/// assert_eq!((event.commit.version, event.missed), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<CommitEvent>,
    unreported: Arc<AtomicU64>,
    subscribers: Weak<Subscribers>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(subscribers) = self.subscribers.upgrade() {
            // Dropped after the mutex is released: the channel may hold a million events.
            let _subscriber = subscribers.remove(&self.unreported);
        }
    }
}

impl Subscription {
    /// Returns the channel, to receive from it or to `select!` on it.
    ///
    /// The channel disconnects when the store is dropped. A clone of the receiver disconnects when
    /// this subscription is dropped, after the remaining events.
    pub fn receiver(&self) -> &Receiver<CommitEvent> {
        &self.receiver
    }

    /// Waits for the next event and returns it.
    ///
    /// Blocks without a limit, also while commits at the end [were missed](Subscription#gaps).
    ///
    /// # Errors
    ///
    /// [`RecvError`]: the store was dropped, and no event is left.
    pub fn recv(&self) -> Result<CommitEvent, RecvError> {
        self.receiver.recv()
    }

    /// Waits for the next event for at most `timeout` and returns it.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError`]: there was no event within the timeout, or the store was dropped and no
    /// event is left.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<CommitEvent, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout)
    }

    /// Returns the next event if there is one. Never blocks.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`]: there is no event at the moment, or the store was dropped and no event is
    /// left.
    pub fn try_recv(&self) -> Result<CommitEvent, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Iterates over the events.
    ///
    /// The iterator blocks until the next event, also while commits at the end
    /// [were missed](Subscription#gaps). It ends when the store is dropped and no event is left.
    pub fn iter(&self) -> EventIter<'_> {
        EventIter(self.receiver.iter())
    }

    /// Returns the number of commits missed since the last event in the channel.
    ///
    /// The next event carries this number, which is zero from then on. A snapshot does not reset
    /// it: compare [`Snapshot::version`] with [`DataStore::version`](crate::DataStore::version).
    /// Never blocks.
    pub fn missed(&self) -> u64 {
        self.unreported.load(Ordering::Acquire)
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
pub struct EventIter<'s>(Iter<'s, CommitEvent>);

impl Iterator for EventIter<'_> {
    type Item = CommitEvent;

    fn next(&mut self) -> Option<CommitEvent> {
        self.0.next()
    }
}

#[derive(Debug)]
struct Subscriber {
    filter: Filter,
    sender: Sender<CommitEvent>,
    /// Missed and not yet reported with an event.
    unreported: Arc<AtomicU64>,
}

impl Subscriber {
    /// Sends the commit, or counts it as missed.
    fn tell(&self, commit: &Arc<TransactionResult>) {
        // The channel has one sender, so free room stays until the event is in.
        if self.sender.is_full() {
            self.unreported.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let event = CommitEvent {
            // Taken before the event can be received, so a missed commit is reported here or there,
            // never twice.
            missed: self.unreported.swap(0, Ordering::AcqRel),
            commit: Arc::clone(commit),
        };
        if let Err(TrySendError::Full(event)) = self.sender.try_send(event) {
            debug_assert!(false, "the channel had room, and has one sender");
            let missed = event.missed + 1;
            self.unreported.fetch_add(missed, Ordering::AcqRel);
        }
    }
}

/// The channel allocates its full capacity at once; a larger request is a mistake.
const LARGEST: usize = 1 << 20;

#[derive(Debug, Default)]
struct Subscribers {
    all: Mutex<{ rank::SUBSCRIBERS }, Vec<Subscriber>>,
    /// The number of subscribers, so that a commit without any does not lock the mutex.
    count: AtomicUsize,
}

impl Subscribers {
    fn add(&self, subscriber: Subscriber) {
        let mut all = self.all.lock();
        all.push(subscriber);
        self.count.store(all.len(), Ordering::Release);
    }

    /// Removes the subscriber that has this count.
    #[must_use = "dropped under the mutex, it would hold up commits"]
    fn remove(&self, unreported: &Arc<AtomicU64>) -> Option<Subscriber> {
        let mut all = self.all.lock();
        let is_it = |subscriber: &Subscriber| Arc::ptr_eq(&subscriber.unreported, unreported);
        let removed = all.iter().position(is_it).map(|at| all.remove(at));
        let kept = 2 * all.len();
        all.shrink_to(kept);
        self.count.store(all.len(), Ordering::Release);
        removed
    }
}

#[derive(Default)]
pub(super) struct Events {
    subscribers: Arc<Subscribers>,
}

impl Events {
    pub(super) fn subscribe(&self, capacity: usize, filter: Filter) -> Subscription {
        let (sender, receiver) = crossbeam_channel::bounded(capacity.clamp(1, LARGEST));
        let unreported = Arc::new(AtomicU64::new(0));
        self.subscribers.add(Subscriber {
            filter,
            sender,
            unreported: Arc::clone(&unreported),
        });
        Subscription {
            receiver,
            unreported,
            subscribers: Arc::downgrade(&self.subscribers),
        }
    }

    /// Sends the commit to every subscriber whose filter it passes. The caller holds the store's
    /// lock, hence the order of the versions.
    ///
    /// The commit, the document after it and the touched nodes are computed only for the first
    /// subscriber that needs them. The document is dropped before this returns: otherwise the next
    /// commit would have to copy what it changes. The held lock keeps that commit from coming in
    /// between.
    pub(super) fn announce(&self, commit: &TransactionResult, after: impl FnOnce() -> Snapshot) {
        // A concurrent subscription may miss this commit, as if it came right after it. A
        // subscription from before the lock was acquired is seen, because the lock's mutex lies in
        // between.
        if self.subscribers.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let subscribers = self.subscribers.all.lock();
        let shared = LazyCell::new(|| Arc::new(commit.clone()));
        let after = LazyCell::new(after);
        let reach = LazyCell::new(|| Reach::new(&commit.changes, &after));
        subscribers
            .iter()
            .filter(|subscriber| subscriber.filter.lets_in(|| &reach))
            .for_each(|subscriber| subscriber.tell(&shared));
    }
}
