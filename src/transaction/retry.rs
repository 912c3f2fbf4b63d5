//! Trying again what failed by an unlucky meeting with others.

use std::error::Error;
use std::hash::BuildHasher;
use std::io;
use std::iter;
use std::thread;
use std::time::Duration;

use super::{
    HookFailure, OperationError, PatternError, Refusal, ScriptError, TransactionError, UndoError,
};
use crate::document::schema::{AttributeFault, ExpressionError, SchemaError, SchemaViolation};
use crate::document::{Conflict, EditError, IntegrityError, JsonError, LimitExceeded, OffsetError};
use crate::id::ParseIdError;
use crate::lock::keyed::{ExecutionError, TaskPanic};
use crate::lock::limiter::LimiterError;
use crate::lock::node::Deadlock;
use crate::lock::{CancelEvidence, JoinError, LockError, ReleaseError, TimeoutEvidence};
use crate::store::lease::{LeaseError, LeaseLost};
use crate::store::{AliasError, CommitError, InboxInUse, SavepointError, TakenOut};

/// Runs code, again from its start as long as it fails by an [unlucky meeting](Transient) with
/// others, at most `attempts` times in all and at least once. Returns what came of the last time.
///
/// A transaction on nodes that fails in this way was rolled back whole, so it is safe to run it
/// again. The code has to begin it anew, and should drop it before it returns, as it does with `?`.
///
/// The first repetition comes at once; before each further one the calling thread sleeps, for 50
/// microseconds at first and twice as long each time, up to 12.8 milliseconds; of that a random
/// part, at least half. Otherwise many who lock as they go could refuse each other for ever.
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
/// That of the last attempt.
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

/// Lets those pass with whom an attempt has met, so that it does not meet them again.
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

/// An error of which it can be told whether the same may well succeed if it is tried again from the
/// start: a deadlock, or a node that was changed by others between being read and the commit. The
/// errors of the store implement it; the page `docs/errors.md` has the verdict of each code.
///
/// A boxed error is transient if it is one of this crate's errors that is, or has one in the chain
/// of its [sources](Error::source), of which the first 64 count. An error of your own keeps that by
/// naming what it wraps as its source.
///
/// ```
/// use doclock::{document::EditError, transaction::Transient};
///
/// let edit = EditError::NotLocked { id: None, transient: true };
/// let wrapped: Box<dyn std::error::Error> = std::io::Error::other(edit).into();
/// assert!(wrapped.is_transient());
/// ```
pub trait Transient {
    /// Whether it may.
    fn is_transient(&self) -> bool;
}

/// Makes errors of this crate [`Transient`], by themselves and in others.
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
    Conflict,
    Deadlock,
    EditError,
    ExecutionError,
    ExpressionError,
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

/// Whether the error, or one in the chain of its sources, is an error of this crate that is
/// transient.
pub(super) fn is_transient(error: &(dyn Error + 'static)) -> bool {
    /// An error may name itself as its source.
    const LONGEST_CHAIN: usize = 64;
    iter::successors(Some(error), |&error| inner(error))
        .take(LONGEST_CHAIN)
        .any(is_one)
}

/// The error in another. [`io::Error`] names as its source not the error that it wraps but that
/// one's source.
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
