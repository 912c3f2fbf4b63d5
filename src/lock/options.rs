//! What a request for a lock may ask beside the lock.

use std::num::NonZeroU64;
use std::panic::Location;
use std::time::Duration;

use smol_str::SmolStr;

use super::CancelToken;
use super::request::Asker;
use crate::id::OwnerId;
use crate::queue::Priority;
use crate::sync::thread_number;

/// How one request waits: how long, behind how many, until whom.
///
/// ```
/// use doclock::{DataStore, lock::AcquireOptions};
/// use std::time::Duration;
///
/// let store = DataStore::new();
/// let options = AcquireOptions::new()
///     .wait_limit(Duration::from_millis(200))
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
    pub(super) hand_over: bool,
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

impl AcquireOptions {
    /// [`AcquireOptions::new`], as a constant.
    pub(super) const PLAIN: Self = Self {
        wait: WaitLimit::OfTheLock,
        cancel: None,
        queue_bound: None,
        label: None,
        unbound: false,
        hand_over: false,
        any_thread: false,
        priority: Priority::Normal,
    };

    /// The lock's own settings, nothing added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives up after this long. Zero means not to wait at all.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait = WaitLimit::Of(Some(limit));
        self
    }

    /// Waits for as long as it takes.
    pub fn no_wait_limit(mut self) -> Self {
        self.wait = WaitLimit::Of(None);
        self
    }

    /// Takes the lock only if nobody holds it or waits for it.
    pub fn no_wait(self) -> Self {
        self.wait_limit(Duration::ZERO)
    }

    /// Lets `token` withdraw the request while it waits.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Is rejected at once where `bound` requests wait already. The smaller of this bound and the lock's own counts.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Says what the lock is wanted for, to be read in errors, in the queue's listing and in the statistics.
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
    /// [`StoreOptions::overtaking_bound`](crate::StoreOptions::overtaking_bound) allows. Requests of one priority are
    /// granted in the order in which they asked, and a holder is never interrupted.
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

    /// Does no work for others. When a list of operations has been executed, the thread that executed it goes on with those
    /// that wait, as many as [`StoreOptions::batch_limit`](crate::StoreOptions::batch_limit) allows, before it
    /// returns; with this option it wakes the next in line instead. For a thread that must not be kept, as one that draws.
    ///
    /// Its own list may still be executed by another thread; if it slept meanwhile, it may wake one other thread before it returns.
    pub fn hand_over(mut self) -> Self {
        self.hand_over = true;
        self
    }

    /// Allows another thread to execute an operation batch that has code, as it does with batches that are pure data.
    ///
    /// Without this option the operations that are code, and the before-hooks, run in the thread that submits the batch. With
    /// it they may run in any thread that executes batches on the same store. Then the code must not wait for another
    /// thread: that thread could be the one that runs the code. It must not ask for locks that the other thread may hold either;
    /// such a request fails with [`LockError::Reentrant`](super::LockError::Reentrant).
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
        self.hand_over
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
    /// A guard and a transaction are bound to the thread that acquires them: if the thread requests the lock
    /// again, the request is refused at once, because the thread would wait for itself. A guard or a transaction
    /// that is sent to another thread stays bound to the first one, so it should be unbound. A grant that is held
    /// by id is never bound.
    pub fn unbound(mut self) -> Self {
        self.unbound = true;
        self
    }
}
