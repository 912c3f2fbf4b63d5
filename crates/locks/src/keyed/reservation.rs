//! A turn that is reserved before its task is executed.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::execution::Ending;
use super::shared::{KeyedShared, KeyedWait};
use crate::caught::catch;
use crate::id::LockId;
use crate::sync::assert_unlocked;
use crate::wait::{WaitsAs, blocking};
use crate::{CancelToken, LockError};

/// A queue position for a key, or the key itself:
/// [`KeyedLock::reserve`](super::KeyedLock::reserve).
///
/// Dropping it gives up the turn, and the next request in the queue gets the key. It may move to
/// the thread that executes the task, so it is bound to no thread before that. Thus a thread that
/// keeps a turn and requests the same key, or waits for all, waits for itself without an error.
#[must_use = "a turn that is dropped is given up"]
pub struct Reservation<K: 'static, V: 'static> {
    shared: Arc<KeyedShared<K, V>>,
    position: KeyedWait<K, V>,
    cancel: Option<CancelToken>,
    is_used: bool,
}

impl<K: 'static, V: 'static> Reservation<K, V> {
    pub(super) fn new(
        shared: &Arc<KeyedShared<K, V>>,
        position: KeyedWait<K, V>,
        cancel: Option<CancelToken>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            position,
            cancel,
            is_used: false,
        }
    }

    pub(super) fn into_place(mut self) -> KeyedWait<K, V> {
        self.is_used = true;
        let waits = self.position.waits.take();
        KeyedWait {
            hold: self.position.hold,
            waits,
        }
    }

    /// Returns the id of the request and of its grant.
    pub fn id(&self) -> LockId {
        self.shared.id(self.position.hold)
    }
}

impl<K: Send + 'static, V: 'static> Reservation<K, V> {
    /// Waits for the turn, executes the task in the calling thread, and releases the key.
    ///
    /// Blocks until all earlier tasks of the same key have ended, or until the timeout that began
    /// with the reservation. A turn that was granted before the timeout stays granted, however late
    /// this is called.
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed: the wait timed out or was cancelled; the
    /// calling thread already executes a task for the same key.
    ///
    /// # Panics
    ///
    /// If the task panics, the panic resumes here after the hand-off of the key.
    pub fn execute(mut self, task: impl FnOnce() -> V) -> Result<V, LockError> {
        self.is_used = true;
        if let Some(waits) = self.position.waits.take() {
            waits.refuse_self()?;
            blocking(waits.wait_for_grant(WaitsAs::Thread, self.cancel.as_ref()))?;
        }
        let hold = self.position.hold;
        self.shared.tie(hold);
        Ok(self.shared.execute(hold, task))
    }
}

impl<K: Send + 'static, V: 'static> Reservation<K, V> {
    /// Waits for the turn in a task, executes the given future, and releases the key.
    ///
    /// The timeout and the order are those of [`execute`](Self::execute). If the future that this
    /// returns is dropped, the turn is given up: the request leaves its queue, or the key is
    /// released and the given future is dropped unfinished. Requests that joined it get
    /// [`ExecutionError::Abandoned`](super::ExecutionError::Abandoned).
    ///
    /// # Errors
    ///
    /// [`LockError`], and the given future is not polled: the wait timed out or was cancelled.
    ///
    /// # Panics
    ///
    /// If the given future panics, the panic resumes here after the hand-off of the key.
    pub async fn execute_async(mut self, task: impl Future<Output = V>) -> Result<V, LockError> {
        let hold = self.position.hold;
        if let Some(waits) = self.position.waits.take() {
            let cancel = self.cancel.as_ref();
            waits.wait_for_grant(WaitsAs::Task, cancel).await?;
            self.shared.take_note_of(hold);
        }
        assert_unlocked("a task is polled");
        let mut task = pin!(task);
        // Nothing observes the state that a panic leaves before the panic resumes.
        let ended = poll_fn(|context| match catch(|| task.as_mut().poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        let ended = ended.await;
        self.is_used = true;
        match ended {
            Ok(value) => {
                self.shared.end(hold, &Ending::Done(&value));
                Ok(value)
            }
            Err(panic) => {
                self.shared.end(hold, &Ending::Panicked(&panic));
                panic.resume()
            }
        }
    }
}

impl<K: 'static, V: 'static> Drop for Reservation<K, V> {
    /// Leaves the queue, and ends the hold if there is one by then.
    fn drop(&mut self) {
        if !self.is_used {
            self.position.waits = None;
            self.shared.end(self.position.hold, &Ending::Abandoned);
        }
    }
}

impl<K: 'static, V: 'static> fmt::Debug for Reservation<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
