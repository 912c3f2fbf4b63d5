//! The requests of a keyed lock, and their waits: for a turn at a key, and for the end of all
//! present tasks.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::pin::{Pin, pin};
use std::sync::Arc;

use super::KeyedLock;
use super::entry::{Hold, KeyedPosition};
use super::execution::{Ending, run_to_end};
use super::shards::KeyedShards;
use crate::id::{LockId, OwnerId};
use crate::keeper::KeeperSlot;
use crate::request::{QueuedWork, Request, RequestOutcome, Requester, Waiting};
use crate::sync::{Mutex, thread_number};
use crate::threads::ALL_TASKS;
use crate::time::Clock;
use crate::wait::{Look, Reason, Wait, WaitDeadline, WaitQueue, WaiterKind, blocking};
use crate::{CancelToken, LockError, LockRequest, PendingRequest, RequestContext};

/// A request for a turn at a key: [`KeyedLock::request`].
#[derive(Debug)]
pub struct KeyRequest<'a, K, V, Q: ?Sized> {
    pub(super) lock: &'a KeyedLock<K, V>,
    pub(super) key: &'a Q,
    pub(super) owner: OwnerId,
}

impl<K, V, Q> LockRequest for KeyRequest<'_, K, V, Q>
where
    K: Borrow<Q> + Send + 'static,
    V: 'static,
    Q: Eq + Hash + ToOwned<Owned = K> + Sync + ?Sized,
{
    type Granted = Reservation<K, V>;
    type Error = LockError;

    fn try_grant(
        &mut self,
        context: &RequestContext,
    ) -> Result<Option<Reservation<K, V>>, LockError> {
        let requester = bound_to(context.waits_as.thread(), context, &self.owner);
        let shared = &self.lock.0;
        shared.ask(self.key, &requester, &context.options, false)
    }

    async fn grant_as(self, context: RequestContext) -> Result<Reservation<K, V>, LockError> {
        let requester = bound_to(context.waits_as.thread(), &context, &self.owner);
        let shared = &self.lock.0;
        let turn = shared.ask(self.key, &requester, &context.options, true)?;
        let mut turn = turn.expect("it waits");
        turn.wait_for_turn(context.waits_as).await?;
        Ok(turn)
    }
}

/// Describes a request that is bound to a thread whatever the options say, because one thread
/// executes a task, and it cannot wait for itself.
#[inline]
fn bound_to<'a>(thread: u64, context: &'a RequestContext, owner: &'a OwnerId) -> Requester<'a> {
    Requester {
        thread,
        bound: true,
        ..context.requester(owner, false)
    }
}

impl<K, V, Q> PendingRequest<'_, KeyRequest<'_, K, V, Q>>
where
    K: Borrow<Q> + 'static,
    V: 'static,
    Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
{
    /// Takes a queue position for the key, or the key if it is idle. Never blocks.
    ///
    /// The timeout begins here; [`Reservation::execute`] checks it and the cancel token.
    /// [`KeyedLock::reserve`] is the short form, and says what a position is for.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the queue is full; the key is not free and the request was not allowed to
    /// wait; its token was already cancelled.
    pub fn reserve(self) -> Result<Reservation<K, V>, LockError> {
        let (KeyRequest { lock, key, owner }, context) = (self.request, self.context);
        // The executing thread is not known yet, and a position does not wait.
        let requester = bound_to(0, &context, &owner);
        let turn = lock.0.ask(key, &requester, &context.options, true)?;
        Ok(turn.expect("it waits"))
    }
}

/// A request for the end of all present tasks: [`KeyedLock::request_drain`].
#[derive(Debug)]
pub struct DrainRequest<'a, K, V> {
    pub(super) lock: &'a KeyedLock<K, V>,
    pub(super) owner: OwnerId,
}

impl<K: Send + 'static, V: 'static> LockRequest for DrainRequest<'_, K, V> {
    type Granted = ();
    type Error = LockError;

    async fn grant_as(self, context: RequestContext) -> Result<(), LockError> {
        let requester = bound_to(context.waits_as.thread(), &context, &self.owner);
        let shared = &self.lock.0;
        if context.options.is_cancelled() {
            shared.shard_with(0).state.counts.total_cancellations += 1;
            return Err(LockError::cancelled(&self.owner));
        }
        let deadline = shared.how_to_wait(&context.options).deadline;
        for queued in shared.join_drains(&requester, deadline)? {
            let cancel = context.options.cancel.as_ref();
            queued.wait_for_grant(context.waits_as, cancel).await?;
        }
        Ok(())
    }
}

