//! The owner's side: a thread that runs the requests of other machines.

mod pause;
mod thread;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use doclock::TransactionManager;
use doclock::durable::DurabilityError;
use doclock::lock::CancelToken;
use parking_lot::Mutex;
use serde::Serialize;

use super::owner;
use crate::connection::PostgresSession;
use crate::lease::OwnershipLease;
use crate::{PostgresError, Term};
use thread::Runner;

/// Options of a [`RequestRunner`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RunnerOptions {
    longest_poll: Duration,
    keep: Duration,
    in_flight: usize,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RunnerOptions {
    /// Creates options with the defaults.
    pub fn new() -> Self {
        Self {
            longest_poll: Duration::from_millis(50),
            keep: Duration::from_secs(60 * 60),
            in_flight: 256,
        }
    }

    /// Sets how often the owner looks for requests at least: from a millisecond to a minute. The
    /// default is 50 ms. It looks more often after a request came, and at once after
    /// [`wake`](RequestRunner::wake).
    ///
    /// An owner with a [doorbell](crate::MemberOptions::doorbell) looks each second, unless this is
    /// longer. A request of a machine without a doorbell waits as long then. For a minute after
    /// such a request, the owner looks as often as without a doorbell.
    pub fn longest_poll(mut self, poll: Duration) -> Self {
        self.longest_poll = poll.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Sets how long a request is kept after its outcome, so that its machine finds it. The default
    /// is an hour, and ten years are the most. All members of a document should have the same: a
    /// member repeats an insert without an answer for as long, and at least for five seconds.
    pub fn keep_outcomes(mut self, keep: Duration) -> Self {
        self.keep = keep.min(Duration::from_secs(10 * 365 * 24 * 60 * 60));
        self
    }

    pub(crate) fn kept(&self) -> Duration {
        self.keep
    }

    /// Sets how many requests have run at most while their commits are not durable. The default is
    /// 256, and at least one is possible.
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = requests.max(1);
        self
    }
}

/// Why a runner has ended.
///
/// Serialized, it is an object with the variant's name as `type`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum RunnerEnded {
    /// It was stopped.
    #[error("the runner was stopped")]
    Stopped,
    /// The term has ended.
    #[error("the term has ended")]
    Term,
    /// The store accepts no more commits, or keeps no results of idempotency keys.
    #[error("the store runs no requests: {reason}")]
    Store {
        /// The reason.
        reason: String,
    },
    /// The server has refused a statement.
    #[error("the server has refused a statement: {cause}")]
    Server {
        /// The error.
        cause: PostgresError,
    },
    /// The code that makes managers, or a waker, has panicked outside a request.
    #[error("the thread of the requests panicked")]
    Panicked,
}

/// Runs the requests of other machines while this process owns a document.
///
/// It is a thread. It takes the pending requests in the order of their numbers, and submits each to
/// the queue of the document under its idempotency key. It
/// [publishes](doclock::transaction::PendingTransaction::publish) each, and submits the next one
/// when the one before has run, without waiting for the disk. The journal writes the outcome of
/// each commit together with the commit. This thread writes the other outcomes: errors, cancelled
/// and late requests, repetitions, and batches without operations. It does so in order, and when
/// everything is durable that the request has seen.
///
/// # Order
///
/// Requests run in the order of their numbers. Between them and the owner's local batches:
///
/// - A local batch waits for at most one request in a row. The thread has at most one request in
///   the queue, which is FIFO, and submits the next one behind all local batches that wait by then.
/// - A request is overtaken by the local batches that are in the queue when it is submitted, and by
///   no others. One that is at position `n` among the pending requests is submitted after `n - 1`
///   others, so at most `n` times the length of the queue of local batches run before it. Its
///   wait until it is taken is at most one poll beyond the page of at most 64 requests that run.
///
/// Priorities and node locks change these bounds as they do for local batches.
///
/// # After-hooks
///
/// The after-hooks of a request run in this thread when its commit is durable, and so possibly
/// after its outcome is known elsewhere. They run at most once, on the owner whose journal has
/// confirmed the commit. If the process or its term ends between the append and the hook, they do
/// not run at all: the next owner finds the outcome and runs nothing. What must not be left out
/// follows the log instead.
///
/// # When an owner dies
///
/// The next owner takes the requests without an outcome again, in order. A request whose commit is
/// in the log has its outcome already, because both were in one statement.
pub struct RequestRunner {
    shared: Arc<SharedRunner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread shares with its handle, and with the task that looks for cancellations.
struct SharedRunner {
    lease: Arc<OwnershipLease>,
    options: RunnerOptions,
    settled: Box<dyn Fn() + Send + Sync>,
    is_heard: Box<dyn Fn() -> bool + Send + Sync>,
    stops: AtomicBool,
    ended: Mutex<Option<RunnerEnded>>,
    /// The requests that were taken and have not begun.
    waiting: Mutex<Vec<(i64, CancelToken)>>,
}

impl fmt::Debug for RequestRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestRunner")
            .field("document", &self.shared.lease.identity.document)
            .field("ended", &self.ended())
            .finish_non_exhaustive()
    }
}

