//! Options of a lock, and of one request.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::CancelToken;
use super::batch::BatchLimit;
use super::report::{ReportChannel, ReportObserver, ReportThresholds};
use super::request::Requester;
use super::wait::{HowToWait, WaiterKind};
use crate::id::OwnerId;
use crate::queue::Priority;
use crate::time::{Clock, Deadline};

/// Options of one request, such as its timeout, queue bound, cancel token, label and priority.
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
/// let guard = store.request("editor").options(options).wait()?;
/// # Ok::<(), doclock_locks::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AcquireOptions {
    wait: RequestLimit,
    hold: RequestLimit,
    pub(super) cancel: Option<CancelToken>,
    pub(super) queue_bound: Option<usize>,
    pub(super) label: Option<SmolStr>,
    pub(super) unbound: bool,
    #[doc(hidden)]
    pub without_combining: bool,
    #[doc(hidden)]
    pub any_thread: bool,
    #[doc(hidden)]
    pub priority: Priority,
}

/// [`AcquireOptions::new`], for requests that set none.
pub(super) static PLAIN: AcquireOptions = AcquireOptions {
    wait: None,
    hold: None,
    cancel: None,
    queue_bound: None,
    label: None,
    unbound: false,
    without_combining: false,
    any_thread: false,
    priority: Priority::Normal,
};

/// A limit of one request, such as its timeout, or that it has none. `None` for that of the lock.
pub type RequestLimit = Option<Option<Duration>>;

/// The limit of the lock.
pub(super) const OF_THE_LOCK: RequestLimit = None;

/// Options of a new lock. `StoreOptions` of a store has the same methods.
///
/// ```
/// use std::time::Duration;
///
/// use doclock_locks::{FifoLock, LockError, LockOptions};
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
    #[doc(hidden)]
    pub clock: Clock,
    #[doc(hidden)]
    pub timeout: Option<Duration>,
    #[doc(hidden)]
    pub hold_limit: Option<Duration>,
    #[doc(hidden)]
    pub queue_bound: Option<usize>,
    #[doc(hidden)]
    pub overtaking: u32,
    #[doc(hidden)]
    pub batch: BatchLimit,
    /// The fencing token before the first, so that the tokens of an earlier lock continue.
    #[doc(hidden)]
    pub last_token: u64,
    /// The number of an id before the first, so that no id of an earlier lock returns.
    #[doc(hidden)]
    pub last_number: u64,
    /// How many requests the timeline records, if there is one.
    pub(crate) timeline: Option<usize>,
    pub(crate) reports: ReportThresholds,
    /// Sees each report of the channel.
    #[doc(hidden)]
    pub observer: Option<Arc<dyn ReportObserver>>,
    /// The channel of the reports, if it is that of another lock.
    pub(crate) channel: Option<Arc<ReportChannel>>,
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
            last_token: 0,
            last_number: 0,
            timeline: None,
            reports: ReportThresholds::default(),
            observer: None,
            channel: None,
        }
    }
}

impl LockOptions {
    pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Returns the options of [`FifoLock::new`](super::FifoLock::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the timeout of requests that set none. Zero: they do not wait. `None`: they wait
    /// without limit. The default is five seconds.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Bounds the number of waiting requests: a full queue rejects the next. Unbounded by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Bounds how many later requests can overtake a waiting request, for each level by which their
    /// [priority](AcquireOptions::priority) is higher. 64 by default; zero turns priorities off.
    pub fn overtaking_bound(mut self, requests: u32) -> Self {
        self.overtaking = requests;
        self
    }

    /// Limits how long the lock may be held while requests wait. A holder that exceeds the limit is
    /// revoked: the next waiter is granted, and the release fails with
    /// [`ReleaseError::Revoked`](super::ReleaseError::Revoked). There is no limit by default.
    /// [`AcquireOptions::hold_limit`] is that of one request.
    ///
    /// One thread of the process checks the limits of all locks, from the first request that waits
    /// on. If the machine starts no thread, the next request or grant tries again.
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.hold_limit = Some(limit);
        self
    }

