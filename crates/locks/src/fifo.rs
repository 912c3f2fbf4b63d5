//! The document lock: one holder, and a queue in FIFO order. Threads and tasks wait for it.

use std::convert::Infallible;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::Location;
use std::sync::Arc;
// Not the model's type: the value takes part in no race.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::batch::Batch;
use super::holder_word::{HeldWord, Word};
use super::keeper::{KeeperSlot, KeeperThread};
use super::options::{OF_THE_LOCK, PLAIN};
use super::report::ReportChannel;
use super::request::{Answered, QueuedWork, Request, RequestOutcome, Requester, Waiting};
use super::sampling::Sampling;
use super::shared::{LockShared, WeakLock};
use super::state::{AfterUnlock, Combiner, CombinerKind, LockState, RequestPosition};
use super::stats::Recorder;
use super::wait::{Wait, WaiterKind, blocking};
use super::wake_chain::WakeChain;
use super::{
    AcquireOptions, Grant, JoinError, LockError, LockInfo, LockOptions, LockRequest, LockStats,
    PendingRequest, QueueEntry, ReleaseError, RequestContext, RequestStats, SlowReport, Timeline,
    TimelineOutcome,
};
use crate::id::{FencingToken, LockId, OwnerId, random_session};
use crate::packed::PackedDuration;
use crate::queue::CapacityPart;
use crate::sync::{Mutex, thread_number};
use crate::time::Clock;

/// A lock that is granted strictly in FIFO order.
///
/// # Fairness
///
/// A release grants the lock to the next waiter in the same step (direct hand-off). No request can
/// come in between: not a later request, not a `try`, not one of the releasing thread. A waiter
/// that times out or is cancelled leaves the queue from any position; the others keep their order.
///
/// # Differences from the standard library
///
/// It guards no value and has no poisoning. Another thread may release it. It reports its holder
/// and its waiters. Every wait has a timeout, five seconds by default. Clones are handles of the
/// same lock; a waiting thread keeps it alive, so dropping the other handles never strands it.
///
/// # Tasks
///
/// A call that waits blocks its thread, in a task that of the executor. A [request](Self::request)
/// that is awaited never does: it waits in the same queue as threads, with timeout and cancel
/// token, but without a timer of the executor. Its first poll takes a free lock or joins the queue.
///
/// **Cancel safety.** A future that is dropped leaves the queue. If it was granted the lock and has
/// not been polled since, the drop releases the lock, and the next waiter holds it.
///
/// **Futurelock.** A task can be granted the lock while it waits for something else and does not
/// poll the future, as in `select!` on `&mut future`. Errors and diagnostics show such a holder:
/// [`LockInfo::untaken`](crate::LockInfo::untaken). A
/// [hold limit](crate::LockOptions::hold_limit) revokes its grant.
///
/// A task is not recognized as the holder when it requests the lock again: that request waits until
/// its timeout. The guards are bound to no thread, so a task may release on any thread.
#[derive(Clone)]
pub struct FifoLock(pub(super) Arc<LockShared>);

/// The outcome of a request that was not granted at once.
#[derive(Debug)]
pub enum Answer<R> {
    /// The request holds the lock now; the requesting thread runs its work.
    Granted(Grant),
    /// Another thread ran the work, with this reply.
    Done(R),
}

/// The effect of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// No request waited: the lock is free.
    Freed,
    /// The next waiter holds the lock.
    HandedOver,
}

impl FifoLock {
    /// Creates a free lock with the system clock, a timeout of five seconds and an unbounded queue.
    pub fn new() -> Self {
        Self::with_options(LockOptions::new())
    }

    /// Creates a free lock with options.
    pub fn with_options(settings: LockOptions) -> Self {
        let lock = random_session();
        // A timeline records each hold, and each may have to be reported.
        let sampling = match (settings.timeline, settings.reports.holds) {
            (None, None) => Sampling::new(&settings.clock),
            _ => Sampling::of_each(),
        };
        let state = Mutex::new(LockState::new(lock, &settings, sampling));
        let reports = settings.channel;
        let reports = reports.or_else(|| ReportChannel::with(settings.reports, settings.observer));
        Self(Arc::new_cyclic(|this| LockShared {
            word: Word::default(),
            state,
            timeout: AtomicU64::new(PackedDuration::pack(settings.timeout)),
            queue_bound: settings.queue_bound.unwrap_or(usize::MAX),
            lock,
            clock: settings.clock,
            batch: settings.batch,
            wake_chain: WakeChain::default(),
            keeper: KeeperSlot::default(),
            reports,
            this: this.clone(),
        }))
    }

