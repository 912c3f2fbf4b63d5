//! Retries after transient errors.

use std::error::Error;
use std::future::poll_fn;
use std::hash::BuildHasher;
use std::io;
use std::iter;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use super::{
    HookFailure, IdempotencyMismatch, OperationError, PatternError, Refusal, ScriptError,
    TransactionError, UndoError,
};
use crate::document::schema::{AttributeFault, ExpressionError, SchemaError, SchemaViolation};
use crate::document::{
    EditError, IntegrityError, JsonError, LimitExceeded, OffsetError, UndoConflict,
};
use crate::id::ParseIdError;
use crate::lock::keyed::{ExecutionError, TaskPanic};
use crate::lock::limiter::LimiterError;
use crate::lock::node::Deadlock;
use crate::lock::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence, WaitsAs};
use crate::store::lease::{LeaseError, LeaseLost};
use crate::store::{AliasError, CommitError, InboxInUse, SavepointError, TakenOut};

/// Runs code, and retries it from its start after each [transient](Transient) error. It runs at
/// most `attempts` times in all and at least once. Returns the result of the last attempt.
///
/// A transaction on nodes that fails with such an error is rolled back completely, so a retry is
/// safe. The code has to begin a new transaction each time, and should drop it before it returns,
/// as `?` does.
///
/// The first retry runs at once. Before each further one the calling thread sleeps, 50 microseconds
/// at first and twice as long each time, up to 12.8 milliseconds. Each sleep lasts a random part of
/// this time, at least half. Otherwise threads that lock nodes step by step could fail each other
/// forever.
///
/// ```
/// use doclock::{DataStore, View, document::NodeSpec, lock::node::Scope, transaction::retry};
///
/// let store = DataStore::new();
/// let mut transaction = store.begin("setup")?;
/// let counter = transaction.create(NodeSpec::new("counter").with_text("0"))?;
/// transaction.commit()?;
///
/// let count = |by: u32| -> Result<_, Box<dyn std::error::Error>> {
///     let mut transaction = store.begin_on("ann", Scope::new())?;
///     let count: u32 = transaction.text_of(&counter)?.parse()?;
///     transaction.set_text(&counter, (count + by).to_string())?;
///     Ok(transaction.commit()?)
/// };
/// retry(5, || count(1))?;
/// assert_eq!(store.snapshot().text_of(&counter)?, "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The error of the last attempt.
pub fn retry<T, E: Transient>(
    attempts: u32,
    mut code: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for attempt in 1..attempts {
        match code() {
            Err(error) if error.is_transient() => pause_after(attempt),
            outcome => return outcome,
        }
    }
    code()
}

/// Lets conflicting transactions finish before the next attempt: a thread sleeps, a task lets the
/// other tasks of its executor run.
pub(super) async fn pause_as(waits_as: WaitsAs, attempt: u32) {
    match waits_as {
        WaitsAs::Thread => pause_after(attempt),
        WaitsAs::Task => yield_task().await,
    }
}

async fn yield_task() {
    let mut has_yielded = false;
    poll_fn(|context| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

fn pause_after(attempt: u32) {
    thread::sleep(pause(
        attempt,
        foldhash::fast::RandomState::default().hash_one(attempt),
    ));
}

fn pause(attempt: u32, random: u64) -> Duration {
    const FIRST: Duration = Duration::from_micros(50);
    const DOUBLINGS: u32 = 8;
    if attempt < 2 {
        return Duration::ZERO;
    }
    let longest = FIRST * (1 << (attempt - 2).min(DOUBLINGS));
    let half = longest / 2;
    half + Duration::from_nanos(random % (half.as_nanos() as u64 + 1))
}

/// An error that reports whether a retry from the start may succeed. Examples are a deadlock, and a
/// node that other transactions changed between a read and the commit. The errors of the store
/// implement it; the [page of errors](crate::guide::errors) lists the value for each code.
///
/// A boxed error is transient if it, or one of the first 64 errors in the chain of its
/// [sources](Error::source), is a transient error of this crate. A custom error stays transient if
/// it returns the error that it wraps as its source.
///
/// ```
/// use doclock::{document::EditError, transaction::Transient};
///
/// let edit = EditError::NotLocked { id: None, transient: true };
/// let wrapped: Box<dyn std::error::Error> = std::io::Error::other(edit).into();
/// assert!(wrapped.is_transient());
/// ```
pub trait Transient {
    /// Returns whether a retry may succeed.
    fn is_transient(&self) -> bool;
}

/// Makes errors of this crate [`Transient`], directly and as sources of others.
macro_rules! transient {
    ($($error:ty),* $(,)?) => {
        $(impl Transient for $error {
            fn is_transient(&self) -> bool {
                self.is_transient()
            }
        })*

        /// Whether this is one of them, and transient.
        fn is_one(error: &(dyn Error + 'static)) -> bool {
            fn of<E: Error + Transient + 'static>(error: &(dyn Error + 'static)) -> bool {
                error.downcast_ref().is_some_and(E::is_transient)
            }
            $(of::<$error>(error))||*
        }
    };
}

transient! {
    AliasError,
    AttributeFault,
    CancelEvidence,
    CommitError,
    UndoConflict,
    Deadlock,
    EditError,
    ExecutionError,
    ExpressionError,
    IdempotencyMismatch,
    IntegrityError,
    HookFailure,
    InboxInUse,
    JoinError,
    JsonError,
    LeaseError,
    LeaseLost,
    LimitExceeded,
    LimiterError,
    LockError,
    OffsetError,
    OperationError,
    ParseIdError,
    PatternError,
    Refusal,
    ReleaseError,
    SavepointError,
    SchemaError,
    SchemaViolation,
    ScriptError,
    TakenOut,
    TaskPanic,
    TimeoutEvidence,
    TransactionError,
    UndoError,
}

/// Whether the error, or one in the chain of its sources, is a transient error of this crate.
pub(super) fn is_transient(error: &(dyn Error + 'static)) -> bool {
    /// An error may name itself as its source.
    const LONGEST_CHAIN: usize = 64;
    iter::successors(Some(error), |&error| inner(error))
        .take(LONGEST_CHAIN)
        .any(is_one)
}

/// The error inside another. [`io::Error`] returns as its source the source of the error that it
/// wraps, not that error.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

impl Transient for Box<dyn Error> {
    fn is_transient(&self) -> bool {
        is_transient(&**self)
    }
}

impl Transient for Box<dyn Error + Send + Sync> {
    fn is_transient(&self) -> bool {
        is_transient(&**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        assert_eq!(pause(1, 7), Duration::ZERO);
        let micros = |attempt, random| pause(attempt, random).as_micros();
        assert_eq!((micros(2, 0), micros(3, 0), micros(10, 0)), (25, 50, 6400));
        assert_eq!(micros(u32::MAX, 0), micros(10, 0));
        assert_eq!((micros(3, 50_000), micros(3, 50_001)), (100, 50));
    }
}
