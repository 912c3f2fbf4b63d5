//! The requests of a keyed lock, and their waits: for a turn at a key, and for the end of all
//! present tasks.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::shard::Drain;
use super::*;
use crate::CancelToken;
use crate::queue::Ticket;
use crate::sync::thread_number;
use crate::threads::ALL_TASKS;
use crate::wait::{Look, Wait, WaitDeadline, WaitQueue, blocking};

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
        ..context.requester(owner, false)
    }
}

impl<K, V, Q> PendingRequest<'_, KeyRequest<'_, K, V, Q>>
where
    K: Borrow<Q> + 'static,
    V: 'static,
    Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
{
    /// Takes a queue position for the key, or the key if it is idle, as [`KeyedLock::reserve`] does
    /// without options. Never blocks. The timeout begins here; [`Reservation::execute`] checks it
    /// and the cancel token.
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
        for queued in shared.join_drains(&requester, &context.options)? {
            queued.wait_for_grant(context.waits_as).await?;
        }
        Ok(())
    }
}

/// A turn at a key: a queue position for it, which [`KeyedLock::reserve`] takes without waiting, or
/// the key itself, which a [request](KeyedLock::request) that has waited returns.
///
/// Dropping it gives up the turn, and the next request in the queue gets the key. A position is
/// bound to no thread until one executes the task. Thus a thread that keeps a position and requests
/// the same key, or waits for all, waits for itself without an error. The key that a thread waited
/// for is bound to that thread until another one executes the task.
#[must_use = "a turn that is dropped is given up"]
pub struct Reservation<K: 'static, V: 'static> {
    pub(super) shared: Arc<KeyedShards<K, V>>,
    pub(super) hold: Hold,
    /// Set while the request waits.
    pub(super) waits: TurnWait<K, V>,
    /// The thread to which it is bound; zero for none.
    pub(super) thread: u64,
    pub(super) is_used: bool,
}

impl<K: 'static, V: 'static> Reservation<K, V> {
    /// Returns the id of the request and of its grant.
    pub fn id(&self) -> LockId {
        LockId::new(self.hold.number, self.shared.lock)
    }
}

impl<K: Send + 'static, V: 'static> Reservation<K, V> {
    /// Waits for the turn, executes the task in the calling thread, and releases the key. A panic
    /// of the task resumes here after the hand-off of the key.
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
    #[inline]
    pub fn execute(mut self, task: impl FnOnce() -> V) -> Result<V, LockError> {
        if self.waits.is_some() {
            blocking(self.wait_for_turn(WaiterKind::Thread))?;
        }
        self.bind(thread_number());
        self.is_used = true;
        assert_unlocked("a task is called");
        // Nothing observes the state that a panic leaves before the panic resumes.
        Ok(self.shared.end_with(self.hold, catch(task)))
    }

    #[doc(hidden)] // Binds the turn, which has waited, to a thread.
    pub fn bind(&mut self, thread: u64) {
        if std::mem::replace(&mut self.thread, thread) != thread {
            self.shared.bind(self.hold, thread);
        }
    }

    /// Waits for the turn in a task, executes the given future, and releases the key: with the
    /// timeout, order and panics of [`execute`](Self::execute).
    ///
    /// If the future that this returns is dropped, the turn is given up: the request leaves its
    /// queue, or the key is released and the given future is dropped unfinished. Requests that
    /// joined it get [`ExecutionError::Abandoned`](super::ExecutionError::Abandoned).
    ///
    /// # Errors
    ///
    /// [`LockError`], and the given future is not polled: the wait timed out or was cancelled.
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
        assert_unlocked("a task is polled");
        // Nothing observes the state that a panic leaves before the panic resumes.
        let polled = poll_fn(|context| match catch(|| task.as_mut().poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        let ended = polled.await;
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
        waits.wait_for_grant(waits_as).await?;
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
            self.shared.end(self.hold, None);
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
            for entry in shard.entries.iter() {
                let Some(queues) = &entry.state.more else {
                    continue;
                };
                for (ticket, waiter) in queues.turns.iter(None) {
                    let waiting_at = KeyedPosition::Turn(entry.id, ticket);
                    look.at(waiting_at, waiter.request.head().task());
                }
                for (ticket, waiter) in queues.joins.iter(None) {
                    let waiting_at = KeyedPosition::Join(entry.id, ticket);
                    look.at(waiting_at, waiter.request.head().task());
                }
            }
            for Drain { waiter, .. } in &shard.state.drains {
                let waiting_at = KeyedPosition::Drain(waiter.number);
                look.at(waiting_at, waiter.request.head().task());
            }
        }
    }
}

