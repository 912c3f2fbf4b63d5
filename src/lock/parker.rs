//! How a waiting thread sleeps until it is told, for whoever waits in a line.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::{Condvar, Hint, Mutex, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// Somebody who waits to be told an outcome, once.
pub(super) trait Waiter: TimeListener + Sized + 'static {
    type Outcome;

    /// Waits until it is told: spinning for so many looks, then asleep. `None` when the deadline
    /// has passed without, or when it is to look itself.
    fn wait_until(
        &self,
        looks: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Self::Outcome>;
}

/// What one thread waits with, wherever these parts lie. `S` is what the mutex guards, the outcome
/// among it.
pub(super) struct Parker<'a, S> {
    pub(super) slot: &'a Mutex<{ rank::REQUEST }, S>,
    pub(super) changed: &'a Condvar,
    /// Read and written under the mutex alone.
    pub(super) asleep: &'a AtomicBool,
    pub(super) told: &'a Hint,
}

impl<S> Parker<'_, S> {
    /// Leaves word. Returns whether the waiter sleeps and has yet to be woken.
    pub(super) fn leave(&self, put: impl FnOnce(&mut S)) -> bool {
        let mut slot = self.slot.lock();
        put(&mut slot);
        let asleep = self.asleep.load(Ordering::Relaxed);
        drop(slot);
        self.told.give();
        asleep
    }

    /// As [`Waiter::wait_until`]; `take` finds the outcome once there is one.
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

    /// Wakes the waiter to look at its clock again. Passing through the mutex closes the gap
    /// between its last look and its sleep.
    pub(super) fn look_again(&self) {
        drop(self.slot.lock());
        self.changed.notify_one();
    }
}

/// Where a waiter is told an outcome and nothing else.
#[derive(Debug)]
pub(super) struct Mailbox<O> {
    slot: Mutex<{ rank::REQUEST }, Option<O>>,
    changed: Condvar,
    asleep: AtomicBool,
    told: Hint,
}

impl<O> Mailbox<O> {
    pub(super) fn new() -> Self {
        Self {
            slot: Mutex::new(None),
            changed: Condvar::default(),
            asleep: AtomicBool::new(false),
            told: Hint::default(),
        }
    }

    /// Tells the waiter. To be called once, and without the mutex of the line.
    pub(super) fn tell(&self, outcome: O) {
        let sleeps = self.parker().leave(|slot| {
            debug_assert!(slot.is_none(), "told twice");
            *slot = Some(outcome);
        });
        if sleeps {
            self.changed.notify_one();
        }
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
