//! The news of commits: bounded channels that never hold up a commit.

use std::cell::LazyCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use super::Commit;
use super::filter::{Filter, Reach};
use crate::document::{Change, Snapshot};
use crate::id::OwnerId;
use crate::sync::Mutex;

/// A commit, as one subscriber gets to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitEvent {
    /// How many commits this subscriber missed right before this one, because it had fallen behind.
    pub missed: u64,
    /// What was committed.
    pub commit: Arc<Commit>,
}

/// Receives the commits of a store, or those that a [`Filter`] lets in, in order, until it is dropped.
///
/// Events are put into the channel after their version was published, in the order of the versions. A subscriber
/// may begin transactions of its own.
///
/// ```
/// use doclock::{DataStore, NodeSpec};
///
/// let store = DataStore::new();
/// let events = store.subscribe(64);
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// transaction.commit()?;
///
/// let event = events.receiver().recv()?;
/// assert_eq!((event.commit.version, event.missed), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<CommitEvent>,
    unreported: Arc<AtomicU64>,
}

impl Subscription {
    /// The channel, to receive from or to `select!` on. It ends when the store does, and a clone of it ends when
    /// this subscription is dropped.
    pub fn receiver(&self) -> &Receiver<CommitEvent> {
        &self.receiver
    }

    /// How many commits were missed since the last event in the channel. The next event will carry the number.
    pub fn missed(&self) -> u64 {
        self.unreported.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Subscriber {
    filter: Filter,
    sender: Sender<CommitEvent>,
    /// Missed and not yet told with an event.
    unreported: Arc<AtomicU64>,
}

impl Subscriber {
    /// Whether somebody can receive what is sent.
    fn is_listening(&self) -> bool {
        // The subscription has the other count. A full channel would not tell that its receiver is gone, nor does
        // one into which the filter lets nothing.
        Arc::strong_count(&self.unreported) > 1
    }

    /// Sends the commit, or counts it as missed. `false` when nobody can receive it any more.
    fn tell(&self, commit: &Arc<Commit>) -> bool {
        // Nobody else sends, so a channel with room keeps it until the event is in.
        if self.sender.is_full() {
            self.unreported.fetch_add(1, Ordering::AcqRel);
            return true;
        }
        let event = CommitEvent {
            // Taken before the event can be received: what is missed is told here or there, never in both places.
            missed: self.unreported.swap(0, Ordering::AcqRel),
            commit: Arc::clone(commit),
        };
        match self.sender.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(event)) => {
                debug_assert!(false, "the channel had room, and nobody else sends");
                let missed = event.missed + 1;
                self.unreported.fetch_add(missed, Ordering::AcqRel);
                true
            }
        }
    }
}

/// The channel takes room for all that it may keep when it is made; more than this is a mistake.
const LARGEST: usize = 1 << 20;

/// Somebody within the crate who has to keep up with the document: told of every commit but their own, right after
/// it was published and before the store's lock is released. Must not wait for that lock.
pub(crate) trait Observer: Send + Sync {
    fn committed(&self, commit: &Witnessed<'_>);
}

/// A commit, as observers see it.
#[derive(Debug)]
pub(crate) struct Witnessed<'a> {
    pub(crate) owner: &'a OwnerId,
    pub(crate) version: u64,
    pub(crate) changes: &'a [Change],
    /// The versions whose commits it undid.
    pub(crate) undone: &'a [u64],
}

/// Which observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObserverId(u64);

#[derive(Default)]
struct Observers {
    known: Vec<(ObserverId, Weak<dyn Observer>)>,
    given: u64,
}

#[derive(Default)]
pub(super) struct Events {
    subscribers: Mutex<Vec<Subscriber>>,
    observers: Mutex<Observers>,
    /// How many subscribers there are, so that a commit does not stop where there is none to tell.
    subscribed: AtomicUsize,
    /// How many observers there are, likewise.
    observing: AtomicUsize,
}

impl Events {
    pub(super) fn subscribe(&self, capacity: usize, filter: Filter) -> Subscription {
        let (sender, receiver) = crossbeam_channel::bounded(capacity.clamp(1, LARGEST));
        let unreported = Arc::new(AtomicU64::new(0));
        let mut subscribers = self.subscribers.lock();
        subscribers.push(Subscriber {
            filter,
            sender,
            unreported: Arc::clone(&unreported),
        });
        self.subscribed.store(subscribers.len(), Ordering::Release);
        drop(subscribers);
        Subscription {
            receiver,
            unreported,
        }
    }

    pub(super) fn register(&self, observer: Weak<dyn Observer>) -> ObserverId {
        let mut observers = self.observers.lock();
        observers.given += 1;
        let id = ObserverId(observers.given);
        observers.known.push((id, observer));
        self.observing
            .store(observers.known.len(), Ordering::Relaxed);
        id
    }

    /// Tells every observer but the one who did it. Called by the holder of the store's lock, hence in the order of the
    /// versions.
    pub(super) fn inform(&self, origin: Option<ObserverId>, commit: &Witnessed<'_>) {
        // Who registers meanwhile may be told of this commit or not, as if they had registered right before or after.
        if self.observing.load(Ordering::Relaxed) <= usize::from(origin.is_some()) {
            return;
        }
        let mut observers = self.observers.lock();
        observers.known.retain(|(id, observer)| {
            if Some(*id) == origin {
                return true;
            }
            let observer = observer.upgrade();
            if let Some(observer) = &observer {
                observer.committed(commit);
            }
            observer.is_some()
        });
        self.observing
            .store(observers.known.len(), Ordering::Relaxed);
    }

    /// Tells every subscriber whose filter lets the changes in. Called by the holder of the store's lock, hence in
    /// the order of the versions.
    ///
    /// The commit is put together, the document after it taken, and what it touches worked out only when the first
    /// subscriber needs it. The document is let go of before this returns: the next commit would have to copy what
    /// it changes if it were still held. None can come in between, because the lock is held.
    pub(super) fn announce(
        &self,
        changes: &[Change],
        commit: impl FnOnce() -> Commit,
        after: impl FnOnce() -> Snapshot,
    ) {
        // Who subscribes meanwhile may be told of this commit or not, as if they had subscribed right before or after. Who
        // had before the lock was acquired is seen, because the lock's mutex lies in between.
        if self.subscribed.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut subscribers = self.subscribers.lock();
        let commit = LazyCell::new(|| Arc::new(commit()));
        let after = LazyCell::new(after);
        let reach = LazyCell::new(|| Reach::new(changes, &after));
        subscribers.retain(|subscriber| {
            let wanted = || subscriber.filter.lets_in(|| &reach);
            subscriber.is_listening() && (!wanted() || subscriber.tell(&commit))
        });
        self.subscribed.store(subscribers.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{FencingToken, TransactionId};

    #[test]
    fn a_subscriber_that_left_while_its_channel_was_full_is_forgotten() {
        let events = Events::default();
        let commit = || Commit {
            version: 1,
            transaction_id: TransactionId {
                session: 1,
                number: 1,
            },
            owner: OwnerId::default(),
            fencing_token: FencingToken(1),
            idempotency_key: None,
            operations: Vec::new(),
            changes: Vec::new(),
        };
        let announce = || events.announce(&[], commit, Snapshot::default);
        let subscription = events.subscribe(1, Filter::All);
        let filtered = events.subscribe(1, Filter::Node("nowhere".into()));
        announce();
        announce();
        assert_eq!((subscription.missed(), filtered.missed()), (1, 0));
        drop((subscription, filtered));
        announce();
        assert!(events.subscribers.lock().is_empty());
    }
}
