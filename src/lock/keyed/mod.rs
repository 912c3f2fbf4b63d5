//! A queue for each key: tasks of one key run one at a time in FIFO order, tasks of different keys
//! run side by side.
//!
//! **Use it** to serialize work for each user, file or session: [`KeyedLock`]. **Do not use it**
//! where the work is a transaction on one store: those are in one order already.
//!
//! ```
//! use doclock::lock::keyed::KeyedLock;
//!
//! let files: KeyedLock<String, &str> = KeyedLock::new();
//! let result = files.execute_exclusive("notes.md", || "saved")?;
//! assert_eq!(result, "saved");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
mod entry;
mod execution;
mod generations;
mod leaving;
mod looking;
mod options;
mod shard;
mod shared;
mod stats;
mod turn;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;

pub use execution::{Execution, ExecutionError, TaskPanic};
pub use options::KeyedOptions;
pub use stats::KeyedStats;
pub use turn::Turn;

use super::request::{Asker, Request};
use super::{AcquireOptions, LockError};
use crate::id::OwnerId;
use crate::sync::thread_number;
use shared::{Shared, Standing};

/// Executes tasks that have a key: those of one key one at a time, in the order in which they were
/// asked for; those of different keys at the same time.
///
/// The task is executed by the thread that asks, when it is its turn. So it may borrow what it
/// likes, its result or its panic is the caller's, and a key is there only while somebody executes,
/// waits or has reserved a turn for it: nothing is to be registered or removed. `K` is what names a
/// line, `V` what the tasks return.
///
/// ```
/// use doclock::lock::{LockError, keyed::KeyedLock};
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
///
/// # Fairness
///
/// Per key, strictly first in, first out: the end of a task names the next in the same step, and
/// nobody comes in between. A request that gives up or is cancelled leaves the line from wherever
/// it stands. [Priorities](AcquireOptions::priority) have no effect here, nor has
/// [`without_combining`](AcquireOptions::without_combining), and
/// [`unbound`](AcquireOptions::unbound) neither: a task is executed by one thread, which cannot
/// wait for itself. Between keys there is no order.
///
/// # Waiting
///
/// Nobody waits for longer than asked, but unless asked (by [`KeyedOptions`] or [`AcquireOptions`])
/// there is no limit. A thread that asks for the key of the task that it executes is refused at
/// once. Two threads that each execute a task for one key and ask for the other's wait for each
/// other: with several keys at once, ask for them in one order, or with a limit.
///
/// # Panics
///
/// A task that panics hands its key on like any other; the panic goes on in its caller, and those
/// who joined it are told. A key whose `Hash`, `Eq` or `ToOwned` panics has that go on in the call
/// that asked, of which nothing is left. One that panics in `Drop` when it is idle again has that
/// go on in the call that ended the last task.
///
/// # Keys
///
/// Keys are compared while a part of the table is locked, and so are they copied by
/// [`active_keys`](Self::active_keys). So `Eq` and `Borrow` of a key must not use a keyed lock or a
/// limiter, and neither must `Clone`; a use panics. They must not wait for a thread that uses one
/// either. A [`Turn`] or an [`Execution`] that is dropped there is given up when the comparison is
/// over, and a [`CancelToken`](super::CancelToken) that is cancelled there takes effect then.
///
/// All other code may use the lock: hashing and dropping keys, tasks, cloning and dropping results.
/// If a key panics in `Drop` while the thread unwinds already, that panic ends there; so does the
/// second one of several results.
///
/// Clones are handles of the same lock. A thread that waits keeps the lock alive, so dropping the
/// other handles never strands it.
pub struct KeyedLock<K, V = ()>(Arc<Shared<K, V>>);

impl<K, V> KeyedLock<K, V> {
    /// A lock with no keys that waits on the system's clock, for as long as it takes, in lines of
    /// any length.
    pub fn new() -> Self {
        Self::with_options(KeyedOptions::new())
    }

    /// A lock with no keys.
    pub fn with_options(options: KeyedOptions) -> Self {
        let shared = Shared::new(options);
        // Models have their threads at two shards, unless they are about how these come to be.
        #[cfg(loom)]
        shared.spread_now();
        Self(Arc::new(shared))
    }

    /// One whose keys lie in one shard still.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn gathered() -> Self {
        Self(Arc::new(Shared::new(KeyedOptions::new())))
    }

    /// Makes the other shards: the very code that runs when threads meet too often.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn spread(&self) {
        self.0.spread_now();
    }
}

