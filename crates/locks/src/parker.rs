//! How a waiter rests until its request is answered: a thread sleeps, a task is polled again.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use super::wake_chain::Sleeper;
use crate::caught::{dispose, wake};
use crate::sync::{Condvar, Hint, Mutex, MutexGuard, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// A waiter that receives one outcome: a thread waits for it, or a task polls it.
pub trait Waiter: Send + Sync + Sized + 'static {
    /// The data behind the mutex of the waiter.
    type Left;
    type Outcome;

    fn parker(&self) -> Parker<'_, Self::Left>;

    /// Takes the outcome, once there is one.
    fn take(left: &mut Self::Left) -> Option<Self::Outcome>;

    /// Waits for the outcome: spins so often, then sleeps. `None` when the deadline has passed
    /// first.
    fn wait_until(
        &self,
        spins: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Self::Outcome> {
        let parker = self.parker();
        parker.wait_until(spins, clock, deadline, Self::take)
    }

    /// Returns the outcome to a task, or wakes the task when there is one. Spins so often first.
    fn poll_outcome(&self, spins: u32, context: &mut Context<'_>) -> Poll<Self::Outcome> {
        self.parker().poll(spins, context, Self::take)
    }

    /// Forgets the waker of a task that no longer waits.
    fn forget_task(&self) {
        let parker = self.parker();
        parker.rise(parker.slot.lock(), ());
    }
}

impl<W: Waiter> TimeListener for W {
    /// Wakes the waiter to read its clock again. Passing through the mutex closes the gap between
    /// its last look and its sleep.
    fn time_advanced(&self) {
        let parker = self.parker();
        drop(parker.slot.lock());
        parker.changed.notify_one();
    }
}

/// Whether a waiter has to be woken, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rest {
    Awake,
    /// Its thread sleeps.
    Sleeps,
    /// Its task has left a waker.
    Parked,
}

/// The data behind the mutex of a waiter.
#[derive(Debug)]
pub struct Slot<S> {
    /// What is left for the waiter, including the outcome.
    pub(super) left: S,
    /// The waker of the task, while it is parked. A waker is code of users: it is cloned, called
    /// and dropped without the mutex.
    waker: Option<Waker>,
}

impl<S> Slot<S> {
    pub(super) fn new(left: S) -> Self {
        Self { left, waker: None }
    }
}

/// How a waiter rests at present. Read and written under the mutex of its slot alone.
#[derive(Debug, Default)]
pub struct Resting(AtomicU8);

impl Resting {
    fn get(&self) -> Rest {
        match self.0.load(Ordering::Relaxed) {
            0 => Rest::Awake,
            1 => Rest::Sleeps,
            _ => Rest::Parked,
        }
    }

    fn set(&self, rest: Rest) {
        self.0.store(rest as u8, Ordering::Relaxed);
    }
}

/// The parts with which one thread or task waits, wherever they are stored.
pub struct Parker<'a, S> {
    pub(super) slot: &'a Mutex<{ rank::REQUEST }, Slot<S>>,
    pub(super) changed: &'a Condvar,
    pub(super) resting: &'a Resting,
    pub(super) is_answered: &'a Hint,
}

