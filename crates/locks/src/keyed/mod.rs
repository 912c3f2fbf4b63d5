//! A queue for each key: tasks of one key run one at a time in FIFO order, tasks of different keys
//! run side by side.
//!
//! **Use it** to serialize work for each user, file or session: [`KeyedLock`]. **Do not use it**
//! for transactions on one store: the store already runs them in one order.
//!
//! ```
//! use doclock_locks::keyed::KeyedLock;
//!
//! let files: KeyedLock<String, &str> = KeyedLock::new();
//! let result = files.execute_exclusive("notes.md", || "saved")?;
//! assert_eq!(result, "saved");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod execution;
mod inspection;
mod request;
mod shard;
mod shards;

use std::borrow::Borrow;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use execution::{Execution, ExecutionError, TaskPanic};
pub use inspection::{HeldKey, KeyedStats};
pub use request::{DrainRequest, KeyRequest, Reservation};

use super::options::PLAIN;
use crate::caught::catch;
use crate::id::{LockId, OwnerId};
use crate::keeper::KeeperSlot;
use crate::key_table::KeyId;
use crate::queue::Priority;
use crate::request::{QueuedWork, Request, RequestOutcome, Requester, Waiter, Waiting};
use crate::sampling::Sampling;
use crate::sync::{Mutex, assert_unlocked};
use crate::time::Clock;
use crate::wait::{Reason, WaiterKind};
use crate::{AcquireOptions, RequestContext};
use crate::{Grant, LockCounters, LockError, LockInfo, LockRequest, PendingRequest, QueueEntry};
use execution::Joiner;
use request::{Hold, KeyedPosition, KeyedRequest};
use shard::{Active, Shard};
use shards::KeyedShards;

/// Executes tasks by key: tasks of one key one at a time in FIFO order, tasks of different keys at
/// the same time.
///
/// The calling thread executes its task once the key is granted. So the task may borrow local data,
/// and its result (a `V`) or panic belongs to the caller. A key (a `K`) needs no registration: it
/// exists only while a task of it is executed, waits or has reserved a turn. Clones are handles of
/// the same lock. A waiting thread keeps it alive, so dropping the other handles never strands it.
///
/// # Fairness
///
/// Each key is strictly first in, first out; there is no order between keys. The end of a task
/// grants the key to the next request in the same step. A request that times out or is cancelled
/// leaves the queue from any position. [`priority`](crate::AcquireOptions::priority),
/// [`without_combining`](crate::AcquireOptions::without_combining),
/// [`unbound`](crate::AcquireOptions::unbound) and
/// [`hold_limit`](crate::AcquireOptions::hold_limit) have no effect: one thread executes a task,
/// cannot wait for itself, and is not revoked.
///
/// # Waiting
///
/// Waits have no timeout by default; [`KeyedOptions`] and a [request](Self::request) set one. A
/// thread that requests the key of the task that it executes fails at once. Two threads that each
/// execute a task for one key and request the other's key wait for each other. To hold several keys
/// at once, request them in one order, or with a timeout.
///
/// # Panics
///
/// A task that panics releases its key like any other. The panic resumes in its caller, and the
/// requests that joined it get an error. If `Hash`, `Eq` or `ToOwned` of a key panics, the panic
/// resumes in the call that made the request, which has no effect; if `Drop` of an idle key panics,
/// in the call that ended the last task. As everywhere, a second panic during unwinding aborts the
/// program.
///
/// # Keys
///
/// It is a logic error for `Eq`, `Borrow` or `Clone` of a key to use a keyed lock or a limiter,
/// also by the drop of a [`Reservation`] or the cancellation of a request: keys are compared while
/// a part of the table is locked, and [`active_keys`](Self::active_keys) and diagnostics clone them
/// there. The behavior is not specified, but not undefined. It may include panics and deadlocks.
/// All other code may use the lock: hashing and dropping keys, tasks, cloning and dropping results.
pub struct KeyedLock<K, V = ()>(Arc<KeyedShards<K, V>>);

impl<K, V> KeyedLock<K, V> {
    /// Creates a lock without keys, with the system clock, no timeout and unbounded queues.
    pub fn new() -> Self {
        Self::with_options(KeyedOptions::new())
    }

    /// Creates a lock without keys, with options.
    pub fn with_options(options: KeyedOptions) -> Self {
        Self(Arc::new(KeyedShards::new(options)))
    }
}