impl RequestRunner {
    /// Starts the thread. `manager` makes the manager for the owner of a request, with the hooks
    /// and limits of the program, on the store that was opened with the journal of this term. It
    /// runs in the thread. The store must keep the results of [idempotency
    /// keys](doclock::StoreOptions::remembered_keys), which is the default.
    ///
    /// # Errors
    ///
    /// [`PostgresError::NoThread`].
    pub fn start(
        term: &Term,
        options: RunnerOptions,
        manager: impl FnMut(&str) -> TransactionManager + Send + 'static,
    ) -> Result<Self, PostgresError> {
        Self::start_with(term, options, manager, || (), || false)
    }

    /// Starts the thread. It calls `settled` when it has written outcomes without a commit. It
    /// looks for requests seldom while `is_heard` says that [`wake`](Self::wake) announces them.
    pub(crate) fn start_with(
        term: &Term,
        options: RunnerOptions,
        manager: impl FnMut(&str) -> TransactionManager + Send + 'static,
        settled: impl Fn() + Send + Sync + 'static,
        is_heard: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, PostgresError> {
        let shared = Arc::new(SharedRunner {
            lease: Arc::clone(&term.lease),
            options,
            settled: Box::new(settled),
            is_heard: Box::new(is_heard),
            stops: AtomicBool::new(false),
            ended: Mutex::new(None),
            waiting: Mutex::new(Vec::new()),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("doclock-requests".into());
        let thread = thread.spawn(move || {
            let mut runner = Runner::new(Arc::clone(&of_thread), Box::new(manager));
            let ended = catch_unwind(AssertUnwindSafe(|| runner.run()));
            *of_thread.ended.lock() = Some(ended.unwrap_or(RunnerEnded::Panicked));
        });
        let thread = thread.map_err(PostgresError::thread)?;
        let weak = Arc::downgrade(&shared);
        shared.lease.server.spawn(async move {
            loop {
                tokio::time::sleep(CANCEL_POLL).await;
                let Some(shared) = weak.upgrade() else { return };
                if shared.ended.lock().is_some() {
                    return;
                }
                shared.cancel().await;
            }
        });
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Lets the thread look for requests at once: for a doorbell.
    pub fn wake(&self) {
        self.shared.lease.in_flight.changed.notify_one();
    }

    /// Returns why the thread has ended, or `None` while it runs.
    pub fn ended(&self) -> Option<RunnerEnded> {
        self.shared.ended.lock().clone()
    }

    /// Stops: lets the request that runs end, writes its outcome, and ends the thread. Requests
    /// that were taken and have not begun stay pending for the next runner or owner, also the one
    /// that waits in the queue of the store.
    ///
    /// Stop it before the store is closed and the term is handed over. Blocks for as long as the
    /// batch and its write take, and at most for the term after that. A call in the runner's thread
    /// returns at once.
    pub fn stop(&self) -> Option<RunnerEnded> {
        self.shared.stop();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // Its panics are caught.
            let _ = thread.join();
        }
        self.ended()
    }
}

impl Drop for RequestRunner {
    /// Stops the thread without waiting for its end. Until then it has a handle of the store.
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// How often the owner looks whether requests that wait in its queue were cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(25);

impl SharedRunner {
    /// Ends the loop of the thread, and its wait in the queue of the store.
    fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        let waiting = self.waiting.lock();
        let tokens: Vec<_> = waiting.iter().map(|(_, token)| token.clone()).collect();
        drop(waiting);
        tokens.iter().for_each(CancelToken::cancel);
        self.lease.in_flight.changed.notify_one();
    }

    /// Cancels the requests that were cancelled since they were taken and have not begun.
    async fn cancel(&self) {
        let numbers: Vec<_> = {
            let waiting = self.waiting.lock();
            waiting.iter().map(|(number, _)| *number).collect()
        };
        if numbers.is_empty() {
            return;
        }
        let requests = &self.lease.server.connections().requests;
        let read = async |session: &PostgresSession| {
            owner::cancelled(session, &self.lease, &numbers).await
        };
        let until = Instant::now() + self.lease.window / 3;
        // Without an answer, the next look follows.
        let cancelled = requests.run(until.into(), read).await.unwrap_or_default();
        let is_cancelled = |(number, _): &&(i64, CancelToken)| cancelled.contains(number);
        let tokens: Vec<_> = {
            let waiting = self.waiting.lock();
            waiting.iter().filter(is_cancelled).cloned().collect()
        };
        // Wakes a waiting thread, so not under the mutex.
        tokens.iter().for_each(|(_, token)| token.cancel());
    }
}

/// Why requests cannot be run in this store.
fn of_store(error: &DurabilityError) -> RunnerEnded {
    RunnerEnded::Store {
        reason: error.to_string(),
    }
}
