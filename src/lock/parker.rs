//! How a waiting thread sleeps until its request is answered.

use std::sync::atomic::{AtomicBool, Ordering};

use super::wake_chain::Sleeper;
use crate::sync::{Condvar, Hint, Mutex, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// A waiter that receives one outcome.
pub(crate) trait Waiter: TimeListener + Sized + 'static {
    type Outcome;

    /// Waits for the outcome: spins for `looks` looks, then sleeps. `None` when the deadline has
    /// passed first, or when the waiter must check a limit itself.
    fn wait_until(
        &self,
        looks: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Self::Outcome>;
}

/// The parts with which one thread waits, wherever they are stored. `S` is the data behind the
/// mutex, including the outcome.
pub(super) struct Parker<'a, S> {
    pub(super) slot: &'a Mutex<{ rank::REQUEST }, S>,
    pub(super) changed: &'a Condvar,
    /// Read and written under the mutex alone.
    pub(super) asleep: &'a AtomicBool,
    pub(super) told: &'a Hint,
}

impl<S> Parker<'_, S> {
    /// Leaves an outcome. Returns whether the waiter sleeps and must be woken.
    pub(super) fn leave(&self, put: impl FnOnce(&mut S)) -> bool {
        let mut slot = self.slot.lock();
        put(&mut slot);
        let asleep = self.asleep.load(Ordering::Relaxed);
        drop(slot);
        self.told.give();
        asleep
    }

    /// Waits as [`Waiter::wait_until`] does; `take` returns the outcome once there is one.
    pub(super) fn wait_until<O>(
        &self,
        looks: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
        take: impl Fn(&mut S) -> Option<O>,
    ) -> Option<O> {
        self.told.spin(looks);
        let mut slot = self.slot.lock();
        loop {
            self.asleep.store(false, Ordering::Relaxed);
            if let Some(outcome) = take(&mut slot) {
                return Some(outcome);
            }
            self.asleep.store(true, Ordering::Relaxed);
            slot = match deadline.map(|deadline| clock.until(deadline)) {
                None | Some(Some(Pause::UntilAdvanced)) => self.changed.wait(slot),
                Some(Some(Pause::For(left))) => self.changed.wait_for(slot, left),
                Some(None) => {
                    self.asleep.store(false, Ordering::Relaxed);
                    return None;
                }
            };
        }
    }

    /// Wakes the waiter to read its clock again. Passing through the mutex closes the gap between
    /// its last look and its sleep.
    pub(super) fn look_again(&self) {
        drop(self.slot.lock());
        self.changed.notify_one();
    }
}

/// A mailbox for one outcome.
#[derive(Debug)]
pub(crate) struct Mailbox<O> {
    slot: Mutex<{ rank::REQUEST }, Option<O>>,
    changed: Condvar,
    asleep: AtomicBool,
    told: Hint,
}

impl<O> Mailbox<O> {
    pub(crate) fn new() -> Self {
        Self {
            slot: Mutex::new(None),
            changed: Condvar::default(),
            asleep: AtomicBool::new(false),
            told: Hint::default(),
        }
    }

    /// Answers the waiter. Called once, and without the mutex of the queue.
    pub(crate) fn tell(&self, outcome: O) {
        if self.leave(outcome) {
            self.changed.notify_one();
        }
    }

    /// Leaves the answer. Returns whether the waiter sleeps and must be woken.
    pub(crate) fn leave(&self, outcome: O) -> bool {
        self.parker().leave(|slot| {
            debug_assert!(slot.is_none(), "told twice");
            *slot = Some(outcome);
        })
    }

    fn parker(&self) -> Parker<'_, Option<O>> {
        Parker {
            slot: &self.slot,
            changed: &self.changed,
            asleep: &self.asleep,
            told: &self.told,
        }
    }
}

impl<O> Sleeper for Mailbox<O> {
    fn wake(&self) -> bool {
        let slot = self.slot.lock();
        let sleeps = self.asleep.load(Ordering::Relaxed);
        drop(slot);
        if sleeps {
            self.changed.notify_one();
        }
        sleeps
    }
}

impl<O: Send + 'static> Waiter for Mailbox<O> {
    type Outcome = O;

    fn wait_until(&self, looks: u32, clock: &Clock, deadline: Option<Deadline>) -> Option<O> {
        self.parker()
            .wait_until(looks, clock, deadline, Option::take)
    }
}

impl<O: Send> TimeListener for Mailbox<O> {
    fn time_advanced(&self) {
        self.parker().look_again();
    }
}
