//! How a store starts out.

use std::sync::Arc;
use std::time::Duration;

use crate::document::schema::Schema;
use crate::lock::{BatchLimit, LockOptions};
use crate::time::Clock;

/// Settings of a new store.
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
    pub(super) session: Option<u32>,
    pub(super) schema: Option<Arc<Schema>>,
    pub(super) lock: LockOptions,
    pub(super) remembered_keys: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            session: None,
            schema: None,
            lock: LockOptions::default(),
            remembered_keys: 10_000,
        }
    }
}

impl StoreOptions {
    /// The settings of [`DataStore::new`](super::DataStore::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// The first part of the ids that the store generates. Random unless set, so that nodes of two
    /// stores can meet in one document.
    pub fn session(mut self, session: u32) -> Self {
        self.session = Some(session);
        self
    }

    /// What the document may look like, in every version of it. Anything unless set.
    ///
    /// Several stores can share a schema: give each a clone of one `Arc`.
    pub fn schema(mut self, schema: impl Into<Arc<Schema>>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// How long a request for the lock waits unless it says otherwise; zero not at all, `None`
    /// without limit. Five seconds unless set.
    pub fn lock_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.lock.timeout = limit.into();
        self
    }

    /// How many requests may wait for the lock; the next is rejected at once. Any number unless
    /// set.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.lock.queue_bound = Some(bound);
        self
    }

    /// By how many later requests one that waits can be overtaken, for each step that their
    /// [priority](crate::lock::AcquireOptions::priority) is above its own: with 64, the default,
    /// one of low priority by at most 128 in all, of which at most 64 are of normal priority. Zero
    /// makes priorities ineffective.
    pub fn overtaking_bound(mut self, requests: u32) -> Self {
        self.lock.overtaking = requests;
        self
    }

    /// How long the lock may be held while others wait; no limit unless set.
    ///
    /// Past it the next in line is granted, and the holder's grant is revoked: what its transaction
    /// did is dropped, its commit fails with [`CommitError::Revoked`](crate::CommitError::Revoked),
    /// its release with [`ReleaseError::Revoked`](crate::lock::ReleaseError::Revoked). A commit
    /// that has begun to publish is let finish, and so is an undo or a redo. Nobody is interrupted,
    /// and where nobody waits nothing happens: it is those who wait that look at the clock.
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.lock.hold_limit = Some(limit);
        self
    }

    /// How much a thread that executes a list of operations does for others, when it is done with
    /// its own and before it returns: so many lists of those that wait, and no further one after so
    /// much time. The next in line then goes on. Zero of either means that it does nothing for
    /// others. 256 lists and half a millisecond unless set.
    ///
    /// Submitters that sleep are woken when that is over: at the latest after half a millisecond
    /// and the list that is carried out then, and before a list that runs code or has more than 512
    /// operations. Those that are still awake hear of their results at once. Having woken somebody,
    /// the thread yields its processor once.
    ///
    /// A single request opts out with
    /// [`AcquireOptions::without_combining`](crate::lock::AcquireOptions::without_combining).
    pub fn batch_limit(mut self, lists: usize, time: Duration) -> Self {
        self.lock.batch = BatchLimit { count: lists, time };
        self
    }

    /// Where the store takes its time from. The system's clock unless set.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.lock.clock = clock;
        self
    }

    /// How many idempotency keys the store remembers, each with the result that it keeps for
    /// repetitions; zero for none. 10,000 unless set.
    ///
    /// That many transactions with keys of their own can be committed between a transaction and its
    /// repetition. The oldest is forgotten first, and a transaction that comes again after that is
    /// carried out again.
    pub fn remembered_keys(mut self, keys: usize) -> Self {
        self.remembered_keys = keys;
        self
    }
}
