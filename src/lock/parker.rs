//! How one waiter is woken: a slot for its outcome and a thread parked before it.
//!
//! [`Parker::deliver`] is all that a lock knows of its waiters, so an asynchronous waker could stand here as
//! well. The slot has its own mutex: a woken thread need not touch the lock's again.

use crate::sync::{Condvar, Mutex};
use crate::time::{Clock, Deadline, Pause, TimeListener};

#[derive(Debug)]
pub(crate) struct Parker<T> {
    outcome: Mutex<Option<T>>,
    changed: Condvar,
}

impl<T> Parker<T> {
    pub(crate) fn new() -> Self {
        Self {
            outcome: Mutex::new(None),
            changed: Condvar::default(),
        }
    }

    /// Hands the waiter its outcome. To be called once.
    pub(crate) fn deliver(&self, outcome: T) {
        *self.outcome.lock() = Some(outcome);
        self.changed.notify_one();
    }

    /// Sleeps until the outcome is there.
    pub(crate) fn wait(&self) -> T {
        let mut outcome = self.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => outcome = self.changed.wait(outcome),
            }
        }
    }

    /// Sleeps until the outcome is there, or returns `None` when the deadline has passed without one.
    pub(crate) fn wait_until(&self, clock: &Clock, deadline: Deadline) -> Option<T> {
        let mut outcome = self.outcome.lock();
        loop {
            if outcome.is_some() {
                return outcome.take();
            }
            outcome = match clock.until(deadline)? {
                Pause::For(left) => self.changed.wait_for(outcome, left),
                Pause::UntilAdvanced => self.changed.wait(outcome),
            };
        }
    }
}

impl<T: Send> TimeListener for Parker<T> {
    /// Wakes the waiter to look at its clock again. Passing through the mutex closes the gap between its last
    /// look and its sleep.
    fn time_advanced(&self) {
        drop(self.outcome.lock());
        self.changed.notify_one();
    }
}
