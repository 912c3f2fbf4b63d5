//! The wake-up chain: each woken waiter wakes the next.
//!
//! A wake-up costs the waking thread microseconds, as much as a short operation batch. A combiner
//! therefore wakes only the first two waiters. Each woken waiter wakes the next before it returns,
//! and so on to the last.
//!
//! L21. While the chain is not empty, some thread has yet to call [`WakeChain::go_on`] and
//! will do so, with no code of users before that. It is the thread that added the last waiter, or a
//! thread that was woken from the chain and whose outcome is already there.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::{Mutex, rank};

/// A waiter that may sleep.
pub trait Sleeper {
    /// Wakes an answered waiter, which must continue the wake-up chain. `false` if it awoke by
    /// itself, or is a task: no task has to be polled for the others to be woken.
    #[must_use]
    fn wake(&self) -> bool;
}

/// Answered waiters that have yet to be woken, in the order of the answers.
pub struct WakeChain<S: ?Sized>(Mutex<{ rank::WAKE_CHAIN }, Sleepers<S>>);

/// `None` until the first.
type Sleepers<S> = Option<Box<VecDeque<Arc<S>>>>;

impl<S: ?Sized> Default for WakeChain<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Sleeper + ?Sized> WakeChain<S> {
    /// This many are woken at first, in case one of them is scheduled on a busy processor. One in a
    /// model, so that two sleeping waiters make a chain.
    const RUNNERS: usize = if cfg!(loom) { 1 } else { 2 };

    /// Wakes these waiters, one by the other. Returns whether any slept.
    pub fn begin(&self, sleepers: impl IntoIterator<Item = Arc<S>>) -> bool {
        self.0.lock().get_or_insert_default().extend(sleepers);
        let runners = (0..Self::RUNNERS).take_while(|_| self.go_on());
        runners.count() > 0
    }

    /// Wakes the next waiter, and returns whether there was one. Called by each thread that was
    /// woken from the chain.
    pub fn go_on(&self) -> bool {
        // A waiter that awoke by itself may have passed already, and wakes no other. Nor does a
        // task.
        std::iter::from_fn(|| self.next()).any(|sleeper| sleeper.wake())
    }

    fn next(&self) -> Option<Arc<S>> {
        self.0.lock().as_mut()?.pop_front()
    }
}
