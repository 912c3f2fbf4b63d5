//! A request, for each type of lock: who makes it ([`RequestSource`]), what is asked
//! ([`RequestHead`]), its place in a queue ([`Waiter`]), its hold ([`Holder`]), its work, and how
//! its outcome is delivered ([`Waiting`]). With a mutex of its own, a woken thread locks no other.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use smol_str::SmolStr;

use super::keeper::LeftWork;
use super::mailbox::{Mailbox, Recipient, Rest};
use super::options::RequestLimit;
use super::sampling::HoldStart;
use super::wait::{WaitDeadline, WaiterKind};
use super::wake_chain::Sleeper;
use super::{Grant, LockError, LockInfo, QueueEntry, TimeoutEvidence};
use crate::caught::{CaughtPanic, catch, dispose};
use crate::id::{LockId, OwnerId};
use crate::sync::{Mutex, rank};
use crate::time::{Deadline, MonotonicTime};

/// The description of a request, as the caller passes it.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    pub owner: &'a OwnerId,
    pub label: Option<&'a SmolStr>,
    pub call_site: &'static Location<'static>,
    /// The thread that would wait for itself if it held the lock already; zero for none.
    pub thread: u64,
    /// Whether the grant is bound to that thread. A grant that is released by its id is not.
    pub bound: bool,
    /// Whether the grant belongs to a transaction, which alone may end it.
    pub transaction: bool,
    pub hold_limit: RequestLimit,
}

/// What the lock stores of it, before and after the grant. What a request reads comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct RequestSource {
    pub(super) thread: u64,
    pub(super) transaction: bool,
    /// Whether a task was granted it and has not been polled since.
    pub(super) untaken: bool,
    pub(super) call_site: &'static Location<'static>,
    pub(super) owner: OwnerId,
    pub(super) label: Option<SmolStr>,
}

impl Requester<'_> {
    /// Returns the thread to which a grant is bound; zero for none.
    pub(super) fn bound_to(&self) -> u64 {
        if self.bound { self.thread } else { 0 }
    }
}

impl Default for RequestSource {
    fn default() -> Self {
        Self {
            owner: OwnerId::default(),
            label: None,
            call_site: Location::caller(),
            thread: 0,
            transaction: false,
            untaken: false,
        }
    }
}

impl RequestSource {
    /// Describes another request of the same owner.
    pub fn requester(&self) -> Requester<'_> {
        Requester {
            owner: &self.owner,
            label: self.label.as_ref(),
            call_site: self.call_site,
            thread: self.thread,
            bound: true,
            transaction: self.transaction,
            hold_limit: None,
        }
    }

    /// Writes each field in place: a copy would read wide what was written narrow, and stall.
    #[inline(always)]
    pub(super) fn assign(&mut self, requester: &Requester<'_>) {
        self.owner = requester.owner.clone();
        match (&mut self.label, requester.label) {
            (None, None) => {}
            (Some(own), Some(label)) => *own = label.clone(),
            (own, label) => *own = label.cloned(),
        }
        self.call_site = requester.call_site;
        self.thread = requester.bound_to();
        self.transaction = requester.transaction;
        self.untaken = false;
    }

    /// Writes the description of a request without options.
    #[inline(always)]
    pub(super) fn assign_plainly(
        &mut self,
        owner: OwnerId,
        call_site: &'static Location<'static>,
        thread: u64,
    ) {
        self.owner = owner;
        if self.label.is_some() {
            self.label = None;
        }
        self.call_site = call_site;
        self.thread = thread;
        self.transaction = false;
        self.untaken = false;
    }

    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.owner = OwnerId::default();
        if self.label.is_some() {
            self.label = None;
        }
    }
}

/// Work under a lock. If it is for any thread, the holder of the lock can run it in its turn.
pub trait QueuedWork: Send + 'static {
    type Reply: Send + 'static;

    /// Whether a thread other than the requesting one may run it.
    fn is_for_any_thread(&self) -> bool {
        false
    }

    /// Whether it is always short: it runs no code of users.
    fn is_brief(&self) -> bool {
        false
    }

    /// Runs the work, once, under a grant that the caller ends. The rest returns to its thread:
    /// memory that another thread frees costs both more than short work.
    fn run(&mut self, grant: Grant) -> Self::Reply;

    /// What a thread of the keeper does after the work of a task, which may not be polled again.
    /// The lock is free then.
    fn after_keeper(&self) -> Option<LeftWork> {
        None
    }
}

/// No work: the request is for the lock itself.
impl QueuedWork for Infallible {
    type Reply = Infallible;

