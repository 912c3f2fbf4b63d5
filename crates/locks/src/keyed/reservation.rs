//! A turn that is reserved before its task is executed.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use super::execution::run_to_end;
use super::join::Ending;
use super::shards::{KeyedShards, KeyedWait};
use crate::id::LockId;
use crate::sync::thread_number;
use crate::wait::{WaitsAs, blocking};
use crate::{CancelToken, LockError};

/// A turn at a key: the key itself, or a queue position for it.
///
/// [`KeyedLock::reserve`](super::KeyedLock::reserve) takes a position without waiting. A
/// [request](super::KeyedLock::request) that has waited returns the key.
///
/// Dropping it gives up the turn, and the next request in the queue gets the key. It may move to
/// the thread that executes the task, so a position is bound to no thread before that. Thus a
/// thread that keeps a position and requests the same key, or waits for all, waits for itself
/// without an error. The key that a thread waited for is bound to that thread until another one
/// executes the task.
#[must_use = "a turn that is dropped is given up"]
pub struct Reservation<K: 'static, V: 'static> {
    shared: Arc<KeyedShards<K, V>>,
    position: KeyedWait<K, V>,
    cancel: Option<CancelToken>,
    /// The thread to which it is bound; zero for none.
    thread: u64,
    is_used: bool,
}

impl<K: 'static, V: 'static> Reservation<K, V> {
    pub(super) fn new(
        shared: &Arc<KeyedShards<K, V>>,
        position: KeyedWait<K, V>,
        cancel: Option<CancelToken>,
        thread: u64,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            position,
            cancel,
            thread,
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
        let (number, lock) = (self.position.hold.number, self.shared.lock);
        LockId { number, lock }
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
    /// calling thread already executes a task for the same key. There is none if the request has
    /// already waited.
    ///
    /// # Panics
    ///
    /// If the task panics, the panic resumes here after the hand-off of the key.
    pub fn execute(mut self, task: impl FnOnce() -> V) -> Result<V, LockError> {
        blocking(self.wait_for_turn(WaitsAs::Thread))?;
        let (hold, thread) = (self.position.hold, thread_number());
        if self.thread != thread {
            self.shared.bind(hold, thread);
        }
        self.is_used = true;
        Ok(self.shared.execute(hold, task))
    }

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
        if self.position.waits.is_some() {
            // In a box, this future is `Send` for keys of any lifetime.
            let wait: Pin<Box<dyn Future<Output = _> + Send + '_>> =
                Box::pin(self.wait_for_turn(WaitsAs::Task));
            wait.await?;
        }
        let hold = self.position.hold;
        if self.thread != 0 {
            self.shared.bind(hold, 0);
        }
        // Dropped after the release of the key: that is code of users.
        let mut task = pin!(task);
        let ended = run_to_end(task.as_mut()).await;
        self.is_used = true;
        Ok(self.shared.end_with(hold, ended))
    }

    /// Waits until the key is granted, if it is not yet.
    pub(super) async fn wait_for_turn(&mut self, waits_as: WaitsAs) -> Result<(), LockError> {
        let Some(waits) = self.position.waits.take() else {
            return Ok(());
        };
        // A request that is bound to its thread was refused before it joined the queue.
        if waits_as == WaitsAs::Thread && self.thread == 0 {
            waits.refuse_self()?;
        }
        let cancel = self.cancel.as_ref();
        waits.wait_for_grant(waits_as, cancel).await?;
        if waits_as == WaitsAs::Task {
            self.shared.bind(self.position.hold, 0);
        }
        Ok(())
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