    /// Records the last `requests` requests that ended, for [`FifoLock::timeline`]. Off by default.
    ///
    /// A recorded request takes about 150 bytes. Every hold is measured then: a grant reads the
    /// clock and a release locks the mutex of the lock (`crates/bench/LOG.md`, "Diagnostics").
    ///
    /// [`FifoLock::timeline`]: super::FifoLock::timeline
    pub fn timeline(mut self, requests: usize) -> Self {
        self.timeline = Some(requests);
        self
    }

    /// Reports holds that last longer than the threshold in
    /// [`FifoLock::reports`](super::FifoLock::reports): while they last if a request waits,
    /// otherwise when they end. They are not reported by default.
    ///
    /// Each hold is reported once, but not while its holder waits for more nodes. Every hold is
    /// measured, as with a [timeline](Self::timeline). While requests wait, one thread of the
    /// process looks for long holds: up to 1/32 of the shortest threshold after it, or 1 ms if that
    /// is more.
    pub fn report_holds(mut self, longer_than: Duration) -> Self {
        self.reports.holds = Some(longer_than);
        self
    }

    /// Reports waits that last longer than the threshold, as [`report_holds`](Self::report_holds)
    /// does: the first behind one holder that waits for nothing, or behind what closes the lock.
    pub fn report_waits(mut self, longer_than: Duration) -> Self {
        self.reports.waits = Some(longer_than);
        self
    }

    /// Sets the clock that the lock reads. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    #[doc(hidden)]
    pub fn makes_reports(&self) -> bool {
        self.reports.shortest().is_some()
    }
}

impl AcquireOptions {
    /// Creates options that keep the settings of the lock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the timeout of the request. Zero: it does not wait.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.wait = Some(Some(limit));
        self
    }

    /// Returns the options of a wait before that of the request, which lasts no longer than the
    /// request may wait.
    #[doc(hidden)]
    pub fn of_wait_before(&self, of_lock: Option<Duration>, longest: Duration) -> Self {
        let limit = self.wait.unwrap_or(of_lock);
        Self {
            cancel: self.cancel.clone(),
            queue_bound: self.queue_bound,
            ..Self::new().timeout(limit.map_or(longest, |limit| limit.min(longest)))
        }
    }

    /// Lets the request wait without limit.
    pub fn no_timeout(mut self) -> Self {
        self.wait = Some(None);
        self
    }

    /// Lets the request fail at once instead of waiting.
    pub fn no_wait(self) -> Self {
        self.timeout(Duration::ZERO)
    }

    /// Limits how long this request may hold the lock, in place of the limit of the lock.
    ///
    /// A holder that exceeds the limit while requests wait is revoked, as with
    /// `StoreOptions::hold_limit`. The limit counts from the first grant, also for a transaction on
    /// nodes that locks more nodes later. A [`KeyedLock`](super::keyed::KeyedLock) ignores it, and
    /// so does a request of a holder of nodes for more.
    ///
    /// ```
    /// use doclock::{DataStore, lock::AcquireOptions};
    /// use std::time::Duration;
    ///
    /// let store = DataStore::new();
    /// let import = AcquireOptions::new()
    ///     .timeout(Duration::from_millis(200))
    ///     .hold_limit(Duration::from_secs(2));
    /// let transaction = store.request_transaction("import").options(import).wait()?;
    /// # Ok::<(), doclock_locks::LockError>(())
    /// ```
    pub fn hold_limit(mut self, limit: Duration) -> Self {
        self.hold = Some(Some(limit));
        self
    }

    /// Lets the request hold the lock without limit, whatever the hold limit of the lock.
    pub fn no_hold_limit(mut self) -> Self {
        self.hold = Some(None);
        self
    }

    /// Lets `token` cancel the request while it waits.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Rejects the request at once if `bound` requests wait already, or as many as the lock allows.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Sets a label that errors, the list of the queue and the statistics show.
    pub fn label(mut self, label: impl Into<SmolStr>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the priority. The request overtakes waiting requests of lower priority, each of them
    /// only as often as `StoreOptions::overtaking_bound` allows. Requests of one priority are
    /// granted in FIFO order, and a holder is never interrupted.
    ///
    /// ```
    /// use doclock::{DataStore, lock::{AcquireOptions, Priority}};
    ///
    /// let store = DataStore::new();
    /// let keystroke = AcquireOptions::new().priority(Priority::High);
    /// let guard = store.request("ann").options(keystroke).wait()?;
    /// # Ok::<(), doclock_locks::LockError>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Opts the calling thread out of combining.
    ///
    /// By default, a thread that has executed an operation batch also executes queued batches
    /// before it returns, as many as `StoreOptions::batch_limit` allows. A thread that has
    /// committed a transaction on nodes publishes waiting ones in the same way. With this option it
    /// wakes the next waiter instead, which suits a rendering thread. Another thread may still
    /// execute its batch; if the calling thread slept meanwhile, it may wake one other thread.
    pub fn without_combining(mut self) -> Self {
        self.without_combining = true;
        self
    }

    /// Allows another thread to execute an operation batch with code, as it may execute pure data.
    ///
    /// Without this option, operations with code and before-hooks run in the thread that submits
    /// the batch; with it in any thread that executes batches on the same store. Then the code must
    /// not wait for another thread, which could be the one that runs the code. Nor may it request
    /// locks that the other thread may hold: such a request fails with
    /// [`LockError::Reentrant`](super::LockError::Reentrant).
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, lock::AcquireOptions};
    ///
    /// let manager = TransactionManager::new(DataStore::new());
    /// let count = op(|transaction| transaction.create(text_node("entry", "")).map(drop));
    /// manager.transaction([count]).options(AcquireOptions::new().any_thread()).commit()?;
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn any_thread(mut self) -> Self {
        self.any_thread = true;
        self
    }

    /// Does not bind the guard or the transaction to the calling thread.
    ///
    /// If the thread to which they are bound requests the lock again, the request fails at once:
    /// the thread would wait for itself. A guard or a transaction that moves to another thread
    /// stays bound, so it should be unbound. A grant that is held by its id is unbound.
    pub fn unbound(mut self) -> Self {
        self.unbound = true;
        self
    }
}