impl<K: Eq + Hash + Send + 'static, V: 'static> KeyedLock<K, V> {
    /// Executes a task when all that asked earlier for the same key are done, and returns what it
    /// returns.
    ///
    /// Blocks while others are before it: for as long as that takes, unless the lock has a
    /// [timeout](KeyedOptions::timeout).
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed: the calling thread executes a task for this key
    /// already; the lock's limit passed; its line was full.
    ///
    /// # Panics
    ///
    /// If the task panics, that goes on here when the key has been handed on.
    ///
    /// ```
    /// use doclock::lock::{LockError, keyed::KeyedLock};
    /// use std::collections::HashMap;
    /// use std::sync::Mutex;
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<&str> = KeyedLock::new();
    /// let balances = Mutex::new(HashMap::from([("ann", 0), ("bob", 0)]));
    /// // Reads, thinks about it, and writes: without the lock, deposits would be lost.
    /// let deposit = |account: &'static str| {
    ///     accounts.execute_exclusive(&account, || {
    ///         let balance = balances.lock().unwrap()[account];
    ///         thread::yield_now();
    ///         balances.lock().unwrap().insert(account, balance + 1);
    ///     })
    /// };
    /// thread::scope(|threads| {
    ///     for account in ["ann", "bob", "ann", "ann"] {
    ///         threads.spawn(move || deposit(account));
    ///     }
    /// });
    /// assert_eq!(*balances.lock().unwrap(), HashMap::from([("ann", 3), ("bob", 1)]));
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn execute_exclusive<Q>(&self, key: &Q, task: impl FnOnce() -> V) -> Result<V, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let owner = OwnerId::default();
        let asker = asker(&owner, &PLAIN, Location::caller());
        self.execute(key, &asker, &PLAIN, task)
    }

    /// As [`execute_exclusive`](Self::execute_exclusive), for an owner who is named in errors and
    /// listings, with options of this request: a limit or none, a cancel token, a bound on the
    /// line, a label.
    ///
    /// A cancel token withdraws what waits, and not a task that has begun.
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed. Beside the reasons there: it would have had to
    /// wait and was not to, or was cancelled.
    ///
    /// ```
    /// use doclock::lock::{AcquireOptions, LockError, keyed::KeyedLock};
    ///
    /// let caches: KeyedLock<String> = KeyedLock::new();
    /// caches.execute_exclusive("prices", || {
    ///     // Somebody refreshes the cache already.
    ///     let refused = std::thread::scope(|threads| {
    ///         let other = || caches.execute_exclusive_with("prices", "ann", AcquireOptions::new().no_wait(), || ());
    ///         threads.spawn(other).join().unwrap()
    ///     });
    ///     assert!(matches!(refused, Err(LockError::WouldBlock { .. })));
    /// })?;
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn execute_exclusive_with<Q>(
        &self,
        key: &Q,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
        task: impl FnOnce() -> V,
    ) -> Result<V, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let owner = owner.into();
        let asker = asker(&owner, &options, Location::caller());
        self.execute(key, &asker, &options, task)
    }

    #[inline(always)]
    fn execute<Q>(
        &self,
        key: &Q,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        task: impl FnOnce() -> V,
    ) -> Result<V, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let place = self.0.ask(key, asker, options, false)?;
        if let Some(waits) = place.waits {
            waits.wait(options.cancel.as_ref())?;
        }
        Ok(self.0.execute(place.hold, task))
    }

    /// Takes a place in line now, for a task that is executed later, perhaps by another thread.
    /// Never blocks.
    ///
    /// This is what keeps the order where a pool of threads executes: the thread that takes the
    /// messages in reserves their turns, in their order, and the pool executes them, in whatever
    /// order it comes to them. Where the turns reach the pool in the order in which they were
    /// reserved (by a channel), it cannot run out of threads: of those that wait, each waits for
    /// one that is ahead.
    ///
    /// The key is active until the task is done or the [`Turn`] is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the line is full.
    ///
    /// ```
    /// use doclock::lock::{LockError, keyed::KeyedLock};
    /// use std::sync::{Mutex, mpsc};
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<&str> = KeyedLock::new();
    /// let (to_pool, messages) = mpsc::channel();
    /// let (messages, done) = (Mutex::new(messages), Mutex::new(Vec::new()));
    /// thread::scope(|threads| -> Result<(), LockError> {
    ///     for _ in 0..4 {
    ///         threads.spawn(|| {
    ///             loop {
    ///                 let next = messages.lock().unwrap().recv();
    ///                 let Ok((turn, message)): Result<(doclock::lock::keyed::Turn<_, _>, u32), _> = next else { break };
    ///                 turn.execute(|| done.lock().unwrap().push(message)).unwrap();
    ///             }
    ///         });
    ///     }
    ///     for message in 0..100 {
    ///         to_pool.send((accounts.reserve(&"ann")?, message)).unwrap();
    ///     }
    ///     drop(to_pool);
    ///     Ok(())
    /// })?;
    /// assert!(done.into_inner().unwrap().into_iter().eq(0..100));
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn reserve<Q>(&self, key: &Q) -> Result<Turn<K, V>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.reserve_with(key, OwnerId::default(), AcquireOptions::new())
    }

    /// As [`reserve`](Self::reserve), for an owner who is named in errors and listings, with
    /// options of this request. A limit begins here; it and the cancel token are looked at by
    /// [`Turn::execute`].
    ///
    /// # Errors
    ///
    /// [`LockError`]: the line is full; the key is not free and the request was not to wait; its token was cancelled before.
    #[track_caller]
    pub fn reserve_with<Q>(
        &self,
        key: &Q,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<Turn<K, V>, LockError>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let owner = owner.into();
        let asker = Asker {
            // Whoever will execute it.
            thread: 0,
            ..asker(&owner, &options, Location::caller())
        };
        let place = self.0.ask(key, &asker, &options, true)?;
        Ok(Turn::new(&self.0, place, options.cancel))
    }

    /// The task that is executed for a key, to share its result instead of doing the same again.
    /// `None` when there is none: the key is idle. A turn that is reserved and has come counts as
    /// executed.
    ///
    /// What is joined is the task that holds the key now. That it ends meanwhile does not matter:
    /// the [`Execution`] gets its result. [`Execution::join`] has the example.
    #[track_caller]
    pub fn current_execution<Q>(&self, key: &Q) -> Option<Execution<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
        V: Clone + Send,
    {
        let (hash, mut shard) = self.0.look_up(key);
        let mut active = shard.active_key(hash, key)?;
        let now = self.0.clock.now();
        let (own, caller) = (OwnerId::default(), Location::caller());
        let request = Arc::new(Request::new(&asker(&own, &PLAIN, caller), None));
        let stand = active.join_task(request.clone(), now);
        let looks = active.book.pace.looks(None);
        let owner = active.entry.holder.claim.owner.clone();
        let id = active.book.id(active.entry.holder.number);
        let standing = Standing::new(&self.0, stand, request, looks);
        Some(Execution {
            standing,
            id,
            owner,
        })
    }

    /// Waits until all tasks have ended that are executed or wait for their turn when this is
    /// called, of whatever key.
    ///
    /// Turns that are reserved count as tasks. What comes after does not: neither is it waited for,
    /// nor does it have to wait (of what comes in the very moment of the call, some may be). So for
    /// a shutdown, have no more tasks come, and call this. Blocks for as long as that takes, unless
    /// the lock has a [timeout](KeyedOptions::timeout).
    ///
    /// # Errors
    ///
    /// [`LockError`]: the calling thread executes a task itself; the lock's limit passed.
    ///
    /// ```
    /// use doclock::lock::{LockError, keyed::KeyedLock};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::thread;
    ///
    /// let accounts: KeyedLock<u32, u32> = KeyedLock::new();
    /// let done = AtomicU32::new(0);
    /// thread::scope(|threads| {
    ///     for account in 0..8 {
    ///         let turn = accounts.reserve(&(account % 3))?;
    ///         threads.spawn(|| turn.execute(|| done.fetch_add(1, Ordering::Relaxed)));
    ///     }
    ///     accounts.wait_for_all_existing_tasks()?;
    ///     assert_eq!(done.load(Ordering::Relaxed), 8);
    ///     Ok::<(), LockError>(())
    /// })?;
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn wait_for_all_existing_tasks(&self) -> Result<(), LockError> {
        self.wait_for_all_existing_tasks_with(OwnerId::default(), AcquireOptions::new())
    }

    /// As [`wait_for_all_existing_tasks`](Self::wait_for_all_existing_tasks), for an owner who is
    /// named in errors, with a limit or a cancel token of its own. Whoever waits for all stands in
    /// no line, so bounds do not matter.
    ///
    /// # Errors
    ///
    /// [`LockError`]. Beside the reasons there: it was not to wait, or was cancelled. A timeout
    /// tells who holds the key of the task that came first of those that are left; its place counts
    /// those that are left there and in the same part of the table.
    #[track_caller]
    pub fn wait_for_all_existing_tasks_with(
        &self,
        owner: impl Into<OwnerId>,
        options: AcquireOptions,
    ) -> Result<(), LockError> {
        let owner = owner.into();
        let asker = asker(&owner, &options, Location::caller());
        let deadline = self.0.deadline(&options);
        for standing in self.0.join_drains(&asker)? {
            standing.wait_for_grant(deadline, options.cancel.as_ref())?;
        }
        Ok(())
    }
}

/// The options of those who name none.
static PLAIN: AcquireOptions = AcquireOptions::PLAIN;

/// Whoever asks in this way, for something that the thread itself will do.
#[inline(always)]
fn asker<'a>(
    owner: &'a OwnerId,
    options: &'a AcquireOptions,
    call_site: &'static Location<'static>,
) -> Asker<'a> {
    Asker {
        owner,
        label: options.label.as_ref(),
        call_site,
        thread: thread_number(),
        bound: true,
        transaction: false,
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
