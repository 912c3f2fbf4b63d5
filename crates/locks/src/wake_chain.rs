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

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::Grant;
    use crate::parker::Rest;
    use crate::request::{LockOutcome, Requester, TaskRequest, Waiting};
    use crate::time::Deadline;

    /// A waiter with an outcome, asleep or not.
    pub struct TestWaiter {
        sleeps: bool,
        brief: bool,
        woken: AtomicBool,
    }

    impl TestWaiter {
        pub fn new(sleeps: bool, brief: bool) -> Arc<Self> {
            let woken = AtomicBool::new(false);
            Arc::new(Self {
                sleeps,
                brief,
                woken,
            })
        }

        pub fn was_woken(&self) -> bool {
            self.woken.load(Ordering::Relaxed)
        }
    }

    impl Waiting for TestWaiter {
        fn requester(&self) -> Requester<'_> {
            unreachable!("no test calls it")
        }

        fn is_for_any_thread(&self) -> bool {
            true
        }

        fn is_brief(&self) -> bool {
            self.brief
        }

        fn deadline(&self) -> Deadline {
            Deadline::NEVER
        }

        fn has_work(&self) -> bool {
            true
        }

        fn task(&self) -> Option<&TaskRequest> {
            None
        }

        fn is_left_by_task(&self) -> bool {
            false
        }

        fn deliver(&self, _: LockOutcome) {}

        fn serve(&self, _: Grant) -> Rest {
            match self.sleeps {
                true => Rest::Sleeps,
                false => Rest::Awake,
            }
        }
    }

    impl Sleeper for TestWaiter {
        fn wake(&self) -> bool {
            assert!(!self.woken.swap(true, Ordering::Relaxed), "woken twice");
            self.sleeps
        }
    }

    /// Creates waiters, asleep or not.
    fn waiters<const N: usize>(sleeping: [bool; N]) -> [Arc<TestWaiter>; N] {
        sleeping.map(|sleeps| TestWaiter::new(sleeps, true))
    }

    /// Creates a chain that has begun with these waiters.
    fn begun<const N: usize>(
        sleeping: [bool; N],
    ) -> (WakeChain<dyn Waiting>, [Arc<TestWaiter>; N]) {
        let waiters = waiters(sleeping);
        let wake_chain = WakeChain::<dyn Waiting>::default();
        wake_chain.begin(waiters.clone().map(|waiter| waiter as Arc<dyn Waiting>));
        (wake_chain, waiters)
    }

    fn woken<const N: usize>(waiters: &[Arc<TestWaiter>; N]) -> [bool; N] {
        waiters.each_ref().map(|waiter| waiter.was_woken())
    }

    #[test]
    fn a_wake_up_chain_starts_with_two_and_each_waiter_wakes_the_next() {
        let (wake_chain, waiters) = begun([true; 4]);
        assert_eq!(woken(&waiters), [true, true, false, false]);
        wake_chain.go_on();
        assert_eq!(woken(&waiters), [true, true, true, false]);
        wake_chain.go_on();
        wake_chain.go_on();
        assert_eq!(woken(&waiters), [true; 4]);
    }

    #[test]
    fn a_waiter_that_woke_by_itself_does_not_break_the_wake_up_chain() {
        let (wake_chain, waiters) = begun([false, true, false, true, false, true]);
        assert_eq!(woken(&waiters), [true, true, true, true, false, false]);
        wake_chain.go_on();
        assert_eq!(woken(&waiters), [true; 6]);
    }

    #[test]
    fn a_new_wake_up_chain_queues_after_a_running_one() {
        let (wake_chain, first) = begun([true; 4]);
        let second = waiters([true]);
        wake_chain.begin(second.clone().map(|waiter| waiter as Arc<dyn Waiting>));
        assert_eq!((woken(&first), woken(&second)), ([true; 4], [false]));
        wake_chain.go_on();
        assert_eq!(woken(&second), [true]);
    }
}