    fn run(&mut self, _: Grant) -> Infallible {
        *self
    }
}

/// The outcome of a waiting request, delivered exactly once.
#[derive(Debug)]
pub(super) enum RequestOutcome<R> {
    OfTheLock(LockOutcome),
    /// Another thread ran its work.
    Done(R),
    /// Another thread ran its work, which panicked.
    Panicked(CaughtPanic),
}

/// It holds the lock, and runs its work itself; or it left the queue without a grant.
pub(super) type LockOutcome = Result<Grant, Box<LockError>>;

/// A request with the outcome to deliver to it.
pub(super) type Answer = (Arc<dyn Waiting>, LockOutcome);

/// A request as the queue stores it.
pub(super) trait Waiting: Sleeper + Send + Sync {
    fn head(&self) -> &RequestHead;

    /// Called once, and without the lock's mutex; instead of [`Waiting::serve`].
    fn deliver(&self, verdict: LockOutcome);

    /// Runs the work and leaves its outcome, even after a panic. Returns whether, and how, to wake.
    #[must_use]
    fn serve(&self, grant: Grant) -> Rest;

    /// See [`QueuedWork::after_keeper`]. Called before the work is served.
    fn after_keeper(&self) -> Option<LeftWork>;
}

/// The description of a request in a queue, and of its work.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) source: RequestSource,
    pub(super) hold_limit: RequestLimit,
    /// When its wait times out, for reports; the last moment if it has no limit.
    pub(super) deadline: Deadline,
    /// The timeout of a task: threads end their waits themselves. Set before the task waits.
    pub(super) task: OnceLock<WaitDeadline>,
    /// The number of the thread that waits; zero for a task.
    pub(super) thread: u64,
    pub(super) has_work: bool,
    /// Of its work: [`QueuedWork::is_for_any_thread`], [`QueuedWork::is_brief`].
    pub(super) for_any_thread: bool,
    pub(super) brief: bool,
}

impl RequestHead {
    /// Describes a request. Without `waits`, how it waits is decided later.
    pub(super) fn new<W: QueuedWork>(
        requester: &Requester<'_>,
        work: Option<&W>,
        waits: Option<(WaiterKind, WaitDeadline)>,
    ) -> Self {
        let deadline = waits.and_then(|(_, deadline)| deadline);
        Self {
            source: RequestSource {
                thread: requester.bound_to(),
                transaction: requester.transaction,
                untaken: false,
                call_site: requester.call_site,
                owner: requester.owner.clone(),
                label: requester.label.cloned(),
            },
            hold_limit: requester.hold_limit,
            deadline: deadline.map_or(Deadline::NEVER, |(_, deadline)| deadline),
            task: match waits {
                Some((WaiterKind::Task, deadline)) => OnceLock::from(deadline),
                _ => OnceLock::new(),
            },
            thread: waits.map_or(0, |(waits_as, _)| waits_as.thread()),
            has_work: work.is_some(),
            for_any_thread: work.is_some_and(W::is_for_any_thread),
            brief: work.is_some_and(W::is_brief),
        }
    }

    /// Returns the timeout of a task, or that it has none. `None` for a thread.
    pub(super) fn task(&self) -> Option<WaitDeadline> {
        self.task.get().copied()
    }

    /// Whether a task has left it work, which must be done even if the task is not polled again.
    pub(super) fn is_left_by_task(&self) -> bool {
        self.has_work && self.task.get().is_some()
    }
}

/// A request in a queue. `L` is what its type of lock keeps beside that.
pub(super) struct Waiter<R: ?Sized = dyn Waiting, L = ()> {
    /// The number of its id; the other part is the lock's.
    pub(super) number: u64,
    pub(super) since: MonotonicTime,
    pub(super) more: L,
    pub(super) request: Arc<R>,
}

impl<R: Waiting + ?Sized, L> Waiter<R, L> {
    pub(super) fn source(&self) -> &RequestSource {
        &self.request.head().source
    }

    /// Describes it at this position; 1 is the head of the queue.
    pub(super) fn entry(&self, lock: u32, position: usize, now: MonotonicTime) -> QueueEntry {
        let source = self.source();
        QueueEntry {
            lock_id: LockId::new(self.number, lock),
            owner_id: source.owner.clone(),
            wait_time: now - self.since,
            position,
            label: source.label.clone(),
            call_site: source.call_site.into(),
        }
    }