impl<S> Parker<'_, S> {
    /// Leaves an outcome. Returns whether the waiter must be woken.
    pub(super) fn leave(&self, put: impl FnOnce(&mut S)) -> Rest {
        let mut slot = self.slot.lock();
        put(&mut slot.left);
        let rest = self.resting.get();
        drop(slot);
        self.is_answered.give();
        rest
    }

    /// Wakes a waiter that rests.
    pub(super) fn wake(&self, rest: Rest) {
        match rest {
            Rest::Awake => {}
            Rest::Sleeps => self.changed.notify_one(),
            Rest::Parked => self.wake_task(),
        }
    }

    #[cold]
    fn wake_task(&self) {
        let mut slot = self.slot.lock();
        let waker = slot.waker.take();
        self.resting.set(Rest::Awake);
        drop(slot);
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Wakes a waiter for the wake-up chain. Returns whether the waiter continues the chain: a
    /// thread that slept does. A task does not, because it may never be polled again.
    pub(super) fn wake_in_chain(&self, note: impl FnOnce()) -> bool {
        let slot = self.slot.lock();
        let rest = self.resting.get();
        if rest == Rest::Sleeps {
            note();
        }
        drop(slot);
        self.wake(rest);
        rest == Rest::Sleeps
    }

    fn wait_until<O>(
        &self,
        spins: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
        take: impl Fn(&mut S) -> Option<O>,
    ) -> Option<O> {
        self.is_answered.spin(spins);
        let mut slot = self.slot.lock();
        loop {
            self.resting.set(Rest::Awake);
            if let Some(outcome) = take(&mut slot.left) {
                return Some(outcome);
            }
            self.resting.set(Rest::Sleeps);
            slot = match deadline.map(|deadline| clock.until(deadline)) {
                None | Some(Some(Pause::UntilAdvanced)) => self.changed.wait(slot),
                Some(Some(Pause::For(left))) => self.changed.wait_for(slot, left),
                Some(None) => {
                    self.resting.set(Rest::Awake);
                    return None;
                }
            };
        }
    }

    fn poll<O>(
        &self,
        spins: u32,
        context: &mut Context<'_>,
        take: impl Fn(&mut S) -> Option<O>,
    ) -> Poll<O> {
        self.is_answered.spin(spins);
        let mut slot = self.slot.lock();
        if let Some(outcome) = take(&mut slot.left) {
            return Poll::Ready(self.rise(slot, outcome));
        }
        let is_known = |waker: &Waker| waker.will_wake(context.waker());
        if slot.waker.as_ref().is_some_and(is_known) {
            return Poll::Pending;
        }
        drop(slot);
        let waker = context.waker().clone();
        let mut slot = self.slot.lock();
        if let Some(outcome) = take(&mut slot.left) {
            let outcome = self.rise(slot, outcome);
            dispose(waker);
            return Poll::Ready(outcome);
        }
        self.resting.set(Rest::Parked);
        let before = slot.waker.replace(waker);
        drop(slot);
        dispose(before);
        Poll::Pending
    }

    /// Forgets the waker of a task that has its outcome.
    fn rise<O>(&self, mut slot: MutexGuard<'_, { rank::REQUEST }, Slot<S>>, outcome: O) -> O {
        self.resting.set(Rest::Awake);
        let waker = slot.waker.take();
        drop(slot);
        dispose(waker);
        outcome
    }
}

/// A mailbox for one outcome.
#[derive(Debug)]
pub struct Mailbox<O> {
    slot: Mutex<{ rank::REQUEST }, Slot<Option<O>>>,
    changed: Condvar,
    resting: Resting,
    is_answered: Hint,
}

impl<O: Send + 'static> Mailbox<O> {
    pub fn new() -> Self {
        Self {
            slot: Mutex::new(Slot::new(None)),
            changed: Condvar::default(),
            resting: Resting::default(),
            is_answered: Hint::default(),
        }
    }

    /// Answers the waiter. Called once, and without the mutex of the queue.
    pub fn answer(&self, outcome: O) {
        let rest = self.leave(outcome);
        self.parker().wake(rest);
    }

    /// Leaves the answer. Returns whether the waiter must be woken.
    pub fn leave(&self, outcome: O) -> Rest {
        self.parker().leave(|slot| {
            debug_assert!(slot.is_none(), "answered twice");
            *slot = Some(outcome);
        })
    }
}

impl<O: Send + 'static> Sleeper for Mailbox<O> {
    fn wake(&self) -> bool {
        self.parker().wake_in_chain(|| ())
    }
}

impl<O: Send + 'static> Waiter for Mailbox<O> {
    type Left = Option<O>;
    type Outcome = O;

    fn parker(&self) -> Parker<'_, Option<O>> {
        Parker {
            slot: &self.slot,
            changed: &self.changed,
            resting: &self.resting,
            is_answered: &self.is_answered,
        }
    }

    fn take(left: &mut Option<O>) -> Option<O> {
        left.take()
    }
}
