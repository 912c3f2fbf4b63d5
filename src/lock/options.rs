//! What a request for a lock may ask beside the lock.

use std::num::NonZeroU64;
use std::panic::Location;
use std::time::Duration;

use smol_str::SmolStr;

use super::CancelToken;
use super::batch::BatchLimit;
use super::request::Asker;
use crate::id::OwnerId;
use crate::queue::Priority;
use crate::sync::thread_number;
use crate::time::Clock;

/// How one request waits: how long, behind how many, until whom.
///
/// ```
/// use doclock::{DataStore, lock::AcquireOptions};
/// use std::time::Duration;
///
/// let store = DataStore::new();
/// let options = AcquireOptions::new()
///     .timeout(Duration::from_millis(200))
///     .queue_bound(16)
///     .label("autosave");
/// let guard = store.lock_with("editor", options)?;
/// # Ok::<(), doclock::lock::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AcquireOptions {
    wait: WaitLimit,
    pub(super) cancel: Option<CancelToken>,
    pub(super) queue_bound: Option<usize>,
    pub(super) label: Option<SmolStr>,
    pub(super) unbound: bool,
    pub(super) without_combining: bool,
    pub(super) any_thread: bool,
    pub(super) priority: Priority,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum WaitLimit {
    /// What the lock is set to when the request is made.
    #[default]
    OfTheLock,
    Of(Option<Duration>),
}

impl WaitLimit {
    /// The limit itself, where the lock is set to this.
    pub(super) fn or(self, of_the_lock: Option<Duration>) -> Option<Duration> {
        match self {
            Self::OfTheLock => of_the_lock,
            Self::Of(limit) => limit,
        }
    }
}

/// A time that is limited or not, in one word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit(Option<NonZeroU64>);

impl Limit {
    /// One of more than five hundred years is none.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        let nanos = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        Self(nanos.and_then(|nanos| NonZeroU64::new(nanos.checked_add(1)?)))
    }

    #[inline(always)]
    pub(super) fn get(self) -> Option<Duration> {
        self.0.map(|nanos| Duration::from_nanos(nanos.get() - 1))
    }
}

/// Settings of a new lock.
///
/// A store configures its lock in the same way, with methods of
/// [`StoreOptions`](crate::StoreOptions).
///
/// ```
/// use std::time::Duration;
///
/// use doclock::lock::{FifoLock, LockError, LockOptions};
///
/// let options = LockOptions::new().timeout(Duration::from_secs(1)).queue_bound(2);
/// let lock = FifoLock::with_options(options);
/// let guard = lock.lock("report")?;
/// assert!(matches!(lock.try_lock("letter"), Err(LockError::Reentrant { .. })));
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct LockOptions {
    pub(crate) clock: Clock,
    pub(crate) timeout: Option<Duration>,
    pub(crate) hold_limit: Option<Duration>,
    pub(crate) queue_bound: Option<usize>,
    pub(crate) overtaking: u32,
    pub(crate) batch: BatchLimit,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            timeout: Some(Self::DEFAULT_TIMEOUT),
            hold_limit: None,
            queue_bound: None,
            overtaking: 64,
            batch: BatchLimit::default(),
        }
    }
}

impl LockOptions {
    pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The settings of [`FifoLock::new`](super::FifoLock::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a request waits that has no timeout of its own. Zero: it does not wait.
    /// `None`: it waits as long as it takes. The default is five seconds.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Bounds the number of requests that wait. The next request is rejected at once. There is no
    /// bound by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Bounds by how many later requests a waiting request can be overtaken, for each step that
    /// their [priority](AcquireOptions::priority) is above its own. The default is 64. Zero makes
    /// priorities ineffective.
    pub fn overtaking_bound(mut self, requests: u32) -> Self {
        self.overtaking = requests;
        self
    }

    /// Limits how long the lock may be held while requests wait. A holder that exceeds the limit is
    /// revoked: the next waiter is granted, and the release fails with
    /// [`ReleaseError::Revoked`](super::ReleaseError::Revoked). There is no limit by default.
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.hold_limit = Some(limit);
        self
    }