    /// Describes it when it is about to fail, without the requests ahead of it.
    pub(super) fn evidence(
        &self,
        lock: u32,
        position: usize,
        holder: LockInfo,
        now: MonotonicTime,
    ) -> TimeoutEvidence {
        TimeoutEvidence {
            id: LockId::new(self.number, lock),
            owner: self.source().owner.clone(),
            limit: Duration::ZERO,
            waited: now - self.since,
            position,
            holder,
            ahead: Vec::new(),
            node: None,
        }
    }
}

/// A request that holds a lock, nodes, or a key. `L` is what its type of lock keeps beside that.
/// `G` names the grant: for a key, a number. In this order: what a request reads comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Holder<L, G = Grant> {
    pub(super) since: HoldStart,
    pub(super) grant: G,
    pub(super) source: RequestSource,
    pub(super) more: L,
}

impl<L> Holder<L> {
    pub(super) fn info(&self, now: MonotonicTime) -> LockInfo {
        self.info_of(self.grant, now)
    }
}

impl<L, G> Holder<L, G> {
    /// Describes it, under this grant.
    pub(super) fn info_of(&self, grant: Grant, now: MonotonicTime) -> LockInfo {
        let held_for = self.since.lasted(now);
        let acquired_at = SystemTime::now().checked_sub(held_for);
        LockInfo {
            lock_id: grant.id(),
            owner_id: self.source.owner.clone(),
            fencing_token: grant.token,
            acquired_at: acquired_at.unwrap_or(SystemTime::UNIX_EPOCH),
            held_for,
            at_least: !self.since.exact,
            untaken: self.source.untaken,
            label: self.source.label.clone(),
            call_site: self.source.call_site.into(),
        }
    }
}

pub(super) struct Request<W: QueuedWork> {
    head: RequestHead,
    /// Set until a thread takes it to run it.
    work: Mutex<{ rank::REQUEST }, Option<W>>,
    /// The outcome, with what another thread has left of the work.
    mailbox: Mailbox<Answered<W>>,
    /// Whether a [wake-up chain](super::wake_chain) woke it. Written while it sleeps, under its
    /// mutex.
    pub(super) woken_by_chain: AtomicBool,
}

/// The outcome of a request, and what is left of the work that another thread has run.
pub(super) struct Answered<W: QueuedWork>(
    pub(super) RequestOutcome<W::Reply>,
    pub(super) Option<W>,
);

impl<W: QueuedWork> Request<W> {
    pub(super) fn new(
        requester: &Requester<'_>,
        work: Option<W>,
        waits: Option<(WaiterKind, WaitDeadline)>,
    ) -> Self {
        Self {
            head: RequestHead::new(requester, work.as_ref(), waits),
            work: Mutex::new(work),
            mailbox: Mailbox::new(),
            woken_by_chain: AtomicBool::new(false),
        }
    }

    pub(super) fn take_work(&self) -> Option<W> {
        self.work.lock().take()
    }

    pub(super) fn answer(&self, outcome: RequestOutcome<W::Reply>) {
        self.mailbox.answer(Answered(outcome, None));
    }
}

impl<W: QueuedWork> Drop for Request<W> {
    /// Drops the work of a task that is gone, in another thread: a panic of users' code ends here.
    fn drop(&mut self) {
        if self.head.is_left_by_task() {
            dispose((self.take_work(), self.mailbox.take()));
        }
    }
}

impl<W: QueuedWork> Recipient for Request<W> {
    type Outcome = Answered<W>;

    fn mailbox(&self) -> &Mailbox<Answered<W>> {
        &self.mailbox
    }
}

impl<W: QueuedWork> Waiting for Request<W> {
    fn head(&self) -> &RequestHead {
        &self.head
    }

    fn deliver(&self, verdict: LockOutcome) {
        self.answer(RequestOutcome::OfTheLock(verdict));
    }

    fn serve(&self, grant: Grant) -> Rest {
        let Some(mut work) = self.take_work() else {
            debug_assert!(false, "only work for another thread is served, and once");
            return Rest::Awake;
        };
        // A panic leaves no visible state: the work owns all that it changes, and ends.
        let reply = catch(|| work.run(grant));
        let outcome = reply.map_or_else(RequestOutcome::Panicked, RequestOutcome::Done);
        self.mailbox.leave(Answered(outcome, Some(work)))
    }

    fn after_keeper(&self) -> Option<LeftWork> {
        self.work.lock().as_ref().and_then(W::after_keeper)
    }
}

impl<W: QueuedWork> Sleeper for Request<W> {
    fn wake(&self) -> bool {
        self.mailbox
            .wake_in_chain(|| self.woken_by_chain.store(true, Ordering::Relaxed))
    }
}
