//! Retries after errors that a retry may solve at once.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::codes::{CodedError, Retry};
use crate::lock::WaiterKind;
use crate::store::{LONGEST_PAUSE, Retrying};

/// Runs code, and retries it from its start after each error whose verdict is
/// [`Now`](Retry::Now). It runs at most `attempts` times in all and at least once. Returns the
/// result of the last attempt.
///
/// A transaction on nodes that fails with such an error is rolled back completely, so a retry is
/// safe. The code has to begin a new transaction each time, and should drop it before it returns,
/// as `?` does.
///
/// Threads that lock nodes step by step could refuse each other forever. So after a refused request
/// for nodes ([`Deadlock`](crate::lock::LockError::Deadlock),
/// [`UpgradeConflict`](crate::lock::LockError::UpgradeConflict)), the transactions of the store
/// that run in `retry` take turns: for a tenth of a second, they run one at a time, in FIFO order,
/// and so does each one that was refused. A transaction waits for its turn before its first request
/// for nodes, at most as long as that may wait, and not longer than 12.8 milliseconds. Then it runs
/// beside the one that has the turn. In its turn, its requests for nodes of this store are never
/// refused. If one closes a cycle of waits, the request for which it waits is refused in its place;
/// or those that have locked nothing yet let it pass. A turn ends with the outermost `retry` of the
/// thread, or if an attempt of that fails with another error. Tasks, and requests that are awaited,
/// have no turns.
///
/// After another error, the first retry runs at once. Before each further one the thread sleeps, 50
/// microseconds at first and twice as long each time, up to 12.8 milliseconds. Each sleep lasts a
/// random part of this time, at least half.
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
pub fn retry<T, E: CodedError>(
    attempts: u32,
    mut code: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let retrying = Retrying::begin();
    for attempt in 1..attempts {
        match code() {
            Err(error) if error.retry() == Retry::Now => {
                if !retrying.needs_no_pause() {
                    pause_after(attempt);
                }
            }
            outcome => return outcome,
        }
    }
    code()
}

/// Lets conflicting transactions finish before the next attempt: a thread sleeps, a task lets the
/// other tasks of its executor run.
pub(super) async fn pause_as(waits_as: WaiterKind, attempt: u32) {
    match waits_as {
        WaiterKind::Thread => pause_after(attempt),
        WaiterKind::Task => yield_task().await,
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
    thread::sleep(pause(attempt, RandomState::new().hash_one(attempt)));
}

fn pause(attempt: u32, random: u64) -> Duration {
    const FIRST: Duration = Duration::from_micros(50);
    if attempt < 2 {
        return Duration::ZERO;
    }
    let longest = FIRST
        .saturating_mul(1 << (attempt - 2).min(16))
        .min(LONGEST_PAUSE);
    let half = longest / 2;
    half + Duration::from_nanos(random % (half.as_nanos() as u64 + 1))
}

#[cfg(test)]
#[path = "../../tests/unit/retry.rs"]
mod tests;
