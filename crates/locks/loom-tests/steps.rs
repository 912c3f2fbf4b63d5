//! What models do in place of a timer or a thread of the keeper, with the code of the lock.

use std::sync::Arc;

use super::*;
use crate::FifoLock;
use crate::keeper::Keeper;
use crate::wait::WaitQueue;

impl FifoLock {
    /// Returns the code that runs when the present wait of `owner` times out. `None` when it does
    /// not wait.
    #[doc(hidden)]
    pub fn expiry(&self, owner: impl Into<OwnerId>) -> Option<Box<dyn FnOnce()>> {
        let waiting_at = self.0.state.lock().position_of(&owner.into())?;
        let shared = Arc::clone(&self.0);
        Some(Box::new(move || {
            shared.withdraw(waiting_at, Reason::Expired(Duration::ZERO));
        }))
    }

    /// Makes the wait of `owner` time out, if it waits.
    #[doc(hidden)]
    pub fn expire(&self, owner: impl Into<OwnerId>) {
        if let Some(expiry) = self.expiry(owner) {
            expiry();
        }
    }

    /// Makes the hold limit pass for all holders that delay a request: runs the same code as the
    /// keeper at that moment.
    #[doc(hidden)]
    pub fn expire_hold(&self) {
        self.0.step(|state| state.revoke_overdue(|_| true));
    }

    /// Returns whether a request has ever waited in the queue.
    #[doc(hidden)]
    pub fn has_waited(&self) -> bool {
        self.0.state.lock().queue.list.joined > 0
    }

    /// Lets the next uncontended holds go without a measurement.
    #[doc(hidden)]
    pub fn skip_measured_hold(&self) {
        self.0.state.lock().sampling.measure(Default::default);
    }

    /// Returns the code of the keeper's thread. It serves the lock, and ends with the last lock
    /// that it serves.
    #[doc(hidden)]
    pub fn keeper_thread(&self) -> impl FnOnce() + Send + use<> {
        let attended = self.0.keeper.attend(&self.0, &self.0.clock);
        attended.expect("no thread is started");
        let keeper = Keeper::of_process();
        move || keeper.run()
    }
}

impl LockState {
    fn position_of(&self, owner: &OwnerId) -> Option<RequestPosition> {
        let is_meant = |waiter: &LockWaiter| waiter.source().owner == *owner;
        let mut queued = self.queue.waiting();
        match queued.find(|(_, waiter)| is_meant(waiter)) {
            Some((ticket, waiter)) => Some(waiter.position_at(Some(ticket))),
            None => {
                let mut others = self.waiters_for_nodes();
                Some(others.find(|waiter| is_meant(waiter))?.position_at(None))
            }
        }
    }
}