/// The wait for a turn, while the request waits.
pub(super) type TurnWait<K, V> = Option<Box<KeyedRequest<K, V, Infallible>>>;

/// A grant of a key, with the number of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) key: KeyId,
    pub(super) number: u64,
}

/// The position where a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyedPosition {
    /// In the queue of a key.
    Turn(KeyId, Ticket),
    /// Among the requests for the result of the task that held the key at that moment.
    Join(KeyId, Ticket),
    /// For all requests of a shard with a lower number.
    Drain(u64),
}

/// A request in a queue, which leaves it on drop.
pub(super) struct KeyedRequest<K: 'static, V: 'static, W: QueuedWork> {
    pub(super) shared: Arc<KeyedShards<K, V>>,
    request: Arc<Request<W>>,
    wait: Wait<KeyedPosition>,
    cancel: Option<CancelToken>,
    /// Whether it still waits for its outcome.
    is_queued: bool,
}

impl<K: 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) fn new(
        shared: &Arc<KeyedShards<K, V>>,
        waiting_at: KeyedPosition,
        request: Arc<Request<W>>,
        spins: u32,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            wait: Wait {
                ticket: waiting_at,
                deadline: None,
                spins,
                keeper_looks: None,
            },
            cancel: None,
            is_queued: true,
        }
    }

    /// Sets what ends the wait besides its outcome.
    pub(super) fn until(mut self, deadline: WaitDeadline, options: &AcquireOptions) -> Self {
        (self.wait.deadline, self.cancel) = (deadline, options.cancel.clone());
        self
    }

    /// Refuses a wait for the calling thread itself.
    pub(super) fn refuse_self(&self) -> Result<(), LockError> {
        let (waiting_at, owner) = (self.wait.ticket, &self.request.head().source.owner);
        let mut shard = self.shared.shard_of(waiting_at);
        let waits = shard.position(waiting_at).is_some();
        let active = match waiting_at {
            KeyedPosition::Turn(key, _) | KeyedPosition::Join(key, _) if waits => shard.active(key),
            _ => None,
        };
        active.map_or(Ok(()), |mut active| {
            active.refuse_reentry(owner, thread_number(), self.shared.clock.now())
        })
    }
}

impl<K: Send + 'static, V: 'static, W: QueuedWork> KeyedRequest<K, V, W> {
    pub(super) async fn wait(mut self, waits_as: WaiterKind) -> RequestOutcome<W::Reply> {
        let (deadline, shared, request) = (self.wait.deadline, &self.shared, &self.request);
        let cancel = self.cancel.as_ref();
        let is_at_once = deadline.is_some_and(|(limit, _)| limit.is_zero());
        let may_wait = !is_at_once && !cancel.is_some_and(CancelToken::is_cancelled);
        if let Err(error) = waits_as.attend(shared, may_wait) {
            let error = LockError::no_keeper(&request.head().source.owner, &error);
            return RequestOutcome::OfTheLock(Err(Box::new(error)));
        }
        if waits_as == WaiterKind::Task {
            // A request is waited for once.
            let _ = request.head().task.set(deadline);
        }
        self.is_queued = false;
        self.wait.keeper_looks = waits_as.ended_by_keeper(deadline);
        waits_as.wait(shared, request, cancel, self.wait).await.0
    }
}

impl<K: Send + 'static, V: 'static> KeyedRequest<K, V, Infallible> {
    pub(super) async fn wait_for_grant(self, waits_as: WaiterKind) -> Result<(), LockError> {
        match self.wait(waits_as).await {
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
