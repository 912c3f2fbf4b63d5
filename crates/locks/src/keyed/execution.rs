//! The execution of a task under a hold, and the requests that share its result.

use std::marker::PhantomData;

use smol_str::SmolStr;

use super::shard::{AnsweredRequests, EndedHold};
use super::*;
use crate::brief::Brief;
use crate::caught::CaughtPanic;
use crate::codes::codes;
use crate::request::RequestSource;
use crate::show::Named;

impl<K, V> KeyedShards<K, V> {
    /// Ends the hold of a task with its result or its panic.
    #[inline(always)]
    pub(super) fn end_with(&self, hold: Hold, ended: Result<V, CaughtPanic>) -> V {
        self.end(hold, Some(&ended));
        ended.unwrap_or_else(|panic| panic.resume())
    }

    /// Ends a hold. The next request in the queue gets the key in the same step.
    #[inline(always)]
    pub(super) fn end(&self, hold: Hold, ending: Ending<'_, V>) {
        let ended = self.shard_with(hold.key.number).end(hold, &self.clock);
        let EndedHold { gone, held, waited } = ended;
        if held.is_some() || waited.is_some() {
            self.answer(held, waited, ending);
        }
        drop(gone);
    }

    /// Answers the requests that waited for the end of a hold.
    #[cold]
    fn answer(
        &self,
        held: Option<(Duration, u16)>,
        mut waited: Option<Box<AnsweredRequests<V>>>,
        ending: Ending<'_, V>,
    ) {
        let wait = waited.as_mut().and_then(|waited| {
            let answers = waited.answers.drain(..);
            answers.for_each(|(request, outcome)| request.deliver(outcome));
            waited.wait
        });
        let mut metrics = self.metrics.lock();
        if let Some((held, weight)) = held {
            metrics.record_hold(held, weight);
        }
        if let Some(wait) = wait {
            metrics.record_wait(wait);
        }
        drop(metrics);
        if let Some(waited) = waited {
            // Requests that left meanwhile leave their clones behind, and dropping these is code of
            // users. So no handle is dropped before all requests are answered.
            for joiner in &waited.joiners {
                joiner.share(&waited.task, ending);
            }
        }
    }

    /// Binds a hold to the thread that executes its task; zero for a task of an executor, which
    /// knows of the hold from now on.
    pub(super) fn bind(&self, hold: Hold, thread: u64) {
        if let Some(active) = self.shard_with(hold.key.number).active(hold.key) {
            let source = &mut active.entry.state.source;
            (source.thread, source.untaken) = (thread, false);
        }
    }
}

/// A running task that other threads can join, however late:
/// [`KeyedLock::current_execution`](super::KeyedLock::current_execution). Dropping it does not
/// affect the task.
#[must_use = "it is joined with `join`"]
pub struct Execution<K: 'static, V: Send + 'static> {
    pub(super) queued: KeyedRequest<K, V, Join<V>>,
    pub(super) id: LockId,
    pub(super) owner: OwnerId,
}

impl<K: 'static, V: Send + 'static> Execution<K, V> {
    /// Returns the id of the grant under which the task is executed.
    pub fn id(&self) -> LockId {
        self.id
    }

    /// Returns the owner that executes the task.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }
}

impl<K: Send + 'static, V: Send + 'static> Execution<K, V> {
    /// Blocks until the task ends and returns a clone of its result, or until the lock's timeout.
    /// If the two race, the result wins.
    ///
    /// The executing thread makes one clone for each joined request, after the hand-off of the key
    /// and before its own call returns. If that panics, the panic resumes here, and nowhere else.
    ///
    /// # Errors
    ///
    /// [`ExecutionError`]: the task panicked, or was never executed; the wait ended first; or the
    /// calling thread executes the task itself.
    ///
    /// ```
    /// use doclock_locks::keyed::KeyedLock;
    ///
    /// let tokens: KeyedLock<String, u32> = KeyedLock::new();
    /// let refresh = tokens.reserve("service")?;
    /// // Another thread finds that the token is already refreshed.
    /// let running = tokens.current_execution("service").expect("the turn has the key");
    /// refresh.execute(|| 4711)?;
    /// assert_eq!(running.join()?, 4711);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join(self) -> Result<V, ExecutionError> {
        self.request_result().wait()
    }

    /// Requests a clone of the result, as [`join`](Self::join) does, with a timeout, which begins
    /// with the wait, or a cancel token; other options have no effect. End it with
    /// [`wait`](PendingRequest::wait) or `.await`.
    ///
    /// With [`no_wait`](PendingRequest::no_wait) it only checks for a result. If the future is
    /// dropped, the request leaves; the task goes on. A task that joins itself waits until its
    /// timeout.
    ///
    /// ```
    /// use doclock_locks::keyed::KeyedLock;
    ///
    /// # pollster::block_on(async {
    /// let tokens: KeyedLock<String, u32> = KeyedLock::new();
    /// let turn = tokens.reserve("service")?;
    /// let refresh = tokens.current_execution("service").expect("the turn has the key");
    /// turn.execute_async(async { 4711 }).await?;
    /// assert_eq!(refresh.request_result().await?, 4711);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn request_result(self) -> PendingRequest<'static, Self> {
        PendingRequest::new(self)
    }
}

