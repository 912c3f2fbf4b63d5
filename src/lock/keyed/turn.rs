//! A turn that is reserved before its task is executed.

use std::fmt;
use std::sync::Arc;

use super::execution::Ending;
use super::shared::{Place, Shared};
use crate::id::LockId;
use crate::lock::{CancelToken, LockError};
use crate::sync::key_code;

/// A place in line for a key, or the key itself: [`KeyedLock::reserve`](super::KeyedLock::reserve).
///
/// Dropping it gives it up, and whoever is next has its turn. May be sent to the thread that is to
/// execute the task. So until it is executed it is tied to no thread: one that keeps it, and asks
/// for the same key or waits for all, waits for itself without being refused.
#[must_use = "a turn that is dropped is given up"]
pub struct Turn<K: 'static, V: 'static> {
    shared: Arc<Shared<K, V>>,
    place: Place<K, V>,
    cancel: Option<CancelToken>,
    is_used: bool,
}

impl<K: 'static, V: 'static> Turn<K, V> {
    pub(super) fn new(
        shared: &Arc<Shared<K, V>>,
        place: Place<K, V>,
        cancel: Option<CancelToken>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            place,
            cancel,
            is_used: false,
        }
    }

    pub(super) fn into_place(mut self) -> Place<K, V> {
        self.is_used = true;
        let waits = self.place.waits.take();
        Place {
            hold: self.place.hold,
            waits,
        }
    }

    /// The id of the request, and of its grant.
    pub fn id(&self) -> LockId {
        self.shared.id(self.place.hold)
    }
}

impl<K: Send + 'static, V: 'static> Turn<K, V> {
    /// Waits for the turn, executes the task in the calling thread, and hands the key on.
    ///
    /// Blocks until all tasks that asked earlier for the same key have ended, or until the timeout
    /// has passed that began with the reservation. A turn that has come by then stays one, however
    /// late this is called.
    ///
    /// # Errors
    ///
    /// [`LockError`], and the task is not executed: the wait timed out or was cancelled; the
    /// calling thread executes a task for the same key already.
    ///
    /// # Panics
    ///
    /// If the task panics, that goes on here when the key has been handed on.
    pub fn execute(mut self, task: impl FnOnce() -> V) -> Result<V, LockError> {
        // A turn that cannot be executed here is given up.
        key_code::refuse();
        self.is_used = true;
        if let Some(waits) = self.place.waits.take() {
            waits.refuse_self()?;
            waits.wait(self.cancel.as_ref())?;
        }
        let hold = self.place.hold;
        self.shared.tie(hold);
        Ok(self.shared.execute(hold, task))
    }
}

impl<K: 'static, V: 'static> Drop for Turn<K, V> {
    /// Leaves the line, and ends the hold if there is one by then.
    fn drop(&mut self) {
        if !self.is_used {
            self.place.waits = None;
            let (shared, hold) = (Arc::clone(&self.shared), self.place.hold);
            key_code::after(move || shared.end(hold, &Ending::Abandoned));
        }
    }
}

impl<K: 'static, V: 'static> fmt::Debug for Turn<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