    /// Acquires the lock and returns the id of the grant, for [`release_lock`](Self::release_lock).
    ///
    /// Blocks until the grant or the end of the timeout. If the two race, the grant wins: an error
    /// means that the lock was not granted. A [`request`](Self::request) has options, and also
    /// waits in a task; [`into_id`](LockGuard::into_id) of its guard returns the id. The grant is
    /// not bound to the calling thread, whose next request waits as that of any other thread.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the wait timed out, was cancelled, or was not allowed; the queue was full;
    /// the calling thread already has a guard or a transaction on the lock.
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// let lock = FifoLock::new();
    /// let id = lock.acquire_lock("editor")?;
    /// assert!(lock.is_locked());
    /// lock.release_lock(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn acquire_lock(&self, owner: impl Into<OwnerId>) -> Result<LockId, LockError> {
        self.acquire_as(owner.into())
    }

    #[track_caller]
    fn acquire_as(&self, owner: OwnerId) -> Result<LockId, LockError> {
        Ok(self.take_plainly(owner, Location::caller(), false)?.id())
    }

    /// Acquires the lock until the guard is dropped. A task awaits a [`request`](Self::request).
    ///
    /// # Errors
    ///
    /// As [`acquire_lock`](Self::acquire_lock).
    #[track_caller]
    pub fn lock(&self, owner: impl Into<OwnerId>) -> Result<LockGuard, LockError> {
        self.lock_as(owner.into())
    }

    // Not generic, as `acquire_as`, so that the guard is built where it stays.
    #[track_caller]
    fn lock_as(&self, owner: OwnerId) -> Result<LockGuard, LockError> {
        let grant = self.take_plainly(owner, Location::caller(), true)?;
        Ok(LockGuard::new(self.clone(), grant))
    }

    /// Acquires the lock only if it is free and no request waits. Never blocks.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] with the holder, or [`LockError::Reentrant`] if this thread is it.
    #[track_caller]
    pub fn try_lock(&self, owner: impl Into<OwnerId>) -> Result<LockGuard, LockError> {
        let options = AcquireOptions::new().no_wait();
        self.request(owner).options(options).wait()
    }

    /// Returns a request for a guard, to be made by [`wait`](PendingRequest::wait) or `.await`.
    #[track_caller]
    pub fn request(&self, owner: impl Into<OwnerId>) -> PendingRequest<'static, GuardRequest> {
        PendingRequest::new(GuardRequest {
            lock: Some(self.clone()),
            owner: owner.into(),
        })
    }

    /// Releases the grant with this id. Never blocks. The next waiter holds the lock then.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]: not held, revoked, or an open transaction. Nothing is released then.
    #[inline]
    pub fn release_lock(&self, id: LockId) -> Result<ReleaseOutcome, ReleaseError> {
        match self.0.release(id, false) {
            true => Ok(ReleaseOutcome::Freed),
            false => self.release_in_step(id),
        }
    }

    #[inline(never)]
    fn release_in_step(&self, id: LockId) -> Result<ReleaseOutcome, ReleaseError> {
        Ok(match self.0.step(|state| state.release(id))? {
            None => ReleaseOutcome::Freed,
            Some(next) => {
                self.0.deliver(next);
                ReleaseOutcome::HandedOver
            }
        })
    }

    /// Returns whether the lock is held.
    pub fn is_locked(&self) -> bool {
        self.0.word.is_held()
    }

    /// Returns the holder of the lock.
    pub fn current_lock(&self) -> Option<LockInfo> {
        self.0.step(|state| state.current())
    }

    /// Returns the number of waiting requests.
    pub fn queue_length(&self) -> usize {
        self.0.state.lock().queue.len()
    }

    /// Returns the waiting requests in queue order. The first 32 are of one moment; the others are
    /// read page by page, as in the [diagnostics](Self::diagnostics).
    pub fn queue_info(&self) -> Vec<QueueEntry> {
        self.read_entries(|_| ()).1
    }

    fn read_entries<T>(&self, first: impl FnOnce(&mut LockState) -> T) -> (T, Vec<QueueEntry>) {
        self.0.read_queue(first, |state, (_, waiter, position)| {
            waiter.entry(self.0.lock, position, state.now)
        })
    }

    /// Returns the counters and the state of one moment, with the [queue](Self::queue_info).
    pub fn lock_stats(&self) -> LockStats {
        let (stats, queue) = self.read_entries(|state| state.stats());
        LockStats { queue, ..stats }
    }

    /// Returns what the lock has recorded: its last requests, with those that hold or wait.
    ///
    /// `None` if [`LockOptions::timeline`] does not turn the recorder on. The holder and the last
    /// request that has ended are of one moment; the others are read page by page, while the lock
    /// stays usable. Requests that are forgotten meanwhile are missing, and `forgotten` has them.
    ///
    /// ```
    /// use doclock_locks::{FifoLock, LockOptions, TimelineOutcome};
    ///
    /// let lock = FifoLock::with_options(LockOptions::new().timeline(1_000));
    /// drop(lock.lock("report")?);
    /// let _guard = lock.lock("letter")?;
    ///
    /// let timeline = lock.timeline().unwrap();
    /// let [report, letter] = &timeline.entries[..] else { panic!("{timeline:?}") };
    /// assert_eq!(report.outcome, TimelineOutcome::Released);
    /// assert_eq!(letter.outcome, TimelineOutcome::Holding);
    /// assert!(report.ended_at <= letter.granted_at);
    /// # Ok::<(), doclock_locks::LockError>(())
    /// ```
    pub fn timeline(&self) -> Option<Timeline> {
        self.0.state.lock().recording()?;
        let (recorded, waiting) = self.0.read_queue(
            |state| state.recorded(),
            |state, (_, waiter, _)| {
                let recording = state.recording()?;
                Some(recording.waiter(waiter, self.0.lock, None, TimelineOutcome::Waiting))
            },
        );
        let mut timeline = recorded?;
        timeline.entries.extend(waiting.into_iter().flatten());
        // Backwards, because the oldest may be forgotten meanwhile.
        timeline.entries.reverse();
        loop {
            let end = timeline.forgotten;
            let page = self
                .0
                .step_fair(|state| Some(state.recording()?.page(end)))?;
            if page.is_empty() {
                break;
            }
            timeline.forgotten -= page.len() as u64;
            timeline.entries.extend(page.into_iter().rev());
        }
        timeline.entries.reverse();
        Some(timeline)
    }

    /// Returns the channel of the reports of long holds and long waits.
    ///
    /// `None` if neither [`LockOptions::report_holds`] nor [`LockOptions::report_waits`] is set.
    /// Each report goes to one of the receivers. The channel keeps the last [`SlowReport::KEPT`]
    /// that no receiver has taken, and disconnects when the lock is dropped and all are received.
    pub fn reports(&self) -> Option<Receiver<SlowReport>> {
        Some(self.0.reports.as_ref()?.reports.clone())
    }

    /// Sets all counters to zero. Holder and queue stay, and a hold that began before counts in
    /// full when it ends.
    pub fn reset_lock_stats(&self) {
        self.0.step(|state| state.metrics = Recorder::default());
    }

    /// Sets the timeout of later requests. Zero: they do not wait. `None`: they wait without limit.
    pub fn set_lock_timeout(&self, limit: impl Into<Option<Duration>>) {
        let packed = PackedDuration::pack(limit.into());
        self.0.timeout.store(packed, Ordering::Relaxed);
    }
}

