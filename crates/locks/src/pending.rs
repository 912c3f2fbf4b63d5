//! A request before it is made: its options, and the two ways to wait for it.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smol_str::SmolStr;

use super::{AcquireOptions, CancelToken, Requester};
use crate::id::OwnerId;
use crate::node::Scope;
use crate::wait::{WaiterKind, blocking};

/// A request that has not been made, with its options. `R` determines what is granted: a guard, a
/// transaction, nodes, a turn at a key, or slots of a limiter.
///
/// Errors and statistics name the line that created it. Threads and tasks wait in one queue:
///
/// - [`wait`](Self::wait) makes the request, and blocks the calling thread until the grant.
/// - `.await` makes it in a task. Nothing is requested before the first poll.
///
/// # Cancel safety
///
/// If the future is dropped, the request leaves its queue. A grant that was not taken is released;
/// nodes that a guard requested beside its others stay with that guard.
///
/// ```
/// use std::time::Duration;
///
/// use doclock_locks::FifoLock;
///
/// let lock = FifoLock::new();
/// let guard = lock
///     .request("ann")
///     .label("autosave")
///     .timeout(Duration::from_millis(200))
///     .wait()?;
/// drop(guard);
///
/// # pollster::block_on(async {
/// let guard = lock.request("ann").await?;
/// assert!(lock.is_locked());
/// # drop(guard);
/// # Ok::<(), doclock_locks::LockError>(())
/// # })?;
/// # Ok::<(), doclock_locks::LockError>(())
/// ```
#[must_use = "nothing is requested before it waits"]
pub struct PendingRequest<'a, R> {
    pub(crate) request: R,
    pub(crate) context: RequestContext,
    borrows: PhantomData<&'a ()>,
}

/// How a request is made, whatever it is for.
#[derive(Debug)]
#[doc(hidden)]
pub struct RequestContext {
    pub waits_as: WaiterKind,
    pub options: AcquireOptions,
    pub call_site: &'static Location<'static>,
}

impl RequestContext {
    /// Describes the request for this owner.
    #[inline]
    pub fn requester<'a>(&'a self, owner: &'a OwnerId, transaction: bool) -> Requester<'a> {
        let options = &self.options;
        options.requester_as(self.waits_as, owner, self.call_site, transaction)
    }
}

/// What a pending request asks for.
#[doc(hidden)]
pub trait LockRequest: Sized + Send {
    /// What it is granted.
    type Granted;
    /// Why it was not granted.
    type Error;

    /// Takes what is asked for if it is free and the queue is empty. `None` if not, or if only
    /// [`grant_as`](Self::grant_as) can tell. Called first by both endings.
    fn try_grant(&mut self, _: &RequestContext) -> Result<Option<Self::Granted>, Self::Error> {
        Ok(None)
    }

    /// Makes the request, and waits if needed.
    fn grant_as(
        self,
        context: RequestContext,
    ) -> impl Future<Output = Result<Self::Granted, Self::Error>> + Send;
}

/// A request that can be for nodes instead.
#[doc(hidden)]
pub trait NodesInstead {
    /// The request for nodes.
    type OnNodes;

    fn on_nodes(self, scope: Scope) -> Self::OnNodes;
}

impl<R> PendingRequest<'_, R> {
    #[doc(hidden)]
    #[track_caller]
    pub fn new(request: R) -> Self {
        Self {
            request,
            context: RequestContext {
                waits_as: WaiterKind::Thread,
                options: AcquireOptions::new(),
                call_site: Location::caller(),
            },
            borrows: PhantomData,
        }
    }

    /// Sets a label that errors, the list of the queue and the statistics show.
    pub fn label(self, label: impl Into<SmolStr>) -> Self {
        self.with(|options| options.label(label))
    }

    /// Sets the timeout of the request, which begins with [`wait`](Self::wait) or the first poll.
    /// Zero: it does not wait. The default is that of the lock.
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|options| options.timeout(limit))
    }

    /// Lets the request wait without limit.
    pub fn no_timeout(self) -> Self {
        self.with(AcquireOptions::no_timeout)
    }

    /// Lets the request fail at once instead of waiting.
    pub fn no_wait(self) -> Self {
        self.timeout(Duration::ZERO)
    }

    /// Lets `token` cancel the request while it waits.
    pub fn cancel_token(self, token: &CancelToken) -> Self {
        self.with(|options| options.cancel_token(token))
    }

    fn with(mut self, set: impl FnOnce(AcquireOptions) -> AcquireOptions) -> Self {
        self.context.options = set(self.context.options);
        self
    }

    /// Replaces all options. Some have no method here, as the [priority](AcquireOptions::priority).
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.context.options = options;
        self
    }
}

