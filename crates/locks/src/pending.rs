//! A lock request before it is made: its options, and the two ways to wait for it.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smol_str::SmolStr;

use super::{AcquireOptions, CancelToken, LockError};
use crate::wait::{WaitsAs, blocking};

/// A request that has not been made, with its options. `R` determines what is granted: a guard, a
/// transaction, or nodes.
///
/// Errors and statistics name the line that created it. Threads and tasks wait in one queue:
///
/// - [`wait`](Self::wait) makes the request, and blocks the calling thread until the grant.
/// - `.await` makes it in a task. Nothing is requested before the first poll.
///
/// # Cancel safety
///
/// If the future is dropped, the request leaves its queue. A grant that was not taken is released.
/// Nodes that were granted to a guard that requested more of them stay with that guard.
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
    request: R,
    options: AcquireOptions,
    call_site: &'static Location<'static>,
    borrows: PhantomData<&'a ()>,
}

/// What a pending request asks for.
#[doc(hidden)]
pub trait LockRequest: Sized + Send {
    /// What it is granted.
    type Granted;

    /// Takes what a task asks for if it is free and the queue is empty. `None` if not, or if only
    /// [`grant_as`](Self::grant_as) can tell.
    fn try_grant_to_task(
        &self,
        _options: &AcquireOptions,
        _call_site: &'static Location<'static>,
    ) -> Result<Option<Self::Granted>, LockError> {
        Ok(None)
    }

    /// Makes the request, and waits if needed.
    fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> impl Future<Output = Result<Self::Granted, LockError>> + Send;
}

impl<'a, R: LockRequest + 'a> PendingRequest<'a, R> {
    #[doc(hidden)]
    #[track_caller]
    pub fn new(request: R) -> Self {
        Self {
            request,
            options: AcquireOptions::new(),
            call_site: Location::caller(),
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

    /// Lets `token` cancel the request while it waits.
    pub fn cancel_token(self, token: &CancelToken) -> Self {
        self.with(|options| options.cancel_token(token))
    }

    fn with(mut self, set: impl FnOnce(AcquireOptions) -> AcquireOptions) -> Self {
        self.options = set(self.options);
        self
    }

    /// Sets all options at once, and replaces those that were set before. It is for options that
    /// have no method here, such as the [priority](AcquireOptions::priority).
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// Makes the request and blocks the calling thread until the grant, a cancellation, or the end
    /// of the timeout. If a grant races one of the others, the grant wins.
    ///
    /// # Errors
    ///
    /// [`LockError`]; nothing is granted then. It is the same in a task, with two differences:
    /// [`LockError::NoKeeper`] is an error of tasks alone, and a task that requests again what it
    /// holds waits until its timeout instead of getting [`LockError::Reentrant`].
    pub fn wait(self) -> Result<R::Granted, LockError> {
        let (request, options, call_site) = (self.request, self.options, self.call_site);
        blocking(request.grant_as(WaitsAs::Thread, options, call_site))
    }
}

impl<R> fmt::Debug for PendingRequest<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRequest")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a, R: LockRequest + Unpin + 'a> IntoFuture for PendingRequest<'a, R> {
    type Output = Result<R::Granted, LockError>;
    type IntoFuture = GrantFuture<'a, R>;

    fn into_future(self) -> GrantFuture<'a, R> {
        GrantFuture::Begins(self.request, self.options, self.call_site)
    }
}

/// The wait of a task for its grant: the future of a [`PendingRequest`].
///
/// A guard of a free lock is taken in the first poll, without an allocation.
#[must_use = "nothing is requested before it is polled"]
pub enum GrantFuture<'a, R: LockRequest> {
    #[doc(hidden)]
    Begins(R, AcquireOptions, &'static Location<'static>),
    #[doc(hidden)]
    Ended,
    #[doc(hidden)]
    Waits(Pin<Box<dyn Future<Output = Result<R::Granted, LockError>> + Send + 'a>>),
}

impl<'a, R: LockRequest + 'a> GrantFuture<'a, R> {
    #[cold]
    fn begin_to_wait(&mut self) {
        if let Self::Begins(request, options, call_site) = mem::replace(self, Self::Ended) {
            let wait = request.grant_as(WaitsAs::Task, options, call_site);
            *self = Self::Waits(Box::pin(wait));
        }
    }
}

impl<'a, R: LockRequest + Unpin + 'a> Future for GrantFuture<'a, R> {
    type Output = Result<R::Granted, LockError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Self::Begins(request, options, call_site) = &*self {
            let granted = request.try_grant_to_task(options, call_site);
            if let Some(granted) = granted.transpose() {
                *self = Self::Ended;
                return Poll::Ready(granted);
            }
            self.begin_to_wait();
        }
        match &mut *self {
            Self::Waits(wait) => wait.as_mut().poll(context),
            Self::Begins(..) | Self::Ended => panic!("a future is not polled after its end"),
        }
    }
}

impl<R: LockRequest> fmt::Debug for GrantFuture<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantFuture")
    }
}