/// What the document store needs beside the interface.
#[doc(hidden)]
impl FifoLock {
    pub async fn grant_as(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Grant, LockError> {
        match self.try_grant(requester, options)? {
            Some(grant) => Ok(grant),
            None => self.grant_in_queue(waits_as, requester, options).await,
        }
    }

    /// As [`grant_as`](Self::grant_as), after a try.
    pub async fn grant_in_queue(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Grant, LockError> {
        let mut work = None::<Infallible>;
        let Answer::Granted(grant) = self.ask(waits_as, requester, options, &mut work).await?;
        Ok(grant)
    }

    /// Acquires the lock if it is free. `None` means only that a request held it a moment ago.
    #[inline(always)]
    pub fn try_grant(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Option<Grant>, LockError> {
        if options.is_cancelled() {
            return Err(self.cancelled(requester, CapacityPart::Whole));
        }
        // Not in a closure, which the compiler may leave out of line.
        let Some(mut state) = self.0.lock_if_free() else {
            return Ok(None);
        };
        state.source().assign(requester);
        Ok(Some(self.0.take(&mut state, requester.hold_limit, || None)))
    }

    #[inline(always)]
    fn take_plainly(
        &self,
        owner: OwnerId,
        call_site: &'static Location<'static>,
        bound: bool,
    ) -> Result<Grant, LockError> {
        // Before the mutex is locked, because the first request of a thread lists the thread.
        let thread = if bound { thread_number() } else { 0 };
        match self.0.lock_if_free() {
            Some(mut state) => {
                state.source().assign_plainly(owner, call_site, thread);
                Ok(self.0.take(&mut state, OF_THE_LOCK, || None))
            }
            None => {
                let requester = PLAIN.requester(&owner, call_site, false);
                self.wait_in_queue(&Requester { bound, ..requester }, &PLAIN)
            }
        }
    }

    /// As [`grant_in_queue`](Self::grant_in_queue) in a thread, out of line.
    #[cold]
    pub fn wait_in_queue(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Grant, LockError> {
        blocking(self.grant_in_queue(WaiterKind::Thread, requester, options))
    }

    /// Joins the queue and waits, unless the lock is free. The holder may run the work in its turn;
    /// a panic of the work resumes in this thread. Otherwise `work` is what is left of it.
    pub async fn ask<W: QueuedWork>(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        work: &mut Option<W>,
    ) -> Result<Answer<W::Reply>, LockError> {
        let shared = &self.0;
        // The timeout begins before the request is in a queue: threads that see it there rely on
        // that.
        let how = shared.how_to_wait(options);
        if waits_as == WaiterKind::Task {
            let attended = waits_as.attend(shared, !how.is_at_once());
            attended.map_err(|error| LockError::no_keeper(requester.owner, &error))?;
        }
        let waits = Some((waits_as, how.deadline));
        let request = Arc::new(Request::new(requester, work.take(), waits));
        let asked = shared.step(|state| {
            if state.shown == HeldWord::FREE {
                state.source().assign(requester);
                let grant = shared.take(state, requester.hold_limit, || None);
                return ControlFlow::Break(Ok(grant));
            }
            let (owner, part) = (requester.owner, CapacityPart::Whole);
            if let Err(error) = state.refuse_reentry(owner, requester.thread, part) {
                return ControlFlow::Break(Err(error));
            }
            if !how.may_wait(state.waiting()) {
                return ControlFlow::Break(Err(state.refuse_wait(owner, part, how, None)));
            }
            let waiting_at = state.join_queue(Arc::clone(&request) as _, how.priority, None);
            ControlFlow::Continue(shared.wait_as(state, waiting_at, waits_as, how))
        });
        match asked {
            ControlFlow::Continue(wait) => {
                self.answer_to(waits_as, options, &request, work, wait)
                    .await
            }
            ControlFlow::Break(ended) => {
                *work = request.take_work();
                Ok(Answer::Granted(ended?))
            }
        }
    }

    /// Waits for the answer to a request in a queue.
    pub(super) async fn answer_to<W: QueuedWork>(
        &self,
        waits_as: WaiterKind,
        options: &AcquireOptions,
        request: &Arc<Request<W>>,
        work: &mut Option<W>,
        wait: Wait<RequestPosition>,
    ) -> Result<Answer<W::Reply>, LockError> {
        let shared = &self.0;
        let cancel = options.cancel.as_ref();
        let answered = waits_as.wait(shared, request, cancel, wait).await;
        if request.woken_by_chain.load(Ordering::Relaxed) {
            shared.wake_chain.go_on();
        }
        // The answering thread may drop the last handle of the request, but not this thread's work.
        let Answered(outcome, spent) = answered;
        *work = spent.or_else(|| request.take_work());
        match outcome {
            RequestOutcome::OfTheLock(granted) => {
                let grant = granted.map_err(|error| *error)?;
                if waits_as == WaiterKind::Task {
                    // The task knows of it now.
                    self.0.step(|state| {
                        let hold = state.hold_of(grant.id());
                        hold.map(|hold| hold.source.untaken = false)
                    });
                }
                Ok(Answer::Granted(grant))
            }
            RequestOutcome::Done(reply) => Ok(Answer::Done(reply)),
            RequestOutcome::Panicked(panic) => {
                // Before the unwinding: the work may have code of users, which may panic too.
                drop(work.take());
                panic.resume()
            }
        }
    }

    /// Closes the lock, or opens it for `None`. A closed lock grants no request: those that wait
    /// name this owner as their holder, unless another request holds the lock.
    ///
    /// The caller numbers its changes: one that a thread brings after a later one has no effect.
    pub fn set_closed(&self, change: u64, by: Option<(&OwnerId, &'static Location<'static>)>) {
        self.0.hand_on(|state| state.set_closed(change, by));
    }

    /// Options of a lock that requests pass after this one: its clock, reports and batch limit.
    pub fn companion_options(&self) -> LockOptions {
        let mut options = LockOptions::new().clock(self.clock().clone());
        options.batch = self.0.batch;
        if let Some(channel) = &self.0.reports {
            options.reports = channel.thresholds;
        }
        options.channel = self.0.reports.clone();
        options
    }

    pub fn request_stats(&self) -> [RequestStats; 2] {
        self.0.step(|state| state.request_stats())
    }

    pub fn downgrade(&self) -> WeakLock {
        WeakLock(Arc::downgrade(&self.0))
    }

    /// Returns the timeout of requests that set none.
    pub fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Releases for a guard, or lets the end of a transaction that is open under it do so.
    #[inline]
    pub fn release_or_defer(&self, id: LockId) {
        if !self.0.release(id, false) {
            self.0
                .hand_on_from(id, move |state| state.release_or_defer(id));
        }
    }

    /// Opens a transaction under a grant that its holder releases, and returns the owner.
    pub fn join_grant(&self, id: LockId) -> Result<(OwnerId, Grant), JoinError> {
        let thread = thread_number();
        self.0.step(|state| state.join_grant(id, thread))
    }

    /// Closes the transaction that `join_grant` opened, or ends a transaction's own grant.
    #[inline]
    pub fn leave_grant(&self, id: LockId) {
        if !self.0.release(id, true) {
            self.0
                .hand_on_from(id, move |state| state.leave_grant(id, None));
        }
    }

    /// Ends a transaction's own grant if no request waits. Returns whether it has ended.
    #[inline]
    pub fn leave_if_alone(&self, id: LockId) -> bool {
        self.0.release(id, true)
    }

    /// Ends a transaction's own grant, and runs queued batches of waiting requests.
    #[inline(never)]
    pub fn leave_and_serve(&self, grant: Grant, waits_as: WaiterKind) {
        let (limit, kind) = match waits_as {
            WaiterKind::Thread => (self.0.batch, CombinerKind::Thread),
            WaiterKind::Task => (self.0.batch.for_task(), CombinerKind::Task),
        };
        let mut batch = Batch::new(limit, &self.0.wake_chain);
        self.serve(grant.id(), &mut batch, kind, |_| ());
        let reports = batch.end().into_iter();
        reports.for_each(|next| self.0.deliver(next));
    }

    /// Runs the work that a task has left, and queued batches after it.
    pub(super) fn carry_out(
        &self,
        request: Arc<dyn Waiting>,
        grant: Grant,
        thread: &mut KeeperThread,
    ) {
        let mut prepare = |request: &dyn Waiting| {
            if !request.head().brief {
                thread.hand_over();
            }
        };
        prepare(&*request);
        let this = thread_number();
        let now = self.0.step(|state| {
            state.bind(grant.id(), this);
            state.now
        });
        let after = request.after_keeper();
        let mut batch = Batch::new(self.0.batch, &self.0.wake_chain);
        batch.goes_on(now);
        batch.serve(request, grant, now);
        if !self.0.release(grant.id(), true) {
            self.serve(grant.id(), &mut batch, CombinerKind::Keeper, prepare);
        }
        if batch.drops_work() {
            // The work may have the last handle of its store, whose end waits for its journal.
            thread.hand_over();
        }
        let reports = batch.end().into_iter();
        reports.for_each(|next| self.0.deliver(next));
        if let Some(after) = after {
            after(thread);
        }
    }

    /// Binds a grant of a task to the thread that polls it, for work that ends with this poll.
    pub fn bind(&self, grant: Grant) {
        let this = thread_number();
        self.0.step(|state| state.bind(grant.id(), this));
    }

    #[inline(always)]
    fn serve(
        &self,
        mut ending: LockId,
        batch: &mut Batch<'_>,
        kind: CombinerKind,
        mut prepare: impl FnMut(&dyn Waiting),
    ) {
        let thread = thread_number();
        loop {
            let (next, now) = self.0.step(|state| {
                let goes_on = batch.goes_on(state.now);
                let next = state.leave_grant(ending, goes_on.then_some(Combiner { thread, kind }));
                if let Some(AfterUnlock::Serve(..)) = next {
                    batch.hold_back(&mut state.outbox);
                }
                (next, state.now)
            });
            let Some(AfterUnlock::Serve(request, grant)) = next else {
                return next.into_iter().for_each(|next| self.0.deliver(next));
            };
            ending = grant.id();
            prepare(&*request);
            batch.serve(request, grant, now);
            if self.0.release(ending, true) {
                return;
            }
        }
    }

    /// Protects a grant from revocation until its transaction ends. `false` when it has ended.
    #[inline]
    pub fn seal(&self, grant: Grant) -> bool {
        self.is_granted(grant) && (!grant.limited || self.seal_in_step(grant.id()))
    }

    #[inline(never)]
    fn seal_in_step(&self, id: LockId) -> bool {
        self.0.step(|state| state.seal(id))
    }

    /// Returns the request for which a grant was revoked, if that is one of the last revocations.
    pub fn revoked_for(&self, id: LockId) -> Option<Box<QueueEntry>> {
        self.0.step(|state| state.revoked_for(id))
    }

    /// Whether a grant is still held.
    #[inline]
    pub fn is_granted(&self, grant: Grant) -> bool {
        self.0.word.is_held_by(grant.id()) || self.is_granted_in_step(grant.id())
    }

    #[inline(never)]
    fn is_granted_in_step(&self, id: LockId) -> bool {
        // A commit asks for its own hold, and observes none.
        let is_timed = |state: &LockState| !state.is_quiet();
        self.0
            .step_if_timed(is_timed, |state| state.hold_of(id).is_some())
    }

    #[cold]
    pub(super) fn cancelled(&self, requester: &Requester<'_>, part: CapacityPart) -> LockError {
        let mut state = self.0.state.lock();
        state.recorder_of(part).counts.total_cancellations += 1;
        LockError::cancelled(requester.owner)
    }
}

/// Holds a [`FifoLock`] until it is dropped.
///
/// It may move to another thread and be dropped there. If a transaction is open under it
/// (`DataStore::begin_under`), the end of that transaction releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    /// `None` once it is given up for its id.
    lock: Option<FifoLock>,
    grant: Grant,
}

impl LockGuard {
    #[doc(hidden)]
    pub fn new(lock: FifoLock, grant: Grant) -> Self {
        let lock = Some(lock);
        Self { lock, grant }
    }

    /// Returns the id of the grant.
    pub fn id(&self) -> LockId {
        self.grant.id()
    }

    /// Keeps the lock held, and returns the id of the grant, for
    /// [`release_lock`](FifoLock::release_lock). The grant is then bound to no thread, as that of
    /// [`acquire_lock`](FifoLock::acquire_lock). A transaction that is open under the guard stays
    /// open. The release of a revoked grant fails with
    /// [`ReleaseError::Revoked`](crate::ReleaseError::Revoked).
    ///
    /// ```
    /// use doclock_locks::FifoLock;
    ///
    /// let lock = FifoLock::new();
    /// let id = lock.request("front end").label("drag").wait()?.into_id();
    /// assert!(lock.is_locked());
    /// lock.release_lock(id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_id(mut self) -> LockId {
        let id = self.grant.id();
        if let Some(lock) = self.lock.take() {
            // It changes nothing that the word has: the hold can still end without the mutex.
            lock.0.state.lock().bind(id, 0);
        }
        id
    }

    /// Returns the fencing token of the grant, greater than that of every earlier one.
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            lock.release_or_defer(self.grant.id());
        }
    }
}

/// A request for a guard of a lock.
#[derive(Debug)]
pub struct GuardRequest {
    /// The guard takes it out.
    lock: Option<FifoLock>,
    owner: OwnerId,
}

impl LockRequest for GuardRequest {
    type Granted = LockGuard;
    type Error = LockError;

    #[inline]
    fn try_grant(&mut self, context: &RequestContext) -> Result<Option<LockGuard>, LockError> {
        let Some(lock) = &self.lock else {
            return Ok(None);
        };
        let requester = context.requester(&self.owner, false);
        let granted = lock.try_grant(&requester, &context.options)?;
        Ok(granted.and_then(|grant| Some(LockGuard::new(self.lock.take()?, grant))))
    }

    async fn grant_as(self, context: RequestContext) -> Result<LockGuard, LockError> {
        let lock = self.lock.expect("it is taken with the grant");
        let requester = context.requester(&self.owner, false);
        let asked = lock.grant_in_queue(context.waits_as, &requester, &context.options);
        let grant = asked.await?;
        Ok(LockGuard::new(lock, grant))
    }
}

impl Default for FifoLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FifoLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("FifoLock");
        lock.field("current", &self.current_lock());
        lock.field("queue", &self.queue_info()).finish()
    }
}