impl<'a, R: NodesInstead> PendingRequest<'a, R> {
    /// Requests the nodes of a scope instead of the whole document, for a transaction.
    pub fn on(self, scope: impl Into<Scope>) -> PendingRequest<'a, R::OnNodes> {
        PendingRequest {
            request: self.request.on_nodes(scope.into()),
            context: self.context,
            borrows: PhantomData,
        }
    }
}

impl<'a, R: LockRequest + 'a> PendingRequest<'a, R> {
    /// Makes the request and blocks the calling thread until the grant, a cancellation, or the end
    /// of the timeout. If a grant races one of the others, the grant wins.
    ///
    /// # Errors
    ///
    /// [`LockError`](crate::LockError), except for a limiter and a join, which have error types of
    /// their own; nothing is granted then. [`NoKeeper`](crate::LockError::NoKeeper) is an error of
    /// tasks alone. [`Reentrant`](crate::LockError::Reentrant) is one of threads: a task that
    /// requests again what it holds waits until its timeout, at a keyed lock for ever without one.
    #[inline]
    pub fn wait(mut self) -> Result<R::Granted, R::Error> {
        match self.request.try_grant(&self.context).transpose() {
            Some(granted) => granted,
            None => blocking(self.request.grant_as(self.context)),
        }
    }

    /// Makes the request as a part of another one, with the options and the kind of waiter of that.
    #[doc(hidden)]
    pub async fn within(mut self, context: RequestContext) -> Result<R::Granted, R::Error> {
        match self.request.try_grant(&context).transpose() {
            Some(granted) => granted,
            None => self.request.grant_as(context).await,
        }
    }
}

impl<R> fmt::Debug for PendingRequest<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRequest")
            .field("options", &self.context.options)
            .finish_non_exhaustive()
    }
}

impl<'a, R: LockRequest + Unpin + 'a> IntoFuture for PendingRequest<'a, R> {
    type Output = Result<R::Granted, R::Error>;
    type IntoFuture = GrantFuture<'a, R, R::Granted, R::Error>;

    fn into_future(self) -> Self::IntoFuture {
        let mut context = self.context;
        context.waits_as = WaiterKind::Task;
        GrantFuture::Begins(self.request, context)
    }
}

/// The wait of a task for its grant: the future of a [`PendingRequest`].
///
/// What is free is taken in the first poll, without an allocation.
// The types of the result are parameters: a task is `Send` only if the compiler need not look them
// up for keys of any lifetime.
#[must_use = "nothing is requested before it is polled"]
pub enum GrantFuture<'a, R, G, E> {
    Begins(R, RequestContext),
    Ended,
    Waits(Pin<Box<dyn Future<Output = Result<G, E>> + Send + 'a>>),
}

impl<'a, R, G, E> Future for GrantFuture<'a, R, G, E>
where
    R: LockRequest<Granted = G, Error = E> + Unpin + 'a,
{
    type Output = Result<G, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Self::Begins(request, context) = &mut *self {
            if let Some(granted) = request.try_grant(context).transpose() {
                *self = Self::Ended;
                return Poll::Ready(granted);
            }
            if let Self::Begins(request, context) = mem::replace(&mut *self, Self::Ended) {
                *self = Self::Waits(Box::pin(request.grant_as(context)));
            }
        }
        match &mut *self {
            Self::Waits(wait) => wait.as_mut().poll(context),
            Self::Begins(..) | Self::Ended => panic!("a future is not polled after its end"),
        }
    }
}

impl<R, G, E> fmt::Debug for GrantFuture<'_, R, G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantFuture")
    }
}