/// A turn at a key: the key itself, or a queue position for it.
///
/// [`KeyedLock::reserve`](super::KeyedLock::reserve) takes a position without waiting. A
/// [request](super::KeyedLock::request) that has waited returns the key.
///
/// Dropping it gives up the turn, and the next request in the queue gets the key. It may move to
/// the thread that executes the task, so a position is bound to no thread before that. Thus a
/// thread that keeps a position and requests the same key, or waits for all, waits for itself
/// without an error. The key that a thread waited for is bound to that thread until another one
/// executes the task.
#[must_use = "a turn that is dropped is given up"]
pub struct Reservation<K: 'static, V: 'static> {
    pub(super) shared: Arc<KeyedShards<K, V>>,
    pub(super) hold: Hold,
    /// Set while the request waits.
    pub(super) waits: TurnWait<K, V>,
    pub(super) cancel: Option<CancelToken>,
    /// The thread to which it is bound; zero for none.
    pub(super) thread: u64,
    pub(super) is_used: bool,
}

impl<K: 'static, V: 'static> Reservation<K, V> {
    /// Returns the id of the request and of its grant.
    pub fn id(&self) -> LockId {
        let (number, lock) = (self.hold.number, self.shared.lock);
        LockId::new(number, lock)
    }
}

impl<K: Send + 'static, V: 'static> Reservation<K, V> {
    /// Waits for the turn, executes the task in the calling thread, and releases the key.
    ///
    /// Blocks until all earlier tasks of the same key have ended, or until the timeout that began
    /// with the reservation. A turn that was granted before the timeout stays granted, however late
    /// this is called.
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed: the wait timed out or was cancelled; the
    /// calling thread already executes a task for the same key. There is none if the request has
    /// already waited.
    ///
    /// # Panics
    ///
    /// If the task panics, the panic resumes here after the hand-off of the key.
    #[inline]
    pub fn execute(mut self, task: impl FnOnce() -> V) -> Result<V, LockError> {
        if self.waits.is_some() {
            blocking(self.wait_for_turn(WaiterKind::Thread))?;
        }
        self.bind(thread_number());
        self.is_used = true;
        Ok(self.shared.execute(self.hold, task))
    }

    #[doc(hidden)] // Binds the turn, which has waited, to a thread.
    pub fn bind(&mut self, thread: u64) {
        if std::mem::replace(&mut self.thread, thread) != thread {
            self.shared.bind(self.hold, thread);
        }
    }

    /// Waits for the turn in a task, executes the given future, and releases the key.
    ///
    /// The timeout and the order are those of [`execute`](Self::execute). If the future that this
    /// returns is dropped, the turn is given up: the request leaves its queue, or the key is
    /// released and the given future is dropped unfinished. Requests that joined it get
    /// [`ExecutionError::Abandoned`](super::ExecutionError::Abandoned).
    ///
    /// # Errors
    ///
    /// [`LockError`], and the given future is not polled: the wait timed out or was cancelled.
    ///
    /// # Panics
    ///
    /// If the given future panics, the panic resumes here after the hand-off of the key.
    pub async fn execute_async(mut self, task: impl Future<Output = V>) -> Result<V, LockError> {
        if self.waits.is_some() {
            // In a box, this future is `Send` for keys of any lifetime.
            let wait: Pin<Box<dyn Future<Output = _> + Send + '_>> =
                Box::pin(self.wait_for_turn(WaiterKind::Task));
            wait.await?;
        }
        self.bind(0);
        // Dropped after the release of the key: that is code of users.
        let mut task = pin!(task);
        let ended = run_to_end(task.as_mut()).await;
        self.is_used = true;
        Ok(self.shared.end_with(self.hold, ended))
    }

    pub(super) async fn wait_for_turn(&mut self, waits_as: WaiterKind) -> Result<(), LockError> {
        let Some(waits) = self.waits.take() else {
            return Ok(());
        };
        // A request that is bound to its thread was refused before it joined the queue.
        if waits_as == WaiterKind::Thread && self.thread == 0 {
            waits.refuse_self()?;
        }
        waits.wait_for_grant(waits_as, self.cancel.as_ref()).await?;
        if waits_as == WaiterKind::Task {
            self.shared.bind(self.hold, 0);
        }
        Ok(())
    }
}

impl<K: 'static, V: 'static> Drop for Reservation<K, V> {
    /// Leaves the queue, and ends the hold if there is one by then.
    fn drop(&mut self) {
        if !self.is_used {
            self.waits = None;
            self.shared.end(self.hold, &Ending::Abandoned);
        }
    }
}