impl<K: Send + 'static, V: Send + 'static> LockRequest for Execution<K, V> {
    type Granted = V;
    type Error = ExecutionError;

    async fn grant_as(self, context: RequestContext) -> Result<V, ExecutionError> {
        let Self { queued, id, owner } = self;
        let (waits_as, options) = (context.waits_as, &context.options);
        if waits_as == WaiterKind::Thread {
            queued.refuse_self()?;
        }
        let deadline = queued.shared.how_to_wait(options).deadline;
        match queued.until(deadline, options).wait(waits_as).await {
            RequestOutcome::Done(result) => result,
            RequestOutcome::Panicked(panic) => panic.resume(),
            RequestOutcome::OfTheLock(Err(error)) => Err(ExecutionError::Lock(*error)),
            // It requests no grant.
            RequestOutcome::OfTheLock(Ok(_)) => Err(ExecutionError::Abandoned { id, owner }),
        }
    }
}

impl<K: 'static, V: Send + 'static> fmt::Debug for Execution<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// The error of a join that returned no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The task panicked. The panic resumes in the thread that executed the task.
    #[error(transparent)]
    Panicked(Box<TaskPanic>),
    /// The task was not executed: its [`Reservation`](super::Reservation) was dropped.
    #[error("task {id} of {owner} was not executed: its reservation was dropped", owner = Brief(.owner))]
    Abandoned {
        /// The id of the grant.
        id: LockId,
        /// The owner that had reserved it.
        owner: OwnerId,
    },
    /// The wait ended before the task.
    #[error(transparent)]
    Lock(#[from] LockError),
}

codes! { inherent ExecutionError {
    Self::Panicked(panic) => as panic;
    Self::Abandoned { id, owner } => "taskAbandoned", 503;
    Self::Lock(error) => as error;
}}

/// A panic of a task, as reported to the requests that joined it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPanic {
    /// The id of the grant under which the task was executed.
    pub id: LockId,
    /// The owner that executed it.
    pub owner: OwnerId,
    /// The label of the request.
    pub label: Option<SmolStr>,
    /// The message of the panic, if it had one.
    pub message: Option<String>,
}

impl fmt::Display for TaskPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Named(&self.id, &self.owner, self.label.as_ref());
        write!(f, "task {named} panicked")?;
        let message = self.message.as_ref();
        message.map_or(Ok(()), |message| write!(f, ": {message}"))
    }
}

impl std::error::Error for TaskPanic {}

codes! { inherent TaskPanic {
    Self { id, owner, label, message } => "taskPanicked" {
        id: id,
        owner: owner,
        label: label,
        panic_message: message,
    }, 500;
}}

/// The id of the grant under which a task was executed, and who executed it.
pub(super) type EndedTask = (LockId, RequestSource);

/// The result or the panic of a task. `None` if it was not executed.
pub(super) type Ending<'a, V> = Option<&'a Result<V, CaughtPanic>>;

/// The request of a join: it brings no work and gets a result.
pub(super) struct Join<V>(Infallible, PhantomData<fn() -> V>);

impl<V: Send + 'static> QueuedWork for Join<V> {
    type Reply = Result<V, ExecutionError>;

    fn run(&mut self, _: Grant) -> Self::Reply {
        match self.0 {}
    }
}

/// A request that gets the result. It carries the clone function, so that only joins need `V:
/// Clone`.
pub(super) trait Joiner<V>: Waiting {
    /// Called once, without the mutex of any lock.
    fn share(&self, task: &EndedTask, ending: Ending<'_, V>);
}

impl<V: Clone + Send + 'static> Joiner<V> for Request<Join<V>> {
    fn share(&self, (id, source): &EndedTask, ending: Ending<'_, V>) {
        assert_unlocked("a result is cloned");
        let (id, owner) = (*id, || source.owner.clone());
        let result = match ending {
            // Nothing can observe the state that a panicking clone leaves.
            Some(Ok(value)) => match catch(|| V::clone(value)) {
                Ok(value) => Ok(value),
                Err(panic) => return self.answer(RequestOutcome::Panicked(panic)),
            },
            Some(Err(panic)) => Err(ExecutionError::Panicked(Box::new(TaskPanic {
                id,
                owner: owner(),
                label: source.label.clone(),
                message: panic.message().map(str::to_owned),
            }))),
            None => Err(ExecutionError::Abandoned { id, owner: owner() }),
        };
        self.answer(RequestOutcome::Done(result));
    }
}