impl<K: Eq + Hash + Send + 'static, V: 'static> KeyedLock<K, V> {
    /// Executes a task after all earlier requests for the same key, and returns its result.
    ///
    /// Blocks while earlier requests for the key are waiting or running, without limit unless the
    /// lock has a [timeout](KeyedOptions::timeout). A panic of the task resumes here after the
    /// hand-off of the key.
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed: the calling thread already executes a task for
    /// this key; the wait timed out; the queue was full.
    ///
    /// ```
    /// use doclock_locks::{LockError, keyed::KeyedLock};
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<String, u64> = KeyedLock::new();
    /// thread::scope(|threads| {
    ///     threads.spawn(|| accounts.execute_exclusive("ann", || 100));
    ///     threads.spawn(|| accounts.execute_exclusive("bob", || 200));
    /// });
    /// assert_eq!(accounts.execute_exclusive("ann", || 300)?, 300);
    /// assert_eq!(accounts.active_keys_count(), 0);
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn execute_exclusive<Q: Eq + Hash + ToOwned<Owned = K> + ?Sized>(
        &self,
        key: &Q,
        task: impl FnOnce() -> V,
    ) -> Result<V, LockError>
    where
        K: Borrow<Q>,
    {
        let owner = OwnerId::default();
        let requester = PLAIN.requester(&owner, Location::caller(), false);
        let turn = self.0.ask(key, &requester, &PLAIN, true)?;
        turn.expect("it waits").execute(task)
    }

