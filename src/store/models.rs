//! What models of loom do in place of a timer or a thread.
#![cfg(loom)]

use super::DataStore;
use crate::id::OwnerId;

impl DataStore {
    /// The code that `owner` runs when its current wait times out; `None` if it does not wait.
    #[doc(hidden)]
    pub fn expiry(&self, owner: impl Into<OwnerId>) -> Option<Box<dyn FnOnce()>> {
        self.0.lock.expiry(owner.into())
    }

    /// Times out the wait of `owner`, if it waits.
    #[doc(hidden)]
    pub fn expire(&self, owner: impl Into<OwnerId>) {
        let owner = owner.into();
        self.expire_publishing(&owner);
        self.0.lock.expire(owner);
    }

    /// Runs the code that the keeper runs when the holder exceeds the hold limit.
    #[doc(hidden)]
    pub fn expire_hold(&self) {
        self.0.lock.expire_hold();
    }

    /// Whether a request has ever waited in the queue of the lock.
    #[doc(hidden)]
    pub fn has_waited(&self) -> bool {
        self.0.lock.has_waited()
    }

    /// Lets the next uncontended holds go without a measurement.
    #[doc(hidden)]
    pub fn skip_measured_hold(&self) {
        self.0.lock.skip_measured_hold();
    }

    /// The code of the keeper's thread, which a model runs itself.
    #[doc(hidden)]
    pub fn keeper_thread(&self) -> impl FnOnce() + Send + use<> {
        self.0.lock.keeper_thread()
    }
}
