//! The waits of one request to a pool: for the name, for a close, for a slot, and for a thread that
//! opens or closes. They have one deadline together.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use smol_str::SmolStr;

use super::PoolError;
use super::shared::{ClaimedSlot, Shared};
use super::slots::OpenDocuments;
use crate::caught::{CaughtPanic, catch};
use crate::lock::keyed::{ExecutionError, Reservation};
use crate::lock::{LockError, Mailbox, RequestContext, WaiterKind};
use crate::time::{Deadline, MonotonicTime};

/// The turn at the name of a document.
pub(super) type NameTurn = Reservation<SmolStr, ()>;

/// One request to a pool while it waits.
pub(super) struct Waits<'a, T> {
    pub(super) shared: &'a Arc<Shared<T>>,
    name: &'a SmolStr,
    context: RequestContext,
    began: MonotonicTime,
    /// The timeout with its deadline; `None` for a wait without a limit.
    limit: Option<(Duration, Deadline)>,
}

impl<'a, T: Send + Sync + 'static> Waits<'a, T> {
    /// Begins the timeout of the request.
    pub(super) fn new(
        shared: &'a Arc<Shared<T>>,
        name: &'a SmolStr,
        context: RequestContext,
    ) -> Self {
        let began = shared.now();
        let limit = context.options.limit(shared.options.timeout);
        let limit = limit.and_then(|limit| Some((limit, Deadline::after(limit, began)?)));
        Self {
            shared,
            name,
            context,
            began,
            limit,
        }
    }

    pub(super) fn waits_as(&self) -> WaiterKind {
        self.context.waits_as
    }

    /// Describes the next wait: the request, with the time that it has left.
    fn next(&self) -> RequestContext {
        let options = self.context.options.clone();
        let left = |deadline: Deadline| deadline.left(self.shared.now());
        let options = match self.limit {
            Some((limit, _)) if limit.is_zero() => options.no_wait(),
            // A wait that is not allowed would be another error than one that is over.
            Some((_, deadline)) => match left(deadline) {
                Some(left) => options.timeout(left.max(Duration::from_nanos(1))),
                None => options.no_timeout(),
            },
            None => options.no_timeout(),
        };
        RequestContext {
            options,
            ..self.context
        }
    }

    fn waited(&self) -> Duration {
        self.shared.now() - self.began
    }

    fn of_name(&self, error: LockError) -> PoolError {
        PoolError::of_name(self.name, self.waited(), error)
    }

    /// Waits until no earlier request opens or closes the document.
    pub(super) async fn for_name(&self) -> Result<NameTurn, PoolError> {
        let request = self.shared.names.request(self.name, self.name.as_str());
        let turn = request.within(self.next()).await;
        turn.map_err(|error| self.of_name(error))
    }

    /// Waits for the close of the document, if the pool closes it now. Returns whether it did.
    pub(super) async fn for_close(&self) -> Result<bool, PoolError> {
        let Some(close) = self.shared.closes.current_execution(self.name) else {
            return Ok(false);
        };
        match close.request_result().within(self.next()).await {
            Err(ExecutionError::Lock(error)) => Err(self.of_name(error)),
            // It has ended, or was not necessary any more.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// Looks whether the document exists, where the pool knows how. If the future is dropped, the
    /// name is free at once.
    pub(super) async fn for_existing(&self) -> Result<(), PoolError> {
        let Some(find) = self.shared.options.find.clone() else {
            return Ok(());
        };
        let name = self.name.clone();
        self.run(move || find(&name)).await?
    }

    /// Waits for a slot. A request that may not wait takes that of an idle document instead.
    pub(super) async fn for_slot(&self) -> Result<ClaimedSlot<T>, PoolError> {
        let shared = self.shared;
        let may_wait = self.limit.is_none_or(|(limit, _)| !limit.is_zero());
        let wait = shared.begin_wait(may_wait);
        let wait = wait.map_err(|error| PoolError::no_thread(self.name, &error))?;
        let request = shared.slots.request(OpenDocuments);
        let error = match request.within(self.next()).await {
            Ok(permit) => return Ok(shared.claim(wait, permit)),
            Err(error) => error,
        };
        drop(wait);
        if !may_wait {
            let taker = Arc::clone(shared);
            if let Some(slot) = self.run(move || taker.take_idle_slot()).await? {
                return Ok(slot);
            }
        }
        let most_open = shared.options.most_open;
        let waited = self.waited();
        Err(PoolError::of_slot(self.name, most_open, waited, error))
    }

    /// Runs code that blocks, without a limit: for a thread, in the thread. For a task, in a thread
    /// of its own; if the future is dropped meanwhile, the code ends there.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        code: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, PoolError> {
        let ran = run_as(self.waits_as(), code).await;
        ran.map_err(|error| PoolError::no_thread(self.name, &error))
    }
}

/// Runs code that blocks, as [`Waits::run`] does.
pub(super) async fn run_as<R: Send + 'static>(
    waits_as: WaiterKind,
    code: impl FnOnce() -> R + Send + 'static,
) -> io::Result<R> {
    // A model has no threads but its own.
    if waits_as == WaiterKind::Thread || cfg!(loom) {
        return Ok(code());
    }
    let result = Arc::new(Mailbox::new());
    let answer = Arc::clone(&result);
    let thread = std::thread::Builder::new().name("doclock-open".into());
    thread.spawn(move || answer.answer(catch(code)))?;
    match ThreadResult(result).await {
        Ok(result) => Ok(result),
        Err(panic) => panic.resume(),
    }
}

/// The result of a thread, for the task that waits for it.
struct ThreadResult<R: Send + 'static>(Arc<Mailbox<Result<R, CaughtPanic>>>);

impl<R: Send + 'static> Future for ThreadResult<R> {
    type Output = Result<R, CaughtPanic>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(0, context)
    }
}

impl<R: Send + 'static> Drop for ThreadResult<R> {
    fn drop(&mut self) {
        self.0.forget_task();
    }
}