    /// Requests a key, to be ended with [`wait`](PendingRequest::wait) or `.await`. Both return the
    /// turn that has the key, and [`Reservation::execute`] or [`Reservation::execute_async`] runs a
    /// task with it. The owner is for errors and listings. A cancel token cancels the wait, but no
    /// task that has begun. A task that requests a key that it holds waits until its timeout.
    ///
    /// ```
    /// use doclock_locks::{LockError, keyed::KeyedLock};
    ///
    /// let caches: KeyedLock<String, u32> = KeyedLock::new();
    /// let turn = caches.request("prices", "ann").label("refresh").wait()?;
    /// // Another thread already refreshes the cache.
    /// let refused = std::thread::scope(|threads| {
    ///     let other = || caches.request("prices", "bob").no_wait().wait().map(drop);
    ///     threads.spawn(other).join().unwrap()
    /// });
    /// assert!(matches!(refused, Err(LockError::WouldBlock { .. })));
    /// assert_eq!(turn.execute(|| 42)?, 42);
    ///
    /// # pollster::block_on(async {
    /// let turn = caches.request("prices", "bob").await?;
    /// assert_eq!(turn.execute_async(async { 43 }).await?, 43);
    /// # Ok::<(), LockError>(())
    /// # })?;
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn request<'a, Q: Eq + Hash + ToOwned<Owned = K> + ?Sized>(
        &'a self,
        key: &'a Q,
        owner: impl Into<OwnerId>,
    ) -> PendingRequest<'a, KeyRequest<'a, K, V, Q>>
    where
        K: Borrow<Q>,
    {
        let owner = owner.into();
        let lock = self;
        PendingRequest::new(KeyRequest { lock, key, owner })
    }

    /// Reserves a queue position for a task that is executed later, perhaps by another thread.
    /// Never blocks. The key is active until the task has ended or the [`Reservation`] is dropped.
    ///
    /// This keeps the order in front of a thread pool. The thread that receives the messages
    /// reserves their turns in the order of arrival, and the pool executes them in any order. If
    /// the turns reach the pool in the order of their reservation (by a channel), the pool cannot
    /// run out of threads: each waiting turn waits for an earlier one.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the queue is full.
    ///
    /// ```
    /// use doclock_locks::{LockError, keyed::KeyedLock};
    /// use std::sync::mpsc;
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<&str, u32> = KeyedLock::new();
    /// let (to_pool, turns) = mpsc::channel();
    /// for message in 0..100 {
    ///     to_pool.send((accounts.reserve(&"ann")?, message)).unwrap();
    /// }
    /// drop(to_pool);
    /// let executed = move || turns.iter().map(|(turn, message)| turn.execute(|| message)).sum();
    /// let sum: Result<u32, LockError> = thread::spawn(executed).join().unwrap();
    /// assert_eq!(sum, Ok(4950));
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn reserve<Q: Eq + Hash + ToOwned<Owned = K> + ?Sized>(
        &self,
        key: &Q,
    ) -> Result<Reservation<K, V>, LockError>
    where
        K: Borrow<Q>,
    {
        self.request(key, OwnerId::default()).reserve()
    }

    /// Returns the task that holds a key now, so that a caller can share its result, even if the
    /// task ends meanwhile: see [`Execution::join`]. `None` when the key is idle. A reserved turn
    /// that was granted counts as a task.
    #[track_caller]
    pub fn current_execution<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Execution<K, V>>
    where
        K: Borrow<Q>,
        V: Clone + Send,
    {
        let caller = Location::caller();
        self.0.read(key, |mut active| {
            let own = OwnerId::default();
            let requester = PLAIN.requester(&own, caller, false);
            let request = Arc::new(Request::new(&requester, None, None));
            let now = self.0.clock.now();
            let waiter: Waiter<dyn Joiner<V>> = active.waiter(request.clone(), now);
            active.state.joins += 1;
            let (key, holder) = (active.entry.id, &mut active.entry.state);
            let ticket = holder.queues().joins.join(Priority::Normal, waiter);
            let waiting_at = KeyedPosition::Join(key, ticket);
            let spins = active.state.pace.spins(None);
            Execution {
                owner: holder.source.owner.clone(),
                id: active.state.grant(holder.grant).id(),
                queued: KeyedRequest::new(&self.0, waiting_at, request, spins),
            }
        })
    }

    /// Waits for all tasks of all keys that are executed or wait when this is called, without limit
    /// unless the lock has a [timeout](KeyedOptions::timeout).
    ///
    /// Reserved turns count as tasks. The call neither waits for later requests nor blocks them;
    /// requests at the very moment of the call may count. For a shutdown, stop the source of tasks
    /// first, then call this.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the calling thread executes a task itself; the wait timed out.
    ///
    /// ```
    /// use doclock_locks::{LockError, keyed::KeyedLock};
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<u32> = KeyedLock::new();
    /// let turn = accounts.reserve(&4711)?;
    /// let worker = thread::spawn(move || turn.execute(|| ()));
    /// accounts.wait_for_all_existing_tasks()?;
    /// assert_eq!(accounts.stats().total_releases, 1);
    /// worker.join().unwrap()?;
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn wait_for_all_existing_tasks(&self) -> Result<(), LockError> {
        self.request_drain(OwnerId::default()).wait()
    }

    /// Requests what [`wait_for_all_existing_tasks`](Self::wait_for_all_existing_tasks) waits for,
    /// with an owner for errors, and a timeout or a cancel token. End it with
    /// [`wait`](PendingRequest::wait) or `.await`. Queue bounds have no effect.
    ///
    /// A timeout names the holder of the key whose task came first among the remaining tasks. Its
    /// queue position is the number of remaining tasks in the same part of the table. A task of an
    /// executor that is one of the tasks itself waits until its timeout.
    ///
    /// ```
    /// use doclock_locks::{LockError, keyed::KeyedLock};
    /// use std::time::Duration;
    ///
    /// let accounts: KeyedLock<u32> = KeyedLock::new();
    /// let running = accounts.reserve(&4711)?;
    /// let soon = Duration::from_millis(1);
    /// let late = accounts.request_drain("shutdown").timeout(soon).wait();
    /// assert!(matches!(late, Err(LockError::Timeout(_))));
    /// drop(running);
    /// accounts.request_drain("shutdown").timeout(soon).wait()?;
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn request_drain(
        &self,
        owner: impl Into<OwnerId>,
    ) -> PendingRequest<'_, DrainRequest<'_, K, V>> {
        let owner = owner.into();
        PendingRequest::new(DrainRequest { lock: self, owner })
    }
}

/// Options of a new [`KeyedLock`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct KeyedOptions {
    clock: Clock,
    timeout: Option<Duration>,
    queue_bound: Option<usize>,
}

impl KeyedOptions {
    /// Returns the options of [`KeyedLock::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the timeout of all waits on this lock that set none. Zero: they do not wait. `None`,
    /// the default: they wait without limit, however many are ahead.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Bounds how many requests wait for one key: the next one is rejected at once. There is no
    /// bound by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Sets the clock that the lock reads. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl<K, V> Clone for KeyedLock<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> Default for KeyedLock<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for KeyedLock<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLock")
            .field("active_keys", &self.active_keys_count())
            .finish_non_exhaustive()
    }
}
