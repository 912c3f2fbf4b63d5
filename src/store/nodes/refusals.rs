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

/// Replaces the last refusal of the calling thread. A thread that ends may have none any more.
fn replace(last: LastRefusal) -> LastRefusal {
    let replaced = LAST_REFUSAL.try_with(|it| it.replace(last));
    replaced.ok().flatten()
}

/// Notes that a store refused a request for nodes of the calling thread.
pub(super) fn note(store: &DataStore) {
    let is_in_retry = LAST_REFUSAL.try_with(|last| last.borrow().is_some());
    if is_in_retry == Ok(true) {
        drop(replace(Some(Some(store.retrying().clone()))));
    }
}

/// Lets refusals be noted for a `retry` of the calling thread. Its end restores that of the outer
/// one, also after a panic. If its last refusal was not taken, the outer one is refused too.
pub(crate) struct Refusals {
    of_outer: LastRefusal,
}

impl Refusals {
    pub(crate) fn begin() -> Self {
        let of_outer = replace(Some(None));
        Self { of_outer }
    }

    /// Returns the lock of the turns of the store that refused a request last, once.
    pub(crate) fn take_last(&self) -> Option<FifoLock> {
        replace(Some(None)).flatten()
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        let last = self.take_last();
        let of_outer = self.of_outer.take();
        replace(of_outer.map(|of_outer| last.or(of_outer)));
    }
}
