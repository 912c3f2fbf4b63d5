//! Which requests for nodes were refused in a `retry` of the calling thread.

use std::cell::RefCell;

use crate::lock::FifoLock;
use crate::store::DataStore;

/// The last refusal of a request for nodes in the innermost `retry` of a thread: the lock of the
/// turns of the store. `None` without a `retry`.
type LastRefusal = Option<Option<FifoLock>>;

std::thread_local! {
    static LAST_REFUSAL: RefCell<LastRefusal> = const { RefCell::new(None) };
}

/// Notes that a store refused a request for nodes of the calling thread.
pub(super) fn note(store: &DataStore) {
    // A thread that ends may have no such value any more.
    let is_in_retry = LAST_REFUSAL.try_with(|last| last.borrow().is_some());
    if is_in_retry == Ok(true) {
        LAST_REFUSAL.set(Some(Some(store.retrying().clone())));
    }
}

/// Lets refusals be noted for a `retry` of the calling thread. Its end restores those of the outer
/// one, also after a panic.
pub(crate) struct Refusals {
    of_outer: LastRefusal,
}

impl Refusals {
    pub(crate) fn begin() -> Self {
        Self {
            of_outer: LAST_REFUSAL.replace(Some(None)),
        }
    }

    /// Returns the lock of the turns of the store that refused a request last, once.
    pub(crate) fn take_last(&self) -> Option<FifoLock> {
        LAST_REFUSAL.with_borrow_mut(|last| last.as_mut()?.take())
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        LAST_REFUSAL.set(self.of_outer.take());
    }
}
