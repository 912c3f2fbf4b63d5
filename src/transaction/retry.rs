//! Retries after errors that a retry may solve at once.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::codes::{CodedError, Retry};
use crate::id::OwnerId;
use crate::lock::{FifoLock, LockError, LockGuard, WaiterKind};
use crate::store::Refusals;

/// Runs code, and retries it from its start after each error whose verdict is
/// [`Now`](Retry::Now). It runs at most `attempts` times in all and at least once. Returns the
/// result of the last attempt.
///
/// A transaction on nodes that fails with such an error is rolled back completely, so a retry is
/// safe. The code has to begin a new transaction each time, and should drop it before it returns,
/// as `?` does.
///
/// Threads that lock nodes step by step could refuse each other forever. So after a request for
/// nodes was refused ([`Deadlock`](crate::lock::LockError::Deadlock),
/// [`UpgradeConflict`](crate::lock::LockError::UpgradeConflict)), the calling thread waits for its
/// turn. The transactions of a store that were refused run their further attempts one after the
/// other, in FIFO order. A thread waits 12.8 milliseconds at most. It keeps its turn until it
/// returns, or an attempt fails with another error. Refusals of a second store do not change that.
///
/// After another error, and after a refusal in its turn, the first retry runs at once. Before each
/// further one the thread sleeps, 50 microseconds at first and twice as long each time, up to 12.8
/// milliseconds. Each sleep lasts a random part of this time, at least half.
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
    let refusals = Refusals::begin();
    let mut turn = None;
    for attempt in 1..attempts {
        match code() {
            Err(error) if error.retry() == Retry::Now => match refusals.take_last() {
                Some(turns) => match turn {
                    Some((_, since)) => pause_after(attempt - since),
                    None => turn = wait_for_turn(&turns, attempt).map(|turn| (turn, attempt)),
                },
                None => {
                    turn = None;
                    pause_after(attempt);
                }
            },
            outcome => return outcome,
        }
    }
    code()
}

/// Waits for the turn of a transaction that was refused, but not longer than the longest pause.
fn wait_for_turn(turns: &FifoLock, attempt: u32) -> Option<LockGuard> {
    let asked = turns
        .request(OwnerId::default())
        .timeout(LONGEST_PAUSE)
        .wait();
    if let Err(error) = &asked
        && !matches!(error, LockError::Timeout(_))
    {
        // Of an outer `retry`, the thread has the turn already.
        pause_after(attempt);
    }
    asked.ok()
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

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_micros(12_800);

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
