//! A mailbox for the outcome of one request: a thread sleeps, or a task is polled again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::wake_chain::Sleeper;
use crate::caught::{dispose, wake};
use crate::sync::{Condvar, Hint, Mutex, MutexGuard, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// A waiter that receives one outcome.
pub trait Recipient: Send + Sync + 'static {
    type Outcome: Send + 'static;

    fn mailbox(&self) -> &Mailbox<Self::Outcome>;
}

/// Whether a waiter has to be woken, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Awake,
    /// Its thread sleeps.
    Sleeps,
    /// Its task has left a waker.
    Parked,
}

#[derive(Debug)]
pub struct Mailbox<O> {
    slot: Mutex<{ rank::REQUEST }, Slot<O>>,
    changed: Condvar,
    is_answered: Hint,
}

#[derive(Debug)]
struct Slot<O> {
    /// Set from the answer until the waiter takes it.
    outcome: Option<O>,
    rest: Rest,
    /// Code of users: it is cloned, called and dropped without the mutex.
    waker: Option<Waker>,
}

impl<O: Send + 'static> Mailbox<O> {
    pub fn new() -> Self {
        Self {
            slot: Mutex::new(Slot {
                outcome: None,
                rest: Rest::Awake,
                waker: None,
            }),
            changed: Condvar::default(),
            is_answered: Hint::default(),
        }
    }

    /// Answers the waiter. Called once, and without the mutex of the queue.
    pub fn answer(&self, outcome: O) {
        self.wake(self.leave(outcome));
    }

    /// Leaves the answer. Returns whether the waiter must be woken.
    pub fn leave(&self, outcome: O) -> Rest {
        let mut slot = self.slot.lock();
        debug_assert!(slot.outcome.is_none(), "answered twice");
        slot.outcome = Some(outcome);
        let rest = slot.rest;
        drop(slot);
        self.is_answered.give();
        rest
    }

    /// Takes an answer for which no waiter waits any more.
    pub(super) fn take(&self) -> Option<O> {
        self.slot.lock().outcome.take()
    }

    fn wake(&self, rest: Rest) {
        match rest {
            Rest::Awake => {}
            Rest::Sleeps => self.changed.notify_one(),
            Rest::Parked => {
                let mut slot = self.slot.lock();
                slot.rest = Rest::Awake;
                let waker = slot.waker.take();
                drop(slot);
                waker.into_iter().for_each(wake);
            }
        }
    }

    /// Wakes the waiter for the wake-up chain, which a thread that slept continues, and no task: it
    /// may never be polled again.
    pub(super) fn wake_in_chain(&self, note: impl FnOnce()) -> bool {
        let slot = self.slot.lock();
        let rest = slot.rest;
        if rest == Rest::Sleeps {
            note();
        }
        drop(slot);
        self.wake(rest);
        rest == Rest::Sleeps
    }

    /// Waits for the outcome: spins so often, then sleeps. `None` when the deadline has passed.
    pub fn wait_until(&self, spins: u32, clock: &Clock, deadline: Option<Deadline>) -> Option<O> {
        self.is_answered.spin(spins);
        let mut slot = self.slot.lock();
        loop {
            slot.rest = Rest::Awake;
            if let Some(outcome) = slot.outcome.take() {
                return Some(outcome);
            }
            slot.rest = Rest::Sleeps;
            slot = match deadline.map(|deadline| clock.until(deadline)) {
                None | Some(Some(Pause::UntilAdvanced)) => self.changed.wait(slot),
                Some(Some(Pause::For(left))) => self.changed.wait_for(slot, left),
                Some(None) => {
                    slot.rest = Rest::Awake;
                    return None;
                }
            };
        }
    }

    /// Returns the outcome to a task, or wakes the task when there is one. Spins so often first.
    pub fn poll(&self, spins: u32, context: &mut Context<'_>) -> Poll<O> {
        self.is_answered.spin(spins);
        let mut slot = self.slot.lock();
        if let Some(outcome) = slot.outcome.take() {
            Self::rise(slot);
            return Poll::Ready(outcome);
        }
        let is_known = |waker: &Waker| waker.will_wake(context.waker());
        if slot.waker.as_ref().is_some_and(is_known) {
            return Poll::Pending;
        }
        drop(slot);
        let waker = context.waker().clone();
        let mut slot = self.slot.lock();
        if let Some(outcome) = slot.outcome.take() {
            Self::rise(slot);
            dispose(waker);
            return Poll::Ready(outcome);
        }
        slot.rest = Rest::Parked;
        let before = slot.waker.replace(waker);
        drop(slot);
        dispose(before);
        Poll::Pending
    }

    /// Forgets the waker of a task that no longer waits.
    pub fn forget_task(&self) {
        Self::rise(self.slot.lock());
    }

    fn rise(mut slot: MutexGuard<'_, { rank::REQUEST }, Slot<O>>) {
        slot.rest = Rest::Awake;
        let waker = slot.waker.take();
        drop(slot);
        dispose(waker);
    }
}

impl<O: Send + 'static> Sleeper for Mailbox<O> {
    fn wake(&self) -> bool {
        self.wake_in_chain(|| ())
    }
}

impl<O: Send + 'static> Recipient for Mailbox<O> {
    type Outcome = O;

    fn mailbox(&self) -> &Self {
        self
    }
}

/// Wakes a waiter whenever its clock is moved.
pub(super) struct ClockListener<W>(pub(super) Arc<W>);

impl<W: Recipient> TimeListener for ClockListener<W> {
    /// Lets the waiter read its clock, also between its last look and its sleep.
    fn time_advanced(&self) {
        let mailbox = self.0.mailbox();
        // It may have looked and not slept yet: then it has the mutex.
        drop(mailbox.slot.lock());
        mailbox.changed.notify_one();
    }
}
