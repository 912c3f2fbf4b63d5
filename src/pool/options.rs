//! The options of a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::PoolError;
use super::opening::check_file_name;
use crate::durable::{DurabilityError, OpenError};
use crate::time::Clock;

/// Options of a new pool.
///
/// ```
/// use doclock::pool::{Documents, PoolOptions};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// let options = PoolOptions::new(64)
///     .idle_after(Duration::from_secs(300))
///     .timeout(Duration::from_secs(1))
///     .on_close_error(|name, error| eprintln!("closing {name}: {error}"));
/// let documents = Documents::in_folder(folder.path(), options);
/// assert_eq!(documents.snapshot().most_open, 64);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct PoolOptions {
    pub(super) most_open: usize,
    pub(super) idle_after: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) queue_bound: Option<usize>,
    pub(super) clock: Clock,
    pub(super) names: Option<Arc<NameCheck>>,
    pub(super) find: Option<Arc<Find>>,
    pub(super) on_close_error: Option<Arc<CloseErrorReport>>,
}

type NameCheck = dyn Fn(&str) -> bool + Send + Sync;
pub(super) type Find = dyn Fn(&str) -> Result<(), PoolError> + Send + Sync;
type CloseErrorReport = dyn Fn(&str, &DurabilityError) + Send + Sync;

impl PoolOptions {
    const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Creates options of a pool with at most so many open documents. Zero counts as one.
    ///
    /// Documents that are being opened or closed count, too. So do idle ones, which are closed when
    /// another document needs the slot.
    pub fn new(most_open: usize) -> Self {
        Self {
            most_open: most_open.max(1),
            idle_after: None,
            timeout: Some(Self::DEFAULT_TIMEOUT),
            queue_bound: None,
            clock: Clock::system(),
            names: None,
            find: None,
            on_close_error: None,
        }
    }

    /// Closes a document when it has been unused for so long. By default, idle documents are closed
    /// only when another document needs the slot.
    pub fn idle_after(mut self, unused: Duration) -> Self {
        self.idle_after = Some(unused);
        self
    }

    /// Sets the timeout of requests that set none. Zero: they do not wait. `None`: they wait
    /// without limit. The default is five seconds.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Bounds how many requests wait for one document, and how many wait for a slot. A full queue
    /// rejects the next request at once. There is no bound by default.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = Some(bound);
        self
    }

    /// Sets which names documents can have, in place of the rule for
    /// [names of files](super#names). It runs in each [`get`](super::Documents::get), under no
    /// lock.
    ///
    /// [`Opening::open_in`](super::Opening::open_in) accepts only names of files, whatever this
    /// accepts.
    pub fn names(mut self, accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.names = Some(Arc::new(accepts));
        self
    }

    /// Sets how [`get_existing`](super::Documents::get_existing) looks whether a document exists
    /// that is not open, before it takes a slot. So a request for a missing document waits for no
    /// slot and closes no idle document. It runs in the thread of the request, or in a thread of
    /// its own for a task, under no lock but the name. By default the opener alone decides.
    ///
    /// A pool [in a folder](super::Documents::in_folder) looks for the file, unless this is set.
    pub fn exists(mut self, exists: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let missing = || PoolError::Open(OpenError::Missing);
        self.find = Some(Arc::new(move |name| {
            exists(name).then_some(()).ok_or_else(missing)
        }));
        self
    }

    /// Sets a callback for documents whose close fails, with the name and the error. It runs in the
    /// thread that closes, under no lock. A panic of it is caught.
    ///
    /// All closes report here: of idle documents, of documents whose journal has failed, and those
    /// that a call requests, which also returns the error.
    pub fn on_close_error(
        mut self,
        report: impl Fn(&str, &DurabilityError) + Send + Sync + 'static,
    ) -> Self {
        self.on_close_error = Some(Arc::new(report));
        self
    }

    /// Sets the clock that the pool reads. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the rule that a name breaks.
    pub(super) fn refuse_name(&self, name: &str) -> Option<&'static str> {
        match &self.names {
            None => check_file_name(name),
            Some(accepts) => (!accepts(name)).then_some("the rule of the pool refuses it"),
        }
    }
}

impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("most_open", &self.most_open)
            .field("idle_after", &self.idle_after)
            .field("timeout", &self.timeout)
            .field("queue_bound", &self.queue_bound)
            .finish_non_exhaustive()
    }
}