#[doc(hidden)]
impl AcquireOptions {
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the timeout of the request; `of_the_lock` is the lock's own.
    pub fn limit(&self, of_the_lock: Option<Duration>) -> Option<Duration> {
        self.wait.unwrap_or(of_the_lock)
    }

    /// Returns how the request waits. Its timeout begins now; without a wait, it needs no clock.
    pub(super) fn how_to_wait(
        &self,
        of_the_lock: Option<Duration>,
        bound: usize,
        clock: &Clock,
    ) -> HowToWait {
        self.how_to_wait_until(of_the_lock, bound, |limit| clock.deadline(limit))
    }

    /// As [`how_to_wait`](Self::how_to_wait), with the deadline of a limit.
    pub(super) fn how_to_wait_until(
        &self,
        of_the_lock: Option<Duration>,
        bound: usize,
        deadline: impl FnOnce(Duration) -> Option<Deadline>,
    ) -> HowToWait {
        let deadline = |limit: Duration| match limit.is_zero() {
            true => Some((limit, Deadline::PASSED)),
            false => Some((limit, deadline(limit)?)),
        };
        HowToWait {
            deadline: self.limit(of_the_lock).and_then(deadline),
            bound: self.queue_bound.map_or(bound, |own| own.min(bound)),
            priority: self.priority,
        }
    }

    /// Describes a request of the calling thread with these options.
    #[inline]
    pub fn requester<'a>(
        &'a self,
        owner: &'a OwnerId,
        call_site: &'static Location<'static>,
        transaction: bool,
    ) -> Requester<'a> {
        self.requester_as(WaiterKind::Thread, owner, call_site, transaction)
    }

    /// Describes a request with these options. That of a task is bound to no thread.
    #[inline]
    pub fn requester_as<'a>(
        &'a self,
        waits_as: WaiterKind,
        owner: &'a OwnerId,
        call_site: &'static Location<'static>,
        transaction: bool,
    ) -> Requester<'a> {
        Requester {
            owner,
            label: self.label.as_ref(),
            call_site,
            thread: if self.unbound { 0 } else { waits_as.thread() },
            bound: waits_as == WaiterKind::Thread,
            transaction,
            hold_limit: self.hold,
        }
    }

    /// Sets the label if there is none.
    pub fn or_label(mut self, label: SmolStr) -> Self {
        self.label.get_or_insert(label);
        self
    }
}