    /// Sets the clock that the lock reads. The default is the clock of the system.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl AcquireOptions {
    /// [`AcquireOptions::new`], as a constant.
    pub(super) const PLAIN: Self = Self {
        wait: WaitLimit::OfTheLock,
        cancel: None,
        queue_bound: None,
        label: None,
        unbound: false,
        without_combining: false,
        any_thread: false,
        priority: Priority::Normal,
    };

    /// The lock's own settings, nothing added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives up after this long. Zero means not to wait at all.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.wait = WaitLimit::Of(Some(limit));
        self
    }

    /// Waits for as long as it takes.
    pub fn no_timeout(mut self) -> Self {
        self.wait = WaitLimit::Of(None);
        self
    }

    /// Takes the lock only if nobody holds it or waits for it.
    pub fn no_wait(self) -> Self {
        self.timeout(Duration::ZERO)
    }

    /// Lets `token` withdraw the request while it waits.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Is rejected at once where `bound` requests wait already. The smaller of this bound and the
    /// lock's own counts.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Says what the lock is wanted for, to be read in errors, in the queue's listing and in the
    /// statistics.
    pub fn label(mut self, label: impl Into<SmolStr>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same with a label, if it has none.
    pub(crate) fn or_label(mut self, label: SmolStr) -> Self {
        self.label.get_or_insert(label);
        self
    }

    /// Goes before requests of lower priority that wait, but before each of them only as often as
    /// [`StoreOptions::overtaking_bound`](crate::StoreOptions::overtaking_bound) allows. Requests
    /// of one priority are granted in the order in which they asked, and a holder is never
    /// interrupted.
    ///
    /// ```
    /// use doclock::{DataStore, lock::{AcquireOptions, Priority}};
    ///
    /// let store = DataStore::new();
    /// let keystroke = AcquireOptions::new().priority(Priority::High);
    /// let guard = store.lock_with("ann", keystroke)?;
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Does no work for others. When a list of operations has been executed, the thread that
    /// executed it goes on with those that wait, as many as
    /// [`StoreOptions::batch_limit`](crate::StoreOptions::batch_limit) allows, before it returns;
    /// with this option it wakes the next in line instead. For a thread that must not be kept, as
    /// one that draws.
    ///
    /// Its own list may still be executed by another thread; if it slept meanwhile, it may wake one
    /// other thread before it returns.
    pub fn without_combining(mut self) -> Self {
        self.without_combining = true;
        self
    }

    /// Allows another thread to execute an operation batch that has code, as it does with batches
    /// that are pure data.
    ///
    /// Without this option the operations that are code, and the before-hooks, run in the thread
    /// that submits the batch. With it they may run in any thread that executes batches on the same
    /// store. Then the code must not wait for another thread: that thread could be the one that
    /// runs the code. It must not ask for locks that the other thread may hold either; such a
    /// request fails with [`LockError::Reentrant`](super::LockError::Reentrant).
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, lock::AcquireOptions};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let count = op(|transaction| transaction.create(text_node("entry", "")).map(drop));
    /// manager.execute_with([count], AcquireOptions::new().any_thread())?;
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn any_thread(mut self) -> Self {
        self.any_thread = true;
        self
    }

    pub(crate) fn allows_any_thread(&self) -> bool {
        self.any_thread
    }

    /// The limit on waiting, where the lock's own is this.
    pub(super) fn limit(&self, of_the_lock: Option<Duration>) -> Option<Duration> {
        self.wait.or(of_the_lock)
    }

    pub(crate) fn hands_over(&self) -> bool {
        self.without_combining
    }

    /// Whoever asks in this way.
    #[inline]
    pub(crate) fn asker<'a>(
        &'a self,
        owner: &'a OwnerId,
        call_site: &'static Location<'static>,
        transaction: bool,
    ) -> Asker<'a> {
        Asker {
            owner,
            label: self.label.as_ref(),
            call_site,
            thread: if self.unbound { 0 } else { thread_number() },
            bound: true,
            transaction,
        }
    }

    /// Does not bind the guard or the transaction to the calling thread.
    ///
    /// A guard and a transaction are bound to the thread that acquires them: if the thread requests
    /// the lock again, the request is refused at once, because the thread would wait for itself. A
    /// guard or a transaction that is sent to another thread stays bound to the first one, so it
    /// should be unbound. A grant that is held by id is never bound.
    pub fn unbound(mut self) -> Self {
        self.unbound = true;
        self
    }
}