impl<K: 'static, V: 'static> fmt::Debug for Reservation<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl<K: Send + 'static, V: 'static> WaitQueue for KeyedShards<K, V> {
    type Ticket = KeyedPosition;

    fn waits_for(waiting_at: KeyedPosition) -> u64 {
        match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _) => key.number,
            KeyedPosition::Drain(_) => ALL_TASKS,
        }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, waiting_at: KeyedPosition, reason: Reason) {
        let mut shard = self.shard_of(waiting_at);
        let answer = shard.withdraw(waiting_at, reason, self.clock.now());
        drop(shard);
        if let Some((request, outcome)) = answer {
            request.deliver(outcome);
        }
    }

    fn keeper(&self) -> &KeeperSlot {
        &self.keeper
    }

    /// A turn that was granted is ended with its [`Reservation`].
    fn abandon(&self, waiting_at: KeyedPosition) {
        let mut shard = self.shard_of(waiting_at);
        if shard.take_out(waiting_at).is_some() {
            shard.state.counts.total_cancellations += 1;
        }
    }

    fn check_waits_and_holds(&self, look: &mut Look<'_, KeyedPosition>) {
        for shard in self.each().map(Mutex::lock) {
            shard.each_waiting(|waiting_at, request| look.at(waiting_at, request.head().task()));
        }
    }
}

/// The wait for a turn, while the request waits.
pub(super) type TurnWait<K, V> = Option<Box<KeyedRequest<K, V, Infallible>>>;

/// A request in a queue, which leaves it on drop.
pub(super) struct KeyedRequest<K: 'static, V: 'static, W: QueuedWork> {
    pub(super) shared: Arc<KeyedShards<K, V>>,
    request: Arc<Request<W>>,
    pub(super) wait: Wait<KeyedPosition>,
    /// Whether it still waits for its outcome.
    is_queued: bool,
}

impl<K: 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) fn new(
        shared: &Arc<KeyedShards<K, V>>,
        waiting_at: KeyedPosition,
        request: Arc<Request<W>>,
        spins: u32,
        deadline: WaitDeadline,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            wait: Wait {
                ticket: waiting_at,
                deadline,
                spins,
                keeper_looks: None,
            },
            is_queued: true,
        }
    }

    /// Refuses a wait for the calling thread itself.
    pub(super) fn refuse_self(&self) -> Result<(), LockError> {
        let requester = (&self.request.head().source.owner, thread_number());
        let mut shard = self.shared.shard_of(self.wait.ticket);
        shard.refuse_self(self.wait.ticket, requester, self.shared.clock.now())
    }
}

impl<K: Send + 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) async fn wait(
        mut self,
        waits_as: WaiterKind,
        cancel: Option<&CancelToken>,
    ) -> RequestOutcome<W::Reply> {
        let deadline = self.wait.deadline;
        let (shared, request) = (Arc::clone(&self.shared), Arc::clone(&self.request));
        let is_at_once = deadline.is_some_and(|(limit, _)| limit.is_zero());
        let may_wait = !is_at_once && !cancel.is_some_and(CancelToken::is_cancelled);
        if let Err(error) = waits_as.attend(&shared, may_wait) {
            let error = LockError::no_keeper(&request.head().source.owner, &error);
            return RequestOutcome::OfTheLock(Err(Box::new(error)));
        }
        if waits_as == WaiterKind::Task {
            // A request is waited for once.
            let _ = request.head().task.set(deadline);
        }
        self.is_queued = false;
        self.wait.keeper_looks = waits_as.ended_by_keeper(deadline);
        let answered = waits_as.wait(&shared, &request, cancel, self.wait).await;
        answered.0
    }
}

impl<K: Send + 'static, V: 'static> KeyedRequest<K, V, Infallible> {
    pub(super) async fn wait_for_grant(
        self,
        waits_as: WaiterKind,
        cancel: Option<&CancelToken>,
    ) -> Result<(), LockError> {
        match self.wait(waits_as, cancel).await {
            RequestOutcome::OfTheLock(granted) => granted.map(drop).map_err(|error| *error),
            RequestOutcome::Done(never) => match never {},
            RequestOutcome::Panicked(panic) => panic.resume(),
        }
    }
}

impl<K: 'static, V: 'static, W: QueuedWork> Drop for KeyedRequest<K, V, W> {
    fn drop(&mut self) {
        if self.is_queued {
            let waiting_at = self.wait.ticket;
            self.shared.shard_of(waiting_at).take_out(waiting_at);
        }
    }
}
